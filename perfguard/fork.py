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
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from perfguard.errors import UsageError

Item = TypeVar("Item")

#: What a copy may take of memory beside what it was given, and the size of a file that it may write.
ROOM_BYTES = 256 * 1024**2
LARGEST_FILE_BYTES = 8 * 1024**3
#: A copy that has not begun after this time never will: another thread held a lock when it was made.
_START_S = 60
_HELLO, _ITEM, _RAISED, _END = range(4)
_is_copy = False


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
    reads, writes = os.pipe()
    watches, lives = os.pipe()
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
            while (kind := (message := pickle.load(stream))[0]) != _END:
                if kind == _RAISED:
                    raise message[1]
                if kind == _ITEM:
                    yield message[1]
    except (EOFError, pickle.UnpicklingError):
        status = _end(process)
        raise KilledError(status) from None
    finally:
        os.close(lives)
        if status is None:
            _end(process)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads: the copy uses none of what they use.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _await(reads: int) -> None:
    waiting = select.poll()
    waiting.register(reads, select.POLLIN)
    if not waiting.poll(_START_S * 1000):
        raise EOFError


def _end(process: int) -> int | None:
    """End a process; return the signal that had ended it, 0 for none, or None if somebody else asked for it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    try:
        return max(0, -os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    except ChildProcessError:
        return None


# -- in the copy ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer, whatever it does; without an effect outside of a copy."""
    if not _is_copy:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _be_copy(produce: Callable[[], Iterable[Any]], writes: int, watches: int) -> None:
    """Send what `produce` yields, and end without what Python does at its end: that belongs to the other process."""
    global _is_copy
    try:
        _is_copy = True
        gc.freeze()
        _be_quiet()
        _end_with_the_other(watches)
        _bound()
        with open(writes, "wb") as stream:
            _send(stream, _HELLO)
            try:
                for item in produce():
                    _send(stream, _ITEM, item)
                _send(stream, _END)
            except BaseException as error:  # noqa: BLE001 -- the other process raises it
                _send(stream, _RAISED, error)
    finally:
        os._exit(0)


def _send(stream: BinaryIO, kind: int, value: object = None) -> None:
    stream.write(pickle.dumps((kind, value)))
    stream.flush()


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
