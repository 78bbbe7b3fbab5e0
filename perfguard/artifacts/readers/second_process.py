"""A second process that decodes half of a large trace, so that two cores are used; it starts before this one loads anything."""

from __future__ import annotations

import mmap
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard import child
from perfguard.artifacts.readers.shared_memory import above_standard_streams, mapped, send, shared_memory

if TYPE_CHECKING:
    from perfguard.artifacts.readers.decoder import EventDecoder
    from perfguard.artifacts.readers.partner import Partner

#: The smallest trace worth a process: starting one takes as long as reading a third of it. In gzip it is smaller.
WORTH_BYTES, GZIP_RATIO = 64 * 1024**2, 8


@contextmanager
def second_process(
    traces: Iterable[Path], processes: int | None, modules: Sequence[str] = ()
) -> Iterator[Second | None]:
    """Start a process if one of the traces is large enough, else yield None; the process ends with the context.

    `processes` includes this one; None: two, if there are two CPUs. `modules` are those that the other process will need.
    """
    if processes == 1 or not any(map(_is_worth_it, traces)) or (processes or _usable_cpus()) < 2:
        yield None
        return
    with Second(modules) as second:
        yield second


def _is_worth_it(path: Path) -> bool:
    """Whether a trace is large, and the system can share memory."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return hasattr(os, "memfd_create") and size * (GZIP_RATIO if path.suffix == ".gz" else 1) >= WORTH_BYTES


def _usable_cpus() -> int:
    from perfguard.engines.local import usable_cpus

    return usable_cpus()


class Second:
    """A second process: started ahead for the first large trace, and again for each later one."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = tuple(modules)
        self._stack = ExitStack()
        self._memory: mmap.mmap | None = None
        self._replies = -1
        self._process: child.Popen[bytes] | None = None

    def __enter__(self) -> Second:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def beside(self, path: Path, decoder: EventDecoder) -> Partner | None:
        """Return the partner of `decoder`, with a new process for each trace.

        None for a small trace, and if no process can be started.
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
        # Without memory or a Python to run, this process decodes all chunks, with the same result.
        with suppress(OSError):
            shared = self._stack.enter_context(shared_memory())
            self._memory = mapped(shared)
            self._replies, replies = os.pipe()
            self._stack.callback(os.close, self._replies)
            with above_standard_streams(replies) as writable:
                process = self._stack.enter_context(
                    child.start(
                        child.own_command(
                            f"{__name__}:main", str(shared), str(writable), path=[*filter(None, sys.path)],
                            ends_with_parent=False,
                        ),
                        # Modules that are imported there may print.
                        stdin=child.PIPE, stdout=child.DEVNULL, stderr=None if sys.stderr else child.DEVNULL,
                        pass_fds=[shared, writable], bufsize=0, start_new_session=True,
                    )
                )  # fmt: skip
            # Its unfinished chunks are not needed.
            self._stack.callback(process.kill)
            assert process.stdin is not None
            send(self._modules, process.stdin)
            self._process = process


def main() -> None:
    """Be the second process: import the modules that the first one names, then decode what it sends."""
    for name in pickle.load(sys.stdin.buffer):
        import_module(name)
    from perfguard.artifacts.readers.partner import serve

    memory, replies = map(int, sys.argv[1:])
    serve(mapped(memory), sys.stdin.buffer, replies)
