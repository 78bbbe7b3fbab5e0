"""Chatter: lines that a framework's profiler writes to stderr in every run, and that say nothing of this one."""

from __future__ import annotations

import re

#: Lines of Kineto below a warning (libkineto/src/Logger.cpp: severity, time, process and thread, file and line), as
#: `USDT:2026-11-29 09:58:33 14500:14500 SyncActivityProfilerHandler.cpp:52] profiler_start`; and the warning of torch's
#: allocator that a block is older than the window (c10/core/CPUAllocator.cpp), once in a thousand such blocks. An error is only
#: that a torch built for CUDA finds no driver (35) or no device (100): it is in every run on a machine without a GPU.
_CHATTER = re.compile(
    r"(?:USDT|STAGE|INFO|VERBOSE):\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ \w+\.(?:cpp|h):\d+\] "
    r"|ERROR:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ DeviceProperties\.cpp:\d+\] gpuGetDeviceCount failed with code (?:35|100)$"
    r"|\[W\S* ?(?:[\d:.]+ )?\S*\w+\.cpp:\d+\] Memory block of unknown size was allocated before the profiling started"
)


def is_chatter(line: str) -> bool:
    """Whether a line is what torch's profiler writes in every run. Its warnings and errors are none."""
    return _CHATTER.match(line.strip()) is not None


def folded(text: str) -> str:
    """Return a captured output with its chatter as one line, which says how to see it."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not is_chatter(line)]
    count = len(lines) - len(kept)
    if not count:
        return text
    what = f"{count} lines" if count > 1 else "1 line"
    return "".join([*kept, f"(perfguard: {what} that torch's profiler writes in every run; pytest -v shows them)\n"])
