"""The gate's side of a pytest run: it exists only under --perfguard."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfguard
from perfguard import thresholds
from perfguard.capture.checkout import current_commit, provenance
from perfguard.documents import write_atomically
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.findings import Code
from perfguard.gate import Run, Update, examine, judge_with_store, open_store, refresh, seems_suspect
from perfguard.judge import Outcome, Refresh, Verdict
from perfguard.measure import METRICS
from perfguard.plugin.fixture import GUARD, LOOP_LEFT, marker_arguments
from perfguard.plugin.progress import AtWork, ProgressLine
from perfguard.recording import Provenance
from perfguard.reports import REPORTERS, RunReport, require_page
from perfguard.screen import Screen, put_right, width_of
from perfguard.settings import Settings, find_root, read_settings, run_count, with_marker
from perfguard.stores.directory import file_name, names_baseline

if TYPE_CHECKING:
    from perfguard.plugin.rounds import Rounds
    from perfguard.recording import Recording
    from perfguard.timing import LostRun, Timing

#: Seconds after which a timed process is taken for hung: so many, and so many times what the test's own process took.
_LEAST_TIMEOUT_S = 120.0
_TIMEOUT_FACTOR = 20.0

#: The option that asks for the file of a reporter.
_FLAGS = {
    "json": "--perfguard-report FILE",
    "html": "--perfguard-html FILE",
    "markdown": "--perfguard-markdown FILE",
    "metrics": "--perfguard-metrics FILE",
}
_REPORT_KEY = "perfguard_verdicts"
_WORKER_KEY = "perfguard_collected"


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
        self.settings = _settings(config)
        self.update = _update(config)
        _refuse_parallel_timing(config, self.settings)
        self.store = open_store(self.settings.baselines_directory)
        self.progress = ProgressLine(config)
        #: The files to write, by reporter.
        self.files = {
            name: path
            for name, given in (
                ("json", option.perfguard_report),
                ("html", option.perfguard_html),
                ("markdown", option.perfguard_markdown),
                ("metrics", option.perfguard_metrics),
            )
            if (path := self._place(given)) is not None
        }
        self._at_work = AtWork()
        self.commit = current_commit(config.rootpath) if self.update is not Update.NOTHING else None
        if self.update is not Update.NOTHING:
            _require_writable(self.settings.baselines_directory, "--perfguard-baselines DIR")
        for name, path in self.files.items():
            _require_writable_file(path, _FLAGS[name])
        if "html" in self.files:
            require_page()
        self.verdicts: dict[str, Verdict] = {}
        #: Workloads whose steps can be run again in another process: their test, its settings, and the seconds it took.
        self.timeable: dict[str, tuple[pytest.Item, Settings, float]] = {}
        self.problems: list[str] = []
        self._written: list[Path] = []
        self.unused: tuple[str, ...] = ()
        self._claims: dict[str, pytest.Item] = {}
        self._collected: dict[str, bool] = {}
        self._collected_files: set[str] = set()
        self._measuring: set[str] = set()
        #: The tests of `_measuring` that this run is going to run, in their order.
        self._selected: list[pytest.Item] = []
        self._measured: set[str] = set()
        self._passed: set[str] = set()
        self._recordings: Path | None = self._place(option.perfguard_recordings)
        if self._recordings is not None:
            _require_writable(self._recordings, "--perfguard-recordings DIR")

    def _place(self, option: str | None) -> Path | None:
        """Resolve now: a test may change the directory."""
        return Path(self.config.invocation_params.dir) / option if option else None

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
        """Return the settings of one test: those of the run, and its marker's. Raises `UsageError`."""
        return with_marker(self.settings, marker_arguments(item))

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
        return judge_with_store(
            recording,
            self.store,
            workload=workload,
            policy=settings.policy,
            update=self.update,
            run=None if timed is None else self._run(workload, settings, *timed),
            runs=settings.runs,
        )

    def _run(self, workload: str, settings: Settings, item: pytest.Item, took_s: float) -> Run | None:
        if not settings.time or not settings.runs:
            return None

        def run(number: int) -> Timing | LostRun:
            limit_s = _LEAST_TIMEOUT_S + self.ready_s + _TIMEOUT_FACTOR * took_s
            return self._rounds.time(item, workload, settings, number=number, limit_s=limit_s)

        return run

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
            baseline = self.store.load(workload)
        except StoreError:
            # Its own test fails with this.
            return False
        if baseline is None:
            return self.update is Update.NEW_ONLY
        return seems_suspect(timings, baseline, policy=settings.policy)

    def _show_round(self, number: int, nodeid: str, place: int, of: int) -> None:
        name = next((item.name for item in self._selected if item.nodeid == nodeid), nodeid)
        self.progress.say(self._at_work.worded(name, place, of, number, *self._rounds_at_most()))

    def _rounds_at_most(self) -> tuple[int, bool]:
        """Return how many rounds time a workload, and whether it is so many whatever they find."""
        if self.update in (Update.ALL, Update.NEW_ONLY):
            return self.settings.runs, self.update is Update.ALL
        most = thresholds.MOST_RUNS
        return (max(self.settings.runs, most), True) if self.update is Update.RATCHET else (most, False)

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
            verdict = refresh(
                verdict,
                self.store,
                policy=settings.policy,
                update=self.update,
                commit=self.commit,
                reason=self.config.option.perfguard_reason,
            )
        self.verdicts[verdict.workload] = verdict
        return verdict

    def refresh_command(self, nodeid: str | None = None) -> str:
        """Return the command that writes the baseline of a test."""
        target = f" {shlex.quote(nodeid)}" if nodeid else ""
        return f"pytest --perfguard --perfguard-update{target}"

    def failure_message(self, verdict: Verdict, nodeid: str) -> str:
        """Return the message of a test with a red verdict; with -v all that is known."""
        from perfguard.reports.terminal import failure_message

        command = self.refresh_command(nodeid)
        return failure_message(verdict, refresh_command=command, whole=self.config.get_verbosity() > 0)

    # -- hooks -----------------------------------------------------------------------------------------------------

    def pytest_report_header(self) -> str:
        """Say version, mode, baselines and machine."""
        from perfguard.capture.environment import cpu_model

        mode = {
            Update.NOTHING: "judging",
            Update.ALL: "refreshing",
            Update.NEW_ONLY: "judging, creating what is missing",
            Update.RATCHET: "judging, storing what improved",
        }
        time = "time on" if self.settings.time else "time off: exact metrics only"
        place = self.settings.baselines_directory
        count = sum(names_baseline(path.name) for path in place.glob("*.json")) if place.is_dir() else 0
        where = place.relative_to(self.config.rootpath) if place.is_relative_to(self.config.rootpath) else place
        return (
            f"perfguard {perfguard.__version__}: {mode[self.update]} ({time}); baselines: {where} ({count}); "
            f"machine: {cpu_model()}, {os.cpu_count()} cores"
        )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember how long it took to come here, and what is going to be measured."""
        self.ready_s = time.monotonic() - self._began
        self._selected = [item for item in session.items if item.nodeid in self._measuring]
        self._at_work.begin(len(self._selected))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Remember how long fixtures take."""
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self.ready_s += time.monotonic() - began

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember what exists, whether or not it will be selected."""
        self._collected[item.nodeid] = True
        if "perfguard" in getattr(item, "fixturenames", ()):
            self._measuring.add(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files were collected whole; one that failed or was skipped says nothing about its tests."""
        if report.passed and report.nodeid:
            self._collected_files.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Let --benchmark-only and --benchmark-skip count tests that measure through pytest-benchmark as benchmarks."""
        guarded = [i for i in items if "perfguard" in getattr(i, "fixturenames", ())]
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
        except BaseException as error:
            if (guard := item.stash.get(GUARD, None)) is not None:
                guard.abandon(error)
                guard.settle_baselines(passed=False)
            raise
        finally:
            self.progress.clear(item.nodeid)
        guard = item.stash.get(GUARD, None)
        if guard is None:
            if any(marker.name == "perfguard" for marker in item.own_markers):
                self._fail(item, "it has the marker, and not the fixture: add the argument `perfguard`")
            if hasattr(getattr(item, "cls", None), "assertEqual") and item.get_closest_marker("perfguard"):
                self._fail(item, "a unittest.TestCase takes no fixture as argument: write the test as a function")
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
            pytest.fail(self.failure_message(red[0], item.nodeid), pytrace=False)
        if not guard.verdicts:
            self._fail(
                item,
                "perfguard.steps(loader) was never looped over, or perfguard.callback() never used"
                if guard.asked
                else "call perfguard(step), or loop over perfguard.steps(loader) to its end",
            )
        return result

    def _fail(self, item: pytest.Item, what: str) -> None:
        pytest.fail(f"perfguard: B105 {Code.B105.value}: {item.nodeid}; {what}.", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Hang the verdicts on the report of the call: it is what crosses from a worker to the controller."""
        report = yield
        guard = item.stash.get(GUARD, None)
        if call.when == "call" and guard is not None:
            from perfguard.reports.document import verdict_document

            setattr(report, _REPORT_KEY, [verdict_document(verdict) for verdict in guard.verdicts])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect verdicts; the last one of a rerun test counts."""
        from perfguard.reports.document import verdict_from_document

        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        for document in getattr(report, _REPORT_KEY, ()):
            verdict = verdict_from_document(document)
            self.verdicts[verdict.workload] = verdict
            self._measured.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Settle the run before anybody reports it; where it fails without a failed test, say why below pytest's last line."""
        why = self._settle_run(session)
        result = yield
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if why and reporter is not None:
            reporter.write_line(f"perfguard: the run fails: {why}", red=True)
        return result

    def _settle_run(self, session: pytest.Session) -> str:
        """Look for baselines without a test, write the report file, and let neither be overlooked.

        Returns why the run fails, where no test has failed.
        """
        if hasattr(self.config, "workerinput"):
            output: dict[str, Any] = getattr(self.config, "workeroutput")  # noqa: B009 - xdist sets it
            output[_WORKER_KEY] = {
                "collected": self._collected,
                "files": sorted(self._collected_files),
                "measuring": sorted(self._measuring),
            }
            return ""
        if self.config.option.collectonly:
            return ""
        try:
            self.unused = self._find_unused() if session.testscollected else ()
        except StoreError as error:
            self.problems.append(str(error))
        for name, path in self.files.items():
            try:
                write_atomically(path, REPORTERS[name](self._report()))
                self._written.append(path)
            except StoreError as error:
                self.problems.append(str(error))
        self._tell_github()
        why = "; ".join(self._reasons_to_fail())
        if not why or session.exitstatus != pytest.ExitCode.OK:
            return ""
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return why

    def _tell_github(self) -> None:
        """Add the summary to the page of the job, which GitHub Actions asks for by a file."""
        place = os.environ.get("GITHUB_STEP_SUMMARY")
        if not place or os.environ.get("GITHUB_ACTIONS") != "true":
            return
        try:
            with open(place, "a", encoding="utf-8") as summary:
                summary.write(REPORTERS["markdown"](self._report()) + "\n")
        except OSError as error:
            self.problems.append(f"the step's summary {place} cannot be written: {error.strerror}")

    def _reasons_to_fail(self) -> Iterator[str]:
        if self.unused and self.settings.unused == "fail" and self.update is not Update.ALL:
            from perfguard.reports.names import printable

            baselines, them = ("baseline", "it") if len(self.unused) == 1 else ("baselines", "them")
            names = " ".join(shlex.quote(printable(workload)) for workload in self.unused)
            remedy = f"remove {them} with: perfguard baseline prune {names} --yes"
            yield f"{len(self.unused)} unused {baselines} ({Code.B104.name}), {remedy}"
        if self.problems:
            yield "perfguard could not do all its work, as said above"
        if not self.verdicts:
            yield "nothing was measured, so nothing was gated"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker of pytest-xdist collected: the controller collects nothing itself."""
        found = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
        if found is not None:
            self._collected |= found["collected"]
            self._collected_files |= set(found["files"])
            self._measuring |= set(found["measuring"])

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the summary."""
        if self.config.option.collectonly:
            return
        from perfguard.reports.terminal import summary

        report = self._report()
        green = all(v.outcome is Outcome.PASSED for v in report.verdicts) and bool(report.verdicts)
        green = green and not self.problems and not (report.unused and self.settings.unused == "fail")
        screen = screen_of_run(terminalreporter)
        text = summary(report, screen)
        if screen.is_quiet:
            terminalreporter.ensure_newline()
            text = "\n".join(f"perfguard: {line}" for line in text.splitlines())
        else:
            terminalreporter.write_sep("=", "perfguard", green=green, red=not green)
        terminalreporter.write_line(screen.shown(text))
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

    def _report(self) -> RunReport:
        selected = self._measuring - self._measured
        return RunReport(
            verdicts=tuple(self.verdicts[workload] for workload in sorted(self.verdicts)),
            unused=self.unused,
            not_run=tuple(sorted(nodeid for nodeid in selected if self._collected.get(nodeid))),
            error_rate=self._error_rate(),
            provenance=self._provenance if self.files or os.environ.get("GITHUB_STEP_SUMMARY") else Provenance(),
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return provenance(self.config.rootpath, os.environ)

    def _error_rate(self) -> str:
        """Quote the calibration beside the baselines, where it is of this machine."""
        from perfguard.stores.calibration import read_calibration

        try:
            calibration = read_calibration(self.settings.baselines_directory)
        except StoreError as error:
            return str(error)
        if calibration is None or calibration.error_rate is None:
            return ""
        machines = {v.environment.machine for v in self.verdicts.values() if v.environment is not None}
        now = self.settings.policy.tolerance(METRICS["step_cost"], "")
        tolerances = {
            one.tolerance for metrics in calibration.workloads.values() for one in metrics if one.metric == "step_cost"
        }
        # Of another machine, or of another tolerance, it says nothing of this run.
        is_of_this = machines == {calibration.machine} and tolerances == {now.relative if now is not None else None}
        return calibration.error_rate.sentence if is_of_this else ""

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
        for workload in self.store.workloads():
            path = workload.partition("::")[0]
            owner = next((n for n in self._collected if workload == n or workload.startswith(f"{n}#")), None)
            if owner in self._passed and workload not in self.verdicts:
                unused.append(workload)
                continue
            known = owner is not None
            file_is_gone = not (self.config.rootpath / path).is_file()
            if not known and (file_is_gone or (path in self._collected_files and not partial)):
                unused.append(workload)
        return tuple(unused)


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


def _settings(config: pytest.Config) -> Settings:
    option = config.option
    settings = read_settings(find_root(config.rootpath))
    if option.perfguard_time is not None:
        settings = replace(settings, time=option.perfguard_time == "on")
    if option.perfguard_runs is not None:
        settings = replace(settings, runs=run_count(option.perfguard_runs))
    if option.perfguard_baselines is not None:
        settings = replace(settings, baselines=Path(config.invocation_params.dir) / option.perfguard_baselines)
    return settings


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
