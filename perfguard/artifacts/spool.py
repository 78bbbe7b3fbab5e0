"""A spool: rows of numbers in more columns than fit the memory, written as they come and read again by key or in order.

Checks of a trace need what lies far apart in the file: both ends of a flow, a kernel and the call that launched it, the events
of a thread by their time. Rows are kept in memory as long as they are few; more of them go to a temporary file, sorted in runs,
so that memory is bounded whatever the length of the trace.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

Column = np.ndarray[Any, Any]
Rows = dict[str, Column]

#: Rows of a spool that are kept in memory, and rows that are read back at once.
ROWS_IN_MEMORY = 64 * 1024
#: Every so many rows of a run the sorted column is remembered, to find a place in it.
EVERY = 1024


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """Rows on the disk, sorted by the first column: where each column begins, and every so many of the sorted values."""

    file: IO[bytes]
    places: dict[str, int]
    height: int
    sample: Column
    last: Any

    def read(self, columns: Mapping[str, str], start: int, end: int) -> Rows:
        found = {}
        for name, kind in columns.items():
            dtype = np.dtype(kind)
            raw = os.pread(
                self.file.fileno(), (end - start) * dtype.itemsize, self.places[name] + start * dtype.itemsize
            )
            found[name] = np.frombuffer(raw, dtype)
        return found

    def place(self, columns: Mapping[str, str], key: str, value: Any) -> int:
        """Return how many rows of the run are below `value`."""
        block = max(0, int(np.searchsorted(self.sample, value, "left")) - 1) * EVERY
        end = min(self.height, block + 2 * EVERY)
        part = self.read({key: columns[key]}, block, end)[key]
        return block + int(np.searchsorted(part, value, "left"))


class Spool:
    """Rows of named columns (name -> numpy dtype). They come back sorted by the first column."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)
        self.key = next(iter(columns))
        self.height = 0
        self._waiting: list[Rows] = []
        self._count = 0
        self._runs: list[_Run] = []
        self._file: IO[bytes] | None = None
        #: Once all rows have been added, two threads may read them.
        self._lock = threading.Lock()

    def add(self, **columns: Column) -> None:
        """Add rows; the arrays are kept, or written."""
        count = len(columns[self.key])
        if not count:
            return
        self._waiting.append({name: np.asarray(columns[name], kind) for name, kind in self.columns.items()})
        self._count += count
        self.height += count
        if self._count >= ROWS_IN_MEMORY:
            self._write()

    def _write(self) -> None:
        rows = _sorted(self._together(), self.key)
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="perfguard-")  # noqa: SIM115 - closed with the spool
            weakref.finalize(self, self._file.close)
        places = {}
        for name, column in rows.items():
            places[name] = self._file.seek(0, os.SEEK_END)
            self._file.write(np.ascontiguousarray(column).data)
        self._file.flush()
        key = rows[self.key]
        self._runs.append(
            _Run(file=self._file, places=places, height=len(key), sample=key[::EVERY].copy(), last=key[-1])
        )
        self._waiting, self._count = [], 0

    def _together(self) -> Rows:
        if not self._waiting:
            return {name: np.empty(0, kind) for name, kind in self.columns.items()}
        return {name: np.concatenate([rows[name] for rows in self._waiting]) for name in self.columns}

    def in_order(self, rows_at_once: int = ROWS_IN_MEMORY) -> Iterator[Rows]:
        """Yield all rows sorted by the first column, stable, about so many at once; equal keys are never parted."""
        if not self._runs:
            if self._count:
                yield _sorted(self._together(), self.key)
            return
        with self._lock:
            if self._count:
                self._write()
        for low, high in self._ranges(rows_at_once):
            parts = []
            for run in self._runs:
                start = 0 if low is None else run.place(self.columns, self.key, low)
                end = run.height if high is None else run.place(self.columns, self.key, high)
                if end > start:
                    parts.append(run.read(self.columns, start, end))
            if parts:
                yield _sorted({name: np.concatenate([part[name] for part in parts]) for name in self.columns}, self.key)

    def _ranges(self, rows_at_once: int) -> Iterator[tuple[Any, Any]]:
        """Yield ranges of the key with about so many rows each: by the samples of all runs."""
        marks = np.sort(np.concatenate([run.sample for run in self._runs]))
        step = max(1, rows_at_once // EVERY)
        edges = np.unique(marks[step::step])
        low = None
        for edge in edges:
            yield low, edge
            low = edge
        yield low, None

    def close(self) -> None:
        """Give back memory and disk."""
        self._waiting, self._runs, self._count = [], [], 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _sorted(rows: Rows, key: str) -> Rows:
    column = rows[key]
    if len(column) < 2 or bool((column[1:] >= column[:-1]).all()):
        return rows
    order = np.argsort(column, kind="stable")
    return {name: values[order] for name, values in rows.items()}
