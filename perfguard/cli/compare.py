"""`perfguard compare BASE CURRENT`: is the second worse than the first?"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.exits import exit_code
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.judge import Policy, Verdict


@click.command(name="compare")
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("current", type=click.Path(path_type=Path))
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write the comparison to a JSON file.")
@click.option("--time", "time", type=click.Choice(["on", "off"]), default=None, help="off: exact metrics only.")
@click.option("--ledger", is_flag=True, help="Show where the change of the step's time went, whole.")
def command(base: Path, current: Path, report: Path | None, time: str | None, ledger: bool) -> None:
    """Compare two recordings (directories) or two report files.

    Tolerances come from [tool.perfguard] of the nearest pyproject.toml. Exit codes: 0 passed, 1 regression, 2 usage,
    3 one of the two is invalid, 4 nothing could be compared.
    """
    from perfguard.documents import write_atomically
    from perfguard.gate import compare
    from perfguard.judge import Outcome
    from perfguard.reports import REPORTERS, RunReport
    from perfguard.reports.document import report_json
    from perfguard.reports.terminal import asked_ledger_lines, coverage_line, finding_lines, printable
    from perfguard.settings import find_root, read_settings

    settings = read_settings(find_root(Path.cwd()))
    policy = settings.policy if time is None else replace(settings, time=time == "on").policy
    before, after = verdicts_of(base, policy), verdicts_of(current, policy)
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
            _tell_what_is_invalid((("the base", base, pair[0]), ("the current one", current, pair[1])))
            continue
        click.echo(f"{verdict.outcome.value} {printable(verdict.workload)}")
        for line in [*finding_lines(verdict.findings), *(asked_ledger_lines(verdict) if ledger else ())]:
            click.echo(f"  {line}")
        if verdict.environment_changes:
            click.echo(f"  environment, base → current: {printable('; '.join(verdict.environment_changes))}")
    for name in gone:
        click.echo(printable(f"gone: {name} is in {base} and not in {current}"))
    for name in new:
        click.echo(printable(f"new: {name} is in {current} and not in {base}"))
    run = RunReport(verdicts=tuple(verdicts))
    click.echo("")
    # A row of an invalid comparison would name one of the two, and nothing of it was compared.
    told = not verdicts or any(verdict.outcome is not Outcome.INVALID for verdict in verdicts)
    click.echo(REPORTERS["terminal"](run) if told else coverage_line(run.coverage))
    if report is not None:
        write_atomically(report, report_json(run))
    outcomes = [verdict.outcome for verdict in verdicts]
    # A workload that stopped running is not green.
    sys.exit(exit_code(outcomes + ([Outcome.FAILED] if gone and outcomes else [])))


def _tell_what_is_invalid(sides: tuple[tuple[str, Path, Verdict], ...]) -> None:
    """Print which of the two is not whole, each with its own findings."""
    from perfguard.judge import Outcome
    from perfguard.reports.terminal import finding_lines, printable

    for side, path, verdict in sides:
        if verdict.outcome is not Outcome.INVALID:
            continue
        place = str(path) if os.path.isdir(path) else f"{verdict.workload} of {path}"
        click.echo(f"INVALID: {side}, {printable(place)}, is not whole")
        for line in finding_lines(f for f in verdict.findings if not f.code.is_of_comparison):
            click.echo(f"  {line}")


def verdicts_of(path: Path, policy: Policy) -> dict[str, Verdict]:
    """Return what a recording's directory or a report file holds, by workload. Raises `UsageError` where there is neither."""
    from perfguard.capture.replay import replay
    from perfguard.gate import examine
    from perfguard.reports.reading import read_report

    if os.path.isdir(path):
        recording = replay(path)
        name = recording.fingerprint.workload if recording.fingerprint else str(path)
        return {name: examine(recording, workload=name, policy=policy)}
    if not os.path.exists(path):  # unlike Path.exists, False for a name no file system takes
        raise UsageError(f"{path} does not exist; name a recording's directory, or a file of --perfguard-report.")
    return {verdict.workload: verdict for verdict in read_report(path)}
