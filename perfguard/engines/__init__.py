"""Engines: run work in several processes or machines. An engine opens a `concurrent.futures.Executor`.

To add one, write a module `perfguard/engines/NAME.py` with the function `opened`, which returns a class like `Engine`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Engine(Protocol):
    """A set of workers that run a number of calls at once."""

    @property
    def jobs(self) -> int:
        """Number of calls that run at once."""

    def open(self, jobs: int) -> Executor:
        """Return a new executor for `jobs` calls at once; an earlier one may be broken, and is not used again."""

    def is_loss(self, error: BaseException) -> bool:
        """Whether this error of a call means that its worker died."""

    def check(self) -> None:
        """Check the workers when no result arrives for a while; raise `UsageError` if none will ever arrive."""

    def require_access(self, directory: str) -> None:
        """Raise `UsageError` if a worker cannot access a directory of this machine."""

    def end(self, *, at_once: bool) -> None:
        """End the workers that were opened; `at_once` without waiting for their calls."""

    def close(self) -> None:
        """Release the workers for good."""


def engine_named(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Open an engine for so many jobs (None: as many as it can run). Raises `UsageError` if it cannot be used here."""
    if scheduler is not None and name != "dask":
        raise UsageError(f"--scheduler {scheduler} needs --engine dask. Add it, or leave --scheduler out.")
    engine: Engine = import_module(f"perfguard.engines.{name}").opened(jobs, scheduler)
    return engine
