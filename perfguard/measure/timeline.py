"""The timeline of a profiled step: how long it took, in which order its operators began, and when none of them ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from perfguard.dialects.collectives import COLLECTIVE
from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, metric, shown

if TYPE_CHECKING:
    from perfguard.measure.profile import Profile


@metric(shown("profiled_step_time", "us", "Wall time of a profiled step; the minimum of the steps."))
def profiled_step_time(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """A sample a step: its edges in the profiler's files, else perfguard's own clock."""
    if profile.step_ns:
        yield "", tuple(ns / 1e3 for ns in profile.step_ns)


@metric(
    Metric(
        name="operator_position",
        unit="place",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        gated=False,
        meaning="How many other operators began before an operator's first call in a step.",
    )
)
def operator_position(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """From 0, in the order that most steps have; operators of other steps only come after."""
    import polars as pl

    if not profile.is_timeline:
        return
    firsts = profile.groups.drop_nulls("first_ns").sort("first_ns", "cycle", "first_place")
    firsts = firsts.with_columns(pl.col("step").fill_null(0)).unique(
        ["step", "operator"], keep="first", maintain_order=True
    )
    by_step = firsts.group_by("step", maintain_order=True).agg("operator")
    counted = Counter(map(tuple, by_step["operator"].to_list()))
    orders = sorted(counted, key=lambda order: (-counted[order], order))
    yield from ((operator, place) for place, operator in enumerate(dict.fromkeys(chain.from_iterable(orders))))


@metric(
    shown(
        "profiled_step_part",
        "us",
        "Parts of the fastest profiled step: in which no operator ran (idle), in which only collectives ran "
        "(communication), and by how much the others ran beside each other (overlap).",
        better=Better.EQUAL,
    )
)
def profiled_step_part(profile: Profile) -> Iterator[tuple[str, Measured]]:
    """With the own time of the operators that are no collectives, the step is: their sum - overlap + communication + idle."""
    import polars as pl

    groups = profile.groups
    if not profile.edges_ns or groups["step"].null_count() or not profile.is_timeline:
        return
    start, end = min(profile.edges_ns, key=lambda edges: edges[1] - edges[0])
    step = profile.edges_ns.index((start, end))
    covered = profile.covered[step]
    operators = groups.filter((pl.col("step") == step) & ~pl.col("operator").str.contains(COLLECTIVE.pattern))
    yield "idle", (end - start - covered.either_ns) / 1e3
    yield "overlap", (int(operators["self_ns"].sum()) - covered.operators_ns) / 1e3
    if covered.collectives_ns:
        yield "communication", (covered.either_ns - covered.operators_ns) / 1e3
