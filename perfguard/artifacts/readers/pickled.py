"""Snapshots of a caching allocator of torch: pickles, read without running any of them.

What a pickle names is imported and called when Python loads it. A snapshot has plain values only, so this reader knows the
opcodes of these (Lib/pickletools.py, protocols 2 to 5) and refuses every other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any

from perfguard.artifacts.readers import MAX_HELD_BYTES, Content, read_bytes
from perfguard.artifacts.table import MAX_TEXT, Unreadable

MAX_PICKLE_BYTES = 512 * 1024**2
#: The largest number of values, each a Python object, and of opcodes: a value that is there again is one of these alone.
MAX_VALUES, MAX_OPCODES = 3_000_000, 48_000_000
#: The deepest place of a value: a frame of a block of a segment.
_MAX_DEPTH = 16
#: The longest integer; addresses and sizes have eight bytes.
_MAX_INTEGER_BYTES = 16

_BYTE, _SHORT, _SIGNED, _WORD, _LONG, _FLOAT = map(Struct, ("<B", "<H", "<i", "<I", "<Q", ">d"))
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
_NUMBERS = {ord("K"): _BYTE, ord("M"): _SHORT, ord("J"): _SIGNED, ord("G"): _FLOAT}
#: What says how many bytes follow: of texts, and of integers.
_TEXTS = {0x8C: _BYTE, ord("X"): _WORD, 0x8D: _LONG}
_INTEGERS = {0x8A: _BYTE, 0x8B: _SIGNED}
_EMPTY = {ord("]"): list, ord(")"): list, ord("}"): dict}
#: How many of the last values become a tuple.
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
#: What is remembered under a number; and what was.
_PUT, _GET = {ord("q"): _BYTE, ord("r"): _WORD}, {ord("h"): _BYTE, ord("j"): _WORD}
_MARK, _STOP, _TUPLE, _MEMOIZE = ord("("), ord("."), ord("t"), 0x94
_APPEND, _APPENDS, _SET, _SETS = ord("a"), ord("e"), ord("s"), ord("u")
_OF_MARK = frozenset((_APPENDS, _SETS, _TUPLE))
#: What has no meaning for the values: the protocol, and how long a part of the file is.
_SKIPPED = {0x80: 1, 0x95: 8}
#: Frames of the program; of all lists of them only the length is kept: each is there for thousands of events.
_FRAMES = "frames"
_RECORD_LESS = "; record less: max_entries, or stacks='python', of _record_memory_history"


def read_snapshot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a snapshot as a document: tuples are lists, `frames` is how many there are, and integers of 64 bits have a sign.

    Raises `Unreadable`, with the byte, for what is cut off, for an opcode that is not one of plain values, for a key that is
    there twice or is no text, and for what is too large, too deep or contains itself.
    """
    document = _value(read_bytes(path, limit=MAX_PICKLE_BYTES))
    _refuse_large(document)
    return Content(document=document)


def _value(raw: bytes) -> Any:
    """Return the only value of a pickle."""
    at = count = 0
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    push, end = stack.append, len(raw)

    def broken(why: str) -> Unreadable:
        return Unreadable(f"it is not a snapshot of torch's allocator: {why} (byte {at})")

    try:
        for _ in range(MAX_OPCODES):
            opcode = raw[at]
            at += 1
            if opcode in _GET:
                form = _GET[opcode]
                (number,) = form.unpack_from(raw, at)
                at += form.size
                push(memo[number])
                continue
            if opcode == _MEMOIZE or opcode in _PUT:
                number = len(memo)
                if opcode != _MEMOIZE:
                    form = _PUT[opcode]
                    (number,) = form.unpack_from(raw, at)
                    at += form.size
                memo[number] = stack[-1]
                if len(memo) > MAX_VALUES:
                    raise _too_large()
                continue
            if opcode == _MARK:
                marks.append(len(stack))
                continue
            if opcode in _OF_MARK:
                first = marks.pop()
                values = _taken(stack, first)
                if opcode == _SETS:
                    _set(stack[-1], values, broken)
                elif opcode == _APPENDS:
                    _list(stack[-1], broken).extend(values)
                else:
                    push(values)
                    count += 1
                continue
            if opcode == _STOP:
                break
            if opcode in _SKIPPED:
                at += _SKIPPED[opcode]
                continue
            if opcode == _APPEND:
                value = stack.pop()
                _list(stack[-1], broken).append(value)
                continue
            if opcode == _SET:
                pair = _taken(stack, len(stack) - 2)
                _set(stack[-1], pair, broken)
                continue
            # All others are a value.
            count += 1
            if count > MAX_VALUES:
                raise _too_large()
            if opcode in _TEXTS or opcode in _INTEGERS:
                form = _TEXTS[opcode] if opcode in _TEXTS else _INTEGERS[opcode]
                (length,) = form.unpack_from(raw, at)
                at += form.size
                if opcode in _INTEGERS and not 0 <= length <= _MAX_INTEGER_BYTES:
                    raise broken(f"an integer of {length} bytes")
                if length > MAX_TEXT:
                    raise broken(f"a text has {length} bytes, more than the {MAX_TEXT} that are read")
                part = raw[at : at + length]
                if len(part) < length:
                    raise _cut_off(end)
                at += length
                push(part.decode("utf-8") if opcode in _TEXTS else _signed(part))
            elif opcode in _NUMBERS:
                form = _NUMBERS[opcode]
                (number,) = form.unpack_from(raw, at)
                at += form.size
                if not math.isfinite(number):
                    raise broken(f"{number} is no number")
                push(number)
            elif opcode in _EMPTY:
                push(_EMPTY[opcode]())
            elif opcode in _TUPLES:
                push(_taken(stack, len(stack) - _TUPLES[opcode]))
            elif opcode in _CONSTANTS:
                push(_CONSTANTS[opcode])
            else:
                shown = repr(chr(opcode)) if 32 < opcode < 127 else hex(opcode)
                raise broken(f"opcode {shown} is not one of plain values, as a snapshot has, and nothing of it is run")
        else:
            raise Unreadable(f"it has more than the {MAX_OPCODES} opcodes of a pickle that are read{_RECORD_LESS}")
    except (IndexError, KeyError, StructError) as error:
        if isinstance(error, StructError) or at >= end:
            raise _cut_off(end) from error
        raise broken("it takes a value that is not there") from error
    except UnicodeDecodeError as error:
        raise broken("a text is not UTF-8") from error
    if len(stack) != 1 or marks:
        raise broken("it does not end with one value")
    if at != end:
        raise broken(f"it ends here, and {end - at} bytes follow")
    return stack[0]


def _cut_off(end: int) -> Unreadable:
    return Unreadable(f"it is cut off: it ends at byte {end}, in the middle of a value")


def _too_large() -> Unreadable:
    return Unreadable(f"it has more than the {MAX_VALUES} values that are read{_RECORD_LESS}")


def _signed(raw: bytes) -> int:
    """Return an integer; one of 64 bits has the sign of its bits: some writers have addresses with it, some without."""
    found = int.from_bytes(raw, "little", signed=True)
    return found - 2**64 if 2**63 <= found < 2**64 else found


def _taken(stack: list[Any], first: int) -> list[Any]:
    """Return and remove the values from a place on. Raises `IndexError`."""
    if not 0 <= first <= len(stack):
        raise IndexError(first)
    found = stack[first:]
    del stack[first:]
    return found


def _list(found: Any, broken: Callable[[str], Unreadable]) -> list[Any]:
    if type(found) is not list:
        raise broken("a value is added to what is no list")
    return found


def _set(found: Any, pairs: list[Any], broken: Callable[[str], Unreadable]) -> None:
    if type(found) is not dict or len(pairs) % 2:
        raise broken("a key is set in what has no keys")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if type(key) is not str:
            raise broken("a key is no text")
        if key in found:
            raise broken(f"an object has the key {key[:80]!r} twice")
        found[key] = len(value) if key == _FRAMES and type(value) is list else value


def _refuse_large(document: Any) -> None:
    """Raise `Unreadable` for what is as large as no snapshot once each value stands where it is, or contains itself."""
    waiting, count, characters = [iter([document])], 0, 0
    while waiting:
        value = next(waiting[-1], waiting)
        if value is waiting:
            waiting.pop()
            continue
        count += 1
        if count > MAX_VALUES:
            raise _too_large()
        if type(value) is str:
            characters += len(value)
            if characters > MAX_HELD_BYTES:
                raise Unreadable(f"its texts have more than the {MAX_HELD_BYTES} characters that are read")
        elif inner := _inside(value):
            if len(waiting) == _MAX_DEPTH:
                raise Unreadable(f"its values are in each other, more than {_MAX_DEPTH} deep")
            waiting.append(inner)


def _inside(value: Any) -> Iterator[Any] | None:
    return iter(value.values()) if type(value) is dict else iter(value) if type(value) is list else None
