"""`perfguard history add | show | trend | prune | export`: what every run measured, and since which commit it is another."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.commands import CommandGroup
from perfguard.cli.exits import EXIT_NOTHING, EXIT_PASSED, EXIT_REGRESSION, EXIT_USAGE
from perfguard.cli.screen import screen, tell, tell_plain, verbose_option
from perfguard.errors import PerfguardError, StoreError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from perfguard.judge.trend import Trend
    from perfguard.recording import Provenance
    from perfguard.reports import RunReport
    from perfguard.reports.table import Column
    from perfguard.screen import Screen
    from perfguard.settings import Settings
    from perfguard.stores.history.archive import Added, History, Run
    from perfguard.stores.history.entry import Entry, RunFacts, WorkloadEntry
    from perfguard.stores.history.series import Told

#: Where the history is, when no option says so; in a shell of CI it keeps a password out of the command.
VARIABLE = "PERFGUARD_HISTORY"
#: How an exported history begins: a list of runs, and before it nothing that has parts.
_EXPORT = re.compile(r"\s*\{[^{\[]*\"runs\"\s*:\s*\[")

_WHERE = click.option(
    "--history",
    "place",
    metavar="FILE|URL",
    help=f"A file, or postgresql://... (default: {VARIABLE}, else `history` in [tool.perfguard], else perfguard-history.db).",
)


@click.group(name="history", cls=CommandGroup)
def command() -> None:
    """Keep what runs measured; show since when a number is worse."""


# -- add ---------------------------------------------------------------------------------------------------------------


@command.command()
@_WHERE
@click.option("--commit", metavar="SHA", help="The commit the reports are of, where they do not say so.")
@click.option("--branch", metavar="NAME", help="Its branch, where they do not say so.")
@click.option("--release", metavar="NAME", help="These reports are of a release; also of a run that is there already.")
@click.option(
    "--at", metavar="ISO-TIME", help="When the commit was made, where they do not say so: it orders the runs."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def add(
    place: str | None,
    commit: str | None,
    branch: str | None,
    release: str | None,
    at: str | None,
    files: tuple[Path, ...],
) -> None:
    """Add reports, or an exported history.

    Reports are files of --perfguard-report. What is there already is not added again. Each run is added whole or not
    at all. Exit codes: 0 all of them are in, 2 one of them is not.
    """
    from perfguard.stores.history.entry import RunFacts, instant

    committed_at = instant(at, where="--at") if at else None
    said = RunFacts(commit=commit, branch=branch, release=release, committed_at=committed_at)
    history: History | None = None
    counts = {"added": 0, "already there": 0, "not added": 0}
    for file in files:
        try:
            entries, name = _read(file, said=said)
        except PerfguardError as error:
            _tell(f"not added: {error}", err=True)
            counts["not added"] += 1
            continue
        # Not before there is something to add: a wrong name leaves no empty history behind.
        history = history or _open(place, writing=True)
        for number, entry in enumerate(entries):
            try:
                done = history.add(entry, said=said)
            except StoreError as error:
                _tell(f"not added: {name(entry)}: {error}", err=True)
                counts["not added"] += len(entries) - number
                break
            counts["added" if done.is_new else "already there"] += 1
            _tell(_added(name(entry), entry, said, done))
    if sum(counts.values()) > 1 and history is not None:
        _tell(f"{history.shown}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    sys.exit(EXIT_USAGE if counts["not added"] else EXIT_PASSED)


def _read(path: Path, *, said: RunFacts) -> tuple[Sequence[Entry], Callable[[Entry], str]]:
    """Return the runs a file holds, one of a report and all of an exported history, and how each is named.

    What is different in a report of an older perfguard is told; one of a newer is refused: once it is kept in part, the rest
    of it could never be added.
    """
    from perfguard.documents import format_of, newest_format, parsed
    from perfguard.reports.reading import read_run
    from perfguard.stores.history.entry import digest_of, entry_of
    from perfguard.stores.history.exchange import read_entries

    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist; write it with: pytest --perfguard --perfguard-report {path}")
    if _is_export(path):
        _refuse_facts_for_an_export(path, said)
        return read_entries(path), lambda entry: f"{path} {entry.digest[:12]}"
    report = read_run(path)
    document = parsed(path, remedy="Write it again with: pytest --perfguard --perfguard-report FILE")
    if format_of(document) > newest_format("report"):
        raise StoreError(
            f"{path} was written by perfguard {report.written_by}, a newer one, and not all of it could be kept. "
            f"Run: pip install --upgrade perfguard, then add it again"
        )
    try:
        facts = _facts(report.provenance)
        entry = entry_of(report.verdicts, digest=digest_of(document), perfguard=report.written_by, facts=facts)
    except PerfguardError as error:
        raise type(error)(f"{path}: {error}") from error
    for remark in report.remarks:
        _tell(remark, err=True)
    return [entry], lambda _: str(path)


def _refuse_facts_for_an_export(path: Path, said: RunFacts) -> None:
    named = {"--commit": said.commit, "--branch": said.branch, "--at": said.committed_at}
    if given := [option for option, value in named.items() if value is not None]:
        raise UsageError(
            f"{path} is an exported history, and each of its runs has a commit, a branch and a time of its own; "
            f"add it without {', '.join(given)}."
        )


def _is_export(path: Path) -> bool:
    """Whether a file begins as an exported history does: its reader then says what is wrong with it."""
    if not os.path.isfile(path):
        return False  # opening a pipe would wait for a writer who never comes
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _EXPORT.match(file.read(1000)) is not None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. Mend that, then run the same command again."
        ) from error


def _facts(provenance: Provenance) -> RunFacts:
    """Return what a report says of its run; one of an older perfguard says nothing."""
    from perfguard.stores.history.entry import RunFacts, instant

    times = {name: getattr(provenance, name) for name in ("committed_at", "finished_at")}
    committed_at, finished_at = (None if one is None else instant(one, where=name) for name, one in times.items())
    return RunFacts(
        commit=provenance.commit,
        branch=provenance.branch,
        ci_url=provenance.ci_url,
        committed_at=committed_at,
        finished_at=finished_at,
    )


def _added(name: str, entry: Entry, said: RunFacts, done: Added) -> str:
    from perfguard.reports.names import printable
    from perfguard.reports.trend import commit_text

    if not done.is_new:
        marked = f"; now of release {printable(done.marked)}" if done.marked else ""
        has_more = any(one is not None for one in (said.commit, said.branch, said.committed_at))
        kept = "; its commit, branch and time stay as they are" if has_more else ""
        return f"already there: {name} is run {done.run}{marked}{kept}"
    facts = entry.facts.completed_by(said)
    numbers = sum(len(one.numbers) for one in entry.workloads)
    known = [
        *([f"commit {commit_text(facts.commit)}"] if facts.commit else ["no commit: name it with --commit SHA"]),
        *([f"branch {printable(facts.branch)}"] if facts.branch else []),
        *([f"release {printable(facts.release)}"] if facts.release else []),
    ]
    invalid = sum(one.outcome == "INVALID" for one in entry.workloads)
    lost = f", {invalid} of them INVALID and without numbers" if invalid else ""
    return (
        f"added: {name} is run {done.run} ({', '.join(known)}): {_counted(len(entry.workloads), 'workload')}{lost}, "
        f"{_counted(numbers, 'measurement')}"
    )


# -- show --------------------------------------------------------------------------------------------------------------


@command.command()
@_WHERE
@click.option("--branch", metavar="NAME", help="Only runs of this branch.")
@click.option("--last", metavar="N", type=click.IntRange(min=1), default=20, help="How many runs (default: 20).")
@click.argument("run", required=False)
@verbose_option("Show every column, however narrow the screen.")
def show(place: str | None, branch: str | None, last: int, run: str | None, verbose: bool) -> None:
    """List the newest runs, or the workloads of one run.

    The run is named by its number, its release or its commit.
    """
    history = _open(place)
    from perfguard.stores.history.archive import run_named

    runs = history.runs(branch=branch)
    if not runs:
        _nothing(f"there is no run{f' of branch {branch}' if branch else ''} in {history.shown}")
    if run is not None:
        _show_run(history, run_named(runs, run), screen(verbose=verbose))
        return
    if len(runs) > last:
        _tell(f"{len(runs) - last} earlier runs are not shown: --last {len(runs)}")
    from perfguard.reports.table import Column

    columns = (
        Column(title="run"),
        Column(title="at"),
        Column(title="commit"),
        Column(title="branch", least=10, leaves=2),
        Column(title="release", least=8, leaves=3),
        Column(title="outcomes", leaves=1),
        Column(title="measurements", leaves=4),
    )
    shown_on = screen(verbose=verbose)
    tell(_table([_run_row(one) for one in runs[-last:]], columns, shown_on), shown_on)


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


def _show_run(history: History, run: Run, shown_on: Screen) -> None:
    from perfguard.reports.table import Column, Cut

    facts = run.facts
    told = {
        "commit": facts.commit,
        "branch": facts.branch,
        "release": facts.release,
        "committed": facts.committed_at and _minute(facts.committed_at),
        "finished": facts.finished_at and _minute(facts.finished_at),
        "added": _minute(run.added_at),
        "ci": facts.ci_url,
        "perfguard": run.perfguard,
    }
    workloads = history.workloads_of(run.number)
    told |= {"machine": "; ".join(sorted({one.machine for one in workloads if one.machine})) or None}
    _tell("\n".join([f"run {run.number}", *(f"  {name}: {value}" for name, value in told.items() if value)]))
    rows = [(one.outcome, one.workload, *_step_of(one), str(len(one.numbers)), one.finding or "") for one in workloads]
    columns = (
        Column(title="outcome"),
        Column(title="workload", least=24),
        Column(title="step ms", leaves=3),
        Column(title="change", leaves=4),
        Column(title="measurements", leaves=2),
        Column(title="worst finding", least=24, cut=Cut.END, leaves=1),
    )
    tell(_table(rows, columns, shown_on), shown_on)


def _step_of(entry: WorkloadEntry) -> tuple[str, str]:
    """Return step time and change as the report of the run showed them."""
    from perfguard.judge.step_time import milliseconds, percent

    numbers = {one.metric: one.value for one in entry.numbers if not one.subject}
    time, change = numbers.get("step_ms"), numbers.get("step_change_percent")
    return "-" if time is None else milliseconds(time), "-" if change is None else percent(change / 100)


# -- trend -------------------------------------------------------------------------------------------------------------


@command.command()
@_WHERE
@click.option(
    "--metric", "metrics", metavar="GLOB", multiple=True, help="Metrics to look at, such as 'operator_time[*]'."
)
@click.option("--branch", metavar="NAME", help="Only runs of this branch.")
@click.option("--since", metavar="DATE|RUN", help="Only runs from a date, a release, a commit or a run's number on.")
@verbose_option("Show every column, however narrow the screen.")
@click.argument("workloads", nargs=-1)
def trend(
    place: str | None,
    metrics: tuple[str, ...],
    branch: str | None,
    since: str | None,
    verbose: bool,
    workloads: tuple[str, ...],
) -> None:
    """Show since which commit the numbers changed.

    They are compared with the last release as well. Without --metric: those of the whole workload (steps, time,
    memory). Exit codes: 0 nothing is worse than in the last release (without one, in the first run that is looked at),
    1 something is, 4 there is nothing to look at.
    """
    from perfguard.reports.trend import trend_text

    history = _open(place)
    runs = _since(history.runs(branch=branch), since)
    if not runs:
        _nothing(f"there is no such run in {history.shown}")
    found = history.series(
        workload=lambda name: not workloads or any(_means(glob, name) for glob in workloads),
        metric=lambda metric, subject: _is_asked_for(metric, subject, metrics),
        runs=runs,
    )
    trends = _trends(found, _settings(), as_times=not metrics)
    if not trends:
        _nothing(f"no such workload and metric was measured in these {_counted(len(runs), 'run')}")
    shown_on = screen(verbose=verbose)
    tell(trend_text(trends, shown_on), shown_on)
    for note in _notes(runs, branch):
        _tell(note)
    sys.exit(EXIT_REGRESSION if any(one.worse for one in trends) else EXIT_PASSED)


def with_trends(report: RunReport, place: str | None) -> RunReport:
    """Return a report with what a history says of its workloads.

    A history at a `place` that was named must be of use: raises `UsageError` and `StoreError`. Of another, one that is not
    there yet is nothing to speak of, and of one that cannot be used a remark says why.
    """
    from dataclasses import replace

    from perfguard.stores.history import NoHistoryError

    settings = _settings()
    try:
        return replace(report, trends=_trends_of(report, place, settings))
    except PerfguardError as error:
        if place is not None:
            raise
        if isinstance(error, NoHistoryError):
            return report
        return replace(report, remarks=(*report.remarks, f"the history was not looked at: {error}"))


def _trends_of(report: RunReport, place: str | None, settings: Settings) -> tuple[Trend, ...]:
    """Return the trends of whole workloads, recorded as the report's and on its machines.

    They are of runs of its branch, where the history has any, else of all runs; and of no run that came after the report's own.
    """
    from perfguard.stores.history.entry import instant

    history = _open(place)
    own = report.provenance.committed_at or report.provenance.finished_at
    last = instant(own, where="the report") if own else None
    runs = [run for run in history.runs() if last is None or run.at <= last]
    verdicts = {verdict.workload: verdict for verdict in report.verdicts}
    branch = report.provenance.branch
    of_branch = [run for run in runs if branch is not None and run.facts.branch == branch]
    found = history.series(
        workload=lambda name: name in verdicts,
        metric=lambda metric, subject: _is_asked_for(metric, subject, ()),
        runs=of_branch or runs,
    )
    alike = [one for one in found if one.is_of(verdicts[one.series.workload])]
    return tuple(_trends(alike, settings, as_times=True))


def _trends(found: Sequence[Told], settings: Settings, *, as_times: bool) -> list[Trend]:
    """Return the trends; with `as_times` a workload has one time of its step, in ms, by the change that is judged.

    What is compared over time is the cost, for the machine is not as quick in every run: all of it is told at the speed of the
    newest run, whose time is the one that was measured.
    """
    from perfguard.judge.step_time import FRESH_TIME, OTHER_TIMES
    from perfguard.judge.trend import in_milliseconds

    if not as_times:
        return [_trend(one, settings) for one in found]
    known = {(_where_of(one), one.series.metric): one.series for one in found if not one.series.subject}
    trends = []
    for told in found:
        metric, where = told.series.metric, _where_of(told)
        has_cost = (where, "step_cost") in known
        if metric == FRESH_TIME or (has_cost and metric in (*OTHER_TIMES, "run_wall_p90")):
            continue
        one = _trend(told, settings)
        time = known.get((where, FRESH_TIME))
        if metric == "step_cost" and time and time.points[-1].moment == one.latest.moment and one.latest.value > 0:
            one = in_milliseconds(one, time.points[-1].value / 1e3 / one.latest.value)
        elif metric == "step_time":
            one = in_milliseconds(one, 1e-3)
        trends.append(one)
    return trends


def _where_of(told: Told) -> tuple[str, str, str]:
    return told.series.workload, told.series.machine, told.series.way


def _trend(told: Told, settings: Settings) -> Trend:
    from dataclasses import replace

    from perfguard.judge.trend import trend as trend_of
    from perfguard.measure import METRICS
    from perfguard.stores.history.entry import rules_of

    policy = replace(settings.policy, marker=rules_of(told.tolerance), backend=told.backend)
    metric = METRICS.get(told.series.metric)
    tolerance = None if metric is None else policy.tolerance(metric, told.series.subject)
    return trend_of(told.series, metric=metric, tolerance=tolerance)


def _means(glob: str, workload: str) -> bool:
    """Whether a glob means a workload: all of its id, or its last parts (`test_mlp`, `test_torch.py::*`)."""
    from perfguard.judge.tolerance import is_like

    return any(is_like(workload, f"{before}{glob}") for before in ("", "*::", "*/"))


def _is_asked_for(metric: str, subject: str, globs: Iterable[str]) -> bool:
    from perfguard.judge.step_time import FRESH_TIME
    from perfguard.judge.tolerance import is_like
    from perfguard.judge.weights import WORKLOAD_METRICS
    from perfguard.measure.measurement import label, rank_of

    if not globs:
        if metric == FRESH_TIME and not subject:
            # What the cost of a step is told by.
            return True
        # The steps of a rank (`rank1`) are there where a job has no number for all of them.
        return metric in WORKLOAD_METRICS and (rank_of(subject) is None or ":" not in subject)
    return any(is_like(label(metric, subject), glob) or is_like(metric, glob) for glob in globs)


def _since(runs: Sequence[Run], since: str | None) -> Sequence[Run]:
    from perfguard.stores.history.archive import run_named
    from perfguard.stores.history.entry import instant

    if since is None or not runs:
        return runs
    if re.match(r"\d{4}-\d\d", since) and all(run.facts.release != since for run in runs):
        at = instant(since, where="--since")
        return [run for run in runs if run.at >= at]
    first = run_named(runs, since)
    return runs[runs.index(first) :]


def _notes(runs: Sequence[Run], branch: str | None) -> list[str]:
    """Say what makes a trend hard to read."""
    branches = sorted({run.facts.branch for run in runs if run.facts.branch})
    nameless = sum(run.facts.commit is None for run in runs)
    notes = []
    if branch is None and len(branches) > 1:
        notes.append(f"these runs are of {len(branches)} branches; look at one with: --branch {branches[0]}")
    if nameless:
        notes.append(f"{nameless} of {_counted(len(runs), 'run')} have no commit; add reports with: --commit SHA")
    return notes


# -- prune -------------------------------------------------------------------------------------------------------------


@command.command()
@_WHERE
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=0), help="Delete all but the newest N runs.")
@click.option("--before", metavar="DATE", help="Delete runs before this time.")
@click.option("--branch", metavar="NAME", help="Only runs of this branch; alone: all of them.")
@click.option("--releases", is_flag=True, help="Delete runs of releases as well; else they are kept.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
def prune(
    place: str | None, keep_runs: int | None, before: str | None, branch: str | None, releases: bool, yes: bool
) -> None:
    """Delete old runs with all they measured.

    It says how many they are, and asks.
    """
    from perfguard.stores.history.entry import instant

    if keep_runs is None and before is None and branch is None:
        raise UsageError("Say which runs to delete: --keep-runs N, --before DATE or --branch NAME.")
    history = _open(place)
    of_branch = history.runs(branch=branch)
    doomed = list(of_branch[: max(0, len(of_branch) - keep_runs)] if keep_runs is not None else of_branch)
    if before is not None:
        until: datetime = instant(before, where="--before")
        doomed = [run for run in doomed if run.at < until]
    kept = [run for run in doomed if run.facts.release and not releases]
    doomed = [run for run in doomed if run not in kept]
    if kept:
        _tell(f"{_counted(len(kept), 'run')} of releases stay: --releases deletes them as well")
    if not doomed:
        _tell("nothing to prune")
        return
    numbers = sum(run.measurements for run in doomed)
    _tell(
        f"{_range(doomed)}: {_counted(len(doomed), 'run')} of {len(history.runs())}, {_counted(numbers, 'measurement')}"
    )
    try:
        agreed = yes or click.confirm(f"Delete {_counted(len(doomed), 'run')}?")
    except click.Abort as error:
        raise UsageError("Nobody answered, so nothing was deleted; delete without being asked: --yes") from error
    if not agreed:
        _tell("nothing was deleted")
        sys.exit(EXIT_USAGE)
    _tell(f"{history.forget(run.number for run in doomed)} deleted")
    history.database.compact()


def _range(runs: Sequence[Run]) -> str:
    first, last = runs[0], runs[-1]
    if first == last:
        return f"run {first.number} ({_minute(first.at)})"
    return f"run {first.number} ({_minute(first.at)}) to run {last.number} ({_minute(last.at)})"


# -- export ------------------------------------------------------------------------------------------------------------


@command.command()
@_WHERE
@click.option(
    "--format", "form", type=click.Choice(["csv", "json"]), default="json", help="json can be added elsewhere."
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def export(place: str | None, form: str, file: Path | None) -> None:
    """Write all runs to FILE or standard output.

    JSON goes into another history with `perfguard history add`; CSV has a line a measurement.
    """
    from perfguard.cli.output import refuse_clash
    from perfguard.documents import write_atomically
    from perfguard.stores.history.exchange import csv_text, document_text

    if file is not None:
        refuse_clash([], [file])
    history = _open(place)
    text = csv_text(history.entries()) if form == "csv" else document_text(history.entries())
    if file is not None:
        write_atomically(file, text)
        return
    for piece in text:
        click.echo(piece.encode("utf-8"), nl=False)


# -- all of them -------------------------------------------------------------------------------------------------------


def _open(place: str | None, *, writing: bool = False) -> History:
    from perfguard.settings import find_root
    from perfguard.stores.history import HISTORY_FILE, open_history

    if place is not None:
        return open_history(place, root=Path.cwd(), writing=writing)
    if of_variable := os.environ.get(VARIABLE):
        return open_history(of_variable, root=Path.cwd(), writing=writing)
    return open_history(_settings().history or HISTORY_FILE, root=find_root(Path.cwd()), writing=writing)


def _settings() -> Settings:
    from perfguard.settings import find_root, read_settings

    return read_settings(find_root(Path.cwd()))


def _table(rows: Sequence[tuple[str, ...]], columns: Sequence[Column], shown_on: Screen) -> str:
    from perfguard.reports.names import printable
    from perfguard.reports.table import table

    return table(columns, [[printable(cell) for cell in row] for row in rows], shown_on)


def _tell(text: str, *, err: bool = False) -> None:
    """Print lines, with what a terminal would obey escaped."""
    from perfguard.reports.names import printable

    tell_plain("\n".join(printable(line) for line in text.split("\n")), err=err)


def _nothing(sentence: str) -> None:
    _tell(f"nothing to look at: {sentence}; see what there is with: perfguard history show")
    sys.exit(EXIT_NOTHING)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")
