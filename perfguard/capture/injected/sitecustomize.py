"""The bootstrap: what `perfguard run` puts into every Python process of the command it starts.

Python imports a module of this name by itself when it starts (site.py), so an unmodified script, a launcher's workers and
another environment's interpreter all get it. It imports nothing but the standard library, runs on Python 3.7 and later, and
does nothing until the process imports torch or MindSpore. Then it watches the steps, switches that framework's own profiler on
for the window, and leaves a file of plain facts; `perfguard.capture.script` makes a recording of them.

A step ends where the weights have been updated: when `Model.train` says so, when an optimizer has stepped, and where neither
is ever seen (inference, a compiled training step), when the outermost call of a model has returned.
"""

from __future__ import annotations

import atexit
import gc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time

# Every Python of the command starts with this: what only a watched one needs is imported where it is used.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

PLAN = "PERFGUARD_PLAN"
#: What ends a step, the surest first.
KINDS = ("model", "optimizer", "call")
#: So many updates may go by before it is taken for sure which optimizer ends a step.
SURE = 10
FIRST_STEP = (
    "the first step could not be told from what the script ran before it, and the window begins with it; "
    "begin with step 3"
)


class Watch:
    """Counts the steps of this process, and has the profiler started and stopped at the edges of the window."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        import weakref

        self.plan = plan
        self.pid = os.getpid()
        self.framework: Any = None
        self.kind = ""
        #: UNIX time at which it began, wall and CPU clock then, how long it took by both, and the time since the step
        #: before, without the wait for a CPU; all in ns.
        self.steps: List[Tuple[int, int, int, int, int, int]] = []
        self.began: Optional[Tuple[int, int, int]] = None
        #: The wall clock when the last step was over, and the waits for a CPU until then.
        self.ended: Optional[Tuple[int, Dict[str, int]]] = None
        self.pause = 0
        self.profiling = False
        self.cycle_over = False
        self.problem = ""
        #: Whether the first step of a whole run was not recorded.
        self.lost_first = False
        self.raised = ""
        #: Profilers of the script's own: where they write, what lay there before, when they were on.
        self.own: List[Dict[str, Any]] = []
        self.collects = False
        #: The optimizer that ends a step, those that were made before it first did, and how often others stepped since.
        self.telling: Any = None
        self.siblings: Any = weakref.WeakSet()
        self.seen: Any = weakref.WeakSet()
        self.others = 0
        # Where the framework is imported inside a function, this is the process that will have run it.
        atexit.register(self.leave)
        hook = sys.excepthook

        def note(kind: Any, value: Any, trace: Any) -> None:
            self.raised = "{}: {}".format(kind.__name__, value).split("\n")[0].strip(" :")[:500]
            hook(kind, value, trace)

        sys.excepthook = note
        exit_at_once = os._exit

        def leave_at_once(status: int) -> None:
            self.leave()
            exit_at_once(status)

        os._exit = leave_at_once  # type: ignore[assignment]

    @property
    def window(self) -> Optional[Dict[str, int]]:
        """The window asked for; None is the whole run."""
        found: Optional[Dict[str, int]] = self.plan["window"]
        return found

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that set this up, and no fork of it."""
        return os.getpid() == self.pid

    def is_over(self) -> bool:
        """Whether nothing is left to record."""
        window = self.window
        whole = (
            self.plan["limit"]
            if window is None
            else sum(window[key] for key in ("skip_first", "timed", "warmup", "active"))
        )
        return self.cycle_over or len(self.steps) >= whole

    def begin(self) -> None:
        """A step begins, unless one has."""
        if self.began is not None or self.is_over() or not self.is_mine:
            return
        if self.ended is not None:
            self.pause = _pause_ns(*self.ended)
        self.framework.synchronize()
        self.start_when_due()
        self.began = time.time_ns(), time.perf_counter_ns(), time.thread_time_ns()
        self.framework.mark()

    def start_when_due(self) -> None:
        """Switch the profiler on where the next step is the first of the window."""
        window = self.window
        first = 0 if window is None else window["skip_first"] + window["timed"]
        if len(self.steps) == first and not (self.profiling or self.own or self.problem or self.is_over()):
            if self.framework.is_tied():
                self.problem = FIRST_STEP
            else:
                self.start()

    def end(self, kind: str) -> None:
        """A step ends, as far as `kind` can tell."""
        if not self.is_mine:
            return
        if kind != self.kind:
            if self.kind and KINDS.index(kind) > KINDS.index(self.kind):
                return
            self.kind = kind
            if self.steps:
                # A surer sign of a step was seen for the first time: what was counted by another sign was no step.
                self.count_from(self.began or self.steps[-1][:3])
        if self.began is None or self.is_over():
            return
        self.framework.synchronize()
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        start, wall_began, cpu_began = self.began
        self.began = None
        self.framework.unmark()
        self.steps.append((start, wall_began, cpu_began, wall - wall_began, cpu - cpu_began, self.pause))
        if self.profiling:
            self.guarded(self.framework.advance)
            if self.is_over():
                self.stop()
        elif self.window is not None and not self.framework.marks_steps:
            # Now, and not where the next step begins: to the profiler a step goes from one end to the next.
            self.start_when_due()
        self.ended = time.perf_counter_ns(), _waited_ns()
        if kind in self.framework.follow_at_once:
            self.begin()

    def forget(self) -> None:
        """A training begins: what was counted by now, and may have been recorded, were calls of a model before it."""
        self.kind, self.steps, self.began = "", [], None
        self.drop()

    def count_from(self, since: Tuple[int, int, int]) -> None:
        """Nothing that was counted was a step: the first one goes on since the time given."""
        window, is_marked = self.window, self.began == since
        self.steps, self.began = [], since
        if not self.profiling and not self.cycle_over:
            return
        self.drop()
        if window is None:
            if self.framework.marks_steps and not is_marked:
                self.began, self.lost_first = None, True
        elif window["skip_first"] + window["timed"] == 0:
            self.began, self.problem = None, FIRST_STEP

    def tells(self, optimizer: Any) -> bool:
        """Whether this optimizer ends a step. Of several that take turns (a GAN) it is the one that is seen last."""
        import weakref

        telling = self.telling and self.telling()
        is_new = optimizer not in self.seen
        self.seen.add(optimizer)
        if optimizer is telling:
            self.others = 0
            return True
        if telling is None or optimizer not in self.siblings:
            # The first one, or one of another training.
            kind = self.framework.optimizer
            self.siblings = weakref.WeakSet(one for one in gc.get_objects() if issubclass(type(one), kind))
        elif is_new and 0 < len(self.steps) <= SURE:
            self.count_from(self.steps[0][:3])
        elif self.others < SURE:
            self.others += 1
            return False
        self.telling, self.others = weakref.ref(optimizer), 0
        return True

    def drop(self) -> None:
        """What is recorded so far has the wrong edges. Of a whole run only marks are, and steps.json tells which are steps."""
        if self.window is not None:
            self.give_way()
        if self.cycle_over:
            self.cycle_over = False
            self.guarded(self.framework.remove)

    def start(self) -> None:
        """Switch the profiler on."""
        if self.window is not None:
            gc.collect()
            self.collects = gc.isenabled()
            gc.disable()
        self.profiling = True
        self.guarded(self.framework.start)

    def stop(self) -> None:
        """Switch it off, and write the facts: the window is over, whatever becomes of the process."""
        if not self.profiling:
            return
        self.profiling = False
        self.cycle_over = True
        self.guarded(self.framework.stop)
        if self.collects:
            gc.enable()
        self.write()

    def give_way(self) -> None:
        """The script has a profiler of its own: two in one process write nothing right, so this one stops."""
        if self.profiling:
            self.profiling = False
            self.guarded(self.framework.discard)
            if self.collects:
                gc.enable()

    def guarded(self, action: Callable[[], None]) -> None:
        """Do what may fail inside the profiler; the script goes on, and the facts say what failed."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a script must not die of being watched; told in the facts
            self.problem = self.problem or "{}: {}".format(type(error).__name__, error).split("\n")[0][:500]

    def leave(self) -> None:
        """The process ends."""
        if not self.is_mine or self.framework is None:
            return
        if self.profiling:
            self.stop()
        self.write()

    def write(self, *, always: bool = False) -> None:
        """Write the facts; a process that never began a step has none."""
        if not (self.steps or self.began or self.own or always):
            return
        facts = {
            "pid": self.pid,
            "argv": sys.argv,
            "backend": self.framework.name,
            "kind": self.kind,
            "steps": [[start, wall, cpu, pause] for start, _, _, wall, cpu, pause in self.steps],
            "in_a_step": self.began is not None,
            "lost_first": self.lost_first,
            "window_over": self.cycle_over,
            "problem": self.problem,
            "raised": self.raised,
            "own": self.own,
            "python": sys.version.split()[0],
            **self.framework.facts(),
        }
        path = os.path.join(self.plan["facts"], "{}-{}.json".format(self.pid, self.framework.name))
        try:
            with open(path + ".part", "w", encoding="utf-8") as stream:
                json.dump(facts, stream)
            os.replace(path + ".part", path)
        except OSError as error:
            # Standard error is all that is left when the disk is full.
            sys.stderr.write("perfguard: {} cannot be written: {}\n".format(path, error))

    def found_own(self, where: Optional[str], what: str) -> Dict[str, Any]:
        """Take note of a profiler that the script itself makes."""
        import traceback

        self.give_way()
        place = os.path.abspath(where or os.path.join(os.getcwd(), "data"))
        before = os.listdir(place) if os.path.isdir(place) else []
        caller = next((f for f in reversed(traceback.extract_stack()) if not _is_inside(f.filename)), None)
        at = "" if caller is None else "{}:{}".format(caller.filename, caller.lineno)
        found: Dict[str, Any] = {"what": what, "at": at, "place": place, "before": before, "on": []}
        found["made_ns"] = time.time_ns()
        self.own.append(found)
        return found


def _pause_ns(since: int, waited: Dict[str, int]) -> int:
    """Return the time since then, less what this thread waited for a CPU, and the child that waited longest (a worker)."""
    now = time.perf_counter_ns()
    waits = {pid: wait - waited.get(pid, 0) for pid, wait in _waited_ns().items()}
    own = waits.pop("thread-self", 0)
    return max(0, now - since - own - max(waits.values(), default=0))


def _waited_ns() -> Dict[str, int]:
    """Return how long this thread, and each process that it started, has waited for a CPU; nothing where that is unknown.

    Kernel: Documentation/scheduler/sched-stats.rst, Documentation/filesystems/proc.rst.
    """
    found = {}
    try:
        with open("/proc/thread-self/children", "rb") as stream:
            children = stream.read().decode().split()
    except OSError:
        children = []
    for one in ["thread-self", *children]:
        try:
            with open("/proc/{}/schedstat".format(one), "rb") as stream:
                found[one] = int(stream.read().split()[1])
        except (OSError, IndexError, ValueError):
            pass
    return found


def _is_inside(path: str) -> bool:
    return path == __file__ or "{0}mindspore{0}".format(os.sep) in path or "{0}torch{0}".format(os.sep) in path


def _rank(*names: str) -> int:
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _version(distribution: str) -> Optional[str]:
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # Python 3.7
        return None
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _packages(*names: str) -> Dict[str, str]:
    found = {name: _version(name) for name in (*names, "numpy")}
    return {name: one for name, one in found.items() if one is not None}


class Torch:
    """torch.profiler, or torch_npu's where it sees a device."""

    name = "torch"
    follow_at_once = ()

    def __init__(self, watch: Watch, torch: Any) -> None:
        self.watch = watch
        self.torch = torch
        self.optimizer = torch.optim.Optimizer
        self.depth = 0
        self.profiler: Any = None
        self.marked: Any = None
        #: How many marks were made; one that turns out to be of no step cannot be taken back.
        self.marks = 0
        #: How many optimizers are at work, and whether one was when a recording was dropped.
        self.updating = 0
        self.tied = False
        self.there_before: Set[str] = set()
        self.is_training = False
        self.world: Optional[Tuple[int, int]] = None
        self.by_us = False
        watch.framework = self
        # Said for every compiled model as long as anybody watches modules.
        import warnings

        from torch.nn.modules import module
        from torch.optim import optimizer

        warnings.filterwarnings("ignore", message=".*when there are global hooks on modules.*")
        module.register_module_forward_pre_hook(self.before_forward)
        module.register_module_forward_hook(self.after_forward, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self.before_optimizer)
        optimizer.register_optimizer_step_post_hook(self.after_optimizer)
        self.watch_own(torch.profiler)

    def before_forward(self, module: Any, arguments: Any) -> None:
        """The outermost model is called: a step begins with it, in training with what is in training."""
        self.depth += 1
        if self.depth != 1:
            return
        # A loss is a module too, and nobody calls its eval(): without gradients it belongs to an evaluation.
        trains = module.training and self.torch.is_grad_enabled()
        if trains and not self.is_training and any(one.requires_grad for one in module.parameters()):
            self.is_training = True
            if self.watch.kind == "call":
                self.watch.forget()
        if trains or self.watch.kind != "optimizer":
            self.watch.begin()

    def after_forward(self, module: Any, arguments: Any, result: Any) -> None:
        """It has returned."""
        self.depth = max(self.depth - 1, 0)
        if self.depth == 0 and not (module.training and self.torch.is_grad_enabled()):
            # In training the optimizer tells the end.
            self.watch.end("call")

    def before_optimizer(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        """A step may have no model of its own."""
        self.updating += 1
        self.watch.begin()

    def after_optimizer(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        """Weights were updated."""
        if self.watch.is_mine and self.watch.tells(optimizer):
            self.watch.end("optimizer")
        self.updating, self.tied = max(self.updating - 1, 0), False

    def is_tied(self) -> bool:
        """Whether the profiler must not be started now."""
        return self.tied

    def synchronize(self) -> None:
        """Wait for the accelerator."""
        if self.on_npu():
            self.torch.npu.synchronize()
        elif self.torch.cuda.is_available() and self.torch.cuda.is_initialized():
            self.torch.cuda.synchronize()

    @property
    def marks_steps(self) -> bool:
        """Whether steps are marked here. torch's own marks of a window hold what is between steps as well.

        On a device they have to: its kernels are recorded wherever they are.
        """
        return self.watch.window is None or not (self.on_npu() or self.torch.cuda.is_initialized())

    def on_npu(self) -> bool:
        """Whether torch_npu is there and sees a device."""
        return "torch_npu" in sys.modules and bool(self.torch.npu.is_available())

    def start(self) -> None:
        """Begin to profile. With a window the profiler numbers the steps; a whole run is marked step by step."""
        plan, window = self.watch.plan, self.watch.window
        self.note_world()
        module = self.torch.profiler
        kinds = module.ProfilerActivity
        activities = [kinds.CPU]
        if self.on_npu():
            module = sys.modules["torch_npu"].profiler
            kinds = module.ProfilerActivity
            activities = [kinds.CPU, kinds.NPU]
        elif self.torch.cuda.is_available():
            activities.append(kinds.CUDA)
        keywords = dict(plan["torch"])
        self.there_before = set(os.listdir(self.directory()))

        def make() -> None:
            if window is not None:
                warmup, active = window["warmup"], window["active"]
                keywords["schedule"] = module.schedule(wait=0, warmup=warmup, active=active, repeat=1)
            handler = module.tensorboard_trace_handler(self.directory())
            self.profiler = module.profile(activities=activities, on_trace_ready=handler, **keywords)

        self.by_us = True
        try:
            self.quietly(make)
        finally:
            self.by_us = False
        if self.marks_steps:
            self.profiler.record_steps = False
            self.marks = 0
        self.quietly(self.profiler.start)
        self.between_steps(True)

    def between_steps(self, value: bool) -> None:
        """Have a window record no operators of this thread, or again: a loader or an evaluation is no part of a step."""
        record = getattr(self.torch.autograd, "_enable_record_function", None)
        if record is not None and self.watch.window is not None and self.marks_steps:
            record(not value)

    def directory(self) -> str:
        """Where this rank's output goes."""
        return _directory(self.watch.plan, _rank("RANK"))

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
        """Tell the profiler that a step has ended."""
        if self.watch.window is not None:
            self.quietly(self.profiler.step)

    def stop(self) -> None:
        """Write the trace."""
        self.unmark()
        profiler, self.profiler = self.profiler, None
        self.between_steps(False)
        self.quietly(profiler.stop)

    def written(self) -> List[str]:
        """What this profiler has written."""
        place = self.directory()
        return [os.path.join(place, name) for name in set(os.listdir(place)) - self.there_before]

    def discard(self) -> None:
        """Stop without a trace."""
        self.unmark()
        profiler, self.profiler = self.profiler, None
        # An annotation that is open now must not end in another recording: torch writes to where the first one was.
        self.tied = self.updating > 0
        profiler.on_trace_ready = None
        self.between_steps(False)
        self.quietly(profiler.stop)

    def remove(self) -> None:
        """Remove what was written."""
        _remove(self.written())

    @staticmethod
    def quietly(action: Callable[[], None]) -> None:
        """Keep torch's remarks on schedules from failing a script that runs under `-W error`."""
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()

    def watch_own(self, module: Any) -> None:
        """See a profiler the script itself makes. It is asked for memory and shapes as well, where the script does not say."""
        watch, mine = self.watch, self
        make, handle = module.profile.__init__, module.tensorboard_trace_handler

        def init(self: Any, *arguments: Any, **keywords: Any) -> None:
            if not mine.by_us and type(self) is module.profile:
                for key, value in watch.plan["torch"].items():
                    keywords.setdefault(key, value)
                self.perfguard = watch.found_own(mine.handled, "torch.profiler.profile")
            make(self, *arguments, **keywords)

        def handler(dir_name: str, *arguments: Any, **keywords: Any) -> Any:
            if not mine.by_us:
                mine.handled = dir_name
            return handle(dir_name, *arguments, **keywords)

        def enter(self: Any) -> Any:
            if not mine.by_us:
                watch.found_own(None, "torch.autograd.profiler.profile")
            return entered(self)

        legacy = self.torch.autograd.profiler.profile
        entered = legacy.__enter__
        legacy.__enter__ = enter
        module.profile.__init__ = init
        module.tensorboard_trace_handler = handler
        module.profiler.tensorboard_trace_handler = handler
        _note_when_on(module.profile, "start", "stop")

    handled: Optional[str] = None

    def note_world(self) -> None:
        """Note rank and number of ranks, which nobody knows any more once the process group is destroyed."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self.world = distributed.get_rank(), distributed.get_world_size()

    def facts(self) -> Dict[str, Any]:
        """What it ran on."""
        torch = self.torch
        self.note_world()
        device, name = "cpu", ""
        if self.on_npu():
            device, name = "npu", str(torch.npu.get_device_name())
        elif torch.cuda.is_available() and torch.cuda.is_initialized():
            device, name = "cuda", str(torch.cuda.get_device_name())
        return {
            "device": device,
            "device_name": name,
            "mode": "eager",
            "rank": self.world[0] if self.world else _rank("RANK"),
            "world_size": self.world[1] if self.world else max(_rank("WORLD_SIZE"), 1),
            "threads": torch.get_num_threads(),
            "packages": _packages("torch", "torch_npu"),
        }


class MindSpore:
    """MindSpore's profiler: by MS_PROFILER_OPTIONS for a whole run, with a schedule for a window."""

    name = "mindspore"
    marks_steps = False
    #: Nothing tells where such a step begins, so it begins where the one before has ended.
    follow_at_once = ("optimizer", "call")

    def __init__(self, watch: Watch, mindspore: Any) -> None:
        self.watch = watch
        self.mindspore = mindspore
        self.depth = 0
        self.profiler: Any = None
        self.by_us = False
        self.synchronous = False
        self.there_before: Set[str] = set()
        self.handled: Optional[str] = None
        watch.framework = self
        try:
            # Where 2.9 put it; the old name still works, and says so on standard error.
            from mindspore.graph import api
        except ImportError:
            from mindspore.common import api
        self.api = api
        from mindspore.train.callback import _callback

        manager = _callback.CallbackManager
        for name, before in (("on_train_step_begin", True), ("on_train_step_end", False)):
            setattr(manager, name, self.told_by_model(getattr(manager, name), before))
        from mindspore import nn

        self.optimizer = nn.Optimizer
        nn.Cell.__call__ = self.outermost(nn.Cell.__call__)

        for name in ("_JitExecutor", "_MindsporeFunctionExecutor"):
            if hasattr(self.api, name):
                executor = getattr(self.api, name)
                executor.__call__ = self.outermost(executor.__call__)
        self.watch_own()

    # -- steps ---------------------------------------------------------------------------------------------------------

    def told_by_model(self, method: Any, before: bool) -> Any:
        """Wrap a method by which `Model.train` tells callbacks of its steps."""
        mine, watch = self, self.watch

        def told(self: Any, run_context: Any) -> Any:
            if before:
                # What runs until the step ends is a part of it.
                mine.depth += 1
                watch.begin()
                return method(self, run_context)
            result = method(self, run_context)
            mine.depth -= 1
            watch.end("model")
            return result

        return told

    def is_tied(self) -> bool:
        """Whether the profiler must not be started now."""
        return False

    def takes_gradient(self) -> bool:
        """Whether this call is the forward half of a gradient (PyNative): an optimizer will follow it."""
        return bool(self.api._pynative_executor.grad_flag())

    def outermost(self, method: Any) -> Any:
        """Wrap what calls a Cell or a compiled function: the outermost such call, or an optimizer's, may end a step."""
        mine, watch = self, self.watch

        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if watch.is_over() or not watch.is_mine:
                return method(self, *arguments, **keywords)
            if mine.depth == 0:
                watch.begin()
            mine.depth += 1
            try:
                result = method(self, *arguments, **keywords)
            finally:
                mine.depth -= 1
            if mine.depth == 0 and isinstance(self, mine.optimizer):
                if watch.tells(self):
                    watch.end("optimizer")
            elif mine.depth == 0 and not mine.takes_gradient():
                watch.end("call")
            return result

        return call

    def synchronize(self) -> None:
        """Wait for everything dispatched. On a CPU the first `runtime.synchronize()` only logs an error (2.10)."""
        try:
            from mindspore.runtime.stream import synchronize_
        except ImportError:
            synchronize_ = self.api._pynative_executor.sync
        synchronize_()

    def mark(self) -> None:
        """MindSpore's CPU profiler marks no steps; their times join with its timestamps."""

    def unmark(self) -> None:
        """Nothing was marked."""

    # -- the profiler --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to profile: as the variable says, or with a schedule."""
        window = self.watch.window
        self.by_us = True
        self.there_before = set(os.listdir(self.directory()))
        try:
            if window is None:
                self.start_by_variable()
                return
            # Else memory differs from run to run: see MindSporeBackend.start.
            self.synchronous = self.set_synchronous(True)
            self.start_by_schedule(window)
        finally:
            self.by_us = False

    def start_by_schedule(self, window: Dict[str, int]) -> None:
        """Have a schedule go round the options of the variable, which itself knows no window."""
        import inspect

        from mindspore.profiler import EnvProfiler, _ExperimentalConfig

        profiler = self.mindspore.profiler
        options = json.loads(os.environ["MS_PROFILER_OPTIONS"])
        given = EnvProfiler._convert_options_to_profiler_params(options)
        kinds = profiler.ProfilerActivity
        if "activities" not in given:
            on_device = self.mindspore.get_context("device_target") == "Ascend"
            given["activities"] = [kinds.CPU, kinds.NPU] if on_device else [kinds.CPU]
        experimental = set(inspect.signature(_ExperimentalConfig.__init__).parameters)
        config = _ExperimentalConfig(**{key: value for key, value in given.items() if key in experimental})
        others = {key: value for key, value in given.items() if key not in experimental}
        for key in ("start", "output_path", "start_profile"):
            others.pop(key, None)
        self.profiler = profiler.profile(
            schedule=profiler.schedule(wait=0, warmup=window["warmup"], active=window["active"], repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(self.directory()),
            experimental_config=config,
            **others,
        )

    def start_by_variable(self) -> None:
        """Have MindSpore read MS_PROFILER_OPTIONS now: where a script has a profiler of its own, it must not be read at all."""
        options = json.loads(os.environ["MS_PROFILER_OPTIONS"])
        options["output_path"] = self.directory()
        os.environ["MS_PROFILER_OPTIONS"] = json.dumps(options)
        try:
            from mindspore.profiler import envprofiling

            os.environ.pop("MS_PROFILER_RUN_CONFIG", None)
            envprofiling.profiler_check_env()
        except ImportError:
            from mindspore.profiler import envprofiler

            envprofiler.EnvProfiler.init_profiler()

    def directory(self) -> str:
        """Where this rank's output goes."""
        return _directory(self.watch.plan, _rank("RANK_ID"))

    def advance(self) -> None:
        """Tell the profiler that a step has ended; with a variable there is nobody to tell."""
        if self.profiler is not None:
            self.profiler.step()

    def stop(self) -> None:
        """Stop and analyse; what the variable started MindSpore ends itself, when the process does."""
        profiler, self.profiler = self.profiler, None
        if profiler is not None:
            profiler.stop()
            self.set_synchronous(self.synchronous)

    def set_synchronous(self, value: bool) -> bool:
        """Have PyNative operators run one after the other, or not; returns how it was."""
        if self.mindspore.get_context("mode") != self.mindspore.PYNATIVE_MODE:
            return False
        from mindspore import log

        def silent(record: Any) -> bool:
            return False

        # It is going to be renamed, and says so with every use.
        logger = log._get_logger()
        logger.addFilter(silent)
        try:
            before = bool(self.mindspore.get_context("pynative_synchronize"))
            self.mindspore.set_context(pynative_synchronize=value)
        finally:
            logger.removeFilter(silent)
        return before

    def discard(self) -> None:
        """Stop, and leave nothing: the steps have to be counted anew, or the script has a profiler of its own."""
        if self.profiler is not None:
            self.stop()
            self.remove()
            return
        from mindspore.profiler import EnvProfiler

        EnvProfiler().analyse()
        os.environ.pop("MS_PROFILER_OPTIONS", None)
        self.remove()

    def remove(self) -> None:
        """Remove what was written."""
        place = self.directory()
        _remove([os.path.join(place, name) for name in set(os.listdir(place)) - self.there_before])

    def taken_path(self) -> Optional[str]:
        """Return where a handler will write that MindSpore's own monitor made: it had its name before it was wrapped."""
        try:
            from mindspore.profiler.common.profiler_context import ProfilerContext
        except ImportError:
            return None
        path: Optional[str] = getattr(ProfilerContext(), "on_trace_ready_output_path", None)
        return path

    def watch_own(self) -> None:
        """See a profiler the script itself makes. It is asked for memory as well, where the script does not say."""
        mine, watch = self, self.watch
        module = self.mindspore.profiler
        makers = [module.Profiler, *([module.profile] if hasattr(module, "profile") else [])]
        for maker in makers:
            make = maker.__init__

            def init(self: Any, *arguments: Any, _make: Any = make, _maker: Any = maker, **keywords: Any) -> None:
                if mine.by_us or keywords.get("env_enable") or not watch.is_mine or type(self) is not _maker:
                    _make(self, *arguments, **keywords)
                    return
                if watch.plan["own_memory"] and not arguments:
                    keywords.setdefault("profile_memory", True)
                where = keywords.get("output_path") or mine.handled or mine.taken_path()
                self.perfguard = watch.found_own(where, "mindspore." + _maker.__name__)
                self.perfguard["has_schedule"] = keywords.get("schedule") is not None
                _make(self, *arguments, **keywords)
                if keywords.get("start_profile", True) and not self.perfguard["on"]:
                    self.perfguard["on"].append([time.time_ns(), None])

            maker.__init__ = init
            _note_when_on(maker, "start", "stop", "analyse")
        if hasattr(module, "tensorboard_trace_handler"):
            handle = module.tensorboard_trace_handler

            def handler(dir_name: Any = None, *arguments: Any, **keywords: Any) -> Any:
                if not mine.by_us:
                    mine.handled = dir_name
                return handle(dir_name, *arguments, **keywords)

            module.tensorboard_trace_handler = handler

    def facts(self) -> Dict[str, Any]:
        """What it ran on."""
        mindspore = self.mindspore
        device = str(mindspore.get_context("device_target"))
        graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
        try:
            from mindspore.communication import get_group_size, get_rank

            world_size, rank = int(get_group_size()), int(get_rank())
        except (ImportError, RuntimeError, ValueError):
            world_size, rank = 1, _rank("RANK_ID")
        return {
            "device": device.lower(),
            "device_name": "" if device == "CPU" else device,
            "mode": "graph" if graph else "pynative",
            "rank": rank,
            "world_size": world_size,
            "threads": 0,
            "packages": _packages("mindspore"),
        }


def _directory(plan: Dict[str, Any], rank: int) -> str:
    place: str = plan["profiler"]
    if plan["ranked"]:
        place = os.path.join(place, "rank_{}".format(rank))
    os.makedirs(place, exist_ok=True)
    return place


def _remove(paths: List[str]) -> None:
    import shutil

    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _note_when_on(kind: Any, start: str, *stops: str) -> None:
    """Have a profiler of the script's own say when it was on."""

    def noting(method: Any, is_start: bool) -> Any:
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            on = getattr(self, "perfguard", {}).get("on")
            if on is not None and is_start and not (on and on[-1][1] is None):
                on.append([time.time_ns(), None])
            if on is not None and not is_start and on and on[-1][1] is None:
                on[-1][1] = time.time_ns()
            return method(self, *arguments, **keywords)

        return call

    setattr(kind, start, noting(getattr(kind, start), True))
    for stop in stops:
        if hasattr(kind, stop):
            setattr(kind, stop, noting(getattr(kind, stop), False))


class Finder:
    """Has a framework watched as soon as it has been imported, and is gone from the path then."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        self.kinds: Dict[str, Any] = {"torch": Torch, "mindspore": MindSpore}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Find a framework as everybody does, with a step after its import."""
        if fullname not in self.plan["backends"]:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module
        options = os.environ.pop("MS_PROFILER_OPTIONS", None) if fullname == "mindspore" else None

        def exec_module(module: Any) -> None:
            execute(module)
            if options is not None:
                os.environ["MS_PROFILER_OPTIONS"] = options
            if not hasattr(module, "__path__") or not hasattr(module, "__version__"):
                # A module of the script's own that only has the name.
                return
            watch = Watch(self.plan)
            try:
                self.kinds[fullname](watch, module)
            except (AttributeError, ImportError, TypeError) as error:
                # A version that is built otherwise. The script is none the worse for it; what it was is told.
                watch.problem = "{} cannot be watched: {}".format(fullname, error)
                watch.write(always=True)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _chain() -> None:
    """Import the sitecustomize this one stands before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    rest = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _begin() -> None:
    text = os.environ.get(PLAN)
    if not text:
        return
    with open(text, encoding="utf-8") as stream:
        plan = json.load(stream)
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        # The scheduler of msrun runs the script as well, and trains nothing.
        os.environ.pop("MS_PROFILER_OPTIONS", None)
    else:
        sys.meta_path.insert(0, Finder(plan))
    with open(os.path.join(plan["facts"], "python-{}".format(os.getpid())), "w", encoding="utf-8"):
        pass


_begin()
_chain()
