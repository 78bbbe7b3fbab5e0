"""The Dask engine: the workers of a Dask cluster that runs already."""

from __future__ import annotations

import contextlib
import logging
import time
from concurrent.futures import CancelledError, Executor
from typing import Any

from perfguard.errors import UsageError

#: For how long a scheduler may be silent before it is taken to be not there.
_ANSWER_S = 5
#: For how long a cluster may be without any worker: a lost one is started again by its nanny.
_WORKERLESS_S = 60.0


def opened(jobs: int | None, scheduler: str | None) -> DaskEngine:
    """Connect to a scheduler: the one named, else the one in Dask's own configuration (DASK_SCHEDULER_ADDRESS).

    Raises `UsageError` where `distributed` is not installed, where no scheduler answers within seconds, where it has no
    workers, and where these have another perfguard or polars.
    """
    try:
        import dask.config
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            f"--engine dask needs the package distributed, and it cannot be imported ({error}). "
            "Run: pip install 'perfguard[dask]'"
        ) from error
    address = scheduler or dask.config.get("scheduler-address", None)
    if not address:
        raise UsageError("--engine dask needs the address of a scheduler; name it: --scheduler tcp://HOST:8786")
    # What it would log, about an address that does not answer for instance, is said here in one sentence.
    quiet = logging.getLogger("distributed")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL + 1)
    try:
        client = Client(address, timeout=_ANSWER_S, set_as_default=False, name="perfguard")
    except (OSError, ValueError, TypeError, ImportError) as error:
        quiet.setLevel(level)
        raise UsageError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with: dask scheduler, or leave "
            "--engine dask out to use the processes of this machine."
        ) from error
    engine = DaskEngine(client, jobs, quiet, level)
    try:
        engine.check_workers()
    except BaseException:
        engine.close()
        raise
    return engine


class DaskEngine:
    """A client of a cluster. Its workers are its own: none is started or ended here."""

    def __init__(self, client: Any, jobs: int | None, log: logging.Logger, level: int) -> None:
        self._client = client
        self._log, self._level = log, level
        self._without_workers_since: float | None = None
        self.address = client.scheduler.address
        self.jobs = jobs or max(1, sum(client.nthreads().values()))

    def open(self, jobs: int) -> Executor:
        """Return the client as an executor. A call is never taken for one that was made before."""
        executor: Executor = self._client.get_executor(pure=False)
        return executor

    def is_loss(self, error: BaseException) -> bool:
        """A task is given up when it was on several workers that died. Raises `UsageError` where the scheduler is gone."""
        from distributed import KilledWorker

        if isinstance(error, CancelledError) or type(error).__name__ == "FutureCancelledError":
            raise UsageError(
                f"the Dask scheduler at {self.address} was lost before the end; start it again, then run the same command "
                "again."
            ) from error
        return isinstance(error, KilledWorker)

    def check(self) -> None:
        """Raise `UsageError` where the scheduler is gone, or its workers are gone for good."""
        self._check_scheduler()
        if self._client.scheduler_info()["workers"]:
            self._without_workers_since = None
            return
        now = time.monotonic()
        self._without_workers_since = self._without_workers_since or now
        if now - self._without_workers_since > _WORKERLESS_S:
            raise UsageError(f"all workers of the Dask scheduler at {self.address} are gone; {_start(self.address)}")

    def _check_scheduler(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise UsageError(
                f"the Dask scheduler at {self.address} was lost before the end; start it again, then run the same command "
                "again."
            )

    def check_workers(self) -> None:
        """Raise `UsageError` where there are no workers, or one does not have what this process has."""
        import polars as pl

        from perfguard.version import __version__

        if not self._client.scheduler_info()["workers"]:
            raise UsageError(f"the Dask scheduler at {self.address} has no workers; {_start(self.address)}")
        for name, version in (("perfguard", __version__), ("polars", pl.__version__)):
            for worker, there in self.ask("pkgutil", "resolve_name", f"{name}:__version__").items():
                if there != version:
                    found = "cannot be imported" if isinstance(there, BaseException) else f"is {there}"
                    raise UsageError(
                        f"{name} is {version} here, and on the worker {worker} it {found}; install it there: "
                        f"pip install {name}=={version}"
                    )

    def ask(self, module: str, function: str, *arguments: Any) -> dict[str, Any]:
        """Return what a function of the standard library returns on every worker, or raises there."""
        from importlib import import_module

        called = getattr(import_module(module), function)
        found: dict[str, Any] = self._client.run(called, *arguments, on_error="return")
        return found

    def must_see(self, directory: str) -> None:
        """Raise `UsageError` where a worker does not see a directory: it is not on a filesystem that they share."""
        for worker, there in self.ask("os.path", "isdir", directory).items():
            if there is not True:
                raise UsageError(
                    f"the worker {worker} does not see {directory}; name a directory on a filesystem that all workers "
                    "share, or a URL (s3://...)."
                )

    def end(self, *, at_once: bool) -> None:
        """Calls whose results nobody waits for are taken back by the scheduler."""

    def close(self) -> None:
        """Leave the cluster; what it was still to do is taken back."""
        with contextlib.suppress(OSError, TimeoutError, CancelledError):
            self._client.close(timeout=_ANSWER_S)
        self._log.setLevel(self._level)


def _start(address: str) -> str:
    return f"start one with: dask worker {address}"
