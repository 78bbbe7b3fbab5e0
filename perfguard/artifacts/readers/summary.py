"""MindSpore's summary files: TFRecord framing around protobuf events.

A record is: length (8 bytes, little endian), masked CRC-32C of these 8 bytes, the event, masked CRC-32C of the event. Both
sums are checked, so that no flipped bit stays unseen. Of an event only what perfguard speaks of is decoded.
Source: MindSpore 2.10, summary.proto and lineage.proto (field numbers are those of 2.0 as well); TensorFlow, record_writer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.readers import Content, read_bytes
from perfguard.artifacts.table import Cells, Table, Unreadable

if TYPE_CHECKING:
    from google.protobuf.message import Message

#: Field numbers of what an event can hold, apart from `summary`: one of these, or none.
_EVENT = {"version": 3, "graph_def": 4, "explain": 6}
_LINEAGE = {"version": 3, "train_lineage": 6, "evaluation_lineage": 7, "dataset_graph": 9, "user_defined_info": 10}
_VALUE = {"image": 4, "tensor": 8, "histogram": 9, "loss_landscape": 10}
_HEADER = struct.Struct("<QI")
_SUM = struct.Struct("<I")


def read_records(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a summary file (`..._MS`) or a lineage file (`..._lineage`): one row a record.

    Columns: kind, step (blank where the record has none), wall_time [s], version, tags, kinds and scalars (one entry a value,
    with `|` between them; a `|` or `%` in a tag is written as URLs do, and only scalars have a number), offset [bytes].
    The place of a row is the number of its record, from 1. Raises `Unreadable` with the record and its byte for an empty file,
    a cut off record, a wrong checksum, and an event that is no valid protobuf.
    """
    import polars as pl
    from google.protobuf.message import DecodeError

    raw = read_bytes(path)
    if not raw:
        raise Unreadable("it is empty: not even the record that says the version")
    event_of = _messages()["LineageEvent" if path.name.endswith("_lineage") else "Event"]
    rows = []
    for number, (offset, payload) in enumerate(_records(raw), start=1):
        where = f"record {number} at byte {offset}"
        try:
            rows.append((*_row(event_of.FromString(payload), number, offset), str(offset)))
        except DecodeError as error:
            raise Unreadable(f"{where} is no event: {error}", f":{number}") from error
        except UnicodeDecodeError as error:
            raise Unreadable(f"{where}: a text in it is not UTF-8", f":{number}") from error
    names = ("kind", "step", "wall_time", "version", "tags", "kinds", "scalars", "offset")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=tuple(range(1, len(rows) + 1))))


def masked_crc32c(payload: bytes) -> int:
    """Return the checksum of TFRecord: CRC-32C, rotated right by 15 bits, plus a constant."""
    import google_crc32c

    crc: int = google_crc32c.value(payload)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _records(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield every record's offset and content; raises `Unreadable` where the framing breaks."""
    offset, number = 0, 0
    while offset < len(raw):
        number += 1
        where = f"record {number} at byte {offset}"
        if len(raw) - offset < _HEADER.size:
            raise Unreadable(f"{where} is cut off inside its length", f":{number}")
        length, length_sum = _HEADER.unpack_from(raw, offset)
        if masked_crc32c(raw[offset : offset + 8]) != length_sum:
            raise Unreadable(f"{where}: the checksum of its length is wrong", f":{number}")
        begin = offset + _HEADER.size
        end = begin + length
        if end + _SUM.size > len(raw):
            raise Unreadable(
                f"{where} is cut off: it has {length} bytes, the file ends after {max(len(raw) - begin, 0)}",
                f":{number}",
            )
        payload = raw[begin:end]
        if masked_crc32c(payload) != _SUM.unpack_from(raw, end)[0]:
            raise Unreadable(f"{where}: the checksum of its content is wrong", f":{number}")
        yield offset, payload
        offset = end + _SUM.size


def _row(event: Any, number: int, offset: int) -> tuple[str, ...]:
    kind = event.WhichOneof("what")
    if kind is None or not event.HasField("wall_time"):
        missing = "what it holds" if kind is None else "its wall_time"
        raise Unreadable(f"record {number} at byte {offset} does not say {missing}", f":{number}")
    values = event.summary.value if kind == "summary" else ()
    tags = "|".join(_escaped(value.tag) for value in values)
    kinds = "|".join(_kind(value) for value in values)
    scalars = "|".join(repr(value.scalar_value) if value.HasField("scalar_value") else "" for value in values)
    step = str(event.step) if event.HasField("step") else ""
    return kind, step, repr(event.wall_time), _text(event.version) if kind == "version" else "", tags, kinds, scalars


def _kind(value: Any) -> str:
    if value.HasField("scalar_value"):
        return "scalar"
    return next((name for name in _VALUE if value.HasField(name)), "")


def _text(text: str | bytes) -> str:
    # One implementation of protobuf gives a text that is not UTF-8 back as bytes, the other refuses the event.
    return text if isinstance(text, str) else text.decode()


def _escaped(tag: str | bytes) -> str:
    return _text(tag).replace("%", "%25").replace("|", "%7C")


@cache
def _messages() -> Mapping[str, type[Message]]:
    """Build the message classes, in a pool of their own: MindSpore's would clash in the common one."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="perfguard/summary.proto", package="perfguard", syntax="proto2")

    def field(message: Any, name: str, number: int, kind: Any, **more: Any) -> None:
        message.field.add(name=name, number=number, type=kind, label=more.pop("label", kinds.LABEL_OPTIONAL), **more)

    value = file.message_type.add(name="Value")
    field(value, "tag", 1, kinds.TYPE_STRING)
    field(value, "scalar_value", 3, kinds.TYPE_FLOAT)
    for name, number in _VALUE.items():
        field(value, name, number, kinds.TYPE_BYTES)
    summary = file.message_type.add(name="Summary")
    field(summary, "value", 1, kinds.TYPE_MESSAGE, type_name=".perfguard.Value", label=kinds.LABEL_REPEATED)
    for message_name, parts in (("Event", _EVENT), ("LineageEvent", _LINEAGE)):
        message = file.message_type.add(name=message_name)
        message.oneof_decl.add(name="what")
        field(message, "wall_time", 1, kinds.TYPE_DOUBLE)
        field(message, "step", 2, kinds.TYPE_INT64)
        for name, number in parts.items():
            field(message, name, number, kinds.TYPE_STRING if name == "version" else kinds.TYPE_BYTES, oneof_index=0)
        if message_name == "Event":
            field(message, "summary", 5, kinds.TYPE_MESSAGE, type_name=".perfguard.Summary", oneof_index=0)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"perfguard.{name}"))
        for name in ("Event", "LineageEvent")
    }
