"""OpenMetrics text with the metrics of whole workloads: for GitLab's metrics reports, and for scrapers of files.

Source: OpenMetrics 1.0.0, "Text format"; GitLab Docs, "Metrics reports", which compare two branches by names and labels.
Operators are left out, because that page lists every number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from perfguard.judge.shown_time import step_time_of
from perfguard.measure import METRICS
from perfguard.measure.measurement import finite
from perfguard.reports import FunctionReporter, RunReport
from perfguard.screen import printable

_PREFIX = "perfguard_"


def report_openmetrics(report: RunReport) -> str:
    """Return a gauge a metric, with a sample a workload and subject; `perfguard_outcome` is 1 for the outcome of a workload."""
    outcomes = [
        f"perfguard_outcome{_labels(workload=verdict.workload, origin=verdict.origin, outcome=verdict.outcome.value)} 1"
        for verdict in report.verdicts
    ]
    lines = [*_gauge("outcome", "1 for the outcome of a workload.", outcomes), *_step_times(report)]
    for metric in sorted(name for name, one in METRICS.items() if one.of_workload):
        samples = list(_samples(report, metric))
        if samples:
            lines += _gauge(metric, f"{METRICS[metric].meaning} In {METRICS[metric].unit}.", samples)
    return "\n".join([*lines, "# EOF"]) + "\n"


def _gauge(name: str, meaning: str, samples: Iterable[str]) -> list[str]:
    return [f"# HELP {_PREFIX}{name} {_escaped(meaning)}", f"# TYPE {_PREFIX}{name} gauge", *samples]


#: The step time that every report shows.
STEP = {
    "step_ms": "How long a step takes now, in ms.",
    "step_baseline_ms": "How long a step of the baseline takes at the speed that the machine has now, in ms.",
    "step_change_percent": "By how much the step changed, in %.",
}


def _step_times(report: RunReport) -> Iterable[str]:
    found = [(verdict, step) for verdict in report.verdicts if (step := step_time_of(verdict)) is not None]
    for name, meaning in STEP.items():
        samples = [
            f"{_PREFIX}{name}{_labels(workload=verdict.workload, origin=verdict.origin)} {value}"
            for verdict, step in found
            if (value := step.plain[name]) is not None
        ]
        if samples:
            yield from _gauge(name, meaning, samples)


def _samples(report: RunReport, metric: str) -> Iterable[str]:
    for verdict in report.verdicts:
        for one in verdict.measurements:
            if one.metric == metric and finite(one.value) is not None:
                labels = _labels(workload=verdict.workload, origin=verdict.origin, subject=one.subject)
                yield f"{_PREFIX}{metric}{labels} {one.value!r}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{k}="{_escaped(value)}"' for k, value in labels.items() if value or k == "workload") + "}"


def _escaped(text: str) -> str:
    """Escape control characters, backslashes and quotes, as in labels and help texts."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


MetricsReporter = partial(FunctionReporter, report_openmetrics)
