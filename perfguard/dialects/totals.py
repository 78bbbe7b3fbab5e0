"""Totals: what rules and metrics in Python need of the rows of a file, read from the tables while they exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from perfguard.dialects.memory import recorded_levels

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch


def _rows_by_cycle(tables: Batch, cycles: Sequence[int], *, query: str) -> Mapping[int, tuple[tuple[Any, ...], ...]]:
    """Run a query whose first column is a cycle; return the other columns of the rows of each cycle."""
    found: dict[int, list[tuple[Any, ...]]] = {cycle: [] for cycle in cycles}
    for cycle, *row in tables.execute(query):
        found[cycle].append(tuple(row))
    return {cycle: tuple(rows) for cycle, rows in found.items()}


#: By slot, a function of the tables and the numbers of cycles that returns the totals of each cycle.
TOTALS: Mapping[str, Callable[[Batch, Sequence[int]], Mapping[int, Any]]] = {
    "memory_record": partial(recorded_levels, slot="memory_record"),
    "cpu_ms_memory_record": partial(recorded_levels, slot="cpu_ms_memory_record"),
    # Name and time [ns] of each call of the API.
    "api_statistic": partial(
        _rows_by_cycle,
        query="select cycle, api_name, coalesce(sum(time_ns), 0) from api_statistic group by all order by all",
    ),
    # Type, time [ns] and frequency of each type of operator.
    "aicore_intermediate_type": partial(
        _rows_by_cycle,
        query="select cycle, type, coalesce(total_time_ns, execution_time_ns), execution_frequency "
        "from aicore_intermediate_type order by cycle, row",
    ),
}
