"""Plain JSON documents and the profilers' own logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.contract.readers import Content, decode_text, read_bytes
from perfguard.contract.table import Unreadable

#: Documents and traces above this are not searched for repeated keys: that needs every object as a Python one.
MAX_SEARCHED_BYTES = 64 * 1024**2
#: How much of a log is looked at.
MAX_LOG_BYTES = 64 * 1024**2


def read_json(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read one JSON document. NaN, Infinity, trailing text and a key that stands twice in one object are refused."""
    import msgspec

    raw = read_bytes(path)
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    refuse_repeated_keys(raw)
    return Content(document=document)


def refuse_repeated_keys(raw: bytes, decoded: Mapping[str, Any] | None = None) -> None:
    """Raise `Unreadable` when an object has a key twice: which of the two counts is anybody's guess (RFC 8259, section 4).

    Given the `decoded` outermost object, only its own keys are looked at.
    """
    if decoded is not None:
        for key in decoded:
            if raw.count(json.dumps(key).encode()) > 1:
                break
        else:
            return
    if len(raw) <= MAX_SEARCHED_BYTES:
        json.loads(raw, object_pairs_hook=_unique if decoded is None else _unique_among(frozenset(decoded)))


def _unique(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"an object has the key {repeated[:80]!r} twice")


def _unique_among(outermost: frozenset[str]) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> None:
        if {name for name, _ in pairs} == outermost:
            _unique(pairs)

    return unique


def read_log(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a log as lines of text; of a very long one only the beginning."""
    if not path.is_file():
        raise Unreadable("it is not a regular file")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_LOG_BYTES)
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from error
    return Content(document=decode_text(raw).splitlines())
