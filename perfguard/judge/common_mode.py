"""Common mode: a change of the machine's speed, if the calibration kernel and unchanged operators changed by one factor."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from perfguard import thresholds
from perfguard.measure.measurement import Measurement, number


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonMode:
    """A common factor of all times. `controls` operators have unchanged calls and shapes, `agreeing` of them that factor."""

    calibration: float
    factor: float
    controls: int
    agreeing: int

    @property
    def sentence(self) -> str:
        """The message of a finding."""
        text = f"the calibration kernel is {self.calibration:.2f} times what it was"
        if self.controls:
            text += f", {self.agreeing} of {self.controls} unchanged operators about {self.factor:.2f} times"
        return text


def common_mode(current: Iterable[Measurement], base: Iterable[Measurement]) -> CommonMode | None:
    """Return the factor of the machine's speed; None if it did not change, or if that is unknown.

    The kernel decides whether the machine changed: slower operators with an unchanged kernel are a slower model or framework.
    The operators decide whether everything changed.
    """
    now, before = _by_key(current), _by_key(base)
    kernel = _ratio(now.get(("run_calibration", "")), before.get(("run_calibration", "")))
    if kernel is None or abs(math.log(kernel)) < math.log1p(thresholds.CALIBRATION_MOVED):
        return None
    ratios = _control_ratios(now, before)
    if max(kernel, 1 / kernel) > thresholds.CALIBRATION_TRUSTED:
        factor = statistics.median(ratios) if ratios else kernel
        return CommonMode(calibration=kernel, factor=factor, controls=len(ratios), agreeing=_agreeing(ratios, factor))
    if len(ratios) < thresholds.CONTROLS:
        return None
    factor = statistics.median(ratios)
    agreeing = _agreeing(ratios, factor)
    has_one_direction = math.log(factor) * math.log(kernel) > 0
    explained = abs(math.log(factor)) <= thresholds.CALIBRATION_SLOPE * abs(math.log(kernel))
    if has_one_direction and explained and agreeing >= thresholds.CONTROLS_AGREEING * len(ratios):
        return CommonMode(calibration=kernel, factor=factor, controls=len(ratios), agreeing=agreeing)
    return None


def _by_key(measurements: Iterable[Measurement]) -> dict[tuple[str, str], Measurement]:
    return {one.key: one for one in measurements}


def _ratio(now: Measurement | None, before: Measurement | None) -> float | None:
    if now is None or before is None:
        return None
    after, reference = number(now.value) or 0.0, number(before.value) or 0.0
    return after / reference if after > 0 and reference > 0 else None


def _control_ratios(now: dict[tuple[str, str], Measurement], before: dict[tuple[str, str], Measurement]) -> list[float]:
    """Return the time ratio of every operator with unchanged calls and shapes."""
    found = []
    for (metric, operator), measurement in now.items():
        if metric != "operator_time":
            continue
        same = all(
            _value(now, name, operator) == _value(before, name, operator)
            for name in ("operator_calls", "operator_shapes")
        )
        ratio = _ratio(measurement, before.get((metric, operator)))
        if same and ratio is not None:
            found.append(ratio)
    return found


def _value(side: dict[tuple[str, str], Measurement], metric: str, operator: str) -> object:
    found = side.get((metric, operator))
    return None if found is None else found.value


def _agreeing(ratios: list[float], factor: float) -> int:
    return sum(1 / thresholds.CONTROLS_SPREAD <= ratio / factor <= thresholds.CONTROLS_SPREAD for ratio in ratios)
