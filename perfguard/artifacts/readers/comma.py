"""Comma separated text: its rows and its header, and files with a key and its values in each line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import MAX_BYTES, MAX_COLUMNS, Content, numbered_lines, refuse_repeated_names
from perfguard.artifacts.table import Unreadable, json_value, number_of


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
    properties = schema.get("properties", {})
    document: dict[str, list[Any]] = {}
    reader = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), strict=True)
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
