"""Step times: one time in milliseconds and one change, the same two numbers in every report."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The wall time of a step in fresh processes: the shown step time if there were any.
FRESH_TIME = "run_wall_time"
#: Other measurements of the same time; their changes are details of the step's change.
OTHER_TIMES = frozenset({"step_time", "step_cpu_time"})
#: Larger times in us, and larger ratios of two times, come from a damaged report.
_LARGEST = 1e15
_MOST_APART = 1e9
#: A thousandth of a nanosecond is the last digit of a time in ms.
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The time of a step and its change.

    `now_ms` is measured. `change` is the judged fraction (`judged`), else the ratio of two measured times minus 1. The judged
    change is counted in runs of a fixed kernel, because the speed of a shared machine changes. So `baseline_ms` is computed:
    the baseline's step at the current speed of the machine. The ratio of the two times is the change.
    """

    now_ms: float
    #: None without a reference.
    change: float | None
    judged: bool
    #: The metric of `change`.
    metric: str
    #: The origin of the time: "5 fresh processes".
    source: str

    @property
    def baseline_ms(self) -> float | None:
        """The baseline's step time at the current speed of the machine."""
        return None if self.change is None else self.now_ms / (1 + self.change)

    @property
    def plain(self) -> dict[str, float | None]:
        """Both times and the change as numbers for files, rounded as they are shown."""
        before = self.baseline_ms
        return {
            "step_baseline_ms": None if before is None else float(milliseconds(before)),
            "step_ms": float(milliseconds(self.now_ms)),
            "step_change_percent": None if self.change is None else round(100 * self.change, 1) + 0.0,
        }

    @property
    def times(self) -> str:
        """`25.2 → 40.2 ms`, or `40.2 ms`."""
        before = "" if self.baseline_ms is None else f"{milliseconds(self.baseline_ms)} → "
        return f"{before}{milliseconds(self.now_ms)} ms"

    @property
    def percentage(self) -> str:
        """`+59.2 %`; empty without a reference."""
        return "" if self.change is None else percent(self.change)

    @property
    def text(self) -> str:
        """`25.2 → 40.2 ms, +59.2 %`."""
        return ", ".join(filter(None, (self.times, self.percentage)))


def step_text(now_us: float, change: float | None) -> str:
    """Return `step 25.2 → 40.2 ms, +59.2 %`, for a finding's message."""
    step = StepTime(now_ms=now_us / 1e3, change=change, judged=True, metric="", source="")
    return f"step {step.text}"


def milliseconds(value: float) -> str:
    """Return a time with three digits: `0.0412`, `25.2`, `1870`."""
    if not 0 < value < 999.5:
        return f"{value:.0f}"
    # 9.996 is rounded to a number with one more digit before the point.
    digits = 2 - math.floor(math.log10(float(f"{value:.2e}")))
    return f"{value:.{min(max(0, digits), _MOST_DIGITS)}f}"


def percent(change: float) -> str:
    """Return a fraction as a percentage: `+59.2 %`, `−2.4 %`."""
    text = f"{abs(100 * change):.1f}"
    return f"{'−' if change < 0 and float(text) else '+'}{text} %"


def relative_change(before: object, now: object) -> float | None:
    """Return the change from `before` to `now` as a fraction; None unless both are times."""
    reference, current = number_of(before), number_of(now)
    if not reference or not current or not 1 / _MOST_APART < current / reference < _MOST_APART:
        return None
    return current / reference - 1


def number_of(value: object) -> float | None:
    """Return a time or a ratio as a number; None for anything else."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < _LARGEST else None
