"""The torch backend: `torch.profiler`, or `torch_npu.profiler` on an Ascend device. torch 2.4 and later.

Run for real on a CPU (torch 2.13). CUDA and torch_npu use the same code; neither was run on a device.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.capture import Target
from perfguard.capture.environment import cpu_model, package_version
from perfguard.errors import CaptureError, UsageError
from perfguard.version import install_command
from perfguard.window import StepWindow

#: The options that the profiler takes as they are.
FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOptions:
    """The options of the profiler. The defaults are perfguard's own: committed baselines need them.

    `analyse` and `experimental` are options of torch_npu without effect on other devices.
    """

    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    #: Whether operators of the host are recorded.
    host: bool = True
    #: Whether the device is recorded, if there is one.
    device: bool = True
    analyse: bool = True
    #: Arguments of torch_npu's _ExperimentalConfig, enums by name: {"profiler_level": "Level1"}. Empty: its defaults.
    experimental: Mapping[str, Any] = field(default_factory=dict)
    #: Entries for the head of the trace, each as JSON.
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: The number of the first step in the trace; a training at step 10 writes ProfilerStep#10.
    first_step: int = 0
    #: The directory of the profiler, instead of `profiler/` in the recording.
    directory: Path | None = None
    #: Rank and number of ranks, if torch.distributed is not initialised.
    rank: int = 0
    world_size: int = 1


class TorchBackend:
    """Profiles with torch.profiler: shapes, memory, one trace file per cycle, unless `options` differ."""

    name = "torch"

    def __init__(self, options: TorchOptions | None = None) -> None:
        self.options = options or TorchOptions()
        self.conditions = {"memory": self.options.profile_memory, "shapes": self.options.record_shapes}
        if self.options.with_stack:
            self.conditions["stack"] = True
        self._torch = imported_torch()
        self._npu = npu_profiler(self._torch)
        self._threads_before = self._torch.get_num_threads()
        self._profiler: Any = None

    def prepare(self, threads: int) -> None:
        """Set the number of threads within an operator; torch allows that between operators only once per process."""
        self._torch.set_num_threads(threads)

    def restore(self) -> None:
        """Restore the number of threads."""
        self._torch.set_num_threads(self._threads_before)

    def target(self) -> Target:
        """Return device, rank and versions. The device is the accelerator that torch sees, else the CPU."""
        packages = {name: found for name in ("torch", "torch_npu") if (found := package_version(name)) is not None}
        device, accelerator = self._device()
        rank, world_size = _distributed(self._torch) or (self.options.rank, self.options.world_size)
        return Target(
            device=device,
            mode="eager",
            world_size=world_size,
            rank=rank,
            threads=self._torch.get_num_threads(),
            device_name=cpu_model() if accelerator is None else str(accelerator.get_device_name()),
            packages=packages,
        )

    def _device(self) -> tuple[str, Any]:
        """Return the device that is in use, and torch's module for it; None for the CPU."""
        if self._npu is not None:
            return "npu", self._torch.npu
        cuda = self._torch.cuda
        return ("cuda", cuda) if cuda.is_available() and cuda.is_initialized() else ("cpu", None)

    def synchronize(self) -> None:
        """Wait for the accelerator; on a CPU operators are done when they return."""
        if (accelerator := self._device()[1]) is not None:
            accelerator.synchronize()

    def clock_mhz(self) -> float | None:
        """Return the clock of a GPU as NVML or AMD SMI has it; None on other devices. Not run on a device.

        Raises `CaptureError` if neither answers.
        """
        device, accelerator = self._device()
        if device != "cuda":
            return None
        try:
            return float(accelerator.clock_rate())
        except Exception as error:  # Theirs are of packages that need not be there.
            raise CaptureError(f"the clock of the device is unknown: {error}") from error

    def start(self, directory: Path, window: StepWindow) -> None:
        """Start the profiler with the window as its schedule. Raises `CaptureError` if another one is running."""
        if self._torch.autograd._profiler_enabled():
            raise CaptureError(
                "another torch profiler is running in this process, and torch has one at a time; stop it first"
            )
        options = self.options
        module = self._npu if self._npu is not None else self._torch.profiler
        with _schedule_notes_silenced():
            self._profiler = module.profile(
                activities=self._activities(module.ProfilerActivity),
                schedule=module.schedule(**{**window.as_dict(), "skip_first": options.first_step}),
                on_trace_ready=self._handler(module, options.directory or directory),
                **{name: getattr(options, name) for name in FLAGS},
                **self._experimental(),
            )
            self._profiler.start()
            if options.first_step:
                # As if the profiler had run from the first step on, so that the trace has the step numbers of the training.
                self._profiler.step_num = options.first_step - 1
                self._profiler.step()
        for key, value in options.metadata.items():
            self._profiler.add_metadata_json(key, value)

    def _activities(self, kinds: Any) -> list[Any]:
        activities = [kinds.CPU] if self.options.host else []
        if self.options.device and self._npu is not None:
            activities.append(kinds.NPU)
        elif self.options.device and self._torch.cuda.is_available():
            activities.append(kinds.CUDA)
        if not activities:
            # An empty list would mean the default of torch, which is everything.
            raise CaptureError("without the host there is nothing to record here, because torch sees no device")
        return activities

    def _handler(self, module: Any, directory: Path) -> Any:
        if self._npu is None:
            return module.tensorboard_trace_handler(str(directory))
        return module.tensorboard_trace_handler(str(directory), analyse_flag=self.options.analyse)

    def _experimental(self) -> dict[str, Any]:
        """Return torch_npu's own settings; the options name its enums, which need torch_npu."""
        if self._npu is None or not self.options.experimental:
            return {}
        values = dict(self.options.experimental)
        for key, kind in (("profiler_level", "ProfilerLevel"), ("aic_metrics", "AiCMetrics")):
            if key in values:
                values[key] = getattr(getattr(self._npu, kind), values[key])
        return {"experimental_config": self._npu._ExperimentalConfig(**values)}

    def advance(self) -> None:
        """Count a step in the profiler's schedule."""
        with _schedule_notes_silenced():
            self._profiler.step()

    def stop(self) -> None:
        """Stop the profiler; an incomplete cycle is written as well."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            with _schedule_notes_silenced():
                profiler.stop()


def imported_torch() -> Any:
    """Return torch, or raise `CaptureError` with how to get it."""
    try:
        import torch
    except ImportError as error:
        raise CaptureError(
            f"The torch backend needs torch, and it cannot be imported ({error}). Run: {install_command('torch')}"
        ) from error
    return torch


def rank_and_world_size() -> tuple[int, int]:
    """Return rank and number of ranks: of torch.distributed, else RANK and WORLD_SIZE, else 0 and 1.

    Raises `UsageError` if these variables are not numbers.
    """
    if (known := _distributed(imported_torch())) is not None:
        return known
    found = []
    for name in ("RANK", "WORLD_SIZE"):
        value = os.environ.get(name, "").strip() or "0"
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise UsageError(
                f"{name}={value[:60]!r} in the environment is not a number; unset it, or start with torchrun."
            )
        found.append(int(value))
    rank, world_size = found
    return rank, max(world_size, rank + 1)


def _distributed(torch: Any) -> tuple[int, int] | None:
    """Return rank and number of ranks of the process group; None without one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def npu_profiler(torch: Any) -> Any:
    """Return torch_npu's profiler, or None if torch_npu is not installed or sees no device."""
    if package_version("torch_npu") is None:
        return None
    import torch_npu  # not a dependency

    return torch_npu.profiler if torch.npu.is_available() else None


@contextmanager
def _schedule_notes_silenced() -> Iterator[None]:
    """Silence torch's warnings on perfguard's schedules, which would fail a run under `-W error`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle.*")
        warnings.filterwarnings("ignore", message=".*Profiler won't be using warmup.*")
        yield
