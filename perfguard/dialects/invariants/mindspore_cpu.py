"""What must agree across the JSON files MindSpore writes of operators on the host's CPU, and with its tables.

Each held on all 83 real output directories of MindSpore 2.0 and 2.10 it was tried on. Where times are compared, the cause
of the tolerance is named: the CSV files print C++ floats with six significant digits, so a cell is off by up to 5e-6 of
itself, and what was added up in such floats by a little more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_float64, as_int64, nanoseconds, unquoted
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: MindSpore 2.0 stops writing a timeline at this size, in the middle of the events.
_TIMELINE_LIMIT = 20 * 1024 * 1024

_OPERATOR = "full_op_name"


# -- names -----------------------------------------------------------------------------------------------------------


@invariant(needs=("profiler_info",))
def rank_is_that_of_the_file_name(cycle: Cycle) -> Iterator[Finding]:
    """The rank written inside profiler_info is the suffix of its name.

    Source: MindSpore 2.0 source: profiler_info.py (rank_id, a text); MindSpore 2.10: ms_profiler_info.rank_id, a text;
    torch_npu: rank_id, a number; real output of each.
    """
    artifact = cycle.artifacts["profiler_info"]
    suffix = re.search(r"_(\d+)\.json$", artifact.path.name)
    document = artifact.content.document
    if suffix is None or not isinstance(document, dict):
        return
    around = document.get("ms_profiler_info")
    rank, path = (around, "ms_profiler_info.rank_id") if isinstance(around, dict) else (document, "rank_id")
    inside = str(rank.get("rank_id", ""))
    if re.fullmatch(r"-?\d+", inside) and int(inside) != int(suffix[1]):
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.{path}",
            message=f"rank {inside} inside the file, {suffix[1]} in its name",
        )


# -- the timeline of 2.0 ---------------------------------------------------------------------------------------------


@invariant(needs=("cpu_timeline_display", "cpu_op_execute_timestamp"))
def timeline_events_are_executions(cycle: Cycle) -> Iterator[Finding]:
    """Events of the HostCpuOps threads = executions, by the last part of their names, with their times.

    Counts are exact; times in us were made from the same texts, so they agree to the float (1 ns, or 0.5 us where the
    clock is UNIX time). Not compared where the file reached 20 MB: there the writer stops. Source: MindSpore 2.0 source:
    base_timeline_generator.py, cpu_gpu_timeline_generator.py; real output.
    """
    import polars as pl

    if _is_cut(cycle):
        return
    stamps = _with_lines(cycle).select(
        name=pl.col(_OPERATOR).str.replace(r"^.*/", ""),
        start="start",
        duration="duration_ns",
        inexact=pl.col("duration_ns") * 1e-9,
    )
    events = _lane(cycle, "HostCpuOps")
    # Operators of one name in several scopes share it here, so what lies at one time is paired by its place in time.
    yield from _disagreements(
        cycle,
        Code.I103,
        _Counted("cpu_timeline_display", Counter(events["name"].to_list())),
        _Counted("cpu_op_execute_timestamp", Counter(stamps["name"].to_list())),
    )
    pairs = _paired(events, stamps)
    far = 1 + pairs["start_there"].abs().cast(pl.Float64) * 2.0**-51
    late = (pairs["start"] - pairs["start_there"]).abs() > far
    long = (pairs["duration"] - pairs["duration_there"]).abs() > 1 + pairs["inexact"]
    other = _file(cycle, "cpu_op_execute_timestamp")
    yield from _disagreeing_events(
        cycle,
        "cpu_timeline_display",
        pairs.filter(long | late),
        lambda row: (
            f"{row['name']}: {row['duration'] / 1e3:.3f} us from {row['start']} ns here, "
            f"{row['duration_there'] / 1e3:.3f} us from {row['start_there']} ns in {other}"
        ),
    )


@invariant(needs=("cpu_timeline_display", "cpu_op_execute_timestamp"))
def timeline_lanes_are_made_of_executions(cycle: Cycle) -> Iterator[Finding]:
    """The merged lane has an event for every execution that begins behind all before it, the free lane one fewer.

    On a single thread the merged lane has as many events as there are executions. Gaps under 2 ns may go either way, for
    the writer compared floats. Source: MindSpore 2.0 source: base_timeline_generator.py; real output.
    """
    import polars as pl

    if _is_cut(cycle):
        return
    merged, free = _lane(cycle, "7999"), _lane(cycle, "8002")
    stamps = _with_lines(cycle).sort("start")
    if stamps.is_empty():
        return
    gaps = stamps.select(
        gap=pl.col("start") - (pl.col("start") + pl.col("duration_ns")).cum_max().shift(1),
        blur=2 + pl.col("start") * 2.0**-51,
    )
    least = 1 + int((gaps["gap"] > gaps["blur"]).sum())
    most = 1 + int((gaps["gap"] > -gaps["blur"]).sum())
    place = cycle.artifacts["cpu_timeline_display"].place
    if not least <= merged.height <= most:
        count = str(least) if least == most else f"{least} to {most}"
        yield Finding(
            code=Code.I103,
            place=place,
            message=f"the lane of merged computation has {merged.height} events, the executions in "
            f"{_file(cycle, 'cpu_op_execute_timestamp')} make {count}",
        )
    elif free.height != merged.height - 1:
        yield Finding(
            code=Code.I103,
            place=place,
            message=f"the lane of free time has {free.height} events, between the {merged.height} of merged computation "
            f"there are {merged.height - 1}",
        )


@invariant(needs=("cpu_timeline_display", "cpu_op_execute_timestamp"))
def timeline_steps_are_ends_of_steps(cycle: Cycle) -> Iterator[Finding]:
    """The Steps lane has an event for every execution of the operator that ends a step. Exact.

    It is the last before the first operator comes again (behind the one that sets the data queue up). In graph mode that
    is the number of steps profiled. Source: MindSpore 2.0 source: base_timeline_generator.py; real output.
    """
    if _is_cut(cycle):
        return
    stamps = _with_lines(cycle).sort("start", maintain_order=True)
    starts = stamps["start"]
    names = stamps[_OPERATOR].to_list()
    if not names or starts.n_unique() != len(starts):
        return
    first = 1 if names[0].startswith("Default/InitDataSetQueue") and len(names) > 1 else 0
    behind = names[first + 1 :]
    until = behind.index(names[first]) if names[first] in behind else len(behind)
    end = behind[until - 1] if until else names[first]
    steps, ends = _lane(cycle, "100000").height, names.count(end)
    if steps != ends:
        yield Finding(
            code=Code.I108,
            place=cycle.artifacts["cpu_timeline_display"].place,
            message=f"the Steps lane has {steps} events, but {end}, which ends a step, ran {ends} times in "
            f"{_file(cycle, 'cpu_op_execute_timestamp')}",
        )


@invariant(needs=("cpu_timeline_display",))
def timeline_is_of_the_rank(cycle: Cycle) -> Iterator[Finding]:
    """Operators and steps have the rank of the file's name as their pid.

    Source: MindSpore 2.0 source: cpu_gpu_timeline_generator.py; real output of one and of two ranks.
    """
    import polars as pl

    artifact = cycle.artifacts["cpu_timeline_display"]
    suffix = re.search(r"_(\d+)\.json$", artifact.path.name)
    if suffix is None:
        return
    events = pl.concat([_lane(cycle, lane) for lane in ("HostCpuOps", "100000")])
    rank = int(suffix[1])
    wrong = events.filter(events["pid"].str.strip_chars('"') != str(rank))
    if wrong.height:
        first = wrong.row(0, named=True)
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $[{first['row']}].pid",
            message=f"{wrong.height} operators and steps are of rank {first['pid']}, the file's name says {rank}",
        )


# -- what the checks share -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Counted:
    """How often each operator is counted by one slot."""

    slot: str
    counts: Mapping[str, int]


def _frame(cycle: Cycle, slot: str) -> pl.DataFrame:
    return cycle.artifacts[slot].content.frame


def _file(cycle: Cycle, slot: str) -> str:
    return cycle.artifacts[slot].path.name


def _disagreements(cycle: Cycle, code: Code, here: _Counted, there: _Counted) -> Iterator[Finding]:
    names = sorted(here.counts.keys() | there.counts.keys())
    differing = [name for name in names if here.counts.get(name, 0) != there.counts.get(name, 0)]
    place, other = cycle.artifacts[here.slot].place, _file(cycle, there.slot)
    yield from disagreements(
        code,
        (
            (place, f"{name}: {here.counts.get(name, 0)} here, {there.counts.get(name, 0)} in {other}")
            for name in differing
        ),
        count=len(differing),
        place=place,
    )


def _with_lines(cycle: Cycle) -> pl.DataFrame:
    """Executions as numbers: start in ns (exact), duration in ns (six digits), and the line they are from."""
    import polars as pl

    table = cycle.artifacts["cpu_op_execute_timestamp"].content.table
    assert table is not None
    assert table.lines is not None
    return table.frame.select(
        _OPERATOR,
        start=as_int64(table.frame["start"]),
        duration_ns=(as_float64(table.frame["duration"]) * 1e6).round().cast(pl.Int64, strict=False),
        thread="thread",
        line=pl.Series(table.lines, dtype=pl.Int64),
    )


def _lane(cycle: Cycle, thread: str) -> pl.DataFrame:
    """Complete events of the 2.0 timeline on threads that begin with a text: row, name, pid, start and duration in ns."""
    import polars as pl

    trace = _frame(cycle, "cpu_timeline_display")
    trace = _with_columns(trace, "ph", "name", "pid", "tid", "ts", "dur").with_row_index("row")
    tid = pl.col("tid").str.strip_chars('"')
    events = trace.filter((pl.col("ph") == '"X"') & (tid.str.starts_with(thread)))
    if thread.isdigit():
        events = events.filter(tid == thread)
    return events.select(
        "row",
        unquoted("name"),
        "pid",
        start=nanoseconds(events["ts"]),
        duration=nanoseconds(events["dur"]),
    )


def _with_columns(events: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Add the keys that no event of a trace has."""
    import polars as pl

    return events.with_columns(
        pl.lit(None, dtype=pl.String).alias(name) for name in names if name not in events.columns
    )


def _is_cut(cycle: Cycle) -> bool:
    return cycle.artifacts["cpu_timeline_display"].path.stat().st_size >= _TIMELINE_LIMIT


def _paired(events: pl.DataFrame, stamps: pl.DataFrame) -> pl.DataFrame:
    """Join events with executions, the n-th in time with the n-th, of names that both hold equally often."""
    import polars as pl

    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.sort("start", maintain_order=True).with_columns(
            nth=pl.int_range(pl.len()).over("name"), times=pl.len().over("name")
        )

    return (
        numbered(events)
        .join(numbered(stamps), on=["name", "nth", "times"], suffix="_there", maintain_order="left")
        .sort("row")
    )


def _disagreeing_events(cycle: Cycle, slot: str, wrong: pl.DataFrame, message: Any) -> Iterator[Finding]:
    artifact = cycle.artifacts[slot]
    table = artifact.content.table
    assert table is not None
    yield from disagreements(
        Code.I103,
        ((f"{artifact.place}{table.place(row['row'])}", message(row)) for row in wrong.iter_rows(named=True)),
        count=wrong.height,
        place=artifact.place,
    )
