"""The local engine: processes of this machine, each with a thread here that hands it calls and waits for the results."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from perfguard import child
from perfguard.engines import Engine
from perfguard.errors import as_bytes


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


class LocalEngine(Engine):
    """A pool of processes; it detects by itself that one died."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._open: list[_Pool] = []

    def open(self, jobs: int) -> Executor:
        """Return a new pool, and close the earlier ones."""
        self.end(at_once=True)
        # So many threads of polars per process that all of them fit the CPUs.
        pool = _Pool(jobs, threads=max(1, usable_cpus() // self.jobs))
        self._open.append(pool)
        return pool

    def is_loss(self, error: BaseException) -> bool:
        """Whether the process of a call died."""
        return isinstance(error, BrokenExecutor)

    def end(self, *, at_once: bool) -> None:
        """End the processes."""
        while self._open:
            pool = self._open.pop()
            if at_once:
                pool.kill()
            pool.shutdown(wait=True, cancel_futures=True)


class _Pool(Executor):
    """An executor of processes of perfguard's own. Those of `multiprocessing` import from the working directory."""

    def __init__(self, jobs: int, *, threads: int) -> None:
        self._environment = {"POLARS_MAX_THREADS": str(threads), **os.environ}
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="perfguard-engine")
        #: The process of each thread.
        self._own = threading.local()
        self._started: list[_Worker] = []
        self._starting = threading.Lock()
        self._is_over = False

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Have a process call a function that it can import."""
        return self._threads.submit(self._called, pickle.dumps((function, arguments, named)))

    def _called(self, call: bytes) -> Any:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._starting:
                if self._is_over:
                    raise BrokenExecutor("the processes were ended")
                worker = self._own.worker = _Worker(self._environment)
                self._started.append(worker)
        try:
            answer = worker.answer(call)
        except (EOFError, OSError) as error:
            self._own.worker = None
            raise BrokenExecutor("a process died") from error
        is_result, found = pickle.loads(answer)
        if not is_result:
            raise pickle.loads(found)
        return found

    def kill(self) -> None:
        """End the processes in the middle of their calls."""
        with self._starting:
            self._is_over = True
            for worker in self._started:
                worker.process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after their calls."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        while self._started:
            self._started.pop().end()


class _Worker:
    """A process that makes one call after the other; it ends when this end of its socket is closed."""

    def __init__(self, environment: dict[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = child.start(
                child.own_command(f"{__name__}:serve", path=[*filter(None, sys.path)], ends_with_parent=False),
                env=environment,
                stdin=theirs,
                # What is printed there is no part of the output.
                stdout=child.DEVNULL,
                stderr=None if sys.stderr else child.DEVNULL,
                # Ctrl-C ends this process, and its end ends all others.
                start_new_session=True,
            )
        with ours:
            self._calls, self._results = ours.makefile("wb"), ours.makefile("rb")

    def answer(self, call: bytes) -> bytes:
        """Return whether a call had a result, and that or its exception. Raises `EOFError` or `OSError` if the process died."""
        _send(call, self._calls)
        return _received(self._results)

    def end(self) -> None:
        """End the process, and wait for its end."""
        for file in (self._calls, self._results):
            with contextlib.suppress(OSError):
                file.close()
        self.process.wait()


def serve() -> None:
    """Make the calls that come in by standard input, one after the other, and send back what each returns or raises."""
    with socket.socket(fileno=os.dup(0)) as connection:
        calls, results = connection.makefile("rb"), connection.makefile("wb")
    # For what the calls read, or start.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    waiting: SimpleQueue[bytes | None] = SimpleQueue()
    is_busy = threading.Event()

    def listen() -> None:
        while True:
            try:
                call = _received(calls)
            except (EOFError, OSError):
                if is_busy.is_set():
                    # In the middle of a call that nobody waits for.
                    os._exit(1)
                waiting.put(None)
                return
            is_busy.set()
            waiting.put(call)

    threading.Thread(target=listen, daemon=True).start()
    while (call := waiting.get()) is not None:
        answer = _answer(call)
        is_busy.clear()
        with contextlib.suppress(BrokenPipeError):
            _send(answer, results)


def _answer(call: bytes) -> bytes:
    try:
        function, arguments, named = pickle.loads(call)
        return pickle.dumps((True, function(*arguments, **named)))
    except Exception as error:  # noqa: BLE001 - it is raised where the call was made
        return pickle.dumps((False, as_bytes(error)))


def _send(message: bytes, to: IO[bytes]) -> None:
    to.write(len(message).to_bytes(8))
    to.write(message)
    to.flush()


def _received(file: IO[bytes]) -> bytes:
    """Return the next message. Raises `EOFError` if there is none, or less of it."""
    length = int.from_bytes(file.read(8))
    message = file.read(length)
    if not message or len(message) < length:
        raise EOFError
    return message
