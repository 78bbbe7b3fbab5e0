"""What ran in the traces of a batch: operators and kernels added up by step.

A folder of queries says it of its traces, where it has these files, each one query:

* `steps.sql`: the marks of steps (`cycle, start_ns, duration_ns, thread, number`);
* `nested.sql`: spans that lie in each other on their thread, as `nest` takes them, where `executions.sql` needs `nesting`;
* `executions.sql`: the rows of `executions`, once `steps` and `nesting` are filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from perfguard.artifacts.nesting import nest
from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.counts import counts_of
from perfguard.dialects.cycle import Cycle, Executions
from perfguard.dialects.executions import marks_of_steps
from perfguard.dialects.queries import DIALECTS, WORK, sql
from perfguard.errors import UsageError

#: The table in which it is added up.
_SUMS = "operator_sums"
#: The starts and ends [ns] of the steps of a cycle in order, and the profiler's numbers of them.
_Marks = tuple[tuple[tuple[int, int], ...], tuple[int, ...]]


def work_of(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Executions]:
    """Return what ran in each cycle whose dialect says it of its trace, by its number.

    Fills the tables that follow from others: `steps`, `nesting` and `executions`. Times are in ns. Raises `OSError` where the
    memory of this machine is not enough.
    """
    batch.hand_over()
    marked: dict[int, _Marks] = {}
    folders = {number: folder for number, cycle in cycles.items() if (folder := _folder_of(cycle))}
    for folder in dict.fromkeys(folders.values()):
        own = {number: cycles[number] for number, one in folders.items() if one == folder}
        # Its queries look at all rows there are.
        only = "" if len(own) == len(cycles) else f"where cycle in ({', '.join(map(str, own))})"
        marked |= _fill(batch, folder, own, only)
    if not marked:
        return {}
    counts = counts_of(batch, _SUMS, marked, times=False)
    return {
        cycle: Executions(
            table=_SUMS,
            counts=counts[cycle],
            steps=len(edges_ns) or None,
            by_step=bool(edges_ns),
            step_numbers=numbers,
            edges_ns=edges_ns,
            marks_steps=True,
        )
        for cycle, (edges_ns, numbers) in marked.items()
    }


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
    with _of_the_file(f"{folder}/steps.sql"):
        marks = frames(
            batch,
            f"select cycle, start_ns, duration_ns, number, thread from ({queries['steps']}) order by cycle, start_ns",
            cycles,
        )
    for number, cycle in cycles.items():
        if cycle.requested.active is None and cycle.requested.steps:
            header = cycle.artifacts[DIALECTS[cycle.layout.id].slot].content.document
            marks[number] = marks_of_steps(marks[number], cycle.requested, header)
        starts, lasts = (marks[number][name].to_numpy() for name in ("start_ns", "duration_ns"))
        edges = tuple(zip(starts.tolist(), (starts + lasts).tolist(), strict=True))
        marked[number] = (edges, tuple(marks[number]["number"].to_list()))
        batch.add(
            "steps", number, step=np.arange(len(starts)), number=marks[number]["number"].to_numpy(),
            thread=marks[number]["thread"].to_numpy(), start_ns=starts, end_ns=starts + lasts,
        )  # fmt: skip
    batch.hand_over()
    if "nested" in queries:
        with _of_the_file(f"{folder}/nested.sql"):
            begun = {number: [start for start, _ in edges] for number, (edges, _) in marked.items()}
            nest(batch, f"({queries['nested']})", begun)
        batch.hand_over()
    with _of_the_file(f"{folder}/executions.sql"):
        batch.fill("executions", queries["executions"])
    return marked


@contextmanager
def _of_the_file(name: str) -> Iterator[None]:
    """Name the query that cannot be run. Raises `UsageError`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise UsageError(f"{name} cannot be run: {' '.join(str(error).split())}") from error
