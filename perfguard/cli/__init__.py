"""The command line: one command a module, all of them thin shells over `perfguard.gate`.

Exit codes: 0 passed, 1 regression, 2 usage, 3 invalid capture or contract broken, 4 nothing could be judged.
"""

from __future__ import annotations

import sys
from typing import Any

import click

import perfguard
from perfguard.cli.exits import EXIT_USAGE
from perfguard.errors import PerfguardError


class _Commands(click.Group):
    """Imports a command when it is run, so that `--help` stays quick."""

    _homes = {  # noqa: RUF012 - click's classes are not dataclasses
        "check": "perfguard.cli.check",
        "compare": "perfguard.cli.compare",
        "baseline": "perfguard.cli.baseline",
        "schema": "perfguard.cli.schema",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self._homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        if cmd_name not in self._homes:
            return None
        from importlib import import_module

        command: click.Command = import_module(self._homes[cmd_name]).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Refuse an unknown command with the nearest known one."""
        import difflib

        if args and not args[0].startswith("-") and args[0] not in self._homes:
            near = difflib.get_close_matches(args[0], self._homes, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self._homes)}."
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(perfguard.__version__, prog_name="perfguard")
def cli() -> None:
    """Check what profilers wrote, compare runs, keep baselines."""


def main() -> None:
    """Run the command line; perfguard's own errors become one sentence and exit code 2."""
    try:
        cli.main(standalone_mode=True)
    except PerfguardError as error:
        click.echo(f"perfguard: {error}", err=True)
        sys.exit(EXIT_USAGE)
