"""Aggregation: join the values of cycles, ranks and steps to the measurements of a recording, and compare its ranks."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from perfguard.contract import Contract
from perfguard.dialects.metric_queries import metrics_of
from perfguard.dialects.queries import COMMON
from perfguard.measure.cycles import CycleMeasurements, cycles_by_rank, measured_cycles, steps_of
from perfguard.measure.measurement import (
    ALL_RANKS,
    Better,
    Join,
    Kind,
    Measurement,
    Metric,
    Samples,
    per_step,
)
from perfguard.measure.metrics import METRICS, PARTS
from perfguard.measure.runs import OF_STEPS

#: (subject, value or samples).
_Values = Iterator[tuple[str, Samples]]


def measure(contract: Contract) -> tuple[Measurement, ...]:
    """Return every measurement that the artifacts and steps allow, ordered by metric and subject."""
    cycles = measured_cycles(contract)
    found = [_measurement(name, subject, value) for name, subject, value in _of_cycles(cycles)]
    if len({cycle.rank for cycle in cycles}) > 1:
        for name, of_ranks in _OF_RANKS.items():
            found += [_measurement(name, subject, value) for subject, value in of_ranks(cycles)]
    for name, of_steps in OF_STEPS.items():
        found += [_measurement(name, subject, value) for subject, value in of_steps(contract.recording)]
    return tuple(sorted(found, key=lambda m: m.key))


def _of_cycles(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[str, str, Samples]]:
    """Yield metric, subject and value of each rank, and of all of them together."""
    ranks = cycles_by_rank(cycles)
    known = [rank for rank, own in ranks.items() if any(one.is_known for one in own)]
    # What only these have names no rank where they are of one.
    of_what_ran = {name for query in metrics_of(COMMON) for name in query.metrics}
    for name in dict.fromkeys(name for cycle in cycles for name in cycle.values if name not in PARTS):
        metric = METRICS[name]
        several = len(known if name in of_what_ran else ranks) > 1
        of_job: dict[str, dict[int, Samples | None]] = {}
        for rank, own in ranks.items():
            for subject, value in _of_a_rank(metric, own):
                of_job.setdefault(subject, {})[rank] = value
                if value is not None:
                    yield name, f"rank{rank}:{subject}" if several else subject, value
        if several and metric.ranks is not None:
            for subject, by_rank in of_job.items():
                silent = [ranks[rank] for rank in known if rank not in by_rank]
                if metric.cycles is Join.MEDIAN_OF_ALL and not all(_has_none(metric, subject, own) for own in silent):
                    continue
                # What one rank does not know nobody knows of all.
                if None not in (values := list(by_rank.values())):
                    yield name, ALL_RANKS + subject, _joined(metric.ranks, values, None)
    for rank, own in ranks.items():
        for subject, share in _operator_share(own):
            yield "operator_share", f"rank{rank}:{subject}" if len(known) > 1 else subject, share


def _of_a_rank(metric: Metric, cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[str, Samples | None]]:
    """Yield the value of each subject over the cycles of a rank; None for one that is unknown in a cycle."""
    if metric.cycles is Join.FASTEST:
        cycles = sorted(cycles, key=_fastest_us)
    steps = steps_of(cycles)
    by_subject: dict[str, list[Samples]] = {}
    for cycle in cycles:
        for subject, value in cycle.values.get(metric.name, ()):
            by_subject.setdefault(subject, []).append(value)
    for subject, values in by_subject.items():
        without = [one for one in cycles if one.is_known and subject not in dict(one.values.get(metric.name, ()))]
        if metric.cycles is Join.MEDIAN_OF_ALL:
            values += [(0,) * (one.steps or 1) for one in without if _has_none(metric, subject, cycles, [one])]
        if _is_unknown(metric.cycles, values, sum(one.is_known for one in cycles)):
            yield subject, None
        elif metric.cycles is Join.EACH:
            yield subject, _each(metric.kind, values)
        else:
            yield subject, _joined(metric.cycles, values, steps)


def _has_none(
    metric: Metric,
    subject: str,
    cycles: Sequence[CycleMeasurements],
    without: Sequence[CycleMeasurements] | None = None,
) -> bool:
    """Whether those cycles of a rank that have not a subject are known to have none of it: all were recorded alike."""
    measured = {name for one in cycles for name in one.values}
    unknown = (name for one in without or cycles for name, _ in one.values.get(metric.unknown_with, ()))
    return metric.is_zero(subject, measured=measured, of_subjects={(metric.unknown_with, name) for name in unknown})


def _is_unknown(join: Join, values: Sequence[Samples], cycles: int) -> bool:
    """Whether what a join needs of some cycles is not all known."""
    if join is Join.MEDIAN_OF_ALL and any(isinstance(one, tuple) and None in one for one in values):
        return True
    return join in (Join.SUM, Join.MEDIAN_OF_ALL) and len(values) < cycles


def _fastest_us(cycle: CycleMeasurements) -> float:
    return min((min(samples) for _, samples in cycle.values.get("profiled_step_time", ())), default=math.inf)


def _joined(join: Join, values: Sequence[Any], steps: int | None) -> Samples:
    match join:
        case Join.SUM:
            found = sum(values)
        case Join.PER_STEP if isinstance(values[0], Mapping):
            calls = sum(map(Counter, values), Counter[str]())
            return {text: per_step(count, steps) for text, count in sorted(calls.items())}
        case Join.PER_STEP:
            found = per_step(sum(values), steps)
        case Join.LARGEST:
            found = max(values, key=lambda one: min(one) if isinstance(one, tuple) else one)
        case Join.LARGEST_BUT_FIRST:
            # Where steps are not known, each cycle is one.
            later = [
                one for at, value in enumerate(values) for one in value[at == 0 or steps is None :] if one is not None
            ]
            found = max(later or [one for value in values for one in value if one is not None], default=0)
        case Join.MEDIAN | Join.MEDIAN_OF_ALL if all(isinstance(one, (tuple, list)) for one in values):
            found = statistics.median_low([*chain.from_iterable(values)] or [0])
        case Join.MEDIAN | Join.MEDIAN_OF_ALL:
            found = per_step(sum(sum(one) if isinstance(one, (tuple, list)) else one for one in values), steps)
        case Join.UNION:
            found = sorted(set().union(*values))
        case _:
            found = values[0]
    return found  # type: ignore[no-any-return]


def _each(kind: Kind, values: Sequence[Samples]) -> Samples:
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


def _operator_share(cycles: Sequence[CycleMeasurements]) -> _Values:
    """Yield fractions of the self time of a rank that add up to 1."""
    self_ns = Counter[str]()
    for cycle in cycles:
        self_ns.update(dict(cycle.values.get("operator_self_ns", ())))
    if (total := self_ns.total()) > 0:
        yield from ((operator, round(ns / total, 6)) for operator, ns in self_ns.items())


def _measurement(name: str, subject: str, value: Samples) -> Measurement:
    if isinstance(value, tuple):
        # The best sample is the most repeatable one.
        best = max(value) if METRICS[name].better is Better.HIGHER else min(value)
        return Measurement(metric=name, subject=subject, value=best, samples=value)
    return Measurement(metric=name, subject=subject, value=value)


# -- communication ---------------------------------------------------------------------------------------------------


def _rank_spread(cycles: Sequence[CycleMeasurements]) -> _Values:
    """Yield ratios of sums over the window. A large one of communication is mostly the wait for the slowest rank."""
    sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for cycle in cycles:
        if cycle.is_known:
            sums["operators"][cycle.rank] += sum(ns for _, ns in cycle.values.get("operator_self_ns", ()))
        # The cluster's own file has subjects of other names.
        for part, samples in cycle.values.get("step_part_time", ()):
            if part in ("computing", "communication"):
                sums[part][cycle.rank] += sum(samples)
    for part, by_rank in sums.items():
        if len(by_rank) > 1 and min(by_rank.values()) > 0:
            yield part, round(max(by_rank.values()) / min(by_rank.values()), 4)


def _collective_wait(cycles: Sequence[CycleMeasurements]) -> _Values:
    """Yield how much longer a rank's calls lasted than the shortest of the same call: that of the rank that came last."""
    for rank, kind, calls in _collectives(cycles):
        yield f"rank{rank}:{kind}", round(sum(own - least for own, least in calls) / 1e3, 3)


def _collective_transfer(cycles: Sequence[CycleMeasurements]) -> _Values:
    """Yield the shortest duration of each call on any rank, which is the same for every rank."""
    calls_of = {kind: calls for _, kind, calls in _collectives(cycles)}
    for kind, calls in calls_of.items():
        yield kind, round(sum(least for _, least in calls) / 1e3, 3)


def _straggler(cycles: Sequence[CycleMeasurements]) -> _Values:
    """Yield the ranks that came last to collectives, and how long the others waited for them: the median of the others.

    A collective runs on a device until all ranks have come, so it is shortest on the one that came last: their clocks differ.
    """
    waits: dict[int, float] = defaultdict(float)
    by_kind: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(dict)
    for rank, kind, calls in _collectives(cycles):
        by_kind[kind][rank] = calls
    for by_rank in by_kind.values():
        waits |= {rank: waits[rank] for rank in by_rank}
        for of_ranks in zip(*by_rank.values(), strict=True):
            own = dict(zip(by_rank, (duration for duration, _ in of_ranks), strict=True))
            last = min(own, key=lambda rank: (own[rank], rank))
            waits[last] += statistics.median(duration for rank, duration in own.items() if rank != last) - own[last]
    yield from ((f"rank{rank}", round(wait / 1e3, 3)) for rank, wait in sorted(waits.items()))


def _collectives(cycles: Sequence[CycleMeasurements]) -> Iterator[tuple[int, str, list[tuple[float, float]]]]:
    """Yield (rank, kind, [(own duration, shortest of the ranks)] in ns a step) if all ranks called it equally often."""
    calls: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    steps: dict[int, int] = defaultdict(int)
    for cycle in cycles:
        steps[cycle.rank] += cycle.steps or 0
        # They are in the order of their starts: the n-th of a kind is the same call on every rank.
        for kind, durations_ns in cycle.values.get("collective_durations_ns", ()):
            calls[kind][cycle.rank] += durations_ns
    if len(set(steps.values())) != 1 or not min(steps.values(), default=0):
        return
    count = min(steps.values())
    for named, by_rank in sorted(calls.items()):
        kind, _, size = named.rpartition("/") if named.rpartition("/")[2].isdecimal() else (named, "", "")
        if size and int(size) < len(steps):
            # The n-th call of a group is that of other groups in nothing but its number.
            continue
        if by_rank.keys() != steps.keys() or len({len(durations) for durations in by_rank.values()}) > 1:
            continue
        least = [min(of_ranks) for of_ranks in zip(*by_rank.values(), strict=True)]
        for rank, durations in sorted(by_rank.items()):
            yield rank, kind, [(own / count, one / count) for own, one in zip(durations, least, strict=True)]


_OF_RANKS: dict[str, Callable[[Sequence[CycleMeasurements]], _Values]] = {
    "rank_spread": _rank_spread,
    "collective_wait": _collective_wait,
    "collective_transfer": _collective_transfer,
    "straggler": _straggler,
}
