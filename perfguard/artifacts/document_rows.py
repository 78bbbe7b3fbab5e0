"""Rows of JSON documents: the objects that a schema marks as rows of a table.

A schema names its tables in `x-tables`; a part of it with `x-rows` is a row of that table, `<slot>_<name>`. `about` describes
the table, and `keys` names the keys of the path to a row, null for those without a column. The other columns are the values of
the object, and of objects in it that are not rows themselves; `path` is its JSON path, and `parent` the number of the row
around it in another table. A row may be a list: with `prefixItems` it has a column for each place, else one value,
`numbers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfguard.artifacts.schema import RowSchema
from perfguard.artifacts.table import MAX_TEXT, Cells, Table, Unreadable
from perfguard.documents import schema

_ROWS, _TABLES = "x-rows", "x-tables"
#: The column with the JSON path of a row.
PATH = "path"
#: The column with the number of the row around a row, in the table of that one.
_PARENT = "parent"
#: The column of a list that is a row itself.
_NUMBERS = "numbers"
#: The number of rows that become columns together.
_BLOCK_ROWS = 4_096
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
#: The schema that allows any value; a single object, because parts are compared by identity.
_ANYTHING: Mapping[str, Any] = {}
#: A place in an object or a list, from the outermost.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RowKind:
    """The rows that a part of a schema describes: the end of their table's name, their keys, and the path of each value."""

    name: str
    keys: tuple[str | None, ...]
    #: By the name of the column, its path within the row and its part of the schema.
    values: Mapping[str, tuple[Path, Mapping[str, Any]]]


class _Parts:
    """The parts of a document's schema, by what they describe."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self._schema = RowSchema(root)
        self._leads: dict[int, bool] = {}
        self._kinds: dict[int, RowKind | None] = {}

    def resolved(self, part: Any) -> Mapping[str, Any]:
        """Return a part, or the part that it refers to."""
        target = self._schema.resolve(part["$ref"]) if isinstance(part, Mapping) and "$ref" in part else part
        return target if isinstance(target, Mapping) else _ANYTHING

    def below(self, part: Mapping[str, Any], key: str | int) -> Mapping[str, Any]:
        """Return the part for the value of a key."""
        if isinstance(key, int):
            first = part.get("prefixItems", ())
            return self.resolved(first[key] if key < len(first) else part.get("items", _ANYTHING))
        if key in part.get("properties", {}):
            return self.resolved(part["properties"][key])
        patterns = part.get("patternProperties", {})
        named = (one for pattern, one in patterns.items() if re.search(pattern, key))
        return self.resolved(next(named, part.get("additionalProperties", _ANYTHING)))

    def leads_to_rows(self, part: Mapping[str, Any]) -> bool:
        """Whether a part is a row or has rows in it."""
        if id(part) not in self._leads:
            self._leads[id(part)] = False
            self._leads[id(part)] = _ROWS in part or any(map(self.leads_to_rows, self._children(part)))
        return self._leads[id(part)]

    def _children(self, part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        several = (part.get("properties", {}), part.get("patternProperties", {}))
        for one in (*(one for parts in several for one in parts.values()), *part.get("prefixItems", ())):
            yield self.resolved(one)
        for key in ("additionalProperties", "items"):
            yield self.resolved(part.get(key, _ANYTHING))

    def kinds(self) -> Iterator[tuple[RowKind, bool]]:
        """Yield the kinds of rows, and whether they are inside others."""
        waiting, seen = [(self.resolved(self.root), False)], set[int]()
        while waiting:
            part, is_inner = waiting.pop(0)
            if id(part) in seen or not self.leads_to_rows(part):
                continue
            seen.add(id(part))
            kind = self.kind(part)
            if kind is not None:
                yield kind, is_inner
            waiting += [(child, is_inner or kind is not None) for child in self._children(part)]

    def kind(self, part: Mapping[str, Any]) -> RowKind | None:
        """Return the rows that a part describes, or None."""
        if id(part) not in self._kinds:
            name = part.get(_ROWS)
            keys = tuple(self.root[_TABLES][name]["keys"]) if name is not None else ()
            self._kinds[id(part)] = RowKind(name, keys, dict(self._values(part, ()))) if name is not None else None
        return self._kinds[id(part)]

    def _values(self, part: Mapping[str, Any], path: Path) -> Iterator[tuple[str, tuple[Path, Mapping[str, Any]]]]:
        if not path and "items" in part:
            yield _NUMBERS, ((), part)
        places: list[tuple[str | int, Any]] = [
            *part.get("properties", {}).items(),
            *enumerate(part.get("prefixItems", ())),
        ]
        for key, one in places:
            inner = self.resolved(one)
            if _ROWS in inner:
                continue
            if "properties" in inner:
                yield from self._values(inner, (*path, key))
            elif not self.leads_to_rows(inner):
                yield inner.get("x-name", str(key)), ((*path, key), inner)


@cache
def _parts(version: str) -> _Parts:
    return _Parts(schema(version))


@cache
def row_kinds(version: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the tables of a schema's documents: by the end of the name, the columns with their schemas."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for kind, is_inner in _parts(version).kinds():
        columns = found.setdefault(kind.name, {PATH: {"type": "string"}})
        columns |= {_PARENT: {"type": "integer"}} if is_inner else {}
        columns |= {key: {"type": "string"} for key in kind.keys if key is not None}
        columns |= {name: part for name, (_, part) in kind.values.items()}
    return found


def table_meanings(version: str) -> dict[str, str]:
    """Return the descriptions of the tables for the documents of a schema, by the ends of their names."""
    return {name: table["about"] for name, table in schema(version).get(_TABLES, {}).items()}


def document_rows(document: Any, version: str) -> Iterator[tuple[str, Table]]:
    """Yield the rows of a valid document: blocks of JSON texts, each with the end of its table's name.

    Rows are numbered from 0 in each table (`lines`). Raises `Unreadable` for a value that is too long.
    """
    parts = _parts(version)
    blocks = {name: _Block() for name in row_kinds(version)}
    if not blocks:
        return
    for name in _collected(parts, blocks, parts.resolved(parts.root), document, _Place("$", (), None)):
        yield name, blocks[name].taken()
    for name, block in blocks.items():
        if block.rows:
            yield name, block.taken()


class _Block:
    """Rows of one table that are collected and then converted to columns together."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []
        self._first = 0

    def add(self, row: dict[str, str]) -> int:
        """Add a row; return its number."""
        self.rows.append(row)
        return self._first + len(self.rows) - 1

    def taken(self) -> Table:
        """Return and remove the collected rows, with the columns that have values."""
        import polars as pl

        columns = dict.fromkeys(column for row in self.rows for column in row)
        frame = pl.DataFrame(
            [pl.Series(column, [row.get(column) for row in self.rows], dtype=pl.String) for column in columns]
        )
        lines = range(self._first, self._first + len(self.rows))
        self._first += len(self.rows)
        self.rows = []
        return Table(frame=frame, cells=Cells.JSON, lines=lines)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a document: its JSON path, its keys as JSON, and the number of the row around it."""

    path: str
    keys: tuple[str, ...]
    parent: int | None

    def under(self, key: str | int, parent: int | None) -> _Place:
        """Return the place of the value of a key."""
        return _Place(self.path + _step(key), (*self.keys, json.dumps(str(key))), parent)


def _collected(
    parts: _Parts, blocks: Mapping[str, _Block], part: Mapping[str, Any], value: Any, place: _Place
) -> Iterator[str]:
    """Put rows into their blocks; yield the name of each full block."""
    parent = place.parent
    if (kind := parts.kind(part)) is not None:
        block = blocks[kind.name]
        parent = block.add(_row(kind, value, place))
        if len(block.rows) == _BLOCK_ROWS:
            yield kind.name
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        below = parts.below(part, key)
        if parts.leads_to_rows(below):
            yield from _collected(parts, blocks, below, one, place.under(key, parent))


def _row(kind: RowKind, value: Any, place: _Place) -> dict[str, str]:
    row = {PATH: json.dumps(place.path)}
    if place.parent is not None:
        row[_PARENT] = str(place.parent)
    row |= {name: key for name, key in zip(kind.keys, place.keys, strict=False) if name is not None}
    for name, (inner, _) in kind.values.items():
        one = _under(value, inner)
        if one is not None:
            row[name] = repr(one) if type(one) in (int, float) else json.dumps(one)
    if (longest := max(map(len, row.values()))) > MAX_TEXT:
        raise Unreadable(
            f"a value has {longest} characters, more than the {MAX_TEXT} that are read", f" {place.path[:200]}"
        )
    return row


def _under(value: Any, path: Path) -> Any:
    """Return the value at a path, or None."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None
    return value


def _step(key: str | int) -> str:
    """Return one step of a JSON path, as in `$.step5.collective['hcom_send_@1'][3]`."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{key!r}]"
