"""The screen a command writes to: colours by --color, NO_COLOR and FORCE_COLOR, how much by -q and -v."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from perfguard.errors import UsageError
from perfguard.screen import Screen, json_for, screen_of, wanted_colours

Command = TypeVar("Command", bound=click.Command)
Function = TypeVar("Function", bound=Callable[..., Any])

_COLOURS = {"auto": None, "always": True, "never": False}


def colour_option() -> click.Option:
    """Return `--color`, which stands before or after the name of a command."""
    return click.Option(
        ["--color"],
        type=click.Choice([*_COLOURS]),
        expose_value=False,
        is_eager=True,
        callback=_choose_colours,
        help="auto, always or never; by itself NO_COLOR and FORCE_COLOR say, else whether this is a terminal.",
    )


def _choose_colours(context: click.Context, option: click.Parameter, value: str | None) -> None:
    # What click itself prints, and what it takes out of what is printed, goes by the context's colours as well.
    # A command has the colours of the group it was called through, unless it is told otherwise.
    if value is not None or context.parent is None:
        asked = _COLOURS[value or "auto"]
        context.color = wanted_colours(os.environ) if asked is None else asked


def with_colours(command: Command) -> Command:
    """Give a command `--color`, unless what it does not know belongs to pytest, which has one of its own."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            with_colours(one)
    is_there = any("--color" in one.opts for one in command.params)
    if not is_there and not command.context_settings.get("ignore_unknown_options"):
        command.params.append(colour_option())
    return command


def screen(*, quiet: bool = False, verbose: bool = False, err: bool = False) -> Screen:
    """Return what standard output (or error) is. Raises `UsageError` where less and more is wanted."""
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


def tell_printable(text: str, *, err: bool = False) -> None:
    """Print lines without colours, with the characters that a terminal would obey escaped."""
    from perfguard.reports.names import printable

    echo_plain("\n".join(printable(line) for line in text.split("\n")), err=err)


def counted(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def echo_json(text: str, *, nl: bool = True) -> None:
    """Print a JSON document, which stays one whatever characters standard output has."""
    click.echo(json_for(sys.stdout, text), nl=nl, color=False)


def quiet_option(what: str) -> Callable[[Function], Function]:
    """Return `-q`."""
    return click.option("--quiet", "-q", is_flag=True, help=what)


def verbose_option(what: str) -> Callable[[Function], Function]:
    """Return `-v`."""
    return click.option("--verbose", "-v", is_flag=True, help=what)


#: As pytest's: less is what is not green, more is all that is known.
QUIET = "Print only what is not green, a line each, and the count of what was compared."
VERBOSE = "Print everything: all findings, notes, columns, and where the time went."
