"""Totals: what Python needs of the rows of a file, computed from the tables while they exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from perfguard.dialects.memory import component_levels, pool_levels

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch


def _rows_by_cycle(tables: Batch, cycles: Sequence[int], *, view: str) -> Mapping[int, tuple[tuple[Any, ...], ...]]:
    """Return the rows of a view by cycle, without `cycle`, which is its first column."""
    found: dict[int, list[tuple[Any, ...]]] = {cycle: [] for cycle in cycles}
    for cycle, *row in tables.execute(f"from {view}"):
        found[cycle].append(tuple(row))
    return {cycle: tuple(rows) for cycle, rows in found.items()}


#: By slot, a function of the tables and the numbers of cycles with such a file; it returns the totals of each cycle.
TOTALS: Mapping[str, Callable[[Batch, Sequence[int]], Mapping[int, Any]]] = {
    "memory_record": component_levels,
    "cpu_ms_memory_record": pool_levels,
    "api_statistic": partial(_rows_by_cycle, view="api_times"),
    "aicore_intermediate_type": partial(_rows_by_cycle, view="type_times"),
}
