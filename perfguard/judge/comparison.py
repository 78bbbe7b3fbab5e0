"""A comparison: one measurement and its reference, and which of the two is worse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from perfguard.findings import Finding
from perfguard.judge.tolerance import default_tolerance
from perfguard.measure.measurement import Kind, Value, label, number
from perfguard.measure.metrics import METRICS


class State(Enum):
    """The result of one comparison."""

    SAME = "same"
    WORSE = "worse"
    BETTER = "better"
    #: Different, but not worse or better.
    CHANGED = "changed"
    NOT_COMPARABLE = "not-comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measurement and its reference. `judged` is False if it is only shown (ranked operators, another machine)."""

    metric: str
    subject: str
    state: State
    judged: bool
    reference: Value | None
    current: Value | None
    #: The largest value (or smallest, if more is better) that does not fail; None if none fails, or if it is not a number.
    allowed: float | None = None
    #: The samples of the reference, except of operators.
    reference_samples: tuple[float, ...] = ()
    finding: Finding | None = None

    @property
    def label(self) -> str:
        """The name in messages: `operator_time[MatMul]`."""
        return label(self.metric, self.subject)

    @property
    def is_new(self) -> bool:
        """Whether the baseline lacks it."""
        return self.reference is None

    @property
    def is_gone(self) -> bool:
        """Whether only the baseline has it."""
        return self.current is None

    @property
    def is_allowed_by_a_rule(self) -> bool:
        """Whether an exact number is worse than the metric's own limit, and a tolerance of the user lets it pass."""
        metric = METRICS.get(self.metric)
        if (
            metric is None
            or metric.kind is not Kind.EXACT
            or not metric.gated
            or (metric.only_changes and metric.for_device is None)
            or self.numbers is None
        ):
            return False
        before, now = self.numbers
        is_told = self.judged and self.state in (State.WORSE, State.CHANGED)
        return not is_told and default_tolerance(metric).is_worse(now, before, metric.for_device or metric.better)

    @property
    def numbers(self) -> tuple[float, float] | None:
        """Reference and current value, if both are numbers."""
        before, now = number(self.reference), number(self.current)
        return None if before is None or now is None else (before, now)

    @property
    def is_more(self) -> bool:
        """Whether its number is larger than in the baseline, where an absent one counts as 0."""
        before, now = number(self.reference or 0), number(self.current or 0)
        return before is not None and now is not None and now > before


def comparison_of(comparisons: Iterable[Comparison], metric: str, *, judged: bool = False) -> Comparison | None:
    """Return the first comparison of a metric; with `judged`, the first judged one."""
    return next((one for one in comparisons if one.metric == metric and (one.judged or not judged)), None)
