"""Step time texts: the measurements behind the one time and change that every report shows."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.judge.quantities import show
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import percent, relative_change, three_digits
from perfguard.judge.verdict import Verdict
from perfguard.measure.measurement import number

_IS_JUDGED = "; its change is judged"
#: The other measurements of a step, and their meaning.
_MEANINGS = {
    "step_cost": f"cost, in calibration kernels (a fixed matrix product run between steps){_IS_JUDGED}",
    "run_wall_time": "fresh processes, wall time without the wait for a CPU: the fastest step",
    "run_cpu_time": "fresh processes, CPU time of all threads: the fastest step",
    "run_wall_p90": "fresh processes, wall time: the slow steps (90th percentile)",
    "run_blocked_time": "fresh processes, time in which a step neither ran nor waited for a CPU: the mean",
    "step_ab_time": "A/B run: the fastest step of a process",
    "step_time": "the test's own process, wall time: the fastest timed step",
    "step_cpu_time": "the test's own process, CPU time of the thread that drives the step: the fastest timed step",
    "profiled_step_time": "under the profiler, wall time: the fastest step",
    "profiler_overhead": "a profiled step over a timed one",
}
_COST_ON_A_DEVICE = f"cost, wall time because a device does the work{_IS_JUDGED}"


def step_cells(verdict: Verdict) -> tuple[str, str]:
    """Return time and change for a table: `25.2 → 40.2` and `+59.2 %`, in brackets if it is not judged."""
    step = step_time_of(verdict)
    if step is None:
        return "-", "-"
    change = step.percentage if step.judged else f"({step.percentage})"
    return step.times_ms, change if step.percentage else "-"


def step_details(verdict: Verdict) -> list[str]:
    """Return a line for each measurement behind the step time, of both sides."""
    step = step_time_of(verdict)
    if step is None:
        return []
    kind = "" if step.change is None else " (judged)" if step.judged else " (shown, not judged)"
    at_speed = "; the baseline's time is at the speed that the machine has now" if step.metric == "step_cost" else ""
    lines = [f"step {step.text}{kind}: {step.source}{at_speed if step.change is not None else ''}"]
    lines += _of_each_process(verdict, step.metric)
    for metric, meaning in _MEANINGS.items():
        if (values := _both_sides(verdict, metric)) is not None:
            is_time = metric not in ("step_cost", "profiler_overhead")
            numbers = " → ".join(three_digits(one / 1e3) if is_time else show(one) for one in values)
            on_device = metric == "step_cost" and any(timing.clock == "wall" for timing in verdict.timings)
            unit = " ms" if is_time or on_device else ""
            meaning = _COST_ON_A_DEVICE if on_device else meaning
            # An A/B run may have judged instead.
            lines.append(f"  {numbers}{unit}: {meaning if step.metric == metric else meaning.removesuffix(_IS_JUDGED)}")
    return lines


def _of_each_process(verdict: Verdict, judged: str) -> Iterable[str]:
    """Yield the change of the step in each process, which shows the noise."""
    for metric in ("step_ab",) if judged == "step_ab" else ("step_cost", "step_ab"):
        one = next((one for one in verdict.comparisons if one.metric == metric), None)
        samples = next((one.samples for one in verdict.measurements if one.metric == metric), ())
        changes = [relative_change(one.reference, sample) for sample in samples] if one is not None else []
        if changes and all(change is not None for change in changes):
            each = " ".join(percent(change).removesuffix(" %") for change in changes if change is not None)
            yield f"  {each} %: the change in each fresh process"


def _both_sides(verdict: Verdict, metric: str) -> tuple[float, ...] | None:
    """Return the value of the baseline, if known, and the current one."""
    now = next((m.value for m in verdict.measurements if m.metric == metric and not m.subject), None)
    before = next((one.reference for one in verdict.comparisons if one.metric == metric and not one.subject), None)
    sides = tuple(one for one in map(number, (before, now)) if one is not None)
    return sides if number(now) is not None else None
