"""Distributions: the times of the steps of both recordings, as histograms or points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from perfguard.findings import Code, Severity
from perfguard.judge.quantities import time_us
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import milliseconds
from perfguard.judge.verdict import Verdict
from perfguard.reports.page.figure import LARGEST, STEPS, TIMES, Figure, figure, line, times_row
from perfguard.window import Phase

#: The number of bins of a distribution.
_BINS = 48
#: Fewer steps than this are points, and no distribution.
_FEW = 12
#: The values of one recording: name, colour, symbol, values.
Side = tuple[str, str, str, Sequence[float]]


def distribution(verdict: Verdict) -> Figure | None:
    """Draw the times of the unprofiled steps, baseline and now over each other; on top if they are the step time."""
    step = step_time_of(verdict)
    is_own = step is not None and step.metric not in ("step_time", "profiled_step_time")
    kind = "own-steps" if is_own else "distribution"
    now = samples_of(verdict, "step_time") or [one.wall_ns / 1e3 for one in verdict.steps if one.phase is Phase.TIMED]
    before = _reference(verdict, "step_time")
    title = "Steps of the test's own process, unprofiled"
    if not now and not before:
        now, before = samples_of(verdict, "profiled_step_time"), _reference(verdict, "profiled_step_time")
        title = "How long a profiled step takes"
    if len(now) + len(before) < 2:
        return None
    sides = _sides(before, now)
    if max(len(now), len(before)) < _FEW:
        # A histogram of so few steps shows nothing.
        fastest = "; ".join(f"{name}: fastest {time_us(min(values))}" for name, _, _, values in sides)
        return _points(kind, title, fastest, sides, "us of each step", "{:.1f}".format)
    return _histogram(kind, title, sides)


def _histogram(kind: str, title: str, sides: Sequence[Side]) -> Figure:
    every = [value for side in sides for value in side[3]]
    begin, last, width = _edges(every)
    traces = [
        {
            "name": name,
            "x": [min(value, last) for value in _quantiles(values)],
            "xbins": {"start": begin, "end": last + width, "size": width},
            "marker": {"color": role},
            "hovertemplate": f"{name}: %{{y:.0f}} % of the steps take %{{x}} us<extra></extra>",
        }
        for name, role, _, values in sides
    ]
    rows = [["side", *TIMES], *(times_row(name, values) for name, _, _, values in sides)]
    caption = "; ".join(f"{row[0]}: fastest {row[2]}, median {row[3]}" for row in rows[1:])
    if beyond := sum(value > last for value in every):
        caption += f"; {beyond} slower than {time_us(last)} are in the last bar"
    medians = [line(statistics.median(values), role) for _, role, _, values in sides]
    return figure(kind, title, caption, rows, traces, style="histogram", shapes=medians)


def _quantiles(values: Sequence[float]) -> list[float]:
    """Return as many quantiles as are drawn: the shape is the same as that of a hundred thousand steps."""
    ordered = sorted(values)
    if len(ordered) <= STEPS:
        return ordered
    return [ordered[round(at * (len(ordered) - 1) / (STEPS - 1))] for at in range(STEPS)]


def _sides(before: Sequence[float], now: Sequence[float]) -> list[Side]:
    """Return the sides that have values."""
    return [side for side in (("baseline", "base", "circle", before), ("now", "now", "diamond", now)) if side[3]]


def _points(
    kind: str,
    title: str,
    caption: str,
    sides: Sequence[Side],
    what: str,
    text: Callable[[float], str],
    limit: Sequence[float] = (),
) -> Figure:
    """Draw a point for each value, and a line at the limit. `what` begins with the unit of the values."""
    unit = what.partition(" ")[0]
    rows = [["side", what], *([name, " ".join(map(text, values))] for name, _, _, values in sides)]
    traces = [
        {
            "name": name,
            "x": list(values),
            "y": [name] * len(values),
            "marker": {"color": role, "symbol": symbol},
            "hovertemplate": f"{name}: %{{x:.4g}} {unit}<extra></extra>",
        }
        for name, role, symbol, values in sides
    ]
    lines = {"shapes": [line(at, "worse") for at in limit], "xaxis": {"title": {"text": unit}}}
    return figure(kind, title, caption, rows, traces, style="points", **lines)


def _edges(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the start of the first bin, the latest start of the last one, and their width.

    The last bin has the few steps that took far longer than all others, which would leave no room for these.
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    top = min(high, low + 2 * (usual - low)) if usual > low else high
    width = (top - low) / min(_BINS, max(8, math.isqrt(len(values)) * 3)) or max(abs(low) * 0.01, 1e-3)
    return low, top, width


def cost(verdict: Verdict) -> Figure | None:
    """Draw the step in each fresh process, baseline and now, with the limit: in ms at the current speed of the machine."""
    found = next((one for one in verdict.comparisons if one.metric == "step_cost"), None)
    step = step_time_of(verdict)
    now, before = samples_of(verdict, "step_cost"), _reference(verdict, "step_cost")
    if found is None or not now or not before or step is None or step.metric != "step_cost" or step.change is None:
        return None
    assert isinstance(found.current, (int, float))
    ms_a_cost = step.now_ms / found.current
    sides = _sides(*([one * ms_a_cost for one in side] for side in (before, now)))
    is_warned = any(
        one.code is Code.R105 and one.severity is Severity.WARNING and one.place == found.label
        for one in verdict.findings
    )
    caption = f"{step.text}; both at the speed that the machine has now"
    if found.allowed is not None:
        caption += f"; red line: the limit, {milliseconds(found.allowed * ms_a_cost)} ms"
        caption += ", beyond which this one only warned" if is_warned else ""
    limit = finite([] if found.allowed is None else [found.allowed * ms_a_cost])
    what = "ms of a step in each process"
    return _points("cost", "A step in each fresh process", caption, sides, what, milliseconds, limit)


def samples_of(verdict: Verdict, metric: str) -> list[float]:
    """Return the finite samples of a metric of the whole workload."""
    found = next((one for one in verdict.measurements if one.metric == metric and not one.subject), None)
    return finite(found.samples) if found is not None else []


def _reference(verdict: Verdict, metric: str) -> list[float]:
    found = next((one for one in verdict.comparisons if one.metric == metric and not one.subject), None)
    return finite(found.reference_samples) if found is not None else []


def finite(values: Iterable[float]) -> list[float]:
    """Leave out NaN, infinity, and numbers so large that a sum of two is infinite."""
    return [value for value in values if abs(value) < LARGEST]
