"""Nesting: which event of a thread lies in which other, for many events at once.

Events come sorted by start, longer first, a batch at a time; what has not ended with a batch is looked at with the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perfguard.artifacts.spool import Rows

Ints = np.ndarray[Any, np.dtype[np.int64]]
#: The parent of what lies in nothing.
NONE = -1


def parents(threads: Ints, starts: Ints, ends: Ints) -> Ints | None:
    """Return the place of the event each one lies in (`NONE`: in none), for events sorted by start, longer first.

    None where some event only overlaps another of its thread, or has no length: then what lies in what is a matter of the order
    in which one looks. How many events of its thread are open when one starts is how many have begun less how many have ended;
    the last one before it that is open one level further out is the one around it, and must end no earlier.
    """
    if not len(starts) or bool((ends <= starts).any()):
        return None if len(starts) else np.empty(0, np.int64)
    by_thread = np.argsort(threads, kind="stable")
    thread, start, end = threads[by_thread].astype(np.int64), starts[by_thread], ends[by_thread]
    is_first = np.concatenate(([True], thread[1:] != thread[:-1]))
    number = np.cumsum(is_first) - 1
    first = np.flatnonzero(is_first)[number]
    # One axis for all threads: each begins where no time of the one before reaches.
    low = int(start.min())
    width = int(end.max()) - low + 1
    ended = np.searchsorted(np.sort(number * width + (end - low)), number * width + (start - low), "right") - first
    depth = np.arange(len(start)) - first - ended
    found = np.full(len(start), NONE, np.int64)
    outer = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        inner = np.flatnonzero(depth == level)
        places = np.searchsorted(outer, inner) - 1
        if (places < 0).any():
            return None
        around = outer[places]
        if (number[around] != number[inner]).any() or (end[around] < end[inner]).any():
            return None
        found[inner] = around
        outer = inner
    place = np.full(len(start), NONE, np.int64)
    place[by_thread] = np.where(found == NONE, NONE, by_thread[found])
    return place


class Open:
    """Rows (`start`, `end`, and more) that have begun in earlier batches and reach beyond them."""

    def __init__(self) -> None:
        self._rows: Rows | None = None

    def with_next(self, rows: Rows) -> tuple[Rows, int]:
        """Return the open rows with those of the next batch behind them, and how many are open."""
        if self._rows is None:
            return rows, 0
        count = len(self._rows["start"])
        return {name: np.concatenate([self._rows[name], column]) for name, column in rows.items()}, count

    def keep(self, rows: Rows) -> Any:
        """Keep what reaches beyond the last start; return which rows that are."""
        reaches = rows["end"] > rows["start"].max(initial=-(2**63))
        self._rows = {name: column[reaches] for name, column in rows.items()}
        return reaches
