"""What msprof-analyze makes of many ranks: cluster_analysis_output.

The rows and entries of one rank are copies of the rank's own files, so the same identities hold; checked on a real sample
of sixteen ranks (msinsight test data), whose totals are cut and therefore not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities, quantity
from perfguard.dialects.invariants.communication import (
    bandwidth_messages,
    bandwidths_follow,
    operations,
    times_add_up,
)
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

_DAY_US = 86_400e6


@invariant()
def a_stage_is_its_slowest_rank(cycle: Cycle) -> Iterator[Finding]:
    """Every time in a row of a stage = the largest of its ranks in the same step (1e-6 us and 1e-12 of it).

    Ranks are those `Index` lists, each with a row of its own. Holds for the table and for
    ClusterStepTraceTime of the database, which has the same columns in other letters. Source: real output; msprof-analyze:
    cluster_analyse.
    """
    for slot, name in (("cluster_step_trace_time", None), ("cluster_analysis", "ClusterStepTraceTime")):
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        table = artifact.content.table if name is None else artifact.content.tables.get(name)
        if table is None:
            continue
        found = [(f"{artifact.place}{table.place(row)}", message) for row, message in _slower_ranks(table.frame)]
        yield from disagreements(Code.I108, found, count=len(found), place=artifact.place)


def _slower_ranks(frame: pl.DataFrame) -> Iterator[tuple[int, str]]:
    columns = [name for name in frame.columns if name.lower() not in ("step", "type", "index")]
    keys = {
        name.lower(): frame[name].str.strip_chars('" ').to_list()
        for name in ("step", "type", "index", "Step", "Type", "Index")
        if name in frame.columns
    }
    rows = list(zip(keys["step"], keys["type"], keys["index"], strict=True))
    number_of = {(step, index): row for row, (step, kind, index) in enumerate(rows) if kind == "rank"}
    values = {name: quantity(frame, name).to_list() for name in columns}
    for row, (step, kind, index) in enumerate(rows):
        named = re.findall(r"\d+", index) if kind == "stage" else []
        members = [number_of.get((step, rank)) for rank in named]
        if lost := [rank for rank, member in zip(named, members, strict=True) if member is None]:
            yield row, f"stage {index} of step {step} has ranks without a row of their own: {', '.join(lost)}"
        if not members or lost:
            continue
        for name in columns:
            of_ranks = [values[name][member] for member in members if member is not None]
            own = values[name][row]
            if own is None or None in of_ranks:
                continue
            if abs(own - max(of_ranks)) > 1e-6 + 1e-12 * abs(own):
                yield row, f"stage {index}: {name} is {own:.9g} us, the largest of its ranks is {max(of_ranks):.9g} us"


@invariant(needs=("cluster_communication",))
def cluster_communication_adds_up(cycle: Cycle) -> Iterator[Finding]:
    """Times and bandwidths of every rank follow from each other as in communication.json."""
    artifact = cycle.artifacts["cluster_communication"]
    found = list(operations(artifact.content.document, artifact.place, depth=3))
    yield from times_add_up(artifact.place, found)
    yield from bandwidths_follow(artifact.place, found)


@invariant(needs=("cluster_communication",))
def cluster_communication_is_of_one_run(cycle: Cycle) -> Iterator[Finding]:
    """Start Timestamp of every operation and rank lies within a day of the others; totals have none. Real output."""
    artifact = cycle.artifacts["cluster_communication"]
    found = [
        (one.place, start)
        for one in operations(artifact.content.document, artifact.place, depth=3)
        if one.name != "Total Op Info" and (start := one.times.get("Start Timestamp(us)")) is not None
    ]
    if not found:
        return
    middle = sorted(start for _, start in found)[len(found) // 2]
    far = [
        (place, f"it started at {start:.3f} us, most others about {middle:.3f} us")
        for place, start in found
        if abs(start - middle) > _DAY_US
    ]
    yield from disagreements(Code.I113, far, count=len(far), place=artifact.place)


@invariant(needs=("cluster_communication_matrix",))
def cluster_matrix_bandwidths_follow(cycle: Cycle) -> Iterator[Finding]:
    """Bandwidth = Transit Size / Transit Time for every link (1e-4)."""
    artifact = cycle.artifacts["cluster_communication_matrix"]
    yield from disagreements(
        Code.I109,
        (
            (one.place, message)
            for one in operations(artifact.content.document, artifact.place, depth=3)
            for message in bandwidth_messages(one.info, one.group[-1])
        ),
        place=artifact.place,
    )


@invariant(needs=("cluster_analysis",))
def cluster_times_of_the_database_add_up(cycle: Cycle) -> Iterator[Finding]:
    """Rows of a rank in ClusterStepTraceTime keep the identities of cluster_step_trace_time.csv (0.002 us, stage 0.5 us).

    A stage holds the largest of its ranks, which keep no identity together. As in the table, MindSpore's stage is another
    time: it is judged where it is the sum of its parts in at least half of the rows. No real database was found.
    """
    artifact = cycle.artifacts["cluster_analysis"]
    if (table := artifact.content.tables.get("ClusterStepTraceTime")) is None:
        return
    frame = quantities(
        table.frame,
        exposed="communication_not_overlapped",
        over="overlapped",
        whole="communication",
        gap="bubble",
        sent="communication_not_overlapped_and_exclude_receive",
        busy="computing",
        idle="free",
        span="stage",
    )
    is_rank = frame["type"].str.strip_chars('"') == "rank"
    parts = is_rank & ((frame["whole"] - frame["exposed"] - frame["over"]).abs() > 0.002)
    sends = is_rank & ((frame["exposed"] - frame["gap"] - frame["sent"]).abs() > 0.002)
    off = is_rank & ((frame["busy"] + frame["exposed"] + frame["idle"] - frame["span"] - frame["gap"]).abs() > 0.5)
    judged = off if 2 * int(off.sum()) <= int(is_rank.sum()) else is_rank & False
    for broken, message in (
        (parts, "overlapped is not communication - communication_not_overlapped"),
        (sends, "communication without receive is not communication_not_overlapped - bubble"),
        (judged, "computing + communication_not_overlapped + free is not stage + bubble"),
    ):
        rows = broken.fill_null(False).arg_true().to_list()
        places = [(f"{artifact.place}{table.place(row)}", f"rank {frame['index'][row]}: {message}") for row in rows]
        yield from disagreements(Code.I108, places, count=len(places), place=artifact.place)
