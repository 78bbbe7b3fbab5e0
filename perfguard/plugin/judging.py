"""Judging in a run of pytest: recordings against their baselines, slower steps confirmed, new baselines written."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path

import pytest

from perfguard import thresholds
from perfguard.capture.checkout import measured_commit
from perfguard.errors import CaptureError, StoreError, UsageError, of_system
from perfguard.gate import Run, Update, examine, judge_with_store, refresh, seems_suspect
from perfguard.judge.baseline import Baseline
from perfguard.judge.refresh import Refresh
from perfguard.judge.renames import lacks_baseline, with_changed_places, with_rename
from perfguard.judge.verdict import Verdict
from perfguard.measure import METRICS
from perfguard.plugin.confirmation import Budget, Confirmation
from perfguard.plugin.gate_tests import GateTests, marker_arguments
from perfguard.plugin.options import POLICY, is_in_ci, recordings_directory, require_usable, settings_in, update_of
from perfguard.plugin.progress import ProgressLine, RoundProgress
from perfguard.plugin.projects import Collected, Project, Projects
from perfguard.plugin.rounds import Rounds
from perfguard.recording import Recording
from perfguard.reports.terminal import failure_message
from perfguard.screen import LOG
from perfguard.settings import Settings, with_marker
from perfguard.stores.calibration import read_calibration
from perfguard.stores.directory import file_name, names_baseline
from perfguard.timing import LostRun, Timing
from perfguard.workload import renumbered


@contextmanager
def _worded() -> Iterator[None]:
    """Turn an error of the system, such as a full disk, into one with a sentence: no code of the test runs here."""
    try:
        yield
    except OSError as error:
        raise CaptureError(of_system(error)) from error


class Judging:
    """The settings, baselines and verdicts of one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.update = update_of(config)
        #: The settings of every test, and the store of its baselines.
        policy = config.stash.get(POLICY, None)
        self.projects = Projects(
            config.rootpath,
            partial(settings_in, config),
            is_shared=config.option.perfguard_baselines is not None,
            **({} if policy is None else {"levels": policy.levels}),
        )
        #: Projects that can be measured in this run.
        self.usable: list[Project] = []
        self.collected = Collected(config, self.projects)
        self.progress = ProgressLine(config)
        self.rounds = RoundProgress()
        self.verdicts: dict[str, Verdict] = {}
        #: What perfguard gave to each test, and sentences about what went wrong outside of a test.
        self.tests = GateTests()
        self.problems: list[str] = []
        #: Workloads that another process can time: their test, its settings, and its duration in seconds.
        self.timeable: dict[str, tuple[pytest.Item, Settings, float]] = {}
        #: Tests that use perfguard and are going to run, in their order.
        self.selected: list[pytest.Item] = []
        self.passed: set[str] = set()
        #: Seconds until the first test started, and those spent in fixtures since: a process that times a test needs as long.
        self.ready_s = 0.0
        self._owners: dict[str, pytest.Item] = {}
        #: The measured commit, by directory of baselines: changes of baselines are not changes of the code.
        self._commit = cache(partial(measured_commit, config.rootpath))
        self._recordings = recordings_directory(config)
        #: The baselines as they were before the first test, by file, and their directories.
        self._as_begun: dict[str, tuple[int, ...] | None] = {}
        self._remembered: set[str] = set()
        #: Recordings in pytest's temporary directory, of which pytest keeps those of the last runs.
        self._temporary: set[Path] = set()
        self._is_in_ci = is_in_ci()
        self._budget = Budget()

    # -- before a test -------------------------------------------------------------------------------------------------

    def require_usable(self, path: Path) -> None:
        """Raise `UsageError` if the tests in a file or directory cannot be measured in this run."""
        project = self.projects.of(path)
        if project not in self.usable:
            require_usable(self._config, project.settings, self.update)
            self.usable.append(project)
            self._remember_baselines(project)

    def _remember_baselines(self, project: Project) -> None:
        """Remember the baselines that a run judges by, before its tests: one of them could write its own."""
        directory = os.path.realpath(project.settings.baselines_directory)
        self._remembered.add(directory)
        # A directory that cannot be read has no baseline; the tests report that.
        with suppress(OSError):
            for name in filter(names_baseline, os.listdir(directory)):
                path = os.path.realpath(os.path.join(directory, name))
                self._as_begun[path] = _version(path)

    def _require_as_begun(self, workload: str) -> None:
        """Raise `UsageError` if a baseline was written during a run that only judges."""
        path = os.path.realpath(self.projects.of_workload(workload).store.path(workload))
        is_known = path in self._as_begun or os.path.dirname(path) in self._remembered
        if self.update is Update.NOTHING and is_known and _version(path) != self._as_begun.get(path):
            raise UsageError(
                f"the baseline of {workload} was written while this run judged, so nothing is compared with it; see what a "
                "test, a conftest.py or another run wrote: git diff"
            )

    def settings_of(self, item: pytest.Item) -> Settings:
        """Return the settings of one test: those of its project and its marker. Raises `UsageError`."""
        self.require_usable(item.path)
        return with_marker(self.projects.of(item.path).settings, marker_arguments(item))

    def claim(self, workload: str, item: pytest.Item) -> None:
        """Make a test the only owner of a workload's name; a rerun of the test is the same owner. Raises `UsageError`."""
        owner = self._owners.setdefault(workload, item)
        if owner is not item:
            raise UsageError(
                f"two tests have the id {workload}, so they would share one baseline; "
                "rename one, or collect the file once (without --keep-duplicates)."
            )

    @_worded()
    def recording_directory(self, workload: str, temporary: pytest.TempPathFactory) -> Path:
        """Return an empty directory for a recording of `workload`."""
        name = file_name(workload)[:80]
        if self._recordings is None:
            directory = temporary.mktemp(f"perfguard-{name}", numbered=True)
            self._temporary.add(directory)
            return directory
        try:
            self._recordings.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._recordings))
        except OSError as error:
            raise UsageError(
                f"{self._recordings} cannot hold recordings: {error.strerror}. Name another with --perfguard-recordings DIR."
            ) from error

    # -- verdicts ------------------------------------------------------------------------------------------------------

    @_worded()
    def judge(
        self, recording: Recording, workload: str, settings: Settings, *, timed: tuple[pytest.Item, float] | None = None
    ) -> Verdict:
        """Judge a recording against its baseline, or prepare the update of the baseline.

        `timed` is the test whose steps other processes can run again, and its duration in seconds.
        """
        self._require_as_begun(workload)
        if timed is not None:
            self.timeable[workload] = (timed[0], settings, timed[1])
        verdict = judge_with_store(
            replace(recording, period=settings.period),
            self.projects.of_workload(workload).store,
            workload=workload,
            policy=settings.policy,
            update=self.update,
            run=None if timed is None else self._run(workload, settings, *timed),
            runs=settings.runs,
            confirm=None if timed is None else self._confirmation(workload, settings, took_s=timed[1]),
        )
        verdict = with_changed_places(verdict, self._renumbered(verdict), policy=settings.policy)
        if not lacks_baseline(verdict):
            return verdict
        unused, stored = self._baselines_without_test
        return with_rename(verdict, unused, stored=stored, policy=settings.policy)

    @_worded()
    def examine(self, recording: Recording, workload: str, settings: Settings) -> Verdict:
        """Judge an incomplete recording, without a baseline."""
        verdict = examine(recording, workload=workload, policy=settings.policy)
        return verdict if self.update is Update.NOTHING else replace(verdict, refresh=Refresh.REFUSED)

    def refresh(self, verdict: Verdict, settings: Settings, *, passed: bool) -> Verdict:
        """Write the baseline if the verdict calls for it; refuse it if the test failed."""
        if verdict.refresh is not Refresh.DUE:
            return verdict
        if not passed:
            verdict = replace(verdict, refresh=Refresh.REFUSED, changes=("the test failed after it had measured",))
        else:
            store = self.projects.of_workload(verdict.workload).store
            verdict = refresh(
                verdict,
                store,
                policy=settings.policy,
                update=self.update,
                commit=self._commit(store.path(verdict.workload).parent),
                reason=self._config.option.perfguard_reason,
            )
        self.verdicts[verdict.workload] = verdict
        return verdict

    def failure_message(self, verdict: Verdict, nodeid: str) -> str:
        """Return the message of a test with a red verdict; with -v the complete one."""
        command = f"pytest --perfguard --perfguard-update {shlex.quote(nodeid)}"
        message = failure_message(
            verdict,
            refresh_command=command,
            verbose=self._config.get_verbosity() > 0,
            is_temporary=verdict.recording in self._temporary,
            again=f"pytest --perfguard --perfguard-recordings=recordings {shlex.quote(nodeid)}"
            if self._is_in_ci
            else "",
        )
        return LOG.carried(message)

    def as_kept(self, verdict: Verdict) -> Verdict:
        """Return a verdict for reports, which outlive a job of CI: its temporary directories do not."""
        is_gone = self._is_in_ci and verdict.recording in self._temporary
        return replace(verdict, recording=None) if is_gone else verdict

    def error_rates(self) -> str:
        """Return the calibrated error rates of this machine, of all projects with verdicts; empty without a calibration."""
        by_root: dict[Path, tuple[Settings, list[Verdict]]] = {}
        for verdict in self.verdicts.values():
            settings = self.projects.of_workload(verdict.workload).settings
            by_root.setdefault(settings.root, (settings, []))[1].append(verdict)
        return " ".join(dict.fromkeys(filter(None, (_error_rate(*one) for one in by_root.values()))))

    def _renumbered(self, verdict: Verdict) -> Iterator[Baseline]:
        """Yield the baselines of the same test with other numbers of unnamed parameters, if the verdict may be of one."""
        item = self._owners.get(verdict.workload)
        arguments = item.callspec.params if item is not None and hasattr(item, "callspec") else ()
        if verdict.refresh is Refresh.DUE and self.update is not Update.RATCHET:
            return
        with suppress(StoreError):
            # A damaged baseline of another test is reported by that test.
            for workload in renumbered(verdict.workload, arguments, self.collected.workloads() if arguments else ()):
                if (found := self.projects.load(workload)) is not None:
                    yield found

    @cached_property
    def _baselines_without_test(self) -> tuple[list[Baseline], list[str]]:
        """Baselines without a test, as known at the first test without a baseline, and all stored workloads."""
        try:
            unused = self.collected.unused(self.verdicts, self.passed)
            return self.collected.baselines(unused), self.collected.workloads()
        except StoreError:
            # A damaged baseline of another test is reported at the end of the run.
            return [], []

    # -- timing in other processes -------------------------------------------------------------------------------------

    def _run(self, workload: str, settings: Settings, item: pytest.Item, took_s: float) -> Run | None:
        if not settings.time or not settings.runs:
            return None

        def run(number: int) -> Timing | LostRun:
            # pytest-timeout limits the test itself; the processes that time it and other tests have their own limits.
            if (cancel := getattr(item.ihook, "pytest_timeout_cancel_timer", None)) is not None:
                cancel(item=item)
            return self._timing_rounds.time(item, workload, settings, number=number, limit_s=self._limit_s(took_s))

        return run

    def _limit_s(self, took_s: float) -> float:
        return thresholds.LEAST_TIMEOUT_S + self.ready_s + thresholds.TIMEOUT_FACTOR * took_s

    def _confirmation(self, workload: str, settings: Settings, *, took_s: float = 0.0) -> Confirmation | None:
        if not settings.confirm:
            return None
        return Confirmation(
            config=self._config,
            workload=workload,
            baseline_file=self.projects.of_workload(workload).store.path(workload),
            limit_s=self._limit_s(took_s),
            budget=self._budget,
            show=self.progress.show,
        )

    @cached_property
    def _timing_rounds(self) -> Rounds:
        return Rounds(self._config, self._timeable_tests(), needs_round=self._needs_round, show=self._show_round)

    def _timeable_tests(self) -> Iterator[tuple[pytest.Item, Settings]]:
        """Yield the selected tests that use perfguard; a test with a wrong marker reports that itself when it runs."""
        for item in self.selected:
            with suppress(UsageError):
                yield item, self.settings_of(item)

    def _needs_round(self, workload: str, settings: Settings, timings: tuple[Timing, ...]) -> bool:
        if self.update in (Update.ALL, Update.RATCHET):
            return True
        try:
            baseline = self.projects.load(workload)
        except StoreError:
            # The workload's own test fails with this error.
            return False
        if baseline is None:
            return self.update is Update.NEW_ONLY
        confirm = self._confirmation(workload, settings)
        return seems_suspect(timings, baseline, policy=settings.policy, confirm=confirm)

    def _show_round(self, number: int, nodeid: str, place: int, of: int) -> None:
        # A test that gets its guard from an autouse fixture is not in `selected`.
        item = next((item for item in self.selected if item.nodeid == nodeid), None)
        runs = self.projects.main.settings.runs if item is None else self.settings_of(item).runs
        name = nodeid.rpartition("::")[2] if item is None else item.name
        self.progress.show(self.rounds.line(name, place, of, number, *self._most_rounds(runs)))

    def _most_rounds(self, runs: int) -> tuple[int, bool]:
        """Return how many rounds time a workload at most, and whether the number is fixed."""
        if self.update in (Update.ALL, Update.NEW_ONLY):
            return runs, self.update is Update.ALL
        most = thresholds.MOST_RUNS
        return (max(runs, most), True) if self.update is Update.RATCHET else (most, False)


def _version(path: str) -> tuple[int, ...] | None:
    """Return what changes whenever a file is written, whatever its writer sets; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def _error_rate(settings: Settings, verdicts: list[Verdict]) -> str:
    """Return the sentence of one project's calibration, if it was made on this machine and with this tolerance."""
    try:
        calibration = read_calibration(settings.baselines_directory)
    except StoreError as error:
        return str(error)
    if calibration is None or calibration.error_rate is None:
        return ""
    machines = {v.environment.machine for v in verdicts if v.environment is not None}
    now = settings.policy.tolerance(METRICS["step_cost"], "")
    tolerances = {
        one.tolerance for metrics in calibration.workloads.values() for one in metrics if one.metric == "step_cost"
    }
    is_valid = machines == {calibration.machine} and tolerances == {now.relative if now is not None else None}
    return calibration.error_rate.sentence if is_valid else ""
