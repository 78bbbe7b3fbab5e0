"""Decoding: chunks of a trace become events, and what is wrong with an event is said by jsonschema.

What the structs of the compiled schema do not prove is proven by column: times by their digits, other texts once each. Whatever
is not proven in either way goes through `RowSchema` (and so jsonschema), whose verdict and words are the ones that count: a
chunk is narrowed down to the events that the decoder refuses first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from perfguard.artifacts.readers.chunks import Broken, Chunk, CutShort, Ended, end_of_document, place_of
from perfguard.artifacts.readers.document import refuse_repeated_keys
from perfguard.artifacts.readers.event_schema import TIMES, Check, EventSchema, NameRule, attribute, keywords
from perfguard.artifacts.readers.events import BETWEEN, Events, Numbers, Vocabulary, Words
from perfguard.artifacts.readers.limits import SHORTEST_EVENT, UNREPEATED
from perfguard.artifacts.readers.times import proven
from perfguard.artifacts.schema import FEW_ROWS, MAX_KEYS, WORDED_ROWS, RowError, RowSchema, object_columns
from perfguard.artifacts.table import Cells, Table, Unreadable, cell_value

#: How many events are decoded together while a chunk is narrowed down to those that are refused.
_GROUP = 64
#: How many distinct texts of a column are remembered as valid; beyond that they are forgotten and asked for again.
_REMEMBERED = 200_000
#: Empty objects are quickly written and costly to hold, so many of them must be at least as long as an event can be.
_MANY = 10_000
_ASCII = 127
#: What an event is written with that has no key at all; where the schema takes one, there is nothing to keep of it.
_EMPTY = b"{} \t\r\n"


class EventDecoder:
    """Decodes chunks of a trace with a compiled schema, one after the other, and keeps what is wrong with its events.

    `errors` are worded by jsonschema, of at most `WORDED_ROWS` events; `broken` counts all that break the schema, `rows` all
    events so far.
    """

    def __init__(self, schema: EventSchema) -> None:
        self.schema = schema
        #: Where the events are in the document, as findings name it.
        self.path = "$"
        self.vocabulary = Vocabulary()
        self.rows = 0
        self.broken = 0
        self.errors: list[RowError] = []
        #: Whether all events of the last chunk keep the schema just as they were decoded.
        self.was_proven = True
        self._kinds = {kind.struct: number for number, kind in enumerate(schema.kinds)} | {type(None): -1}
        self._one, self._all = schema.one_event, schema.events
        self._raw = msgspec.json.Decoder(list[Raw])
        self._open = [number for number, kind in enumerate(schema.kinds) if kind.is_open]
        # All kinds have their keys from the same schema; what is left to check differs by what is kept of the arguments.
        closed = [kind for kind in schema.kinds if not kind.is_open]
        self._checks = tuple({(one.key, one.in_arguments): one for kind in closed for one in kind.checks}.values())
        #: By check: by kind, whether it is asked of it.
        keys = [{(one.key, one.in_arguments) for one in kind.checks} for kind in schema.kinds]
        self._are_checked = [
            np.array([(one.key, one.in_arguments) in there for there in keys], np.bool_) for one in self._checks
        ]
        self._rules = tuple(dict.fromkeys(rule for kind in closed for rule in kind.name_rules))
        #: By check: its texts, how many of them were asked of jsonschema, and which of them break the schema.
        self._words = [Words() for _ in self._checks]
        self._asked = [0 for _ in self._checks]
        self._bad: list[list[int]] = [[] for _ in self._checks]

    def __call__(self, chunk: Chunk) -> Events:
        """Decode one chunk, without the events that break the schema.

        Raises `CutShort`, `Ended` or `Broken` where it is no array of whole objects, `Unreadable` for what nobody should read.
        """
        view = chunk.view
        texts: list[Raw] | None = None
        try:
            events: list[Any] = self._all.decode(view)
        except msgspec.ValidationError:
            texts = self._split(view)
            events = self._narrowed(texts)
        except UnicodeDecodeError:
            events = []
        except (msgspec.DecodeError, RecursionError) as error:
            raise meaning(error) from error
        if np.frombuffer(view, np.uint8).max(initial=0) > _ASCII:
            # Texts that are skipped are not looked into by the decoder.
            _refuse_broken_characters(view)
        try:
            found = self._judged(view, events, texts)
        except RecursionError as error:
            raise Unreadable("its JSON is nested too deeply to be read") from error
        self.rows += len(events)
        return found

    # -- narrowing down ------------------------------------------------------------------------------------------

    def _split(self, view: memoryview) -> list[Raw]:
        objects = int(np.count_nonzero(np.frombuffer(view, np.uint8) == ord("{")))
        if objects > _MANY and len(view) < SHORTEST_EVENT * objects:
            raise Unreadable(f"it has {objects} objects in {len(view)} bytes: no event of a trace is that short")
        _refuse_broken_characters(view)
        try:
            return self._raw.decode(view)
        except (msgspec.DecodeError, RecursionError) as error:
            raise meaning(error) from error

    def _narrowed(self, texts: Sequence[Raw]) -> list[Any]:
        """Decode what can be decoded; None stands for an event that cannot."""
        found: list[Any] = []
        for start in range(0, len(texts), _GROUP):
            group = texts[start : start + _GROUP]
            try:
                found += self._all.decode(b"[" + b",".join(group) + b"]")
            except msgspec.ValidationError:
                found += map(self._decoded, group)
        return found

    def _decoded(self, text: Raw) -> Any:
        try:
            return self._one.decode(text)
        except msgspec.ValidationError:
            return None

    # -- judging -------------------------------------------------------------------------------------------------

    def _judged(self, view: memoryview, decoded: list[Any], texts: list[Raw] | None) -> Events:
        """Return the events that keep the schema; what is wrong with the others is kept in `errors`."""
        events = self._events(decoded)
        _refuse_repeated_keys(
            view, events, [t for t, e in zip(texts, decoded, strict=True) if e is None] if texts else ()
        )
        asked = {place for place, event in enumerate(decoded) if event is None} if texts else set()
        open_ones = np.flatnonzero(np.isin(events.kinds, self._open)).tolist() if self._open else []
        asked |= {int(place) for place in events.rows[sorted(self._unproven(events))] - self.rows}
        asked -= (written := {int(place) for place in events.rows[open_ones] - self.rows})
        self.was_proven = not asked
        if not asked and not written:
            return events
        if asked and texts is None:
            texts = self._split(view)
        # An open kind keeps all it has as raw JSON, so that it can be written again.
        judged = {place: msgspec.json.encode(decoded[place]) for place in written}
        judged |= {place: bytes(texts[place]) for place in sorted(asked)} if texts is not None else {}
        refused = self._refused(judged)
        self.was_proven = self.was_proven and not refused
        again = [
            place for place in asked if decoded[place] is None and place not in refused and judged[place].strip(_EMPTY)
        ]
        for place in again:
            decoded[place] = self._decoded_with_whole_numbers(judged[place])
        for place in refused:
            decoded[place] = None
        return self._events(decoded) if refused or again else events

    def _events(self, decoded: list[Any]) -> Events:
        kinds = np.fromiter(map(self._kinds.__getitem__, map(type, decoded)), np.int8, count=len(decoded))
        if not (kinds < 0).any():
            rows = np.arange(self.rows, self.rows + len(decoded))
            return Events(self.schema, self.vocabulary, rows, kinds, decoded)
        places = np.flatnonzero(kinds >= 0)
        events = [event for event in decoded if event is not None]
        return Events(self.schema, self.vocabulary, places + self.rows, kinds[places], events)

    def _unproven(self, events: Events) -> set[int]:
        """Return the places of the events that neither the decoder nor the columns prove valid."""
        odd: set[int] = set()
        for number, check in enumerate(self._checks):
            odd.update(self._unproven_values(number, check, events))
        for rule in self._rules:
            odd.update(self._breaking(rule, events))
        return odd

    def _breaking(self, rule: NameRule, events: Events) -> list[int]:
        places = np.flatnonzero(events.is_named(*rule.names))
        if not places.size:
            return []
        chosen = events.at(places)
        if rule.arguments is None:
            if all(UNSET not in chosen.column(key) for key in rule.required) and all(
                UNSET not in chosen.arguments(key) for key in rule.required_arguments
            ):
                return []
            arguments = _getter(rule.required_arguments)

            def breaks(inside: Any) -> bool:
                return type(inside) is Raw or UNSET in arguments(inside)

        else:
            refused = self._refused_arguments(rule.arguments, chosen.column("args"))

            def breaks(inside: Any) -> bool:
                return type(inside) is not Raw or bytes(inside) in refused

        keys = _getter(rule.required)
        broken = []
        for place, event in zip(places.tolist(), chosen.events, strict=True):
            # Arguments that are not there are another keyword's business.
            if UNSET in keys(event) or (event.args is not UNSET and breaks(event.args)):
                broken.append(place)
        return broken

    def _unproven_values(self, number: int, check: Check, events: Events) -> Iterable[int]:
        if check.key in TIMES and not check.in_arguments:
            is_odd = ~proven(events.times(check.key), check.schema)
            if not is_odd.any():
                return ()
            texts = events.column(check.key)
            return [place for place in np.flatnonzero(is_odd).tolist() if texts[place] is not UNSET]
        if check.in_arguments:
            numbers = events.texts(check.key)
            broken = self._broken_words(number, check, self.vocabulary.texts[check.key])
            return np.flatnonzero(np.isin(numbers, broken)).tolist() if broken else ()
        # Of events of other kinds the decoder has proven this key.
        places = np.flatnonzero(self._are_checked[number][events.kinds])
        if not places.size:
            return ()
        values = events.at(places).column(check.key)
        if (beginnings := _beginnings(check.schema)) is not None:
            return places[_beginning_otherwise(values, beginnings)].tolist()  # type: ignore[no-any-return]
        numbers = self._numbers_of(values, number)
        broken = self._broken_words(number, check, self._words[number])
        return places[np.isin(numbers, broken)].tolist() if broken else ()

    def _numbers_of(self, values: list[Any], number: int) -> Numbers:
        # Arguments that were decoded are checked by their keys.
        texts = [
            value
            if isinstance(value, (str, UnsetType))
            else UNSET
            if isinstance(value, msgspec.Struct)
            else bytes(value)
            for value in values
        ]
        if len(self._words[number]) > _REMEMBERED:
            self._words[number], self._asked[number], self._bad[number] = Words(), 0, []
        return self._words[number].numbers(texts, len(texts))

    def _broken_words(self, number: int, check: Check, words: Words) -> list[int]:
        """Return the numbers of the texts that break the schema of a key; each text is asked of jsonschema once."""
        if len(words) > self._asked[number]:
            first = self._asked[number]
            new = {at: text for at, text in enumerate(islice(words, first, None), start=first) if text is not UNSET}
            refused = self._refused_values(check.schema, list(new.values()))
            self._bad[number] += [at for at, is_refused in zip(new, refused, strict=True) if is_refused]
            self._asked[number] = len(words)
        return self._bad[number]

    def _refused(self, judged: Mapping[int, bytes]) -> frozenset[int]:
        """Ask jsonschema of the events by their place in the chunk; returns the places of those it refuses."""
        for place, text in judged.items():
            if not text.lstrip().startswith(b"{"):
                raise Unreadable(
                    f"an event is not an object: {text[:80].decode('utf-8', 'replace')!r}",
                    f" {self.path}[{self.rows + place}]",
                )
        places = sorted(judged)
        frame = object_columns([judged[place].decode() for place in places])
        if frame is None:
            raise Unreadable(f"its events have more than {MAX_KEYS} different keys")
        table = Table(frame=frame, cells=Cells.JSON)
        invalid = self.schema.rows.invalid_rows(table)
        room = max(0, WORDED_ROWS - self.broken)
        for error in self.schema.rows.errors(table, invalid[:room]):
            self.errors.append(RowError(row=self.rows + places[error.row], path=error.path, message=error.message))
        self.broken += len(invalid)
        return frozenset(places[row] for row in invalid)

    def _refused_arguments(self, schema: str, arguments: Sequence[Any]) -> frozenset[bytes]:
        """Return those of the arguments that break a schema; the same arguments are judged once."""
        known = self.schema.kept
        if len(known) > _REMEMBERED:
            known.clear()
        texts = {bytes(one) for one in arguments if type(one) is Raw}
        new = [text for text in texts if (schema, text) not in known]
        refused = self._refused_values(json.loads(schema), new)
        known.update(((schema, text), not one) for text, one in zip(new, refused, strict=True))
        return frozenset(text for text in texts if not known[schema, text])

    def _refused_values(self, schema: Mapping[str, Any], values: Sequence[str | bytes]) -> list[bool]:
        """Say of each text or raw JSON value whether it breaks a schema: of many as a column, else of one after the other."""
        import polars as pl

        if len(values) <= FEW_ROWS or any(b"\\ud" in one.lower() for one in values if isinstance(one, bytes)):
            # A key with half of a surrogate pair is in no column.
            validator = self.schema.rows.validator(schema)
            return [not validator.is_valid(_value(one)) for one in values]
        cells = [(one if isinstance(one, bytes) else msgspec.json.encode(one)).decode() for one in values]
        table = Table(frame=pl.DataFrame({"value": pl.Series(cells, dtype=pl.String)}), cells=Cells.JSON)
        refused = set(RowSchema({"properties": {"value": schema}}, self.schema.rows.root).invalid_rows(table))
        return [row in refused for row in range(len(values))]

    def _decoded_with_whole_numbers(self, text: bytes) -> Any:
        """Decode an event that keeps its schema and that the decoder refuses: JSON's 5.0 and 1e3 are whole numbers as well."""
        try:
            event = msgspec.json.decode(text)
            return self._one.decode(msgspec.json.encode(_with_whole_numbers(event, text)))
        except msgspec.ValidationError as error:
            raise Unreadable(f"event {self.rows} and following cannot be held in memory: {error}") from error


def _value(one: str | bytes) -> Any:
    """Return the value of a text, or of raw JSON."""
    return one if isinstance(one, str) else cell_value(one.decode(), Cells.JSON, None)


def _with_whole_numbers(event: dict[str, Any], text: bytes) -> dict[str, Any]:
    exact = msgspec.json.decode(text, type=dict[str, Raw])
    found: dict[str, Any] = {}
    for key, value in event.items():
        if key in TIMES:
            found[key] = exact[key]
        elif isinstance(value, dict):
            found[key] = {name: _whole(one) for name, one in value.items()}
        else:
            found[key] = _whole(value)
    return found


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse_broken_characters(view: memoryview) -> None:
    try:
        str(view, "utf-8")
    except UnicodeDecodeError as error:
        raise Broken(f"byte 0x{view[error.start]:02x} is not UTF-8", error.start) from error


def meaning(error: Exception) -> Exception:
    """Say what a decoder's refusal of a chunk means."""
    said = str(error)
    if isinstance(error, RecursionError):
        return Broken("it is nested too deeply to be read", None)
    if (end := end_of_document(error)) is not None:
        return Ended(end)
    if "truncated" in said:
        return CutShort()
    return Broken(said.partition(" (byte ")[0], place_of(error))


def _beginnings(schema: Mapping[str, Any]) -> bytes | None:
    """Return how a value of a schema that only names types may begin, where that is telling."""
    says = keywords(schema)
    types = {says["type"]} if isinstance(says.get("type"), str) else set(says.get("type", ()))
    if says.keys() != {"type"} or not types <= {"object", "array", "string"}:
        return None
    return b"".join({"object": b"{", "array": b"[", "string": b'"'}[one] for one in types)


def _beginning_otherwise(values: Sequence[Any], beginnings: bytes) -> list[int]:
    """Return the places of raw values that begin in another way; decoded ones are of their type."""
    places = [place for place, value in enumerate(values) if type(value) is Raw]
    texts = [values[place] for place in places]
    together = BETWEEN.join([b"", *texts])
    if sum(together.count(BETWEEN + bytes([one])) for one in beginnings) == len(texts):
        return []
    return [place for place, text in zip(places, texts, strict=True) if bytes(text)[0] not in beginnings]


def _getter(keys: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if not keys:
        return lambda _: ()
    # The first key twice, so that one key makes a tuple as well.
    return attrgetter(*(attribute(key) for key in (keys[0], *keys)))


def _refuse_repeated_keys(view: memoryview, events: Events, others: Iterable[Raw]) -> None:
    """Raise `Unreadable` when an event has a key twice: one reader sees the first value, the next one the other.

    The keys are counted by what stands before the colons; where that may be more than events have, they are searched for.
    `others` are events that were not decoded.
    """
    keys = [_keys(text) for text in others]
    ends, is_sure = _ends_before_colons(view)
    for key in UNREPEATED:
        there = _having(events, key) + sum(key in one for one in keys)
        end = int.from_bytes(f'"{key}"'[-_WORD:].encode(), "little")
        if (is_sure and np.count_nonzero(ends == end) <= there) or not there:
            continue
        text = bytes(view)
        if text.count(f'"{key}"'.encode()) > there:
            refuse_repeated_keys(text)
            return


def _keys(text: Raw) -> Iterable[str]:
    """Return the keys of an event; what they hold, such as a number beyond every float, is not looked at."""
    try:
        return msgspec.json.decode(text, type=dict[str, Raw])
    except msgspec.ValidationError:
        return ()


#: How many bytes before a colon are compared: as many as `"ts"` has.
_WORD = 4


def _ends_before_colons(view: memoryview) -> tuple[Any, bool]:
    """Return the four bytes before every colon as numbers, and whether no key has anything between it and its colon."""
    letters = np.frombuffer(view, np.uint8)
    colons = np.flatnonzero(letters == ord(":"))
    windows: Any = np.ndarray((max(len(letters) - _WORD, 0),), "<u4", view, strides=(1,))
    ends = windows[colons[colons >= _WORD] - _WORD]
    return ends, not bool(((ends >> np.uint32(24)) <= ord(" ")).any())


def _having(events: Events, key: str) -> int:
    """Return how many events have a key."""
    kinds = events.schema.kinds
    if all(key in kind.required for kind in kinds):
        return len(events)
    return len(events) - events.column(key).count(UNSET) if any(key in kind.keys for kind in kinds) else 0
