"""Aggregation: join the values of cycles, ranks and steps to the measurements of a recording, and compare its ranks."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from perfguard.contract import Contract
from perfguard.measure import profile_metrics
from perfguard.measure.cycles import CycleMeasurements, measure_cycle, stored_measurements
from perfguard.measure.measurement import ALL_RANKS, Better, Kind, Measurement, Samples
from perfguard.measure.metrics import METRICS
from perfguard.measure.profile import profiles_of
from perfguard.measure.runs import OF_STEPS

#: How the values of the ranks become one of the whole job.
_ACROSS_RANKS: dict[str, Callable[[list[float]], float]] = {
    "operator_calls": sum,
    "memory_allocations": sum,
    "memory_allocated_bytes": sum,
    "memory_growth_bytes": sum,
    "peak_memory_bytes": max,
    "operator_time": max,
    "profiled_step_time": max,
}


def measure(contract: Contract) -> tuple[Measurement, ...]:
    """Return every measurement that the artifacts and steps allow, ordered by metric and subject."""
    cycles = [measure_cycle(cycle) for cycle in contract.cycles] if contract.cycles else stored_measurements(contract)
    profiles = profiles_of(cycles)
    found = []
    for name, of_profile in profile_metrics.OF_PROFILE.items():
        by_subject: dict[str, list[Samples]] = {}
        for profile in profiles:
            prefix = f"rank{profile.rank}:" if len(profiles) > 1 else ""
            for subject, value in of_profile(profile):
                found.append(_measurement(name, prefix + subject, value))
                by_subject.setdefault(subject, []).append(value)
        if len(profiles) > 1 and name in _ACROSS_RANKS:
            for subject, values in by_subject.items():
                found.append(_measurement(name, ALL_RANKS + subject, _across_ranks(name, values)))
    found += _of_cycles(cycles)
    if len({cycle.rank for cycle in cycles}) > 1:
        for name, of_ranks in _OF_RANKS.items():
            found += [_measurement(name, subject, value) for subject, value in of_ranks(cycles)]
    for name, of_steps in OF_STEPS.items():
        found += [_measurement(name, subject, value) for subject, value in of_steps(contract.recording)]
    return tuple(sorted(found, key=lambda m: m.key))


def _across_ranks(name: str, values: list[Samples]) -> Samples:
    """Return the sum or the maximum over the ranks; of samples, those of the rank with the largest minimum."""
    samples = [value for value in values if isinstance(value, tuple)]
    if samples:
        return max(samples, key=min)
    return _ACROSS_RANKS[name]([value for value in values if isinstance(value, (int, float))])


def _of_cycles(cycles: Sequence[CycleMeasurements]) -> Iterator[Measurement]:
    """Yield the metrics of single artifacts; the cycles of a rank are samples of one timed metric."""
    several = len({cycle.rank for cycle in cycles}) > 1
    for name in dict.fromkeys(name for cycle in cycles for name in cycle.values):
        by_subject: dict[str, list[Samples]] = {}
        for cycle in cycles:
            prefix = f"rank{cycle.rank}:" if several else ""
            for subject, value in cycle.values.get(name, ()):
                by_subject.setdefault(prefix + subject, []).append(value)
        for subject, values in by_subject.items():
            yield _measurement(name, subject, _across_cycles(METRICS[name].kind, values))


def _across_cycles(kind: Kind, values: list[Samples]) -> Samples:
    """Return all samples of the cycles of a rank; of exact numbers the mean, of lists and censuses the first."""
    samples: list[float] = []
    for one in values:
        if isinstance(one, (list, dict)):
            return values[0]
        samples += one if isinstance(one, tuple) else (one,)
    if len(values) == 1:
        return values[0]
    if kind is Kind.TIMED:
        return tuple(float(one) for one in samples)
    return samples[0] if len(set(samples)) == 1 else round(statistics.fmean(samples), 6)


def _measurement(name: str, subject: str, value: Samples) -> Measurement:
    if isinstance(value, tuple):
        # The best sample is the most repeatable one.
        best = max(value) if METRICS[name].better is Better.HIGHER else min(value)
        return Measurement(metric=name, subject=subject, value=best, samples=value)
    return Measurement(metric=name, subject=subject, value=value)


# -- communication ---------------------------------------------------------------------------------------------------


def _rank_spread(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[str, Samples]]:
    """Yield ratios of sums over the window. A large one of communication is mostly the wait for the slowest rank."""
    sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for cycle in cycles:
        if cycle.executions is not None:
            sums["operators"][cycle.rank] += float(cycle.executions.groups["self_ns"].sum())
        # The cluster's own file has subjects of other names.
        for part, samples in cycle.values.get("step_part_time", ()):
            if part in ("computing", "communication"):
                sums[part][cycle.rank] += sum(samples)
    for part, by_rank in sums.items():
        if len(by_rank) > 1 and min(by_rank.values()) > 0:
            yield part, round(max(by_rank.values()) / min(by_rank.values()), 4)


def _collective_wait(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[str, Samples]]:
    """Yield how much longer a rank's calls lasted than the shortest of the same call: that of the rank that came last."""
    for rank, kind, calls in _collectives(cycles):
        yield f"rank{rank}:{kind}", round(sum(own - least for own, least in calls) / 1e3, 3)


def _collective_transfer(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[str, Samples]]:
    """Yield the shortest duration of each call on any rank, which is the same for every rank."""
    calls_of = {kind: calls for _, kind, calls in _collectives(cycles)}
    for kind, calls in calls_of.items():
        yield kind, round(sum(least for _, least in calls) / 1e3, 3)


def _collectives(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[int, str, list[tuple[float, float]]]]:
    """Yield (rank, kind, [(own duration, shortest of the ranks)] in ns a step) if all ranks called it equally often."""
    calls: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    steps: dict[int, int] = defaultdict(int)
    for cycle in cycles:
        steps[cycle.rank] += (cycle.executions.steps if cycle.executions is not None else None) or 0
        # They are in the order of their starts: the n-th of a kind is the same call on every rank.
        if cycle.executions is not None:
            for kind, duration_ns in cycle.executions.collectives.select("operator", "duration_ns").iter_rows():
                calls[kind][cycle.rank].append(duration_ns)
    if len(set(steps.values())) != 1 or not min(steps.values(), default=0):
        return
    count = min(steps.values())
    for kind, by_rank in sorted(calls.items()):
        if by_rank.keys() != steps.keys() or len({len(durations) for durations in by_rank.values()}) > 1:
            continue
        least = [min(of_ranks) for of_ranks in zip(*by_rank.values(), strict=True)]
        for rank, durations in sorted(by_rank.items()):
            yield rank, kind, [(own / count, one / count) for own, one in zip(durations, least, strict=True)]


_OF_RANKS: dict[str, Callable[[Sequence[CycleMeasurements]], Iterator[tuple[str, Samples]]]] = {
    "rank_spread": _rank_spread,
    "collective_wait": _collective_wait,
    "collective_transfer": _collective_transfer,
}
