"""What checks ask of the text files of an Ascend device, as torch_npu and MindSpore >= 2.5 write them of the same CANN data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfguard.artifacts.table import nanoseconds
from perfguard.dialects.ascend.kernels import Kernels

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content


def quantity(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a text column as Float64 in its own unit; what is no number (blank, `N/A`) or is no column becomes null."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None] * frame.height, dtype=pl.Float64)
    return frame[column].str.strip_chars(' \t"').cast(pl.Float64, strict=False)


def span_ns(content: Content, column: str) -> tuple[int, int] | None:
    """Return the first and the last time in a column of microseconds, or None where it holds none."""
    if content.table is None or column not in content.table.columns:
        return None
    if isinstance(content.work, Kernels):
        return content.work.span_ns
    times = nanoseconds(content.frame[column])
    first, last = times.min(), times.max()
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def distinct_texts(content: Content, column: str) -> set[str]:
    """Return the texts in a column; of kernels that went by it can only be the column of their steps."""
    if isinstance(content.work, Kernels):
        return set(content.work.step_texts)
    return set(content.frame[column].drop_nulls().unique().to_list())


def by_device(frame: pl.DataFrame) -> list[str]:
    """Return the column that tells devices apart, if the file has one: only some versions write it."""
    return [column for column in ("Device_id",) if column in frame.columns]
