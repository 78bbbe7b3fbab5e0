"""Handover: the memory that two processes share while they decode one trace, and how they send each other messages."""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

#: How many chunks are set aside at once.
ROOM = 8
#: Room for the text of a chunk, and for its columns: they take a fifth of the text.
TEXT_BYTES, COLUMN_BYTES = 1024 * 1024 + 4096, 2 * 1024 * 1024
SLOT_BYTES = TEXT_BYTES + COLUMN_BYTES


def send(message: Any, to: IO[bytes]) -> None:
    """Write a message to a pipe that is not buffered; raises `BrokenPipeError` where nobody reads it any more."""
    left = memoryview(pickle.dumps(message))
    while left:
        left = left[to.write(left) :]


@contextmanager
def shared_memory() -> Iterator[int]:
    """Make memory that two processes can map, for as long as this lasts."""
    with beyond_the_standard_ones(os.memfd_create("perfguard")) as memory:
        os.ftruncate(memory, ROOM * SLOT_BYTES)
        yield memory


@contextmanager
def beyond_the_standard_ones(file: int) -> Iterator[int]:
    """Give a file another number than those of stdin, stdout and stderr, which may be closed here; close it in the end."""
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
    """Map the memory that was made."""
    return mmap.mmap(memory, ROOM * SLOT_BYTES)
