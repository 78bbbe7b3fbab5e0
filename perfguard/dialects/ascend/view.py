"""What a trace_view says: its steps, its processes, and sums by lane."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.tables import Batch

if TYPE_CHECKING:
    from perfguard.artifacts.readers import Content


#: Lanes of Overlap Analysis that step_trace_time adds up.
OVERLAP_LANES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """An event `ProfilerStep#<label>`; times are None where they are no number of nanoseconds."""

    label: str
    start_ns: int | None
    duration_ns: int | None

    @property
    def number(self) -> int | None:
        """The number of the step, or None where it has none."""
        return int(self.label) if re.fullmatch(r"[0-9]{1,18}", self.label) else None

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """Start and end of the step, or None where nobody can tell."""
        if self.start_ns is None or self.duration_ns is None:
            return None
        return self.start_ns, self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSum:
    """What the events of one name under Overlap Analysis add up to, on a device (None: it is not said on which)."""

    device: str | None
    lane: str
    total_us: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What a trace_view says."""

    #: The marks of steps, in the order of the trace.
    step_marks: tuple[StepMark, ...]
    #: The names of the processes that have events with a duration.
    drawn_processes: frozenset[str]
    #: The first and the last start [ns], without what CANN tells of a graph (when it was loaded).
    range_ns: tuple[int, int] | None
    #: What the lanes of Overlap Analysis add up to; empty where it has no event.
    lane_sums: tuple[LaneSum, ...]


def view_of(content: Content) -> View:
    """Return what the trace_view of an artifact says."""
    found: View = content.work
    return found


def views_of(batch: Batch, cycles: Iterable[int]) -> dict[int, View]:
    """Return what the trace_view of each cycle says, by its number."""
    numbers = list(cycles)
    marks = by_cycle(batch, "select cycle, label, start_ns, duration_ns from view_step_marks order by cycle, row")
    processes = by_cycle(batch, "from drawn_processes")
    ranges = by_cycle(batch, "from ranges")
    lanes = by_cycle(batch, "select cycle, device, lane, total_ns from lane_sums order by all")
    return {
        cycle: View(
            step_marks=tuple(
                StepMark(label=label, start_ns=start, duration_ns=lasts) for label, start, lasts in marks.get(cycle, ())
            ),
            drawn_processes=frozenset(name for (name,) in processes.get(cycle, ())),
            range_ns=next(((first, last) for first, last in ranges.get(cycle, ())), None),
            lane_sums=tuple(
                LaneSum(device=device, lane=lane, total_us=(total or 0) / 1000)
                for device, lane, total in lanes.get(cycle, ())
            ),
        )
        for cycle in numbers
    }


def by_cycle(batch: Batch, query: str) -> dict[int, list[tuple[Any, ...]]]:
    """Run a query whose rows begin with a cycle; return the rest of the rows of each."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for cycle, *row in batch.execute(query):
        found.setdefault(cycle, []).append(tuple(row))
    return found


def step_numbers(texts: Iterable[str]) -> frozenset[int]:
    """Return the numbers of steps among texts; blanks around them do not count."""
    return frozenset(int(text) for text in texts if re.fullmatch(r"\s*\d{1,18}\s*", text))
