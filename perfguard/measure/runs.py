"""Metrics of controlled processes: a sample a process, because the process is the unit of noise and not the step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from perfguard import thresholds
from perfguard.measure.measurement import Better, Kind, Measurement, Metric
from perfguard.measure.metrics import METRICS, shown, warned
from perfguard.timing import Timing

_OF_TIMING: dict[str, Callable[[Timing], float | None]] = {}


def run_metric(description: Metric) -> Callable[[Callable[[Timing], float | None]], Callable[[Timing], float | None]]:
    """Register a metric of one controlled process. It returns the process's sample, or None where there is none."""

    def register(function: Callable[[Timing], float | None]) -> Callable[[Timing], float | None]:
        METRICS[description.name] = description
        _OF_TIMING[description.name] = function
        return function

    return register


def measure_runs(timings: Iterable[Timing]) -> tuple[Measurement, ...]:
    """Return the measurements of the controlled processes of one workload, in the order they ran."""
    timings = tuple(timings)
    found = []
    for name, function in _OF_TIMING.items():
        samples = tuple(round(sample, 6) for timing in timings if (sample := function(timing)) is not None)
        if samples:
            found.append(Measurement(metric=name, subject="", value=best_of_runs(samples), samples=samples))
    return tuple(sorted(found, key=lambda m: m.key))


def best_of_runs(samples: Sequence[float]) -> float:
    """Return what processes come to: their minimum; of ten and more, the median of the minima of every five.

    The minimum of ten is lower than that of five, so a large baseline would raise false alarms: it is read as several of
    the size that the rule was measured with.
    """
    size = thresholds.BASELINE_RUNS
    blocks = [samples[first : first + size] for first in range(0, len(samples) - size + 1, size)] or [samples]
    return statistics.median_high([min(block) for block in blocks])


def _shown(name: str, unit: str, meaning: str) -> Metric:
    return replace(shown(name, unit, meaning), by_run=True)


# Of `perfguard ab`: a sample a process, or a pair of processes. `judge.pairs` measures them, for they have two sides.
METRICS["step_ab"] = Metric(
    name="step_ab",
    unit="ratio",
    kind=Kind.TIMED,
    better=Better.LOWER,
    relative=thresholds.PAIRED_TOLERANCE,
    by_run=True,
    meaning="A step over the same step of the base, timed beside each other in one session.",
)
METRICS["step_ab_time"] = _shown(
    "step_ab_time", "us", "The step that `step_ab` is taken from; the minimum of a process."
)


@run_metric(
    Metric(
        name="step_cost",
        unit="ratio",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=thresholds.STORED_TOLERANCE,
        by_run=True,
        meaning="CPU time of a step in controlled processes, over that of a fixed matrix product run between the steps; "
        "minimum by minimum; where a device does the work, whose speed that product does not know, wall time in ms.",
    )
)
def step_cost(timing: Timing) -> float | None:
    """Smallest step over smallest kernel, or over a millisecond. None where a clock saw no time go by."""
    step, kernel = min(timing.cost_ns), min(timing.calibration_ns) if timing.clock == "process" else 1_000_000
    return step / kernel if step and kernel else None


@run_metric(_shown("run_cpu_time", "us", "CPU time of a step over all threads of a controlled process; the minimum."))
def run_cpu_time(timing: Timing) -> float:
    """Smallest of the steps."""
    return min(timing.process_cpu_ns) / 1e3


@run_metric(
    _shown(
        "run_wall_time",
        "us",
        "Wall time of a step in a controlled process without the time it waited for a CPU; the minimum.",
    )
)
def run_wall_time(timing: Timing) -> float:
    """Smallest of the steps; none is quicker than its work takes on the CPUs it had.

    The system counts a wait when it ends, so that of a busy machine may be larger than the step it is counted for.
    """
    cpus = len(timing.cpus) or 1
    parts = zip(timing.wall_ns, _waited_ns(timing), timing.process_cpu_ns, strict=True)
    return min(min(wall, max(wall - waited, cpu // cpus)) for wall, waited, cpu in parts) / 1e3


@run_metric(
    warned(
        "run_wall_p90",
        "us",
        "Wall time of a step in a controlled process without the time it waited for a CPU; 90th percentile.",
        by_run=True,
    )
)
def run_wall_p90(timing: Timing) -> float:
    """A slowdown in some steps only shows here, and nowhere in a minimum."""
    undisturbed = [wall - waited for wall, waited in zip(timing.wall_ns, _waited_ns(timing), strict=True)]
    return _p90(undisturbed) / 1e3


@run_metric(
    Metric(
        name="run_blocked_time",
        unit="us",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=thresholds.STALL_TOLERANCE,
        absolute=thresholds.STALL_US,
        by_run=True,
        causes="possible causes: sleep, I/O, lock, data loader",
        meaning="Time of a step in a controlled process in which it neither ran nor waited for a CPU (sleep, I/O, a lock, a "
        "loader); the mean of the steps. Not measured where a device does the work: waiting for it is no stall.",
    )
)
def run_blocked_time(timing: Timing) -> float | None:
    """Wall less CPU less the wait for other processes. None where the system does not say how long a thread waited.

    The mean, because every tenth batch that is late is waited for as well. A hiccup of the machine moves it in one process,
    not in five.
    """
    if not timing.run_queue_ns or timing.clock == "wall":
        return None
    parts = zip(timing.wall_ns, timing.process_cpu_ns, _waited_ns(timing), strict=True)
    return statistics.fmean(max(0, wall - cpu - waited) for wall, cpu, waited in parts) / 1e3


@run_metric(
    Metric(
        name="host_memory_growth_bytes",
        unit="bytes/step",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=thresholds.MEMORY_GROWTH_TOLERANCE,
        absolute=thresholds.MEMORY_GROWTH_BYTES,
        by_run=True,
        causes="the host leaks memory",
        meaning="Host memory that a step in a controlled process keeps, in the third of the window in which it keeps least: a "
        "leak of Python objects, buffers or host tensors.",
    )
)
def host_memory_growth_bytes(timing: Timing) -> float | None:
    """Smallest rise of the floor from third to third of the window, a step. None for fewer than 30 steps.

    The floor at a step is the least memory in use from there to the end: what is freed later is no leak, and a cache that
    fills once rises in one third only.
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


@run_metric(
    _shown("run_calibration", "us", "CPU time of the kernel between the steps of a controlled process; the minimum.")
)
def run_calibration(timing: Timing) -> float:
    """Smallest of them: the machine's own speed, as far as one product of matrices knows it."""
    return min(timing.calibration_ns) / 1e3


@run_metric(
    _shown(
        "run_machine_load",
        "%",
        "Share of the machine's CPU time that other processes and virtual machines used while the steps of a controlled "
        "process were timed.",
    )
)
def run_machine_load(timing: Timing) -> float | None:
    """The least of all processes says whether a quiet moment was among them."""
    return None if timing.others_share is None else 100 * timing.others_share


def _waited_ns(timing: Timing) -> Sequence[int]:
    """Return, in ns, how long the thread of each step waited at least for a CPU that another process had.

    What it waited for threads of its own is work of the step: MindSpore's turn while they wait, and keep the one CPU from
    the thread that drives them as long as the step lasts. To keep several CPUs from it they have to be on all of them.
    """
    if not timing.run_queue_ns:
        return (0,) * timing.steps
    cpus = len(timing.cpus) or 1
    parts = zip(timing.run_queue_ns, timing.process_cpu_ns, timing.thread_cpu_ns, strict=True)
    return tuple(max(0, queue - max(0, process - thread) // cpus) for queue, process, thread in parts)


def _p90(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=10, method="inclusive")[8] if len(samples) > 1 else samples[0]
