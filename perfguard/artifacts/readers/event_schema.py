"""The schema of a trace's events, compiled to a decoder that proves most of it.

A trace has millions of events, so none of them becomes a dictionary. The row schema is compiled to a typed struct for each
kind of event (`ph`): decoding proves types, bounds of integers, required and unknown keys. What a type cannot say is left as
checks, of columns and of names.
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
    """What decoding does not prove of one key: `schema` is what its values must still keep."""

    key: str
    schema: Mapping[str, Any]
    #: Inside the arguments, and not of the event itself.
    in_arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
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
    checks: tuple[Check, ...] = ()
    name_rules: tuple[NameRule, ...] = ()
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
    wanted: Mapping[str, Iterable[str]]
    kinds: tuple[Kind, ...]
    rows: RowSchema
    #: By the schema of arguments and the arguments, both as JSON: whether they keep it. Ranks tell the same again and again.
    kept: dict[tuple[str, bytes], bool] = field(default_factory=dict)

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
    return EventSchema(row=row, root=root, wanted=wanted, kinds=_kinds(row, wanted), rows=RowSchema(row, root))


_ROW_KEYWORDS = frozenset({"type", "additionalProperties", "required", "properties", "allOf", "description", "title"})


def _kinds(row: Mapping[str, Any], wanted: Mapping[str, Iterable[str]]) -> tuple[Kind, ...]:
    phases = row.get("properties", {}).get("ph", {}).get("enum", ())
    if not row.keys() <= _ROW_KEYWORDS or row.get("type") != "object" or not phases:
        return ()
    if row.get("additionalProperties", True) is not False or not all(isinstance(one, str) for one in phases):
        return ()
    conditions = [_condition(part) for part in row.get("allOf", ())]
    required = {*row.get("required", ()), *(key for one in conditions if one is not None for key in one.of_all)}
    if None in conditions or "ph" not in required or "name" not in row["properties"]:
        return ()
    return tuple(_kind(ph, row, [one for one in conditions if one is not None], wanted) for ph in phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """An `if` on constants of ph and name, and its `then`."""

    phases: frozenset[str] | None
    names: frozenset[str] | None
    then: Mapping[str, Any]

    @property
    def of_all(self) -> tuple[str, ...]:
        """Keys that it requires of events of any kind and name."""
        return tuple(self.then.get("required", ())) if self.phases is self.names is None else ()


#: Holds for every event but an empty one: what writes a comma behind each event ends its trace with that (XLA).
_NOT_EMPTY = {"minProperties": 1}


def _condition(part: Mapping[str, Any]) -> _Condition | None:
    if part.keys() != {"if", "then"}:
        return None
    if part["if"] == _NOT_EMPTY:
        return _Condition(phases=None, names=None, then=part["then"])
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
    extra = [key for name in (ph, "*") for key in wanted.get(name, ())]
    if any(rule.arguments is not None for rule in rules):
        # All of them are kept, to be held against that schema.
        extra.append("*")
    checks: list[Check] = []
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


def _name_rule(names: frozenset[str], then: Mapping[str, Any]) -> NameRule | None:
    inside = then.get("properties", {})
    if not then.keys() <= {"required", "properties"} or not inside.keys() <= {"args"}:
        return None
    arguments, required = inside.get("args", {}), tuple(then.get("required", ()))
    if arguments.keys() <= {"required"}:
        return NameRule(names=names, required=required, required_arguments=tuple(arguments.get("required", ())))
    return NameRule(names=names, required=required, arguments=json.dumps(arguments))


def keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a schema demands: without what only describes it."""
    return {key: value for key, value in schema.items() if key not in ("description", "title") and key[:2] != "x-"}


def _typed(key: str, schema: Mapping[str, Any], *, in_arguments: bool = False) -> tuple[Any, list[Check]]:
    """Return the type that a value is decoded as, and what that type does not prove."""
    says = keywords(schema)
    types = says.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    check = [Check(key=key, schema=schema, in_arguments=in_arguments)]
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


def _arguments(schema: Mapping[str, Any], wanted: Iterable[str]) -> tuple[Any, list[Check]]:
    """Return the struct of an event's arguments: what the schema names, what is wanted, and nothing else is kept."""
    if not keywords(schema).keys() <= {"type", "properties"} or schema.get("type") != "object":
        return Raw, [Check(key="args", schema=schema)]
    if "*" in wanted:
        return Raw, [Check(key="args", schema=schema)]
    checks: list[Check] = []
    fields = []
    named = {**schema.get("properties", {}), **{key: {} for key in wanted if key not in schema.get("properties", {})}}
    for key, part in named.items():
        kind, check = _typed(key, part, in_arguments=True) if part else (Raw, [])
        checks += check
        fields.append((attribute(key), _optional(kind), msgspec.field(default=UNSET, name=key)))
    return msgspec.defstruct("Arguments", fields, gc=False), checks
