"""Kernels of kernel_details: the executions on a device, added up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, frame, frames
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Executions
from perfguard.dialects.groups import KEYS

if TYPE_CHECKING:
    import polars as pl

#: The number of rows that a query returns at once.
ROWS_AT_ONCE = 100_000
_SUMS = ("calls", "total_ns", "self_ns", "unfilled", "first_ns", "first_place", "last_ns", "last_place")
_Part = TypeVar("_Part")


#: Start and end [ns] of each step.
Edges = tuple[tuple[int, int], ...]


def kernels_by_cycle(batch: Batch, cycles: Sequence[int]) -> dict[int, Executions]:
    """Return the executions on the devices of each cycle, by its number.

    Fills the table `steps`, and those that follow from `kernels`. Raises `OSError` if the memory of this machine is not enough.
    """
    batch.hand_over()
    marked: dict[int, list[int]] = {cycle: [] for cycle in cycles}
    for number, step in batch.execute("select distinct cycle, step from kernels where step is not null order by all"):
        marked[number].append(step)
    edges = _step_edges(batch, marked)
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


def _step_edges(batch: Batch, marked: Mapping[int, Sequence[int]]) -> dict[int, Edges]:
    """Return the host's steps as trace_view marks them (ProfilerStep#N); empty where it marks other steps than kernels name."""
    found: dict[int, list[tuple[int, int | None, int | None]]] = {cycle: [] for cycle in marked}
    for cycle, label, start_ns, duration_ns in batch.execute(
        "select cycle, label, start_ns, duration_ns from view_step_marks order by cycle, row"
    ):
        if cycle in found and re.fullmatch(r"[0-9]{1,18}", label):
            found[cycle].append((int(label), start_ns, duration_ns))
    return {cycle: _edges_of(found[cycle], numbers) for cycle, numbers in marked.items()}


def _edges_of(marks: Sequence[tuple[int, int | None, int | None]], numbers: Sequence[int]) -> Edges:
    spans = [(start, start + lasts) for _, start, lasts in marks if start is not None and lasts is not None]
    if sorted(number for number, _, _ in marks) != list(numbers) or len(spans) < len(marks):
        return ()
    return tuple(sorted(spans))


def _groups(batch: Batch, marked: Mapping[int, Sequence[int]]) -> dict[int, pl.DataFrame]:
    """Return kernels added up, with the columns of `groups.aggregated`."""
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
    """Query the rows of a table in parts: the result of a query is in the memory of the tables as a whole."""
    # Rows of an earlier batch may have had the first numbers.
    ((first, last),) = batch.execute(f"select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from {table}")
    if last - first < ROWS_AT_ONCE:
        return ask(f"from {table}")
    parts = (f"rowid between {one} and {one + ROWS_AT_ONCE - 1}" for one in range(first, last + 1, ROWS_AT_ONCE))
    return [found for part in parts for found in ask(f"from {table} where {part}")]
