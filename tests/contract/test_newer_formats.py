"""Newer formats of the writers: each field, file, column and table that they added is accepted, and is no error.

Sources: kineto output_json.cpp of 2026, torch 2.13 to 2.15, torch_npu 2.8.0.post5 to 2.14.0, msprof of CANN 8.5 and 26.0.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import Recording
from perfguard.testing import generate
from tests.dialects.torch.test_device import document, flows, whole

Event = dict[str, Any]


def wrong(directory: Path) -> list[str]:
    """Return the errors and warnings of a directory."""
    found = inspect(Recording(directory=directory)).findings
    return [f"{one.code.name} {one.place} {one.message}" for one in found if one.severity is not Severity.NOTE]


# -- torch and Kineto --------------------------------------------------------------------------------------------------


def of_kernels(**more: Any) -> Callable[[Event], None]:
    """Return an edit that adds arguments to each kernel."""

    def edit(found: Event) -> None:
        for one in found["traceEvents"]:
            if one.get("cat") == "kernel":
                one["args"].update(more)

    return edit


def of_header(**more: Any) -> Callable[[Event], None]:
    return lambda found: found.update(more)


def with_events(*events: Event) -> Callable[[Event], None]:
    return lambda found: found["traceEvents"].extend(events)


def with_keys(found: Event) -> None:
    for one in found["traceEvents"]:
        one["cname"] = "good"


#: A stream's synchronisation, in a lane of its own since April 2026.
SYNC = {
    "ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 1_000_007, "ts": 1421.0, "dur": 8.0,
    "args": {"cuda_sync_kind": "Stream Sync", "stream": 7, "device": 0, "context": 1, "correlation": 210},
}  # fmt: skip
SYNC_NAME = {
    "name": "thread_name", "ph": "M", "ts": 990, "pid": 0, "tid": 1_000_007, "args": {"name": "stream 7 (sync)"},
}  # fmt: skip
LANE_NAME = {"name": "thread_name", "ph": "M", "ts": 990, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}}
#: Hardware counters since June 2026: the process is a text, and the key is empty.
COUNTER = {
    "ph": "C",
    "name": "sm__cycles_active.avg",
    "pid": "GPU 0 Counters",
    "tid": 0,
    "ts": 1100.0,
    "args": {"": 12.5},
}
OCCUPANCY = {"blockLimitRegs": 8, "blockLimitSharedMem": 4, "limitingFactors": ["regs", "smem"]}

#: The nodes of a CUDA graph, of the backend cupti_monitor, and a wait of an XPU.
GRAPH_NODES = [
    {"ph": "X", "cat": f"graph_{what}_node", "name": name, "pid": 0, "tid": 7, "ts": 1421.0 + at, "dur": 1.0,
     "args": {"graph id": 3, "graph node id": at, "stream": 7, "device": 0}}
    for at, (what, name) in enumerate([("event", "Event Record"), ("host", "Host Function")])
]  # fmt: skip
XPU_SYNC = {**SYNC, "cat": "xpu_sync", "name": "XPU_SYNC", "args": {"correlation": 210}}

TORCH = {
    "priority of kernels": of_kernels(priority=0),
    "collectives have a number": of_kernels(Seq=4, **{"Comms Id": "0x1", "Collective name": "allreduce"}),
    "occupancy as a dictionary": of_kernels(occupancy=OCCUPANCY, channel=3, channel_type="COMPUTE"),
    "queue of ROCm": of_kernels(hsa_queue=2),
    "graph nodes": of_kernels(**{"graph id": 3, "graph node id": 7}),
    "host and job in the header": of_header(
        host_name="node-1", PT_PROFILER_JOB_NAME="train", PT_PROFILER_JOB_VERSION="3", PT_PROFILER_JOB_ATTEMPT_INDEX="0"
    ),
    "no header of Kineto": lambda found: [found.pop(key, None) for key in ("trace_id", "host_name", "traceName")],
    "waits in lanes of their own": with_events(SYNC, SYNC_NAME, LANE_NAME),
    "hardware counters": with_events(COUNTER, {**COUNTER, "ts": 1200.0}),
    "counters without a thread's number of their own": with_events({**COUNTER, "tid": ""}),
    "another key of each event": with_keys,
    "nodes of a graph": with_events(*GRAPH_NODES, LANE_NAME),
    "a wait of an XPU": with_events(XPU_SYNC, SYNC_NAME),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.variants(1)
def test_newer_traces_of_torch_are_right(tmp_path, name):
    events = whole()
    found = document([*events, *flows(events)])
    TORCH[name](found)
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(found))
    assert wrong(tmp_path) == []


def test_a_kernel_may_name_its_stream_twice(tmp_path):
    """torch's exporter adds the logical stream of a graph's kernel (2.15)."""
    events = whole()
    text = json.dumps(document([*events, *flows(events)]))
    (twice := tmp_path / "rank0.pt.trace.json").write_text(text.replace('"stream": 7', '"stream": 7, "stream": 7'))
    assert twice.read_text().count('"stream": 7, "stream": 7') > 1
    assert wrong(tmp_path) == []


# -- torch_npu, MindSpore and msprof -----------------------------------------------------------------------------------

Change = Callable[[Path], None]


def one(place: Path, pattern: str) -> Path:
    return min(place.rglob(pattern))


def in_database(*statements: str) -> Change:
    def change(place: Path) -> None:
        for path in place.rglob("ascend_*_profiler*.db"):
            with closing(sqlite3.connect(path)) as made, made:
                for statement in statements:
                    made.execute(statement)

    return change


def in_json(pattern: str, edit: Callable[[Any], None]) -> Change:
    def change(place: Path) -> None:
        for path in place.rglob(pattern):
            found = json.loads(path.read_text(encoding="utf-8"))
            edit(found)
            path.write_text(json.dumps(found), encoding="utf-8")

    return change


def in_text(pattern: str, old: str, new: str) -> Change:
    def change(place: Path) -> None:
        for path in place.rglob(pattern):
            text = path.read_text(encoding="utf-8")
            assert old in text
            path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def with_file(folder: str, name: str) -> Change:
    def change(place: Path) -> None:
        path = one(place, folder).parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"raw")

    return change


def added(table: str, columns: str) -> str:
    return f"CREATE TABLE {table} ({columns})"


def of_experiment(**more: Any) -> Change:
    return in_json("profiler_info*.json", lambda found: found["config"]["experimental_config"].update(more))


def of_links(name: str) -> Change:
    return in_text("communication_matrix.json", '"Transport Type": "HCCS"', f'"Transport Type": "{name}"')


OVERLAP = (
    added("OVERLAP_ANALYSIS", "id INTEGER PRIMARY KEY, deviceId INTEGER, startNs NUMERIC, endNs NUMERIC, type INTEGER"),
    "INSERT INTO OVERLAP_ANALYSIS VALUES (0, 0, 1, 2, 0), (1, 0, 2, 3, 3)",
)
TEXT, BASE = {"text": True, "db": False}, {"text": False, "db": True}
#: What is new: the conditions of the directory, and what is done to it.
ASCEND: dict[str, tuple[dict[str, bool], Change]] = {
    "overlap of computing and communicating": (BASE, in_database(*OVERLAP, added("ENUM_OVERLAP_ANALYSIS_TYPE", "id, name"))),
    "overlap, by its name before July": (BASE, in_database(*OVERLAP, added("ENUM_OVERLAY_ANALYSIS_TYPE", "id, name"))),
    "tables of links, of the UB and of a DPU": (
        BASE, in_database(*(added(name, "deviceId, timestampNs, value") for name in ("SIO", "UB", "DPU_TASK", "QOS")))
    ),
    "copies": (BASE, in_database(added("MEMCPY_INFO", "globalTaskId, size, memcpyOperation"))),
    "more columns of collectives": (
        BASE, in_database(
            "ALTER TABLE COMMUNICATION_OP ADD COLUMN rankSize INTEGER",
            "ALTER TABLE COMMUNICATION_OP ADD COLUMN deviceId INTEGER",
        )
    ),
    "a size as text": (
        BASE, in_database(
            "CREATE TABLE OTHER AS SELECT * FROM COMMUNICATION_TASK_INFO",
            "DROP TABLE COMMUNICATION_TASK_INFO",
            "CREATE TABLE COMMUNICATION_TASK_INFO (name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, "
            "groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, "
            "transportType INTEGER, size TEXT, dataType INTEGER, linkType INTEGER, opId INTEGER)",
            "INSERT INTO COMMUNICATION_TASK_INFO SELECT name, globalTaskId, taskType, planeId, groupName, notifyId, rdmaType, "
            "srcRank, dstRank, transportType, CAST(max(size, 0) AS TEXT), dataType, linkType, opId FROM OTHER",
            "DROP TABLE OTHER",
        )
    ),
    "text and a database": ({"text": True, "db": True}, lambda place: None),
    "the analysis is over": (TEXT, with_file("trace_view.json", "analyse.done")),
    "a platform's raw data inside": (TEXT, with_file("profiler_info_0.json", "PLATFORM_20260101000000/data.bin")),
    "a platform's raw data beside": (TEXT, with_file("*_ascend_pt", "PLATFORM_20260101000000/data.bin")),
    "counters of NUMA, an observer": (
        TEXT, of_experiment(_host_sys=["numa"], _custom_trace_id_callback=None, execution_trace_observer=None)
    ),
    "a link that has small letters": (TEXT, of_links("UBoE")),
    "a link without a name": (TEXT, of_links("N/A")),
    "sizes as text in a trace": (
        TEXT, in_json(
            "trace_view.json",
            lambda found: [one["args"].update({"size(Byte)": "0"}) for one in found if one["ph"] == "X" and "args" in one],
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASCEND)
@pytest.mark.variants(1)
def test_newer_output_of_torch_npu_is_right(tmp_path, name):
    conditions, change = ASCEND[name]
    generate("pt-npu", seed=3, ranks=2, steps=2, operators=12, conditions=conditions).write(tmp_path)
    assert wrong(tmp_path) == []
    change(tmp_path)
    assert wrong(tmp_path) == []


@pytest.mark.parametrize("name", [name for name, (conditions, _) in ASCEND.items() if conditions is BASE])
@pytest.mark.variants(1)
def test_newer_databases_of_mindspore_are_right(tmp_path, name):
    generate("ms-2.5+", seed=3, ranks=2, steps=2, operators=12, conditions=BASE).write(tmp_path)
    ASCEND[name][1](tmp_path)
    assert wrong(tmp_path) == []


def test_a_size_that_is_no_number_is_refused(tmp_path):
    generate("pt-npu", seed=3, ranks=2, steps=2, operators=12, conditions=BASE).write(tmp_path)
    ASCEND["a size as text"][1](tmp_path)
    in_database("UPDATE COMMUNICATION_TASK_INFO SET size = 'much'")(tmp_path)
    assert any("'much'" in one for one in wrong(tmp_path))


def test_the_dynamic_profile_may_ask_for_numa(tmp_path):
    generate("dynamic-config", seed=3).write(tmp_path)
    path = one(tmp_path, "profiler_config.json")
    path.write_text(json.dumps({"start_step": 1, "active": 1, "experimental_config": {"host_sys": ["numa"]}}))
    assert wrong(tmp_path) == []


ADDED = {
    "Mix Block Num": "0", "Input Shapes": '"4,4"', "Input Data Types": "FLOAT", "Input Formats": "ND",
    "Output Shapes": '"4,4"', "Output Data Types": "FLOAT", "Output Formats": "ND",
}  # fmt: skip


@pytest.mark.parametrize("columns", [[*ADDED], [*ADDED][::2], [*ADDED][1::2], ["Output Formats"]])
@pytest.mark.parametrize("cores", ["Block Dim", "Block Num"])
@pytest.mark.variants(1)
def test_level_0_may_have_any_of_the_added_columns(tmp_path, cores, columns):
    """With Block Dim, of older versions, they are notes: the version of level 1 lists them, and lacks others of the file."""
    generate("pt-npu", seed=3, steps=2, operators=8, conditions={"level1": False}).write(tmp_path)
    path = one(tmp_path, "kernel_details.csv")
    head, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    text = io.StringIO(newline="")
    more = [ADDED[name] for name in columns]
    changed = [[cores if name == "Block Dim" else name for name in head] + columns, *(row + more for row in rows)]
    csv.writer(text, lineterminator="\n").writerows(changed)
    path.write_text(text.getvalue(), encoding="utf-8")
    assert wrong(tmp_path) == []
    notes = inspect(Recording(directory=tmp_path)).findings
    assert len(notes) == (len(columns) if cores == "Block Dim" else 0)
