"""Tables without a header: columns with blanks between them, named by the schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_cells
from perfguard.artifacts.schema import row_schema
from perfguard.artifacts.table import Cells, Table, Unreadable


def read_columns(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read rows of cells with blanks between them; the schema's properties, in their order, are the columns.

    A first line that consists of these names is a header and no row. Where the first line has fewer cells the last
    columns are absent, where it has more they are called `column 6` and so on, so that the schema can say so. Raises
    `Unreadable` for an empty or cut off file, a blank line, and a line whose number of cells is not the first one's.
    Source: MindSpore 2.0, `device_queue_profiling` and `minddata_aicpu` (which has its header in some versions only).
    """
    import polars as pl

    text = read_cells(path)
    names = list(row_schema(schema)["properties"]) if schema else []
    rows = [line.split() for line in text[:-1].split("\n")]
    first = 1 if rows[0] == names else 0
    width = len(rows[min(first, len(rows) - 1)])
    for number, row in enumerate(rows[first:], start=first + 1):
        if len(row) != width or not row:
            raise Unreadable(
                f"the line has {len(row)} cells, the first one {width}: {' '.join(row)[:120]!r}", f":{number}"
            )
    columns = [*names[:width], *(f"column {number}" for number in range(len(names) + 1, width + 1))]
    frame = pl.DataFrame(rows[first:], schema=dict.fromkeys(columns, pl.String), orient="row")
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=tuple(range(first + 1, len(rows) + 1))))
