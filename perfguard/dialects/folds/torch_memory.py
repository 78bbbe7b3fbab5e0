"""Memory events of a torch trace, in the order of their times: the account of each device, and what each step did to it.

Ev Idx numbers the events thread by thread (a backward thread, a forked task), so it orders only those of one moment: by their
times the account of each device adds up on every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from msgspec import UNSET

from perfguard.artifacts.readers.events import as_bytes
from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.cycle import MemoryStep
from perfguard.dialects.folds import NO_NUMBER, fold, whole_numbers
from perfguard.dialects.memory import StepHeights, device_name, parts_of_a_step
from perfguard.dialects.shared_memory import Account, own_addresses

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

_COLUMNS = {
    "Ev Idx": "index",
    "Bytes": "bytes",
    "Total Allocated": "total",
    "Total Reserved": "reserved",
    "Device Type": "kind",
    "Device Id": "number",
}
Ints = np.ndarray[Any, np.dtype[np.int64]]


@fold(slots=("trace",), wanted={"i": ("Addr",)})
class TorchMemory:
    """How each step moved the memory of each device, from the `[memory]` events."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        columns = dict.fromkeys(("time", "order", "row", *_COLUMNS.values(), "address"), "i8")
        self._events = Spool(columns)

    def see(self, events: Events) -> None:
        """Put the memory events into the spool."""
        memory = events.named("[memory]")
        if not len(memory):
            return
        found = {name: memory.derived(whole_numbers, key) for key, name in _COLUMNS.items()}
        index = found["index"]
        self._events.add(
            time=memory.times("ts").ns, order=np.where(index == NO_NUMBER, 0, index), row=memory.rows,
            address=memory.derived(_addresses), **found,
        )  # fmt: skip

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """It checks nothing."""
        yield from ()

    def steps(self, edges_ns: tuple[tuple[int, int], ...]) -> tuple[MemoryStep, ...]:
        """Return the memory of each step, by device, once all events have been seen."""
        account = Account(self._own())
        devices: dict[str, _Level] = {}
        for rows in self._in_order():
            own = account.without_shared(_frame(rows))
            for (kind, number), part in own.group_by("Device Type", "Device Id", maintain_order=True):
                name = device_name(int(str(kind)), -1 if number is None else int(str(number)))
                devices.setdefault(name, _Level(edges_ns)).add(part["time"].to_numpy(), part["Bytes"].to_numpy())
        return tuple(step for name, level in devices.items() for step in level.steps(name))

    def _own(self) -> pl.Series:
        """Return the addresses of blocks that were allocated here."""
        found = pl.Series([], dtype=pl.Int64)
        for rows in self._in_order():
            found = pl.concat([found, own_addresses(_frame(rows))]).unique()
        return found

    def _in_order(self) -> Iterator[Rows]:
        """Yield the events in the order of their times, then of their numbers."""
        for rows in self._events.in_order():
            order = np.lexsort((rows["row"], rows["order"], rows["time"]))
            yield {name: column[order] for name, column in rows.items()}


class _Level:
    """How far the allocated bytes of one device rise in each step, kept up to date batch by batch."""

    def __init__(self, edges_ns: tuple[tuple[int, int], ...]) -> None:
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


def _addresses(memory: Events) -> Ints:
    """Return addresses that are whole numbers of up to 18 digits; nobody knows the others."""
    values = memory.arguments("Addr")
    known = (one if one is not UNSET and one.isdigit() and len(one) <= 18 else _NO_ADDRESS for one in as_bytes(values))
    return np.fromiter(map(int, known), np.int64, count=len(values))


_NO_ADDRESS = str(NO_NUMBER).encode()


def _frame(rows: Rows) -> pl.DataFrame:
    """Return rows of the spool as the frame that `Account` knows."""
    columns = {
        "time": "time", "row": "row", "Bytes": "bytes", "Total Allocated": "total", "Total Reserved": "reserved",
        "Addr": "address", "Device Type": "kind", "Device Id": "number",
    }  # fmt: skip
    frame = pl.DataFrame({name: rows[column] for name, column in columns.items()})
    return frame.with_columns(pl.when(pl.all() == NO_NUMBER).then(None).otherwise(pl.all()).name.keep())
