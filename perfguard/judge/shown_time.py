"""Which of a verdict's times is the one that reports show, and which findings are details of it."""

from __future__ import annotations

from perfguard.findings import Code, Finding, OwnCode, Severity
from perfguard.judge.compare import Comparison, State
from perfguard.judge.step_time import FRESH_TIME, OTHER_TIMES, StepTime, number_of, relative_change
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure.measurement import Measurement

#: Without fresh processes: the test's own timed steps, else the profiled ones.
_OWN_TIMES = {"step_time": "timed steps of the test's own process", "profiled_step_time": "profiled steps"}
#: Subjects of a job's own step: of one rank, and of all of them.
_OF_THE_JOB = ("", "ranks:")


def step_time_of(verdict: Verdict) -> StepTime | None:
    """Return the step time of a verdict; None where no step was timed, or the recording is not whole."""
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
    details: dict[Code | OwnCode, frozenset[str]] = {
        Code.R105: with_slow_steps if is_worse else clocks,
        Code.R106: with_slow_steps,
    }
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
    ratio = number_of(found["step_ab"].current)
    time_us = number_of(fresh.value if fresh is not None else found["step_ab_time"].current)
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
    blocked, cpu = found.get("run_blocked_time"), found.get("run_cpu_time")
    if blocked is None or cpu is None or blocked.state is not State.WORSE or not _is_judged(blocked):
        return None
    # Half of the steps may stand still and the fastest one not: these are the parts of a typical step.
    before_us = (number_of(blocked.reference) or 0.0) + (number_of(cpu.reference) or 0.0)
    now_us = (number_of(blocked.current) or 0.0) + (number_of(cpu.current) or 0.0)
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
        now_ms=(number_of(time.value) or 0.0) / 1e3,
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
        now_ms=(number_of(time.value) or 0.0) / 1e3,
        change=change,
        judged=change is not None and _is_judged(compared),
        metric=time.metric,
        source=f"{max(1, len(time.samples))} {_OWN_TIMES[time.metric]}",
    )


def _measured(verdict: Verdict, metric: str) -> Measurement | None:
    """Return a time that was measured of the whole job's step."""
    return next(
        (m for m in verdict.measurements if m.metric == metric and m.subject in _OF_THE_JOB and number_of(m.value)),
        None,
    )


def _change(one: Comparison | None) -> float | None:
    """Return how much more now is than the reference, as a fraction; None where the two cannot be compared."""
    if one is None or one.state is State.NOT_COMPARABLE:
        return None
    return relative_change(one.reference, one.current)


def _is_judged(one: Comparison | None) -> bool:
    """Whether a number may fail: one without a limit only warns."""
    return one is not None and one.judged and one.allowed is not None


def _processes(verdict: Verdict) -> str:
    time = _measured(verdict, FRESH_TIME) or _measured(verdict, "step_ab")
    count = max(1, len(time.samples)) if time is not None else 1
    return f"{count} fresh process{'' if count == 1 else 'es'}"
