"""The callback for `transformers.Trainer`: an optimizer step of the training is a step of the window."""

from __future__ import annotations

from functools import cache
from typing import Any

from perfguard.capture.training import Training
from perfguard.errors import CaptureError
from perfguard.version import install_command


def trainer_callback(training: Training[Any]) -> Any:
    """Return a `transformers.TrainerCallback` for one `Trainer.train()`. Raises `CaptureError` without transformers.

    After the window the training stops, without another evaluation or checkpoint.
    """
    return _callback_class()(training)


@cache
def _callback_class() -> Any:
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise CaptureError(
            f"perfguard.trainer_callback() needs transformers, and it cannot be imported ({error}). "
            f"Run: {install_command('trainer')}"
        ) from error

    # The class statement needs the framework, which is not imported with this module.
    class PerfguardCallback(TrainerCallback):  # type: ignore[misc]
        """Reports the steps of a training to perfguard."""

        def __init__(self, training: Training[Any]) -> None:
            self.training = training
            self.is_over = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Begin."""
            self.training.begin()

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Note an epoch."""
            self.training.begin_epoch()

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Begin a step: with gradient accumulation, the first of its batches."""
            self.training.begin_step()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
            """End a step: the optimizer has stepped."""
            self.is_over = self.training.end_step()
            return self._stopped(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
            """Leave out the work at the end of an epoch that was cut short."""
            return self._stopped(control)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Note an evaluation; there is no earlier event of one."""
            self.training.evaluate()

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """End."""
            self.training.end()

        def _stopped(self, control: Any) -> Any:
            if self.is_over:
                control.should_training_stop = True
                control.should_evaluate = control.should_save = False
            return control

    return PerfguardCallback
