"""Executions that `cpu_op_execute_timestamp` lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfguard.artifacts.table import as_float64, as_int64

if TYPE_CHECKING:
    import polars as pl


def host_executions(timestamps: pl.DataFrame) -> pl.DataFrame:
    """Return the executions of `cpu_op_execute_timestamp` in their order: name, start_ns (exact), duration_ns (six digits)."""
    import polars as pl

    return timestamps.select(
        name=pl.col("full_op_name"),
        start_ns=as_int64(timestamps["start"]),
        duration_ns=(as_float64(timestamps["duration"]) * 1e6).round().cast(pl.Int64, strict=False),
    )
