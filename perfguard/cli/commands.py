"""A group of commands that refuses an unknown one with the nearest known one."""

from __future__ import annotations

import difflib
from typing import Any

import click


class CommandGroup(click.Group):
    """Like click's, with a hint."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command `args` begin with; raises `click.UsageError` for an unknown one."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)
