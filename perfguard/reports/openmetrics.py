"""The numbers of whole workloads as OpenMetrics text: GitLab's metrics reports, and whatever scrapes a file.

Source: OpenMetrics 1.0.0, "Text format"; GitLab Docs, "Metrics reports": it shows the metrics of two branches side by side, by
name and labels. Operators are left out, for that page lists every number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from perfguard.judge import WORKLOAD_METRICS, step_time_of
from perfguard.measure import METRICS
from perfguard.reports import RunReport
from perfguard.reports.names import printable

_PREFIX = "perfguard_"


def report_openmetrics(report: RunReport) -> str:
    """Return a gauge a metric, with a sample a workload and subject; and `perfguard_outcome`, 1 where it is."""
    lines = ["# HELP perfguard_outcome 1 for the outcome of a workload.", "# TYPE perfguard_outcome gauge"]
    lines += [
        f"perfguard_outcome{_labels(workload=verdict.workload, origin=verdict.origin, outcome=verdict.outcome.value)} 1"
        for verdict in report.verdicts
    ]
    lines += _step_times(report)
    for metric in sorted(WORKLOAD_METRICS & METRICS.keys()):
        samples = list(_samples(report, metric))
        if samples:
            described = METRICS[metric]
            lines.append(f"# HELP {_PREFIX}{metric} {_help(f'{described.meaning} In {described.unit}.')}")
            lines.append(f"# TYPE {_PREFIX}{metric} gauge")
            lines += samples
    return "\n".join([*lines, "# EOF"]) + "\n"


#: The step time as every report shows it, before all that is behind it.
_STEP = {
    "step_ms": "How long a step takes now, in ms.",
    "step_baseline_ms": "How long a step of the baseline takes at the speed that the machine has now, in ms.",
    "step_change_percent": "By how much the step changed, in %.",
}


def _step_times(report: RunReport) -> Iterable[str]:
    found = [(verdict, step) for verdict in report.verdicts if (step := step_time_of(verdict)) is not None]
    for name, meaning in _STEP.items():
        samples = [
            f"{_PREFIX}{name}{_labels(workload=verdict.workload, origin=verdict.origin)} {value}"
            for verdict, step in found
            if (value := step.plain[name]) is not None
        ]
        if samples:
            yield f"# HELP {_PREFIX}{name} {_help(meaning)}"
            yield f"# TYPE {_PREFIX}{name} gauge"
            yield from samples


def _samples(report: RunReport, metric: str) -> Iterable[str]:
    for verdict in report.verdicts:
        for one in verdict.measurements:
            if one.metric != metric or isinstance(one.value, bool) or not isinstance(one.value, (int, float)):
                continue
            if math.isfinite(one.value):
                labels = _labels(workload=verdict.workload, origin=verdict.origin, subject=one.subject)
                yield f"{_PREFIX}{metric}{labels} {one.value!r}"


def _labels(**labels: str) -> str:
    told = (f'{name}="{_escaped(value)}"' for name, value in labels.items() if value or name == "workload")
    return "{" + ",".join(told) + "}"


def _escaped(text: str) -> str:
    """Return a label's value: control characters, backslash and quote are escaped."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class MetricsReporter:
    """The numbers as OpenMetrics, as GitLab's metrics reports are."""

    def text(self, report: RunReport) -> str:
        """Return one line a number."""
        return report_openmetrics(report)
