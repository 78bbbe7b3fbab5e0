"""Rows of files: converted by their schemas, and put into the table of their slot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perfguard.artifacts.columns import CELL, COLUMN, DOCUMENTS, Shape, shapes_of
from perfguard.artifacts.document_rows import document_rows
from perfguard.artifacts.kernel_rows import KernelRows, lines_of
from perfguard.artifacts.table import Cells, Unreadable

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content
    from perfguard.artifacts.readers.csv_stream import Rows
    from perfguard.artifacts.survey import FoundFile
    from perfguard.artifacts.table import Table
    from perfguard.artifacts.tables import Batch

#: How many rows of a table become typed columns together.
_BLOCK_ROWS = 100_000


class SlotRows:
    """Puts the rows of one file into the table of its slot, block by block. `file` is its number among those of the slot.

    If the shape has a pattern, each cell of the columns that it matches is a row.
    """

    def __init__(self, batch: Batch, cycle: int, file: int, shape: Shape, version: str) -> None:
        self._batch = batch
        self._cycle = cycle
        self._file = file
        self._shape = shape
        self._version = version
        self._columns = {source.name for source in shape.versions[version]}

    def reads(self, column: str) -> bool:
        """Whether the rows need the cells of a column."""
        if self._shape.pattern:
            return re.search(self._shape.pattern, column) is not None
        return column in self._columns

    def consume(self, rows: Rows) -> None:
        """Add the rows of the next block."""
        frame, lines = rows.frame, lines_of(rows)
        if self._shape.pattern:
            names = [name for name in frame.columns if self.reads(name)]
            if not names:
                return
            frame = frame.unpivot(names, variable_name=COLUMN, value_name=CELL)
            lines = np.tile(lines, len(names))
        self._add(frame, Cells.TEXT, lines)

    def add(self, table: Table) -> None:
        """Add the rows of a whole table."""
        first = 0 if table.cells is Cells.JSON else 2
        lines = np.arange(first, first + table.height) if table.lines is None else np.array(table.lines, np.int64)
        # In blocks: the typed columns exist only until DuckDB has them.
        for begin in range(0, table.height, _BLOCK_ROWS):
            block = slice(begin, begin + _BLOCK_ROWS)
            self._add(table.frame[block], table.cells, lines[block])

    def _add(self, frame: pl.DataFrame, cells: Cells, lines: np.ndarray[int, np.dtype[np.int64]]) -> None:
        columns = self._shape.typed(frame, cells, self._version)
        files = np.full(len(lines), self._file, np.int64)
        self._batch.add(self._shape.name, self._cycle, file=files, row=lines, **columns)

    def undo(self) -> None:
        """Delete the rows: the file violates its schema."""
        self._batch.without_file(self._shape.name, self._cycle, self._file)


def rows_of(batch: Batch, cycle: int, number: int, slot: str, version: str | None) -> Sequence[SlotRows | KernelRows]:
    """Return the consumers of a streamed CSV file, which is the `number`th of its slot."""
    if slot == "kernel_details":
        return [KernelRows(batch, cycle)]
    shapes = [shape for shape in shapes_of(slot) if version in shape.versions]
    return [SlotRows(batch, cycle, number, one, version or "") for one in shapes]


def add_tables(batch: Batch, cycle: int, number: int, file: FoundFile, version: str, content: Content) -> None:
    """Add the rows of a file that was read whole to the table of its slot; of a database and a document to its tables.

    Raises `Unreadable` for a value that is too long.
    """
    shapes = {shape.inner: shape for shape in shapes_of(file.slot.name) if version in shape.versions}
    if file.slot.format in DOCUMENTS:
        into = {inner: SlotRows(batch, cycle, number, shape, version) for inner, shape in shapes.items()}
        try:
            for inner, table in document_rows(content.document, version) if into else ():
                into[inner].add(table)
        except Unreadable:
            for one in into.values():
                one.undo()
            raise
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
