"""Memory of each step of a torch trace, from its memory events in the order of their times.

Ev Idx numbers the events thread by thread (a backward thread, a forked task), so it orders only those of one moment: by their
times the account of each device adds up on every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from perfguard.dialects.cycle import MemoryStep
from perfguard.dialects.memory import device_name, levels_by_step

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch

Edges = tuple[tuple[int, int], ...]
_NO_NUMBER = -1
#: The number of events that are queried together.
_AT_ONCE = 1024 * 1024


def memory_steps(batch: Batch, edges_ns: dict[int, Edges]) -> dict[int, tuple[MemoryStep, ...]]:
    """Return the memory of each step, by device, of each cycle."""
    if "instants" not in batch.filled:
        return {}
    ((events,),) = batch.execute("select count(*) from instants")
    #: By cycle and device: the level behind the last event, and the steps.
    devices: dict[tuple[int, int, int], tuple[int, list[MemoryStep]]] = {}
    for where in _parts(events, edges_ns):
        rows = batch.columns(
            f"select cycle, time_ns, bytes, device_type, coalesce(device_number, {_NO_NUMBER}) as device_number "
            f"from own_memory_events where device_type is not null {where} order by cycle, time_ns, number, row"
        )
        columns = {name: np.asarray(column, np.int64) for name, column in rows.items()}
        # A cycle's devices come in the order of their first events.
        lanes = columns["cycle"] << 48 | columns["device_type"] << 32 | columns["device_number"] & 0xFFFFFFFF
        _, firsts, of = np.unique(lanes, return_index=True, return_inverse=True)
        by_lane = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1]) if len(of) else []
        for first, places in sorted(zip(firsts.tolist(), by_lane, strict=True), key=lambda pair: pair[0]):
            cycle, kind, number = (int(columns[name][first]) for name in ("cycle", "device_type", "device_number"))
            before, steps = devices.get((cycle, kind, number), (0, []))
            sizes = columns["bytes"][places]
            levels = before + np.cumsum(sizes)
            steps += levels_by_step(
                device_name(kind, number), edges_ns[cycle], columns["time_ns"][places], levels, levels - sizes
            )
            devices[cycle, kind, number] = int(levels[-1]), steps
    memory: dict[int, tuple[MemoryStep, ...]] = {}
    for (cycle, _, _), (_, steps) in devices.items():
        memory[cycle] = (*memory.get(cycle, ()), *steps)
    return memory


def _parts(events: int, edges_ns: dict[int, Edges]) -> Iterator[str]:
    """Yield conditions that divide many events at starts of steps: the result of a query is in memory as a whole."""
    starts = sorted(start for edges in edges_ns.values() for start, _ in edges)
    parts = min(events // _AT_ONCE, len(starts) - 1) if len(edges_ns) == 1 else 0
    if parts <= 0:
        yield ""
        return
    marks = [starts[len(starts) * place // (parts + 1)] for place in range(1, parts + 1)]
    yield f"and time_ns < {marks[0]}"
    for begin, end in pairwise(marks):
        yield f"and time_ns >= {begin} and time_ns < {end}"
    yield f"and time_ns >= {marks[-1]}"
