"""Events: the decoded events of one chunk of a trace, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress, islice, repeat
from operator import attrgetter, is_not
from typing import Any

import numpy as np
from msgspec import UNSET, Raw

from perfguard.artifacts.readers.event_schema import EventSchema, attribute
from perfguard.artifacts.readers.times import Flags, Ints, Times, spread, times_of

Kinds = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int32]]


class Words(dict[Any, int]):
    """Numbers texts (or other keys) from 0, in the order of their first occurrence."""

    def __init__(self) -> None:
        super().__init__()
        self._listed: list[Any] = []
        #: How long the texts are together.
        self.characters = 0

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        if isinstance(key, str | bytes):
            self.characters += len(key)
        return number

    def numbers(self, keys: Iterable[Any], count: int) -> Numbers:
        """Return the number of each of `count` keys, new ones included."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, count=count)

    def since(self, count: int) -> list[Any]:
        """Return the keys after the first `count`, in order."""
        return list(islice(reversed(self), len(self) - count))[::-1]

    @property
    def listed(self) -> list[Any]:
        """All keys in the order of their numbers."""
        # Two threads may read the list, so it is replaced and never changed.
        if len(self._listed) < len(self):
            self._listed = self._listed + self.since(len(self._listed))
        return self._listed

    def of(self, numbers: Iterable[int]) -> list[Any]:
        """Return the keys with these numbers."""
        return list(map(self.listed.__getitem__, numbers))


class Vocabulary:
    """The repeated texts of a trace with their numbers: names, categories, and threads as (pid, tid)."""

    def __init__(self) -> None:
        self.names = Words()
        self.categories = Words()
        self.threads = Words()
        #: By key of the arguments: raw JSON of repeated values, such as shapes.
        self.texts: dict[str, Words] = {}

    @property
    def characters(self) -> int:
        """How long all texts are together."""
        return sum(one.characters for one in (self.names, self.categories, *self.texts.values()))

    def words(self, column: str) -> Words:
        """Return the words whose numbers a column has."""
        known = {"name": self.names, "cat": self.categories, "thread": self.threads}
        return known[column] if column in known else self.texts.setdefault(column.removeprefix(_ARGUMENT), Words())


#: Computes a column of events.
Compute = Callable[..., Any]
#: Prefix of the name of a column of arguments.
_ARGUMENT = "args."


class Events:
    """Events of a chunk as columns: `rows` are their numbers in the trace, `kinds` the numbers of their kinds in the schema.

    A subset of a chunk takes its columns from the whole chunk: nothing is read twice.
    """

    def __init__(
        self,
        schema: EventSchema,
        vocabulary: Vocabulary,
        rows: Ints,
        kinds: Kinds,
        events: list[Any] | Callable[[], list[Any]],
    ) -> None:
        self.schema = schema
        self.vocabulary = vocabulary
        self.rows = rows
        self.kinds = kinds
        self._events = events
        self._columns: dict[str, list[Any]] = {}
        self._arguments: dict[str, list[Any]] = {}
        self._times: dict[str, Times] = {}
        self._numbers: dict[str, Numbers] = {}
        self._derived: dict[Any, Any] = {}
        self._parts: dict[tuple[str, tuple[str, ...]], Events] = {}
        #: All events of the chunk, and the positions of these among them; None for all events.
        self._chunk: tuple[Events, Ints] | None = None
        #: The nearest superset that was selected by a name, where these were not.
        self._parent: Events | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def events(self) -> list[Any]:
        """The decoded events."""
        if not isinstance(self._events, list):
            self._events = self._events()
        return self._events

    @property
    def places(self) -> Ints:
        """The positions of these among the events of their chunk."""
        return self._chunk[1] if self._chunk is not None else np.arange(len(self))

    # -- values of the events, as objects ------------------------------------------------------------------------

    def column(self, key: str) -> list[Any]:
        """Return the value of a key in each event; `UNSET` for none."""
        if key not in self._columns:
            if self._chunk is not None and key in self._chunk[0]._columns:
                whole, places = self._chunk
                self._columns[key] = _picked(whole._columns[key], places)
            elif all(key not in kind.keys for kind in self.schema.kinds):
                # The schema has no such key: categories, in a trace of JAX.
                self._columns[key] = [UNSET] * len(self)
            else:
                self._columns[key] = list(map(attrgetter(attribute(key)), self.events))
        return self._columns[key]

    def arguments(self, key: str) -> list[Any]:
        """Return the value of a key in the arguments of each event; `UNSET` for none, or no arguments."""
        if key not in self._arguments:
            name = attribute(key)
            inside = self.column("args")
            try:
                self._arguments[key] = list(map(attrgetter(name), inside))
            except AttributeError:
                # The arguments of some kinds are raw JSON.
                decoded = (self.schema.arguments_of(one) if type(one) is Raw else one for one in inside)
                self._arguments[key] = [getattr(one, name, UNSET) for one in decoded]
        return self._arguments[key]

    # -- columns of numbers --------------------------------------------------------------------------------------

    def derived(self, compute: Compute, *keys: str) -> Any:
        """Return `compute(events, *keys)` of these events: an array or a list, with one value for each event."""
        name = (compute, keys)
        if name not in self._derived:
            if self._parent is not None:
                found, at = self._parent.derived(compute, *keys), _places_within(self, self._parent)
                self._derived[name] = found[at] if isinstance(found, np.ndarray) else _picked(found, at)
            else:
                self._derived[name] = compute(self, *keys)
        return self._derived[name]

    def texts(self, key: str) -> Numbers:
        """Return the number of the raw JSON of an argument in each event; `UNSET` has a number, too."""
        name = _ARGUMENT + key
        if name in self._numbers:
            return self._numbers[name]
        if self._chunk is not None and name in self._chunk[0]._numbers:
            found = self._chunk[0]._numbers[name][self._chunk[1]]
        elif self._parent is not None:
            found = self._parent.texts(key)[_places_within(self, self._parent)]
        else:
            argued, words = self.with_arguments, self.vocabulary.texts.setdefault(key, Words())
            there, texts = known_texts(argued.arguments(key))
            found = np.full(len(self), words[UNSET], np.int32)
            found[there if len(argued) == len(self) else _places_within(argued, self)[there]] = words.numbers(
                texts, len(texts)
            )
        self._numbers[name] = found
        return found

    def times(self, key: str) -> Times:
        """Return `ts` or `dur` of each event; unknown for an event without it."""
        if key not in self._times:
            if self._chunk is not None:
                whole, places = self._chunk
                self._times[key] = whole.times(key).at(places)
            else:
                self._times[key] = self._read_times(key)
        return self._times[key]

    def _read_times(self, key: str) -> Times:
        texts = self.column(key)
        known = [text for text in texts if text is not UNSET]
        if len(known) == len(texts):
            return times_of(texts)
        # If as many events have the key as must have it, these are the ones that must.
        there = np.array([key in kind.required for kind in self.schema.kinds], np.bool_)[self.kinds]
        if np.count_nonzero(there) != len(known):
            there = are_known(texts)
        return spread(times_of(known), there)

    def numbers(self, column: str) -> Numbers:
        """Return the number of each event's word in a column of the vocabulary."""
        if column.startswith(_ARGUMENT):
            return self.texts(column.removeprefix(_ARGUMENT))
        if column not in self._numbers:
            whole, places = self._chunk or (self, None)
            if places is not None and (column in whole._numbers or 2 * len(self) > len(whole)):
                self._numbers[column] = whole.numbers(column)[places]
            else:
                # Numbering a small subset is quicker than numbering all events.
                self._numbers[column] = self._numbered(column)
        return self._numbers[column]

    def _numbered(self, column: str) -> Numbers:
        # The pairs are made one by one, which is quicker than a list of them.
        keys = zip(self.column("pid"), self.column("tid"), strict=True) if column == "thread" else self.column(column)
        return self.vocabulary.words(column).numbers(keys, len(self))

    @property
    def names(self) -> Numbers:
        """The number of each event's name in the vocabulary."""
        return self.numbers("name")

    @property
    def categories(self) -> Numbers:
        """The number of each event's category; `UNSET` has a number, too."""
        return self.numbers("cat")

    @property
    def threads(self) -> Numbers:
        """The number of each event's thread."""
        return self.numbers("thread")

    def is_named(self, *names: str) -> Flags:
        """Return which events have one of these names."""
        return _are(self.names, self.vocabulary.names, names)

    def is_of_category(self, *categories: str) -> Flags:
        """Return which events have one of these categories (`cat`)."""
        return _are(self.categories, self.vocabulary.categories, categories)

    def has_text(self, key: str, *texts: bytes) -> Flags:
        """Return which events have one of these texts, raw JSON, as an argument."""
        return _are(self.texts(key), self.vocabulary.texts[key], texts)

    def is_of(self, *phases: str) -> Flags:
        """Return which events are of one of these kinds (`ph`)."""
        return np.array([kind.ph in phases for kind in self.schema.kinds], np.bool_)[self.kinds]

    # -- subsets -------------------------------------------------------------------------------------------------

    @property
    def with_arguments(self) -> Events:
        """The events that have arguments."""
        return self._part("with_arguments", ())

    def of(self, *phases: str) -> Events:
        """Return the events of some kinds."""
        return self._part("of", phases)

    def named(self, *names: str) -> Events:
        """Return the events with one of these names."""
        return self._part("named", names)

    def of_category(self, *categories: str) -> Events:
        """Return the events of some categories (`cat`)."""
        return self._part("of_category", categories)

    def _part(self, selection: str, by: tuple[str, ...]) -> Events:
        step = (selection, by)
        if step not in self._parts:
            part = self.at(np.flatnonzero(_SELECTIONS[selection](self, *by)))
            if self._parent is None:
                part._parent = None
            self._parts[step] = part
        return self._parts[step]

    def at(self, places: Ints) -> Events:
        """Return the events at some positions, which ascend."""
        if len(places) == len(self):
            return self
        whole, at = (self, places) if self._chunk is None else (self._chunk[0], self._chunk[1][places])
        found = Events(
            self.schema,
            self.vocabulary,
            self.rows[places],
            self.kinds[places],
            lambda: _picked(whole.events, at),
        )
        found._chunk, found._parent = (whole, at), self if self._parent is None else self._parent
        return found

    def forget(self) -> None:
        """Release the subsets: they refer to each other, and would wait for the garbage collector."""
        for part in self._parts.values():
            if part is not self:
                part.forget()
        self._parts.clear()
        self._columns.clear()
        self._arguments.clear()


def _has_arguments(events: Events) -> Flags:
    return are_known(events.column("args"))


#: Named ways to select a subset, by name: return flags of the events in it.
_SELECTIONS: dict[str, Callable[..., Flags]] = {
    "with_arguments": lambda events: events.derived(_has_arguments),
    "of": Events.is_of,
    "named": Events.is_named,
    "of_category": Events.is_of_category,
}


def _picked(values: list[Any], places: Ints) -> list[Any]:
    """Return the values at some positions, which ascend."""
    if 3 * len(places) < len(values):
        return list(map(values.__getitem__, places.tolist()))
    is_picked = np.zeros(len(values), np.bool_)
    is_picked[places] = True
    return list(compress(values, is_picked.tobytes()))


def _places_within(some: Events, others: Events) -> Ints:
    """Return the positions of a subset among the events that it was selected from."""
    return np.searchsorted(others.places, some.places)


#: Separator of joined raw values: it is in no JSON.
BETWEEN = b"\0"


def are_known(values: list[Any]) -> Flags:
    """Return which values are not `UNSET`."""
    return np.fromiter(map(is_not, values, repeat(UNSET)), np.bool_, count=len(values))


def known_texts(values: list[Any]) -> tuple[Flags, list[bytes]]:
    """Return which values are not `UNSET`, and these, raw JSON, as bytes.

    Joining and splitting is quicker than copying them one by one.
    """
    there = are_known(values)
    known = list(compress(values, there.tobytes()))
    texts = BETWEEN.join(known).split(BETWEEN) if known else []
    return there, texts if len(texts) == len(known) else list(map(bytes, known))


def _are(numbers: Numbers, words: Words, keys: Iterable[Any]) -> Flags:
    # `numbers` is computed before, so that `words` has all its words.
    known = [words[key] for key in keys if key in words]
    if len(known) == 1:
        found: Flags = numbers == known[0]
        return found
    table = np.zeros(len(words) + 1, np.bool_)
    table[known] = True
    return table[numbers]
