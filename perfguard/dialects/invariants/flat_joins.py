"""Files of the flat layouts (MindSpore 1.x to 2.4) that repeat each other: timelines, types of operators, ranks, columns.

Source, unless a function says otherwise: a real directory of MindSpore 1.x on Ascend (mindinsight test data), on which each
holds for every row. What a later version may write in another way is judged only where nine rows in ten agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import unquoted
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle

_MOST = 0.9
#: Six significant digits are printed, or a float's own; a clock is joined to a microsecond.
_RELATIVE = 1e-4
_CLOCK_US = 1.0


def _named(frame: pl.DataFrame, *names: str) -> str | None:
    return next((name for name in names if name in frame.columns), None)


def _quantity(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a text column as Float64 in its own unit; null for a cell that is no number, and for a missing column."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None] * frame.height, dtype=pl.Float64)
    return frame[column].str.strip_chars(' \t"').cast(pl.Float64, strict=False)


def _at(artifact: Artifact, row: int) -> str:
    assert artifact.content.table is not None
    return f"{artifact.place}{artifact.content.table.place(row)}"


@invariant(needs=("output_timeline_data", "ascend_timeline_display"))
def the_display_is_the_timeline(cycle: Cycle) -> Iterator[Finding]:
    """An execution of output_timeline_data is an event of the display: name, stream, duration, and one clock apart.

    The display counts microseconds from the first event of the run; durations agree to 0.01 us, starts to 1 us. Silent
    where fewer than half of the executions are there, from 2.1 on fewer than nine in ten: those versions draw other lanes.
    """
    import polars as pl

    artifact, display = cycle.artifacts["output_timeline_data"], cycle.artifacts["ascend_timeline_display"]
    cells, frame = artifact.content.frame, display.content.frame
    name = _named(cells, "op_name", "kernel_name")
    start = _named(cells, "start_time(ms)", "start_time(us)")
    if name is None or start is None or not {"tid", "dur"} <= set(frame.columns):
        return
    told = cells.with_row_index("row").select(
        "row",
        name=pl.col(name).str.strip_chars().str.split("/").list.last(),
        stream=pl.col("stream_id").str.strip_chars(),
        start=_quantity(cells, start) * (1000 if start.endswith("(ms)") else 1),
        lasts=_quantity(cells, "duration(ms)") * 1000,
    )
    drawn = frame.filter(pl.col("ph") == '"X"').select(
        name=unquoted("name").str.split("/").list.last(),
        stream=pl.col("tid").str.strip_chars('"'),
        at=pl.col("ts").str.strip_chars('"').cast(pl.Float64, strict=False),
        shown=pl.col("dur").str.strip_chars('"').cast(pl.Float64, strict=False),
    )
    keys = ["name", "stream"]
    # Executions of one operator on one stream in the order of their starts, here and there.
    one = told.sort("start").with_columns(number=pl.int_range(pl.len()).over(keys))
    other = drawn.sort("at").with_columns(number=pl.int_range(pl.len()).over(keys))
    both = one.join(other, on=[*keys, "number"], how="left", maintain_order="left")
    both = both.with_columns(apart=pl.col("at") - pl.col("start"))
    apart = both["apart"].drop_nulls().median()
    few = 0.5 if cycle.layout.id in ("ms-1.x", "ms-2.0") else 1 - _MOST
    if apart is None or both["at"].null_count() > few * both.height:
        return
    lost = (
        both["at"].is_null()
        | ((both["shown"] - both["lasts"]).abs() > 0.01)
        | ((both["apart"] - apart).abs() > _CLOCK_US)
    )
    if lost.fill_null(False).sum() > (1 - _MOST) * both.height:
        # All of a column in another unit, or all of another run: said once.
        yield Finding(
            code=Code.I113,
            place=display.place,
            message=f"{int(lost.sum())} of {both.height} executions of {artifact.path.name} are drawn at other times",
        )
        return
    broken = both.filter(lost).sort("row")
    yield from disagreements(
        Code.I103,
        (
            (_at(artifact, row), f"{operator}: {lasts:.6g} us at {begin:.3f} us is not drawn so in {display.path.name}")
            for row, operator, lasts, begin in broken.select("row", "name", "lasts", "start").iter_rows()
        ),
        count=broken.height,
        place=artifact.place,
    )
    spare = other.join(one, on=[*keys, "number"], how="anti").join(one.select(keys).unique(), on=keys, how="semi")
    if spare.height:
        names = ", ".join(sorted(spare["name"].unique().to_list())[:8])
        yield Finding(
            code=Code.I103,
            place=display.place,
            message=f"{spare.height} more events than executions in {artifact.path.name}: of {names}",
        )


@invariant(needs=("output_op_compute_time_detail", "aicore_intermediate_type"))
def called_types_are_the_types(cycle: Cycle) -> Iterator[Finding]:
    """compute_time per type = the time of aicore_intermediate_type, called_times its frequency, types are listed once."""
    import polars as pl

    artifact, kinds = cycle.artifacts["output_op_compute_time_detail"], cycle.artifacts["aicore_intermediate_type"]
    table, columns = artifact.content.tables.get("types"), kinds.content.table
    if table is None or columns is None or artifact.schema is None:
        return
    time = next(name for name in ("execution_time", "total_time", "task_time") if name in columns.columns)
    listed = pl.DataFrame(
        [(name, None if time_ns is None else time_ns / 1e6, calls) for name, time_ns, calls in kinds.content.work],
        schema={"name": pl.String, time: pl.Float64, "execution_frequency": pl.Float64},
        orient="row",
    )
    cells = table.frame
    again = cells["optype_name"].is_duplicated() & ~cells["optype_name"].is_first_distinct()
    for row in again.arg_true().to_list():
        message = f"the type {cells['optype_name'][row]} is listed a second time"
        yield Finding(code=Code.I114, place=f"{artifact.place}{table.place(row)}", message=message)
    for here, there in (("compute_time(ms, per-step)", time), ("called_times(per-step)", "execution_frequency")):
        values = listed.select("name", there=there).unique("name")
        rows = cells.select(name=pl.col("optype_name"), here=_quantity(cells, here))
        rows = rows.join(values, on="name", how="inner", maintain_order="left")
        # Tables have whole nanoseconds, these are milliseconds.
        off = rows.filter((pl.col("here") - pl.col("there")).abs() > 1e-6 + _RELATIVE * pl.col("there").abs())
        if off.height <= max(1.0, (1 - _MOST) * rows.height):
            yield from disagreements(
                Code.I101,
                (
                    (artifact.place, f"{kind}: {here} is {mine:g}, {there} in {kinds.path.name} is {its:g}")
                    for kind, mine, its in off.iter_rows()
                ),
                count=off.height,
                place=artifact.place,
            )


@invariant()
def documents_are_of_the_rank_in_their_name(cycle: Cycle) -> Iterator[Finding]:
    """rankId of parallel_strategy, and rank_id of the profiler_info beside the deliverables of 2.3, = the suffix. Exact."""
    for slot, path in (("parallel_strategy", ("config", "rankId")), ("ascend_ms_profiler_info", ("rank_id",))):
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        value: Any = artifact.content.document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        named = artifact.slot.match(artifact.path.relative_to(cycle.place).as_posix())
        if isinstance(value, (int, str)) and str(value).isdigit() and type(named) is int and int(value) != named:
            yield Finding(
                code=Code.I113,
                place=f"{artifact.place} $.{'.'.join(path)}",
                message=f"it is of rank {value}, its name says rank {named}",
            )
