"""A profile: what the artifacts of one rank say, in one spelling and one unit, whatever dialect wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from perfguard.contract.coverage import Covered
from perfguard.contract.memory import MemoryStep, parts_of_a_step
from perfguard.contract.shapes import no_shapes

if TYPE_CHECKING:
    from perfguard.contract import Contract
    from perfguard.measure.taking import Reduced


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One rank: executions of all its cycles (steps numbered through), shapes and memory.

    `steps` is None where nobody can tell how many steps the window had; counts are then per window.
    """

    rank: int
    steps: int | None
    #: The groups of every cycle, one after the other (`contract.groups`); `cycle` is the number of theirs.
    groups: pl.DataFrame
    #: operator, shapes (text), calls: over the whole window.
    shapes: pl.DataFrame
    #: Of every device whose memory was recorded, step by step.
    memory: tuple[MemoryStep, ...]
    #: Start and end of every step in the clock of the executions, in ns; empty where they are not known of all steps.
    edges_ns: tuple[tuple[int, int], ...] = ()
    #: How long every step took, by its edges or by perfguard's own clock; empty where that is not known of all steps.
    step_ns: tuple[int, ...] = ()
    #: What covers each step of `edges_ns`.
    covered: tuple[Covered, ...] = ()
    #: Whether start times are known.
    is_timeline: bool = True


def profiles(contract: Contract) -> list[Profile]:
    """Return one profile a rank, from the cycles whose executions could be read."""
    from perfguard.measure.taking import reduced

    return profiles_of(reduced(contract))


def profiles_of(cycles: Iterable[Reduced]) -> list[Profile]:
    """Return one profile a rank."""
    by_rank: dict[int, list[Reduced]] = {}
    for cycle in cycles:
        if cycle.executions is not None:
            by_rank.setdefault(cycle.rank, []).append(cycle)
    return [_profile(rank, cycles) for rank, cycles in sorted(by_rank.items())]


def _profile(rank: int, cycles: list[Reduced]) -> Profile:
    groups, shapes = [], []
    steps: int | None = 0
    memory: list[MemoryStep] = []
    devices = sorted({one.device for cycle in cycles for one in cycle.memory})
    edges: list[tuple[int, int]] = []
    covered: list[Covered] = []
    durations: list[int] = []
    for number, cycle in enumerate(cycles):
        executions = cycle.executions
        assert executions is not None
        edges += executions.edges_ns
        covered += executions.covered
        durations += [end - start for start, end in executions.edges_ns] or [s.wall_ns for s in cycle.asked.steps]
        offset = steps or 0
        groups.append(executions.of_the_window.with_columns(pl.col("step") + offset, cycle=pl.lit(number)))
        shapes.append(no_shapes() if cycle.shapes is None else cycle.shapes)
        memory += _with_silent_steps(cycle.memory, devices, len(executions.edges_ns))
        steps = None if steps is None or executions.steps is None else steps + executions.steps
    return Profile(
        rank=rank,
        steps=steps,
        groups=pl.concat(groups),
        shapes=pl.concat(shapes).group_by("operator", "shapes").agg(pl.col("calls").sum()),
        memory=tuple(memory),
        edges_ns=tuple(edges) if len(edges) == steps else (),
        step_ns=tuple(durations) if len(durations) == steps else (),
        covered=tuple(covered),
        is_timeline=all(cycle.executions is not None and cycle.executions.is_timeline for cycle in cycles),
    )


def _with_silent_steps(memory: Sequence[MemoryStep], devices: Iterable[str], steps: int) -> Iterable[MemoryStep]:
    """Return the memory of every step of a cycle: files say nothing of a step in which a device's level did not move.

    Where nothing was recorded in the whole cycle, or nobody knows when its steps began, nothing is added.
    """
    if not memory or not steps:
        return memory
    known = {(one.device, one.step): one for one in memory}
    level = (0,) * parts_of_a_step(steps)
    everything = ((device, step) for device in devices for step in range(steps))
    return [known.get(one) or MemoryStep(device=one[0], step=one[1], curve_bytes=level) for one in everything]
