"""Step times: one time and one change, the same two numbers in every report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: The wall time of a step in fresh processes: the shown step time if there were any.
FRESH_TIME = "run_wall_time"
#: Other measurements of the same time; their changes are details of the step's change.
OTHER_TIMES = frozenset({"step_time", "step_cpu_time"})
#: Larger times in us, and larger ratios of two times, come from a damaged report.
_LARGEST = 1e15
_MOST_APART = 1e9
#: A thousandth of a nanosecond is the last digit of a time in ms.
_MOST_DECIMALS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeUnit:
    """The unit of all times of a sentence or a figure: that of the largest one."""

    us: float
    name: str

    @classmethod
    def of(cls, times_us: Iterable[float]) -> TimeUnit:
        """Return the unit for times in us."""
        largest = max(map(abs, times_us), default=0.0)
        return next((unit for unit in _UNITS if largest >= unit.us), _UNITS[-1])

    def number(self, time_us: float) -> str:
        """Return a time in this unit, with three digits, but nothing behind the fourth decimal."""
        return three_digits(time_us / self.us, most_decimals=4)

    def text(self, time_us: float) -> str:
        """Return `612 us`, `2.91 ms`."""
        return f"{self.number(time_us)} {self.name}"

    def signed(self, change_us: float) -> str:
        """Return a difference with its sign: `+612 us`."""
        return f"{'−' if change_us < 0 else '+'}{self.text(abs(change_us))}"


_UNITS = tuple(TimeUnit(us=us, name=name) for us, name in ((1e6, "s"), (1e3, "ms"), (1.0, "us")))


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
            "step_baseline_ms": None if before is None else float(three_digits(before)),
            "step_ms": float(three_digits(self.now_ms)),
            "step_change_percent": None if self.change is None else round(100 * self.change, 1) + 0.0,
        }

    @property
    def times_ms(self) -> str:
        """`25.2 → 40.2`, or `40.2`: for a column of times in ms."""
        return " → ".join(three_digits(one / 1e3) for one in self._times_us)

    @property
    def times(self) -> str:
        """`25.2 → 40.2 ms`, `147 → 294 us`, or `40.2 ms`."""
        return f"{' → '.join(map(self.unit.number, self._times_us))} {self.unit.name}"

    @property
    def unit(self) -> TimeUnit:
        """The unit of both times."""
        return TimeUnit.of(self._times_us)

    @property
    def _times_us(self) -> list[float]:
        return [1e3 * one for one in (self.baseline_ms, self.now_ms) if one is not None]

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


def three_digits(value: float, *, most_decimals: int = _MOST_DECIMALS) -> str:
    """Return a time or a size with three digits: `0.0412`, `25.2`, `1870`; `1e+150` in a damaged report."""
    if abs(value) >= _LARGEST:
        return f"{value:.3g}"
    if not 0 < abs(value) < 999.5:
        return f"{value:.0f}"
    # 9.996 is rounded to a number with one more digit before the point.
    decimals = 2 - math.floor(math.log10(float(f"{abs(value):.2e}")))
    return f"{value:.{min(max(0, decimals), most_decimals)}f}"


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
