"""Calibration: false alarms and sensitivity of the rule for time, on this machine, from unchanged runs.

Runs are resampled in consecutive blocks, because noise comes in bursts: five runs in a row are a baseline, five others in a row
are judged against it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from perfguard import thresholds
from perfguard.errors import missing_package
from perfguard.judge.tolerance import Policy
from perfguard.measure import METRICS, Kind, Measurement

#: Simulated slowdowns, and tolerances for proposals, as fractions.
_SLOWDOWNS = tuple(percent / 100 for percent in range(1, 201))
_TOLERANCES = (0.03, 0.05, 0.08, 0.10, 0.12, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.75, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """One metric over unchanged runs. None means that the runs do not show it, or that the metric is not judged.

    `spread` is the standard deviation of the logarithm between runs, `values` the number of different values of an exact metric
    (the maximum over its subjects). `alarms` of `comparisons` resampled decisions were false; `independent` of them share no
    run, and `at_most` is the one-sided 95 % bound of their rate (Clopper and Pearson 1934).
    """

    metric: str
    runs: int
    spread: float | None = None
    values: int | None = None
    tolerance: float | None = None
    alarms: int | None = None
    comparisons: int | None = None
    independent: int | None = None
    at_most: float | None = None
    smallest_slowdown: float | None = None
    proposed_tolerance: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as the file keeps it, without unknown values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def calibrated(runs: Sequence[Iterable[Measurement]], *, policy: Policy) -> tuple[Calibrated, ...]:
    """Return the calibration of every metric of one workload. `runs` are the measurements of each run, in order.

    Raises `UsageError` without scipy.
    """
    by_metric: dict[str, dict[str, list[Measurement]]] = {}
    for run in runs:
        for one in run:
            by_metric.setdefault(one.metric, {}).setdefault(one.subject, []).append(one)
    found = []
    for name, subjects in sorted(by_metric.items()):
        metric = METRICS.get(name)
        if metric is None or (metric.kind is Kind.TIMED and "" not in subjects):
            # Times of operators are not judged.
            continue
        if metric.kind is Kind.EXACT:
            found.append(_exact(name, len(runs), subjects.values()))
        else:
            values = [float(one.value) for one in subjects[""] if isinstance(one.value, (int, float)) and one.value > 0]
            if values:
                found.append(_timed(name, values, policy))
    return tuple(found)


def _exact(name: str, runs: int, subjects: Iterable[list[Measurement]]) -> Calibrated:
    """Count different values; a missing one counts as a value."""
    most = 1
    for measured in subjects:
        different = {repr(one.value) for one in measured}
        most = max(most, len(different) + (len(measured) < runs))
    return Calibrated(metric=name, runs=runs, values=most, tolerance=0.0, alarms=None if most == 1 else most - 1)


def _timed(name: str, values: list[float], policy: Policy) -> Calibrated:
    spread = statistics.stdev(map(math.log, values)) if len(values) > 1 else None
    known = Calibrated(metric=name, runs=len(values), spread=spread)
    limits = policy.tolerance(METRICS[name], "")
    if name != "step_cost" or limits is None:
        return known
    ratios, tolerance = block_ratios(values), limits.relative
    if not ratios:
        return replace(known, tolerance=tolerance)
    alarms = sum(ratio > 1 + tolerance for ratio in ratios)
    independent = len(values) // (thresholds.BASELINE_RUNS + thresholds.MOST_RUNS)
    has_seen_enough = independent >= thresholds.TIGHTER_AFTER
    least = 0.0 if has_seen_enough else min(tolerance, thresholds.STORED_TOLERANCE)
    return replace(
        known,
        tolerance=tolerance,
        alarms=alarms,
        comparisons=len(ratios),
        independent=independent,
        at_most=rate_at_most(alarms / len(ratios), independent),
        smallest_slowdown=smallest_slowdown(ratios, tolerance),
        proposed_tolerance=proposed_tolerance(ratios, least=least),
    )


def block_ratios(values: Sequence[float]) -> list[float]:
    """Return the ratios that the rule would judge: the best of five runs in a row over that of five others, all such pairs."""
    size, judged = thresholds.BASELINE_RUNS, thresholds.MOST_RUNS
    bases = {first: min(values[first : first + size]) for first in range(len(values) - size + 1)}
    blocks = {first: min(values[first : first + judged]) for first in range(len(values) - judged + 1)}
    return [
        best / base
        for at_base, base in bases.items()
        for at_block, best in blocks.items()
        if at_block >= at_base + size or at_base >= at_block + judged
    ]


def rate_at_most(rate: float, independent: int) -> float | None:
    """Return the one-sided 95 % upper bound of a rate from `independent` comparisons; None without comparisons.

    Clopper and Pearson, Biometrika 26 (1934): it is never below the true bound.
    """
    if not independent:
        return None
    try:
        from scipy.stats import binomtest
    except ImportError as error:
        raise missing_package("perfguard calibrate", "scipy", "calibrate", error) from error
    seen = math.ceil(rate * independent)
    return round(float(binomtest(seen, independent).proportion_ci(confidence_level=0.90, method="exact").high), 4)


def smallest_slowdown(ratios: Sequence[float], tolerance: float) -> float | None:
    """Return the smallest simulated slowdown that 95 in 100 of the comparisons detect; None if none is."""
    return next(
        (
            slowdown
            for slowdown in _SLOWDOWNS
            if sum(ratio * (1 + slowdown) > 1 + tolerance for ratio in ratios) >= 0.95 * len(ratios)
        ),
        None,
    )


def proposed_tolerance(ratios: Sequence[float], *, least: float = 0.0) -> float | None:
    """Return the smallest round tolerance that is a quarter wider than all ratios, and at least `least`; None if none is."""
    widest = max(math.log1p(least), 1.25 * math.log(max(1.0, *ratios)))
    return next((one for one in _TOLERANCES if math.log1p(one) >= widest), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate:
    """The error rate of a gate, over all its workloads."""

    alarms: int
    comparisons: int
    independent: int
    at_most: float
    smallest_slowdown: float | None

    @property
    def sentence(self) -> str:
        """`this gate: at most 5 false alarms in 100 by time (0 of 420 seen, 58 share no process), sees +17 %`."""
        sees = "nothing that was tried" if self.smallest_slowdown is None else f"+{100 * self.smallest_slowdown:.0f} %"
        return (
            f"this gate: at most {math.ceil(100 * self.at_most)} false alarms in 100 by time "
            f"({self.alarms} of {self.comparisons} seen, {self.independent} share no process), sees {sees}"
        )


def error_rate(calibration: Mapping[str, Iterable[Calibrated]]) -> ErrorRate | None:
    """Return the rate over all workloads; None without comparisons. Its smallest slowdown is that of the least sensitive one.

    The tests of one file may share their processes, so independent comparisons are counted once a file.
    """
    by_file: dict[str, list[Calibrated]] = {}
    for workload, metrics in calibration.items():
        compared = [one for one in metrics if one.comparisons and one.independent]
        by_file.setdefault(workload.partition("::")[0], []).extend(compared)
    judged = [one for of_file in by_file.values() for one in of_file]
    if not judged:
        return None
    alarms = sum(one.alarms or 0 for one in judged)
    comparisons = sum(one.comparisons or 0 for one in judged)
    independent = sum(max(one.independent or 0 for one in of_file) for of_file in by_file.values() if of_file)
    at_most = rate_at_most(alarms / comparisons, independent)
    assert at_most is not None
    seen = [one.smallest_slowdown for one in judged]
    return ErrorRate(
        alarms=alarms,
        comparisons=comparisons,
        independent=independent,
        at_most=at_most,
        smallest_slowdown=None if None in seen else max(one for one in seen if one is not None),
    )
