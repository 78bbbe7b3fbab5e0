"""Figures of one workload, from its verdict."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfguard.errors import counted
from perfguard.judge.attribution import WITHOUT_OPERATOR, Attribution, attribution_of
from perfguard.judge.ledger import Cause, Ledger
from perfguard.judge.quantities import quantity, size_bytes
from perfguard.judge.step_time import TimeUnit
from perfguard.judge.trend import Trend
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import METRICS, Kind, MemoryTrack
from perfguard.measure.measurement import finite, number, rank_of
from perfguard.recording import Step
from perfguard.reports.page.distributions import cost, distribution, processes
from perfguard.reports.page.figure import (
    LARGEST,
    STEPS,
    TIMES,
    Axis,
    Bar,
    Bars,
    Cells,
    Chart,
    Figure,
    Shape,
    Strips,
    columns,
    curve,
    dots,
    level,
    number_axis,
    plain_number,
    table_rows,
    time_row,
    upright,
)
from perfguard.reports.trend import moment_text, series_name, trend_lines
from perfguard.window import Phase

#: Parts of a ledger in which no time passed, and their name; the two directions of a part.
_CORRECTIONS = frozenset({Cause.OVERLAP, Cause.PROFILER, Cause.RESIDUAL})
_UNDRAWN = "corrections, and what no part explains"
_PACES = (("worse", "slower"), ("better", "faster"))
#: The largest number of parts of a ledger, and of subjects of ranks, that are drawn.
_PARTS = 7
_SUBJECTS = 40
#: The number of newest runs of a history in the table, and of marks in its figure.
_RUNS, _MARKS = 200, 100
#: With more changes than this, those within the tolerance are not marked.
_MOST_LEVELS = 10
#: Most labels of the profiled steps.
_STEP_LABELS = 6
#: Units of the axis of memory.
_SCALES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
#: From this many times the usual step on, steps are drawn on a logarithmic axis.
_FAR = 8
#: The most interesting metrics of ranks.
_OF_RANKS = ("operator_time", "profiled_step_time", "step_part_time", "communication_time", "peak_memory_bytes")
#: So many ranks have a table with their numbers; more are strips of colour.
_FEW_RANKS = 8
#: The number of colours on each side of the median, and the least difference in % of the weakest one.
_LEVELS = 3
_LEAST_PERCENT = 1.0
#: Metrics of a history that come first.
_FIRST = ("step_cost", "step_ab", "step_time", "profiled_step_time")


def figures_of(verdict: Verdict) -> list[Figure]:
    """Return the figures of a verdict; of an INVALID recording the steps only, because its numbers are wrong."""
    if verdict.outcome is Outcome.INVALID:
        return [one for one in [_steps(verdict)] if one is not None]
    cause = attribution_of(verdict)
    found = [
        _waterfall(verdict.ledger, cause, verdict) if verdict.ledger and isinstance(cause, tuple) else None,
        distribution(verdict),
        cost(verdict),
        processes(verdict),
        _memory(verdict),
        _steps(verdict),
        *_ranks(verdict),
    ]
    return [one for one in found if one is not None]


# -- where the time went ---------------------------------------------------------------------------------------------


def _waterfall(ledger: Ledger, found: Attribution, verdict: Verdict) -> Figure | None:
    """Draw the baseline's step, the change by each operator that explains the time, that by all other parts, and the step now.

    Corrections and the residual are a number below the bars: no time passed in them.
    """
    if not (ledger.base_ns or ledger.current_ns):
        return None
    parts = [(one.subject or "communication", one.change_ns / 1e3) for one in found[:_PARTS]]
    if (others := _other_parts(ledger, found[:_PARTS])) is not None:
        parts.append(others)
    rest_us = ledger.change_ns / 1e3 - sum(change_us for _, change_us in parts)
    base_us, now_us = ledger.base_ns / 1e3, ledger.current_ns / 1e3
    levels = list(itertools.accumulate((change_us for _, change_us in parts), initial=base_us))
    axis = _around([*levels, now_us])
    unit = TimeUnit.of([base_us, now_us])
    ends = zip(parts, itertools.pairwise(levels), strict=True)
    bars = [
        Bar(label="baseline", text=unit.text(base_us), role="base", start=0.0, end=axis.at(base_us)),
        *(
            Bar(label=label, text=unit.signed(change), role=_role(change), start=axis.at(begin), end=axis.at(end))
            for (label, change), (begin, end) in ends
        ),
        Bar(label="now", text=unit.text(now_us), role="now", start=0.0, end=axis.at(now_us)),
    ]
    roles = {bar.role for bar in bars}
    is_other_machine = any(finding.code.name == "B103" for finding in verdict.findings)
    other = "; the baseline is of another machine, so times are shown and not judged" if is_other_machine else ""
    cut_off = f" Bars begin at {unit.text(axis.low)}." if axis.low else ""
    return Figure(
        kind="waterfall",
        title="Where the time of a step went",
        caption=f"{unit.signed(ledger.change_ns / 1e3)} a step, wall time{other}",
        rows=table_rows(
            [
                ("part", "change of a step"),
                ("baseline", unit.text(base_us)),
                *((label, unit.signed(change_us)) for label, change_us in parts),
                (_UNDRAWN, unit.signed(rest_us)),
                ("now", unit.text(now_us)),
            ]
        ),
        drawing=Bars(bars=tuple(bars), note=f"{_UNDRAWN[0].upper()}{_UNDRAWN[1:]}: {unit.signed(rest_us)}.{cut_off}"),
        legend=(("base", "baseline"), *((role, name) for role, name in _PACES if role in roles), ("now", "now")),
    )


def _role(change_us: float) -> str:
    return "worse" if change_us > 0 else "better"


def _other_parts(ledger: Ledger, drawn: Attribution) -> tuple[str, float] | None:
    """Return the number of the parts that have no bar of their own, and their change in us; None without any."""
    own = {one.subject for one in drawn}
    others = [
        entry
        for entry in ledger.entries
        if entry.cause not in _CORRECTIONS and (entry.cause in WITHOUT_OPERATOR or entry.subject not in own)
    ]
    if not others:
        return None
    count = len({entry.subject or entry.cause for entry in others})
    return counted(count, "other part"), sum(entry.change_ns for entry in others) / 1e3


def _around(levels: Sequence[float]) -> Axis:
    """Return the axis of a waterfall; it does not begin at zero if all levels are far away from zero."""
    low, high = min(levels), max(levels)
    room = 0.25 * (high - low) or 0.1 * abs(high) or 1.0
    return number_axis(0.0 if low < 4 * (high - low) else max(0.0, low - room), high)


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(verdict: Verdict) -> Figure | None:
    """Draw the allocated memory above its lowest point, over the profiled steps; dashed: the baseline's peak."""
    tracks = [track for track in verdict.memory if track.curve_bytes]
    if not tracks:
        return None
    several = len({track.rank for track in tracks}) > 1
    found = {one.subject: one.reference for one in verdict.comparisons if one.metric == "peak_memory_bytes"}
    peaks = [number(found.get(f"rank{one.rank}:{one.device}", found.get(one.device))) for one in tracks]
    before = [peak if peak is not None and 0 <= peak < LARGEST else None for peak in peaks]
    most_bytes = max([*(track.peak_bytes for track in tracks), *(peak for peak in before if peak is not None)])
    scale, unit = next((one for one in _SCALES if most_bytes > one[0]), _SCALES[-1])
    rows = [("device", "peak now", "peak before")]
    for track, peak in zip(tracks, before, strict=True):
        rows.append((_device(track, several), size_bytes(track.peak_bytes), "" if peak is None else size_bytes(peak)))
    caption = "; ".join(f"{row[0]}: peak {row[1]}{row[2] and f', {row[2]} in the baseline'}" for row in rows[1:4])
    curves = [_highest(track) for track in tracks]
    x = _profiled_steps(max(1, math.ceil(max(xs[-1] for xs, _ in curves) - 1)))
    y = number_axis(0, most_bytes / scale * 1.05 or 1, title=unit)
    shapes, legend = [], []
    for place, (track, (xs, ys)) in enumerate(zip(tracks, curves, strict=True)):
        role = f"line{place % 8}" if several or len(tracks) > 1 else "now"
        at = [x.at(one) for one in xs], [y.at(one / scale) for one in ys]
        if len(tracks) == 1:
            shapes.append(Shape(role=role, style="area", path=curve(*at, is_step=True, closes=True)))
        shapes.append(Shape(role=role, style="line", path=curve(*at, is_step=True)))
        legend.append((role, _device(track, several) if len(tracks) > 1 else "now"))
    if len(tracks) <= 4 and (known := [peak for peak in before if peak is not None]):
        shapes += [Shape(role="base", style="dash", path=level(y.at(peak / scale))) for peak in known]
        legend.append(("base dash", "peak of the baseline"))
    first = curves[0]
    hover = [
        (round(x.at(at), 4), f"step {int(at)}: {plain_number(value / scale)} {unit}")
        for at, value in list(zip(*first, strict=True))[:-1]
    ]
    return Figure(
        kind="memory",
        title="Memory over the profiled steps",
        caption=caption,
        rows=table_rows(rows),
        drawing=Chart(x=x, y=y, shapes=tuple(shapes), hover=tuple(hover) if len(tracks) == 1 else ()),
        legend=tuple(legend),
    )


def _profiled_steps(count: int) -> Axis:
    """Return an axis on which each step has a span of its own, from its number to the next; its number is in the middle."""
    axis = Axis(low=1, high=count + 1, ticks=(), title="profiled step")
    each = math.ceil(count / _STEP_LABELS)
    ticks = tuple((round(axis.at(step + 0.5), 4), str(step)) for step in range(1, count + 1, each))
    return replace(axis, ticks=ticks)


def _highest(track: MemoryTrack) -> tuple[list[float], list[int]]:
    """Return steps and bytes; of a long window the highest point of each stretch. The last level is held to the end."""
    stretch = math.ceil(len(track.curve_bytes) / STEPS) or 1
    highest = [max(track.curve_bytes[at : at + stretch]) for at in range(0, len(track.curve_bytes), stretch)]
    each = stretch / (track.parts or 1)
    end = 1 + len(track.curve_bytes) / (track.parts or 1)
    return [min(1 + each * at, end) for at in range(len(highest) + 1)], [*highest, highest[-1]]


def _device(track: MemoryTrack, several: bool) -> str:
    return f"rank {track.rank}, {track.device}" if several else track.device


# -- the window ------------------------------------------------------------------------------------------------------


def _steps(verdict: Verdict) -> Figure | None:
    """Draw every step in order, by phase."""
    steps = verdict.steps
    if not steps:
        return None
    times_us = [step.wall_ns / 1e3 for step in steps]
    usual = statistics.median(times_us)
    # The first step of all compiles, and may take a thousand times as long: the others would be flat.
    is_log = max(times_us) > _FAR * usual > 0
    # On a logarithmic axis the unit fits its middle.
    unit = TimeUnit.of([max(times_us) / 100 if is_log else usual])
    x = number_axis(
        min(step.index for step in steps) - 0.5, max(step.index for step in steps) + 0.5, title="step", least_step=1
    )
    low = min(time for time in times_us if time > 0) / unit.us / 2 if is_log else 0.0
    y = number_axis(low, max(times_us) / unit.us * 1.05 or 1.0, title=unit.name, is_log=is_log)
    shapes, legend, hover = [], [], []
    rows: list[Sequence[str]] = [("phase", *TIMES)]
    for phase in Phase:
        chosen = [step for step in steps if step.phase is phase]
        if not chosen:
            continue
        rows.append(time_row(unit, phase.value, [step.wall_ns / 1e3 for step in chosen]))
        thinned = _thinned(chosen, len(steps))
        at = [x.at(step.index) for step in thinned]
        heights = [y.at(step.wall_ns / 1e3 / unit.us) for step in thinned]
        width = 0.8 / max(1, x.high - x.low)
        shapes.append(Shape(role=f"phase-{phase.value}", style="bars", path=columns(at, heights, width)))
        legend.append((f"phase-{phase.value}", phase.value))
        texts = (f"{phase.value} step {step.index}: {unit.text(step.wall_ns / 1e3)}" for step in thinned)
        hover += list(zip((round(one, 4) for one in at), texts, strict=True))
    caption = "; ".join(f"{row[1]} {row[0]}, median {row[3]}" for row in rows[1:])
    if len(steps) > STEPS:
        caption += f"; of {len(steps)} steps the slowest of each stretch are drawn"
    return Figure(
        kind="steps",
        title="Steps of the window" + (" (logarithmic)" if is_log else ""),
        caption=caption,
        rows=table_rows(rows),
        drawing=Chart(x=x, y=y, shapes=tuple(shapes), hover=tuple(sorted(hover))),
        legend=tuple(legend),
    )


def _thinned(steps: Sequence[Step], count: int) -> list[Step]:
    """Return the slowest step of each stretch of a window of `count` steps, all of a short one."""
    stretch = math.ceil(count / STEPS)
    return [max(steps[at : at + stretch], key=lambda step: step.wall_ns) for at in range(0, len(steps), stretch)]


# -- history ---------------------------------------------------------------------------------------------------------


def trends_in_order(trends: Iterable[Trend]) -> list[Trend]:
    """Return trends as a page shows them: the time of a step first, then other times, then the rest."""

    def interest(one: Trend) -> int:
        metric = one.series.metric
        return _FIRST.index(metric) if metric in _FIRST else 10 if _is_timed(metric) else 20

    return sorted(trends, key=interest)


def _is_timed(metric: str) -> bool:
    return metric in METRICS and METRICS[metric].kind is Kind.TIMED


def drawn_trend(one: Trend) -> Figure:
    """Draw a number over the runs of a history: an exact one as steps, because nothing lies between two of its levels."""
    points = one.series.points
    names = [moment_text(point.moment) for point in points]
    unit, values = one.series.unit, [point.value for point in points]
    x = _runs_axis([point.moment.at.date().isoformat() for point in points])
    low, high = min(values), max(values)
    # From zero on, unless the changes would be invisible.
    low = 0.0 if 0 <= low < 2 * (high - low) else low - 0.15 * (high - low)
    y = number_axis(low, high + 0.1 * (high - low), title=unit or "value")
    at = [x.at(place) for place in range(len(points))]
    heights = [y.at(value) for value in values]
    is_exact = not _is_timed(one.series.metric)
    shapes = [Shape(role="now", style="line", path=curve(at, heights, is_step=is_exact))]
    if len(points) <= STEPS:
        shapes.append(Shape(role="now", style="dots", path=dots(at, heights)))
    legend: dict[str, str] = {}
    # Of an exact number that changes all the time only what is worse is marked: its steps show the levels.
    marked = [change for change in one.changes if change.beyond or len(one.changes) <= _MOST_LEVELS]
    for change in marked[-_MARKS:]:
        role = "worse" if change.beyond else "faint"
        shapes.append(Shape(role=role, style="dash", path=upright(x.at(change.index - 0.5))))
        legend[f"{role} dash"] = "worse from here on" if change.beyond else "a new level"
    if released := [place for place, point in enumerate(points) if point.moment.release][-_MARKS:]:
        shapes.append(Shape(role="release", style="dash", path="".join(upright(x.at(place)) for place in released)))
        legend["release dash"] = "a release"
    texts = [f"{name}: {plain_number(value)} {unit}".strip() for name, value in zip(names, values, strict=True)]
    rows = [("run", unit or "value"), *zip(names[-_RUNS:], (f"{value:.6g}" for value in values[-_RUNS:]), strict=True)]
    return Figure(
        kind="history",
        title=f"{series_name(one.series)} over {len(points)} runs",
        caption="; ".join(trend_lines(one)) or "no lasting change",
        rows=table_rows(rows),
        drawing=Chart(x=x, y=y, shapes=tuple(shapes), hover=tuple(zip((round(p, 4) for p in at), texts, strict=True))),
        legend=tuple(legend.items()),
    )


def _runs_axis(days: Sequence[str]) -> Axis:
    """Return an axis of runs, with the days of the first, the middle and the last one."""
    axis = Axis(low=0, high=max(1, len(days) - 1), ticks=(), title="run, by the day of its commit")
    places = sorted({0, (len(days) - 1) // 2, len(days) - 1})
    ticks = tuple((round(axis.at(place), 4), days[place]) for place in places)
    return Axis(low=axis.low, high=axis.high, ticks=ticks, title=axis.title)


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
    return (_OF_RANKS.index(metric) if metric in _OF_RANKS else 10 if _is_timed(metric) else 20), metric


def _heat_map(metric: str, found: dict[str, dict[int, float]]) -> Figure:
    """Draw the difference of each rank from the median of all ranks."""
    ranks = sorted({rank for values in found.values() for rank in values})
    unit = METRICS[metric].unit if metric in METRICS else ""
    subjects = sorted(found, key=lambda name: -max(found[name].values()))[:_SUBJECTS]
    largest = max(abs(value) for name in subjects for value in found[name].values())
    middle = {name: statistics.median(found[name].values()) for name in subjects}
    heat = {name: [_from_middle(found[name].get(rank), middle[name]) for rank in ranks] for name in subjects}
    cells = [
        (percent or 0.0, rank, name)
        for name, of_subject in heat.items()
        for rank, percent in zip(ranks, of_subject, strict=True)
    ]
    worst = sorted(cells, key=lambda one: -abs(one[0]))[:20]
    rows = [("rank", "of", "value", "from the median")]
    rows += [
        (str(rank), name or metric, quantity(found[name].get(rank), unit, beside=(largest,)), f"{percent:+.1f} %")
        for percent, rank, name in worst
    ]
    apart = [name for name in subjects if any(abs(one or 0.0) >= _LEAST_PERCENT for one in heat[name])]
    reach = max(5.0, min(100.0, abs(worst[0][0])))
    caption = f"{len(ranks)} ranks; farthest from the median: rank {rows[1][0]}, {rows[1][1]}, {rows[1][3]}"
    if not apart:
        caption = f"{len(ranks)} ranks, and all agree within {_LEAST_PERCENT:g} %"
    elif len(apart) < len(subjects):
        caption += f"; {len(subjects) - len(apart)} more agree within {_LEAST_PERCENT:g} %"
    drawing: Strips | Cells | None = None
    if apart and len(ranks) <= _FEW_RANKS:
        lines = [
            (
                name or metric,
                tuple(
                    (quantity(found[name].get(rank), unit, beside=(largest,)), _level(percent, reach))
                    for rank, percent in zip(ranks, heat[name], strict=True)
                ),
            )
            for name in apart
        ]
        drawing = Cells(heads=("", *(f"rank {rank}" for rank in ranks)), lines=tuple(lines))
    elif apart:
        strips = [(name or metric, _strip([_level(percent, reach) for percent in heat[name]])) for name in apart]
        first, last = f"rank {ranks[0]}", f"rank {ranks[-1]}"
        drawing = Strips(strips=tuple(strips), columns=len(ranks), first=first, last=last)
    above, below = f"up to {reach:.0f} % above the median", f"up to {reach:.0f} % below it"
    return Figure(
        kind="ranks",
        named=1,
        title=f"{metric} by rank{f' (the {_SUBJECTS} largest of {len(found)})' if len(found) > _SUBJECTS else ''}",
        caption=caption,
        rows=table_rows(rows),
        drawing=drawing,
        legend=((f"high{_LEVELS}", above), (f"low{_LEVELS}", below)) if drawing else (),
    )


def _level(percent: float | None, reach: float) -> str:
    """Return the colour of a cell: `high1` to `high3`, `low1` to `low3`, empty near the median."""
    if percent is None or abs(percent) < _LEAST_PERCENT:
        return ""
    step = min(_LEVELS, 1 + int(_LEVELS * abs(percent) / (reach * 1.001)))
    return f"{'high' if percent > 0 else 'low'}{step}"


def _strip(levels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return a path for each level: neighbours of one level are one run."""
    paths: dict[str, list[str]] = {}
    at = 0
    for name, run in itertools.groupby(levels):
        length = len(list(run))
        if name:
            paths.setdefault(name, []).append(f"M{at} 0h{length}v1h-{length}z")
        at += length
    return tuple((name, "".join(parts)) for name, parts in sorted(paths.items()))


def _from_middle(value: float | None, middle: float) -> float | None:
    if value is None:
        return None
    return round(100 * (value - middle) / abs(middle), 2) if middle else 0.0 if not value else 100.0
