"""Timelines: what ran in the fastest profiled step, on which thread or stream, for figures."""

from __future__ import annotations

from dataclasses import dataclass

from perfguard.contract import Contract
from perfguard.dialects.spans import Spans
from perfguard.measure.cycles import measured_cycles

#: Lane and name (places in the lists), start in the step and length [ns].
Span = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time of a step in which nothing ran: what ended last before it and begins next; empty at the edges of the step."""

    start_ns: int
    length_ns: int
    after: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeline:
    """The fastest profiled step of one rank. `step` counts the steps of its cycle from 0.

    `count` is the number of all spans: of a step with many the longest are in `spans`.
    """

    rank: int
    step: int
    duration_ns: int
    count: int
    lanes: tuple[str, ...]
    names: tuple[str, ...]
    spans: tuple[Span, ...]

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The times of the step in which none of the `spans` ran on any thread or stream, the longest first."""
        found, end_ns, last = [], 0, ""
        for _, name, start_ns, length_ns in sorted(self.spans, key=lambda span: (span[2], -span[3])):
            begin_ns = min(start_ns, self.duration_ns)
            if begin_ns > end_ns:
                found.append(Pause(start_ns=end_ns, length_ns=begin_ns - end_ns, after=last, before=self.names[name]))
            if start_ns + length_ns >= end_ns:
                end_ns, last = start_ns + length_ns, self.names[name]
        if end_ns < self.duration_ns:
            found.append(Pause(start_ns=end_ns, length_ns=self.duration_ns - end_ns, after=last, before=""))
        return tuple(sorted(found, key=lambda one: (-one.length_ns, one.start_ns)))


def timeline_of(contract: Contract) -> StepTimeline | None:
    """Return the timeline of the rank whose fastest step takes longest, because the job waits for it; None without times."""
    fastest: dict[int, Spans] = {}
    for cycle in measured_cycles(contract):
        if (found := cycle.spans) is None or not found.count:
            continue
        if cycle.rank not in fastest or found.duration_ns < fastest[cycle.rank].duration_ns:
            fastest[cycle.rank] = found
    if not fastest:
        return None
    rank, found = max(fastest.items(), key=lambda item: (item[1].duration_ns, -item[0]))
    columns = (found.lane, found.name, found.start_ns, found.length_ns)
    return StepTimeline(
        rank=rank,
        step=found.step,
        duration_ns=found.duration_ns,
        count=found.count,
        lanes=tuple(found.lanes),
        names=tuple(found.names),
        spans=tuple(zip(*(column.tolist() for column in columns), strict=True)),
    )
