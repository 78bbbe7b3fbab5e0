"""Chunks: an array of JSON objects of any length, a piece at a time, cut between two objects.

A trace is one document, so no JSON library reads it in pieces. It is cut where `}, {"name":` stands: that cannot lie inside
a string (the quote would be escaped), and where it lies inside an event the chunk does not decode as an array: it ends too
soon, and is read on. So whoever decodes the chunks says whether a cut was right, and no cut is believed that was not decoded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from perfguard.artifacts.readers.document import malformed, place_of, refuse_repeated_keys
from perfguard.artifacts.readers.source import Source
from perfguard.artifacts.table import Unreadable

#: What is decoded at once: text, objects and columns of it fit the cache of a core, which halves the CPU time of 8 MB.
CHUNK_BYTES = 1024 * 1024
#: The longest event, and the longest document around the events, that is read.
MAX_EVENT_BYTES = 128 * 1024**2
#: How far behind the end of a chunk a cut is looked for before the whole chunk is searched.
_TAIL_BYTES = 4 * 1024

#: Between two events: the end of one, and the beginning of another with the key that writers put first.
_USUAL_CUT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|ts|args)"\s*:)')
_ANY_CUT = re.compile(rb'\}\s*,\s*(?=\{\s*"[^"\\]*"\s*:)')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')


class CutShort(Exception):
    """A chunk ends inside an event: its cut was none, or the file was cut off."""


class Ended(Exception):
    """The array ended inside a chunk, at `position` of the chunk's bytes."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Broken(Exception):
    """A chunk is no JSON from `position` of its bytes on."""

    def __init__(self, message: str, position: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def end_of_document(error: Exception) -> int | None:
    """Return where a document ends, if what a decoder refuses is that more follows it."""
    place = place_of(error)
    # It counts the first of the trailing characters as read.
    return place - 1 if place is not None and "trailing characters" in str(error) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Events of a trace as one array: `view` is `[`, whole events, `]`. It is good until the next chunk is asked for.

    `offset` is where the first event begins in the (unpacked) file.
    """

    view: memoryview
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A chunk that was set aside: its text with the brackets, what stands behind it in the file, and who keeps it where."""

    text: memoryview
    behind: bytes
    offset: int
    slot: int


class Helper(Protocol):
    """Decodes some of the chunks in another process, while others are decoded here."""

    #: How many chunks may be set aside.
    room: int

    def takes(self, length: int) -> bool:
        """Whether a text of so many bytes can be set aside for it."""
        ...

    def set_aside(self, text: memoryview) -> tuple[int, memoryview]:
        """Copy the text of a chunk, which may be decoded elsewhere from now on; returns where it is, and the copy."""
        ...

    def events(self, one: Waiting) -> Any:
        """Return the decoded events of a chunk, or None if it has to be decoded here."""
        ...

    def free(self, one: Waiting) -> None:
        """Let go of a chunk."""
        ...


#: Decodes a chunk's array; raises `CutShort`, `Ended` or `Broken`.
Decode = Callable[[Chunk], Any]


class Chunks:
    """The events of a trace in chunks, and the document around them once the last chunk is through.

    A caller goes through `decoded`, and asks for `document` afterwards.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = bytearray(CHUNK_BYTES + 2)
        #: How much of the buffer is filled; the first byte is kept for the bracket.
        self._filled = 1
        #: Where the first of these bytes lies in the file.
        self._offset = 0
        self._at_end = False
        #: What is read before the rest of the file, and why the rest cannot be read.
        self._again = memoryview(b"")
        self._broken: Unreadable | None = None
        self._header = b""
        self._footer = b""
        self._is_array = False

    @property
    def path(self) -> str:
        """Where the events are in the document, as findings name it."""
        return "$" if self._is_array else "$.traceEvents"

    def decoded(self, decode: Decode, helper: Helper | None = None) -> Iterator[Any]:
        """Yield what `decode`, or its helper, makes of each chunk, in order.

        Raises `Unreadable` where the file is no trace, with the byte; what came before it has been yielded.
        """
        self._open_array()
        waiting: deque[Waiting] = deque()
        is_over = False
        while not is_over:
            if helper is not None and self._hands_over(helper, waiting):
                continue
            if helper is None or not waiting:
                is_over = yield from self._alone(decode)
                continue
            try:
                found = helper.events(waiting[0])
                if found is None:
                    found = decode(Chunk(view=waiting[0].text, offset=waiting[0].offset))
            except (CutShort, Ended, Broken):
                # A cut was none, or the array is at its end: from here on one chunk is read after the other.
                self._take_back(waiting)
                helper = None
                continue
            yield found
            del found
            helper.free(waiting.popleft())

    def _alone(self, decode: Decode) -> Generator[Any, None, bool]:
        """Yield what `decode` makes of the next chunk; returns whether it was the last one."""
        self._fill()
        if self._at_end:
            yield from self._last(decode)
            return True
        cut = self._cut()
        if cut is None:
            self._enlarge()
            return False
        try:
            found = self._decode_until(cut[0], decode)
        except CutShort:
            self._enlarge()
            return False
        except Ended as ended:
            yield from self._end_of_array(ended.position, decode)
            return True
        except Broken as broken:
            yield from self._before(broken.position, decode)
            raise self._malformed(broken.message, broken.position) from None
        yield found
        del found
        self._keep_from(cut[1])
        return False

    def _hands_over(self, helper: Helper, waiting: deque[Waiting]) -> bool:
        """Set the next chunk aside; returns False where the helper takes none now, or what is aside has to be seen first."""
        if len(waiting) == helper.room:
            return False
        try:
            self._fill()
        except Unreadable as error:
            if not waiting:
                raise
            # It is said once what was set aside has been seen.
            self._broken = error
            return False
        cut = None if self._at_end else self._cut()
        if cut is None or not helper.takes(cut[0] + 1):
            return False
        waiting.append(self._set_aside(*cut, helper))
        return True

    def _set_aside(self, end: int, begin: int, helper: Helper) -> Waiting:
        """Take the events up to `end` out of the buffer; the next ones begin at `begin`."""
        before, self._buffer[end] = self._buffer[end], ord("]")
        self._buffer[0] = ord("[")
        slot, text = helper.set_aside(memoryview(self._buffer)[: end + 1])
        self._buffer[end] = before
        found = Waiting(text=text, behind=bytes(self._buffer[end:begin]), offset=self._offset, slot=slot)
        self._keep_from(begin)
        return found

    def _take_back(self, waiting: deque[Waiting]) -> None:
        """Have what was set aside read once more, and what is in the buffer behind it."""
        parts = [part for one in waiting for part in (one.text[1:-1], one.behind)]
        self._again = memoryview(b"".join([*parts, memoryview(self._buffer)[1 : self._filled]]))
        self._offset, self._filled, self._at_end = waiting[0].offset, 1, False
        waiting.clear()

    @property
    def document(self) -> dict[str, Any]:
        """The object around the events, without them; empty for a bare array. Only after `decoded` has ended."""
        if self._is_array:
            return {}
        text = self._header + b"]" + self._footer
        try:
            around = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            refuse_repeated_keys(text, around)
            return {key: msgspec.json.decode(value) for key, value in around.items() if key != "traceEvents"}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise malformed("it is not a JSON trace: what stands around its events", text, error) from error

    # -- the array -----------------------------------------------------------------------------------------------

    def _open_array(self) -> None:
        """Read up to the first event."""
        while True:
            self._fill()
            text = bytes(memoryview(self._buffer)[1 : self._filled])
            if not (plain := text.lstrip()) and not self._at_end:
                self._keep_from(self._filled)
                continue
            if plain[:1] == b"[":
                self._is_array = True
                self._keep_from(1 + len(text) - len(plain) + 1)
                return
            if not plain.startswith(b"{"):
                raise malformed(
                    "it is not a JSON trace", text[:_TAIL_BYTES], msgspec.DecodeError("no array, no object")
                )
            for match in _EVENTS.finditer(text):
                try:
                    found = msgspec.json.decode(text[: match.end()] + b"]}", type=dict[str, msgspec.Raw])
                except (msgspec.DecodeError, RecursionError):
                    continue
                if bytes(found.get("traceEvents", b"")) == b"[]":
                    self._header = text[: match.end()]
                    self._keep_from(1 + match.end())
                    return
            if self._at_end or len(text) >= MAX_EVENT_BYTES:
                self._refuse_document(text)
            self._enlarge()

    def _refuse_document(self, text: bytes) -> None:
        if self._at_end:
            try:
                msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise malformed("it is not a JSON trace", text, error) from error
        raise Unreadable(f"it has no array traceEvents in its first {len(text)} bytes")

    def _fill(self) -> None:
        if self._at_end:
            return
        room = memoryview(self._buffer)[self._filled : -1]
        count = min(len(room), len(self._again))
        room[:count], self._again = self._again[:count], self._again[count:]
        if count < len(room):
            if self._broken is not None:
                raise self._broken
            count += self._source.read_into(room[count:])
        self._at_end = count < len(room)
        self._filled += count

    def _keep_from(self, position: int) -> None:
        """Forget what lies before `position` of the buffer."""
        rest = self._filled - position
        if len(self._buffer) > CHUNK_BYTES + 2 and rest < CHUNK_BYTES // 2:
            # It was enlarged for one long event.
            kept, self._buffer = self._buffer[position : self._filled], bytearray(CHUNK_BYTES + 2)
            self._buffer[1 : 1 + rest] = kept
            self._offset += position - 1
            self._filled = 1 + rest
            return
        self._buffer[1 : 1 + rest] = self._buffer[position : self._filled]
        self._offset += position - 1
        self._filled = 1 + rest

    def _enlarge(self) -> None:
        if self._filled > MAX_EVENT_BYTES:
            raise Unreadable(
                f"from byte {self._offset} on no event ends within {self._filled - 1} bytes: one of them is longer than is "
                "read, or a bracket is missing"
            )
        larger = bytearray(2 * len(self._buffer))
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def _cut(self, until: int | None = None) -> tuple[int, int] | None:
        """Return the last place between two events: the end of the one, and the beginning of the next."""
        end = self._filled if until is None else until
        for pattern, start in ((_USUAL_CUT, max(1, end - _TAIL_BYTES)), (_USUAL_CUT, 1), (_ANY_CUT, 1)):
            last = None
            for last in pattern.finditer(self._buffer, start, end):  # noqa: B007 - the last one is wanted
                pass
            if last is not None:
                return last.start() + 1, last.end()
        return None

    def _decode_until(self, end: int, decode: Decode) -> Any:
        """Decode the events up to `end` of the buffer, closed by a bracket that stands there for that long."""
        before, self._buffer[end] = self._buffer[end], ord("]")
        self._buffer[0] = ord("[")
        view = memoryview(self._buffer)[: end + 1]
        try:
            return decode(Chunk(view=view, offset=self._offset))
        finally:
            self._buffer[end] = before

    def _last(self, decode: Decode) -> Iterator[Any]:
        """Decode what is left at the end of the file: the last events, the end of the array and what stands behind it."""
        self._buffer[0] = ord("[")
        rest = bytes(memoryview(self._buffer)[1 : self._filled])
        # One that is no end of the array would be decoded as one, so the file's own bracket is all there may be.
        try:
            found = decode(Chunk(view=memoryview(self._buffer)[: self._filled], offset=self._offset))
        except Ended as ended:
            yield from self._end_of_array(ended.position, decode)
            return
        except CutShort:
            yield from self._before(self._filled, decode)
            raise self._cut_off(rest) from None
        except Broken as broken:
            yield from self._before(broken.position, decode)
            raise self._malformed(broken.message, broken.position) from None
        yield found
        if not self._is_array:
            raise self._cut_off(rest)

    def _before(self, position: int | None, decode: Decode) -> Iterator[Any]:
        """Decode the whole events before a place where the file breaks."""
        end = self._filled if position is None else min(position, self._filled)
        for _ in range(8):
            cut = self._cut(end)
            if cut is None:
                return
            try:
                found = self._decode_until(cut[0], decode)
            except (CutShort, Broken, Ended):
                end = cut[0]
                continue
            yield found
            return

    def _end_of_array(self, position: int, decode: Decode) -> Iterator[Any]:
        """The array ends before `position` of the buffer; read what stands behind it."""
        try:
            found = decode(Chunk(view=memoryview(self._buffer)[:position], offset=self._offset))
        except Broken as broken:
            yield from self._before(broken.position, decode)
            raise self._malformed(broken.message, broken.position) from None
        yield found
        del found
        self._keep_from(position)
        while not self._at_end:
            if self._is_array and bytes(self._buffer[1 : self._filled]).strip():
                break
            if self._filled > len(self._buffer) - 2:
                self._refuse_more()
                self._enlarge()
            self._fill()
        self._refuse_more()
        self._footer = bytes(memoryview(self._buffer)[1 : self._filled])

    def _refuse_more(self) -> None:
        """Raise `Unreadable` where the document has ended, and something follows."""
        behind = bytes(memoryview(self._buffer)[1 : self._filled])
        end = 0
        if not self._is_array:
            before = self._header + b"]"
            try:
                msgspec.json.decode(before + behind, type=msgspec.Raw)
                return
            except (msgspec.DecodeError, RecursionError) as error:
                if (found := end_of_document(error)) is None:
                    # It goes on, or is broken: that is said when all of it is there.
                    return
                end = found - len(before)
        if rest := behind[end:].lstrip():
            at = self._offset + len(behind) - len(rest)
            what = "a second document begins" if rest[:1] in b"[{" else "more follows"
            ended = "array" if self._is_array else "document"
            raise Unreadable(f"it is not a JSON trace: its {ended} has ended, and {what} at byte {at}")

    # -- words ---------------------------------------------------------------------------------------------------

    def _malformed(self, message: str, position: int | None) -> Unreadable:
        if position is None:
            return Unreadable(f"it is not a JSON trace: {message}, behind byte {self._offset}")
        text = bytes(memoryview(self._buffer)[max(1, position - 40) : min(self._filled, position + 40)])
        near = text.decode("utf-8", "replace")
        return Unreadable(f"it is not a JSON trace: {message} at byte {self._offset + position - 1}, near {near!r}")

    def _cut_off(self, rest: bytes) -> Unreadable:
        end = rest[-40:].decode("utf-8", "replace")
        return Unreadable(
            f"it is not a JSON trace: the file is cut off, it ends in the middle of an event at byte "
            f"{self._offset + len(rest)}, after {end!r}"
        )
