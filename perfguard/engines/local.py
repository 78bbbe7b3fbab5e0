"""The local engine: processes of this machine, started afresh: a fork of a process with threads, as polars has, may hang."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


def usable_cpus() -> int:
    """Return how many CPUs this process may use: those of its affinity, and of its cgroup's quota where it has one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    return count


def opened(jobs: int | None, scheduler: str | None) -> LocalEngine:
    """Return the engine; no process is started before the first call."""
    return LocalEngine(jobs or usable_cpus())


class _Starts(SpawnContext):
    """Starts processes, and knows which: they are to be gone when the work is stopped."""

    def __init__(self) -> None:
        self.started: list[BaseProcess] = []

    def Process(self, *args: Any, **more: Any) -> BaseProcess:  # type: ignore[override]
        process = super().Process(*args, **more)
        self.started.append(process)
        return process


class LocalEngine:
    """A pool of processes."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._open: list[tuple[ProcessPoolExecutor, _Starts]] = []

    def open(self, jobs: int) -> Executor:
        """Return a new pool; those before it are closed."""
        self.end(at_once=True)
        starts = _Starts()
        pool = ProcessPoolExecutor(jobs, mp_context=starts, initializer=_begin, initargs=(_threads_of(self.jobs),))
        self._open.append((pool, starts))
        return pool

    def is_loss(self, error: BaseException) -> bool:
        """A pool whose process died is broken as a whole."""
        return isinstance(error, BrokenExecutor)

    def check(self) -> None:
        """A pool notices by itself that a process died."""

    def must_see(self, directory: str) -> None:
        """Processes of this machine see what this one sees."""

    def close(self) -> None:
        """There is nothing but the pool."""
        self.end(at_once=True)

    def end(self, *, at_once: bool) -> None:
        """End the processes."""
        while self._open:
            pool, starts = self._open.pop()
            if at_once:
                for process in starts.started:
                    _end(process.terminate)
            pool.shutdown(wait=True, cancel_futures=True)


def _end(terminate: Callable[[], None]) -> None:
    # It may not have been started, or it is gone already.
    with contextlib.suppress(ValueError, AttributeError):
        terminate()


def _threads_of(jobs: int) -> int:
    """Return how many threads polars may have in each process, so that together they do not fight for the CPUs."""
    return max(1, usable_cpus() // jobs)


def _begin(threads: int) -> None:
    """What a process does first: nothing has loaded polars yet, which reads its number of threads once."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    # Ctrl-C goes to all processes of a terminal; the first one tells the others to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: BaseProcess) -> None:
    """End with the process that started this one, however it ended: a pool's process would wait for it forever."""
    parent.join()
    os._exit(1)
