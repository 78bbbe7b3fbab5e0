"""`perfguard check DIR`: is everything the profiler wrote there, well-formed and consistent?"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from perfguard.cli.exits import exit_code
from perfguard.settings import codes


@click.command(name="check")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON (schema: report, one workload).")
@click.option("--explain", is_flag=True, help="Say which layouts were recognised and what could not be known.")
@click.option("--metrics", is_flag=True, help="Print what was measured as well.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Show findings of this code, but do not judge them.")
def command(directory: Path, as_json: bool, explain: bool, metrics: bool, ignore: tuple[str, ...]) -> None:
    """Check a profiler's output directory, or a perfguard recording.

    Exit codes: 0 nothing is wrong, 2 usage, 3 something is wrong, 4 nothing here is known profiler output.
    """
    from perfguard.capture.replay import replay
    from perfguard.documents import dumps
    from perfguard.gate import examine
    from perfguard.judge import Outcome, Policy
    from perfguard.reports.document import verdict_document
    from perfguard.reports.terminal import explanation, finding_lines, measurement_rows, printable

    verdict = examine(replay(directory), workload=str(directory), policy=Policy(ignore=codes(ignore)))
    unknown = not verdict.layouts and verdict.fingerprint is None
    if unknown:
        verdict = replace(verdict, outcome=Outcome.INCONCLUSIVE)
    if as_json:
        click.echo(dumps(verdict_document(verdict)), nl=False)
    else:
        click.echo(f"{verdict.outcome.value} {printable(str(directory))}")
        for line in finding_lines(verdict.findings):
            click.echo(f"  {line}")
        if explain:
            for line in explanation(verdict):
                click.echo(f"  {line}")
        if metrics and verdict.measurements:
            click.echo(measurement_rows(verdict.measurements))
    sys.exit(exit_code([verdict.outcome]))
