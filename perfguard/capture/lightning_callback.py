"""The callback for Lightning's `Trainer`: an optimizer step of the training is a step of the window."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from perfguard.capture.training import Training
from perfguard.errors import CaptureError
from perfguard.version import install_command


def lightning_callback(training: Training[Any]) -> Any:
    """Return a `lightning.pytorch.Callback` for one `Trainer.fit()`. Raises `CaptureError` without Lightning.

    After the window the training stops.
    """
    # Lightning has two packages with classes of their own; the test has imported one of them.
    is_old = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    return _callback_class("pytorch_lightning" if is_old else "lightning.pytorch")(training)


@cache
def _callback_class(package: str) -> Any:
    try:
        parent: Any = import_module(package).Callback
    except ImportError as error:
        raise CaptureError(
            f"perfguard.lightning_callback() needs Lightning, and it cannot be imported ({error}). "
            f"Run: {install_command('lightning')}"
        ) from error

    # The class statement needs the framework, which is not imported with this module.
    class PerfguardCallback(parent):  # type: ignore[misc]
        """Reports the steps of a training to perfguard."""

        def __init__(self, training: Training[Any]) -> None:
            self.training = training
            #: The optimizer steps before the step that has begun; None between steps.
            self.before: int | None = None

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            """Begin; a fit that trains nothing has no on_train_start."""
            self.training.begin()

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            """Note an epoch."""
            self.training.begin_epoch()

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """Begin a step with the first batch after the last optimizer step."""
            if self.before is None:
                self.before = trainer.global_step
                self.training.begin_step()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """End a step if the optimizer has stepped; with gradient accumulation that is not every batch."""
            if self.before is not None and trainer.global_step > self.before:
                self.before = None
                if self.training.end_step():
                    trainer.should_stop = True

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            """Note an evaluation."""
            self.training.evaluate()

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            """End."""
            self.training.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """End after an error in a step."""
            self.training.fail(exception)

    return PerfguardCallback
