"""`perfguard ops DIR`: how often, how long and with which shapes operators ran."""

from __future__ import annotations

import difflib
import shlex
import sys
from pathlib import Path

import click

from perfguard.cli.exits import EXIT_NOTHING
from perfguard.errors import UsageError

#: How many names a refusal suggests.
_SUGGESTED = 3


@click.command(name="ops")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--op", "wanted", multiple=True, metavar="NAME", help="Operators to show: MatMul, 'Mat*' (all where none is named)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object an operator and rank.")
def command(directory: Path, wanted: tuple[str, ...], as_json: bool) -> None:
    """Show operators of any profiler's output: occurrences, total and average time, shapes.

    It answers what MindSpore's Profiler.op_analyse answers, for every layout. Exit codes: 0, 2 usage (no such operator), 4 no
    operators could be read here.
    """
    import json

    from perfguard.capture.replay import replay
    from perfguard.gate import operators
    from perfguard.judge.tolerance import is_like
    from perfguard.reports.terminal import operator_rows, printable

    found = operators(replay(directory))
    if not found:
        click.echo(
            f"perfguard: no operators could be read in {printable(str(directory))}; look at: perfguard check", err=True
        )
        sys.exit(EXIT_NOTHING)
    known = sorted({one.operator for one in found})
    for name in wanted:
        if not any(is_like(one, name) for one in known):
            raise UsageError(f"There is no operator {name!r} in {directory}; {_suggested(name, known, directory)}")
    shown = [one for one in found if not wanted or any(is_like(one.operator, name) for name in wanted)]
    click.echo(json.dumps([one.as_dict() for one in shown], indent=2) if as_json else operator_rows(shown))


def _suggested(name: str, known: list[str], directory: Path) -> str:
    """Return the nearest names: those that hold the text where there are some (`mm` is in `aten::mm`), else those like it."""
    plain = name.strip("*?").lower()
    by_lower = {one.lower(): one for one in known}
    holding = [one for one in by_lower if plain and plain in one]
    near = difflib.get_close_matches(plain, holding or by_lower, n=_SUGGESTED, cutoff=0.0 if holding else 0.6)
    if not near:
        return f"list them with: perfguard ops {shlex.quote(str(directory))}"
    return f"did you mean {' or '.join(repr(by_lower[one]) for one in near)}?"
