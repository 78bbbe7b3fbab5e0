"""A cycle: what the profiler wrote for one rank and one schedule cycle, and what was read out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perfguard.artifacts.layout import Layout, Slot
from perfguard.artifacts.readers import Content
from perfguard.artifacts.survey import Parent
from perfguard.dialects.spans import Spans
from perfguard.recording import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file found in a slot, read."""

    slot: Slot
    path: Path
    content: Content
    #: The path as findings name it: relative to what is judged.
    place: str
    #: The schema it was checked with: of a slot with several versions, the one that fits; None where it has none.
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What the caller requested of a cycle; None and empty for a foreign directory.

    Steps without `active` are those that were seen in a recording of a whole run.
    """

    active: int | None = None
    steps: tuple[Step, ...] = ()
    #: After how many steps they repeat.
    period: int | None = None
    #: What else the caller says was set up: {"collect_freq": 10}.
    numbers: Mapping[str, int] = field(default_factory=dict)


class Named(NamedTuple):
    """How often one operator ran under one name: `outside` of all steps, and `unfilled` with start 0 and duration 0.

    Of executions that files list besides their time, the earliest and the latest start (-1 where one is not known), and the
    rows of these. A trace does not tell them.
    """

    #: The type or name that metrics speak of.
    operator: str
    #: The most precise one that the profiler has.
    name: str
    calls: int
    outside: int
    unfilled: int
    total_ns: int = 0
    first_ns: int = -1
    first_place: int = -1
    last_ns: int = -1
    last_place: int = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counts:
    """How often what ran in one cycle."""

    by_name: tuple[Named, ...] = ()
    #: The steps in which anything ran, in order; empty where steps are not known.
    steps: tuple[int, ...] = ()
    #: Those of them that ran other operators than most, or the same ones more or less often.
    odd_steps: tuple[int, ...] = ()
    #: By step of `steps` a number that is the same for steps with equal operators and calls, and how many calls it has.
    kinds: tuple[int, ...] = ()
    calls_by_step: tuple[int, ...] = ()
    #: The calls by name in one of the usual steps, and in each of the first odd ones.
    usual: Counter[str] = field(default_factory=Counter)
    odd: Mapping[int, Counter[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executions:
    """Executions of one cycle, added up, and its steps."""

    #: The table in which they are added up.
    table: str
    counts: Counts
    #: The number of steps, None if it is unknown.
    steps: int | None
    #: Whether `step` was assigned by time, so that the steps can be compared with each other.
    by_step: bool
    #: Numbers the profiler itself gave the steps (torch's ProfilerStep#N), in order.
    step_numbers: tuple[int, ...] = ()
    #: Start and end of every step in the clock of the artifacts, in ns; empty where steps are only numbers.
    edges_ns: tuple[tuple[int, int], ...] = ()
    #: Whether the profiler itself marks the steps (and `step_numbers` are all it marked).
    marks_steps: bool = False
    #: Numbers of marks at the ends of the window in which nothing ran: the loop ended inside it, or called `step()` first.
    idle_numbers: tuple[int, ...] = ()
    #: Where nothing is counted: whether other events are there, numbered through, so that nothing was lost.
    has_other_events: bool = False
    #: Whether these ran on a device, and not on the host.
    on_device: bool = False
    #: Whether start times are known; else only how often and how long.
    is_timeline: bool = True
    #: Whether the profiler numbers what ran, and every number is there: it lost none of these.
    is_complete: bool = False

    @property
    def calls(self) -> int:
        """How many executions there are."""
        return sum(one.calls for one in self.counts.by_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """Memory of one device over one step, or over the window where steps are not known.

    `step` is its number in the cycle, from 0; a step in which the level did not move is not there, unless it moved in none.
    `rise_bytes` is how far the allocated bytes rise above their lowest point. `curve_bytes` is how high they stood above that
    point in equal parts of the step's time, at the most in each part; empty where the step's start and end are not known.
    """

    device: str
    step: int
    rise_bytes: int
    curve_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cycle:
    """What the profiler wrote for one rank and one schedule cycle. `index` counts the cycles of the rank."""

    layout: Layout
    place: Path
    rank: int
    index: int
    #: The artifact of every slot that could be read; of a slot with many files the last one, see `files`.
    artifacts: Mapping[str, Artifact]
    requested: Requested
    #: Every artifact, several of a slot whose path has a wildcard.
    files: tuple[Artifact, ...] = ()
    #: What is known to have been on or off, and the stated steps, ranks and files.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    executions: Executions | None = None
    #: Memory of each step and device; empty where none was recorded.
    memory: tuple[MemoryStep, ...] = ()
    #: What ran in its fastest step; None where that is not known, or of a rank that no figure shows.
    spans: Spans | None = None
    #: What queries measured of its files: (subject, value or samples), by metric.
    measured: Mapping[str, Sequence[tuple[str, Any]]] = field(default_factory=dict)
    #: The directories above it whose names say a rank or a window, the nearest first.
    parents: tuple[Parent, ...] = ()

    def content(self, slot: str) -> Content | None:
        """Return what a slot holds, or None when it is missing or unreadable."""
        artifact = self.artifacts.get(slot)
        return artifact.content if artifact else None
