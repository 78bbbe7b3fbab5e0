"""torch in a recorded process: its steps, and torch.profiler, or torch_npu's if it sees a device."""

from __future__ import annotations

import sys
import warnings

from .recorder import Framework, StepRecorder, note_when_on, number_of, packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple


class Torch(Framework):
    """Finds steps by global hooks of modules and optimizers."""

    name = "torch"
    rank_variable = "RANK"

    def __init__(self, recorder: StepRecorder, torch: Any) -> None:
        super().__init__(recorder)
        self.torch = torch
        self.marked: Any = None
        #: How many marks were made; one that turns out to be of no step cannot be taken back.
        self.marks = 0
        #: How many optimizers are at work.
        self.updating = 0
        self.is_training = False
        self.world: Optional[Tuple[int, int]] = None
        self.optimizer = torch.optim.Optimizer
        from torch.nn.modules import module
        from torch.optim import optimizer

        # A compiled model warns of global hooks at every call.
        warnings.filterwarnings("ignore", message=".*when there are global hooks on modules.*")
        module.register_module_forward_pre_hook(self.before_forward)
        module.register_module_forward_hook(self.after_forward, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self.before_optimizer)
        optimizer.register_optimizer_step_post_hook(self.after_optimizer)
        self.watch_own(torch.profiler)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def before_forward(self, module: Any, arguments: Any) -> None:
        """Begin a step with a call of the outermost model; in training only a model in training mode begins one."""
        self.depth += 1
        if self.depth != 1:
            return
        # A loss is a module too, and no script calls its eval(): without gradients it belongs to an evaluation.
        trains = module.training and self.torch.is_grad_enabled()
        if trains and not self.is_training and any(one.requires_grad for one in module.parameters()):
            self.is_training = True
            if self.recorder.kind == "call":
                self.recorder.forget()
        if trains or self.recorder.kind != "optimizer":
            self.recorder.begin()

    def after_forward(self, module: Any, arguments: Any, result: Any) -> None:
        """End a step of inference when the outermost model returns; in training the optimizer ends it."""
        self.depth = max(self.depth - 1, 0)
        if self.depth == 0 and not (module.training and self.torch.is_grad_enabled()):
            self.recorder.end("call")

    def before_optimizer(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        """Begin a step that calls no model."""
        self.updating += 1
        self.recorder.begin()

    def after_optimizer(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        """End a step: the weights were updated."""
        if self.recorder.is_mine and self.recorder.ends_step(optimizer):
            self.recorder.end("optimizer")
        self.updating, self.tied = max(self.updating - 1, 0), False

    def synchronize(self) -> None:
        """Wait for the accelerator."""
        accelerator = self.device()[1]
        if accelerator is not None:
            accelerator.synchronize()

    def device(self) -> Tuple[str, Any]:
        """Return the device that is in use, and torch's module for it; None for the CPU."""
        if self.on_npu():
            return "npu", self.torch.npu
        cuda = self.torch.cuda
        return ("cuda", cuda) if cuda.is_available() and cuda.is_initialized() else ("cpu", None)

    @property
    def marks_steps(self) -> bool:  # type: ignore[override]
        """Whether steps are marked here. torch's own marks of a window cover what is between steps as well.

        On a device its own are needed: the kernels between steps are recorded in any case.
        """
        return self.recorder.window is None or not (self.on_npu() or self.torch.cuda.is_initialized())

    def on_npu(self) -> bool:
        """Whether torch_npu is loaded and sees a device."""
        return "torch_npu" in sys.modules and bool(self.torch.npu.is_available())

    # -- the profiler --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the profiler. With a window it numbers the steps; a whole run is marked step by step."""
        window = self.recorder.window
        self.note_world()
        module = sys.modules["torch_npu"].profiler if self.on_npu() else self.torch.profiler
        kinds = module.ProfilerActivity
        activities = [kinds.CPU]
        if self.on_npu():
            activities.append(kinds.NPU)
        elif self.torch.cuda.is_available():
            activities.append(kinds.CUDA)
        keywords = dict(self.plan["torch"])
        self.note_files()

        def make() -> None:
            if window is not None:
                warmup, active = window["warmup"], window["active"]
                keywords["schedule"] = module.schedule(wait=0, warmup=warmup, active=active, repeat=1)
            handler = module.tensorboard_trace_handler(self.directory())
            self.profiler = module.profile(activities=activities, on_trace_ready=handler, **keywords)

        self.by_us = True
        try:
            quietly(make)
        finally:
            self.by_us = False
        if self.marks_steps:
            self.profiler.record_steps = False
            self.marks = 0
        quietly(self.profiler.start)
        self.between_steps(True)

    def between_steps(self, value: bool) -> None:
        """Switch recording of this thread off or on in a window: a loader or an evaluation is not part of a step."""
        record = getattr(self.torch.autograd, "_enable_record_function", None)
        if record is not None and self.recorder.window is not None and self.marks_steps:
            record(not value)

    def mark(self) -> None:
        """Mark the step in the trace, as the profiler itself would with a schedule."""
        if self.profiler is not None and self.marks_steps:
            self.between_steps(False)
            self.unmark()
            self.between_steps(False)
            self.marked = self.torch.autograd.profiler.record_function("ProfilerStep#{}".format(self.marks))
            self.marks += 1
            self.marked.__enter__()

    def unmark(self) -> None:
        """End the mark."""
        marked, self.marked = self.marked, None
        if marked is not None:
            marked.__exit__(None, None, None)
            self.between_steps(True)

    def advance(self) -> None:
        """Count a step in the profiler's schedule."""
        if self.recorder.window is not None:
            quietly(self.profiler.step)

    def stop(self) -> None:
        """Stop the profiler, which writes the trace."""
        self.unmark()
        profiler, self.profiler = self.profiler, None
        self.between_steps(False)
        quietly(profiler.stop)

    def discard(self) -> None:
        """Stop the profiler without a trace."""
        self.profiler.on_trace_ready = None
        # An annotation that is open now must not end in another recording: torch writes to where the first one was.
        self.tied = self.updating > 0
        self.stop()

    def watch_own(self, module: Any) -> None:
        """Notice a profiler that the script makes, and have it record memory and shapes unless the script decides that."""
        recorder, mine = self.recorder, self
        make = module.profile.__init__

        def init(self: Any, *arguments: Any, **keywords: Any) -> None:
            if not mine.by_us and type(self) is module.profile:
                for key, value in recorder.plan["torch"].items():
                    keywords.setdefault(key, value)
                self.perfguard = recorder.found_own(mine.handled, "torch.profiler.profile")
            make(self, *arguments, **keywords)

        def enter(self: Any) -> Any:
            if not mine.by_us:
                recorder.found_own(None, "torch.autograd.profiler.profile")
            return entered(self)

        legacy = self.torch.autograd.profiler.profile
        entered = legacy.__enter__
        legacy.__enter__ = enter
        module.profile.__init__ = init
        handler = self.noting_handler(module.tensorboard_trace_handler)
        module.tensorboard_trace_handler = handler
        module.profiler.tensorboard_trace_handler = handler
        note_when_on(module.profile, "start", "stop")

    # -- the facts -----------------------------------------------------------------------------------------------------

    def note_world(self) -> None:
        """Note rank and number of ranks while there is a process group; a script may destroy it before it ends."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self.world = distributed.get_rank(), distributed.get_world_size()

    def facts(self) -> Dict[str, Any]:
        """Return the device, the rank and the packages of this process."""
        self.note_world()
        device, accelerator = self.device()
        rank, world_size = self.world or (number_of("RANK"), max(number_of("WORLD_SIZE"), 1))
        return {
            "device": device,
            "device_name": "" if accelerator is None else str(accelerator.get_device_name()),
            "mode": "eager",
            "rank": rank,
            "world_size": world_size,
            "threads": self.torch.get_num_threads(),
            "packages": packages("torch", "torch_npu"),
        }


def quietly(action: Callable[[], None]) -> None:
    """Call the profiler without its warnings on schedules: they would fail a script that runs under `-W error`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action()
