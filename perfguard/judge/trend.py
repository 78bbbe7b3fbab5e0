"""Trends: the changes of one number over the runs of a history, and whether it got worse.

Input: a `Series` in the order of its commits, and the tolerance of its metric. Output: a `Trend` with lasting changes, slow
creep, and two anchors: the previous run and the last release. It needs no database.

* Each value of an exact number is a level of its own, except for a few values between two equal levels, each in one run.
* A time is split into levels by PELT (Killick, Fearnhead and Eckley 2012, implemented in `ruptures`) on its logarithm. A single
  outlier counts as the median of its neighbours (Hampel's filter). The noise is that of the differences of neighbours, so a
  step does not count as noise.
* Creep is a rise beyond the tolerance without a single step beyond it, significant by Kendall's tau. If a straight line fits
  the runs better than levels, it rises with the slope of Theil (1950) and Sen (1968), else from level to level.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfguard import thresholds
from perfguard.errors import missing_package
from perfguard.judge.tolerance import Tolerance, shown_tolerance
from perfguard.measure.measurement import Better, Kind, Metric, label

Numbers = NDArray[np.float64]

#: Most points for a slope, which is computed from all pairs; a longer window is reduced to medians of neighbours.
_MOST_OF_A_SLOPE = 200
#: From this share of a creep on a step is reported too; from the second on there is only a step, and no creep.
_OWN_SHARE = 1 / 3
_ALONE = 3 / 4
#: Neighbouring runs whose median is the value of a noisy number.
_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The run of a number. `at` is the time of its commit if known, else of the run."""

    run: int
    at: datetime
    commit: str | None = None
    branch: str | None = None
    release: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of a series."""

    value: float
    moment: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one subject over time, in the order of the commits.

    `machine` is empty for exact metrics. The newest runs lack a series that is not `current`. `way` is the kind of recording,
    if a history has several kinds of the same workload.
    """

    workload: str
    metric: str
    subject: str
    unit: str
    machine: str
    points: tuple[Point, ...]
    current: bool = True
    way: str = ""

    @property
    def label(self) -> str:
        """The name in messages: `operator_time[MatMul]`."""
        return label(self.metric, self.subject)

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers alone."""
        return tuple(point.value for point in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new level: `after` from the run at `index` on, `before` until then. `beyond` means worse beyond the tolerance.

    A `gradual` change is not a step: a straight line fits the runs on both sides better.
    """

    index: int
    moment: Moment
    before: float
    after: float
    beyond: bool
    gradual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Creep:
    """A slow rise (or fall, if more is better) over `runs` runs since `moment`, without a step beyond the tolerance.

    `largest_step` is a fraction of the level, between neighbours (of noisy numbers, between the medians of five on each side).
    `straight` means that a line fits better than levels; otherwise the creep ends where the newest level begins.
    """

    index: int
    moment: Moment
    runs: int
    before: float
    after: float
    largest_step: float
    straight: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The result for a series. The anchors are `previous`, the run before, and `release`, the last release before it.

    `level` is the newest level, `reference` that of the last release, or of the first run without a release. `worse` compares
    the two by the tolerance. It is `judged` if there is a tolerance, there are enough runs, and the series is current; else it
    is only shown.
    """

    series: Series
    changes: tuple[Change, ...]
    creep: Creep | None
    previous: Point | None
    release: Point | None
    level: float
    reference: float
    tolerance: Tolerance | None
    judged: bool
    worse: bool

    @property
    def latest(self) -> Point:
        """The newest number."""
        return self.series.points[-1]


def in_milliseconds(one: Trend, factor: float) -> Trend:
    """Return a trend with its numbers in ms, each `factor` times the compared one; percentages are unchanged."""
    points = tuple(replace(point, value=point.value * factor) for point in one.series.points)
    at = {point.moment.run: point for point in points}
    changes = (replace(change, before=change.before * factor, after=change.after * factor) for change in one.changes)
    creep, limits = one.creep, one.tolerance
    return replace(
        one,
        series=replace(one.series, points=points, unit="ms"),
        changes=tuple(changes),
        creep=creep and replace(creep, before=creep.before * factor, after=creep.after * factor),
        previous=at[one.previous.moment.run] if one.previous else None,
        release=at[one.release.moment.run] if one.release else None,
        level=one.level * factor,
        reference=one.reference * factor,
        tolerance=limits and replace(limits, absolute=limits.absolute * factor),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """The runs from `start` to `end` (excluded), and their common value."""

    start: int
    end: int
    value: float


def trend(series: Series, *, metric: Metric | None, tolerance: Tolerance | None) -> Trend:
    """Return the trend of a series. Raises `UsageError` without ruptures or scipy.

    `metric` is None if it is unknown to this version; `tolerance` is None if it is only shown.
    """
    values = series.values
    exact = metric is not None and metric.kind is Kind.EXACT
    better = metric.better if metric is not None else Better.EQUAL
    limits = tolerance or shown_tolerance(metric)
    levels = _exact_levels(values) if exact else _timed_levels(values)
    changes = _changes(series, levels, limits, better, exact=exact)
    creep = _creep(series, levels, changes, limits, better, exact=exact)
    if creep is not None:
        changes = tuple(one for one in changes if one.index < creep.index or _share(one, creep) >= _OWN_SHARE)
    release = next((i for i in range(len(values) - 2, -1, -1) if series.points[i].moment.release), None)
    level = creep.after if creep else levels[-1].value
    anchor = release or 0
    reference = _level_at(anchor, levels)
    if creep is not None and creep.straight and anchor >= creep.index:
        # The value on the line.
        reference = creep.before * (creep.after / creep.before) ** ((anchor - creep.index) / max(1, creep.runs - 1))
    has_limit = tolerance is not None and tolerance.relative != math.inf
    is_judged = has_limit and (metric is None or not metric.only_changes)
    judged = is_judged and series.current and (exact or len(values) >= thresholds.TREND_RUNS)
    return Trend(
        series=series,
        changes=changes,
        creep=creep,
        previous=series.points[-2] if len(values) > 1 else None,
        release=series.points[release] if release is not None else None,
        level=level,
        reference=reference,
        tolerance=tolerance,
        judged=judged,
        worse=judged and limits.is_worse(level, reference, better),
    )


# -- levels ------------------------------------------------------------------------------------------------------------


def _exact_levels(values: Sequence[float]) -> list[_Level]:
    """Return the levels of an exact number, without short ones between two equal levels."""
    found: list[_Level] = []
    for index, value in enumerate(values):
        # Values between two equal levels, each in one run, are not levels.
        back = _level_before_short_ones(found, value)
        if back is None:
            found.append(_Level(start=index, end=index + 1, value=value))
        else:
            found[back:] = [_Level(start=found[back].start, end=index + 1, value=value)]
    return found


def _level_before_short_ones(levels: Sequence[_Level], value: float) -> int | None:
    """Return the index of the last level with this value, if all levels since then have one run each."""
    for place in range(len(levels) - 1, max(-1, len(levels) - 2 - _NEIGHBOURS), -1):
        if levels[place].value == value:
            return place
        if levels[place].end - levels[place].start > 1:
            return None
    return None


def _timed_levels(values: Sequence[float]) -> list[_Level]:
    """Return the levels of a noisy number, the medians of their runs; fewer than `TREND_RUNS` runs are one level."""
    starts = [0, *(change_points(values) if len(values) >= thresholds.TREND_RUNS else ())]
    ends = [*starts[1:], len(values)]
    return [
        _Level(start=start, end=end, value=statistics.median(values[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]


def change_points(values: Sequence[float]) -> tuple[int, ...]:
    """Return the indices in `values` at which new levels of a noisy number begin. Raises `UsageError` without ruptures."""
    try:
        from ruptures import KernelCPD
    except ImportError as error:
        raise missing_package("perfguard history", "ruptures", "history", error) from error
    clean, noise = _cleaned(values)
    # With a linear kernel this is PELT for a change in the mean, computed in C.
    search: Any = KernelCPD(kernel="linear", min_size=thresholds.TREND_SHORTEST)
    penalty = _penalty(noise, len(clean))
    return tuple(int(place) for place in search.fit(clean.reshape(-1, 1)).predict(pen=penalty)[:-1])


def _scaled(values: Sequence[float]) -> Numbers:
    """Return logarithms, so that noise is a fraction; if there are zeros or negative numbers, multiples of the median size."""
    numbers = np.asarray(values, dtype=float)
    if numbers.min() > 0:
        logarithms: Numbers = np.log(numbers)
        return logarithms
    sizes = np.abs(numbers[numbers != 0])
    # Clipped, so that squares are finite.
    multiples: Numbers = np.clip(numbers / (float(np.median(sizes)) if sizes.size else 1.0), -1e100, 1e100)
    return multiples


def _noise(scaled: Numbers) -> float:
    """Return the standard deviation of the noise, from the differences of neighbours, of which few are steps.

    It is the larger estimate of two quantiles: with a coarse clock, or a machine of two speeds, more than half of the
    neighbours are equal.
    """
    half, most = np.quantile(np.abs(np.diff(scaled)), (0.5, 0.8))
    # The quantiles of the absolute values of a standard normal variable.
    from_differences = max(float(half) / 0.6745, float(most) / 1.2816) / math.sqrt(2)
    return max(from_differences, thresholds.TREND_NOISE_FLOOR)


def _cleaned(values: Sequence[float]) -> tuple[Numbers, float]:
    """Return scaled numbers with outliers replaced by the median of their neighbours (Hampel's filter), and their noise."""
    from scipy.ndimage import median_filter

    scaled = _scaled(values)
    noise = _noise(scaled)
    middle = median_filter(scaled, size=_NEIGHBOURS, mode="mirror")
    cleaned: Numbers = np.where(np.abs(scaled - middle) > thresholds.TREND_OUTLIER * noise, middle, scaled)
    return cleaned, noise


# -- changes -----------------------------------------------------------------------------------------------------------


def _changes(
    series: Series, levels: Sequence[_Level], limits: Tolerance, better: Better, *, exact: bool
) -> tuple[Change, ...]:
    return tuple(
        Change(
            index=after.start,
            moment=series.points[after.start].moment,
            before=before.value,
            after=after.value,
            beyond=limits.is_worse(after.value, before.value, better),
            gradual=not exact and _is_straight(series.values[before.start : after.end], [after.start - before.start]),
        )
        for before, after in pairwise(levels)
    )


def _is_straight(values: Sequence[float], places: Sequence[int]) -> bool:
    """Whether a straight line fits runs better than the levels that begin at `places` (least squares).

    Every level but the second costs PELT's penalty, because a line has as many parameters as two levels.
    """
    clean, noise = _cleaned(values)
    runs = np.arange(len(clean), dtype=float)
    slope, start = np.polyfit(runs, clean, 1)
    line = float(np.sum((clean - start - slope * runs) ** 2))
    levels = sum(float(np.sum((part - part.mean()) ** 2)) for part in np.split(clean, places))
    return line < levels + (len(places) - 1) * _penalty(noise, len(clean))


def _penalty(noise: float, runs: int) -> float:
    """Return the penalty of one more level."""
    return thresholds.TREND_PENALTY * noise**2 * math.log(runs)


# -- creep -------------------------------------------------------------------------------------------------------------


def _creep(
    series: Series,
    levels: Sequence[_Level],
    changes: Sequence[Change],
    limits: Tolerance,
    better: Better,
    *,
    exact: bool,
) -> Creep | None:
    """Return the creep that ends with the newest run, if any.

    The search begins after the last step beyond the tolerance, in either direction: at the best level, and near its end, for a
    number that was constant there first.
    """
    is_tight = limits.relative == limits.absolute == 0
    if is_tight or better is Better.EQUAL or len(series.points) < thresholds.TREND_RUNS or not series.current:
        return None
    steps = [c for c in changes if not c.gradual and (c.beyond or limits.is_better(c.after, c.before, better))]
    recent = [level for level in levels if not steps or level.start >= steps[-1].index]
    best = (min if better is Better.LOWER else max)(recent, key=lambda level: level.value)
    following = next((level for level in levels if level.start == best.end), best)
    starts = {best.start, max(best.start, best.end - (following.end - following.start))}
    found = [_creep_from(series, start, levels, limits, better, exact=exact) for start in starts]
    slow = [one for one in found if one is not None and all(_share(c, one) < _ALONE for c in changes)]
    return max(slow, key=lambda one: abs(one.after - one.before), default=None)


def _share(change: Change, creep: Creep) -> float:
    """Return the share of one step in a creep; 0 for a step before it, and for a gradual change."""
    if change.gradual or change.index < creep.index or min(change.before, change.after) <= 0:
        return 0.0
    return math.log(change.after / change.before) / math.log(creep.after / creep.before)


def _creep_from(
    series: Series, start: int, levels: Sequence[_Level], limits: Tolerance, better: Better, *, exact: bool
) -> Creep | None:
    try:
        from scipy.stats import kendalltau, theilslopes
    except ImportError as error:
        raise missing_package("perfguard history", "scipy", "history", error) from error
    values = series.values[start:]
    if len(values) < thresholds.TREND_RUNS or min(values) <= 0:
        return None
    scaled = _scaled(values)
    places, thinned = _thinned(scaled)
    doubt = float(kendalltau(places, thinned).pvalue)
    if math.isnan(doubt) or doubt > thresholds.TREND_DOUBT:
        return None
    before, after, runs = _level_at(start, levels), levels[-1].value, len(values)
    begins = [level.start - start for level in levels if level.start > start]
    straight = not exact and _is_straight(values, begins)
    if straight:
        slope, middle = (float(one) for one in theilslopes(thinned, places)[:2])
        before, after = math.exp(middle), math.exp(middle + slope * (len(values) - 1))
    elif not exact:
        runs = levels[-1].start - start + 1
    # A level may begin before `start`, with numbers that are not positive.
    if min(before, after) <= 0 or not limits.is_worse(after, before, better):
        return None
    width = 1 if exact else _NEIGHBOURS
    sides = np.lib.stride_tricks.sliding_window_view(scaled, width)
    medians = np.median(sides, axis=1)
    largest = float(np.expm1(np.max(np.abs(medians[width:] - medians[:-width]))))
    return Creep(
        index=start,
        moment=series.points[start].moment,
        runs=runs,
        before=before,
        after=after,
        largest_step=largest,
        straight=straight,
    )


def _thinned(scaled: Numbers) -> tuple[Numbers, Numbers]:
    """Return indices and numbers; of very many, the medians of neighbours (without a few of the oldest)."""
    places = np.arange(len(scaled), dtype=float)
    width = -(-len(scaled) // _MOST_OF_A_SLOPE)
    rest = len(scaled) % width
    thinned_places, thinned = (np.median(one[rest:].reshape(-1, width), axis=1) for one in (places, scaled))
    return thinned_places, thinned


def _level_at(index: int, levels: Sequence[_Level]) -> float:
    return next(level.value for level in levels if level.start <= index < level.end)
