"""What ran in the traces of a batch: operators and kernels added up by step.

A folder of queries says it of its traces, where it has these files, each one query:

* `steps.sql`: the marks of steps (`cycle, start_ns, duration_ns, thread, number`);
* `nested.sql`: spans that lie in each other on their thread, as `nest` takes them, where `executions.sql` needs `nesting`;
* `executions.sql`: the rows of `executions`, once `steps` and `nesting` are filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from perfguard.artifacts.nesting import nest
from perfguard.artifacts.readers.events import Words
from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Cycle, Executions
from perfguard.dialects.executions import groups_of, marks_of_steps
from perfguard.dialects.queries import DIALECTS, WORK, sql
from perfguard.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

_SHAPES, _KINDS = msgspec.json.Decoder(list[Any] | None), msgspec.json.Decoder(list[str] | None)
#: Start and end [ns] of each step.
Edges = tuple[tuple[int, int], ...]
#: The sums of so many steps are queried together.
STEPS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class MarkedSteps:
    """The steps of a cycle as its trace marks them: their starts and ends in order, and the profiler's numbers."""

    edges_ns: Edges
    numbers: tuple[int, ...]


def fill_work(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, MarkedSteps]:
    """Return the steps of each cycle whose dialect says what ran in it, by its number.

    Fills the tables that follow from others: `steps`, `nesting` and `executions`. Times are in ns. Raises `OSError` where the
    memory of this machine is not enough.
    """
    batch.hand_over()
    marked: dict[int, MarkedSteps] = {}
    folders = {number: folder for number, cycle in cycles.items() if (folder := _folder_of(cycle))}
    for folder in dict.fromkeys(folders.values()):
        own = {number: cycles[number] for number, one in folders.items() if one == folder}
        # Its queries look at all rows there are.
        only = "" if len(own) == len(cycles) else f"where cycle in ({', '.join(map(str, own))})"
        marked |= _fill(batch, folder, own, only)
    return marked


def work_of(batch: Batch, marked: Mapping[int, MarkedSteps]) -> dict[int, Executions]:
    """Return what ran in each cycle of which `fill_work` returned the steps, by its number.

    Of a long run this is the most that is held, so it comes after all other queries. Raises `OSError` as `fill_work` does.
    """
    if not marked:
        return {}
    edges = {number: one.edges_ns for number, one in marked.items()}
    steps = max(map(len, edges.values()))
    wheres = [f"where step >= {first} and step < {first + STEPS_AT_ONCE}" for first in range(0, steps, STEPS_AT_ONCE)]
    wheres = ["where step is null", *wheres] if steps > STEPS_AT_ONCE else [""]
    shapes = _shapes(batch, marked)
    covered = covered_sums(batch, edges)
    collectives = frames(
        batch,
        "select cycle, word(name) as operator, start_ns, duration_ns from annotated_collectives order by cycle, start_ns",
        marked,
    )
    groups = groups_of(batch, [f"from operator_sums {where}" for where in wheres], marked)
    return {
        cycle: Executions(
            groups=groups[cycle],
            shapes=shapes[cycle],
            covered=covered[cycle],
            collectives=collectives[cycle],
            steps=len(one.edges_ns) or None,
            by_step=bool(one.edges_ns),
            step_numbers=one.numbers,
            edges_ns=one.edges_ns,
            marks_steps=True,
        )
        for cycle, one in marked.items()
    }


def _folder_of(cycle: Cycle) -> str:
    """Return the folder that says what ran in a cycle whose trace was read; empty for none."""
    dialect = DIALECTS[cycle.layout.id]
    return dialect.folder_of_work if dialect.slot in cycle.artifacts else ""


def _fill(batch: Batch, folder: str, cycles: Mapping[int, Cycle], only: str) -> dict[int, MarkedSteps]:
    """Fill the tables with what a folder says of some cycles; return their steps."""
    marked: dict[int, MarkedSteps] = {}
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
        marked[number] = MarkedSteps(edges, tuple(marks[number]["number"].to_list()))
        batch.add(
            "steps", number, step=np.arange(len(starts)), number=marks[number]["number"].to_numpy(),
            thread=marks[number]["thread"].to_numpy(), start_ns=starts, end_ns=starts + lasts,
        )  # fmt: skip
    batch.hand_over()
    if "nested" in queries:
        with _of_the_file(f"{folder}/nested.sql"):
            begun = {number: [start for start, _ in one.edges_ns] for number, one in marked.items()}
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


def _shapes(batch: Batch, cycles: Mapping[int, Any]) -> dict[int, pl.DataFrame]:
    """Return how often each operator ran with which shapes in the window."""
    import polars as pl

    found = frames(batch, "from input_sums order by cycle, operator", cycles)
    shapes = {}
    for cycle, rows in found.items():
        texts = [_shape(dims, types) for dims, types in rows.select("dims", "types").iter_rows()]
        recorded = rows.select("operator", "name", pl.Series("shapes", texts, dtype=pl.String), "calls").drop_nulls(
            "shapes"
        )
        shapes[cycle] = _added_up(recorded)
    return shapes


def _added_up(recorded: pl.DataFrame) -> pl.DataFrame:
    """Add up the calls of arguments that are worded alike, in the order of the first ones."""
    import polars as pl

    # By numbers: of half a million texts that takes a third of the memory.
    words = Words()
    pairs = recorded["name"].to_numpy() << 32 | words.numbers(recorded["shapes"], recorded.height)
    _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    calls = np.zeros(len(first), np.int64)
    np.add.at(calls, group, recorded["calls"].to_numpy())
    order = np.argsort(first)
    firsts: pl.DataFrame = recorded[first[order]]
    return firsts.select("operator", "shapes", calls=pl.Series(calls[order]))


@lru_cache(maxsize=10_000)
def _shape(dims: str, types: str | None) -> str | None:
    """Return `float[4, 8];long[]`, dtype and shape of every input of an operator; None for other JSON than torch writes."""
    try:
        shapes = _SHAPES.decode(dims)
        kinds = _KINDS.decode(types or "null")
    except (msgspec.DecodeError, RecursionError):
        return None
    if shapes is None:
        return None
    pairs = zip(kinds or [""] * len(shapes), shapes, strict=False)
    return ";".join(f"{kind}{shape}" if shape or kind else "-" for kind, shape in pairs)
