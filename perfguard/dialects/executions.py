"""Executions: which operators ran how often and how long, in which step; one value (`cycle.Executions`), whatever wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.tables import Batch, by_cycle, frame
from perfguard.dialects.cycle import no_groups

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
#: Columns that often have the same value in all rows.
_OFTEN_SINGLE = ("cycle", "shapes")
#: The number of rows that a query returns at once.
ROWS_AT_ONCE = 40_000


def groups_of(batch: Batch, table: str, cycles: Collection[int]) -> dict[int, pl.DataFrame]:
    """Return the rows of a table of sums by cycle, as `Executions.groups` has them, in the order of the table; codes are texts.

    In several queries where there are many rows, because the result of one is in memory as a whole.
    """
    import polars as pl

    # Rows of an earlier batch may have had the first numbers.
    ((first, last),) = batch.execute(f"select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from {table}")
    columns = f"cycle, {', '.join(no_groups().columns)}"
    wheres = [f"rowid between {one} and {one + ROWS_AT_ONCE - 1}" for one in range(first, last + 1, ROWS_AT_ONCE)]
    parts = [
        _shortened(frame(batch, f"select {columns} from {table} where {where} order by rowid")) for where in wheres
    ]
    texts = pl.Series("text", batch.texts, dtype=pl.String)
    # Each part by itself, since columns that are split at different rows would be copied.
    by_part = [by_cycle(in_words(parts.pop(0), texts), cycles) for _ in range(len(parts))]
    return {cycle: pl.concat(part[cycle] for part in by_part) for cycle in cycles}


def _shortened(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows in fewer bytes: short codes, and a single value of a whole column only once."""
    import polars as pl

    codes = (pl.col(key).cast(pl.UInt32) for key in _TEXTS if rows.schema[key] == pl.Int64)
    rows = rows.with_columns(pl.col("step").cast(pl.Int32), *codes)
    single = {key: rows[key].unique() for key in _OFTEN_SINGLE}
    return rows.with_columns(
        pl.lit(one.first()).cast(one.dtype).alias(key) for key, one in single.items() if len(one) == 1
    )


def in_words(rows: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return rows with texts in place of codes, where they have such columns; equal columns are one."""
    import polars as pl

    coded = [key for key in _TEXTS if key in rows.columns and rows.schema[key].is_integer()]
    words = {key: texts.gather(rows[key]) for key in coded if rows[key].null_count() < rows.height}
    if {"operator", "name"} <= words.keys() and rows["name"].equals(rows["operator"]):
        words["name"] = words["operator"]
    none = pl.lit(None, pl.String)
    return rows.with_columns(words.get(key, none).alias(key) for key in coded)


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
