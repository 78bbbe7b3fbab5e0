"""Comma separated tables: with a header line, or with a key and its values in each line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.readers import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_COLUMNS,
    Content,
    read_cells,
    read_text,
    refuse_many_cells,
    refuse_repeated_names,
)
from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.artifacts.table import Cells, Table, Unreadable, json_value, number_of

if TYPE_CHECKING:
    import polars as pl

#: How many rows become columns together.
_BLOCK_ROWS = 8_192


def read_csv(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a CSV file with a header; every cell stays text, an empty cell is the empty text.

    Raises `Unreadable` for an empty file, broken UTF-8, a file cut off in its last line, a repeated column, or a row whose
    number of cells is not the header's (the place names its line). Where the schema says `x-short-rows`, rows that lack
    cells are left out and told instead.
    """
    text = read_text(path)
    refuse_many_cells(text, ",", MAX_CELLS)
    header, _ = header_of(text)
    # polars and the csv module differ on quotes, lone carriage returns and single columns; the csv module decides there.
    plain = '"' not in text and "\r" not in text.replace("\r\n", "\n") and len(header) > 1
    # polars fills up short rows, blank ones as well.
    plain = plain and text.count(",") == text.count("\n") * (len(header) - 1)
    short: list[tuple[int, str]] | None = [] if "x-short-rows" in schema else None
    frame, lines = (
        _frame_of_any(text, header, short) if short is not None or not plain else (_frame_of_plain(text, header), None)
    )
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=lines), short_rows=tuple(short or ()))


def header_of(text: str) -> tuple[list[str], int]:
    """Return the names of the columns, and how many lines they take; raises `Unreadable` for what is no header."""
    header, end = next(rows_of(text), ([], 0))
    if not header:
        raise Unreadable("it has no header line", ":1")
    if len(header) == 1 and (separator := next((one for one in ";\t" if one in header[0]), None)):
        # A spreadsheet saves with the separator of its country.
        raise Unreadable(f"its cells are separated by {separator!r}, not by a comma", ":1")
    if len(header) > MAX_COLUMNS:
        raise Unreadable(f"its header has {len(header)} columns, more than {MAX_COLUMNS}", ":1")
    refuse_repeated_names(header, ":1")
    return header, end


def _frame_of_plain(text: str, header: list[str]) -> pl.DataFrame:
    import polars as pl

    try:
        frame = pl.read_csv(io.BytesIO(text.encode()), infer_schema=False)
    except pl.exceptions.PolarsError:
        # A row is too long: the other way words it, and reads whatever only polars refused.
        return _frame_of_any(text, header)[0]
    # polars pads a short row with nulls; only a row without its last cell can be one, so only those are looked at.
    if frame[frame.columns[-1]].null_count():
        return _frame_of_any(text, header)[0]
    return frame.fill_null("")


def _frame_of_any(
    text: str, header: list[str], short: list[tuple[int, str]] | None = None
) -> tuple[pl.DataFrame, tuple[int, ...]]:
    """Read with the csv module, which knows the line of every row. Rows that lack cells are put into `short`, if given."""
    parsed = rows_of(text)
    _, line = next(parsed)
    return frame_of_rows(parsed, header, line, short)


def frame_of_rows(
    parsed: Iterable[tuple[list[str], int]], header: Sequence[str], line: int, short: list[tuple[int, str]] | None
) -> tuple[pl.DataFrame, tuple[int, ...]]:
    """Return rows as text cells, with the number of the line each begins in. They come behind `line` lines.

    Rows that lack cells are put into `short`, if given; else they are `Unreadable`, as rows with too many are.
    """
    import polars as pl

    schema = dict.fromkeys(header, pl.String)
    rows: list[list[str]] = []
    frames, lines = [pl.DataFrame(schema=schema)], []
    for row, end in parsed:
        if len(row) == len(header):
            rows.append(row)
            lines.append(line + 1)
            if len(rows) == _BLOCK_ROWS:
                frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
                rows = []
        elif short is None or len(row) > len(header):
            raise Unreadable(wrong_length(row, header), f":{line + 1}")
        else:
            # The others are only counted.
            short.append((line + 1, wrong_length(row, header)) if len(short) < SHOWN_VIOLATIONS else short[-1])
        line = end
    frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
    return pl.concat(frames, rechunk=True), tuple(lines)


def wrong_length(row: Sequence[str], header: Sequence[str]) -> str:
    """Word that a row has not as many cells as the header."""
    return f"the row has {len(row)} cells, the header {len(header)}: {','.join(row)[:120]!r}"


def rows_of(text: str, before_it: int = 0) -> Iterator[tuple[list[str], int]]:
    """Yield every row with the number of its last line, where `before_it` lines come before the text.

    Raises `Unreadable` for what is not CSV.
    """
    # As a text it would take four bytes a character.
    lines = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")
    reader = csv.reader(lines, strict=True)
    # A cell may be as long as the file (shapes of a fused operator with thousands of inputs); the module stops at 128 KiB.
    # The limit is the whole process's, so it is set for the file and put back.
    before = csv.field_size_limit(MAX_BYTES)
    try:
        for row in reader:
            yield row, before_it + reader.line_num
    except csv.Error as error:
        raise Unreadable(f"it is not CSV: {error}", f":{before_it + reader.line_num}") from error
    finally:
        csv.field_size_limit(before)


def read_ragged(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `minddata_pipeline_summary_<rank>.csv` as a document: key -> list of values.

    What the schema calls a number becomes one, what it calls an array is read as JSON, the rest stays text; a value that
    does not read as its type stays text too, so that the schema says what is wrong with it. Raises `Unreadable` for an
    empty or cut off file, a blank line, and a key that is there twice. Source: MindSpore 2.0 and 2.10, csv.writer.
    """
    text = read_cells(path)
    properties = schema.get("properties", {})
    document: dict[str, list[Any]] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if not row:
                raise Unreadable("the line is blank", f":{reader.line_num}")
            key, *values = row
            if key in document:
                raise Unreadable(f"the key {key!r} is there a second time", f":{reader.line_num}")
            kind = properties.get(key, {}).get("items", {}).get("type")
            document[key] = [_value(value, kind) for value in values]
    except csv.Error as error:
        raise Unreadable(f"it is not CSV: {error}", f":{reader.line_num}") from error
    return Content(document=document)


def _value(text: str, kind: str | None) -> Any:
    if kind in ("number", "integer"):
        number = number_of(text)
        return text if number is None else number
    if kind == "array":
        try:
            return json_value(text)
        except (ValueError, RecursionError):
            # `[1, 2]` is the same in Python and in JSON; what is neither is for the schema to refuse.
            return text
    return text
