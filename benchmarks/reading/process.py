"""Run one command in a fresh process, and say what it took: CPU seconds, wall seconds, peak memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a process and the children it waited for took.

    `peak_bytes` is the largest resident set of any one of them, `tree_peak_bytes` the largest sum over all that was seen
    (every 0.1 s; pages that processes share count in each). `said` is the JSON the process printed last, if it did.
    """

    cpu_s: float
    wall_s: float
    peak_bytes: int
    tree_peak_bytes: int
    status: int
    failure: str | None
    said: Mapping[str, Any]


def spend(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], memory_limit: int, time_limit_s: float
) -> Spent:
    """Run a command to its end. Beyond the limit of memory or time it is killed, with its children, and `failure` says so."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        watch = _Watch(process.pid, memory_limit, began + time_limit_s)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            # Ctrl-C reaches only this process: the command leads a session of its own.
            os.killpg(process.pid, signal.SIGKILL)
            raise
        wall_s = time.perf_counter() - began
        watch.stop()
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [_tail(stream) for stream in (out, err)]
    failure = watch.failure
    if failure is None and process.returncode < 0:
        failure = f"killed by signal {-process.returncode}"
    return Spent(
        cpu_s=usage.ru_utime + usage.ru_stime,
        wall_s=wall_s,
        peak_bytes=usage.ru_maxrss * 1024,
        tree_peak_bytes=max(watch.peak, usage.ru_maxrss * 1024),
        status=process.returncode,
        failure=failure,
        said=_said(texts[0]) or {"error": texts[1][-500:]},
    )


class _Watch(threading.Thread):
    """Looks at the memory of a process and its descendants until it is told to stop, and ends them beyond a limit."""

    def __init__(self, pid: int, limit: int, until: float) -> None:
        super().__init__(daemon=True)
        self._pid, self._limit, self._until = pid, limit, until
        self._done = threading.Event()
        self.peak = 0
        self.failure: str | None = None

    def run(self) -> None:
        while not self._done.wait(_LOOK_S):
            # The command leads a session of its own.
            self.peak = max(self.peak, sum(map(_resident, _of_session(self._pid))))
            if self.peak > self._limit:
                self.failure = f"more than {self._limit / 1e9:.1f} GB"
            elif time.perf_counter() > self._until:
                self.failure = "more than the time limit"
            if self.failure is not None:
                os.killpg(self._pid, signal.SIGKILL)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def _of_session(leader: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:  # it has ended
                continue
            # The name in brackets may hold anything; the session is the fourth field behind it.
            if int(text.rpartition(")")[2].split()[3]) == leader:
                found.append(int(entry))
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * _PAGE
    except OSError:  # it has ended
        return 0


def _tail(stream: Any) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 20_000))
    return str(stream.read().decode(errors="replace"))


def _said(text: str) -> dict[str, Any]:
    last = text.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
