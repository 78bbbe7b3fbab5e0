"""The driver: takes a workload through settle, timed and profiled steps, and writes the recording.

The phases are separable: `settle`, `time` and `profile` can be called on their own, in this order. The loop form walks the
same phases one yielded batch at a time. Where another loop has the steps (a callback, an object with `step()`), it tells the
driver of their edges: `begin`, `end`, and `close` when it has run out of steps.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from perfguard.capture import Backend
from perfguard.capture.environment import environment_of
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.recording import PROFILER_DIRECTORY, Ending, Fingerprint, Recording, Step, write_recording
from perfguard.window import Phase, StepWindow

Batch = TypeVar("Batch")
#: Calls a function so many times; pytest-benchmark's `pedantic` is one, a plain loop another.
Pace = Callable[[Callable[[], None], int], None]
#: Told about every step: phase, steps done, steps in all.
Progress = Callable[[Phase, int, int], None]


def plain_pace(function: Callable[[], None], rounds: int) -> None:
    """Call `function` `rounds` times."""
    for _ in range(rounds):
        function()


def silent(phase: Phase, done: int, total: int) -> None:
    """Show nothing."""


class Driver:
    """Drives one workload through one capture. `recording` is there once the capture has ended, well or not.

    `problem` is the sentence of a recording that could not even be written after a failure; else it is empty.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        workload: str,
        directory: Path,
        window: StepWindow,
        timed_steps: int,
        progress: Progress = silent,
    ) -> None:
        self.backend = backend
        self.workload = workload
        self.directory = directory
        self.window = window
        self.timed_steps = timed_steps
        self.recording: Recording | None = None
        self.problem = ""
        self._progress = progress
        self._plan = tuple(window.phases(timed_steps))
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
        """Take a callable step through all phases. What the step raises ends the capture and comes through."""
        try:
            self.settle(step)
            self.time(step, pace=pace)
            self.profile(step)
        except BaseException as error:
            self.abort(error)
            raise
        return self._finish(Ending.COMPLETE, "")

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch for every step of the window; a step lasts from asking for the batch to the end of the body.

        Ends the capture as LOADER_ENDED when the batches end before the window does. A body that raises cannot be seen
        from here; whoever holds the driver calls `abort`.
        """
        try:
            yield from self._walk(iter(batches))
        except GeneratorExit:
            raise
        except BaseException as error:
            self.abort(error)
            raise

    def _walk(self, source: Iterator[Batch]) -> Iterator[Batch]:
        while self.begin():
            try:
                batch = next(source)
            except StopIteration:
                self._began = None
                self.close("the loader gave {} batches")
                return
            yield batch
            self.end()

    # -- the form of a loop that perfguard only watches ---------------------------------------------------------------

    def begin(self) -> bool:
        """Begin the next step. False, and nothing is done, once the window is over or the capture has ended."""
        if self.has_ended:
            return False
        if len(self._steps) == self.window.skip_first + self.timed_steps:
            self._start_profiler()
        self._begin()
        return True

    def end(self) -> bool:
        """End the step that was begun; with the last one of the window the recording is written.

        Returns whether the window is over. Nothing is done for a step that was not begun.
        """
        if self._began is None or self.has_ended:
            return self.has_ended
        phase, cycle = self._plan[len(self._steps)]
        self._end(phase, cycle)
        if self._profiling:
            self._advance()
        if len(self._steps) == self._total:
            self._stop_profiler()
            self._finish(Ending.COMPLETE, "")
        return self.has_ended

    def close(self, what: str = "{} steps were run") -> Recording | None:
        """Say that there are no more steps. A window that is not over by then ends as LOADER_ENDED; `what` words it."""
        if not self.has_ended:
            self._began = None
            self._end_early(
                Ending.LOADER_ENDED,
                f"{what.format(len(self._steps))}, the window needs {self._total} "
                f"({self.window.skip_first} settle + {self.timed_steps} timed + {self.window.profiler_steps} profiled)",
            )
        return self.recording

    @property
    def has_ended(self) -> bool:
        """Whether the capture is over, well or not."""
        return self.recording is not None or bool(self.problem)

    # -- the phases ------------------------------------------------------------------------------------------------

    def settle(self, step: Callable[[], object]) -> None:
        """Run the steps that compile, allocate and warm caches; they are kept in steps.json, and judged by nobody."""
        for _ in range(self.window.skip_first):
            self._one(step, Phase.SETTLE, 0)

    def time(self, step: Callable[[], object], *, pace: Pace = plain_pace) -> None:
        """Time steps without the profiler, each with the device synchronised before and after."""
        if self.timed_steps:
            pace(lambda: self._one(step, Phase.TIMED, 0), self.timed_steps)

    def profile(self, step: Callable[[], object]) -> None:
        """Run the profiler's steps: wait, warmup and active, repeated."""
        self._start_profiler()
        for phase, cycle in self.window.profiler_phases():
            self._one(step, phase, cycle)
            self._advance()
        self._stop_profiler()

    def abort(self, error: BaseException) -> None:
        """End a capture that went wrong: stop the profiler, keep what was written, mark the recording. Idempotent.

        Raises nothing, since `error` is on its way; what went wrong here as well is in `problem`.
        """
        if self.has_ended:
            return
        ending = Ending.STEP_RAISED
        if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            ending = Ending.INTERRUPTED
        elif self._profiler_failed:
            ending = Ending.PROFILER_FAILED
        described = f"{type(error).__name__}: {error}".strip().split("\n")[0][:500]
        reason = f"step {len(self._steps) + 1} of {self._total}: {described}"
        try:
            self._end_early(ending, reason)
        except PerfguardError as second:
            self.problem = str(second)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _one(self, step: Callable[[], object], phase: Phase, cycle: int) -> None:
        self._begin()
        # Nothing here may hold what a step returns: it would count as memory that the step leaves behind.
        if self._steps:
            step()
        else:
            require_no_awaitable(step())
        self._end(phase, cycle)

    def _begin(self) -> None:
        # Without this the work a step left behind would be timed, and profiled, as the next one's.
        self.backend.synchronize()
        self._began = time.time_ns(), time.perf_counter_ns(), time.thread_time_ns()

    def _end(self, phase: Phase, cycle: int) -> None:
        self.backend.synchronize()
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        assert self._began is not None
        start_ns, wall_began, cpu_began = self._began
        self._began = None
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
        # A device tells of earlier failures here, before anything has been switched.
        self.backend.synchronize()
        self._profiling = True
        # Garbage of earlier tests, freed in mid-window, would make memory differ from run to run.
        gc.collect()
        self._collect_garbage_after = gc.isenabled()
        gc.disable()
        with self._of_the_profiler("it was started"):
            self.backend.start(self.directory / PROFILER_DIRECTORY, self.window)

    def _advance(self) -> None:
        with self._of_the_profiler("it was told of a step"):
            self.backend.advance()

    @contextmanager
    def _of_the_profiler(self, doing: str) -> Iterator[None]:
        """Tell a failure of the profiler from one of the step."""
        try:
            yield
        except CaptureError:
            # Has its sentence already.
            self._profiler_failed = True
            raise
        except Exception as error:
            self._profiler_failed = True
            raise CaptureError(
                f"the profiler failed while {doing} ({type(error).__name__}: {error}); look at what it left in "
                f"{self.directory}, free the disk or mend the profiler, then run the same command again."
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
            # Told with the first failure, not instead of it.
            reason += f"; {error}"
        self._finish(ending, reason)

    def _finish(self, ending: Ending, reason: str) -> Recording:
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
        return recording


def require_callable(step: object) -> Callable[[], object]:
    """Return the step, or raise `UsageError` for what cannot be called without arguments, and for a coroutine."""
    if not callable(step):
        require_no_awaitable(step)
        raise UsageError(
            f"perfguard(...) was given {_described(step)} and needs a function, one step without arguments; "
            "write perfguard(lambda: model(x)), not perfguard(model(x))."
        )
    # An object is awaited where its class says so.
    for one in (step, getattr(step, "__call__", None)):  # noqa: B004 - its method, which inspect knows as one
        if inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one):
            raise UsageError(_COROUTINE)
    return step


def require_no_awaitable(result: object) -> None:
    """Raise `UsageError` where a step has returned what somebody must still await: it has not run."""
    if not inspect.isawaitable(result) and not inspect.isasyncgen(result):
        return
    if inspect.iscoroutine(result):
        # Python warns about one that nobody ran.
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
    """Return what a value is, in few words: its text may be all the numbers of a tensor."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    of_shape = f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}{of_shape}"
