"""`perfguard codes`: every finding code, with its cause and what to do."""

from __future__ import annotations

from pathlib import Path

import click

from perfguard.cli.screen import echo_plain
from perfguard.errors import UsageError, nearest


@click.command(name="codes")
@click.argument("names", nargs=-1, metavar="[CODE ...]")
def command(names: tuple[str, ...]) -> None:
    """List the finding codes: headline, cause, fix.

    With CODE (or a beginning, such as C1) only those. Codes of the project's own checks come last.
    """
    from perfguard.findings import Code, advice
    from perfguard.settings import project_checks

    beginnings = tuple(name.upper() for name in names)
    own = {check.code: check.place for check in project_checks(Path.cwd())}
    codes = [*Code, *own]
    for name in beginnings:
        if not any(code.name.startswith(name) for code in codes):
            raise UsageError(f"There is no finding code {name!r}; {nearest(name, [code.name for code in codes])}")
    for code in codes:
        if not beginnings or code.name.startswith(beginnings):
            echo_plain(f"{code.name} {code.value}")
            echo_plain(f"     cause: {advice(code).cause}")
            echo_plain(f"     fix:   {advice(code).fix}")
            if code in own:
                echo_plain(f"     check: {own[code]}")
