"""Trends of a project's history: those that `perfguard history trend` asks for, and those on the page of `perfguard report`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perfguard.cli.options import HISTORY_VARIABLE
from perfguard.cli.project import open_project_history, project_settings
from perfguard.errors import PerfguardError
from perfguard.judge.step_time import FRESH_TIME, OTHER_TIMES
from perfguard.judge.trend import Trend, in_milliseconds, trend
from perfguard.measure import METRICS
from perfguard.measure.measurement import is_like, label, rank_of
from perfguard.reports import RunReport
from perfguard.settings import Settings
from perfguard.stores.history.entry import instant, rules_of
from perfguard.stores.history.place import NoHistoryError, is_server

if TYPE_CHECKING:
    from perfguard.stores.history.archive import History, Run
    from perfguard.stores.history.series import RecordedSeries


def trends_in(
    history: History, runs: Sequence[Run], *, workloads: Sequence[str], metrics: Sequence[str]
) -> list[Trend]:
    """Return the trends of workloads and metrics, both named by globs, over `runs`.

    Without `workloads` all of them; without `metrics` those of whole workloads, with one time of a step each.
    """
    found = history.series(
        workload=lambda name: not workloads or any(_matches_workload(glob, name) for glob in workloads),
        metric=lambda metric, subject: _is_selected(metric, subject, metrics),
        runs=runs,
    )
    settings = project_settings()
    return [_trend(one, settings) for one in found] if metrics else _whole_trends(found, settings)


def with_trends(report: RunReport, place: str | None) -> RunReport:
    """Return a report with the trends of its workloads in the history at `place`, the value of `--history`.

    Without `place`, a history that does not exist yet is passed over, and one that cannot be read is a remark of the report;
    so is a database that only the project's settings name: they may be a stranger's, and a connection sends a password.
    Raises `UsageError` and `StoreError` for a named one.
    """
    settings = project_settings()
    if place is None and not os.environ.get(HISTORY_VARIABLE) and is_server(settings.history or ""):
        remark = (
            "the history was not looked at: it is a database that only pyproject.toml names; "
            f"connect to it with --history URL or {HISTORY_VARIABLE}"
        )
        return replace(report, remarks=(*report.remarks, remark))
    try:
        return replace(report, trends=tuple(_trends_of(report, place, settings)))
    except PerfguardError as error:
        if place is not None:
            raise
        if isinstance(error, NoHistoryError):
            return report
        return replace(report, remarks=(*report.remarks, f"the history was not looked at: {error}"))


def _trends_of(report: RunReport, place: str | None, settings: Settings) -> list[Trend]:
    """Return the trends of whole workloads that were recorded as the report's are, on its machines.

    They use the runs of its branch, up to the report's own: a commit of another branch is to blame for nothing here. A report
    that names no branch uses all runs.
    """
    history = open_project_history(place)
    own = report.provenance.committed_at or report.provenance.finished_at
    last = instant(own, where="the report") if own else None
    runs = [run for run in history.runs() if last is None or run.at <= last]
    verdicts = {verdict.workload: verdict for verdict in report.verdicts}
    branch = report.provenance.branch
    of_branch = [run for run in runs if branch is None or run.facts.branch == branch]
    found = history.series(
        workload=lambda name: name in verdicts,
        metric=lambda metric, subject: _is_selected(metric, subject, ()),
        runs=of_branch,
    )
    return _whole_trends([one for one in found if one.is_of(verdicts[one.series.workload])], settings)


def _whole_trends(found: Sequence[RecordedSeries], settings: Settings) -> list[Trend]:
    """Return trends in which a workload has one time of its step, in ms, with the changes of its cost.

    The cost is compared over time because a machine is not equally fast in every run; it is shown in ms by the time that the
    newest run measured.
    """
    known = {(_origin(one), one.series.metric): one.series for one in found if not one.series.subject}
    trends = []
    for recorded in found:
        metric, origin = recorded.series.metric, _origin(recorded)
        has_cost = (origin, "step_cost") in known
        if metric == FRESH_TIME or (has_cost and metric in (*OTHER_TIMES, "run_wall_p90")):
            continue
        one = _trend(recorded, settings)
        time = known.get((origin, FRESH_TIME))
        if metric == "step_cost" and time and time.points[-1].moment == one.latest.moment and one.latest.value > 0:
            one = in_milliseconds(one, time.points[-1].value / 1e3 / one.latest.value)
        elif metric == "step_time":
            one = in_milliseconds(one, 1e-3)
        trends.append(one)
    return trends


def _origin(recorded: RecordedSeries) -> tuple[str, str, str]:
    return recorded.series.workload, recorded.series.machine, recorded.series.way


def _trend(recorded: RecordedSeries, settings: Settings) -> Trend:
    policy = replace(settings.policy, marker=rules_of(recorded.tolerance), backend=recorded.backend)
    metric = METRICS.get(recorded.series.metric)
    tolerance = None if metric is None else policy.tolerance(metric, recorded.series.subject)
    return trend(recorded.series, metric=metric, tolerance=tolerance)


def _matches_workload(glob: str, workload: str) -> bool:
    """Whether a glob matches a workload's whole id, or its last parts (`test_mlp`, `test_torch.py::*`)."""
    return any(is_like(workload, f"{before}{glob}") for before in ("", "*::", "*/"))


def _is_selected(metric: str, subject: str, globs: Sequence[str]) -> bool:
    if not globs:
        if metric == FRESH_TIME and not subject:
            # Shows the cost of a step in ms.
            return True
        # The steps of a rank (`rank1`) replace a job's own number where it has none.
        return metric in METRICS and METRICS[metric].of_workload and (rank_of(subject) is None or ":" not in subject)
    return any(is_like(label(metric, subject), glob) or is_like(metric, glob) for glob in globs)


def of_the_newest_branch(runs: Sequence[Run]) -> tuple[Sequence[Run], Sequence[Run]]:
    """Return the runs of the newest run's branch, and the others: a commit of another branch is to blame for nothing here.

    If the newest run names no branch, all of them count.
    """
    branch = runs[-1].facts.branch
    kept = [run for run in runs if branch is None or run.facts.branch == branch]
    return kept, [run for run in runs if run not in kept]


def runs_since(runs: Sequence[Run], since: str | None) -> Sequence[Run]:
    """Return the runs from a date, or from the run that `since` names, on. Raises `UsageError`."""
    if since is None or not runs:
        return runs
    if re.match(r"\d{4}-\d\d", since) and all(run.facts.release != since for run in runs):
        at = instant(since, where="--since")
        return [run for run in runs if run.at >= at]
    from perfguard.stores.history.archive import run_named

    return runs[runs.index(run_named(runs, since)) :]
