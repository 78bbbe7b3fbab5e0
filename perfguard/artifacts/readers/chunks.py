"""Chunks: an array of JSON objects of any length, one piece at a time, cut between two objects.

A trace is one document, so no JSON library reads it in pieces. It is cut at `}, {"name":`. This cannot be inside a string (the
quote would be escaped). If it is inside an event, the chunk does not decode as an array, because it ends too early; then the
chunk is enlarged. So the decoder confirms every cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from perfguard.artifacts.readers.document import malformed, place_of, refuse_repeated_keys
from perfguard.artifacts.readers.source import Source
from perfguard.artifacts.table import Unreadable

#: The size of a chunk: its text, objects and columns fit the cache of a core, which halves the CPU time of 8 MB chunks.
CHUNK_BYTES = 1024 * 1024
#: The longest event, and the longest document around the events, that is read.
MAX_EVENT_BYTES = 8 * 1024**2
MAX_AROUND_BYTES = 24 * 1024**2
#: The part at the end of a chunk that is searched for a cut before the whole chunk is.
_TAIL_BYTES = 4 * 1024

#: Between two events: the end of one, and the beginning of the next with a key that profilers write first.
_USUAL_CUT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|ts|args)"\s*:)')
_ANY_CUT = re.compile(rb'\}\s*,\s*(?=\{\s*"[^"\\]*"\s*:)')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
#: The name of an event as Kineto writes it, whatever is in it; the process follows, in a line of its own since 2026.
_NAME_AND_PROCESS = re.compile(rb'"name": "([^\n]*?)",\s*"pid":')
#: Kineto escapes quotes in names since mid-2026 (output_json.cpp); torch 2.13 does not.
_UNESCAPED = (
    "a quotation mark in a name is not escaped, as Kineto before mid-2026 writes names, and another recording has it as well: "
    "rename what record_function names, or update torch"
)
#: Brackets and strings; a string that is the key of an array has its bracket, one that the text cuts off ends with it.
_TOKEN = re.compile(rb'[][{}]|"(?:[^"\\]|\\.)*+(?:"(?:\s*:\s*\[)?|\\?\Z)', re.DOTALL)


class CutShort(Exception):
    """A chunk ends inside an event: the cut was wrong, or the file is cut off."""


class Ended(Exception):
    """The array ended inside a chunk, at `position` of the chunk's bytes."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Broken(Exception):
    """A chunk is not valid JSON at `position` of its bytes."""

    def __init__(self, message: str, position: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def end_of_document(error: Exception) -> int | None:
    """Return the end of a document if the decoder's error is that more follows it."""
    place = place_of(error)
    # The decoder has read the first of the trailing characters.
    return place - 1 if place is not None and "trailing characters" in str(error) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Events of a trace as one array: `view` is `[`, whole events, `]`. It is valid until the next chunk is read.

    `offset` is where the first event begins in the (unpacked) file.
    """

    view: memoryview
    offset: int


#: Decodes a chunk's array; raises `CutShort`, `Ended` or `Broken`.
Decode = Callable[[Chunk], Any]


class Chunks:
    """The events of a trace in chunks, and the document around them.

    Iterate over `decoded` first; then `document` is available.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = bytearray(CHUNK_BYTES + 2)
        #: The filled part of the buffer; its first byte is reserved for the bracket.
        self._filled = 1
        #: The position in the file of the second byte of the buffer.
        self._offset = 0
        self._at_end = False
        self._header = b""
        self._footer = b""
        self._is_array = False

    @property
    def path(self) -> str:
        """JSON path of the events in the document, as findings name it."""
        return "$" if self._is_array else "$.traceEvents"

    def decoded(self, decode: Decode) -> Iterator[Any]:
        """Yield the result of `decode` for each chunk in order.

        Raises `Unreadable` with the byte at which the file is not a trace, after yielding the events before it.
        """
        self._open_array()
        while not (yield from self._next(decode)):
            pass

    def _next(self, decode: Decode) -> Generator[Any, None, bool]:
        """Yield the result of `decode` for the next chunk; return whether it was the last one."""
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

    @property
    def document(self) -> dict[str, Any]:
        """The object around the events, without them; empty for a bare array. Available after `decoded` has ended."""
        if self._is_array:
            return {}
        text = self._header + b"]" + self._footer
        try:
            around = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            refuse_repeated_keys(text, around)
            return {key: msgspec.json.decode(value) for key, value in around.items() if key != "traceEvents"}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise malformed("it is not a JSON trace: the document around its events", text, error) from error

    # -- the array -----------------------------------------------------------------------------------------------

    def _open_array(self) -> None:
        """Read to the beginning of the first event."""
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
            if end := _end_of_header(text):
                self._header = text[:end]
                self._keep_from(1 + end)
                return
            if self._at_end or len(text) >= MAX_AROUND_BYTES:
                self._refuse_document(text)
            self._enlarge(MAX_AROUND_BYTES)

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
        count = self._source.read_into(room)
        self._at_end = count < len(room)
        self._filled += count

    def _keep_from(self, position: int) -> None:
        """Remove everything before `position` from the buffer."""
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

    def _enlarge(self, most: int | None = None) -> None:
        if self._filled > (most or MAX_EVENT_BYTES):
            raise Unreadable(
                f"from byte {self._offset} on no event ends within {self._filled - 1} bytes: one of them is longer than is "
                "read, or a bracket is missing"
            )
        larger = bytearray(2 * len(self._buffer))
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def _cut(self, until: int | None = None) -> tuple[int, int] | None:
        """Return the last gap between two events: the end of one, and the beginning of the next."""
        end = self._filled if until is None else until
        for pattern, start in ((_USUAL_CUT, max(1, end - _TAIL_BYTES)), (_USUAL_CUT, 1), (_ANY_CUT, 1)):
            last = None
            for last in pattern.finditer(self._buffer, start, end):  # noqa: B007 - only the last one is used
                pass
            if last is not None:
                return last.start() + 1, last.end()
        return None

    def _decode_until(self, end: int, decode: Decode) -> Any:
        """Decode the events up to `end` of the buffer, with a closing bracket written there for now."""
        before, self._buffer[end] = self._buffer[end], ord("]")
        self._buffer[0] = ord("[")
        view = memoryview(self._buffer)[: end + 1]
        try:
            return decode(Chunk(view=view, offset=self._offset))
        finally:
            self._buffer[end] = before

    def _last(self, decode: Decode) -> Iterator[Any]:
        """Decode the rest of the file: the last events, the end of the array and the text after it."""
        self._buffer[0] = ord("[")
        rest = bytes(memoryview(self._buffer)[1 : self._filled])
        # No bracket is added: only the file's own may end the array.
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
        """Decode the complete events before an error in the file."""
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
        """Decode the last events and read the text after the array, which ends before `position` of the buffer."""
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
                self._enlarge(MAX_AROUND_BYTES)
            self._fill()
        self._refuse_more()
        self._footer = bytes(memoryview(self._buffer)[1 : self._filled])

    def _refuse_more(self) -> None:
        """Raise `Unreadable` if the document has ended and something follows."""
        after = bytes(memoryview(self._buffer)[1 : self._filled])
        end = 0
        if not self._is_array:
            before = self._header + b"]"
            try:
                msgspec.json.decode(before + after, type=msgspec.Raw)
                return
            except (msgspec.DecodeError, RecursionError) as error:
                if (found := end_of_document(error)) is None:
                    # It is incomplete or invalid; `document` reports it once all of it is read.
                    return
                end = found - len(before)
        if rest := after[end:].lstrip():
            at = self._offset + len(after) - len(rest)
            what = "a second document begins" if rest[:1] in b"[{" else "more follows"
            ended = "array" if self._is_array else "document"
            raise Unreadable(f"it is not a JSON trace: its {ended} has ended, and {what} at byte {at}")

    # -- messages ------------------------------------------------------------------------------------------------

    def _malformed(self, message: str, position: int | None) -> Unreadable:
        if position is None:
            return Unreadable(f"it is not a JSON trace: {message}, after byte {self._offset}")
        text = bytes(memoryview(self._buffer)[max(1, position - 40) : min(self._filled, position + 40)])
        near = text.decode("utf-8", "replace")
        wrong = f"it is not a JSON trace: {message} at byte {self._offset + position - 1}, near {near!r}"
        around = bytes(memoryview(self._buffer)[max(1, position - 500) : min(self._filled, position + 500)])
        if any(b'"' in name for name in _NAME_AND_PROCESS.findall(around)):
            wrong += f": {_UNESCAPED}"
        return Unreadable(wrong)

    def _cut_off(self, rest: bytes) -> Unreadable:
        end = rest[-40:].decode("utf-8", "replace")
        return Unreadable(
            f"it is not a JSON trace: the file is cut off, it ends in the middle of an event at byte "
            f"{self._offset + len(rest)}, after {end!r}"
        )


def _end_of_header(text: bytes) -> int | None:
    """Return where the events of the outermost object begin, None if they do not."""
    depth = 0
    for match in _TOKEN.finditer(text) if _EVENTS.search(text) else ():
        token = match[0]
        if depth == 1 and _EVENTS.fullmatch(token):
            try:
                msgspec.json.decode(text[: match.end()] + b"]}", type=dict[str, msgspec.Raw])
            except (msgspec.DecodeError, RecursionError):
                return None
            return match.end()
        depth += token[-1:] in b"[{"
        depth -= token in b"]}"
    return None
