"""Executions: which operators ran how often and how long, in which step; one value (`cycle.Executions`), whatever wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
