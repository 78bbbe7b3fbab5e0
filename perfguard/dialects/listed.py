"""Executions that files list one by one, or as averages: MindSpore's files, and the databases of Ascend devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfguard.artifacts.table import in_int64
from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch
from perfguard.dialects.counts import calls_by, counts_of, infer_steps, is_any_outside
from perfguard.dialects.cycle import Counts, Executions
from perfguard.dialects.headers import place_of

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: The table in which they are added up.
_SUMS = "listed_sums"
#: Start and end [ns] of a step, and the profiler's number of it.
_Mark = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A view that lists executions, and the tables from which its rows come."""

    view: str
    needs: tuple[str, ...]
    on_device: bool = True
    is_timeline: bool = False


_DATABASE = Source(
    view="database_executions", needs=("db_task", "db_compute_task_info", "db_string_ids"), is_timeline=True
)
_HOST = Source(
    view="cpu_executions",
    needs=("cpu_op_execute_timestamp", "cpu_op_detail_info"),
    on_device=False,
    is_timeline=True,
)
#: The first whose files were all read is taken, so what a device did goes before what the host did for it.
SOURCES = (
    _DATABASE,
    Source(view="timeline_executions", needs=("output_timeline_data",), is_timeline=True),
    Source(view="average_executions", needs=("aicore_intermediate_detail",)),
    Source(view="gpu_executions", needs=("gpu_op_detail_info",)),
    _HOST,
)


def listed_executions(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Executions]:
    """Return the executions of each cycle whose files list them, added up, by its number; fills `listed` and `steps`."""
    sources = {number: source for number, cycle in cycles.items() if (source := _source_of(cycle)) is not None}
    if not sources:
        return {}
    marks: dict[int, list[_Mark]] = {number: [] for number in sources}
    for source in dict.fromkeys(sources.values()):
        own = {number: cycles[number] for number, one in sources.items() if one is source}
        for number, *mark in _marks(batch, source, own):
            marks[number].append((mark[0], mark[1], mark[2]))
        for number in own:
            starts, ends, numbers = np.array(marks[number], np.int64).reshape(-1, 3).T
            order = np.arange(len(starts))
            unknown = np.full(len(starts), NULL)
            batch.add("steps", number, step=order, number=numbers, thread=unknown, start_ns=starts, end_ns=ends)
        batch.fill("listed", f"from with_steps('{source.view}') where cycle in ({', '.join(map(str, own))})")
    # Names of a device's kernels contain running numbers.
    on_device = [number for number, source in sources.items() if source.on_device]
    compared = f"if(cycle in ({', '.join(map(str, on_device))}), operator, name)" if on_device else "name"
    counts = counts_of(batch, _SUMS, sources, compared=compared)
    return {
        number: Executions(
            table=_SUMS,
            counts=counts[number],
            steps=_steps(cycles[number], source, len(marks[number]), counts[number]),
            by_step=bool(marks[number]) and not (source.on_device and is_any_outside(counts[number])),
            step_numbers=tuple(mark[2] for mark in marks[number]) if source is _DATABASE else (),
            edges_ns=() if source.on_device else tuple((start, end) for start, end, _ in marks[number]),
            marks_steps=bool(marks[number]) and source is _DATABASE,
            on_device=source.on_device,
            is_timeline=source.is_timeline,
        )
        for number, source in sources.items()
    }


def _source_of(cycle: Cycle) -> Source | None:
    if "kernel_details" in cycle.artifacts:
        return None
    return next((one for one in SOURCES if all(place_of(table, cycle) is not None for table in one.needs)), None)


def _marks(batch: Batch, source: Source, cycles: Mapping[int, Cycle]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the steps that are known: cycle, start and end [ns], number.

    MindSpore marks no steps in its files. Where perfguard drove the steps itself, their edges join with the times of a host:
    both are UNIX time.
    """
    if source is _DATABASE:
        # The steps are the host's, and kernels run behind them: one that starts after the last step is of the last step.
        yield from batch.execute(
            f"select cycle, start_ns, {NULL}, id from db_step_time where start_ns is not null "
            f"and cycle in ({', '.join(map(str, cycles))}) order by cycle, start_ns, end_ns, id"
        )
    elif not source.on_device:
        latest = dict(batch.execute(f"select cycle, max(start_ns) from {source.view} group by cycle"))
        for number, cycle in cycles.items():
            steps = sorted((in_int64(step.start_ns), in_int64(step.end_ns)) for step in cycle.requested.steps)
            # MindSpore 2.0 counts from the start of the machine: its times match those of no other file.
            if steps and (latest.get(number, steps[0][0]) or 0) >= steps[0][0] // 2:
                yield from ((number, start, end, place) for place, (start, end) in enumerate(steps))


def _steps(cycle: Cycle, source: Source, marked: int, counts: Counts) -> int | None:
    """Return the number of steps; inferred from the counts where it is not known."""
    if source is _DATABASE:
        return marked or None
    known = 0 if source.on_device else len(cycle.requested.steps) or cycle.requested.active
    return known or infer_steps(calls_by(counts.by_name, "name"))
