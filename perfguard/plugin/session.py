"""The session of the gate: the hooks of a pytest run with --perfguard, and the exit status of that run."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.chatter import folded
from perfguard.capture.checkout import provenance
from perfguard.capture.environment import cpu_model
from perfguard.errors import PerfguardError, StoreError, UsageError, counted
from perfguard.findings import Code
from perfguard.gate import Update
from perfguard.judge.verdict import Outcome
from perfguard.plugin.definitions import replaced_definition
from perfguard.plugin.fixture import GUARD, GateGuard
from perfguard.plugin.gate_tests import is_gate_test, named, nodeid_of, remember_nodeid, without_fixture
from perfguard.plugin.judging import Judging
from perfguard.plugin.options import named_places, report_files, require_rootdir, runs_no_test
from perfguard.plugin.projects import Project
from perfguard.plugin.summary import PlainReporter, append_github_summary, github_summary, write_summary
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.reports.document import verdict_document, verdict_from_document
from perfguard.screen import LOG, printable, put_right
from perfguard.stores.directory import names_baseline
from perfguard.version import __version__

_REPORT_KEY = "perfguard_verdicts"
_WORKER_KEY = "perfguard_collected"


def start(config: pytest.Config) -> None:
    """Read the settings, refuse a run that cannot work, and register the session."""
    try:
        require_rootdir(config)
        session = GateSession(config)
    except PerfguardError as error:
        raise pytest.UsageError(f"perfguard: {error}") from error
    config.pluginmanager.register(session, "perfguard-session")
    # pytest escapes a whole message, line breaks included, if one character is missing in the output's encoding.
    config.add_cleanup(put_right(sys.stdout))


class GateSession:
    """The hooks of one run: they collect verdicts, and keep a red run from looking green."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._began = time.monotonic()
        self.judging = Judging(config)
        for place in named_places(config):
            self.judging.require_usable(place)
        self._named_projects = len(self.judging.usable)
        self._files = report_files(config)
        #: Whether settings were wrong, so that no test ran; pytest prints the reason.
        self._is_refused = False
        self._written: list[Path] = []
        self._unused: tuple[str, ...] = ()
        #: Places to rename, if unused baselines look like the measurements of tests without a baseline.
        self._moves: tuple[tuple[str, str], ...] = ()
        self._uncollected: list[str] = []
        self._left_out: list[str] = []
        #: Tests that use perfguard, and those of them that left a verdict.
        self._measuring: set[str] = set()
        self._measured: set[str] = set()
        self.tests = self.judging.tests
        #: How pytest reported each test, to name those whose verdict it did not report.
        self._reported: dict[str, str] = {}
        self.has_begun = False
        self._stopped_by = ""
        #: Why a status of 0 was replaced, and whether the reason has been printed.
        self.why = ""
        self._has_printed_why = False

    def guard(self, request: pytest.FixtureRequest) -> GateGuard:
        """Return the guard of a test."""
        guard = GateGuard(self.judging, request)
        request.node.stash[GUARD] = guard
        request.addfinalizer(guard.finish)
        return guard

    # -- hooks -----------------------------------------------------------------------------------------------------

    def pytest_report_header(self) -> list[str]:
        """Return version, mode, baselines and machine."""
        mode = {
            Update.NOTHING: "judging",
            Update.ALL: "refreshing",
            Update.NEW_ONLY: "judging, creating what is missing",
            Update.RATCHET: "judging, storing what got better",
        }
        machine = f"machine: {cpu_model()}, {os.cpu_count()} cores"
        version = f"perfguard {__version__}: {mode[self.judging.update]}"
        if len(self.judging.usable) == 1:
            return [f"{version} {self._described(self.judging.usable[0])}; {machine}"]
        return [f"{version}; {machine}", *(f"perfguard: {self._described(one)}" for one in self.judging.usable)]

    def pytest_report_collectionfinish(self) -> list[str]:
        """Return the projects of collected tests that no argument of pytest names."""
        return [f"perfguard: {self._described(one)}" for one in self.judging.usable[self._named_projects :]]

    def _described(self, project: Project) -> str:
        time = "time on" if project.settings.time else "time off: exact metrics only"
        place = project.settings.baselines_directory
        try:
            count = str(sum(map(names_baseline, os.listdir(place))))
        except FileNotFoundError:
            count = "0"
        except OSError as error:
            count = str(error.strerror)
        where = place.relative_to(self.config.rootpath) if place.is_relative_to(self.config.rootpath) else place
        return f"({time}); baselines: {where} ({count})"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Remember that tests are about to run, unlike in `pytest --help`."""
        self.has_begun = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember how long collection took, and the tests to measure. Raises `UsageError` for wrong settings."""
        self.judging.ready_s = time.monotonic() - self._began
        for item in session.items:
            if (collected_as := nodeid_of(item)) != item.nodeid:
                self.judging.collected.tests[item.nodeid] = True
                if collected_as in self._measuring:
                    # Later reports have this node id.
                    self._measuring = self._measuring - {collected_as} | {item.nodeid}
        self.judging.selected = [item for item in session.items if item.nodeid in self._measuring]
        if not hasattr(self.config, "workerinput"):
            # A worker cannot refuse the run; there the test fails.
            try:
                for item in self.judging.selected:
                    self.judging.require_usable(item.path)
            except UsageError as error:
                self._is_refused = True
                raise pytest.UsageError(f"perfguard: {error}") from error
        self.judging.rounds.begin(len(self.judging.selected))
        self.tests.select([item.nodeid for item in self.judging.selected])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Add the time of fixtures, and note a test that ends in them."""
        began = time.monotonic()
        self.tests.begin(item)
        try:
            return (yield)
        except BaseException as error:
            self.tests.reach(item, error)
            raise
        finally:
            self.judging.ready_s += time.monotonic() - began

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember every test, selected or not."""
        remember_nodeid(item)
        self.judging.collected.tests[item.nodeid] = True
        if is_gate_test(item):
            self._measuring.add(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files were collected; the tests of one that failed or was skipped stay unknown."""
        if report.passed and report.nodeid:
            self.judging.collected.files.add(report.nodeid)

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
        """End the window of a failing test; fail a test that uses perfguard and measured nothing."""
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
            self.judging.progress.clear(item.nodeid)
        self.tests.reach(item)
        guard = item.stash.get(GUARD, None)
        if what := replaced_definition(item, is_gate_test=item.nodeid in self._measuring):
            self._fail(item, what)
        if guard is None:
            if item.nodeid in self._measuring:
                self._fail(item, "another fixture or parameter `perfguard` hides perfguard's own: give it another name")
            if what := without_fixture(item):
                self._fail(item, what)
            return result
        guard.abandon()
        guard.judge_callbacks()
        try:
            guard.settle_baselines(passed=all(verdict.passed for verdict in guard.verdicts))
        except StoreError as error:
            self.tests.give_error(item, str(error))
            raise pytest.fail.Exception(f"perfguard: {error}", pytrace=False) from None
        red = [verdict for verdict in guard.verdicts if not verdict.passed]
        if red:
            # A test that caught the failure of its verdict is not green; a refused refresh is known only now.
            pytest.fail(self.judging.failure_message(red[0], nodeid_of(item)), pytrace=False)
        if not guard.verdicts and (guard.is_used or is_gate_test(item)):
            self._fail(
                item,
                "perfguard.steps(loader) was never looped over, or a callback was never used"
                if guard.is_used
                else "call perfguard(step), or loop over perfguard.steps(loader) to its end",
            )
        if red_child := self.tests.red_child_of(item.nodeid):
            # The child alone has failed.
            pytest.fail(f"perfguard: {red_child}", pytrace=False)
        return result

    def _fail(self, item: pytest.Item, what: str) -> None:
        error = f"B105 {Code.B105.value}: {item.nodeid}; {what}."
        self.tests.give_error(item, error)
        pytest.fail(f"perfguard: {error}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Add the verdicts to the report, which a worker of pytest-xdist sends to the controller."""
        report = yield
        guard = item.stash.get(GUARD, None)
        # Baselines are settled after the call; fixtures may measure before and after it.
        if guard is not None and (call.when == "call" or len(guard.verdicts) > guard.reported):
            guard.reported = len(guard.verdicts)
            verdicts = map(self.judging.as_kept, guard.verdicts)
            setattr(report, _REPORT_KEY, [verdict_document(verdict) for verdict in verdicts])
        if guard is not None and self.config.get_verbosity() <= 0 and _is_judged(guard, call):
            report.sections = [(name, folded(text)) for name, text in report.sections]
        # Without pytest's terminal there is no such option.
        if guard is not None and self.config.getoption("tbstyle", "auto") not in ("no", "line"):
            _tell_once(report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect verdicts; the last one of a rerun test counts."""
        if report.when == "setup" or report.failed:
            self._reported[report.nodeid] = report.outcome
        elif report.when == "call" and self._reported.get(report.nodeid) != "failed":
            self._reported[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if report.when == "call" and report.passed:
            self.judging.passed.add(report.nodeid)
        for document in getattr(report, _REPORT_KEY, ()):
            verdict = verdict_from_document(document)
            self.judging.verdicts[verdict.workload] = verdict
            self._measured.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Settle the run before it is reported; print why it fails without a failed test."""
        self._stopped_by = self._stopped_by or str(session.shouldfail or session.shouldstop or "")
        self._settle_run(session)
        session.exitstatus = self.kept(session.exitstatus)
        try:
            return (yield)
        finally:
            # Another hook may have changed it.
            session.exitstatus = self.kept(session.exitstatus)
            if self._reporter is None:
                self._summarise(PlainReporter(self.config))
            self.print_why()

    def print_why(self) -> None:
        """Print once why a run fails that pytest itself would not have failed."""
        if not self.why or self._has_printed_why or hasattr(self.config, "workerinput"):
            return
        self._has_printed_why = True
        reporter = self._reporter or PlainReporter(self.config)
        reporter.ensure_newline()
        reporter.write_line(LOG.carried(printable(f"perfguard: the run fails: {self.why}")), red=True)

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        """pytest's own, which `-p no:terminal` and the workers of pytest-xdist lack."""
        reporter: pytest.TerminalReporter | None = self.config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember what ended the run early."""
        self._stopped_by = str(excinfo.value) or excinfo.typename

    def kept(self, status: Any) -> Any:
        """Return the status of the run: not 0 if the gate is red, whatever a test or a hook made of it."""
        if hasattr(self.config, "workerinput") or runs_no_test(self.config) or not _is_green(status):
            return status
        self.why = "; ".join(self._reasons_to_fail())
        return pytest.ExitCode.TESTS_FAILED if self.why else status

    def _settle_run(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput"):
            output: dict[str, Any] = getattr(self.config, "workeroutput")  # noqa: B009 - xdist sets it
            output[_WORKER_KEY] = {
                "collected": self.judging.collected.as_document(),
                "measuring": sorted(self._measuring),
                "tests": self.tests.as_documents(),
            }
            return
        if runs_no_test(self.config) or self._is_refused:
            return
        with self._noting_problems():
            collected, verdicts = self.judging.collected, self.judging.verdicts
            self._unused = collected.unused(verdicts, self.judging.passed) if session.testscollected else ()
            self._moves = collected.moves(self._unused, verdicts)
            self._uncollected = collected.uncollected()
            self._left_out = collected.left_out()
        for file in self._files:
            with self._noting_problems():
                file.write(self._report())
                self._written.append(file.path)
        if page := github_summary():
            with self._noting_problems():
                append_github_summary(page, self._report())

    @contextmanager
    def _noting_problems(self) -> Iterator[None]:
        try:
            yield
        except PerfguardError as error:
            self.judging.problems.append(str(error))

    def _reasons_to_fail(self) -> Iterator[str]:
        unused = [one for one in self._unused if self.judging.projects.of_workload(one).settings.unused == "fail"]
        if unused and self.judging.update is not Update.ALL:
            baselines, them = ("baseline", "it") if len(unused) == 1 else ("baselines", "them")
            names = " ".join(shlex.quote(printable(workload)) for workload in unused)
            remedy = f"remove {them} with: perfguard baseline prune {names} --yes"
            yield f"{len(unused)} unused {baselines} ({Code.B104.name}), {remedy}"
        if self.judging.problems:
            yield "perfguard could not do all its work, as reported above"
        if not self.judging.verdicts:
            yield "nothing was measured, so nothing was gated"
        if red := self.tests.red:
            yield f"{counted(len(red), 'red test')}, and pytest's own status was 0: {named(red)}"
        if line := self._unreached_line():
            yield line

    def _unreached_line(self) -> str:
        """Return which selected tests the run did not reach, or nothing."""
        # What a worker measured before it crashed came with its reports.
        if not (tests := [nodeid for nodeid in self.tests.unreached if nodeid not in self._measured]):
            return ""
        why = f"the run ended early ({self._stopped_by}), " if self._stopped_by else ""
        return f"{why}{len(tests)} not reached: {named(tests)}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add what a worker of pytest-xdist collected: the controller collects nothing itself."""
        found = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
        if found is not None:
            self.judging.collected.merge(found["collected"])
            self._measuring |= set(found["measuring"])
            self.tests.take(found["tests"])

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the summary."""
        self._summarise(terminalreporter)

    def _summarise(self, reporter: pytest.TerminalReporter | PlainReporter) -> None:
        if runs_no_test(self.config) or self._is_refused or hasattr(self.config, "workerinput"):
            return
        write_summary(
            reporter,
            self._report(),
            green=not any(self._reasons_to_fail()),
            notes=self._notes_on_tests(),
            problems=self.judging.problems,
            written=self._written,
        )

    # -- inside ----------------------------------------------------------------------------------------------------

    def _notes_on_tests(self) -> Iterator[tuple[str, bool]]:
        """Yield notes on tests, and whether each is red."""
        for line in self.tests.swallowed_lines(self._reported):
            yield line, True
        if line := self._unreached_line():
            yield line, True
        if removed := sorted(n for n in self._measuring if self.judging.collected.tests.get(n) and n not in self.tests):
            yield f"{len(removed)} taken out of the run by a hook, not gated: {named(removed)}", False
        if self._uncollected:
            yield f"not collected, so their baselines were not compared: {named(self._uncollected)}", False
        if self._left_out:
            yield f"left out by addopts in {self.config.inipath}, not gated: {named(self._left_out)}", False
        for line in (self.tests.known_line(), self.tests.flaky_line()):
            if line:
                yield line, False

    def _report(self) -> RunReport:
        return RunReport(
            verdicts=tuple(self.judging.verdicts[workload] for workload in sorted(self.judging.verdicts)),
            unused=self._unused,
            moves=self._moves,
            not_run=tuple(sorted(n for n in self._measuring - self._measured if n in self.tests)),
            is_time_off=not self.judging.projects.main.settings.time,
            error_rate=self.judging.error_rates(),
            provenance=self._provenance if self._files or os.environ.get("GITHUB_STEP_SUMMARY") else Provenance(),
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return provenance(self.config.rootpath, os.environ)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember tests that are not selected."""
        for item in items:
            self.judging.collected.tests[item.nodeid] = False


def kept_status(config: pytest.Config, status: Any) -> Any:
    """Return the status of a run with the gate: not 0 if it is red. Raises `pytest.UsageError` if no gate ran."""
    gate: GateSession | None = config.pluginmanager.get_plugin("perfguard-session")
    if gate is not None and gate.has_begun:
        kept = gate.kept(status)
        gate.print_why()
        gate.tests.is_decided = True
        return kept
    if _is_green(status) and not runs_no_test(config):
        raise pytest.UsageError("perfguard: the gate was asked for, and no test session ran with it")
    return status


def _is_green(status: object) -> bool:
    """Whether the system takes a status for success: it keeps 8 bits of it."""
    return status is None or (isinstance(status, (int, float)) and status % 256 == 0)


def _is_judged(guard: GateGuard, call: pytest.CallInfo[None]) -> bool:
    """Whether a test ended as its verdicts say, so that nothing that was captured is the reason of an error."""
    is_valid = all(verdict.outcome is not Outcome.INVALID for verdict in guard.verdicts)
    is_own = call.excinfo is None or call.excinfo.errisinstance(pytest.fail.Exception)
    return bool(guard.verdicts) and is_valid and is_own


def _tell_once(report: pytest.TestReport) -> None:
    """Leave the first line to pytest's short summary: in CI it has whole messages, and the section above has every line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and crash.message.startswith("Failed: perfguard "):
        crash.message = crash.message.partition("\n")[0]
