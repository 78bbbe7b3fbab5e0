"""Memory: what each step of one cycle did to a device's memory, from whichever file of the cycle records it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
#: Views of components, which record more than the steps where the host marks none.
_OF_COMPONENTS = ("memory_levels", "database_levels")


def memory_of(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, tuple[MemoryStep, ...]]:
    """Return the memory of each step, by device, of each cycle whose executions are known; cut where their steps are."""
    slots = {number: next((slot for slot in _VIEWS if slot in cycle.artifacts), "") for number, cycle in cycles.items()}
    found: dict[int, list[MemoryStep]] = {number: [] for number in cycles}
    for view in dict.fromkeys(_VIEWS[slot] for slot in slots.values() if slot):
        own = [number for number, slot in slots.items() if _VIEWS.get(slot) == view]
        for number, step in _steps(batch, view, own):
            found[number].append(_divided(step, cycles[number]) if view in _OF_COMPONENTS else step)
    return {number: (*steps, *_silent(cycles[number], steps)) for number, steps in found.items()}


def _steps(batch: Batch, view: str, cycles: Sequence[int]) -> Iterator[tuple[int, MemoryStep]]:
    query = f"from memory_by_step('{view}') where cycle in ({', '.join(map(str, cycles))}) order by cycle, lane, place"
    for cycle, device, step, rise, allocations, allocated, growth, lowest, first, parts, points, *_ in batch.execute(
        query
    ):
        yield (
            cycle,
            MemoryStep(
                device=device,
                step=step,
                rise_bytes=rise,
                allocations=allocations,
                allocated_bytes=allocated,
                growth_bytes=growth,
                curve_bytes=tuple(height - lowest for height in _curve(parts, first, points)) if parts else (),
            ),
        )


def _curve(parts: int, level: int, points: Sequence[tuple[int, int, int]]) -> Iterator[int]:
    """Yield the highest level of each part of a step; a part begins as high as the one before ended."""
    levels = {part: (highest, last) for part, highest, last in points}
    for part in range(parts):
        highest, last = levels.get(part, (level, level))
        yield max(level, highest)
        level = last


def _divided(step: MemoryStep, cycle: Cycle) -> MemoryStep:
    """Divide the counts of the whole by the number of known steps, if the host marks none."""
    executions = cycle.executions
    steps = (executions.steps if executions is not None and not executions.edges_ns else None) or 1
    return replace(
        step,
        allocations=step.allocations // steps,
        allocated_bytes=step.allocated_bytes // steps,
        growth_bytes=step.growth_bytes // steps,
    )


def _silent(cycle: Cycle, found: Sequence[MemoryStep]) -> Iterator[MemoryStep]:
    """Yield a step without memory of a host that torch recorded and that neither allocated nor released: there is no event.

    That is a 0 and no gap: a step that begins to allocate is worse than one that did not.
    """
    trace = cycle.content("trace")
    recorded = trace is not None and trace.document.get("profile_memory") == 1
    if recorded and not any(one.device == "cpu" for one in found):
        yield MemoryStep(device="cpu", step=0, rise_bytes=0, allocations=0, allocated_bytes=0, growth_bytes=0)
