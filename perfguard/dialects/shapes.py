"""Shapes: with which inputs the operators of one cycle ran, and how often; from wherever the profiler recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle, Executions


def no_shapes() -> pl.DataFrame:
    """Return shapes of which none were recorded: `operator`, `shapes` (text), `calls`."""
    import polars as pl

    return pl.DataFrame(schema={"operator": pl.String, "shapes": pl.String, "calls": pl.Int64})


def shapes_of(cycle: Cycle, executions: Executions) -> pl.DataFrame:
    """Return shapes from the executions themselves where they have any, else from the file that lists them apart.

    The columns are those of `no_shapes`: one row an operator and its shapes, how often it ran with them in the window.
    """
    if executions.shapes is not None and executions.shapes.height:
        return executions.shapes
    groups = executions.groups
    if groups["shapes"].null_count() < groups.height:
        return _of_executions(executions)
    if executions.on_device:
        return no_shapes()
    return _of_framework(cycle)


def _of_executions(executions: Executions) -> pl.DataFrame:
    import polars as pl

    recorded = executions.of_the_window.drop_nulls("shapes")
    return recorded.group_by("operator", "shapes").agg(pl.col("calls").sum())


def _of_framework(cycle: Cycle) -> pl.DataFrame:
    """Shapes as cpu_framework has them: one row an execution, blank for what ran through pyboost."""
    import polars as pl

    content = cycle.content("cpu_framework")
    if content is None:
        return no_shapes()
    named = content.frame.filter(pl.col("op_type") != "")
    text = (
        pl.col("inputs").str.replace_all(r"input_[0-9]+:", "").str.replace(r"(NoShape;)*$", "").str.strip_chars_end(";")
    )
    return (
        named.select(operator="op_type", shapes=text)
        .group_by("operator", "shapes")
        .len("calls")
        .cast({"calls": pl.Int64})
    )
