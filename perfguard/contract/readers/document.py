"""Plain JSON documents and the profilers' own logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.contract.readers import Content, decode_text, read_bytes
from perfguard.contract.table import Unreadable


def read_json(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read one JSON document. NaN, Infinity and trailing text are refused, as JSON has neither."""
    import msgspec

    raw = read_bytes(path)
    try:
        return Content(document=msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from error


def read_log(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a log as lines of text."""
    return Content(document=decode_text(read_bytes(path)).splitlines())
