"""What kernel_details says: what ran on the device, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, frame, frames
from perfguard.dialects.ascend.view import view_of
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Executions
from perfguard.dialects.groups import KEYS

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: So many rows are asked for together.
ROWS_AT_ONCE = 100_000
_SUMS = ("calls", "total_ns", "self_ns", "unfilled", "first_ns", "first_place", "last_ns", "last_place")
_Part = TypeVar("_Part")


def kernels_by_cycle(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Executions]:
    """Return what ran on the devices of each cycle, by its number; what the trace_views say is known already.

    Fills `steps`, and what follows from `kernels`. Raises `OSError` where the memory of this machine is not enough.
    """
    batch.hand_over()
    marked: dict[int, list[int]] = {cycle: [] for cycle in cycles}
    for number, step in batch.execute("select distinct cycle, step from kernels where step is not null order by all"):
        marked[number].append(step)
    edges = {cycle: marked_edges(one, marked[cycle]) for cycle, one in cycles.items()}
    for cycle, numbers in marked.items():
        if edges[cycle]:
            starts, ends = np.array(edges[cycle], np.int64).T
            batch.add(
                "steps", cycle, step=np.arange(len(numbers)), number=np.array(numbers, np.int64),
                thread=np.full(len(numbers), NULL), start_ns=starts, end_ns=ends,
            )  # fmt: skip
    groups = _groups(batch, marked)
    covered = covered_sums(batch, edges)
    return {
        cycle: Executions(
            groups=groups[cycle],
            covered=covered[cycle],
            steps=len(numbers) or None,
            by_step=bool(numbers) and groups[cycle]["step"].null_count() == 0,
            step_numbers=tuple(numbers),
            edges_ns=edges[cycle],
            marks_steps=bool(numbers),
            on_device=True,
        )
        for cycle, numbers in marked.items()
    }


def marked_edges(cycle: Cycle, numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return start and end of the host's steps as trace_view marks them (ProfilerStep#N); empty where it marks others."""
    trace = cycle.content("trace_view")
    if trace is None:
        return ()
    marks = [(mark.number, mark.span_ns) for mark in view_of(trace).step_marks if mark.number is not None]
    spans = [span for _, span in marks if span is not None]
    if sorted(number for number, _ in marks) != list(numbers) or len(spans) < len(marks):
        return ()
    return tuple(sorted(spans))


def _groups(batch: Batch, marked: Mapping[int, Sequence[int]]) -> dict[int, pl.DataFrame]:
    """Return kernels added up, as `groups.aggregated` has them."""
    import polars as pl

    operators = _in_parts(batch, "kernel_operators", lambda query: [frame(batch, query)])
    sums = _in_parts(batch, "kernel_sums", lambda query: [frames(batch, f"{query} order by cycle", marked)])
    texts = pl.Series("text", batch.texts, dtype=pl.String)
    # Level 0 has types of collectives only, so that two types may be one operator.
    named = pl.concat(operators).select("type", "name", "operator")
    are_apart = not named.select("name", "operator").is_duplicated().any()
    schema = {"number": pl.Int64, "step": pl.Int64}
    found = {}
    for cycle, numbers in marked.items():
        steps = pl.DataFrame([*zip(numbers, range(len(numbers)), strict=True)], schema=schema, orient="row")
        rows = (
            pl.concat(part[cycle] for part in sums)
            .join(named, on=["type", "name"])
            .join(steps, on="number", how="left")
        )
        if not are_apart:
            rows = _added(rows)
        words = {name: texts.gather(rows[name]).alias(name) for name in ("name", "shapes")}
        found[cycle] = (
            rows.with_columns(self_ns="total_ns", **words)
            .select(*KEYS, *_SUMS)
            .sort("first_ns", "first_place", *KEYS)
        )  # fmt: skip
    return found


def _added(rows: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return rows.group_by("operator", "name", "step", "shapes").agg(
        pl.col("calls", "total_ns", "unfilled").sum(),
        pl.col("first_ns").min(),
        pl.col("first_place").sort_by("first_ns").first(),
        pl.col("last_ns").max(),
        pl.col("last_place").sort_by("last_ns").last(),
    )


def _in_parts(batch: Batch, table: str, ask: Callable[[str], list[_Part]]) -> list[_Part]:
    """Ask for the rows of a table in parts: what a query returns lies in the memory of the tables as a whole."""
    # Rows of a batch before may have had the first numbers.
    ((first, last),) = batch.execute(f"select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from {table}")
    if last - first < ROWS_AT_ONCE:
        return ask(f"from {table}")
    parts = (f"rowid between {one} and {one + ROWS_AT_ONCE - 1}" for one in range(first, last + 1, ROWS_AT_ONCE))
    return [found for part in parts for found in ask(f"from {table} where {part}")]
