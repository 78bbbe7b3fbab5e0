"""The metrics: each one decorated function to measurements, from a profile, from one cycle's artifacts, from all ranks, or
from the recording's own steps. Here are the tables, and the metrics that every dialect has."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from perfguard import thresholds
from perfguard.dialects.executions import calls_by
from perfguard.errors import UsageError, nearest
from perfguard.measure.measurement import ALL_RANKS, Better, Kind, Measurement, Metric
from perfguard.measure.taking import Taking, kept
from perfguard.window import Phase

if TYPE_CHECKING:
    from perfguard.contract import Contract, Cycle
    from perfguard.dialects.cycle import MemoryStep
    from perfguard.measure.profile import Profile
    from perfguard.recording import Recording, Step

ProfileMetric = Callable[["Profile"], Iterator[tuple[str, "Measured"]]]
CycleMetric = Callable[["Cycle"], Iterator[tuple[str, "Measured"]]]
RankedMetric = Callable[[Sequence["Taking"]], Iterator[tuple[str, "Measured"]]]
RecordingMetric = Callable[["Recording"], Iterator[tuple[str, "Measured"]]]
Measured = float | int | list[str] | dict[str, float] | tuple[float, ...]

METRICS: dict[str, Metric] = {}
_OF_PROFILE: dict[str, ProfileMetric] = {}
_OF_RECORDING: dict[str, RecordingMetric] = {}
_OF_CYCLE: dict[str, tuple[tuple[str, ...], CycleMetric]] = {}
_OF_RANKS: dict[str, RankedMetric] = {}

#: Where the user names a shown metric without a number: it fails beyond twice its baseline, and warns beyond 1.3 times.
FAIL_BEYOND = 1.0
WARN_BEYOND = 0.3


def metric(description: Metric) -> Callable[[ProfileMetric], ProfileMetric]:
    """Register a metric that is computed from a profile. It yields (subject, value or samples)."""

    def register(function: ProfileMetric) -> ProfileMetric:
        METRICS[description.name] = description
        _OF_PROFILE[description.name] = function
        return function

    return register


def recording_metric(description: Metric) -> Callable[[RecordingMetric], RecordingMetric]:
    """Register a metric that is computed from the steps perfguard drove itself."""

    def register(function: RecordingMetric) -> RecordingMetric:
        METRICS[description.name] = description
        _OF_RECORDING[description.name] = function
        return function

    return register


def cycle_metric(description: Metric, *, needs: tuple[str, ...]) -> Callable[[CycleMetric], CycleMetric]:
    """Register a metric that is computed from artifacts of one cycle; it runs where one of `needs` could be read."""

    def register(function: CycleMetric) -> CycleMetric:
        METRICS[description.name] = description
        _OF_CYCLE[description.name] = (needs, function)
        return function

    return register


def queried_metric(description: Metric) -> None:
    """Register a metric that queries of dialects measure (`metrics.sql`)."""
    METRICS[description.name] = description


def ranked_metric(description: Metric) -> Callable[[RankedMetric], RankedMetric]:
    """Register a metric that compares the ranks with each other; it is given what was taken of the cycles of all of them."""

    def register(function: RankedMetric) -> RankedMetric:
        METRICS[description.name] = description
        _OF_RANKS[description.name] = function
        return function

    return register


def measure(contract: Contract) -> tuple[Measurement, ...]:
    """Return every measurement the artifacts and steps allow, ordered by metric and subject."""
    from perfguard.measure.profile import profiles_of

    found = []
    cycles = [taken(cycle) for cycle in contract.cycles] if contract.cycles else kept(contract)
    ranks = profiles_of(cycles)
    for name, function in _OF_PROFILE.items():
        by_subject: dict[str, list[Measured]] = {}
        for profile in ranks:
            prefix = f"rank{profile.rank}:" if len(ranks) > 1 else ""
            for subject, value in function(profile):
                found.append(_measurement(name, prefix + subject, value))
                by_subject.setdefault(subject, []).append(value)
        if len(ranks) > 1 and name in _ACROSS_RANKS:
            for subject, values in by_subject.items():
                found.append(_measurement(name, ALL_RANKS + subject, _across_ranks(name, values)))
    found += _of_cycles(cycles)
    for name, of_ranks in _OF_RANKS.items():
        if len({taking.rank for taking in cycles}) > 1:
            found += [_measurement(name, subject, value) for subject, value in of_ranks(cycles)]
    for name, of_recording in _OF_RECORDING.items():
        found += [_measurement(name, subject, value) for subject, value in of_recording(contract.recording)]
    return tuple(sorted(found, key=lambda m: m.key))


_ACROSS_RANKS: dict[str, Callable[[list[float]], float]] = {
    "operator_calls": sum,
    "memory_allocations": sum,
    "memory_allocated_bytes": sum,
    "memory_growth_bytes": sum,
    "peak_memory_bytes": max,
    "operator_time": max,
    "profiled_step_time": max,
}


def _across_ranks(name: str, values: list[Measured]) -> Measured:
    """Join what the ranks measured: sum or largest; of samples, those of the rank whose best is the slowest."""
    samples = [value for value in values if isinstance(value, tuple)]
    if samples:
        return max(samples, key=min)
    return _ACROSS_RANKS[name]([value for value in values if isinstance(value, (int, float))])


def taken(cycle: Cycle) -> Taking:
    """Return what measuring needs of a cycle."""
    return Taking(
        rank=cycle.rank,
        executions=cycle.executions,
        shapes=cycle.shapes,
        memory=cycle.memory,
        asked=cycle.asked,
        values=_values_of(cycle),
    )


def _values_of(cycle: Cycle) -> dict[str, tuple[tuple[str, Measured], ...]]:
    """Return what the metrics of single artifacts measured of one cycle, as (subject, value), by metric.

    What needs the rows of a table that was too large to be kept is not there; finding A112 names the table.
    """
    from perfguard.artifacts.table import NotKept

    if unknown := sorted(cycle.measured.keys() - METRICS.keys()):
        raise UsageError(
            f"A metrics.sql measures {unknown[0]!r}, and that is no metric; {nearest(unknown[0], METRICS)}"
        )
    found = {name: tuple(values) for name, values in cycle.measured.items()}
    for name, (needs, function) in _OF_CYCLE.items():
        if any(slot in cycle.artifacts for slot in needs):
            with suppress(NotKept):
                found[name] = tuple(function(cycle))
    return found


def _of_cycles(cycles: Sequence[Taking]) -> Iterator[Measurement]:
    """Join the metrics of single artifacts. Several cycles of a rank are samples of one timed metric."""
    several = len({taking.rank for taking in cycles}) > 1
    for name in dict.fromkeys(name for taking in cycles for name in taking.values):
        values: dict[str, list[Measured]] = {}
        for taking in cycles:
            prefix = f"rank{taking.rank}:" if several else ""
            for subject, value in taking.values.get(name, ()):
                values.setdefault(prefix + subject, []).append(value)
        for subject, of_cycles in values.items():
            yield _measurement(name, subject, _together(METRICS[name].kind, of_cycles))


def _together(kind: Kind, of_cycles: list[Measured]) -> Measured:
    """Join what the cycles of a rank measured: samples one after the other; of exact numbers a step their mean."""
    if len(of_cycles) == 1:
        return of_cycles[0]
    samples: list[float] = []
    for one in of_cycles:
        if isinstance(one, (int, float)):
            samples.append(one)
        elif isinstance(one, tuple):
            samples += one
        else:
            return of_cycles[0]
    if kind is Kind.TIMED:
        return tuple(float(one) for one in samples)
    return samples[0] if len(set(samples)) == 1 else round(statistics.fmean(samples), 6)


def _measurement(name: str, subject: str, value: Measured) -> Measurement:
    if isinstance(value, tuple):
        # The best sample is the most repeatable one.
        best = max(value) if METRICS[name].better is Better.HIGHER else min(value)
        return Measurement(metric=name, subject=subject, value=best, samples=value)
    return Measurement(metric=name, subject=subject, value=value)


def shown(name: str, unit: str, meaning: str, better: Better = Better.LOWER) -> Metric:
    """Describe a timed metric that is shown and ranked, and judged once the settings name it."""
    return Metric(
        name=name,
        unit=unit,
        kind=Kind.TIMED,
        better=better,
        # Of what should be high, the same factors downwards: half of it, and 1/1.3 of it. A whole of it can never be lost.
        relative=FAIL_BEYOND / (1 + FAIL_BEYOND) if better is Better.HIGHER else FAIL_BEYOND,
        warn_relative=WARN_BEYOND / (1 + WARN_BEYOND) if better is Better.HIGHER else WARN_BEYOND,
        gated=False,
        meaning=meaning,
    )


def warned(
    name: str,
    unit: str,
    meaning: str,
    *,
    shown_on: frozenset[str] = frozenset(),
    by_run: bool = False,
) -> Metric:
    """Describe a timed metric that warns where it is far longer, and fails only once the settings name it."""
    return Metric(
        name=name,
        unit=unit,
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=math.inf,
        warn_relative=thresholds.WALL_WARNING,
        shown_on=shown_on,
        by_run=by_run,
        meaning=meaning,
    )


def _per_step(count: int, steps: int | None) -> float | int:
    if steps in (None, 0):
        return count
    assert steps is not None
    return count // steps if count % steps == 0 else count / steps


# -- exact -----------------------------------------------------------------------------------------------------------


@metric(
    Metric(name="steps", unit="steps", kind=Kind.EXACT, better=Better.HIGHER, meaning="Steps the profiler recorded.")
)
def steps(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Steps over all cycles of the rank."""
    if profile.steps is not None:
        yield "", profile.steps


@metric(
    Metric(
        name="operator_set",
        unit="names",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="Which operators ran at all.",
    )
)
def operator_set(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Sorted names."""
    yield "", sorted(profile.groups["operator"].unique().to_list())


@metric(
    Metric(
        name="operator_calls",
        unit="calls/step",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="How often an operator runs in a step.",
    )
)
def operator_calls(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Calls over the window, divided by its steps."""
    for operator, count in calls_by(profile.groups, "operator").items():
        yield operator, _per_step(count, profile.steps)


@metric(
    Metric(
        name="operator_shapes",
        unit="calls/step by shape",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="With which input shapes (and types, where recorded) an operator runs in a step.",
    )
)
def operator_shapes(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Census of the shapes of every operator that has any recorded."""
    by_operator: dict[str, dict[str, float]] = {}
    for operator, shapes, calls in profile.shapes.sort("operator", "shapes").iter_rows():
        by_operator.setdefault(operator, {})[shapes] = _per_step(calls, profile.steps)
    yield from by_operator.items()


@metric(
    Metric(
        name="peak_memory_bytes",
        unit="bytes",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How far allocated memory rises above its lowest point inside a step; the largest of the steps but the first.",
    )
)
def peak_memory_bytes(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Largest rise of any step, per device, except of the first where there are more.

    The absolute level is not exact: it holds whatever earlier tests of the process left alive. Nor is the first step: torch
    does not report the release of what was allocated before the window, unless an earlier window of the process saw a block
    at the same address.
    """
    for device, of_device in _by_device(profile):
        later = [step.rise_bytes for step in of_device if step.step > 0]
        yield device, max(later or [step.rise_bytes for step in of_device])


@metric(
    Metric(
        name="memory_allocations",
        unit="allocations/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How many allocations a step makes; the median of the steps.",
    )
)
def memory_allocations(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Median over the steps, per device: one step that reuses a block by chance does not move it."""
    for device, of_device in _by_device(profile):
        yield device, statistics.median_low([step.allocations for step in of_device])


@metric(
    Metric(
        name="memory_allocated_bytes",
        unit="bytes/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How many bytes a step allocates, released again or not; the median of the steps.",
    )
)
def memory_allocated_bytes(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Median over the steps, per device."""
    for device, of_device in _by_device(profile):
        yield device, statistics.median_low([step.allocated_bytes for step in of_device])


@metric(
    Metric(
        name="memory_growth_bytes",
        unit="bytes/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How many bytes a step leaves allocated: above 0 it leaks; the median of the steps.",
    )
)
def memory_growth_bytes(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Level after the step's last event less the level before its first, per device."""
    for device, of_device in _by_device(profile):
        yield device, statistics.median_low([step.growth_bytes for step in of_device])


def _by_device(profile: Profile) -> Iterator[tuple[str, list[MemoryStep]]]:
    for device in sorted({step.device for step in profile.memory}):
        yield device, [step for step in profile.memory if step.device == device]


# -- timed -----------------------------------------------------------------------------------------------------------


@metric(
    Metric(
        name="operator_time",
        unit="us/step",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=FAIL_BEYOND,
        warn_relative=WARN_BEYOND,
        gated=False,
        meaning="Time of an operator in a step, without the operators inside it; the minimum of the steps.",
    )
)
def operator_time(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Self time per step; a sample a step, or one for the window where steps are not known."""
    yield from _operator_times_us(profile).items()


@metric(
    Metric(
        name="operator_share",
        unit="fraction",
        kind=Kind.TIMED,
        better=Better.EQUAL,
        relative=FAIL_BEYOND,
        warn_relative=WARN_BEYOND,
        gated=False,
        meaning="Share of an operator in the time of all operators of the window.",
    )
)
def operator_share(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """Fractions that add up to 1."""
    times = {operator: sum(samples) for operator, samples in _operator_times_us(profile).items()}
    total = sum(times.values())
    if total > 0:
        yield from ((operator, round(time / total, 6)) for operator, time in times.items())


def _operator_times_us(profile: Profile) -> dict[str, tuple[float, ...]]:
    import polars as pl

    groups = profile.groups
    if groups["step"].null_count() or profile.steps is None:
        whole = groups.group_by("operator").agg(pl.col("self_ns").sum()).sort("operator")
        return {operator: (round(ns / 1e3 / (profile.steps or 1), 3),) for operator, ns in whole.iter_rows()}
    by_step = groups.group_by("operator", "step").agg(pl.col("self_ns").sum()).sort("operator", "step")
    times: dict[str, list[float]] = {}
    for operator, _, ns in by_step.iter_rows():
        # Only steps in which it ran: an operator of every third step would else have a minimum of nothing.
        times.setdefault(operator, []).append(ns / 1e3)
    return {operator: tuple(samples) for operator, samples in times.items()}


@recording_metric(
    warned("step_time", "us", "Wall time of an unprofiled step, device synchronised; the minimum of the timed steps.")
)
def step_time(recording: Recording) -> Iterator[tuple[str, Measured]]:
    """One sample a timed step; of several ranks each, and the slowest as the job's own."""
    yield from _by_rank(recording, lambda step: step.wall_ns / 1e3)


@recording_metric(
    warned(
        "step_cpu_time",
        "us",
        "CPU time of the thread that drives an unprofiled step; the minimum of the timed steps.",
        # MindSpore's operators run on threads of their own, and now and then on this one: the same LeNet step took 1.8 ms
        # of it in seven processes and 14.2 ms in the eighth, at an equal wall time.
        shown_on=frozenset({"mindspore"}),
    )
)
def step_cpu_time(recording: Recording) -> Iterator[tuple[str, Measured]]:
    """One sample a timed step. Work of the framework's own threads is not in it."""
    yield from _by_rank(recording, lambda step: step.thread_cpu_ns / 1e3)


def _by_rank(recording: Recording, duration: Callable[[Step], float]) -> Iterator[tuple[str, Measured]]:
    ranks = {rank: recording.steps_of(Phase.TIMED, rank=rank) for rank in recording.ranks}
    samples = {rank: tuple(map(duration, steps)) for rank, steps in ranks.items() if steps}
    if samples:
        yield "", max(samples.values(), key=min)
    if len(samples) > 1:
        yield from ((f"rank{rank}", of_rank) for rank, of_rank in samples.items())


@recording_metric(
    Metric(
        name="pause_between_steps",
        unit="us",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=thresholds.STALL_TOLERANCE,
        absolute=thresholds.PAUSE_US,
        meaning="Time between two steps of a script, without the wait for a CPU (its loader, evaluation, logging); the mean "
        "of the timed steps without the longest, of the slowest rank.",
    )
)
def pause_between_steps(recording: Recording) -> Iterator[tuple[str, Measured]]:
    """Only a script has pauses. Of a whole run, and of a window too early for timed steps, those of the profiled steps.

    The mean, because workers that are late together make one batch of several wait; without the longest, because there is
    one process, and one hiccup of the machine is no loader.
    """
    means = []
    for rank in recording.ranks:
        steps = recording.steps_of(Phase.TIMED, rank=rank) or recording.steps_of(Phase.ACTIVE, rank=rank)
        pauses = [step.pause_ns for step in steps if step.pause_ns is not None]
        if len(pauses) >= thresholds.FEWEST_PAUSES:
            means.append(statistics.fmean(sorted(pauses)[:-1]) / 1e3)
    if means:
        yield "", max(means)


@recording_metric(
    shown("slowest_rank", "ratio", "Time of the slowest rank's profiled steps over that of the fastest's.")
)
def slowest_rank(recording: Recording) -> Iterator[tuple[str, Measured]]:
    """Medians; the subject is the slowest rank."""
    if len(recording.ranks) < 2:
        return
    of_rank = {rank: recording.steps_of(Phase.ACTIVE, rank=rank) for rank in recording.ranks}
    medians = {rank: statistics.median(s.wall_ns for s in steps) for rank, steps in of_rank.items() if steps}
    if len(medians) > 1 and min(medians.values()) > 0:
        slowest = max(medians, key=lambda rank: medians[rank])
        yield f"rank{slowest}", round(medians[slowest] / min(medians.values()), 3)


@recording_metric(
    Metric(
        name="profiler_overhead",
        unit="ratio",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=FAIL_BEYOND,
        warn_relative=WARN_BEYOND,
        gated=False,
        meaning="Profiled step time divided by unprofiled step time, minimum by minimum.",
    )
)
def profiler_overhead(recording: Recording) -> Iterator[tuple[str, Measured]]:
    """At least 1 on a quiet machine; how far the profiled window is from the loop users run."""
    timed = [step.wall_ns for step in recording.steps_of(Phase.TIMED)]
    active = [step.wall_ns for step in recording.steps_of(Phase.ACTIVE)]
    if timed and active and min(timed) > 0:
        yield "", round(min(active) / min(timed), 3)
