"""Extracts: what is kept of a cycle once its artifacts are released, so that memory does not grow with the ranks.

What must hold between cycles is judged from extracts alone. They can be sent to another process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perfguard.dialects.counts import calls_by

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle
    from perfguard.recording import Recording

#: Steps, and calls by operator.
Ran = tuple[int, tuple[tuple[str, int], ...]]
#: Slots with times: two cycles cannot have equal ones.
_TIMED = ("trace", "trace_view", "kernel_details", "cpu_op_execute_timestamp", "output_timeline_data")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extract:
    """One cycle without its artifacts. `layout` is the id; `name` the last part of its path."""

    layout: str
    name: str
    rank: int
    #: Whether it is one of the profiler's windows: graphs and summaries lie where they like, and are none.
    is_window: bool
    #: The rank in the name of a directory above, the nearest one that says any.
    rank_above: int | None = None
    #: What is known to have been on or off.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    #: How many files were read, and how many rows their tables have.
    files: int = 0
    rows: int = 0
    #: The number of ranks that its trace states.
    world_size: int | None = None
    #: Slot, place and digest of each table with times; equal tables have equal digests.
    times: tuple[tuple[str, str, bytes], ...] = ()
    #: What ran in its steps; only known of recordings of several ranks.
    ran: Ran | None = None
    #: The result of `reduce(measure=...)` for this cycle.
    measurements: Any = None


def extract_of(cycle: Cycle, recording: Recording, measurements: Any = None) -> Extract:
    """Return the extract of a cycle."""
    tables = [t for f in cycle.files for t in (f.content.table, *f.content.tables.values()) if t is not None]
    return Extract(
        layout=cycle.layout.id,
        name=cycle.place.name,
        rank=cycle.rank,
        is_window=not cycle.layout.nests,
        rank_above=next((parent.rank for parent in cycle.parents if parent.rank is not None), None),
        conditions=cycle.conditions,
        files=len(cycle.files),
        rows=sum(table.height for table in tables) + sum(file.content.events for file in cycle.files),
        world_size=_world_size(cycle),
        times=tuple(_times_seen(cycle)),
        ran=_ran_in_the_window(cycle) if has_several_ranks(recording) else None,
        measurements=measurements,
    )


def has_several_ranks(recording: Recording) -> bool:
    """Whether a recording was made of several ranks together."""
    return recording.fingerprint is not None and recording.rank is None


def _world_size(cycle: Cycle) -> int | None:
    trace = cycle.content("trace")
    distributed = trace.document.get("distributedInfo") if trace is not None else None
    size = distributed.get("world_size") if isinstance(distributed, Mapping) else None
    return size if isinstance(size, int) else None


def _times_seen(cycle: Cycle) -> Iterator[tuple[str, str, bytes]]:
    for slot in _TIMED:
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        if artifact.content.digest:
            # It was streamed; the same file again is too.
            yield slot, artifact.place, artifact.content.digest
        elif artifact.content.table is not None and artifact.content.table.streamed is not None:
            # Of streamed kernels the sums, and the first and last start of each name [ns], are known.
            if cycle.executions is not None and cycle.executions.calls:
                seen = repr(cycle.executions.counts.by_name).encode()
                yield slot, artifact.place, hashlib.blake2b(seen, digest_size=32).digest()
        elif artifact.content.table is not None and artifact.content.frame.height:
            yield slot, artifact.place, artifact.content.table.digest()


def _ran_in_the_window(cycle: Cycle) -> Ran | None:
    if cycle.executions is None:
        return None
    calls = calls_by(cycle.executions.counts.by_name, "operator")
    if cycle.executions.by_step:
        calls -= calls_by(cycle.executions.counts.by_name, "operator", "outside")
    return cycle.executions.steps or 0, tuple(calls.items())


class Sharing:
    """Keeps equal values once: a thousand ranks that ran the same cost as much as one."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def shared(self, extract: Extract) -> Extract:
        """Return an extract whose values are those of earlier extracts, where they are equal."""
        conditions = self._known.setdefault(("conditions", *sorted(extract.conditions.items())), extract.conditions)
        return replace(
            extract,
            layout=self._one(extract.layout),
            name=self._one(extract.name),
            conditions=conditions,
            times=self._one(extract.times),
            ran=self._one(extract.ran),
        )

    def _one(self, value: Any) -> Any:
        # True is no 1: what is shared is of one type.
        return self._known.setdefault((type(value), value), value)
