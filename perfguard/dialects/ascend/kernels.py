"""Kernels of kernel_details: the executions on a device, added up."""

from __future__ import annotations

from collections.abc import Sequence

from perfguard.artifacts.tables import Batch
from perfguard.dialects.counts import counts_of, is_any_outside
from perfguard.dialects.cycle import Executions

#: The table in which they are added up.
_SUMS = "kernel_groups"


def kernels_by_cycle(batch: Batch, cycles: Sequence[int]) -> dict[int, Executions]:
    """Return the executions on the devices of each cycle, by its number.

    Fills the table `steps`, and those that follow from `kernel_lines`. Raises `OSError` if the memory of this machine is not
    enough.
    """
    if not cycles:
        return {}
    numbers_of: dict[int, list[int]] = {cycle: [] for cycle in cycles}
    edges: dict[int, list[tuple[int, int]]] = {cycle: [] for cycle in cycles}
    batch.fill("steps", f"from kernel_steps where cycle in ({', '.join(map(str, cycles))})")
    for cycle, number in batch.execute(
        "select distinct cycle, step from kernel_lines where step is not null order by all"
    ):
        numbers_of[cycle].append(number)
    for cycle, start_ns, end_ns in batch.execute("select cycle, start_ns, end_ns from steps order by cycle, step"):
        if cycle in edges:
            edges[cycle].append((start_ns, end_ns))
    # Names of kernels contain running numbers.
    counts = counts_of(batch, _SUMS, cycles, compared="operator")
    return {
        cycle: Executions(
            table=_SUMS,
            counts=counts[cycle],
            steps=len(numbers) or None,
            by_step=bool(numbers) and not is_any_outside(counts[cycle]),
            step_numbers=tuple(numbers),
            edges_ns=tuple(edges[cycle]),
            marks_steps=bool(numbers),
            on_device=True,
        )
        for cycle, numbers in numbers_of.items()
    }
