"""Metrics of the steps that perfguard drove itself, in controlled processes and in the recorded one.

Of controlled processes there is one sample a process, because the process is the unit of noise, not the step.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from perfguard import thresholds
from perfguard.measure.measurement import Better, Measurement, Samples, p90
from perfguard.measure.metrics import METRICS
from perfguard.recording import Recording
from perfguard.timing import Timing
from perfguard.window import Phase


def measure_runs(timings: Iterable[Timing]) -> tuple[Measurement, ...]:
    """Return the measurements of the controlled processes of one workload, in the order they ran."""
    timings = tuple(timings)
    found = []
    for name, function in OF_TIMING.items():
        samples = tuple(round(sample, 6) for timing in timings if (sample := function(timing)) is not None)
        if samples:
            sign = -1 if METRICS[name].better is Better.HIGHER else 1
            best = sign * best_of_runs([sign * sample for sample in samples])
            found.append(Measurement(metric=name, subject="", value=best, samples=samples))
    return tuple(sorted(found, key=lambda m: m.key))


def best_of_runs(samples: Sequence[float]) -> float:
    """Return the minimum of the processes; of ten or more, the median of the minima of every five.

    The minimum of ten is lower than that of five, so a large baseline would raise false alarms. It counts as several baselines
    of the size that the rule was measured with.
    """
    size = thresholds.BASELINE_RUNS
    blocks = [samples[first : first + size] for first in range(0, len(samples) - size + 1, size)] or [samples]
    return statistics.median_high([min(block) for block in blocks])


def _step_cost(timing: Timing) -> float | None:
    """Return the smallest step over the smallest kernel, or over a millisecond; None if a clock did not advance."""
    step, kernel = min(timing.cost_ns), min(timing.calibration_ns) if timing.clock == "process" else 1_000_000
    return step / kernel if step and kernel else None


def _run_wall_time(timing: Timing) -> float:
    """Return the smallest of the steps, each at least its CPU time divided by the number of CPUs.

    The system counts a wait when it ends, so the wait of a busy machine may be longer than the step it is counted for.
    """
    cpus = len(timing.cpus) or 1
    parts = zip(timing.wall_ns, _waited_ns(timing), timing.process_cpu_ns, strict=True)
    return min(min(wall, max(wall - waited, cpu // cpus)) for wall, waited, cpu in parts) / 1e3


def _run_wall_p90(timing: Timing) -> float:
    """Return the 90th percentile: a slowdown of some steps is invisible in a minimum."""
    undisturbed = [wall - waited for wall, waited in zip(timing.wall_ns, _waited_ns(timing), strict=True)]
    return p90(undisturbed) / 1e3


def run_blocked_time(timing: Timing) -> float | None:
    """Return wall time minus CPU time minus the wait for other processes; None if the system does not report waits.

    The mean includes a wait for every tenth batch. A hiccup of the machine changes it in one process, not in five.
    """
    if not timing.run_queue_ns or timing.clock == "wall":
        return None
    parts = zip(timing.wall_ns, timing.process_cpu_ns, _waited_ns(timing), strict=True)
    return statistics.fmean(max(0, wall - cpu - waited) for wall, cpu, waited in parts) / 1e3


def _host_memory_growth_bytes(timing: Timing) -> float | None:
    """Return the smallest rise a step of the floor, from third to third of the window; None for fewer than 30 steps.

    The floor at a step is the least memory in use from there to the end: memory that is freed later is no leak, and a cache
    that fills once rises in one third only.
    """
    floor = list(timing.host_memory_bytes)
    readings = len(floor) - 1
    if readings * thresholds.MEMORY_EVERY_STEPS < thresholds.MEMORY_STEPS:
        return None
    for index in range(readings - 1, -1, -1):
        floor[index] = min(floor[index], floor[index + 1])
    edges = [round(third * readings / 3) for third in range(4)]
    rises = ((floor[end] - floor[begin]) / (end - begin) for begin, end in pairwise(edges))
    return min(rises) / thresholds.MEMORY_EVERY_STEPS


def _waited_ns(timing: Timing) -> Sequence[int]:
    """Return the least time in ns that the thread of each step waited for a CPU used by another process.

    A wait for the process's own threads is work of the step: MindSpore's threads spin while they wait, and occupy the only CPU
    for the whole step. Several CPUs are occupied only if its threads run on all of them.
    """
    if not timing.run_queue_ns:
        return (0,) * timing.steps
    cpus = len(timing.cpus) or 1
    parts = zip(timing.run_queue_ns, timing.process_cpu_ns, timing.thread_cpu_ns, strict=True)
    return tuple(max(0, queue - max(0, process - thread) // cpus) for queue, process, thread in parts)


#: `step_ab` and `step_ab_time` are missing: they have two sides, and `judge.pairs` measures them.
OF_TIMING: dict[str, Callable[[Timing], float | None]] = {
    "step_cost": _step_cost,
    "run_cpu_time": lambda timing: min(timing.process_cpu_ns) / 1e3,
    "run_wall_time": _run_wall_time,
    "run_wall_p90": _run_wall_p90,
    "run_blocked_time": run_blocked_time,
    "host_memory_growth_bytes": _host_memory_growth_bytes,
    # The smallest kernel: the speed of the machine, as one matrix product sees it.
    "run_calibration": lambda timing: min(timing.calibration_ns) / 1e3,
    "run_device_clock": lambda timing: (
        statistics.median(timing.device_clocks_mhz) if timing.device_clocks_mhz else None
    ),
    # The minimum over processes shows whether one of them ran on a quiet machine.
    "run_machine_load": lambda timing: None if timing.others_share is None else 100 * timing.others_share,
}


# -- steps of a recording ------------------------------------------------------------------------------------------

StepMetric = Callable[[Recording], Iterator[tuple[str, Samples]]]


def _of_timed_steps(attribute: str) -> StepMetric:
    """Return a metric with one sample a timed step; of several ranks each, and those of the slowest for the job."""

    def values(recording: Recording) -> Iterator[tuple[str, Samples]]:
        ranks = {rank: recording.steps_of(Phase.TIMED, rank=rank) for rank in recording.ranks}
        samples = {rank: tuple(getattr(s, attribute) / 1e3 for s in steps) for rank, steps in ranks.items() if steps}
        if samples:
            yield "", max(samples.values(), key=min)
        if len(samples) > 1:
            yield from ((f"rank{rank}", of_rank) for rank, of_rank in samples.items())

    return values


def pause_between_steps(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield the mean pause of the slowest rank in us, of the timed steps, or of the profiled steps if none is timed.

    Only a script has pauses. The mean, because workers that are late together delay one batch of several; without the
    longest, because there is one process, and one hiccup of the machine is no loader.
    """
    means = []
    for rank in recording.ranks:
        steps = recording.steps_of(Phase.TIMED, rank=rank) or recording.steps_of(Phase.ACTIVE, rank=rank)
        pauses = [step.pause_ns for step in steps if step.pause_ns is not None]
        if len(pauses) >= thresholds.FEWEST_PAUSES:
            means.append(statistics.fmean(sorted(pauses)[:-1]) / 1e3)
    if means:
        yield "", max(means)


def _slowest_rank(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield the slowest rank as the subject, with the ratio of medians."""
    of_rank = {rank: recording.steps_of(Phase.ACTIVE, rank=rank) for rank in recording.ranks}
    medians = {rank: statistics.median(s.wall_ns for s in steps) for rank, steps in of_rank.items() if steps}
    if len(medians) > 1 and min(medians.values()) > 0:
        slowest = max(medians, key=lambda rank: medians[rank])
        yield f"rank{slowest}", round(medians[slowest] / min(medians.values()), 3)


def _profiler_overhead(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield at least 1 on a quiet machine: the distance of the profiled window from the loop of the users."""
    timed = [step.wall_ns for step in recording.steps_of(Phase.TIMED)]
    active = [step.wall_ns for step in recording.steps_of(Phase.ACTIVE)]
    if timed and active and min(timed) > 0:
        yield "", round(min(active) / min(timed), 3)


OF_STEPS: dict[str, StepMetric] = {
    "step_time": _of_timed_steps("wall_ns"),
    # Without the work of the framework's own threads.
    "step_cpu_time": _of_timed_steps("thread_cpu_ns"),
    "pause_between_steps": pause_between_steps,
    "slowest_rank": _slowest_rank,
    "profiler_overhead": _profiler_overhead,
}
