"""Engines: run work in several processes or machines. An engine opens a `concurrent.futures.Executor`.

`spread` applies a function to items (both can be pickled) and yields the results in the order of the items. To add an engine,
write a module with a class that has the methods of `Engine`, and a line in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable
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


#: Opens an engine: the requested number of jobs (None: as many as the engine can run), and the address of a scheduler.
Opener = Callable[[int | None, str | None], Engine]


def _opener(module: str) -> Opener:
    def opened(jobs: int | None, scheduler: str | None) -> Engine:
        found: Opener = import_module(f"perfguard.engines.{module}").opened
        return found(jobs, scheduler)

    return opened


ENGINES: dict[str, Opener] = {"local": _opener("local"), "dask": _opener("dask")}


def engine_named(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Open an engine; raises `UsageError` if it cannot be used here."""
    if scheduler is not None and name != "dask":
        raise UsageError(f"--scheduler {scheduler} needs --engine dask. Add it, or leave --scheduler out.")
    return ENGINES[name](jobs, scheduler)
