"""The types of the fixture: `Guard` is what a test gets as `perfguard`, `Callback` what its `callback()` returns.

They hold no behaviour. The plugin has a guard of each kind: one that runs a step once, the gate's, one of timed processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Unpack

    from perfguard import window as windows
    from perfguard.capture.mindspore_options import ProfilerOptions
    from perfguard.recording import Recording

Batch = TypeVar("Batch")


class Callback(Protocol):
    """A `mindspore.train.Callback` that records a window of a training: `Model.train(callbacks=[callback])`.

    In a loop of your own: `with callback:` around the loop, `with callback.step():` around each step. Made without a window
    it has `start()` and `stop()` instead.
    """

    @property
    def recording(self) -> Recording | None:
        """The recording, once the window is over or the training has ended."""

    def __enter__(self) -> Callback: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def step(self) -> AbstractContextManager[None]:
        """Run the body of a `with` as the next step."""

    def start(self) -> None:
        """Start the recording."""

    def stop(self) -> None:
        """End the recording that `start` began."""

    def close(self) -> Recording | None:
        """End the recording after the last step, and return it."""


class Guard(Protocol):
    """What the `perfguard` fixture gives a test: `def test_train(perfguard: Guard) -> None`."""

    @property
    def StepWindow(self) -> type[windows.StepWindow]:
        """The class `perfguard.StepWindow`; in a test `perfguard` is the fixture, not the module."""

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Measure, profile and judge a callable: one step of the workload, without arguments."""

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Put the window around the test's own loop: `for batch in perfguard.steps(loader): train(batch)`."""

    def replay(self, directory: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Judge a directory that a profiler wrote elsewhere."""

    def script(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        name: str | None = None,
        window: str | windows.StepWindow | None = None,
        python: str | os.PathLike[str] | None = None,
        launcher: str | None = None,
        ranks: int = 1,
        options: Mapping[str, Any] | None = None,
        graphs: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run an unmodified command under the profiler and judge the recording, as `perfguard run` does.

        `window` is a text such as "10:20", or a `StepWindow`; `launcher` is "msrun" or "torchrun". `options` are those of
        MindSpore's profiler, and `graphs` is the level at which MindSpore saves its graphs. After `timeout` seconds the command
        is stopped.
        """

    def callback(
        self,
        *,
        name: str | None = None,
        start_step: int | None = None,
        stop_step: int | None = None,
        start_epoch: int | None = None,
        stop_epoch: int | None = None,
        window: windows.StepWindow | None = None,
        timed_steps: int | None = None,
        via: str = "profile",
        **options: Unpack[ProfilerOptions],
    ) -> Callback:
        """Return a MindSpore callback for `Model.train`; its recording is judged at the end of the test.

        The window is as in `perfguard.callback`; without one it is the test's own, with its timed steps. `options` are those
        of MindSpore's profiler.
        """

    def trainer_callback(self, *, name: str | None = None) -> Any:
        """Return a `transformers.TrainerCallback` that drives the window: `Trainer(..., callbacks=[callback])`.

        A step is an optimizer step. The training stops when the window is over, and is judged when the test has ended.
        """

    def lightning_callback(self, *, name: str | None = None) -> Any:
        """Return a `lightning.pytorch.Callback` that drives the window: `Trainer(..., callbacks=[callback])`.

        A step is an optimizer step. The training stops when the window is over, and is judged when the test has ended.
        """
