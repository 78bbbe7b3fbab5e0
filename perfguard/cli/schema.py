"""`perfguard schema list | show`: the catalogue of what perfguard knows."""

from __future__ import annotations

import json
from typing import Any

import click

from perfguard.cli.commands import CommandGroup
from perfguard.errors import UsageError, nearest


@click.group(name="schema", cls=CommandGroup)
def command() -> None:
    """Show what perfguard knows: artifacts, layouts and its own formats."""


@command.command(name="list")
def list_() -> None:
    """List every schema: name, layouts it is used in, title."""
    from tabulate import tabulate

    from perfguard.contract.layout import layouts
    from perfguard.documents import schema, schema_names

    used: dict[str, list[str]] = {}
    for layout in layouts():
        for slot in layout.slots:
            if slot.schema:
                used.setdefault(slot.schema, []).append(f"{layout.id}: {slot.path}")
    rows = [(name, "\n".join(used.get(name, ["perfguard's own"])), schema(name)["title"]) for name in schema_names()]
    click.echo(tabulate(rows, headers=("schema", "where", "what it describes")))


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the schema itself.")
def show(name: str, as_json: bool) -> None:
    """Show one schema: its columns with type, unit and meaning."""
    from tabulate import tabulate

    from perfguard.documents import schema, schema_names

    if name not in schema_names():
        hint = nearest(name, schema_names(), otherwise="list them with: perfguard schema list")
        raise UsageError(f"There is no schema named {name!r}; {hint}")
    found = schema(name)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    click.echo(f"{name}: {found['title']}")
    click.echo(f"source: {found.get('$comment', '-')}")
    click.echo("")
    row = _row(found)
    required = row.get("required", ())
    rows = [
        (key, _type(part), part.get("x-unit", ""), "yes" if key in required else "", part.get("description", ""))
        for key, part in row.get("properties", {}).items()
    ]
    click.echo(tabulate(rows, headers=("column", "type", "unit", "required", "meaning")))


def _row(found: dict[str, Any]) -> dict[str, Any]:
    from perfguard.contract.readers.trace import event_schema

    is_table = "items" in found or "traceEvents" in found.get("properties", {})
    return dict(event_schema(found)) if is_table else found


def _type(part: dict[str, Any]) -> str:
    if "const" in part:
        return f"always {part['const']!r}"
    if "enum" in part:
        return "one of " + ", ".join(map(str, part["enum"]))
    kind = part.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)
