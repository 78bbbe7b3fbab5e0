"""Memory of each step of a torch trace, from its memory events in the order of their times.

Ev Idx numbers the events thread by thread (a backward thread, a forked task), so it orders only those of one moment: by their
times the account of each device adds up on every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.dialects.cycle import MemoryStep
from perfguard.dialects.memory import StepHeights, device_name, parts_of_a_step

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch

Ints = np.ndarray[Any, np.dtype[np.int64]]
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
    devices: dict[int, dict[str, _Level]] = {}
    # A cycle's devices come in the order of their first events.
    lanes = columns["cycle"] << 48 | columns["device_type"] << 32 | columns["device_number"] & 0xFFFFFFFF
    _, firsts, of = np.unique(lanes, return_index=True, return_inverse=True)
    by_lane = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1]) if len(of) else []
    for first, places in sorted(zip(firsts.tolist(), by_lane, strict=True), key=lambda pair: pair[0]):
        cycle, kind, number = (int(columns[name][first]) for name in ("cycle", "device_type", "device_number"))
        level = _Level(edges_ns[cycle])
        level.add(columns["time_ns"][places], columns["bytes"][places])
        devices.setdefault(cycle, {})[device_name(kind, number)] = level
    return {
        cycle: tuple(step for name, level in levels.items() for step in level.steps(name))
        for cycle, levels in devices.items()
    }


class _Level:
    """How far the allocated bytes of one device rise in each step, from its events in their order."""

    def __init__(self, edges_ns: Edges) -> None:
        self._edges = edges_ns
        self._starts = np.array([start for start, _ in edges_ns], np.int64)
        self._ends = np.array([end for _, end in edges_ns], np.int64)
        self._level = 0
        self._steps: dict[int, MemoryStep] = {}
        #: By step: highest and lowest level, and the level before its first event.
        self._range: dict[int, tuple[int, int, int]] = {}
        self._parts = parts_of_a_step(len(edges_ns)) if edges_ns else 0
        self._heights: dict[int, StepHeights] = {}

    def add(self, times: Ints, sizes: Ints) -> None:
        """Take in the events of a batch in their order."""
        levels = self._level + np.cumsum(sizes)
        self._level = int(levels[-1])
        places, firsts, steps = self._by_step(times)
        if not places.size:
            return
        levels, sizes = levels[places], sizes[places]
        self._draw(times[places], levels, sizes, firsts, steps)
        earlier, grown = levels - sizes, np.maximum(sizes, 0)
        found = zip(
            steps.tolist(),
            np.maximum.reduceat(np.maximum(levels, earlier), firsts).tolist(),
            np.minimum.reduceat(np.minimum(levels, earlier), firsts).tolist(),
            earlier[firsts].tolist(),
            levels[np.append(firsts[1:], len(levels)) - 1].tolist(),
            np.add.reduceat((grown > 0).astype(np.int64), firsts).tolist(),
            np.add.reduceat(grown, firsts).tolist(),
            strict=True,
        )
        come_to = sorted(zip(places[firsts].tolist(), found, strict=True))
        for _, (step, high, low, first, last, allocations, allocated) in come_to:
            if (known := self._steps.get(step)) is not None:
                before_high, before_low, first = self._range[step]
                high, low = max(high, before_high), min(low, before_low)
                allocations, allocated = allocations + known.allocations, allocated + known.allocated_bytes
            self._range[step] = (high, low, first)
            self._steps[step] = MemoryStep(
                device="",
                step=step,
                rise_bytes=high - low,
                allocations=allocations,
                allocated_bytes=allocated,
                growth_bytes=last - first,
            )

    def _draw(self, times: Ints, levels: Ints, sizes: Ints, firsts: Ints, steps: Ints) -> None:
        """Go on with the curve of every step of the batch; a window of too many steps has none."""
        if not self._parts:
            return
        for step, begin, end in zip(steps.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(levels)], strict=True):
            heights = self._heights.setdefault(step, StepHeights(self._edges[step], self._parts))
            heights.add(times[begin:end], levels[begin:end], (levels - sizes)[begin:end])

    def _by_step(self, times: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the places of the events that lie in a step, by step, where each step begins among them, and which it is."""
        if not self._edges:
            return np.arange(len(times)), np.zeros(1, np.int64), np.zeros(1, np.int64)
        steps = np.searchsorted(self._starts, times, "right") - 1
        places = np.flatnonzero((steps >= 0) & (times <= self._ends[np.maximum(steps, 0)]))
        places = places[np.argsort(steps[places], kind="stable")]
        steps = steps[places]
        firsts = np.flatnonzero(np.diff(steps, prepend=-1))
        return places, firsts, steps[firsts]

    def steps(self, device: str) -> Iterator[MemoryStep]:
        """Yield the steps in the order in which they were come to."""
        for number, step in self._steps.items():
            drawn = self._heights.get(number)
            curve = () if drawn is None else drawn.above(self._range[number][1])
            yield replace(step, device=device, curve_bytes=curve)
