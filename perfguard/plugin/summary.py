"""The summary of a run with the gate: in the terminal, and in GitHub Actions as annotations and on the page of the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest._io import TerminalWriter

from perfguard.reports import RunReport
from perfguard.reports.github import is_a_job, job_annotations
from perfguard.reports.markdown import report_markdown
from perfguard.reports.terminal import summary
from perfguard.screen import printable, screen_of
from perfguard.writing import append


class PlainReporter:
    """Stands in for pytest's terminal reporter in a run without it (`-p no:terminal`): lines on standard error."""

    hasmarkup = False

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def ensure_newline(self) -> None:
        """Do nothing: every line here is a whole one."""

    def write_line(self, line: str, **markup: bool) -> None:
        """Write one or more lines."""
        TerminalWriter(sys.stderr).line(line)


def write_summary(
    reporter: pytest.TerminalReporter | PlainReporter,
    report: RunReport,
    *,
    green: bool,
    notes: Iterable[tuple[str, bool]],
    problems: Iterable[str],
    written: Iterable[Path],
) -> None:
    """Print a report, notes on tests (each with whether it is red), problems and the names of written files."""
    # With the colours that pytest uses (--color, PY_COLORS, NO_COLOR).
    verbosity = reporter.config.get_verbosity()
    if isinstance(reporter, PlainReporter):
        # No failure was shown: a quiet summary has a line for each.
        verbosity = -1
    screen = screen_of(sys.stdout, colours=reporter.hasmarkup, verbosity=verbosity)
    text = summary(report, screen)
    if isinstance(reporter, PlainReporter) or screen.is_quiet:
        reporter.ensure_newline()
        text = "\n".join(f"perfguard: {line}" for line in text.splitlines())
    else:
        reporter.write_sep("=", "perfguard", green=green, red=not green)
    reporter.write_line(screen.shown(text))
    for line, is_red in notes:
        line = f"perfguard: {line}" if screen.is_quiet else line
        reporter.write_line(screen.shown(line), red=is_red, yellow=not is_red)
    for problem in problems:
        reporter.write_line(screen.carried(printable(f"perfguard: {problem}")), red=True)
    for path in written:
        reporter.write_line(screen.carried(printable(f"report: {path}")))
    for line in job_annotations(report, root=reporter.config.rootpath):
        reporter.write_line(line)


def github_summary() -> str | None:
    """Return the file of the job's page, in a job of GitHub Actions."""
    return os.environ.get("GITHUB_STEP_SUMMARY") if is_a_job() else None


def append_github_summary(path: str, report: RunReport) -> None:
    """Append a report to the page of the job. Raises `StoreError`."""
    append(Path(path), f"{report_markdown(report)}\n")
