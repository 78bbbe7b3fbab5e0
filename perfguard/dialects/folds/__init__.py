"""Folds: what is kept of a trace while it goes by, so that it need not be held.

What goes in: the events of a trace, a chunk at a time (`see`). What comes out: findings, or what executions and memory are made
of. What a fold keeps does not grow with the
trace, or is put into a `Spool`. To add one: a class with `@fold(...)` in a module of this package. What `see` takes of events
are numbers: of names, categories, threads and texts, times, and what a function of a module makes of them (`events.derived`),
since another process may have decoded them; whatever else it asks for is decoded here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perfguard.findings import Finding

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.artifacts.readers.trace import Streamed
    from perfguard.dialects.cycle import Artifact, Cycle


class Fold(Protocol):
    """What one pass over a trace leaves."""

    #: Names of the checks it makes.
    checks: ClassVar[tuple[str, ...]]

    def see(self, events: Events) -> None:
        """Take in the events of the next chunk."""
        ...

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say what is wrong, once all events have been seen; each finding names its check."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A fold, the slots it sees and the layouts it is for (none: all that have the slot)."""

    make: Callable[[], Fold]
    slots: tuple[str, ...]
    layouts: tuple[str, ...]
    #: Arguments it reads beside those the schema names, by kind of event.
    wanted: Mapping[str, tuple[str, ...]]


FOLDS: dict[str, Registered] = {}


def fold(
    *, slots: tuple[str, ...], layouts: tuple[str, ...] = (), wanted: Mapping[str, tuple[str, ...]] | None = None
) -> Callable[[Any], Any]:
    """Register a fold of the traces in some slots; the decorated class is made anew for every trace."""

    def register(cls: Any) -> Any:
        FOLDS[cls.__name__] = Registered(make=cls, slots=slots, layouts=layouts, wanted=wanted or {})
        return cls

    return register


def folds_of(slot: str, layout: str) -> dict[str, Registered]:
    """Return the folds of a slot of a layout, by name."""
    _load()
    return {
        name: one for name, one in FOLDS.items() if slot in one.slots and (not one.layouts or layout in one.layouts)
    }


@cache
def _load() -> None:
    for module in fold_modules():
        import_module(module)


@cache
def fold_modules() -> tuple[str, ...]:
    """Return the names of the modules of folds."""
    return tuple(f"{__name__}.{module.name}" for module in iter_modules(__path__))


def look_again(artifact: Artifact, see: Callable[[Events], None]) -> None:
    """Show the events of a trace to `see` once more: only where something is wrong, to say which of them it is.

    Raises `OSError` where the file is not what it was a moment ago.
    """
    assert artifact.content.look_again is not None
    refuse_change(artifact, artifact.content.look_again(see))


def refuse_change(artifact: Artifact, again: Streamed) -> None:
    """Raise `OSError` where a trace that was read a second time is another one, or is none any more."""
    if again.unreadable is not None or again.digest != artifact.content.digest:
        raise OSError(f"{artifact.path.name} is not what it was when it was read first: somebody writes it")


def hashed(values: Sequence[str] | Sequence[bytes]) -> Any:
    """Return an int64 for each text: equal ones have the same, others hardly ever, in every process."""
    import numpy as np
    import polars as pl

    if not values:
        return np.empty(0, np.int64)
    kind = pl.Binary if isinstance(values[0], bytes) else pl.String
    return pl.Series(values, dtype=kind).hash().to_numpy().view(np.int64)


def grown(table: Any, length: int) -> Any:
    """Return a table by number that is long enough: twice as long, with zeros, where it was not."""
    import numpy as np

    if len(table) >= length:
        return table
    larger = np.zeros(max(length, 2 * len(table)), table.dtype)
    larger[: len(table)] = table
    return larger


#: Levels of CANN whose events tell of a graph when it was loaded.
_GRAPH_LEVELS = (b'"model"', b'"node"')


def of_a_graph(events: Events) -> Any:
    """Return which events (X, whose argument `level` was asked for) tell of a graph."""
    return events.has_text("level", *_GRAPH_LEVELS)
