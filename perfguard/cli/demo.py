"""`perfguard demo`: a green, a red and an INVALID recording that come with perfguard, judged by the gate."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.output import echo, echo_line, screen

if TYPE_CHECKING:
    from perfguard.judge.verdict import Verdict

#: Small recordings of torch on a CPU; the README in the folder says how they were made.
RECORDINGS = Path(__file__).resolve().parent / "demo_recordings"
#: Where the page is written, unless the call says.
_PAGE = "perfguard-demo.html"


@click.command(name="demo")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_PAGE,
    help=f"Where the page is written (default: {_PAGE}).",
)
def command(page: Path) -> None:
    """Judge bundled recordings: a green, a red and an INVALID one.

    It needs no framework and no project. With the extra html it writes their page, too. Exit codes: 0 they were shown, 2
    usage.
    """
    from perfguard.reports import RunReport
    from perfguard.reports.terminal import checked, compared_lines, coverage_line
    from perfguard.version import install_command
    from perfguard.writing import write_atomically

    shown_on = screen()
    green, red, invalid = _verdicts()
    for title, command_line, verdict in (
        ("1. Two layers, recorded twice", "compare base same --time off", green),
        ("2. The first layer is called twice", "compare base twice --time off", red),
        ("3. The data loader ended before the window of steps did", "check short", invalid),
    ):
        echo(f"{title}: perfguard {command_line}")
        if verdict is invalid:
            lines = checked(verdict, explain=False, metrics=False, select=(), screen=shown_on)
        else:
            lines = compared_lines(verdict, shown_on, ledger=False, sides="base → current")
        echo("\n".join(f"  {line}" for line in lines))
        echo("")
    report = RunReport(verdicts=(green, red, invalid), is_time_off=True)
    echo(coverage_line(report.coverage, is_time_off=True))
    if find_spec("jinja2") is None:
        echo_line(f"page: it needs Jinja2, which is not installed. Run: {install_command('html')}")
    else:
        from perfguard.reports.page import page_html

        write_atomically(page, page_html(report))
        echo_line(f"page: {page}")
    echo_line(f"recordings: {RECORDINGS}  (the commands above run in that folder)")
    echo_line(
        "next: perfguard init  (writes a first test of your project; with no model at hand: perfguard check TRACE)"
    )


def _verdicts() -> tuple[Verdict, Verdict, Verdict]:
    """Return the verdicts of the three, judged as `perfguard compare` and `perfguard check` do by default settings."""
    from dataclasses import replace

    from perfguard.capture.replay import replay
    from perfguard.gate import compare, examine
    from perfguard.judge.tolerance import Policy

    policy = Policy(judge_time=False)

    def judged(name: str) -> Verdict:
        return examine(replay(RECORDINGS / name), workload=name, policy=policy)

    base = judged("base")
    green, red = (compare(base, judged(name), policy=policy) for name in ("same", "twice"))
    return green, red, replace(judged("short"), workload="short")
