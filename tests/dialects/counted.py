"""A second count of what the queries add up: executions one by one, as polars sees them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perfguard.artifacts.table import in_int64
from perfguard.dialects.collectives import COLLECTIVE
from perfguard.dialects.coverage import Covered

#: What makes two executions one group.
KEYS = ("operator", "name", "step", "shapes")


def aggregated(rows: pl.DataFrame) -> pl.DataFrame:
    """Add rows up into groups, in the order of their first calls.

    The columns of a group are KEYS and `calls`, `total_ns` and `self_ns` (sums), `unfilled` (calls that begin at 0 and last 0),
    `first_ns` and `last_ns` (the earliest and the latest start, null where no start is known) with the places of their rows,
    `first_place` and `last_place`; all Int64.
    """
    if "calls" not in rows.columns:
        rows = rows.with_columns(calls=pl.lit(1, dtype=pl.Int64))
    start, duration, calls = pl.col("start_ns"), pl.col("duration_ns"), pl.col("calls")
    # A place without a start is none. Of two that begin together the one before is the earlier one.
    place = pl.when(start.is_not_null()).then(pl.col("place"))
    groups = (
        rows.with_columns(place=pl.int_range(rows.height, dtype=pl.Int64))
        .filter(calls > 0)
        .group_by(KEYS)
        .agg(
            calls.sum(),
            total_ns=(duration * calls).sum(),
            self_ns=(pl.col("self_ns") * calls).sum(),
            unfilled=calls.filter((start == 0) & (duration == 0)).sum(),
            first_ns=start.min(),
            first_place=place.sort_by(start, place, nulls_last=True).first(),
            last_ns=start.max(),
            last_place=place.sort_by(start, place, nulls_last=False).last(),
        )
    )
    return groups.sort("first_ns", "first_place", *KEYS)


def covered_steps(rows: pl.DataFrame, edges_ns: Sequence[tuple[int, int]]) -> tuple[Covered, ...]:
    """Return what covers each step, from executions in any order (`operator`, `step`, `start_ns`, `duration_ns`).

    A step is from `edges_ns[i][0]` to `edges_ns[i][1]`, executions are cut at its edges. One without an operator, a step or a
    time covers nothing.
    """
    if not edges_ns:
        return ()
    numbered = [(step, in_int64(low), in_int64(high)) for step, (low, high) in enumerate(edges_ns)]
    steps = pl.DataFrame(numbered, schema=dict.fromkeys(("step", "low", "high"), pl.Int64), orient="row")
    ran = rows.select("operator", "step", "start_ns", "duration_ns").drop_nulls().join(steps, on="step")
    cut = ran.select(
        "step",
        is_collective=pl.col("operator").str.contains(COLLECTIVE.pattern),
        begin=pl.col("start_ns").clip("low", "high"),
        stop=(pl.col("start_ns") + pl.col("duration_ns")).clip("low", "high"),
    ).sort("begin")
    parts = (~pl.col("is_collective"), pl.col("is_collective"), pl.lit(True))
    operators, collectives, either = (_covered(cut.filter(part)) for part in parts)
    return tuple(
        Covered(
            operators_ns=operators.get(step, 0), collectives_ns=collectives.get(step, 0), either_ns=either.get(step, 0)
        )
        for step in range(len(edges_ns))
    )


def _covered(spans: pl.DataFrame) -> dict[int, int]:
    """Return how much of each step spans cover that come in the order of their begins."""
    reached = pl.col("stop").cum_max().shift(1).over("step").fill_null(pl.col("begin"))
    alone = spans.select("step", alone=pl.col("stop") - pl.max_horizontal("begin", reached))
    return dict(alone.filter(pl.col("alone") > 0).group_by("step").agg(pl.col("alone").sum()).iter_rows())
