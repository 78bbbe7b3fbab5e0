"""`perfguard codes`: every finding code, with its cause and what to do."""

from __future__ import annotations

import click

from perfguard.cli.screen import tell_plain
from perfguard.errors import UsageError, nearest


@click.command(name="codes")
@click.argument("names", nargs=-1, metavar="[CODE ...]")
def command(names: tuple[str, ...]) -> None:
    """List the finding codes: headline, cause, fix.

    With CODE (or a beginning, such as C1) only those.
    """
    from perfguard.findings import ADVICE, Code

    wanted = tuple(name.upper() for name in names)
    for name in wanted:
        if not any(code.name.startswith(name) for code in Code):
            raise UsageError(f"There is no finding code {name!r}; {nearest(name, [code.name for code in Code])}")
    for code in Code:
        if not wanted or code.name.startswith(wanted):
            tell_plain(f"{code.name} {code.value}")
            tell_plain(f"     cause: {ADVICE[code].cause}")
            tell_plain(f"     fix:   {ADVICE[code].fix}")
