"""The catalogue: every layout, file, column and condition perfguard knows, from the JSON files that `check` uses itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.layout import Layout, Slot, layouts
from perfguard.artifacts.readers import OPAQUE
from perfguard.artifacts.schema import is_table, row_schema
from perfguard.documents import schema, schema_names
from perfguard.reports.prose import code, prose, sentence, table
from perfguard.screen import cut

#: How deep the keys of a JSON document are listed.
_DEPTH = 4
#: Names of columns are cut to this in a table on the terminal; patterns of names can be long.
_LONGEST = 70


def meaning(slot: Slot) -> str:
    """Return one line on what a slot's file holds."""
    if slot.schemas:
        return str(schema(slot.schemas[0])["title"])
    return {
        "log": "The profiler's own log",
        "ir": "A graph of the compiler, as text",
        "dot": "A graph of the compiler, for Graphviz",
        OPAQUE: "Raw data; known to be there, not opened",
    }.get(slot.format, "")


def condition(slot: Slot) -> str:
    """Return when a slot's file must be there, in the words of `--expect`."""
    if slot.required in ("always", "optional", "never"):
        return slot.required
    otherwise = ", never otherwise" if slot.otherwise == "never" else ""
    return f"when {slot.required.replace('!', 'no-')}{otherwise}"


def columns(name: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield every column (or key) of a schema: name, type, unit, whether required, meaning."""
    found = schema(name)
    if is_table(found):
        yield from _keys(row_schema(found), found, "", 0)
    elif found.get("type") == "object" or "properties" in found:
        yield from _keys(found, found, "", 0)
    else:
        yield "(the whole file)", _type(found), _unit(found, found), "yes", found.get("description", "")


def _keys(
    node: Mapping[str, Any], root: Mapping[str, Any], prefix: str, depth: int
) -> Iterator[tuple[str, str, str, str, str]]:
    required = node.get("required", ())
    named = {**node.get("properties", {}), **node.get("patternProperties", {})}
    if isinstance(others := node.get("additionalProperties"), Mapping):
        named["<any>"] = others
    for key, found in named.items():
        part = _target(found, root)
        shown = f"{prefix}{key}"
        yield shown, _type(part), _unit(part, root), "yes" if key in required else "", part.get("description", "")
        inner = _target(part.get("items", part), root) if isinstance(part.get("items", part), Mapping) else part
        if depth < _DEPTH and (inner.keys() & {"properties", "patternProperties"} or _any_key(inner)):
            yield from _keys(inner, root, f"{shown}[]." if inner is not part else f"{shown}.", depth + 1)


def _any_key(node: Mapping[str, Any]) -> bool:
    """Whether a document has keys that only the data know, such as operators' names."""
    return isinstance(node.get("additionalProperties"), Mapping) and "properties" in str(node["additionalProperties"])


def _target(part: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a local reference; what is said beside it goes first."""
    if not isinstance(part, Mapping):
        return {}
    if isinstance(reference := part.get("$ref"), str) and reference.startswith("#/"):
        found: Any = reduce(getitem, reference[2:].split("/"), root)
        return {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    others = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
    if len(others) == 1 and "properties" in others[0]:
        # An object, or null.
        return {**others[0], "type": ["object", "null"], **{key: part[key] for key in part if key != "anyOf"}}
    return part


def _type(part: Mapping[str, Any]) -> str:
    if "const" in part:
        return f"always {part['const']!r}"
    if "enum" in part:
        return "one of " + ", ".join("null" if one is None else str(one) for one in part["enum"])
    kind = part.get("type", "any")
    text = kind if isinstance(kind, str) else " or ".join(kind)
    return "number or N/A" if part.get("pattern") == "^N/A$" else text


def _unit(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "x-unit" in part:
        return str(part["x-unit"])
    items = _target(part.get("items"), root)
    return str(items.get("x-unit", ""))


def list_rows(shown: Iterable[Layout], *, with_columns: bool) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield file, layout, condition, schemas and meaning of every slot; with the columns and units below where asked."""
    for layout in shown:
        for slot in layout.slots:
            yield slot.path, layout.id, condition(slot), ", ".join(slot.schemas) or slot.format, meaning(slot)
            for name in slot.schemas if with_columns else ():
                for column, kind, unit, _, text in columns(name):
                    yield f"- {cut(column, _LONGEST)}", "", unit or kind, "", text


def own_schemas() -> list[str]:
    """Return the schemas of perfguard's own documents, which no layout uses."""
    used = {name for layout in layouts() for slot in layout.slots for name in slot.schemas}
    return [name for name in schema_names() if name not in used]


def markdown() -> str:
    """Return the whole catalogue as a page."""
    parts = [
        "# Layouts, files and columns\n",
        "A *layout* is one dialect of profiler output: which files there are, when each must be there, and the schema of each. "
        "`perfguard check` recognises layouts by their files, and validates every file with its schema. A file is required "
        "*when* all its conditions are known to hold. Conditions come from the files themselves, or from "
        "`perfguard check DIR --expect graph,memory,no-shapes,ranks=8`.\n",
        "`perfguard schema list --markdown` prints this page, with the layouts of other installed distributions.\n",
        "## All layouts\n",
        table(
            ("layout", "what wrote it"),
            ((f"[{one.id}](#layout-{slug(one.id)})", prose(one.title)) for one in layouts()),
        ),
        "\n## Conditions\n",
        table(("condition", "on means"), ((code(name), prose(text)) for name, text in CONDITIONS.items())),
    ]
    for layout in layouts():
        parts += _layout_page(layout)
    parts.append("\n## Columns\n")
    parts.append(
        "Each schema is a file in `schemas/artifacts`; `perfguard schema show NAME` prints it. Versions of a file have a "
        "schema each, and the first that fits counts. [Tables](tables.md) lists the same columns in SQL."
    )
    for name in dict.fromkeys(n for layout in layouts() for slot in layout.slots for n in slot.schemas):
        found = schema(name)
        parts.append(f"\n(schema-{slug(name)})=\n### {name}\n")
        parts.append(f"{sentence(found['title'])} Source: {prose(found.get('$comment', '-'))}\n")
        if rows := list(columns(name)):
            parts.append(column_table(rows))
    return "\n".join(parts)


def column_table(rows: Iterable[tuple[str, str, str, str, str]], title: str = "column") -> str:
    """Return a table of what `columns` yields."""
    cells = (
        (code(name), prose(kind) + ("" if needed else ", optional"), prose(unit), prose(text))
        for name, kind, unit, needed, text in rows
    )
    return table((title, "type", "unit", "meaning"), cells)


def slug(name: str) -> str:
    """Return a name as part of an anchor: lower case, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _layout_page(layout: Layout) -> Iterator[str]:
    yield f"\n(layout-{slug(layout.id)})=\n## {layout.id}\n"
    kinds = {"directory": "a directory", "file": "a file", "parent": "a directory of cycles of other layouts"}
    ranks = " It may hold files of many ranks, told apart by `{rank}`." if layout.ranks == "suffix" else ""
    yield f"{sentence(layout.title)} One cycle is {kinds[layout.cycle]}.{ranks} Source: {prose(layout.source)}\n"
    ways = []
    for way in layout.recognise:
        parts = [f"its name matches {code(way.name)}"] if way.name else []
        parts += [f"its path matches {code(way.path)}"] if way.path else []
        parts += ["it holds " + " or ".join(map(code, way.contains))] if way.contains else []
        parts += [f"{code(glob)} says {code(text)}" for glob, text in way.texts.items()]
        parts += ["it has no " + ", no ".join(map(code, way.lacks))] if way.lacks else []
        ways.append(" and ".join(parts))
    yield "Recognised when " + "; or when ".join(ways) + ".\n"
    if layout.slots:
        yield table(
            ("file", "required", "schema", "what it holds"),
            (
                (
                    code(slot.path),
                    condition(slot),
                    ", ".join(f"[{name}](#schema-{slug(name)})" for name in slot.schemas) or slot.format,
                    prose(meaning(slot)),
                )
                for slot in layout.slots
            ),
        )
