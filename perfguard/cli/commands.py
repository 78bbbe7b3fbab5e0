"""A group of commands that refuses an unknown one with the nearest known one."""

from __future__ import annotations

from typing import Any

import click

from perfguard.errors import nearest


class CommandGroup(click.Group):
    """Like click's, with a hint."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command `args` begin with; raises `click.UsageError` for an unknown one."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f"There is no command {args[0]!r}; {nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)
