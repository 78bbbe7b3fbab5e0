"""The driver: runs the settling, profiled and timed steps of a workload, and writes the recording.

`run` calls a step, `iterate` yields a batch for every step. Another loop (a callback, an object with `step()`) calls `begin`
and `end` around each of its steps, and `close` after the last one.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from perfguard.capture import Backend
from perfguard.capture.environment import environment_of
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.recording import (
    PROFILER_DIRECTORY,
    Ending,
    Fingerprint,
    Recording,
    Step,
    begin_recording,
    write_recording,
)
from perfguard.window import Phase, StepWindow

Batch = TypeVar("Batch")
#: Calls a function a number of times: a plain loop, or pytest-benchmark's `pedantic`.
Pace = Callable[[Callable[[], None], int], None]
#: Called after every step with its phase, the steps done and the total.
Progress = Callable[[Phase, int, int], None]


class Steps(Protocol):
    """Runs the phases around the steps of a loop: a `Driver`, or a window of a controlled process."""

    @property
    def has_ended(self) -> bool:
        """Whether no further step is needed."""

    def begin(self) -> bool:
        """Begin the next step; return False, and do nothing, once the phases have ended."""

    def end(self) -> bool:
        """End the step that has begun; return whether the phases have ended."""

    def close(self, what: str) -> object:
        """End early, as there are no more steps; `what` is a text for the number of steps, such as "{} steps were run"."""


def iterate(steps: Steps, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield a batch for every step; a step is the fetch of the batch and the body of the loop."""
    source = iter(batches)
    while steps.begin():
        try:
            batch = next(source)
        except StopIteration:
            steps.close("the loader gave {} batches")
            return
        yield batch
        steps.end()


def plain_pace(function: Callable[[], None], rounds: int) -> None:
    """Call `function` `rounds` times."""
    for _ in range(rounds):
        function()


class Driver:
    """One capture of one workload. `recording` is set once the capture has ended, after a failure too.

    `problem` is the error if the recording could not be written after a failure; else it is empty.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        workload: str,
        directory: Path,
        window: StepWindow,
        timed_steps: int,
        timed_first: bool = False,
        progress: Progress = lambda phase, done, total: None,
    ) -> None:
        self.backend = backend
        self.workload = workload
        self.directory = directory
        self.window = window
        self.timed_steps = timed_steps
        self.recording: Recording | None = None
        self.problem = ""
        self._progress = progress
        self._plan = tuple(window.phases(timed_steps, timed_first=timed_first))
        self._timed_before = timed_steps if timed_first else 0
        #: The numbers of steps after which the profiler starts and stops.
        self._profiler_at = window.skip_first + self._timed_before
        self._profiler_until = self._profiler_at + window.profiler_steps
        self._total = len(self._plan)
        self._steps: list[Step] = []
        self._profiling = False
        self._profiler_failed = False
        self._collect_garbage_after = False
        self._began: tuple[int, int, int] | None = None
        try:
            (directory / PROFILER_DIRECTORY).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CaptureError(
                f"{directory} cannot hold a recording: {error.strerror}. Name another place, to pytest with "
                "--perfguard-recordings DIR."
            ) from error

    # -- the two forms ---------------------------------------------------------------------------------------------

    def run(self, step: Callable[[], object], *, pace: Pace = plain_pace) -> Recording:
        """Call `step` for every step of the window; `pace` calls the timed ones. An exception of the step is raised here."""
        try:
            while not self.has_ended:
                if self._plan[len(self._steps)][0] is Phase.TIMED:
                    pace(lambda: self._one(step), self.timed_steps)
                else:
                    self._one(step)
        except BaseException as error:
            self.abort(error)
            raise
        assert self.recording is not None
        return self.recording

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch for every step of the window; a step is the fetch of the batch and the body of the loop.

        If the batches end before the window, the capture ends as LOADER_ENDED. If the body raises, the caller must call
        `abort`: a generator does not see that.
        """
        try:
            yield from iterate(self, batches)
        except GeneratorExit:
            raise
        except BaseException as error:
            self.abort(error)
            raise

    # -- one step ------------------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Begin the next step; return False, and do nothing, once the capture has ended."""
        if self.has_ended:
            return False
        if len(self._steps) == self._profiler_at:
            self._start_profiler()
        # Without this the work that the last step left behind would be timed, and profiled, as part of the next one.
        self.backend.synchronize()
        self._began = time.time_ns(), time.perf_counter_ns(), time.thread_time_ns()
        return True

    def end(self) -> bool:
        """End the step that has begun, and after the last step of the window write the recording.

        Returns whether the capture has ended. Does nothing if no step has begun.
        """
        began, self._began = self._began, None
        if began is None or self.has_ended:
            return self.has_ended
        self._append_step(began)
        if self._profiling:
            with self._of_the_profiler("it advanced by a step"):
                self.backend.advance()
        if len(self._steps) == self._profiler_until:
            self._stop_profiler()
        if len(self._steps) == self._total:
            self._finish(Ending.COMPLETE, "")
        return self.has_ended

    def close(self, what: str = "{} steps were run") -> Recording | None:
        """End the capture, as there are no more steps; an incomplete window ends as LOADER_ENDED, described by `what`."""
        if not self.has_ended:
            self._began = None
            self._end_early(
                Ending.LOADER_ENDED,
                f"{what.format(len(self._steps))}, the window needs {self._total} "
                f"({self.window.skip_first} settle + {self.window.profiler_steps} profiled + {self.timed_steps} timed)",
            )
        return self.recording

    @property
    def has_ended(self) -> bool:
        """Whether the capture is over, after success or failure."""
        return self.recording is not None or bool(self.problem)

    @property
    def is_profiling(self) -> bool:
        """Whether the profiler is on."""
        return self._profiling

    def abort(self, error: BaseException) -> None:
        """End a capture after an error: stop the profiler, keep what was written, mark the recording. Idempotent.

        Raises nothing, because `error` is being raised; a second error here is in `problem`.
        """
        if self.has_ended:
            return
        ending = Ending.PROFILER_FAILED if self._profiler_failed else Ending.STEP_RAISED
        if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            ending = Ending.INTERRUPTED
        described = f"{type(error).__name__}: {error}".strip().split("\n")[0][:500]
        try:
            self._end_early(ending, f"step {len(self._steps) + 1} of {self._total}: {described}")
        except PerfguardError as second:
            self.problem = str(second)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _one(self, step: Callable[[], object]) -> None:
        self.begin()
        # No variable may hold the result of a step: it would count as memory that the step leaves behind.
        if self._steps:
            step()
        else:
            require_no_awaitable(step())
        self.end()

    def _append_step(self, began: tuple[int, int, int]) -> None:
        self.backend.synchronize()
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        start_ns, wall_began, cpu_began = began
        phase, cycle = self._plan[len(self._steps)]
        self._steps.append(
            Step(
                index=len(self._steps),
                phase=phase,
                cycle=cycle,
                start_ns=start_ns,
                wall_ns=wall - wall_began,
                thread_cpu_ns=cpu - cpu_began,
            )
        )
        self._progress(phase, len(self._steps), self._total)

    def _start_profiler(self) -> None:
        # A device reports earlier failures here, before anything has changed.
        self.backend.synchronize()
        begin_recording(self.directory)
        self._profiling = True
        # Garbage of earlier tests, freed inside the window, would make memory differ from run to run.
        gc.collect()
        self._collect_garbage_after = gc.isenabled()
        gc.disable()
        with self._of_the_profiler("it was started"):
            self.backend.start(self.directory / PROFILER_DIRECTORY, self.window)

    @contextmanager
    def _of_the_profiler(self, doing: str) -> Iterator[None]:
        """Turn an exception of the profiler into a `CaptureError`, so that it does not look like one of the step."""
        try:
            yield
        except CaptureError:
            # It has a message already.
            self._profiler_failed = True
            raise
        except Exception as error:
            self._profiler_failed = True
            raise CaptureError(
                f"the profiler failed while {doing} ({type(error).__name__}: {error}); see its output in "
                f"{self.directory}, free the disk or repair the profiler, then run the same command again."
            ) from error

    def _stop_profiler(self) -> None:
        if not self._profiling:
            return
        self._profiling = False
        try:
            with self._of_the_profiler("it was stopped"):
                self.backend.stop()
        finally:
            if self._collect_garbage_after:
                gc.enable()

    def _end_early(self, ending: Ending, reason: str) -> None:
        try:
            self._stop_profiler()
        except CaptureError as error:
            # In addition to the first failure, not instead of it.
            reason += f"; {error}"
        self._finish(ending, reason)

    def _finish(self, ending: Ending, reason: str) -> None:
        target = self.backend.target()
        recording = Recording(
            directory=self.directory,
            fingerprint=Fingerprint(
                workload=self.workload,
                backend=self.backend.name,
                device=target.device,
                mode=target.mode,
                world_size=target.world_size,
                threads=target.threads,
                window=self.window,
                first_profiled_step=self.window.first_profiled_step(self._timed_before),
            ),
            environment=environment_of(target),
            steps=tuple(self._steps),
            ending=ending,
            reason=reason,
            rank=target.rank,
            timed_steps=self.timed_steps,
            conditions=dict(self.backend.conditions),
        )
        write_recording(recording)
        self.recording = recording


def require_callable(step: object) -> Callable[[], object]:
    """Return the step, or raise `UsageError` for what cannot be called without arguments, and for a coroutine."""
    if not callable(step):
        require_no_awaitable(step)
        raise UsageError(
            f"perfguard(...) was given {_described(step)} and needs a function, one step without arguments; "
            "write perfguard(lambda: model(x)), not perfguard(model(x))."
        )
    # The class of an object decides whether calling it must be awaited.
    for one in (step, getattr(step, "__call__", None)):  # noqa: B004 - its method, which inspect knows as one
        if inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one):
            raise UsageError(_COROUTINE)
    return step


def require_no_awaitable(result: object) -> None:
    """Raise `UsageError` for an awaitable result: the step has not run."""
    if not inspect.isawaitable(result) and not inspect.isasyncgen(result):
        return
    if inspect.iscoroutine(result):
        # Python warns about a coroutine that never ran.
        result.close()
        raise UsageError(_COROUTINE)
    raise UsageError(
        f"your step returns {_described(result)}, which must be awaited: the step has not run when it returns. "
        "Wait for it inside the step."
    )


_COROUTINE = (
    "your step is a coroutine (async def), and calling it runs none of its code. In a plain `def` test write: "
    "loop = asyncio.new_event_loop(); perfguard(lambda: loop.run_until_complete(step()))"
)


def _described(value: object) -> str:
    """Return a short description of a value: its own text may be all the numbers of a tensor."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    of_shape = f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}{of_shape}"
