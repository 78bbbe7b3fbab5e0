"""Files of the flat layouts (MindSpore 1.x to 2.4) that repeat each other: timelines, types of operators, ranks, columns.

Source, unless a function says otherwise: a real directory of MindSpore 1.x on Ascend (mindinsight test data), on which each
holds for every row. What a later version may write in another way is judged only where nine rows in ten agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

_MOST = 0.9
#: Six significant digits are printed, or a float's own.
_RELATIVE = 1e-4


def _quantity(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a text column as Float64 in its own unit; null for a cell that is no number, and for a missing column."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None] * frame.height, dtype=pl.Float64)
    return frame[column].str.strip_chars(' \t"').cast(pl.Float64, strict=False)


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
