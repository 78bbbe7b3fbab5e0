"""Readers of blank-separated and GPU texts, and the schemas of MindSpore 1.x to 2.4 on real and documented files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readers import Content
from perfguard.artifacts.table import Unreadable
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.contract.conformity import content_findings
from perfguard.contract.inspection import Contract
from perfguard.documents import schema
from perfguard.findings import Code, Severity
from tests.artifacts.reading import read_file
from tests.conftest import recorded


def read(form: str, text: str, place: Path, rules: dict | None = None) -> Content:
    path = place / "file"
    path.write_text(text, encoding="utf-8", newline="")
    return read_file(form, path, rules or {})


def columns(content: Content) -> dict[str, list[str]]:
    return content.frame.to_dict(as_series=False)


def table_of(names: list[str], **more: object) -> dict:
    return {"type": "array", **more, "items": {"type": "object", "properties": {name: {} for name in names}}}


# -- csv-spaced ----------------------------------------------------------------------------------------------------------


def test_blanks_around_cells_are_taken_off(tmp_path):
    content = read("csv-spaced", "name, time(ms), share(% vec) \nop,519, 0.5\nop2, 7,1 \n", tmp_path)
    assert columns(content) == {"name": ["op", "op2"], "time(ms)": ["519", "7"], "share(% vec)": ["0.5", "1"]}
    assert content.table is not None
    assert content.table.place(1) == ":3"


def test_columns_that_differ_in_blanks_only_are_refused(tmp_path):
    with pytest.raises(Unreadable, match="more than once"):
        read("csv-spaced", "a, a\n1,2\n", tmp_path)


# -- whitespace ----------------------------------------------------------------------------------------------------------

OPS = "====================op compute time====================\nop_name       compute_time(ms) stream_id\n"
OPS += "------------  ---------------  ---------\nDefault/A-op1 0.5  519\nDefault/B-op2 1e-05  519\n"
TOTAL = {"text": "total op", "columns": ["op_name", "compute_time(ms)", "stream_id"]}


def test_titles_and_rulers_are_no_rows_and_the_total_is_one(tmp_path):
    content = read("whitespace", OPS + "total op  0.50001 0\n", tmp_path, table_of(["op_name"], **{"x-total": TOTAL}))
    assert columns(content) == {
        "op_name": ["Default/A-op1", "Default/B-op2", "total op"],
        "compute_time(ms)": ["0.5", "1e-05", "0.50001"],
        "stream_id": ["519", "519", "0"],
    }
    assert content.table is not None
    assert [content.table.place(row) for row in range(3)] == [":4", ":5", ":6"]


def test_columns_the_total_does_not_fill_are_blank(tmp_path):
    text = OPS.replace("stream_id\n", "stream_id execution_times\n").replace("519\n", "519 3\n") + "total op  0.5 0\n"
    content = read("whitespace", text, tmp_path, schema("output_op_compute_time.2.0"))
    assert columns(content)["execution_times"] == ["3", "3", ""]


def test_a_header_and_a_cell_may_hold_blanks_that_the_schema_knows(tmp_path):
    rules = table_of(["Type", "time(ms, per-step)"])
    rules["items"]["properties"]["Type"] = {"enum": ["End of task", "End"]}
    content = read("whitespace", "Type   time(ms, per-step) more\nEnd of task  1 2\nEnd 3 4\n", tmp_path, rules)
    assert columns(content) == {"Type": ["End of task", "End"], "time(ms, per-step)": ["1", "3"], "more": ["2", "4"]}


def test_without_a_header_the_columns_are_the_schemas(tmp_path):
    content = read("whitespace", "GetNext 10 20 3\nGetNext 30 40 2\n", tmp_path, schema("minddata_getnext_profiling"))
    assert columns(content)["queue_size"] == ["3", "2"]
    assert content.table is not None
    assert content.table.place(0) == ":1"


def test_a_file_of_two_tables_gives_both(tmp_path):
    rules = schema("output_op_compute_time_detail")
    text = "====op compute time====\noptype_name compute_time(ms, per-step) called_times(per-step) percent\nCast 0.5 2 100.0\n"
    text += "\nDetail:\nop_name op_type avg_execution_time subgraph full_op_name\nCast-op1 Cast 0.5 Default Default/Cast-op1\n"
    content = read("whitespace", text, tmp_path, rules)
    assert content.tables["types"].frame["called_times(per-step)"].to_list() == ["2"]
    assert content.tables["operators"].frame["full_op_name"].to_list() == ["Default/Cast-op1"]
    assert content.tables["operators"].place(0) == ":7"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "it is empty", ""),
        ("====a====\n", "no header", ":1"),
        ("a b\n1 2", "cut off", ":2"),
        ("a b\nx 2\n1\n", "1 cells, the header 2", ":3"),
        ("a b\nx 2 3\n", "3 cells, the header 2", ":2"),
        ("a a\nx 2\n", "more than once", ":1"),
        ("1 2 3\n", "3 cells and no header", ":1"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path, text, message, place):
    with pytest.raises(Unreadable, match=message) as caught:
        read("whitespace", text, tmp_path, table_of(["a", "b"]))
    assert caught.value.place == place


def test_a_table_that_is_missing_in_a_file_of_two_is_named(tmp_path):
    text = "optype_name compute_time(ms, per-step) called_times(per-step) percent\nCast 0.5 2 100.0\n"
    with pytest.raises(Unreadable, match="no table operators"):
        read("whitespace", text, tmp_path, schema("output_op_compute_time_detail"))
    with pytest.raises(Unreadable, match="no table of it begins here"):
        read("whitespace", "something else\n", tmp_path, schema("output_op_compute_time_detail"))


# -- texts of the GPU profiler -------------------------------------------------------------------------------------------


def test_gpu_timestamps_are_a_row_an_execution(tmp_path):
    content = read("gpu-op-timestamps", "Default/A-op1;GpuOps;10,1.5 20,2.5 \n", tmp_path)
    assert columns(content)["start"] == ["10", "20"]
    assert columns(content)["thread"] == ["", ""]


def test_activity_timestamps_may_have_semicolons_in_their_names(tmp_path):
    content = read("gpu-activity-timestamps", "void k<a;b>(int);17;10;1.5\n", tmp_path)
    assert columns(content) == {"name": ["void k<a;b>(int)"], "stream_id": ["17"], "start": ["10"], "duration": ["1.5"]}


def test_step_points_are_read_in_both_forms(tmp_path):
    plain = read("gpu-step-points", "Default/A-op1 1,2 5,6 \nDefault/B-op2 3,4 7,8 \n", tmp_path)
    assert columns(plain)["op_name"] == ["Default/A-op1"] * 2 + ["Default/B-op2"] * 2
    assert columns(plain)["end"] == ["20", "60", "40", "80"]
    steps = read("gpu-step-points", "Default/A-op1,10 Default/B-op2,20 AllReduce-op3,12,15\n", tmp_path)
    assert columns(steps)["start"] == ["10", "20", "12"]
    assert columns(steps)["end"] == ["", "", "15"]


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        ("gpu-op-timestamps", "a;GpuOps\n", ":1"),
        ("gpu-op-timestamps", "a;GpuOps;1,2\nb;GpuOps;1\n", ":2"),
        ("gpu-op-timestamps", "a;GpuOps;1,2", ":1"),
        ("gpu-activity-timestamps", "a;1;2\n", ":1"),
        ("gpu-activity-timestamps", "", ""),
        ("gpu-step-points", "a 1,2\n\n", ":2"),
        ("gpu-step-points", "a 1,2,3\n", ":1"),
        ("gpu-step-points", "a,1 b\n", ":1"),
    ],
)
def test_broken_gpu_texts_are_refused_with_their_line(tmp_path, form, text, place):
    with pytest.raises(Unreadable) as caught:
        read(form, text, tmp_path)
    assert caught.value.place == place


# -- schemas, on what the sources write ----------------------------------------------------------------------------------

#: A file as the source of the version writes it, the reader's format and the schema.
DOCUMENTED = [
    (
        "csv",
        "aicore_intermediate_detail.2.0",
        "full_op_name,execution_time,execution_frequency\r\nDefault/A-op1,5e-05,3\r\n",
    ),
    (
        "csv",
        "aicore_intermediate_detail.2.1",
        "full_op_name,task_duration,execution_frequency,task_type\r\nDefault/A-op1,0.1,3,AI_CORE\r\n",
    ),
    (
        "csv",
        "aicore_intermediate_detail.2.3",
        "full_kernel_name,task_duration,execution_frequency,task_type\r\nDefault/A-op1,0.1,3,MIX_AIC\r\n",
    ),
    ("csv", "aicore_intermediate_type.2.1", "op_type,total_time,execution_frequency,percent\r\nCast,0.5,3,1.0\r\n"),
    (
        "csv",
        "framework_raw.2.1",
        "task_id,stream_id,block_dim,full_op_name,op_name,op_type,subgraph,op_info,model_id,"
        "kernel_type\r\n"
        '1,2,0,Default/A-op1,A-op1,A,Default,"{""Input_0"": {""format"": ""ND"", ""data_type"": '
        '""FLOAT"", ""shape"": ""2,3""}}",4294967295,AI_CORE\r\n',
    ),
    (
        "csv-spaced",
        "flops.2.0",
        "op_full_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(% cube), MFLOPs(10^6 vec),"
        " GFLOPS(10^9 vec), FLOPS utilization(% vec) \n"
        "Default/A-op1, 1.5, 2.5, 0.1, 0.0, 0.0, 0.0\n",
    ),
    (
        "csv",
        "flops.2.1",
        "op_full_name,MFLOPs(10^6 cube),GFLOPS(10^9 cube),MFLOPs(10^6 vector),GFLOPS(10^9 "
        "vector)\r\n"
        "Default/A-op1,1.5,2.5,0.0,0.0\r\n",
    ),
    (
        "whitespace",
        "output_data_preprocess_aicpu.2.0",
        "serial_number node_type_name total_time(ms) dispatch_time(ms) execution_time(ms) run_start "
        "run_end\n"
        "1 InitData 7.9 0.1 0.2 15.5 16.5\n"
        "AI CPU Total Time(ms): 7.900000\n",
    ),
    (
        "csv",
        "step_trace_raw.infer",
        "step_num,start_point,end_point,total,fp_point,iteration_interval,fp\r\n"
        "1,10,30,20,12,2,18\r\n"
        "-,10,30,20,12,2,18\r\n",
    ),
    (
        "csv",
        "step_trace_raw.train",
        "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail,"
        "stream_1_0_hcom,stream_1_0_hcom_start_point,stream_1_0_hcom_end_point\r\n"
        "1,10,30,20,12,20,2,8,10,1,13,14\r\n",
    ),
    (
        "csv",
        "operator_memory.2.3",
        "Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(MB),Allocation Total "
        "Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device,\n"
        "A-op1,0.5,100,,1,2,1,2,NPU:0,\n",
    ),
    (
        "csv",
        "host_info",
        "tid,pid,parent_pid,module_name,event,stage,level,start_end,custom_info,memory_usage(kB),"
        "time_stamp(us)\n"
        "1401,7,6,Compile,build,opt,1,0,,1024,1700000000000000\n",
    ),
    (
        "csv",
        "gpu_op_detail_info",
        "op_side,op_type,op_name,op_full_name,op_occurrences,op_total_time(us),op_avg_time(us),"
        "total_proportion,cuda_activity_cost_time(us),cuda_activity_call_count\n"
        "Device,A,A-op1,Default/A-op1,2,3.5,1.75,1,3,2\n",
    ),
    (
        "csv",
        "gpu_activity_data",
        "name,type,op_full_name,stream_id,block_dim,grid_dim,occurrences,total_duration(us),"
        "avg_duration(us),max_duration(us),min_duration(us)\n"
        '"void k<float, int>(int)",cuLaunchKernel,Default/A-op1,17,"256,1,1","1,1,1",2,3.5,1.75,2,1.5\n',
    ),
    ("gpu-op-timestamps", "gpu_op_execute_timestamp", "Default/A-op1;GpuOps;10,1.5 20,2.5 \n"),
    ("gpu-activity-timestamps", "activity_execute_timestamp", "void k(int);17;10;1.5\n"),
    ("gpu-step-points", "step_trace_profiling", "Default/A-op1 1,2 5,6 \n"),
    ("whitespace", "start_time", "host_monotonic_raw_time(ns): 123456789\ngpu_start_time(ns): 987654321\n"),
    ("json", "min_cycle_counter", "154907895.95956"),
    ("json", "step_trace_point_info.steps", '[{"fp_start": "Default/A-op1", "bp_end": "Default/B-op2"}]'),
    ("json", "flops_summary.2.1", '{"cube_FLOPs": 1.5, "cube_FLOPS": 0.1, "vec_FLOPs": 0.5, "vec_FLOPS": 0.0}'),
    (
        "json",
        "memory_usage_summary",
        '{"capacity": 31.0, "allocations": 12, "deallocations": 12, "peak_mem": 1.5, "static_mem": 0.5}',
    ),
    (
        "json",
        "memory_usage_details",
        '{"1": {"graph_id": 1, "static_mem": 0.5, "nodes": [{"name": "A-op1", "fullname": "", "node_id": '
        '0, "allocations": 1, "size": 0.1, "allocated": -0.1, "inputs": [], "outputs": []}], "fp_start": '
        'null, "bp_end": 3, "lines": [0.5], "breakdowns": []}}',
    ),
    (
        "json",
        "dynamic_shape_info.ascend",
        '{"A": [{"A-op1": {"op_exe_time": [0.1, 0.2], "op_shape": ["{input_0: 2}", "{input_0: 3}"], '
        '"op_exe_occurrences": 2}}], "op_type": {"A": [0.1, 0.2]}}',
    ),
    (
        "chrome-trace",
        "ascend_timeline_display.2.3",
        '[{"name": "process_name", "pid": 20, "args": {"name": "CPU OP Rank0"}, "ph": "M"}, {"name": '
        '"Default/A-op1", "pid": 20, "tid": 0, "ph": "X", "ts": "1700000000000.123", "dur": 1.5, "args": '
        '{"type": "HostCpuOps"}}]',
    ),
    (
        "json",
        "profiler_info.2.0",
        '{"context_mode": "graph", "rank_id": "0", "ms_version": "2.3.0", "profiling_start_time": '
        '"2024-05-16 17:17:17", "rank_size": 8, "graph_ids": [0]}',
    ),
    ("json", "profiler_metadata", '{"k": "v", "j": {"a": 1}, "distributed_args": {"world_size": 8, "rank": 3}}'),
]


def findings(form: str, name: str, path: Path) -> list[str]:
    rules = schema(name)
    return [
        f"{f.code.name} {f.place} {f.message}" for f in content_findings(read_file(form, path, rules), rules, path.name)
    ]


@pytest.mark.parametrize(("form", "name", "text"), DOCUMENTED, ids=[name for _, name, _ in DOCUMENTED])
def test_what_the_source_writes_keeps_its_schema(tmp_path, form, name, text):
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8", newline="")
    assert findings(form, name, path) == []


@pytest.mark.parametrize(
    ("form", "name", "old", "new"),
    [
        ("csv", "aicore_intermediate_detail.2.1", "0.1", "-0.1"),
        ("csv", "aicore_intermediate_detail.2.1", ",3,", ",0,"),
        ("csv", "aicore_intermediate_detail.2.1", "0.1", "nan"),
        ("csv", "aicore_intermediate_type.2.1", "1.0", "100.0"),
        ("csv", "framework_raw.2.1", '""ND""', "7"),
        ("csv", "step_trace_raw.train", "1,10", "x,10"),
        ("csv", "step_trace_raw.train", ",13,", ",1.3,"),
        ("csv", "host_info", ",1,0,", ",1,9,"),
        ("json", "min_cycle_counter", "154907895.95956", "-1"),
        ("json", "profiler_info.2.0", '"graph"', '"eager"'),
        ("json", "profiler_info.2.0", '"2.3.0"', "2.3"),
        ("json", "flops_summary.2.1", "1.5", '"1.5"'),
        ("whitespace", "start_time", "123456789", "1.5"),
    ],
)
def test_what_was_corrupted_breaks_its_schema(tmp_path, form, name, old, new):
    text = next(text for f, n, text in DOCUMENTED if (f, n) == (form, name))
    assert old in text
    path = tmp_path / "file"
    path.write_text(text.replace(old, new, 1), encoding="utf-8", newline="")
    assert findings(form, name, path) != []


# -- layouts, on directories ---------------------------------------------------------------------------------------------


def write(place: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8", newline="")
    return place


def info(version: str, **more: object) -> str:
    return json.dumps({"context_mode": "graph", "rank_id": "0", "ms_version": version, "rank_size": 1, **more})


def layout_of(place: Path) -> list[str]:
    return [cycle.layout.id for cycle in inspect(replay(place)).cycles]


DETAIL = "aicore_intermediate_0_detail.csv"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"profiler_info_0.json": info("2.0.0")}, "ms-2.0"),
        ({"profiler_info_0.json": info("2.1.0")}, "ms-2.1"),
        ({"profiler_info_0.json": info("2.2.14")}, "ms-2.1"),
        ({"profiler_info_0.json": info("2.3.0rc1")}, "ms-2.3"),
        ({"profiler_info_0.json": info("2.4.10")}, "ms-2.3"),
        ({"profiler_info_0.json": info("2.0.0"), "host_info/host_info_0.csv": "tid\n"}, "ms-2.1"),
        (
            {"FRAMEWORK/op_range_0": "", DETAIL: "full_op_name,task_duration,execution_frequency,task_type\r\n"},
            "ms-2.3",
        ),
        ({DETAIL: "full_op_name,execution_time\r\nDefault/A-op1,0.5\r\n"}, "ms-1.x"),
        ({DETAIL: "full_op_name,execution_time,execution_frequency\r\n"}, "ms-2.0"),
        ({DETAIL: "full_op_name,execution_time\r\n", "profiler_info_0.json": info("2.0.0")}, "ms-2.0"),
        ({DETAIL: "full_op_name,task_duration,execution_frequency,task_type\r\n"}, "ms-2.1"),
        ({DETAIL: "full_kernel_name,task_duration,execution_frequency,task_type\r\n"}, "ms-2.3"),
        ({"output_timeline_data_0.txt": "op_name,stream_id,start_time(us),duration(ms)\r\n"}, "ms-2.1"),
        ({"cpu_op_detail_info_0.csv": "op_side\n"}, "ms-2.0"),
    ],
)
@pytest.mark.parametrize("name", ["profiler", "archived"])
@pytest.mark.variants(7)
def test_the_version_is_recognised_whatever_the_directory_is_called(tmp_path, files, expected, name):
    write(tmp_path / name, files)
    assert layout_of(tmp_path) == layout_of(tmp_path / name) == [expected]


def test_the_folder_of_a_later_layout_is_not_taken_for_flat_files(tmp_path):
    write(tmp_path / "w_1_20240101000000000_ascend_ms" / "FRAMEWORK", {"cpu_op_detail_info_0.csv": "op_side\n"})
    assert layout_of(tmp_path) == ["ms-2.5+cpu"]
    flat = ("ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3")
    place = tmp_path / "w_1_20240101000000000_ascend_ms" / "FRAMEWORK"
    assert not set(layout_of(place)) & set(flat)


def test_data_of_the_data_pipeline_alone_is_no_flat_directory(tmp_path):
    write(tmp_path, {"pipeline_profiling_0.json": "{}", "minddata_cpu_utilization_0.json": "{}"})
    assert not set(layout_of(tmp_path)) & {"ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3"}


def test_several_ranks_in_one_directory_are_cycles_of_their_own(tmp_path):
    write(tmp_path, {f"profiler_info_{rank}.json": info("2.0.0", rank_id=str(rank)) for rank in (0, 1, 12)})
    assert [cycle.rank for cycle in inspect(replay(tmp_path)).cycles] == [0, 1, 12]


def missing(contract: Contract) -> set[str]:
    return {f.place for f in contract.findings if f.code in (Code.A102, Code.C110)}


def test_the_analysis_of_device_operators_is_asked_for_as_a_whole(tmp_path):
    detail = "full_op_name,task_duration,execution_frequency,task_type\r\nDefault/A-op1,0.5,1,AI_CORE\r\n"
    kinds = "op_type,total_time,execution_frequency,percent\r\nA,0.5,1,1.0\r\n"
    files = {
        "profiler_info_0.json": info("2.2.0", is_heterogeneous=True),
        DETAIL: detail,
        "aicore_intermediate_0_type.csv": kinds,
    }
    found = missing(inspect(replay(write(tmp_path, files))))
    assert {"framework_raw_0.csv", "output_timeline_data_0.txt", "ascend_timeline_display_0.json"} <= found
    assert {"cpu_op_detail_info_0.csv", "cpu_framework_0.txt"} <= found
    assert not any("step_trace" in place or "flops" in place or "hccl" in place for place in found)


def test_the_flat_layouts_ask_for_the_seven_files_of_a_cpu_run(tmp_path):
    place = next(recorded("mindspore-2.0-cpu-graph-env")[0].rglob("profiler"))
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 7
    for gone in names:
        kept = tmp_path / gone / "profiler"
        write(kept, {name: (place / name).read_text(encoding="utf-8") for name in names if name != gone})
        contract = inspect(replay(tmp_path / gone))
        code = Code.C110 if gone.startswith("profiler_info") else Code.A102
        assert (code, f"profiler/{gone}") in [(f.code, f.place) for f in contract.findings]


# -- real files ----------------------------------------------------------------------------------------------------------

FLAT = [layout for layout in layouts() if layout.id in ("ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3")]

#: What is wrong with the hand-made files among mindinsight's samples.
KNOWN = {
    "aicore_intermediate_1_detail.csv:1": "its first column is misspelt full_kernel_time",
    "flops_0.txt:5": "it is a placeholder, made by hand, without a line break at its end",
}


def errors(contract: Contract, *codes: Code) -> list[str]:
    found = [f for f in contract.findings if f.severity is Severity.ERROR and (not codes or f.code in codes)]
    return [f"{f.place}: {f.message}" for f in found if f.place not in KNOWN]


@pytest.mark.parametrize(
    "name",
    ["ascend-1.x-single", "flat", "cluster", "parallel_strategy"],
)
@pytest.mark.variants(2)
def test_real_files_of_mindinsight_keep_their_schemas(corpus, name):
    contract = inspect(replay(corpus.parent / "mindinsight" / name))
    assert {cycle.layout.id for cycle in contract.cycles} <= {layout.id for layout in FLAT}
    assert errors(contract, Code.S101, Code.S102, Code.S103) == []
    strangers = [f.message for f in contract.findings if f.code is Code.A103]
    assert strangers == []


def test_a_complete_rank_of_1_x_has_no_error(corpus):
    contract = inspect(replay(corpus.parent / "mindinsight" / "ascend-1.x-single"))
    assert [(cycle.layout.id, cycle.rank) for cycle in contract.cycles] == [("ms-1.x", 1)]
    assert errors(contract) == []


def test_real_recordings_of_2_0_have_no_error():
    for place in recorded("mindspore-2.0-cpu-graph-*"):
        contract = inspect(replay(place))
        assert {cycle.layout.id for cycle in contract.cycles} == {"ms-2.0"}, place
        assert errors(contract) == [], place


def test_a_run_that_died_in_its_analysis_lacks_profiler_info():
    for place in recorded("mindspore-2.0-cpu-pynative-incomplete"):
        contract = inspect(replay(place))
        assert [f.code for f in contract.findings if f.severity is Severity.ERROR] == [Code.C110], place
