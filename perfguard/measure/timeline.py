"""The timeline of a profiled step: how long it took, in which order its operators began, and when none of them ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from perfguard.measure.collectives import COLLECTIVE
from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, metric, shown

if TYPE_CHECKING:
    import polars as pl

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
    firsts = profile.executions.drop_nulls("start_ns").sort("start_ns", maintain_order=True)
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

    executions = profile.executions
    if not profile.edges_ns or executions["step"].null_count() or not profile.is_timeline:
        return
    start, end = min(profile.edges_ns, key=lambda edges: edges[1] - edges[0])
    step = profile.edges_ns.index((start, end))
    inside = executions.filter(pl.col("step") == step)
    is_collective = pl.col("operator").str.contains(COLLECTIVE.pattern)
    operators, collectives = inside.filter(~is_collective), inside.filter(is_collective)
    collectives = pl.concat([frame.select("start_ns", "duration_ns") for frame in (collectives, profile.collectives)])
    busy = _covered_ns(operators, start, end)
    either = _covered_ns(pl.concat([operators.select("start_ns", "duration_ns"), collectives]), start, end)
    yield "idle", (end - start - either) / 1e3
    yield "overlap", (int(operators["self_ns"].sum()) - busy) / 1e3
    if _covered_ns(collectives, start, end):
        yield "communication", (either - busy) / 1e3


def _covered_ns(frame: pl.DataFrame, start: int, end: int) -> int:
    """Return how much of the time from `start` to `end` any of the executions runs."""
    import polars as pl

    spans = (
        frame.select(
            begin=pl.col("start_ns").clip(start, end), end=(pl.col("start_ns") + pl.col("duration_ns")).clip(start, end)
        )
        .drop_nulls()
        .sort("begin")
        .with_columns(before=pl.col("end").cum_max().shift(1).fill_null(start))
    )
    alone = pl.col("end") - pl.max_horizontal("begin", "before")
    return int(spans.select(alone.clip(0).sum()).item())
