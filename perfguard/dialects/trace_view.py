"""trace_view in small: its steps, its processes and sums by name, as its folds kept them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content

#: How the profilers mark a step, up to its number.
STEP_MARK = "ProfilerStep#"
#: Lanes of Overlap Analysis that step_trace_time adds up.
OVERLAP_LANES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
#: The type that MindSpore gives operators of the host.
HOST_OPERATOR = "HostCpuOps"
PROCESS_NAME, PROCESS_LABEL = r'"name":\s*"([^"]*)"', r'"labels":\s*"([^"]*)"'


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


def step_marks(content: Content) -> tuple[StepMark, ...]:
    """Return the marks of steps, in the order of the trace."""
    found: tuple[StepMark, ...] = content.folds["ViewFacts"].step_marks
    return found


def drawn_processes(content: Content) -> frozenset[str]:
    """Return the names of the processes that have events with a duration."""
    names: frozenset[str] = content.folds["ViewFacts"].drawn_processes
    return names


def range_of_events(content: Content) -> tuple[int, int] | None:
    """Return the first and the last start [ns], without what CANN tells of a graph (when it was loaded)."""
    found: tuple[int, int] | None = content.folds["ViewFacts"].range_of_events
    return found


def lane_sums(content: Content) -> tuple[LaneSum, ...]:
    """Return what the lanes of Overlap Analysis add up to; empty where it has no event."""
    found: tuple[LaneSum, ...] = content.folds["ViewFacts"].lane_sums
    return found


def has_operators(content: Content) -> bool:
    """Whether the framework's operators on the host (cpu_op) are there."""
    return bool(content.folds["ViewFacts"].has_operators)


def operator_sums(content: Content) -> pl.DataFrame | None:
    """Return name, count and lasts [ns] of the operators on the host (cpu_op), steps excepted; None where none is drawn."""
    found: pl.DataFrame | None = content.folds["ViewFacts"].operator_sums
    return found


#: Sums of CANN's calls: name (without what stands before @), count, lasts [ns]; least, most [us], and variance [us^2].
CALL_SUMS = ("name", "count", "lasts", "least_drawn", "most_drawn", "spread_drawn")


def call_sums(content: Content) -> pl.DataFrame:
    """Return CALL_SUMS of the events of the process CANN."""
    calls: pl.DataFrame = content.folds["ViewFacts"].call_sums
    return calls


def host_calls(content: Content) -> Counter[str]:
    """Return how often each operator of the host was drawn by MindSpore."""
    found: Counter[str] = content.folds["HostOperators"].calls
    return found


def step_numbers(texts: Iterable[str]) -> frozenset[int]:
    """Return the numbers of steps among texts; blanks around them do not count."""
    return frozenset(int(text) for text in texts if re.fullmatch(r"\s*\d{1,18}\s*", text))
