"""MindSpore's summary files: TFRecord framing around protobuf events.

A record is: length (8 bytes, little endian), masked CRC-32C of these 8 bytes, the event, masked CRC-32C of the event. Both
checksums are verified, so every flipped bit is found. Only the fields that perfguard uses are decoded.
Source: MindSpore 2.10, summary.proto and lineage.proto (field numbers are those of 2.0 as well); TensorFlow, record_writer.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from perfguard.artifacts.readers import MAX_CELLS, MAX_COLUMNS, Content, open_file
from perfguard.artifacts.table import Cells, Table, Unreadable

#: Field numbers of the contents of an event, except `summary`; an event has at most one of them.
_EVENT = {"version": 3, "graph_def": 4, "explain": 6}
_LINEAGE = {"version": 3, "train_lineage": 6, "evaluation_lineage": 7, "dataset_graph": 9, "user_defined_info": 10}
_VALUE = {"image": 4, "tensor": 8, "histogram": 9, "loss_landscape": 10}
_HEADER = struct.Struct("<QI")
_SUM_BYTES = 4
_COLUMNS = ("kind", "step", "wall_time", "version", "tags", "kinds", "scalars", "offset")
#: The largest number of records: those of five million steps, collected every ten steps.
MAX_RECORDS = 500_000
#: The largest size of a record, and of a tag in it: a record with a tensor is as large as the tensor.
MAX_RECORD_BYTES = 128 * 1024**2
MAX_TEXT = 65_536
#: The number of rows that are converted to columns together.
_BLOCK_ROWS = 8_192


def read_records(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a summary file (`..._MS`) or a lineage file (`..._lineage`): one row for each record.

    Columns: kind, step (blank if the record has none), wall_time [s], version, tags, kinds and scalars (one entry per value,
    separated by `|`; a `|` or `%` in a tag is percent-encoded, and only scalars have a number), offset [bytes]. The line of a
    row is the number of its record, from 1. Raises `Unreadable` with the record and its byte for an empty file, a record that
    is cut off, a wrong checksum, and an event that is not valid protobuf.
    """
    import polars as pl
    from google.protobuf.message import DecodeError

    event_of = _messages()["LineageEvent" if path.name.endswith("_lineage") else "Event"]
    schema = dict.fromkeys(_COLUMNS, pl.String)
    rows: list[tuple[str, ...]] = []
    frames = []
    tags = _Tags()
    number = 0
    for number, (offset, record) in enumerate(_records(path), start=1):
        where = f"record {number} at byte {offset}"
        if number > MAX_RECORDS:
            raise Unreadable(f"it has more than the {MAX_RECORDS} records that are read", f":{number}")
        try:
            rows.append((*_row(event_of, record, where, tags), str(offset)))
        except DecodeError as error:
            raise Unreadable(f"{where} is not an event: {error}", f":{number}") from error
        except UnicodeDecodeError as error:
            raise Unreadable(f"{where}: a text in it is not UTF-8", f":{number}") from error
        except Unreadable as error:
            raise Unreadable(error.message, f":{number}") from error
        if len(rows) == _BLOCK_ROWS:
            frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
            rows = []
    if not number:
        raise Unreadable("it is empty: even the record with the version is missing")
    frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
    frame = pl.concat(frames, rechunk=True)
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=range(1, number + 1)))


def masked_crc32c(payload: bytes) -> int:
    """Return the checksum of TFRecord: CRC-32C, rotated right by 15 bits, plus a constant."""
    import google_crc32c

    crc: int = google_crc32c.value(payload)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _records(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield every record's offset and content; raises `Unreadable` if the framing is invalid.

    The content is in a list, from which the caller removes it: so it is released early, and it may be large.
    """
    with open_file(path) as file:
        file_size = os.fstat(file.fileno()).st_size
        offset, number = 0, 0
        while offset < file_size:
            number += 1
            record = [_record(file, file_size - offset, f"record {number} at byte {offset}", number)]
            size = len(record[0])
            yield offset, record
            offset += _HEADER.size + size + _SUM_BYTES


def _record(file: BinaryIO, left: int, where: str, number: int) -> bytes:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise Unreadable(f"{where} is cut off inside its length", f":{number}")
    length, length_sum = _HEADER.unpack(header)
    if masked_crc32c(header[:8]) != length_sum:
        raise Unreadable(f"{where}: the checksum of its length is wrong", f":{number}")
    left -= _HEADER.size
    if length + _SUM_BYTES > left:
        message = f"{where} is cut off: it has {length} bytes, the file ends after {left}"
        raise Unreadable(message, f":{number}")
    if length > MAX_RECORD_BYTES:
        raise Unreadable(f"{where} has {length} bytes, more than the {MAX_RECORD_BYTES} that are read", f":{number}")
    payload = file.read(length)
    if masked_crc32c(payload) != int.from_bytes(file.read(_SUM_BYTES), "little"):
        raise Unreadable(f"{where}: the checksum of its content is wrong", f":{number}")
    return payload


class _Tags:
    """Tags as they are written into a cell. The same few tags recur, so each is encoded once."""

    def __init__(self) -> None:
        self._written: dict[str | bytes, str] = {}
        self._values = 0

    def count(self, values: int) -> None:
        """Add values; raises `Unreadable` if there are too many."""
        self._values += values
        if self._values > MAX_CELLS:
            raise Unreadable(f"there are more than the {MAX_CELLS} values that are read")

    def written(self, tag: str | bytes) -> str:
        """Return a tag with `|` and `%` percent-encoded. Raises `Unreadable` for too many different tags."""
        if (known := self._written.get(tag)) is not None:
            return known
        if len(self._written) == MAX_COLUMNS:
            raise Unreadable(f"there are more than {MAX_COLUMNS} different tags")
        written = self._written[tag] = _text(tag).replace("%", "%25").replace("|", "%7C")
        return written


def _row(event_of: Any, record: list[bytes], where: str, known: _Tags) -> tuple[str, ...]:
    event = event_of.FromString(record.pop())
    kind = event.WhichOneof("what")
    if kind is None or not event.HasField("wall_time"):
        missing = "content" if kind is None else "wall_time"
        raise Unreadable(f"{where} has no {missing}")
    step = str(event.step) if event.HasField("step") else ""
    version = _text(event.version) if kind == "version" else ""
    wall_time = repr(event.wall_time)
    values = _messages()["Summary"].FromString(event.summary).value if kind == "summary" else ()
    # So a large value is in memory once, not once for each message around it.
    del event
    return kind, step, wall_time, version, *_written(values, known)


def _written(values: Sequence[bytes], known: _Tags) -> tuple[str, str, str]:
    """Return the cells of tags, kinds and scalars of the values of a summary."""
    tags, kinds, scalars = [], [], []
    known.count(len(values))
    value_of = _messages()["Value"]
    for index in range(len(values)):
        value = value_of.FromString(values[index])
        tags.append(known.written(value.tag))
        if value.HasField("scalar_value"):
            kinds.append("scalar")
            scalars.append(repr(value.scalar_value))
        else:
            kinds.append(next((name for name in _VALUE if value.HasField(name)), ""))
            scalars.append("")
    return "|".join(tags), "|".join(kinds), "|".join(scalars)


def _text(text: str | bytes) -> str:
    if len(text) > MAX_TEXT:
        raise Unreadable(f"a text in it has {len(text)} characters, more than the {MAX_TEXT} that are read")
    # For a text that is not UTF-8, one implementation of protobuf returns bytes, the other refuses the event.
    return text if isinstance(text, str) else text.decode()


@cache
def _messages() -> Mapping[str, Any]:
    """Build the message classes in their own pool: in the default one they would collide with MindSpore's.

    A nested message is declared as bytes, and decoded when it is needed: a million values are 850 MB of objects at a time
    with protobuf's Python implementation, which MindSpore selects in every process that imports it.
    """
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
    field(summary, "value", 1, kinds.TYPE_BYTES, label=kinds.LABEL_REPEATED)
    for message_name, parts in (("Event", _EVENT), ("LineageEvent", _LINEAGE)):
        message = file.message_type.add(name=message_name)
        message.oneof_decl.add(name="what")
        field(message, "wall_time", 1, kinds.TYPE_DOUBLE)
        field(message, "step", 2, kinds.TYPE_INT64)
        for name, number in parts.items():
            field(message, name, number, kinds.TYPE_STRING if name == "version" else kinds.TYPE_BYTES, oneof_index=0)
        if message_name == "Event":
            field(message, "summary", 5, kinds.TYPE_BYTES, oneof_index=0)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"perfguard.{name}"))
        for name in ("Event", "LineageEvent", "Summary", "Value")
    }
