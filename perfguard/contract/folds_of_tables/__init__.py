"""Folds of tables: what is kept of a large table while it goes by, so that it need not be held.

What goes in: the rows of a table, a block at a time (`see`). What comes out: findings, in the name of the invariants that ask
the same of a table that is read whole, or what executions are made of. What a fold keeps does not grow with the rows. To add
one: a class with `@fold_of_table(slot)` in a module of this package. What no fold stands for is not asked of a table that went
by, and `inspect` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perfguard.contract.table import Cells, Table
from perfguard.findings import Finding

if TYPE_CHECKING:
    from perfguard.contract.inspection import Artifact, Cycle
    from perfguard.contract.readers.large_comma import Rows

#: Tables for which there are no folds are held up to this many bytes, as they always were: their cells take twice as much.
KEPT_UP_TO = 256 * 1024**2


class Fold(Protocol):
    """What one pass over a table leaves."""

    #: Names of the invariants this stands for where the table is not held.
    checks: ClassVar[tuple[str, ...]]

    def wants(self, column: str) -> bool:
        """Whether it looks at a column."""
        ...

    def see(self, rows: Rows) -> None:
        """Take in the rows of the next block."""
        ...

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say what is wrong, once all rows have been seen; each finding names its check."""
        ...


FOLDS: dict[str, tuple[str, Callable[[], Fold]]] = {}


def fold_of_table(slot: str) -> Callable[[Any], Any]:
    """Register a fold of the tables in a slot; the decorated class is made anew for every table."""

    def register(cls: Any) -> Any:
        FOLDS[cls.__name__] = (slot, cls)
        return cls

    return register


def folds_of(slot: str) -> dict[str, Callable[[], Fold]]:
    """Return how the folds of a slot are made, by name."""
    _load()
    return {name: make for name, (of, make) in FOLDS.items() if of == slot}


@cache
def _load() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


class Kept:
    """Keeps all cells: a table that is large for one that is read whole, and not too large to be held."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._parts: list[Rows] = []

    def wants(self, column: str) -> bool:
        """Look at every column."""
        return True

    def see(self, rows: Rows) -> None:
        """Keep the rows."""
        self._parts.append(rows)

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say nothing: every invariant can look at what is kept."""
        return iter(())

    def table(self, header: tuple[str, ...]) -> Table:
        """Return what was kept as a table."""
        import polars as pl

        frame = pl.concat(
            [part.frame for part in self._parts] or [pl.DataFrame(schema=dict.fromkeys(header, pl.String))]
        )
        follow = all(part.lines == range(part.first + 2, part.first + 2 + part.frame.height) for part in self._parts)
        lines = None if follow else tuple(line for part in self._parts for line in part.lines)
        return Table(frame=frame, cells=Cells.TEXT, lines=lines)
