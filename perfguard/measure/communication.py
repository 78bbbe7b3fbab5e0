"""Metrics of communication between ranks: functions of the cycles of all ranks that yield (subject, value)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Samples

if TYPE_CHECKING:
    from perfguard.measure.cycles import CycleMeasurements

RankMetric = Callable[[Sequence["CycleMeasurements"]], Iterator[tuple[str, Samples]]]


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


OF_RANKS: dict[str, RankMetric] = {
    "rank_spread": _rank_spread,
    "collective_wait": _collective_wait,
    "collective_transfer": _collective_transfer,
}
