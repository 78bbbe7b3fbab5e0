"""The step time in words: what is behind the one time and the one change that every report shows."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.judge import Verdict, step_time_of
from perfguard.judge.quantities import show
from perfguard.judge.step_time import milliseconds, percent, relative_change

_IS_JUDGED = "; its change is judged"
#: Every other measurement of a step, and what it is.
_MEANINGS = {
    "step_cost": f"cost, in calibration kernels (a fixed matrix product run between steps){_IS_JUDGED}",
    "run_wall_time": "fresh processes, by the clock without the wait for a CPU: the fastest step",
    "run_cpu_time": "fresh processes, CPU time of all threads: the fastest step",
    "run_wall_p90": "fresh processes, by the clock: the slow steps (90th percentile)",
    "run_blocked_time": "fresh processes, time in which a step neither ran nor waited for a CPU: the mean",
    "step_ab_time": "beside the base: the fastest step of a process",
    "step_time": "the test's own process, by the clock: the fastest timed step",
    "step_cpu_time": "the test's own process, CPU time of the thread that drives the step: the fastest timed step",
    "profiled_step_time": "under the profiler, by the clock: the fastest step",
    "profiler_overhead": "a profiled step over a timed one",
}
_COST_ON_A_DEVICE = f"cost, by the clock because a device does the work{_IS_JUDGED}"


def step_words(verdict: Verdict) -> tuple[str, str]:
    """Return time and change for a table: `25.2 → 40.2` and `+59.2 %`, in brackets where it is not judged."""
    step = step_time_of(verdict)
    if step is None:
        return "-", "-"
    change = step.percentage if step.judged else f"({step.percentage})"
    return step.times.removesuffix(" ms"), change if step.percentage else "-"


def step_details(verdict: Verdict) -> list[str]:
    """Return a line for each number behind the step time, measured on both sides, with what it is."""
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
            told = " → ".join(milliseconds(one / 1e3) if is_time else show(one) for one in values)
            on_device = metric == "step_cost" and any(timing.clock == "wall" for timing in verdict.timings)
            unit = " ms" if is_time or on_device else ""
            meaning = _COST_ON_A_DEVICE if on_device else meaning
            # A run side by side may have judged in its place.
            lines.append(f"  {told}{unit}: {meaning if step.metric == metric else meaning.removesuffix(_IS_JUDGED)}")
    return lines


def _of_each_process(verdict: Verdict, judged: str) -> Iterable[str]:
    """Yield by how much the step changed in each process: the reader sees the noise."""
    for metric in ("step_ab",) if judged == "step_ab" else ("step_cost", "step_ab"):
        one = next((one for one in verdict.comparisons if one.metric == metric), None)
        samples = next((one.samples for one in verdict.measurements if one.metric == metric), ())
        changes = [relative_change(one.reference, sample) for sample in samples] if one is not None else []
        if changes and all(change is not None for change in changes):
            each = " ".join(percent(change).removesuffix(" %") for change in changes if change is not None)
            yield f"  {each} %: the change in each fresh process"


def _both_sides(verdict: Verdict, metric: str) -> tuple[float, ...] | None:
    """Return what was measured of the baseline, where it is known, and now."""
    now = next((m.value for m in verdict.measurements if m.metric == metric and not m.subject), None)
    before = next((one.reference for one in verdict.comparisons if one.metric == metric and not one.subject), None)
    if not isinstance(now, (int, float)):
        return None
    return (before, now) if isinstance(before, (int, float)) else (now,)
