"""Forks: a function runs in a copy of this process, which the system ends if it takes too long, or too much memory.

A copy has everything that this process has read, and costs a few milliseconds. It has one thread; whatever started others
(polars, a framework) must not be used in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from perfguard.errors import UsageError, as_bytes

Item = TypeVar("Item")

#: What a copy may take of memory beside what it was given, and the size of a file that it may write.
ROOM_BYTES = 256 * 1024**2
LARGEST_FILE_BYTES = 8 * 1024**3
#: A copy that has not begun after this time never will: another thread held a lock when it was made.
_START_S = 60
_HELLO, _ITEM, _RAISED, _END = range(4)
_is_copy = False
#: When the limit of a copy is over, by `time.perf_counter`: a timer that is set anew for every item would be rounded up to
#: microseconds each time, and never end.
_ends_s: float | None = None


class KilledError(Exception):
    """A copy ended too early; `is_late`: it took too long, else too much memory, or it crashed."""

    def __init__(self, signal_number: int | None) -> None:
        super().__init__(signal_number)
        self.is_late = signal_number == signal.SIGALRM


def forked(produce: Callable[[], Iterable[Item]]) -> Iterator[Item]:
    """Yield what `produce` yields in a copy of this process, as it is asked for.

    Raises what it raises, and `KilledError` if the system ended the copy, which ends with this process, or when the iterator is
    closed.
    """
    reads, writes = _pipe()
    watches, lives = _pipe()
    try:
        process = _fork()
    except OSError as error:
        for one in (reads, writes, watches, lives):
            os.close(one)
        raise UsageError(
            f"A query needs a process of its own: {error.strerror}. Free memory, then try again."
        ) from error
    if not process:
        os.close(reads)
        os.close(lives)
        _be_copy(produce, writes, watches)
    os.close(writes)
    os.close(watches)
    status: int | None = None
    try:
        with open(reads, "rb") as stream:
            _await(reads)
            while True:
                try:
                    kind, value = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError):
                    status = _end(process)
                    raise KilledError(status) from None
                if kind == _RAISED:
                    raise pickle.loads(value)
                if kind == _END:
                    return
                if kind == _ITEM:
                    yield value
    finally:
        os.close(lives)
        if status is None:
            _end(process)


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe, none of them where a standard stream is: a program may be started without one."""
    ends = os.pipe()
    found = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in ends)
    for one in ends:
        os.close(one)
    return found[0], found[1]


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads: the copy uses none of what they use.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _await(reads: int) -> None:
    waiting = select.poll()
    waiting.register(reads, select.POLLIN)
    if not waiting.poll(_START_S * 1000):
        raise UsageError(f"A query's process has not begun after {_START_S} s. Try again.")


def _end(process: int) -> int | None:
    """End a process; return the signal that had ended it, 0 for none, or None if somebody else asked for it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    try:
        return max(0, -os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    except ChildProcessError:
        return None


# -- in the copy ---------------------------------------------------------------------------------------------------------


def limit_time(seconds: float) -> None:
    """End this process after a time from now on, whatever it does; without an effect outside of a copy.

    A limit lasts until the next one, and stands still while the other process has not taken what was sent.
    """
    global _ends_s
    if _is_copy:
        _ends_s = time.perf_counter() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _be_copy(produce: Callable[[], Iterable[Any]], writes: int, watches: int) -> None:
    """Send what `produce` yields, and end without what Python does at its end: that belongs to the other process."""
    global _is_copy
    try:
        _is_copy = True
        with open(writes, "wb") as stream:
            try:
                gc.freeze()
                _be_quiet()
                _end_with_the_other(watches)
                _bound()
                _send(stream, _HELLO)
                for item in produce():
                    _send(stream, _ITEM, item)
                _send(stream, _END)
            except BaseException as error:  # noqa: BLE001 -- the other process raises it
                _send(stream, _RAISED, as_bytes(error))
    finally:
        os._exit(0)


def _send(stream: BinaryIO, kind: int, value: object = None) -> None:
    global _ends_s
    message = pickle.dumps((kind, value))
    signal.setitimer(signal.ITIMER_REAL, 0)
    begins_s = time.perf_counter()
    stream.write(message)
    stream.flush()
    if _ends_s is not None:
        now_s = time.perf_counter()
        _ends_s += now_s - begins_s
        if now_s >= _ends_s:
            signal.raise_signal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, _ends_s - now_s)


def _be_quiet() -> None:
    """Leave signals and standard streams to the other process."""
    import faulthandler

    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for one in signal.valid_signals():
        if callable(signal.getsignal(one)) or one in (signal.SIGALRM, signal.SIGIO):
            signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, signal.SIGIO))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)


def _end_with_the_other(watches: int) -> None:
    """Let the system send SIGIO, which ends this process, when the other one has ended: nobody else can write to the pipe."""
    fcntl.fcntl(watches, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(watches, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        if not os.read(watches, 1):
            os._exit(0)  # it has ended before


def _bound() -> None:
    """Let this process have so much more memory, and no more, where the system can tell (Linux, proc_pid_status(5))."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_FSIZE, LARGEST_FILE_BYTES)
    status = Path("/proc/self/status")
    used = [line for line in status.read_text().splitlines() if line.startswith("VmData:")] if status.exists() else []
    if used:
        _lower(resource.RLIMIT_DATA, int(used[0].split()[1]) * 1024 + ROOM_BYTES)


def _lower(limit: int, value: int) -> None:
    now, most = resource.getrlimit(limit)
    limits = [one for one in (now, most, value) if one != resource.RLIM_INFINITY]
    resource.setrlimit(limit, (min(limits), most))
