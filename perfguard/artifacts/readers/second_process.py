"""A second process for a large trace, so that two cores are used: started before anything else is loaded here."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.artifacts.readers.handover import beyond_the_standard_ones, mapped, send, shared_memory

if TYPE_CHECKING:
    from perfguard.artifacts.readers.decoder import EventDecoder
    from perfguard.artifacts.readers.partner import Partner

#: Traces from this size on are worth a process: to start one takes as long as to read a third of it. In gzip they are smaller.
WORTH_BYTES, GZIP_RATIO = 64 * 1024**2, 8
#: What it runs: with the modules of this process, whatever lies in the working directory. Who interrupts this process ends
#: that one with it.
_PROGRAM = """
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:], modules = pickle.load(sys.stdin.buffer)
from importlib import import_module
for name in modules:
    import_module(name)
from perfguard.artifacts.readers.partner import decode_for_another
from perfguard.artifacts.readers.handover import mapped
decode_for_another(mapped(int(sys.argv[1])), sys.stdin.buffer, int(sys.argv[2]))
"""


@contextmanager
def second_process(
    traces: Iterable[Path], processes: int | None, modules: Sequence[str] = ()
) -> Iterator[Second | None]:
    """Start a process where one of the traces is so large that it is worth it, and end it; None where none is.

    Of `processes` one is this one; None: two, where there are as many CPUs. `modules` are what the other will need.
    """
    if processes == 1 or not any(map(_is_worth_it, traces)) or (processes or _usable_cpus()) < 2:
        yield None
        return
    with Second(modules) as second:
        yield second


def _is_worth_it(path: Path) -> bool:
    """Whether a trace is large, on a system that can hand memory over."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return hasattr(os, "memfd_create") and size * (GZIP_RATIO if path.suffix == ".gz" else 1) >= WORTH_BYTES


def _usable_cpus() -> int:
    from perfguard.engines.local import usable_cpus

    return usable_cpus()


class Second:
    """A process that is being started, for the trace that is read next."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = tuple(modules)
        self._stack = ExitStack()
        self._memory: mmap.mmap | None = None
        self._replies = -1
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Second:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def beside(self, path: Path, decoder: EventDecoder) -> Partner | None:
        """Return what has chunks decoded for `decoder`, for each trace by another process.

        None for a small trace, and where no process can be started.
        """
        if not _is_worth_it(path):
            return None
        from perfguard.artifacts.readers.partner import Partner

        if self._process is None:
            self._stack.close()
            self._start()
        process, self._process = self._process, None
        if process is None or self._memory is None:
            return None
        assert process.stdin is not None
        return Partner(decoder, self._memory, process.stdin, self._replies)

    def _start(self) -> None:
        # Where there is no room for it, or no Python to run it, all is done by one process, and comes out the same.
        with suppress(OSError):
            shared = self._stack.enter_context(shared_memory())
            self._memory = mapped(shared)
            self._replies, replies = os.pipe()
            self._stack.callback(os.close, self._replies)
            with beyond_the_standard_ones(replies) as said:
                process = self._stack.enter_context(
                    subprocess.Popen(
                        [sys.executable or sys.orig_argv[0], "-P", "-c", _PROGRAM, str(shared), str(said)],
                        # What else is loaded there may print what it likes.
                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=None if sys.stderr else subprocess.DEVNULL,
                        pass_fds=[shared, said], bufsize=0,
                    )
                )  # fmt: skip
            # Nobody waits for what it is at.
            self._stack.callback(process.kill)
            assert process.stdin is not None
            send((sys.path, self._modules), process.stdin)
            self._process = process
