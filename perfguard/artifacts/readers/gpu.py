"""Text formats of MindSpore's GPU profiler (1.x to 2.2).

Source: MindSpore 2.0 source: gpu_data_saver.cc, data_saver.cc, and what cpu_gpu_timeline_generator.py and step_trace_parser.py
read of them. No real file was at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_cells
from perfguard.artifacts.table import Cells, Table, Unreadable


def read_gpu_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `gpu_op_execute_timestamp`: a line an operator, `name;GpuOps;start,duration start,duration ... `.

    One row an execution: full_op_name, op_side, start [ns], duration [us], thread (blank: a GPU has no third number).
    """
    rows, lines = [], []
    for number, line in _numbered(path):
        parts = line.rsplit(";", 2)
        if len(parts) != 3:
            raise Unreadable(f"the line has {len(parts)} fields, not name;side;executions", f":{number}")
        for execution in parts[2].split():
            fields = execution.split(",")
            if len(fields) not in (2, 3):
                raise Unreadable(f"{execution[:120]!r} is not start,duration", f":{number}")
            rows.append([parts[0], parts[1], fields[0], fields[1], fields[2] if len(fields) == 3 else ""])
            lines.append(number)
    return _content(rows, lines, ("full_op_name", "op_side", "start", "duration", "thread"))


def read_activity_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `activity_execute_timestamp`: a line an execution of a kernel, `name;stream;start;duration`.

    One row an execution: name, stream_id, start [ns], duration [us].
    """
    rows, lines = [], []
    for number, line in _numbered(path):
        parts = line.rsplit(";", 3)
        if len(parts) != 4:
            raise Unreadable(f"the line has {len(parts)} fields, not name;stream;start;duration", f":{number}")
        rows.append(parts)
        lines.append(number)
    return _content(rows, lines, ("name", "stream_id", "start", "duration"))


def read_step_points(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `step_trace_profiling`: `operator start,end ...`, or with asynchronous launch `operator,time operator,time ...`.

    One row a point: line (an operator, or a step with asynchronous launch), op_name, start and end (blank where it has none).
    """
    rows, lines = [], []
    for number, line in _numbered(path):
        cells = line.split()
        if not cells:
            raise Unreadable("the line is blank", f":{number}")
        named = "," in cells[0]
        for cell in cells if named else cells[1:]:
            name, *times = cell.split(",") if named else [cells[0], *cell.split(",")]
            if len(times) not in ((1, 2) if named else (2,)):
                raise Unreadable(f"{cell[:120]!r} is not {'operator,time' if named else 'start,end'}", f":{number}")
            rows.append([str(number), name, times[0], times[1] if len(times) == 2 else ""])
            lines.append(number)
    return _content(rows, lines, ("line", "op_name", "start", "end"))


def _content(rows: list[list[str]], lines: list[int], names: tuple[str, ...]) -> Content:
    import polars as pl

    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=tuple(lines)))


def _numbered(path: Path) -> list[tuple[int, str]]:
    text = read_cells(path).replace("\r\n", "\n")
    return list(enumerate(text[:-1].split("\n"), start=1))
