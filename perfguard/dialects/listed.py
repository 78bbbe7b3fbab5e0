"""Executions that files of MindSpore list: one by one, or how often each operator ran and how long on average.

Views of the dialects have a row for each execution, or for `calls` of them: `row`, `operator`, `name`, `start_ns` and
`duration_ns`. Where only averages are known all begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.executions import Listed, calls_by, infer_steps, step_of, summed

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle, Executions, Requested


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A view that lists executions, and the slots from which its rows come."""

    view: str
    needs: tuple[str, ...]
    on_device: bool = True
    is_timeline: bool = False


#: The first whose slots were all read is taken, so what a device did goes before what the host did for it.
SOURCES = (
    Source(view="timeline_executions", needs=("output_timeline_data",), is_timeline=True),
    Source(view="average_executions", needs=("aicore_intermediate_detail",)),
    Source(view="gpu_executions", needs=("gpu_op_detail_info",)),
    Source(
        view="cpu_executions",
        needs=("cpu_op_execute_timestamp", "cpu_op_detail_info"),
        on_device=False,
        is_timeline=True,
    ),
)


def listed_executions(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Executions]:
    """Return the executions of each cycle whose files list them, added up, by its number."""
    sources = {number: source for number, cycle in cycles.items() if (source := _source_of(cycle)) is not None}
    found: dict[int, Executions] = {}
    for source in dict.fromkeys(sources.values()):
        own = [number for number, one in sources.items() if one is source]
        rows = frames(batch, f"from {source.view} order by cycle, start_ns nulls first, row", own)
        found |= {number: summed(listed(rows[number], source, cycles[number].requested)) for number in own}
    return found


def _source_of(cycle: Cycle) -> Source | None:
    return next((one for one in SOURCES if all(slot in cycle.artifacts for slot in one.needs)), None)


def listed(rows: pl.DataFrame, source: Source, requested: Requested) -> Listed:
    """Return rows of a view with the steps they are of.

    MindSpore marks no steps in these files. Where perfguard drove the steps itself, their edges join with the times of a host:
    both are UNIX time. Elsewhere the number of steps is inferred from the counts (`infer_steps`).
    """
    import polars as pl

    steps = () if source.on_device else tuple(sorted((step.start_ns, step.end_ns) for step in requested.steps))
    edges = steps
    if edges and rows.height and (rows["start_ns"].max() or 0) < edges[0][0] // 2:  # type: ignore[operator]
        # MindSpore 2.0 counts from the start of the machine: its times match those of no other file.
        edges = ()
    places = pl.Series("step", step_of(rows["start_ns"].to_list(), edges), dtype=pl.Int64)
    asked_for = None if source.on_device else requested.active
    return Listed(
        rows=rows.select(
            "operator", "name", places, "start_ns", "duration_ns", pl.col("duration_ns").alias("self_ns"),
            pl.lit(None, dtype=pl.String).alias("shapes"), "calls",
        ),
        steps=len(steps) or asked_for or infer_steps(calls_by(rows, "name")),
        by_step=bool(edges),
        edges_ns=edges,
        on_device=source.on_device,
        is_timeline=source.is_timeline,
    )  # fmt: skip
