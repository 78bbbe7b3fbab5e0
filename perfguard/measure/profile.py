"""Profiles: the executions, shapes and memory of one rank, over all its cycles, in one form for all dialects.

Memory tracks are the course of the allocated memory over the profiled steps, for figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfguard.contract import Contract, Cycle
from perfguard.dialects.coverage import Covered
from perfguard.dialects.cycle import MemoryStep
from perfguard.measure.cycles import CycleMeasurements, stored_measurements

if TYPE_CHECKING:
    import polars as pl

#: The columns of execution groups that metrics need.
_COLUMNS = ("operator", "step", "calls", "total_ns", "self_ns", "first_ns")
#: Most ranks with tracks: those with the highest memory. A page shows no more of 1024 ranks.
MOST_RANKS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One rank: executions of all its cycles (with consecutive step numbers), shapes and memory.

    `steps` is None if the number of steps of the window is unknown; counts are then per window.
    """

    rank: int
    steps: int | None
    #: The execution groups of all cycles, one after the other, with some of their columns.
    groups: pl.DataFrame
    #: operator, shapes (text), calls, over the whole window.
    shapes: pl.DataFrame
    #: Of every step in which the memory of a device changed; a single one without change for a device that never changed.
    memory: tuple[MemoryStep, ...]
    #: Start and end of every step in the clock of the executions, in ns; empty unless known for all steps.
    edges_ns: tuple[tuple[int, int], ...] = ()
    #: Duration of every step, by its edges or by perfguard's own clock; empty unless known for all steps.
    step_ns: tuple[int, ...] = ()
    #: The covered time of each step of `edges_ns`.
    covered: tuple[Covered, ...] = ()
    #: Whether start times are known.
    is_timeline: bool = True
    #: Whether steps ran other operators than others, and nothing was lost.
    steps_differ: bool = False

    @property
    def calls_by_shapes(self) -> dict[str, dict[str, int]]:
        """Calls in the window by input shapes, of every operator that has recorded ones."""
        found: dict[str, dict[str, int]] = {}
        for operator, shapes, calls in self.shapes.sort("operator", "shapes").iter_rows():
            found.setdefault(operator, {})[shapes] = calls
        return found

    @property
    def memory_by_device(self) -> dict[str, list[MemoryStep]]:
        """The steps of each device, sorted by its name."""
        devices = sorted({step.device for step in self.memory})
        return {device: [step for step in self.memory if step.device == device] for device in devices}


def profiles(contract: Contract) -> list[Profile]:
    """Return one profile a rank, from the cycles whose executions could be read."""
    return profiles_of(contract.cycles or stored_measurements(contract))


def profiles_of(cycles: Iterable[Cycle | CycleMeasurements]) -> list[Profile]:
    """Return one profile a rank."""
    by_rank: dict[int, list[Cycle | CycleMeasurements]] = {}
    for cycle in cycles:
        if cycle.executions is not None:
            by_rank.setdefault(cycle.rank, []).append(cycle)
    return [_profile(rank, cycles) for rank, cycles in sorted(by_rank.items())]


def _profile(rank: int, cycles: list[Cycle | CycleMeasurements]) -> Profile:
    import polars as pl

    groups, shapes = [], []
    steps: int | None = 0
    memory: list[MemoryStep] = []
    edges: list[tuple[int, int]] = []
    covered: list[Covered] = []
    durations: list[int] = []
    for cycle in cycles:
        executions = cycle.executions
        assert executions is not None
        edges += executions.edges_ns
        covered += executions.covered
        durations += [end - start for start, end in executions.edges_ns] or [s.wall_ns for s in cycle.requested.steps]
        offset = steps or 0
        window = replace(executions, groups=executions.groups.select(_COLUMNS)).of_the_window
        groups.append(window.with_columns(pl.col("step") + offset))
        shapes.append(executions.inputs)
        memory += [replace(one, step=one.step + offset) for one in cycle.memory]
        steps = None if steps is None or executions.steps is None else steps + executions.steps
    return Profile(
        rank=rank,
        steps=steps,
        groups=pl.concat(groups),
        shapes=pl.concat(shapes).group_by("operator", "shapes").agg(pl.col("calls").sum()),
        memory=_changed(memory),
        edges_ns=tuple(edges) if len(edges) == steps else (),
        step_ns=tuple(durations) if len(durations) == steps else (),
        covered=tuple(covered),
        is_timeline=all(cycle.executions is not None and cycle.executions.is_timeline for cycle in cycles),
        steps_differ=any(c.executions.counts.odd_steps and c.executions.is_complete for c in cycles if c.executions),
    )


def _changed(memory: list[MemoryStep]) -> tuple[MemoryStep, ...]:
    """Leave out cycles without a change of a device that changed in another cycle: its steps without change are absent too."""
    changed = {one.device for one in memory if one.rise_bytes or one.allocations}
    return tuple(one for one in memory if one.rise_bytes or one.allocations or one.device not in changed)


# -- memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrack:
    """The memory of one device over the profiled steps of one rank.

    `curve_bytes` is the maximum of the allocated bytes above the lowest point of each step, in each of `parts` equal parts of
    its time. If `parts` is 0, it has one value a step, its peak: the window has too many steps, or their starts are unknown.
    """

    rank: int
    device: str
    parts: int
    curve_bytes: tuple[int, ...]

    @property
    def peak_bytes(self) -> int:
        """The highest point."""
        return max(self.curve_bytes, default=0)


def memory_tracks(contract: Contract) -> tuple[MemoryTrack, ...]:
    """Return the tracks of the `MOST_RANKS` ranks with the highest memory."""
    found: dict[int, list[MemoryTrack]] = {}
    for profile in profiles(contract):
        for device, steps in profile.memory_by_device.items():
            found.setdefault(profile.rank, []).append(_track(profile.rank, device, steps, len(profile.edges_ns)))
    highest = sorted(found, key=lambda rank: (-max(track.peak_bytes for track in found[rank]), rank))[:MOST_RANKS]
    return tuple(track for rank in sorted(highest) for track in found[rank])


def _track(rank: int, device: str, steps: list[MemoryStep], count: int) -> MemoryTrack:
    """Return the track of one device; steps without an entry, of the `count` steps if known, had no change."""
    lengths = {len(step.curve_bytes) for step in steps}
    parts = lengths.pop() if len(lengths) == 1 else 0
    curves = {step.step: step.curve_bytes if parts else (step.rise_bytes,) for step in steps}
    level = (0,) * (parts or 1)
    curve = [value for number in range(count) or curves for value in curves.get(number, level)]
    return MemoryTrack(rank=rank, device=device, parts=parts, curve_bytes=tuple(curve))
