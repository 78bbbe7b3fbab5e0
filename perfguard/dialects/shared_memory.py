"""Shared memory in a torch trace: what a DataLoader's workers hand over is no part of the host allocator's own account.

torch reports each such block once more, with a total of 0: as it is mapped, with `Total Reserved` equal to its `Bytes`, and
as it is unmapped, with both totals 0. Seen with torch 2.13 and two workers on a CPU; when a worker is ready differs from run
to run, so the blocks are no measure of a step either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


#: What says whose account it is.
_DEVICE = ("Device Type", "Device Id")


def own_addresses(memory: pl.DataFrame) -> pl.Series:
    """Return the addresses of blocks that were allocated here, and not mapped."""
    import polars as pl

    return memory.filter((pl.col("Bytes") > 0) & ~_is_mapped().fill_null(False))["Addr"].drop_nulls().unique()


class Account:
    """The same for events that come in batches: `own` are the `own_addresses` of all of them."""

    def __init__(self, own: pl.Series) -> None:
        self._own = own
        self._before: pl.DataFrame | None = None

    def without_shared(self, memory: pl.DataFrame) -> pl.DataFrame:
        """Return the events of the next batch without those of shared memory."""
        import polars as pl

        # Of a block that is given back and was not allocated here nobody knows whose it was: the account tells.
        is_foreign = ~pl.col("Addr").is_in(self._own.implode())
        unmapped = _is_on_host() & (pl.col("Bytes") < 0) & (pl.col("Total Reserved") == 0) & is_foreign
        marked = memory.with_columns(
            is_mapped=_is_mapped().fill_null(False),
            may_be_unmapped=(unmapped & pl.col("Addr").is_not_null()).fill_null(False),
        )
        account = pl.when(pl.col("is_mapped") | pl.col("may_be_unmapped")).then(None)
        told = marked.with_columns(account=account.otherwise(pl.col("Total Allocated")))
        columns = [*_DEVICE, "account"]
        level = told.select(columns) if self._before is None else pl.concat([self._before, told.select(columns)])
        level = level.with_columns(pl.col("account").forward_fill().over(_DEVICE))
        before = level.select(pl.col("account").shift(1).over(_DEVICE)).to_series().tail(memory.height)
        self._before = level.group_by(_DEVICE, maintain_order=True).last().select(columns)
        is_shared = pl.col("is_mapped") | (
            pl.col("may_be_unmapped") & (pl.col("before") + pl.col("Bytes") != 0).fill_null(True)
        )
        return marked.with_columns(before=before).filter(~is_shared).drop("is_mapped", "may_be_unmapped", "before")


def _is_on_host() -> pl.Expr:
    import polars as pl

    return (pl.col("Device Type") == 0) & (pl.col("Total Allocated") == 0)


def _is_mapped() -> pl.Expr:
    import polars as pl

    return _is_on_host() & (pl.col("Bytes") > 0) & (pl.col("Total Reserved") == pl.col("Bytes"))
