"""Profiles: the executions, shapes and memory of one rank, over all its cycles, in one form for all dialects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from perfguard.dialects.coverage import Covered
from perfguard.dialects.cycle import MemoryStep
from perfguard.measure.cycles import CycleSummary, cycle_summaries

if TYPE_CHECKING:
    from perfguard.contract import Contract


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One rank: executions of all its cycles (with consecutive step numbers), shapes and memory.

    `steps` is None if the number of steps of the window is unknown; counts are then per window.
    """

    rank: int
    steps: int | None
    #: The execution groups of all cycles; `cycle` is the number of each.
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


def profiles(contract: Contract) -> list[Profile]:
    """Return one profile a rank, from the cycles whose executions could be read."""
    return profiles_of(cycle_summaries(contract))


def profiles_of(cycles: Iterable[CycleSummary]) -> list[Profile]:
    """Return one profile a rank."""
    by_rank: dict[int, list[CycleSummary]] = {}
    for cycle in cycles:
        if cycle.executions is not None:
            by_rank.setdefault(cycle.rank, []).append(cycle)
    return [_profile(rank, cycles) for rank, cycles in sorted(by_rank.items())]


def _profile(rank: int, cycles: list[CycleSummary]) -> Profile:
    groups, shapes = [], []
    steps: int | None = 0
    memory: list[MemoryStep] = []
    edges: list[tuple[int, int]] = []
    covered: list[Covered] = []
    durations: list[int] = []
    for number, cycle in enumerate(cycles):
        executions = cycle.executions
        assert executions is not None
        edges += executions.edges_ns
        covered += executions.covered
        durations += [end - start for start, end in executions.edges_ns] or [s.wall_ns for s in cycle.requested.steps]
        offset = steps or 0
        groups.append(executions.of_the_window.with_columns(pl.col("step") + offset, cycle=pl.lit(number)))
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
    )


def _changed(memory: list[MemoryStep]) -> tuple[MemoryStep, ...]:
    """Leave out cycles without a change of a device that changed in another cycle: its steps without change are absent too."""
    changed = {one.device for one in memory if one.rise_bytes or one.allocations}
    return tuple(one for one in memory if one.rise_bytes or one.allocations or one.device not in changed)
