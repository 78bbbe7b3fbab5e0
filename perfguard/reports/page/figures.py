"""Figures of one workload, as plotly's own plain form: a list of traces and a layout. plotly.js draws them.

Colours are names of roles (`now`, `base`, `worse`, ...), which the page turns into those of its light or dark theme. Texts of a
recording are escaped, because plotly reads a little HTML in them.
"""

from __future__ import annotations

import html
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from perfguard.findings import Code, Severity
from perfguard.judge import Attribution, Ledger, Outcome, Verdict, attribution_of, step_time_of
from perfguard.judge.quantities import quantity, signed_us, size_bytes, time_us
from perfguard.judge.step_time import milliseconds
from perfguard.judge.trend import Trend
from perfguard.measure import METRICS, Kind, MemoryTrack
from perfguard.measure.measurement import rank_of
from perfguard.recording import Step
from perfguard.reports.names import printable
from perfguard.reports.trend import moment_text, series_name, trend_lines
from perfguard.window import Phase

#: A figure: kind (where it goes), title, what it shows in words, the same as a table, and plotly's traces and layout.
Figure = dict[str, Any]

#: How many parts of a ledger, bins of a distribution, steps, and columns of the heat map are drawn.
_PARTS = 7
_BINS = 48
_STEPS = 2000
#: No time, size or count is as large.
_MOST = 1e150
_COLUMNS = 40
#: How many runs of a history the table has, the newest, and how many lines are drawn into its figure.
_RUNS, _LINES = 200, 100
#: Fewer steps than this are points, and no distribution.
_FEW = 12


def figures_of(verdict: Verdict) -> list[Figure]:
    """Return what can be drawn of a verdict."""
    if verdict.outcome is Outcome.INVALID:
        # Of what is not whole the steps are shown, and no number that would look like one.
        return [one for one in [_steps(verdict)] if one is not None]
    cause = attribution_of(verdict)
    found = [
        _waterfall(verdict.ledger, cause, verdict) if verdict.ledger and isinstance(cause, Attribution) else None,
        _distribution(verdict),
        _cost(verdict),
        _memory(verdict),
        _steps(verdict),
        *_ranks(verdict),
    ]
    return [one for one in found if one is not None]


def _figure(
    kind: str, title: str, told: str, rows: Sequence[Sequence[str]], traces: list[Any], **layout: Any
) -> Figure:
    """`rows` are the table of the figure, its first one the headers."""
    return {"kind": kind, "title": title, "told": told, "rows": rows, "traces": traces, "layout": layout}


def _safe(text: str) -> str:
    """Return a text that plotly shows as it is."""
    return html.escape(printable(text), quote=False)


# -- where the time went ---------------------------------------------------------------------------------------------


def _waterfall(ledger: Ledger, found: Attribution, verdict: Verdict) -> Figure | None:
    """The baseline's step, what the operators add to it that the change is attributed to, all other parts, and the step now."""
    if not (ledger.base_ns or ledger.current_ns):
        return None
    own = found.shares[:_PARTS]
    labels = [one.subject or "communication" for one in own]
    values = [one.change_ns for one in own]
    rest_ns = ledger.change_ns - sum(values)
    ends = [time_us(ledger.base_ns / 1e3), time_us(ledger.current_ns / 1e3)]
    labels, values = [*labels, "all other parts"], [*values, rest_ns]
    shown = [ends[0], *(signed_us(value / 1e3) for value in values), ends[1]]
    rows = [["part", "change of a step"], ["baseline", ends[0]]]
    rows += [[label, text] for label, text in zip(labels, shown[1:-1], strict=True)]
    rows.append(["now", ends[1]])
    changes = [value / 1e3 for value in values]
    # Each part begins where the one before it ended; both ends begin at zero.
    begins = [0.0, *list(itertools.accumulate(changes, initial=ledger.base_ns / 1e3))[:-1], 0.0]
    colour = "worse" if ledger.change_ns > 0 else "better"
    trace = {
        "type": "bar",
        "orientation": "h",
        "base": begins,
        "y": list(range(len(shown))),
        "x": [ledger.base_ns / 1e3, *changes, ledger.current_ns / 1e3],
        "text": shown,
        "textposition": "outside",
        "constraintext": "none",
        "cliponaxis": False,
        "hovertext": [_safe(text) for text in ("baseline", *labels, "now")],
        "hoverinfo": "text",
        "marker": {"color": ["base", *(colour for _ in own), "faint", "now"]},
        "showlegend": False,
    }
    ticks = ["baseline", *labels, "now"]
    bounds = _around([ledger.base_ns / 1e3, *changes])
    return _figure(
        "waterfall",
        "Where the time of a step went",
        f"{signed_us(ledger.change_ns / 1e3)} a step, by the clock" + _other_machine(verdict),
        rows,
        [trace],
        yaxis={
            "tickvals": list(range(len(ticks))),
            "ticktext": [_safe(_ending(text, 34)) for text in ticks],
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
        },
        bargap=0.25,
        xaxis={"title": {"text": "us a step" if not bounds[0] else "us a step, not from 0 on"}, "range": bounds},
        height=44 + 23 * len(ticks),
    )


def _around(values: Sequence[float]) -> list[float]:
    """Return the range of an axis that shows where a waterfall goes, and not from zero on where all of it is far away."""
    levels = list(itertools.accumulate(values))
    low, high = min(levels), max(levels)
    room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    return [0.0 if low < 2 * (high - low) else low - room, high + 2.5 * room]


def _other_machine(verdict: Verdict) -> str:
    told = any(finding.code.name == "B103" for finding in verdict.findings)
    return "; the baseline is of another machine, so times are shown and not judged" if told else ""


def _ending(text: str, width: int) -> str:
    """Shorten a name in its middle: what it begins with and what it ends with tell most."""
    if len(text) <= width:
        return text
    left = width * 2 // 3
    return f"{text[:left]}…{text[-(width - left - 1) :]}"


# -- steps beside each other -----------------------------------------------------------------------------------------


def _distribution(verdict: Verdict) -> Figure | None:
    """How long the unprofiled steps took, of the baseline and now, over each other; where that is the step time, on top."""
    step = step_time_of(verdict)
    kind = (
        "own-steps" if step is not None and step.metric not in ("step_time", "profiled_step_time") else "distribution"
    )
    now = _samples(verdict, "step_time") or [step.wall_ns / 1e3 for step in verdict.steps if step.phase is Phase.TIMED]
    before = _reference(verdict, "step_time")
    title = "Steps of the test's own process, unprofiled"
    if not now and not before:
        now, before = _samples(verdict, "profiled_step_time"), _reference(verdict, "profiled_step_time")
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
    lines = [_line(statistics.median(values), role) for _, role, values in sides]
    return _figure(
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
    if len(ordered) <= _STEPS:
        return ordered
    return [ordered[round(at * (len(ordered) - 1) / (_STEPS - 1))] for at in range(_STEPS)]


def _few(kind: str, title: str, before: Sequence[float], now: Sequence[float]) -> Figure:
    """Each of a few steps as a point: of so few a histogram says nothing."""
    sides = [(name, role, symbol, values) for name, role, symbol, values in _sides(before, now) if values]
    rows = [
        ["side", "us of each step"],
        *([name, " ".join(f"{one:.1f}" for one in values)] for name, _, _, values in sides),
    ]
    told = "; ".join(f"{name}: fastest {time_us(min(values))}" for name, _, _, values in sides)
    return _figure(
        kind,
        title,
        told,
        rows,
        [_points(*side, unit="us") for side in sides],
        showlegend=False,
        xaxis={"title": {"text": "us"}},
        height=190,
    )


def _sides(before: Sequence[float], now: Sequence[float]) -> tuple[tuple[str, str, str, Sequence[float]], ...]:
    """Return name, colour, symbol and values of both sides."""
    return ("baseline", "base", "circle", before), ("now", "now", "diamond", now)


def _points(name: str, role: str, symbol: str, values: Sequence[float], *, unit: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(values),
        "y": [name] * len(values),
        "marker": {"color": role, "size": 11, "symbol": symbol, "opacity": 0.85},
        "hovertemplate": f"{name}: %{{x:.4g}} {unit}<extra></extra>",
    }


def _line(at: float, role: str) -> dict[str, Any]:
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


def _cost(verdict: Verdict) -> Figure | None:
    """The step in each fresh process, of the baseline and now, with the limit: in ms at the speed that the machine has now."""
    found = next((one for one in verdict.comparisons if one.metric == "step_cost"), None)
    step = step_time_of(verdict)
    now = _samples(verdict, "step_cost")
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
    return _figure(
        "cost",
        "A step in each fresh process",
        told,
        rows,
        [_points(*side, unit="ms") for side in _sides(before, now)],
        shapes=[_line(limit, "worse") for limit in _finite([limit] if limit is not None else [])],
        showlegend=False,
        xaxis={"title": {"text": "ms"}},
        height=190,
    )


def _samples(verdict: Verdict, metric: str) -> list[float]:
    found = next((one for one in verdict.measurements if one.metric == metric and not one.subject), None)
    return _finite(found.samples) if found is not None else []


def _reference(verdict: Verdict, metric: str) -> list[float]:
    found = next((one for one in verdict.comparisons if one.metric == metric and not one.subject), None)
    return _finite(found.reference_samples) if found is not None else []


def _finite(values: Iterable[float]) -> list[float]:
    """Leave out what is no number, or so large that a sum of two is none: it has no place in a figure."""
    return [value for value in values if abs(value) < _MOST]


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(verdict: Verdict) -> Figure | None:
    """How far the allocated memory stands above its lowest point, over the profiled steps; dashed: the baseline's peak."""
    tracks = [track for track in verdict.memory if track.curve_bytes]
    if not tracks:
        return None
    several = len({track.rank for track in tracks}) > 1
    scale, unit = _scale(max(track.peak_bytes for track in tracks))
    traces = [_curve(track, several, number, scale, unit) for number, track in enumerate(tracks)]
    peaks = {one.subject: one for one in verdict.comparisons if one.metric == "peak_memory_bytes"}
    rows = [["device", "peak now", "peak of the baseline"]]
    shapes = []
    for track in tracks:
        name = _device(track, several)
        found = peaks.get(f"rank{track.rank}:{track.device}") or peaks.get(track.device)
        before = found.reference if found is not None and isinstance(found.reference, (int, float)) else None
        rows.append([name, size_bytes(track.peak_bytes), "" if before is None else size_bytes(before)])
        if before is not None and math.isfinite(before) and len(tracks) <= 4:
            shapes.append(
                {
                    **_line(0, "base"),
                    "xref": "paper",
                    "yref": "y",
                    "x0": 0,
                    "x1": 1,
                    "y0": before / scale,
                    "y1": before / scale,
                }
            )
    told = "; ".join(
        f"{row[0]}: peak {row[1]}" + (f", {row[2]} in the baseline" if row[2] else "") for row in rows[1:4]
    )
    return _figure(
        "memory",
        "Memory over the profiled steps",
        told,
        rows,
        traces,
        shapes=shapes,
        showlegend=len(tracks) > 1,
        xaxis={"title": {"text": "step (dashed: baseline)" if shapes else "step"}},
        yaxis={"title": {"text": unit}, "rangemode": "tozero"},
        height=190,
    )


def _scale(most_bytes: int) -> tuple[int, str]:
    """Return the unit of an axis: the largest in which the highest point is above 1."""
    scales = ((1, "bytes"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB"))
    return next(((scale, unit) for scale, unit in reversed(scales) if most_bytes > scale), scales[0])


def _curve(track: MemoryTrack, several: bool, number: int, scale: int, unit: str) -> dict[str, Any]:
    parts = track.parts or 1
    stretch = math.ceil(len(track.curve_bytes) / _STEPS) or 1
    # Of a long window the highest point of each stretch.
    highest = [max(track.curve_bytes[at : at + stretch]) for at in range(0, len(track.curve_bytes), stretch)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _safe(_device(track, several)),
        "x": [round(1 + stretch * at / parts, 4) for at in range(len(highest))],
        "y": [float(f"{value / scale:.6g}") for value in highest],
        "line": {"color": "now" if not number else f"line{number}", "width": 2, "shape": "hv"},
        **({"fill": "tozeroy"} if not number and not several else {}),
        "hovertemplate": f"step %{{x:.2f}}: %{{y}} {unit}<extra></extra>",
    }


def _device(track: MemoryTrack, several: bool) -> str:
    return f"rank {track.rank}, {track.device}" if several else track.device


# -- the window ------------------------------------------------------------------------------------------------------


def _steps(verdict: Verdict) -> Figure | None:
    """Every step in its order, by phase."""
    steps = verdict.steps
    if not steps:
        return None
    traces = []
    rows = [["phase", "steps", "fastest", "median", "slowest"]]
    for phase in Phase:
        chosen = [step for step in steps if step.phase is phase]
        if not chosen:
            continue
        times = [step.wall_ns / 1e3 for step in chosen]
        rows.append(
            [phase.value, str(len(times)), time_us(min(times)), time_us(statistics.median(times)), time_us(max(times))]
        )
        thinned = _thinned(chosen)
        traces.append(
            {
                "type": "bar",
                "name": phase.value,
                "x": [step.index for step in thinned],
                "y": [step.wall_ns / 1e3 for step in thinned],
                "marker": {"color": f"phase-{phase.value}"},
                "hovertemplate": f"{phase.value} step %{{x}}: %{{y:.1f}} us<extra></extra>",
            }
        )
    told = "; ".join(f"{row[1]} {row[0]}, median {row[3]}" for row in rows[1:])
    if len(steps) > _STEPS:
        told += f"; of {len(steps)} steps the slowest of each stretch are drawn"
    usual = statistics.median(step.wall_ns / 1e3 for step in steps)
    longest = max(step.wall_ns / 1e3 for step in steps)
    return _figure(
        "steps",
        "Steps of the window",
        told,
        rows,
        traces,
        barmode="overlay",
        xaxis={"title": {"text": "step"}},
        # The first step of all compiles, and may take a thousand times as long.
        yaxis={"title": {"text": "us"}, "type": "log" if longest > 30 * usual else "linear"},
        height=260,
    )


def _thinned(steps: Sequence[Step]) -> list[Step]:
    """Return at most so many steps as are drawn: of each stretch the slowest."""
    stretch = math.ceil(len(steps) / _STEPS)
    if stretch <= 1:
        return list(steps)
    return [max(steps[at : at + stretch], key=lambda step: step.wall_ns) for at in range(0, len(steps), stretch)]


# -- history ---------------------------------------------------------------------------------------------------------


def drawn_trend(one: Trend) -> Figure:
    """Draw a number over the runs of a history; dashed lines stand where a new level begins, dotted ones at releases."""
    points = one.series.points
    names = [_safe(moment_text(point.moment)) for point in points]
    lines = [{**_line(change.index - 0.5, "worse"), "layer": "below"} for change in one.changes]
    lines += [
        {**_line(at, "faint"), "line": {"color": "faint", "width": 1, "dash": "dot"}}
        for at, point in enumerate(points)
        if point.moment.release
    ]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(range(len(points))),
        "y": [point.value for point in points],
        "text": names,
        "line": {"color": "now", "width": 1.5},
        "marker": {"color": "now", "size": 5},
        "hovertemplate": f"%{{text}}: %{{y:.5g}} {_safe(one.series.unit)}<extra></extra>",
        "showlegend": False,
    }
    step = max(1, math.ceil(len(points) / 12))
    ticks = list(range(0, len(points), step))
    rows = [["run", one.series.unit or "value"]]
    rows += [[moment_text(point.moment), f"{point.value:.6g}"] for point in points[-_RUNS:]]
    told = "; ".join(trend_lines(one)) or "no lasting change"
    unit = printable(one.series.unit)
    return _figure(
        "history",
        f"{series_name(one.series)} over {len(points)} runs",
        f"{told} (dashed: a new level begins; dotted: a release)",
        rows,
        [trace],
        shapes=lines[:_LINES],
        xaxis={"tickvals": ticks, "ticktext": [names[at].split(" ")[0] for at in ticks], "tickangle": 45},
        yaxis={"title": {"text": unit}},
        height=260,
    )


# -- ranks -----------------------------------------------------------------------------------------------------------


def _ranks(verdict: Verdict) -> Iterable[Figure]:
    """A heat map a metric that was measured on several ranks: how each rank lies beside the median of all of them."""
    by_metric: dict[str, dict[str, dict[int, float]]] = {}
    for one in verdict.measurements:
        split = rank_of(one.subject)
        if split is None or not isinstance(one.value, (int, float)) or not math.isfinite(one.value):
            continue
        rank, subject = split
        by_metric.setdefault(one.metric, {}).setdefault(subject, {})[rank] = float(one.value)
    for metric in sorted(by_metric, key=_by_interest):
        if len({rank for values in by_metric[metric].values() for rank in values}) > 1:
            yield _heat_map(metric, by_metric[metric])


def _by_interest(metric: str) -> tuple[int, str]:
    """What ranks are looked at for comes first: their times, then what they did."""
    first = ("operator_time", "profiled_step_time", "step_part_time", "communication_time", "peak_memory_bytes")
    timed = metric in METRICS and METRICS[metric].kind is Kind.TIMED
    return (first.index(metric) if metric in first else 10 if timed else 20), metric


def _heat_map(metric: str, found: dict[str, dict[int, float]]) -> Figure:
    ranks = sorted({rank for values in found.values() for rank in values})
    unit = METRICS[metric].unit if metric in METRICS else ""
    subjects = sorted(found, key=lambda name: -max(found[name].values()))[:_COLUMNS]
    middle = {name: statistics.median(found[name].values()) for name in subjects}
    heat = [[_beside(found[name].get(rank), middle[name]) for name in subjects] for rank in ranks]
    told = [[_float(found[name].get(rank)) for name in subjects] for rank in ranks]
    worst = sorted(
        (
            (heat[row][column] or 0.0, rank, name)
            for row, rank in enumerate(ranks)
            for column, name in enumerate(subjects)
        ),
        key=lambda one: -abs(one[0]),
    )[:20]
    rows = [["rank", "of", "value", "beside the median of the ranks"]]
    rows += [
        [str(rank), printable(name) or metric, quantity(found[name].get(rank), unit), f"{percent:+.1f} %"]
        for percent, rank, name in worst
    ]
    reach = max([5.0, *(min(abs(one[0]), 100.0) for one in worst)])
    names = [_safe(_ending(name or metric, 28)) for name in subjects]
    left = f" (the {_COLUMNS} largest of {len(found)})" if len(found) > _COLUMNS else ""
    trace = {
        "type": "heatmap",
        "x": list(range(len(subjects))),
        "y": ranks,
        "z": heat,
        "customdata": told,
        "zmin": -reach,
        "zmid": 0,
        "zmax": reach,
        "colorscale": "heat",
        "colorbar": {"title": {"text": "% beside the median"}, "thickness": 12},
        "hovertemplate": f"rank %{{y}}, %{{x}}: %{{customdata:.4g}} {unit}, %{{z:+.1f}} %<extra></extra>",
        "hoverongaps": False,
    }
    return _figure(
        "ranks",
        f"{metric} by rank{left}",
        f"{len(ranks)} ranks; farthest from the median: rank {rows[1][0]}, {rows[1][1]}, {rows[1][3]}" if worst else "",
        rows,
        [trace],
        xaxis={"tickvals": list(range(len(subjects))), "ticktext": names, "tickangle": 45, "automargin": True},
        yaxis={"title": {"text": "rank"}, "autorange": "reversed", **({"dtick": 1} if len(ranks) <= 20 else {})},
        height=min(900, 220 + 14 * len(ranks)),
    )


def _beside(value: float | None, middle: float) -> float | None:
    if value is None:
        return None
    return round(100 * (value - middle) / abs(middle), 2) if middle else 0.0 if not value else 100.0


def _float(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
