"""What must agree across the files MindSpore writes of operators on the host's CPU.

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
from perfguard.dialects.ascend.listed import host_executions
from perfguard.dialects.ascend.view import view_of
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: Two cells of six significant digits that stand for the same number; a third adds half as much again.
_TWO_PRINTS = 1.1e-5
_THREE_PRINTS = 1.6e-5
#: What adding n numbers in a 32 bit float loses, times the root of n (its roundings go up as often as down).
_FLOAT_SUM = 3e-7
#: A print of six digits, alone.
_ONE_PRINT = 5e-6
#: The clock's own grain, for operators that follow each other.
_CLOCK_NS = 1000
#: From here on a time in ns is UNIX time (2001); below it counts from the machine's start.
_UNIX_NS = 10**18
_SECOND_NS = 10**9
#: The pool of device memory gives out multiples of this many bytes.
_MEMORY_GRAIN = 512
#: MindSpore 2.0 stops writing a timeline at this size, in the middle of the events.
_TIMELINE_LIMIT = 20 * 1024 * 1024

_ON_CPU = ("ms-2.5+cpu",)

_OPERATOR, _TYPE = "full_op_name", "op_type"
_TOTAL, _AVERAGE = "op_total_time(ms)", "op_avg_time(ms)"


# -- counts ----------------------------------------------------------------------------------------------------------


@invariant(needs=("cpu_op_detail_info", "cpu_op_type_info"))
def types_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """type_occurrences = sum of op_occurrences of the type. Exact. Source: MindSpore 2.0 and 2.10, real output."""
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_op_detail_info", _sums(cycle, "cpu_op_detail_info", _TYPE, "op_occurrences")),
        _Counted("cpu_op_type_info", _sums(cycle, "cpu_op_type_info", _TYPE, "type_occurrences")),
    )


@invariant(needs=("cpu_op_detail_info", "cpu_framework"))
def framework_lines_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Lines of cpu_framework = executions, in all. Exact; by type it fails in PyNative mode, where types are blank."""
    lines = _frame(cycle, "cpu_framework").height
    executions = sum(_sums(cycle, "cpu_op_detail_info", _TYPE, "op_occurrences").values())
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_framework", {"all operators": lines}),
        _Counted("cpu_op_detail_info", {"all operators": executions}),
    )


@invariant(needs=("cpu_framework", "cpu_op_type_info"))
def framework_types_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Lines of cpu_framework of a type = type_occurrences. Exact, but only where every line has a type.

    Source: MindSpore 2.0 and 2.10, real output. PyNative mode of 2.10 leaves types blank, so nothing is compared there.
    """
    types = _frame(cycle, "cpu_framework")[_TYPE]
    if (types == "").any():
        return
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_framework", Counter(types.to_list())),
        _Counted("cpu_op_type_info", _sums(cycle, "cpu_op_type_info", _TYPE, "type_occurrences")),
    )


@invariant(needs=("cpu_framework", "cpu_op_detail_info"))
def framework_names_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Lines of cpu_framework of a name = op_occurrences of that op_name, over all scopes. Exact, where no line is blank.

    Source: MindSpore 2.0 and 2.10 in graph mode, real output.
    """
    lines = _frame(cycle, "cpu_framework")
    if (lines[_TYPE] == "").any():
        return
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_framework", Counter(lines["op_name"].to_list())),
        _Counted("cpu_op_detail_info", _sums(cycle, "cpu_op_detail_info", "op_name", "op_occurrences")),
    )


@invariant(needs=("cpu_op_detail_info", "cpu_op_execute_timestamp"))
def timestamps_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Executions with a timestamp = op_occurrences, for the same operators. Exact."""
    stamps = Counter(_frame(cycle, "cpu_op_execute_timestamp")[_OPERATOR].to_list())
    yield from _disagreements(cycle, Code.I102, _Counted("cpu_op_execute_timestamp", stamps), _occurrences(cycle))


@invariant(needs=("cpu_op_detail_info", "trace_view"))
def trace_events_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Events of trace_view marked HostCpuOps = op_occurrences, for the same operators. Exact.

    A trace of a device may have been made without the host's operators: it is asked only where it has some, or where
    there is no device. Source: MindSpore 2.10 on a CPU, real output; MindSpore 2.3 source: ascend_timeline_generator.py.
    """
    events = view_of(cycle.artifacts["trace_view"].content).host_calls
    if not events and cycle.layout.id not in _ON_CPU:
        return
    yield from _disagreements(cycle, Code.I103, _Counted("trace_view", events), _occurrences(cycle))


@invariant(needs=("cpu_op_detail_info", "cpu_op_type_info"))
def frequency_is_operators_of_a_type(cycle: Cycle) -> Iterator[Finding]:
    """execution_frequency(per-step) = type_occurrences // op_occurrences of some operator of the type. Exact.

    It is no rate per step: a type whose operators ran unequally often has the quotient of one of them. Source: MindSpore
    2.0 and 2.10, real output (302 of 302 rows).
    """
    import polars as pl

    types = _frame(cycle, "cpu_op_type_info")
    detail = _frame(cycle, "cpu_op_detail_info")
    counts = pl.DataFrame({_TYPE: detail[_TYPE], "one": as_int64(detail["op_occurrences"])}).unique()
    rows = pl.DataFrame(
        {
            _TYPE: types[_TYPE],
            "all": as_int64(types["type_occurrences"]),
            "frequency": as_int64(types["execution_frequency(per-step)"]),
        }
    ).with_row_index("row")
    fits = (
        rows.join(counts.filter(pl.col("one") > 0), on=_TYPE)
        .group_by("row")
        .agg((pl.col("all") // pl.col("one") == pl.col("frequency")).any().alias("fits"))
    )
    rows = rows.join(fits, on="row", how="left", maintain_order="left")
    yield from disagreeing_rows(
        cycle.artifacts["cpu_op_type_info"],
        ~rows["fits"],
        Code.I105,
        lambda row: (
            f"{row[_TYPE]}: execution_frequency {row['frequency']} here, but no operator of the type ran "
            f"1/{row['frequency']} of its {row['all']} times in {_file(cycle, 'cpu_op_detail_info')}"
        ),
        frame=rows,
    )


# -- totals, averages and shares -------------------------------------------------------------------------------------


@invariant(needs=("cpu_op_detail_info", "cpu_op_type_info"))
def type_totals_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """total_compute_time = sum of op_total_time(ms) of the type, where both count it equally often.

    Relative 1.1e-5 (two prints of six digits) and what a float loses in adding. Source: MindSpore 2.0 and 2.10, real
    output (6.6e-6 at most).
    """
    import polars as pl

    types, detail = _frame(cycle, "cpu_op_type_info"), _frame(cycle, "cpu_op_detail_info")
    sums = (
        pl.DataFrame(
            {_TYPE: detail[_TYPE], "count": as_int64(detail["op_occurrences"]), "sum": as_float64(detail[_TOTAL])}
        )
        .group_by(_TYPE)
        .agg(pl.col("count").sum(), pl.col("sum").sum(), terms=pl.len())
    )
    rows = pl.DataFrame(
        {
            _TYPE: types[_TYPE],
            "all": as_int64(types["type_occurrences"]),
            "total": as_float64(types["total_compute_time"]),
        }
    ).join(sums, on=_TYPE, how="left", maintain_order="left")
    broken = (rows["all"] == rows["count"]) & _differ(rows["total"], rows["sum"], _TWO_PRINTS, rows["terms"])
    yield from disagreeing_rows(
        cycle.artifacts["cpu_op_type_info"],
        broken,
        Code.I104,
        lambda row: (
            f"{row[_TYPE]}: total {row['total']:.6g} ms here, its operators add up to {row['sum']:.6g} ms in "
            f"{_file(cycle, 'cpu_op_detail_info')}"
        ),
        frame=rows,
    )


@invariant(needs=("cpu_op_detail_info", "cpu_op_execute_timestamp"))
def totals_are_the_sum_of_executions(cycle: Cycle) -> Iterator[Finding]:
    """op_total_time(ms) = sum of the durations of the operator's executions, where both count it equally often.

    Relative 1.1e-5 (prints of six digits) and what a float loses in adding. Source: MindSpore 2.0 and 2.10, real output
    (6.2e-6 at most).
    """
    import polars as pl

    detail, stamps = _frame(cycle, "cpu_op_detail_info"), _frame(cycle, "cpu_op_execute_timestamp")
    sums = (
        pl.DataFrame({_OPERATOR: stamps[_OPERATOR], "sum": as_float64(stamps["duration"])})
        .group_by(_OPERATOR)
        .agg(pl.col("sum").sum(), terms=pl.len())
    )
    rows = pl.DataFrame(
        {
            _OPERATOR: detail[_OPERATOR],
            "count": as_int64(detail["op_occurrences"]),
            "total": as_float64(detail[_TOTAL]),
        }
    ).join(sums, on=_OPERATOR, how="left", maintain_order="left")
    broken = (rows["count"] == rows["terms"]) & _differ(rows["total"], rows["sum"], _TWO_PRINTS, rows["terms"])
    yield from disagreeing_rows(
        cycle.artifacts["cpu_op_detail_info"],
        broken,
        Code.I104,
        lambda row: (
            f"{row[_OPERATOR]}: total {row['total']:.6g} ms here, its executions add up to {row['sum']:.6g} ms in "
            f"{_file(cycle, 'cpu_op_execute_timestamp')}"
        ),
        frame=rows,
    )


@invariant(needs=("cpu_op_detail_info",))
def operator_averages_follow(cycle: Cycle) -> Iterator[Finding]:
    """op_avg_time(ms) * op_occurrences = op_total_time(ms). Relative 1.1e-5: two prints of six digits.

    Source: MindSpore 2.0 and 2.10, real output (5.1e-6 at most).
    """
    yield from _averages(cycle, "cpu_op_detail_info", _OPERATOR, "op_occurrences", _TOTAL, _AVERAGE)


@invariant(needs=("cpu_op_type_info",))
def type_averages_follow(cycle: Cycle) -> Iterator[Finding]:
    """avg_time(ms) * type_occurrences = total_compute_time (in ms, too). Relative 1.1e-5: two prints of six digits.

    Source: MindSpore 2.0 and 2.10, real output (5.1e-6 at most).
    """
    yield from _averages(cycle, "cpu_op_type_info", _TYPE, "type_occurrences", "total_compute_time", "avg_time(ms)")


@invariant(needs=("cpu_op_detail_info",))
def operator_shares_follow(cycle: Cycle) -> Iterator[Finding]:
    """total_proportion = op_total_time(ms) / the sum of all, and all add up to 1. Relative 1.6e-5, the sum 1.1e-5.

    Source: MindSpore 2.0 and 2.10, real output (6.5e-6 at most, the sum 1.6e-6).
    """
    yield from _shares(cycle, "cpu_op_detail_info", _OPERATOR, _TOTAL, "total_proportion")


@invariant(needs=("cpu_op_type_info",))
def type_shares_follow(cycle: Cycle) -> Iterator[Finding]:
    """Percent = total_compute_time / the sum of all, and all add up to 1: a fraction, whatever its name says.

    Relative 1.6e-5, the sum 1.1e-5. Source: MindSpore 2.0 and 2.10, real output (6.5e-6 at most, the sum 1.6e-6).
    """
    yield from _shares(cycle, "cpu_op_type_info", _TYPE, "total_compute_time", "percent")


# -- names -----------------------------------------------------------------------------------------------------------


@invariant(needs=("cpu_op_detail_info",))
def operators_are_listed_once(cycle: Cycle) -> Iterator[Finding]:
    """full_op_name is unique in cpu_op_detail_info (op_name is not). Source: MindSpore 2.0 and 2.10, real output."""
    yield from _listed_twice(cycle, "cpu_op_detail_info", _OPERATOR)


@invariant(needs=("cpu_op_type_info",))
def types_are_listed_once(cycle: Cycle) -> Iterator[Finding]:
    """op_type is unique in cpu_op_type_info. Source: MindSpore 2.0 and 2.10, real output."""
    yield from _listed_twice(cycle, "cpu_op_type_info", _TYPE)


@invariant(needs=("cpu_op_execute_timestamp",))
def operators_have_one_line_of_timestamps(cycle: Cycle) -> Iterator[Finding]:
    """All executions of an operator are in one line. Source: MindSpore 2.0 and 2.10, real output."""
    lines = _with_lines(cycle).unique([_OPERATOR, "line"], keep="first", maintain_order=True)
    again = lines.filter(~lines[_OPERATOR].is_first_distinct())
    place = cycle.artifacts["cpu_op_execute_timestamp"].place
    yield from disagreements(
        Code.I114,
        (
            (f"{place}:{line}", f"{name}: a line above has executions of it, too")
            for name, line in again.select(_OPERATOR, "line").iter_rows()
        ),
        count=again.height,
        place=place,
    )


@invariant(needs=("cpu_op_detail_info",))
def names_are_parts_of_the_full_name(cycle: Cycle) -> Iterator[Finding]:
    """op_name is the end of full_op_name behind its last slash, op_type is op_name up to its last hyphen. Exact.

    Source: MindSpore 2.0 source: data_saver.cc, OpDetailInfo; real output of 2.0 and 2.10.
    """
    detail = _frame(cycle, "cpu_op_detail_info")
    name = detail[_OPERATOR].str.replace(r"^.*/", "")
    broken = (detail["op_name"] != name) | (detail[_TYPE] != name.str.replace(r"-[^-]*$", ""))
    yield from disagreeing_rows(
        cycle.artifacts["cpu_op_detail_info"],
        broken,
        Code.I114,
        lambda row: (
            f"op_name {row['op_name']} and op_type {row[_TYPE]} are not the end of full_op_name {row[_OPERATOR]}"
        ),
    )


@invariant(needs=("cpu_op_detail_info",))
def operators_are_of_one_process(cycle: Cycle) -> Iterator[Finding]:
    """The same pid in every row: one process writes one file. Source: MindSpore 2.0 and 2.10, real output."""
    detail = _frame(cycle, "cpu_op_detail_info")
    usual = Counter(detail["pid"].to_list()).most_common(1)
    if usual:
        pid = usual[0][0]
        yield from disagreeing_rows(
            cycle.artifacts["cpu_op_detail_info"],
            detail["pid"] != pid,
            Code.I113,
            lambda row: f"{row[_OPERATOR]}: it ran in process {row['pid']}, other operators in {pid}",
        )


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


# -- times -----------------------------------------------------------------------------------------------------------


@invariant(needs=("cpu_op_execute_timestamp",))
def executions_are_in_order(cycle: Cycle) -> Iterator[Finding]:
    """Starts do not go back in the line of an operator, and no execution begins before the one before it has ended.

    The end may be 1 us late (the clock), and by half of the sixth digit of its duration. Source: MindSpore 2.0 and 2.10,
    real output.
    """
    import polars as pl

    rows = _with_lines(cycle).with_columns(
        before=pl.col("start").shift(1).over("line"),
        end=(pl.col("start") + pl.col("duration_ns")).shift(1).over("line"),
    )
    slack = _CLOCK_NS + rows["duration_ns"].shift(1) * _ONE_PRINT
    back = (rows["start"] < rows["before"]).fill_null(False)
    overlap = ~back & (rows["start"] < rows["end"] - slack).fill_null(False)
    artifact = cycle.artifacts["cpu_op_execute_timestamp"]
    yield from disagreeing_rows(
        artifact,
        back,
        Code.I106,
        lambda row: f"{row[_OPERATOR]}: an execution at {row['start']} ns comes after one at {row['before']} ns",
        frame=rows,
    )
    yield from disagreeing_rows(
        artifact,
        overlap,
        Code.I106,
        lambda row: (
            f"{row[_OPERATOR]}: an execution begins at {row['start']} ns, the one before it ends at {row['end']} ns"
        ),
        frame=rows,
    )


# -- memory ----------------------------------------------------------------------------------------------------------


@invariant(needs=("cpu_ms_memory_record",))
def memory_record_is_in_order(cycle: Cycle) -> Iterator[Finding]:
    """Timestamps do not go back. Source: MindSpore 2.10, real output; earlier cycles come first, and all is in order."""
    import polars as pl

    frame = _frame(cycle, "cpu_ms_memory_record")
    time = as_int64(frame["Timestamp(ns)"])
    rows = pl.DataFrame({"time": time, "before": time.shift(1)})
    yield from disagreeing_rows(
        cycle.artifacts["cpu_ms_memory_record"],
        rows["time"] < rows["before"],
        Code.I106,
        lambda row: f"a record of {row['time']} ns comes after one of {row['before']} ns",
        frame=rows,
    )


@invariant(needs=("cpu_ms_memory_record",))
def memory_in_use_was_reserved(cycle: Cycle) -> Iterator[Finding]:
    """Total Allocated <= Total Reserved. Exact. Source: MindSpore 2.10, real output.

    Not asked where nothing was ever reserved: MindSpore 2.10 beside MindFormers, whose allocator reserves nothing ahead.
    """
    rows = _memory(cycle)
    if rows["Reserved"].max() == 0:
        return
    yield from disagreeing_rows(
        cycle.artifacts["cpu_ms_memory_record"],
        rows["Allocated"] > rows["Reserved"],
        Code.I107,
        lambda row: f"{row['Allocated']} bytes are allocated, only {row['Reserved']} are reserved",
        frame=rows,
    )


@invariant(layouts=_ON_CPU, needs=("cpu_ms_memory_record",))
def memory_is_of_the_pools_grain(cycle: Cycle) -> Iterator[Finding]:
    """Every amount is a multiple of 512 bytes, and on a CPU what is allocated is active. Exact.

    Source: MindSpore 2.10 on a CPU, real output. A device may keep memory active that is no longer allocated, so this is
    for CPU output only.
    """
    rows = _memory(cycle)
    artifact = cycle.artifacts["cpu_ms_memory_record"]
    uneven = rows.select(odd=sum(rows[name] % _MEMORY_GRAIN for name in rows.columns) > 0)["odd"]
    yield from disagreeing_rows(
        artifact,
        uneven,
        Code.I107,
        lambda row: (
            f"not every amount is a multiple of {_MEMORY_GRAIN} bytes: "
            + ", ".join(f"{name} {value}" for name, value in row.items())
        ),
        frame=rows,
    )
    yield from disagreeing_rows(
        artifact,
        ~uneven & (rows["Allocated"] != rows["Active"]),
        Code.I107,
        lambda row: f"{row['Allocated']} bytes are allocated, {row['Active']} are active: on a CPU they are the same",
        frame=rows,
    )


@invariant(needs=("cpu_ms_memory_record", "cpu_op_execute_timestamp"))
def memory_record_is_of_these_executions(cycle: Cycle) -> Iterator[Finding]:
    """Some record lies within a second of the executions, or the file is of another run.

    It may begin long before: MindSpore 2.10 writes the records of earlier cycles once more. Compared only where both
    files tell UNIX time. Source: MindSpore 2.10, real output.
    """
    times = as_int64(_frame(cycle, "cpu_ms_memory_record")["Timestamp(ns)"])
    stamps = _with_lines(cycle)
    if times.is_empty() or stamps.is_empty():
        return
    first = stamps["start"].min()
    last = (stamps["start"] + stamps["duration_ns"]).max()
    assert isinstance(first, int)
    assert isinstance(last, int)
    if first < _UNIX_NS or (times < _UNIX_NS).any():
        return
    near = (times >= first - _SECOND_NS) & (times <= last + _SECOND_NS)
    if not near.any():
        yield Finding(
            code=Code.I113,
            place=cycle.artifacts["cpu_ms_memory_record"].place,
            message=f"its records are of {times.min()!s} to {times.max()!s} ns, the executions in "
            f"{_file(cycle, 'cpu_op_execute_timestamp')} of {first} to {last} ns: it is of another run",
        )


# -- the timeline of 2.0 ---------------------------------------------------------------------------------------------


@invariant(needs=("cpu_timeline_summary", "cpu_op_detail_info"))
def timeline_summary_counts_operators(cycle: Cycle) -> Iterator[Finding]:
    """num_of_ops = rows of cpu_op_detail_info, op_exe_times = their executions, total_time (ms) = their total.

    The counts are exact, the total has a relative 1.1e-5 (six digits of every row). Source: MindSpore 2.0 source:
    cpu_gpu_timeline_generator.py; real output (2e-6 at most).
    """
    summary = cycle.artifacts["cpu_timeline_summary"].content.document
    detail = _frame(cycle, "cpu_op_detail_info")
    place, other = cycle.artifacts["cpu_timeline_summary"].place, _file(cycle, "cpu_op_detail_info")
    counted = {"num_of_ops": detail.height, "op_exe_times": int(as_int64(detail["op_occurrences"]).sum())}
    for key, count in counted.items():
        if key in summary and summary[key] != count:
            yield Finding(code=Code.I101, place=f"{place} $.{key}", message=f"{summary[key]} here, {count} in {other}")
    total = float(as_float64(detail[_TOTAL]).sum())
    slack = (_TWO_PRINTS + _FLOAT_SUM * detail.height**0.5) * max(total, 1e-6)
    if "total_time" in summary and abs(summary["total_time"] - total) > slack:
        yield Finding(
            code=Code.I104,
            place=f"{place} $.total_time",
            message=f"{summary['total_time']:.6g} ms here, the operators in {other} add up to {total:.6g} ms",
        )


@invariant(needs=("cpu_timeline_summary", "cpu_op_execute_timestamp"))
def timeline_summary_counts_threads(cycle: Cycle) -> Iterator[Finding]:
    """num_of_streams = threads that ran operators. Exact.

    Source: MindSpore 2.0 source: cpu_gpu_timeline_generator.py; real output.
    """
    summary = cycle.artifacts["cpu_timeline_summary"].content.document
    threads = _frame(cycle, "cpu_op_execute_timestamp")["thread"].n_unique()
    if "num_of_streams" in summary and summary["num_of_streams"] != threads:
        yield Finding(
            code=Code.I101,
            place=f"{cycle.artifacts['cpu_timeline_summary'].place} $.num_of_streams",
            message=f"{summary['num_of_streams']} streams here, {threads} threads in "
            f"{_file(cycle, 'cpu_op_execute_timestamp')}",
        )


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


def _sums(cycle: Cycle, slot: str, name: str, count: str) -> dict[str, int]:
    frame = _frame(cycle, slot)
    sums: Counter[str] = Counter()
    for one, number in zip(frame[name].to_list(), as_int64(frame[count]).to_list(), strict=True):
        sums[one] += number
    return dict(sums)


def _occurrences(cycle: Cycle) -> _Counted:
    return _Counted("cpu_op_detail_info", _sums(cycle, "cpu_op_detail_info", _OPERATOR, "op_occurrences"))


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


def _differ(one: pl.Series, other: pl.Series, relative: float, terms: pl.Series) -> pl.Series:
    """Return where two totals in ms differ by more than their prints and the adding of `terms` floats explain."""
    import polars as pl

    larger = pl.DataFrame({"a": one.abs(), "b": other.abs()}).max_horizontal()
    return (one - other).abs() > larger * (relative + _FLOAT_SUM * terms.cast(pl.Float64).sqrt())


def _averages(cycle: Cycle, slot: str, name: str, count: str, total: str, average: str) -> Iterator[Finding]:
    import polars as pl

    frame = _frame(cycle, slot)
    rows = pl.DataFrame(
        {
            "name": frame[name],
            "count": as_int64(frame[count]),
            "total": as_float64(frame[total]),
            "average": as_float64(frame[average]),
        }
    ).with_columns(one=pl.lit(1))
    broken = _differ(rows["average"] * rows["count"], rows["total"], _TWO_PRINTS, rows["one"])
    yield from disagreeing_rows(
        cycle.artifacts[slot],
        broken,
        Code.I105,
        lambda row: (
            f"{row['name']}: average {row['average']:.6g} ms, but {row['total']:.6g} ms over {row['count']} "
            f"executions is {row['total'] / row['count']:.6g} ms"
        ),
        frame=rows,
    )


def _shares(cycle: Cycle, slot: str, name: str, total: str, share: str) -> Iterator[Finding]:
    import polars as pl

    frame = _frame(cycle, slot)
    rows = pl.DataFrame({"name": frame[name], "total": as_float64(frame[total]), "share": as_float64(frame[share])})
    everything = float(rows["total"].sum())
    if not everything > 0:
        return
    terms = pl.repeat(rows.height, rows.height, dtype=pl.Int64, eager=True)
    yield from disagreeing_rows(
        cycle.artifacts[slot],
        _differ(rows["share"] * everything, rows["total"], _THREE_PRINTS, terms),
        Code.I105,
        lambda row: (
            f"{row['name']}: {share} {row['share']:.6g}, but {row['total']:.6g} of {everything:.6g} ms is "
            f"{row['total'] / everything:.6g}"
        ),
        frame=rows,
    )
    sum_of_shares = float(rows["share"].sum())
    if abs(sum_of_shares - 1) > _TWO_PRINTS + _FLOAT_SUM * rows.height**0.5:
        yield Finding(
            code=Code.I105,
            place=cycle.artifacts[slot].place,
            message=f"{share} adds up to {sum_of_shares:.6g}, not to 1",
        )


def _listed_twice(cycle: Cycle, slot: str, name: str) -> Iterator[Finding]:
    frame = _frame(cycle, slot)
    yield from disagreeing_rows(
        cycle.artifacts[slot],
        ~frame[name].is_first_distinct(),
        Code.I114,
        lambda row: f"{row[name]}: a row above has it, too",
    )


def _with_lines(cycle: Cycle) -> pl.DataFrame:
    """Executions as numbers: start in ns (exact), duration in ns (six digits), and the line they are from."""
    import polars as pl

    table = cycle.artifacts["cpu_op_execute_timestamp"].content.table
    assert table is not None
    assert table.lines is not None
    timed = host_executions(table.frame).rename({"name": _OPERATOR, "start_ns": "start"})
    return timed.with_columns(table.frame["thread"], line=pl.Series(table.lines, dtype=pl.Int64))


def _memory(cycle: Cycle) -> pl.DataFrame:
    import polars as pl

    frame = _frame(cycle, "cpu_ms_memory_record")
    names = ("Allocated", "Reserved", "Active")
    return pl.DataFrame({name: as_int64(frame[f"Total {name}(Byte)"]) for name in names})


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
