"""Records of a summary file taken apart: TFRecord frames around protobuf events, changed by field and packed again.

Field numbers: MindSpore, summary.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from perfguard.artifacts.readers.summary import masked_crc32c

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5

#: A value of a field; what a message holds is `bytes`.
Value = int | float | bytes
#: The number of a field, its kind on the wire, its value.
_Field = tuple[int, int, Value]

#: Columns of a summary file: the field numbers from the event to the value.
COLUMNS = {"wall_time": (1,), "step": (2,), "tag": (5, 1, 1), "scalar": (5, 1, 3)}


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a column: the number of its record, its place among those of the record, and what it is."""

    record: int
    place: int
    value: Value


def split(raw: bytes) -> list[bytes]:
    """Return the records of a file, each with its length and checksums."""
    found, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<Q", raw, at)
        found.append(raw[at : at + 16 + length])
        at += 16 + length
    return found


def parts_of(raw: bytes, column: str) -> list[Part]:
    """Return every value of a column."""
    found: list[Part] = []

    def keep(number: int, place: int, value: Value) -> Value:
        found.append(Part(number, place, value))
        return value

    for number, record in enumerate(split(raw)):
        _replaced(number, record, column, keep)
    return found


def changed(raw: bytes, column: str, new: dict[tuple[int, int], Value]) -> bytes:
    """Give values of a column, by record and place in it, another value."""
    touched = {record for record, _ in new}

    def other(number: int, place: int, value: Value) -> Value:
        return new.get((number, place), value)

    records = (_replaced(at, one, column, other) if at in touched else one for at, one in enumerate(split(raw)))
    return b"".join(records)


def _replaced(number: int, record: bytes, column: str, replace: Callable[[int, int, Value], Value]) -> bytes:
    places = count()
    return _framed(_visit(record[12:-4], COLUMNS[column], lambda value: replace(number, next(places), value)))


def _framed(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", masked_crc32c(length)) + event + struct.pack("<I", masked_crc32c(event))


def _visit(message: bytes, path: tuple[int, ...], replace: Callable[[Value], Value]) -> bytes:
    """Return a message whose values at a path are replaced."""
    out = []
    for number, kind, value in _fields(message):
        if number == path[0]:
            is_last = len(path) == 1
            value = (
                replace(value) if is_last else _visit(value, path[1:], replace) if isinstance(value, bytes) else value
            )
        out.append(_packed(number, kind, value))
    return b"".join(out)


def _fields(message: bytes) -> list[_Field]:
    found: list[_Field] = []
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        value: Value
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _BYTES:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            form = {_DOUBLE: "<d", _FLOAT: "<f"}[kind]
            value, at = struct.unpack_from(form, message, at)[0], at + struct.calcsize(form)
        found.append((key >> 3, kind, value))
    return found


def _packed(number: int, kind: int, value: Value) -> bytes:
    key = _as_varint(number << 3 | kind)
    if isinstance(value, bytes):
        return key + _as_varint(len(value)) + value
    if kind == _VARINT:
        return key + _as_varint(int(value) % (1 << 64))
    return key + struct.pack("<d" if kind == _DOUBLE else "<f", value)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
