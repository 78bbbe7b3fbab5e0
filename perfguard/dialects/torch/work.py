"""What ran in the traces of a batch: operators and kernels added up by step, memory of each step, calls of the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.nesting import nest
from perfguard.dialects.collectives import COLLECTIVE, HOST_COLLECTIVE
from perfguard.dialects.coverage import Covered
from perfguard.dialects.cycle import Asked, Executions, MemoryStep
from perfguard.dialects.executions import HANDLE, marks_of_steps, torch_shapes
from perfguard.dialects.torch.memory import Edges, memory_steps

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.tables import Batch

#: What views and queries ask of a text, as macros.
MACROS = f"""
create macro is_collective(name) as regexp_matches(name, '{COLLECTIVE.pattern}');
create macro is_host_collective(name) as regexp_matches(name, '{HOST_COLLECTIVE.pattern}');
"""
#: What a call does, by its name in CUDA's runtime and driver API (13.0) and in HIP's (7.0); the first that fits.
CALLS = {
    "launches": "LaunchKernel|LaunchCooperativeKernel|ModuleLaunchKernel|GraphLaunch",
    "copies": "Mem(cpy|set)",
    "synchronisations": "Synchronize",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What ran in one trace."""

    executions: Executions
    memory: tuple[MemoryStep, ...] = ()
    #: By kind of call, how often it was made in each step; without steps, in the window. Empty where no call was traced.
    calls: Mapping[str, list[int]] = field(default_factory=dict)


def work_of(batch: Batch, asked: Mapping[int, tuple[Asked, Any]], executions: str) -> dict[int, Work]:
    """Return what ran in each cycle, from what was asked of it and the header of its trace.

    Fills the tables that follow from others: `steps`, `nesting`, and `executions` by the query of that name.
    """
    batch.hand_over()
    marks = _frames(
        batch, "select cycle, start_ns, duration_ns, number, thread from marked_steps order by cycle, start_ns", asked
    )
    edges: dict[int, Edges] = {}
    for cycle, (wanted, header) in asked.items():
        if wanted.active is None and wanted.steps:
            marks[cycle] = marks_of_steps(marks[cycle], wanted, header)
        starts, lasts = (marks[cycle][name].to_numpy() for name in ("start_ns", "duration_ns"))
        edges[cycle] = tuple(zip(starts.tolist(), (starts + lasts).tolist(), strict=True))
        batch.add(
            "steps", cycle, step=np.arange(len(starts)), number=marks[cycle]["number"].to_numpy(),
            thread=marks[cycle]["thread"].to_numpy(), start_ns=starts, end_ns=starts + lasts,
        )  # fmt: skip
    batch.hand_over()
    nest(batch, "nested_spans", {cycle: [start for start, _ in own] for cycle, own in edges.items()})
    batch.hand_over()
    batch.fill("executions", executions)
    groups = _groups(batch, asked)
    shapes = _shapes(batch, asked)
    covered = _covered(batch, edges)
    collectives = _frames(
        batch,
        "select cycle, word(name) as operator, start_ns, duration_ns from annotated_collectives order by cycle, start_ns",
        asked,
    )
    memory = memory_steps(batch, edges)
    calls = _calls(batch, edges)
    return {
        cycle: Work(
            executions=Executions(
                groups=groups[cycle],
                shapes=shapes[cycle],
                covered=covered[cycle],
                collectives=collectives[cycle],
                steps=len(edges[cycle]) or None,
                by_step=bool(edges[cycle]),
                step_numbers=tuple(marks[cycle]["number"].to_list()),
                edges_ns=edges[cycle],
                marks_steps=True,
            ),
            memory=memory.get(cycle, ()),
            calls=calls.get(cycle, {}),
        )
        for cycle in asked
    }


def _frames(batch: Batch, query: str, cycles: Mapping[int, Any]) -> dict[int, pl.DataFrame]:
    """Run a query whose rows come by cycle, `cycle` first; return the rows of each, integers as Int64, without it."""
    import polars as pl

    columns = batch.columns(query)
    whole = pl.DataFrame({name: _series(name, column) for name, column in columns.items()})
    firsts = np.searchsorted(whole["cycle"].to_numpy(), np.array([*cycles], np.int64), "left")
    ends = np.searchsorted(whole["cycle"].to_numpy(), np.array([*cycles], np.int64), "right")
    found = whole.drop("cycle")
    return {
        cycle: found.slice(first, end - first)
        for cycle, first, end in zip(cycles, firsts.tolist(), ends.tolist(), strict=True)
    }


def _series(name: str, column: Any) -> pl.Series:
    import polars as pl

    if column.dtype == object:
        return pl.Series(name, column.tolist(), dtype=pl.String)
    values = pl.Series(name, np.ma.getdata(column).astype(np.int64))  # type: ignore[no-untyped-call]
    is_null = np.ma.getmaskarray(column)  # type: ignore[no-untyped-call]
    return values.set(pl.Series(is_null), None) if is_null.any() else values


def _groups(batch: Batch, cycles: Mapping[int, Any]) -> dict[int, pl.DataFrame]:
    """Return executions added up by operator and step, as `groups.aggregated` has them."""
    import polars as pl

    handles = ", ".join(f"'{name}'" for name in HANDLE)
    found = _frames(
        batch,
        "with added as (select cycle, name, step, count(*) as calls, within(sum(duration_ns)) as total_ns, "
        "within(sum(self_ns)) as self_ns, count(*) filter (start_ns = 0 and duration_ns = 0) as unfilled, "
        "min(start_ns) as first_ns, arg_min(row, start_ns) as first_place, max(start_ns) as last_ns, "
        "arg_max(row, start_ns) as last_place from executions where counts group by cycle, name, step) "
        # torch 1.12 keeps the handle of a step's mark in a tensor, made between steps.
        "select * from added where not (step is null and cycle in (select cycle from steps) "
        f"and name in (select number from words where text in ({handles}))) "
        "order by cycle, first_ns, first_place",
        cycles,
    )
    texts = pl.Series("name", batch.texts, dtype=pl.String)
    return {
        cycle: rows.with_columns(texts.gather(rows["name"])).select(
            pl.col("name").alias("operator"), "name", "step", pl.lit(None, dtype=pl.String).alias("shapes"),
            *rows.columns[2:],
        )
        for cycle, rows in found.items()
    }  # fmt: skip


def _shapes(batch: Batch, cycles: Mapping[int, Any]) -> dict[int, pl.DataFrame]:
    """Return how often each operator ran with which shapes in the window."""
    import polars as pl

    found = _frames(
        batch,
        "select cycle, word(name) as operator, word(input_shapes) as dims, word(input_types) as types, calls from ("
        "select cycle, name, input_shapes, input_types, count(*) as calls from executions "
        "where counts and input_shapes is not null and (step is not null or cycle not in (select cycle from steps)) "
        "group by all) order by cycle, operator",
        cycles,
    )
    shapes = {}
    for cycle, rows in found.items():
        texts = torch_shapes([_inputs(dims, types) for dims, types in rows.select("dims", "types").iter_rows()])
        told = rows.select("operator", pl.Series("shapes", texts, dtype=pl.String), "calls").drop_nulls("shapes")
        # Different arguments may be worded alike.
        shapes[cycle] = told.group_by("operator", "shapes", maintain_order=True).agg(pl.col("calls").sum())
    return shapes


def _inputs(dims: str, types: str | None) -> str:
    """Return the arguments that say the shapes, as the trace has them."""
    kinds = "" if types is None else f', "Input type": {types}'
    return f'{{"Input Dims": {dims}{kinds}}}'


def _covered(batch: Batch, edges: Mapping[int, Edges]) -> dict[int, tuple[Covered, ...]]:
    """Return in how much of each step operators ran, collectives, and any of the two; cut at its edges."""
    found = batch.columns(
        "with ran as (select cycle, step, start_ns, duration_ns, is_collective from executions where step is not null "
        "union all select steps.cycle, steps.step, annotated.start_ns, annotated.duration_ns, true "
        "from annotated_collectives as annotated join steps on steps.cycle = annotated.cycle "
        "and annotated.start_ns < steps.end_ns and annotated.start_ns + annotated.duration_ns > steps.start_ns), "
        "cut as (select cycle, step, is_collective, "
        "greatest(steps.start_ns, least(steps.end_ns, ran.start_ns)) as begin_ns, "
        "greatest(steps.start_ns, least(steps.end_ns, ran.start_ns + ran.duration_ns)) as stop_ns "
        "from ran join steps using (cycle, step)), "
        # As long as there is no collective at all, operators are all there is.
        "apart as (select *, is_collective::integer as part from cut union all "
        "select *, 2 from cut where cycle in (select cycle from cut where is_collective)), "
        "alone as (select cycle, step, part, stop_ns - greatest(begin_ns, coalesce(max(stop_ns) over (partition by "
        "cycle, step, part order by begin_ns rows between unbounded preceding and 1 preceding), begin_ns)) as alone_ns "
        "from apart) "
        "select cycle, step, part, sum(alone_ns)::bigint as covered_ns from alone where alone_ns > 0 group by all"
    )
    told = {
        (cycle, step, part): covered
        for cycle, step, part, covered in zip(*(found[name].tolist() for name in found), strict=True)
    }
    return {
        cycle: tuple(
            Covered(
                operators_ns=(operators := told.get((cycle, step, 0), 0)),
                collectives_ns=told.get((cycle, step, 1), 0),
                either_ns=told.get((cycle, step, 2), operators),
            )
            for step in range(len(steps))
        )
        for cycle, steps in edges.items()
    }


def _calls(batch: Batch, edges: Mapping[int, Edges]) -> dict[int, dict[str, list[int]]]:
    """Return how often each kind of call began in each step; without steps, in the window."""
    kinds = " ".join(
        f"when regexp_matches(text, '{pattern}') then {place}" for place, pattern in enumerate(CALLS.values())
    )
    found = batch.execute(
        f"with kinds as (select number, case {kinds} end as kind from words) "
        "select launches.cycle, kind, if(steps.end_ns >= launches.start_ns, launches.step, null) as inside, count(*) "
        "from launches join kinds on kinds.number = launches.name "
        "left join steps on steps.cycle = launches.cycle and steps.step = launches.step group by all"
    )
    calls: dict[int, dict[str, list[int]]] = {}
    names = list(CALLS)
    for cycle, kind, step, count in found:
        steps = edges[cycle]
        own = calls.setdefault(cycle, {name: [0] * max(1, len(steps)) for name in names})
        place = step if steps else 0
        if kind is not None and place is not None:
            own[names[kind]][place] += count
    return calls
