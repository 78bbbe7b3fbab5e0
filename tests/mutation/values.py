"""The values of a file, without what says nothing: spaces, the order of keys, columns and events, the digits of a number.

A mutant equal to its origin in every value is no mutant.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def values_of(raw: bytes, form: str) -> Any:
    """Return something that two files have in common exactly if they hold the same values."""
    try:
        plain = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        if form in ("json", "chrome-trace"):
            found = json.loads(plain)
            return _as_events(found) if form == "chrome-trace" else json.dumps(found, sort_keys=True)
        if form in ("csv", "csv-spaced"):
            rows = [[_value(cell) for cell in row] for row in csv.reader(io.StringIO(plain.decode()))]
            return [sorted(zip(rows[0], row, strict=False)) if len(row) == len(rows[0]) else row for row in rows]
        if form == "sqlite":
            return _tables(plain)
    except (ValueError, EOFError, OSError, zlib.error, sqlite3.Error, IndexError):
        pass  # a file that cannot be read is like no other
    return raw


def _as_events(found: Any) -> Any:
    around = {key: value for key, value in found.items() if key != "traceEvents"} if isinstance(found, dict) else {}
    events = found["traceEvents"] if isinstance(found, dict) else found
    return json.dumps(around, sort_keys=True), sorted(json.dumps(one, sort_keys=True) for one in events)


def _value(cell: str) -> str:
    text = cell.strip()
    try:
        return repr(float(text)) if len(text) < 16 else text
    except ValueError:
        return text


def _tables(raw: bytes) -> list[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "copy.db"
        path.write_bytes(raw)
        with closing(sqlite3.connect(path)) as base:
            return sorted(base.iterdump())
