"""A framework in this process: what the recorder needs of one, and what torch and MindSpore have in common."""

from __future__ import annotations

import contextlib
import os
import shutil
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set, Tuple

    from .recorder import StepRecorder


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
