"""Metrics of the timeline of a profiled step: its duration, the order of its operators, and its idle time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from perfguard.dialects.collectives import COLLECTIVE
from perfguard.measure.measurement import Samples
from perfguard.measure.profile_metrics import ProfileMetric

if TYPE_CHECKING:
    from perfguard.measure.profile import Profile


def profiled_step_time(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield a sample a step: from the profiler's files, else from perfguard's own clock."""
    if profile.step_ns:
        yield "", tuple(ns / 1e3 for ns in profile.step_ns)


def operator_position(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield positions from 0, in the most frequent order of the steps; operators of other steps follow."""
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


def profiled_step_part(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield parts such that the step is the self time of all operators but collectives - overlap + communication + idle."""
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


OF_PROFILE: dict[str, ProfileMetric] = {
    "profiled_step_time": profiled_step_time,
    "operator_position": operator_position,
    "profiled_step_part": profiled_step_part,
}
