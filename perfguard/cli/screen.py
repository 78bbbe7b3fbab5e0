"""The screen a command writes to: colours by --color, NO_COLOR and FORCE_COLOR, how much by -q and -v."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import click

from perfguard.errors import UsageError
from perfguard.screen import Screen, json_for, screen_of, wanted_colours

Command = TypeVar("Command", bound=click.Command)

_COLOURS = {"auto": None, "always": True, "never": False}


def _choose_colours(context: click.Context, option: click.Parameter, value: str | None) -> None:
    # What click itself prints, and what it takes out of what is printed, goes by the context's colours as well.
    # A command has the colours of the group it was called through, unless it has an option of its own.
    if value is not None or context.parent is None:
        chosen = _COLOURS[value or "auto"]
        context.color = wanted_colours(os.environ) if chosen is None else chosen


def with_colours(command: Command) -> Command:
    """Give a command `--color`, unless its unknown options go to pytest, which has `--color` itself."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            with_colours(one)
    is_there = any("--color" in one.opts for one in command.params)
    if not is_there and not command.context_settings.get("ignore_unknown_options"):
        command.params.append(
            click.Option(
                ["--color"],
                type=click.Choice([*_COLOURS]),
                expose_value=False,
                is_eager=True,
                callback=_choose_colours,
                help="auto, always or never; by itself NO_COLOR and FORCE_COLOR say, else whether this is a terminal.",
            )
        )
    return command


def screen(*, quiet: bool = False, verbose: bool = False, err: bool = False) -> Screen:
    """Return what standard output (or error) is. Raises `UsageError` for both `quiet` and `verbose`."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other; take the one or the other.")
    context = click.get_current_context(silent=True)
    colours = None if context is None else context.color
    return screen_of(sys.stderr if err else sys.stdout, colours=colours, verbosity=verbose - quiet)


def echo(text: str, on: Screen, *, err: bool = False) -> None:
    """Print lines as the screen shows them."""
    click.echo(on.shown(text), err=err, color=on.colours)


def echo_plain(text: str, *, err: bool = False) -> None:
    """Print lines without colours."""
    click.echo(screen(err=err).carried(text), err=err)


def echo_line(text: str, on: Screen | None = None, *, err: bool = False) -> None:
    """Print one line with its control characters escaped: as `on` shows it, or without colours."""
    from perfguard.reports.names import printable

    if on is None:
        echo_plain(printable(text), err=err)
    else:
        echo(printable(text), on, err=err)


def echo_lines(text: str, *, err: bool = False) -> None:
    """Print lines without colours, with the control characters in each escaped."""
    for line in text.split("\n"):
        echo_line(line, err=err)


def table_text(columns: dict[str, dict[str, Any]], rows: Iterable[Iterable[object]], on: Screen) -> str:
    """Return a table, control characters escaped. `columns` are the further arguments of `Column` by title."""
    from perfguard.reports.names import printable
    from perfguard.reports.table import Column, table

    cells = [[printable(str(cell)) for cell in row] for row in rows]
    return table([Column(title=title, **how) for title, how in columns.items()], cells, on)


def counted(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def echo_json(text: str, *, nl: bool = True) -> None:
    """Print a JSON document, which stays one whatever characters standard output has."""
    click.echo(json_for(sys.stdout, text), nl=nl, color=False)
