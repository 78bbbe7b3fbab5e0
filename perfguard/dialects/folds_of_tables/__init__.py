"""Folds of tables: what is kept of a large table while it goes by, so that it need not be held.

What goes in: the rows of a table, a block at a time (`see`). What comes out: findings, in the name of the invariants that ask
the same of a table that is read whole, or what executions are made of. What a fold keeps does not grow with the rows. To add
one: a class with `@fold_of_table(slot)` in a module of this package. What no fold stands for is not asked of a table that went
by, and `inspect` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perfguard.artifacts.table import Cells, Table
from perfguard.findings import Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.large_comma import Rows
    from perfguard.dialects.cycle import Artifact, Cycle

#: Tables for which there are no folds are held up to this many bytes, as they always were: their cells take twice as much.
KEPT_UP_TO = 256 * 1024**2
#: What is joined with other files row by row, by slot, and up to how many bytes of the file these columns are held.
JOINED = {
    "kernel_details": (
        "Name", "Start Time(us)", "Duration(us)", "Accelerator Core", "Step Id", "Step ID", "Stream ID", "Task ID",
    ),
}  # fmt: skip
JOINED_UP_TO = 128 * 1024**2


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
    """Keeps the cells of some columns (None: of all) of a table that is not too large for that."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self, columns: tuple[str, ...] | None = None) -> None:
        self._columns = columns
        self._frames: list[pl.DataFrame] = []
        #: The lines of the rows of each frame, None where they just follow those before.
        self._lines: list[Sequence[int] | None] = []

    def wants(self, column: str) -> bool:
        """Look at what is to be kept."""
        return self._columns is None or column in self._columns

    def see(self, rows: Rows) -> None:
        """Keep the rows."""
        # Not the rows themselves: these hold the text of all cells.
        self._frames.append(rows.frame.select(column for column in rows.frame.columns if self.wants(column)))
        follows = range(rows.first + 2, rows.first + 2 + rows.frame.height)
        self._lines.append(None if rows.lines == follows else rows.lines)

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say nothing: every invariant can look at what is kept."""
        return iter(())

    def table(self, header: tuple[str, ...]) -> Table:
        """Return what was kept as a table."""
        return Table(frame=self.frame(header), cells=Cells.TEXT, lines=self.lines)

    def frame(self, header: tuple[str, ...]) -> pl.DataFrame:
        """Return the cells that were kept."""
        import polars as pl

        named = [column for column in header if self.wants(column)]
        return pl.concat(self._frames or [pl.DataFrame(schema=dict.fromkeys(named, pl.String))])

    @property
    def lines(self) -> tuple[int, ...] | None:
        """The lines of the rows, where they do not just follow the header."""
        if all(lines is None for lines in self._lines):
            return None
        found: list[int] = []
        for frame, lines in zip(self._frames, self._lines, strict=True):
            found += lines if lines is not None else range(len(found) + 2, len(found) + 2 + frame.height)
        return tuple(found)
