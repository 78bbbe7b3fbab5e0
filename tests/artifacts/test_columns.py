"""Typed columns: what cells become by their schemas."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts.columns import KEYS, Shape, _source, lowered, shapes_of, slot_names
from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import Content
from perfguard.artifacts.readers.csv_stream import Rows
from perfguard.artifacts.slot_rows import SlotRows, add_tables, rows_of
from perfguard.artifacts.survey import FoundFile
from perfguard.artifacts.table import Cells, Table, nanoseconds
from perfguard.artifacts.table_definitions import TABLES, Definitions
from perfguard.artifacts.tables import batch

SHAPES = {shape.name: shape for slot in sorted(slot_names()) for shape in shapes_of(slot)}


def typed(
    source: str, part: dict[str, object], types: set[str], cells: list[str | None], form: Cells
) -> tuple[str, list[object]]:
    column = _source(source, part, frozenset(types))
    shape = Shape(name="some", slots=("some",), versions={"v": (column,)})
    (found,) = shape.typed(pl.DataFrame({source: cells}, schema={source: pl.String}), form, "v").items()
    return found[0], found[1].to_list()


@pytest.mark.parametrize(
    ("source", "part", "types", "cells", "name", "values"),
    [
        ("Start Time(us)", {"x-unit": "us"}, {"number"}, ["1795261965060177.130", "N/A", ""], "start_time_ns",
         [1795261965060177130, None, None]),
        ("duration", {"x-unit": "ms"}, {"number"}, ["0.0000015", "1e-3", "-2.5\t"], "duration_ns", [2, 1000, -2500000]),
        ("endNs", {"x-unit": "ns"}, {"integer"}, ["9223372036854775807", "9223372036854775808"], "end_ns", [2**63 - 1, None]),
        ("Cycle_counter", {"x-unit": "10ns"}, {"integer", "string"}, ["7", "snapshot"], "cycle_counter_ns", [70, None]),
        ("wall_time", {"x-unit": "s"}, {"number"}, ["1.5"], "wall_time_ns", [1500000000]),
        ("ts", {"x-unit": "us"}, {"string"}, ["1.5"], "ts_ns", [1500]),
        ("op_exe_time", {"x-unit": "ms"}, {"array"}, ["[1.5, 2]"], "op_exe_time", ["[1.5, 2]"]),
        ("Size(KB)", {"x-unit": "KB"}, {"number"}, ["0.5", "1", "N/A"], "size_bytes", [512, 1024, None]),
        ("Total Reserved(MB)", {"x-unit": "MB", "x-bytes": 1024000}, {"number"}, ["1.5"], "total_reserved_bytes", [1536000]),
        ("size", {"x-unit": "byte"}, {"integer"}, ["512"], "size_bytes", [512]),
        ("Ratio(%)", {"x-unit": "percent"}, {"number"}, ["12.5", ""], "ratio_percent", [12.5, None]),
        ("Read(MB/s)", {"x-unit": "MB/s"}, {"number", "string"}, ["3", "N/A"], "read_mb_per_s", [3.0, None]),
        ("MFLOPs(10^6 cube)", {"x-unit": "MFLOP"}, {"number"}, ["3.5"], "mflops_cube", [3.5]),
        ("Count", {"x-unit": "1"}, {"integer"}, ["3", "3.0", "1e2"], "count", [3, 3, 100]),
        ("Block Num", {"x-unit": "1"}, {"integer", "string", "null"}, ["3", "N/A"], "block_num", [3, None]),
        ("globalTaskId", {}, {"integer"}, ["3"], "global_task_id", [3]),
        ("Device_id", {}, {"integer", "string"}, ["0", "N/A"], "device_id", ["0", "N/A"]),
        ("Stream Ptr", {"x-unit": "address"}, {"integer", "null"}, ["94", ""], "stream_ptr", ["94", ""]),
        ("OP Type", {}, {"string"}, ["a,b", ""], "op_type", ["a,b", ""]),
        ("full_op_name", {"x-name": "name"}, {"string"}, ["a"], "name", ["a"]),
    ],
)  # fmt: skip
def test_cells_of_text_files(source, part, types, cells, name, values):
    assert typed(source, part, types, cells, Cells.TEXT) == (name, values)


@pytest.mark.parametrize(
    ("part", "types", "cells", "values"),
    [
        ({}, {"string"}, ['"a"', '"\\u00e9\\n"', None], ["a", "é\n", None]),
        ({}, {"integer", "string"}, ["5", '"x"'], ["5", "x"]),
        ({}, {"integer"}, ["5", '"6"', None], [5, 6, None]),
        ({}, {"boolean"}, ["true", "false", None], [True, False, None]),
        ({}, {"object"}, ['{"a": 1}'], ['{"a": 1}']),
        ({"x-unit": "us"}, {"number"}, ["1.5", None], [1500, None]),
    ],
)
def test_cells_of_json_and_databases(part, types, cells, values):
    assert typed("a", part, types, cells, Cells.JSON)[1] == values


@given(
    st.decimals(min_value=-(10**9), max_value=10**9, allow_nan=False, allow_infinity=False, places=11),
    st.sampled_from([0, 1, 3, 6, 9]),
)
def test_times_are_exact_and_rounded_half_to_even(value, decimals):
    (found,) = nanoseconds(pl.Series([str(value)]), decimals).to_list()
    assert found == int((value * 10**decimals).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_two_columns_of_a_file_become_one(shape):
    for version, sources in shape.versions.items():
        repeated = [name for name, count in Counter(one.column for one in sources).items() if count > 1]
        assert not repeated, version
        assert not {one.column for one in sources} & KEYS.keys(), version
        assert all(one.column == lowered(one.column) != "" for one in sources), version


def test_a_slot_has_one_table_and_a_database_one_for_each_of_its_tables():
    assert {
        "op_statistic",
        "memory_record",
        "db_task",
        "db_comm_analyzer_time",
        "cpu_op_execute_timestamp",
    } <= SHAPES.keys()
    assert set(SHAPES["db_task"].slots) == {"ascend_mindspore_profiler", "ascend_pytorch_profiler"}
    # Their rows are events and kernels, which have tables of their own.
    assert shapes_of("trace") == shapes_of("kernel_details") == ()


def test_rows_of_several_files_of_a_slot_lead_back_to_them_and_can_be_taken_back():
    (shape,) = shapes_of("op_statistic")
    row = {"OP Type": "a", "Core Type": "b", "Count": "1", "Total Time(us)": "2"}
    frame = pl.DataFrame([row, row], schema=dict.fromkeys(row, pl.String))
    with batch(Definitions(tables={shape.name: shape.kinds})) as tables:
        for file, lines in ((0, None), (1, (3, 7))):
            SlotRows(tables, 5, file, shape, "op_statistic").add(Table(frame=frame, cells=Cells.TEXT, lines=lines))
        tables.hand_over()
        query = "select cycle, file, row, total_time_ns, min_time_ns from op_statistic order by file, row"
        assert tables.execute(query) == [
            (5, 0, 2, 2000, None),
            (5, 0, 3, 2000, None),
            (5, 1, 3, 2000, None),
            (5, 1, 7, 2000, None),
        ]
        SlotRows(tables, 5, 0, shape, "op_statistic").undo()
        assert [file for _, file, *_ in tables.execute(query)] == [1, 1]


def test_a_database_says_which_of_its_tables_are_there():
    (slot,) = (one for one in layout_named("pt-npu").slots if one.name == "ascend_pytorch_profiler")
    texts = Table(frame=pl.DataFrame({"id": ["1"], "value": ['"mm"']}), cells=Cells.JSON, path="STRING_IDS")
    shapes = {shape.name: shape.kinds for shape in shapes_of(slot.name)}
    with batch(Definitions(tables={**TABLES, **shapes})) as tables:
        file = FoundFile(slot=slot, path=Path("a.db"), rank=None)
        add_tables(tables, 0, 0, file, "ascend_pytorch_profiler", Content(document={}, tables={"STRING_IDS": texts}))
        tables.hand_over()
        assert tables.execute("select row, id, value from db_string_ids") == [(0, 1, "mm")]
        there = "select name from database_tables where is_there"
        assert tables.execute(there) == [("STRING_IDS",)]


def test_cells_of_columns_that_a_pattern_names_are_rows():
    cells = {"step_num": ["1", "-"], "stream_1_a": ["7", ""], "stream_1_a_end_point": ["12", "1e1"]}
    rows = Rows(frame=pl.DataFrame(cells), first=0, lines=range(2, 4), prints=pl.Series)
    tables = {shape.name: shape.kinds for shape in shapes_of("step_trace_raw")}
    with batch(Definitions(tables={**TABLES, **tables})) as found:
        for one in rows_of(found, 3, 0, "step_trace_raw", "step_trace_raw.train"):
            one.consume(rows)
        found.hand_over()
        asked = found.execute("select cycle, row, name, value_ns from step_trace_raw_communication order by name, row")
        assert found.execute("select count(*) from step_trace_raw") == [(2,)]
    assert asked == [
        (3, 2, "stream_1_a", 70),
        (3, 3, "stream_1_a", None),
        (3, 2, "stream_1_a_end_point", 120),
        (3, 3, "stream_1_a_end_point", 100),
    ]
