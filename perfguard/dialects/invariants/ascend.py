"""What checks ask of cells: numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def quantity(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a text column as Float64 in its own unit; what is no number (blank, `N/A`) or is no column becomes null."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None] * frame.height, dtype=pl.Float64)
    return frame[column].str.strip_chars(' \t"').cast(pl.Float64, strict=False)
