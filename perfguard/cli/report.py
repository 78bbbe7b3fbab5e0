"""`perfguard report REPORT.json|DIR...` and `perfguard view DIR`: results as files for people and for CI, or in the browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import echo_line, refuse_clash, report_files
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.judge.verdict import Verdict
    from perfguard.reports import RunReport

#: The page, where nobody says what to write.
_PAGE = "perfguard.html"
#: A trace above this stays where it is: a page that holds it would be slow to open.
_MOST_TRACE_BYTES = 100 * 1024**2


@click.command(name="report")
@click.argument("places", metavar="REPORT.json|DIR...", nargs=-1, required=True, type=options.PATH)
@options.files(
    html=("--html", f"Write the page (default: {_PAGE})."),
    markdown=("--markdown", "Write a summary in Markdown, for pull requests and job pages."),
    metrics=("--metrics", "Write the numbers as OpenMetrics, for GitLab's metrics reports."),
    json=("--json", "Write one report that joins all of them."),
)
@click.option(
    "--history", "place", metavar="FILE|URL", help="Where the history is (default: that of `perfguard history`)."
)
def command(places: tuple[Path, ...], place: str | None) -> None:
    """Make one report of several reports and recordings.

    Reports are files of --perfguard-report; a recording may be a profiler's directory. A recording is judged against
    its baseline where there is one; tolerances come from [tool.perfguard] of the nearest pyproject.toml. Several
    reports, such as those of a matrix of jobs, become one. With a history, the page shows since which commit a number
    has its value.

    Exit codes: 0 the report was written, whatever its outcomes; 2 usage.
    """
    from perfguard.cli.trends import with_trends
    from perfguard.cli.verdicts import joined

    found = joined(places)
    files = report_files(default=_PAGE)
    formats = {file.format for file in files}
    if found.is_partial and "json" in formats:
        raise UsageError(f"{found.remarks[0]}. Without all of it no report is written.")
    refuse_clash(places, (file.path for file in files))
    if "html" in formats:
        found = with_trends(found, place)
    for file in files:
        # What people read names no directory that is gone; what is joined keeps all that was reported.
        file.write(_with_recordings_here(found) if file.format in ("html", "markdown") else found)
        echo_line(f"{file.format}: {file.path}")
    for remark in found.remarks:
        echo_line(f"perfguard: {remark}", err=True)


def _with_recordings_here(report: RunReport) -> RunReport:
    """Return a report whose verdicts name a recording only if it is on this machine."""
    return replace(
        report,
        verdicts=tuple(
            one if one.recording is None or one.recording.is_dir() else replace(one, recording=None)
            for one in report.verdicts
        ),
    )


@click.command(name="view")
@click.argument("directory", metavar="DIR", type=options.PATH)
@options.path("--output", "-o", metavar="FILE", help="Where the page is written.")
@click.option("--open/--no-open", "opens", default=True, help="Whether a browser is opened (default: yes).")
def view(directory: Path, output: Path | None, opens: bool) -> None:
    """Build the page of a recording, and open it.

    A profiler's directory is a recording, too. The timeline goes into the page (the first rank's, up to 100 MB): a
    button hands it to https://ui.perfetto.dev, in the browser, and another saves it. Exit codes: 0 it was written, 2
    usage.
    """
    import webbrowser

    from perfguard.cli.verdicts import judged
    from perfguard.reports import RunReport
    from perfguard.reports.page import page_html
    from perfguard.scratch import kept_folder
    from perfguard.writing import write_atomically

    if output is not None:
        refuse_clash([directory], [output])
    verdicts = tuple(judged(directory))
    timelines: dict[Path, bytes] = {}
    for verdict in verdicts:
        place, text = _timeline(verdict)
        if text is not None:
            assert verdict.recording is not None
            timelines[verdict.recording] = text
        elif place is not None:
            echo_line(f"the timeline is too large for a page; open it from Perfetto: {place}", err=True)
    if output is None:
        output = kept_folder("perfguard-view-", _PAGE) / _PAGE
    write_atomically(output, page_html(RunReport(verdicts=verdicts), timelines=timelines))
    echo_line(str(output))
    if opens and not webbrowser.open(output.resolve().as_uri()):
        echo_line(f"perfguard: no browser could be opened; open {output} yourself.", err=True)


def _timeline(verdict: Verdict) -> tuple[Path | None, bytes | None]:
    """Return the first timeline of a recording, and its bytes where they fit into a page."""
    from perfguard.artifacts.readers.source import read_plain
    from perfguard.artifacts.table import Unreadable
    from perfguard.artifacts.timelines import timelines_in
    from perfguard.recording import read_recording

    if verdict.recording is None:
        return None, None  # it is a link that is not followed
    found = timelines_in(read_recording(verdict.recording))
    if not found:
        return None, None
    try:
        return found[0], read_plain(found[0], most_bytes=_MOST_TRACE_BYTES)
    except (OSError, Unreadable):
        # It is damaged, and the page says so among its findings.
        return None, None
