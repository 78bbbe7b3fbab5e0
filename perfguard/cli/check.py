"""`perfguard check DIR`: is everything the profiler wrote there, well-formed and consistent?"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.exits import exit_code
from perfguard.errors import UsageError
from perfguard.settings import codes

if TYPE_CHECKING:
    from perfguard.contract import Expectation
    from perfguard.contract.layout import Layout
    from perfguard.judge import Policy, Verdict


@click.command(name="check")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON (schema: report, one workload).")
@click.option("--sarif", "sarif", type=click.Path(path_type=Path), help="Write the findings as SARIF 2.1.0 to a file.")
@click.option("--explain", is_flag=True, help="Say which layouts were recognised, why, and what could not be known.")
@click.option("--metrics", is_flag=True, help="Print what was measured as well.")
@click.option(
    "--expect",
    multiple=True,
    metavar="WORDS",
    help="What was on, and how much there must be: graph,memory,no-shapes,level1,ranks=8,steps=3.",
)
@click.option("--layout", "layout_name", metavar="ID", help="Judge the directory as this layout (see: schema list).")
@click.option("--select", multiple=True, metavar="CODES", help="Look at these codes only (A1,C101; beginnings count).")
@click.option("--ignore", multiple=True, metavar="CODES", help="Show findings of these codes, but do not judge them.")
def command(
    directory: Path,
    as_json: bool,
    sarif: Path | None,
    explain: bool,
    metrics: bool,
    expect: tuple[str, ...],
    layout_name: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> None:
    """Check a profiler's output directory, a perfguard recording, or a directory of recordings, one by one.

    Exit codes: 0 nothing is wrong, 2 usage, 3 something is wrong, 4 nothing here is known profiler output.
    """
    from perfguard.capture.replay import recordings_in
    from perfguard.contract import expectation
    from perfguard.contract.layout import layout_named
    from perfguard.documents import dumps, write_atomically
    from perfguard.judge import Policy
    from perfguard.reports import RunReport
    from perfguard.reports.document import report_json, verdict_document
    from perfguard.reports.sarif import sarif_json
    from perfguard.reports.terminal import checked

    selected = _selected(_split(select))
    policy = Policy(ignore=codes(_split(ignore)), select=selected)
    expected = expectation(expect)
    layout = layout_named(layout_name) if layout_name else None
    places = recordings_in(directory)
    verdicts = [examined(place, policy, expected, layout) for place in places]
    if sarif is not None:
        write_atomically(sarif, sarif_json(verdicts))
    if as_json:
        one = dumps(verdict_document(verdicts[0]))
        click.echo(one if len(verdicts) == 1 else report_json(RunReport(verdicts=tuple(verdicts))), nl=False)
    else:
        for verdict in verdicts:
            click.echo("\n".join(checked(verdict, explain=explain, metrics=metrics, select=selected)))
    sys.exit(exit_code([verdict.outcome for verdict in verdicts]))


def _split(values: tuple[str, ...]) -> list[str]:
    """Return `("A1,C203", "S")` as three."""
    return [part.strip() for value in values for part in value.split(",")]


def _selected(names: list[str]) -> tuple[str, ...]:
    """Check the codes of `--select`; raises `UsageError` for those that only a comparison comes to."""
    found = codes(names, use="select")
    if never := [name for name in found if name.startswith(("B", "R"))]:
        raise UsageError(
            f"check never finds {', '.join(never)}, because it compares with nothing; "
            "select codes of A, S, I and C, or use: perfguard compare BASE CURRENT"
        )
    return found


def examined(place: Path, policy: Policy, expected: Expectation, layout: Layout | None) -> Verdict:
    """Judge one place by itself; damaged facts of perfguard's own are a finding."""
    from perfguard.capture.replay import replay
    from perfguard.errors import DamagedError
    from perfguard.findings import Code, Finding
    from perfguard.gate import examine
    from perfguard.judge import Outcome, Verdict
    from perfguard.recording import RECORDING_FILE

    try:
        verdict = examine(replay(place), workload=str(place), policy=policy, expected=expected, layout=layout)
    except DamagedError as error:
        # What perfguard wrote beside the profiler's output is part of the recording, and damaged: not a wrong call.
        finding = Finding(code=Code.S101, place=RECORDING_FILE, message=str(error))
        return Verdict(workload=str(place), outcome=Outcome.INVALID, findings=(finding,), recording=place)
    unknown = not verdict.layouts and verdict.fingerprint is None
    return replace(verdict, outcome=Outcome.INCONCLUSIVE) if unknown else verdict
