"""Distributions: the times of the steps of both recordings, as histograms or points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from perfguard.errors import counted
from perfguard.findings import Code, Severity
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import TimeUnit, percent
from perfguard.judge.verdict import Verdict
from perfguard.reports.page.figure import (
    LARGEST,
    TIMES,
    Axis,
    Chart,
    Figure,
    Shape,
    curve,
    dots,
    number_axis,
    plain_number,
    table_rows,
    time_row,
    upright,
)
from perfguard.window import Phase

#: The number of bins of a distribution.
_BINS = 48
#: Fewer steps than this are points, and no distribution.
_FEW = 12
#: The share of the steps that a histogram is made for, and its width in units of theirs.
_USUAL, _ROOM = 0.8, 3
#: The values of one recording: name (and role), values in us.
Side = tuple[str, str, Sequence[float]]


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
    # With times off, the baseline alone says nothing.
    if not now or len(now) + len(before) < 2:
        return None
    sides = _sides(before, now)
    unit = TimeUnit.of([statistics.median(values) for _, _, values in sides])
    if max(len(now), len(before)) < _FEW:
        # A histogram of so few steps shows nothing.
        fastest = "; ".join(f"{name}: fastest {unit.text(min(values))}" for name, _, values in sides)
        return _points(kind, title, fastest, sides, unit)
    return _histogram(kind, title, sides, unit)


def _histogram(kind: str, title: str, sides: Sequence[Side], unit: TimeUnit) -> Figure:
    every = [value for side in sides for value in side[2]]
    begin, last, width = _edges(every)
    bins = max(1, round((last - begin) / width)) + 1
    shares = [_shares(values, begin, width, bins) for _, _, values in sides]
    end = begin + bins * width
    x = number_axis(begin / unit.us, end / unit.us, title=unit.name)
    y = number_axis(0, max(map(max, shares)) * 1.05, title="% of the steps")
    edges = [begin + width * number for number in range(bins + 1)]
    at = [x.at(edge / unit.us) for edge in edges]
    shapes = []
    for (_, role, values), share in zip(sides, shares, strict=True):
        heights = [*map(y.at, share), y.at(share[-1])]
        shapes.append(Shape(role=role, style="area", path=curve(at, heights, is_step=True, closes=True)))
        shapes.append(Shape(role=role, style="line", path=curve(at, heights, is_step=True)))
        shapes.append(Shape(role=role, style="dash", path=upright(x.at(statistics.median(values) / unit.us))))
    hover = []
    for number in range(bins):
        text = ", ".join(f"{name} {share[number]:.0f} %" for (name, _, _), share in zip(sides, shares, strict=True))
        hover.append((round(at[number], 4), f"from {unit.text(edges[number])} on: {text} of the steps"))
    rows = [("side", *TIMES), *(time_row(unit, name, values) for name, _, values in sides)]
    caption = "; ".join(f"{row[0]}: fastest {row[2]}, median {row[3]}" for row in rows[1:])
    if beyond := sum(value > last + width for value in every):
        caption += f"; {beyond} slower than {unit.text(last)} are in the last bar"
    return Figure(
        kind=kind,
        title=title,
        caption=caption,
        rows=table_rows(rows),
        drawing=Chart(x=x, y=y, shapes=tuple(shapes), hover=tuple(hover)),
        legend=(*((role, name) for name, role, _ in sides), ("soft dash", "medians")),
    )


def _shares(values: Sequence[float], begin: float, width: float, bins: int) -> list[float]:
    """Return the percentage of the values in each bin; all larger ones are in the last."""
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int((value - begin) / width)))] += 1
    return [100 * count / len(values) for count in counts]


def _sides(before: Sequence[float], now: Sequence[float]) -> list[Side]:
    """Return the sides that have values."""
    return [side for side in (("baseline", "base", before), ("now", "now", now)) if side[2]]


def _points(
    kind: str, title: str, caption: str, sides: Sequence[Side], unit: TimeUnit, limit: Sequence[float] = ()
) -> Figure:
    """Draw a point for each value, a line a side, and a line at the limit."""
    every = [value / unit.us for _, _, values in sides for value in values]
    limits = [value / unit.us for value in limit]
    low, high = min(*every, *limits, every[0]), max(*every, *limits, every[0])
    room = 0.08 * (high - low) or abs(high) * 0.05 or 1.0
    x = number_axis(low - room, high + room, title=unit.name)
    heights = {name: (len(sides) - place - 0.5) / len(sides) for place, (name, _, _) in enumerate(sides)}
    y = Axis(low=0, high=1, ticks=tuple((height, name) for name, height in heights.items()))
    shapes = [
        Shape(
            role=role,
            style="dots",
            path=dots([x.at(value / unit.us) for value in values], [heights[name]] * len(values)),
        )
        for name, role, values in sides
    ]
    shapes += [Shape(role="limit", style="dash", path=upright(x.at(at))) for at in limits]
    hover = [
        (round(x.at(value / unit.us), 4), f"{name}: {unit.text(value)}")
        for name, _, values in sides
        for value in values
    ]
    rows = [
        ("side", unit.name),
        *((name, " ".join(plain_number(v / unit.us) for v in values)) for name, _, values in sides),
    ]
    return Figure(
        kind=kind,
        title=title,
        caption=caption,
        rows=table_rows(rows),
        drawing=Chart(x=x, y=y, shapes=tuple(shapes), hover=tuple(sorted(hover)), form="points"),
        legend=(*((role, name) for name, role, _ in sides), *([("limit dash", "limit")] if limits else [])),
    )


def _edges(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the start of the first bin, the latest start of the last one, and their width.

    The last bin has the few steps that took far longer than all others, which would leave no room for these.
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[math.ceil(_USUAL * len(ordered)) - 1]
    top = min(high, low + _ROOM * (usual - low)) if usual > low else high
    width = (top - low) / min(_BINS, max(8, math.isqrt(len(values)) * 3)) or max(abs(low) * 0.01, 1e-3)
    return low, top, width


def cost(verdict: Verdict) -> Figure | None:
    """Draw the step in each fresh process, baseline and now, with the limit, at the current speed of the machine."""
    found = next((one for one in verdict.comparisons if one.metric == "step_cost"), None)
    step = step_time_of(verdict)
    now, before = samples_of(verdict, "step_cost"), _reference(verdict, "step_cost")
    if found is None or not now or not before or step is None or step.metric != "step_cost" or step.change is None:
        return None
    assert isinstance(found.current, (int, float))
    us_a_cost = 1e3 * step.now_ms / found.current
    sides = _sides(*([one * us_a_cost for one in side] for side in (before, now)))
    is_warned = any(
        one.code is Code.R105 and one.severity is Severity.WARNING and one.place == found.label
        for one in verdict.findings
    )
    caption = f"{step.text}; both at the speed that the machine has now"
    if found.allowed is not None:
        caption += f"; limit {step.unit.text(found.allowed * us_a_cost)}"
        caption += ", beyond which this one only warned" if is_warned else ""
    limit = finite([] if found.allowed is None else [found.allowed * us_a_cost])
    return _points("cost", "A step in each fresh process", caption, sides, step.unit, limit)


def processes(verdict: Verdict) -> Figure | None:
    """Draw the change of the step in each process that ran both sides, as `perfguard ab` and a confirmation do."""
    ratios, step = samples_of(verdict, "step_ab"), step_time_of(verdict)
    if not ratios or step is None or step.metric != "step_ab":
        return None
    changes = [100 * (ratio - 1) for ratio in ratios]
    low, high = min(*changes, 0.0), max(*changes, 0.0)
    room = 0.08 * (high - low) or 1.0
    x = number_axis(low - room, high + room, title="change in %")
    at = [x.at(change) for change in changes]
    texts = [percent(ratio - 1) for ratio in ratios]
    hover = [f"process {number}: {text}" for number, text in enumerate(texts, 1)]
    return Figure(
        kind="processes",
        title="The change of a step in each process",
        caption=f"{step.text}: the median of {counted(len(ratios), 'process', 'es')}, each of which ran both sides",
        rows=table_rows(
            [("process", "change of a step"), *((str(number), text) for number, text in enumerate(texts, 1))]
        ),
        drawing=Chart(
            x=x,
            y=Axis(low=0, high=1, ticks=((0.5, "now"),)),
            shapes=(
                Shape(role="now", style="dots", path=dots(at, [0.5] * len(at))),
                Shape(role="base", style="dash", path=upright(x.at(0.0))),
            ),
            hover=tuple(sorted(zip((round(place, 4) for place in at), hover, strict=True))),
            form="points",
        ),
        legend=(("now", "now"), ("base dash", "the base")),
    )


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
