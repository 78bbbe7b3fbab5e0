"""MindSpore's line formats for operators on the host CPU and on GPUs: semicolons between fields, blanks between executions.

Source: CPU: mindspore/ccsrc/plugin/device/cpu/hal/profiler and debug/profiler/data_saver.cc (2.0 to 2.10), compared with real
output of 2.0.0 and 2.10.0. GPU (1.x to 2.2): MindSpore 2.0, gpu_data_saver.cc, data_saver.cc, and what
cpu_gpu_timeline_generator.py and step_trace_parser.py read of them; no real file was available.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.readers import Content, numbered_lines, refuse_long_cells, text_table
from perfguard.artifacts.table import Cells, Table, Unreadable

if TYPE_CHECKING:
    import polars as pl


def read_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `cpu_op_execute_timestamp`: a line for each operator, `name;HostCpuOps;start,duration,thread start,... `.

    One row for each execution: full_op_name, op_side, start [ns], duration [ms], thread.
    """
    return _executions(path, lambda cell: cell.strip_chars().str.split(" "), (3,), "start,duration,thread")


def read_gpu_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `gpu_op_execute_timestamp`: a line for each operator, `name;GpuOps;start,duration start,duration ... `.

    One row for each execution: full_op_name, op_side, start [ns], duration [us], thread (blank: a GPU has no third number).
    """
    return _executions(path, lambda cell: cell.extract_all(r"\S+"), (2, 3), "start,duration")


def _executions(path: Path, split: Callable[[Any], pl.Expr], counts: Collection[int], form: str) -> Content:
    import polars as pl

    operators = [(number, *fields) for number, fields in _fields(path, "name;side;executions")]
    frame = pl.DataFrame(operators, schema=["line", "full_op_name", "op_side", "execution"], orient="row")
    frame = frame.with_columns(split(pl.col("execution").str)).explode("execution").drop_nulls()
    separators = pl.col("execution").str.count_matches(",", literal=True)
    for number, execution in frame.filter(~(separators + 1).is_in(counts)).select("line", "execution").head(1).rows():
        raise Unreadable(f"{execution[:120]!r} is not {form}", f":{number}")
    numbers = pl.col("execution").str.split_exact(",", 2).struct.rename_fields(["start", "duration", "thread"])
    cells = frame.select("full_op_name", "op_side", numbers).unnest("execution").fill_null("")
    lines = array("q", frame["line"].to_numpy().tobytes())
    refuse_long_cells(cells, lines)
    return Content(table=Table(frame=cells, cells=Cells.TEXT, lines=lines))


def read_framework(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `cpu_framework`: a line for each execution, `type;name;graph_id;input_1:[2, 64];input_2:NoShape;...;`.

    One row for each execution: op_type (blank for some operators in PyNative mode of 2.10), op_name, graph_id, inputs.
    """
    rows = _fields(path, "type;name;graph_id;inputs", str.split)
    return Content(table=text_table(rows, ("op_type", "op_name", "graph_id", "inputs")))


def read_activity_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `activity_execute_timestamp`: a line for each execution of a kernel, `name;stream;start;duration`.

    One row for each execution: name, stream_id, start [ns], duration [us].
    """
    rows = _fields(path, "name;stream;start;duration")
    return Content(table=text_table(rows, ("name", "stream_id", "start", "duration")))


def read_step_points(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `step_trace_profiling`: `operator start,end ...`, or with asynchronous launch `operator,time operator,time ...`.

    One row for each point: line (an operator, or a step with asynchronous launch), op_name, start and end (blank for none)
    in ns. Without asynchronous launch the file has counts of 10 ns.
    """
    return Content(table=text_table(_points(path), ("line", "op_name", "start", "end")))


def _points(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        cells = line.split()
        if not cells:
            raise Unreadable("the line is blank", f":{number}")
        named = "," in cells[0]
        for cell in cells if named else cells[1:]:
            name, *times = cell.split(",") if named else [cells[0], *cell.split(",")]
            if len(times) not in ((1, 2) if named else (2,)):
                raise Unreadable(f"{cell[:120]!r} is not {'operator,time' if named else 'start,end'}", f":{number}")
            if not named:
                times = [f"{time}0" if time.isdigit() else time for time in times]
            yield number, [str(number), name, times[0], times[1] if len(times) == 2 else ""]


def _fields(
    path: Path, form: str, split: Callable[[str, str, int], list[str]] = str.rsplit
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of every line; raises `Unreadable` for another number of fields than in `form`."""
    separators = form.count(";")
    for number, line in numbered_lines(path):
        parts = split(line, ";", separators)
        if len(parts) <= separators:
            raise Unreadable(f"the line has {len(parts)} fields, not {form}", f":{number}")
        yield number, parts
