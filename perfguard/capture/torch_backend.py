"""The torch backend: `torch.profiler`, or `torch_npu.profiler` on an Ascend device. torch 2.4 and later.

Run for real on a CPU (torch 2.13). CUDA and torch_npu go through the same code; neither was run on a device.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perfguard.capture import Target
from perfguard.capture.environment import cpu_model, package_version
from perfguard.errors import CaptureError
from perfguard.window import StepWindow


class TorchBackend:
    """Profiles with torch.profiler: shapes, memory, one trace file a cycle."""

    name = "torch"

    def __init__(self) -> None:
        self.conditions = {"memory": True, "shapes": True}
        try:
            import torch
        except ImportError as error:
            raise CaptureError(
                f"The torch backend needs torch, and it cannot be imported ({error}). "
                "Run: pip install 'perfguard[torch]' 'torch==2.13.0'"
            ) from error
        self._torch = torch
        self._npu = _npu(torch)
        self._threads_before = torch.get_num_threads()
        self._profiler: Any = None

    def prepare(self, threads: int) -> None:
        """Set the number of threads inside an operator; between operators torch sets it once a process."""
        self._torch.set_num_threads(threads)

    def restore(self) -> None:
        """Set the number of threads as it was."""
        self._torch.set_num_threads(self._threads_before)

    def target(self) -> Target:
        """Device, rank and versions. The device is the accelerator where torch sees one, else the CPU."""
        torch = self._torch
        packages = {name: found for name in ("torch", "torch_npu") if (found := package_version(name)) is not None}
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        device, device_name = self._device()
        return Target(
            device=device,
            mode="eager",
            world_size=torch.distributed.get_world_size() if distributed else 1,
            rank=torch.distributed.get_rank() if distributed else 0,
            threads=torch.get_num_threads(),
            device_name=device_name,
            packages=packages,
        )

    def _device(self) -> tuple[str, str]:
        if self._npu is not None:
            return "npu", str(self._torch.npu.get_device_name())
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            return "cuda", str(self._torch.cuda.get_device_name())
        return "cpu", cpu_model()

    def synchronize(self) -> None:
        """Wait for the accelerator; on a CPU operators are done when they return."""
        if self._npu is not None:
            self._torch.npu.synchronize()
        elif self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def start(self, directory: Path, window: StepWindow) -> None:
        """Start the profiler with the window as its schedule."""
        module = self._npu if self._npu is not None else self._torch.profiler
        kinds = module.ProfilerActivity
        activities = [kinds.CPU]
        if self._npu is not None:
            activities.append(kinds.NPU)
        elif self._torch.cuda.is_available():
            activities.append(kinds.CUDA)
        with _schedule_notes_silenced():
            self._profiler = module.profile(
                activities=activities,
                schedule=module.schedule(
                    wait=window.wait, warmup=window.warmup, active=window.active, repeat=window.repeat
                ),
                on_trace_ready=module.tensorboard_trace_handler(str(directory)),
                record_shapes=True,
                profile_memory=True,
            )
            self._profiler.start()

    def advance(self) -> None:
        """Tell the profiler that a step has ended."""
        with _schedule_notes_silenced():
            self._profiler.step()

    def stop(self) -> None:
        """Stop the profiler; a cycle under way is written as far as it came."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            with _schedule_notes_silenced():
                profiler.stop()


def _npu(torch: Any) -> Any:
    """Return torch_npu's profiler where torch_npu is installed and sees a device."""
    if package_version("torch_npu") is None:
        return None
    import torch_npu  # not a dependency: it is there or it is not

    return torch_npu.profiler if torch.npu.is_available() else None


@contextmanager
def _schedule_notes_silenced() -> Iterator[None]:
    """Keep torch's remarks on schedules perfguard chose knowingly from failing a run under `-W error`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle.*")
        warnings.filterwarnings("ignore", message=".*Profiler won't be using warmup.*")
        yield
