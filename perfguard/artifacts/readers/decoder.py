"""Decoder: chunks of a trace become events; jsonschema writes the messages about invalid ones.

The structs of the compiled schema prove most of an event. The rest is proven by column: times by their digits, other texts
once each. Events that are not proven either way go through `RowSchema`, and so jsonschema, whose verdict and messages count.
If the decoder refuses a chunk, its events are decoded in smaller and smaller groups to find the refused ones.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from perfguard.artifacts.readers import refuse_short_events
from perfguard.artifacts.readers.chunks import Broken, Chunk, CutShort, Ended, end_of_document
from perfguard.artifacts.readers.document import UNREPEATED, place_of, refuse_repeated_keys
from perfguard.artifacts.readers.event_schema import TIMES, Check, EventSchema, NameRule, attribute, keywords
from perfguard.artifacts.readers.events import BETWEEN, Events, Numbers, Vocabulary, Words
from perfguard.artifacts.readers.times import proven
from perfguard.artifacts.schema import FEW_ROWS, MAX_KEYS, SHOWN_VIOLATIONS, RowError, RowSchema, object_columns
from perfguard.artifacts.table import Cells, Table, Unreadable, cell_value

#: Number of events in a group when a refused chunk is decoded again.
_GROUP = 64
#: Largest number of distinct texts of a column whose verdicts are remembered; beyond it, all are forgotten.
_REMEMBERED = 200_000
_ASCII = 127
#: Characters of an event without keys; if the schema allows it, there is nothing to keep.
_EMPTY = b"{} \t\r\n"


class _AnyObject(msgspec.Struct, gc=False):
    """An object whatever its keys."""


class _Event:
    """An event that was looked at."""


_EVENT = _Event()


class EventDecoder:
    """Decodes the chunks of a trace with a compiled schema, one after the other, and collects the violations.

    `errors` are jsonschema's, of at most `SHOWN_VIOLATIONS` events; `broken` counts all invalid events, `rows` all events so
    far. `unknown` has the keys of events that the schema lacks, with the row of the first one; their values are left out.
    """

    def __init__(self, schema: EventSchema) -> None:
        self.schema = schema
        #: JSON path of the events, as findings name it.
        self.path = "$"
        self.vocabulary = Vocabulary()
        self.rows = 0
        self.broken = 0
        self.errors: list[RowError] = []
        self.unknown: dict[str, int] = {}
        self._kinds: dict[type, int] = {type(None): -1}
        for number, kind in enumerate(schema.kinds):
            self._kinds |= {kind.struct: number, kind.tolerant: number}
        self._known_keys = frozenset(schema.row["properties"])
        self._raw = msgspec.json.Decoder(list[Raw])
        self._shapes = msgspec.json.Decoder(list[_AnyObject])
        self._keyed = msgspec.json.Decoder(list[dict[str, Raw]])
        self._open = [number for number, kind in enumerate(schema.kinds) if kind.is_open]
        # All kinds have their keys from the same schema; the remaining checks differ by which arguments are kept.
        closed = [kind for kind in schema.kinds if not kind.is_open]
        self._checks = tuple({(one.key, one.in_arguments): one for kind in closed for one in kind.checks}.values())
        #: For each check: by kind, whether it applies.
        keys = [{(one.key, one.in_arguments) for one in kind.checks} for kind in schema.kinds]
        self._are_checked = [
            np.array([(one.key, one.in_arguments) in there for there in keys], np.bool_) for one in self._checks
        ]
        self._rules = tuple(dict.fromkeys(rule for kind in closed for rule in kind.name_rules))
        #: For each check: its texts, how many of them jsonschema has validated, and the numbers of the invalid ones.
        self._words = [Words() for _ in self._checks]
        self._validated = [0 for _ in self._checks]
        self._bad: list[list[int]] = [[] for _ in self._checks]

    def __call__(self, chunk: Chunk) -> Events:
        """Decode one chunk, and leave out invalid events.

        Raises `CutShort`, `Ended` or `Broken` if it is not an array of complete objects, `Unreadable` if it exceeds a limit.
        """
        view = chunk.view
        texts: list[Raw] | None = None
        try:
            events: list[Any] = self.schema.events.decode(view)
        except msgspec.ValidationError:
            texts = self._split(view)
            self._find_unknown(view, texts)
            events = self._narrowed(texts)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = meaning(error)
            if isinstance(found, Broken) and found.position is None:
                # The decoder says that a text is not UTF-8, but not where.
                _refuse_broken_characters(view)
            raise found from error
        if np.frombuffer(view, np.uint8).max(initial=0) > _ASCII:
            # The decoder does not validate the UTF-8 of texts that it skips.
            _refuse_broken_characters(view)
        try:
            valid = self._valid(view, events, texts)
        except RecursionError as error:
            raise Unreadable("its JSON is nested too deeply to be read") from error
        self.rows += len(events)
        return valid

    # -- narrowing down ------------------------------------------------------------------------------------------

    def _split(self, view: memoryview) -> list[Raw]:
        self._refuse_other_than_objects(view)
        refuse_short_events(int(np.count_nonzero(np.frombuffer(view, np.uint8) == ord("{"))), len(view))
        _refuse_broken_characters(view)
        try:
            return self._raw.decode(view)
        except (msgspec.DecodeError, RecursionError) as error:
            raise meaning(error) from error

    def _refuse_other_than_objects(self, view: memoryview) -> None:
        """Raise `Unreadable` for the first event that is not an object, and decode none behind it: there may be millions."""
        try:
            self._shapes.decode(view)
        except msgspec.ValidationError:
            count = itertools.count(self.rows)

            def look(kind: type[_Event], value: object) -> _Event:
                row = next(count)
                if not isinstance(value, dict):
                    text = msgspec.json.encode(value)[:80].decode("utf-8", "replace")
                    raise Unreadable(f"an event is not an object: {text!r}", f" {self.path}[{row}]")
                return _EVENT

            msgspec.json.decode(view, type=list[_Event], dec_hook=look)
        except (msgspec.DecodeError, RecursionError) as error:
            raise meaning(error) from error

    def _find_unknown(self, view: memoryview, texts: Sequence[Raw]) -> None:
        """Add the keys that the schema lacks to `unknown`."""
        events: Sequence[Iterable[str]]
        try:
            events = self._keyed.decode(view)
        except msgspec.ValidationError:
            # Some event is not an object.
            events = list(map(_keys, texts))
        unknown = set().union(*events) - self._known_keys
        if len(self.unknown.keys() | unknown) > MAX_KEYS:
            raise Unreadable(f"its events have more than {MAX_KEYS} different keys")
        new = unknown - self.unknown.keys()
        for row, keys in enumerate(events, start=self.rows) if new else ():
            for key in keys:
                if key in new:
                    self.unknown.setdefault(key, row)

    def _narrowed(self, texts: Sequence[Raw]) -> list[Any]:
        """Decode the events; None for one that cannot be decoded."""
        found: list[Any] = []
        for start in range(0, len(texts), _GROUP):
            group = texts[start : start + _GROUP]
            try:
                found += self.schema.tolerant_events.decode(b"[" + b",".join(group) + b"]")
            except msgspec.ValidationError:
                found += map(self._decoded, group)
        return found

    def _decoded(self, text: Raw) -> Any:
        try:
            return self.schema.one_event.decode(text)
        except msgspec.ValidationError:
            return None

    # -- validation ----------------------------------------------------------------------------------------------

    def _valid(self, view: memoryview, decoded: list[Any], texts: list[Raw] | None) -> Events:
        """Return the valid events; the violations of the others are added to `errors`."""
        events = self._events(decoded)
        _refuse_repeated_keys(
            view, events, [t for t, e in zip(texts, decoded, strict=True) if e is None] if texts else ()
        )
        suspects = {place for place, event in enumerate(decoded) if event is None} if texts else set()
        open_ones = np.flatnonzero(np.isin(events.kinds, self._open)).tolist() if self._open else []
        suspects |= {int(place) for place in events.rows[sorted(self._unproven(events))] - self.rows}
        suspects -= (written := {int(place) for place in events.rows[open_ones] - self.rows})
        if not suspects and not written:
            return events
        if suspects and texts is None:
            texts = self._split(view)
        # An event of an open kind has all its values as raw JSON, so that it can be encoded again.
        texts_of = {place: msgspec.json.encode(decoded[place]) for place in written}
        texts_of |= {place: bytes(texts[place]) for place in sorted(suspects)} if texts is not None else {}
        refused = self._refused(texts_of)
        again = [
            place
            for place in suspects
            if decoded[place] is None and place not in refused and texts_of[place].strip(_EMPTY)
        ]
        for place in again:
            decoded[place] = self._decoded_with_whole_numbers(texts_of[place])
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
        """Return the positions of the events that neither the decoder nor the columns prove valid."""
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
            # Another keyword requires the arguments themselves.
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
        # For events of other kinds, the decoder has proven this key.
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
        # Decoded arguments are checked key by key.
        texts = [
            value
            if isinstance(value, (str, UnsetType))
            else UNSET
            if isinstance(value, msgspec.Struct)
            else bytes(value)
            for value in values
        ]
        if len(self._words[number]) > _REMEMBERED:
            self._words[number], self._validated[number], self._bad[number] = Words(), 0, []
        return self._words[number].numbers(texts, len(texts))

    def _broken_words(self, number: int, check: Check, words: Words) -> list[int]:
        """Return the numbers of the texts that violate the schema of a key; each text is validated once."""
        if len(words) > self._validated[number]:
            first = self._validated[number]
            new = {at: text for at, text in enumerate(islice(words, first, None), start=first) if text is not UNSET}
            refused = self._refused_values(check.schema, list(new.values()))
            self._bad[number] += [at for at, is_refused in zip(new, refused, strict=True) if is_refused]
            self._validated[number] = len(words)
        return self._bad[number]

    def _refused(self, texts_of: Mapping[int, bytes]) -> frozenset[int]:
        """Validate events (by their positions in the chunk) with jsonschema; return the positions of the invalid ones."""
        for place, text in texts_of.items():
            if not text.lstrip().startswith(b"{"):
                raise Unreadable(
                    f"an event is not an object: {text[:80].decode('utf-8', 'replace')!r}",
                    f" {self.path}[{self.rows + place}]",
                )
        places = sorted(texts_of)
        frame = object_columns([texts_of[place].decode() for place in places])
        if frame is None:
            raise Unreadable(f"its events have more than {MAX_KEYS} different keys")
        table = Table(frame=frame, cells=Cells.JSON)
        invalid = self.schema.rows.invalid_rows(table)
        room = max(0, SHOWN_VIOLATIONS - self.broken)
        for error in self.schema.rows.errors(table, invalid[:room]):
            self.errors.append(RowError(row=self.rows + places[error.row], path=error.path, message=error.message))
        self.broken += len(invalid)
        return frozenset(places[row] for row in invalid)

    def _refused_arguments(self, schema: str, arguments: Sequence[Any]) -> frozenset[bytes]:
        """Return the arguments that violate a schema; equal arguments are validated once."""
        known = self.schema.validity
        if len(known) > _REMEMBERED:
            known.clear()
        texts = {bytes(one) for one in arguments if type(one) is Raw}
        new = [text for text in texts if (schema, text) not in known]
        refused = self._refused_values(json.loads(schema), new)
        known.update(((schema, text), not one) for text, one in zip(new, refused, strict=True))
        return frozenset(text for text in texts if not known[schema, text])

    def _refused_values(self, schema: Mapping[str, Any], values: Sequence[str | bytes]) -> list[bool]:
        """Return whether each text or raw JSON value violates a schema; many values are validated as a column."""
        import polars as pl

        if len(values) <= FEW_ROWS or any(b"\\ud" in one.lower() for one in values if isinstance(one, bytes)):
            # A column cannot contain a key with half of a surrogate pair.
            validator = self.schema.rows.validator(schema)
            return [not validator.is_valid(_value(one)) for one in values]
        cells = [(one if isinstance(one, bytes) else msgspec.json.encode(one)).decode() for one in values]
        table = Table(frame=pl.DataFrame({"value": pl.Series(cells, dtype=pl.String)}), cells=Cells.JSON)
        refused = set(RowSchema({"properties": {"value": schema}}, self.schema.rows.root).invalid_rows(table))
        return [row in refused for row in range(len(values))]

    def _decoded_with_whole_numbers(self, text: bytes) -> Any:
        """Decode a valid event that the decoder refuses: 5.0 and 1e3 are integers in JSON Schema."""
        try:
            event = msgspec.json.decode(text)
            return self.schema.one_event.decode(msgspec.json.encode(_with_whole_numbers(event, text)))
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
    """Return the exception for a decoder's error in a chunk."""
    text = str(error)
    if isinstance(error, RecursionError):
        return Broken("it is nested too deeply to be read", None)
    if (end := end_of_document(error)) is not None:
        return Ended(end)
    if "truncated" in text:
        return CutShort()
    return Broken(text.partition(" (byte ")[0], place_of(error))


def _beginnings(schema: Mapping[str, Any]) -> bytes | None:
    """Return the possible first bytes of a value, for a schema of types only whose first bytes are distinct; else None."""
    rules = keywords(schema)
    types = {rules["type"]} if isinstance(rules.get("type"), str) else set(rules.get("type", ()))
    if rules.keys() != {"type"} or not types <= {"object", "array", "string"}:
        return None
    return b"".join({"object": b"{", "array": b"[", "string": b'"'}[one] for one in types)


def _beginning_otherwise(values: Sequence[Any], beginnings: bytes) -> list[int]:
    """Return the positions of raw values with another first byte; decoded values have the right type."""
    places = [place for place, value in enumerate(values) if type(value) is Raw]
    texts = [values[place] for place in places]
    together = BETWEEN.join([b"", *texts])
    if sum(together.count(BETWEEN + bytes([one])) for one in beginnings) == len(texts):
        return []
    return [place for place, text in zip(places, texts, strict=True) if bytes(text)[0] not in beginnings]


def _getter(keys: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    if not keys:
        return lambda _: ()
    # The first key twice: attrgetter returns a tuple only for two keys or more.
    return attrgetter(*(attribute(key) for key in (keys[0], *keys)))


def _refuse_repeated_keys(view: memoryview, events: Events, others: Iterable[Raw]) -> None:
    """Raise `Unreadable` if an event has a key twice: readers disagree which value counts.

    Keys are counted by the bytes before colons; only if there may be more than the events have, the text is searched.
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
    """Return the keys of an event without decoding the values: a number may be beyond every float."""
    try:
        return msgspec.json.decode(text, type=dict[str, Raw])
    except msgspec.ValidationError:
        return ()


#: Number of bytes before a colon that are compared: the length of `"ts"`.
_WORD = 4


def _ends_before_colons(view: memoryview) -> tuple[Any, bool]:
    """Return the four bytes before every colon as numbers, and whether no blank is between a key and its colon."""
    letters = np.frombuffer(view, np.uint8)
    colons = np.flatnonzero(letters == ord(":"))
    windows: Any = np.ndarray((max(len(letters) - _WORD, 0),), "<u4", view, strides=(1,))
    ends = windows[colons[colons >= _WORD] - _WORD]
    return ends, not bool(((ends >> np.uint32(24)) <= ord(" ")).any())


def _having(events: Events, key: str) -> int:
    """Return the number of events with a key."""
    kinds = events.schema.kinds
    if all(key in kind.required for kind in kinds):
        return len(events)
    return len(events) - events.column(key).count(UNSET) if any(key in kind.keys for kind in kinds) else 0
