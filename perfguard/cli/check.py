"""`perfguard check DIR`: is everything the profiler wrote there, well-formed and consistent?"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.exits import exit_code
from perfguard.settings import codes

if TYPE_CHECKING:
    from perfguard.judge import Policy, Verdict


@click.command(name="check")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON (schema: report, one workload).")
@click.option("--explain", is_flag=True, help="Say which layouts were recognised and what could not be known.")
@click.option("--metrics", is_flag=True, help="Print what was measured as well.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Show findings of this code, but do not judge them.")
def command(directory: Path, as_json: bool, explain: bool, metrics: bool, ignore: tuple[str, ...]) -> None:
    """Check a profiler's output directory, a perfguard recording, or a directory of recordings, one by one.

    Exit codes: 0 nothing is wrong, 2 usage, 3 something is wrong, 4 nothing here is known profiler output.
    """
    from perfguard.capture.replay import recordings_in
    from perfguard.documents import dumps
    from perfguard.judge import Policy
    from perfguard.reports import RunReport
    from perfguard.reports.document import report_json, verdict_document
    from perfguard.reports.terminal import explanation, finding_lines, measurement_rows, printable

    policy = Policy(ignore=codes(ignore))
    places = recordings_in(directory)
    verdicts = [_examined(place, policy) for place in places]
    if as_json:
        one = dumps(verdict_document(verdicts[0]))
        click.echo(one if len(verdicts) == 1 else report_json(RunReport(verdicts=tuple(verdicts))), nl=False)
    for verdict in () if as_json else verdicts:
        click.echo(f"{verdict.outcome.value} {printable(verdict.workload)}")
        for line in finding_lines(verdict.findings):
            click.echo(f"  {line}")
        if explain:
            for line in explanation(verdict):
                click.echo(f"  {line}")
        if metrics and verdict.measurements:
            click.echo(measurement_rows(verdict.measurements))
    sys.exit(exit_code([verdict.outcome for verdict in verdicts]))


def _examined(place: Path, policy: Policy) -> Verdict:
    from perfguard.capture.replay import replay
    from perfguard.errors import DamagedError
    from perfguard.findings import Code, Finding
    from perfguard.gate import examine
    from perfguard.judge import Outcome, Verdict
    from perfguard.recording import RECORDING_FILE

    try:
        verdict = examine(replay(place), workload=str(place), policy=policy)
    except DamagedError as error:
        # What perfguard wrote beside the profiler's output is part of the recording, and damaged: not a wrong call.
        finding = Finding(code=Code.S101, place=RECORDING_FILE, message=str(error))
        return Verdict(workload=str(place), outcome=Outcome.INVALID, findings=(finding,), recording=place)
    unknown = not verdict.layouts and verdict.fingerprint is None
    return replace(verdict, outcome=Outcome.INCONCLUSIVE) if unknown else verdict
