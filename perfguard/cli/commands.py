"""A group of commands that refuses an unknown one with the nearest known one, and lists them in whole sentences."""

from __future__ import annotations

from typing import Any

import click

from perfguard.errors import nearest

#: click cuts a summary that is longer than its line; longer than this is none.
_LONGEST_SUMMARY = 1000


class CommandGroup(click.Group):
    """Like click's, with a hint."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries, wrapped where click would cut them."""
        known = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(_LONGEST_SUMMARY)) for name, one in known if one is not None]
            )

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command `args` begin with; raises `click.UsageError` for an unknown one."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f"There is no command {args[0]!r}; {nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)
