"""`perfguard schema list | show` and `perfguard codes`: the catalogues of what perfguard knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import echo_json, echo_plain
from perfguard.errors import UsageError, nearest

if TYPE_CHECKING:
    from perfguard.contract.grid import Cell


@click.group(name="schema", cls=options.CommandGroup)
def command() -> None:
    """Show the layouts, files and columns that perfguard knows."""


@command.command(name="list")
@click.argument("layout_name", metavar="[LAYOUT]", required=False)
@options.flag("--columns", "with_columns", help="Show the columns of every file with their units.")
@options.flag("--markdown", "as_markdown", help="Print all layouts, files and columns as a page in Markdown.")
def list_(layout_name: str | None, with_columns: bool, as_markdown: bool) -> None:
    """List the files of all layouts, or of LAYOUT.

    It shows the path and layout of each, when it must be there, and what it holds.
    """
    from tabulate import tabulate

    from perfguard.artifacts.layout import layout_named, layouts
    from perfguard.documents import schema
    from perfguard.reports import catalogue

    if as_markdown:
        if layout_name is not None:
            raise UsageError("--markdown prints the whole catalogue, so it takes no layout; leave one of the two out.")
        echo_plain(catalogue.markdown())
        return
    shown = layouts() if layout_name is None else (layout_named(layout_name),)
    if not any(layout.slots for layout in shown):
        echo_plain(f"{shown[0].id} has no files of its own: {shown[0].title}")
        return
    rows = [*catalogue.list_rows(shown, with_columns=with_columns)]
    if layout_name is None:
        rows += [("", "perfguard's own", "", name, schema(name)["title"]) for name in catalogue.own_schemas()]
    condition = "required, unit" if with_columns else "required"
    headers = ("file", "layout", condition, "schema", "what it holds")
    echo_plain(tabulate(rows, headers=headers, disable_numparse=True))


@command.command()
@click.argument("name")
@options.flag("--json", "as_json", help="Print the schema itself.")
def show(name: str, as_json: bool) -> None:
    """Show a schema: its columns with type, unit and meaning.

    The name of a file shows all its versions.
    """
    from tabulate import tabulate

    from perfguard.artifacts.layout import layouts
    from perfguard.documents import schema, schema_names
    from perfguard.reports.catalogue import columns

    known = schema_names()
    found = [name] if name in known else [one for one in known if one.startswith(f"{name}.")]
    if not found:
        if name in {layout.id for layout in layouts()}:
            raise UsageError(f"{name} is a layout, not a file; list its files with: perfguard schema list {name}")
        # The name of a file stands for all its versions, and goes before them.
        files = dict.fromkeys(one.partition(".")[0] for one in known)
        hint = nearest(name, [*files, *known], otherwise="list them with: perfguard schema list")
        raise UsageError(f"There is no schema named {name!r}; {hint}")
    if as_json:
        documents = [schema(one) for one in found]
        echo_json(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2, ensure_ascii=False))
        return
    for one in found:
        echo_plain(f"{one}: {schema(one)['title']}")
        echo_plain(f"source: {schema(one).get('$comment', '-')}")
        click.echo("")
        echo_plain(tabulate([*columns(one)], headers=("column", "type", "unit", "required", "meaning")))
        click.echo("" if one == found[-1] else "\n")


@click.command(name="codes")
@click.argument("names", nargs=-1, metavar="[CODE ...]")
@options.flag("--grid", "as_grid", help="Show which invariant is checked for which kind of output, and which is not.")
def codes(names: tuple[str, ...], as_grid: bool) -> None:
    """List the finding codes: headline, severity, cause and fix.

    With CODE (or its beginning, such as C1), list only those. Codes of the project's own checks come last.
    """
    if as_grid:
        if names:
            raise UsageError("--grid shows all invariants, so it takes no code; leave one of the two out.")
        _echo_grid()
        return
    from perfguard.findings import Code, advice
    from perfguard.settings import project_checks

    beginnings = tuple(name.upper() for name in names)
    own = {check.code: check.place for check in project_checks(Path.cwd())}
    known = [*Code, *own]
    for name in beginnings:
        if not any(code.name.startswith(name) for code in known):
            raise UsageError(f"There is no finding code {name!r}; {nearest(name, [code.name for code in known])}")
    for code in known:
        if not beginnings or code.name.startswith(beginnings):
            echo_plain(f"{code.name} {code.value}")
            found = advice(code)
            echo_plain(f"     severity: {' or '.join(one.value for one in found.severity)}")
            echo_plain(f"     cause: {found.cause}")
            echo_plain(f"     fix:   {found.fix}")
            if code in own:
                echo_plain(f"     check: {own[code]}")


def _echo_grid() -> None:
    from tabulate import tabulate

    from perfguard.contract.grid import grid

    shown = grid()
    rows = [
        (row.name.replace("_", " "), *(_in_grid(row.cells[one.name]) for one in shown.outputs)) for row in shown.rows
    ]
    headers = ("what must hold", *(one.title.replace(" ", "\n") for one in shown.outputs))
    echo_plain(
        tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", *["right"] * len(shown.outputs)))
    )
    click.echo("")
    echo_plain(
        "A number counts the rules that check it; - cannot hold there (why: below); missing: no rule and no reason yet."
    )
    for row in shown.rows:
        for one in shown.outputs:
            if reason := row.cells[one.name].cannot:
                echo_plain(f"- {row.name.replace('_', ' ')}, {one.title}: {reason}")


def _in_grid(cell: Cell) -> str:
    return str(len(cell.checks)) if cell.checks else "-" if cell.cannot else "missing"
