"""Figures of one workload, as plotly's plain form: a list of traces and a layout, which plotly.js draws.

Texts of a recording are escaped, because plotly reads a little HTML in them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from perfguard.judge.attribution import Attribution, attribution_of
from perfguard.judge.ledger import Ledger
from perfguard.judge.quantities import quantity, signed_us, size_bytes, time_us
from perfguard.judge.trend import Trend
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import METRICS, Kind, MemoryTrack
from perfguard.measure.measurement import finite, number, rank_of
from perfguard.recording import Step
from perfguard.reports.page.distributions import cost, distribution
from perfguard.reports.page.figure import STEPS, TIMES, Figure, as_float, figure, line, safe, times_row
from perfguard.reports.table import Cut, cut
from perfguard.reports.trend import moment_text, series_name, trend_lines
from perfguard.screen import printable
from perfguard.window import Phase

#: The largest number of parts of a ledger, and of columns of the heat map, that are drawn.
_PARTS = 7
_COLUMNS = 40
#: The number of newest runs of a history in the table, and of lines in its figure.
_RUNS, _LINES = 200, 100
#: Units of the axis of memory.
_SCALES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
#: The most interesting metrics of ranks.
_OF_RANKS = ("operator_time", "profiled_step_time", "step_part_time", "communication_time", "peak_memory_bytes")


def figures_of(verdict: Verdict) -> list[Figure]:
    """Return the figures of a verdict; of an INVALID recording the steps only, because its numbers are wrong."""
    if verdict.outcome is Outcome.INVALID:
        return [one for one in [_steps(verdict)] if one is not None]
    cause = attribution_of(verdict)
    found = [
        _waterfall(verdict.ledger, cause, verdict) if verdict.ledger and isinstance(cause, tuple) else None,
        distribution(verdict),
        cost(verdict),
        _memory(verdict),
        _steps(verdict),
        *_ranks(verdict),
    ]
    return [one for one in found if one is not None]


# -- where the time went ---------------------------------------------------------------------------------------------


def _waterfall(ledger: Ledger, found: Attribution, verdict: Verdict) -> Figure | None:
    """Draw the baseline's step, the change by each operator that explains the time, all other parts, and the step now."""
    if not (ledger.base_ns or ledger.current_ns):
        return None
    own = found[:_PARTS]
    parts = [(one.subject or "communication", one.change_ns) for one in own]
    parts.append(("all other parts", ledger.change_ns - sum(change_ns for _, change_ns in parts)))
    base_us, now_us = ledger.base_ns / 1e3, ledger.current_ns / 1e3
    changes = [change_ns / 1e3 for _, change_ns in parts]
    labels = ["baseline", *(label for label, _ in parts), "now"]
    shown = [time_us(base_us), *map(signed_us, changes), time_us(now_us)]
    colour = "worse" if ledger.change_ns > 0 else "better"
    trace = {
        # Each part begins where the previous one ended; both ends begin at zero.
        "base": [0.0, *list(itertools.accumulate(changes, initial=base_us))[:-1], 0.0],
        "y": list(range(len(shown))),
        "x": [base_us, *changes, now_us],
        "text": shown,
        "hovertext": list(map(safe, labels)),
        "marker": {"color": ["base", *(colour for _ in own), "faint", "now"]},
    }
    bounds = _around([base_us, *changes])
    names = [safe(cut(printable(label), 34, Cut.MIDDLE)) for label in labels]
    is_other_machine = any(finding.code.name == "B103" for finding in verdict.findings)
    other = "; the baseline is of another machine, so times are shown and not judged" if is_other_machine else ""
    return figure(
        "waterfall",
        "Where the time of a step went",
        f"{signed_us(ledger.change_ns / 1e3)} a step, wall time{other}",
        [("part", "change of a step"), *zip(labels, shown, strict=True)],
        [trace],
        yaxis={"tickvals": list(range(len(labels))), "ticktext": names},
        xaxis={"title": {"text": f"us a step{', not from 0 on' if bounds[0] else ''}"}, "range": bounds},
        height=44 + 23 * len(labels),
    )


def _around(values: Sequence[float]) -> list[float]:
    """Return the range of the axis of a waterfall; it does not begin at zero if all levels are far away from zero."""
    levels = list(itertools.accumulate(values))
    low, high = min(levels), max(levels)
    room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    return [0.0 if low < 2 * (high - low) else low - room, high + 2.5 * room]


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(verdict: Verdict) -> Figure | None:
    """Draw the allocated memory above its lowest point, over the profiled steps; dashed: the baseline's peak."""
    tracks = [track for track in verdict.memory if track.curve_bytes]
    if not tracks:
        return None
    several = len({track.rank for track in tracks}) > 1
    most_bytes = max(track.peak_bytes for track in tracks)
    scale, unit = next((one for one in _SCALES if most_bytes > one[0]), _SCALES[-1])
    peaks = {one.subject: one.reference for one in verdict.comparisons if one.metric == "peak_memory_bytes"}
    rows = [["device", "peak now", "peak of the baseline"]]
    shapes = []
    for track in tracks:
        before = number(peaks.get(f"rank{track.rank}:{track.device}", peaks.get(track.device)))
        reference = "" if before is None else size_bytes(before)
        rows.append([_device(track, several), size_bytes(track.peak_bytes), reference])
        if before is not None and math.isfinite(before) and len(tracks) <= 4:
            level = before / scale
            shapes.append(line(0, "base", xref="paper", yref="y", x1=1, y0=level, y1=level))
    caption = "; ".join(f"{row[0]}: peak {row[1]}{row[2] and f', {row[2]} in the baseline'}" for row in rows[1:4])
    return figure(
        "memory",
        "Memory over the profiled steps",
        caption,
        rows,
        [_curve(track, several, number, scale, unit) for number, track in enumerate(tracks)],
        shapes=shapes,
        showlegend=len(tracks) > 1,
        xaxis={"title": {"text": "step (dashed: baseline)" if shapes else "step"}},
        yaxis={"title": {"text": unit}},
    )


def _curve(track: MemoryTrack, several: bool, number: int, scale: int, unit: str) -> dict[str, Any]:
    stretch = math.ceil(len(track.curve_bytes) / STEPS) or 1
    # Of a long window the highest point of each stretch.
    highest = [max(track.curve_bytes[at : at + stretch]) for at in range(0, len(track.curve_bytes), stretch)]
    return {
        "name": safe(_device(track, several)),
        "x": [round(1 + stretch * at / (track.parts or 1), 4) for at in range(len(highest))],
        "y": [float(f"{value / scale:.6g}") for value in highest],
        "line": {"color": f"line{number}" if number else "now"},
        **({} if number or several else {"fill": "tozeroy"}),
        "hovertemplate": f"step %{{x:.2f}}: %{{y}} {unit}<extra></extra>",
    }


def _device(track: MemoryTrack, several: bool) -> str:
    return f"rank {track.rank}, {track.device}" if several else track.device


# -- the window ------------------------------------------------------------------------------------------------------


def _steps(verdict: Verdict) -> Figure | None:
    """Draw every step in order, by phase."""
    steps = verdict.steps
    if not steps:
        return None
    traces = []
    rows = [["phase", *TIMES]]
    for phase in Phase:
        chosen = [step for step in steps if step.phase is phase]
        if not chosen:
            continue
        rows.append(times_row(phase.value, [step.wall_ns / 1e3 for step in chosen]))
        thinned = _thinned(chosen)
        traces.append(
            {
                "name": phase.value,
                "x": [step.index for step in thinned],
                "y": [step.wall_ns / 1e3 for step in thinned],
                "marker": {"color": f"phase-{phase.value}"},
                "hovertemplate": f"{phase.value} step %{{x}}: %{{y:.1f}} us<extra></extra>",
            }
        )
    caption = "; ".join(f"{row[1]} {row[0]}, median {row[3]}" for row in rows[1:])
    if len(steps) > STEPS:
        caption += f"; of {len(steps)} steps the slowest of each stretch are drawn"
    times_ns = [step.wall_ns for step in steps]
    # The first step of all compiles, and may take a thousand times as long.
    scale = "log" if max(times_ns) > 30 * statistics.median(times_ns) else "linear"
    return figure("steps", "Steps of the window", caption, rows, traces, yaxis={"type": scale})


def _thinned(steps: Sequence[Step]) -> list[Step]:
    """Return the slowest step of each stretch of a long window, else all steps."""
    stretch = math.ceil(len(steps) / STEPS)
    return [max(steps[at : at + stretch], key=lambda step: step.wall_ns) for at in range(0, len(steps), stretch)]


# -- history ---------------------------------------------------------------------------------------------------------


def drawn_trend(one: Trend) -> Figure:
    """Draw a number over the runs of a history."""
    points = one.series.points
    names = [safe(moment_text(point.moment)) for point in points]
    lines = [line(change.index - 0.5, "worse", layer="below") for change in one.changes]
    release = {"color": "faint", "width": 1, "dash": "dot"}
    lines += [line(at, "faint", line=release) for at, point in enumerate(points) if point.moment.release]
    trace = {
        "x": list(range(len(points))),
        "y": [point.value for point in points],
        "text": names,
        "hovertemplate": f"%{{text}}: %{{y:.5g}} {safe(one.series.unit)}<extra></extra>",
    }
    ticks = list(range(0, len(points), max(1, math.ceil(len(points) / 12))))
    rows = [["run", one.series.unit or "value"]]
    rows += [[moment_text(point.moment), f"{point.value:.6g}"] for point in points[-_RUNS:]]
    changes = "; ".join(trend_lines(one)) or "no lasting change"
    return figure(
        "history",
        f"{series_name(one.series)} over {len(points)} runs",
        f"{changes} (dashed: a new level begins; dotted: a release)",
        rows,
        [trace],
        shapes=lines[:_LINES],
        xaxis={"tickvals": ticks, "ticktext": [names[at].split(" ")[0] for at in ticks]},
        yaxis={"title": {"text": printable(one.series.unit)}},
    )


# -- ranks -----------------------------------------------------------------------------------------------------------


def _ranks(verdict: Verdict) -> Iterable[Figure]:
    """Yield a heat map for each metric that was measured on several ranks, the most interesting first."""
    by_metric: dict[str, dict[str, dict[int, float]]] = {}
    for one in verdict.measurements:
        split = rank_of(one.subject)
        if split is not None and (value := finite(one.value)) is not None:
            rank, subject = split
            by_metric.setdefault(one.metric, {}).setdefault(subject, {})[rank] = float(value)
    for metric in sorted(by_metric, key=_by_interest):
        if len({rank for values in by_metric[metric].values() for rank in values}) > 1:
            yield _heat_map(metric, by_metric[metric])


def _by_interest(metric: str) -> tuple[int, str]:
    timed = metric in METRICS and METRICS[metric].kind is Kind.TIMED
    return (_OF_RANKS.index(metric) if metric in _OF_RANKS else 10 if timed else 20), metric


def _heat_map(metric: str, found: dict[str, dict[int, float]]) -> Figure:
    """Draw the difference of each rank from the median of all ranks."""
    ranks = sorted({rank for values in found.values() for rank in values})
    unit = METRICS[metric].unit if metric in METRICS else ""
    subjects = sorted(found, key=lambda name: -max(found[name].values()))[:_COLUMNS]
    middle = {name: statistics.median(found[name].values()) for name in subjects}
    heat = [[_from_middle(found[name].get(rank), middle[name]) for name in subjects] for rank in ranks]
    cells = [
        (percent or 0.0, rank, name)
        for rank, line_of_rank in zip(ranks, heat, strict=True)
        for percent, name in zip(line_of_rank, subjects, strict=True)
    ]
    worst = sorted(cells, key=lambda one: -abs(one[0]))[:20]
    rows = [["rank", "of", "value", "from the median of the ranks"]]
    rows += [
        [str(rank), printable(name) or metric, quantity(found[name].get(rank), unit), f"{percent:+.1f} %"]
        for percent, rank, name in worst
    ]
    reach = max([5.0, *(min(abs(one[0]), 100.0) for one in worst)])
    trace = {
        "x": list(range(len(subjects))),
        "y": ranks,
        "z": heat,
        "customdata": [[as_float(found[name].get(rank)) for name in subjects] for rank in ranks],
        "zmin": -reach,
        "zmax": reach,
        "hovertemplate": f"rank %{{y}}, %{{x}}: %{{customdata:.4g}} {unit}, %{{z:+.1f}} %<extra></extra>",
    }
    names = [safe(cut(printable(name or metric), 28, Cut.MIDDLE)) for name in subjects]
    return figure(
        "ranks",
        f"{metric} by rank{f' (the {_COLUMNS} largest of {len(found)})' if len(found) > _COLUMNS else ''}",
        f"{len(ranks)} ranks; farthest from the median: rank {rows[1][0]}, {rows[1][1]}, {rows[1][3]}",
        rows,
        [trace],
        xaxis={"tickvals": list(range(len(subjects))), "ticktext": names},
        yaxis={"dtick": 1} if len(ranks) <= 20 else {},
        height=min(900, 220 + 14 * len(ranks)),
    )


def _from_middle(value: float | None, middle: float) -> float | None:
    if value is None:
        return None
    return round(100 * (value - middle) / abs(middle), 2) if middle else 0.0 if not value else 100.0
