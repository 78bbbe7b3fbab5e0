"""Chrome traces: a JSON array of events, or an object that holds one under `traceEvents`; plain or gzip.

Source: "Trace Event Format" (Chromium project); what MindSpore and torch write of it is in the artifact schemas.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.contract.readers import MAX_BYTES, Content, read_bytes
from perfguard.contract.table import Cells, Table, Unreadable

if TYPE_CHECKING:
    import polars as pl

#: A trace repeats itself, so gzip shrinks it 13 to 20 times; far beyond that it is a bomb, not a trace.
MAX_GZIP_RATIO = 200

_PLAIN_MICROSECONDS = r"^\"?(-?)([0-9]{1,15}|[1-8][0-9]{15})(?:\.([0-9]{1,3}))?\"?$"


def read_trace(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a trace: a row an event, a column for every key the schema names or the file has, cells in raw JSON.

    `document` is the object around the events without them (empty for a bare array).
    """
    import msgspec

    raw = _plain_bytes(path)
    try:
        if raw.lstrip()[:1] == b"[":
            return Content(table=_table(raw, event_schema(schema), "$"), document={})
        around = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        events = around.pop("traceEvents", None)
        if events is None:
            raise Unreadable("it has no traceEvents")
        document = {key: msgspec.json.decode(value) for key, value in around.items()}
        return Content(table=_table(bytes(events), event_schema(schema), "$.traceEvents"), document=document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(f"it is not a JSON trace: {error}") from error


def event_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a trace's schema that speaks of one event."""
    items = schema["items"] if "items" in schema else schema["properties"]["traceEvents"]["items"]
    if "$ref" in items:
        items = schema["$defs"][items["$ref"].removeprefix("#/$defs/")]
    found: Mapping[str, Any] = items
    return found


def _plain_bytes(path: Path) -> bytes:
    raw = read_bytes(path)
    if path.suffix != ".gz":
        return raw
    limit = min(MAX_BYTES, max(len(raw) * MAX_GZIP_RATIO, 1024 * 1024))
    try:
        with gzip.open(path) as file:
            plain = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"it is not whole gzip: {error}") from error
    if len(plain) > limit:
        raise Unreadable(f"it unpacks to more than {limit} bytes ({MAX_GZIP_RATIO} times its size at most)")
    return plain


def _table(events: bytes, schema: Mapping[str, Any], path: str) -> Table:
    import msgspec
    import polars as pl

    known = list(schema["properties"])
    absent = msgspec.Raw(b"")
    event = msgspec.defstruct(
        "Event",
        [(f"key{i}", msgspec.Raw, msgspec.field(default=absent, name=key)) for i, key in enumerate(known)],
        forbid_unknown_fields=True,
    )
    try:
        decoded = msgspec.json.decode(events, type=list[event])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        # Some event has a key the schema does not name, or is no object: keep every key, let the schema say it.
        return _table_of_any_keys(events, path)
    if not decoded:
        return Table(frame=pl.DataFrame(schema=dict.fromkeys(known, pl.String)), cells=Cells.JSON, path=path)
    columns = {
        key: pl.Series(key, [_text(getattr(one, f"key{i}")) for one in decoded], dtype=pl.String)
        for i, key in enumerate(known)
    }
    frame = pl.DataFrame(columns)
    return Table(
        frame=frame[[c.name for c in frame if c.null_count() < len(c)] or known[:1]], cells=Cells.JSON, path=path
    )


def _table_of_any_keys(events: bytes, path: str) -> Table:
    import msgspec

    from perfguard.contract.schema import object_columns

    texts = [bytes(one).decode() for one in msgspec.json.decode(events, type=list[msgspec.Raw])]
    for number, text in enumerate(texts):
        if not text.lstrip().startswith("{"):
            raise Unreadable(f"an event is not an object: {text[:80]!r}", f" {path}[{number}]")
    return Table(frame=object_columns(texts), cells=Cells.JSON, path=path)


def _text(raw: Any) -> str | None:
    return bytes(raw).decode() or None


def nanoseconds(column: pl.Series) -> pl.Series:
    """Turn microseconds in raw JSON (a number, or a string of one) into exact Int64 nanoseconds.

    Digits beyond the third decimal are rounded half to even; a float64 would lose up to 250 ns of a UNIX time.
    """
    import polars as pl

    name = column.name
    groups = pl.DataFrame({name: column}).select(
        pl.col(name),
        pl.col(name).str.extract(_PLAIN_MICROSECONDS, 1).alias("sign"),
        pl.col(name).str.extract(_PLAIN_MICROSECONDS, 2).cast(pl.Int64).alias("whole"),
        pl.col(name)
        .str.extract(_PLAIN_MICROSECONDS, 3)
        .fill_null("0")
        .str.pad_end(3, "0")
        .cast(pl.Int64)
        .alias("rest"),
    )
    value = pl.col("whole") * 1000 + pl.col("rest")
    exact = groups.select(pl.when(pl.col("sign") == "-").then(-value).otherwise(value).alias(name))[name]
    odd = (exact.is_null() & column.is_not_null()).arg_true()
    if len(odd):
        exact = exact.scatter(odd, [_nanoseconds_of(column[i]) for i in odd])
    return exact


def _nanoseconds_of(text: str) -> int | None:
    try:
        value = round(Decimal(text.strip('"')) * 1000)
    except (ArithmeticError, ValueError):
        return None
    return value if abs(value) < 2**63 else None
