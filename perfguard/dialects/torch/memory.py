"""Memory of each step of a torch trace, from its memory events in the order of their times.

Ev Idx numbers the events thread by thread (a backward thread, a forked task), so it orders only those of one moment: by their
times the account of each device adds up on every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfguard.dialects.cycle import MemoryStep
from perfguard.dialects.memory import device_name, levels_by_step

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch

Edges = tuple[tuple[int, int], ...]
_NO_NUMBER = -1


def memory_steps(batch: Batch, edges_ns: dict[int, Edges]) -> dict[int, tuple[MemoryStep, ...]]:
    """Return the memory of each step, by device, of each cycle."""
    if "instants" not in batch.filled:
        return {}
    rows = batch.columns(
        f"select cycle, time_ns, bytes, device_type, coalesce(device_number, {_NO_NUMBER}) as device_number "
        "from own_memory_events where device_type is not null order by cycle, time_ns, number, row"
    )
    columns = {name: np.asarray(column, np.int64) for name, column in rows.items()}
    memory: dict[int, list[MemoryStep]] = {}
    # A cycle's devices come in the order of their first events.
    lanes = columns["cycle"] << 48 | columns["device_type"] << 32 | columns["device_number"] & 0xFFFFFFFF
    _, firsts, of = np.unique(lanes, return_index=True, return_inverse=True)
    by_lane = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1]) if len(of) else []
    for first, places in sorted(zip(firsts.tolist(), by_lane, strict=True), key=lambda pair: pair[0]):
        cycle, kind, number = (int(columns[name][first]) for name in ("cycle", "device_type", "device_number"))
        sizes = columns["bytes"][places]
        levels = np.cumsum(sizes)
        device = device_name(kind, number)
        steps = levels_by_step(device, edges_ns[cycle], columns["time_ns"][places], levels, levels - sizes)
        memory.setdefault(cycle, []).extend(steps)
    return {cycle: tuple(steps) for cycle, steps in memory.items()}
