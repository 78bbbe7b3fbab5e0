"""Communication: what collectives and links did, per rank, and how far the ranks are apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, queried_metric, ranked_metric, shown

if TYPE_CHECKING:
    from perfguard.measure.taking import Taking

queried_metric(
    Metric(
        name="communication_calls",
        unit="calls/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How often a collective or a send ran in a step.",
    )
)
queried_metric(
    shown("communication_time", "us/step", "Time of a kind of collective in a step, from its start to its end.")
)
queried_metric(shown("communication_wait", "us/step", "How much of it a rank waited for the others."))
queried_metric(
    Metric(
        name="communication_size",
        unit="MB/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How much went over a kind of link (HCCS, RDMA, PCIE, SDMA) in a step.",
    )
)
queried_metric(shown("communication_bandwidth", "GB/s", "Size over time of a kind of link.", better=Better.HIGHER))
queried_metric(
    shown(
        "step_part_time", "us", "Parts of a step on the device: computing, communication, overlapped, free, bubble, ..."
    )
)


@ranked_metric(
    shown("rank_spread", "ratio", "Slowest rank over fastest rank: of operators, computing and communication.")
)
def rank_spread(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """Sums over the window. A large spread of communication is mostly waiting for the rank that computes longest."""
    sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for taking in takings:
        if taking.executions is not None:
            sums["operators"][taking.rank] += float(taking.executions.groups["self_ns"].sum())
        # Parts of the cluster's own file are subjects of other names.
        for part, samples in taking.values.get("step_part_time", ()):
            if part in ("computing", "communication"):
                sums[part][taking.rank] += sum(samples)
    for part, by_rank in sums.items():
        if len(by_rank) > 1 and min(by_rank.values()) > 0:
            yield part, round(max(by_rank.values()) / min(by_rank.values()), 4)


@ranked_metric(shown("collective_wait", "us/step", "How long a rank waited for the last one to come to a collective."))
def collective_wait(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """What a rank's call lasted beyond the shortest of the same call on any rank, whose rank came last and waited for none."""
    for rank, kind, calls in _collectives(takings):
        yield f"rank{rank}:{kind}", round(sum(own - least for own, least in calls) / 1e3, 3)


@ranked_metric(shown("collective_transfer", "us/step", "How long a collective took once all ranks had come."))
def collective_transfer(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """The shortest duration of each call on any rank. It is the same for every rank."""
    told = set()
    for _, kind, calls in _collectives(takings):
        if kind not in told:
            told.add(kind)
            yield kind, round(sum(least for _, least in calls) / 1e3, 3)


def _collectives(takings: Sequence[Taking]) -> Iterator[tuple[int, str, list[tuple[float, float]]]]:
    """Yield (rank, kind, [(own duration, shortest of the ranks)] in ns a step) where all ranks called it equally often."""
    calls: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    steps: dict[int, int] = defaultdict(int)
    for taking in takings:
        steps[taking.rank] += (taking.executions.steps if taking.executions is not None else None) or 0
        # In the order of their starts: the n-th of a kind is the same call on every rank.
        if taking.executions is not None:
            for kind, duration_ns in taking.executions.collectives.select("operator", "duration_ns").iter_rows():
                calls[kind][taking.rank].append(duration_ns)
    if len(set(steps.values())) != 1 or not min(steps.values(), default=0):
        return
    count = min(steps.values())
    for kind, by_rank in sorted(calls.items()):
        if by_rank.keys() != steps.keys() or len({len(durations) for durations in by_rank.values()}) > 1:
            continue
        least = [min(of_ranks) for of_ranks in zip(*by_rank.values(), strict=True)]
        for rank, durations in sorted(by_rank.items()):
            yield rank, kind, [(own / count, one / count) for own, one in zip(durations, least, strict=True)]
