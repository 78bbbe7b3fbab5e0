"""Memory: what each step of one cycle did to a device's memory, from whichever file of the cycle records it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from perfguard.dialects.cycle import MemoryStep

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

#: By slot, a view of the levels of its devices; the first slot that was read counts.
_VIEWS = {
    "trace": "torch_levels",
    "cpu_ms_memory_record": "pool_levels",
    "memory_record": "memory_levels",
    "ascend_pytorch_profiler": "database_levels",
    "ascend_mindspore_profiler": "database_levels",
}
#: Views of components.
_OF_COMPONENTS = ("memory_levels", "database_levels")


def fill_levels(batch: Batch, cycles: Mapping[int, Cycle]) -> None:
    """Fill the table `levels` with the memory of those cycles of which it is known what ran."""
    cycles_of: dict[str, list[int]] = {}
    for number, cycle in cycles.items():
        if cycle.executions is None:
            continue
        if slot := next((slot for slot in _VIEWS if slot in cycle.artifacts), ""):
            cycles_of.setdefault(_VIEWS[slot], []).append(number)
    for view, own in cycles_of.items():
        batch.fill(
            "levels",
            f"select cycle, device, place, time_ns, level, before, {str(view in _OF_COMPONENTS).lower()} as is_of_components "
            f"from {view} where cycle in ({', '.join(map(str, own))})",
        )


def memory_of(batch: Batch, cycles: Iterable[int]) -> dict[int, tuple[MemoryStep, ...]]:
    """Return the memory of each step, by device, of each cycle, once it is measured; cut where their steps are."""
    found: dict[int, list[MemoryStep]] = {number: [] for number in cycles}
    if "memory_steps" not in batch.filled:
        return dict.fromkeys(found, ())
    query = (
        "select cycle, device, step, rise, lowest, first, parts, points from memory_steps order by cycle, lane, place"
    )
    for cycle, device, step, rise, lowest, first, parts, points in batch.execute(query):
        curve = tuple(height - lowest for height in _curve(parts, first, points)) if parts else ()
        found[cycle].append(MemoryStep(device=device, step=step, rise_bytes=rise, curve_bytes=curve))
    return {number: tuple(steps) for number, steps in found.items()}


def _curve(parts: int, level: int, points: Sequence[tuple[int, int, int]]) -> Iterator[int]:
    """Yield the highest level of each part of a step; a part begins as high as the one before ended."""
    levels = {part: (highest, last) for part, highest, last in points}
    for part in range(parts):
        highest, last = levels.get(part, (level, level))
        yield max(level, highest)
        level = last
