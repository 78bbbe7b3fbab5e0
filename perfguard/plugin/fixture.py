"""The guard of the gate: the `perfguard` fixture of a run with --perfguard."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest import SkipTest

import pytest

from perfguard.capture import REPLAY, Backend, backend
from perfguard.capture.driver import Driver, Pace, plain_pace, require_callable
from perfguard.capture.lightning_callback import lightning_callback
from perfguard.capture.mindspore_callback import RecordingCallback, mindspore_callback
from perfguard.capture.replay import replay
from perfguard.capture.script import run_script
from perfguard.capture.trainer_callback import trainer_callback
from perfguard.capture.training import Training
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.guard import Callback
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.verdict import Verdict
from perfguard.plugin.gate_tests import is_gate_test, nodeid_of
from perfguard.plugin.judging import Judging
from perfguard.plugin.plain import failing, script_of, source_of
from perfguard.recording import Recording
from perfguard.window import StepWindow
from perfguard.workload import named

Batch = TypeVar("Batch")

_LOOP_LEFT = "the loop over perfguard.steps(...) was left before its window was over"
_TRAINING_LEFT = "the training was left before its window was over"

#: Options of pytest-benchmark (after `--benchmark-`) that ask for its table, its JSON or a comparison.
_BENCHMARK_OUTPUT = ("json", "save", "autosave", "compare", "histogram", "only", "enable", "verbose")

#: What a test raises that skips itself.
_SKIPS = (pytest.skip.Exception, SkipTest)


class GateGuard:
    """The guard of one test in a run with --perfguard, and the verdicts of its test."""

    StepWindow = StepWindow

    def __init__(self, judging: Judging, request: pytest.FixtureRequest) -> None:
        self._judging = judging
        self.verdicts: list[Verdict] = []
        #: How many of them a report of pytest has.
        self.reported = 0
        #: Whether the test has called it.
        self.is_used = False
        self._request = request
        self._item: pytest.Item = request.node
        self._names: set[str | None] = set()
        #: Callbacks handed out, and what they record.
        self._watches: list[tuple[RecordingCallback, str]] = []
        #: The window that is open, what to say if it is left so, and those that trainings have ended.
        self._driver: Driver | None = None
        self._left = _LOOP_LEFT
        self._trained: list[Driver] = []
        self._backend: Backend | None = None
        self._problem: PerfguardError | None = None
        self._began = time.monotonic()
        #: Why nothing can be driven in this process; a script runs in one of its own.
        self._no_backend: CaptureError | None = None
        try:
            self.settings = judging.settings_of(self._item)
            # Other tests have the guard of an autouse fixture: no framework is loaded until they measure.
            if is_gate_test(self._item) and self.settings.backend not in (None, REPLAY):
                self._prepare_backend()
        except CaptureError as error:
            self._no_backend = error
        except PerfguardError as error:
            # Raised where the test uses the fixture: an error of a fixture would not be this test's failure.
            self._problem = error

    def __repr__(self) -> str:
        return "<perfguard: the gate>"

    # -- what a test calls -----------------------------------------------------------------------------------------

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Run all phases around `step`, judge the recording, and fail the test unless the verdict is PASSED."""
        __tracebackhide__ = True
        with self._failing():
            step = require_callable(step)
            driver = self._new_driver(name)
            try:
                recording = driver.run(step, pace=self._pace())
            except BaseException as error:
                self.abandon(error)
                raise
            self._judge(recording, driver.workload, timed=True)

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Yield batches through all phases, then judge; the last `next()` fails the test unless the verdict is PASSED."""
        self.is_used = True
        return self._steps(batches, name)

    def _steps(self, batches: Iterable[Batch], name: str | None) -> Iterator[Batch]:
        __tracebackhide__ = True
        with self._failing():
            driver = self._driver = self._new_driver(name)
            yield from driver.iterate(batches)
            self._driver = None
            assert driver.recording is not None
            self._judge(driver.recording, driver.workload, timed=True)

    def replay(self, directory: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Judge a directory on disk against this test's baseline."""
        __tracebackhide__ = True
        with self._failing():
            workload = self._workload(name)
            self._judge(replay(Path(directory)), workload)

    def script(self, command: Sequence[str | os.PathLike[str]], *, name: str | None = None, **how: Any) -> None:
        """Run an unmodified command under the profiler, and judge the recording against this test's baseline."""
        __tracebackhide__ = True
        with self._failing():
            workload = self._workload(name)
            script = script_of(command, how, backend=self.settings.backend)
            run = run_script(script, workload=workload, directory=self._directory(workload))
            for note in run.notes:
                self._item.add_report_section("call", "perfguard", note)
            self._judge(run.recording, workload)

    def callback(self, *, name: str | None = None, **how: Any) -> Callback:
        """Return a callback whose recording is judged when the test has ended."""
        __tracebackhide__ = True
        with self._failing():
            workload = self._workload(name)
            if not {"start_step", "stop_step", "start_epoch", "stop_epoch", "window"} & how.keys():
                how = {"window": self.settings.window, "timed_steps": self._timed_steps, **how}
            watch = mindspore_callback(self._directory(workload), workload=workload, **how)
            self._watches.append((watch, workload))
            return watch

    def trainer_callback(self, *, name: str | None = None) -> Any:
        """Return a callback for transformers' Trainer, whose recording is judged when the test has ended."""
        __tracebackhide__ = True
        with self._failing():
            return trainer_callback(self._training(name))

    def lightning_callback(self, *, name: str | None = None) -> Any:
        """Return a callback for Lightning's Trainer, whose recording is judged when the test has ended."""
        __tracebackhide__ = True
        with self._failing():
            return lightning_callback(self._training(name))

    # -- what the hooks call ---------------------------------------------------------------------------------------

    def abandon(self, error: BaseException | None = None) -> None:
        """End a window that is still open: the profiler stops, and the recording becomes an INVALID verdict.

        Without `error` the test has left its loop.
        """
        error = GeneratorExit(self._left) if error is None else error
        driver, self._driver = self._driver, None
        if driver is None:
            return
        if isinstance(error, _SKIPS) and isinstance(error.__context__, Exception):
            # A test that skips itself because a step has raised: `except OutOfMemoryError: pytest.skip()`.
            error = error.__context__
        driver.abort(error)
        if driver.recording is None:
            self._judging.problems.append(driver.problem)
        elif not isinstance(error, _SKIPS):
            # A test that skips itself has not been judged; it is counted as not run. An incomplete recording needs no
            # baseline, and so a damaged one cannot hide the error of the test.
            self._add(self._judging.examine(driver.recording, driver.workload, self.settings))

    def judge_callbacks(self) -> None:
        """Judge what callbacks recorded; one that no training used left nothing."""
        with self._failing():
            for watch, workload in self._watches:
                if (recording := watch.close() if watch.is_used else None) is not None:
                    self._add(self._judging.judge(recording, workload, self.settings))
            for driver in self._trained:
                assert driver.recording is not None
                again = self._item, time.monotonic() - self._began
                self._add(self._judging.judge(driver.recording, driver.workload, self.settings, timed=again))

    def settle_baselines(self, *, passed: bool) -> None:
        """Write the baselines that are due after the test; a failed test leaves none."""
        for index, verdict in enumerate(self.verdicts):
            settled = self.verdicts[index] = self._judging.refresh(verdict, self.settings, passed=passed)
            if verdict.passed and not settled.passed:
                self._judging.tests.give(self._item, settled)
            self._add_properties(settled)

    def finish(self) -> None:
        """Restore the framework, after the test."""
        # A window left in another fixture: the next test must not run under this one's profiler.
        self.abandon()
        if self._backend is not None:
            self._backend.restore()

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _timed_steps(self) -> int:
        return self.settings.timed_steps if self.settings.time else 0

    def _directory(self, workload: str) -> Path:
        return self._judging.recording_directory(workload, self._request.getfixturevalue("tmp_path_factory"))

    def _prepare_backend(self) -> Backend:
        """Prepare the backend of the settings, or the one that is installed. Raises `UsageError` for "replay"."""
        self._backend = backend(self.settings.backend)
        self._backend.prepare(self.settings.threads)
        return self._backend

    def _training(self, name: str | None) -> Training[Driver]:
        workload = self._workload(name)
        return Training(lambda: self._open(workload, _TRAINING_LEFT), done=self._keep_training, failing=self._failing)

    def _keep_training(self, driver: Driver) -> None:
        self._driver = None
        self._trained.append(driver)

    def _new_driver(self, name: str | None) -> Driver:
        return self._open(self._workload(name), _LOOP_LEFT)

    def _open(self, workload: str, left: str) -> Driver:
        """Open the window of a workload; `left` is what to say if the test leaves it open."""
        if self._no_backend is not None:
            raise self._no_backend
        prepared = self._backend or self._prepare_backend()
        if self._driver is not None:
            # A loop before this one was left: its profiler must stop before another starts.
            self.abandon()
            raise CaptureError(f"{self._left}, in {self._item.nodeid}; let it run to its end, perfguard ends it.")
        self._left = left
        self._driver = Driver(
            prepared,
            workload=workload,
            directory=self._directory(workload),
            window=self.settings.window,
            timed_steps=self._timed_steps,
            progress=self._judging.progress,
        )
        return self._driver

    def _workload(self, name: str | None) -> str:
        self.is_used = True
        if self._problem is not None:
            raise self._problem
        if name in self._names:
            called = "perfguard was called twice" if name is None else f"perfguard was called twice with name={name!r}"
            raise UsageError(
                f"{called} in {self._item.nodeid}; give each measurement a name: perfguard(step, name='decode')."
            )
        self._names.add(name)
        workload = named(nodeid_of(self._item), name)
        self._judging.claim(workload, self._item)
        return workload

    def _pace(self) -> Pace:
        """Return pytest-benchmark's `pedantic` where its output was asked for, so that it shows the workload as well."""
        option = self._item.config.option
        if not self.settings.time or not any(getattr(option, f"benchmark_{one}", None) for one in _BENCHMARK_OUTPUT):
            return plain_pace
        # The benchmark fixture serves one measurement a test, and may be the test's own.
        if len(self._names) > 1 or "benchmark" in getattr(self._item, "funcargs", {}):
            return plain_pace
        session = getattr(self._item.config, "_benchmarksession", None)
        if session is None or session.disabled or option.benchmark_cprofile:
            # Disabled it runs one round, with cProfile one more than requested; and an unused fixture is a warning.
            return plain_pace

        def pedantic(function: Callable[[], None], rounds: int) -> None:
            # Requested here only: a step that raises before would leave it unused, which is a warning.
            benchmark = self._request.getfixturevalue("benchmark")
            benchmark.pedantic(function, rounds=rounds, iterations=1, warmup_rounds=0)

        return pedantic

    def _judge(self, recording: Recording, workload: str, *, timed: bool = False) -> None:
        __tracebackhide__ = True
        self._driver = None
        again = (self._item, time.monotonic() - self._began) if timed else None
        verdict = self._add(self._judging.judge(recording, workload, self.settings, timed=again))
        if not verdict.passed:
            pytest.fail(self._judging.failure_message(verdict, nodeid_of(self._item)))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Fail this test with perfguard's own errors, which count whatever the test makes of the failure."""
        __tracebackhide__ = True
        with failing(self._item):
            try:
                yield
            except PerfguardError as error:
                self._judging.tests.give_error(self._item, str(error))
                raise

    def _add(self, verdict: Verdict) -> Verdict:
        workload = verdict.workload
        verdict = replace(verdict, source=source_of(self._item))
        self.verdicts.append(verdict)
        # Ctrl-C leaves no report of the test; what was recorded is reported nevertheless.
        self._judging.verdicts[workload] = verdict
        self._judging.tests.give(self._item, verdict)
        self._add_properties(verdict)
        return verdict

    def _add_properties(self, verdict: Verdict) -> None:
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


#: Where the hooks find the guard of a test.
GUARD = pytest.StashKey[GateGuard]()
