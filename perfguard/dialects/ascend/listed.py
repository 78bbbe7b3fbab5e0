"""Rows of files that are read whole, put into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfguard.artifacts.table import as_float64, as_int64
from perfguard.artifacts.tables import NULL, Batch

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle


def list_rows(batch: Batch, number: int, cycle: Cycle) -> None:
    """Put the executions of `cpu_op_execute_timestamp` into tables."""
    if (content := cycle.content("cpu_op_execute_timestamp")) is None:
        return
    rows = host_executions(content.frame)
    batch.add(
        "listed_operators",
        number,
        row=np.arange(rows.height),
        name=np.fromiter(map(batch.word, rows["name"]), np.int64, count=rows.height),
        **{name: rows[name].fill_null(NULL).to_numpy() for name in ("start_ns", "duration_ns")},
    )


def host_executions(timestamps: pl.DataFrame) -> pl.DataFrame:
    """Return the executions of `cpu_op_execute_timestamp` in their order: name, start_ns (exact), duration_ns (six digits)."""
    import polars as pl

    return timestamps.select(
        name=pl.col("full_op_name"),
        start_ns=as_int64(timestamps["start"]),
        duration_ns=(as_float64(timestamps["duration"]) * 1e6).round().cast(pl.Int64, strict=False),
    )
