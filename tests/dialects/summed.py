"""What tables add up, for tests: what ran by operator and step, and what covers each step, with texts in place of codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import polars as pl

from perfguard.artifacts.tables import Batch, batch
from perfguard.contract.inspection import InspectionOptions, ReadCycle, derive, read_cycle
from perfguard.contract.reduction import tasks_of
from perfguard.dialects.queries import definitions, named_texts
from perfguard.recording import Recording
from tests.dialects.counted import Covered

_COLUMNS = "step, calls, total_ns, self_ns, unfilled, first_ns, first_place"
_GROUPS = f"""
select cycle, word(operator) as operator, word(name) as name, null::varchar as shapes, {_COLUMNS},
  null::bigint as last_ns, null::bigint as last_place
from operator_sums
union all
select cycle, operator, name, shapes, {_COLUMNS}, last_ns, last_place from listed_sums
union all
select cycle, operator, word(name), word(shapes), {_COLUMNS}, last_ns, last_place from kernel_groups"""


def frame(tables: Batch, query: str) -> pl.DataFrame:
    """Run a query; return its rows. Integers are Int64, texts String."""
    kinds = {"O": pl.String, "f": pl.Float64}
    return pl.DataFrame(
        pl.Series(name, column.tolist(), dtype=kinds.get(column.dtype.kind, pl.Int64))
        for name, column in tables.columns(query).items()
    )


def groups(tables: Batch, cycle: int = 0) -> pl.DataFrame:
    """Return what ran in a cycle, added up by operator, name, step and shapes, by step and first start."""
    return frame(
        tables,
        f"select * exclude (cycle) from ({_GROUPS}) where cycle = {cycle} "
        "order by step nulls first, first_ns nulls first, first_place nulls first, operator, name, shapes nulls first",
    )


def covered(tables: Batch, steps: int, cycle: int = 0) -> tuple[Covered, ...]:
    """Return what covers each step of a cycle."""
    rows = tables.execute(f"select step, part, covered_ns from covered_sums where cycle = {cycle}")
    found = {(step, part): ns for step, part, ns in rows}
    return tuple(
        Covered(
            operators_ns=(own := found.get((step, 0), 0)),
            collectives_ns=found.get((step, 1), 0),
            either_ns=found.get((step, 2), own),
        )
        for step in range(steps)
    )


@contextmanager
def opened(recording: Recording) -> Iterator[Batch]:
    """Read the cycles of a recording into tables, with everything that follows from them."""
    tasks, _ = tasks_of(recording)
    needed = definitions(frozenset(task.found.layout.id for task in tasks))
    with batch(needed, named_texts()) as tables, ExitStack() as stack:
        read = [read_cycle(task, number, tables, InspectionOptions(), stack, None) for number, task in enumerate(tasks)]
        derive(tables, [one for one in read if isinstance(one, ReadCycle)])
        yield tables


def groups_of(recording: Recording) -> pl.DataFrame:
    """Return what ran in a recording, added up in each of its cycles."""
    count = len(tasks_of(recording)[0])
    with opened(recording) as tables:
        return pl.concat(groups(tables, cycle) for cycle in range(count))
