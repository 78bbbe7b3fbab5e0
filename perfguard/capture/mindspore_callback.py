"""The MindSpore callback: watches the steps or epochs of `Model.train`, or of a loop of one's own, for the driver.

MindSpore tells a callback of an exception by leaving its context (`CallbackManager` enters every callback of a training), so
nothing is left profiling. What never leaves, or is forgotten, is closed as interrupted when the process ends.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from perfguard.capture.driver import Driver
from perfguard.capture.environment import package_version
from perfguard.capture.mindspore_backend import MindSporeBackend, require_no_warmup, require_via
from perfguard.capture.mindspore_options import mindspore_options
from perfguard.errors import CaptureError, UsageError
from perfguard.recording import PROFILER_DIRECTORY, Recording
from perfguard.window import StepWindow

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfguard.capture.mindspore_parameters import ProfilerOptions

Unit = Literal["step", "epoch"]
OnEnd = Callable[[Recording], None]

#: Between start() and stop() of a loop of one's own lies one step, however many it ran.
_ONE = StepWindow(skip_first=0, warmup=0, active=1)


class _Kept:
    """The driver, and how many steps were begun: what is left to close when the watch itself is gone."""

    __slots__ = ("begun", "driver")

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.begun = 0

    def interrupt(self) -> None:
        """End what nobody closed, and leave nothing where nothing was begun."""
        if self.driver.has_ended:
            return
        if self.begun:
            self.driver.abort(KeyboardInterrupt("the recording was not closed before the process ended"))
        else:
            _forget(self.driver.directory)


class Watch:
    """Tells a driver of the edges of steps it only watches. Made by `callback` and `mindspore_callback`, used once.

    It is given to `Model.train(callbacks=...)`. In a loop of one's own it is a context manager: `with watch:` around the loop,
    `with watch.step():` around every step; or, made without a window, `start()` and `stop()`.
    """

    def __init__(
        self, driver: Driver, unit: Unit, on_end: OnEnd | None, later: Callable[[int], Driver] | None, is_open: bool
    ) -> None:
        self._kept = _Kept(driver)
        self._unit = unit
        self._on_end = on_end
        self._later = later
        self._is_open = is_open
        self._depth = 0
        #: "train" or "loop", once it is used.
        self._use = ""
        self._is_training = self._is_refused = self._has_evaluated = self._was_told = False
        # MindSpore was imported before, so at exit this runs before it takes its runtime down; finalize's own might not.
        weakref.finalize(self, self._kept.interrupt).atexit = False
        atexit.register(self._kept.interrupt)

    @property
    def recording(self) -> Recording | None:
        """The recording, once the window is over or the training has ended."""
        return self._driver.recording

    @property
    def is_used(self) -> bool:
        """Whether a training or a loop has begun to use it."""
        return bool(self._use)

    @property
    def directory(self) -> Path:
        """Where the recording is written."""
        return self._driver.directory

    # -- what MindSpore calls ------------------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        # `Model.fit` enters it again to evaluate; `Model.eval` alone is nothing to us.
        if self._depth or self._is_refused or (self._has_evaluated and not self._use):
            return
        if error is None:
            self.close()
        else:
            self._abort(error)

    def on_train_begin(self, run_context: Any) -> None:
        """Refuse what cannot be recorded, before the first step."""
        parameters = run_context.original_args()
        if self._is_open:
            self._refuse(
                "This callback has no window; say perfguard.callback(DIR, start_step=10, stop_step=20), or start_epoch and "
                "stop_epoch."
            )
        if self._unit == "step" and parameters.get("dataset_sink_mode"):
            self._refuse(
                "In data-sink mode the device runs a whole epoch by itself, so a window of steps cannot be recorded; name "
                "epochs: perfguard.callback(DIR, start_epoch=2, stop_epoch=2), or train with dataset_sink_mode=False."
            )
        self._take("train")
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
        """End an epoch, with the evaluation that `Model.fit` ran in it."""
        if self._unit == "epoch":
            self._end()

    def on_train_end(self, run_context: Any) -> None:
        """Close the recording: there are no more steps."""
        self._is_training = False
        self.close()

    def on_eval_begin(self, run_context: Any) -> None:
        """End a window of steps that an evaluation breaks in two: what it ran would be counted as training."""
        self._has_evaluated = True
        window = self._driver.window
        is_inside = self._kept.begun > window.skip_first + self._driver.timed_steps and not self._driver.has_ended
        if self._is_training and self._unit == "step" and is_inside:
            self._close("{} steps were run before an evaluation began inside the window")

    def on_eval_epoch_begin(self, run_context: Any) -> None:
        """Nothing: an evaluation is not recorded by itself."""

    def on_eval_step_begin(self, run_context: Any) -> None:
        """Nothing: an evaluation is not recorded by itself."""

    def on_eval_step_end(self, run_context: Any) -> None:
        """Nothing: an evaluation is not recorded by itself."""

    def on_eval_epoch_end(self, run_context: Any) -> None:
        """Nothing: an evaluation is not recorded by itself."""

    def on_eval_end(self, run_context: Any) -> None:
        """Nothing: an evaluation is not recorded by itself."""

    # -- a loop of one's own -------------------------------------------------------------------------------------------

    @contextmanager
    def step(self) -> Iterator[None]:
        """Run the body as the next step. After the window it runs as if this were not there."""
        if self._is_open:
            raise UsageError(
                "This callback has no window to count steps in; say start_step and stop_step when making it."
            )
        self._take("loop")
        self._begin()
        try:
            yield
        except BaseException as error:
            self._abort(error)
            raise
        self._end()

    def start(self) -> None:
        """Begin recording. Raises `UsageError` where the window says when to begin, and when it was begun before."""
        if not self._is_open:
            raise UsageError(
                "The window says which steps are recorded, so start() has nothing to say; put `with callback.step():` "
                "around every step, or make it without a window."
            )
        if self._use:
            raise UsageError(
                f"start() was called before, and {self.directory} holds one recording; make another callback."
            )
        self._take("loop")
        self._begin()

    def stop(self) -> None:
        """End what `start` began, and write the recording. Raises `UsageError` when nothing was begun."""
        if not self._is_open or not self._use:
            raise UsageError("stop() ends what start() began, and nothing was begun; call start() first.")
        self._end()

    def close(self) -> Recording | None:
        """Say that there are no more steps, and return the recording; a window that is not over is an error in it."""
        return self._close(f"{{}} {self._unit}s were run")

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _driver(self) -> Driver:
        return self._kept.driver

    def _take(self, use: str) -> None:
        if self._use and (use == "train" or self._use != use):
            self._refuse(
                f"This callback has recorded already ({self.directory}), and a recording is of one training; make another "
                "callback for every Model.train."
            )
        self._use = use

    def _refuse(self, sentence: str) -> None:
        self._is_refused = not self._kept.begun
        _forget(self.directory)
        raise UsageError(sentence)

    def _begin_number(self, number: int) -> None:
        """Begin a step that MindSpore has a number for; a training that is resumed does not begin at 1."""
        if not self._kept.begun and number > 1:
            if self._later is None:
                self._refuse(
                    f"This training goes on at {self._unit} {number}, and the window counts from the first one that runs; "
                    f"make the callback with perfguard.callback(DIR, start_{self._unit}=..., stop_{self._unit}=...)."
                )
            else:
                try:
                    self._kept.driver = self._later(number - 1)
                except UsageError as error:
                    self._refuse(str(error))
        self._begin()

    def _begin(self) -> None:
        try:
            if self._driver.begin():
                self._kept.begun += 1
        except CaptureError as error:
            self._abort(error)
            raise

    def _end(self) -> None:
        try:
            self._driver.end()
        except CaptureError as error:
            self._abort(error)
            raise
        self._tell()

    def _close(self, what: str) -> Recording | None:
        try:
            self._driver.close(what)
        except CaptureError as error:
            self._abort(error)
            raise
        self._tell()
        return self.recording

    def _abort(self, error: BaseException) -> None:
        self._driver.abort(error)
        self._tell()

    def _tell(self) -> None:
        if self._driver.has_ended:
            atexit.unregister(self._kept.interrupt)
        if self._on_end is not None and self.recording is not None and not self._was_told:
            self._was_told = True
            self._on_end(self.recording)


class Idle:
    """Has the methods of `Watch`, and does nothing: what a training is given where nothing is recorded."""

    recording = None
    is_used = False

    def __enter__(self) -> Idle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @contextmanager
    def step(self) -> Iterator[None]:
        """Run the body."""
        yield

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def plain_callback() -> Idle:
    """Return a `mindspore.train.Callback` that can be used as `perfguard.callback`'s can, and records nothing."""
    made: Idle = _callback_class(Idle)()
    return made


def callback(driver: Driver, *, unit: Unit = "step", on_end: OnEnd | None = None) -> Watch:
    """Return a `mindspore.train.Callback` that tells `driver` of every step, or every epoch, of a training.

    With `unit="epoch"` a step of the driver's window is an epoch. `on_end` is given the recording once, however it ended.
    """
    if unit not in ("step", "epoch"):
        raise UsageError(f"unit={unit!r} is not known; say 'step' or 'epoch'.")
    return _made(driver, unit, on_end, None, False)


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
) -> Watch:
    """Return a callback for `Model.train` that records a window of it into the directory `output`.

    Steps and epochs count from 1, and the last one is included; in data-sink mode an epoch is the smallest window. Before the
    window `timed_steps` steps are timed without the profiler. `options` are those of MindSpore's profiler; memory is recorded
    unless `profile_memory=False`. `workload` is the recording's name: `train`, or `train-by-epoch`. Without a window it is
    for a loop of one's own, with `start()` and `stop()`.

    Raises `UsageError` for a window that is none, for options this MindSpore ignores, and where `output` holds something.
    """
    require_via(via)
    unit, asked = _window(start_step, stop_step, start_epoch, stop_epoch, window)
    require_no_warmup(via, asked)
    if isinstance(timed_steps, bool) or not isinstance(timed_steps, int) or timed_steps < 0:
        raise UsageError(f"timed_steps={timed_steps!r} must be an integer of at least 0.")
    if window is None and timed_steps > asked.skip_first:
        raise UsageError(
            f"timed_steps={timed_steps} do not fit before the window, which has {asked.skip_first} {unit}s before it; begin "
            "it later, or time fewer."
        )
    backend = _backend(via, dict(options))
    directory = _directory(Path(output), backend)

    def driver(skipped: int) -> Driver:
        before = asked.skip_first - skipped - (timed_steps if window is None else 0)
        if before < 0:
            timed = f" with its {timed_steps} timed {unit}s" if timed_steps else ""
            raise UsageError(
                f"This training goes on at {unit} {skipped + 1}, and the window{timed} begins earlier; name a later one."
            )
        return Driver(
            backend,
            workload=workload or ("train" if unit == "step" else "train-by-epoch"),
            directory=directory,
            window=replace(asked, skip_first=before),
            timed_steps=timed_steps,
        )

    return _made(driver(0), unit, on_end, driver, window is None and start_step is None and start_epoch is None)


def _window(
    start_step: int | None,
    stop_step: int | None,
    start_epoch: int | None,
    stop_epoch: int | None,
    window: StepWindow | None,
) -> tuple[Unit, StepWindow]:
    steps = (start_step, stop_step)
    epochs = (start_epoch, stop_epoch)
    given = [name for name, pair in (("start_step", steps), ("start_epoch", epochs)) if pair != (None, None)]
    given += ["window"] if window is not None else []
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are given, and there is one window; say one of them.")
    if window is not None:
        if not isinstance(window, StepWindow):
            raise UsageError(f"window={window!r} is no StepWindow; say perfguard.StepWindow(skip_first=10, active=5).")
        return "step", window
    if not given:
        return "step", _ONE
    unit: Unit = "step" if given == ["start_step"] else "epoch"
    start, stop = steps if unit == "step" else epochs
    if start is None or stop is None:
        raise UsageError(
            f"start_{unit}={start}, stop_{unit}={stop} is half a window; say both, the last {unit} is included."
        )
    try:
        return unit, StepWindow.from_start_stop(start, stop)
    except UsageError as error:
        raise UsageError(str(error).replace("step", unit)) from None


def _backend(via: str, options: dict[str, Any]) -> MindSporeBackend:
    plain = MindSporeBackend(via=via)  # Says what is missing when MindSpore is.
    import mindspore

    device = str(mindspore.get_context("device_target")).lower()
    if device in ("cpu", "ascend"):
        options.setdefault("profile_memory", True)
    version = package_version("mindspore") or str(mindspore.__version__)
    made = mindspore_options(version, options, surface="Profiler" if via == "Profiler" else "profile", device=device)
    return MindSporeBackend(made, via) if made.asked != {"profile_memory": True} else plain


def _directory(output: Path, backend: MindSporeBackend) -> Path:
    world_size, rank = backend.world()
    directory = output / f"rank_{rank}" if world_size > 1 else output
    if directory.is_dir():
        if any(directory.iterdir()):
            raise UsageError(
                f"{directory} holds something already, and a recording is not mixed with another; name another directory, or "
                "move that one away."
            )
    elif directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} is not a directory; name one to record into.")
    return directory


def _made(
    driver: Driver, unit: Unit, on_end: OnEnd | None, later: Callable[[int], Driver] | None, is_open: bool
) -> Watch:
    made: Watch = _callback_class(Watch)(driver, unit, on_end, later, is_open)
    return made


@cache
def _callback_class(kind: type) -> type:
    """Return `Watch` or `Idle` as what MindSpore takes for a callback."""
    from mindspore.train import Callback

    # A class body would need the framework when this module is imported.
    return type(f"Perfguard{kind.__name__}", (kind, Callback), {"__doc__": kind.__doc__})


def _forget(directory: Path) -> None:
    """Remove the empty directories of a recording that was refused, so that the same call can be made again."""
    for one in (directory / PROFILER_DIRECTORY, directory):
        if one.is_dir() and not any(one.iterdir()):
            one.rmdir()
