"""A second count of what the queries add up: executions one by one, as polars sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from perfguard.artifacts.table import in_int64
from perfguard.dialects.collectives import COLLECTIVE
from perfguard.dialects.cycle import MemoryStep

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Of one step, in ns: in how much of it operators ran that are no collectives, collectives ran, any of the two ran."""

    operators_ns: int = 0
    collectives_ns: int = 0
    either_ns: int = 0


#: What makes two executions one group.
KEYS = ("operator", "name", "step", "shapes")


def aggregated(rows: pl.DataFrame) -> pl.DataFrame:
    """Add rows up into groups, in the order of their first calls.

    The columns of a group are KEYS and `calls`, `total_ns` and `self_ns` (sums), `unfilled` (calls that begin at 0 and last 0),
    `first_ns` and `last_ns` (the earliest and the latest start, null where no start is known) with the places of their rows,
    `first_place` and `last_place`; all Int64.
    """
    if "calls" not in rows.columns:
        rows = rows.with_columns(calls=pl.lit(1, dtype=pl.Int64))
    start, duration, calls = pl.col("start_ns"), pl.col("duration_ns"), pl.col("calls")
    # A place without a start is none. Of two that begin together the one before is the earlier one.
    place = pl.when(start.is_not_null()).then(pl.col("place"))
    groups = (
        rows.with_columns(place=pl.int_range(rows.height, dtype=pl.Int64))
        .filter(calls > 0)
        .group_by(KEYS)
        .agg(
            calls.sum(),
            total_ns=(duration * calls).sum(),
            self_ns=(pl.col("self_ns") * calls).sum(),
            unfilled=calls.filter((start == 0) & (duration == 0)).sum(),
            first_ns=start.min(),
            first_place=place.sort_by(start, place, nulls_last=True).first(),
            last_ns=start.max(),
            last_place=place.sort_by(start, place, nulls_last=False).last(),
        )
    )
    return groups.sort("first_ns", "first_place", *KEYS)


def covered_steps(rows: pl.DataFrame, edges_ns: Sequence[tuple[int, int]]) -> tuple[Covered, ...]:
    """Return what covers each step, from executions in any order (`operator`, `step`, `start_ns`, `duration_ns`).

    A step is from `edges_ns[i][0]` to `edges_ns[i][1]`, executions are cut at its edges. One without an operator, a step or a
    time covers nothing.
    """
    if not edges_ns:
        return ()
    numbered = [(step, in_int64(low), in_int64(high)) for step, (low, high) in enumerate(edges_ns)]
    steps = pl.DataFrame(numbered, schema=dict.fromkeys(("step", "low", "high"), pl.Int64), orient="row")
    ran = rows.select("operator", "step", "start_ns", "duration_ns").drop_nulls().join(steps, on="step")
    cut = ran.select(
        "step",
        is_collective=pl.col("operator").str.contains(COLLECTIVE.pattern),
        begin=pl.col("start_ns").clip("low", "high"),
        stop=(pl.col("start_ns") + pl.col("duration_ns")).clip("low", "high"),
    ).sort("begin")
    parts = (~pl.col("is_collective"), pl.col("is_collective"), pl.lit(True))
    operators, collectives, either = (_covered(cut.filter(part)) for part in parts)
    return tuple(
        Covered(
            operators_ns=operators.get(step, 0), collectives_ns=collectives.get(step, 0), either_ns=either.get(step, 0)
        )
        for step in range(len(edges_ns))
    )


def _covered(spans: pl.DataFrame) -> dict[int, int]:
    """Return how much of each step spans cover that come in the order of their begins."""
    reached = pl.col("stop").cum_max().shift(1).over("step").fill_null(pl.col("begin"))
    alone = spans.select("step", alone=pl.col("stop") - pl.max_horizontal("begin", reached))
    return dict(alone.filter(pl.col("alone") > 0).group_by("step").agg(pl.col("alone").sum()).iter_rows())


def parts_of_a_step(steps: int) -> int:
    """Return into how many parts the curve of a step is cut in a window of so many."""
    return min(32, 2000 // max(1, steps))


def levels_by_step(
    device: str, edges_ns: Sequence[tuple[int, int]], times: Ints, levels: Ints, before: Ints
) -> list[tuple[MemoryStep, tuple[int, int, int]]]:
    """Cut the levels of a device, in bytes, into steps, in the order of their first events.

    There is one event for each time (ns): the level after it and before it. Without steps all are of one.
    Beside each step is how many allocations it makes, of how many bytes together, and how much more is allocated when the next
    step begins, or when the last one ends.
    """
    growths: dict[int, int] = {}
    if edges_ns:
        starts, ends = (np.array([*map(in_int64, column)], np.int64) for column in zip(*edges_ns, strict=True))
        steps = np.searchsorted(starts, times, "right") - 1
        inside = np.flatnonzero((steps >= 0) & (times <= ends[np.maximum(steps, 0)]))
        for step in range(len(edges_ns)):
            left = np.flatnonzero((steps == step) & ((step + 1 < len(edges_ns)) | (times <= ends[step])))
            if len(left):
                growths[step] = int(levels[left[-1]] - before[left[0]])
        places = inside[np.argsort(steps[inside], kind="stable")]
    else:
        steps, places = np.zeros(len(times), np.int64), np.arange(len(times))
    steps, times, levels, before = (column[places] for column in (steps, times, levels, before))
    parts = parts_of_a_step(len(edges_ns)) if edges_ns else 0
    firsts = np.flatnonzero(np.diff(steps, prepend=-1)).tolist()
    found = {}
    for first, end in pairwise([*firsts, len(steps)]):
        step, own = int(steps[first]), slice(first, end)
        lowest = int(min(levels[own].min(), before[own].min()))
        growth = np.maximum(levels[own] - before[own], 0)
        drawn = curve_bytes(edges_ns[step], parts, times[own], levels[own], before[own]) if parts else ()
        rise = int(max(levels[own].max(), before[own].max())) - lowest
        curve = tuple(height - lowest for height in drawn)
        counts = (
            int(np.count_nonzero(growth)),
            int(growth.sum()),
            growths.get(step, int(levels[end - 1] - before[first])),
        )
        found[int(places[first])] = MemoryStep(device=device, step=step, rise_bytes=rise, curve_bytes=curve), counts
    return [found[place] for place in sorted(found)]


def curve_bytes(edges_ns: tuple[int, int], parts: int, times: Ints, levels: Ints, before: Ints) -> tuple[int, ...]:
    """Return the highest level of a device in equal parts of a step's time; a part begins as high as the one before ended.

    There is at least one event; they come in their order.
    """
    start, end = edges_ns
    part = np.clip((times - start) * parts // max(1, end - start), 0, parts - 1)
    # A clock that goes back is a finding of its own; here what came later counts.
    order = np.argsort(part, kind="stable")
    firsts = np.flatnonzero(np.diff(part[order], prepend=-1))
    highest = dict(zip(part[order][firsts].tolist(), np.maximum.reduceat(levels[order], firsts).tolist(), strict=True))
    last = dict(zip(part[order].tolist(), levels[order].tolist(), strict=True))
    level = int(before[0])
    curve = []
    for number in range(parts):
        curve.append(max(level, highest.get(number, level)))
        level = last.get(number, level)
    return tuple(curve)
