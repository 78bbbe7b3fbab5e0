"""What must hold in a trace of torch.profiler. Each held on every real trace of torch 2.13 on CPU it was tried on.

Not asserted: allocated <= reserved (torch reserves nothing on a CPU), and an order of the events in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from perfguard.artifacts.table import nanoseconds, unquoted
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.disagreement import disagreements
from perfguard.dialects.shared_memory import without_shared
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle

#: torch before 2.1 wrote whole microseconds, so that a child may seem to end one later than its parent.
TOLERANCE_NS = 1000
_COLUMNS = ("ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args")
#: How many gaps one finding names before it counts the rest.
NAMED = 8
#: Operators that make a tensor of nothing; they have no shapes to record.
FACTORIES = r"^aten::(empty|zeros|ones|full|rand|arange|eye|scalar_tensor|_?efficientzerotensor)"


@invariant(needs=("trace",))
def operators_of_a_thread_are_nested(cycle: Cycle) -> Iterator[Finding]:
    """An operator lies inside another of its thread, or beside it; the marks of steps count as such. Tolerance 1 us.

    So no operator is longer than what called it, and none reaches out of the step it began in; but a TorchScript function
    that forks ends with the last of its tasks (torch 2.4, real output), so one without a namespace may.
    """
    artifact, frame = _events(cycle)
    import polars as pl

    is_step = (pl.col("category") == "user_annotation") & pl.col("plain").str.contains(r"^ProfilerStep#[0-9]+$")
    work = frame.filter((pl.col("ph") == '"X"') & ((pl.col("category") == "cpu_op") | is_step))
    if work.is_empty():
        return
    work = work.with_columns(start=nanoseconds(work["ts"]), lasts=nanoseconds(work["dur"])).drop_nulls(
        ("start", "lasts")
    )
    work = work.with_columns(end=pl.col("start") + pl.col("lasts"))
    work = work.sort("pid", "tid", "start", "end", descending=[False, False, False, True], maintain_order=True)
    columns = work.select("pid", "tid", "start", "end", "row", "plain")
    yield from disagreements(Code.I112, _overlaps(artifact, columns), place=artifact.place)


@invariant(needs=("trace",))
def the_external_id_of_an_operator_is_its_own(cycle: Cycle) -> Iterator[Finding]:
    """No two cpu_op events have one External id. Exact; 0 stands for none."""
    import polars as pl

    artifact, frame = _events(cycle)
    operators = frame.filter((pl.col("ph") == '"X"') & (pl.col("category") == "cpu_op")).select(
        "row", "plain", _argument("External id")
    )
    operators = operators.filter(pl.col("External id") > 0)
    first = (
        operators.group_by("External id").agg(pl.col("row").first().alias("first"), pl.len()).filter(pl.col("len") > 1)
    )
    again = operators.join(first, on="External id", maintain_order="left").filter(pl.col("row") != pl.col("first"))
    yield from disagreements(
        Code.I114,
        (
            (_at(artifact, row), f"{name}: External id {number} is that of event {before} as well")
            for row, name, number, before in again.select("row", "plain", "External id", "first").iter_rows()
        ),
        count=again.height,
        place=artifact.place,
    )


@invariant(needs=("trace",))
def events_are_numbered_through(cycle: Cycle) -> Iterator[Finding]:
    """The events of the host carry the numbers 0 to N-1 (Ev Idx), each once: none was lost, none written twice. Exact.

    Holds with every option of the profiler on real output of torch 2.13 on CPU; torch numbers what it recorded before it
    writes any of it (torch/csrc/profiler, profiler_kineto.cpp). torch 1.12 numbers nothing. Beside events of a GPU a gap is
    a warning: no such trace was at hand.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    numbered = frame.filter(pl.col("args").str.contains('"Ev Idx"', literal=True)).select(
        "row", "plain", _argument("Ev Idx")
    )
    numbered = numbered.drop_nulls("Ev Idx")
    if numbered.is_empty():
        return
    again = numbered.filter(pl.col("Ev Idx").is_first_distinct().not_())
    yield from disagreements(
        Code.I114,
        (
            (_at(artifact, row), f"{name}: Ev Idx {number} is that of an earlier event as well")
            for row, name, number in again.iter_rows()
        ),
        count=again.height,
        place=artifact.place,
    )
    numbers = numbered["Ev Idx"].unique().sort()
    # What precedes each number, and how many are missing there; the first must be 0.
    gaps = pl.DataFrame({"number": numbers}).with_columns(
        lost=pl.col("number") - pl.col("number").shift(1, fill_value=-1) - 1
    )
    gaps = gaps.filter(pl.col("lost") > 0)
    if gaps.height:
        has_kernels = "cat" in frame.columns and (frame["cat"] == '"kernel"').any()
        yield Finding(
            code=Code.I102,
            severity=Severity.WARNING if has_kernels else Severity.ERROR,
            place=artifact.place,
            message=lost_events(
                gaps.head(NAMED).rows(), count=gaps.height, lost=int(gaps["lost"].sum()), last=int(numbers[-1])
            ),
        )


def lost_events(gaps: Iterable[tuple[int, int]], *, count: int, lost: int, last: int) -> str:
    """Word gaps in the numbers of events: the first of them as (number behind it, how many are missing), and `count` in all."""
    named = ", ".join(
        f"{number - missing}" if missing == 1 else f"{number - missing} to {number - 1}" for number, missing in gaps
    )
    more = f" and {count - NAMED} more gaps" if count > NAMED else ""
    return f"{lost} of {last + 1} recorded events are not in the trace: Ev Idx {named}{more}"


@invariant(needs=("trace",))
def every_flow_has_two_ends(cycle: Cycle) -> Iterator[Finding]:
    """Of one category the flows that begin (s) are those that end (f), by id and number. Exact for fwdbwd, else a warning.

    A device may drop what a launch led to when the window closes; forward and backward are both on the host.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    flows = frame.filter(pl.col("ph").is_in(['"s"', '"f"'])).select("row", "ph", "category", "id")
    ends = flows.group_by("category", "id", maintain_order=True).agg(
        pl.col("row").first(), starts=(pl.col("ph") == '"s"').sum(), stops=(pl.col("ph") == '"f"').sum()
    )
    broken = ends.filter(pl.col("starts") != pl.col("stops"))
    for severity, is_exact in ((Severity.ERROR, True), (Severity.WARNING, False)):
        part = broken.filter((pl.col("category") == "fwdbwd").fill_null(False) == is_exact)
        # A launch may lead to several kernels.
        part = part if is_exact else part.filter((pl.col("starts") == 0) | (pl.col("stops") == 0))
        yield from disagreements(
            Code.I110,
            (
                (_at(artifact, row), f"flow {number} of {category} begins {starts} times and ends {stops} times")
                for category, number, row, starts, stops in part.iter_rows()
            ),
            count=part.height,
            place=artifact.place,
            severity=severity,
        )


@invariant(needs=("trace",))
def allocated_memory_is_a_running_sum(cycle: Cycle) -> Iterator[Finding]:
    """Total Allocated rises by Bytes from one memory event of a device to the next, in the order of Ev Idx. Exact.

    A warning on devices: their allocator reports from several threads. Shared memory of a loader's workers is left out.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    names = ("Ev Idx", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Addr")
    memory = frame.filter(pl.col("plain") == "[memory]").select("row", *(_argument(name) for name in names))
    silent = memory["Total Allocated"].is_null()
    if 0 < silent.sum() < memory.height:
        rows = memory.filter(silent)["row"].to_list()
        messages = ((_at(artifact, row), "it has no Total Allocated, as other memory events have") for row in rows)
        yield from disagreements(Code.I107, messages, count=len(rows), place=artifact.place)
    # torch 1.12 numbers no event, so nobody knows which of two in one microsecond came first.
    memory = without_shared(memory.drop_nulls("Ev Idx").sort("Ev Idx", maintain_order=True))
    memory = memory.with_columns(before=pl.col("Total Allocated").shift(1).over("Device Type", "Device Id"))
    broken = memory.filter(pl.col("before") + pl.col("Bytes") != pl.col("Total Allocated"))
    for severity, on_host in ((Severity.ERROR, True), (Severity.WARNING, False)):
        part = broken.filter((pl.col("Device Type") == 0) == on_host)
        yield from disagreements(
            Code.I107,
            (
                (
                    _at(artifact, row["row"]),
                    f"{row['before']} bytes before, {row['Bytes']:+d} bytes, but a total of {row['Total Allocated']} bytes",
                )
                for row in part.iter_rows(named=True)
            ),
            count=part.height,
            place=artifact.place,
            severity=severity,
        )


@invariant(needs=("trace",))
def what_the_header_says_was_recorded_is_there(cycle: Cycle) -> Iterator[Finding]:
    """With profile_memory there are memory events, with record_shapes operators have Input Dims.

    Asked only where operators ran that must leave them: those that allocate, and those that take tensors.
    """
    import polars as pl

    artifact, frame = _events(cycle)
    operators = frame.filter((pl.col("ph") == '"X"') & (pl.col("category") == "cpu_op")).select("plain", "args")
    yield from recorded_as_said(
        artifact,
        calls=dict(operators.group_by("plain").len().iter_rows()),
        memory_events=int((frame["plain"] == "[memory]").sum()),
        with_shapes=int(operators["args"].str.contains('"Input Dims"', literal=True).sum()),
    )


def recorded_as_said(
    artifact: Artifact, *, calls: Mapping[str, int], memory_events: int, with_shapes: int
) -> Iterator[Finding]:
    """Hold the header of a trace against how often each operator ran, and how many events tell of memory and of shapes."""
    header = artifact.content.document
    allocating = sum(count for name, count in calls.items() if name.startswith("aten::empty"))
    if header.get("profile_memory") == 1 and allocating and not memory_events:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.profile_memory",
            message=f"the header says that memory was profiled; {allocating} operators allocate, but no memory event is there",
        )
    taking = any(name.startswith("aten::") and not re.search(FACTORIES, name) for name in calls)
    if header.get("record_shapes") == 1 and taking and not with_shapes:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.record_shapes",
            message=f"the header says that shapes were recorded; none of {sum(calls.values())} operators has Input Dims",
        )


def _events(cycle: Cycle) -> tuple[Artifact, pl.DataFrame]:
    """Return the events with their row, and with name and category without quotes."""
    import polars as pl

    artifact = cycle.artifacts["trace"]
    frame = artifact.content.frame
    absent = [pl.lit(None, dtype=pl.String).alias(column) for column in _COLUMNS if column not in frame.columns]
    frame = frame.with_columns(absent).select(_COLUMNS).with_row_index("row")
    return artifact, frame.with_columns(unquoted("name").alias("plain"), unquoted("cat").alias("category"))


def _argument(name: str) -> pl.Expr:
    import polars as pl

    return pl.col("args").str.extract(rf'"{name}":\s*(-?[0-9]{{1,18}})[,\s}}]').cast(pl.Int64).alias(name)


def _overlaps(artifact: Artifact, sorted_work: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield operators that begin inside another of their thread and end after it; sorted by thread, start, longest first."""
    thread: tuple[str, str] | None = None
    open_ones: list[tuple[int, str]] = []
    for pid, tid, start, end, row, name in sorted_work.iter_rows():
        if (pid, tid) != thread:
            thread, open_ones = (pid, tid), []
        if message := overlap(open_ones, start, end, name):
            yield _at(artifact, row), message


def overlap(open_ones: list[tuple[int, str]], start: int, end: int, name: str) -> str | None:
    """Put an operator to those of its thread that have begun and not ended (end, name); say if it ends behind one of them."""
    message = None
    while open_ones and open_ones[-1][0] <= start:
        open_ones.pop()
    if open_ones and end > open_ones[-1][0] + TOLERANCE_NS:
        until, outer = open_ones[-1]
        # What only touches, by the rounding of whole microseconds, is a neighbour.
        may_outlive = outer.startswith("ProfilerStep#") and "::" not in name
        if until > start + TOLERANCE_NS and not may_outlive:
            message = f"{name} begins inside {outer}, but ends {(end - until) / 1000:.3f} us after it"
    open_ones.append((end, name))
    return message


def _at(artifact: Artifact, row: int) -> str:
    table = artifact.content.table
    assert table is not None
    return f"{artifact.place}{table.place(row)}"
