"""Rows of a kernel_details table: what the kernels of its blocks are in the tables of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.tables import NULL, Batch

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.large_comma import Rows

#: By column of `kernels`: what versions call it.
TEXTS = {
    "name": ("Name",),
    "type": ("Type",),
    "core": ("Accelerator Core",),
    "device": ("Device_id",),
    "stream": ("Stream ID",),
    "task": ("Task ID",),
    "shapes": ("Input Shapes",),
    "step_text": ("Step Id", "Step ID"),
}
TIMES = {"start_ns": "Start Time(us)", "duration_ns": "Duration(us)", "wait_ns": "Wait Time(us)"}
_COUNTERS, _SHARES = ("aic", "aiv", "cube"), ("_ratio", "_utilization(%)")
#: The tables that are filled.
FILLED = ("kernels", "kernel_counters")


class KernelRows:
    """Puts the rows of one kernel_details table into the tables of a batch, block by block."""

    def __init__(self, batch: Batch, cycle: int) -> None:
        self._batch = batch
        self._cycle = cycle

    def wants(self, column: str) -> bool:
        """Whether it looks at a column."""
        return (
            column in TIMES.values()
            or any(column in names for names in TEXTS.values())
            or (column.startswith(_COUNTERS) and column.endswith((*_SHARES, "_time(us)")))
        )

    def see(self, rows: Rows) -> None:
        """Add the rows of the next block."""
        lines = np.fromiter(rows.lines, np.int64, count=len(rows.lines))
        times = {name: _whole(rows.nanoseconds(column)) for name, column in TIMES.items()}
        steps = next((name for name in TEXTS["step_text"] if name in rows.frame.columns), None)
        self._batch.add(
            "kernels",
            self._cycle,
            row=lines,
            step=_whole(rows.whole_numbers(steps)) if steps is not None else _nothing(len(lines)),
            print=rows.prints().to_numpy(),
            **{name: self._words(rows, names, name) for name, names in TEXTS.items()},
            **times,
        )
        for column in rows.frame.columns:
            if column.startswith(_COUNTERS) and column.endswith(_SHARES):
                self._count(rows, column, lines, times["duration_ns"])

    def _words(self, rows: Rows, names: tuple[str, ...], column: str) -> Any:
        found = next((name for name in names if name in rows.frame.columns), None)
        if found is None:
            return _nothing(rows.frame.height)
        texts = rows.frame[found]
        if column == "shapes":
            # A collective has N/A.
            texts = texts.str.strip_chars('"').replace("N/A", None)
        elif column in ("stream", "task"):
            texts = texts.str.strip_chars()
        different = texts.unique(maintain_order=True).to_list()
        numbers = [NULL if text is None else self._batch.word(text) for text in different]
        return texts.replace_strict(different, numbers).to_numpy()

    def _count(self, rows: Rows, column: str, lines: Any, lasts: Any) -> None:
        values = rows.quantity(column).to_numpy()
        is_there = ~np.isnan(values)
        if not is_there.any():
            return
        part, whole = parts_of(column)
        has_times = part in rows.frame.columns and whole in rows.frame.columns
        unknown = np.full(np.count_nonzero(is_there), np.nan)
        times = [rows.quantity(one).to_numpy()[is_there] for one in (part, whole)] if has_times else [unknown, unknown]
        self._batch.add(
            "kernel_counters",
            self._cycle,
            row=lines[is_there],
            counter=np.full(len(unknown), self._batch.word(column), np.int64),
            value=values[is_there],
            part_us=times[0],
            whole_us=times[1],
            duration_ns=lasts[is_there],
        )

    def undo(self) -> None:
        """Let go of the rows: the table is not what its schema says."""
        self._batch.without(self._cycle, FILLED)


def parts_of(ratio: str) -> tuple[str, str]:
    """Return the columns that a ratio such as `aic_mac_ratio` follows from: the time of the unit, and of all together."""
    unit = ratio.partition("_")[0]
    return ratio.removesuffix("_ratio") + "_time(us)", {"aic": "aicore_time(us)", "aiv": "aiv_time(us)"}.get(unit, "")


def _whole(column: pl.Series) -> Any:
    return column.fill_null(NULL).to_numpy()


def _nothing(count: int) -> Any:
    return np.full(count, NULL, np.int64)
