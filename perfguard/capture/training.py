"""A training that a framework runs: its callback reports the steps here, and they go through the phases of the window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

from perfguard.capture.driver import Driver, Steps
from perfguard.errors import PerfguardError, UsageError

#: Why a window ended early.
EVALUATED = "{} steps were run before an evaluation began inside the window"
_NEW_EPOCH = (
    "an epoch ended inside the profiled window, after {} steps, where loaders do other work: give an epoch more batches"
)
_TRAINED = "the training ended after {} optimizer steps"

AnySteps = TypeVar("AnySteps", bound=Steps)


class OneStep:
    """The steps of a run without the gate: there is one."""

    def __init__(self) -> None:
        self.has_ended = False

    def begin(self) -> bool:
        """Begin the step; there is no other."""
        return not self.has_ended

    def end(self) -> bool:
        """End the step."""
        self.has_ended = True
        return True

    def close(self, what: str) -> None:
        """Do nothing: a training without a step is no failure here."""


class Training(Generic[AnySteps]):
    """One training, as the callback of a framework sees it.

    `steps` is called when the training begins, `done` when its window is over; the test fails by what `failing` makes of
    perfguard's errors.
    """

    def __init__(
        self,
        steps: Callable[[], AnySteps],
        *,
        done: Callable[[AnySteps], None],
        failing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._make = steps
        self._done = done
        self._failing = failing
        self._steps: AnySteps | None = None
        self._is_running = False

    def begin(self) -> None:
        """Begin the training. Fails the test if the callback has measured one before."""
        with self._failing():
            if self._steps is not None:
                raise UsageError(
                    "this callback has measured a training already, and a measurement is of one; make another callback "
                    "for the next training, with a name: name='second'."
                )
            self._steps = self._make()
            self._is_running = True

    def begin_step(self) -> None:
        """Begin a step; after the window it is not measured."""
        with self._of_perfguard() as steps:
            steps.begin()

    def end_step(self) -> bool:
        """End a step; return whether the training can stop, because the window is over."""
        with self._of_perfguard() as steps:
            if not steps.has_ended and steps.end():
                self._done(steps)
            return steps.has_ended

    def begin_epoch(self) -> None:
        """End a window that an epoch interrupts: loaders do more for the first batch of an epoch, and less for the last."""
        self._interrupt(_NEW_EPOCH)

    def evaluate(self) -> None:
        """End a window that an evaluation interrupts: its operators would count as those of the training."""
        self._interrupt(EVALUATED)

    def end(self) -> None:
        """End the training; an incomplete window ends with it."""
        self._is_running = False
        self._close(_TRAINED)

    def fail(self, error: BaseException) -> None:
        """End a training that raised: the profiler stops, and the recording keeps the error."""
        self._is_running = False
        if isinstance(self._steps, Driver):
            self._steps.abort(error)

    def _interrupt(self, what: str) -> None:
        if self._is_running and isinstance(self._steps, Driver) and self._steps.is_profiling:
            self._close(what)

    def _close(self, what: str) -> None:
        with self._of_perfguard() as steps:
            if not steps.has_ended:
                steps.close(what)
                self._done(steps)

    @contextmanager
    def _of_perfguard(self) -> Iterator[AnySteps]:
        assert self._steps is not None
        with self._failing():
            try:
                yield self._steps
            except PerfguardError as error:
                self.fail(error)
                raise
