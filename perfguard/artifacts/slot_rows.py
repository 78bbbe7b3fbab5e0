"""Rows of files as their schemas describe them: what goes into the table of their slot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import numpy as np

from perfguard.artifacts.columns import CELL, COLUMN, DOCUMENTS, Shape, shapes_of
from perfguard.artifacts.document_rows import document_rows
from perfguard.artifacts.table import Cells

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content
    from perfguard.artifacts.readers.csv_stream import Rows
    from perfguard.artifacts.survey import FoundFile
    from perfguard.artifacts.table import Table
    from perfguard.artifacts.tables import Batch

#: How many rows of a table become typed columns together.
_BLOCK_ROWS = 100_000


class TableRows(Protocol):
    """Puts the rows of one table into the tables of a batch."""

    def wants(self, column: str) -> bool:
        """Whether it looks at a column."""
        ...

    def consume(self, rows: Rows) -> None:
        """Add the rows of the next block."""
        ...

    def undo(self) -> None:
        """Let go of the rows: the table is not what its schema says."""
        ...


class SlotRows:
    """Puts the rows of one file into the table of its slot, block by block. `file` is its number among those of the slot."""

    def __init__(self, batch: Batch, cycle: int, file: int, shape: Shape, version: str) -> None:
        self._batch = batch
        self._cycle = cycle
        self._file = file
        self._shape = shape
        self._version = version
        self._columns = {source.name for source in shape.versions[version]}

    def wants(self, column: str) -> bool:
        """Whether it looks at a column."""
        return column in self._columns

    def consume(self, rows: Rows) -> None:
        """Add the rows of the next block."""
        self._add(rows.frame, Cells.TEXT, np.fromiter(rows.lines, np.int64, count=len(rows.lines)))

    def add(self, table: Table) -> None:
        """Add the rows of a whole table."""
        first = 0 if table.cells is Cells.JSON else 2
        lines = np.arange(first, first + table.height) if table.lines is None else np.array(table.lines, np.int64)
        # In blocks: what they become is only there until DuckDB has it.
        for begin in range(0, table.height, _BLOCK_ROWS):
            block = slice(begin, begin + _BLOCK_ROWS)
            self._add(table.frame[block], table.cells, lines[block])

    def _add(self, frame: pl.DataFrame, cells: Cells, lines: np.ndarray[int, np.dtype[np.int64]]) -> None:
        columns = self._shape.typed(frame, cells, self._version)
        self._batch.add(
            self._shape.name, self._cycle, file=np.full(len(lines), self._file, np.int64), row=lines, **columns
        )

    def undo(self) -> None:
        """Let go of the rows: the table is not what its schema says."""
        self._batch.without_file(self._shape.name, self._cycle, self._file)


class CellRows(SlotRows):
    """Puts the cells of some columns into a table: a row for each."""

    def wants(self, column: str) -> bool:
        """Whether its cells are rows."""
        return re.search(self._shape.pattern, column) is not None

    def consume(self, rows: Rows) -> None:
        """Add the cells of the next block."""
        names = [name for name in rows.frame.columns if self.wants(name)]
        if names:
            cells = rows.frame.unpivot(names, variable_name=COLUMN, value_name=CELL)
            self._add(cells, Cells.TEXT, np.tile(np.fromiter(rows.lines, np.int64, count=len(rows.lines)), len(names)))


def rows_of(batch: Batch, cycle: int, number: int, slot: str, version: str | None) -> list[TableRows]:
    """Return what takes the rows of a CSV that goes by in blocks, `number` being its own among those of its slot."""
    shapes = [shape for shape in shapes_of(slot) if version in shape.versions]
    return [(CellRows if one.pattern else SlotRows)(batch, cycle, number, one, version or "") for one in shapes]


def add_tables(batch: Batch, cycle: int, number: int, file: FoundFile, version: str, content: Content) -> None:
    """Put the rows of a file that was read whole into the table of its slot; of a database and a document into its tables."""
    shapes = {shape.inner: shape for shape in shapes_of(file.slot.name) if version in shape.versions}
    if file.slot.format in DOCUMENTS:
        for inner, table in document_rows(content.document, version) if shapes else ():
            SlotRows(batch, cycle, number, shapes[inner], version).add(table)
        return
    for inner, shape in shapes.items():
        if (rows := content.tables.get(inner) if inner else content.table) is not None:
            SlotRows(batch, cycle, number, shape, version).add(rows)
    if file.slot.format == "sqlite" and (names := list(shapes)):
        heights = [content.tables[name].height if name in content.tables else 0 for name in names]
        batch.add(
            "database_tables",
            cycle,
            file=[file.path.name] * len(names),
            name=names,
            is_there=np.array([name in content.tables for name in names], np.bool_),
            rows=np.array(heights, np.int64),
        )
