"""Groups: executions added up by operator, name, step and shapes, so that what is kept does not grow with their number.

Rows are executions one by one. Their columns are `operator` (type or name that metrics speak of), `name` (the most precise
name the profiler has), `step` (number inside the cycle, null when the execution lies in none), `start_ns`, `duration_ns`,
`self_ns` (without the operators inside it) and `shapes` (text, null where not recorded with the execution). Two more may be
there: `calls`, how many executions with these numbers a row stands for, and `place`.

`place` orders what begins in the same nanosecond: of two such rows the one with the lower place is the earlier one. It is
compared between parts as well, so parts must not count it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: What makes two executions one group.
KEYS = ("operator", "name", "step", "shapes")


def aggregated(rows: pl.DataFrame, *, first_place: int = 0) -> pl.DataFrame:
    """Add rows up into groups, in the order of their first calls.

    Without a column `place` the rows stand in order, the first of them at `first_place`. The columns of a group are KEYS and
    `calls`, `total_ns` and `self_ns` (sums), `unfilled` (calls that begin at 0 and last 0), `first_ns` and `last_ns` (the
    earliest and the latest start, null where no start is known) with their places `first_place` and `last_place`; all Int64.
    """
    import polars as pl

    # The usual case: rows in the order of their starts, so the first of a group is its first.
    in_order = "place" not in rows.columns and rows["start_ns"].null_count() == 0 and rows["start_ns"].is_sorted()
    if "calls" not in rows.columns:
        rows = rows.with_columns(calls=pl.lit(1, dtype=pl.Int64))
    if "place" not in rows.columns:
        rows = rows.with_columns(place=pl.int_range(first_place, first_place + rows.height, dtype=pl.Int64))
    start, duration, calls = pl.col("start_ns"), pl.col("duration_ns"), pl.col("calls")
    return _grouped(
        rows.filter(calls > 0),
        total_ns=duration * calls,
        self_ns=pl.col("self_ns") * calls,
        unfilled=calls.filter((start == 0) & (duration == 0)),
        first=(start, pl.col("place")),
        last=(start, pl.col("place")),
        in_order=in_order,
    )


def merged(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the groups of all rows from the groups of parts of them; how the rows were divided does not matter.

    Raises `ValueError` for no parts.
    """
    import polars as pl

    return _grouped(
        pl.concat(list(parts)),
        total_ns=pl.col("total_ns"),
        self_ns=pl.col("self_ns"),
        unfilled=pl.col("unfilled"),
        first=(pl.col("first_ns"), pl.col("first_place")),
        last=(pl.col("last_ns"), pl.col("last_place")),
    )


def _grouped(
    frame: pl.DataFrame,
    *,
    total_ns: pl.Expr,
    self_ns: pl.Expr,
    unfilled: pl.Expr,
    first: tuple[pl.Expr, pl.Expr],
    last: tuple[pl.Expr, pl.Expr],
    in_order: bool = False,
) -> pl.DataFrame:
    import polars as pl

    (first_ns, first_place), (last_ns, last_place) = first, last
    # A place without a start is none. (Sorting a group costs a seventh of filtering it by its own minimum.)
    first_place, last_place = (pl.when(ns.is_not_null()).then(place) for ns, place in (first, last))
    groups = frame.group_by(KEYS).agg(
        pl.col("calls").sum(),
        total_ns=total_ns.sum(),
        self_ns=self_ns.sum(),
        unfilled=unfilled.sum(),
        first_ns=first_ns.min(),
        first_place=(first_place if in_order else first_place.sort_by(first_ns, first_place, nulls_last=True)).first(),
        last_ns=last_ns.max(),
        last_place=(last_place if in_order else last_place.sort_by(last_ns, last_place, nulls_last=False)).last(),
    )
    return groups.sort("first_ns", "first_place", *KEYS)
