"""The gate's side of a pytest run: it exists only under --perfguard."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfguard import thresholds
from perfguard.capture.checkout import measured_commit, provenance
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.findings import Code
from perfguard.gate import Run, Update, examine, judge_with_store, refresh, seems_suspect
from perfguard.judge import Baseline, Refresh, Verdict, lacks_baseline, renames, with_rename
from perfguard.measure import METRICS
from perfguard.plugin.gate_tests import GateTests, named
from perfguard.plugin.items import (
    GUARD,
    LOOP_LEFT,
    is_gate_test,
    marker_arguments,
    nodeid_of,
    remember_nodeid,
    without_fixture,
)
from perfguard.plugin.progress import AtWork, ProgressLine
from perfguard.plugin.projects import Project, Projects
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.reports.files import ReportFile, report_file, split
from perfguard.reports.markdown import report_markdown
from perfguard.screen import Screen, put_right, width_of
from perfguard.settings import Settings, has_test_file, read_settings, run_count, with_marker
from perfguard.stores.directory import file_name, names_baseline
from perfguard.version import __version__
from perfguard.workload import moves, workload_of

if TYPE_CHECKING:
    from perfguard.plugin.confirmation import Budget, Confirmation
    from perfguard.plugin.rounds import Rounds
    from perfguard.recording import Recording
    from perfguard.timing import LostRun, Timing

#: Seconds after which a timed process is taken for hung: so many, and so many times what the test's own process took.
_LEAST_TIMEOUT_S = 120.0
_TIMEOUT_FACTOR = 20.0

_REPORT_KEY = "perfguard_verdicts"
_WORKER_KEY = "perfguard_collected"
#: Options of pytest that show something, and run no test.
_SHOWS = ("help", "version", "markers", "collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow")


def start(config: pytest.Config) -> None:
    """Read the settings, refuse what cannot work before anything runs, and register the session."""
    try:
        session = GateSession(config)
    except PerfguardError as error:
        raise pytest.UsageError(f"perfguard: {error}") from error
    config.pluginmanager.register(session, "perfguard-session")
    # Where a message has a character that the output's encoding lacks, pytest escapes the whole of it, line breaks as well.
    config.add_cleanup(put_right(sys.stdout))


class GateSession:
    """Settings, baselines and verdicts of one run; also the hooks that collect them."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        self.config = config
        self._began = time.monotonic()
        #: How long it took to come to the first test, and then to make fixtures: as long may a process take that times one.
        self.ready_s = 0.0
        self.update = _update(config)
        is_shared = option.perfguard_baselines is not None
        #: The settings of every test, and all baselines, by workload.
        self.projects = Projects(config.rootpath, partial(_settings, config), is_shared=is_shared)
        #: Projects that can be measured in this run.
        self._usable: list[Project] = []
        for place in _named_places(config):
            self._require_usable(self.projects.of(place))
        self._named_projects = len(self._usable)
        self.progress = ProgressLine(config)
        self.files = [self._report_file(*one) for one in option.perfguard_out]
        self._at_work = AtWork()
        #: The commit that is measured, by the directory of the baselines, which are no code.
        self._commits: dict[Path, str | None] = {}
        self.verdicts: dict[str, Verdict] = {}
        #: Whether settings were wrong, so that no test ran: pytest says why.
        self._is_refused = False
        #: Workloads whose steps can be run again in another process: their test, its settings, and the seconds it took.
        self.timeable: dict[str, tuple[pytest.Item, Settings, float]] = {}
        self.problems: list[str] = []
        self._written: list[Path] = []
        self.unused: tuple[str, ...] = ()
        #: Places to rename, where unused baselines look like what tests without a baseline measured.
        self.moves: tuple[tuple[str, str], ...] = ()
        self._uncollected: list[str] = []
        self._claims: dict[str, pytest.Item] = {}
        self._collected: dict[str, bool] = {}
        self._collected_files: set[str] = set()
        self._measuring: set[str] = set()
        #: The tests of `_measuring` that this run is going to run, in their order.
        self._selected: list[pytest.Item] = []
        self._measured: set[str] = set()
        self._passed: set[str] = set()
        self.tests = GateTests()
        #: How pytest reported a test in the end, to name one that was reported otherwise than its verdict.
        self._reported: dict[str, str] = {}
        self.has_begun = False
        self._stopped_by = ""
        #: Why a status of 0 was replaced, and whether the terminal has said so.
        self.why = ""
        self._has_told_why = False
        self._recordings: Path | None = self._place(option.perfguard_recordings)
        if self._recordings is not None:
            _require_writable(self._recordings, "--perfguard-recordings DIR")

    def _place(self, option: str | None) -> Path | None:
        """Resolve now: a test may change the directory."""
        return Path(self.config.invocation_params.dir) / option if option else None

    def _report_file(self, flag: str, requested: str) -> ReportFile:
        """Return a file to write, or raise `UsageError` before anything runs."""
        form, file = split(requested, option=flag)
        option = f"{flag} FORMAT:FILE" if flag == "--perfguard-out" else f"{flag} FILE"
        path = Path(self.config.invocation_params.dir) / file
        _require_writable_file(path, option)
        return report_file(form, path, option=option)

    # -- what a guard asks of the session --------------------------------------------------------------------------

    def claim(self, workload: str, item: pytest.Item) -> None:
        """Let one test own a workload's name; a rerun of the same test may have it again."""
        owner = self._claims.setdefault(workload, item)
        if owner is not item:
            raise UsageError(
                f"two tests have the id {workload}, so they would share one baseline; "
                "rename one, or collect the file once (without --keep-duplicates)."
            )

    def settings_of(self, item: pytest.Item) -> Settings:
        """Return the settings of one test: those of its project, and its marker's. Raises `UsageError`."""
        project = self.projects.of(item.path)
        self._require_usable(project)
        return with_marker(project.settings, marker_arguments(item))

    def _require_usable(self, project: Project) -> None:
        if project in self._usable:
            return
        _refuse_parallel_timing(self.config, project.settings)
        if self.update is not Update.NOTHING:
            _require_writable(project.settings.baselines_directory, "--perfguard-baselines DIR")
        self._usable.append(project)

    def recording_directory(self, workload: str, temporary: pytest.TempPathFactory) -> Path:
        """Return a fresh directory for a recording of `workload`."""
        name = file_name(workload)[:80]
        if self._recordings is None:
            return temporary.mktemp(f"perfguard-{name}", numbered=True)
        try:
            self._recordings.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._recordings))
        except OSError as error:
            raise UsageError(
                f"{self._recordings} cannot hold recordings: {error.strerror}. Name another with --perfguard-recordings DIR."
            ) from error

    def judge(
        self, recording: Recording, workload: str, settings: Settings, *, timed: tuple[pytest.Item, float] | None = None
    ) -> Verdict:
        """Judge a recording against its baseline, or for the refresh the run was asked for.

        `timed` is the test whose steps can be run again in processes of their own, and the seconds its own took.
        """
        if timed is not None:
            self.timeable[workload] = (timed[0], settings, timed[1])
        verdict = judge_with_store(
            recording,
            self.projects.of_workload(workload).store,
            workload=workload,
            policy=settings.policy,
            update=self.update,
            run=None if timed is None else self._run(workload, settings, *timed),
            runs=settings.runs,
            confirm=None if timed is None else self._confirmation(workload, settings, took_s=timed[1]),
        )
        if not lacks_baseline(verdict):
            return verdict
        unused, stored = self._without_test
        return with_rename(verdict, unused, stored=stored)

    @cached_property
    def _without_test(self) -> tuple[list[Baseline], list[str]]:
        """Baselines without a test, as far as is known at the first test without a baseline; and all that are stored."""
        try:
            return self._load(self._find_unused()), self._workloads()
        except StoreError:
            # This test has nothing to do with a damaged baseline of another one; the end of the run reports it.
            return [], []

    def _workloads(self) -> list[str]:
        """Return the workloads that have a baseline, in the projects of all collected files."""
        return self.projects.workloads(self.config.rootpath / node for node in self._collected_files)

    def _load(self, workloads: Iterable[str]) -> list[Baseline]:
        return [found for workload in workloads if (found := self.projects.load(workload)) is not None]

    def _run(self, workload: str, settings: Settings, item: pytest.Item, took_s: float) -> Run | None:
        if not settings.time or not settings.runs:
            return None

        def run(number: int) -> Timing | LostRun:
            # pytest-timeout limits the test: the processes that time it, and others of its file, have limits of their own.
            if (cancel := getattr(item.ihook, "pytest_timeout_cancel_timer", None)) is not None:
                cancel(item=item)
            return self._rounds.time(item, workload, settings, number=number, limit_s=self._limit_s(took_s))

        return run

    def _limit_s(self, took_s: float) -> float:
        return _LEAST_TIMEOUT_S + self.ready_s + _TIMEOUT_FACTOR * took_s

    def _confirmation(self, workload: str, settings: Settings, *, took_s: float = 0.0) -> Confirmation | None:
        from perfguard.plugin.confirmation import Confirmation

        if not settings.confirm:
            return None
        return Confirmation(
            config=self.config,
            workload=workload,
            nodeid=workload_of(workload).test,
            baseline_file=self.projects.of_workload(workload).store.path(workload),
            limit_s=self._limit_s(took_s),
            budget=self._confirmations,
            show=self.progress.say,
        )

    @cached_property
    def _confirmations(self) -> Budget:
        from perfguard.plugin.confirmation import Budget

        return Budget()

    @cached_property
    def _rounds(self) -> Rounds:
        from perfguard.plugin.rounds import Rounds

        return Rounds(self.config, self._timeable_tests(), asks_again=self._asks_again, show=self._show_round)

    def _timeable_tests(self) -> Iterator[tuple[pytest.Item, Settings]]:
        """Yield the selected tests that use perfguard; one whose marker is wrong says so itself when it runs."""
        for item in self._selected:
            with suppress(UsageError):
                yield item, self.settings_of(item)

    def _asks_again(self, workload: str, settings: Settings, timings: tuple[Timing, ...]) -> bool:
        if self.update in (Update.ALL, Update.RATCHET):
            return True
        try:
            baseline = self.projects.load(workload)
        except StoreError:
            # Its own test fails with this.
            return False
        if baseline is None:
            return self.update is Update.NEW_ONLY
        confirm = self._confirmation(workload, settings)
        return seems_suspect(timings, baseline, policy=settings.policy, confirm=confirm)

    def _show_round(self, number: int, nodeid: str, place: int, of: int) -> None:
        # A test that got its guard from an autouse fixture is not among those that were known before.
        item = next((item for item in self._selected if item.nodeid == nodeid), None)
        runs = self.projects.main.settings.runs if item is None else self.settings_of(item).runs
        name = nodeid.rpartition("::")[2] if item is None else item.name
        self.progress.say(self._at_work.worded(name, place, of, number, *self._rounds_at_most(runs)))

    def _rounds_at_most(self, runs: int) -> tuple[int, bool]:
        """Return how many rounds time a workload, and whether it is so many whatever they find."""
        if self.update in (Update.ALL, Update.NEW_ONLY):
            return runs, self.update is Update.ALL
        most = thresholds.MOST_RUNS
        return (max(runs, most), True) if self.update is Update.RATCHET else (most, False)

    def examine(self, recording: Recording, workload: str, settings: Settings) -> Verdict:
        """Judge a recording that was cut short, by itself."""
        verdict = examine(recording, workload=workload, policy=settings.policy)
        return verdict if self.update is Update.NOTHING else replace(verdict, refresh=Refresh.REFUSED)

    def refresh(self, verdict: Verdict, settings: Settings, *, passed: bool) -> Verdict:
        """Write the baseline a verdict is due for, or refuse it where its test failed."""
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
                reason=self.config.option.perfguard_reason,
            )
        self.verdicts[verdict.workload] = verdict
        return verdict

    def _commit(self, baselines: Path) -> str | None:
        if baselines not in self._commits:
            self._commits[baselines] = measured_commit(self.config.rootpath, baselines)
        return self._commits[baselines]

    def refresh_command(self, nodeid: str | None = None) -> str:
        """Return the command that writes the baseline of a test."""
        target = f" {shlex.quote(nodeid)}" if nodeid else ""
        return f"pytest --perfguard --perfguard-update{target}"

    def failure_message(self, verdict: Verdict, nodeid: str) -> str:
        """Return the message of a test with a red verdict; with -v all that is known."""
        from perfguard.reports.terminal import failure_message

        command = self.refresh_command(nodeid)
        return failure_message(verdict, refresh_command=command, verbose=self.config.get_verbosity() > 0)

    # -- hooks -----------------------------------------------------------------------------------------------------

    def pytest_report_header(self) -> list[str]:
        """Say version, mode, baselines and machine."""
        from perfguard.capture.environment import cpu_model

        mode = {
            Update.NOTHING: "judging",
            Update.ALL: "refreshing",
            Update.NEW_ONLY: "judging, creating what is missing",
            Update.RATCHET: "judging, storing what got better",
        }
        machine = f"machine: {cpu_model()}, {os.cpu_count()} cores"
        version = f"perfguard {__version__}: {mode[self.update]}"
        if len(self._usable) == 1:
            return [f"{version} {self._described(self._usable[0])}; {machine}"]
        return [f"{version}; {machine}", *(f"perfguard: {self._described(one)}" for one in self._usable)]

    def pytest_report_collectionfinish(self) -> list[str]:
        """Name the projects that pytest was not given, and that tests are of."""
        return [f"perfguard: {self._described(one)}" for one in self._usable[self._named_projects :]]

    def _described(self, project: Project) -> str:
        time = "time on" if project.settings.time else "time off: exact metrics only"
        place = project.settings.baselines_directory
        count = sum(names_baseline(path.name) for path in place.glob("*.json")) if place.is_dir() else 0
        where = place.relative_to(self.config.rootpath) if place.is_relative_to(self.config.rootpath) else place
        return f"({time}); baselines: {where} ({count})"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Remember that tests are about to run: `pytest --help` comes not so far."""
        self.has_begun = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember how long it took to come here, and what is going to be measured; refuse settings that are wrong."""
        self.ready_s = time.monotonic() - self._began
        for item in session.items:
            if (collected_as := nodeid_of(item)) != item.nodeid:
                self._collected[item.nodeid] = True
                if collected_as in self._measuring:
                    # Reports call it so from here on, and they are compared with these names.
                    self._measuring = self._measuring - {collected_as} | {item.nodeid}
        self._selected = [item for item in session.items if item.nodeid in self._measuring]
        if not hasattr(self.config, "workerinput"):
            # A worker has no way to refuse the run: there the test says it.
            try:
                for item in self._selected:
                    self._require_usable(self.projects.of(item.path))
            except UsageError as error:
                self._is_refused = True
                raise pytest.UsageError(f"perfguard: {error}") from error
        self._at_work.begin(len(self._selected))
        self.tests.select([item.nodeid for item in self._selected])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Remember how long fixtures take, and a test that ends in them."""
        began = time.monotonic()
        self.tests.begin(item)
        try:
            return (yield)
        except BaseException as error:
            self.tests.reach(item, error)
            raise
        finally:
            self.ready_s += time.monotonic() - began

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember what exists, whether or not it will be selected."""
        remember_nodeid(item)
        self._collected[item.nodeid] = True
        if is_gate_test(item):
            self._measuring.add(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files were collected whole; one that failed or was skipped says nothing about its tests."""
        if report.passed and report.nodeid:
            self._collected_files.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Let --benchmark-only and --benchmark-skip count tests that measure through pytest-benchmark as benchmarks."""
        guarded = [i for i in items if is_gate_test(i)]
        added = [i for i in guarded if "benchmark" not in i.fixturenames]  # type: ignore[attr-defined]
        for item in added:
            item.fixturenames.append("benchmark")  # type: ignore[attr-defined]
        try:
            return (yield)
        finally:
            for item in added:
                item.fixturenames.remove("benchmark")  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """End what a failing test left open; fail a test that asked for perfguard and measured nothing."""
        try:
            result = yield
            if held_back := getattr(item, "_excinfo", None):
                # unittest has caught what its TestCase raised, and pytest puts it on the report later.
                raise held_back[0].value
        except BaseException as error:
            self.tests.reach(item, error)
            if (guard := item.stash.get(GUARD, None)) is not None:
                guard.abandon(error)
                guard.settle_baselines(passed=False)
            raise
        finally:
            self.progress.clear(item.nodeid)
        self.tests.reach(item)
        guard = item.stash.get(GUARD, None)
        if guard is None:
            if item.nodeid in self._measuring:
                self._fail(item, "another fixture or parameter `perfguard` hides perfguard's own: give it another name")
            if what := without_fixture(item):
                self._fail(item, what)
            return result
        if guard.left_open:
            guard.abandon(GeneratorExit(LOOP_LEFT))
        guard.judge_callbacks()
        red = [verdict for verdict in guard.verdicts if not verdict.passed]
        guard.settle_baselines(passed=not red)
        red = [verdict for verdict in guard.verdicts if not verdict.passed]
        if red:
            # A verdict was raised already where the test called perfguard, and a test that caught it is not green for that;
            # a refresh that is refused is known only now.
            pytest.fail(self.failure_message(red[0], nodeid_of(item)), pytrace=False)
        if not guard.verdicts and (guard.asked or is_gate_test(item)):
            self._fail(
                item,
                "perfguard.steps(loader) was never looped over, or perfguard.callback() never used"
                if guard.asked
                else "call perfguard(step), or loop over perfguard.steps(loader) to its end",
            )
        return result

    def _fail(self, item: pytest.Item, what: str) -> None:
        error = f"B105 {Code.B105.value}: {item.nodeid}; {what}."
        self.tests.give_error(item, error)
        pytest.fail(f"perfguard: {error}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Hang the verdicts on a report: it is what crosses from a worker to the controller."""
        report = yield
        guard = item.stash.get(GUARD, None)
        # Those of the call are settled after it; fixtures may be given some before and after.
        if guard is not None and (call.when == "call" or len(guard.verdicts) > guard.reported):
            from perfguard.reports.document import verdict_document

            guard.reported = len(guard.verdicts)
            setattr(report, _REPORT_KEY, [verdict_document(verdict) for verdict in guard.verdicts])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect verdicts; the last one of a rerun test counts."""
        from perfguard.reports.document import verdict_from_document

        if report.when == "setup" or report.failed:
            self._reported[report.nodeid] = report.outcome
        elif report.when == "call" and self._reported.get(report.nodeid) != "failed":
            self._reported[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        for document in getattr(report, _REPORT_KEY, ()):
            verdict = verdict_from_document(document)
            self.verdicts[verdict.workload] = verdict
            self._measured.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Settle the run before anybody reports it; where it fails without a failed test, say why below pytest's last line."""
        self._stopped_by = self._stopped_by or str(session.shouldfail or session.shouldstop or "")
        self._settle_run(session)
        session.exitstatus = self.kept(session.exitstatus)
        try:
            return (yield)
        finally:
            # Another hook may have set it; what follows reads it here.
            session.exitstatus = self.kept(session.exitstatus)
            self.tell_why()

    def tell_why(self) -> None:
        """Say once why a run fails that pytest itself would not have failed."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if self.why and not self._has_told_why and reporter is not None:
            self._has_told_why = True
            reporter.ensure_newline()
            reporter.write_line(f"perfguard: the run fails: {self.why}", red=True)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember what ended the run early."""
        self._stopped_by = str(excinfo.value) or excinfo.typename

    def kept(self, status: Any) -> Any:
        """Return the status of the run: not 0 where the gate is red, whatever a test or a hook made of it."""
        if hasattr(self.config, "workerinput") or _only_shows(self.config) or not _is_green(status):
            return status
        self.why = "; ".join(self._reasons_to_fail())
        return pytest.ExitCode.TESTS_FAILED if self.why else status

    def _settle_run(self, session: pytest.Session) -> None:
        """Look for baselines without a test, write the report file, and let neither be overlooked."""
        if hasattr(self.config, "workerinput"):
            output: dict[str, Any] = getattr(self.config, "workeroutput")  # noqa: B009 - xdist sets it
            output[_WORKER_KEY] = {
                "collected": self._collected,
                "files": sorted(self._collected_files),
                "measuring": sorted(self._measuring),
                "tests": self.tests.as_documents(),
            }
            return
        if _only_shows(self.config) or self._is_refused:
            return
        try:
            self.unused = self._find_unused() if session.testscollected else ()
            self.moves = self._find_moves()
            self._uncollected = self._find_uncollected()
        except PerfguardError as error:
            self.problems.append(str(error))
        for file in self.files:
            try:
                file.write(self._report())
                self._written.append(file.path)
            except PerfguardError as error:
                self.problems.append(str(error))
        self._tell_github()

    def _tell_github(self) -> None:
        """Add the summary to the page of the job, which GitHub Actions asks for by a file."""
        place = os.environ.get("GITHUB_STEP_SUMMARY")
        if not place or os.environ.get("GITHUB_ACTIONS") != "true":
            return
        try:
            with open(place, "a", encoding="utf-8") as summary:
                summary.write(report_markdown(self._report()) + "\n")
        except OSError as error:
            self.problems.append(f"the step's summary {place} cannot be written: {error.strerror}")

    def _reasons_to_fail(self) -> Iterator[str]:
        if (unused := self._unused_to_fail()) and self.update is not Update.ALL:
            from perfguard.reports.names import printable

            baselines, them = ("baseline", "it") if len(unused) == 1 else ("baselines", "them")
            names = " ".join(shlex.quote(printable(workload)) for workload in unused)
            remedy = f"remove {them} with: perfguard baseline prune {names} --yes"
            yield f"{len(unused)} unused {baselines} ({Code.B104.name}), {remedy}"
        if self.problems:
            yield "perfguard could not do all its work, as said above"
        if not self.verdicts:
            yield "nothing was measured, so nothing was gated"
        if red := self.tests.red:
            yield f"{len(red)} red test{'s' if len(red) > 1 else ''}, and pytest's own status was 0: {named(red)}"
        if line := self._unreached_line():
            yield line

    def _unreached_line(self) -> str:
        """Return which selected tests the run did not come to, or nothing."""
        # What a worker measured before it crashed came with its reports.
        if not (tests := [nodeid for nodeid in self.tests.unreached if nodeid not in self._measured]):
            return ""
        why = f"the run ended early ({self._stopped_by}), " if self._stopped_by else ""
        return f"{why}{len(tests)} not reached: {named(tests)}"

    def _unused_to_fail(self) -> list[str]:
        return [one for one in self.unused if self.projects.of_workload(one).settings.unused == "fail"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker of pytest-xdist collected: the controller collects nothing itself."""
        found = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
        if found is not None:
            self._collected |= found["collected"]
            self._collected_files |= set(found["files"])
            self._measuring |= set(found["measuring"])
            self.tests.take(found["tests"])

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the summary."""
        if _only_shows(self.config) or self._is_refused:
            return
        from perfguard.reports.terminal import summary

        report = self._report()
        green = not any(self._reasons_to_fail())
        screen = screen_of_run(terminalreporter)
        text = summary(report, screen)
        if screen.is_quiet:
            terminalreporter.ensure_newline()
            text = "\n".join(f"perfguard: {line}" for line in text.splitlines())
        else:
            terminalreporter.write_sep("=", "perfguard", green=green, red=not green)
        terminalreporter.write_line(screen.shown(text))
        for line, is_red in self._lines_of_tests():
            line = f"perfguard: {line}" if screen.is_quiet else line
            terminalreporter.write_line(screen.shown(line), red=is_red, yellow=not is_red)
        for problem in self.problems:
            terminalreporter.write_line(f"perfguard: {problem}", red=True)
        for path in self._written:
            terminalreporter.write_line(f"report: {path}")
        if os.environ.get("GITHUB_ACTIONS") == "true":
            from perfguard.reports.github import workflow_commands

            workspace = Path(found) if (found := os.environ.get("GITHUB_WORKSPACE")) else None
            for line in workflow_commands(report, root=self.config.rootpath, workspace=workspace):
                terminalreporter.write_line(line)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _lines_of_tests(self) -> Iterator[tuple[str, bool]]:
        """Return what the table of workloads cannot tell of the tests, and whether it is red."""
        for line in self.tests.swallowed_lines(self._reported):
            yield line, True
        if line := self._unreached_line():
            yield line, True
        if removed := sorted(n for n in self._measuring if self._collected.get(n) and n not in self.tests):
            yield f"{len(removed)} taken out of the run by a hook, not gated: {named(removed)}", False
        if self._uncollected:
            yield f"not collected, so their baselines were not compared: {named(self._uncollected)}", False
        for line in (self.tests.known_line(), self.tests.flaky_line()):
            if line:
                yield line, False

    def _report(self) -> RunReport:
        return RunReport(
            verdicts=tuple(self.verdicts[workload] for workload in sorted(self.verdicts)),
            unused=self.unused,
            moves=self.moves,
            not_run=tuple(sorted(n for n in self._measuring - self._measured if n in self.tests)),
            is_time_off=not self.projects.main.settings.time,
            error_rate=self._error_rate(),
            provenance=self._provenance if self.files or os.environ.get("GITHUB_STEP_SUMMARY") else Provenance(),
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return provenance(self.config.rootpath, os.environ)

    def _error_rate(self) -> str:
        by_root: dict[Path, tuple[Settings, list[Verdict]]] = {}
        for verdict in self.verdicts.values():
            settings = self.projects.of_workload(verdict.workload).settings
            by_root.setdefault(settings.root, (settings, []))[1].append(verdict)
        return " ".join(dict.fromkeys(filter(None, (_error_rate(*one) for one in by_root.values()))))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember that a test exists, and was not meant to run."""
        for item in items:
            self._collected[item.nodeid] = False

    def _find_unused(self) -> tuple[str, ...]:
        """Return baselines whose test is gone, as far as this run can know.

        The file of the test is gone; or the file was collected whole, and the test is not in it. Tests that were
        skipped or deselected exist. A run of single tests (`::`), of last failures or under xdist collects too little.
        """
        partial = any("::" in argument for argument in self.config.args)
        partial = partial or bool(getattr(self.config.option, "lf", False))
        unused = []
        for workload in self._workloads():
            path = workload.partition("::")[0]
            owner = next((n for n in self._collected if workload == n or workload.startswith(f"{n}#")), None)
            if owner in self._passed and workload not in self.verdicts:
                unused.append(workload)
                continue
            if owner is not None:
                continue
            was_looked_at = path in self._collected_files and not partial
            if not self._has_file(workload) or (was_looked_at and not self._is_of_another_device(workload)):
                unused.append(workload)
        return tuple(unused)

    def _has_file(self, workload: str) -> bool:
        """Whether the file of a baseline's test is there; in a directory that packages share, also below that."""
        root, rootdir = self.projects.of_workload(workload).settings.root, self.config.rootpath
        if (rootdir / workload.partition("::")[0]).is_file():
            return True
        return root != rootdir and rootdir.is_relative_to(root) and has_test_file(root, workload)

    def _is_of_another_device(self, workload: str) -> bool:
        """Whether a baseline is of a device that nothing was measured on: a test for it may be collected only where it is."""
        here = {verdict.fingerprint.device for verdict in self.verdicts.values() if verdict.fingerprint is not None}
        stored = self.projects.load(workload) if here else None
        return stored is not None and stored.fingerprint is not None and stored.fingerprint.device not in here

    def _find_moves(self) -> tuple[tuple[str, str], ...]:
        """Return the places to rename so that tests without a baseline get the unused ones they look like."""
        without = [verdict for verdict in self.verdicts.values() if lacks_baseline(verdict)]
        names = renames(without, self._load(self.unused)) if without else {}
        return tuple(moves(names, self._workloads())) if names else ()

    def _find_uncollected(self) -> list[str]:
        """Return test files that have baselines, and that pytest was pointed at and did not collect."""
        if getattr(self.config.option, "lf", False):
            return []
        root = self.config.rootpath
        asked = [Path(self.config.invocation_params.dir) / argument.partition("::")[0] for argument in self.config.args]
        collected = self._collected_files | {nodeid.partition("::")[0] for nodeid in self._collected}
        files = {workload.partition("::")[0] for workload in self._workloads()} - collected
        return sorted(f for f in files if (root / f).is_file() and any((root / f).is_relative_to(one) for one in asked))


def kept_status(config: pytest.Config, status: Any) -> Any:
    """Return the status of a process that was asked for the gate: not 0 where it is red. Raises where no gate was at work."""
    gate: GateSession | None = config.pluginmanager.get_plugin("perfguard-session")
    if gate is not None and gate.has_begun:
        kept = gate.kept(status)
        gate.tell_why()
        return kept
    if _is_green(status) and not _only_shows(config):
        raise pytest.UsageError("perfguard: the gate was asked for, and no test session ran with it")
    return status


def _only_shows(config: pytest.Config) -> bool:
    """Whether pytest was asked to show something, and to run no test."""
    return any(getattr(config.option, name, None) for name in _SHOWS)


def _is_green(status: object) -> bool:
    """Whether a process that ends with this status is taken for a success: the system keeps 8 bits of it."""
    return status is None or (isinstance(status, (int, float)) and status % 256 == 0)


def _error_rate(settings: Settings, verdicts: list[Verdict]) -> str:
    """Quote the calibration beside the baselines of one project, where it is of this machine."""
    from perfguard.stores.calibration import read_calibration

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
    # Of another machine, or of another tolerance, it says nothing of this run.
    is_of_this = machines == {calibration.machine} and tolerances == {now.relative if now is not None else None}
    return calibration.error_rate.sentence if is_of_this else ""


def screen_of_run(reporter: pytest.TerminalReporter) -> Screen:
    """Return what pytest writes to: its width, and whether pytest itself uses colours there (--color, PY_COLORS, NO_COLOR)."""
    return Screen(
        width=width_of(sys.stdout),
        colours=reporter.hasmarkup,
        encoding=getattr(sys.stdout, "encoding", None) or "utf-8",
        verbosity=reporter.config.get_verbosity(),
    )


def _update(config: pytest.Config) -> Update:
    option = config.option
    given = {
        flag: update
        for flag, update, is_given in (
            ("--perfguard-update", Update.ALL, option.perfguard_update),
            ("--perfguard-update-new-only", Update.NEW_ONLY, option.perfguard_update_new_only),
            ("--perfguard-ratchet", Update.RATCHET, option.perfguard_ratchet),
        )
        if is_given
    }
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} contradict each other; give one of them.")
    return next(iter(given.values()), Update.NOTHING)


def _settings(config: pytest.Config, root: Path) -> Settings:
    """Return the settings of a directory, with the options of the run. Raises `UsageError`."""
    option = config.option
    settings = read_settings(root)
    if option.perfguard_time is not None:
        settings = replace(settings, time=option.perfguard_time == "on")
    if option.perfguard_runs is not None:
        settings = replace(settings, runs=run_count(option.perfguard_runs))
    if option.perfguard_baselines is not None:
        settings = replace(settings, baselines=Path(config.invocation_params.dir) / option.perfguard_baselines)
    return settings


def _named_places(config: pytest.Config) -> list[Path]:
    """Return the files and directories that pytest was asked to run; its rootdir where it was given names of modules."""
    directory = config.invocation_params.dir
    places = [Path(os.path.abspath(directory / argument.partition("::")[0])) for argument in config.args]
    return [place for place in places if place.exists()] or [config.rootpath]


def _is_parallel(config: pytest.Config) -> bool:
    if hasattr(config, "workerinput"):
        return True
    # As xdist itself decides: --dist without -n or --tx distributes nothing.
    option = config.option
    many = bool(getattr(option, "numprocesses", None)) or bool(getattr(option, "tx", None))
    return many and getattr(option, "dist", "no") != "no"


def _refuse_parallel_timing(config: pytest.Config, settings: Settings) -> None:
    if settings.time and _is_parallel(config):
        raise UsageError(
            "tests that run side by side disturb each other's time, so --perfguard refuses pytest-xdist; "
            "run without -n, or judge exact metrics only: pytest -n ... --perfguard --perfguard-time=off"
        )


def _require_writable_file(path: Path, option: str) -> None:
    _require_writable(path.parent, option)
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a directory. Name a file with {option}.")


def _require_writable(directory: Path, option: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written: {error.strerror}. Mend its permissions, or name another place with {option}."
        ) from error
