"""Kernels of kernel_details: the executions on a device, added up."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Executions

if TYPE_CHECKING:
    import polars as pl

#: The number of rows that a query returns at once.
ROWS_AT_ONCE = 100_000
#: Start and end [ns] of each step.
Edges = tuple[tuple[int, int], ...]


def kernels_by_cycle(batch: Batch, cycles: Sequence[int]) -> dict[int, Executions]:
    """Return the executions on the devices of each cycle, by its number.

    Fills the table `steps`, and those that follow from `kernels`. Raises `OSError` if the memory of this machine is not enough.
    """
    if not cycles:
        return {}
    marked: dict[int, list[int]] = {cycle: [] for cycle in cycles}
    batch.hand_over()
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


def _groups(batch: Batch, cycles: Collection[int]) -> dict[int, pl.DataFrame]:
    """Return kernels added up, as `Executions.groups` has them."""
    import polars as pl

    # In parts: the result of a query is in memory as a whole. Rows of an earlier batch may have had the first numbers.
    ((first, last),) = batch.execute("select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from kernel_groups")
    parts = [
        frames(
            batch, f"from kernel_groups where rowid between {one} and {one + ROWS_AT_ONCE - 1} order by cycle", cycles
        )
        for one in range(first, last + 1, ROWS_AT_ONCE)
    ]
    texts = pl.Series("text", batch.texts, dtype=pl.String)
    groups = {}
    for cycle in cycles:
        rows = pl.concat(part[cycle] for part in parts)
        words = {name: texts.gather(rows[name]) for name in ("name", "shapes")}
        groups[cycle] = rows.with_columns(**words).sort("first_ns", "first_place", "operator", "name", "step", "shapes")
    return groups
