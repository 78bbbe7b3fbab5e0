"""What the `perfguard` fixture hands to a test: the guard of the gate, or another one where the run has no gate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import SkipTest

import pytest

from perfguard.capture.driver import Driver, Pace, plain_pace, require_callable
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.plugin.items import GUARD, LOOP_LEFT, is_gate_test, nodeid_of
from perfguard.plugin.plain import PlainGuard, failing, script_of, source_of
from perfguard.window import StepWindow
from perfguard.workload import named

if TYPE_CHECKING:
    from perfguard.capture import Backend
    from perfguard.capture.mindspore_callback import RecordingCallback
    from perfguard.guard import Callback, Guard
    from perfguard.judge import Verdict
    from perfguard.plugin.session import GateSession
    from perfguard.recording import Recording

Batch = TypeVar("Batch")

#: What a test raises that skips itself.
_SKIPS = (pytest.skip.Exception, SkipTest)


class GateGuard:
    """The guard of a run with --perfguard. `verdicts` holds what its test came to."""

    StepWindow = StepWindow

    def __init__(self, session: GateSession, request: pytest.FixtureRequest) -> None:
        self.session = session
        self.verdicts: list[Verdict] = []
        #: How many of them hang on a report.
        self.reported = 0
        self.asked = False
        self._request = request
        self._item: pytest.Item = request.node
        self._names: set[str | None] = set()
        #: Callbacks handed out, and what they record.
        self._watches: list[tuple[RecordingCallback, str]] = []
        self._driver: Driver | None = None
        self._backend: Backend | None = None
        self._problem: PerfguardError | None = None
        self._began = time.monotonic()
        #: Why nothing can be driven in this process; a script runs in one of its own.
        self._no_backend: CaptureError | None = None
        try:
            self.settings = session.judging.settings_of(self._item)
            # Every other test has the guard of an autouse fixture: it pays for no framework, unless it measures after all.
            if is_gate_test(self._item):
                self._prepare_backend()
        except CaptureError as error:
            self._no_backend = error
        except PerfguardError as error:
            # Told where the test uses the fixture: an error of a fixture would not be this test's failure.
            self._problem = error

    def __repr__(self) -> str:
        return "<perfguard: the gate>"

    # -- what a test calls -----------------------------------------------------------------------------------------

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Run all phases around `step`, judge the recording, and fail the test unless the verdict is PASSED."""
        __tracebackhide__ = True
        with self._told():
            step = require_callable(step)
            driver = self._new_driver(name)
            try:
                driver.run(step, pace=self._pace())
            except BaseException as error:
                self.abandon(error)
                raise
            assert driver.recording is not None
            self._judge(driver.recording, driver.workload, timed=True)

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Yield batches through all phases, then judge; the last `next()` fails the test unless the verdict is PASSED."""
        self.asked = True
        return self._steps(batches, name)

    def _steps(self, batches: Iterable[Batch], name: str | None) -> Iterator[Batch]:
        __tracebackhide__ = True
        with self._told():
            driver = self._driver = self._new_driver(name)
            yield from driver.iterate(batches)
            self._driver = None
            assert driver.recording is not None
            self._judge(driver.recording, driver.workload, timed=True)

    def replay(self, directory: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Judge a directory on disk against this test's baseline."""
        __tracebackhide__ = True
        from perfguard.capture.replay import replay

        with self._told():
            workload = self._workload(name)
            self._judge(replay(Path(directory)), workload)

    def script(self, command: Sequence[str | os.PathLike[str]], *, name: str | None = None, **how: Any) -> None:
        """Run an unmodified command under the profiler, and judge the recording against this test's baseline."""
        __tracebackhide__ = True
        from perfguard.capture.script import run_script

        with self._told():
            workload = self._workload(name)
            script = script_of(command, how, backend=self.settings.backend)
            directory = self.session.judging.recording_directory(
                workload, self._request.getfixturevalue("tmp_path_factory")
            )
            run = run_script(script, workload=workload, directory=directory)
            for note in run.notes:
                self._item.add_report_section("call", "perfguard", note)
            self._judge(run.recording, workload)

    def callback(self, *, name: str | None = None, **how: Any) -> Callback:
        """Return a callback whose recording is judged when the test has ended."""
        __tracebackhide__ = True
        from perfguard.capture.mindspore_callback import mindspore_callback

        with self._told():
            workload = self._workload(name)
            directory = self.session.judging.recording_directory(
                workload, self._request.getfixturevalue("tmp_path_factory")
            )
            if not {"start_step", "stop_step", "start_epoch", "stop_epoch", "window"} & how.keys():
                timed_steps = self.settings.timed_steps if self.settings.time else 0
                how = {"window": self.settings.window, "timed_steps": timed_steps, **how}
            watch = mindspore_callback(directory, workload=workload, **how)
            self._watches.append((watch, workload))
            return watch

    # -- what the hooks call ---------------------------------------------------------------------------------------

    @property
    def left_open(self) -> bool:
        """Whether a window is open that nobody ended."""
        return self._driver is not None

    def abandon(self, error: BaseException) -> None:
        """End what a failing test left open: the profiler stops, and the recording becomes an INVALID verdict."""
        driver, self._driver = self._driver, None
        if driver is None:
            return
        if isinstance(error, _SKIPS) and isinstance(error.__context__, Exception):
            # A test that skips itself because a step has raised: `except OutOfMemoryError: pytest.skip()`.
            error = error.__context__
        driver.abort(error)
        if driver.recording is None:
            self.session.problems.append(driver.problem)
        elif not isinstance(error, _SKIPS):
            # A test that skips itself has not been judged; it is counted as not run. What was cut short is not whole,
            # so no baseline is looked at, and none that is damaged can hide the error that is on its way.
            self._tell(self.session.judging.examine(driver.recording, driver.workload, self.settings))

    def judge_callbacks(self) -> None:
        """Judge what callbacks recorded; one that no training used leaves nothing, which is told as nothing measured."""
        with self._told():
            for watch, workload in self._watches:
                if (recording := watch.close() if watch.is_used else None) is not None:
                    self._tell(self.session.judging.judge(recording, workload, self.settings))

    def settle_baselines(self, *, passed: bool) -> None:
        """Write what a refresh is due to write, now that the test has ended: a test that failed leaves no baseline."""
        for index, verdict in enumerate(self.verdicts):
            settled = self.verdicts[index] = self.session.judging.refresh(verdict, self.settings, passed=passed)
            if verdict.passed and not settled.passed:
                self.session.tests.give(self._item, settled)
            self._tell_properties(settled)

    def finish(self) -> None:
        """Restore the framework, after the test."""
        if self.left_open:
            # Left outside the call phase, in another fixture; the next test must not run under this one's profiler.
            self.abandon(GeneratorExit(LOOP_LEFT))
        if self._backend is not None:
            self._backend.restore()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _prepare_backend(self) -> None:
        from perfguard.capture import REPLAY, backend

        if self.settings.backend == REPLAY:
            return
        if self.settings.backend is not None:
            self._backend = backend(self.settings.backend)
            self._backend.prepare(self.settings.threads)

    def _new_driver(self, name: str | None) -> Driver:
        from perfguard.capture import backend

        workload = self._workload(name)
        if self._no_backend is not None:
            raise self._no_backend
        if self._backend is None:
            # Where none is named, the one that is installed. For "replay" this says what to call instead.
            self._backend = backend(self.settings.backend)
            self._backend.prepare(self.settings.threads)
        if self._driver is not None:
            # A loop before this one was left: its profiler must stop before another starts.
            self.abandon(GeneratorExit(LOOP_LEFT))
            raise CaptureError(f"{LOOP_LEFT}, in {self._item.nodeid}; loop to its end, perfguard ends it.")
        driver = Driver(
            self._backend,
            workload=workload,
            directory=self.session.judging.recording_directory(
                workload, self._request.getfixturevalue("tmp_path_factory")
            ),
            window=self.settings.window,
            timed_steps=self.settings.timed_steps if self.settings.time else 0,
            progress=self.session.judging.progress,
        )
        self._driver = driver
        return driver

    def _workload(self, name: str | None) -> str:
        self.asked = True
        if self._problem is not None:
            raise self._problem
        if name in self._names:
            called = "perfguard was called twice" if name is None else f"perfguard was called twice with name={name!r}"
            raise UsageError(
                f"{called} in {self._item.nodeid}; give each measurement a name: perfguard(step, name='decode')."
            )
        self._names.add(name)
        workload = named(nodeid_of(self._item), name)
        self.session.judging.claim(workload, self._item)
        return workload

    def _pace(self) -> Pace:
        """Return pytest-benchmark's `pedantic` where it runs, so that its table and JSON show the workload as well."""
        if not self.settings.time or not self._item.config.pluginmanager.hasplugin("benchmark"):
            return plain_pace
        # The benchmark fixture serves one measurement a test, and may be the test's own.
        if len(self._names) > 1 or "benchmark" in getattr(self._item, "funcargs", {}):
            return plain_pace
        session = getattr(self._item.config, "_benchmarksession", None)
        if session is None or session.disabled or self._item.config.getoption("benchmark_cprofile", None):
            # Disabled it runs one round, and with cProfile one more than asked; and a fixture that is asked for and not
            # used is a warning. perfguard measures all the same.
            return plain_pace

        def pedantic(function: Callable[[], None], rounds: int) -> None:
            # Asked for when it is used: a step that raises before would leave it unused, which is a warning.
            benchmark = self._request.getfixturevalue("benchmark")
            benchmark.pedantic(function, rounds=rounds, iterations=1, warmup_rounds=0)

        return pedantic

    def _judge(self, recording: Recording, workload: str, *, timed: bool = False) -> None:
        __tracebackhide__ = True
        self._driver = None
        again = (self._item, time.monotonic() - self._began) if timed else None
        verdict = self._tell(self.session.judging.judge(recording, workload, self.settings, timed=again))
        if not verdict.passed:
            pytest.fail(self.session.judging.failure_message(verdict, nodeid_of(self._item)))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Fail this test with perfguard's own errors, which count whatever the test makes of the failure."""
        __tracebackhide__ = True
        with failing(self._item):
            try:
                yield
            except PerfguardError as error:
                self.session.tests.give_error(self._item, str(error))
                raise

    def _tell(self, verdict: Verdict) -> Verdict:
        workload = verdict.workload
        verdict = replace(verdict, source=source_of(self._item))
        self.verdicts.append(verdict)
        # Ctrl-C leaves no report of the test; what was recorded is told all the same.
        self.session.judging.verdicts[workload] = verdict
        self.session.tests.give(self._item, verdict)
        self._tell_properties(verdict)
        return verdict

    def _tell_properties(self, verdict: Verdict) -> None:
        from perfguard.judge import step_time_of

        workload = verdict.workload
        name = workload.removeprefix(nodeid_of(self._item))[1:]
        prefix = f"perfguard[{name}]" if name else "perfguard"
        # A rerun's verdict replaces the one before.
        kept = [p for p in self._item.user_properties if not p[0].startswith(f"{prefix}.")]
        self._item.user_properties[:] = kept
        self._item.user_properties.append((f"{prefix}.outcome", verdict.outcome.value))
        if (step := step_time_of(verdict)) is not None:
            for name, value in step.plain.items():
                if value is not None:
                    self._item.user_properties.append((f"{prefix}.{name}", str(value)))
        for measurement in verdict.measurements:
            if measurement.metric in ("peak_memory_bytes", "steps"):
                self._item.user_properties.append((f"{prefix}.{measurement.label}", str(measurement.value)))


def guard_for(request: pytest.FixtureRequest) -> Guard:
    """Return the guard of a test: a plain one, or the gate's."""
    session: GateSession | None = request.config.pluginmanager.get_plugin("perfguard-session")
    if session is None:
        controlled = request.config.pluginmanager.get_plugin("perfguard-controlled")
        return PlainGuard(request.node) if controlled is None else controlled.guard(request)
    guard = GateGuard(session, request)
    request.node.stash[GUARD] = guard
    request.addfinalizer(guard.finish)
    return guard
