"""Chrome traces: a JSON array of events, or an object that holds one under `traceEvents`; plain or gzip.

Source: "Trace Event Format" (Chromium project); what MindSpore and torch write of it is in the artifact schemas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.readers import MAX_BYTES, Content, refuse_short_events
from perfguard.artifacts.readers.document import UNREPEATED, malformed, refuse_repeated_keys
from perfguard.artifacts.readers.source import Source, read_plain
from perfguard.artifacts.schema import MAX_KEYS, object_columns, row_schema
from perfguard.artifacts.table import Cells, Table, Unreadable, empty_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfguard.artifacts.readers.event_schema import EventSchema
    from perfguard.artifacts.readers.events import Events
    from perfguard.artifacts.schema import RowError


def read_trace(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a trace: a row an event, a column for every key the schema names or the file has, cells in raw JSON.

    `document` is the object around the events without them (empty for a bare array).
    """
    import msgspec

    raw = read_plain(path, most_bytes=MAX_BYTES)
    if raw is None:
        raise Unreadable(f"it has more than the {MAX_BYTES} bytes that are read whole")
    try:
        if raw.lstrip()[:1] == b"[":
            return Content(table=_table(raw, row_schema(schema), "$"), document={})
        around = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        refuse_repeated_keys(raw, around)
        events = around.pop("traceEvents", None)
        if events is None:
            raise Unreadable("it has no traceEvents")
        document = {key: msgspec.json.decode(value) for key, value in around.items()}
        return Content(table=_table(bytes(events), row_schema(schema), "$.traceEvents"), document=document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed("it is not a JSON trace", raw, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What was found in a trace that went by: `unreadable` says where it broke, `broken` how many events break the schema.

    `unknown` has the keys of events that the schema lacks, with the number of the first event that has each.
    """

    document: dict[str, Any]
    path: str
    rows: int
    broken: int
    errors: tuple[RowError, ...]
    unknown: Mapping[str, int]
    digest: bytes
    unreadable: Unreadable | None


def stream_trace(
    path: Path,
    schema: EventSchema,
    consume: Callable[[Events], None],
    report: Callable[[int], None] | None = None,
) -> Streamed:
    """Read a trace in chunks and show the events of each chunk to `consume`.

    Where the file breaks, what came before it has been seen. `report` is given the bytes read on the disk as they are read.
    """
    from perfguard.artifacts.readers.chunks import Chunks
    from perfguard.artifacts.readers.decoder import EventDecoder
    from perfguard.artifacts.readers.event_schema import TIMES

    decoder = EventDecoder(schema)
    document: dict[str, Any] = {}
    broken: Unreadable | None = None
    chunks: Chunks | None = None
    # However the trace is cut into chunks, these come out the same.
    digests = {key: hashlib.blake2b(digest_size=32) for key in TIMES}
    try:
        with Source.open(path, report) as source:
            chunks = Chunks(source)
            for events in chunks.decoded(decoder):
                decoder.path = chunks.path
                consume(events)
                for key, digest in digests.items():
                    digest.update(events.times(key).ns)
                events.forget()
                # Else these would be held until the next ones are decoded.
                del events
            source.refuse_growth()
            document = chunks.document
    except Unreadable as error:
        broken = error
    return Streamed(
        document=document,
        path=chunks.path if chunks is not None else "$",
        rows=decoder.rows,
        broken=decoder.broken,
        errors=tuple(decoder.errors),
        unknown=decoder.unknown,
        digest=b"".join(digest.digest() for digest in digests.values()),
        unreadable=broken,
    )


def _table(events: bytes, schema: Mapping[str, Any], path: str) -> Table:
    import msgspec
    import polars as pl

    refuse_short_events(events.count(b"{"), len(events))
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
    for i, key in enumerate(known):
        # A repeated key of an event lets one reader see another value than the next: it is looked for in the text, and
        # only when there are more of it than events have is every object looked at.
        if key in UNREPEATED and events.count(f'"{key}"'.encode()) > sum(bool(getattr(e, f"key{i}")) for e in decoded):
            refuse_repeated_keys(events)
            break
    if not decoded:
        return empty_table(known, Cells.JSON, path)
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

    texts = [bytes(one).decode() for one in msgspec.json.decode(events, type=list[msgspec.Raw])]
    for number, text in enumerate(texts):
        if not text.lstrip().startswith("{"):
            raise Unreadable(f"an event is not an object: {text[:80]!r}", f" {path}[{number}]")
    frame = object_columns(texts)
    if frame is None:
        raise Unreadable(f"its events have more than {MAX_KEYS} different keys")
    return Table(frame=frame, cells=Cells.JSON, path=path)


def _text(raw: Any) -> str | None:
    return bytes(raw).decode() or None
