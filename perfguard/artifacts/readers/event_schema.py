"""The schema of a trace's events, compiled to typed structs: decoding an event validates most of it.

A trace has millions of events, so none of them becomes a dictionary. The row schema is compiled to a typed struct for each
kind of event (`ph`): decoding proves types, bounds of integers, required and unknown keys. Rules that a type cannot express
remain as checks of columns, and as rules for events of certain names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Union

import msgspec
from msgspec import UNSET, Raw, UnsetType

from perfguard.artifacts.schema import RowSchema

#: Keys whose values are decimal numbers of microseconds.
TIMES = ("ts", "dur")
_INTEGER_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A key that decoding does not prove valid: its values must be checked against `schema`."""

    key: str
    schema: Mapping[str, Any]
    #: Whether it is a key of the arguments, not of the event.
    in_arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """More requirements for events of certain names: keys of the event, and keys of its arguments.

    `arguments` is a schema (as text) of all their arguments, if required keys do not express it.
    """

    names: frozenset[str]
    required: tuple[str, ...]
    required_arguments: tuple[str, ...] = ()
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """How events of one `ph` are decoded. For `is_open` kinds decoding proves nothing: jsonschema validates each event."""

    ph: str
    struct: type[msgspec.Struct]
    #: The same for events with keys that the schema lacks, which are left out.
    tolerant: type[msgspec.Struct]
    checks: tuple[Check, ...] = ()
    name_rules: tuple[NameRule, ...] = ()
    #: Keys that an event may have.
    keys: frozenset[str]
    #: Keys that an event must have to be decoded.
    required: frozenset[str] = frozenset()
    is_open: bool = False


def attribute(key: str) -> str:
    """Return the struct's attribute for a key of an event or of its arguments: `External id` is `External_id`."""
    return re.sub(r"\W", "_", key) + ("_" if key in ("id",) else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class EventSchema:
    """A compiled row schema of trace events. `kinds` is empty if it has a rule that cannot be compiled."""

    row: Mapping[str, Any]
    root: Mapping[str, Any]
    extra: Mapping[str, Iterable[str]]
    kinds: tuple[Kind, ...]
    rows: RowSchema
    #: By schema of arguments and arguments, both as JSON: whether they are valid. Other ranks have the same arguments.
    validity: dict[tuple[str, bytes], bool] = field(default_factory=dict)

    @cached_property
    def events(self) -> msgspec.json.Decoder[list[Any]]:
        """The decoder of an array of events; it refuses a key that the schema lacks."""
        return msgspec.json.Decoder(list[self._any_known])  # type: ignore[name-defined]

    @cached_property
    def tolerant_events(self) -> msgspec.json.Decoder[list[Any]]:
        """The decoder of an array of events; it leaves out keys that the schema lacks."""
        return msgspec.json.Decoder(list[self._any_kind])  # type: ignore[name-defined]

    @cached_property
    def one_event(self) -> msgspec.json.Decoder[Any]:
        """The decoder of one event; it leaves out keys that the schema lacks."""
        return msgspec.json.Decoder(self._any_kind)

    @property
    def _any_known(self) -> Any:
        return Union[tuple(kind.struct for kind in self.kinds)]  # noqa: UP007 - made at run time

    @property
    def _any_kind(self) -> Any:
        return Union[tuple(kind.tolerant for kind in self.kinds)]  # noqa: UP007 - made at run time

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
        """Decode arguments that were kept as raw JSON; `UNSET` if they are not a valid object."""
        try:
            return self._arguments.decode(text)
        except msgspec.ValidationError:
            return UNSET


def compiled(row: Mapping[str, Any], root: Mapping[str, Any], extra: Mapping[str, Iterable[str]]) -> EventSchema:
    """Compile a row schema. `extra` names more arguments to read, by kind (`*`: all), besides those of the schema."""
    # A key that the schema lacks is a note, whatever else is wrong with the event.
    rows = RowSchema({**row, "additionalProperties": True}, root)
    return EventSchema(row=row, root=root, extra=extra, kinds=_kinds(row, extra), rows=rows)


_ROW_KEYWORDS = frozenset({"type", "additionalProperties", "required", "properties", "allOf", "description", "title"})


def _kinds(row: Mapping[str, Any], extra: Mapping[str, Iterable[str]]) -> tuple[Kind, ...]:
    phases = row.get("properties", {}).get("ph", {}).get("enum", ())
    if not row.keys() <= _ROW_KEYWORDS or row.get("type") != "object" or not phases:
        return ()
    if row.get("additionalProperties", True) is not False or not all(isinstance(one, str) for one in phases):
        return ()
    conditions = [_condition(part) for part in row.get("allOf", ())]
    required = {*row.get("required", ()), *(key for one in conditions if one is not None for key in one.of_all)}
    if None in conditions or "ph" not in required or "name" not in row["properties"]:
        return ()
    return tuple(_kind(ph, row, [one for one in conditions if one is not None], extra) for ph in phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """An `if` on constants of ph and name, and its `then`."""

    phases: frozenset[str] | None
    names: frozenset[str] | None
    then: Mapping[str, Any]

    @property
    def of_all(self) -> tuple[str, ...]:
        """Keys that it requires of every event, whatever its kind and name."""
        return tuple(self.then.get("required", ())) if self.phases is self.names is None else ()


#: True for every event except an empty one: XLA writes a comma after each event, and ends its trace with an empty event.
_NOT_EMPTY = {"minProperties": 1}


def _condition(part: Mapping[str, Any]) -> _Condition | None:
    if part.keys() != {"if", "then"}:
        return None
    if part["if"] == _NOT_EMPTY:
        return _Condition(phases=None, names=None, then=part["then"])
    tested = part["if"].get("properties", {})
    if not part["if"].keys() <= {"properties", "required"} or not tested or not tested.keys() <= {"ph", "name"}:
        return None
    if set(part["if"].get("required", ())) != set(tested):
        return None
    constants: dict[str, frozenset[str]] = {}
    for key, schema in tested.items():
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is None or len(schema) != 1 or not all(isinstance(value, str) for value in values):
            return None
        constants[key] = frozenset(values)
    return _Condition(phases=constants.get("ph"), names=constants.get("name"), then=part["then"])


def _kind(
    ph: str, row: Mapping[str, Any], conditions: Sequence[_Condition], extra: Mapping[str, Iterable[str]]
) -> Kind:
    required = set(row.get("required", ()))
    rules: list[NameRule] = []
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
    extra_keys = [key for name in (ph, "*") for key in extra.get(name, ())]
    if any(rule.arguments is not None for rule in rules):
        # All arguments are kept, to validate them against that schema.
        extra_keys.append("*")
    checks: list[Check] = []
    fields: list[tuple[Any, ...]] = []
    for key, schema in properties.items():
        if key == "ph":
            continue
        if key == "args":
            # An event that jsonschema validates is encoded again from its raw values.
            kind, check = (Raw, []) if is_open else _arguments(schema, extra_keys)
        else:
            kind, check = _typed(key, schema)
        checks += check
        if key in required and not is_open:
            fields.append((attribute(key), kind, msgspec.field(name=key)))
        else:
            fields.append((attribute(key), _optional(kind), msgspec.field(default=UNSET, name=key)))
    # Fields without a default come first.
    needed = set() if is_open else {attribute(key) for key in required}
    struct = msgspec.defstruct(
        "Event",
        [one for one in fields if one[0] in needed] + [one for one in fields if one[0] not in needed],
        tag_field="ph",
        tag=ph,
        forbid_unknown_fields=True,
        gc=False,
    )
    tolerant = msgspec.defstruct(
        "Event", [], bases=(struct,), tag_field="ph", tag=ph, forbid_unknown_fields=False, gc=False
    )
    return Kind(
        ph=ph,
        struct=struct,
        tolerant=tolerant,
        checks=() if is_open else tuple(checks),
        name_rules=() if is_open else tuple(rules),
        keys=frozenset(properties),
        required=frozenset({"ph"} if is_open else required | {"ph"}),
        is_open=is_open,
    )


def _name_rule(names: frozenset[str], then: Mapping[str, Any]) -> NameRule | None:
    inside = then.get("properties", {})
    if not then.keys() <= {"required", "properties"} or not inside.keys() <= {"args"}:
        return None
    arguments, required = inside.get("args", {}), tuple(then.get("required", ()))
    if arguments.keys() <= {"required"}:
        return NameRule(names=names, required=required, required_arguments=tuple(arguments.get("required", ())))
    return NameRule(names=names, required=required, arguments=json.dumps(arguments))


def keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a schema that validate, without annotations."""
    return {key: value for key, value in schema.items() if key not in ("description", "title") and key[:2] != "x-"}


def _typed(key: str, schema: Mapping[str, Any], *, in_arguments: bool = False) -> tuple[Any, list[Check]]:
    """Return the type to decode a value as, and checks for what that type does not prove."""
    rules = keywords(schema)
    types = rules.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    check = [Check(key=key, schema=schema, in_arguments=in_arguments)]
    if key in TIMES and not in_arguments:
        return Raw, check
    if types == {"string"} and (rules.keys() == {"type"} or not in_arguments):
        return str, check if rules.keys() > {"type"} else []
    if not types and (rules.keys() == {"const"} or rules.keys() == {"enum"}):
        values = rules.get("enum", [rules.get("const")])
        if all(isinstance(value, str) for value in values):
            return Literal[tuple(values)], []
    if types == {"integer"} and rules.keys() <= {"type", *_INTEGER_BOUNDS}:
        # msgspec supports bounds of up to 64 bits.
        bounds = {_INTEGER_BOUNDS[k]: v for k, v in rules.items() if k != "type"}
        if all(isinstance(bound, int) and abs(bound) < 2**63 for bound in bounds.values()):
            return (_annotated(int, bounds) if bounds else int), []
    if types == {"integer", "string"} and rules.keys() == {"type"}:
        return Union[int, str], []  # noqa: UP007 - made at run time
    return Raw, check


def _optional(kind: Any) -> Any:
    # Raw takes any value, and cannot be part of a union.
    return kind if kind is Raw else Union[kind, UnsetType]  # noqa: UP007 - made at run time


def _annotated(kind: Any, bounds: Mapping[str, int]) -> Any:
    from typing import Annotated

    return Annotated[kind, msgspec.Meta(**bounds)]  # type: ignore[call-overload]


def _arguments(schema: Mapping[str, Any], extra: Iterable[str]) -> tuple[Any, list[Check]]:
    """Return the struct of an event's arguments: the keys that the schema or `extra` names; other keys are dropped."""
    if not keywords(schema).keys() <= {"type", "properties"} or schema.get("type") != "object":
        return Raw, [Check(key="args", schema=schema)]
    if "*" in extra:
        return Raw, [Check(key="args", schema=schema)]
    checks: list[Check] = []
    fields = []
    named = {**schema.get("properties", {}), **{key: {} for key in extra if key not in schema.get("properties", {})}}
    for key, part in named.items():
        kind, check = _typed(key, part, in_arguments=True) if part else (Raw, [])
        checks += check
        fields.append((attribute(key), _optional(kind), msgspec.field(default=UNSET, name=key)))
    return msgspec.defstruct("Arguments", fields, gc=False), checks
