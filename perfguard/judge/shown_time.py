"""The step time that reports show: its choice among a verdict's times, and the findings that only repeat it."""

from __future__ import annotations

from perfguard.errors import counted
from perfguard.findings import Code, Finding, OwnCode, Severity
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.step_time import FRESH_TIME, OTHER_TIMES, StepTime, number_of, relative_change
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure.measurement import Measurement

#: Measured times, in order of preference: the metric of their change, and their source.
_TIMES = {
    FRESH_TIME: ("step_cost", "fresh processes"),
    "step_time": ("step_time", "timed steps of the test's own process"),
    "profiled_step_time": ("profiled_step_time", "profiled steps"),
}
#: Subjects of the step of a whole job: with one rank, and with several.
_OF_THE_JOB = ("", "ranks:")


def step_time_of(verdict: Verdict) -> StepTime | None:
    """Return the step time of a verdict; None without a timed step, or for an INVALID one."""
    if verdict.outcome is Outcome.INVALID:
        return None
    found = {one.metric: one for one in verdict.comparisons if one.subject in _OF_THE_JOB}
    return _blocked(verdict, found) or _paired(verdict, found) or _single(verdict, found)


def is_significant(verdict: Verdict, step: StepTime) -> bool:
    """Whether the change of the step is worse, better, or a warning."""
    if any(one.metric == step.metric and one.state in (State.WORSE, State.BETTER) for one in verdict.comparisons):
        return True
    return any(
        finding.place == step.metric and finding.code in (Code.R101, Code.R105, Code.R106)
        for finding in verdict.findings
        if finding.severity is not Severity.NOTE
    )


def without_details(verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings without those about other measurements of the shown step time, with other percentages."""
    step = step_time_of(verdict)
    if step is None:
        return verdict.findings
    # If the step got worse, its slow steps did too; slower slow steps alone are a finding, faster ones are not.
    is_worse = step.judged and (step.change or 0) > 0 and is_significant(verdict, step)
    clocks, with_slow_steps = OTHER_TIMES - {step.metric}, OTHER_TIMES - {step.metric} | {"run_wall_p90"}
    details: dict[Code | OwnCode, frozenset[str]] = {
        Code.R105: with_slow_steps if is_worse else clocks,
        Code.R106: with_slow_steps,
    }
    # The time of a blocked step is its cost and its wait; the cost alone is a part of that.
    parts = {"step_cost"} if step.metric == "run_blocked_time" else set()
    return tuple(
        finding
        for finding in verdict.findings
        if finding.place not in (parts if finding.severity is Severity.ERROR else details.get(finding.code, ()))
    )


def _paired(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return the result of an A/B run; if it confirmed a stored time, with the time from the fresh processes."""
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
        source="fresh processes, A/B with the base",
    )


def _blocked(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return the whole time of a step that fails because it is blocked, which its cost does not show."""
    blocked, cpu = found.get("run_blocked_time"), found.get("run_cpu_time")
    if blocked is None or cpu is None or blocked.state is not State.WORSE or not _is_judged(blocked):
        return None
    # Half of the steps may be blocked and the fastest one not: these are the parts of a typical step.
    before_us = sum(number_of(one.reference) or 0.0 for one in (blocked, cpu))
    now_us = sum(number_of(one.current) or 0.0 for one in (blocked, cpu))
    if (change := relative_change(before_us, now_us)) is None:
        return None
    source = _processes(verdict)
    return StepTime(now_ms=now_us / 1e3, change=change, judged=True, metric="run_blocked_time", source=source)


def _single(verdict: Verdict, found: dict[str, Comparison]) -> StepTime | None:
    """Return the first measured time, with its change if it was compared."""
    # A profiled step is not the step that users run: it is shown of a directory that has no other.
    known = [one for metric in _TIMES if (one := _measured(verdict, metric)) is not None]
    time = next((one for one in known if one.metric != "profiled_step_time" or verdict.fingerprint is None), None)
    if time is None:
        return None
    metric, source = _TIMES[time.metric]
    compared = found.get(metric)
    is_comparable = compared is not None and compared.state is not State.NOT_COMPARABLE
    change = relative_change(compared.reference, compared.current) if compared is not None and is_comparable else None
    return StepTime(
        now_ms=(number_of(time.value) or 0.0) / 1e3,
        change=change,
        judged=change is not None and _is_judged(compared),
        metric=metric,
        source=_processes(verdict) if metric == "step_cost" else f"{max(1, len(time.samples))} {source}",
    )


def _measured(verdict: Verdict, metric: str) -> Measurement | None:
    """Return a measured time of the whole job's step."""
    return next(
        (m for m in verdict.measurements if m.metric == metric and m.subject in _OF_THE_JOB and number_of(m.value)),
        None,
    )


def _is_judged(one: Comparison | None) -> bool:
    """Whether a number can fail: without a limit it only warns."""
    return one is not None and one.judged and one.allowed is not None


def _processes(verdict: Verdict) -> str:
    time = _measured(verdict, FRESH_TIME) or _measured(verdict, "step_ab")
    count = max(1, len(time.samples)) if time is not None else 1
    return counted(count, "fresh process", "es")
