"""The page of the metrics, from their table and the headers of the queries that measure them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfguard.dialects.metric_queries import metrics_of
from perfguard.dialects.queries import folders
from perfguard.measure import METRICS, Better, Kind, Metric
from perfguard.reports.prose import code, prose, table
from perfguard.thresholds import OPERATOR_WEIGHT

_DIRECTIONS = {
    Better.LOWER: "lower is better",
    Better.HIGHER: "higher is better",
    Better.EQUAL: "a difference is a change",
}


def page() -> str:
    """Return the page."""
    titles = ("metric", "unit", "meaning", "by default")
    return "\n".join(
        [
            "# Metrics\n",
            "A measurement is a metric and a subject: `operator_calls[aten::mm]`. With several ranks a subject begins with the "
            "rank, `operator_calls[rank1:aten::mm]`; `ranks:` is the whole job. `tolerance` in the "
            "[settings or a marker](settings.md#tolerance-keys) overrides the default limits.\n",
            "## Exact metrics\n",
            "The same in every run of unchanged code. They are compared without a tolerance, on any machine. Operators are "
            f"weighed together: a step is worse if new operators and more calls add more than {_percent(OPERATOR_WEIGHT)} of "
            "operator time.\n",
            table(titles, map(_row, _of(Kind.EXACT))),
            "\n## Timed metrics\n",
            "They depend on the machine. They are judged with a tolerance, and only against a baseline of the same machine.\n",
            table(titles, map(_row, _of(Kind.TIMED))),
            "\n## Metrics that are read from files\n",
            "These are queries in the `metrics.sql` of a dialect; the others are computed by functions in "
            "`perfguard/measure`. The query runs if its tables (`perfguard sql DIR --tables`) have rows.\n",
            table(("metric", "dialect", "tables", "how it is computed"), _queries()),
        ]
    )


def _of(kind: Kind) -> list[Metric]:
    return [one for one in METRICS.values() if one.kind is kind]


def _row(metric: Metric) -> tuple[str, ...]:
    return (
        code(metric.name) + (f" by {prose(metric.subject)}" if metric.subject else ""),
        prose(metric.unit),
        prose(metric.meaning),
        "; ".join([_DIRECTIONS[metric.better], *_limits(metric)]),
    )


def _limits(metric: Metric) -> Iterator[str]:
    """Yield what happens to a worse value without a setting."""
    if not metric.gated:
        yield "shown; judged if a setting names it"
        return
    if metric.kind is Kind.EXACT:
        if metric.better is not Better.EQUAL:
            yield "any worse value fails"
        return
    if math.isinf(metric.relative):
        yield "never fails"
    else:
        change = _change(metric.relative, metric.better)
        yield f"fails beyond {change}" + (f" and {metric.absolute:g} {metric.unit}" if metric.absolute else "")
    if metric.warn_relative is not None:
        yield f"warns beyond {_change(metric.warn_relative, metric.better)}"
    if metric.by_run:
        yield "one sample a process"
    if metric.shown_on:
        yield f"shown only on {', '.join(sorted(metric.shown_on))}"


def _change(fraction: float, better: Better) -> str:
    sign = {Better.LOWER: "+", Better.HIGHER: "-", Better.EQUAL: "±"}[better]
    return f"{sign}{_percent(fraction)}"


def _percent(fraction: float) -> str:
    return f"{round(100 * fraction, 6):g} %"


def _queries() -> Iterator[tuple[str, str, str, str]]:
    rows = (
        (
            ", ".join(map(code, query.metrics)),
            code(folder),
            ", ".join(" or ".join(map(code, sorted(tables))) for tables in query.needs),
            prose(query.about),
        )
        for folder in folders()
        for query in metrics_of(folder)
    )
    # A query that runs once for each of several layouts is one row.
    yield from dict.fromkeys(rows)
