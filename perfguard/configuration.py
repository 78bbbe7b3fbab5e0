"""Configurations: a JSON Schema says what their values must be, and every violation reads "KEY must be X, got Y".

The schemas are in schemas/configurations: perfguard's settings, MindFormers' YAML, MindSpeed-MM's tools.json, the profilers'
options. jsonschema does not check them: it accepts 1.0 as an integer, and quotes values at full length, to which aliases in
YAML can give 2**60 entries. Annotations besides JSON Schema's own: `x-must` completes "KEY must be ...", `x-alone` accepts an
item without its list, `x-any-case` ignores the case of `enum`, `x-bits` bounds integers, `x-most` is a `maximum` for this
module alone, and `x-below` says how another tool reads a number that is too small.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfguard.documents import schema
from perfguard.errors import UsageError, nearest
from perfguard.screen import one_line, shown

Schema = Mapping[str, Any]

#: Likeness from which a name counts as a misspelling of another one.
_NEAR = 0.86
_TYPES: dict[str, Any] = {"boolean": bool, "string": str, "object": Mapping, "array": (list, tuple), "null": type(None)}


@cache
def configuration_schema(name: str) -> Schema:
    """Return the schema of a configuration, with its `$defs` in the place of references to them."""
    document = schema(name)

    def expanded(part: Any) -> Any:
        if isinstance(part, list):
            return [expanded(one) for one in part]
        if not isinstance(part, dict):
            return part
        target = document["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else {}
        return {key: expanded(value) for key, value in {**target, **part}.items() if key != "$ref"}

    found: Schema = expanded(document)
    return found


# -- one value -----------------------------------------------------------------------------------------------------------


def violation(value: Any, schema: Schema) -> str:
    """Return "must be ..., got ..." for a value that breaks its schema, and an empty text for one that keeps it."""
    return "" if holds(value, schema) else f"must be {wording(schema)}, got {shown(value)}{_hint(value, schema)}"


def holds(value: Any, schema: Schema) -> bool:
    """Whether a value keeps its schema. The keys of objects are not looked at: see `Section`."""
    if value is None:
        return "null" in schema.get("type", ()) or None in schema.get("enum", ())
    if schema.get("x-alone") and not isinstance(value, (list, tuple)):
        return holds(value, schema["items"])
    return all(check(value, schema[key], schema) for key, check in _KEYWORDS.items() if key in schema)


def wording(schema: Schema) -> str:
    """Return what a value must be, to complete the sentence "KEY must be ..."."""
    if "x-must" in schema:
        return str(schema["x-must"])
    if "enum" in schema:
        return f"one of {_listed(schema)}"
    if "items" in schema:
        least = "at least one of " if schema.get("minItems") else ""
        return f"a list of {least}{_listed(schema['items']) if 'enum' in schema['items'] else 'strings'}"
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind in ("integer", "number"):
        return _range(schema, "an integer" if kind == "integer" else "a number")
    if kind == "string" and "format" in schema:
        return "a path"
    if kind == "string" and "minLength" in schema:
        return "a string that is not empty"
    return {"boolean": "true or false", "object": 'an object, {"key": value, ...}'}.get(kind, f"a {kind}")


def is_integer(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is an integer of a range; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def misspelt(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name is meant to be, or is; empty if none is nearly the same."""
    return next(iter(difflib.get_close_matches(name, [*known], n=1, cutoff=_NEAR)), "")


def _is_a(value: Any, kind: str) -> bool:
    if kind == "integer":
        return is_integer(value)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


def _is_of_type(value: Any, kinds: str | list[str], _: Schema) -> bool:
    return any(_is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _is_among(value: Any, names: list[Any], schema: Schema) -> bool:
    if schema.get("x-any-case"):
        return isinstance(value, str) and value.lower() in [name.lower() for name in names]
    return isinstance(value, str) and value in names


def _is_path(value: str, _: str, __: Schema) -> bool:
    if not value.strip() or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


#: The check of each keyword, of a value, the keyword's own value and the schema; the type is checked before the others.
_KEYWORDS: dict[str, Callable[[Any, Any, Schema], bool]] = {
    "type": _is_of_type,
    "enum": _is_among,
    "minimum": lambda value, least, _: not _is_a(value, "number") or least <= value < math.inf,
    "maximum": lambda value, most, _: not _is_a(value, "number") or value <= most,
    "x-most": lambda value, most, _: value <= most,
    "x-bits": lambda value, bits, _: not is_integer(value) or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1),
    "const": lambda value, one, _: type(value) is type(one) and value == one,
    "not": lambda value, schema, _: not holds(value, schema),
    "minLength": lambda value, least, _: not isinstance(value, str) or len(value) >= least,
    "format": _is_path,
    "minItems": lambda value, least, _: len(value) >= least,
    "contains": lambda value, item, _: any(holds(one, item) for one in value),
    "items": lambda value, item, _: all(holds(one, item) for one in value),
}


def _names(schema: Schema) -> list[str]:
    """Return the allowed names, each in one case."""
    names = [name for name in schema["enum"] if name is not None]
    return [*{name.lower(): name for name in reversed(names)}.values()][::-1] if schema.get("x-any-case") else names


def _listed(schema: Schema) -> str:
    return ", ".join(_names(schema))


def _range(schema: Schema, what: str) -> str:
    least, most = schema.get("minimum"), schema.get("maximum", schema.get("x-most"))
    if least is None:
        return what
    return f"{what} of at least {least}" if most is None else f"{what} from {least} to {most}"


def _hint(value: Any, schema: Schema) -> str:
    """Return what to write instead, in parentheses; empty if that is not known."""
    hint = ""
    if isinstance(value, (list, tuple)) and "items" in schema:
        wrong = [one for one in value if not holds(one, schema["items"])]
        hint = f"{shown(wrong[0])} is not {wording(schema['items'])}" if wrong else ""
    elif isinstance(value, str) and "enum" in schema:
        hint = nearest(one_line(value), _names(schema), otherwise="")
    elif isinstance(value, str) and "boolean" in schema.get("type", ()) and value.lower() in ("true", "false"):
        hint = "write it without quotes"
    elif "x-below" in schema and is_integer(value) and value < schema["minimum"]:
        hint = schema["x-below"]
    return f" ({hint})" if hint else ""


# -- an object -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """One object of a configuration: its values, their schema, the file's name, and the object's path in the file."""

    plain: Mapping[Any, Any]
    schema: Schema
    source: str
    at: str = ""

    @classmethod
    def of(cls, plain: object, schema: Schema, source: str, at: str = "") -> Section:
        """Return the section of an object. Raises `UsageError` for anything else."""
        if not isinstance(plain, Mapping):
            name = f"{source}: {at}" if at else source
            raise UsageError(f"{name} must be {wording({'type': 'object'} | dict(schema))}, got {shown(plain)}.")
        return cls(plain, schema, source, at)

    def __contains__(self, key: str) -> bool:
        return key in self.plain

    def name(self, key: str) -> str:
        """Return the path of a key in the file."""
        return f"{self.at}.{key}" if self.at else key

    def take(self, key: str, *, needed: bool = False) -> Any:
        """Return the value of a key, its default without one or for a null that is allowed.

        Paths are `Path`s, an item without its list is a list of one, and an object has the values of the keys it is given.
        Raises `UsageError` for a value that breaks its schema, and without one that is `needed`.
        """
        schema = self.schema["properties"][key]
        value = self.plain.get(key, schema.get("default"))
        if needed and key not in self.plain:
            raise self.error(key, "is missing")
        if key in self.plain and (broken := violation(value, schema)):
            raise self.error(key, broken)
        value = schema.get("default") if value is None else value
        if "properties" in schema and not self.is_null(key):
            return self.section(key).given()
        if schema.get("x-alone"):
            return [*value] if isinstance(value, (list, tuple)) else [value]
        return Path(value) if schema.get("format") == "path" and value is not None else value

    def read(self, *, needed: bool = False) -> dict[str, Any]:
        """Return the values of all keys but those of objects. Raises `UsageError` as `take` does, and for an unknown key.

        With `needed` the keys must be there that the schema requires.
        """
        self.refuse_unknown()
        required = self.schema.get("required", ()) if needed else ()
        parts = self.schema["properties"].items()
        return {key: self.take(key, needed=key in required) for key, part in parts if "object" not in part["type"]}

    def given(self) -> dict[str, Any]:
        """Return the values of the keys that the object has. Raises `UsageError`."""
        self.refuse_unknown()
        return {key: self.take(key) for key in self.plain}

    def section(self, key: str) -> Section:
        """Return the object at a key, and an empty one without the key."""
        return Section.of(self.plain.get(key, {}), self.schema["properties"][key], self.source, self.name(key))

    def is_null(self, key: str) -> bool:
        """Whether a value is null or missing."""
        return self.plain.get(key) is None

    def error(self, key: str, problem: str) -> UsageError:
        """Return the error about a key: "FILE: KEY PROBLEM."."""
        source = f"{self.source}: " if self.source else ""
        return UsageError(f"{source}{self.name(key)} {problem}{'' if problem.endswith(('.', '?')) else '.'}")

    def unknown(self, key: str, known: Iterable[str]) -> str:
        """Return the note about a key that is none of the `known` ones; empty for one of them.

        Raises `UsageError` for a misspelt one. For objects in which other programs have keys, too.
        """
        near = misspelt(key.lower(), known)
        if near and near != key:
            raise self.error(key, f"is not a key that perfguard knows; did you mean {near!r}?")
        return "" if near else f"{self.name(key)} is not a key that perfguard knows, so it has no part in what is read."

    def refuse_unknown(self) -> None:
        """Raise `UsageError` for a key that the schema lacks, with the nearest of its keys."""
        names = list(self.schema["properties"])
        for key in self.plain:
            if key not in names:
                raise self.error(one_line(str(key)), f"is not a known key; {nearest(one_line(str(key)), names)}")
