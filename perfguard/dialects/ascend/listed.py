"""Rows of the files beside a trace_view that its events are held against, put into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfguard.artifacts.table import NotKept, as_float64, as_int64, nanoseconds
from perfguard.artifacts.tables import NULL, Batch

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: Files that events are held against: the table of their rows, and the checks that need it.
_LISTED = {
    "kernel_details": ("listed_kernels", ("kernels_are_in_the_trace", "the_trace_has_no_other_kernels")),
    "cpu_op_execute_timestamp": ("listed_operators", ("trace_times_are_the_executions",)),
}


def list_rows(batch: Batch, number: int, cycle: Cycle) -> list[str]:
    """Put rows of the files beside the trace into tables; return the checks that cannot be made, since rows went by."""
    not_made: list[str] = []
    for slot, (table, checks) in _LISTED.items():
        if slot not in cycle.artifacts or "trace_view" not in cycle.artifacts:
            continue
        try:
            rows = _kernels(cycle) if slot == "kernel_details" else host_executions(cycle.artifacts[slot].content.frame)
        except NotKept:
            not_made += checks
            continue
        batch.add("listed_files", number, file=np.array([batch.word(slot)]))
        batch.add(
            table,
            number,
            row=np.arange(rows.height),
            name=np.fromiter(map(batch.word, rows["name"]), np.int64, count=rows.height),
            **{name: rows[name].fill_null(NULL).to_numpy() for name in ("start_ns", "duration_ns")},
        )
    return not_made


def host_executions(timestamps: pl.DataFrame) -> pl.DataFrame:
    """Return the executions of `cpu_op_execute_timestamp` in their order: name, start_ns (exact), duration_ns (six digits)."""
    import polars as pl

    return timestamps.select(
        name=pl.col("full_op_name"),
        start_ns=as_int64(timestamps["start"]),
        duration_ns=(as_float64(timestamps["duration"]) * 1e6).round().cast(pl.Int64, strict=False),
    )


def _kernels(cycle: Cycle) -> pl.DataFrame:
    frame = cycle.artifacts["kernel_details"].content.frame
    return frame.select(
        name="Name", start_ns=nanoseconds(frame["Start Time(us)"]), duration_ns=nanoseconds(frame["Duration(us)"])
    )
