"""The load of the machine: how much of its CPU time other processes use while a workload runs."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


class MachineLoad:
    """The load from when it is made. Processes that this one starts are not others.

    It is known where there is /proc, on Linux.
    """

    def __init__(self) -> None:
        self._busy_s, self._own_s = _busy_seconds(), _own_seconds()
        self._began = time.perf_counter()

    def others_share(self) -> float | None:
        """Return the share of the machine's CPU time that other processes used, from 0 to 1; None if unknown."""
        elapsed_s = time.perf_counter() - self._began
        now_s = _busy_seconds()
        if now_s is None or self._busy_s is None or not elapsed_s:
            return None
        others_s = now_s - self._busy_s - (_own_seconds() - self._own_s)
        return round(min(1.0, max(0.0, others_s / elapsed_s / (os.cpu_count() or 1))), 4)


def busy_ticks() -> dict[int, int]:
    """Return the ticks each CPU was busy since boot (proc(5): /proc/stat); empty if unknown."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit())
    # user nice system idle iowait irq softirq steal
    return {int(row[0][3:]): sum(map(int, row[1:4])) + sum(map(int, row[6:9])) for row in rows}


def _busy_seconds() -> float | None:
    """Return how long all CPUs together were busy since boot; None if unknown."""
    ticks = busy_ticks()
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK") if ticks else None


def _own_seconds() -> float:
    """Return the CPU time of this process and of all its descendants, such as the workers of a loader."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    waiting, seen = _children(os.getpid()), set[int]()
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            own += _cpu_seconds(pid)
            waiting += _children(pid)
    return own


def _children(pid: int) -> list[int]:
    """Return the children of a process (proc(5): /proc/pid/task/tid/children); none if unknown."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text(encoding="ascii").split())
    return found


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its ended children (proc(5): /proc/pid/stat, fields 14 to 17); 0 for none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    # The name, in parentheses, may contain any character.
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")
