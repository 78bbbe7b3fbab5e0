"""Kernels of kernel_details: the executions on a device, added up."""

from __future__ import annotations

from collections.abc import Sequence

from perfguard.artifacts.tables import Batch
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Executions
from perfguard.dialects.executions import groups_of

#: The number of rows that a query returns at once.
ROWS_AT_ONCE = 100_000


def kernels_by_cycle(batch: Batch, cycles: Sequence[int]) -> dict[int, Executions]:
    """Return the executions on the devices of each cycle, by its number.

    Fills the table `steps`, and those that follow from `kernels`. Raises `OSError` if the memory of this machine is not enough.
    """
    if not cycles:
        return {}
    numbers_of: dict[int, list[int]] = {cycle: [] for cycle in cycles}
    edges: dict[int, list[tuple[int, int]]] = {cycle: [] for cycle in cycles}
    batch.fill("steps", f"from kernel_steps where cycle in ({', '.join(map(str, cycles))})")
    for cycle, number in batch.execute("select distinct cycle, step from kernels where step is not null order by all"):
        numbers_of[cycle].append(number)
    for cycle, start_ns, end_ns in batch.execute("select cycle, start_ns, end_ns from steps order by cycle, step"):
        if cycle in edges:
            edges[cycle].append((start_ns, end_ns))
    # Rows of an earlier batch may have had the first numbers.
    ((first, last),) = batch.execute("select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from kernel_groups")
    parts = [f"rowid between {one} and {one + ROWS_AT_ONCE - 1}" for one in range(first, last + 1, ROWS_AT_ONCE)]
    groups = groups_of(batch, [f"from kernel_groups where {part}" for part in parts], cycles)
    covered = covered_sums(batch, edges)
    return {
        cycle: Executions(
            groups=groups[cycle],
            covered=covered[cycle],
            steps=len(numbers) or None,
            by_step=bool(numbers) and groups[cycle]["step"].null_count() == 0,
            step_numbers=tuple(numbers),
            edges_ns=tuple(edges[cycle]),
            marks_steps=bool(numbers),
            on_device=True,
        )
        for cycle, numbers in numbers_of.items()
    }
