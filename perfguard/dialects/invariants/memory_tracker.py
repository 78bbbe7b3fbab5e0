"""What must hold in MindSpore's memory tracker. Its time stamps are a counter of events, no clock.

Source: MindSpore 2.4 to 2.6 source: mem_tracker.cc; task.csv read on real output of 2.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.artifacts.table import as_int64
from perfguard.dialects.disagreement import disagreeing_rows
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle


@invariant(needs=("task",))
def tasks_of_the_tracker_are_numbered_upwards(cycle: Cycle) -> Iterator[Finding]:
    """time_stamp ascends strictly: the counter is raised and the task appended under one lock. Exact."""
    artifact = cycle.artifacts["task"]
    stamps = as_int64(artifact.content.frame["time_stamp"])
    frame = artifact.content.frame.with_columns(before=stamps.shift(1))
    yield from disagreeing_rows(
        artifact,
        stamps <= stamps.shift(1),
        Code.I106,
        lambda row: f"{row['task_name']}: time stamp {row['time_stamp']} after {row['before']}",
        frame=frame,
    )


@invariant(needs=("memory_block",))
def no_block_is_released_before_it_is_allocated(cycle: Cycle) -> Iterator[Finding]:
    """end_time_stamp > start_time_stamp, except -1, which stands for a block inside another. Exact."""
    artifact = cycle.artifacts["memory_block"]
    start = as_int64(artifact.content.frame["start_time_stamp"])
    end = as_int64(artifact.content.frame["end_time_stamp"])
    yield from disagreeing_rows(
        artifact,
        (end <= start) & (end != -1) & (start != -1),
        Code.I106,
        lambda row: (
            f"block {row['device_addr']} is released at {row['end_time_stamp']}, allocated at {row['start_time_stamp']}"
        ),
    )


@invariant(needs=("memory_block",))
def the_peak_is_not_below_a_block(cycle: Cycle) -> Iterator[Finding]:
    """actual_peak_memory >= size, and >= actual_used_memory where that column is there. Exact; 0 means not counted."""
    artifact = cycle.artifacts["memory_block"]
    frame = artifact.content.frame
    peak = as_int64(frame["actual_peak_memory"])
    for column in ("actual_used_memory",) if "actual_used_memory" in frame.columns else ():
        yield from disagreeing_rows(
            artifact,
            (peak < as_int64(frame[column])) & (peak > 0),
            Code.I107,
            lambda row: (
                f"{row['actual_used_memory']} bytes in use, but a peak of {row['actual_peak_memory']} bytes so far"
            ),
        )
