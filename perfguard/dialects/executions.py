"""Executions: which operators ran how often and how long, in which step; one value (`cycle.Executions`), whatever wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.tables import Batch, by_cycle, frame

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Requested


def calls_by(groups: pl.DataFrame, column: str) -> Counter[str]:
    """Return how often each operator (or name: what the column holds) ran, from groups or any rows with `calls`."""
    import polars as pl

    if groups.is_empty():
        return Counter()
    return Counter(dict(groups.group_by(column, maintain_order=True).agg(pl.col("calls").sum()).iter_rows()))


#: Columns of groups that are texts; in the tables they may be codes.
_TEXTS = ("operator", "name", "shapes")
#: The columns by which groups are ordered. The rows of a query for some steps follow those of a query for earlier ones.
_ORDER = ("cycle", "step", "first_ns", "first_place", *_TEXTS)
#: Columns that often have the same value in all rows.
_OFTEN_SINGLE = ("cycle", "shapes", "unfilled", "last_ns", "last_place")


def groups_of(batch: Batch, queries: Sequence[str], cycles: Collection[int]) -> dict[int, pl.DataFrame]:
    """Return the rows of some queries by cycle, as `Executions.groups` has them; codes are texts.

    In several queries where there are many rows, because the result of one is in memory as a whole.
    """
    import polars as pl

    order = ", ".join(f"{key} nulls first" for key in _ORDER)
    found = (frame(batch, f"from ({query}) order by {order}") for query in queries)
    parts = [_shortened(part) if len(queries) > 1 else part for part in found]
    # A single value stays one only where parts without rows are left out.
    parts = [part for part in parts if not part.is_empty()] or parts[:1]
    if not _follow_each_other(parts):
        parts = [_shortened(_ordered(parts))]
    texts = pl.Series("text", batch.texts, dtype=pl.String)
    # Each part by itself, since columns that are split at different rows would be copied.
    by_part = [by_cycle(_with_texts(parts.pop(0), texts), cycles) for _ in range(len(parts))]
    return {cycle: pl.concat(part[cycle] for part in by_part) for cycle in cycles}


def _shortened(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows in fewer bytes: short codes, and a single value of a whole column only once."""
    import polars as pl

    rows = rows.with_columns(pl.col(key).cast(pl.UInt32) for key in _TEXTS if rows.schema[key] == pl.Int64)
    single = {key: rows[key].unique() for key in _OFTEN_SINGLE}
    return rows.with_columns(
        pl.lit(one.first()).cast(one.dtype).alias(key) for key, one in single.items() if len(one) == 1
    )


def _with_texts(rows: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return the rows with texts in place of codes; equal columns are one."""
    import polars as pl

    coded = [key for key in _TEXTS if rows.schema[key].is_integer()]
    words = {key: texts.gather(rows[key]) for key in coded if rows[key].null_count() < rows.height}
    if "name" in words and rows["name"].equals(rows["operator"]):
        words["name"] = words["operator"]
    none = pl.lit(None, pl.String)
    return rows.with_columns(pl.col("step").cast(pl.Int32), *(words.get(key, none).alias(key) for key in coded))


def _ordered(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all parts in their order; empties the list, so that each column is released once it is ordered."""
    import polars as pl

    rows = pl.concat(parts)
    parts.clear()
    # By codes and column by column: a sort of all columns, texts among its keys, would need several times the memory.
    order = rows.select(pl.arg_sort_by(_ORDER)).to_series()
    columns = rows.get_columns()
    del rows
    return pl.DataFrame([columns.pop(0).gather(order) for _ in range(len(columns))])


def _follow_each_other(parts: Sequence[pl.DataFrame]) -> bool:
    """Whether no row of a part is before one of an earlier part; each part is ordered, and has rows."""
    if len(parts) == 1:
        return True
    rows = (keys.row(place) for part in parts for keys in [part.select(_ORDER)] for place in (0, -1))
    ends = [[(value is not None, value) for value in row] for row in rows]
    return all(one <= other for one, other in pairwise(ends))


def marks_of_steps(marks: pl.DataFrame, requested: Requested, header: Any) -> pl.DataFrame:
    """Return the marks that turned out to be of steps, numbered anew.

    While a whole run is recorded it is unknown whether a call belongs to a step or to an evaluation before the first one,
    and a mark cannot be taken back. steps.json says which were steps, in UNIX time; so does the trace, from its base on.
    """
    import polars as pl

    base = header.get("baseTimeNanoseconds", 0) if isinstance(header, Mapping) else 0
    steps = sorted((step.start_ns - base, step.end_ns - base) for step in requested.steps)
    began = marks["start_ns"].to_list()
    of_step = [number is not None for number in step_of(began, steps)]
    kept = marks.filter(pl.Series(of_step, dtype=pl.Boolean))
    return kept.with_columns(number=pl.int_range(kept.height, dtype=pl.Int64))


def step_of(start_ns: Sequence[int], edges_ns: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the number of the step that contains each time, None for a time in none. Edges are in order and closed."""
    from bisect import bisect_right

    starts = [start for start, _ in edges_ns]
    found = []
    for time in start_ns:
        step = bisect_right(starts, time) - 1
        found.append(step if step >= 0 and time <= edges_ns[step][1] else None)
    return found


def infer_steps(counts: Counter[str]) -> int | None:
    """Infer how many steps a window had from how often each operator ran, or None when the counts do not say.

    The number that divides most operators' counts, the largest of several; it must explain at least half of them, or
    the window may as well have had one step.
    """
    if not counts:
        return None
    candidates = {count for count in counts.values() if count > 1}
    support = {n: sum(count % n == 0 for count in counts.values()) for n in candidates}
    if not support:
        return None
    best = max(support, key=lambda n: (support[n], n))
    return best if 2 * support[best] >= len(counts) else None
