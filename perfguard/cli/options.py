"""What several commands share: their group, recurring options, and the question before deleting."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from perfguard.cli.exits import EXIT_USAGE
from perfguard.cli.screen import echo_plain
from perfguard.errors import UsageError, nearest

Function = TypeVar("Function", bound=Callable[..., Any])

#: Where the history is if no option says so; a CI job sets it to keep a password out of the command.
HISTORY_VARIABLE = "PERFGUARD_HISTORY"
#: click cuts a summary that is longer than its line; no summary is longer than this.
_LONGEST_SUMMARY = 1000

PATH = click.Path(path_type=Path)
QUIET = "Print only what is not green, a line each, and the count of what was compared."
VERBOSE = "Print everything: all findings, notes, columns, and where the time went."
WIDE = "Show every column, however narrow the screen."

time = click.option("--time", type=click.Choice(["on", "off"]), help="off: judge exact metrics only.")
history = click.option(
    "--history",
    "place",
    metavar="FILE|URL",
    help=f"A file, or postgresql://... (default: {HISTORY_VARIABLE}, else `history` in [tool.perfguard], "
    "else perfguard-history.db).",
)
yes = click.option("--yes", is_flag=True, help="Delete without asking.")
ledger = click.option("--ledger", is_flag=True, help="Show where the change of the step's time went, whole.")
pytest_args = click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)


def flag(*names: str, help: str) -> Callable[[Function], Function]:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def path(*names: str, metavar: str, help: str) -> Callable[[Function], Function]:
    """Return an option whose value is a file or a directory."""
    return click.option(*names, type=PATH, metavar=metavar, help=help)


def baselines(help: str = "The directory of the baselines.") -> Callable[[Function], Function]:
    """Return `--baselines`."""
    return path("--baselines", metavar="DIR", help=help)


def timeout(help: str, default: float | None = None) -> Callable[[Function], Function]:
    """Return `--timeout`."""
    shown = default is not None
    return click.option(
        "--timeout", "timeout_s", type=float, default=default, show_default=shown, metavar="SECONDS", help=help
    )


def quiet(help: str = QUIET) -> Callable[[Function], Function]:
    """Return `-q`."""
    return flag("--quiet", "-q", help=help)


def verbose(help: str = VERBOSE) -> Callable[[Function], Function]:
    """Return `-v`."""
    return flag("--verbose", "-v", help=help)


def files(**shorthands: tuple[str, str]) -> Callable[[Function], Function]:
    """Return `--out FORMAT:FILE`, and options that name the format themselves: format → (flag, help).

    The command gets them as keyword arguments; `output.report_files` reads these.
    """

    def add(command: Function) -> Function:
        for form, (name, what) in reversed(shorthands.items()):
            command = path(name, form, metavar="FILE", help=what)(command)
        what = "Write a report in any installed format, such as sarif:findings.sarif. May be repeated."
        return click.option("--out", multiple=True, metavar="FORMAT:FILE", help=what)(command)

    return add


def confirm_deletion(what: str, *, yes: bool) -> None:
    """Ask whether to delete, unless `--yes` was given; end the command where the answer is no."""
    try:
        agreed = yes or click.confirm(f"Delete {what}?")
    except click.Abort as error:
        raise UsageError(
            "The question was not answered, so nothing was deleted; to delete without a question: --yes"
        ) from error
    if not agreed:
        echo_plain("nothing was deleted")
        sys.exit(EXIT_USAGE)


class CommandGroup(click.Group):
    """A group that suggests the nearest command for an unknown one, and lists its commands in whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries, wrapped where click would cut them."""
        known = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(_LONGEST_SUMMARY)) for name, one in known if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command `args` begin with. Raises `click.UsageError` for an unknown one."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f"There is no command {args[0]!r}; {nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)
