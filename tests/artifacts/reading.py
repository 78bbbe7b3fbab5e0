"""Files as the readers read them, with all their cells; and CSV files as the csv module alone reads them, to compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import READERS, Content, text_blocks, text_table
from perfguard.artifacts.readers.comma import header_of, rows_of, wrong_length
from perfguard.artifacts.readers.csv_stream import FORMATS, Rows, read_header, stream_csv
from perfguard.artifacts.table import Unreadable


def read_file(form: str, path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a file of a format; the rows of a CSV file are collected, and not validated. Raises `Unreadable`."""
    if form not in FORMATS:
        return READERS[form](path, schema)
    header = read_header(path, is_spaced=FORMATS[form])
    parts: list[Rows] = []
    found = stream_csv(path, {}, schema, header, parts.append, is_spaced=FORMATS[form])
    if found.unreadable is not None:
        raise found.unreadable
    rows = [row for part in parts for row in part.frame.rows()]
    assert found.rows == len(rows)
    return Content(table=text_table(zip((line for part in parts for line in part.lines), rows, strict=True), header))


def read_by_csv_module(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a CSV file whole, as the csv module reads it. Raises `Unreadable`."""
    text = "".join(text_blocks(path))
    header, line = header_of(text)
    rows, lines = [], []
    parsed = rows_of(text)
    next(parsed)
    for row, end in parsed:
        if len(row) == len(header):
            rows.append(row)
            lines.append(line + 1)
        elif "x-short-rows" not in schema or len(row) > len(header):
            raise Unreadable(wrong_length(row, header), f":{line + 1}")
        line = end
    return Content(table=text_table(zip(lines, rows, strict=True), header))
