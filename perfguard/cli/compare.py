"""`perfguard compare BASE CURRENT`: is the second worse than the first?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.bar import Bar
from perfguard.cli.exits import exit_code
from perfguard.cli.project import project_settings
from perfguard.cli.screen import echo, echo_line, screen
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.contract.progress import Progress
    from perfguard.judge.tolerance import Policy
    from perfguard.judge.verdict import Verdict
    from perfguard.screen import Screen


@click.command(name="compare")
@click.argument("base", type=options.PATH)
@click.argument("current", type=options.PATH)
@options.path("--report", metavar="FILE", help="Write the comparison to a JSON file.")
@options.time
@options.ledger
@options.quiet()
@options.verbose()
def command(
    base: Path, current: Path, report: Path | None, time: str | None, ledger: bool, quiet: bool, verbose: bool
) -> None:
    """Compare two recordings (directories) or two report files.

    Tolerances come from [tool.perfguard] of the nearest pyproject.toml. Exit codes: 0 passed, 1 regression, 2 usage,
    3 one of the two is invalid, 4 nothing could be compared.
    """
    from perfguard.cli.output import refuse_clash
    from perfguard.documents import write_atomically
    from perfguard.gate import compare
    from perfguard.judge.verdict import Outcome
    from perfguard.reports import RunReport
    from perfguard.reports.document import report_json
    from perfguard.reports.terminal import compared_lines, coverage_line, summary

    if report is not None:
        refuse_clash([base, current], [report])
    shown_on = screen(quiet=quiet, verbose=verbose)
    policy = project_settings(time=time).policy
    with Bar(is_wanted=not quiet) as bar:
        before, after = (verdicts_of(one, policy, progress=bar) for one in (base, current))
    if len(before) == len(after) == 1 and (os.path.isdir(base) or os.path.isdir(current)):
        # Two single recordings are compared whatever they are called.
        pairs = [(next(iter(before.values())), next(iter(after.values())))]
        gone, new = [], []
    else:
        pairs = [(before[name], after[name]) for name in after if name in before]
        gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    verdicts = [compare(old, new, policy=policy) for old, new in pairs]
    for verdict, pair in zip(verdicts, pairs, strict=True):
        if verdict.outcome is Outcome.INVALID:
            _show_invalid((("the base", base, pair[0]), ("the current one", current, pair[1])), shown_on)
        elif not quiet:
            echo("\n".join(compared_lines(verdict, shown_on, ledger=ledger, sides="base → current")), shown_on)
    for name in gone:
        echo_line(f"gone: {name} is in {base} and not in {current}", shown_on)
    for name in new:
        echo_line(f"new: {name} is in {current} and not in {base}", shown_on)
    run = RunReport(verdicts=tuple(verdicts), is_time_off=not policy.judge_time)
    if not quiet:
        click.echo("")
    # A row of an invalid comparison would name one of the two, and nothing of it was compared.
    has_rows = not verdicts or any(verdict.outcome is not Outcome.INVALID for verdict in verdicts)
    echo(summary(run, shown_on, told=not quiet) if has_rows else coverage_line(run.coverage), shown_on)
    if report is not None:
        write_atomically(report, report_json(run))
    outcomes = [verdict.outcome for verdict in verdicts]
    # A workload that stopped running is not green.
    sys.exit(exit_code(outcomes + ([Outcome.FAILED] if gone and outcomes else [])))


def _show_invalid(sides: tuple[tuple[str, Path, Verdict], ...], shown_on: Screen) -> None:
    """Print which of the two is incomplete, each with its own findings."""
    from perfguard.judge.verdict import Outcome
    from perfguard.reports.terminal import SHOWN_PER_CODE, finding_lines

    for side, path, verdict in sides:
        if verdict.outcome is not Outcome.INVALID:
            continue
        place = str(path) if os.path.isdir(path) else f"{verdict.workload} of {path}"
        echo_line(f"INVALID: {side}, {place}, is not whole", shown_on)
        most = None if shown_on.is_verbose else SHOWN_PER_CODE
        for line in finding_lines((f for f in verdict.findings if not f.code.is_of_comparison), most=most):
            echo(f"  {line}", shown_on)


def verdicts_of(path: Path, policy: Policy, *, progress: Progress | None = None) -> dict[str, Verdict]:
    """Return what a recording's directory or a report file holds, by workload. Raises `UsageError` where there is neither."""
    from perfguard.capture.replay import replay
    from perfguard.gate import examine
    from perfguard.reports.reading import read_report

    if os.path.isdir(path):
        recording = replay(path)
        name = recording.fingerprint.workload if recording.fingerprint else str(path)
        return {name: examine(recording, workload=name, policy=policy, progress=progress)}
    found: dict[str, Verdict] = {}
    for verdict in read_report(path):
        if verdict.workload in found:
            # One of them would be judged, and the regression may be in the other.
            raise UsageError(
                f"{path} holds {verdict.workload} twice, as reports of several jobs that were joined do; "
                "compare the reports it was made of, one by one."
            )
        found[verdict.workload] = verdict
    return found
