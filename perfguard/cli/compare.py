"""`perfguard compare BASE CURRENT`: is the second worse than the first?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.bar import Bar
from perfguard.cli.output import echo, echo_line, exit_code, refuse_clash, report_files, screen

if TYPE_CHECKING:
    from perfguard.judge.verdict import Verdict


@click.command(name="compare")
@click.argument("base", type=options.PATH)
@click.argument("current", type=options.PATH)
@options.files(json=("--report", "Write the comparison to a JSON file."))
@options.time
@options.ledger
@options.quiet()
@options.verbose()
def command(base: Path, current: Path, time: str | None, ledger: bool) -> None:
    """Compare two recordings (directories) or two report files.

    Tolerances come from [tool.perfguard] of the nearest pyproject.toml.

    Exit codes: 0 passed, 1 regression, 2 usage, 3 one of the two is invalid, 4 nothing could be compared.
    """
    from perfguard.cli.project import project_settings
    from perfguard.cli.verdicts import verdicts_of
    from perfguard.gate import compare
    from perfguard.judge.verdict import Outcome
    from perfguard.reports import RunReport
    from perfguard.reports.terminal import compared_lines, coverage_line, summary

    files = report_files()
    refuse_clash([base, current], [file.path for file in files])
    shown_on = screen()
    policy = project_settings(time=time).policy
    with Bar() as bar:
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
            _show_invalid((("the base", base, pair[0]), ("the current one", current, pair[1])))
        elif not shown_on.is_quiet:
            echo("\n".join(compared_lines(verdict, shown_on, ledger=ledger, sides="base → current")))
    for name in gone:
        echo_line(f"gone: {name} is in {base} and not in {current}")
    for name in new:
        echo_line(f"new: {name} is in {current} and not in {base}")
    run = RunReport(verdicts=tuple(verdicts), is_time_off=not policy.judge_time)
    if not shown_on.is_quiet:
        click.echo("")
    # A row of an invalid comparison would name one of the two, and nothing of it was compared.
    has_rows = not verdicts or any(verdict.outcome is not Outcome.INVALID for verdict in verdicts)
    echo(summary(run, shown_on, told=not shown_on.is_quiet) if has_rows else coverage_line(run.coverage))
    for file in files:
        file.write(run)
    outcomes = [verdict.outcome for verdict in verdicts]
    # A workload that stopped running is not green.
    sys.exit(exit_code(outcomes + ([Outcome.FAILED] if gone and outcomes else [])))


def _show_invalid(sides: tuple[tuple[str, Path, Verdict], ...]) -> None:
    """Print which of the two is incomplete, each with its own findings."""
    from perfguard.judge.verdict import Outcome
    from perfguard.reports.terminal import finding_lines, most_shown

    for side, path, verdict in sides:
        if verdict.outcome is not Outcome.INVALID:
            continue
        place = str(path) if os.path.isdir(path) else f"{verdict.workload} of {path}"
        echo_line(f"INVALID: {side}, {place}, is not whole")
        own = (finding for finding in verdict.findings if not finding.code.is_of_comparison)
        for line in finding_lines(own, most=most_shown(screen().is_verbose)):
            echo(f"  {line}")
