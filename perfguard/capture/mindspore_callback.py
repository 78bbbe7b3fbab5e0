"""The MindSpore callback: passes the steps or epochs of `Model.train`, or of the user's own loop, to the driver.

`CallbackManager` enters every callback of a training as a context manager, so an exception of the training reaches `__exit__`
and no profiler stays on. A callback that is never left ends as interrupted when the process ends.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from perfguard.capture.driver import Driver
from perfguard.capture.environment import package_version
from perfguard.capture.mindspore_backend import MindSporeBackend, imported_mindspore, require_no_warmup, require_via
from perfguard.capture.mindspore_options import mindspore_options
from perfguard.capture.training import EVALUATED
from perfguard.errors import CaptureError, UsageError
from perfguard.recording import PROFILER_DIRECTORY, Recording
from perfguard.window import StepWindow

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfguard.capture.mindspore_options import ProfilerOptions

Unit = Literal["step", "epoch"]
OnEnd = Callable[[Recording], None]
Result = TypeVar("Result")

#: Between start() and stop() of the user's own loop is one step, whatever it ran.
_ONE = StepWindow(skip_first=0, warmup=0, active=1)


class _Capture:
    """The driver, and how many steps have begun: all that is needed to end a capture whose callback was deleted."""

    __slots__ = ("begun", "driver")

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.begun = 0

    def interrupt(self) -> None:
        """End a capture that was not closed, and delete the directories of one without a step."""
        if self.driver.has_ended:
            return
        if self.begun:
            self.driver.abort(KeyboardInterrupt("the recording was not closed before the process ended"))
        else:
            _forget(self.driver.directory)


class RecordingCallback:
    """Records one training. Made by `mindspore_callback`, used once. `driver` makes the driver after some skipped steps.

    Pass it to `Model.train(callbacks=...)`. In the user's own loop it is a context manager: `with callback:` around the loop,
    `with callback.step():` around every step; or, made without a window, `start()` and `stop()`.
    """

    def __init__(self, driver: Callable[[int], Driver], unit: Unit, on_end: OnEnd | None, is_open: bool) -> None:
        self._capture = _Capture(driver(0))
        self._unit = unit
        self._on_end = on_end
        self._later = driver
        self._is_open = is_open
        self._depth = 0
        #: "train" or "loop" after the first use.
        self._use = ""
        self._is_training = self._is_refused = self._has_evaluated = self._is_reported = False
        # MindSpore was imported before, so atexit runs this before MindSpore ends its runtime; finalize's own hook might not.
        weakref.finalize(self, self._capture.interrupt).atexit = False
        atexit.register(self._capture.interrupt)

    @property
    def recording(self) -> Recording | None:
        """The recording, once the window is over or the training has ended."""
        return self._driver.recording

    @property
    def is_used(self) -> bool:
        """Whether a training or a loop has used it."""
        return bool(self._use)

    # -- called by MindSpore -------------------------------------------------------------------------------------------

    def __enter__(self) -> RecordingCallback:
        self._depth += 1
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._depth -= 1
        # `Model.fit` enters it again to evaluate; `Model.eval` alone is not recorded.
        if self._depth or self._is_refused or (self._has_evaluated and not self._use):
            return
        if error is None:
            self.close()
        else:
            self._abort(error)

    def on_train_begin(self, run_context: Any) -> None:
        """Refuse a training that cannot be recorded, before the first step."""
        parameters = run_context.original_args()
        if self._is_open:
            self._refuse(
                "This callback has no window; write perfguard.callback(DIR, start_step=10, stop_step=20), or start_epoch and "
                "stop_epoch."
            )
        if self._unit == "step" and parameters.get("dataset_sink_mode"):
            self._refuse(
                "In data-sink mode the device runs a whole epoch by itself, so a window of steps cannot be recorded; name "
                "epochs: perfguard.callback(DIR, start_epoch=2, stop_epoch=2), or train with dataset_sink_mode=False."
            )
        self._use_for("train")
        self._is_training = True

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Begin an epoch."""
        if self._unit == "epoch":
            self._begin_number(run_context.original_args().cur_epoch_num)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Begin a step."""
        if self._unit == "step":
            self._begin_number(run_context.original_args().cur_step_num)

    def on_train_step_end(self, run_context: Any) -> None:
        """End a step."""
        if self._unit == "step":
            self._end()

    def on_train_epoch_end(self, run_context: Any) -> None:
        """End an epoch, which includes the evaluation of `Model.fit`."""
        if self._unit == "epoch":
            self._end()

    def on_train_end(self, run_context: Any) -> None:
        """Close the recording: there are no more steps."""
        self._is_training = False
        self.close()

    def on_eval_begin(self, run_context: Any) -> None:
        """End a window of steps that an evaluation interrupts: its operators would count as those of the training."""
        self._has_evaluated = True
        if self._is_training and self._unit == "step" and self._driver.is_profiling:
            self._close(EVALUATED)

    # -- the user's own loop -------------------------------------------------------------------------------------------

    @contextmanager
    def step(self) -> Iterator[None]:
        """Run the body as the next step; after the window it is not recorded."""
        if self._is_open:
            raise UsageError("This callback has no window to count steps in; make it with start_step and stop_step.")
        self._use_for("loop")
        self._begin()
        try:
            yield
        except BaseException as error:
            self._abort(error)
            raise
        self._end()

    def start(self) -> None:
        """Begin recording. Raises `UsageError` if a window decides that, and for a second call."""
        if not self._is_open:
            raise UsageError(
                "The window decides which steps are recorded, so start() has no effect; put `with callback.step():` "
                "around every step, or make the callback without a window."
            )
        if self._use:
            raise UsageError(
                f"start() was called before, and {self._driver.directory} holds one recording; make another callback."
            )
        self._use_for("loop")
        self._begin()

    def stop(self) -> None:
        """End after `start`, and write the recording. Raises `UsageError` without `start`."""
        if not self._is_open or not self._use:
            raise UsageError("stop() was called without start(); call start() first.")
        self._end()

    def close(self) -> Recording | None:
        """End after the last step, and return the recording; an incomplete window is an error in it."""
        return self._close(f"{{}} {self._unit}s were run")

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _driver(self) -> Driver:
        return self._capture.driver

    def _use_for(self, use: str) -> None:
        if self._use and (use == "train" or self._use != use):
            self._refuse(
                f"This callback has recorded already ({self._driver.directory}), and a recording is of one training; make a "
                "new callback for every Model.train."
            )
        self._use = use

    def _refuse(self, sentence: str) -> None:
        self._is_refused = not self._capture.begun
        _forget(self._driver.directory)
        raise UsageError(sentence)

    def _begin_number(self, number: int) -> None:
        """Begin a step by MindSpore's number; a resumed training does not begin at 1."""
        if not self._capture.begun and number > 1:
            try:
                self._capture.driver = self._later(number - 1)
            except UsageError as error:
                self._refuse(str(error))
        self._begin()

    def _begin(self) -> None:
        if self._drive(self._driver.begin):
            self._capture.begun += 1

    def _end(self) -> None:
        self._drive(self._driver.end)

    def _close(self, what: str) -> Recording | None:
        return self._drive(lambda: self._driver.close(what))

    def _drive(self, action: Callable[[], Result]) -> Result:
        try:
            result = action()
        except CaptureError as error:
            self._abort(error)
            raise
        self._report()
        return result

    def _abort(self, error: BaseException) -> None:
        self._driver.abort(error)
        self._report()

    def _report(self) -> None:
        if self._driver.has_ended:
            atexit.unregister(self._capture.interrupt)
        if self._on_end is not None and self.recording is not None and not self._is_reported:
            self._is_reported = True
            self._on_end(self.recording)


class IdleCallback:
    """Has the methods of `RecordingCallback` and does nothing, for a training that is not recorded."""

    recording = None
    is_used = False

    def __enter__(self) -> IdleCallback:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None: ...

    @contextmanager
    def step(self) -> Iterator[None]:
        """Run the body."""
        yield

    def close(self) -> None:
        """Do nothing."""

    start = stop = close


def plain_callback() -> IdleCallback:
    """Return a `mindspore.train.Callback` with the methods of `perfguard.callback`'s that records nothing."""
    made: IdleCallback = _callback_class(IdleCallback)()
    return made


def mindspore_callback(
    output: str | Path,
    *,
    start_step: int | None = None,
    stop_step: int | None = None,
    start_epoch: int | None = None,
    stop_epoch: int | None = None,
    window: StepWindow | None = None,
    via: str = "profile",
    workload: str | None = None,
    timed_steps: int = 0,
    on_end: OnEnd | None = None,
    **options: Unpack[ProfilerOptions],
) -> RecordingCallback:
    """Return a callback for `Model.train` that records a window of it into the directory `output`.

    Steps and epochs count from 1, and the last one is included; in data-sink mode an epoch is the smallest window. The
    `timed_steps` steps before the window (after a `window=`) are timed without the profiler. `options` are those of
    MindSpore's profiler; memory is recorded
    unless `profile_memory=False`. `workload` is the recording's name: `train`, or `train-by-epoch`. `on_end` is called once
    with the recording. Without a window it is for the user's own loop, with `start()` and `stop()`.

    Raises `UsageError` for an invalid window, for options that this MindSpore ignores, and if `output` is not empty.
    """
    require_via(via)
    unit, requested = _window(start_step, stop_step, start_epoch, stop_epoch, window)
    require_no_warmup(via, requested)
    if isinstance(timed_steps, bool) or not isinstance(timed_steps, int) or timed_steps < 0:
        raise UsageError(f"timed_steps={timed_steps!r} must be an integer of at least 0.")
    if window is None and timed_steps > requested.skip_first:
        raise UsageError(
            f"timed_steps={timed_steps} do not fit into the {requested.skip_first} {unit}s before the window; begin it "
            "later, or time fewer."
        )
    backend = _backend(via, dict(options))
    directory = _directory(Path(output), backend)

    def driver(skipped: int) -> Driver:
        before = requested.skip_first - skipped - (timed_steps if window is None else 0)
        if before < 0:
            timed = f" with its {timed_steps} timed {unit}s" if timed_steps else ""
            raise UsageError(
                f"This training resumes at {unit} {skipped + 1}, and the window{timed} begins earlier; name a later one."
            )
        return Driver(
            backend,
            workload=workload or ("train" if unit == "step" else "train-by-epoch"),
            directory=directory,
            window=replace(requested, skip_first=before),
            timed_steps=timed_steps,
            # A window named by its first and last step stays where it is.
            timed_first=window is None,
        )

    is_open = window is None and start_step is None and start_epoch is None
    made: RecordingCallback = _callback_class(RecordingCallback)(driver, unit, on_end, is_open)
    return made


def _window(
    start_step: int | None,
    stop_step: int | None,
    start_epoch: int | None,
    stop_epoch: int | None,
    window: StepWindow | None,
) -> tuple[Unit, StepWindow]:
    pairs = {"start_step": (start_step, stop_step), "start_epoch": (start_epoch, stop_epoch)}
    given = [name for name, pair in pairs.items() if pair != (None, None)]
    given += ["window"] if window is not None else []
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are given, and there can be one window only; leave one of them out.")
    if window is not None:
        if not isinstance(window, StepWindow):
            raise UsageError(f"window must be a perfguard.StepWindow(skip_first=10, active=5), got {window!r}.")
        return "step", window
    if not given:
        return "step", _ONE
    unit: Unit = "step" if given == ["start_step"] else "epoch"
    start, stop = pairs[given[0]]
    if start is None or stop is None:
        raise UsageError(
            f"start_{unit}={start}, stop_{unit}={stop} is half a window; give both, the last {unit} is included."
        )
    try:
        return unit, StepWindow.from_start_stop(start, stop)
    except UsageError as error:
        raise UsageError(str(error).replace("step", unit)) from None


def _backend(via: str, options: dict[str, Any]) -> MindSporeBackend:
    mindspore = imported_mindspore()
    device = str(mindspore.get_context("device_target")).lower()
    if device in ("cpu", "ascend"):
        options.setdefault("profile_memory", True)
    version = package_version("mindspore") or str(mindspore.__version__)
    made = mindspore_options(version, options, surface="Profiler" if via == "Profiler" else "profile", device=device)
    return MindSporeBackend(made if made.requested != {"profile_memory": True} else None, via)


def _directory(output: Path, backend: MindSporeBackend) -> Path:
    target = backend.target()
    directory = output / f"rank_{target.rank}" if target.world_size > 1 else output
    if directory.is_dir():
        if any(directory.iterdir()):
            raise UsageError(
                f"{directory} is not empty, and a recording is not mixed with other files; name another directory, or move "
                "that one away."
            )
    elif directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} is not a directory; name one to record into.")
    return directory


@cache
def _callback_class(kind: type) -> type:
    """Return a subclass of `RecordingCallback` or `IdleCallback` that MindSpore accepts as a callback."""
    from mindspore.train import Callback

    # A class body would need the framework when this module is imported.
    return type(f"Perfguard{kind.__name__}", (kind, Callback), {"__doc__": kind.__doc__})


def _forget(directory: Path) -> None:
    """Remove the empty directories of a refused recording, so that the same call can be repeated."""
    for one in (directory / PROFILER_DIRECTORY, directory):
        if one.is_dir() and not any(one.iterdir()):
            one.rmdir()
