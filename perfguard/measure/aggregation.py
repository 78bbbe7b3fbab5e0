"""Aggregation: join the values of cycles, ranks and steps to the measurements of a recording."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from perfguard.measure import communication, profile_metrics, steps, timeline
from perfguard.measure.cycles import CycleMeasurements, measure_cycle, stored_measurements
from perfguard.measure.measurement import ALL_RANKS, Better, Kind, Measurement, Samples
from perfguard.measure.metrics import METRICS

if TYPE_CHECKING:
    from perfguard.contract import Contract

_OF_PROFILE = {**profile_metrics.OF_PROFILE, **timeline.OF_PROFILE}
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
    from perfguard.measure.profile import profiles_of

    cycles = [measure_cycle(cycle) for cycle in contract.cycles] if contract.cycles else stored_measurements(contract)
    profiles = profiles_of(cycles)
    found = []
    for name, of_profile in _OF_PROFILE.items():
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
        for name, of_ranks in communication.OF_RANKS.items():
            found += [_measurement(name, subject, value) for subject, value in of_ranks(cycles)]
    for name, of_steps in steps.OF_STEPS.items():
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
