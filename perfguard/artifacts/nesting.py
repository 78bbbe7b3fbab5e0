"""Nesting: the parent of each span of a thread, found in one pass over the spans in the order of their starts.

A query would sort all starts and ends, which takes longer. So the result is a table, like the parents of slices in
Perfetto's trace processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from perfguard.artifacts.table_definitions import NULL, TABLES
from perfguard.artifacts.tables import Batch

Ints = np.ndarray[Any, np.dtype[np.int64]]
Rows = dict[str, Ints]
#: The columns of a span with a parent.
_OF_PARENT = ("parent", "left_ns", "outlives_ns")
#: The columns of a span before nesting.
_SPAN = [name for name in TABLES["nesting"] if name not in ("last_step", "self_ns", *_OF_PARENT)]
#: The number of spans that are processed together.
_AT_ONCE = 256 * 1024
#: Spans nested deeper than this are processed one by one: the quick way needs one pass for each level.
_DEPTH = 200


def nest(batch: Batch, spans: str, step_starts_ns: Mapping[int, Sequence[int]]) -> None:
    """Fill `nesting` with the spans of a view, which also has the column `is_work`.

    `step_starts_ns` are the starts of the steps of each cycle, in order.

    The parent is the span of the same thread that began last before it (of two that begin together the longer one, then the
    first in the file) and had not ended; it may end earlier. A span that is not work, such as the mark of a step, can be a
    parent, but its duration is not subtracted from the self time of its own parent.
    """
    ((count, low, high),) = batch.execute(f"select count(*), min(start_ns), max(start_ns) from {spans}")
    if not count:
        return
    selected = f"select {', '.join(_SPAN)}, is_work from {spans}"
    order = "order by start_ns, duration_ns desc, row"
    waiting: Rows | None = None
    for begin, end in _ranges(batch, spans, count, low, high):
        where = f"where start_ns >= {begin} and start_ns < {end} " if count >= _AT_ONCE else ""
        found = batch.columns(f"{selected} {where}{order}")
        rows = {name: _filled(column) for name, column in found.items()}
        rows["end_ns"] = rows["start_ns"] + rows["duration_ns"]
        rows["last_step"] = _last_steps(rows, step_starts_ns)
        rows |= {
            "self_ns": rows["duration_ns"].copy(),
            **{name: np.full_like(rows["row"], NULL) for name in _OF_PARENT},
        }
        if waiting is not None:
            rows = {name: np.concatenate([waiting[name], column]) for name, column in rows.items()}
        if len(rows["row"]):
            _find_parents(rows, len(rows["row"]) - len(found["row"]))
            # A span that ends after the last start may be a parent of later spans.
            reaches = rows["end_ns"] > rows["start_ns"].max()
            _put(batch, {name: column[~reaches] for name, column in rows.items()})
            waiting = {name: column[reaches] for name, column in rows.items()}
    if waiting is not None:
        _put(batch, waiting)


def _filled(column: Any) -> Ints:
    """Return a column as int64, `NULL` where it is masked."""
    numbers = column.astype(np.int64)
    return numbers.filled(NULL) if np.ma.isMaskedArray(numbers) else numbers  # type: ignore[no-any-return, no-untyped-call]


def _last_steps(rows: Rows, step_starts_ns: Mapping[int, Sequence[int]]) -> Ints:
    """Return the last step that had begun at each start, `NULL` for none."""
    found = np.full(len(rows["row"]), NULL, np.int64)
    for cycle in np.unique(rows["cycle"]).tolist():
        places = np.flatnonzero(rows["cycle"] == cycle)
        starts = np.array(step_starts_ns[cycle], np.int64)
        steps = np.searchsorted(starts, rows["start_ns"][places], "right") - 1
        found[places] = np.where(steps >= 0, steps, NULL)
    return found


def _find_parents(rows: Rows, known: int) -> None:
    """Find the parents of all but the first `known` rows."""
    lane = np.unique(rows["cycle"] << 32 | rows["thread"], return_inverse=True)[1]
    around = parents(lane, rows["start_ns"], rows["end_ns"])
    inner = np.flatnonzero(around[known:] >= 0) + known
    outer = around[inner]
    until = rows["end_ns"][outer]
    rows["parent"][inner] = rows["row"][outer]
    rows["left_ns"][inner] = until - rows["start_ns"][inner]
    rows["outlives_ns"][inner] = rows["end_ns"][inner] - until
    # Work in a mark belongs to the span around the mark.
    worker = outer.copy()
    while (is_mark := (worker >= 0) & (rows["is_work"][worker] == 0)).any():
        worker[is_mark] = around[worker[is_mark]]
    takes = (rows["is_work"][inner] == 1) & (worker >= 0)
    takes &= rows["end_ns"][inner] <= rows["end_ns"][worker]
    np.subtract.at(rows["self_ns"], worker[takes], rows["duration_ns"][inner[takes]])


def _put(batch: Batch, rows: Rows) -> None:
    if len(rows["row"]):
        batch.put("nesting", **{name: rows[name] for name in TABLES["nesting"]})


def _ranges(batch: Batch, spans: str, count: int, low: int, high: int) -> list[tuple[int, int]]:
    """Return ranges of starts with about `_AT_ONCE` spans each."""
    parts = count // _AT_ONCE
    if not parts:
        return [(low, high + 1)]
    shares = [place / (parts + 1) for place in range(1, parts + 1)]
    (found,) = batch.execute(f"select approx_quantile(start_ns, {shares}) from {spans}")
    marks = sorted({low, *(one for one in found[0] if low < one <= high), high + 1})
    return list(pairwise(marks))


def parents(lanes: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the index of the parent of each span, -1 for none; spans are ordered by their starts, longer first.

    The depth of a span is the number of spans of its lane that have begun, less those that have ended; its parent is the last
    span before it that is one level less deep. Spans that only overlap, or have no length, are processed one by one.
    """
    found = None if bool((ends <= starts).any()) else _by_depth(lanes, starts, ends)
    return _one_by_one(lanes, starts, ends) if found is None else found


def _by_depth(lanes: Ints, starts: Ints, ends: Ints) -> Ints | None:
    if not len(starts):
        return np.empty(0, np.int64)
    by_lane = np.argsort(lanes, kind="stable")
    lane, start, end = lanes[by_lane].astype(np.int64), starts[by_lane], ends[by_lane]
    is_first = np.concatenate(([True], lane[1:] != lane[:-1]))
    number = np.cumsum(is_first) - 1
    first = np.flatnonzero(is_first)[number]
    # One axis for all lanes: each begins after the last time of the lane before.
    low = int(start.min())
    width = int(end.max()) - low + 1
    if width * (int(number[-1]) + 1) >= 2**62:
        return None
    ended = np.searchsorted(np.sort(number * width + (end - low)), number * width + (start - low), "right") - first
    depth = np.arange(len(start)) - first - ended
    deepest = int(depth.max())
    if deepest > _DEPTH:
        return None
    found = np.full(len(start), -1, np.int64)
    outer = np.flatnonzero(depth == 0)
    for level in range(1, deepest + 1):
        inner = np.flatnonzero(depth == level)
        places = np.searchsorted(outer, inner) - 1
        if (places < 0).any():
            return None
        around = outer[places]
        if (number[around] != number[inner]).any() or (end[around] < end[inner]).any():
            return None
        found[inner] = around
        outer = inner
    place = np.full(len(start), -1, np.int64)
    place[by_lane] = np.where(found < 0, -1, by_lane[found])
    return place


def _one_by_one(lanes: Ints, starts: Ints, ends: Ints) -> Ints:
    stacks: dict[int, list[int]] = {}
    found = np.full(len(starts), -1, np.int64)
    begins, stops = starts.tolist(), ends.tolist()
    for place, (lane, start, end) in enumerate(zip(lanes.tolist(), begins, stops, strict=True)):
        stack = stacks.setdefault(lane, [])
        # A span without length at the very end of another is inside it.
        while stack and stops[stack[-1]] <= start and not start == end == stops[stack[-1]]:
            stack.pop()
        if stack:
            found[place] = stack[-1]
        stack.append(place)
    return found
