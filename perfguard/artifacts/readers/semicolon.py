"""MindSpore's semicolon formats for operators that ran on the host CPU.

Source: mindspore/ccsrc/plugin/device/cpu/hal/profiler and debug/profiler/data_saver.cc (2.0 to 2.10); both were read on
real output of 2.0.0 and 2.10.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_cells
from perfguard.artifacts.table import Cells, Table, Unreadable


def read_timestamps(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `cpu_op_execute_timestamp`: a line an operator, `name;HostCpuOps;start,duration,thread start,... `.

    One row an execution: full_op_name, op_side, start [ns], duration [ms], thread.
    """
    import polars as pl

    lines = _lines(path)
    split = [line.rsplit(";", 2) for line in lines]
    for number, parts in enumerate(split, start=1):
        if len(parts) != 3:
            raise Unreadable(f"the line has {len(parts)} fields, not name;side;executions", f":{number}")
    operators = pl.DataFrame(
        {
            "full_op_name": [p[0] for p in split],
            "op_side": [p[1] for p in split],
            "execution": [p[2].strip() for p in split],
            "line": range(1, len(split) + 1),
        },
        schema={"full_op_name": pl.String, "op_side": pl.String, "execution": pl.String, "line": pl.Int64},
    )
    executions = operators.with_columns(pl.col("execution").str.split(" ")).explode("execution")
    broken = executions.filter(pl.col("execution").str.count_matches(",", literal=True) != 2)
    if broken.height:
        raise Unreadable(f"{broken['execution'][0]!r} is not start,duration,thread", f":{broken['line'][0]}")
    fields = pl.col("execution").str.split(",").list
    frame = executions.select(
        "full_op_name",
        "op_side",
        fields.get(0).alias("start"),
        fields.get(1).alias("duration"),
        fields.get(2).alias("thread"),
    )
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=tuple(executions["line"].to_list())))


def read_framework(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read `cpu_framework`: a line an execution, `type;name;graph_id;input_1:[2, 64];input_2:NoShape;...;`.

    One row an execution: op_type (blank for some operators in PyNative mode of 2.10), op_name, graph_id, inputs.
    """
    import polars as pl

    rows = []
    for number, line in enumerate(_lines(path), start=1):
        parts = line.split(";", 3)
        if len(parts) != 4:
            raise Unreadable(f"the line has {len(parts)} fields, not type;name;graph_id;inputs", f":{number}")
        rows.append(parts)
    frame = pl.DataFrame(
        rows, schema=dict.fromkeys(("op_type", "op_name", "graph_id", "inputs"), pl.String), orient="row"
    )
    return Content(table=Table(frame=frame, cells=Cells.TEXT, lines=tuple(range(1, len(rows) + 1))))


def _lines(path: Path) -> list[str]:
    # MindSpore runs on Windows too, where text files get CRLF.
    text = read_cells(path).replace("\r\n", "\n")
    return text[:-1].split("\n")
