"""Host memory in use: what a process has allocated and not freed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from perfguard import thresholds

#: Allocated to test whether `mallinfo2` counts it: if another malloc is preloaded, that of glibc counts nothing.
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
    """Return a function that reads the bytes in use, or None if malloc is not that of glibc 2.33 or later.

    In use are the allocations of malloc and the small blocks of Python's own allocator. The resident set would not do: a leak
    first fills memory that was used and freed before, and the resident set does not change.
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
