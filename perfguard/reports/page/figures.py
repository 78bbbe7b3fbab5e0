"""Figures of one workload, as plotly's own plain form: a list of traces and a layout. plotly.js draws them.

Colours are names of roles (`now`, `base`, `worse`, ...), which the page turns into those of its light or dark theme. Texts of a
recording are escaped, because plotly reads a little HTML in them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from perfguard.judge import Attribution, Ledger, Outcome, Verdict, attribution_of
from perfguard.judge.quantities import quantity, signed_us, size_bytes, time_us
from perfguard.judge.trend import Trend
from perfguard.measure import METRICS, Kind, MemoryTrack
from perfguard.measure.measurement import rank_of
from perfguard.recording import Step
from perfguard.reports.names import printable
from perfguard.reports.page.distributions import cost, distribution, line
from perfguard.reports.page.figure import STEPS, Figure, as_float, figure, safe
from perfguard.reports.trend import moment_text, series_name, trend_lines
from perfguard.window import Phase

#: The largest number of parts of a ledger, and of columns of the heat map, that are drawn.
_PARTS = 7
_COLUMNS = 40
#: How many runs of a history the table has, the newest, and how many lines are drawn into its figure.
_RUNS, _LINES = 200, 100


def figures_of(verdict: Verdict) -> list[Figure]:
    """Return what can be drawn of a verdict."""
    if verdict.outcome is Outcome.INVALID:
        # Of what is not whole the steps are shown, and no number that would look like one.
        return [one for one in [_steps(verdict)] if one is not None]
    cause = attribution_of(verdict)
    found = [
        _waterfall(verdict.ledger, cause, verdict) if verdict.ledger and isinstance(cause, Attribution) else None,
        distribution(verdict),
        cost(verdict),
        _memory(verdict),
        _steps(verdict),
        *_ranks(verdict),
    ]
    return [one for one in found if one is not None]


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
        "hovertext": [safe(text) for text in ("baseline", *labels, "now")],
        "hoverinfo": "text",
        "marker": {"color": ["base", *(colour for _ in own), "faint", "now"]},
        "showlegend": False,
    }
    ticks = ["baseline", *labels, "now"]
    bounds = _around([ledger.base_ns / 1e3, *changes])
    return figure(
        "waterfall",
        "Where the time of a step went",
        f"{signed_us(ledger.change_ns / 1e3)} a step, wall time" + _other_machine(verdict),
        rows,
        [trace],
        yaxis={
            "tickvals": list(range(len(ticks))),
            "ticktext": [safe(_ending(text, 34)) for text in ticks],
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
                    **line(0, "base"),
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
    return figure(
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
    stretch = math.ceil(len(track.curve_bytes) / STEPS) or 1
    # Of a long window the highest point of each stretch.
    highest = [max(track.curve_bytes[at : at + stretch]) for at in range(0, len(track.curve_bytes), stretch)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(_device(track, several)),
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
    if len(steps) > STEPS:
        told += f"; of {len(steps)} steps the slowest of each stretch are drawn"
    usual = statistics.median(step.wall_ns / 1e3 for step in steps)
    longest = max(step.wall_ns / 1e3 for step in steps)
    return figure(
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
    stretch = math.ceil(len(steps) / STEPS)
    if stretch <= 1:
        return list(steps)
    return [max(steps[at : at + stretch], key=lambda step: step.wall_ns) for at in range(0, len(steps), stretch)]


# -- history ---------------------------------------------------------------------------------------------------------


def drawn_trend(one: Trend) -> Figure:
    """Draw a number over the runs of a history; dashed lines stand where a new level begins, dotted ones at releases."""
    points = one.series.points
    names = [safe(moment_text(point.moment)) for point in points]
    lines = [{**line(change.index - 0.5, "worse"), "layer": "below"} for change in one.changes]
    lines += [
        {**line(at, "faint"), "line": {"color": "faint", "width": 1, "dash": "dot"}}
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
        "hovertemplate": f"%{{text}}: %{{y:.5g}} {safe(one.series.unit)}<extra></extra>",
        "showlegend": False,
    }
    step = max(1, math.ceil(len(points) / 12))
    ticks = list(range(0, len(points), step))
    rows = [["run", one.series.unit or "value"]]
    rows += [[moment_text(point.moment), f"{point.value:.6g}"] for point in points[-_RUNS:]]
    told = "; ".join(trend_lines(one)) or "no lasting change"
    unit = printable(one.series.unit)
    return figure(
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
    told = [[as_float(found[name].get(rank)) for name in subjects] for rank in ranks]
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
    names = [safe(_ending(name or metric, 28)) for name in subjects]
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
    return figure(
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
