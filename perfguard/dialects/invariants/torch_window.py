"""A torch trace against its own window: where its events lie, what its header and its name say of them.

Source, unless a function says otherwise: real traces of torch 1.12, 2.4 and 2.13 on CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import nanoseconds, unquoted
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle

#: Microseconds are written as floats (2.x) or whole (1.12): an edge may be off by one.
EDGE_NS = 1_000
#: How far the end of a flow may be from the start of its operator: two times, each rounded to nanoseconds.
FLOW_NS = 2
#: From the end of a window until its file is named: what it takes to collect a large trace, and not another run.
_EXPORT_NS = 6 * 3600 * 10**9
_CLOCK_NS = 60 * 10**9
#: What is beyond it is no time of a clock (int64), which the schema says.
_LAST_NS = 2**63 - 1
STEP = r"^ProfilerStep#[0-9]+$"


def _events(cycle: Cycle) -> tuple[Artifact, pl.DataFrame]:
    """Return the events with what every check here asks for: row, plain name, category, start and end [ns]."""
    import polars as pl

    artifact = cycle.artifacts["trace"]
    frame = artifact.content.frame
    absent = [name for name in ("name", "cat", "ph", "pid", "tid", "ts", "dur", "args") if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in absent).with_row_index("row")
    frame = frame.with_columns(plain=unquoted("name"), category=unquoted("cat"))
    start, lasts = nanoseconds(frame["ts"]), nanoseconds(frame["dur"])
    return artifact, frame.with_columns(start=start, end=start + lasts.fill_null(0))


def _at(artifact: Artifact, row: int) -> str:
    assert artifact.content.table is not None
    return f"{artifact.place}{artifact.content.table.place(row)}"


def _operators(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.filter((pl.col("ph") == '"X"') & (pl.col("category") == "cpu_op"))


@invariant(needs=("trace",))
def events_lie_in_the_window(cycle: Cycle) -> Iterator[Finding]:
    """Operators, memory events and flows lie in the span "PyTorch Profiler" that the trace draws. Tolerance 1 us.

    The mark of a step, a Python function and what a collective annotates from its own thread may begin before it; no
    step ends behind it. A task that another thread was at when the profiler stopped may end behind it (torch 2.8, jit.fork).
    """
    import polars as pl

    artifact, frame = _events(cycle)
    span = frame.filter((pl.col("category") == "Trace") & (pl.col("ph") == '"X"')).select("start", "end").drop_nulls()
    if span.height != 1:
        return
    begin, end = span.row(0)
    step = (pl.col("category") == "user_annotation") & pl.col("plain").str.contains(STEP)
    host = (
        ((pl.col("ph") == '"X"') & (pl.col("category") == "cpu_op"))
        | ((pl.col("category") == "cpu_instant_event") & (pl.col("plain") == "[memory]"))
        | (pl.col("category") == "fwdbwd")
    )
    marked = frame.filter(step)["tid"].unique().to_list()
    is_stopped = pl.col("tid").is_in(marked) if marked else pl.lit(True)
    outside = frame.filter(
        (host & ~pl.col("start").is_between(begin - EDGE_NS, end + EDGE_NS))
        | ((host & is_stopped | step) & (pl.col("end") > end + EDGE_NS))
    )
    yield from disagreements(
        Code.I113,
        (
            (
                _at(artifact, row),
                outside_words(name, start, stop, begin, end),
            )
            for row, name, start, stop in outside.select("row", "plain", "start", "end").iter_rows()
        ),
        count=outside.height,
        place=artifact.place,
    )


def outside_words(name: str, start: int, stop: int, begin: int, end: int) -> str:
    """Word an event that lies outside of the window from `begin` to `end` [ns]."""
    return (
        f"{name}: {start / 1000:.3f} to {stop / 1000:.3f} us, the window is {begin / 1000:.3f} to {end / 1000:.3f} us"
    )


@invariant(needs=("trace",))
def flows_begin_and_end_at_operators(cycle: Cycle) -> Iterator[Finding]:
    """Both ends of a flow from forward to backward are at the start of an operator of their thread. Tolerance 2 ns."""
    import polars as pl

    artifact, frame = _events(cycle)
    flows = frame.filter(pl.col("ph").is_in(['"s"', '"f"']) & (pl.col("category") == "fwdbwd")).drop_nulls("start")
    if flows.is_empty():
        return
    starts = _operators(frame).select("pid", "tid", pl.col("start").alias("operator")).unique().sort("operator")
    near = flows.sort("start").join_asof(
        starts,
        left_on="start",
        right_on="operator",
        by=("pid", "tid"),
        strategy="nearest",
        tolerance=FLOW_NS,
        check_sortedness=False,
    )
    lost = near.filter(pl.col("operator").is_null()).sort("row")
    yield from disagreements(
        Code.I110,
        (
            (_at(artifact, row), f"no operator of thread {thread} begins at {start / 1000:.3f} us, where the flow does")
            for row, thread, start in lost.select("row", "tid", "start").iter_rows()
        ),
        count=lost.height,
        place=artifact.place,
    )


@invariant(needs=("trace",))
def memory_is_allocated_in_operators(cycle: Cycle) -> Iterator[Finding]:
    """Of the allocations on the host at least one lies in an operator of its thread: else times or units are mixed up.

    On real output all of them do; what allocates outside of operators is possible and rare.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    memory = frame.filter((pl.col("plain") == "[memory]") & (pl.col("ph") == '"i"'))
    memory = memory.filter(
        (pl.col("args").str.extract(r'"Bytes":\s*([0-9]+)').cast(pl.Int64, strict=False) > 0)
        & (pl.col("args").str.extract(r'"Device Type":\s*([0-9]+)') == "0")
    )
    operators = _operators(frame).select("pid", "tid", "start", "end").drop_nulls().sort("start")
    if memory.is_empty() or operators.is_empty():
        return
    # An operator that began before and has not ended: the latest end among those that began before.
    running = operators.with_columns(latest=pl.col("end").cum_max().over("pid", "tid"))
    inside = memory.sort("start").join_asof(
        running.select("pid", "tid", "start", "latest"), on="start", by=("pid", "tid"), check_sortedness=False
    )
    if not inside.select((pl.col("start") <= pl.col("latest") + EDGE_NS).fill_null(False).any()).item():
        yield allocated_outside(artifact, allocations=memory.height, operators=operators.height)


def allocated_outside(artifact: Artifact, *, allocations: int, operators: int) -> Finding:
    """Word that no allocation lies in an operator."""
    message = f"none of {allocations} allocations lies in one of {operators} operators of its thread"
    return Finding(code=Code.I112, place=artifact.place, message=message)


def host_reserved(count: float | None, text: str = "") -> str:
    """Word how much the host has reserved; None stands for more bytes than 18 digits tell."""
    return f"the host has reserved {text or count} bytes" if count is not None and abs(count) < 1e18 else _BEYOND


_BEYOND = "the host has reserved more bytes than there are"


@invariant(needs=("trace",))
def the_host_reserves_nothing(cycle: Cycle) -> Iterator[Finding]:
    """Total Reserved of a memory event on the host is 0: PyTorch's host allocator keeps no pool. Exact.

    A block of shared memory, as a DataLoader's workers hand over, is its own reserve, and in nobody's total.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    reserved = frame.filter((pl.col("plain") == "[memory]") & pl.col("args").str.contains(r'"Device Type":\s*0\b'))
    told = {"bytes": "Total Reserved", "size": "Bytes", "total": "Total Allocated"}
    reserved = reserved.select(
        "row", **{name: pl.col("args").str.extract(rf'"{key}":\s*(-?[0-9][0-9.eE+-]*)') for name, key in told.items()}
    )
    is_shared = (pl.col("total") == "0") & (pl.col("bytes") == pl.col("size"))
    broken = reserved.filter((pl.col("bytes") != "0") & ~is_shared.fill_null(False)).select("row", "bytes")
    yield from disagreements(
        Code.I107,
        ((_at(artifact, row), host_reserved(float(count), count)) for row, count in broken.iter_rows()),
        count=broken.height,
        place=artifact.place,
    )


@invariant(needs=("trace",))
def operators_all_have_an_external_id(cycle: Cycle) -> Iterator[Finding]:
    """Every operator has an External id where one has. Exact."""
    import polars as pl

    artifact, frame = _events(cycle)
    operators = _operators(frame).with_columns(
        has=pl.col("args").str.contains('"External id"', literal=True).fill_null(False)
    )
    if not operators["has"].any():
        return
    without = operators.filter(~pl.col("has"))
    yield from disagreements(
        Code.S103,
        (
            (_at(artifact, row), f"{name} has no External id")
            for row, name in without.select("row", "plain").iter_rows()
        ),
        count=without.height,
        place=artifact.place,
    )


@invariant(needs=("trace",))
def what_is_there_was_recorded(cycle: Cycle) -> Iterator[Finding]:
    """Memory events are there only with profile_memory, Input Dims only with record_shapes, in a header that says so.

    The header names what was on and leaves out what was off; torch 1.12 names both always.
    """
    artifact, frame = _events(cycle)
    yield from recorded_though_off(
        artifact,
        memory_events=int((frame["plain"] == "[memory]").sum()),
        with_shapes=int(frame["args"].str.contains('"Input Dims"', literal=True).sum()),
    )


def recorded_though_off(artifact: Artifact, *, memory_events: int, with_shapes: int) -> Iterator[Finding]:
    """Hold the header of a trace against how many of its events tell of memory and of shapes."""
    header = artifact.content.document
    for key, count, what in (
        ("profile_memory", memory_events, "memory events"),
        ("record_shapes", with_shapes, "events with Input Dims"),
    ):
        if header.get(key) == 0 and count:
            yield Finding(
                code=Code.I113,
                place=f"{artifact.place} $.{key}",
                message=f"the header says that it was off, and {count} {what} are there",
            )


@invariant(needs=("trace",))
def a_trace_is_named_after_its_end(cycle: Cycle) -> Iterator[Finding]:
    """`<worker>.<ns>.pt.trace.json` carries the time at which it was named: after its last event, within six hours.

    Only where the name has nanoseconds and the trace its epoch; a warning, since a name may be given by hand.
    Source: torch 2.x: profiler.py, tensorboard_trace_handler.
    """
    artifact, frame = _events(cycle)
    yield from named_after_its_end(artifact, _operators(frame)["end"].max())


def named_after_its_end(artifact: Artifact, last: object) -> Iterator[Finding]:
    """Hold the name of a trace against the end [ns] of its last operator."""
    named = re.search(r"\.([0-9]{19})\.pt\.trace\.json(\.gz)?$", artifact.path.name)
    base = artifact.content.document.get("baseTimeNanoseconds")
    if named is None or not isinstance(base, int) or not isinstance(last, int) or base > _LAST_NS:
        return
    after = int(named[1]) - base - last
    if not -_CLOCK_NS <= after <= _EXPORT_NS:
        yield Finding(
            code=Code.I113,
            severity=Severity.WARNING,
            place=artifact.place,
            message=f"its last operator ends {after / 1e9:.1f} s before the time in its name ({named[1]} ns)",
        )


@invariant(needs=("trace",))
def process_groups_are_of_the_world(cycle: Cycle) -> Iterator[Finding]:
    """rank < world_size, pg_count groups, each of pg_size ranks of the world. Exact. Source: kineto output_json.cpp."""
    artifact = cycle.artifacts["trace"]
    told = artifact.content.document.get("distributedInfo")
    if not isinstance(told, Mapping):
        return
    for message in _group_faults(told):
        yield Finding(code=Code.I109, place=f"{artifact.place} $.distributedInfo", message=message)


def _group_faults(told: Mapping[str, Any]) -> Iterator[str]:
    world, rank, groups = told.get("world_size"), told.get("rank"), told.get("pg_config")
    if not isinstance(world, int) or not isinstance(rank, int):
        return
    if rank >= world:
        yield f"it is rank {rank} of {world}"
    if not isinstance(groups, list) or not groups:
        return
    if isinstance(count := told.get("pg_count"), int) and count != len(groups):
        yield f"it counts {count} process groups and lists {len(groups)}"
    sizes = []
    for group in groups:
        ranks, size = group.get("ranks"), group.get("pg_size")
        if isinstance(ranks, list) and ranks:
            if isinstance(size, int) and size != len(ranks):
                yield f"group {group.get('pg_name')} has size {size} and lists {len(ranks)} ranks"
            if len(set(ranks)) != len(ranks) or not all(isinstance(one, int) and 0 <= one < world for one in ranks):
                yield f"group {group.get('pg_name')} lists ranks {ranks} of a world of {world}"
            sizes.append(len(ranks))
    # The first group made is the world itself.
    if sizes and max(sizes) != world:
        yield f"no process group holds all {world} ranks"
