"""The step recorder: counts the steps of this process, and profiles those of the window.

A step ends where the weights have been updated: after a step of `Model.train`, after an optimizer's step, and where there is
neither (inference, a compiled training step) when the outermost call of a model has returned.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import shutil
import sys
import time
import traceback
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

#: What ends a step, the most reliable sign first.
KINDS = ("model", "optimizer", "call")
#: The number of updates after which the choice of the optimizer that ends a step is final.
SURE = 10
FIRST_STEP = (
    "the first step cannot be distinguished from what the script ran before it, and the window begins with it; "
    "begin with step 3"
)


class StepRecorder:
    """Counts the steps of this process, and starts and stops the framework's profiler at the edges of the window."""

    framework: Framework

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        #: The number of steps of each phase of the window, in order; None is the whole run.
        self.window: Optional[Dict[str, int]] = plan["window"]
        self.pid = os.getpid()
        self.is_watching = False
        self.kind = ""
        #: By step: UNIX time, wall and CPU clock at its begin, its duration by both, and the time since the step before,
        #: without waits for a CPU; all in ns.
        self.steps: List[Tuple[int, int, int, int, int, int]] = []
        self.began: Optional[Tuple[int, int, int]] = None
        #: The wall clock at the end of the last step, and the waits for a CPU until then.
        self.ended: Optional[Tuple[int, Dict[str, int]]] = None
        self.pause = 0
        self.profiling = False
        self.cycle_over = False
        self.problem = ""
        #: Whether the first step of a whole run was not recorded.
        self.lost_first = False
        self.raised = ""
        #: The script's own profilers: where they write, what was there before, when they were on.
        self.own: List[Dict[str, Any]] = []
        self.collects = False
        #: The optimizer that ends a step, those made before its first step, and the number of other steps since.
        self.stepping: Any = None
        self.siblings: Any = weakref.WeakSet()
        self.seen: Any = weakref.WeakSet()
        self.others = 0
        # Where a function imports the framework, this process is the one that runs it.
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

    def watch(self, framework: Framework) -> None:
        """Record the steps of a framework."""
        self.framework, self.is_watching = framework, True

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that was set up, not a fork of it."""
        return os.getpid() == self.pid

    def is_over(self) -> bool:
        """Whether nothing is left to record."""
        window = self.window
        whole = self.plan["limit"] if window is None else sum(window.values())
        return self.cycle_over or len(self.steps) >= whole

    def begin(self) -> None:
        """Begin a step, unless one has begun."""
        if self.began is not None or self.is_over() or not self.is_mine:
            return
        if self.ended is not None:
            self.pause = _pause_ns(*self.ended)
        self.framework.synchronize()
        self.start_when_due()
        self.began = time.time_ns(), time.perf_counter_ns(), time.thread_time_ns()
        self.framework.mark()

    def start_when_due(self) -> None:
        """Start the profiler if the next step is the first of the window."""
        window = self.window
        first = 0 if window is None else window["skip_first"] + window["timed"]
        if len(self.steps) == first and not (self.profiling or self.own or self.problem or self.is_over()):
            if self.framework.tied:
                self.problem = FIRST_STEP
            else:
                self.start()

    def end(self, kind: str) -> None:
        """End a step at a sign of this kind; only the most reliable kind seen so far counts."""
        if not self.is_mine:
            return
        if kind != self.kind:
            if self.kind and KINDS.index(kind) > KINDS.index(self.kind):
                return
            self.kind = kind
            if self.steps:
                # The first sign of a more reliable kind: what a weaker one counted were no steps.
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
        """Count from 0, as a training begins: the steps so far, recorded or not, were calls of a model before it."""
        self.kind, self.steps, self.began = "", [], None
        self.drop()

    def count_from(self, since: Tuple[int, int, int]) -> None:
        """Count from 0: nothing so far was a whole step, and the first one began at the time given."""
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

    def ends_step(self, optimizer: Any) -> bool:
        """Whether this optimizer ends a step. Of several that alternate (a GAN) the one that is seen last does."""
        stepping = self.stepping and self.stepping()
        is_new = optimizer not in self.seen
        self.seen.add(optimizer)
        if optimizer is stepping:
            self.others = 0
            return True
        if stepping is None or optimizer not in self.siblings:
            # The first one, or one of another training.
            kind = self.framework.optimizer
            self.siblings = weakref.WeakSet(one for one in gc.get_objects() if issubclass(type(one), kind))
        elif is_new and 0 < len(self.steps) <= SURE:
            self.count_from(self.steps[0][:3])
        elif self.others < SURE:
            self.others += 1
            return False
        self.stepping, self.others = weakref.ref(optimizer), 0
        return True

    def drop(self) -> None:
        """Drop a recording with wrong edges. That of a whole run has only marks: steps.json says which of them are steps."""
        if self.window is not None:
            self.give_way()
        if self.cycle_over:
            self.cycle_over = False
            self.guarded(self.framework.remove)

    def start(self) -> None:
        """Start the profiler."""
        if self.window is not None:
            gc.collect()
            self.collects = gc.isenabled()
            gc.disable()
        self.profiling = True
        self.guarded(self.framework.start)

    def stop(self) -> None:
        """Stop the profiler and write the facts: the window is over, whatever becomes of the process."""
        if not self.profiling:
            return
        self.profiling = False
        self.cycle_over = True
        self.guarded(self.framework.stop)
        if self.collects:
            gc.enable()
        self.write()

    def give_way(self) -> None:
        """Stop recording: the script has its own profiler, and two in one process break each other's output."""
        if self.profiling:
            self.profiling = False
            self.guarded(self.framework.discard)
            if self.collects:
                gc.enable()

    def guarded(self, action: Callable[[], None]) -> None:
        """Call the profiler; if that fails the script runs on, and the facts hold the error."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a recorded script must not die of it; the facts hold the error
            self.problem = self.problem or "{}: {}".format(type(error).__name__, error).split("\n")[0][:500]

    def leave(self) -> None:
        """Stop and write the facts as the process ends."""
        if not self.is_mine or not self.is_watching:
            return
        self.stop()
        self.write()

    def write(self, *, always: bool = False) -> None:
        """Write the facts, if a step has begun or there is another reason."""
        if not (self.steps or self.began or self.own or always):
            return
        facts = {
            "pid": self.pid,
            "backend": self.framework.name,
            "steps": [[start, wall, cpu, pause] for start, _, _, wall, cpu, pause in self.steps],
            "lost_first": self.lost_first,
            "problem": self.problem,
            "raised": self.raised,
            "own": self.own,
            "python": sys.version.split()[0],
            **self.framework.facts(),
        }
        path = os.path.join(self.plan["facts"], "{}-{}.json".format(self.pid, self.framework.name))
        try:
            # As perfguard.writing does it, which is not to be had here.
            made = "{}.{}.tmp".format(path, os.urandom(8).hex())
            only_new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(made, only_new, 0o600), "w", encoding="utf-8") as stream:
                json.dump(facts, stream)
            os.replace(made, path)
        except OSError as error:
            # Standard error is all that is left when the disk is full.
            sys.stderr.write("perfguard: {} cannot be written: {}\n".format(path, error))

    def found_own(self, where: Optional[str], what: str) -> Dict[str, Any]:
        """Take note of a profiler that the script itself makes."""
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
    """Return the time since then, less the waits for a CPU of this thread and of the child that waited longest (a worker)."""
    now = time.perf_counter_ns()
    waits = {pid: wait - waited.get(pid, 0) for pid, wait in _waited_ns().items()}
    own = waits.pop("thread-self", 0)
    return max(0, now - since - own - max(waits.values(), default=0))


def _waited_ns() -> Dict[str, int]:
    """Return how long this thread, and each of its child processes, has waited for a CPU; nothing where that is unknown.

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
    here = os.path.dirname(__file__) + os.sep
    return path.startswith(here) or "{0}mindspore{0}".format(os.sep) in path or "{0}torch{0}".format(os.sep) in path


# -- a framework -------------------------------------------------------------------------------------------------------


class Framework:
    """One framework. Its hooks call the recorder's `begin` and `end`; the recorder calls the methods here."""

    name = ""
    rank_variable = ""
    #: The class of its optimizers.
    optimizer: Any = None
    #: Whether steps are marked in the trace, and not only timed.
    marks_steps = False
    #: The kinds of sign at which the next step begins at once, since there is no sign of its begin.
    follow_at_once: Tuple[str, ...] = ()
    #: Whether the profiler must not be started now.
    tied = False

    #: Waits for the device.
    synchronize: Callable[[], None]
    #: Start the profiler; count a step in it; stop it, which writes its output; stop it without any output.
    start: Callable[[], None]
    advance: Callable[[], None]
    stop: Callable[[], None]
    discard: Callable[[], None]
    #: Returns the device, the rank and the packages of this process.
    facts: Callable[[], Dict[str, Any]]

    def __init__(self, recorder: StepRecorder) -> None:
        self.recorder = recorder
        self.plan = recorder.plan
        #: How many calls of models are under way, one inside the other.
        self.depth = 0
        self.profiler: Any = None
        #: Whether the profiler that is being made is perfguard's.
        self.by_us = False
        #: Where the script's own handler writes.
        self.handled: Optional[str] = None
        self.there_before: Set[str] = set()
        recorder.watch(self)

    def mark(self) -> None:
        """Mark the begin of a step in the trace."""

    def unmark(self) -> None:
        """Mark its end."""

    def directory(self) -> str:
        """Return where this rank's output goes; it is made if it is missing."""
        place: str = self.plan["profiler"]
        if self.plan["ranked"]:
            place = os.path.join(place, "rank_{}".format(number_of(self.rank_variable)))
        os.makedirs(place, exist_ok=True)
        return place

    def note_files(self) -> None:
        """Take note of the files that are not this profiler's."""
        self.there_before = set(os.listdir(self.directory()))

    def remove(self) -> None:
        """Remove what the profiler has written."""
        place = self.directory()
        for name in set(os.listdir(place)) - self.there_before:
            path = os.path.join(place, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)

    def noting_handler(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `tensorboard_trace_handler`: note the directory that the script gives it."""

        def handler(*arguments: Any, **keywords: Any) -> Any:
            if not self.by_us:
                self.handled = keywords.get("dir_name", arguments[0] if arguments else None)
            return make(*arguments, **keywords)

        return handler


def note_when_on(kind: Any, start: str, *stops: str) -> None:
    """Have a profiler class of the framework note when a profiler of the script is on."""

    def noting(method: Any, is_start: bool) -> Any:
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            on: Any = getattr(self, "perfguard", {}).get("on")
            is_on = bool(on) and on[-1][1] is None
            if on is not None and is_start and not is_on:
                on.append([time.time_ns(), None])
            if is_on and not is_start:
                on[-1][1] = time.time_ns()
            return method(self, *arguments, **keywords)

        return call

    setattr(kind, start, noting(getattr(kind, start), True))
    for stop in stops:
        if hasattr(kind, stop):
            setattr(kind, stop, noting(getattr(kind, stop), False))


def number_of(variable: str) -> int:
    """Return the number in a variable of the environment; 0 where there is none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else 0


def packages(*names: str) -> Dict[str, str]:
    """Return the versions of the packages that are installed, numpy's with them."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # Python 3.7
        return {}
    found = {}
    for name in (*names, "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
