"""Events: what a chunk of a trace is decoded to, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import compress, islice
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import UNSET, Raw

from perfguard.artifacts.readers.event_schema import EventSchema, attribute
from perfguard.artifacts.readers.times import Flags, Ints, Times, known_times, spread, times_of

Kinds = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int32]]


class Words(dict[Any, int]):
    """Numbers texts (or other keys) through, in the order in which they are first seen."""

    def __init__(self) -> None:
        super().__init__()
        self._listed: list[Any] = []

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number

    def numbers(self, keys: Iterable[Any], count: int) -> Numbers:
        """Return the number of each of `count` keys, new ones included."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, count=count)

    def since(self, count: int) -> list[Any]:
        """Return the keys behind the first `count`, in order."""
        return list(islice(reversed(self), len(self) - count))[::-1]

    @property
    def listed(self) -> list[Any]:
        """All keys in the order of their numbers."""
        # Two threads may ask, so the list is never changed.
        if len(self._listed) < len(self):
            self._listed = self._listed + self.since(len(self._listed))
        return self._listed

    def of(self, numbers: Iterable[int]) -> list[Any]:
        """Return the keys with these numbers."""
        return list(map(self.listed.__getitem__, numbers))


class Vocabulary:
    """The texts that come again and again in a trace, numbered through: names, categories, and threads as (pid, tid).

    `asked` are the columns that were made of events so far: as a rule they are asked of the next chunk as well.
    """

    def __init__(self) -> None:
        self.names = Words()
        self.categories = Words()
        self.threads = Words()
        #: By key of the arguments: raw JSON of those values that come again, such as shapes.
        self.texts: dict[str, Words] = {}
        self.asked: set[ColumnName] = set()

    def words(self, column: str) -> Words:
        """Return the words that a column of numbers counts through."""
        known = {"name": self.names, "cat": self.categories, "thread": self.threads}
        return known[column] if column in known else self.texts.setdefault(column.removeprefix(_ARGUMENT), Words())


#: How some of the events were chosen, step by step: a way of choosing, and what by.
Path = tuple[tuple[str, tuple[str, ...]], ...]
#: What makes a column of events: a function of a module, since other processes call it by its name.
Make = Callable[..., Any]
#: What comes before the key of an argument in the name of a column.
_ARGUMENT = "args."


@dataclass(frozen=True, slots=True)
class ColumnName:
    """Names a column that was made of events: of which of them, by what, of which keys."""

    path: Path
    #: `number` (of words), `time`, or `derived`.
    kind: str
    key: str | tuple[Make, tuple[str, ...]]

    def place(self) -> tuple[Any, ...]:
        """Return where this comes among others: first what is asked of more events, and always in one order."""
        if isinstance(self.key, str):
            return len(self.path), self.path, self.kind, self.key
        make, keys = self.key
        return len(self.path), self.path, self.kind, f"{make.__module__}.{make.__qualname__}", keys


class Events:
    """Events of a chunk as columns: `rows` are their numbers in the trace, `kinds` the numbers of their kinds in the schema.

    Some of them are chosen from all of a chunk, and take their columns from these: nothing is read twice. Columns of numbers
    may have been made by another process (`made`); the events themselves are decoded here then, when something else is asked.
    """

    def __init__(
        self,
        schema: EventSchema,
        vocabulary: Vocabulary,
        rows: Ints,
        kinds: Kinds,
        events: list[Any] | Callable[[], list[Any]],
        made: Mapping[ColumnName, Any] | None = None,
    ) -> None:
        self.schema = schema
        self.vocabulary = vocabulary
        self.rows = rows
        self.kinds = kinds
        self._events = events
        self._made = made
        self._columns: dict[str, list[Any]] = {}
        self._arguments: dict[str, list[Any]] = {}
        self._times: dict[str, Times] = {}
        self._numbers: dict[str, Numbers] = {}
        self._derived: dict[Any, Any] = {}
        self._parts: dict[tuple[str, tuple[str, ...]], Events] = {}
        #: All events of the chunk, and where these stand among them; of all of them it is None.
        self._chosen: tuple[Events, Ints] | None = None
        #: How these were chosen, or the nearest that were chosen in a way that has a name, and these from among them.
        self._path: Path = ()
        #: The same, without ways that chose all there were: these have their numbers and times in common.
        self._short_path: Path = ()
        self._among: Events | None = None

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
        """Where these stand among the events of their chunk."""
        return self._chosen[1] if self._chosen is not None else np.arange(len(self))

    # -- what the events have, as objects ------------------------------------------------------------------------

    def column(self, key: str) -> list[Any]:
        """Return what each event has under a key; `UNSET` where it has none."""
        if key not in self._columns:
            if self._chosen is not None and key in self._chosen[0]._columns:
                whole, places = self._chosen
                self._columns[key] = _picked(whole._columns[key], places)
            elif all(key not in kind.keys for kind in self.schema.kinds):
                # Its schema knows none: categories, in a trace of JAX.
                self._columns[key] = [UNSET] * len(self)
            else:
                self._columns[key] = list(map(attrgetter(attribute(key)), self.events))
        return self._columns[key]

    def arguments(self, key: str) -> list[Any]:
        """Return what each event's arguments have under a key; `UNSET` where there is none, or no arguments."""
        if key not in self._arguments:
            name = attribute(key)
            inside = self.column("args")
            try:
                self._arguments[key] = list(map(attrgetter(name), inside))
            except AttributeError:
                # Those of some kinds are raw.
                decoded = (self.schema.arguments_of(one) if type(one) is Raw else one for one in inside)
                self._arguments[key] = [getattr(one, name, UNSET) for one in decoded]
        return self._arguments[key]

    # -- columns of numbers --------------------------------------------------------------------------------------

    def _sent(self, kind: str, key: Any) -> Any:
        """Return a column that another process has made of these events; None where it has not. Notes that it was asked for."""
        asked = ColumnName(self._path if kind == "derived" else self._short_path, kind, key)
        self.vocabulary.asked.add(asked)
        whole = self._chosen[0] if self._chosen is not None else self
        return whole._made.get(asked) if whole._made is not None else None

    def derived(self, make: Make, *keys: str) -> Any:
        """Return what `make(events, *keys)` makes of these: an array, or a list, with a value an event.

        `make` is a function of a module that looks at nothing but the events: other processes call it as well.
        """
        name = (make, keys)
        if name not in self._derived:
            if self._among is not None:
                found, at = self._among.derived(make, *keys), _places_within(self, self._among)
                self._derived[name] = found[at] if isinstance(found, np.ndarray) else _picked(found, at)
            else:
                found = self._sent("derived", name)
                self._derived[name] = make(self, *keys) if found is None else found
        return self._derived[name]

    def texts(self, key: str) -> Numbers:
        """Return the number of the raw JSON of an argument among those of its key; `UNSET` is one of its own."""
        name = _ARGUMENT + key
        if name in self._numbers:
            return self._numbers[name]
        if self._chosen is not None and name in self._chosen[0]._numbers:
            found = self._chosen[0]._numbers[name][self._chosen[1]]
        elif self._among is not None:
            found = self._among.texts(key)[_places_within(self, self._among)]
        elif (found := self._sent("number", name)) is None:
            arguing, words = self.arguing, self.vocabulary.texts.setdefault(key, Words())
            found = words.numbers(as_bytes(arguing.arguments(key)), len(arguing))
            if len(arguing) < len(self):
                spread_out = np.full(len(self), words[UNSET], np.int32)
                spread_out[_places_within(arguing, self)] = found
                found = spread_out
        self._numbers[name] = found
        return found

    def times(self, key: str) -> Times:
        """Return `ts` or `dur` of each event; unknown where it has none."""
        if key not in self._times:
            if self._chosen is not None:
                whole, places = self._chosen
                self._times[key] = whole.times(key).at(places)
            else:
                sent = self._sent("time", key)
                self._times[key] = self._read_times(key) if sent is None else known_times(*sent)
        return self._times[key]

    def _read_times(self, key: str) -> Times:
        texts = self.column(key)
        known = [text for text in texts if text is not UNSET]
        if len(known) == len(texts):
            return times_of(texts)
        # Where as many have one as must have one, it is these.
        there = np.array([key in kind.required for kind in self.schema.kinds], np.bool_)[self.kinds]
        if np.count_nonzero(there) != len(known):
            there = np.fromiter((text is not UNSET for text in texts), np.bool_, count=len(texts))
        return spread(times_of(known), there)

    def numbers(self, column: str) -> Numbers:
        """Return the number of each event's word in a column of the vocabulary."""
        if column.startswith(_ARGUMENT):
            return self.texts(column.removeprefix(_ARGUMENT))
        if column not in self._numbers:
            whole, places = self._chosen or (self, None)
            if places is not None and (column in whole._numbers or 2 * len(self) > len(whole)):
                self._numbers[column] = whole.numbers(column)[places]
            elif self._among is not None and whole._made is not None:
                self._numbers[column] = self._among.numbers(column)[_places_within(self, self._among)]
            else:
                # Of few of the events their own numbers are found more quickly than those of all that they are among.
                found = (self._among or self)._sent("number", column)
                self._numbers[column] = self._numbered(column) if found is None else found
        return self._numbers[column]

    def _numbered(self, column: str) -> Numbers:
        # The pairs are made and forgotten one by one, which is quicker than a list of them.
        keys = zip(self.column("pid"), self.column("tid"), strict=True) if column == "thread" else self.column(column)
        return self.vocabulary.words(column).numbers(keys, len(self))

    @property
    def names(self) -> Numbers:
        """The number of each event's name in the vocabulary."""
        return self.numbers("name")

    @property
    def categories(self) -> Numbers:
        """The number of each event's category; `UNSET` is one of its own."""
        return self.numbers("cat")

    @property
    def threads(self) -> Numbers:
        """The number of each event's thread."""
        return self.numbers("thread")

    def is_named(self, *names: str) -> Flags:
        """Return which events have one of these names."""
        return _are(self.names, self.vocabulary.names, names)

    def has_text(self, key: str, *texts: bytes) -> Flags:
        """Return which events have one of these texts, raw JSON, as an argument."""
        return _are(self.texts(key), self.vocabulary.texts[key], texts)

    def is_of(self, *phases: str) -> Flags:
        """Return which events are of one of these kinds (`ph`)."""
        return np.array([kind.ph in phases for kind in self.schema.kinds], np.bool_)[self.kinds]

    # -- some of the events --------------------------------------------------------------------------------------

    @property
    def arguing(self) -> Events:
        """The events that have arguments."""
        return self._part("arguing", ())

    def of(self, *phases: str) -> Events:
        """Return the events of some kinds."""
        return self._part("of", phases)

    def named(self, *names: str) -> Events:
        """Return the events with one of these names."""
        return self._part("named", names)

    def _part(self, way: str, by: tuple[str, ...]) -> Events:
        step = (way, by)
        if step not in self._parts:
            part = self.at(np.flatnonzero(_WAYS[way](self, *by)))
            chooses = part is not self
            if not chooses:
                # All that was made of these is made of those as well.
                part = copy(self)
                part._parts = {}
            if self._among is None:
                part._among, part._path = None, (*self._path, step)
                part._short_path = (*self._short_path, step) if chooses else self._short_path
            self._parts[step] = part
        return self._parts[step]

    def chosen_by(self, path: Path) -> Events:
        """Return the events that were chosen in some way."""
        found = self
        for way, by in path:
            found = found._part(way, by)
        return found

    def at(self, places: Ints) -> Events:
        """Return some of the events, in their order; `places` ascend."""
        if len(places) == len(self):
            return self
        whole, among_all = (self, places) if self._chosen is None else (self._chosen[0], self._chosen[1][places])
        found = Events(
            self.schema,
            self.vocabulary,
            self.rows[places],
            self.kinds[places],
            lambda: _picked(whole.events, among_all),
        )
        found._chosen, found._among = (whole, among_all), self if self._among is None else self._among
        return found

    def forget(self) -> None:
        """Let go of the events that were chosen from these: they hold each other, and would wait for the garbage collector."""
        for part in self._parts.values():
            part.forget()
        self._parts.clear()
        self._columns.clear()
        self._arguments.clear()


def _argue(events: Events) -> Flags:
    inside = events.column("args")
    if UNSET not in inside:
        return np.ones(len(inside), np.bool_)
    return np.fromiter((one is not UNSET for one in inside), np.bool_, count=len(inside))


#: Ways to choose some of the events that have a name: which of them.
_WAYS: dict[str, Callable[..., Flags]] = {
    "arguing": lambda events: events.derived(_argue),
    "of": Events.is_of,
    "named": Events.is_named,
}


def _picked(values: list[Any], places: Ints) -> list[Any]:
    """Return the values at some places, which ascend."""
    if 3 * len(places) < len(values):
        return list(map(values.__getitem__, places.tolist()))
    is_picked = np.zeros(len(values), np.bool_)
    is_picked[places] = True
    return list(compress(values, is_picked.tobytes()))


def _places_within(some: Events, others: Events) -> Ints:
    """Return where some events stand among others of their chunk that they were chosen from."""
    return np.searchsorted(others.places, some.places)


#: What separates raw values that are joined: no JSON has it in a text or around it.
BETWEEN = b"\0"


def as_bytes(values: list[Any]) -> list[Any]:
    """Return raw values as bytes, `UNSET` as it is: to join and to split them is quicker than to copy one by one."""
    there = [one for one in values if one is not UNSET]
    joined = BETWEEN.join(there).split(BETWEEN) if there else []
    if len(joined) != len(there):
        joined = [bytes(one) for one in there]
    if len(there) == len(values):
        return joined
    found = iter(joined)
    return [one if one is UNSET else next(found) for one in values]


def _are(numbers: Numbers, words: Words, wanted: Iterable[Any]) -> Flags:
    # The numbers were asked for first, so that the words are known.
    known = [words[one] for one in wanted if one in words]
    if len(known) == 1:
        found: Flags = numbers == known[0]
        return found
    table = np.zeros(len(words) + 1, np.bool_)
    table[known] = True
    return table[numbers]
