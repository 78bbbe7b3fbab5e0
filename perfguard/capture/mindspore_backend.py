"""The MindSpore backend: `mindspore.profiler.profile` or `mindspore.Profiler`, GRAPH and PyNative mode. From MindSpore 2.7 on.

Run for real on a CPU (MindSpore 2.7 and 2.10). Ascend uses the same code; it was not run on a device.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfguard.capture import Target
from perfguard.capture.environment import cpu_model, package_version
from perfguard.capture.mindspore_options import MindSporeOptions
from perfguard.errors import CaptureError, UsageError, nearest
from perfguard.version import install_command
from perfguard.window import Phase, StepWindow

#: The profiler to use: the one with a schedule, or the deprecated class with start, stop and analyse.
VIA = ("profile", "Profiler")
#: Options that the backend sets, from the window and the recording's directory.
_OWN = ("output_path", "schedule", "on_trace_ready", "start_profile")
_LOST = (
    "another MindSpore profiler was made in this process during the recording; MindSpore has only one, so both are lost: make "
    "it before the window begins or after it ends"
)

#: MindSpore's number of threads, which can be set once per process; 0 if the program set it.
_threads_of_process: int | None = None
#: Whether memory was recorded in this process: on a CPU MindSpore cannot switch it off again.
_memory_of_process = False


class MindSporeBackend:
    """Profiles with MindSpore's own profiler: operators, memory, shapes of inputs; one directory per cycle.

    Without `options` memory is recorded, on an Ascend device the device as well. `via="profile"` uses
    `mindspore.profiler.profile` with the window as its schedule, `via="Profiler"` the deprecated `mindspore.Profiler`: start,
    stop and analyse around the active steps of every cycle, without warm-up. Raises `UsageError` for options that the backend
    sets itself.
    """

    name = "mindspore"

    def __init__(self, options: MindSporeOptions | None = None, via: str = "profile") -> None:
        require_via(via)
        if options is not None:
            _require_suitable(options, via)
        self.conditions = {"memory": True} if options is None else options.conditions
        self._options = options
        self._via = via
        self._mindspore = imported_mindspore()
        self._threads = 0
        self._synchronous_before = False
        self._profiler: Any = None
        self._is_set = False
        self._directory = ""
        self._owner: Any = None
        self._path_before: Any = None
        self._phases: Iterator[tuple[Phase, int]] = iter(())
        self._steps_per_cycle = self._done = 0

    def prepare(self, threads: int) -> None:
        """Set the threads of CPU kernels and of the runtime.

        MindSpore accepts both once per process. If the program has set them already, they stay, and are recorded as 0
        (MindSpore cannot read them). Raises `CaptureError` if an earlier test of this process set other ones.
        """
        global _threads_of_process
        if _threads_of_process is None:
            _threads_of_process = threads if _set_threads(self._mindspore, threads) else 0
        if _threads_of_process not in (0, threads):
            raise CaptureError(
                f"MindSpore accepts a number of threads once per process: it has {_threads_of_process}, this test needs "
                f"{threads}. Give all MindSpore tests the same threads=, or run this one in its own pytest."
            )
        self._threads = _threads_of_process

    def restore(self) -> None:
        """Do nothing: MindSpore's threads cannot be set twice."""

    def target(self) -> Target:
        """Return device, mode, rank and versions."""
        mindspore = self._mindspore
        device = str(mindspore.get_context("device_target"))
        is_graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
        from mindspore.communication import get_group_size, get_rank

        try:
            world_size, rank = int(get_group_size()), int(get_rank())
        except (RuntimeError, ValueError):
            # Raised if no communication was initialised: one process.
            world_size, rank = 1, 0
        return Target(
            device=device.lower(),
            mode="graph" if is_graph else "pynative",
            world_size=world_size,
            rank=rank,
            threads=self._threads,
            device_name=cpu_model() if device == "CPU" else device,
            packages={"mindspore": str(mindspore.__version__)},
        )

    def synchronize(self) -> None:
        """Wait for everything dispatched.

        On a CPU the first `runtime.synchronize()` of a process only logs an error and returns (2.10,
        runtime/stream.py); the function that it calls works every time.
        """
        from mindspore.runtime import stream

        getattr(stream, "synchronize_", self._mindspore.runtime.synchronize)()

    def start(self, directory: Path, window: StepWindow) -> None:
        """Start the profiler with the window as its schedule.

        PyNative operators run one after the other while it is on (`pynative_synchronize`): otherwise chance decides whether
        Python frees a tensor before or after the runtime allocates the next one, and 59 of 160 steps of a LeNet differed; with
        it none (benchmarks/memory_exactness.py). The timed steps run without it.
        """
        require_no_warmup(self._via, window)
        if _interface().is_initialized:
            raise CaptureError(
                "another MindSpore profiler is running in this process, and MindSpore has only one; stop it, or unset "
                "MS_PROFILER_OPTIONS"
            )
        self._refuse_memory_that_stays_on()
        self._synchronous_before = bool(self._mindspore.get_context("pynative_synchronize"))
        self._path_before = _context().on_trace_ready_output_path
        self._is_set = True
        self._set_synchronous(True)
        self._directory = str(directory)
        if self._via == "profile":
            self._make(schedule=self._mindspore.profiler.schedule(**{**window.as_dict(), "skip_first": 0}))
        else:
            self._phases = window.profiler_phases()
            self._steps_per_cycle, self._done = window.steps_per_cycle, 0
            self._begin_step()
        if window.wait == 0 and not _interface().is_initialized:
            raise CaptureError("MindSpore's profiler did not start; see its own log")

    def _make(self, **schedule: Any) -> None:
        """Make and start a profiler: with a schedule, or the deprecated class for the steps of one cycle."""
        # The directory of a handler wins over output_path and stays for the whole process.
        handler = self._handler()
        if schedule:
            # It starts as it is made.
            self._profiler = self._mindspore.profiler.profile(**self._keywords(), **schedule, on_trace_ready=handler)
        else:
            self._profiler = self._mindspore.profiler.Profiler(start_profile=False, **self._keywords())
        self._owner = _parameters()
        if not schedule:
            self._profiler.start()

    def _handler(self) -> Any:
        """Return the handler that analyses; it also sets the directory of MindSpore's output."""
        _context().on_trace_ready_output_path = None
        handler = self._mindspore.profiler.tensorboard_trace_handler(self._directory)
        path = _context().on_trace_ready_output_path
        if path is None or os.path.realpath(path) != os.path.realpath(self._directory):
            # It logs that, and writes into ./data.
            raise CaptureError(
                f"MindSpore does not accept the path {self._directory}; name a directory of letters, digits, '.', '-' and '_'"
            )
        return handler

    def _begin_step(self) -> None:
        if next(self._phases, (None, 0))[0] is Phase.ACTIVE and self._profiler is None:
            self._make()

    def _shut(self) -> None:
        """Stop the current profiler, if there is one, and let it analyse."""
        is_ours = self._is_ours()
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        if not is_ours:
            _abandon(profiler)
            raise CaptureError(_LOST)
        profiler.stop()
        if self._via == "Profiler":
            profiler.analyse()

    def _keywords(self) -> dict[str, Any]:
        keywords: dict[str, Any] = {"profile_memory": True} if self._options is None else self._options.keywords()
        if "activities" not in keywords:
            kinds = self._mindspore.profiler.ProfilerActivity
            on_ascend = self._mindspore.get_context("device_target") == "Ascend"
            keywords["activities"] = [kinds.CPU, kinds.NPU] if on_ascend else [kinds.CPU]
        return keywords

    def advance(self) -> None:
        """Count a step in the profiler's schedule; without `synchronize` before it operators would leave the window."""
        if not self._is_ours():
            raise CaptureError(_LOST)
        if self._via == "profile":
            self._profiler.step()
            return
        self._done += 1
        if self._done % self._steps_per_cycle == 0:
            self._shut()
        self._begin_step()

    def stop(self) -> None:
        """Stop the profiler and let it analyse."""
        if not self._is_set:
            return
        self._is_set = False
        try:
            self._shut()
        finally:
            # Else the next profile would be written into this recording.
            _context().on_trace_ready_output_path = self._path_before
            self._set_synchronous(self._synchronous_before)

    def _refuse_memory_that_stays_on(self) -> None:
        global _memory_of_process
        is_requested = self.conditions.get("memory", False)
        if _memory_of_process and not is_requested and self._mindspore.get_context("device_target") == "CPU":
            raise CaptureError(
                "profile_memory=False has no effect: memory was recorded in this process before, and on a CPU MindSpore "
                "cannot switch that off again; record this one in its own process"
            )
        _memory_of_process = _memory_of_process or is_requested

    def _is_ours(self) -> bool:
        """Whether no other profiler was made since: that replaces the parameters of the process's one profiler."""
        return self._profiler is None or _parameters() is self._owner

    def _set_synchronous(self, value: bool) -> None:
        if self._mindspore.get_context("mode") == self._mindspore.PYNATIVE_MODE:
            self._mindspore.set_context(pynative_synchronize=value)


# MindSpore has one profiler per process. It logs the errors of a second one and raises nothing; these functions detect it.


def _interface() -> Any:
    from mindspore.profiler.profiler_interface import ProfilerInterface

    return ProfilerInterface


def _context() -> Any:
    from mindspore.profiler.common.profiler_context import ProfilerContext

    return ProfilerContext()


def _parameters() -> Any:
    return _context()._profiler_params_mgr


def _abandon(profiler: Any) -> None:
    """Stop a profiler whose parameters another one has replaced."""
    try:
        profiler.stop()
    except ValueError as error:
        # Up to 2.7 it raises for its missing directory; later versions log it.
        raise CaptureError(_LOST) from error
    finally:
        # Else MindSpore would count this profiler as running forever.
        if _interface().is_initialized:
            _interface().clear()


def imported_mindspore() -> Any:
    """Return MindSpore, or raise `CaptureError` with how to get a suitable one."""
    numpy = package_version("numpy") or ""
    if package_version("mindspore") is None:
        raise CaptureError(
            f"The mindspore backend needs MindSpore, and it is not installed. Run: {install_command('mindspore')}"
        )
    if numpy.split(".")[0] not in ("0", "1"):
        # Its wheel does not require that, and PyNative operators raise a SystemError.
        raise CaptureError(
            f"MindSpore's wheels are built against numpy 1, and numpy {numpy} is installed. Run: pip install 'numpy<2'"
        )
    try:
        import mindspore
    except ImportError as error:
        raise CaptureError(
            f"The mindspore backend needs MindSpore, and it cannot be imported ({error}). "
            f"Run: {install_command('mindspore')}"
        ) from error
    if not hasattr(mindspore, "runtime") or not hasattr(mindspore.profiler, "schedule"):
        raise CaptureError(
            f"MindSpore {mindspore.__version__} has no profiler with a schedule. Run: pip install 'mindspore>=2.7'"
        )
    return mindspore


def require_via(via: str) -> None:
    """Raise `UsageError` for an unknown profiler."""
    if via not in VIA:
        raise UsageError(f"via={via!r} is not known; {nearest(str(via), VIA)}")


def require_no_warmup(via: str, window: StepWindow) -> None:
    """Raise `UsageError` for a window that `via` cannot record."""
    if via == "Profiler" and window.warmup:
        raise UsageError(
            f"mindspore.Profiler has no warm-up, and the window has warmup={window.warmup}; set it to 0, or use "
            "via='profile'."
        )


def _require_suitable(options: MindSporeOptions, via: str) -> None:
    for name in _OWN:
        if name in options.requested:
            raise UsageError(f"{name}={options.requested[name]!r}: perfguard sets it from the window; leave it out.")
    if via == "profile" and options.requested.get("data_process") is True:
        raise UsageError(
            "data_process=True is reset by a schedule, and a window needs one; use via='Profiler', or leave it out."
        )


def _set_threads(mindspore: Any, threads: int) -> bool:
    from mindspore.runtime import dispatch_threads_num

    try:
        dispatch_threads_num(threads)
        mindspore.device_context.cpu.op_tuning.threads_num(threads)
    except RuntimeError:
        # "can not be set repeatedly": the program has set it.
        return False
    return True
