"""Coverage: how much of each step its executions run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import in_int64
from perfguard.dialects.collectives import COLLECTIVE

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.tables import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Of one step, in ns: in how much of it operators ran that are no collectives, collectives ran, any of the two ran."""

    operators_ns: int = 0
    collectives_ns: int = 0
    either_ns: int = 0


def covered_sums(batch: Batch, edges: Mapping[int, Sequence[Any]]) -> dict[int, tuple[Covered, ...]]:
    """Return what covers each step of the cycles in the tables, by their numbers; `edges` has an entry a step."""
    rows = batch.execute("from covered_sums") if any(edges.values()) else []
    covered_by = {(cycle, step, part): covered for cycle, step, part, covered in rows}
    return {
        cycle: tuple(
            Covered(
                operators_ns=(operators := covered_by.get((cycle, step, 0), 0)),
                collectives_ns=covered_by.get((cycle, step, 1), 0),
                either_ns=covered_by.get((cycle, step, 2), operators),
            )
            for step in range(len(steps))
        )
        for cycle, steps in edges.items()
    }


def covered_steps(rows: pl.DataFrame, edges_ns: Sequence[tuple[int, int]]) -> tuple[Covered, ...]:
    """Return what covers each step, from executions in any order (`operator`, `step`, `start_ns`, `duration_ns`).

    A step is from `edges_ns[i][0]` to `edges_ns[i][1]`, executions are cut at its edges. One without an operator, a step or a
    time covers nothing.
    """
    import polars as pl

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
    import polars as pl

    reached = pl.col("stop").cum_max().shift(1).over("step").fill_null(pl.col("begin"))
    alone = spans.select("step", alone=pl.col("stop") - pl.max_horizontal("begin", reached))
    return dict(alone.filter(pl.col("alone") > 0).group_by("step").agg(pl.col("alone").sum()).iter_rows())
