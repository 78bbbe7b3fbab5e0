"""Rows of files that are read whole, put into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.kernel_rows import NOT_TOLD
from perfguard.artifacts.table import NotKept, as_float64, as_int64
from perfguard.artifacts.tables import NULL, Batch

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: Files that are put into tables here: their tables, and the checks that need them.
_LISTED = {
    "cpu_op_execute_timestamp": ("listed_operators", ("trace_times_are_the_executions",)),
    "l2_cache": ("cached_tasks", ("l2_cache_names_the_kernels", "cached_tasks_are_kernels")),
}


def list_rows(batch: Batch, number: int, cycle: Cycle) -> list[str]:
    """Put rows of the files of a cycle into tables; return the checks that cannot be made, since rows went by."""
    not_made: list[str] = []
    for slot, (table, checks) in _LISTED.items():
        if slot not in cycle.artifacts:
            continue
        try:
            frame = cycle.artifacts[slot].content.frame
        except NotKept:
            not_made += checks
            continue
        rows = host_executions(frame) if slot == "cpu_op_execute_timestamp" else _cached_tasks(frame)
        columns = {name: _column(batch, rows[name]) for name in rows.columns}
        batch.add(table, number, row=np.arange(rows.height), **columns)
    return not_made


def _column(batch: Batch, values: pl.Series) -> Any:
    if values.dtype.is_integer():
        return values.fill_null(NULL).to_numpy()
    return np.fromiter(map(batch.word, values), np.int64, count=len(values))


def host_executions(timestamps: pl.DataFrame) -> pl.DataFrame:
    """Return the executions of `cpu_op_execute_timestamp` in their order: name, start_ns (exact), duration_ns (six digits)."""
    import polars as pl

    return timestamps.select(
        name=pl.col("full_op_name"),
        start_ns=as_int64(timestamps["start"]),
        duration_ns=(as_float64(timestamps["duration"]) * 1e6).round().cast(pl.Int64, strict=False),
    )


def _cached_tasks(frame: pl.DataFrame) -> pl.DataFrame:
    numbers = {name: as_int64(frame[column]).fill_null(NOT_TOLD) for name, column in _TASKS.items()}
    return frame.select(name="Op Name", **numbers)


_TASKS = {"stream": "Stream Id", "task": "Task Id"}
