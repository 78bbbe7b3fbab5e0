"""The rules that are compared: each takes the processes of two sides and says whether the second is slower.

Statistics of steps are in ns. Sources: pytest-benchmark's `--benchmark-compare-fail=mean:5%` and `min:10%` (its
`utils.py`, `PercentageRegressionCheck`: fails where 100 * current / base - 100 exceeds the limit); asv's rule (`asv
compare`, factor 1.1, and a Mann-Whitney test at 0.002); the gate of MindSpeed-MM's CI (the mean after five steps, 5 %).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Process = Mapping[str, Any]
Rule = Callable[[Sequence[Process], Sequence[Process]], bool]


def mean_5(base: Sequence[Process], current: Sequence[Process]) -> bool:
    """pytest-benchmark mean:5%, and MindSpeed-MM's mean after five steps."""
    return statistics.fmean(current[0]["wall_ns"]) > 1.05 * statistics.fmean(base[0]["wall_ns"])


def min_10(base: Sequence[Process], current: Sequence[Process]) -> bool:
    """pytest-benchmark min:10%."""
    return min(current[0]["wall_ns"]) > 1.10 * min(base[0]["wall_ns"])


def asv(base: Sequence[Process], current: Sequence[Process]) -> bool:
    """asv compare: the median 1.1 times, and the two samples told apart at 0.002."""
    from scipy.stats import mannwhitneyu

    before, after = base[0]["wall_ns"], current[0]["wall_ns"]
    if statistics.median(after) <= 1.1 * statistics.median(before):
        return False
    return bool(mannwhitneyu(after, before, alternative="two-sided").pvalue < 0.002)


def cost(process: Process, power: float = 1.0) -> float:
    """Return the cost of a step in a controlled process, as `step_cost` has it, or in another power of the kernel."""
    return min(process["process_cpu_ns"]) / min(process["calibration_ns"]) ** power


def spread(processes: Sequence[Process], power: float = 1.0) -> float:
    """Return the standard deviation of the logarithm of the cost between processes."""
    return statistics.stdev(math.log(cost(process, power)) for process in processes)


def stored(tolerance: float, power: float = 1.0, place: int = 0) -> Rule:
    """perfguard's stored baseline: five of five processes beyond the best of five; or beyond the next best, and so on."""

    def is_slower(base: Sequence[Process], current: Sequence[Process]) -> bool:
        best = [sorted(cost(process, power) for process in side)[place] for side in (base, current)]
        return best[1] > (1 + tolerance) * best[0]

    return is_slower


def beside(processes: Sequence[Process], sensitive: bool = False) -> bool:
    """perfguard ab: step by step in five processes."""
    from perfguard.judge.pairs import Pace, paired
    from perfguard.timing import PairedTiming

    timings = [
        PairedTiming(base_ns=tuple(one["base_ns"]), current_ns=tuple(one["current_ns"]), interleaved=True)
        for one in processes
    ]
    return paired(timings, sensitive=sensitive).pace is Pace.SLOWER


#: One process against one process.
SINGLE: dict[str, Rule] = {"mean:5% (also MindSpeed-MM's CI)": mean_5, "min:10%": min_10, "asv": asv}
#: Five controlled processes against five.
OF_FIVE: dict[str, Rule] = {
    "stored baseline, +10 %": stored(0.10),
    "stored baseline, +5 %": stored(0.05),
    "stored, +10 %, without the kernel": stored(0.10, power=0.0),
    "stored, +10 %, second best for best": stored(0.10, place=1),
    "stored, +10 %, kernel to the power of 1.6": stored(0.10, power=1.6),
    "stored, +10 %, kernel to the power of 2": stored(0.10, power=2.0),
}
