"""Shared memory of two processes that decode one trace, and the messages between them."""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

#: The number of slots, each for one chunk.
SLOTS = 8
#: The space for the text of a chunk, and for its columns, which are typically a fifth of the text.
TEXT_BYTES, COLUMN_BYTES = 1024 * 1024 + 4096, 2 * 1024 * 1024
SLOT_BYTES = TEXT_BYTES + COLUMN_BYTES


def send(message: Any, to: IO[bytes]) -> None:
    """Write a message to an unbuffered pipe; raises `BrokenPipeError` if the other process has ended."""
    left = memoryview(pickle.dumps(message))
    while left:
        left = left[to.write(left) :]


@contextmanager
def shared_memory() -> Iterator[int]:
    """Make memory that two processes can map, until the context ends."""
    with above_standard_streams(os.memfd_create("perfguard")) as memory:
        os.ftruncate(memory, SLOTS * SLOT_BYTES)
        yield memory


@contextmanager
def above_standard_streams(file: int) -> Iterator[int]:
    """Move a file descriptor above those of stdin, stdout and stderr, which may be closed here; close it in the end."""
    import fcntl

    try:
        number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)
    try:
        yield number
    finally:
        os.close(number)


def mapped(memory: int) -> mmap.mmap:
    """Map shared memory into this process."""
    return mmap.mmap(memory, SLOTS * SLOT_BYTES)
