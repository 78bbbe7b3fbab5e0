"""The controlled process: it runs the tests of a request one after the other and times their workloads, without a profiler.

`rounds` starts it with pytest's own options. Its fixture is a `ControlledGuard`, which times
the requested workloads and runs any other once. Each timing is written as soon as it is made, and a log names the current
test, so that a process that dies or hangs loses only that one.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from perfguard.capture import REPLAY, Backend
from perfguard.capture import backend as backend_named
from perfguard.capture.command import last_line
from perfguard.capture.controlled import ControlledWindow, TurnsWindow, bind
from perfguard.capture.driver import require_callable
from perfguard.capture.training import Training
from perfguard.plugin.plain import PlainGuard, failing
from perfguard.settings import Settings
from perfguard.timing import write_timing
from perfguard.workload import named

Batch = TypeVar("Batch")

#: Python's garbage collector while tests are imported: a framework makes a million objects, and next to no garbage.
_RARELY = (100_000, 50, 1000)
#: Options of pytest and its plugins that a controlled process does not get: what the run selects, reports, repeats,
#: distributes, or measures by other means.
_OF_THE_WHOLE_RUN = frozenset(
    {
        *("file_or_dir", "deselect", "ignore", "ignore_glob", "collectonly", "pyargs", "plugins", "usepdb", "trace"),
        *("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset", "maxfail"),
        *("xmlpath", "htmlpath", "json_report", "report_log", "pastebin", "reruns", "count", "basetemp"),
        *("numprocesses", "maxprocesses", "dist", "tx", "px", "looponfail", "distload", "setuponly", "setupplan"),
    }
)
#: pytest registers perfguard after it was imported, which ends a run with warnings as errors.
IMPORTED_BEFORE = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
#: Plugins that measure would do so between the steps, and some that report first remove existing files.
_PREFIXES_OF_THE_WHOLE_RUN = (
    *("benchmark_", "cov_", "perfguard", "allure", "clean_alluredir", "json_report", "md_report", "testmon", "memray"),
    *("store_durations", "force_reruns", "only_rerun"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTest:
    """A test that a controlled process runs. `workloads` are those it times; None are all that the test measures."""

    nodeid: str
    settings: Settings
    workloads: frozenset[str] | None = None

    def times(self, workload: str) -> bool:
        """Whether a workload of the test is to be timed."""
        return self.workloads is None or workload in self.workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for a controlled process. All tests are of one file, and have the same backend and threads."""

    tests: tuple[TimedTest, ...]
    rootdir: str
    inifile: str | None
    directory: str
    options: dict[str, Any]
    plugins: tuple[str, ...]
    #: Where the process keeps its log and its timings.
    place: str

    @property
    def threads(self) -> int:
        """Threads of the framework, and CPUs of the process."""
        return self.tests[0].settings.threads


def write_request(config: pytest.Config, tests: Sequence[TimedTest], place: Path) -> Request:
    """Write `place`/request, for a process that runs tests as this run of pytest does, and return it."""
    options = {name: value for name, value in vars(config.option).items() if _travels(name, value)}
    ini = [*(options.get("override_ini") or [])]
    if _has_cache(config):
        ini.append(f"cache_dir={place / 'cache'}")
    own = {
        "override_ini": ini,
        "basetemp": str(place / "tmp"),
        "capture": "no",
        # pytest empties it as it starts.
        "log_file": os.devnull,
        "benchmark_disable": True,
        "pythonwarnings": [*(options.get("pythonwarnings") or []), IMPORTED_BEFORE],
    }
    request = Request(
        tests=tuple(tests),
        rootdir=str(config.rootpath),
        inifile=str(config.inipath) if config.inipath else None,
        directory=str(config.invocation_params.dir),
        options={**options, **own},
        plugins=tuple(config.option.plugins or ()),
        place=str(place),
    )
    (place / "request").write_bytes(pickle.dumps(request))
    return request


def _has_cache(config: pytest.Config) -> bool:
    """Whether pytest knows of its cache; with `-p no:cacheprovider` naming a place for it is an error."""
    try:
        config.getini("cache_dir")
    except (ValueError, KeyError):
        return False
    return True


def _travels(name: str, value: object) -> bool:
    """Whether a process that runs chosen tests is to have an option of the run."""
    if name in _OF_THE_WHOLE_RUN or name.startswith(_PREFIXES_OF_THE_WHOLE_RUN):
        return False
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        # What a plugin keeps among its options and cannot be pickled stays here.
        return False
    return True


class LogEntry(NamedTuple):
    """One line of the log of a controlled process."""

    #: "begun", "timing", "timed", "ended"
    what: str
    nodeid: str
    #: Of "timing" the workload; of "timed" the file of the timing; of "ended" why the test failed or was skipped.
    text: str = ""


def read_log(place: Path) -> list[LogEntry]:
    """Read the log of a process, which may be writing it."""
    try:
        text = (place / "log").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [LogEntry(*json.loads(line)) for line in text.split("\n")[:-1]]


def main() -> None:
    """Run the tests of the request in a file, and write their timings."""
    request = read_request(sys.argv[1])
    plugin = Round(request, bind(request.threads))
    gc.set_threshold(*_RARELY)
    status = run_tests(request, plugin)
    # Everything is written, and a framework would take up to a second to shut down.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def read_request(path: str) -> Request:
    """Read a pickled request."""
    request: Request = pickle.loads(Path(path).read_bytes())
    return request


def run_tests(request: Request, plugin: Controlled) -> int:
    """Run the tests of a request with a plugin that makes their guards; return pytest's status."""
    options = {**request.options, "rootdir": request.rootdir, "inifilename": request.inifile}
    arguments = [part for plugin in request.plugins for part in ("-p", plugin)]
    for test in request.tests:
        path, *names = test.nodeid.split("::")
        arguments.append("::".join((str(Path(request.rootdir, path)), *names)))
    config = pytest.Config.fromdictargs(options, arguments)
    config.pluginmanager.register(plugin, "perfguard-session")
    try:
        return int(config.hook.pytest_cmdline_main(config=config))
    finally:
        config._ensure_unconfigure()


class Reasons:
    """Remembers why tests and files did not come to an end, by node."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a file that could not be collected."""
        if report.failed or report.skipped:
            self.reasons[report.nodeid] = _last_line(report.longrepr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test that failed, or was skipped."""
        if report.failed or report.skipped:
            self.reasons.setdefault(report.nodeid, _last_line(report.longrepr))
        if report.failed:
            self.failed.setdefault(report.nodeid, _last_line(report.longrepr))


def _last_line(longrepr: object) -> str:
    """Return the line of a failure that says what it was."""
    if isinstance(longrepr, tuple):
        return str(longrepr[2])[:300]
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).strip().partition("\n")[0][:300]
    return last_line(str(longrepr or ""))


class Controlled(Reasons):
    """The plugin of a controlled process: it makes the guards of its tests."""

    def __init__(self, request: Request, cpus: tuple[int, ...]) -> None:
        super().__init__()
        self.cpus = cpus
        self._tests = {test.nodeid: test for test in request.tests}

    def guard(self, request: pytest.FixtureRequest) -> ControlledGuard:
        """Return the guard of a test."""
        guard = ControlledGuard(self, self._tests[request.node.nodeid], request.node)
        request.addfinalizer(guard.finish)
        return guard

    def window(self, backend: Backend, test: TimedTest, workload: str) -> ControlledWindow | TurnsWindow:
        """Return what runs the steps of a workload."""
        return ControlledWindow(
            backend,
            workload=workload,
            settle=test.settings.window.skip_first,
            least=test.settings.timed_steps,
            cpus=self.cpus,
        )

    def keep(self, test: TimedTest, window: ControlledWindow | TurnsWindow) -> None:
        """Write what was measured."""

    def refuse(self, test: TimedTest, what: str) -> None:
        """Stop a test before it does what this kind of process cannot time."""


class Round(Controlled):
    """Times tests one after the other, in the order of the request, and logs the current one."""

    def __init__(self, request: Request, cpus: tuple[int, ...]) -> None:
        super().__init__(request, cpus)
        self._place = Path(request.place)
        self._pid = os.getpid()
        self._log = os.open(self._place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._kept = 0
        self._thresholds = gc.get_threshold()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Put the tests into the order of the request, whatever other plugins did to it."""
        result = yield
        order = {nodeid: place for place, nodeid in enumerate(self._tests)}
        items.sort(key=lambda item: order.get(item.nodeid, len(order)))
        return result

    def pytest_collection_finish(self) -> None:
        """Let the garbage collector do what it does in the user's own process, unless a test's file has set it."""
        if gc.get_threshold() == _RARELY:
            gc.set_threshold(*self._thresholds)

    def pytest_sessionfinish(self) -> None:
        """Spare the process pytest's five searches for garbage at its end, a fifth of a second each with transformers."""
        gc.freeze()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Log that a test begins."""
        self._write(LogEntry(what="begun", nodeid=nodeid))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Log how a test ended."""
        reason = ""
        if nodeid in self.reasons:
            why = self.reasons[nodeid].removeprefix("Skipped: ")
            why = f": {why}" if why else ""
            reason = f"{'failed' if nodeid in self.failed else 'was skipped'} and timed nothing{why}"
        self._write(LogEntry(what="ended", nodeid=nodeid, text=reason))

    def window(self, backend: Backend, test: TimedTest, workload: str) -> ControlledWindow | TurnsWindow:
        """Log which workload comes, and return what runs its steps."""
        self._write(LogEntry(what="timing", nodeid=test.nodeid, text=workload))
        return super().window(backend, test, workload)

    def keep(self, test: TimedTest, window: ControlledWindow | TurnsWindow) -> None:
        """Write a timing, then log it."""
        self._end_if_forked()
        assert isinstance(window, ControlledWindow)
        assert window.timing is not None
        self._kept += 1
        path = self._place / f"timing-{self._kept}.json"
        write_timing(window.timing, path)
        self._write(LogEntry(what="timed", nodeid=test.nodeid, text=str(path)))

    def refuse(self, test: TimedTest, what: str) -> None:
        """Skip a test of unknown workloads before it runs a whole script or training in vain."""
        if test.workloads is None:
            pytest.skip(f"{what} is run in no shared process")

    def _write(self, entry: LogEntry) -> None:
        self._end_if_forked()
        os.write(self._log, json.dumps(entry).encode() + b"\n")

    def _end_if_forked(self) -> None:
        """End a child that a test forked: it would time the same tests as this process."""
        if os.getpid() != self._pid:
            os._exit(0)


class ControlledGuard(PlainGuard):
    """Times the requested workloads; any other of its test is run once, as without the gate."""

    def __init__(self, plugin: Controlled, test: TimedTest, item: pytest.Item) -> None:
        super().__init__(item)
        # What earlier tests left is freed before this one builds its model, not between two of its steps.
        gc.collect()
        self._plugin = plugin
        self._test = test
        self._backend: Backend | None = None
        if test.settings.backend not in (None, REPLAY):
            # As the gate's own guard does: before the test builds anything.
            with failing(item):
                self._prepared()

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Time a callable step."""
        workload = named(self._test.nodeid, name)
        if not self._test.times(workload):
            super().__call__(step, name=name)
            return
        with failing(self._item):
            window = self._plugin.window(self._prepared(), self._test, workload)
            window.run(require_callable(step))
        self._plugin.keep(self._test, window)

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Time the test's own loop."""
        workload = named(self._test.nodeid, name)
        if not self._test.times(workload):
            yield from super().steps(batches, name=name)
            return
        with failing(self._item):
            window = self._plugin.window(self._prepared(), self._test, workload)
            yield from window.iterate(batches)
        self._plugin.keep(self._test, window)

    def _training(self, name: str | None) -> Training[Any]:
        """Time a training that a framework runs."""
        workload = named(self._test.nodeid, name)
        if not self._test.times(workload):
            return super()._training(name)
        return Training(
            lambda: self._plugin.window(self._prepared(), self._test, workload),
            done=lambda window: self._plugin.keep(self._test, window),
            failing=lambda: failing(self._item),
        )

    def callback(self, *, name: str | None = None, **how: Any) -> Any:
        """Return a callback that does nothing."""
        self._plugin.refuse(self._test, "a training with a callback")
        return super().callback(name=name, **how)

    def script(self, command: Sequence[str | os.PathLike[str]], *, name: str | None = None, **how: Any) -> None:
        """Run the command, without any profiler."""
        self._plugin.refuse(self._test, "a script")
        super().script(command, name=name, **how)

    def finish(self) -> None:
        """Restore the framework for the next test."""
        if self._backend is not None:
            self._backend.restore()

    def _prepared(self) -> Backend:
        if self._backend is None:
            self._backend = backend_named(self._test.settings.backend)
            self._backend.prepare(self._test.settings.threads)
        return self._backend
