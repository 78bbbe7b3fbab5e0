"""Snapshots of a caching allocator of torch: pickles, read without running any of them.

What a pickle names is imported and called when Python loads it. A snapshot has plain values only, so this reader knows the
opcodes of these (Lib/pickletools.py, protocols 2 to 5) and refuses every other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any

from perfguard.artifacts.readers import MAX_HELD_BYTES, Content, read_bytes
from perfguard.artifacts.table import MAX_TEXT, Unreadable

MAX_PICKLE_BYTES = 512 * 1024**2
#: The largest number of values, each a Python object, and of opcodes: a value that is there again is one of these alone.
MAX_VALUES, MAX_OPCODES = 3_000_000, 48_000_000
#: The deepest place of a value; a block of a segment is four deep.
_MAX_DEPTH = 16
#: The longest integer; addresses and sizes have eight bytes.
_MAX_INTEGER_BYTES = 16
#: Frames of the program; of all lists of them only the length is kept: each is there for thousands of events.
_FRAMES = "frames"
_RECORD_LESS = "; record less: max_entries, or stacks='python', of _record_memory_history"
_STOP = ord(".")
#: The forms of numbers in a pickle, by their bytes; all but floats are little-endian.
_U8, _U16, _I32, _U32, _U64, _F64 = map(Struct, ("<B", "<H", "<i", "<I", "<Q", ">d"))


def read_snapshot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a snapshot as a document: tuples are lists, `frames` is how many there are, and integers of 64 bits have a sign.

    Raises `Unreadable`, with the byte, for what is cut off, for an opcode that is not one of plain values, for a key that is
    there twice or is no text, and for what is too large, too deep or contains itself.
    """
    document = _Machine(read_bytes(path, limit=MAX_PICKLE_BYTES)).run()
    _refuse_large(document)
    return Content(document=document)


class _Machine:
    """What a pickle is a program of: a stack of values, marks in it, and values that it remembers by numbers."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._values = 0
        #: By the opcode, what it does.
        self._actions: Mapping[int, Callable[[], object]] = {
            **{ord(one): partial(self._again, form) for one, form in (("h", _U8), ("j", _U32))},
            **{ord(one): partial(self._remember, form) for one, form in (("q", _U8), ("r", _U32))},
            **{
                ord(one): partial(self._number, form)
                for one, form in (("K", _U8), ("M", _U16), ("J", _I32), ("G", _F64))
            },
            **{one: partial(self._text, form) for one, form in ((0x8C, _U8), (ord("X"), _U32), (0x8D, _U64))},
            **{one: partial(self._integer, form) for one, form in ((0x8A, _U8), (0x8B, _I32))},
            **{one: partial(self._push, value) for one, value in ((ord("N"), None), (0x88, True), (0x89, False))},
            **{ord(one): partial(self._empty, kind) for one, kind in (("]", list), (")", list), ("}", dict))},
            **{0x84 + count: partial(self._tuple_of, count) for count in (1, 2, 3)},
            # The protocol, and how long a part of the file is: neither is of the values.
            **{one: partial(self._take, form) for one, form in ((0x80, _U8), (0x95, _U64))},
            0x94: self._remember_next,
            ord("("): self._mark,
            ord("t"): self._tuple,
            ord("a"): self._append,
            ord("e"): self._append_all,
            ord("s"): self._set,
            ord("u"): self._set_all,
        }

    def run(self) -> Any:
        """Return the only value. Raises `Unreadable`."""
        actions = self._actions
        try:
            for _ in range(MAX_OPCODES):
                opcode = self._raw[self._at]
                self._at += 1
                if opcode == _STOP:
                    break
                if opcode not in actions:
                    shown = repr(chr(opcode)) if 32 < opcode < 127 else hex(opcode)
                    why = f"opcode {shown} is not one of plain values, as a snapshot has, and nothing of it is run"
                    raise self._broken(why)
                actions[opcode]()
            else:
                raise Unreadable(f"it has more than the {MAX_OPCODES} opcodes of a pickle that are read{_RECORD_LESS}")
        except (IndexError, KeyError, StructError) as error:
            if isinstance(error, StructError) or self._at >= len(self._raw):
                raise self._cut_off() from error
            raise self._broken("it takes a value that is not there") from error
        if len(self._stack) != 1 or self._marks:
            raise self._broken("it does not end with one value")
        if self._at != len(self._raw):
            raise self._broken(f"it ends here, and {len(self._raw) - self._at} bytes follow")
        return self._stack[0]

    def _broken(self, why: str) -> Unreadable:
        return Unreadable(f"it is not a snapshot of torch's allocator: {why} (byte {self._at})")

    def _cut_off(self) -> Unreadable:
        return Unreadable(f"it is cut off: it ends at byte {len(self._raw)}, in the middle of a value")

    # -- bytes behind an opcode ------------------------------------------------------------------------------------------

    def _take(self, form: Struct) -> Any:
        (found,) = form.unpack_from(self._raw, self._at)
        self._at += form.size
        return found

    def _take_bytes(self, count: int) -> bytes:
        found = self._raw[self._at : self._at + count]
        if len(found) < count:
            raise self._cut_off()
        self._at += count
        return found

    # -- values ----------------------------------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _too_large()
        self._stack.append(value)

    def _empty(self, kind: type[Any]) -> None:
        self._push(kind())

    def _number(self, form: Struct) -> None:
        number = self._take(form)
        if not math.isfinite(number):
            raise self._broken(f"{number} is no number")
        self._push(number)

    def _integer(self, form: Struct) -> None:
        count = self._take(form)
        if not 0 <= count <= _MAX_INTEGER_BYTES:
            raise self._broken(f"an integer of {count} bytes")
        self._push(_signed(self._take_bytes(count)))

    def _text(self, form: Struct) -> None:
        count = self._take(form)
        if count > MAX_TEXT:
            raise self._broken(f"a text has {count} bytes, more than the {MAX_TEXT} that are read")
        try:
            self._push(self._take_bytes(count).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._broken("a text is not UTF-8") from error

    # -- the memo --------------------------------------------------------------------------------------------------------

    def _again(self, form: Struct) -> None:
        self._stack.append(self._memo[self._take(form)])

    def _remember(self, form: Struct) -> None:
        self._remember_as(self._take(form))

    def _remember_next(self) -> None:
        self._remember_as(len(self._memo))

    def _remember_as(self, number: int) -> None:
        self._memo[number] = self._stack[-1]
        if len(self._memo) > MAX_VALUES:
            raise _too_large()

    # -- values in each other --------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _from(self, first: int) -> list[Any]:
        """Return and remove the values from a place of the stack on. Raises `IndexError`."""
        if not 0 <= first <= len(self._stack):
            raise IndexError(first)
        found = self._stack[first:]
        del self._stack[first:]
        return found

    def _tuple(self) -> None:
        self._push(self._from(self._marks.pop()))

    def _tuple_of(self, count: int) -> None:
        self._push(self._from(len(self._stack) - count))

    def _append(self) -> None:
        self._extend(self._from(len(self._stack) - 1))

    def _append_all(self) -> None:
        self._extend(self._from(self._marks.pop()))

    def _extend(self, values: list[Any]) -> None:
        found = self._stack[-1]
        if type(found) is not list:
            raise self._broken("a value is added to what is no list")
        found.extend(values)

    def _set(self) -> None:
        self._update(self._from(len(self._stack) - 2))

    def _set_all(self) -> None:
        self._update(self._from(self._marks.pop()))

    def _update(self, pairs: list[Any]) -> None:
        found = self._stack[-1]
        if type(found) is not dict or len(pairs) % 2:
            raise self._broken("a key is set in what has no keys")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) is not str:
                raise self._broken("a key is no text")
            if key in found:
                raise self._broken(f"an object has the key {key[:80]!r} twice")
            found[key] = len(value) if key == _FRAMES and type(value) is list else value


def _too_large() -> Unreadable:
    return Unreadable(f"it has more than the {MAX_VALUES} values that are read{_RECORD_LESS}")


def _signed(raw: bytes) -> int:
    """Return an integer; one of 64 bits has the sign of its bits: some writers have addresses with it, some without."""
    found = int.from_bytes(raw, "little", signed=True)
    return found - 2**64 if 2**63 <= found < 2**64 else found


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
