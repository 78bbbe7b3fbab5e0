"""What must agree across MindSpore's CPU files. Each held on all 83 real output directories it was tried on (2.0, 2.10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.contract.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract.inspection import Cycle

_LAYOUTS = ("ms-2.5+cpu",)


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "cpu_op_type_info"))
def types_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """type_occurrences = sum of op_occurrences of the type. Exact."""
    import polars as pl

    detail = (
        _frame(cycle, "cpu_op_detail_info")
        .group_by(name="op_type")
        .agg(left=pl.col("op_occurrences").cast(pl.Int64).sum())
    )
    kinds = _frame(cycle, "cpu_op_type_info").select(name="op_type", right=pl.col("type_occurrences").cast(pl.Int64))
    yield from _disagreements(cycle, Code.I101, detail, kinds, "cpu_op_detail_info", "cpu_op_type_info")


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "cpu_op_execute_timestamp"))
def timestamps_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Executions with a timestamp = op_occurrences, for the same operators. Exact."""
    stamps = _frame(cycle, "cpu_op_execute_timestamp").group_by(name="full_op_name").len("left")
    yield from _disagreements(
        cycle, Code.I102, stamps, _occurrences(cycle), "cpu_op_execute_timestamp", "cpu_op_detail_info"
    )


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "trace_view"))
def trace_events_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Events of trace_view marked HostCpuOps = op_occurrences, for the same operators. Exact."""
    import polars as pl

    from perfguard.contract.executions import unquoted

    trace = _frame(cycle, "trace_view")
    events = (
        trace.filter((pl.col("ph") == '"X"') & pl.col("args").str.contains('"HostCpuOps"', literal=True))
        .select(name=unquoted("name"))
        .group_by("name")
        .len("left")
    )
    yield from _disagreements(cycle, Code.I103, events, _occurrences(cycle), "trace_view", "cpu_op_detail_info")


def _frame(cycle: Cycle, slot: str) -> pl.DataFrame:
    return cycle.artifacts[slot].content.frame


def _occurrences(cycle: Cycle) -> pl.DataFrame:
    import polars as pl

    return (
        _frame(cycle, "cpu_op_detail_info")
        .group_by(name="full_op_name")
        .agg(right=pl.col("op_occurrences").cast(pl.Int64).sum())
    )


def _disagreements(
    cycle: Cycle, code: Code, left: pl.DataFrame, right: pl.DataFrame, left_slot: str, right_slot: str
) -> Iterator[Finding]:
    import polars as pl

    left = left.with_columns(pl.col("left").cast(pl.Int64))
    both = left.join(right, on="name", how="full", coalesce=True).fill_null(0)
    for name, one, other in (
        both.filter(pl.col("left") != pl.col("right")).sort("name").select("name", "left", "right").iter_rows()
    ):
        yield Finding(
            code=code,
            place=cycle.artifacts[left_slot].path.name,
            message=f"{name}: {one} here, {other} in {cycle.artifacts[right_slot].path.name}",
        )
