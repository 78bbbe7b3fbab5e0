"""The machine: whether its speed or its load explains a step that is slower than the baseline's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from perfguard import thresholds
from perfguard.findings import Code
from perfguard.judge.compare import Key
from perfguard.judge.comparison import Comparison, State, comparison_of
from perfguard.measure.measurement import Measurement, Value, number
from perfguard.measure.metrics import TIME_METRICS

#: The machine may have caused a slower step: the verdict is INCONCLUSIVE.
EXCUSES = frozenset({Code.B107, Code.B112})
#: Clocks of devices: under the profiler, and of timed processes.
_CLOCKS = frozenset({"device_clock", "run_device_clock"})
#: Times that are longer on a busy machine, independent of the code.
_UNDER_LOAD = frozenset({"step_cost", "run_blocked_time"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """What the machine did, by its code, and the times that it explains."""

    code: Code
    message: str
    #: The places of findings that become notes.
    places: frozenset[str]


def excuse(
    comparisons: Iterable[Comparison],
    current: Iterable[Measurement],
    base: Iterable[Measurement],
    *,
    failing: Collection[str],
    is_of_device: bool,
) -> Excuse | None:
    """Return what explains a slower step by the machine; None if nothing does. `failing` are the places of errors."""
    comparisons = tuple(comparisons)
    moved = _moved(comparisons, current, base, is_of_device=is_of_device)
    if busy := _busy(comparisons, failing):
        return Excuse(code=Code.B112, message=busy, places=_UNDER_LOAD)
    if (slowed := _slower_clock(comparisons, failing)) is not None:
        return slowed
    return Excuse(code=Code.B107, message=moved, places=frozenset({"step_cost"})) if moved else None


def common_mode(current: Iterable[Measurement], base: Iterable[Measurement]) -> tuple[float, float, str] | None:
    """Return two factors of the machine's speed (the calibration kernel's, all times'), and the message that names them.

    None if it did not change, or if that is unknown.

    The kernel decides whether the machine changed: slower operators with an unchanged kernel are a slower model or framework.
    The operators decide whether everything changed.
    """
    now, before = ({one.key: one.value for one in side} for side in (current, base))
    kernel = _ratio(now, before, ("run_calibration", ""))
    if kernel is None or abs(math.log(kernel)) < math.log1p(thresholds.CALIBRATION_MOVED):
        return None
    ratios = _control_ratios(now, before)
    is_trusted = max(kernel, 1 / kernel) <= thresholds.CALIBRATION_TRUSTED
    if is_trusted and len(ratios) < thresholds.CONTROLS:
        return None
    factor, spread = statistics.median(ratios) if ratios else kernel, thresholds.CONTROLS_SPREAD
    agreeing = sum(1 / spread <= ratio / factor <= spread for ratio in ratios)
    sentence = f"the calibration kernel is {kernel:.2f} times what it was"
    if ratios:
        sentence += f", {agreeing} of {len(ratios)} unchanged operators about {factor:.2f} times"
    has_one_direction = math.log(factor) * math.log(kernel) > 0
    explained = abs(math.log(factor)) <= thresholds.CALIBRATION_SLOPE * abs(math.log(kernel))
    is_common = has_one_direction and explained and agreeing >= thresholds.CONTROLS_AGREEING * len(ratios)
    return (kernel, factor, sentence) if is_common or not is_trusted else None


def _ratio(now: Mapping[Key, Value], before: Mapping[Key, Value], key: Key) -> float | None:
    after, reference = number(now.get(key)) or 0.0, number(before.get(key)) or 0.0
    return after / reference if after > 0 and reference > 0 else None


def _control_ratios(now: Mapping[Key, Value], before: Mapping[Key, Value]) -> list[float]:
    """Return the time ratio of every operator with unchanged calls and shapes."""
    controls = [
        operator
        for metric, operator in now
        if metric == "operator_time"
        and all(
            now.get((name, operator)) == before.get((name, operator)) for name in ("operator_calls", "operator_shapes")
        )
    ]
    ratios = (_ratio(now, before, ("operator_time", operator)) for operator in controls)
    return [ratio for ratio in ratios if ratio is not None]


def _moved(
    comparisons: Iterable[Comparison],
    current: Iterable[Measurement],
    base: Iterable[Measurement],
    *,
    is_of_device: bool,
) -> str:
    """Return the speed change of the machine if it explains the slower step, or is too large to judge it; else empty."""
    cost = comparison_of(comparisons, "step_cost", judged=True)
    if cost is None or is_of_device:
        # The calibration kernel does not measure a device.
        return ""
    found = common_mode(current, base)
    if found is None:
        return ""
    kernel, factor, sentence = found
    if max(kernel, 1 / kernel) > thresholds.CALIBRATION_TRUSTED:
        return sentence
    if cost.state is not State.WORSE or cost.numbers is None:
        return ""
    before, now = cost.numbers
    # The cost is counted in kernels. A step that slowed down more than its unchanged operators is a slower model.
    step = now / before * kernel if before else math.inf
    return sentence if step <= factor * thresholds.CONTROLS_SPREAD else ""


def _slower_clock(comparisons: Iterable[Comparison], failing: Collection[str]) -> Excuse | None:
    """Return the device whose clock lost most, and the failing times that it explains; None if it explains none.

    A clock of 82 % makes a time up to 1/0.82 times as long: what became longer than that is slower for another reason.
    """
    clocks = [one for one in comparisons if one.metric in _CLOCKS and one.numbers is not None]
    lost = [(one, one.numbers[1] / one.numbers[0]) for one in clocks if one.numbers is not None and one.numbers[0] > 0]
    slowest, share = min(lost, key=lambda pair: pair[1], default=(None, 1.0))
    if slowest is None or slowest.numbers is None or not 0 < share <= 1 - thresholds.CLOCK_MOVED:
        return None
    longest = thresholds.CLOCK_EXPLAINS / share
    places = frozenset(
        one.label
        for one in comparisons
        if one.label in failing and one.metric in TIME_METRICS and _grew(one) <= longest and one.metric not in _CLOCKS
    )
    if not places:
        return None
    before, now = slowest.numbers
    named = slowest.subject or "the device"
    message = f"the clock of {named} was at {100 * share:.0f} % of the baseline's ({now:.0f} of {before:.0f} MHz)"
    return Excuse(code=Code.B107, message=message, places=places)


def _grew(one: Comparison) -> float:
    before, now = one.numbers or (0.0, 0.0)
    return now / before if before > 0 else math.inf


def _busy(comparisons: Iterable[Comparison], failing: Collection[str]) -> str:
    """Return how much busier the machine is than for the baseline, if a failing time depends on that; else empty.

    A warning (with a baseline of too few runs, or ignored by the user) needs no excuse.
    """
    load = more_load(comparisons) if not _UNDER_LOAD.isdisjoint(failing) else None
    if load is None:
        return ""
    before, now = load
    return (
        f"other processes used {now:.0f} % of the machine's CPU time while this step was timed, and {before:.0f} % when the "
        "baseline was made"
    )


def more_load(comparisons: Iterable[Comparison]) -> tuple[float, float] | None:
    """Return the load by other processes for the baseline and now, in percent, if it grew much.

    It is the minimum over the processes of either side: a step that was slow in a quiet moment too has no excuse.
    """
    found = comparison_of(comparisons, "run_machine_load")
    load = found.numbers if found is not None else None
    is_more = load is not None and load[1] - load[0] > 100 * thresholds.BUSY_SHARE
    return load if is_more else None
