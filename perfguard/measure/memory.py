"""Memory tracks: the course of the allocated memory over the profiled steps, for figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfguard.contract import Contract
from perfguard.dialects.cycle import MemoryStep
from perfguard.measure.cycles import CycleMeasurements, cycles_by_rank, measured_cycles

#: Most ranks with tracks: those with the highest memory. A page shows no more of 1024 ranks.
MOST_RANKS = 8


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
    ranks = cycles_by_rank(measured_cycles(contract)).items()
    found = {rank: tracks for rank, cycles in ranks if (tracks := list(_tracks(rank, cycles)))}
    highest = sorted(found, key=lambda rank: (-max(track.peak_bytes for track in found[rank]), rank))[:MOST_RANKS]
    return tuple(track for rank in sorted(highest) for track in found[rank])


def _tracks(rank: int, cycles: list[CycleMeasurements]) -> Iterator[MemoryTrack]:
    """Yield the track of each device, over the cycles of a rank one after the other."""
    steps: list[MemoryStep] = []
    count = 0
    for cycle in cycles:
        steps += [replace(one, step=one.step + count) for one in cycle.memory]
        count += cycle.steps or 0
    for device in sorted({step.device for step in steps}):
        own = [step for step in steps if step.device == device]
        # The steps of a cycle in which the device did nothing are absent, where it did something in another.
        changed = [step for step in own if step.rise_bytes or step.curve_bytes]
        yield _track(rank, device, changed or own, count)


def _track(rank: int, device: str, steps: list[MemoryStep], count: int) -> MemoryTrack:
    """Return the track of one device; steps without an entry, of the `count` steps if known, had no change."""
    lengths = {len(step.curve_bytes) for step in steps}
    parts = lengths.pop() if len(lengths) == 1 else 0
    curves = {step.step: step.curve_bytes if parts else (step.rise_bytes,) for step in steps}
    level = (0,) * (parts or 1)
    curve = [value for number in range(count) or curves for value in curves.get(number, level)]
    return MemoryTrack(rank=rank, device=device, parts=parts, curve_bytes=tuple(curve))
