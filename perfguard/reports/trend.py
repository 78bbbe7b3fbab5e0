"""Trends for the terminal: a row a series, and a sentence for every change, creep and level that is worse."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from perfguard.errors import counted
from perfguard.judge.quantities import change_text, limit_text, show, sides_text
from perfguard.judge.step_time import three_digits
from perfguard.judge.trend import Change, Moment, Series, Trend
from perfguard.measure.measurement import Better
from perfguard.reports.table import Column, Cut, table
from perfguard.screen import LOG, Screen, printable

#: Most characters of a drawn series, and most changes of it in sentences: the newest.
_DRAWN = 24
_CHANGES = 3
_HEIGHTS = "▁▂▃▄▅▆▇█"
#: For a screen that lacks them.
_PLAIN_HEIGHTS = "_.-:=+*#"


def trend_text(trends: Iterable[Trend], screen: Screen = LOG) -> str:
    """Return a table of each workload with sentences about its series, and the counts of all."""
    found = list(trends)
    groups = groupby(found, key=lambda one: one.series.workload)
    return "\n\n".join([*(_of_workload(name, list(group), screen) for name, group in groups), _sum(found)])


def drawn(values: Sequence[float], screen: Screen = LOG, *, most: int = _DRAWN) -> str:
    """Draw numbers as a line of blocks from the lowest to the highest; of many a block is the median of neighbours."""
    if len(values) > most:
        edges = [round(place * len(values) / most) for place in range(most + 1)]
        values = [statistics.median(values[start:end]) for start, end in pairwise(edges)]
    heights = _HEIGHTS if screen.carried(_HEIGHTS) == _HEIGHTS else _PLAIN_HEIGHTS
    low, high = min(values), max(values)
    if low == high:
        return heights[0] * len(values)
    return "".join(heights[min(7, int((value / 2 - low / 2) / (high / 2 - low / 2) * 8))] for value in values)


def moment_text(moment: Moment) -> str:
    """Return a run as `1a2b3c4d5e6f (2026-11-03)`, `v1.2 (1a2b3c4d5e6f, 2026-11-03)`, or `run 7 (2026-11-03)`."""
    names = filter(None, (moment.release, moment.commit and commit_text(moment.commit)))
    first, *others = [printable(name) for name in names] or [f"run {moment.run}"]
    return f"{first} ({', '.join([*others, moment.at.date().isoformat()])})"


def commit_text(commit: str) -> str:
    """Return a short commit, with its `+dirty`."""
    name, dirty, _ = commit.partition("+dirty")
    return printable(name[:12] + dirty)


def series_name(series: Series) -> str:
    """Return the name of a series: that of a step's time in ms is `step`."""
    name = "step" if series.unit == "ms" and series.metric in ("step_cost", "step_time") else series.label
    return printable(name + (f" ({series.way})" if series.way else ""))


def _value(value: float, unit: str) -> str:
    return three_digits(value) if unit == "ms" else show(value)


def _of_workload(workload: str, trends: list[Trend], screen: Screen) -> str:
    machines = sorted({one.series.machine for one in trends if one.series.machine})
    has_release = any(one.release is not None for one in trends)
    columns = (
        Column(title=""),
        Column(title="metric", least=16, cut=Cut.MIDDLE),
        Column(title="runs", leaves=3),
        Column(title="trend", leaves=4),
        Column(title="latest"),
        Column(title="unit", leaves=1),
        Column(title="since the last run", leaves=2),
        Column(title="since the release" if has_release else "since the first run"),
    )
    rows = table(columns, [_row(one, machines, screen, has_release=has_release) for one in trends], screen)
    where = [f"machine {number}: {printable(name)}" for number, name in enumerate(machines, 1)] if machines[1:] else []
    lines = [f"  {line}" for one in trends for line in trend_lines(one)]
    return "\n".join([printable(workload), rows, *where, *lines])


def _row(one: Trend, machines: list[str], screen: Screen, *, has_release: bool) -> tuple[str, ...]:
    series = one.series
    of_machine = f" (machine {machines.index(series.machine) + 1})" if series.machine and machines[1:] else ""
    name = series_name(series) + of_machine
    # A series that is younger than the release has no change since.
    anchor = one.release if has_release else series.points[0]
    return (
        _state(one),
        name,
        str(len(series.points)),
        drawn(series.values, screen),
        _value(one.latest.value, series.unit),
        printable(series.unit),
        "-" if one.previous is None else _since(one.previous.value, one.latest.value),
        "-" if one.previous is None or anchor is None else _since(anchor.value, one.latest.value),
    )


def _state(one: Trend) -> str:
    if one.worse:
        return "WORSE"
    if not one.series.current:
        return "gone"
    if not one.judged:
        return "shown"
    return "creeps" if one.creep is not None else "ok"


def trend_lines(one: Trend) -> list[str]:
    """Return sentences about one series: that it is worse, its creep, and its newest changes."""
    series = one.series
    name = series_name(series)
    unit = printable(series.unit)
    lines = []
    if one.worse:
        assert one.tolerance is not None
        anchor = one.release.moment if one.release else one.series.points[0].moment
        what = "the release" if one.release else "the first run,"
        allowed = limit_text(one.tolerance, one.reference, better=Better.LOWER, unit=unit)
        levels = _levels(one.reference, one.level, unit)
        lines.append(f"WORSE {name} {levels} since {what} {moment_text(anchor)} ({allowed})")
    if (creep := one.creep) is not None:
        levels = _levels(creep.before, creep.after, unit)
        lines.append(
            f"{name} creeps since {moment_text(creep.moment)}: {levels} over {creep.runs} runs, "
            f"no step larger than {100 * creep.largest_step:.1f} %"
        )
    shown = one.changes[-_CHANGES:]
    if earlier := len(one.changes) - len(shown):
        lines.append(f"{name} changed {counted(earlier, 'time')} before that")
    return lines + [f"{name} {_change(change, unit)}" for change in shown]


def _change(change: Change, unit: str) -> str:
    how = "slowly, since about" if change.gradual else "since"
    return f"{how} {moment_text(change.moment)}: {_levels(change.before, change.after, unit)}"


def _levels(before: float, after: float, unit: str) -> str:
    sides = f"{_value(before, unit)} → {_value(after, unit)} ms" if unit == "ms" else sides_text(before, after, unit)
    return f"{sides}, {_since(before, after)}"


def _since(before: float, after: float) -> str:
    """Return `+10.2 %`, `0` for no change, and the difference itself from zero."""
    return "0" if after == before else change_text(before, after)


def _sum(trends: list[Trend]) -> str:
    worse = sum(one.worse for one in trends)
    judged = sum(one.judged for one in trends)
    workloads = len({one.series.workload for one in trends})
    shown = f"; {len(trends) - judged} shown, not judged" if judged < len(trends) else ""
    return f"{judged} series of {counted(workloads, 'workload')} judged: {worse} worse, {judged - worse} not{shown}"
