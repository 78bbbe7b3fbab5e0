"""The local engine: spawned processes of this machine; a fork of a process with threads, as polars has, may hang."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from perfguard.engines import Engine


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, by its affinity and its cgroup's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    return count


def opened(jobs: int | None, scheduler: str | None) -> LocalEngine:
    """Return the engine; it starts its processes with the first call."""
    return LocalEngine(jobs or usable_cpus())


class _Deaf(SpawnProcess):
    """A process that Ctrl-C does not reach: a terminal sends it to all processes, and the main process ends the others."""

    def start(self) -> None:
        """Start the process with SIGINT blocked, so that it is from its first instruction on, before any code of its own."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Starts(SpawnContext):
    """A context that records its processes, to end them when the work is stopped."""

    def __init__(self) -> None:
        self.started: list[BaseProcess] = []

    def Process(self, *args: Any, **more: Any) -> BaseProcess:  # type: ignore[override]
        process = _Deaf(*args, **more)
        self.started.append(process)
        return process


class LocalEngine(Engine):
    """A pool of processes; it detects by itself that one died."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._open: list[tuple[ProcessPoolExecutor, _Starts]] = []

    def open(self, jobs: int) -> Executor:
        """Return a new pool, and close the earlier ones."""
        self.end(at_once=True)
        starts = _Starts()
        # So many threads of polars per process that all of them fit the CPUs.
        threads = max(1, usable_cpus() // self.jobs)
        pool = ProcessPoolExecutor(jobs, mp_context=starts, initializer=_begin, initargs=(threads,))
        self._open.append((pool, starts))
        return pool

    def is_loss(self, error: BaseException) -> bool:
        """Whether a process of the pool died, which breaks the whole pool."""
        return isinstance(error, BrokenExecutor)

    def end(self, *, at_once: bool) -> None:
        """End the processes."""
        while self._open:
            pool, starts = self._open.pop()
            if at_once:
                for process in starts.started:
                    # It may not have started, or has ended already.
                    with contextlib.suppress(ValueError, AttributeError):
                        process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(threads: int) -> None:
    """Initialise a process, before polars is imported and reads its number of threads."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: BaseProcess) -> None:
    """End when the parent process ends: a pool's process would otherwise wait for it forever."""
    parent.join()
    os._exit(1)
