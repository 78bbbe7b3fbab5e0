"""`perfguard report REPORT.json|DIR...`: what runs came to, as files for people and for CI."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.cli import options
from perfguard.cli.output import refuse_clash, report_files
from perfguard.cli.project import project_settings
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.judge.verdict import Verdict
    from perfguard.reports import RunReport
    from perfguard.settings import Settings

#: The page, where nobody says what to write.
_PAGE = "perfguard.html"


@click.command(name="report")
@click.argument("places", metavar="REPORT.json|DIR...", nargs=-1, required=True, type=options.PATH)
@options.files(
    html=("--html", f"The page (default: {_PAGE})."),
    markdown=("--markdown", "For pull requests and job summaries."),
    metrics=("--metrics", "OpenMetrics, as GitLab reads it."),
    json=("--json", "One report of all of them."),
)
@click.option("--history", "place", metavar="FILE|URL", help="Says since when (default: that of `perfguard history`).")
def command(places: tuple[Path, ...], place: str | None, **reports: Any) -> None:
    """Make one report of several reports and recordings.

    Reports are files of --perfguard-report; a recording may be a profiler's directory. A recording is judged against
    its baseline where there is one; tolerances come from [tool.perfguard] of the nearest pyproject.toml. Several
    reports, of a matrix of jobs, become one. Where there is a history, the page says since which commit a number is
    what it is. Exit codes: 0 it was written, whatever it says; 2 usage.
    """
    from perfguard.cli.trends import with_trends

    found = joined([(one, _read(one)) for one in places])
    files = report_files(reports) or report_files({"out": [f"html:{_PAGE}"]})
    formats = {file.format for file in files}
    if found.is_partial and "json" in formats:
        raise UsageError(f"{found.remarks[0]}. Without all of it no report is written.")
    refuse_clash(places, (file.path for file in files))
    if "html" in formats:
        found = with_trends(found, place)
    for file in files:
        file.write(found)
        click.echo(f"{file.format}: {file.path}")
    echo_remarks(found)


def echo_remarks(report: RunReport) -> None:
    """Print to standard error which parts of a report could not be read, and why."""
    from perfguard.reports.names import printable

    for remark in report.remarks:
        click.echo(f"perfguard: {printable(remark)}", err=True)


def joined(reports: Iterable[tuple[Path, RunReport]]) -> RunReport:
    """Return several reports as one; of a workload that is in two of them it is told which file it is of."""
    from perfguard.recording import Provenance
    from perfguard.reports import RunReport

    # A file that is named twice is one report.
    every = list(dict(reports).items())
    if len(every) == 1:
        return every[0][1]
    names = Counter(verdict.workload for _, one in every for verdict in one.verdicts)
    told = [
        verdict if names[verdict.workload] == 1 else replace(verdict, origin=_origin(verdict, place))
        for place, one in every
        for verdict in one.verdicts
    ]
    # A recording that is named, and whose directory is named as well, is one.
    verdicts = list({(verdict.workload, verdict.origin): verdict for verdict in told}.values())
    origins = {one.provenance for _, one in every}
    writers = {one.written_by for _, one in every}
    return RunReport(
        verdicts=tuple(sorted(verdicts, key=lambda verdict: (verdict.workload, verdict.origin))),
        unused=tuple(sorted({name for _, one in every for name in one.unused})),
        not_run=tuple(sorted({name for _, one in every for name in one.not_run})),
        provenance=origins.pop() if len(origins) == 1 else Provenance(),
        written_by=writers.pop() if len(writers) == 1 else "",
        remarks=tuple(remark for _, one in every for remark in one.remarks),
        is_partial=any(one.is_partial for _, one in every),
    )


def _origin(verdict: Verdict, place: Path) -> str:
    """Return where a verdict is from: a file that was itself joined, or a directory of many, has told already."""
    known = verdict.origin
    return str(place) if not known else known if Path(known).is_relative_to(place) else f"{known} in {place}"


def _read(place: Path) -> RunReport:
    """Return the content of a report file or of a directory. Raises `UsageError` where there is neither."""
    from perfguard.reports import RunReport
    from perfguard.reports.reading import read_run

    if os.path.isdir(place):
        return RunReport(verdicts=tuple(judged(place, project_settings())))
    return read_run(place)


def judged(directory: Path, settings: Settings) -> list[Verdict]:
    """Return a verdict for every recording in a directory: against its baseline where there is one, else by itself.

    Of several recordings of one workload each tells where it lies.
    """
    from perfguard.capture.replay import recordings_in, replay
    from perfguard.gate import examine, judge_again
    from perfguard.stores import STORES

    store = STORES[settings.store](settings.baselines_directory)
    verdicts: list[tuple[Path, Verdict]] = []
    for place in recordings_in(directory):
        recording = replay(place)
        workload = recording.fingerprint.workload if recording.fingerprint else str(place)
        verdict = examine(recording, workload=workload, policy=settings.policy)
        baseline = store.load(workload) if recording.fingerprint is not None else None
        verdicts.append(
            (place, verdict if baseline is None else judge_again(verdict, baseline, policy=settings.policy))
        )
    names = Counter(verdict.workload for _, verdict in verdicts)
    return [one if names[one.workload] == 1 else replace(one, origin=str(place)) for place, one in verdicts]
