"""Comma separated tables with a header line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.contract.readers import Content, decode_text, read_bytes
from perfguard.contract.table import Cells, Table, Unreadable


def read_csv(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a CSV file with a header; every cell stays text, an empty cell is the empty text.

    Raises `Unreadable` for an empty file, broken UTF-8, a repeated column, or a row whose number of cells is not the
    header's (the place names its line).
    """
    import polars as pl

    raw = read_bytes(path)
    text = decode_text(raw)
    header = next(csv.reader(io.StringIO(text, newline="")), [])
    if not header:
        raise Unreadable("it is empty: not even a header line")
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise Unreadable(f"its header names {', '.join(map(repr, repeated))} more than once", ":1")
    try:
        frame = pl.read_csv(io.BytesIO(text.encode()), infer_schema=False)
    except pl.exceptions.PolarsError:
        _raise_for_ragged_rows(text, header)
        raise
    # polars pads a short row with nulls; only a row without its last cell can be one, so only those are looked at.
    last = frame[frame.columns[-1]]
    if last.null_count():
        _raise_for_ragged_rows(text, header)
    lines = _line_numbers(text) if '"' in text else None
    return Content(table=Table(frame=frame.fill_null(""), cells=Cells.TEXT, lines=lines))


def _raise_for_ragged_rows(text: str, header: list[str]) -> None:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if len(row) != len(header):
                raise Unreadable(
                    f"the row has {len(row)} cells, the header {len(header)}: {','.join(row)[:120]!r}",
                    f":{reader.line_num}",
                )
    except csv.Error as error:
        raise Unreadable(f"it is not CSV: {error}", f":{reader.line_num}") from error


def _line_numbers(text: str) -> tuple[int, ...]:
    """Return the first line of every data row; quoted cells may hold line breaks."""
    reader = csv.reader(io.StringIO(text, newline=""))
    ends = [reader.line_num for _ in reader]
    return tuple(end + 1 for end in ends[:-1])
