"""Rows of a trace: what the events of its chunks are in the tables `spans`, `instants` and `flows`, and what is around them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from perfguard.artifacts.tables import NULL, TABLES, Batch

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events, Words

#: Numbers from here on are no ids, sizes or addresses: they are all taken for this one.
BEYOND = 10**18
#: By column: the argument it holds. Whole numbers, and texts as JSON.
NUMBERS = {
    "event_index": "Ev Idx",
    "external_id": "External id",
    "bytes": "Bytes",
    "total_bytes": "Total Allocated",
    "reserved_bytes": "Total Reserved",
    "device_type": "Device Type",
    "device_number": "Device Id",
}
DIGITS = {"address": "Addr", "correlation": "correlation"}
TEXTS = {"input_shapes": "Input Dims", "input_types": "Input type"}
#: Arguments that no schema names, by kind of event.
WANTED = {"i": ("Addr",), "X": ("correlation",)}
_LAST_NS = 2**63 - 1
#: No span ends later, whatever a damaged duration says: queries add to its end, and refuse what is beyond 64 bits.
_LAST_END_NS = 92 * 10**17
_NO_WORDS = np.empty(0, np.int64)
_NAMED = re.compile(r"\.([0-9]{19})\.pt\.trace\.json(\.gz)?$")


class TraceRows:
    """Puts the events of one trace into the tables of a batch, chunk by chunk."""

    def __init__(self, batch: Batch, cycle: int) -> None:
        self._batch = batch
        self._cycle = cycle
        self._numbers: dict[str, Any] = {}

    def see(self, events: Events) -> None:
        """Add the events of the next chunk."""
        if len(spans := events.of("X")):
            starts, lasts = _ns(spans, "ts"), _ns(spans, "dur")
            self._add("spans", spans, start_ns=starts, duration_ns=np.minimum(lasts, _LAST_END_NS - starts.clip(0)))
        if len(instants := events.of("i")):
            self._add("instants", instants, time_ns=_ns(instants, "ts"))
        if len(flows := events.of("s", "t", "f")):
            self._add("flows", flows, time_ns=_ns(flows, "ts"), is_start=flows.is_of("s"), **self._ids(flows))

    def _add(self, table: str, events: Events, **columns: Any) -> None:
        words = events.vocabulary
        columns |= {
            "row": events.rows,
            "name": self._global("name", words.names, events.names, self._batch.word),
            "category": self._global("category", words.categories, events.categories, self._word),
            "thread": self._global("thread", words.threads, events.threads, self._thread),
        }
        for name in TABLES[table]:
            if name in NUMBERS:
                columns[name] = events.derived(integers, NUMBERS[name])
            elif name in DIGITS:
                columns[name] = events.derived(digits, DIGITS[name])
            elif name in TEXTS:
                numbers = events.texts(TEXTS[name])
                columns[name] = self._global(name, words.texts[TEXTS[name]], numbers, self._json)
        self._batch.add(table, self._cycle, **columns)

    def _ids(self, flows: Events) -> dict[str, Any]:
        """Return the ids of flows: whole numbers, and texts for all that are none, or too large."""
        numbers = flows.derived(flow_ids)
        texts = np.full(len(numbers), NULL, np.int64)
        if (others := np.flatnonzero(numbers == NULL)).size:
            told = flows.column("id")
            texts[others] = [self._batch.word(as_json(told[place])) for place in others.tolist()]
        return {"id": numbers, "id_text": texts}

    def _global(self, column: str, words: Words, numbers: Any, number_of: Callable[[Any], int]) -> Any:
        """Return numbers of this trace's words as those of the batch, as int64 with `NULL` for none."""
        known = self._numbers.get(column, _NO_WORDS)
        if (more := len(words) - len(known)) > 0:
            new = np.fromiter(map(number_of, words.since(len(known))), np.int64, count=more)
            known = self._numbers[column] = np.concatenate([known, new])
        return known[numbers]

    def _word(self, text: Any) -> int:
        return NULL if text is UNSET else self._batch.word(text)

    def _json(self, text: Any) -> int:
        return NULL if text is UNSET else self._batch.word(text.decode())

    def _thread(self, key: tuple[Any, Any]) -> int:
        return self._batch.thread((as_json(key[0]), as_json(key[1])))

    def undo(self) -> None:
        """Let go of the rows: the trace is not what its schema says."""
        self._batch.without(self._cycle)

    def end(self, document: Mapping[str, Any], file_name: str) -> None:
        """Add what is around the events, once all of them were seen."""
        base, named = document.get("baseTimeNanoseconds"), _NAMED.search(file_name)
        self._batch.add(
            "traces",
            self._cycle,
            base_ns=_one(base if isinstance(base, int) and base <= _LAST_NS else None),
            named_ns=_one(int(named[1]) if named and int(named[1]) <= _LAST_NS else None),
            profile_memory=_one(document.get("profile_memory")),
            record_shapes=_one(document.get("record_shapes")),
        )


def _one(value: Any) -> Any:
    return np.array([value if isinstance(value, int) else NULL], np.int64)


def _ns(events: Events, key: str) -> Any:
    times = events.times(key)
    return times.ns if times.is_known.all() else np.where(times.is_known, times.ns, NULL)


def as_json(value: Any) -> str:
    """Return a process, a thread or an id as JSON; null where there is none."""
    return "null" if value is UNSET else json.dumps(value)


# What follows is called by another process as well, which decodes half of a large trace.


def integers(events: Events, key: str) -> Any:
    """Return an argument of each event as int64: `NULL` where there is none, and ±`BEYOND` for all that are further out."""
    values = events.arguments(key)
    try:
        if UNSET not in values:
            found = np.fromiter(values, np.int64, count=len(values))
        else:
            found = np.fromiter((NULL if one is UNSET else one for one in values), np.int64, count=len(values))
    except OverflowError:
        near = (NULL if one is UNSET else max(-BEYOND, min(one, BEYOND)) for one in values)
        found = np.fromiter(near, np.int64, count=len(values))
    is_far = np.abs(found) > BEYOND
    if is_far.any():
        is_far &= found != NULL
        found[is_far] = np.sign(found[is_far]) * BEYOND
    return found


def digits(events: Events, key: str) -> Any:
    """Return an argument that no schema names, as far as it is a whole number of up to 18 digits; else `NULL`."""
    from perfguard.artifacts.readers.events import as_bytes

    values = events.arguments(key)
    known = (one if one is not UNSET and one.isdigit() and len(one) <= 18 else _NONE for one in as_bytes(values))
    return np.fromiter(map(int, known), np.int64, count=len(values))


_NONE = str(NULL).encode()


def flow_ids(flows: Events) -> Any:
    """Return the id of each end of a flow; `NULL` where it is no whole number, or a large one."""
    told = flows.column("id")
    plain = (one if isinstance(one, int) and abs(one) < BEYOND else NULL for one in told)
    return np.fromiter(plain, np.int64, count=len(told))
