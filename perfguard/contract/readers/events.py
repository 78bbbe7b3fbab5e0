"""Events: the schema of a trace's events compiled to a decoder that proves most of it, and what chunks are decoded to.

A trace has millions of events, so none of them becomes a dictionary. The row schema is compiled to a typed struct for each
kind of event (`ph`): decoding proves types, bounds of integers, required and unknown keys. What a type cannot say is proven
by column: times by their digits, other texts once each. Whatever is not proven in either way goes through `RowSchema` (and so
jsonschema), whose verdict and words are the ones that count: a chunk is narrowed down to the events that the decoder
refuses first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, islice
from operator import attrgetter
from typing import Any, Literal, Union

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from perfguard.contract.readers.chunks import Broken, Chunk, CutShort, Ended, end_of_document, place_of
from perfguard.contract.readers.document import refuse_repeated_keys
from perfguard.contract.readers.times import Flags, Ints, Times, proven, spread, times_of
from perfguard.contract.readers.trace import SHORTEST_EVENT, UNREPEATED
from perfguard.contract.schema import MAX_KEYS, WORDED_ROWS, RowError, RowSchema, object_columns
from perfguard.contract.table import Cells, Table, Unreadable, cell_value

#: How many events are decoded together while a chunk is narrowed down to those that are refused.
_GROUP = 64
#: How many distinct texts of a column are remembered as valid; beyond that they are forgotten and asked for again.
_REMEMBERED = 200_000
#: Empty objects are quickly written and costly to hold, so many of them must be at least as long as an event can be.
_MANY = 10_000
#: Keys whose values are decimal numbers of microseconds.
TIMES = ("ts", "dur")
_INTEGER_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_ASCII = 127


Kinds = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int32]]


class Words(dict[Any, int]):
    """Numbers texts (or other keys) through, in the order in which they are first seen."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number

    def numbers(self, keys: Iterable[Any], count: int) -> Numbers:
        """Return the number of each of `count` keys, new ones included."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, count=count)


# -- the schema ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What decoding does not prove of one key: `schema` is what its values must still keep."""

    key: str
    schema: Mapping[str, Any]
    #: Inside the arguments, and not of the event itself.
    in_arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _NameRule:
    """What events of certain names must have beside the rest: keys of their own, keys of their arguments.

    `arguments` is a schema (as text) of all their arguments, where keys do not say it.
    """

    names: frozenset[str]
    required: tuple[str, ...]
    required_arguments: tuple[str, ...] = ()
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """How events of one `ph` are decoded. `is_open` kinds prove nothing by themselves: each event is asked of jsonschema."""

    ph: str
    struct: type[msgspec.Struct]
    checks: tuple[_Check, ...] = ()
    name_rules: tuple[_NameRule, ...] = ()
    #: Keys an event may have.
    keys: frozenset[str]
    #: Keys without which an event is not decoded.
    required: frozenset[str] = frozenset()
    is_open: bool = False


def attribute(key: str) -> str:
    """Return the struct's attribute for a key of an event or of its arguments: `External id` is `external_id`."""
    return re.sub(r"\W", "_", key).lower() + ("_" if key in ("id",) else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class EventSchema:
    """A row schema of trace events, compiled. `kinds` is empty where it says something that is not compiled."""

    row: Mapping[str, Any]
    root: Mapping[str, Any]
    kinds: tuple[Kind, ...]
    rows: RowSchema

    @cached_property
    def one_event(self) -> msgspec.json.Decoder[Any]:
        """Decodes one event."""
        return msgspec.json.Decoder(self._any_kind)

    @cached_property
    def events(self) -> msgspec.json.Decoder[list[Any]]:
        """Decodes an array of events."""
        return msgspec.json.Decoder(list[self._any_kind])  # type: ignore[name-defined]

    @property
    def _any_kind(self) -> Any:
        return Union[tuple(kind.struct for kind in self.kinds)]  # noqa: UP007 - made at run time

    @cached_property
    def _arguments(self) -> msgspec.json.Decoder[Any]:
        closed = (kind.struct for kind in self.kinds if not kind.is_open)
        found = next(
            (
                field.type
                for one in closed
                for field in msgspec.structs.fields(one)
                if field.name == "args" and field.type is not Raw
            ),
            Raw,
        )
        return msgspec.json.Decoder(found)

    def arguments_of(self, text: Raw) -> Any:
        """Decode arguments that were kept as they are; `UNSET` for what is no such object."""
        try:
            return self._arguments.decode(text)
        except msgspec.ValidationError:
            return UNSET


def compiled(row: Mapping[str, Any], root: Mapping[str, Any], wanted: Mapping[str, Iterable[str]]) -> EventSchema:
    """Compile a row schema. `wanted` names by kind the arguments that are read beside those the schema names (`*`: of all)."""
    return EventSchema(row=row, root=root, kinds=_kinds(row, wanted), rows=RowSchema(row, root))


_ROW_KEYWORDS = frozenset({"type", "additionalProperties", "required", "properties", "allOf", "description", "title"})


def _kinds(row: Mapping[str, Any], wanted: Mapping[str, Iterable[str]]) -> tuple[Kind, ...]:
    phases = row.get("properties", {}).get("ph", {}).get("enum", ())
    if not row.keys() <= _ROW_KEYWORDS or row.get("type") != "object" or not phases:
        return ()
    if row.get("additionalProperties", True) is not False or not all(isinstance(one, str) for one in phases):
        return ()
    conditions = [_condition(part) for part in row.get("allOf", ())]
    if None in conditions or "ph" not in row.get("required", ()) or "name" not in row["properties"]:
        return ()
    return tuple(_kind(ph, row, [one for one in conditions if one is not None], wanted) for ph in phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """An `if` on constants of ph and name, and its `then`."""

    phases: frozenset[str] | None
    names: frozenset[str] | None
    then: Mapping[str, Any]


def _condition(part: Mapping[str, Any]) -> _Condition | None:
    if part.keys() != {"if", "then"}:
        return None
    asked = part["if"].get("properties", {})
    if not part["if"].keys() <= {"properties", "required"} or not asked or not asked.keys() <= {"ph", "name"}:
        return None
    if set(part["if"].get("required", ())) != set(asked):
        return None
    constants: dict[str, frozenset[str]] = {}
    for key, schema in asked.items():
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is None or len(schema) != 1 or not all(isinstance(value, str) for value in values):
            return None
        constants[key] = frozenset(values)
    return _Condition(phases=constants.get("ph"), names=constants.get("name"), then=part["then"])


def _kind(
    ph: str, row: Mapping[str, Any], conditions: Sequence[_Condition], wanted: Mapping[str, Iterable[str]]
) -> Kind:
    required = set(row.get("required", ()))
    rules: list[_NameRule] = []
    is_open = False
    for one in conditions:
        if one.phases is not None and ph not in one.phases:
            continue
        if one.names is None and one.then.keys() <= {"required"}:
            required |= set(one.then.get("required", ()))
        elif one.names is not None and (rule := _name_rule(one.names, one.then)) is not None:
            rules.append(rule)
        else:
            is_open = True
    properties = row["properties"]
    if not (required | {key for rule in rules for key in rule.required}) <= properties.keys():
        is_open = True
    extra = [key for name in (ph, "*") for key in wanted.get(name, ())]
    if any(rule.arguments is not None for rule in rules):
        # All of them are kept, to be held against that schema.
        extra.append("*")
    checks: list[_Check] = []
    fields: list[tuple[Any, ...]] = []
    for key, schema in properties.items():
        if key == "ph":
            continue
        if key == "args":
            # An event that jsonschema is asked of is written again from what was kept of it.
            kind, check = (Raw, []) if is_open else _arguments(schema, extra)
        else:
            kind, check = _typed(key, schema)
        checks += check
        if key in required and not is_open:
            fields.append((attribute(key), kind, msgspec.field(name=key)))
        else:
            fields.append((attribute(key), _optional(kind), msgspec.field(default=UNSET, name=key)))
    # Those without a default come first.
    needed = set() if is_open else {attribute(key) for key in required}
    struct = msgspec.defstruct(
        "Event",
        [one for one in fields if one[0] in needed] + [one for one in fields if one[0] not in needed],
        tag_field="ph",
        tag=ph,
        forbid_unknown_fields=True,
        gc=False,
    )
    return Kind(
        ph=ph,
        struct=struct,
        checks=() if is_open else tuple(checks),
        name_rules=() if is_open else tuple(rules),
        keys=frozenset(properties),
        required=frozenset({"ph"} if is_open else required | {"ph"}),
        is_open=is_open,
    )


def _name_rule(names: frozenset[str], then: Mapping[str, Any]) -> _NameRule | None:
    inside = then.get("properties", {})
    if not then.keys() <= {"required", "properties"} or not inside.keys() <= {"args"}:
        return None
    arguments, required = inside.get("args", {}), tuple(then.get("required", ()))
    if arguments.keys() <= {"required"}:
        return _NameRule(names=names, required=required, required_arguments=tuple(arguments.get("required", ())))
    return _NameRule(names=names, required=required, arguments=json.dumps(arguments))


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("description", "title") and key[:2] != "x-"}


def _typed(key: str, schema: Mapping[str, Any], *, in_arguments: bool = False) -> tuple[Any, list[_Check]]:
    """Return the type that a value is decoded as, and what that type does not prove."""
    says = _plain(schema)
    types = says.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    check = [_Check(key=key, schema=schema, in_arguments=in_arguments)]
    if key in TIMES and not in_arguments:
        return Raw, check
    if types == {"string"} and (says.keys() == {"type"} or not in_arguments):
        return str, check if says.keys() > {"type"} else []
    if not types and (says.keys() == {"const"} or says.keys() == {"enum"}):
        values = says.get("enum", [says.get("const")])
        if all(isinstance(value, str) for value in values):
            return Literal[tuple(values)], []
    if types == {"integer"} and says.keys() <= {"type", *_INTEGER_BOUNDS}:
        # msgspec keeps bounds within 64 bits.
        bounds = {_INTEGER_BOUNDS[k]: v for k, v in says.items() if k != "type"}
        if all(isinstance(bound, int) and abs(bound) < 2**63 for bound in bounds.values()):
            return (_annotated(int, bounds) if bounds else int), []
    if types == {"integer", "string"} and says.keys() == {"type"}:
        return Union[int, str], []  # noqa: UP007 - made at run time
    return Raw, check


def _optional(kind: Any) -> Any:
    # Raw takes anything, and nothing beside it.
    return kind if kind is Raw else Union[kind, UnsetType]  # noqa: UP007 - made at run time


def _annotated(kind: Any, bounds: Mapping[str, int]) -> Any:
    from typing import Annotated

    return Annotated[kind, msgspec.Meta(**bounds)]  # type: ignore[call-overload]


def _arguments(schema: Mapping[str, Any], wanted: Iterable[str]) -> tuple[Any, list[_Check]]:
    """Return the struct of an event's arguments: what the schema names, what is wanted, and nothing else is kept."""
    if not _plain(schema).keys() <= {"type", "properties"} or schema.get("type") != "object":
        return Raw, [_Check(key="args", schema=schema)]
    if "*" in wanted:
        return Raw, [_Check(key="args", schema=schema)]
    checks: list[_Check] = []
    fields = []
    named = {**schema.get("properties", {}), **{key: {} for key in wanted if key not in schema.get("properties", {})}}
    for key, part in named.items():
        kind, check = _typed(key, part, in_arguments=True) if part else (Raw, [])
        checks += check
        fields.append((attribute(key), _optional(kind), msgspec.field(default=UNSET, name=key)))
    return msgspec.defstruct("Arguments", fields, gc=False), checks


# -- decoding --------------------------------------------------------------------------------------------------------


class Vocabulary:
    """The texts that come again and again in a trace, numbered through: names, categories, and threads as (pid, tid)."""

    def __init__(self) -> None:
        self.names = Words()
        self.categories = Words()
        self.threads = Words()
        #: By key of the arguments: raw JSON of those values that come again, such as shapes.
        self.texts: dict[str, Words] = {}


class Events:
    """Events of a chunk as columns: `rows` are their numbers in the trace, `kinds` the numbers of their kinds in the schema.

    Some of them are chosen from all of a chunk, and take their columns from these: nothing is read twice.
    """

    def __init__(
        self, schema: EventSchema, vocabulary: Vocabulary, rows: Ints, kinds: Kinds, events: list[Any]
    ) -> None:
        self.schema = schema
        self.vocabulary = vocabulary
        self.rows = rows
        self.kinds = kinds
        self._events: list[Any] | None = events
        self._columns: dict[str, list[Any]] = {}
        self._arguments: dict[str, list[Any]] = {}
        self._times: dict[str, Times] = {}
        self._numbers: dict[str, Numbers] = {}
        self._parts: dict[tuple[str, ...], Events] = {}
        #: All events of the chunk, and where these stand among them; of all of them it is None.
        self._chosen: tuple[Events, Ints] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def events(self) -> list[Any]:
        """The decoded events."""
        if self._events is None:
            assert self._chosen is not None
            whole, places = self._chosen
            self._events = _picked(whole.events, places)
        return self._events

    @property
    def places(self) -> Ints:
        """Where these stand among the events of their chunk."""
        return self._chosen[1] if self._chosen is not None else np.arange(len(self))

    def column(self, key: str) -> list[Any]:
        """Return what each event has under a key; `UNSET` where it has none."""
        if key not in self._columns:
            if self._chosen is not None and key in self._chosen[0]._columns:
                whole, places = self._chosen
                self._columns[key] = _picked(whole._columns[key], places)
            else:
                self._columns[key] = list(map(attrgetter(attribute(key)), self.events))
        return self._columns[key]

    @property
    def arguing(self) -> Events:
        """The events that have arguments."""
        if ("args",) not in self._parts:
            inside = self.column("args")
            self._parts["args",] = (
                self if UNSET not in inside else self.at(np.flatnonzero([one is not UNSET for one in inside]))
            )
        return self._parts["args",]

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

    def texts(self, key: str) -> Numbers:
        """Return the number of the raw JSON of an argument among those of its key; `UNSET` is one of its own."""
        name = f"args.{key}"
        if name in self._numbers:
            return self._numbers[name]
        if self._chosen is not None and name in self._chosen[0]._numbers:
            found = self._chosen[0]._numbers[name][self._chosen[1]]
        else:
            arguing, words = self.arguing, self.vocabulary.texts.setdefault(key, Words())
            found = words.numbers(as_bytes(arguing.arguments(key)), len(arguing))
            if arguing is not self:
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
                self._times[key] = self._read_times(key)
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

    def _numbered(self, key: str, number: Callable[[Events], Numbers]) -> Numbers:
        if key not in self._numbers:
            whole, places = self._chosen or (self, None)
            if places is not None and (key in whole._numbers or 2 * len(self) > len(whole)):
                self._numbers[key] = whole._numbered(key, number)[places]
            else:
                self._numbers[key] = number(self)
        return self._numbers[key]

    @property
    def names(self) -> Numbers:
        """The number of each event's name in the vocabulary."""
        return self._numbered("name", lambda all_: self.vocabulary.names.numbers(all_.column("name"), len(all_)))

    @property
    def categories(self) -> Numbers:
        """The number of each event's category; `UNSET` is one of its own."""
        return self._numbered("cat", lambda all_: self.vocabulary.categories.numbers(all_.column("cat"), len(all_)))

    @property
    def threads(self) -> Numbers:
        """The number of each event's thread."""
        return self._numbered(
            "thread",
            # The pairs are made and forgotten one by one, which is quicker than a list of them.
            lambda all_: self.vocabulary.threads.numbers(
                zip(all_.column("pid"), all_.column("tid"), strict=True), len(all_)
            ),
        )

    def is_named(self, *names: str) -> Flags:
        """Return which events have one of these names."""
        return _are(self.names, self.vocabulary.names, names)

    def has_text(self, key: str, *texts: bytes) -> Flags:
        """Return which events have one of these texts, raw JSON, as an argument."""
        return _are(self.texts(key), self.vocabulary.texts[key], texts)

    def is_of_category(self, *names: str) -> Flags:
        """Return which events have one of these categories."""
        return _are(self.categories, self.vocabulary.categories, names)

    def is_of(self, *phases: str) -> Flags:
        """Return which events are of one of these kinds (`ph`)."""
        return np.array([kind.ph in phases for kind in self.schema.kinds], np.bool_)[self.kinds]

    def of(self, *phases: str) -> Events:
        """Return the events of some kinds."""
        if phases not in self._parts:
            self._parts[phases] = self.at(np.flatnonzero(self.is_of(*phases)))
        return self._parts[phases]

    def forget(self) -> None:
        """Let go of the events that were chosen from these: they hold each other, and would wait for the garbage collector."""
        for part in self._parts.values():
            if part is not self:
                part.forget()
        self._parts.clear()
        self._columns.clear()
        self._arguments.clear()

    def named(self, *names: str) -> Events:
        """Return the events with one of these names."""
        return self.at(np.flatnonzero(self.is_named(*names)))

    def of_category(self, *names: str) -> Events:
        """Return the events of some categories."""
        return self.at(np.flatnonzero(self.is_of_category(*names)))

    def at(self, places: Ints) -> Events:
        """Return some of the events, in their order; `places` ascend."""
        if len(places) == len(self):
            return self
        whole, among_all = (self, places) if self._chosen is None else (self._chosen[0], self._chosen[1][places])
        found = Events(self.schema, self.vocabulary, self.rows[places], self.kinds[places], [])
        found._events, found._chosen = None, (whole, among_all)
        return found


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
_BETWEEN = b"\0"


def as_bytes(values: list[Any]) -> list[Any]:
    """Return raw values as bytes, `UNSET` as it is: to join and to split them is quicker than to copy one by one."""
    there = [one for one in values if one is not UNSET]
    joined = _BETWEEN.join(there).split(_BETWEEN) if there else []
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
        self._kinds = {kind.struct: number for number, kind in enumerate(schema.kinds)} | {type(None): -1}
        self._one, self._all = schema.one_event, schema.events
        self._raw = msgspec.json.Decoder(list[Raw])
        self._open = [number for number, kind in enumerate(schema.kinds) if kind.is_open]
        # All kinds have their keys from the same schema; what is left to check differs by what is kept of the arguments.
        closed = [kind for kind in schema.kinds if not kind.is_open]
        self._checks = tuple({(one.key, one.in_arguments): one for kind in closed for one in kind.checks}.values())
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
        if not asked and not written:
            return events
        if asked and texts is None:
            texts = self._split(view)
        # An open kind keeps all it has as raw JSON, so that it can be written again.
        judged = {place: msgspec.json.encode(decoded[place]) for place in written}
        judged |= {place: bytes(texts[place]) for place in sorted(asked)} if texts is not None else {}
        refused = self._refused(judged)
        again = [place for place in asked if decoded[place] is None and place not in refused]
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

    def _breaking(self, rule: _NameRule, events: Events) -> list[int]:
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
            schema = json.loads(rule.arguments)

            def breaks(inside: Any) -> bool:
                return type(inside) is not Raw or not self._keeps(schema, bytes(inside))

        keys = _getter(rule.required)
        broken = []
        for place, event in zip(places.tolist(), chosen.events, strict=True):
            # Arguments that are not there are another keyword's business.
            if UNSET in keys(event) or (event.args is not UNSET and breaks(event.args)):
                broken.append(place)
        return broken

    def _unproven_values(self, number: int, check: _Check, events: Events) -> Iterable[int]:
        if check.key in TIMES and not check.in_arguments:
            is_odd = ~proven(events.times(check.key), check.schema)
            if not is_odd.any():
                return ()
            texts = events.column(check.key)
            return [place for place in np.flatnonzero(is_odd).tolist() if texts[place] is not UNSET]
        if not check.in_arguments and (beginnings := _beginnings(check.schema)) is not None:
            return _beginning_otherwise(events.column(check.key), beginnings)
        numbers = events.texts(check.key) if check.in_arguments else self._numbers_of(events.column(check.key), number)
        words = self.vocabulary.texts[check.key] if check.in_arguments else self._words[number]
        broken = self._broken_words(number, check, words)
        if not broken:
            return ()
        found: list[int] = np.flatnonzero(np.isin(numbers, broken)).tolist()
        return found

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

    def _broken_words(self, number: int, check: _Check, words: Words) -> list[int]:
        """Return the numbers of the texts that break the schema of a key; each text is asked of jsonschema once."""
        if len(words) > self._asked[number]:
            new = list(islice(words, self._asked[number], None))
            for offset, text in enumerate(new):
                if text is not UNSET and not self._keeps(check.schema, text):
                    self._bad[number].append(self._asked[number] + offset)
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

    def _keeps(self, schema: Mapping[str, Any], value: str | bytes) -> bool:
        found = value if isinstance(value, str) else cell_value(value.decode(), Cells.JSON, None)
        return bool(self.schema.rows.validator(schema).is_valid(found))

    def _decoded_with_whole_numbers(self, text: bytes) -> Any:
        """Decode an event that keeps its schema and that the decoder refuses: JSON's 5.0 and 1e3 are whole numbers as well."""
        event = msgspec.json.decode(text)
        try:
            return self._one.decode(msgspec.json.encode(_with_whole_numbers(event, text)))
        except msgspec.ValidationError as error:
            raise Unreadable(f"event {self.rows} and following cannot be held in memory: {error}") from error


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
    says = _plain(schema)
    types = {says["type"]} if isinstance(says.get("type"), str) else set(says.get("type", ()))
    if says.keys() != {"type"} or not types <= {"object", "array", "string"}:
        return None
    return b"".join({"object": b"{", "array": b"[", "string": b'"'}[one] for one in types)


def _beginning_otherwise(values: Sequence[Any], beginnings: bytes) -> list[int]:
    """Return the places of raw values that begin in another way; decoded ones are of their type."""
    places = [place for place, value in enumerate(values) if type(value) is Raw]
    texts = [values[place] for place in places]
    together = _BETWEEN.join([b"", *texts])
    if sum(together.count(_BETWEEN + bytes([one])) for one in beginnings) == len(texts):
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
    decoded = [msgspec.json.decode(text) for text in others]
    ends, is_sure = _ends_before_colons(view)
    for key in UNREPEATED:
        there = _having(events, key) + sum(isinstance(one, dict) and key in one for one in decoded)
        end = int.from_bytes(f'"{key}"'[-_WORD:].encode(), "little")
        if (is_sure and np.count_nonzero(ends == end) <= there) or not there:
            continue
        text = bytes(view)
        if text.count(f'"{key}"'.encode()) > there:
            refuse_repeated_keys(text)
            return


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
