"""What a trace_view says: its steps, and how often each operator of the host was drawn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.tables import Batch

if TYPE_CHECKING:
    from perfguard.artifacts.readers import Content


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What a trace_view says."""

    #: The marks of steps, in the order of the trace.
    step_marks: tuple[StepMark, ...]
    #: How often each operator of the host was drawn by MindSpore.
    host_calls: Counter[str]


def view_of(content: Content) -> View:
    """Return what the trace_view of an artifact says."""
    found: View = content.work
    return found


def views_of(batch: Batch, cycles: Iterable[int]) -> dict[int, View]:
    """Return what the trace_view of each cycle says, by its number."""
    numbers = list(cycles)
    marks = _by_cycle(batch, "select cycle, label, start_ns, duration_ns from view_step_marks order by cycle, row")
    calls = _by_cycle(
        batch, "select cycle, word(name), count(*) from host_operators group by cycle, name order by min(row)"
    )
    return {
        cycle: View(
            step_marks=tuple(
                StepMark(label=label, start_ns=start, duration_ns=lasts) for label, start, lasts in marks.get(cycle, ())
            ),
            host_calls=Counter(dict(calls.get(cycle, ()))),
        )
        for cycle in numbers
    }


def _by_cycle(batch: Batch, query: str) -> dict[int, list[tuple[Any, ...]]]:
    """Run a query whose rows begin with a cycle; return the rest of the rows of each."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for cycle, *row in batch.execute(query):
        found.setdefault(cycle, []).append(tuple(row))
    return found
