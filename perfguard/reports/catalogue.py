"""The catalogue: every layout, file, column and condition perfguard knows, from the JSON files that `check` uses itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.layout import Layout, Slot, layouts
from perfguard.artifacts.readers import OPAQUE
from perfguard.artifacts.schema import is_table, row_schema
from perfguard.documents import schema, schema_names
from perfguard.reports.names import cut

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
    return part


def _type(part: Mapping[str, Any]) -> str:
    if "const" in part:
        return f"always {part['const']!r}"
    if "enum" in part:
        return "one of " + ", ".join(map(str, part["enum"]))
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
        "# What perfguard knows of the profilers' output\n",
        "This page is written by `perfguard schema list --markdown > schemas/CATALOGUE.md`; a test fails when it is stale. "
        "The layouts are the files in `layouts/`, the columns those in `artifacts/`.\n",
        "A file is required *when* its conditions are known to hold. They come from the files themselves, or from "
        "`perfguard check DIR --expect graph,memory,no-shapes,ranks=8`:\n",
        _table(("condition", "on means"), CONDITIONS.items()),
    ]
    for layout in layouts():
        parts += _layout_page(layout)
    parts.append("\n## Columns\n")
    for name in dict.fromkeys(n for layout in layouts() for slot in layout.slots for n in slot.schemas):
        found = schema(name)
        parts.append(f"\n### {name}\n\n{found['title']}. Source: {found.get('$comment', '-')}\n")
        rows = list(columns(name))
        if rows:
            parts.append(_table(("column", "type", "unit", "required", "meaning"), rows))
    return "\n".join(parts)


def _layout_page(layout: Layout) -> Iterator[str]:
    yield f"\n## {layout.id}\n"
    kinds = {"directory": "a directory", "file": "a file", "parent": "a directory of cycles of other layouts"}
    ranks = " It may hold files of many ranks, told apart by `{rank}`." if layout.ranks == "suffix" else ""
    yield f"{layout.title}. One cycle is {kinds[layout.cycle]}.{ranks} Source: {layout.source}\n"
    ways = []
    for way in layout.recognise:
        parts = [f"its name matches `{way.name}`"] if way.name else []
        parts += [f"its path matches `{way.path}`"] if way.path else []
        parts += ["it holds " + " or ".join(f"`{glob}`" for glob in way.contains)] if way.contains else []
        parts += [f"`{glob}` says `{text}`" for glob, text in way.texts.items()]
        parts += ["it has no " + ", no ".join(f"`{glob}`" for glob in way.lacks)] if way.lacks else []
        ways.append(" and ".join(parts))
    yield "Recognised when " + "; or when ".join(ways) + ".\n"
    if layout.slots:
        rows = [
            (f"`{slot.path}`", condition(slot), ", ".join(slot.schemas) or slot.format, meaning(slot))
            for slot in layout.slots
        ]
        yield _table(("file", "required", "schema", "what it holds"), rows)


def _table(headers: tuple[str, ...], rows: Any) -> str:
    lines = [f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    for row in rows:
        cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
