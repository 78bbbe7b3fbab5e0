"""The Dask engine: the workers of a running Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor
from pkgutil import resolve_name
from typing import Any

from perfguard.engines import Engine
from perfguard.errors import UsageError
from perfguard.version import __version__, install_command, same_version

#: Longest wait for the answer of a scheduler, in seconds.
_ANSWER_S = 5
#: Longest time of a cluster without workers, in seconds: its nanny restarts a lost worker.
_WORKERLESS_S = 60.0


def opened(jobs: int | None, scheduler: str | None) -> DaskEngine:
    """Connect to the given scheduler, else to the one in Dask's configuration (DASK_SCHEDULER_ADDRESS).

    Raises `UsageError` if `distributed` is not installed, no scheduler answers within seconds, it has no workers, or they have
    another version of perfguard or polars.
    """
    try:
        import dask.config
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            f"--engine dask needs the package distributed, which cannot be imported ({error}). "
            f"Run: {install_command('dask')}"
        ) from error
    address = scheduler or dask.config.get("scheduler-address", None)
    if not address:
        raise UsageError("--engine dask needs the address of a scheduler. Add: --scheduler tcp://HOST:8786")
    # The error below replaces its log messages.
    quiet = logging.getLogger("distributed")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL + 1)
    try:
        client = Client(address, timeout=_ANSWER_S, set_as_default=False, name="perfguard")
    except (OSError, ValueError, TypeError, ImportError) as error:
        quiet.setLevel(level)
        raise UsageError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}). Start one with: dask scheduler, or leave "
            "--engine dask out to use the processes of this machine."
        ) from error
    engine = DaskEngine(client, jobs, quiet, level)
    try:
        engine.check_workers()
    except BaseException:
        engine.close()
        raise
    return engine


class DaskEngine(Engine):
    """A client of a cluster; it neither starts nor ends the workers. The scheduler cancels calls without a waiting client."""

    def __init__(self, client: Any, jobs: int | None, log: logging.Logger, level: int) -> None:
        self._client = client
        self._log, self._level = log, level
        self._without_workers_since: float | None = None
        self.address = client.scheduler.address
        self.jobs = jobs or max(1, sum(client.nthreads().values()))

    def open(self, jobs: int) -> Executor:
        """Return the client as an executor that runs every call, even a repeated one."""
        executor: Executor = self._client.get_executor(pure=False)
        return executor

    def is_loss(self, error: BaseException) -> bool:
        """Whether Dask gave a task up because several of its workers died. Raises `UsageError` if the scheduler is gone."""
        from distributed import KilledWorker

        if isinstance(error, CancelledError) or type(error).__name__ == "FutureCancelledError":
            raise self._lost() from error
        return isinstance(error, KilledWorker)

    def check(self) -> None:
        """Raise `UsageError` if the scheduler is gone, or all workers are gone for too long."""
        if self._client.status not in ("running", "connecting"):
            raise self._lost()
        if self._client.scheduler_info()["workers"]:
            self._without_workers_since = None
            return
        now = time.monotonic()
        self._without_workers_since = self._without_workers_since or now
        if now - self._without_workers_since > _WORKERLESS_S:
            raise UsageError(f"all workers of the Dask scheduler at {self.address} are gone. {_start(self.address)}")

    def _lost(self) -> UsageError:
        return UsageError(
            f"the Dask scheduler at {self.address} was lost. Start it again, then run the same command again."
        )

    def check_workers(self) -> None:
        """Raise `UsageError` if there are no workers, or one has other versions than this process."""
        import polars as pl

        if not self._client.scheduler_info()["workers"]:
            raise UsageError(f"the Dask scheduler at {self.address} has no workers. {_start(self.address)}")
        for name, version in (("perfguard", __version__), ("polars", pl.__version__)):
            for worker, there in self.run_everywhere(resolve_name, f"{name}:__version__").items():
                if there != version:
                    found = "cannot be imported" if isinstance(there, BaseException) else f"is {there}"
                    raise UsageError(
                        f"{name} is {version} here, but on the worker {worker} it {found}. Install it there: "
                        f"{same_version(version) if name == 'perfguard' else f'pip install {name}=={version}'}"
                    )

    def run_everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function of the standard library on every worker; return its result or exception by worker."""
        found: dict[str, Any] = self._client.run(function, *arguments, on_error="return")
        return found

    def require_access(self, directory: str) -> None:
        """Raise `UsageError` if a worker cannot access a directory, because it is not on a shared filesystem."""
        for worker, there in self.run_everywhere(os.path.isdir, directory).items():
            if there is not True:
                raise UsageError(
                    f"the worker {worker} cannot access {directory}. Use a directory on a filesystem that all workers "
                    "share, or a URL (s3://...)."
                )

    def close(self) -> None:
        """Leave the cluster; it cancels the remaining calls."""
        with contextlib.suppress(OSError, TimeoutError, CancelledError):
            self._client.close(timeout=_ANSWER_S)
        self._log.setLevel(self._level)


def _start(address: str) -> str:
    return f"Start one with: dask worker {address}"
