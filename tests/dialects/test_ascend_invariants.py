"""Invariants of Ascend output: silent on a whole directory, and each breach is found by the invariant it belongs to."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import Contract, inspect
from perfguard.dialects.invariants import INVARIANTS
from perfguard.findings import Finding, Severity
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.contract.together import inspect_together, places, wanted

#: 2025-01-09 in us: every time below counts from here.
BEGIN = 1736408883_700000
OUTPUT = "ASCEND_PROFILER_OUTPUT"
METADATA = "profiler_metadata.json"

KERNELS = [
    # name, type, core, task, start, duration
    ("MatMul1", "MatMulV2", "AI_CORE", "1", 0.0, 100.0),
    ("Add1", "Add", "AI_VECTOR_CORE", "2", 150.0, 20.0),
    ("hcom_allReduce__1_0_1", "hcom_allReduce_", "HCCL", "N/A", 180.0, 200.0),
    ("MatMul2", "MatMulV2", "AI_CORE", "3", 200.0, 50.5),
]
LANES = {
    "Computing": [(0.0, 100.0), (150.0, 20.0), (200.0, 50.5)],
    "Communication": [(180.0, 200.0)],
    "Communication(Not Overlapped)": [(180.0, 20.0), (250.5, 129.5)],
    "Free": [(100.0, 50.0), (170.0, 10.0)],
}
LINK = {"Transit Size(MB)": 2.0, "Transit Time(ms)": 0.1, "Bandwidth(GB/s)": 20.0, "Large Packet Ratio": 0.0}
VARIABLES = (
    *("ASCEND_GLOBAL_LOG_LEVEL", "HCCL_RDMA_TC", "HCCL_RDMA_SL", "ACLNN_CACHE_LIMIT", "HOST_CACHE_CAPACITY"),
    *("ASCEND_ENHANCE_ENABLE", "PYTORCH_NPU_ALLOC_CONF", "ASCEND_LAUNCH_BLOCKING"),
)
NO_LINK = {
    "Transit Size(MB)": 0,
    "Transit Time(ms)": 0,
    "Bandwidth(GB/s)": 0,
    "Large Packet Ratio": 0,
    "Size Distribution": {},
}


def time_text(offset: float) -> str:
    return f"{BEGIN + int(offset)}.{round(offset % 1 * 1000):03d}\t"


def write_table(path: Path, header: str, rows: list[list[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)


def write_rank(directory: Path) -> Path:
    """Write the text export of one rank and one step, level 1; returns where the tables are."""
    output = directory / OUTPUT
    output.mkdir(parents=True)
    write_documents(directory, output)
    write_table(
        output / "kernel_details.csv",
        "Step Id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
        "Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,"
        "Output Formats,Context ID,aicore_time(us),aic_mac_time(us),aic_mac_ratio",
        [
            [
                5,
                4294967295,
                task,
                "N/A" if core == "HCCL" else 2,
                name,
                kind,
                "dynamic",
                core,
                time_text(start),
                duration,
                0,
            ]
            + ["N/A" if core == "HCCL" else 8, 0, "NO", *["N/A"] * 7]
            + (["N/A"] * 3 if core == "HCCL" else [10.0, 5.0, 0.5])
            for name, kind, core, task, start, duration in KERNELS
        ],
    )
    write_table(
        output / "op_statistic.csv",
        "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
        [
            ["MatMulV2", "AI_CORE", 2, 150.5, 50.5, 75.25, 100.0, 88.27],
            ["Add", "AI_VECTOR_CORE", 1, 20, 20, 20, 20, 11.73],
        ],
    )
    write_table(
        output / "api_statistic.csv",
        "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",
        [["acl", "aclrtMemcpyAsync", 10.0, 3, 3.333, 2.0, 5.0, 1.556], ["node", "launch", 4.0, 1, 4.0, 4.0, 4.0, 0.0]],
    )
    write_table(
        output / "operator_details.csv",
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)",
        [["aten::mm", "4,4;\r\n4,4", "", 5.0, 9.0, 170.5, 170.5, 150.5, 150.5]],
    )
    write_table(
        output / "step_trace_time.csv",
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing",
        [[5, 170.5, 149.5, 50.5, 200.0, 60.0, 380.0, 0, 149.5, 10.0]],
    )
    write_table(
        output / "l2_cache.csv",
        "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
        [[2, task, "N/A", 0.25, name] for name, _, core, task, *_ in KERNELS if core != "HCCL"],
    )
    write_memory(output)
    (output / "trace_view.json").write_text(json.dumps(trace_events()))
    return output


def write_documents(directory: Path, output: Path) -> None:
    common = {
        "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
        "schedule": {"wait": 0, "active": 1, "warmup": 1, "repeat": 1, "skip_first": 4},
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": False,
        "with_flops": False,
        "with_modules": False,
    }
    experimental = {
        "_profiler_level": "Level1",
        "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION",
        "_l2_cache": True,
        "_msprof_tx": False,
        "_data_simplification": True,
        "record_op_args": False,
        "_export_type": "text",
        "_op_attr": False,
        "_gc_detect_threshold": None,
    }
    info = {
        "config": {"common_config": common, "experimental_config": experimental},
        "start_info": {"syscnt_enable": True, "freq": 100, "start_cnt": 1, "start_monotonic": 10**12},
        "end_info": {"collectionTimeEnd": (BEGIN + 10**6) * 1000, "MonotonicTimeEnd": 10**12 + 2 * 10**9},
        "rank_id": 0,
    }
    (directory / "profiler_info_0.json").write_text(json.dumps(info))
    metadata = {"ENV_VARIABLES": dict.fromkeys(VARIABLES, ""), "model": "own"}
    (directory / "profiler_metadata.json").write_text(json.dumps(metadata))
    times = {
        "Elapse Time(ms)": 0.2,
        "Transit Time(ms)": 0.1,
        "Wait Time(ms)": 0.06,
        "Synchronization Time(ms)": 0.05,
        "Idle Time(ms)": 0.04,
        "Wait Time Ratio": 0.375,
        "Synchronization Time Ratio": 0.3333,
    }
    links = {
        **dict.fromkeys(("RDMA", "PCIE", "SIO"), NO_LINK),
        "HCCS": {**LINK, "Size Distribution": {"0.5": [2, 0.04], "1.0": [1, 0.06]}},
        "SDMA": {**LINK, "Size Distribution": {}},
    }
    total = {
        name: {key: values[key] for key in ("Transit Time(ms)", "Transit Size(MB)", "Size Distribution")}
        for name, values in links.items()
    }
    operators = {
        "hcom_allReduce__1_0_1@77": {
            "Communication Time Info": {"Start Timestamp(us)": BEGIN + 180.25, **times},
            "Communication Bandwidth Info": links,
        },
        "Total Op Info": {"Communication Time Info": times, "Communication Bandwidth Info": total},
    }
    (output / "communication.json").write_text(json.dumps({"step5": {"p2p": {}, "collective": operators}}))
    pair = {
        "Transport Type": "HCCS",
        "Transit Size(MB)": 2.0,
        "Transit Time(ms)": 0.1,
        "Bandwidth(GB/s)": 20.0,
        "Op Name": "hcom_allReduce__1_0_1",
    }
    matrix = {"allreduce-top1@77": {"0-1": pair}, "allreduce-total@77": {"0-1": pair}}
    (output / "communication_matrix.json").write_text(json.dumps({"step5": {"p2p": {}, "collective": matrix}}))


def write_memory(output: Path) -> None:
    npu = "NPU:0"
    totals = (100.0, 400.0, 100.0, 99.5, 400.0, 99.5)
    write_table(
        output / "memory_record.csv",
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type",
        [
            ["APP", time_text(90), "", 2000.0, "", "", npu],
            ["APP", time_text(190), "", 2000.0, "", "", npu],
            ["PTA", time_text(10), 100.0, 400.0, 100.0, 7, npu],
            ["PTA+GE", time_text(10), 100.0, 400.0, 100.0, 7, npu],
            ["GE", time_text(20), 1.5, 2.0, 0, "", npu],
            ["PTA+GE", time_text(20), 101.5, 402.0, 100.0, 7, npu],
            ["PTA", time_text(30.5), 99.5, 400.0, 99.5, 7, npu],
            ["PTA+GE", time_text(30.5), 101.0, 402.0, 99.5, 7, npu],
        ],
    )
    write_table(
        output / "operator_memory.csv",
        "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
        "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
        "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type",
        [
            ["aten::empty", 512.5, time_text(10), time_text(30.5), time_text(30.5), 20.5, 20.5, *totals, 7, npu],
            ["aten::zeros", 0.5, time_text(15), "", "", "", "", 100.0, 400.0, 100.0, "", "", "", 7, npu],
        ],
    )
    write_table(
        output / "npu_module_mem.csv",
        "Component,Timestamp(us),Total Reserved(MB),Device",
        [["SLOG", time_text(20), 0.0, npu], ["SLOG", time_text(40), 0.0, npu], ["HCCL", time_text(20), 8.0, npu]],
    )


def trace_events() -> list[dict[str, Any]]:
    def event(name: str, pid: int, tid: int, start: float, duration: float, **rest: Any) -> dict[str, Any]:
        shown = {"name": name, "pid": pid, "tid": tid, "ts": time_text(start).strip(), "dur": duration, "ph": "X"}
        return {**shown, **rest}

    processes = {
        1: ("Python", "CPU"),
        2: ("Ascend Hardware", "NPU"),
        3: ("HCCL", "NPU"),
        4: ("Overlap Analysis", "NPU"),
    }
    events: list[dict[str, Any]] = []
    for pid, (name, label) in processes.items():
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}})
    events.append(event("ProfilerStep#5", 1, 1, -10.0, 500.0, cat="cpu_op", args={"Sequence number": -1}))
    for name, _, core, _, start, duration in KERNELS:
        if core == "HCCL":
            # The trace and the table round differently: 1 ns, as in real collectives.
            events.append(event(name, 3, 0, start + 0.001, duration + 0.0003, args={"connection_id": 3}))
            continue
        events.append(event(name, 2, 2, start, duration, args={"Task Type": "AI_CORE", "Task Id": 1}))
        flow = {"name": "torch_to_npu", "id": int(start), "cat": "async_npu", "bp": "e"}
        # All are of the operator around the step.
        events.append({"ph": "s", "pid": 1, "tid": 1, "ts": time_text(-10).strip(), **flow})
        events.append({"ph": "f", "pid": 2, "tid": 2, "ts": time_text(start).strip(), **flow})
    # CANN's own flows do not pair.
    events.append({"ph": "f", "pid": 2, "tid": 2, "name": "HostToDevice9", "id": "9", "cat": "HostToDevice"})
    events[-1]["ts"] = time_text(0).strip()
    for tid, (lane, spans) in enumerate(LANES.items()):
        events += [event(lane, 4, tid, start, duration) for start, duration in spans]
    return events


def operator(name: str, start: float, duration: float) -> dict[str, Any]:
    """Return an operator of the host, as the trace has it."""
    at = time_text(start).strip()
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": duration, "cat": "cpu_op", "args": {}}


def copy(
    number: int,
    *,
    has_end: bool = True,
    has_call: bool = True,
    is_there: bool = True,
    connection: int = 0,
    name: str = "AscendCL@aclrtMemcpyAsync",
) -> list[dict[str, Any]]:
    """Return a copy on the device, as the trace has it, with both ends of the flow from the function that started it."""
    at = time_text(210.0 + number).strip()
    flow = {"name": f"HostToDevice{number}", "id": str(connection or 100 + number), "cat": "HostToDevice"}
    call = {"ph": "X", "name": name, "pid": 5, "tid": 9, "ts": at, "dur": 0.5, "args": {}}
    drawn = {**call, "name": "MEMCPY_ASYNC", "pid": 2, "tid": 2, "args": {"Task Type": "SDMA_SQE"}}
    events = [call, {"ph": "s", "pid": 5, "tid": 9, "ts": at, **flow}] if has_call else [call]
    if is_there:
        events += [drawn, {"ph": "f", "pid": 2, "tid": 2, "ts": at, "bp": "e", **flow}] if has_end else [drawn]
    return events


def inspected(directory: Path) -> Contract:
    return inspect(read_recording(directory))


def found(directory: Path, severity: Severity | None = None) -> list[tuple[str, str]]:
    return [(f.code.name, f.check) for f in inspected(directory).findings if severity in (None, f.severity)]


Found = list[tuple[str, str]]


def found_together(directories: Sequence[Path]) -> list[Found]:
    """Return what is found in each of many directories."""
    several = inspect_together([read_recording(one) for one in directories])
    return [[(finding.code.name, finding.check) for finding in one.findings] for one in several]


NAME = "host_1_20250109000000000_ascend_pt"


@pytest.fixture
def rank(tmp_path: Path) -> Path:
    """Return a whole torch_npu directory of one rank, one step, level 1."""
    directory = tmp_path / NAME
    write_rank(directory)
    return directory


def test_a_whole_rank_is_silent_and_everything_was_read(rank):
    contract = inspected(rank)
    assert [finding.message for finding in contract.findings] == []
    (cycle,) = contract.cycles
    assert cycle.layout.id == "pt-npu"
    tables = {path.stem for path in (rank / OUTPUT).iterdir()}
    assert tables <= cycle.artifacts.keys()
    needed = {
        slot
        for one in INVARIANTS.values()
        if one.check.__module__.endswith((".ascend", ".ascend_memory"))
        for slot in one.needs
    }
    assert needed <= cycle.artifacts.keys()


def change_cell(file: str, row: int, column: str, value: object) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = directory / OUTPUT / file
        with path.open(newline="") as source:
            header, *rows = list(csv.reader(source))
        rows[row][header.index(column)] = str(value)
        write_table(path, ",".join(header), rows)  # type: ignore[arg-type]

    return change


def change_rows(file: str, change: Callable[[list[list[str]]], list[list[str]]]) -> Callable[[Path], None]:
    def rewrite(directory: Path) -> None:
        path = directory / OUTPUT / file
        with path.open(newline="") as source:
            header, *rows = list(csv.reader(source))
        write_table(path, ",".join(header), change(rows))  # type: ignore[arg-type]

    return rewrite


def change_document(file: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def rewrite(directory: Path) -> None:
        path = directory / file if file.startswith("profiler_") else directory / OUTPUT / file
        document = json.loads(path.read_text())
        changed = change(document)
        path.write_text(json.dumps(document if changed is None else changed))

    return rewrite


def the_operation(document: Any) -> Any:
    return document["step5"]["collective"]["hcom_allReduce__1_0_1@77"]


def set_value(mapping: Any, key: Any, value: Any) -> None:
    mapping[key] = value


def times(document: Any) -> Any:
    return the_operation(document)["Communication Time Info"]


def link(document: Any, name: str) -> Any:
    return the_operation(document)["Communication Bandwidth Info"][name]


def total(document: Any) -> Any:
    return document["step5"]["collective"]["Total Op Info"]


def moved(rows: list[list[str]], column: int, seconds: int) -> list[list[str]]:
    return [
        [
            f"{int(cell[:16]) + seconds * 10**6}{cell[16:]}" if i == column and cell else cell
            for i, cell in enumerate(row)
        ]
        for row in rows
    ]


KERNEL, STATISTIC, STEP = "kernel_details.csv", "op_statistic.csv", "step_trace_time.csv"
RECORD, BLOCK = "memory_record.csv", "operator_memory.csv"
COMMUNICATION, MATRIX, TRACE = "communication.json", "communication_matrix.json", "trace_view.json"

BREACHES: list[tuple[str, Callable[[Path], None], str]] = [
    ("I106", change_rows(KERNEL, lambda rows: [rows[1], rows[0], *rows[2:]]), "kernels_are_in_order"),
    ("I106", change_cell(KERNEL, 0, "Duration(us)", 0), "kernels_take_time"),
    ("I114", change_rows(KERNEL, lambda rows: [rows[0], *rows]), "no_kernel_is_written_twice"),
    ("I105", change_cell(KERNEL, 0, "aic_mac_ratio", 0.7), "pipeline_ratios_follow_from_times"),
    ("I101", change_rows(KERNEL, lambda rows: rows[:-1]), "op_statistic_counts_kernels"),
    ("I101", change_rows(STATISTIC, lambda rows: rows[:1]), "op_statistic_counts_kernels"),
    ("I101", change_cell(STATISTIC, 0, "Count", 3), "op_statistic_counts_kernels"),
    ("I104", change_cell(STATISTIC, 0, "Total Time(us)", 151.5), "op_statistic_counts_kernels"),
    ("I105", change_cell(STATISTIC, 0, "Min Time(us)", 49.5), "op_statistic_counts_kernels"),
    ("I105", change_cell(STATISTIC, 0, "Max Time(us)", 101), "op_statistic_counts_kernels"),
    ("I105", change_cell(STATISTIC, 0, "Avg Time(us)", 75.35), "op_statistic_follows_from_itself"),
    ("I105", change_cell(STATISTIC, 1, "Ratio(%)", 0.1173), "op_statistic_follows_from_itself"),
    ("I114", change_rows(STATISTIC, lambda rows: [*rows, rows[1]]), "op_statistic_follows_from_itself"),
    ("I105", change_cell("api_statistic.csv", 0, "Count", 4), "api_statistic_follows_from_itself"),
    ("I105", change_cell("api_statistic.csv", 0, "Min(us)", 4), "api_statistic_follows_from_itself"),
    ("I105", change_cell("api_statistic.csv", 0, "Variance", 1556), "api_statistic_follows_from_itself"),
    ("I114", change_rows("api_statistic.csv", lambda rows: [*rows, rows[1]]), "api_statistic_follows_from_itself"),
    ("I112", change_cell("operator_details.csv", 0, "Host Self Duration(us)", 10), "operators_contain_their_parts"),
    ("I112", change_cell("operator_details.csv", 0, "Device Self Duration(us)", 200), "operators_contain_their_parts"),
    ("I113", change_cell("l2_cache.csv", 0, "Op Name", "Other"), "l2_cache_names_the_kernels"),
    ("I108", change_cell(STEP, 0, "Overlapped", 51), "step_times_add_up"),
    ("I108", change_cell(STEP, 0, "Bubble", 10), "step_times_add_up"),
    ("I108", change_cell(STEP, 0, "Stage", 381), "step_times_add_up"),
    ("I108", change_cell(STEP, 0, "Free", 61), "step_times_are_the_lanes_of_the_trace"),
    ("I114", change_rows(STEP, lambda rows: rows * 2), "every_step_has_one_row"),
    ("I113", change_cell(STEP, 0, "Step", 6), "steps_are_the_same_everywhere"),
    ("I113", change_cell(KERNEL, 0, "Step Id", 6), "steps_are_the_same_everywhere"),
    ("I106", change_rows(RECORD, lambda rows: [rows[1], rows[0], *rows[2:]]), "memory_records_are_in_order"),
    ("I107", change_cell(RECORD, 4, "Total Allocated(MB)", 2.5), "allocated_fits_into_reserved"),
    ("I107", change_cell(RECORD, 5, "Total Allocated(MB)", 102), "combined_memory_is_the_sum"),
    ("I107", change_cell(RECORD, 7, "Total Reserved(MB)", 401), "combined_memory_is_the_sum"),
    ("I107", change_rows(RECORD, lambda rows: [*rows[:4], *rows[5:]]), "combined_memory_is_the_sum"),
    ("I106", change_rows("npu_module_mem.csv", lambda rows: [rows[1], rows[0], rows[2]]), "module_memory_is_in_order"),
    ("I107", change_cell(BLOCK, 0, "Duration(us)", 22), "blocks_live_as_long_as_they_say"),
    ("I107", change_cell(BLOCK, 0, "Active Duration(us)", 0.02), "blocks_live_as_long_as_they_say"),
    ("I107", change_cell(BLOCK, 0, "Release Time(us)", ""), "blocks_live_as_long_as_they_say"),
    ("I107", change_cell(BLOCK, 0, "Size(KB)", 512.4), "blocks_are_of_whole_units"),
    ("I107", change_cell(BLOCK, 1, "Allocation Total Allocated(MB)", 401), "blocks_fit_into_reserved"),
    ("I107", change_cell(BLOCK, 0, "Release Total Allocated(MB)", 98), "blocks_are_in_the_memory_record"),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(times(d), "Idle Time(ms)", 0.05)),
        "communication_times_add_up",
    ),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(times(d), "Synchronization Time(ms)", 0.07)),
        "communication_times_add_up",
    ),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(times(d), "Wait Time Ratio", 0.4)),
        "communication_times_add_up",
    ),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(link(d, "HCCS"), "Bandwidth(GB/s)", 0.02)),
        "communication_bandwidths_follow",
    ),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(link(d, "HCCS")["Size Distribution"], "0.5", [3, 0.04])),
        "communication_bandwidths_follow",
    ),
    (
        "I109",
        change_document(
            COMMUNICATION, lambda d: link(d, "SDMA").update({"Transit Size(MB)": 3, "Bandwidth(GB/s)": 30})
        ),
        "communication_bandwidths_follow",
    ),
    (
        "I109",
        change_document(
            COMMUNICATION, lambda d: set_value(total(d)["Communication Time Info"], "Elapse Time(ms)", 0.3)
        ),
        "communication_total_is_the_sum",
    ),
    (
        "I109",
        change_document(
            COMMUNICATION,
            lambda d: set_value(
                total(d)["Communication Bandwidth Info"]["HCCS"]["Size Distribution"], "1.0", [2, 0.06]
            ),
        ),
        "communication_total_is_the_sum",
    ),
    (
        "I109",
        change_document(COMMUNICATION, lambda d: set_value(times(d), "Start Timestamp(us)", BEGIN + 185.0)),
        "communication_is_in_the_kernels",
    ),
    (
        "I109",
        change_document(
            MATRIX, lambda d: set_value(d["step5"]["collective"]["allreduce-top1@77"]["0-1"], "Bandwidth(GB/s)", 2)
        ),
        "matrix_bandwidths_follow",
    ),
    (
        "I109",
        change_document(
            MATRIX,
            lambda d: set_value(d["step5"]["collective"]["allreduce-top1@77"]["0-1"], "Op Name", "hcom_x__1_0_1"),
        ),
        "matrix_agrees_with_communication",
    ),
    (
        "I109",
        change_document(
            MATRIX,
            lambda d: d["step5"]["collective"]["allreduce-total@77"]["0-1"].update(
                {"Transit Size(MB)": 4.0, "Bandwidth(GB/s)": 40.0}
            ),
        ),
        "matrix_agrees_with_communication",
    ),
    ("I103", change_document(TRACE, lambda d: [e for e in d if e["name"] != "Add1"]), "kernels_are_in_the_trace"),
    (
        "I103",
        change_document(TRACE, lambda d: next(e for e in d if e["name"] == "Add1").update(dur=0.02)),
        "kernels_are_in_the_trace",
    ),
    ("I103", change_rows(KERNEL, lambda rows: rows[:-1]), "the_trace_has_no_other_kernels"),
    (
        "I110",
        change_document(TRACE, lambda d: d.remove(next(e for e in d if e["ph"] == "f" and e["cat"] == "async_npu"))),
        "flows_have_two_ends",
    ),
    ("I113", change_document(COMMUNICATION, lambda d: {"step9": d["step5"]}), "steps_are_the_same_everywhere"),
    (
        "C101",
        change_document(
            TRACE,
            lambda d: d.append({**next(e for e in d if e["name"] == "ProfilerStep#5"), "name": "ProfilerStep#6"}),
        ),
        "the_window_has_the_steps_asked_for",
    ),
    ("C112", change_rows(KERNEL, lambda rows: []), "something_ran_on_the_device"),
    (
        "C112",
        change_document(TRACE, lambda d: [e for e in d if e["pid"] != 2 or e["ph"] == "M"]),
        "something_ran_on_the_device",
    ),
    ("I113", change_rows(RECORD, lambda rows: moved(rows, 1, 3600)), "files_are_of_one_run"),
    ("I113", change_rows(KERNEL, lambda rows: [["", *row[1:]] for row in rows]), "kernels_name_their_step"),
    ("I113", change_cell("npu_module_mem.csv", 1, "Timestamp(us)", 1), "samples_are_of_the_run"),
    (
        "I113",
        change_document(TRACE, lambda d: [{**e, "name": e["name"].replace("ProfilerStep#", "Step ")} for e in d]),
        "steps_of_the_tables_are_marked",
    ),
    (
        "I110",
        change_document(TRACE, lambda d: [e for e in d if not (e["ph"] == "X" and e["pid"] == 2)]),
        "flows_end_at_what_they_were_made_of",
    ),
    (
        "I112",
        change_document(TRACE, lambda d: d.extend(operator(*one) for one in (("aten::a", 0, 5), ("aten::b", 3, 5)))),
        "operators_of_a_thread_nest",
    ),
    (
        "I113",
        change_document(TRACE, lambda d: d.extend(operator("aten::a", at, 5) for at in (0, 4e6))),
        "the_trace_fits_into_the_window",
    ),
    ("C112", change_rows("operator_memory.csv", lambda rows: []), "tables_have_rows"),
    ("C116", change_cell("api_statistic.csv", 1, "Count", 5), "what_was_launched_ran"),
    (
        "I103",
        change_document(TRACE, lambda d: [e for e in d if e["name"] != "MatMul2"]),
        "operators_count_the_work_they_started",
    ),
    ("I103", change_document(TRACE, lambda d: d.append(operator("aten::mm", 1, 9))), "operators_share_out_their_time"),
    ("I114", change_rows("operator_memory.csv", lambda rows: [rows[0], *rows]), "a_block_is_written_once"),
    ("I114", change_rows("npu_module_mem.csv", lambda rows: [rows[0], *rows]), "modules_are_sampled_once"),
    ("I114", change_rows("l2_cache.csv", lambda rows: [rows[0], *rows]), "a_task_is_cached_once"),
    ("I108", change_cell(STEP, 0, "Preparing", -10.0), "preparing_ends_with_the_first_work"),
    ("I108", change_cell(STEP, 0, "Preparing", 20000.0), "preparing_ends_with_the_first_work"),
    ("S102", change_document("profiler_info_0.json", lambda d: d.pop("end_info") and d), "profiler_info_is_whole"),
    ("S102", change_document("profiler_info_0.json", lambda d: d.pop("rank_id") or d), "profiler_info_is_whole"),
    ("S102", change_document(METADATA, lambda d: d.pop("ENV_VARIABLES") and d), "the_environment_is_recorded"),
    ("I106", change_rows(RECORD, lambda rows: [rows[0]] * 16), "times_of_the_tables_move"),
    (
        "S102",
        change_document(METADATA, lambda d: d["ENV_VARIABLES"].pop("HCCL_RDMA_TC") or d),
        "the_environment_is_recorded",
    ),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory, request) -> dict[int, Found]:
    """Return what is found where one breach each was made."""
    numbers = wanted(request, "number")
    directories = [place / NAME for place in places(tmp_path_factory.mktemp("broken"), len(numbers))]
    for number, directory in zip(numbers, directories, strict=True):
        write_rank(directory)
        BREACHES[number][1](directory)
    return dict(zip(numbers, found_together(directories), strict=True))


@pytest.mark.parametrize("number", range(len(BREACHES)), ids=[f"{n}-{one[2]}" for n, one in enumerate(BREACHES)])
@pytest.mark.variants(15)
def test_a_breach_is_found_by_its_invariant(broken, number):
    code, _, check = BREACHES[number]
    assert (code, check) in broken[number]


def finding_of(directory: Path, check: str) -> Finding:
    return next(finding for finding in inspected(directory).findings if finding.check == check)


def test_a_message_names_the_row_both_numbers_and_the_other_file(rank):
    change_cell(STATISTIC, 0, "Count", 3)(rank)
    finding = finding_of(rank, "op_statistic_counts_kernels")
    assert finding.place.endswith("op_statistic.csv:2")
    assert finding.message == "MatMulV2 on AI_CORE: 3 here, 2 kernels in kernel_details.csv"


def test_a_place_in_communication_is_a_json_path(rank):
    change_document(COMMUNICATION, lambda d: set_value(times(d), "Idle Time(ms)", 0.05))(rank)
    finding = finding_of(rank, "communication_times_add_up")
    assert finding.place.endswith("communication.json $.step5.collective['hcom_allReduce__1_0_1@77']")
    assert finding.message == "Idle is 0.05 ms, Elapse - Transit - Wait is 0.04 ms"


def test_of_several_steps_a_collective_may_reach_into_the_next(rank):
    """What begins in a step counts to it whole, so its Stage is longer than the parts and Overlapped is off; sums stay."""
    rows = [
        [5, 170.5, 100.0, 100.0, 200.0, 60.0, 380.0, 0, 100.0, 10.0],
        [6, 0.0, 49.5, -49.5, 0.0, 0.0, 49.5, 0, 49.5, 10.0],
    ]
    header = (rank / OUTPUT / STEP).read_text().splitlines()[0]
    write_table(rank / OUTPUT / STEP, header, rows)
    checks = {check for _, check in found(rank)}
    assert not checks & {"step_times_add_up", "step_times_are_the_lanes_of_the_trace"}


def test_of_several_steps_the_parts_may_not_be_longer_than_the_step(rank):
    rows = [
        [5, 170.5, 149.5, 50.5, 200.0, 60.0, 379.0, 0, 149.5, 10.0],
        [6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 10.0],
    ]
    header = (rank / OUTPUT / STEP).read_text().splitlines()[0]
    write_table(rank / OUTPUT / STEP, header, rows)
    assert ("I108", "step_times_add_up") in found(rank)


def test_a_cut_table_is_a_warning_about_communication(rank):
    """Where hardly any name is in both files, one of them was cut, and nothing tells which operation is missing."""
    change_rows(KERNEL, lambda rows: [row for row in rows if row[7] != "HCCL"])(rank)
    finding = finding_of(rank, "communication_is_in_the_kernels")
    assert finding.severity is Severity.WARNING
    assert finding.message.startswith("1 operations here, 0 in kernel_details.csv, of which 0 have the same name")


def test_fewer_steps_than_the_schedule_is_a_warning(rank):
    change_document("profiler_info_0.json", lambda d: set_value(d["config"]["common_config"]["schedule"], "active", 3))(
        rank
    )
    finding = finding_of(rank, "the_window_has_the_steps_asked_for")
    assert finding.severity is Severity.WARNING
    assert finding.message == "the schedule has 3 active steps, but the trace marks 1"


def launched_by_an_operator(rows: list[list[str]]) -> list[list[str]]:
    return [[*row[:4], f"Default/net/{row[4]}", *row[5:]] for row in rows]


def test_mindspore_names_the_operator_before_the_kernel(rank):
    """Every file but kernel_details has the bare name of the kernel; it is the same kernel."""
    change_rows(KERNEL, launched_by_an_operator)(rank)
    checks = {check for _, check in found(rank, Severity.ERROR)}
    assert not checks & {"kernels_are_in_the_trace", "communication_is_in_the_kernels", "l2_cache_names_the_kernels"}


LOG = """\
[2026-01-09-10:00:00] [INFO] [log.py:108] Profiler logger initialized, errors go here
[2026-01-09-10:00:01] [WARNING] [x.py:1] some data is missing
[2026-01-09-10:00:02] [ERROR] [task_manager.py:89] parser failed
Traceback (most recent call last): [ERROR] is no level here
"""


def test_an_error_line_of_the_log_is_found_with_its_line(rank):
    (rank / "logs").mkdir()
    (rank / "logs" / "profiler_20260109_1.log").write_text(LOG)
    (rank / "logs" / "profiler_20260109_2.log").write_text(LOG.splitlines()[0] + "\n")
    said = [f for f in inspected(rank).findings if f.check == "the_log_tells_of_no_error"]
    assert [(f.severity, f.code.name, f.place.rpartition("/")[2], f.message) for f in said] == [
        (Severity.ERROR, "C111", "profiler_20260109_1.log:3", "ERROR: [task_manager.py:89] parser failed"),
        (Severity.WARNING, "C111", "profiler_20260109_1.log:2", "WARNING: [x.py:1] some data is missing"),
    ]


# Databases


def write_databases(directory: Path) -> Path:
    output = directory / OUTPUT
    output.mkdir(parents=True)
    write_documents(directory, output)
    for file in output.iterdir():
        file.unlink()
    change_document(
        "profiler_info_0.json", lambda d: set_value(d["config"]["experimental_config"], "_export_type", "db")
    )(directory)
    ns = BEGIN * 1000
    tables: dict[str, tuple[str, list[tuple[object, ...]]]] = {
        "STRING_IDS": (
            "id INTEGER PRIMARY KEY,value TEXT",
            [(1, "KERNEL"), (2, "MatMul1"), (3, "PTA"), (4, "aten::mm"), (5, "hcom_allReduce__1_0_1"), (6, "group")],
        ),
        "TASK": (
            "startNs INTEGER,endNs INTEGER,deviceId INTEGER,connectionId INTEGER,globalTaskId INTEGER,globalPid INTEGER,"
            "taskType INTEGER,contextId INTEGER,streamId INTEGER,taskId INTEGER,modelId INTEGER",
            [
                (ns, ns + 150_500, 0, 9, 10, 1, 1, 0, 2, 1, 0),
                (ns + 200, ns + 200, 0, 8, 11, 1, 1, 0, 2, 2, 0),
                (ns + 360_000, ns + 380_000, 0, 7, 12, 1, 1, 0, 2, 3, 0),
                (ns + 100_000, ns + 300_000, 0, 6, 13, 1, 1, 0, 4, 4, 0),
            ],
        ),
        "COMPUTE_TASK_INFO": (
            "name INTEGER,globalTaskId INTEGER PRIMARY KEY,blockDim INTEGER,mixBlockDim INTEGER,taskType INTEGER,"
            "opType INTEGER,inputFormats INTEGER,inputDataTypes INTEGER,inputShapes INTEGER,outputFormats INTEGER,"
            "outputDataTypes INTEGER,outputShapes INTEGER,attrInfo INTEGER",
            [(2, task, 8, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2) for task in (10, 12)],
        ),
        "COMMUNICATION_OP": (
            "opName INTEGER,startNs INTEGER,endNs INTEGER,connectionId INTEGER,groupName INTEGER,opId INTEGER,"
            "relay INTEGER,retry INTEGER,dataType INTEGER,algType INTEGER,count NUMERIC,opType INTEGER",
            [(5, ns + 100_000, ns + 300_000, 6, 6, 1, 0, 0, 4, 6, 100, 6)],
        ),
        "COMMUNICATION_TASK_INFO": (
            "name INTEGER,globalTaskId INTEGER,taskType INTEGER,planeId INTEGER,groupName INTEGER,notifyId INTEGER,"
            "rdmaType INTEGER,srcRank INTEGER,dstRank INTEGER,transportType INTEGER,size INTEGER,dataType INTEGER,"
            "linkType INTEGER,opId INTEGER",
            [(5, 13, 1, 0, 6, 0, 65535, 0, 1, 0, 2_000_000, 4, 1, 1)],
        ),
        "CANN_API": (
            "startNs INTEGER,endNs INTEGER,type INTEGER,globalTid INTEGER,connectionId INTEGER,name INTEGER",
            [(ns - 10 * one, ns - 5, 10000, 1, one, 2) for one in (6, 7, 9)],
        ),
        "MEMORY_RECORD": (
            "component INTEGER,timestamp INTEGER,totalAllocated INTEGER,totalReserved INTEGER,totalActive INTEGER,"
            "streamPtr INTEGER,deviceId INTEGER",
            [(3, ns, 1024, 4096, 1024, 7, 0), (3, ns + 5, 512, 4096, 512, 7, 0)],
        ),
        "OP_MEMORY": (
            "name INTEGER,size INTEGER,allocationTime INTEGER,releaseTime INTEGER,activeReleaseTime INTEGER,"
            "duration INTEGER,activeDuration INTEGER,allocationTotalAllocated INTEGER,allocationTotalReserved INTEGER,"
            "allocationTotalActive INTEGER,releaseTotalAllocated INTEGER,releaseTotalReserved INTEGER,"
            "releaseTotalActive INTEGER,streamPtr INTEGER,deviceId INTEGER",
            [
                (4, 512, ns, ns + 5, ns + 5, 5, 5, 1024, 4096, 1024, 512, 4096, 512, 7, 0),
                (4, 512, ns, None, None, None, None, 1024, 4096, 1024, None, None, None, 7, 0),
            ],
        ),
        "SESSION_TIME_INFO": ("startTimeNs INTEGER,endTimeNs INTEGER", [(ns - 1000, ns + 10**6)]),
        "STEP_TIME": ("id INTEGER,startNs INTEGER,endNs INTEGER", [(5, ns - 10_000, ns + 500_000)]),
        "RANK_DEVICE_MAP": ("rankId INTEGER,deviceId INTEGER", [(0, 0)]),
    }
    write_database(output / "ascend_pytorch_profiler_0.db", tables)
    numeric = "NUMERIC"
    write_database(
        output / "analysis.db",
        {
            "StepTraceTime": (
                f"step TEXT,computing {numeric},communication_not_overlapped {numeric},overlapped {numeric},"
                f"communication {numeric},free {numeric},stage {numeric},bubble {numeric},"
                f"communication_not_overlapped_and_exclude_receive {numeric},preparing {numeric}",
                [("5", 170.5, 149.5, 50.5, 200, 60, 380, 0, 149.5, 10)],
            ),
            "CommAnalyzerTime": (
                f"hccl_op_name TEXT,group_name TEXT,start_timestamp {numeric},elapse_time {numeric},"
                f"transit_time {numeric},wait_time {numeric},synchronization_time {numeric},idle_time {numeric},"
                "step TEXT,type TEXT",
                [("hcom_allReduce__1_0_1", "77", BEGIN + 100, 0.2, 0.1, 0.06, 0.05, 0.04, "step5", "collective")],
            ),
            "CommAnalyzerBandwidth": (
                f"hccl_op_name TEXT,group_name TEXT,transport_type TEXT,transit_size {numeric},transit_time {numeric},"
                f"bandwidth {numeric},large_packet_ratio {numeric},package_size {numeric},count {numeric},"
                f"total_duration {numeric},step TEXT,type TEXT",
                [
                    ("hcom_allReduce__1_0_1", "77", "HCCS", 2.0, 0.1, 20, 0, 0.5, 2, 0.04, "step5", "collective"),
                    ("hcom_allReduce__1_0_1", "77", "HCCS", 2.0, 0.1, 20, 0, 1.0, 1, 0.06, "step5", "collective"),
                    ("hcom_allReduce__1_0_1", "77", "SDMA", 2.0, 0.1, 20, 0, 0, 0, 0, "step5", "collective"),
                ],
            ),
            "CommAnalyzerMatrix": (
                f"hccl_op_name TEXT,group_name TEXT,src_rank TEXT,dst_rank TEXT,transport_type TEXT,"
                f"transit_size {numeric},transit_time {numeric},bandwidth {numeric},step TEXT,type TEXT,op_name TEXT",
                [
                    (
                        "allreduce-top1",
                        "77",
                        "0",
                        "1",
                        "HCCS",
                        2.0,
                        0.1,
                        20,
                        "step5",
                        "collective",
                        "hcom_allReduce__1_0_1",
                    ),
                    ("allreduce-total", "77", "0", "1", "HCCS", 2.0, 0.1, 20, "step5", "collective", ""),
                ],
            ),
        },
    )
    return output


def write_database(path: Path, tables: dict[str, tuple[str, list[tuple[object, ...]]]]) -> None:
    database = sqlite3.connect(path)
    for table, (columns, rows) in tables.items():
        database.execute(f"CREATE TABLE {table} ({columns})")
        for row in rows:
            database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    database.commit()
    database.close()


@pytest.fixture
def database_rank(tmp_path: Path) -> Path:
    """Return a whole torch_npu directory of one rank, database export."""
    directory = tmp_path / NAME
    write_databases(directory)
    return directory


def test_whole_databases_are_silent(database_rank):
    contract = inspected(database_rank)
    assert [finding.message for finding in contract.findings] == []
    assert {"ascend_pytorch_profiler", "analysis"} <= contract.cycles[0].artifacts.keys()


DATABASE, ANALYSIS = "ascend_pytorch_profiler_0.db", "analysis.db"


DATABASE_BREACHES = [
    (
        "I106",
        DATABASE,
        "UPDATE TASK SET endNs = startNs - 1 WHERE taskId = 1",
        "spans_of_the_database_have_two_ends",
    ),
    ("I115", DATABASE, "UPDATE COMPUTE_TASK_INFO SET opType = 99", "ids_of_the_database_resolve"),
    (
        "I115",
        DATABASE,
        "UPDATE COMPUTE_TASK_INFO SET globalTaskId = 99 WHERE globalTaskId = 10",
        "ids_of_the_database_resolve",
    ),
    ("I115", DATABASE, "UPDATE COMMUNICATION_OP SET algType = 99", "ids_of_the_database_resolve"),
    ("I115", DATABASE, "DELETE FROM STRING_IDS WHERE id = 3", "ids_of_the_database_resolve"),
    ("I114", DATABASE, "INSERT INTO TASK SELECT * FROM TASK LIMIT 1", "ids_of_the_database_are_unique"),
    (
        "I113",
        DATABASE,
        "UPDATE TASK SET startNs = startNs - 3600000000000",
        "what_the_database_holds_lies_in_the_session",
    ),
    ("I113", DATABASE, "UPDATE RANK_DEVICE_MAP SET rankId = 4", "the_database_is_of_its_rank"),
    ("C112", DATABASE, "DELETE FROM TASK", "something_ran_according_to_the_database"),
    (
        "I106",
        DATABASE,
        "UPDATE MEMORY_RECORD SET timestamp = 10 WHERE totalActive = 512",
        "memory_of_the_database_adds_up",
    ),
    ("I107", DATABASE, "UPDATE MEMORY_RECORD SET totalAllocated = 5000", "memory_of_the_database_adds_up"),
    ("I107", DATABASE, "UPDATE OP_MEMORY SET duration = 6 WHERE duration = 5", "memory_of_the_database_adds_up"),
    ("I107", DATABASE, "UPDATE OP_MEMORY SET size = 511", "memory_of_the_database_adds_up"),
    ("I107", DATABASE, "UPDATE OP_MEMORY SET releaseTotalAllocated = 5000", "memory_of_the_database_adds_up"),
    ("I108", ANALYSIS, "UPDATE StepTraceTime SET overlapped = 50", "steps_of_the_database_add_up"),
    ("I108", ANALYSIS, "UPDATE StepTraceTime SET bubble = 1", "steps_of_the_database_add_up"),
    ("I108", ANALYSIS, "UPDATE StepTraceTime SET free = 61", "steps_of_the_database_add_up"),
    ("I113", ANALYSIS, "UPDATE StepTraceTime SET step = '6'", "steps_of_the_database_add_up"),
    ("I109", ANALYSIS, "UPDATE CommAnalyzerTime SET idle_time = 0.05", "communication_of_the_database_adds_up"),
    (
        "I109",
        ANALYSIS,
        "UPDATE CommAnalyzerTime SET synchronization_time = 0.07",
        "communication_of_the_database_adds_up",
    ),
    ("I109", ANALYSIS, "UPDATE CommAnalyzerBandwidth SET bandwidth = 21", "communication_of_the_database_adds_up"),
    (
        "I109",
        ANALYSIS,
        "UPDATE CommAnalyzerBandwidth SET count = 3 WHERE count = 2",
        "communication_of_the_database_adds_up",
    ),
]


@pytest.fixture(scope="module")
def broken_databases(tmp_path_factory, request) -> dict[int, Found]:
    numbers = wanted(request, "number")
    directories = [place / NAME for place in places(tmp_path_factory.mktemp("broken"), len(numbers))]
    for number, directory in zip(numbers, directories, strict=True):
        _, file, statement, _ = DATABASE_BREACHES[number]
        damage(write_databases(directory) / file, statement)
    return dict(zip(numbers, found_together(directories), strict=True))


@pytest.mark.parametrize("number", range(len(DATABASE_BREACHES)), ids=lambda n: f"{n}-{DATABASE_BREACHES[n][3]}")
@pytest.mark.variants(4)
def test_a_breach_in_a_database_is_found(broken_databases, number):
    code, _, _, check = DATABASE_BREACHES[number]
    assert (code, check) in broken_databases[number]


def damage(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()


def generated(directory: Path, layout: str = "pt-npu", **more: Any) -> Path:
    conditions = {"db": True, "text": False, "memory": True} | more.pop("conditions", {})
    generate(layout, ranks=more.pop("ranks", 2), conditions=conditions, **more).write(directory)
    return directory


@pytest.mark.parametrize(
    ("layout", "more"),
    [
        ("pt-npu", {"ranks": 1}),
        ("pt-npu", {"seed": 1, "ranks": 3, "steps": 1, "conditions": {"level2": True}}),
        ("pt-npu", {"seed": 2, "conditions": {"level1": False, "memory": False}}),
        ("pt-npu", {"seed": 3, "conditions": {"scheduled": False}}),
        ("pt-npu", {"seed": 4, "steps": 2, "variant": "pipeline"}),
        ("ms-2.5+", {"seed": 5, "ranks": 3}),
        ("ms-2.5+", {"seed": 6, "variant": "rdma", "conditions": {"scheduled": False}}),
        ("ms-2.5+", {"seed": 7, "conditions": {"level1": False, "memory": False}}),
    ],
)
@pytest.mark.exhaustive
def test_generated_databases_are_silent(tmp_path, layout, more):
    said = [f for f in inspected(generated(tmp_path, layout, **more)).findings if f.severity is not Severity.NOTE]
    assert [(f.code.name, f.check, f.place, f.message) for f in said] == []


PROFILER = "ascend_pytorch_profiler_1.db"
TWICE = "UPDATE StepTraceTime SET {0} = {0} * 2"
LAST = "(SELECT max(rowid) FROM {0})"


DAMAGE = [
    ("S102", PROFILER, "DROP TABLE COMPUTE_TASK_INFO", "what_ran_is_described"),
    ("C103", PROFILER, "DELETE FROM COMPUTE_TASK_INFO", "what_ran_is_described"),
    ("I101", PROFILER, "DELETE FROM COMPUTE_TASK_INFO WHERE rowid = 3", "what_ran_is_described"),
    ("I108", PROFILER, "DELETE FROM COMPUTE_TASK_INFO WHERE rowid % 2", "step_times_are_what_ran"),
    ("S102", PROFILER, "DROP TABLE TASK", "ids_of_the_database_resolve"),
    ("C112", PROFILER, "DROP TABLE TASK", "something_ran_according_to_the_database"),
    ("S102", PROFILER, "DROP TABLE STEP_TIME", "tables_of_the_database_come_together"),
    ("I113", PROFILER, "DELETE FROM STEP_TIME", "steps_are_the_marks_of_the_host"),
    ("I108", PROFILER, "UPDATE STEP_TIME SET endNs = startNs + 1000", "steps_are_the_marks_of_the_host"),
    ("I108", PROFILER, "UPDATE STEP_TIME SET endNs = startNs + 1000", "step_times_are_what_ran"),
    ("S102", PROFILER, "ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN blockDim TO dim", ""),
    ("S102", PROFILER, "ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN mixBlockDim TO dim", ""),
    (
        "I108",
        PROFILER,
        "UPDATE TASK SET endNs = startNs + (endNs - startNs) / 1000",
        "step_times_are_what_ran",
    ),
    (
        "I109",
        PROFILER,
        "UPDATE TASK SET endNs = startNs + (endNs - startNs) / 1000",
        "operations_are_made_of_their_tasks",
    ),
    ("I108", "analysis.db", TWICE.format("computing"), "step_times_are_what_ran"),
    ("I108", "analysis.db", TWICE.format("communication"), "step_times_are_what_ran"),
    ("I108", "analysis.db", TWICE.format("communication_not_overlapped"), "step_times_are_what_ran"),
    ("I108", "analysis.db", TWICE.format("free"), "step_times_are_what_ran"),
    ("I108", "analysis.db", TWICE.format("stage"), "step_times_are_what_ran"),
    ("I108", "analysis.db", TWICE.format("preparing"), "step_times_are_what_ran"),
    ("S102", "analysis.db", "DROP TABLE StepTraceTime", "tables_of_the_database_come_together"),
    ("S102", "analysis.db", "DROP TABLE CommAnalyzerTime", "tables_of_the_database_come_together"),
    ("S102", "analysis.db", "DROP TABLE CommAnalyzerBandwidth", "tables_of_the_database_come_together"),
    ("S102", "analysis.db", "DROP TABLE CommAnalyzerMatrix", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE COMMUNICATION_OP", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE COMMUNICATION_TASK_INFO", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE PYTORCH_API", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE CANN_API", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE PYTORCH_CALLCHAINS", "ids_of_the_database_resolve"),
    ("S102", PROFILER, "DROP TABLE MEMORY_RECORD", "tables_of_the_database_come_together"),
    ("S102", PROFILER, "DROP TABLE OP_MEMORY", "tables_of_the_database_come_together"),
    ("I107", PROFILER, "DELETE FROM MEMORY_RECORD", "tables_of_the_database_come_together"),
    ("I107", PROFILER, "DELETE FROM OP_MEMORY", "tables_of_the_database_come_together"),
    (
        "I107",
        PROFILER,
        f"DELETE FROM MEMORY_RECORD WHERE rowid = {LAST.format('MEMORY_RECORD')}",
        "memory_tables_tell_the_same",
    ),
    (
        "I107",
        PROFILER,
        f"UPDATE MEMORY_RECORD SET totalAllocated = totalAllocated - 1 WHERE rowid = {LAST.format('MEMORY_RECORD')}",
        "memory_tables_tell_the_same",
    ),
    (
        "I107",
        PROFILER,
        "UPDATE OP_MEMORY SET allocationTime = allocationTime + 1, duration = duration - 1, "
        "activeDuration = activeDuration - 1 WHERE rowid = 1",
        "memory_tables_tell_the_same",
    ),
    (
        "I109",
        "analysis.db",
        "DELETE FROM CommAnalyzerTime WHERE rowid = 1",
        "communication_tables_have_the_same_operations",
    ),
    (
        "I109",
        "analysis.db",
        f"DELETE FROM CommAnalyzerTime WHERE rowid = {LAST.format('CommAnalyzerTime')}",
        "communication_of_the_database_is_what_ran",
    ),
    (
        "I114",
        "analysis.db",
        "INSERT INTO CommAnalyzerTime SELECT * FROM CommAnalyzerTime WHERE rowid = 1",
        "communication_tables_have_the_same_operations",
    ),
    (
        "I109",
        "analysis.db",
        "DELETE FROM CommAnalyzerBandwidth WHERE hccl_op_name LIKE '%_1_1'",
        "communication_tables_have_the_same_operations",
    ),
    (
        "I109",
        "analysis.db",
        "DELETE FROM CommAnalyzerMatrix WHERE hccl_op_name LIKE '%-total'",
        "communication_tables_have_the_same_operations",
    ),
    (
        "I109",
        "analysis.db",
        "UPDATE CommAnalyzerTime SET elapse_time = elapse_time * 2, idle_time = idle_time + elapse_time",
        "communication_of_the_database_is_what_ran",
    ),
    (
        "I109",
        "analysis.db",
        "UPDATE CommAnalyzerTime SET start_timestamp = start_timestamp / 1000",
        "communication_of_the_database_is_what_ran",
    ),
    (
        "I113",
        "analysis.db",
        "UPDATE CommAnalyzerTime SET hccl_op_name = 'of another run ' || rowid",
        "communication_of_the_database_is_what_ran",
    ),
    ("I109", PROFILER, "DELETE FROM COMMUNICATION_TASK_INFO", "operations_are_made_of_their_tasks"),
    (
        "I109",
        PROFILER,
        "DELETE FROM COMMUNICATION_TASK_INFO WHERE opId = (SELECT max(opId) FROM COMMUNICATION_OP)",
        "operations_are_made_of_their_tasks",
    ),
    (
        "I109",
        PROFILER,
        "UPDATE COMMUNICATION_TASK_INFO SET name = 1 WHERE rowid = 1",
        "operations_are_made_of_their_tasks",
    ),
    ("I115", PROFILER, "UPDATE NPU_MEM SET type = 999999", "ids_of_the_database_resolve"),
    ("I115", PROFILER, "UPDATE PYTORCH_API SET connectionId = 999999", "ids_of_the_database_resolve"),
    ("I115", PROFILER, "UPDATE COMMUNICATION_OP SET dataType = 77", "ids_of_the_database_resolve"),
]


@pytest.fixture(scope="module")
def damaged_databases(tmp_path_factory) -> list[Found]:
    """Return what is found in the directory of the rank whose database was damaged."""
    above, directories = places(tmp_path_factory.mktemp("damaged"), len(DAMAGE)), []
    for (_, file, statement, _), place in zip(DAMAGE, above, strict=True):
        (path,) = (one for one in generated(place).rglob(file) if (one.parent / PROFILER).exists())
        damage(path, statement)
        directories.append(path.parent.parent)
    return found_together(directories)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(DAMAGE)), ids=lambda n: f"{n}-{DAMAGE[n][3]}")
def test_damage_to_a_generated_database_is_found(damaged_databases, number):
    code, _, _, check = DAMAGE[number]
    assert (code, check) in damaged_databases[number]


@pytest.mark.parametrize("size, is_whole", [(-1, True), (-2, False)])
@pytest.mark.variants(1)
def test_a_level_that_collects_no_sizes_writes_minus_one(tmp_path, size, is_whole):
    directory = generated(tmp_path)
    for path in directory.rglob(PROFILER):
        damage(path, f"UPDATE COMMUNICATION_TASK_INFO SET size = {size}")
    assert inspected(directory).is_whole is is_whole


@pytest.mark.parametrize("column", ["startNs", "endNs"])
@pytest.mark.variants(1)
def test_the_largest_times_of_a_database_are_only_wrong(tmp_path, column):
    directory = generated(tmp_path, ranks=1)
    (path,) = directory.rglob("ascend_pytorch_profiler.db")
    for table in ("TASK", "STEP_TIME", "CANN_API", "COMMUNICATION_OP"):
        damage(path, f"UPDATE {table} SET {column} = {2**63 - 1}")
    damage(path, f"UPDATE SESSION_TIME_INFO SET endTimeNs = {2**63 - 1}")
    assert not inspected(directory).is_whole


def test_a_column_of_two_names_may_have_either(tmp_path):
    directory = generated(tmp_path, ranks=1)
    (path,) = directory.rglob("ascend_pytorch_profiler.db")
    damage(path, "ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN blockDim TO blockNum")
    damage(path, "ALTER TABLE COMPUTE_TASK_INFO RENAME COLUMN mixBlockDim TO mixBlockNum")
    assert found(directory, Severity.ERROR) == []
    damage(path, "ALTER TABLE COMPUTE_TASK_INFO DROP COLUMN blockNum")
    said = [f.message for f in inspected(directory).findings if f.code.name == "S102"]
    assert said == ["column 'blockDim or blockNum' is missing"]


def test_a_doubled_step_is_told_with_both_numbers(tmp_path):
    directory = generated(tmp_path, steps=1)
    (path,) = (one for one in directory.rglob("analysis.db") if (one.parent / PROFILER).exists())
    database = sqlite3.connect(path)
    ((step, computing),) = database.execute("SELECT step, computing FROM StepTraceTime").fetchall()
    database.close()
    damage(path, TWICE.format("computing"))
    assert [f.message for f in inspected(directory).findings if f.check == "step_times_are_what_ran"] == [
        f"computing is {2 * computing:.9g} us, what ran in step {step} makes {computing:.9g} us"
    ]


@pytest.mark.parametrize(
    ("code", "statement", "check"),
    [
        ("I105", "DELETE FROM TASK_PMU_INFO WHERE rowid % 2", "counters_of_the_database_are_whole"),
        ("I105", "DELETE FROM TASK_PMU_INFO WHERE rowid <= 2590", "counters_of_the_database_are_whole"),
        ("I105", "DELETE FROM TASK_PMU_INFO WHERE globalTaskId % 2", "counters_of_the_database_are_whole"),
        ("I114", "INSERT INTO TASK_PMU_INFO SELECT * FROM TASK_PMU_INFO", "counters_of_the_database_are_whole"),
        ("I115", "DELETE FROM COMPUTE_TASK_INFO WHERE rowid = 5", "counters_of_the_database_are_whole"),
        ("I107", "DELETE FROM NPU_OP_MEM WHERE rowid = 7", "memory_tables_tell_the_same"),
        (
            "I107",
            f"DELETE FROM OP_MEMORY WHERE rowid = {LAST.format('OP_MEMORY')}",
            "memory_tables_tell_the_same",
        ),
        ("I107", "DELETE FROM MEMORY_RECORD WHERE rowid = 300", "memory_tables_tell_the_same"),
    ],
)
@pytest.mark.exhaustive
def test_damage_to_a_real_database_is_found(msinsight, tmp_path, code, statement, check):
    copy = tmp_path / "copy"
    shutil.copytree(msinsight / "torch_npu-level1-db", copy, copy_function=shutil.copyfile)
    (path,) = copy.rglob(PROFILER)
    damage(path, statement)
    assert (code, check) in found(copy)


# The cluster


def write_cluster(directory: Path) -> None:
    directory.mkdir()
    header = (
        "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive)"
    )
    ranks = [
        [5, "rank", 0, 170.5, 149.5, 50.5, 200.0, 60.0, 380.0, 0, 149.5],
        [5, "rank", 1, 100.0, 180.0, 20.0, 200.0, 50.0, 330.0, 0.0, 180.0],
        [5, "stage", "(0, 1)", 170.5, 180.0, 50.5, 200.0, 60.0, 380.0, 0, 180.0],
    ]
    write_table(directory / "cluster_step_trace_time.csv", header, ranks)  # type: ignore[arg-type]
    (directory / "communication_group.json").write_text(json.dumps({"collective": [[0, 1]], "p2p": []}))


def test_a_stage_is_the_maximum_of_its_ranks_and_keeps_no_other_identity(tmp_path):
    directory = tmp_path / "cluster_analysis_output"
    write_cluster(directory)
    cluster_checks = {"cluster_step_times_add_up", "a_stage_is_its_slowest_rank"}
    assert not {check for _, check in found(directory)} & cluster_checks
    path = directory / "cluster_step_trace_time.csv"
    whole = path.read_text()
    path.write_text(whole.replace("60.0,380.0,0,180.0", "61.0,380.0,0,180.0"))
    finding = finding_of(directory, "a_stage_is_its_slowest_rank")
    assert finding.message == "stage (0, 1): free is 61 us, the largest of its ranks is 60 us"
    assert finding.place.endswith("cluster_step_trace_time.csv:4")
    path.write_text(whole.replace("50.0,330.0", "52.0,330.0"))
    assert ("I108", "cluster_step_times_add_up") in found(directory)


def clustered(directory: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return generated output of a cluster whose documents, or lines of the table, were changed."""
    place = generate("cluster", seed=2, ranks=4, steps=2).write(directory) / "cluster_analysis_output"
    files = {path.name: path for path in place.iterdir()}
    kept: dict[str, Any] = {
        name: json.loads(path.read_text()) if path.suffix == ".json" else path.read_text().splitlines()
        for name, path in files.items()
        if path.suffix in (".json", ".csv")
    }
    change(kept)
    for name, value in kept.items():
        files[name].write_text(json.dumps(value) if isinstance(value, dict) else "\n".join(value) + "\n")
    return place


CLUSTER_STEPS, GROUPS = "cluster_step_trace_time.csv", "communication_group.json"
CLUSTER_TIMES, CLUSTER_MATRIX = "cluster_communication.json", "cluster_communication_matrix.json"
ALL_RANKS = "(0, 1, 2, 3)"
CLUSTER_BREACHES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("a_cluster_has_one_row_of_each", lambda d: d[CLUSTER_STEPS].insert(2, d[CLUSTER_STEPS][2])),
    (
        "every_rank_is_of_a_stage",
        lambda d: d[CLUSTER_STEPS].remove([line for line in d[CLUSTER_STEPS] if "stage" in line][1]),
    ),
    (
        "every_rank_of_a_group_has_steps",
        lambda d: d.update({CLUSTER_STEPS: [line for line in d[CLUSTER_STEPS] if ",rank,3," not in line]}),
    ),
    ("stages_are_the_groups_of_neighbours", lambda d: d[GROUPS]["p2p"][0].pop()),
    ("operations_are_of_a_known_group", lambda d: d[GROUPS]["collective"].clear()),
    (
        "times_and_matrix_have_the_same_groups",
        lambda d: d[CLUSTER_MATRIX][ALL_RANKS].pop(next(iter(d[CLUSTER_MATRIX][ALL_RANKS]))),
    ),
    (
        "operations_have_the_same_kinds_of_links",
        lambda d: [
            rank["Communication Bandwidth Info"].pop("PCIE")
            for rank in next(iter(next(iter(d[CLUSTER_TIMES][ALL_RANKS].values())).values())).values()
        ],
    ),
    ("communication_total_is_the_sum", lambda d: times_of(d).pop(next(iter(times_of(d))))),
    ("communication_total_is_the_sum", lambda d: next(iter(times_of(d).values())).pop("2")),
    (
        "communication_total_is_the_sum",
        lambda d: times_of(d)["Total Op Info"]["0"]["Communication Bandwidth Info"]["HCCS"][
            "Size Distribution"
        ].clear(),
    ),
    ("operations_of_a_cluster_have_a_total", lambda d: times_of(d)["Total Op Info"].pop("2")),
    ("the_total_of_a_matrix_is_the_sum", lambda d: matrix_of(d)["allreduce-total@" + group_of(d)].pop("0-1")),
    ("the_total_of_a_matrix_is_the_sum", lambda d: matrix_of(d)["Total Op Info"].pop("0-1")),
    (
        "a_link_that_carried_has_packets",
        lambda d: first_link(d).update({"Size Distribution": {}}),
    ),
    ("large_packets_are_some_of_the_packets", lambda d: first_link(d).update({"Large Packet Ratio": 0.37})),
    (
        "a_total_is_carried_as_its_parts",
        lambda d: matrix_of(d)["Total Op Info"]["0-1"].update({"Transport Type": "RDMA"}),
    ),
    (
        "times_and_matrix_are_of_one_run",
        lambda d: d.update({CLUSTER_MATRIX: json.loads(json.dumps(d[CLUSTER_MATRIX]).replace(group_of(d), "77"))}),
    ),
    (
        "an_index_is_of_its_type",
        lambda d: d.update({CLUSTER_STEPS: [line.replace(",rank,3,", ',rank,"(3, 4)",') for line in d[CLUSTER_STEPS]]}),
    ),
    ("a_stage_is_joined_by_its_groups", lambda d: d[GROUPS].update({"collective": [[0, 1, 2], [3]]})),
    ("the_table_of_a_cluster_has_rows", lambda d: d.update({CLUSTER_STEPS: d[CLUSTER_STEPS][:1]})),
]


def times_of(documents: dict[str, Any]) -> dict[str, Any]:
    """Return the operations of the first step, by name."""
    return next(iter(documents[CLUSTER_TIMES][ALL_RANKS].values()))


def matrix_of(documents: dict[str, Any]) -> dict[str, Any]:
    return next(iter(documents[CLUSTER_MATRIX][ALL_RANKS].values()))


def group_of(documents: dict[str, Any]) -> str:
    return next(iter(times_of(documents))).partition("@")[2]


def first_link(documents: dict[str, Any]) -> dict[str, Any]:
    return next(iter(times_of(documents).values()))["0"]["Communication Bandwidth Info"]["HCCS"]


def described(documents: dict[str, Any]) -> None:
    """Write the groups as msprof-analyze 2.0 does: totals by group, and what each group is for."""
    group = group_of(documents)
    for name in (CLUSTER_TIMES, CLUSTER_MATRIX):
        documents[name].pop("p2p")
        for step in documents[name][ALL_RANKS].values():
            step[f"Total Op Info@{group}"] = step.pop("Total Op Info")
    info = {
        "type": "collective",
        "rank_set": [0, 1, 2, 3],
        "group_name": group,
        "group_id": "g",
        "pg_name": "default_group",
    }
    documents[GROUPS] = {"collective": [[0, 1, 2, 3]], "p2p": [], "comm_group_parallel_info": [info]}
    ranks = [
        line.replace('"(0, 1, 2, 3)"', "()") + (",NA,NA,NA" if "stage" in line else ",0,0,0")
        for line in documents[CLUSTER_STEPS]
    ]
    documents[CLUSTER_STEPS] = [documents[CLUSTER_STEPS][0] + ",DP Index,PP Index,TP Index", *ranks[1:]]


DESCRIBED_BREACHES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("groups_are_described", lambda d: d[GROUPS]["collective"].clear()),
    ("groups_are_described", lambda d: d[GROUPS]["comm_group_parallel_info"][0].update({"rank_set": [0, 1, 2]})),
    (
        "operations_are_of_a_described_group",
        lambda d: d[GROUPS]["comm_group_parallel_info"][0].update({"group_name": "77"}),
    ),
    (
        "every_group_has_operations",
        lambda d: d[GROUPS]["comm_group_parallel_info"][0].update({"group_name": "77"}),
    ),
    ("communication_total_is_the_sum", lambda d: times_of(d).pop(next(iter(times_of(d))))),
    ("the_total_of_a_matrix_is_the_sum", lambda d: matrix_of(d)["allreduce-total@" + group_of(d)].pop("0-1")),
]


@pytest.mark.parametrize("check, change", DESCRIBED_BREACHES, ids=[check for check, _ in DESCRIBED_BREACHES])
@pytest.mark.variants(1)
def test_a_breach_in_a_cluster_with_described_groups_is_found(tmp_path, check, change):
    assert found(clustered(tmp_path / "whole", described), Severity.ERROR) == []
    broken = clustered(tmp_path / "broken", lambda d: (described(d), change(d)))
    assert check in [name for _, name in found(broken, Severity.ERROR)]


def test_a_total_of_a_cluster_needs_its_bandwidth(tmp_path):
    def lose(documents: dict[str, Any]) -> None:
        times_of(documents)["Total Op Info"]["0"]["Communication Bandwidth Info"]["HCCS"].pop("Bandwidth(GB/s)")

    assert "S103" in [code for code, _ in found(clustered(tmp_path, lose))]


@pytest.mark.parametrize("check, change", CLUSTER_BREACHES, ids=[check for check, _ in CLUSTER_BREACHES])
@pytest.mark.variants(1)
def test_a_breach_in_a_cluster_is_found(tmp_path, check, change):
    assert found(clustered(tmp_path / "whole", lambda d: None), Severity.ERROR) == []
    assert check in [name for _, name in found(clustered(tmp_path / "broken", change), Severity.ERROR)]


COPIES = {
    "all have both": ([{}] * 12, []),
    "one has no end": ([{}] * 11 + [{"has_end": False}], ["copies_have_their_call"] * 2),
    # An older version draws flows of kernels only.
    "none has an end": ([{"has_end": False}] * 12, []),
    # One was started before the recording.
    "one has no call": ([{}] * 11 + [{"has_call": False}], []),
    "two have no call": ([{}] * 10 + [{"has_call": False}] * 2, ["copies_have_their_call"]),
    "none has a call": ([{"has_call": False}] * 12, []),
    "one is lost": ([{}] * 11 + [{"is_there": False}], ["copies_have_their_call"]),
    "a call of events has no end": ([{}] * 11 + [{"is_there": False, "name": "AscendCL@aclrtRecordEvent"}], []),
    "a launch has no end": ([{}] * 11 + [{"is_there": False, "name": "Node@launch"}], []),
    # Another version ends none of them.
    "all are lost": ([{"is_there": False}] * 12, []),
    "two have no connection": ([{}] * 10 + [{"has_call": False, "connection": 4294967295}] * 2, []),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.variants(2)
def test_copies_and_their_calls_have_each_other(rank, name):
    copies, said = COPIES[name]
    change_document(TRACE, lambda d: d.extend(one for at, how in enumerate(copies) for one in copy(at, **how)))(rank)
    assert [check for code, check in found(rank) if code == "C116"] == said


def test_copies_of_a_captured_graph_have_no_call_of_their_own(rank):
    events = [one for at in range(12) for one in copy(at, has_call=at < 9)]
    events += [
        {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "args": {"name": "CANN"}},
        {**copy(50)[0], "name": "AscendCL@aclmdlRICaptureBegin"},
    ]
    change_document(TRACE, lambda d: d.extend(events))(rank)
    assert not [check for code, check in found(rank) if check == "copies_have_their_call"]


# The real corpus


@pytest.fixture
def msinsight(corpus: Path) -> Path:
    place = corpus.parent / "msinsight"
    if not place.is_dir():
        pytest.skip(f"the corpus has no {place.name}")
    return place


def by_invariants(contract: Contract, severity: Severity) -> list[tuple[str, str, str]]:
    return [(f.code.name, f.check, f.message) for f in contract.findings if f.check and f.severity is severity]


@pytest.mark.parametrize(
    "name",
    ["torch_npu-level1", "torch_npu-level1-db", "cluster_analysis_output"],
)
@pytest.mark.variants(1)
def test_real_output_breaks_no_invariant(msinsight, name):
    contract = inspected(msinsight / name)
    assert contract.cycles
    assert by_invariants(contract, Severity.ERROR) == []
    assert by_invariants(contract, Severity.WARNING) == []


@pytest.mark.parametrize("older", ["_gc_detect_threshold", "_export_type"])
@pytest.mark.variants(1)
def test_variables_are_asked_of_releases_and_exports_that_record_them(rank, older):
    def change(document: Any) -> None:
        settings = document["config"]["experimental_config"]
        if older == "_export_type":
            settings[older] = ["db"]
        else:
            del settings[older]

    change_document("profiler_info_0.json", change)(rank)
    change_document(METADATA, lambda d: d.pop("ENV_VARIABLES") and d)(rank)
    assert "the_environment_is_recorded" not in {finding.check for finding in inspected(rank).findings}


def test_a_few_records_may_have_one_time(rank):
    change_rows(RECORD, lambda rows: [rows[0]] * 15)(rank)
    assert "times_of_the_tables_move" not in {finding.check for finding in inspected(rank).findings}


def test_a_lost_file_of_metadata_is_a_warning(rank):
    (rank / METADATA).unlink()
    lost = [finding for finding in inspected(rank).findings if finding.check == "the_environment_is_recorded"]
    assert [(one.code.name, one.severity, Path(one.place).name) for one in lost] == [
        ("A102", Severity.WARNING, METADATA)
    ]
    (rank / METADATA).write_text("{")
    assert "the_environment_is_recorded" not in {finding.check for finding in inspected(rank).findings}


def test_the_cut_sample_of_2023_breaks_no_invariant_with_an_error(msinsight):
    contract = inspected(msinsight / "torch_npu-2023")
    assert by_invariants(contract, Severity.ERROR) == []


def test_kernels_that_never_arrived_are_missed(msinsight, tmp_path):
    """Every file of kernels agrees with the others; the launches, the flows and the operators' times still count them."""
    copy = tmp_path / "rank0_ascend_pt"
    shutil.copytree(msinsight / "torch_npu-level1" / copy.name, copy, copy_function=shutil.copyfile)
    events = json.loads((copy / OUTPUT / TRACE).read_text())
    hardware = next(e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "Ascend Hardware")
    kept = [e for e in events if e["ph"] != "X" or e["pid"] != hardware or e["args"]["Task Type"] != "AI_CORE"]
    (copy / OUTPUT / TRACE).write_text(json.dumps(kept))
    change_rows(KERNEL, lambda rows: rows[40:])(copy)
    checks = {check for _, check in found(copy, Severity.ERROR)}
    assert {
        "what_was_launched_ran",
        "flows_end_at_what_they_were_made_of",
        "operators_count_the_work_they_started",
    } <= checks


@pytest.mark.exhaustive
def test_files_of_the_other_rank_do_not_pass(msinsight, tmp_path):
    """Two ranks of one run are alike to the us; still every table of the other rank is found."""
    ranks = msinsight / "torch_npu-level1"
    files = (KERNEL, STATISTIC, STEP, COMMUNICATION, TRACE)
    copies = [tmp_path / file / "rank0_ascend_pt" for file in files]
    for file, copy in zip(files, copies, strict=True):
        shutil.copytree(ranks / "rank0_ascend_pt", copy, copy_function=shutil.copyfile)
        shutil.copyfile(ranks / "rank1_ascend_pt" / OUTPUT / file, copy / OUTPUT / file)
    contracts = inspect_together([read_recording(copy) for copy in copies])
    assert [file for file, one in zip(files, contracts, strict=True) if not by_invariants(one, Severity.ERROR)] == []
