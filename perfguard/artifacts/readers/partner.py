"""Partner: a second process that decodes some chunks of a trace, and the protocol between the two.

A request is the text of a chunk, and the columns to compute: those that earlier chunks needed. The reply is these columns, as
arrays of numbers. Text and columns are in shared memory. The events come out in the order of the trace, as if one process had
decoded them. The second process refuses a chunk unless all events are proven valid; then the first one decodes it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import struct
from typing import IO, Any

import numpy as np

from perfguard.artifacts.readers.chunks import Broken, Chunk, CutShort, Ended, Submitted
from perfguard.artifacts.readers.decoder import EventDecoder
from perfguard.artifacts.readers.event_schema import compiled
from perfguard.artifacts.readers.events import ColumnName, Events
from perfguard.artifacts.readers.shared_memory import COLUMN_BYTES, SLOT_BYTES, SLOTS, TEXT_BYTES, send
from perfguard.artifacts.table import Unreadable

#: The number of chunks that the other process has at a time: one in work, and one in its queue.
_AT_ONCE = 2
#: After so many refused chunks, the first process decodes the rest of the trace alone.
_REFUSALS = 3
#: The reply of the other process: the slot of a chunk, and the length of its columns.
_REPLY = struct.Struct("<qq")
_READY, _REFUSED = -1, -1
#: A chunk takes twenty milliseconds, and the start of the process one second.
_TIMEOUT_MS = 60_000


class Partner:
    """The second process, seen from the first: `jobs` is the pipe that it reads, `replies` the pipe that it writes to."""

    slots = SLOTS

    def __init__(self, decoder: EventDecoder, memory: mmap.mmap, jobs: IO[bytes], replies: int) -> None:
        #: The number of chunks that it has decoded.
        self.decoded = 0
        self._decoder = decoder
        self._memory = memory
        self._jobs = jobs
        self._replies = replies
        # Unlike select, poll works with any number of open files.
        self._poll = select.poll()
        self._poll.register(replies, select.POLLIN)
        self._is_alive = True
        self._free = list(range(SLOTS))
        self._is_ready = False
        self._refusals = 0
        #: By slot: the length of the columns that were received, `_REFUSED` for a refused chunk.
        self._lengths: dict[int, int] = {}
        self._in_work: set[int] = set()
        #: Columns that the other process computes.
        self._requested: frozenset[ColumnName] = frozenset()
        #: By column of words: the number of each word in this process, by its number in the other.
        self._numbers: dict[str, Any] = {}
        schema = decoder.schema
        self._send((schema.row, schema.root, {ph: sorted(keys) for ph, keys in schema.extra.items()}))

    def accepts(self, length: int) -> bool:
        """Whether there is a slot for a text of `length` bytes."""
        self._receive()
        return self._is_ready and self._refusals < _REFUSALS and length <= TEXT_BYTES and bool(self._free)

    def wait(self) -> None:
        """Wait until the other process is ready or lost."""
        while self._is_alive and not self._is_ready:
            self._receive(wait=True)

    def submit(self, text: memoryview) -> tuple[int, memoryview]:
        """Copy the text of a chunk to a slot, and request it unless the other process is busy; return the slot and the copy."""
        slot = self._free.pop()
        copy = memoryview(self._memory)[slot * SLOT_BYTES : slot * SLOT_BYTES + len(text)]
        copy[:] = text
        if len(self._in_work) < _AT_ONCE:
            requested = frozenset(self._decoder.vocabulary.requested)
            self._send((slot, len(text), requested - self._requested))
            self._requested = requested
            self._in_work.add(slot)
        return slot, copy

    def events(self, one: Submitted) -> Events | None:
        """Wait for the events of a submitted chunk and return them; None if the other process did not decode it."""
        slot = one.slot
        while slot in self._in_work:
            self._receive(wait=True)
        length = self._lengths.pop(slot, _REFUSED)
        if length == _REFUSED:
            return None
        start = slot * SLOT_BYTES + TEXT_BYTES
        kinds, columns, words = pickle.loads(memoryview(self._memory)[start : start + length])
        vocabulary = self._decoder.vocabulary
        for column, new in words.items():
            here = vocabulary.words(column).numbers(new, len(new))
            self._numbers[column] = np.concatenate([self._numbers.get(column, here[:0]), here])
        received = {
            name: self._numbers[str(name.key)][values] if name.kind == "number" else values
            for name, values in columns.items()
        }
        rows = np.arange(self._decoder.rows, self._decoder.rows + len(kinds))
        self._decoder.rows += len(kinds)
        self.decoded += 1
        text, schema = one.text, self._decoder.schema
        return Events(schema, vocabulary, rows, kinds, lambda: schema.events.decode(text), received)

    def free(self, one: Submitted) -> None:
        """Reuse the slot of a chunk."""
        self._free.append(one.slot)

    def _send(self, message: Any) -> None:
        try:
            send(message, self._jobs)
        except BrokenPipeError:
            self._lose()

    def _receive(self, *, wait: bool = False) -> None:
        """Read all replies so far; `wait` for the first one, up to the timeout."""
        while self._is_alive:
            if not self._poll.poll(_TIMEOUT_MS if wait else 0):
                if wait:
                    self._lose()
                return
            wait = False
            # A pipe never splits so few bytes.
            reply = os.read(self._replies, _REPLY.size)
            if len(reply) < _REPLY.size:
                self._lose()
                return
            slot, length = _REPLY.unpack(reply)
            if slot == _READY:
                self._is_ready = True
                continue
            self._in_work.remove(slot)
            self._lengths[slot] = length
            self._refusals += length == _REFUSED

    def _lose(self) -> None:
        # It was killed, hangs, or has written an error to stderr: this process decodes its chunks.
        self._is_alive = self._is_ready = False
        self._in_work.clear()


# -- the second process ----------------------------------------------------------------------------------------------


def serve(memory: mmap.mmap, jobs: IO[bytes], replies: int) -> None:
    """Decode the chunks that the first process requests, until it closes the pipe."""
    row, root, extra = pickle.load(jobs)
    decoder = EventDecoder(compiled(row, root, extra))
    sent: dict[str, int] = {}
    requested: set[ColumnName] = set()
    os.write(replies, _REPLY.pack(_READY, 0))
    while True:
        try:
            slot, length, more = pickle.load(jobs)
        except EOFError:
            return
        requested |= more
        start = slot * SLOT_BYTES
        found = _columns(decoder, memoryview(memory)[start : start + length], requested, sent)
        if found is not None:
            memory[start + TEXT_BYTES : start + TEXT_BYTES + len(found)] = found
        os.write(replies, _REPLY.pack(slot, len(found) if found is not None else _REFUSED))


def _columns(decoder: EventDecoder, text: memoryview, names: set[ColumnName], sent: dict[str, int]) -> bytes | None:
    """Return the columns of a chunk and their new words, pickled; None if an event is not proven valid, or no room."""
    try:
        events = decoder(Chunk(view=text, offset=0))
    except (CutShort, Ended, Broken, Unreadable):
        return None
    if not decoder.was_proven:
        return None
    # Columns of all events first: those of subsets are taken from them.
    columns = {one: _computed(events.selected(one.path), one) for one in sorted(names, key=ColumnName.sort_key)}
    used = {str(one.key) for one in names if one.kind == "number"}
    words = {column: decoder.vocabulary.words(column).since(sent.get(column, 0)) for column in used}
    found = pickle.dumps((events.kinds, columns, words), protocol=5)
    events.forget()
    if len(found) > COLUMN_BYTES:
        return None
    # The next reply has only the words after these.
    sent.update({column: len(decoder.vocabulary.words(column)) for column in used})
    return found


def _computed(events: Events, name: ColumnName) -> Any:
    if name.kind == "derived":
        assert isinstance(name.key, tuple)
        compute, keys = name.key
        return events.derived(compute, *keys)
    assert isinstance(name.key, str)
    if name.kind == "time":
        times = events.times(name.key)
        return times.ns, times.is_known
    return events.numbers(name.key)
