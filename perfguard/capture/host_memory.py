"""Host memory that a process has in use: what it asked for and has not given back."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from perfguard import thresholds

#: Allocated, to see whether `mallinfo2` knows of it: with another malloc preloaded glibc's own counts nothing.
_PROBE_BYTES = 1 << 20


class _MallocState(ctypes.Structure):
    """`struct mallinfo2` (malloc.h, glibc 2.33 and later), summed over all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


def host_memory_reader() -> Callable[[], int] | None:
    """Return a function that reads the bytes in use, or None where malloc is not that of glibc 2.33 or later.

    In use is what malloc handed out, and every small block of Python's own allocator. Not the resident set: a leak
    first fills memory that was touched and freed before, and the resident set does not move.
    """
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    mallinfo2.restype = _MallocState

    def in_use_bytes() -> int:
        state = mallinfo2()
        small = sys.getallocatedblocks() * thresholds.PYTHON_BLOCK_BYTES
        return int(state.uordblks + state.hblkhd + small)

    before = in_use_bytes()
    probe = bytearray(_PROBE_BYTES)
    return in_use_bytes if in_use_bytes() - before >= len(probe) else None
