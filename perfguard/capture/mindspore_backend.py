"""The MindSpore backend: `mindspore.profiler.profile` with a schedule, GRAPH and PyNative mode. MindSpore 2.7 and later.

Run for real on a CPU (MindSpore 2.10). Ascend goes through the same code; it was not run on a device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfguard.capture import Target
from perfguard.capture.environment import cpu_model, package_version
from perfguard.errors import CaptureError
from perfguard.window import StepWindow

#: What MindSpore's one setting of threads was set to; 0 when the program did it. The state is the process's, not ours.
_threads_of_process: int | None = None


class MindSporeBackend:
    """Profiles with MindSpore's own profiler: operators, memory, shapes of inputs; one directory a cycle."""

    name = "mindspore"

    def __init__(self) -> None:
        self.conditions = {"memory": True}
        numpy = package_version("numpy") or ""
        if package_version("mindspore") is None:
            raise CaptureError(
                "The mindspore backend needs MindSpore, and it is not installed. Run: pip install 'perfguard[mindspore]'"
            )
        if numpy.split(".")[0] not in ("0", "1"):
            # Its wheel does not say so, and PyNative operators die with a SystemError.
            raise CaptureError(
                f"MindSpore's wheels are built against numpy 1, and numpy {numpy} is installed. Run: pip install 'numpy<2'"
            )
        try:
            import mindspore
        except ImportError as error:
            raise CaptureError(
                f"The mindspore backend needs MindSpore, and it cannot be imported ({error}). "
                "Run: pip install 'perfguard[mindspore]'"
            ) from error

        if not hasattr(mindspore, "runtime") or not hasattr(mindspore.profiler, "schedule"):
            raise CaptureError(
                f"MindSpore {mindspore.__version__} has no profiler with a schedule. Run: pip install 'mindspore>=2.7'"
            )
        self._mindspore = mindspore
        self._threads = 0
        self._synchronous_before = False
        self._profiler: Any = None

    def prepare(self, threads: int) -> None:
        """Set the threads of CPU kernels and of the runtime.

        MindSpore takes both once a process. Where the program has set them already, they stay, and are recorded as 0
        (MindSpore does not tell them). Raises `CaptureError` when an earlier test of this process had other ones.
        """
        global _threads_of_process
        if _threads_of_process is None:
            _threads_of_process = threads if _set_threads(self._mindspore, threads) else 0
        if _threads_of_process not in (0, threads):
            raise CaptureError(
                f"MindSpore takes its number of threads once a process: it has {_threads_of_process}, this test wants "
                f"{threads}. Give all MindSpore tests the same threads=, or run this one in a pytest of its own."
            )
        self._threads = _threads_of_process

    def restore(self) -> None:
        """Nothing: MindSpore's threads cannot be set twice."""

    def target(self) -> Target:
        """Device, mode, rank and versions."""
        mindspore = self._mindspore
        device = str(mindspore.get_context("device_target"))
        graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
        world_size, rank = _world(mindspore)
        return Target(
            device=device.lower(),
            mode="graph" if graph else "pynative",
            world_size=world_size,
            rank=rank,
            threads=self._threads,
            device_name=cpu_model() if device == "CPU" else device,
            packages={"mindspore": str(mindspore.__version__)},
        )

    def synchronize(self) -> None:
        """Wait for everything dispatched.

        On a CPU the first `runtime.synchronize()` of a process only logs an error and returns (2.10,
        runtime/stream.py); the function below it does the work every time.
        """
        from mindspore.runtime import stream

        wait = getattr(stream, "synchronize_", None)
        if wait is None:
            self._mindspore.runtime.synchronize()
        else:
            wait()

    def start(self, directory: Path, window: StepWindow) -> None:
        """Start the profiler with the window as its schedule.

        PyNative operators run one after the other while it is on (`pynative_synchronize`): otherwise Python frees a tensor
        before or after the runtime allocates the next one, as the threads happen to run, and 59 of 160 steps of a LeNet
        differed; with it none (tests/benchmarks/memory_exactness.py). The timed steps do without it.
        """
        self._synchronous_before = bool(self._mindspore.get_context("pynative_synchronize"))
        self._set_synchronous(True)
        profiler = self._mindspore.profiler
        kinds = profiler.ProfilerActivity
        activities = [kinds.CPU]
        if self._mindspore.get_context("device_target") == "Ascend":
            activities.append(kinds.NPU)
        # It starts as it is made.
        self._profiler = profiler.profile(
            activities=activities,
            profile_memory=True,
            schedule=profiler.schedule(
                wait=window.wait, warmup=window.warmup, active=window.active, repeat=window.repeat, skip_first=0
            ),
            on_trace_ready=profiler.tensorboard_trace_handler(str(directory)),
        )

    def advance(self) -> None:
        """Tell the profiler that a step has ended; `synchronize` has been called, or the window would leak."""
        self._profiler.step()

    def stop(self) -> None:
        """Stop the profiler and let it analyse."""
        profiler, self._profiler = self._profiler, None
        try:
            if profiler is not None:
                profiler.stop()
        finally:
            self._set_synchronous(self._synchronous_before)

    def _set_synchronous(self, value: bool) -> None:
        if self._mindspore.get_context("mode") == self._mindspore.PYNATIVE_MODE:
            self._mindspore.set_context(pynative_synchronize=value)


def _set_threads(mindspore: Any, threads: int) -> bool:
    from mindspore.runtime import dispatch_threads_num

    try:
        dispatch_threads_num(threads)
        mindspore.device_context.cpu.op_tuning.threads_num(threads)
    except RuntimeError:
        # "can not be set repeatedly": the program was first.
        return False
    return True


def _world(mindspore: Any) -> tuple[int, int]:
    from mindspore.communication import get_group_size, get_rank

    try:
        return int(get_group_size()), int(get_rank())
    except (RuntimeError, ValueError):
        # Raised while no communication was initialised: one process.
        return 1, 0
