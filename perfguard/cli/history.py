"""`perfguard history add | show | trend | prune | export`: what every run measured, and since which commit it changed."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_data, echo_line, refuse_clash, screen, table_text
from perfguard.errors import PerfguardError, StoreError, UsageError, counted
from perfguard.version import upgrade_command

if TYPE_CHECKING:
    from datetime import datetime

    from perfguard.recording import Provenance
    from perfguard.stores.history.archive import Added, History, Run
    from perfguard.stores.history.entry import Entry, RunFacts, WorkloadEntry


#: The beginning of an exported history: a list of runs after values that are neither lists nor objects.
_EXPORT = re.compile(r"\s*\{[^{\[]*\"runs\"\s*:\s*\[")


@click.group(name="history", cls=options.CommandGroup)
def command() -> None:
    """Keep all measurements; show since when a number is worse."""


@command.command()
@options.history
@click.option("--commit", metavar="SHA", help="The commit of the reports, if they do not name it.")
@click.option("--branch", metavar="NAME", help="The branch of the reports, if they do not name it.")
@click.option(
    "--release", metavar="NAME", help="The release of the reports; also set on runs that the history already has."
)
@click.option("--at", metavar="ISO-TIME", help="The time of the commit, if they do not name it; runs are sorted by it.")
@click.argument("files", nargs=-1, required=True, type=options.PATH)
def add(place: str | None, at: str | None, files: tuple[Path, ...], **facts: Any) -> None:
    """Add reports, or an exported history.

    Reports are files of --perfguard-report. A run that the history already has is not added again. Each run is added
    completely or not at all.

    Exit codes: 0 the history has all of them, 2 one was not added.
    """
    from perfguard.cli.project import open_project_history
    from perfguard.stores.history.entry import RunFacts, instant

    given = RunFacts(committed_at=instant(at, where="--at") if at else None, **facts)
    history: History | None = None
    counts = {"added": 0, "already there": 0, "not added": 0}
    for file in files:
        try:
            entries, name = _read_runs(file, given=given)
        except PerfguardError as error:
            echo_line(f"not added: {error}", err=True)
            counts["not added"] += 1
            continue
        # Opened only when there is something to add, so that a wrong file name creates no empty history.
        history = history or open_project_history(place, writing=True)
        for number, entry in enumerate(entries):
            try:
                done = history.add(entry, given=given)
            except StoreError as error:
                echo_line(f"not added: {name(entry)}: {error}", err=True)
                counts["not added"] += len(entries) - number
                break
            counts["added" if done.is_new else "already there"] += 1
            echo_line(_added(name(entry), entry, given, done))
    if sum(counts.values()) > 1 and history is not None:
        echo_line(f"{history.database.shown}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    sys.exit(Exit.USAGE if counts["not added"] else Exit.PASSED)


def _added(name: str, entry: Entry, given: RunFacts, done: Added) -> str:
    from perfguard.reports.trend import commit_text
    from perfguard.screen import printable

    if not done.is_new:
        marked = f"; now of release {printable(done.marked)}" if done.marked else ""
        has_more = any(one is not None for one in (given.commit, given.branch, given.committed_at))
        kept = "; its commit, branch and time stay as they are" if has_more else ""
        return f"already there: {name} is run {done.run}{marked}{kept}"
    facts = entry.facts.completed_by(given)
    numbers = sum(len(one.numbers) for one in entry.workloads)
    known = [f"commit {commit_text(facts.commit)}" if facts.commit else "no commit: name it with --commit SHA"]
    named = {"branch": facts.branch, "release": facts.release}
    known += [f"{name} {printable(value)}" for name, value in named.items() if value]
    invalid = sum(one.outcome == "INVALID" for one in entry.workloads)
    lost = f", {invalid} of them INVALID and without numbers" if invalid else ""
    return (
        f"added: {name} is run {done.run} ({', '.join(known)}): {counted(len(entry.workloads), 'workload')}{lost}, "
        f"{counted(numbers, 'measurement')}"
    )


def _read_runs(path: Path, *, given: RunFacts) -> tuple[Sequence[Entry], Callable[[Entry], str]]:
    """Return the runs in a file, and a function that names each of them. `given` are the facts given as options.

    Prints what differs in a report of an older perfguard. Raises `StoreError`, also for a report of a newer perfguard: the
    parts that are unknown here could never be added later.
    """
    from perfguard.documents import parsed
    from perfguard.reports.reading import read_run
    from perfguard.stores.history.entry import digest_of, entry_of
    from perfguard.stores.history.exchange import read_entries

    if _is_export(path):
        options = {"--commit": given.commit, "--branch": given.branch, "--at": given.committed_at}
        if names := [option for option, value in options.items() if value is not None]:
            raise UsageError(
                f"{path} is an exported history, and each of its runs has a commit, a branch and a time of its own; "
                f"add it without {', '.join(names)}."
            )
        return read_entries(path), lambda entry: f"{path} {entry.digest[:12]}"
    report = read_run(path)
    if report.is_partial:
        raise StoreError(
            f"{path} was written by perfguard {report.written_by}, a newer one, and not all of it could be kept. "
            f"Run: {upgrade_command()}, then add it again"
        )
    digest = digest_of(parsed(path, remedy="Write it again with: pytest --perfguard --perfguard-report FILE"))
    try:
        facts = _facts(report.provenance)
        entry = entry_of(report.verdicts, digest=digest, perfguard=report.written_by, facts=facts)
    except PerfguardError as error:
        raise type(error)(f"{path}: {error}") from error
    for remark in report.remarks:
        echo_line(remark, err=True)
    return [entry], lambda _: str(path)


def _is_export(path: Path) -> bool:
    """Whether a file begins as an exported history does; the reader of histories then names its errors."""
    if not os.path.isfile(path):
        return False  # opening a pipe without a writer blocks forever
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _EXPORT.match(file.read(1000)) is not None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. Correct that, then run the same command again."
        ) from error


def _facts(provenance: Provenance) -> RunFacts:
    """Return the facts of a report's run; a report of an older perfguard has none."""
    from perfguard.stores.history.entry import RunFacts, instant

    texts = {name: getattr(provenance, name) for name in ("committed_at", "finished_at")}
    times: dict[str, Any] = {name: instant(text, where=name) for name, text in texts.items() if text is not None}
    return RunFacts(commit=provenance.commit, branch=provenance.branch, ci_url=provenance.ci_url, **times)


@command.command()
@options.history
@click.option("--branch", metavar="NAME", help="Show only runs of this branch.")
@click.option("--last", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="Number of runs.")
@click.argument("run", required=False)
@options.verbose(options.WIDE)
def show(place: str | None, branch: str | None, last: int, run: str | None) -> None:
    """List the newest runs, or the workloads of one run.

    The run is named by its number, its release or its commit.
    """
    from perfguard.cli.project import open_project_history
    from perfguard.stores.history.archive import run_named

    history = open_project_history(place)
    runs = history.runs(branch=branch)
    if not runs:
        _nothing(f"there is no run{f' of branch {branch}' if branch else ''} in {history.database.shown}")
    if run is not None:
        _show_run(history, run_named(runs, run))
        return
    if len(runs) > last:
        echo_line(f"{len(runs) - last} earlier runs are not shown: --last {len(runs)}")
    columns = {
        "run": {},
        "at": {},
        "commit": {},
        "branch": {"least": 10, "leaves": 2},
        "release": {"least": 8, "leaves": 3},
        "outcomes": {"leaves": 1},
        "measurements": {"leaves": 4},
    }
    echo(table_text(columns, map(_run_row, runs[-last:])))


def _run_row(run: Run) -> tuple[str, ...]:
    from perfguard.reports.trend import commit_text

    facts = run.facts
    return (
        str(run.number),
        _minute(run.at),
        commit_text(facts.commit) if facts.commit else "-",
        facts.branch or "-",
        facts.release or "-",
        ", ".join(f"{count} {outcome}" for outcome, count in run.outcomes) or "-",
        str(run.measurements),
    )


def _show_run(history: History, run: Run) -> None:
    from perfguard.reports.table import Cut

    facts, workloads = run.facts, history.workloads_of(run.number)
    shown = {
        "commit": facts.commit,
        "branch": facts.branch,
        "release": facts.release,
        "committed": _minute(facts.committed_at),
        "finished": _minute(facts.finished_at),
        "added": _minute(run.added_at),
        "ci": facts.ci_url,
        "perfguard": run.perfguard,
        "machine": "; ".join(sorted({one.machine for one in workloads if one.machine})),
    }
    for line in (f"run {run.number}", *(f"  {name}: {value}" for name, value in shown.items() if value)):
        echo_line(line)
    rows = [(one.outcome, one.workload, *_step_of(one), str(len(one.numbers)), one.finding or "") for one in workloads]
    columns: dict[str, dict[str, Any]] = {
        "outcome": {},
        "workload": {"least": 24},
        "step ms": {"leaves": 3},
        "change": {"leaves": 4},
        "measurements": {"leaves": 2},
        "worst finding": {"least": 24, "cut": Cut.END, "leaves": 1},
    }
    echo(table_text(columns, rows))


def _step_of(entry: WorkloadEntry) -> tuple[str, str]:
    """Return step time and change as the report of the run showed them."""
    from perfguard.judge.step_time import percent, three_digits

    numbers = {one.metric: one.value for one in entry.numbers if not one.subject}
    time, change = numbers.get("step_ms"), numbers.get("step_change_percent")
    return "-" if time is None else three_digits(time), "-" if change is None else percent(change / 100)


@command.command()
@options.history
@click.option("--metric", "metrics", metavar="GLOB", multiple=True, help="Metrics to show, such as 'operator_time[*]'.")
@click.option("--branch", metavar="NAME", help="Show only runs of this branch.")
@click.option(
    "--since", metavar="DATE|RUN", help="Show only runs since a date, a release, a commit or the number of a run."
)
@options.verbose(options.WIDE)
@click.argument("workloads", nargs=-1)
def trend(
    place: str | None, metrics: tuple[str, ...], branch: str | None, since: str | None, workloads: tuple[str, ...]
) -> None:
    """Show since which commit the numbers changed.

    Without --branch, the runs of the newest run's branch count. The newest run is also compared with the last release.
    Without --metric, it shows the metrics of the whole workload (steps, time, memory). Exit codes: 0 nothing is worse than in
    the last release (without a release: than in the first run shown), 1 something is worse, 4 there is nothing to show.
    """
    from perfguard.cli.project import open_project_history
    from perfguard.cli.trends import of_the_newest_branch, runs_since, trends_in
    from perfguard.reports.trend import trend_text

    history = open_project_history(place)
    runs = runs_since(history.runs(branch=branch), since)
    if not runs:
        _nothing(f"there is no such run in {history.database.shown}")
    runs, others = of_the_newest_branch(runs)
    trends = trends_in(history, runs, workloads=workloads, metrics=metrics)
    if not trends:
        _nothing(f"no such workload and metric was measured in these {counted(len(runs), 'run')}")
    echo(trend_text(trends, screen()))
    for note in _notes(runs, others):
        echo_line(note)
    sys.exit(Exit.REGRESSION if any(one.worse for one in trends) else Exit.PASSED)


def _notes(runs: Sequence[Run], others: Sequence[Run]) -> list[str]:
    """Return notes on runs that make a trend hard to read, and on `others` that are left out."""
    from perfguard.screen import printable

    nameless = sum(run.facts.commit is None for run in runs)
    notes = []
    if others:
        named = sorted({run.facts.branch for run in others if run.facts.branch})
        show = f"; show another with: --branch {shlex.quote(printable(named[0]))}" if named else ""
        branch = printable(runs[-1].facts.branch or "")
        notes.append(f"these are the runs of {branch}, the newest run's branch, without {len(others)} of others{show}")
    if nameless:
        notes.append(f"{nameless} of {counted(len(runs), 'run')} have no commit; add reports with: --commit SHA")
    return notes


@command.command()
@options.history
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=0), help="Delete all but the newest N runs.")
@click.option("--before", metavar="DATE", help="Delete runs before this time.")
@click.option("--branch", metavar="NAME", help="Delete only runs of this branch; without another option, all of them.")
@options.flag("--releases", help="Also delete runs of releases; by default they are kept.")
@options.yes
def prune(
    place: str | None, keep_runs: int | None, before: str | None, branch: str | None, releases: bool, yes: bool
) -> None:
    """Delete old runs and their measurements.

    It prints how many there are, and asks first.
    """
    from perfguard.cli.project import open_project_history
    from perfguard.stores.history.entry import instant

    if keep_runs is None and before is None and branch is None:
        raise UsageError("Say which runs to delete: --keep-runs N, --before DATE or --branch NAME.")
    history = open_project_history(place)
    of_branch = history.runs(branch=branch)
    doomed = list(of_branch[: max(0, len(of_branch) - keep_runs)] if keep_runs is not None else of_branch)
    if before is not None:
        until: datetime = instant(before, where="--before")
        doomed = [run for run in doomed if run.at < until]
    kept = [run for run in doomed if run.facts.release and not releases]
    doomed = [run for run in doomed if run not in kept]
    if kept:
        echo_line(f"{counted(len(kept), 'run')} of releases kept; to delete them too: --releases")
    if not doomed:
        echo_line("nothing to prune")
        return
    numbers = sum(run.measurements for run in doomed)
    echo_line(
        f"{_range(doomed)}: {counted(len(doomed), 'run')} of {len(history.runs())}, {counted(numbers, 'measurement')}"
    )
    options.confirm_deletion(counted(len(doomed), "run"), yes=yes)
    echo_line(f"{history.forget(run.number for run in doomed)} deleted")
    history.database.compact()


def _range(runs: Sequence[Run]) -> str:
    ends = runs if len(runs) == 1 else (runs[0], runs[-1])
    return " to ".join(f"run {run.number} ({_minute(run.at)})" for run in ends)


@command.command()
@options.history
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json"]),
    default="json",
    show_default=True,
    help="Format of the file.",
)
@click.argument("file", required=False, type=options.PATH)
def export(place: str | None, form: str, file: Path | None) -> None:
    """Write all runs to FILE or standard output.

    Add the JSON to another history with `perfguard history add`. The CSV has one line per measurement.
    """
    from perfguard.cli.project import open_project_history
    from perfguard.stores.history.exchange import csv_text, document_text
    from perfguard.writing import write_atomically

    if file is not None:
        refuse_clash([], [file])
    history = open_project_history(place)
    text = csv_text(history.entries()) if form == "csv" else document_text(history.entries())
    if file is not None:
        write_atomically(file, text)
        return
    for piece in text:
        echo_data(piece, is_json=form == "json")


def _nothing(sentence: str) -> None:
    echo_line(f"nothing to show: {sentence}; list the runs with: perfguard history show")
    sys.exit(Exit.NOTHING)


def _minute(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M") if at is not None else ""
