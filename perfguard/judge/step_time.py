"""The step time of a workload: one time in milliseconds and one change, the same two numbers in every report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.judge.compare import Comparison
    from perfguard.judge.verdict import Verdict
    from perfguard.measure.measurement import Measurement

#: The time by the clock of a step in fresh processes: what a step is said to take wherever there were any.
FRESH_TIME = "run_wall_time"
#: Without fresh processes: the test's own timed steps, else the profiled ones.
_OWN_TIMES = {"step_time": "timed steps of the test's own process", "profiled_step_time": "profiled steps"}
#: Subjects of a job's own step: of one rank, and of all of them.
_OF_THE_JOB = ("", "ranks:")
#: No time in us is as large, and no two times of a step are as many times apart: that comes from a damaged report.
_LARGEST = 1e15
_MOST_APART = 1e9
#: A thousandth of a nanosecond is the last digit of a time in ms.
_MOST_DIGITS = 9
#: Other measurements of the same time. Beside the step's own change theirs is a detail, and no finding to show first.
OTHER_TIMES = frozenset({"step_time", "step_cpu_time"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long a step takes now, and by how much that changed.

    `now_ms` is measured. `change` is the fraction that is judged (`judged`), or the quotient of two measured times where
    none is. Both cannot come from the clock alone: what is judged is counted in runs of a fixed kernel, because a shared
    machine is not as quick today as it was when the baseline was made. So `baseline_ms` is computed: the baseline's step at
    the speed that the machine has now. A reader who divides the two times gets the percentage.
    """

    now_ms: float
    #: None where there is nothing to compare with.
    change: float | None
    judged: bool
    #: The metric that `change` is of.
    metric: str
    #: Where the time comes from: "5 fresh processes".
    source: str

    @property
    def baseline_ms(self) -> float | None:
        """What the baseline's step takes at today's speed of the machine."""
        return None if self.change is None else self.now_ms / (1 + self.change)

    @property
    def plain(self) -> dict[str, float | None]:
        """Both times and the change as numbers, rounded as they are shown: what files hold."""
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
        """`+59.2 %`; empty where there is nothing to compare with."""
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
    """Write a time with three digits: `0.0412`, `25.2`, `1870`."""
    if not 0 < value < 999.5:
        return f"{value:.0f}"
    # What 9.996 is rounded to has one digit more before the point.
    digits = 2 - math.floor(math.log10(float(f"{value:.2e}")))
    return f"{value:.{min(max(0, digits), _MOST_DIGITS)}f}"


def percent(change: float) -> str:
    """Write a fraction as a percentage: `+59.2 %`, `−2.4 %`."""
    text = f"{abs(100 * change):.1f}"
    return f"{'−' if change < 0 and float(text) else '+'}{text} %"


def step_time_of(verdict: Verdict) -> StepTime | None:
    """Return the step time of a verdict; None where no step was timed, or the recording is not whole."""
    from perfguard.judge.verdict import Outcome

    if verdict.outcome is Outcome.INVALID:
        return None
    found = {one.metric: one for one in verdict.comparisons if one.subject in _OF_THE_JOB}
    return (
        _standing_still(verdict, found)
        or _side_by_side(verdict, found)
        or _fresh(verdict, found)
        or _own(verdict, found)
    )


def is_seen(verdict: Verdict, step: StepTime) -> bool:
    """Whether a rule sees the change of the step: it is worse or better, or was warned of."""
    from perfguard.judge.compare import State

    if any(one.metric == step.metric and one.state in (State.WORSE, State.BETTER) for one in verdict.comparisons):
        return True
    return any(
        finding.place == step.metric and finding.code in (Code.R101, Code.R105, Code.R106)
        for finding in verdict.findings
        if finding.severity is not Severity.NOTE
    )


def without_details(verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings without those that measure the shown step time in another way, with a percentage of their own."""
    step = step_time_of(verdict)
    if step is None:
        return verdict.findings
    # Where the step itself got worse, its slow steps did as well; alone they are news, as long as they did not get quicker.
    is_worse = step.judged and (step.change or 0) > 0 and is_seen(verdict, step)
    clocks, with_slow_steps = OTHER_TIMES - {step.metric}, OTHER_TIMES - {step.metric} | {"run_wall_p90"}
    details = {Code.R105: with_slow_steps if is_worse else clocks, Code.R106: with_slow_steps}
    # The time of a step that stands still is what it costs and what it waits; what it costs alone is a part of that.
    parts = {"step_cost"} if step.metric == "run_blocked_time" else set()
    return tuple(
        finding
        for finding in verdict.findings
        if finding.place not in (parts if finding.severity is Severity.ERROR else details.get(finding.code, ()))
    )


def _side_by_side(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return what `perfguard ab` timed; where it confirmed a stored time, beside what the fresh processes measured."""
    if "step_ab" not in found or "step_ab_time" not in found:
        return None
    fresh = _measured(verdict, FRESH_TIME)
    ratio = _number(found["step_ab"].current)
    time_us = _number(fresh.value if fresh is not None else found["step_ab_time"].current)
    if not ratio or not time_us:
        return None
    return StepTime(
        now_ms=time_us / 1e3,
        change=relative_change(1, ratio),
        judged=found["step_ab"].judged,
        metric="step_ab",
        source="fresh processes, beside the base",
    )


def _standing_still(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return the whole time of a step that fails because it stands still, which its cost does not show."""
    from perfguard.judge.compare import State

    blocked, cpu = found.get("run_blocked_time"), found.get("run_cpu_time")
    if blocked is None or cpu is None or blocked.state is not State.WORSE or not _is_judged(blocked):
        return None
    # Half of the steps may stand still and the fastest one not: these are the parts of a typical step.
    before_us = (_number(blocked.reference) or 0.0) + (_number(cpu.reference) or 0.0)
    now_us = (_number(blocked.current) or 0.0) + (_number(cpu.current) or 0.0)
    if (change := relative_change(before_us, now_us)) is None:
        return None
    return StepTime(
        now_ms=now_us / 1e3,
        change=change,
        judged=True,
        metric="run_blocked_time",
        source=_processes(verdict),
    )


def _fresh(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return what fresh processes measured, with the change of the cost where it was compared."""
    if (time := _measured(verdict, FRESH_TIME)) is None:
        return None
    cost = found.get("step_cost")
    change = _change(cost)
    return StepTime(
        now_ms=(_number(time.value) or 0.0) / 1e3,
        change=change,
        judged=change is not None and _is_judged(cost),
        metric="step_cost",
        source=_processes(verdict),
    )


def _own(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return what the recording itself says: its timed steps, else its profiled ones."""
    time = next((one for metric in _OWN_TIMES if (one := _measured(verdict, metric)) is not None), None)
    if time is None:
        return None
    compared = found.get(time.metric)
    change = _change(compared)
    return StepTime(
        now_ms=(_number(time.value) or 0.0) / 1e3,
        change=change,
        judged=change is not None and _is_judged(compared),
        metric=time.metric,
        source=f"{max(1, len(time.samples))} {_OWN_TIMES[time.metric]}",
    )


def _measured(verdict: Verdict, metric: str) -> Measurement | None:
    """Return a time that was measured of the whole job's step."""
    return next(
        (m for m in verdict.measurements if m.metric == metric and m.subject in _OF_THE_JOB and _number(m.value)), None
    )


def _change(one: Comparison | None) -> float | None:
    """Return how much more now is than the reference, as a fraction; None where the two cannot be compared."""
    from perfguard.judge.compare import State

    if one is None or one.state is State.NOT_COMPARABLE:
        return None
    return relative_change(one.reference, one.current)


def relative_change(before: object, now: object) -> float | None:
    """Return how much more `now` is than `before`, as a fraction; None for what is no time."""
    reference, current = _number(before), _number(now)
    if not reference or not current or not 1 / _MOST_APART < current / reference < _MOST_APART:
        return None
    return current / reference - 1


def _is_judged(one: Comparison | None) -> bool:
    """Whether a number may fail: one without a limit only warns."""
    return one is not None and one.judged and one.allowed is not None


def _number(value: object) -> float | None:
    """Return a time or a ratio as a number; None for what is none."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < _LARGEST else None


def _processes(verdict: Verdict) -> str:
    time = _measured(verdict, FRESH_TIME) or _measured(verdict, "step_ab")
    count = max(1, len(time.samples)) if time is not None else 1
    return f"{count} fresh process{'' if count == 1 else 'es'}"
