"""Rows of kernel_details: what the kernels of their blocks are in the tables of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.table import Unreadable
from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import MAX_CHARACTERS, Batch

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.csv_stream import Rows

#: By column of `kernel_lines`: what versions call it.
TEXTS = {
    "name": ("Name",),
    "type": ("Type",),
    "core": ("Accelerator Core",),
    "device": ("Device_id",),
    "shapes": ("Input Shapes",),
    "step_text": ("Step Id", "Step ID"),
}
NUMBERS = {"step": ("Step Id", "Step ID"), "stream": ("Stream ID",), "task": ("Task ID",)}
TIMES = {"start_ns": "Start Time(us)", "duration_ns": "Duration(us)", "wait_ns": "Wait Time(us)"}
#: What is listed of each tensor of a kernel, and of which tensors.
_LISTS, _SIDES = ("Shapes", "Data Types", "Formats"), ("Input", "Output")
_COLUMNS = {
    *(f"{side} {what}" for side in _SIDES for what in _LISTS),
    *TIMES.values(),
    *(name for names in (*TEXTS.values(), *NUMBERS.values()) for name in names),
}
#: A stream or a task that is N/A; it is null if the file has no such column.
_UNKNOWN = -1
_BLANK = ("", "N/A")
_COUNTERS, _SHARES = ("aic", "aiv", "cube"), ("_ratio", "_utilization(%)")


class KernelRows:
    """Puts the rows of one kernel_details table into the tables of a batch, block by block."""

    def __init__(self, batch: Batch, cycle: int) -> None:
        self._batch = batch
        self._cycle = cycle
        self._characters = batch.characters

    def reads(self, column: str) -> bool:
        """Whether the rows need the cells of a column."""
        is_counter = column.startswith(_COUNTERS) and column.endswith((*_SHARES, "_time(us)"))
        return is_counter or column in _COLUMNS

    def consume(self, rows: Rows) -> None:
        """Add the rows of the next block. Raises `Unreadable` for names and shapes with too many characters."""
        if self._batch.characters - self._characters > MAX_CHARACTERS:
            raise Unreadable(f"its names and shapes have more than the {MAX_CHARACTERS} characters that are read")
        lines = lines_of(rows)
        times = {name: _whole(rows.nanoseconds(column)) for name, column in TIMES.items()}
        self._batch.add(
            "kernel_lines",
            self._cycle,
            row=lines,
            print=rows.prints().to_numpy(),
            odd_tensors=self._odd_tensors(rows),
            **{name: self._column(rows, name, names) for name, names in {**TEXTS, **NUMBERS}.items()},
            **times,
        )
        for column in rows.frame.columns:
            if column.startswith(_COUNTERS) and column.endswith(_SHARES):
                self._count(rows, column, lines, times["duration_ns"])

    def _column(self, rows: Rows, name: str, names: tuple[str, ...]) -> Any:
        """Return a column of `kernel_lines`, `NULL` if the file lacks it."""
        found = next((one for one in names if one in rows.frame.columns), None)
        if found is None:
            return np.full(rows.frame.height, NULL, np.int64)
        if name in NUMBERS:
            numbers = rows.whole_numbers(found)
            return _whole(numbers if name == "step" else numbers.fill_null(_UNKNOWN))
        texts = rows.frame[found]
        # A collective has N/A.
        return _words(self._batch, texts.str.strip_chars('"').replace("N/A", None) if name == "shapes" else texts)

    def _odd_tensors(self, rows: Rows) -> Any:
        """Return how many shapes, types and formats kernels list, where these differ; `NULL` elsewhere."""
        odd = np.full(rows.frame.height, NULL, np.int64)
        for side in _SIDES:
            names = [f"{side} {what}" for what in _LISTS]
            if not set(names) <= set(rows.frame.columns):
                continue
            texts = [rows.frame[name].str.strip_chars('"') for name in names]
            known = ~(texts[0].is_in(_BLANK) | texts[1].is_in(_BLANK) | texts[2].is_in(_BLANK))
            shapes, types, formats = (one.str.count_matches(";", literal=True) + 1 for one in texts)
            differ = known & ((shapes != types) | (types != formats))
            for at in np.flatnonzero(differ.fill_null(False).to_numpy()).tolist():
                counted = f"{side.lower()}s: {shapes[at]} shapes, {types[at]} types, {formats[at]} formats"
                odd[at] = self._batch.word(counted)
        return odd

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
        """Delete the rows: the file violates its schema."""
        self._batch.without(self._cycle, ("kernel_lines", "kernel_counters"))


def parts_of(ratio: str) -> tuple[str, str]:
    """Return the columns that a ratio such as `aic_mac_ratio` follows from: the time of the unit, and of all together."""
    unit = ratio.partition("_")[0]
    return ratio.removesuffix("_ratio") + "_time(us)", {"aic": "aicore_time(us)", "aiv": "aiv_time(us)"}.get(unit, "")


def lines_of(rows: Rows) -> Any:
    """Return the lines in which rows begin, as an array."""
    return np.fromiter(rows.lines, np.int64, count=len(rows.lines))


def _words(batch: Batch, texts: pl.Series) -> Any:
    different = texts.unique(maintain_order=True).to_list()
    numbers = [NULL if text is None else batch.word(text) for text in different]
    return texts.replace_strict(different, numbers).to_numpy()


def _whole(column: pl.Series) -> Any:
    return column.fill_null(NULL).to_numpy()
