"""Tables that lie on their side: a key and its values a line, lines of unequal length."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_cells
from perfguard.artifacts.table import Unreadable, json_value, number_of


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
