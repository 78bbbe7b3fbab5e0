"""Engines: run work in several processes or machines. An engine opens a `concurrent.futures.Executor`.

To add one, write a module `perfguard/engines/NAME.py` with the function `opened`, which returns an `Engine`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Engine(ABC):
    """A set of workers that run a number of calls at once."""

    #: Number of calls that run at once.
    jobs: int

    @abstractmethod
    def open(self, jobs: int) -> Executor:
        """Return a new executor for `jobs` calls at once; an earlier one may be broken, and is not used again."""

    @abstractmethod
    def is_loss(self, error: BaseException) -> bool:
        """Whether this error of a call means that its worker died."""

    def close(self) -> None:
        """Release the workers for good."""
        self.end(at_once=True)

    def check(self) -> None:  # noqa: B027
        """Check the workers when no result arrives for a while; raise `UsageError` if none will ever arrive."""

    def require_access(self, directory: str) -> None:  # noqa: B027
        """Raise `UsageError` if a worker cannot access a directory of this machine."""

    def end(self, *, at_once: bool) -> None:  # noqa: B027
        """End the workers that were opened; `at_once` without waiting for their calls."""


def engine_named(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Open an engine for so many jobs (None: as many as it can run). Raises `UsageError` if it cannot be used here."""
    if scheduler is not None and name != "dask":
        raise UsageError(f"--scheduler {scheduler} needs --engine dask. Add it, or leave --scheduler out.")
    engine: Engine = import_module(f"perfguard.engines.{name}").opened(jobs, scheduler)
    return engine
