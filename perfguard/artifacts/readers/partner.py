"""Partners: two processes that decode chunks of one trace, and what they tell each other.

What goes over: the text of a chunk, and which columns are asked of it, which is what was asked of the chunks before. What comes
back: these columns, as arrays of numbers. Both lie in memory that the two processes share. The events are shown in the order
of the trace, as if one process had decoded them; a chunk that is not quite in order is left to the process that asked.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import struct
from typing import IO, Any

import numpy as np

from perfguard.artifacts.readers.chunks import Broken, Chunk, CutShort, Ended, Waiting
from perfguard.artifacts.readers.decoder import EventDecoder
from perfguard.artifacts.readers.event_schema import compiled
from perfguard.artifacts.readers.events import ColumnName, Events
from perfguard.artifacts.readers.handover import COLUMN_BYTES, ROOM, SLOT_BYTES, TEXT_BYTES, send
from perfguard.artifacts.table import Unreadable

#: How many of the chunks that are set aside are with the other process: one at work, one that waits.
_AT_ONCE = 2
#: A trace of which so many chunks are not in order is left alone.
_REFUSALS = 3
#: What the other process says of a chunk: the slot it lies in, and how long its columns are.
_REPLY = struct.Struct("<qq")
_READY, _REFUSED = -1, -1
#: A chunk takes it twenty milliseconds, and to start a second.
_PATIENCE_MS = 60_000


class Partner:
    """The other process, as the one that started it sees it: `jobs` is what it reads, `replies` what it writes to."""

    room = ROOM

    def __init__(self, decoder: EventDecoder, memory: mmap.mmap, jobs: IO[bytes], replies: int) -> None:
        #: How many chunks were decoded over there.
        self.decoded = 0
        self._decoder = decoder
        self._memory = memory
        self._jobs = jobs
        self._replies = replies
        # Unlike select it takes any number of open files.
        self._poll = select.poll()
        self._poll.register(replies, select.POLLIN)
        self._is_there = True
        self._free = list(range(ROOM))
        self._is_ready = False
        self._refusals = 0
        #: By slot: how long the columns are that have come back, `_REFUSED` where there are none.
        self._back: dict[int, int] = {}
        self._there: set[int] = set()
        #: Columns that the other process knows are asked for.
        self._told: frozenset[ColumnName] = frozenset()
        #: By column of words: the number here of each of its numbers.
        self._numbers: dict[str, Any] = {}
        schema = decoder.schema
        self._tell((schema.row, schema.root, {ph: sorted(keys) for ph, keys in schema.extra.items()}))

    def takes(self, length: int) -> bool:
        """Whether a text of so many bytes can be set aside for it."""
        self._listen()
        return self._is_ready and self._refusals < _REFUSALS and length <= TEXT_BYTES and bool(self._free)

    def wait(self) -> None:
        """Wait until the other process is ready to work, or is lost."""
        while self._is_there and not self._is_ready:
            self._listen(wait=True)

    def set_aside(self, text: memoryview) -> tuple[int, memoryview]:
        """Take the text of a chunk, and hand it over where the other process has time; returns its slot, and the copy."""
        slot = self._free.pop()
        copy = memoryview(self._memory)[slot * SLOT_BYTES : slot * SLOT_BYTES + len(text)]
        copy[:] = text
        if len(self._there) < _AT_ONCE:
            asked = frozenset(self._decoder.vocabulary.requested)
            self._tell((slot, len(text), asked - self._told))
            self._told = asked
            self._there.add(slot)
        return slot, copy

    def events(self, one: Waiting) -> Events | None:
        """Return the events of a chunk that was handed over, once they have come back; None where they do not."""
        slot = one.slot
        while slot in self._there:
            self._listen(wait=True)
        length = self._back.pop(slot, _REFUSED)
        if length == _REFUSED:
            return None
        start = slot * SLOT_BYTES + TEXT_BYTES
        kinds, columns, words = pickle.loads(memoryview(self._memory)[start : start + length])
        vocabulary = self._decoder.vocabulary
        for column, new in words.items():
            here = vocabulary.words(column).numbers(new, len(new))
            self._numbers[column] = np.concatenate([self._numbers.get(column, here[:0]), here])
        made = {
            asked: self._numbers[str(asked.key)][values] if asked.kind == "number" else values
            for asked, values in columns.items()
        }
        rows = np.arange(self._decoder.rows, self._decoder.rows + len(kinds))
        self._decoder.rows += len(kinds)
        self.decoded += 1
        text, schema = one.text, self._decoder.schema
        return Events(schema, vocabulary, rows, kinds, lambda: schema.events.decode(text), made)

    def free(self, one: Waiting) -> None:
        """Take back the memory of a chunk that has been seen."""
        self._free.append(one.slot)

    def _tell(self, message: Any) -> None:
        try:
            send(message, self._jobs)
        except BrokenPipeError:
            self._lose()

    def _listen(self, *, wait: bool = False) -> None:
        """Take in what the other process has said; `wait` until it has said something, or too long."""
        while self._is_there:
            if not self._poll.poll(_PATIENCE_MS if wait else 0):
                if wait:
                    self._lose()
                return
            wait = False
            # So few bytes are never parted on a pipe.
            said = os.read(self._replies, _REPLY.size)
            if len(said) < _REPLY.size:
                self._lose()
                return
            slot, length = _REPLY.unpack(said)
            if slot == _READY:
                self._is_ready = True
                continue
            self._there.remove(slot)
            self._back[slot] = length
            self._refusals += length == _REFUSED

    def _lose(self) -> None:
        # It was killed, stands still, or says on stderr what happened to it: all that it had is done here.
        self._is_there = self._is_ready = False
        self._there.clear()


# -- the other process -----------------------------------------------------------------------------------------------


def decode_for_another(memory: mmap.mmap, jobs: IO[bytes], replies: int) -> None:
    """Decode what the process at the other end asks for, until it asks no more."""
    row, root, extra = pickle.load(jobs)
    decoder = EventDecoder(compiled(row, root, extra))
    sent: dict[str, int] = {}
    asked: set[ColumnName] = set()
    os.write(replies, _REPLY.pack(_READY, 0))
    while True:
        try:
            slot, length, also = pickle.load(jobs)
        except EOFError:
            return
        asked |= also
        start = slot * SLOT_BYTES
        found = _columns(decoder, memoryview(memory)[start : start + length], asked, sent)
        if found is not None:
            memory[start + TEXT_BYTES : start + TEXT_BYTES + len(found)] = found
        os.write(replies, _REPLY.pack(slot, len(found) if found is not None else _REFUSED))


def _columns(decoder: EventDecoder, text: memoryview, asked: set[ColumnName], sent: dict[str, int]) -> bytes | None:
    """Return the columns of a chunk and the words that are new in them; None for one that is not in order, or too much."""
    try:
        events = decoder(Chunk(view=text, offset=0))
    except (CutShort, Ended, Broken, Unreadable):
        return None
    if not decoder.was_proven:
        return None
    # Those of all events first: others are taken from them.
    columns = {one: _made(events.selected(one.path), one) for one in sorted(asked, key=ColumnName.sort_key)}
    used = {str(one.key) for one in asked if one.kind == "number"}
    words = {column: decoder.vocabulary.words(column).since(sent.get(column, 0)) for column in used}
    found = pickle.dumps((events.kinds, columns, words), protocol=5)
    events.forget()
    if len(found) > COLUMN_BYTES:
        return None
    # What is new next time is what is new since then.
    sent.update({column: len(decoder.vocabulary.words(column)) for column in used})
    return found


def _made(events: Events, asked: ColumnName) -> Any:
    if asked.kind == "derived":
        assert isinstance(asked.key, tuple)
        make, keys = asked.key
        return events.derived(make, *keys)
    assert isinstance(asked.key, str)
    if asked.kind == "time":
        times = events.times(asked.key)
        return times.ns, times.is_known
    return events.numbers(asked.key)
