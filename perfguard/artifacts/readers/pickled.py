"""Snapshots of a caching allocator of torch: pickles, read without running any of them.

What a pickle names is imported and called when Python loads it. A snapshot has plain values only, so this reader knows the
opcodes of these (Lib/pickletools.py, protocols 2 to 5) and refuses every other.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_bytes
from perfguard.artifacts.table import MAX_TEXT, Unreadable

MAX_PICKLE_BYTES = 512 * 1024**2
#: The largest number of values, each a Python object, and of opcodes: a value that is there again is one of these alone.
MAX_VALUES, MAX_OPCODES = 3_000_000, 16_000_000
#: The deepest place of a value: a frame of a block of a segment.
_MAX_DEPTH = 16
#: The longest integer; addresses and sizes have eight bytes.
_MAX_INTEGER_BYTES = 16

_MARK, _STOP = ord("("), ord(".")
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
#: The bytes that follow an opcode and are a number themselves.
_NUMBERS = {ord("J"): "<i", ord("K"): "<B", ord("M"): "<H", ord("G"): ">d"}
#: The bytes that say how many follow: of texts, and of integers.
_TEXTS = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
_INTEGERS = {0x8A: "<B", 0x8B: "<i"}
_EMPTY = {ord("]"): list, ord(")"): list, ord("}"): dict}
#: How many of the last values become a tuple; those since the mark.
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_SINCE_MARK = ord("t")
_APPEND, _APPENDS, _SET, _SETS = ord("a"), ord("e"), ord("s"), ord("u")
#: What is remembered under the next number or that which follows; what was remembered.
_PUT = {0x94: "", ord("q"): "<B", ord("r"): "<I"}
_GET = {ord("h"): "<B", ord("j"): "<I"}
#: Frames of the program; of all lists of them only the length is kept: each is there for thousands of events.
_FRAMES = "frames"


def read_snapshot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a snapshot as a document: tuples are lists, and `frames` is how many there are.

    Raises `Unreadable`, with the byte, for what is cut off, for an opcode that is not one of plain values, for a key that is
    there twice or is no text, and for what is too large, too deep or contains itself.
    """
    document = _Machine(read_bytes(path, limit=MAX_PICKLE_BYTES)).run()
    _refuse_large(document)
    return Content(document=document)


class _Machine:
    """The stack of a pickle."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._values = 0

    def run(self) -> Any:
        """Return the only value. Raises `Unreadable`."""
        for _ in range(MAX_OPCODES):
            opcode = self._number("<B")
            if opcode == _STOP:
                break
            try:
                self._do(opcode)
            except (IndexError, KeyError) as error:
                raise self._broken("it takes a value that is not there") from error
        else:
            raise self._broken(f"it has more than the {MAX_OPCODES} opcodes that are read")
        if len(self._stack) != 1 or self._marks:
            raise self._broken("it does not end with one value")
        if self._at != len(self._raw):
            raise self._broken(f"it ends here, and {len(self._raw) - self._at} bytes follow")
        return self._stack[0]

    def _do(self, opcode: int) -> None:
        if opcode in _TEXTS:
            self._push(self._text(self._number(_TEXTS[opcode])))
        elif opcode in _PUT:
            number = self._number(_PUT[opcode]) if _PUT[opcode] else len(self._memo)
            self._memo[number] = self._stack[-1]
        elif opcode in _GET:
            self._stack.append(self._memo[self._number(_GET[opcode])])
        elif opcode == _MARK:
            self._marks.append(len(self._stack))
        elif opcode == _SETS:
            values = self._since_mark()
            self._set(values)
        elif opcode in _NUMBERS:
            number = self._number(_NUMBERS[opcode])
            if not math.isfinite(number):
                raise self._broken(f"{number} is no number")
            self._push(number)
        elif opcode in _EMPTY:
            self._push(_EMPTY[opcode]())
        elif opcode == _APPENDS:
            values = self._since_mark()
            self._list().extend(values)
        elif opcode == _APPEND:
            value = self._stack.pop()
            self._list().append(value)
        elif opcode == _SET:
            value, key = self._stack.pop(), self._stack.pop()
            self._set([key, value])
        elif opcode in _INTEGERS:
            count = self._number(_INTEGERS[opcode])
            if not 0 <= count <= _MAX_INTEGER_BYTES:
                raise self._broken(f"an integer of {count} bytes")
            self._push(int.from_bytes(self._bytes(count), "little", signed=True))
        elif opcode in _TUPLES:
            self._tuple(self._last(_TUPLES[opcode]))
        elif opcode == _SINCE_MARK:
            self._tuple(self._since_mark())
        elif opcode in _CONSTANTS:
            self._push(_CONSTANTS[opcode])
        elif opcode == 0x80:
            self._number("<B")
        elif opcode == 0x95:
            self._number("<Q")
        else:
            shown = repr(chr(opcode)) if 32 < opcode < 127 else hex(opcode)
            raise self._broken(
                f"opcode {shown} is not one of plain values, as a snapshot has, and nothing of it is run"
            )

    def _broken(self, why: str) -> Unreadable:
        return Unreadable(f"it is not a snapshot of torch's allocator: {why} (byte {self._at})")

    def _bytes(self, count: int) -> bytes:
        found = self._raw[self._at : self._at + count]
        if len(found) < count:
            raise Unreadable(f"it is cut off: it ends at byte {len(self._raw)}, in the middle of a value")
        self._at += count
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _text(self, count: int) -> str:
        if count > MAX_TEXT:
            raise self._broken(f"a text has {count} bytes, more than the {MAX_TEXT} that are read")
        try:
            return self._bytes(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._broken("a text is not UTF-8") from error

    def _push(self, value: Any) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise Unreadable(f"it has more than the {MAX_VALUES} values that are read")
        self._stack.append(value)

    def _since_mark(self) -> list[Any]:
        return self._last(len(self._stack) - self._marks.pop())

    def _last(self, count: int) -> list[Any]:
        if not 0 <= count <= len(self._stack):
            raise IndexError(count)
        first = len(self._stack) - count
        found = self._stack[first:]
        del self._stack[first:]
        return found

    def _tuple(self, values: list[Any]) -> None:
        self._push(values)

    def _list(self) -> list[Any]:
        found = self._stack[-1]
        if not isinstance(found, list):
            raise self._broken("a value is added to what is no list")
        return found

    def _set(self, pairs: list[Any]) -> None:
        found = self._stack[-1]
        if not isinstance(found, dict) or len(pairs) % 2:
            raise self._broken("a key is set in what has no keys")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str):
                raise self._broken("a key is no text")
            if key in found:
                raise self._broken(f"an object has the key {key[:80]!r} twice")
            found[key] = len(value) if key == _FRAMES and isinstance(value, list) else value


def _refuse_large(document: Any) -> None:
    """Raise `Unreadable` for what is as large as no snapshot once each value stands where it is, or contains itself."""
    waiting, count = [iter([document])], 0
    while waiting:
        value = next(waiting[-1], waiting)
        if value is waiting:
            waiting.pop()
            continue
        count += 1
        if count > MAX_VALUES:
            raise Unreadable(f"it has more than the {MAX_VALUES} values that are read")
        if inner := _inside(value):
            if len(waiting) == _MAX_DEPTH:
                raise Unreadable(f"its values are in each other, more than {_MAX_DEPTH} deep")
            waiting.append(inner)


def _inside(value: Any) -> Iterator[Any] | None:
    return iter(value.values()) if isinstance(value, dict) else iter(value) if isinstance(value, list) else None
