"""Shared memory in a torch trace: what a DataLoader's workers hand over is no part of the host allocator's own account.

torch reports each such block once more, with a total of 0: as it is mapped, with `Total Reserved` equal to its `Bytes`, and
as it is unmapped, with both totals 0. Seen with torch 2.13 and two workers on a CPU; when a worker is ready differs from run
to run, so the blocks are no measure of a step either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def without_shared(memory: pl.DataFrame) -> pl.DataFrame:
    """Return the memory events of a trace without those of shared memory.

    `memory` is in the order of the events, with `Bytes`, `Total Allocated`, `Total Reserved`, `Device Type` and `Addr`, all
    Int64 and null where an event does not have them.
    """
    import polars as pl

    on_host = (pl.col("Device Type") == 0) & (pl.col("Total Allocated") == 0)
    mapped = on_host & (pl.col("Bytes") > 0) & (pl.col("Total Reserved") == pl.col("Bytes"))
    own = memory.filter((pl.col("Bytes") > 0) & ~mapped.fill_null(False))["Addr"].drop_nulls().unique()
    # Of a block that is given back and was not allocated here nobody knows whose it was: the account tells.
    unmapped = on_host & (pl.col("Bytes") < 0) & (pl.col("Total Reserved") == 0) & ~pl.col("Addr").is_in(own.implode())
    marked = memory.with_columns(
        is_mapped=mapped.fill_null(False), may_be_unmapped=(unmapped & pl.col("Addr").is_not_null()).fill_null(False)
    )
    account = pl.when(pl.col("is_mapped") | pl.col("may_be_unmapped")).then(None).otherwise(pl.col("Total Allocated"))
    before = account.forward_fill().shift(1).over("Device Type", "Device Id")
    is_shared = pl.col("is_mapped") | (pl.col("may_be_unmapped") & (before + pl.col("Bytes") != 0).fill_null(True))
    return marked.filter(~is_shared).drop("is_mapped", "may_be_unmapped")
