"""Engines: where work is done that is too much for one process. An engine opens a `concurrent.futures.Executor`, and no more.

What goes in: a function and items that can be pickled. What comes out (`spread`): its results in the order of the items,
whoever computed them. To add one, write a module with a class that keeps the promises of `Engine`, and one line in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Engine(Protocol):
    """Workers, and how many calls they take at once."""

    @property
    def jobs(self) -> int:
        """How many calls run at once."""

    def open(self, jobs: int) -> Executor:
        """Return an executor for so many calls at once; one that was opened before may be broken, and is not used again."""

    def is_loss(self, error: BaseException) -> bool:
        """Whether a call ended with this because its worker died."""

    def check(self) -> None:
        """Called while nothing comes back for a while; raises `UsageError` where nothing ever will."""

    def must_see(self, directory: str) -> None:
        """Raise `UsageError` where a worker does not see a directory of this machine."""

    def end(self, *, at_once: bool) -> None:
        """End what was opened; `at_once` without waiting for what it does."""

    def close(self) -> None:
        """Let go of the workers for good."""


#: Opens an engine: the number of jobs asked for (None: as many as there is room for), and the address of a scheduler.
Opener = Callable[[int | None, str | None], Engine]


def _opener(module: str) -> Opener:
    def opened(jobs: int | None, scheduler: str | None) -> Engine:
        found: Opener = import_module(f"perfguard.engines.{module}").opened
        return found(jobs, scheduler)

    return opened


ENGINES: dict[str, Opener] = {"local": _opener("local"), "dask": _opener("dask")}


def engine_named(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Open an engine; raises `UsageError` where it cannot be used here."""
    if scheduler is not None and name != "dask":
        raise UsageError(f"--scheduler {scheduler} is for --engine dask; say that as well, or leave it out.")
    return ENGINES[name](jobs, scheduler)
