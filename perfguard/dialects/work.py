"""What ran in the traces of a batch: operators and kernels added up by step.

A folder of queries says it of its traces, where it has these files, each one query:

* `steps.sql`: the marks of steps (`cycle, start_ns, duration_ns, thread, number`); where it returns `ran`, a mark in which
  nothing ran is no step;
* `nested.sql`: spans that lie in each other on their thread, as `nest` takes them, where `executions.sql` needs `nesting`;
* `complete.sql`: the cycles whose profiler numbers what ran and lost none of it, where it numbers anything;
* `executions.sql`: the rows of `executions`, once `steps` and `nesting` are filled; it may leave out `on_device`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfguard.artifacts.nesting import nest
from perfguard.artifacts.table_definitions import TABLES
from perfguard.artifacts.tables import Batch
from perfguard.dialects.counts import counts_of
from perfguard.dialects.cycle import Cycle, Executions
from perfguard.dialects.queries import DIALECTS, WORK, sql
from perfguard.errors import UsageError

#: The table in which it is added up.
_SUMS = "operator_sums"


class _Mark(NamedTuple):
    start_ns: int
    end_ns: int
    number: int
    thread: int
    #: Whether anything ran in it.
    ran: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """The steps of a cycle in order: their starts and ends [ns], and the profiler's numbers; numbers of marks without work."""

    edges_ns: tuple[tuple[int, int], ...]
    numbers: tuple[int, ...]
    idle_numbers: tuple[int, ...]


def work_of(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Executions]:
    """Return what ran in each cycle whose dialect says it of its trace, by its number.

    Fills the tables that follow from others: `steps`, `nesting` and `executions`. Times are in ns. Raises `OSError` where the
    memory of this machine is not enough.
    """
    batch.hand_over()
    marked: dict[int, _Marks] = {}
    complete: set[int] = set()
    folders = {number: folder for number, cycle in cycles.items() if (folder := _folder_of(cycle))}
    for folder in dict.fromkeys(folders.values()):
        own = {number: cycles[number] for number, one in folders.items() if one == folder}
        # Its queries look at all rows there are.
        only = "" if len(own) == len(cycles) else f"where cycle in ({', '.join(map(str, own))})"
        marked |= _fill(batch, folder, own, only)
        if text := sql(folder, "complete"):
            with _of_the_file(f"{folder}/complete.sql"):
                complete |= {cycle for (cycle,) in batch.execute(f"select cycle from (\n{text}\n) {only}")}
    if not marked:
        return {}
    counts = counts_of(batch, _SUMS, marked, times=False)
    silent = [cycle for cycle, one in counts.items() if not one.by_name]
    numbered = _numbered(batch) if silent else frozenset()
    return {
        cycle: Executions(
            table=_SUMS,
            counts=counts[cycle],
            steps=len(marks.edges_ns) or None,
            by_step=bool(marks.edges_ns),
            step_numbers=marks.numbers,
            edges_ns=marks.edges_ns,
            marks_steps=True,
            idle_numbers=marks.idle_numbers,
            has_other_events=cycle in numbered,
            is_complete=cycle in complete,
        )
        for cycle, marks in marked.items()
    }


def _numbered(batch: Batch) -> frozenset[int]:
    """Return the cycles with numbered events: torch's numbers say that none was lost."""
    return frozenset(
        cycle for (cycle,) in batch.execute("select distinct cycle from spans where event_index is not null")
    )


def _folder_of(cycle: Cycle) -> str:
    """Return the folder that says what ran in a cycle whose trace was read; empty for none."""
    dialect = DIALECTS[cycle.layout.id]
    return dialect.folder_of_work if dialect.slot in cycle.artifacts else ""


def _fill(batch: Batch, folder: str, cycles: Mapping[int, Cycle], only: str) -> dict[int, _Marks]:
    """Fill the tables with what a folder says of some cycles; return their steps."""
    marked: dict[int, _Marks] = {}
    queries = {name: f"select * from (\n{text}\n) {only}" for name in WORK if (text := sql(folder, name))}
    if "steps" not in queries:
        raise UsageError(f"{folder}/executions.sql says what ran, and there is no {folder}/steps.sql; add it.")
    marks: dict[int, list[_Mark]] = {number: [] for number in cycles}
    with _of_the_file(f"{folder}/steps.sql"):
        for number, *mark in batch.execute(
            "select cycle, start_ns, start_ns + duration_ns, number, thread, coalesce(ran, true) "
            f"from (({queries['steps']}) union all by name (select null::boolean as ran where false)) "
            "order by cycle, start_ns"
        ):
            if number in marks:
                if None in mark:
                    raise UsageError(f"{folder}/steps.sql returned a mark without a start, duration, thread or number.")
                marks[number].append(_Mark(*mark))
    for number, cycle in cycles.items():
        own = marks[number]
        if cycle.requested.active is None and cycle.requested.steps:
            own = _marks_of_steps(own, cycle, DIALECTS[cycle.layout.id].slot)
        ran = [mark for mark in own if mark.ran]
        marked[number] = _Marks(
            edges_ns=tuple((mark.start_ns, mark.end_ns) for mark in ran),
            numbers=tuple(mark.number for mark in ran),
            idle_numbers=tuple(mark.number for mark in own if not mark.ran),
        )
        starts, ends, numbers, threads, _ = np.array(ran, np.int64).reshape(-1, len(_Mark._fields)).T
        batch.add(
            "steps", number, step=np.arange(len(ran)), number=numbers, thread=threads, start_ns=starts, end_ns=ends
        )
    batch.hand_over()
    if "nested" in queries:
        with _of_the_file(f"{folder}/nested.sql"):
            begun = {number: [start for start, _ in marks.edges_ns] for number, marks in marked.items()}
            nest(batch, f"({queries['nested']})", begun)
        batch.hand_over()
    with _of_the_file(f"{folder}/executions.sql"):
        # A dialect of hosts alone need not say that nothing ran on a device.
        also = "select null::boolean as on_device where false"
        batch.fill(
            "executions",
            f"select {', '.join(TABLES['executions'])} from (({queries['executions']}) union all by name ({also}))",
        )
    return marked


def _marks_of_steps(marks: Sequence[_Mark], cycle: Cycle, slot: str) -> list[_Mark]:
    """Return the marks that turned out to be of steps, numbered anew; which these are is known, whatever ran in them.

    While a whole run is recorded it is unknown whether a call belongs to a step or to an evaluation before the first one,
    and a mark cannot be taken back. steps.json says which were steps, in UNIX time; so does the trace, from its base on.
    """
    header = cycle.artifacts[slot].content.document
    base = header.get("baseTimeNanoseconds", 0) if isinstance(header, Mapping) else 0
    edges = sorted((step.start_ns - base, step.end_ns - base) for step in cycle.requested.steps)
    steps = step_of([mark.start_ns for mark in marks], edges)
    kept = [mark for mark, step in zip(marks, steps, strict=True) if step is not None]
    return [mark._replace(number=number, ran=True) for number, mark in enumerate(kept)]


def step_of(start_ns: Sequence[int], edges_ns: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the number of the step that contains each time, None for a time in none. Edges are in order and closed."""
    starts = [start for start, _ in edges_ns]
    found = []
    for time in start_ns:
        step = bisect_right(starts, time) - 1
        found.append(step if step >= 0 and time <= edges_ns[step][1] else None)
    return found


@contextmanager
def _of_the_file(name: str) -> Iterator[None]:
    """Name the query that cannot be run. Raises `UsageError`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise UsageError(f"{name} cannot be run: {' '.join(str(error).split())}") from error
