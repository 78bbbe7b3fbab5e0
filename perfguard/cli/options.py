"""What several commands share: their group, recurring options, and the question before deleting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from perfguard.cli.output import FILES, VERBOSITY, Exit, echo_plain
from perfguard.errors import UsageError, nearest
from perfguard.screen import requested_colours

Function = TypeVar("Function", bound=Callable[..., Any])
Command = TypeVar("Command", bound=click.Command)

#: Where the history is if no option says so; a CI job sets it to keep a password out of the command.
HISTORY_VARIABLE = "PERFGUARD_HISTORY"
#: click cuts a summary that is longer than its line; no summary is longer than this.
_LONGEST_SUMMARY = 1000
_COLOURS = {"auto": None, "always": True, "never": False}

PATH = click.Path(path_type=Path)
WIDE = "Show all columns, whatever the width of the terminal."

time = click.option(
    "--time", type=click.Choice(["on", "off"]), help="Whether times are judged; off judges exact metrics only."
)
history = click.option(
    "--history",
    "place",
    metavar="FILE|URL",
    help=f"A file, or postgresql://... (default: {HISTORY_VARIABLE}, else `history` in [tool.perfguard], "
    "else perfguard-history.db).",
)
yes = click.option("--yes", is_flag=True, help="Delete without asking.")
ledger = click.option(
    "--ledger", is_flag=True, help="Show the complete ledger: which operators the change of the step time comes from."
)
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


def quiet(
    help: str = "Print only what is not green, one line each, and the number of comparisons.",
) -> Callable[[Function], Function]:
    """Return `-q`, which `output.screen` knows of."""
    return click.option("--quiet", "-q", is_flag=True, expose_value=False, callback=_set_verbosity, help=help)


def verbose(
    help: str = "Print everything: all findings, notes, columns, and the ledger.",
) -> Callable[[Function], Function]:
    """Return `-v`, which `output.screen` knows of."""
    return click.option("--verbose", "-v", is_flag=True, expose_value=False, callback=_set_verbosity, help=help)


def _set_verbosity(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    chosen = -1 if option.name == "quiet" else 1
    if is_given and context.meta.setdefault(VERBOSITY, chosen) != chosen:
        raise UsageError("--quiet and --verbose contradict each other; take the one or the other.")


def files(**shorthands: tuple[str, str]) -> Callable[[Function], Function]:
    """Return `--out FORMAT:FILE`, and options that name the format themselves: format → (flag, help).

    `output.report_files` returns what they request.
    """
    what = "Write a report in any installed format, such as sarif:findings.sarif. May be repeated."
    # The help shows the last one first.
    flags = [(name, form, "FILE", help) for form, (name, help) in reversed(shorthands.items())]
    flags.append(("--out", "out", "FORMAT:FILE", what))

    def add(command: Function) -> Function:
        for name, form, metavar, help in flags:
            how: dict[str, Any] = {"multiple": True, "expose_value": False, "callback": _request_files}
            command = click.option(name, form, metavar=metavar, help=help, **how)(command)
        return command

    return add


def _request_files(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    requested = context.meta.setdefault(FILES, [])
    requested += [(option.opts[0], option.name, value) for value in values]


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
                help="Whether to use colours (default: by NO_COLOR and FORCE_COLOR, else on a terminal).",
            )
        )
    return command


def _choose_colours(context: click.Context, option: click.Parameter, value: str | None) -> None:
    # What click itself prints, and what it takes out of what is printed, goes by the context's colours as well.
    # A command has the colours of the group it was called through, unless it has an option of its own.
    if value is not None or context.parent is None:
        chosen = _COLOURS[value or "auto"]
        context.color = requested_colours(os.environ) if chosen is None else chosen


def confirm_deletion(what: str, *, yes: bool) -> None:
    """Ask whether to delete, unless `--yes` was given; end the command where the answer is no."""
    confirm(f"Delete {what}?", nothing="nothing was deleted", to="delete", yes=yes)


def confirm(question: str, *, nothing: str, to: str, yes: bool) -> None:
    """Ask, unless `--yes` was given; end the command where the answer is no.

    `nothing` reports that nothing was done, and `to` is the verb of what was not.
    """
    try:
        agreed = yes or click.confirm(question)
    except click.Abort as error:
        raise UsageError(f"The question was not answered, so {nothing}; to {to} without a question: --yes") from error
    if not agreed:
        echo_plain(nothing)
        sys.exit(Exit.USAGE)


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
