"""The schemas of ASCEND_PROFILER_OUTPUT and of the cluster analysis, on real output and on what breaks it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import OPAQUE, READERS
from perfguard.artifacts.readers.csv_stream import FORMATS
from perfguard.artifacts.survey import FoundCycle, survey
from perfguard.artifacts.table import Unreadable
from perfguard.contract.conformity import content_findings
from perfguard.documents import schema, violations
from perfguard.findings import Code, Severity
from tests.artifacts.reading import read_file

LAYOUTS = ("pt-npu", "ms-2.5+", "ms-2.5+cpu", "cluster")
REAL = ("torch_npu-level1", "torch_npu-level1-db", "torch_npu-2023", "cluster_analysis_output")
#: Slots whose schema somebody else's tests cover.
ELSEWHERE = {"profiler_metadata", "log"}


def said(path: Path, format_: str, name: str | None) -> list[str]:
    """Return what reading and checking one file says, empty when it keeps its schema."""
    rules = schema(name) if name else {}
    try:
        return [f"{f.place}: {f.message}" for f in content_findings(read_file(format_, path, rules), rules, path.name)]
    except Unreadable as error:
        return [f"{path.name}{error.place}: {error.message}"]


def best(path: Path, slot: Any) -> tuple[list[str], str | None]:
    """Return what the version of the schema says that fits best, and its name."""
    tried = [(said(path, slot.format, name), name) for name in slot.schemas or (None,)]
    return min(tried, key=lambda one: len(one[0]))


@pytest.fixture(scope="session")
def msinsight(corpus: Path) -> Path:
    place = corpus.parent / "msinsight"
    if not place.is_dir():
        pytest.skip(f"no real Ascend output at {place}")
    return place


def cycles(place: Path) -> tuple[FoundCycle, ...]:
    return survey(place).cycles


# -- real output ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
@pytest.mark.variants(1)
def test_real_files_keep_their_schemas(msinsight, name):
    found = cycles(msinsight / name)
    assert {cycle.layout.id for cycle in found} == {"cluster" if name.startswith("cluster") else "pt-npu"}
    broken = {}
    for cycle in found:
        assert cycle.unmatched == ()
        for file in cycle.files:
            if file.slot.name not in ELSEWHERE and (errors := best(file.path, file.slot)[0]):
                broken[f"{cycle.place.name}/{file.path.name}"] = errors
    assert broken == {}


@pytest.mark.parametrize(
    "name, slot, version",
    [
        ("torch_npu-level1", "kernel_details", "kernel_details.level1"),
        # Line 17 of this public sample lost its Duration: 31 cells below a header of 32.
        ("torch_npu-2023", "kernel_details", "kernel_details.pt-2023"),
        ("torch_npu-level1", "memory_record", "memory_record.pt"),
        ("torch_npu-2023", "memory_record", "memory_record.pt-2023"),
        ("torch_npu-2023", "operator_memory", "operator_memory.pt-2023"),
    ],
)
def test_the_version_of_a_real_file_is_found(msinsight, name, slot, version):
    file = next(file for cycle in cycles(msinsight / name) for file in cycle.files if file.slot.name == slot)
    assert best(file.path, file.slot) == ([], version)


# -- what is written for these tests -------------------------------------------------------------------------------------

KERNEL = {
    "Step Id": "50",
    "Device_id": "0",
    "Model ID": "4294967295",
    "Task ID": "11051",
    "Stream ID": "2",
    "Name": "trans_TransData_0",
    "Type": "TransData",
    "OP State": "dynamic",
    "Accelerator Core": "AI_VECTOR_CORE",
    "Start Time(us)": "1736408883704643.212\t",
    "Duration(us)": "53.741",
    "Wait Time(us)": "0",
    "Block Dim": "32",
    "Mix Block Dim": "0",
    "HF32 Eligible": "NO",
    "Input Shapes": '"32,3,224,224"',
    "Input Data Types": "FLOAT",
    "Input Formats": "NCHW",
    "Output Shapes": '""',
    "Output Data Types": "FLOAT",
    "Output Formats": "NC1HWC0",
    "Context ID": "N/A",
    "aicore_time(us)": "0.0",
    "aic_total_cycles": "0",
    "aic_mac_ratio": "0.5",
    "aiv_vec_ratio": "N/A",
    "aiv_gm_to_ub_bw(GB/s)": "12.5",
    "cube_utilization(%)": "98.3",
}
BASE = ("Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim")
MINDSPORE_LEVEL0 = (
    *("Step ID", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"),
    *("Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Num"),
)


def kernel(**changes: str | None) -> dict[str, str]:
    return {name: value for name, value in {**KERNEL, **changes}.items() if value is not None}


def renamed(row: dict[str, str], **names: str) -> dict[str, str]:
    return {names.get(name.replace(" ", "_"), name): value for name, value in row.items()}


def level0(**changes: str) -> dict[str, str]:
    return {name: {**KERNEL, **changes}[name] for name in BASE}


#: OP_SUMMARY_ADDITIONAL_HEADERS of torch_npu 2.9.0.post9, _csv_headers.py: level 0 has those of them that CANN delivers.
ADDED = (
    *("Mix Block Num", "Input Shapes", "Input Data Types", "Input Formats"),
    *("Output Shapes", "Output Data Types", "Output Formats"),
)


def level0_with(*columns: str) -> dict[str, str]:
    row = renamed(kernel(Device_id="0"), **NUM)
    return {"Device_id": "0", **renamed(level0(), **NUM), **{name: row[name] for name in columns}}


def mindspore_level0() -> dict[str, str]:
    row = renamed(KERNEL, Step_Id="Step ID", Block_Dim="Block Num")
    return {name: row[name] for name in MINDSPORE_LEVEL0}


NUM = {"Block_Dim": "Block Num", "Mix_Block_Dim": "Mix Block Num"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows as CSV, or a document as JSON."""

    def of(content: Any, name: str = "kernel_details.csv") -> Path:
        path = tmp_path / name
        if path.suffix == ".json":
            path.write_text(json.dumps(content), encoding="utf-8")
            return path
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, list(content[0]))
            rows.writeheader()
            rows.writerows(content)
        return path

    return of


@pytest.mark.parametrize(
    "layout, row, version",
    [
        ("pt-npu", kernel(), "kernel_details.level1"),
        ("pt-npu", kernel(**{"Step Id": None, "Device_id": None, "OP State": None}), "kernel_details.level1"),
        ("pt-npu", kernel(**{"Step Id": "", "Task ID": "N/A", "Duration(us)": "0"}), "kernel_details.level1"),
        ("pt-npu", renamed(kernel(), **NUM), "kernel_details.level1.block_num"),
        ("pt-npu", level0(), "kernel_details.level0"),
        ("pt-npu", level0(Type="N/A", **{"Block Dim": ""}), "kernel_details.level0"),
        ("pt-npu", renamed(level0(), **NUM), "kernel_details.level0.block_num"),
        ("pt-npu", level0_with(*ADDED), "kernel_details.level0.block_num"),
        ("pt-npu", level0_with(*ADDED[1::2]), "kernel_details.level0.block_num"),
        ("pt-npu", level0_with("Mix Block Num"), "kernel_details.level0.block_num"),
        ("ms-2.5+", mindspore_level0(), "kernel_details.ms.level0.block_num"),
        ("ms-2.5+", renamed(kernel(Device_id=None), Step_Id="Step ID"), "kernel_details.ms.level1"),
        ("ms-2.5+", renamed(kernel(Device_id=None), Step_Id="Step ID", **NUM), "kernel_details.ms.level1.block_num"),
    ],
)
def test_the_header_of_kernel_details_tells_its_version(write, layout, row, version):
    slot = next(slot for slot in layout_named(layout).slots if slot.name == "kernel_details")
    assert best(write([row]), slot) == ([], version)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (level0_with(*reversed(ADDED)), "columns are in the order"),
        (level0_with(*ADDED) | {"Mix Block Num": "-1"}, "-1"),
        (level0_with(*ADDED) | {"Duration(us)": ""}, "Duration"),
    ],
)
def test_level_0_with_more_columns_keeps_its_rules(write, row, words):
    slot = next(slot for slot in layout_named("pt-npu").slots if slot.name == "kernel_details")
    found, version = best(write([row]), slot)
    assert version == "kernel_details.level0.block_num"
    assert any(words in one for one in found)


def test_a_column_that_the_schema_lacks_is_a_note(write):
    rules = schema("kernel_details.level1")
    path = write([kernel(**{"Core Id": "3"})])
    (finding,) = content_findings(read_file("csv", path, rules), rules, path.name)
    assert (finding.code, finding.severity) == (Code.S102, Severity.NOTE)
    assert finding.message == "column 'Core Id' is not in the schema, and is not read"


@pytest.mark.parametrize(
    "row",
    [
        kernel(**{"Start Time(us)": "N/A"}),
        kernel(**{"Start Time(us)": "1736408883704643212"}),  # nanoseconds
        kernel(**{"Start Time(us)": "-1"}),
        kernel(**{"Duration(us)": "-0.001"}),
        kernel(**{"Duration(us)": ""}),
        kernel(**{"Duration(us)": "inf"}),
        kernel(Name=""),
        kernel(**{"OP State": "Dynamic"}),
        kernel(aic_mac_ratio="51.9"),  # percent
        kernel(aic_total_cycles="-1"),
        kernel(aic_total_cycles="none"),
        kernel(**{"Duration(us)": None}),
        renamed(kernel(), Name="Op Name"),
        renamed(kernel(), aic_total_cycles="unheard_of"),
        dict(reversed(kernel().items())),
    ],
)
def test_what_breaks_kernel_details(write, row):
    slot = next(slot for slot in layout_named("pt-npu").slots if slot.name == "kernel_details")
    assert best(write([row]), slot)[0]


TIMES = {
    "Elapse Time(ms)": 2.5, "Transit Time(ms)": 1.0, "Wait Time(ms)": 1.0, "Synchronization Time(ms)": 0.5,
    "Idle Time(ms)": 0.5, "Wait Time Ratio": 0.5, "Synchronization Time Ratio": 0.3333,
}  # fmt: skip
LINK = {"Transit Size(MB)": 4.0, "Transit Time(ms)": 1.0, "Size Distribution": {"2.0": [2, 1.0]}}
MOVE = {"Transport Type": "HCCS", "Transit Size(MB)": 4.0, "Transit Time(ms)": 1.0, "Bandwidth(GB/s)": 4.0}


def operators(step: str = "step50") -> dict[str, Any]:
    one = {
        "Communication Time Info": {"Start Timestamp(us)": 1736408883732241.5, **TIMES},
        "Communication Bandwidth Info": {"HCCS": {**LINK, "Bandwidth(GB/s)": 4.0, "Large Packet Ratio": 0.0}},
    }
    total = {"Communication Time Info": dict(TIMES), "Communication Bandwidth Info": {"HCCS": dict(LINK)}}
    return {step: {"p2p": {}, "collective": {"hcom_allReduce__586_0_1@175": one, "Total Op Info": total}}}


@pytest.mark.parametrize("step", ["step50", "step0", "step"])
def test_communication_with_and_without_steps(write, step):
    assert said(write(operators(step), "c.json"), "json", "communication") == []


def change(document: Any, path: str, value: Any) -> Any:
    *parents, last = path.split(">")
    node = document
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return document


OP = "step50>collective>hcom_allReduce__586_0_1@175>"
TIME = OP + "Communication Time Info>"
HCCS = OP + "Communication Bandwidth Info>HCCS>"
TOTAL = "step50>collective>Total Op Info>"


@pytest.mark.parametrize(
    "path, value",
    [
        ("step50", None),
        ("Step 50", {}),
        ("step50>p2p", None),
        (TIME + "Start Timestamp(us)", None),
        (TIME + "Idle Time(ms)", None),
        (TIME + "Elapse Time(ms)", -1),
        (TIME + "Elapse Time(ms)", "2.5"),
        (TIME + "Wait Time Ratio", 50),
        (HCCS + "Bandwidth(GB/s)", None),
        (HCCS + "Transit Size(MB)", -4.0),
        (HCCS + "Size Distribution", {"2.0": [2]}),
        (HCCS + "Size Distribution", {"two": [2, 1.0]}),
        (TOTAL + "Communication Time Info", None),
        (TOTAL + "Communication Bandwidth Info>HCCS>Transit Size(MB)", None),
    ],
)
def test_what_breaks_communication(write, path, value):
    assert said(write(change(operators(), path, value), "c.json"), "json", "communication")


def test_the_total_needs_no_start_and_no_bandwidth_but_an_operator_does(write):
    document = operators()
    collective = document["step50"]["collective"]
    collective["hcom_allReduce__586_0_1@175"] = collective["Total Op Info"]
    assert said(write(document, "c.json"), "json", "communication")


@pytest.mark.parametrize("extra", [{}, {"Op Name": "hcom_allReduce__586_0_1"}, {"op_name": "hcom_allReduce__586_0_1"}])
def test_communication_matrix_of_every_writer(write, extra):
    document = {"step50": {"p2p": {}, "collective": {"allreduce-top1@175": {"0-1": {**MOVE, **extra}}}}}
    assert said(write(document, "m.json"), "json", "communication_matrix") == []
    link = "step50>collective>allreduce-top1@175>0-1"
    for path, value in (("Bandwidth(GB/s)", None), ("Transit Size(MB)", -1), ("Transport Type", "")):
        broken = change(json.loads(json.dumps(document)), f"{link}>{path}", value)
        assert said(write(broken, "m.json"), "json", "communication_matrix")


def event(**keys: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": "MatMul",
        "pid": 1,
        "tid": 2,
        "ts": "1736408883840600.069",
        "dur": 1.5,
        "args": {},
    } | keys


@pytest.mark.parametrize("name, dur", [("trace_view.pt", 1.5), ("trace_view.ms", "1.500")])
def test_traces_of_both_writers(write, name, dur):
    flow = {
        "ph": "s",
        "bp": "e",
        "name": "f",
        "id": "40064866714313031679",
        "pid": 1,
        "tid": 2,
        "ts": "1.0",
        "cat": "HostToDevice",
    }
    meta = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "CANN"}}
    counter = {"ph": "C", "name": "HBM 0/Read", "pid": 1, "tid": 0, "ts": "1.0", "args": {"Read(MB/s)": 0.5}}
    good = [event(dur=dur), flow, {**flow, "ph": "f"}, meta, counter]
    assert said(write(good, "t.json"), "chrome-trace", name) == []
    for broken in (
        {**event(dur=dur), "dur": None},
        {**event(dur=dur), "ts": "now"},
        {key: value for key, value in event(dur=dur).items() if key != "dur"},
        {key: value for key, value in flow.items() if key != "id"},
        {**event(dur=dur), "unheard_of": 1},
        {**event(dur=dur), "pid": "1"},
        {**event(dur=dur), "ph": "Z"},
    ):
        assert said(write([*good, broken], "t.json"), "chrome-trace", name)


def test_a_negative_duration_breaks_both(write):
    assert said(write([event(dur=-1)], "t.json"), "chrome-trace", "trace_view.pt")
    assert said(write([event(dur="-1")], "t.json"), "chrome-trace", "trace_view.ms")


# -- layouts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_names_formats_and_schemas_that_exist(layout):
    for slot in layout_named(layout).slots:
        assert slot.format in {*READERS, *FORMATS, OPAQUE}
        assert all(schema(name) for name in slot.schemas)


def tree(place: Path, *files: str) -> Path:
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("x\n")
    return place


@pytest.mark.parametrize(
    "name, files, layout",
    [
        ("vm_1_20260101000000000_ascend_pt", ["PROF_1/host/data"], "pt-npu"),
        ("vm_1_20260101000000000_ascend_ms", ["PROF_1/host/data"], "ms-2.5+"),
        ("vm_1_20260101000000000_ascend_ms", ["ASCEND_PROFILER_OUTPUT/ascend_mindspore_profiler_0.db"], "ms-2.5+"),
        ("vm_1_20260101000000000_ascend_ms", ["FRAMEWORK/cpu_op_detail_info_0.csv"], "ms-2.5+cpu"),
        ("copy", ["FRAMEWORK/cpu_op_detail_info_0.csv"], "ms-2.5+cpu"),
        ("copy", ["ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_3.db"], "pt-npu"),
        ("copy", ["cluster_step_trace_time.csv"], "cluster"),
    ],
)
def test_a_directory_is_recognised(tmp_path, name, files, layout):
    tree(tmp_path / name, *files)
    assert [cycle.layout.id for cycle in cycles(tmp_path)] == [layout]


@pytest.mark.parametrize(
    "text, layout", [('{"config": {"common_config": {}}}', "pt-npu"), ('{"profiler_parameters": {}}', "ms-2.5+")]
)
def test_a_renamed_directory_is_recognised_by_its_profiler_info(tmp_path, text, layout):
    place = tree(tmp_path / "copy", "ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    (place / "profiler_info_0.json").write_text(text)
    assert [cycle.layout.id for cycle in cycles(tmp_path)] == [layout]


def info_of_torch_npu(version: str) -> dict[str, Any]:
    """Return what `_dump_profiler_info` writes: the attributes of what the profiler was given, in three versions of it."""
    names = ["wait", "active", "warmup", "repeat", "skip_first"]
    common: dict[str, Any] = {
        "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
        "schedule": {f"_{name}" if version == "2023" else name: 1 for name in names},
    }
    common |= dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), False)
    experimental: dict[str, Any] = {
        "_profiler_level": "Level1",
        "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION",
        "_l2_cache": False,
        "record_op_args": False,
    }
    info: dict[str, Any] = {"config": {"common_config": common, "experimental_config": experimental}}
    info["end_info"] = {"collectionTimeEnd": 2, "MonotonicTimeEnd": 2}
    if version != "2023":
        experimental |= {"_data_simplification": True, "_msprof_tx": False, "_export_type": "text", "_op_attr": False}
        experimental |= {"_gc_detect_threshold": None}
        info["start_info"] = {"syscnt_enable": True, "freq": 100, "start_cnt": 1, "start_monotonic": 1}
    if version == "newest":
        experimental |= {"_host_sys": [], "_sys_io": False, "_sys_interconnection": False}
        experimental |= {"_mstx_domain_include": [], "_mstx_domain_exclude": []}
    return info


@pytest.mark.parametrize("version", ["2023", "2024", "newest"])
@pytest.mark.parametrize("schedule", ["class", "function", "none"])
def test_the_options_of_each_version_of_torch_npu_are_accepted(version, schedule):
    info = info_of_torch_npu(version)
    if schedule != "class":
        # A function of the user's has no attributes; without one there is nothing to ask.
        info["config"]["common_config"]["schedule"] = {} if schedule == "function" else None
    assert not violations(info, "profiler_info.npu")


@pytest.mark.parametrize("version", ["2023", "2024", "newest"])
def test_an_option_that_its_version_writes_is_not_missing(version):
    """Only the newest option of a version may be missing: that is the version before."""
    info, silent = info_of_torch_npu(version), []
    config = info["config"]
    for part in (config["common_config"], config["common_config"]["schedule"], config["experimental_config"]):
        for key in list(part):
            value = part.pop(key)
            if not violations(info, "profiler_info.npu"):
                silent.append(key)
            part[key] = value
    newest = ["_host_sys", "_sys_io", "_sys_interconnection", "_mstx_domain_include", "_mstx_domain_exclude"]
    assert silent == {"2023": [], "2024": ["_gc_detect_threshold"], "newest": newest}[version]


@pytest.mark.parametrize("key", ["syscnt_enable", "freq", "start_cnt", "start_monotonic", None])
def test_the_clocks_at_the_start_are_whole(key):
    info = info_of_torch_npu("2024")
    if key is None:
        del info["start_info"]
    else:
        del info["start_info"][key]
    assert violations(info, "profiler_info.npu")
