"""Groups: executions added up by operator, name, step and shapes, so that what is kept does not grow with their number.

Rows are executions one by one. Their columns are `operator` (type or name that metrics speak of), `name` (the most precise
name the profiler has), `step` (number inside the cycle, null if the execution is in none), `start_ns`, `duration_ns`,
`self_ns` (without the operators inside it) and `shapes` (text, null where not recorded with the execution). One more may be
there: `calls`, how many executions with these numbers a row represents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: What makes two executions one group.
KEYS = ("operator", "name", "step", "shapes")


def aggregated(rows: pl.DataFrame) -> pl.DataFrame:
    """Add rows up into groups, in the order of their first calls.

    The columns of a group are KEYS and `calls`, `total_ns` and `self_ns` (sums), `unfilled` (calls that begin at 0 and last 0),
    `first_ns` and `last_ns` (the earliest and the latest start, null where no start is known) with the places of their rows,
    `first_place` and `last_place`; all Int64.
    """
    import polars as pl

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
