"""Distributions: the times of the steps of both recordings, as histograms or points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from perfguard.findings import Code, Severity
from perfguard.judge import Verdict, step_time_of
from perfguard.judge.quantities import time_us
from perfguard.judge.step_time import milliseconds
from perfguard.reports.page.figure import LARGEST, STEPS, Figure, figure
from perfguard.window import Phase

#: The number of bins of a distribution.
_BINS = 48
#: Fewer steps than this are points, and no distribution.
_FEW = 12


def distribution(verdict: Verdict) -> Figure | None:
    """How long the unprofiled steps took, of the baseline and now, over each other; where that is the step time, on top."""
    step = step_time_of(verdict)
    kind = (
        "own-steps" if step is not None and step.metric not in ("step_time", "profiled_step_time") else "distribution"
    )
    now = samples_of(verdict, "step_time") or [
        step.wall_ns / 1e3 for step in verdict.steps if step.phase is Phase.TIMED
    ]
    before = _reference(verdict, "step_time")
    title = "Steps of the test's own process, unprofiled"
    if not now and not before:
        now, before = samples_of(verdict, "profiled_step_time"), _reference(verdict, "profiled_step_time")
        title = "How long a profiled step takes"
    if len(now) + len(before) < 2:
        return None
    if max(len(now), len(before)) < _FEW:
        return _few(kind, title, before, now)
    edges = _edges([*now, *before])
    beyond = sum(value > edges[1] for value in (*now, *before))
    sides = [
        (name, role, values) for name, role, values in (("baseline", "base", before), ("now", "now", now)) if values
    ]
    traces = [
        {
            "type": "histogram",
            "name": name,
            "x": [min(value, edges[1]) for value in _spread(values)],
            "histnorm": "percent",
            "xbins": {"start": edges[0], "end": edges[1] + edges[2], "size": edges[2]},
            "opacity": 0.6,
            "marker": {"color": role},
            "hovertemplate": f"{name}: %{{y:.0f}} % of the steps take %{{x}} us<extra></extra>",
        }
        for name, role, values in sides
    ]
    rows = [["side", "steps", "fastest", "median", "slowest"]]
    rows += [
        [name, str(len(values)), time_us(min(values)), time_us(statistics.median(values)), time_us(max(values))]
        for name, _, values in sides
    ]
    told = "; ".join(f"{row[0]}: fastest {row[2]}, median {row[3]}" for row in rows[1:])
    if beyond:
        told += f"; {beyond} slower than {time_us(edges[1])} are in the last bar"
    lines = [line(statistics.median(values), role) for _, role, values in sides]
    return figure(
        kind,
        title,
        told,
        rows,
        traces,
        barmode="overlay",
        bargap=0.02,
        shapes=lines,
        xaxis={"title": {"text": "us (dashed: medians)"}},
        yaxis={"title": {"text": "% of steps"}},
        height=190,
    )


def _spread(values: Sequence[float]) -> list[float]:
    """Return as many quantiles as are drawn: of a hundred thousand steps the shape is the same."""
    ordered = sorted(values)
    if len(ordered) <= STEPS:
        return ordered
    return [ordered[round(at * (len(ordered) - 1) / (STEPS - 1))] for at in range(STEPS)]


def _few(kind: str, title: str, before: Sequence[float], now: Sequence[float]) -> Figure:
    """Each of a few steps as a point: of so few a histogram says nothing."""
    sides = [(name, role, symbol, values) for name, role, symbol, values in _sides(before, now) if values]
    rows = [
        ["side", "us of each step"],
        *([name, " ".join(f"{one:.1f}" for one in values)] for name, _, _, values in sides),
    ]
    told = "; ".join(f"{name}: fastest {time_us(min(values))}" for name, _, _, values in sides)
    return figure(
        kind,
        title,
        told,
        rows,
        [points(*side, unit="us") for side in sides],
        showlegend=False,
        xaxis={"title": {"text": "us"}},
        height=190,
    )


def _sides(before: Sequence[float], now: Sequence[float]) -> tuple[tuple[str, str, str, Sequence[float]], ...]:
    """Return name, colour, symbol and values of both sides."""
    return ("baseline", "base", "circle", before), ("now", "now", "diamond", now)


def points(name: str, role: str, symbol: str, values: Sequence[float], *, unit: str) -> dict[str, Any]:
    """Return a trace with a point for each value."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(values),
        "y": [name] * len(values),
        "marker": {"color": role, "size": 11, "symbol": symbol, "opacity": 0.85},
        "hovertemplate": f"{name}: %{{x:.4g}} {unit}<extra></extra>",
    }


def line(at: float, role: str) -> dict[str, Any]:
    """Return a vertical line at a value."""
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": at,
        "x1": at,
        "y0": 0,
        "y1": 1,
        "line": {"color": role, "width": 2, "dash": "dash"},
    }


def _edges(values: Sequence[float]) -> tuple[float, float, float]:
    """Return where the bins begin, where the last one begins at the latest, and how wide they are.

    Few steps that took far longer than all others would leave no room for these: they are in the last bin.
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    top = min(high, low + 2 * (usual - low)) if usual > low else high
    width = (top - low) / min(_BINS, max(8, math.isqrt(len(values)) * 3)) or max(abs(low) * 0.01, 1e-3)
    return low, top, width


def cost(verdict: Verdict) -> Figure | None:
    """The step in each fresh process, of the baseline and now, with the limit: in ms at the speed that the machine has now."""
    found = next((one for one in verdict.comparisons if one.metric == "step_cost"), None)
    step = step_time_of(verdict)
    now = samples_of(verdict, "step_cost")
    before = _reference(verdict, "step_cost")
    if found is None or not now or not before or step is None or step.metric != "step_cost" or step.change is None:
        return None
    assert isinstance(found.current, (int, float))
    ms_a_cost = step.now_ms / found.current
    before, now = ([one * ms_a_cost for one in side] for side in (before, now))
    limit = None if found.allowed is None else found.allowed * ms_a_cost
    rows = [["side", "ms of a step in each process"]]
    rows += [[name, " ".join(milliseconds(one) for one in side)] for name, side in (("baseline", before), ("now", now))]
    is_warned = any(
        one.code is Code.R105 and one.severity is Severity.WARNING and one.place == found.label
        for one in verdict.findings
    )
    told = f"{step.text}; both at the speed that the machine has now"
    told += "" if limit is None else f"; red line: the limit, {milliseconds(limit)} ms"
    told += ", beyond which this one only warned" if limit is not None and is_warned else ""
    return figure(
        "cost",
        "A step in each fresh process",
        told,
        rows,
        [points(*side, unit="ms") for side in _sides(before, now)],
        shapes=[line(limit, "worse") for limit in finite([limit] if limit is not None else [])],
        showlegend=False,
        xaxis={"title": {"text": "ms"}},
        height=190,
    )


def samples_of(verdict: Verdict, metric: str) -> list[float]:
    """Return the finite samples of a metric of the whole workload."""
    found = next((one for one in verdict.measurements if one.metric == metric and not one.subject), None)
    return finite(found.samples) if found is not None else []


def _reference(verdict: Verdict, metric: str) -> list[float]:
    found = next((one for one in verdict.comparisons if one.metric == metric and not one.subject), None)
    return finite(found.reference_samples) if found is not None else []


def finite(values: Iterable[float]) -> list[float]:
    """Leave out what is no number, or so large that a sum of two is none: it has no place in a figure."""
    return [value for value in values if abs(value) < LARGEST]
