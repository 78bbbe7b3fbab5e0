"""Timed runs in processes of their own: one test, one workload, no profiler.

The gate's side starts `python -c ... main(REQUEST)` with pytest's own options, as pytest does for processes that stand in for
it. There the fixture is a `ControlledGuard`: the one workload asked for is timed, all else in the test is a plain test.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from perfguard.capture import Backend
from perfguard.capture import backend as backend_named
from perfguard.capture.command import END_WITH_PARENT, run_command
from perfguard.capture.controlled import ControlledWindow, bind, controlled_environment
from perfguard.capture.driver import require_callable
from perfguard.plugin.plain import PlainGuard, failing
from perfguard.settings import Settings
from perfguard.timing import LostRun, Timing, read_timing, write_timing
from perfguard.workload import named

Batch = TypeVar("Batch")

PLUGIN_NAME = "perfguard-controlled"

_MARK = "PERFGUARD_CONTROLLED"
_START = (
    f"{END_WITH_PARENT}; import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from perfguard.plugin.controlled import main; main(sys.argv[-1])"
)

#: Options of pytest and its plugins that belong to the run as a whole, and stay behind: what it selects, reports, repeats,
#: distributes, or measures by other means.
_OF_THE_WHOLE_RUN = frozenset(
    {
        *(
            "file_or_dir",
            "keyword",
            "markexpr",
            "deselect",
            "ignore",
            "ignore_glob",
            "collectonly",
            "pyargs",
            "plugins",
        ),
        *("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset", "maxfail", "usepdb", "trace"),
        *("xmlpath", "htmlpath", "json_report", "report_log", "pastebin", "reruns", "count", "basetemp"),
        *("numprocesses", "maxprocesses", "dist", "tx", "px", "looponfail", "distload", "setuponly", "setupplan"),
    }
)
#: pytest is told of perfguard after it was imported, and with warnings as errors it would stop at that.
IMPORTED_BEFORE = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
_PREFIXES_OF_THE_WHOLE_RUN = ("benchmark_", "cov_", "perfguard")
#: Variables that say which test runs, or that coverage is measured in every Python: a tracer has no place in a timed one.
_STAYS_BEHIND = ("PYTEST_CURRENT_TEST", "COV_CORE_", "COVERAGE_PROCESS_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a controlled process is asked to do."""

    nodeid: str
    workload: str
    rootdir: str
    inifile: str | None
    directory: str
    settings: Settings
    options: dict[str, Any]
    plugins: tuple[str, ...]
    result: str


def time_workload(
    config: pytest.Config, item: pytest.Item, workload: str, settings: Settings, *, number: int, timeout_s: float
) -> Timing | LostRun:
    """Time one workload in a fresh process, and return what it measured; whatever goes wrong there is a `LostRun`."""
    with tempfile.TemporaryDirectory(prefix="perfguard-run-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        request = request_for(config, item, workload, settings, place)
        (place / "request").write_bytes(pickle.dumps(request))
        mark = uuid.uuid4().hex
        environment = controlled_environment(os.environ, threads=settings.threads) | {_MARK: mark}
        environment = {name: value for name, value in environment.items() if not name.startswith(_STAYS_BEHIND)}
        with open(place / "output", "wb") as output:
            ended = run_command(
                [
                    *(sys.executable, *_interpreter_flags(), "-c", _START),
                    # Python passes over what is no text, and so did whoever put it there.
                    json.dumps([entry for entry in sys.path if isinstance(entry, str)]),
                    str(place / "request"),
                ],
                environment=environment,
                mark=_MARK,
                timeout_s=timeout_s,
                output=output,
                directory=Path(request.directory),
            )
        result = Path(request.result)
        if result.is_file():
            return read_timing(result)
        said = _last_words(place / "output")
    return LostRun(number=number, reason=ended.sentence(timeout_s, said))


def _interpreter_flags() -> list[str]:
    """Return the flags this interpreter runs with that change how code runs (-X dev, -O, -W)."""
    import subprocess

    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def _last_words(path: Path) -> str:
    """Return the last thing a process said that tells something, for one line."""
    said = path.read_text(encoding="utf-8", errors="replace").splitlines()
    # A line that rules off tells nothing.
    lines = [line.strip() for line in said if any(map(str.isalnum, line))]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    told = [line for line in lines if line.startswith(("perfguard:", "ERROR", "Fatal"))]
    last = errors[:1] or told[-1:] or lines[-1:]
    return last[0][:300] if last else ""


def request_for(config: pytest.Config, item: pytest.Item, workload: str, settings: Settings, place: Path) -> Request:
    """Return what a process is asked for that runs one test as this run of pytest does; it keeps its files in `place`."""
    path, *names = item.nodeid.split("::")
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
    return Request(
        nodeid="::".join((str(config.rootpath / path), *names)),
        workload=workload,
        rootdir=str(config.rootpath),
        inifile=str(config.inipath) if config.inipath else None,
        directory=str(config.invocation_params.dir),
        settings=settings,
        options={**options, **own},
        plugins=tuple(config.option.plugins or ()),
        result=str(place / "timing.json"),
    )


def _has_cache(config: pytest.Config) -> bool:
    """Whether pytest knows of its cache; with `-p no:cacheprovider` naming a place for it is an error."""
    try:
        config.getini("cache_dir")
    except (ValueError, KeyError):
        return False
    return True


def _travels(name: str, value: object) -> bool:
    """Whether a process that runs one test is to have an option of the run."""
    if name in _OF_THE_WHOLE_RUN or name.startswith(_PREFIXES_OF_THE_WHOLE_RUN):
        return False
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        # What a plugin keeps among its options and cannot be pickled stays here.
        return False
    return True


# -- inside the process ------------------------------------------------------------------------------------------------


def main(path: str) -> None:
    """Run one test of a request, and leave the timing it asks for."""
    with open(path, "rb") as stream:
        request: Request = pickle.load(stream)
    cpus = bind(request.settings.threads)
    sys.exit(run_test(request, Controlled(request, cpus)))


def run_test(request: Request, plugin: Controlled) -> int:
    """Run the one test of a request with a plugin that makes its guard; return pytest's status."""
    config = configuration(request)
    config.pluginmanager.register(plugin, PLUGIN_NAME)
    try:
        return int(config.hook.pytest_cmdline_main(config=config))
    finally:
        config._ensure_unconfigure()


def configuration(request: Request) -> pytest.Config:
    """Return pytest's configuration as the run that asked has it, for one test."""
    options = {**request.options, "rootdir": request.rootdir, "inifilename": request.inifile}
    arguments = [*(part for plugin in request.plugins for part in ("-p", plugin)), request.nodeid]
    return pytest.Config.fromdictargs(options, arguments)


class Window(Protocol):
    """What runs the steps of one workload, of either form."""

    def run(self, step: Callable[[], object]) -> object:
        """Run a callable step."""

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch a step."""


class Controlled:
    """The plugin of a controlled process: it makes the guard of the one test there is."""

    def __init__(self, request: Request, cpus: tuple[int, ...]) -> None:
        self.request = request
        self.cpus = cpus

    def guard(self, request: pytest.FixtureRequest) -> ControlledGuard:
        """Return the guard."""
        return ControlledGuard(self, request.node)

    def window(self, backend: Backend) -> Window:
        """Return what runs the steps of the workload that was asked for."""
        return ControlledWindow(
            backend,
            workload=self.request.workload,
            settle=self.request.settings.window.skip_first,
            least=self.request.settings.timed_steps,
            cpus=self.cpus,
        )

    def keep(self, window: Window) -> None:
        """Leave what was measured where it was asked for."""
        if isinstance(window, ControlledWindow) and window.timing is not None:
            write_timing(window.timing, Path(self.request.result))


class ControlledGuard(PlainGuard):
    """Times the workload that was asked for; any other of its test is run once, as without the gate."""

    def __init__(self, plugin: Controlled, item: pytest.Item) -> None:
        super().__init__(item)
        self._plugin = plugin

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Time a callable step."""
        if not self._is_wanted(name):
            super().__call__(step, name=name)
            return
        with self._window() as window:
            window.run(require_callable(step))

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Time the test's own loop."""
        if not self._is_wanted(name):
            yield from super().steps(batches, name=name)
            return
        with self._window() as window:
            yield from window.iterate(batches)

    def _is_wanted(self, name: str | None) -> bool:
        asked = self._plugin.request
        return asked.workload == named(self._item.nodeid, name)

    @contextmanager
    def _window(self) -> Iterator[Window]:
        settings = self._plugin.request.settings
        with failing(self._item):
            backend = backend_named(settings.backend)
            backend.prepare(settings.threads)
            window = self._plugin.window(backend)
            yield window
        self._plugin.keep(window)
