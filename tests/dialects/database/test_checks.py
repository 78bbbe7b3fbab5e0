"""What must hold of databases, as tables: each rule is breached, and silent where it has to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import Content
from perfguard.artifacts.slot_rows import add_tables
from perfguard.artifacts.survey import FoundFile
from perfguard.artifacts.table import Cells, Table
from perfguard.artifacts.tables import batch
from perfguard.contract import inspect
from perfguard.contract.checks import broken_rules
from perfguard.dialects.cycle import Artifact, Cycle, Requested
from perfguard.dialects.queries import definitions, named_texts
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate

FILES = {"ascend_pytorch_profiler": "ascend_pytorch_profiler_1.db", "analysis": "analysis.db"}
#: Texts by their ids.
TEXTS = (
    "PTA",
    "GE",
    "PTA+GE",
    "allocate",
    "release",
    "AI_CORE",
    "aic_mac_time",
    "aic_mac_ratio",
    "aic_total_time",
    "hcom_a",
)
ID = {text: number for number, text in enumerate(TEXTS)}
#: Tables, with a mapping for each row.
Tables = dict[str, list[dict[str, Any]]]


def table(name: str, rows: list[dict[str, Any]]) -> Table:
    names = dict.fromkeys(key for row in rows for key in row)
    cells = {key: [None if row.get(key) is None else json.dumps(row[key]) for row in rows] for key in names}
    return Table(frame=pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String)), cells=Cells.JSON, path=name)


def found(check: str, tables: Tables, analysis: Tables | None = None, **conditions: bool) -> list[tuple[str, str]]:
    """Return place and code of what a check says of two databases."""
    return [(place, code) for place, code, _ in judged(check, tables, analysis, **conditions)]


def judged(
    check: str, tables: Tables, analysis: Tables | None = None, **conditions: bool
) -> list[tuple[str, str, Severity]]:
    """Return place, code and severity of what a check says of two databases."""
    layout = layout_named("pt-npu")
    slots = {slot.name: slot for slot in layout.slots}
    strings = [{"id": number, "value": text} for text, number in ID.items()]
    contents = {"ascend_pytorch_profiler": {"STRING_IDS": strings, **tables}, "analysis": analysis or {}}
    with batch(definitions(frozenset({layout.id})), named_texts()) as there:
        artifacts = {}
        for name, rows in contents.items():
            content = Content(document={}, tables={key: table(key, several) for key, several in rows.items()})
            file = FoundFile(slot=slots[name], path=Path(FILES[name]), rank=1)
            add_tables(there, 0, 0, file, name, content)
            artifacts[name] = Artifact(slot=file.slot, path=file.path, content=content, place=FILES[name], schema=name)
        cycle = Cycle(
            layout=layout,
            place=Path(),
            rank=1,
            index=0,
            artifacts=artifacts,
            requested=Requested(),
            conditions=conditions,
        )
        there.hand_over()
        said = broken_rules(there, {0: cycle}).get(0, [])
    return [
        (one.place.partition(".db ")[2] or one.place, one.code.name, one.severity) for one in said if one.check == check
    ]


def records(*rows: tuple[str, int, int, int]) -> list[dict[str, Any]]:
    columns = ("component", "timestamp", "totalAllocated", "totalReserved")
    return [{**dict(zip(columns, (ID[row[0]], *row[1:]), strict=True)), "deviceId": 0} for row in rows]


def engine(*rows: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [
        {"operatorName": 4, "addr": address, "type": ID[kind], "size": 512, "timestampNs": at, "deviceId": 0,
         "totalAllocate": 512, "totalReserve": 2048, "component": ID["GE"]}
        for kind, at, address in rows
    ]  # fmt: skip


def block(start: int, end: int | None, name: int = 4) -> dict[str, Any]:
    return {"name": name, "size": 512, "allocationTime": start, "releaseTime": end, "deviceId": 0}


PTA, GE, SUM = ("PTA", 5, 512, 1024), ("GE", 5, 1024, 2048), ("PTA+GE", 5, 512, 1024)
BOTH = [("PTA", 5, 512, 1024), ("PTA+GE", 5, 512, 1024), ("GE", 7, 512, 2048), ("PTA+GE", 7, 1024, 3072)]
MANY = [block(1, None, 99) for _ in range(9)]


@pytest.mark.parametrize(
    ("tables", "places"),
    [
        pytest.param({"MEMORY_RECORD": records(*BOTH)}, [], id="sums"),
        pytest.param({"MEMORY_RECORD": records(PTA, GE)}, [], id="no sums at all"),
        pytest.param({"MEMORY_RECORD": records(*BOTH, ("GE", 9, 0, 0))}, ["MEMORY_RECORD[4]"], id="no sum follows"),
        pytest.param({"MEMORY_RECORD": records(*BOTH, ("PTA+GE", 9, 1024, 3072))}, ["MEMORY_RECORD[4]"], id="a sum of nothing"),
        pytest.param({"MEMORY_RECORD": records(*BOTH[:3], ("PTA+GE", 7, 1023, 3072))}, ["MEMORY_RECORD[3]"], id="allocated"),
        pytest.param({"MEMORY_RECORD": records(*BOTH[:3], ("PTA+GE", 7, 1024, 9))}, ["MEMORY_RECORD[3]"], id="reserved"),
        pytest.param(
            {"MEMORY_RECORD": [*records(*BOTH[:3]), {**records(BOTH[3])[0], "deviceId": 1}]}, [], id="two devices"
        ),
        pytest.param(
            {"MEMORY_RECORD": records(("GE", 7, 512, 2048)), "NPU_OP_MEM": engine(("allocate", 7, 1))}, [], id="of CANN"
        ),
        pytest.param(
            {"MEMORY_RECORD": records(("GE", 8, 512, 2048)), "NPU_OP_MEM": engine(("allocate", 7, 1))},
            ["MEMORY_RECORD", "MEMORY_RECORD"],
            id="at another time than CANN says",
        ),
        pytest.param(
            {"MEMORY_RECORD": records(PTA), "OP_MEMORY": [*[block(5, None)] * 9, block(6, None)]},
            ["OP_MEMORY[9]"],
            id="a block without a record",
        ),
        pytest.param(
            {"MEMORY_RECORD": records(PTA), "OP_MEMORY": [*[block(5, None)] * 8, *[block(6, None)] * 2]},
            [],
            id="many blocks without a record",
        ),
        pytest.param(
            {"NPU_OP_MEM": engine(("allocate", 7, 1), ("release", 9, 1)), "OP_MEMORY": [block(7, 9), *MANY]}, [], id="blocks"
        ),
        pytest.param(
            {"NPU_OP_MEM": engine(("allocate", 7, 1), ("release", 9, 1)), "OP_MEMORY": [block(7, 8), *MANY]},
            ["OP_MEMORY", "OP_MEMORY"],
            id="a block released at another time",
        ),
        pytest.param(
            {"NPU_OP_MEM": engine(("allocate", 7, 1), ("allocate", 8, 1)), "OP_MEMORY": [block(8, None)]},
            [],
            id="an address taken again",
        ),
    ],
)  # fmt: skip
def test_tables_of_memory_tell_the_same(tables, places):
    assert found("memory_tables_tell_the_same", tables) == [(place, "I107") for place in places]


def counters(*names: str, task: int = 1) -> list[dict[str, Any]]:
    return [{"globalTaskId": task, "name": ID[name], "value": 1.5} for name in names]


KERNEL = {"globalTaskId": 1, "taskType": ID["AI_CORE"]}
HALVES = ("aic_mac_time", "aic_mac_ratio")


@pytest.mark.parametrize(
    ("tasks", "counted", "said"),
    [
        ([KERNEL], counters(*HALVES), []),
        ([KERNEL], counters(*HALVES, "aic_total_time"), [("TASK_PMU_INFO", "I105")]),
        ([KERNEL], counters("aic_mac_time"), [("TASK_PMU_INFO", "I105")]),
        ([KERNEL], counters("aic_mac_ratio"), []),
        ([KERNEL], counters(*HALVES, *HALVES[:1]), [("TASK_PMU_INFO[2]", "I114")]),
        ([KERNEL], [*counters(*HALVES), *counters(*HALVES, task=2)], [(f"TASK_PMU_INFO[{row}]", "I115") for row in (2, 3)]),
        ([KERNEL, {**KERNEL, "globalTaskId": 2}], counters(*HALVES), [("COMPUTE_TASK_INFO[1]", "I105")]),
        (
            [KERNEL, {**KERNEL, "globalTaskId": 2}],
            [*counters(*HALVES), *counters(*HALVES[:1], task=2)],
            [("COMPUTE_TASK_INFO[1]", "I105")],
        ),
        ([KERNEL, {"globalTaskId": 2, "taskType": 99}], counters(*HALVES), []),
        ([], counters("aic_mac_time"), []),
    ],
)  # fmt: skip
def test_tasks_of_a_kind_have_the_same_counters(tasks, counted, said):
    assert found("counters_of_the_database_are_whole", {"COMPUTE_TASK_INFO": tasks, "TASK_PMU_INFO": counted}) == said


SESSION = {"SESSION_TIME_INFO": [{"startTimeNs": 10**18, "endTimeNs": 10**18 + 10**9}]}
LARGEST = 2**63 - 1
UNIQUE, LIES, ENDS, RESOLVES = (
    "ids_of_the_database_are_unique",
    "what_the_database_holds_lies_in_the_session",
    "spans_of_the_database_have_two_ends",
    "ids_of_the_database_resolve",
)
DEVICE = {"RANK_DEVICE_MAP": [{"rankId": 1, "deviceId": 3}]}
HCCL = {"COMMUNICATION_OP": [{"dataType": 65534}, {"dataType": 5}], "ENUM_HCCL_DATA_TYPE": [{"id": 4}]}


def session(start: int, end: int) -> Tables:
    return {"SESSION_TIME_INFO": [{"startTimeNs": start, "endTimeNs": end}]}


@pytest.mark.parametrize(
    ("check", "tables", "said"),
    [
        (UNIQUE, {"STRING_IDS": [{"id": 1, "value": "a"}, {"id": 1, "value": "b"}]}, ["STRING_IDS[1]"]),
        (UNIQUE, {"STEP_TIME": [{"id": 1}, {"id": 2}]}, []),
        (UNIQUE, {"TASK": [{"globalTaskId": 1, "startNs": 5}, {"globalTaskId": 1, "startNs": 5}]}, ["TASK[1]"]),
        # A task of a graph runs again in each step, and may be described for each model.
        (
            UNIQUE,
            {
                "TASK": [{"globalTaskId": 1, "startNs": 5}, {"globalTaskId": 1, "startNs": 9}],
                "COMPUTE_TASK_INFO": [{"globalTaskId": 1}, {"globalTaskId": 1}],
            },
            [],
        ),
        (
            UNIQUE,
            {"TASK": [{"globalTaskId": 1}], "COMPUTE_TASK_INFO": [{"globalTaskId": 1}, {"globalTaskId": 1}]},
            ["COMPUTE_TASK_INFO[1]"],
        ),
        (LIES, {"HBM": [{"timestampNs": 10**18 + 5}], **SESSION}, []),
        (LIES, {"HBM": [{"timestampNs": 10**18 - 10**10 - 1}], **SESSION}, ["HBM[0]"]),
        (LIES, {"HBM": [{"timestampNs": LARGEST}], **SESSION}, ["HBM[0]"]),
        (LIES, session(0, LARGEST), ["SESSION_TIME_INFO"]),
        (ENDS, session(9, 9), []),
        (ENDS, session(9, 8), ["SESSION_TIME_INFO[0]"]),
        (RESOLVES, {**DEVICE, "NPU_INFO": [{"id": 0}]}, ["RANK_DEVICE_MAP[0]"]),
        (RESOLVES, {**DEVICE, "NPU_INFO": [{"id": 3}]}, []),
        # A rank of several devices.
        (RESOLVES, {"RANK_DEVICE_MAP": [{"rankId": 1, "deviceId": -1}], "NPU_INFO": [{"id": 3}]}, []),
        (RESOLVES, DEVICE, []),
        (RESOLVES, HCCL, ["COMMUNICATION_OP[1]"]),
        (RESOLVES, {"HBM": [{"type": 5}, {"type": 50}], "LLC": [{"mode": 60}]}, ["HBM[1]", "LLC[0]"]),
        (RESOLVES, {"PYTORCH_API": [{"connectionId": None}]}, []),
        (RESOLVES, {"PYTORCH_API": [{"connectionId": 3}]}, [FILES["ascend_pytorch_profiler"]]),
    ],
)
def test_ids_and_times_of_a_database(check, tables, said):
    assert [place for place, _ in found(check, tables)] == said


@pytest.mark.parametrize(
    ("tables", "conditions", "said"),
    [
        ({"TASK": []}, {}, ["$.TASK"]),
        ({"TASK": []}, {"npu": False}, []),
        ({}, {"npu": True}, ["$.TASK"]),
        ({}, {}, []),
    ],
)
def test_something_ran_where_the_npu_was_traced(tables, conditions, said):
    assert [place for place, _ in found("something_ran_according_to_the_database", tables, **conditions)] == said


def ran(name: str, start: int, end: int) -> dict[str, Any]:
    return {"opName": ID[name], "startNs": start, "endNs": end, "opId": start}


def timed(name: str, start_us: float, elapse_ms: float) -> dict[str, Any]:
    return {
        "hccl_op_name": name,
        "group_name": "1",
        "start_timestamp": start_us,
        "elapse_time": elapse_ms,
        "step": "step1",
    }


RAN, TIMED = ran("hcom_a", 10**9, 2 * 10**9), timed("hcom_a", 1e6, 1000.0)


@pytest.mark.parametrize(
    ("operations", "times", "said"),
    [
        ([RAN], [TIMED], []),
        ([RAN], [timed("hcom_a", 1e6, 1000.00001)], [("CommAnalyzerTime[0]", "I109")]),
        ([RAN], [timed("hcom_a", 1e6, 999.0)], [("CommAnalyzerTime[0]", "I109")]),
        ([RAN], [timed("hcom_a", 1.1e6, 1000.0)], [("CommAnalyzerTime[0]", "I109")]),
        ([RAN], [timed("b", 1e6, 1000.0)], [("CommAnalyzerTime", "I113")]),
        ([RAN], [TIMED, timed("b", 1e6, 1000.0)], [("CommAnalyzerTime[1]", "I109")]),
        # It begins while the step's one operation runs; and when that has ended.
        ([RAN, ran("GE", 10**9 + 1, 9)], [TIMED], [("COMMUNICATION_OP[1]", "I109")]),
        ([RAN, ran("GE", 2 * 10**9, 9)], [TIMED], []),
        ([], [TIMED], []),
    ],
)
def test_operations_that_were_timed_ran(operations, times, said):
    check = "communication_of_the_database_is_what_ran"
    assert found(check, {"COMMUNICATION_OP": operations}, {"CommAnalyzerTime": times}) == said


#: A step of 100 ns in which a kernel runs from 110 to 130 and a collective operation from 120 to 150, launched in it.
STEP: Tables = {
    "STEP_TIME": [{"id": 1, "startNs": 100, "endNs": 200}],
    "CANN_API": [{"startNs": 101, "endNs": 102, "type": 10000, "connectionId": one} for one in (1, 2)],
    "TASK": [
        {"startNs": 110, "endNs": 130, "globalTaskId": 1, "connectionId": 1, "deviceId": 0},
        {"startNs": 120, "endNs": 150, "globalTaskId": 2, "connectionId": 2, "deviceId": 0},
    ],
    "COMPUTE_TASK_INFO": [{"globalTaskId": 1}],
    "COMMUNICATION_OP": [{"opName": ID["hcom_a"], "startNs": 120, "endNs": 150, "connectionId": 2}],
    "COMMUNICATION_TASK_INFO": [{"globalTaskId": 2, "name": ID["hcom_a"]}],
}  # fmt: skip
TIMES = {
    "step": "1", "computing": 0.02, "communication": 0.03, "communication_not_overlapped": 0.02, "free": 0.0, "stage": 0.04,
    "bubble": 0.0, "preparing": 0.01,
}  # fmt: skip


@pytest.mark.parametrize(
    ("step", "tables", "severities"),
    [
        ({}, {}, 0),
        ({"computing": 0.025}, {}, 1),
        ({"preparing": 0.005, "free": 0.003}, {}, 2),
        ({"step": "2"}, {}, 0),
        ({"step": None}, {"STEP_TIME": []}, 0),
        ({"step": None, "computing": 0.025}, {"STEP_TIME": []}, 1),
        # The oldest version: tasks of operations.
        ({"communication": 0.03}, {"COMMUNICATION_OP": []}, 0),
        ({"computing": 0.025}, {"TASK": [{**one, "deviceId": row} for row, one in enumerate(STEP["TASK"])]}, 0),
    ],
)
@pytest.mark.variants(2)
def test_times_of_a_step_are_what_ran(step, tables, severities):
    rows = {"StepTraceTime": [{**TIMES, **step}]}
    said = found("step_times_are_what_ran", {**STEP, **tables}, rows)
    assert said == [("StepTraceTime[0]", "I108")] * severities


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"ENUM_HCCL_DATA_TYPE": [{"id": 3, "name": "FP16"}, {"id": 65534, "name": "N/A"}]}, []),
        ({"ENUM_HCCL_DATA_TYPE": [{"id": 3, "name": "FP16"}, {"id": 4, "name": "FP32x"}]}, ["ENUM_HCCL_DATA_TYPE[1]"]),
        ({"ENUM_HCCL_TRANSPORT_TYPE": [{"id": 0, "name": "RDMA"}]}, ["ENUM_HCCL_TRANSPORT_TYPE[0]"]),
        # Other versions have other names for these.
        ({"ENUM_API_TYPE": [{"id": 5500, "name": "communication"}, {"id": 20000, "name": "acl"}]}, []),
        ({"ENUM_HCCL_LINK_TYPE": [{"id": 7, "name": "RESERVED"}, {"id": 255, "name": "RESERVED"}]}, []),
        ({"ENUM_API_TYPE": [{"id": 50002, "name": "op"}]}, ["ENUM_API_TYPE[0]"]),
    ],
)
def test_a_number_of_an_enumeration_keeps_its_name(tables, said):
    assert [place for place, _ in found("enumerations_name_what_they_stand_for", tables)] == said


@pytest.mark.parametrize(
    ("name", "times", "said"),
    [
        ("TASK", [5] * 16, ["TASK[0]"]),
        ("TASK", [*[5] * 15, 6], []),
        ("TASK", [5] * 15, []),
        ("CANN_API", [5] * 16, ["CANN_API[0]"]),
        ("PYTORCH_API", [5] * 20, ["PYTORCH_API[0]"]),
    ],
)
def test_the_clock_of_a_table_does_not_stand_still(name, times, said):
    rows = [{"startNs": at, "endNs": at + number} for number, at in enumerate(times, start=1)]
    assert [place for place, _ in found("times_of_the_database_move", {name: rows})] == said


def test_the_same_of_a_hundred_rows_is_told_by_table():
    tables: Tables = {"HBM": [{"type": 50}] * 103, "LLC": [{"mode": 60}]}
    said = [place for place, _ in found("ids_of_the_database_resolve", tables)]
    assert (len(said), said[-2:]) == (102, ["HBM", "LLC[0]"])


def called(text: str, connection: int) -> dict[str, Any]:
    return {"startNs": 1, "endNs": 2, "type": 10000, "globalTid": 1, "connectionId": connection, "name": text}


def task(number: int, start: int, end: int, kind: str = "AI_CORE", **more: int) -> dict[str, Any]:
    return {"startNs": start, "endNs": end, "deviceId": 0, "globalTaskId": number, "connectionId": number, "taskType": ID[kind],
            "streamId": 2, **more}  # fmt: skip


def texts(*several: str) -> list[dict[str, Any]]:
    """Return STRING_IDS with more texts, from 100 on."""
    known = [{"id": number, "value": text} for text, number in ID.items()]
    return [*known, *({"id": 100 + number, "value": text} for number, text in enumerate(several))]


FRAMEWORK = 1 << 28
API = [{"connectionId": one, "callchainId": one, "name": FRAMEWORK + one} for one in range(10)]
CONNECTIONS = [{"id": one, "connectionId": 7 + one} for one in range(10)]
CHAINS = [{"id": one, "stack": 1, "stackDepth": depth} for one in range(10) for depth in range(2)]
WORDS = [{"id": FRAMEWORK + one, "value": f"aten::{one}"} for one in range(10)]
LAUNCHES = {
    "STRING_IDS": texts("launch", "aclmdlRICaptureBegin"),
    "CANN_API": [called(100, one) for one in (1, 2)],  # type: ignore[arg-type]
}
OPERATION = [{"opName": ID["hcom_a"], "startNs": 0, "endNs": 9, "connectionId": 1, "opId": 1}]
MOVES = {"STRING_IDS": texts("SDMA"), "COMMUNICATION_OP": OPERATION}
MOVED = [{**task(one, 0, 9), "connectionId": 1, "taskType": 100} for one in (1, 2)]
KERNEL_ROWS = [task(one, 100 * one, 100 * one + 90) for one in range(1, 21)]
DESCRIBED = [{"globalTaskId": one, "taskType": ID["AI_CORE"]} for one in range(1, 21)]
VERSION = [{"name": f"SCHEMA_VERSION{part}", "value": "1"} for part in ("", "_MAJOR", "_MINOR", "_MICRO")]
MODULES = [
    {"moduleId": module, "timestampNs": at, "totalReserved": 0, "deviceId": 0} for module in range(5) for at in range(4)
]
TENSORS = {"STRING_IDS": texts("1,2;3,4", "FLOAT;FLOAT", "ND;ND", "ND", "N/A")}
TWO = {"inputShapes": 100, "inputDataTypes": 101, "inputFormats": 102}


COPY_CALLS = {
    "STRING_IDS": texts("MEMCPY_ASYNC", "aclrtMemcpyAsync", "aclmdlRICaptureBegin"),
    "CANN_API": [called(101, one) for one in range(1, 21)],  # type: ignore[arg-type]
}
COPIED = [{**task(one, 100 * one, 100 * one + 90), "taskType": 100} for one in range(1, 21)]
NAMES = {"STRING_IDS": texts("aten::linear", "aten::addmm", "my range")}


def host(name: int, start: int, end: int, thread: int = 1) -> dict[str, Any]:
    return {"startNs": start, "endNs": end, "globalTid": thread, "name": name, "type": 50001}


def record_of(at: int, allocated: int) -> dict[str, Any]:
    return {"component": ID["PTA"], "timestamp": at, "totalAllocated": allocated, "totalReserved": 2048, "deviceId": 0}


def block_of(at: int, allocated: int) -> dict[str, Any]:
    totals = {"allocationTotalAllocated": allocated, "allocationTotalReserved": 2048}
    return {"name": 4, "size": 512, "allocationTime": at, "deviceId": 0, **totals}


@pytest.mark.parametrize(
    ("check", "tables", "said"),
    [
        ("rows_of_the_database_are_written_once", {"CONNECTION_IDS": CONNECTIONS}, []),
        ("rows_of_the_database_are_written_once", {"CONNECTION_IDS": [*CONNECTIONS, CONNECTIONS[3]]}, ["CONNECTION_IDS[10]"]),
        ("rows_of_the_database_are_written_once", {"HBM": [{"type": 1, "timestampNs": 5}, {"type": 1, "timestampNs": 6}]}, []),
        ("tables_of_facts_have_rows", {"RANK_DEVICE_MAP": []}, [FILES["ascend_pytorch_profiler"]]),
        ("tables_of_facts_have_rows", {"RANK_DEVICE_MAP": [{"rankId": 1, "deviceId": 1}]}, []),
        ("tables_of_facts_have_rows", {"ENUM_HCCL_LINK_TYPE": [{"id": 0}]}, [FILES["ascend_pytorch_profiler"]] * 3),
        (
            "tables_of_facts_have_rows",
            {f"ENUM_HCCL_{kind}_TYPE": [{"id": 0}] for kind in ("LINK", "DATA", "RDMA", "TRANSPORT")},
            [],
        ),
        ("what_the_host_names_is_used", {"PYTORCH_API": API, "CONNECTION_IDS": CONNECTIONS, "PYTORCH_CALLCHAINS": CHAINS}, []),
        ("what_the_host_names_is_used", {"PYTORCH_API": API[:-1], "CONNECTION_IDS": CONNECTIONS}, ["CONNECTION_IDS"]),
        ("what_the_host_names_is_used", {"PYTORCH_API": API[:-1], "PYTORCH_CALLCHAINS": CHAINS}, ["PYTORCH_CALLCHAINS"]),
        # What is below is left of a directory that the same process analysed before.
        ("what_the_host_names_is_used", {"PYTORCH_API": API[3:], "CONNECTION_IDS": CONNECTIONS}, []),
        ("what_the_host_names_is_used", {"PYTORCH_API": API[3:], "PYTORCH_CALLCHAINS": CHAINS}, []),
        (RESOLVES, {"PYTORCH_API": [{"callchainId": 3}], "PYTORCH_CALLCHAINS": [{"id": 2, "stack": 77}, *CHAINS]}, []),
        (
            RESOLVES,
            {"PYTORCH_API": [{"callchainId": 3}], "PYTORCH_CALLCHAINS": [*CHAINS, {"id": 4, "stack": 77}]},
            ["PYTORCH_CALLCHAINS[20]"],
        ),
        ("what_the_host_names_is_used", {"PYTORCH_API": API, "STRING_IDS": WORDS}, []),
        ("what_the_host_names_is_used", {"PYTORCH_API": API[1:], "STRING_IDS": WORDS}, ["STRING_IDS[0]"]),
        # torch_npu numbers the names of allocators to look for them.
        (
            "what_the_host_names_is_used",
            {"PYTORCH_API": API, "STRING_IDS": [*WORDS, {"id": 2 * FRAMEWORK, "value": "WORKSPACE"}]},
            [],
        ),
        # Another version: another table uses them.
        ("what_the_host_names_is_used", {"PYTORCH_API": API[2:], "STRING_IDS": WORDS}, []),
        ("call_stacks_are_whole", {"PYTORCH_CALLCHAINS": CHAINS}, []),
        ("call_stacks_are_whole", {"PYTORCH_CALLCHAINS": CHAINS[1:]}, ["PYTORCH_CALLCHAINS[0]"]),
        ("call_stacks_are_whole", {"PYTORCH_CALLCHAINS": [*CHAINS, {**CHAINS[0], "stackDepth": 3}]}, ["PYTORCH_CALLCHAINS[0]"]),
        ("launches_of_the_database_ran", {**LAUNCHES, "TASK": [task(1, 0, 9), task(2, 10, 19)]}, []),
        ("launches_of_the_database_ran", {**LAUNCHES, "TASK": [task(1, 0, 9)]}, ["TASK"]),
        (
            "launches_of_the_database_ran",
            {**LAUNCHES, "CANN_API": [*LAUNCHES["CANN_API"], called(101, 3)], "TASK": [task(1, 0, 9)]},  # type: ignore[arg-type]
            [],
        ),
        ("kernels_of_a_stream_follow_each_other", {"TASK": KERNEL_ROWS, "COMPUTE_TASK_INFO": DESCRIBED}, []),
        (
            "kernels_of_a_stream_follow_each_other",
            {"TASK": [{**KERNEL_ROWS[0], "endNs": 301}, *KERNEL_ROWS[1:]], "COMPUTE_TASK_INFO": DESCRIBED},
            ["TASK[1]"],
        ),
        (
            "kernels_of_a_stream_follow_each_other",
            {"TASK": [{**KERNEL_ROWS[0], "endNs": 301, "streamId": 3}, *KERNEL_ROWS[1:]], "COMPUTE_TASK_INFO": DESCRIBED},
            [],
        ),
        (
            "kernels_of_a_stream_follow_each_other",
            {"TASK": [{**KERNEL_ROWS[0], "endNs": 301, "contextId": 7}, *KERNEL_ROWS[1:]], "COMPUTE_TASK_INFO": DESCRIBED},
            [],
        ),
        (
            "blocks_of_the_database_are_in_its_record",
            {"MEMORY_RECORD": [record_of(5, 512)], "OP_MEMORY": [block_of(5, 512), block_of(6, 9)]},
            [],
        ),
        (
            "blocks_of_the_database_are_in_its_record",
            {"MEMORY_RECORD": [record_of(5, 512)], "OP_MEMORY": [block_of(5, 0)]},
            ["OP_MEMORY[0]"],
        ),
        (
            "blocks_of_the_database_are_in_its_record",
            {
                "MEMORY_RECORD": [record_of(one, 512) for one in range(20)],
                "OP_MEMORY": [{**block_of(one, 512), "allocationTotalReserved": 9} for one in range(20)],
            },
            [f"OP_MEMORY[{one}]" for one in range(20)],
        ),
        ("kernels_have_their_launch", {**LAUNCHES, "TASK": KERNEL_ROWS, "COMPUTE_TASK_INFO": DESCRIBED}, ["CANN_API"]),
        ("kernels_have_their_launch", {**LAUNCHES, "TASK": KERNEL_ROWS[:2], "COMPUTE_TASK_INFO": DESCRIBED}, []),
        # No function of CANN launched them.
        (
            "kernels_have_their_launch",
            {**LAUNCHES, "TASK": [{**one, "connectionId": -1} for one in KERNEL_ROWS], "COMPUTE_TASK_INFO": DESCRIBED},
            [],
        ),
        ("copies_of_the_database_have_their_call", {**COPY_CALLS, "TASK": COPIED}, []),
        # One may be from before the recording.
        ("copies_of_the_database_have_their_call", {**COPY_CALLS, "CANN_API": COPY_CALLS["CANN_API"][1:], "TASK": COPIED}, []),
        (
            "copies_of_the_database_have_their_call",
            {**COPY_CALLS, "CANN_API": COPY_CALLS["CANN_API"][3:], "TASK": COPIED},
            ["CANN_API"],
        ),
        (
            "copies_of_the_database_have_their_call",
            {**COPY_CALLS, "CANN_API": [*COPY_CALLS["CANN_API"][3:], called(102, 99)], "TASK": COPIED},  # type: ignore[arg-type]
            [],
        ),
        # No function of CANN started them.
        (
            "copies_of_the_database_have_their_call",
            {**COPY_CALLS, "CANN_API": COPY_CALLS["CANN_API"][3:], "TASK": [{**one, "connectionId": -1} for one in COPIED]},
            [],
        ),
        ("operators_of_the_database_nest", {**NAMES, "PYTORCH_API": [host(100, 0, 90), host(101, 10, 90)]}, []),
        ("operators_of_the_database_nest", {**NAMES, "PYTORCH_API": [host(100, 0, 90), host(101, 90, 99)]}, []),
        ("operators_of_the_database_nest", {**NAMES, "PYTORCH_API": [host(100, 0, 90), host(101, 80, 99)]}, ["PYTORCH_API[1]"]),
        ("operators_of_the_database_nest", {**NAMES, "PYTORCH_API": [host(100, 0, 90), host(101, 80, 99, thread=2)]}, []),
        # What a user marks may end at any time.
        ("operators_of_the_database_nest", {**NAMES, "PYTORCH_API": [host(100, 0, 90), host(102, 80, 99)]}, []),
        ("the_version_of_the_schema_is_whole", {"META_DATA": VERSION}, []),
        ("the_version_of_the_schema_is_whole", {"META_DATA": VERSION[:3]}, ["META_DATA"]),
        ("the_version_of_the_schema_is_whole", {"META_DATA": [{"name": "ENV_VARIABLES", "value": "{}"}]}, []),
        ("samples_of_a_time_are_whole", {"NPU_MODULE_MEM": MODULES}, []),
        ("samples_of_a_time_are_whole", {"NPU_MODULE_MEM": MODULES[1:]}, ["NPU_MODULE_MEM"]),
        ("samples_of_a_time_are_whole", {"NPU_MODULE_MEM": [*MODULES[:17:5], MODULES[16]]}, []),
        ("tensors_have_shape_type_and_format", {**TENSORS, "COMPUTE_TASK_INFO": [TWO]}, []),
        (
            "tensors_have_shape_type_and_format",
            {**TENSORS, "COMPUTE_TASK_INFO": [{**TWO, "inputFormats": 103}]},
            ["COMPUTE_TASK_INFO[0]"],
        ),
        ("tensors_have_shape_type_and_format", {**TENSORS, "COMPUTE_TASK_INFO": [{**TWO, "inputFormats": 104}]}, []),
    ],
)  # fmt: skip
@pytest.mark.variants(8)
def test_rows_that_were_lost_or_written_twice(check, tables, said):
    assert [place for place, _ in found(check, tables)] == said


@pytest.mark.parametrize(("described", "said"), [((1, 2), []), ((1,), [("COMMUNICATION_TASK_INFO", "I109")])])
def test_tasks_of_a_collective_are_described(described, said):
    infos = [{"name": ID["hcom_a"], "globalTaskId": one, "taskType": 100, "opId": 1} for one in described]
    tables = {**MOVES, "TASK": MOVED, "COMMUNICATION_TASK_INFO": infos}
    assert found("tasks_of_operations_are_described", tables, level1=True) == said


@pytest.mark.parametrize(("rows", "said"), [([TIMES], []), ([], ["analysis.db"])])
def test_times_of_steps_are_there_where_tasks_ran(rows, said):
    places = found("tables_of_facts_have_rows", {"TASK": [task(1, 0, 9)]}, {"StepTraceTime": rows})
    assert [place for place, _ in places] == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda info: None, []),
        (lambda info: info["config"]["common_config"]["schedule"].update(active=1), ["the_database_has_the_steps_asked_for"]),
        (lambda info: info["end_info"].update(collectionTimeEnd=10**18), ["the_session_is_that_of_profiler_info"]),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_a_database_is_of_the_recording_that_profiler_info_describes(tmp_path, change, said):
    generate("pt-npu", conditions={"text": False, "db": True}).write(tmp_path)
    [path] = tmp_path.rglob("profiler_info*.json")
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))
    findings = inspect(read_recording(tmp_path)).findings
    assert [one.check for one in findings if one.severity is Severity.ERROR] == said


def moved_over(kind: str, source: int) -> dict[str, Any]:
    return {
        "hccl_op_name": f"allreduce-{kind}",
        "group_name": "1",
        "src_rank": str(source),
        "dst_rank": "0",
        "step": "step1",
    }


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([moved_over("total", 0), moved_over("top1", 0), moved_over("bottom1", 1)], []),
        ([moved_over("total", 0), moved_over("top1", 0), moved_over("total", 1)], ["CommAnalyzerMatrix[2]"]),
        ([moved_over("top1", 0)], []),
    ],
)
def test_links_have_a_total_and_a_fastest_one(rows, said):
    places = found("links_of_the_matrix_are_whole", {}, {"CommAnalyzerMatrix": rows})
    assert [place for place, _ in places] == said


MOVING = [{"name": ID["hcom_a"], "globalTaskId": one, "taskType": 100, "opId": 1} for one in (1, 2)]
SPAN = "operations_are_made_of_their_tasks"


def run_of(operation: tuple[int, int], *tasks: tuple[int, int, int]) -> Tables:
    """Return an operation from one time to another, and its tasks: number, start and end."""
    start, end = operation
    return {
        "STRING_IDS": texts("SDMA"),
        "COMMUNICATION_OP": [{**OPERATION[0], "startNs": start, "endNs": end}],
        "TASK": [{**task(number, begin, stop), "connectionId": 1, "taskType": 100} for number, begin, stop in tasks],
        "COMMUNICATION_TASK_INFO": MOVING,
    }


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (run_of((0, 19), (1, 0, 9), (2, 10, 19)), []),
        (run_of((0, 30), (1, 0, 9), (2, 10, 19)), [Severity.ERROR]),
        # A task beside its main stream ends later.
        (run_of((0, 9), (1, 0, 9), (2, 0, 19)), [Severity.WARNING]),
        # Tasks of a graph run again: no time is of one operation.
        (run_of((0, 30), (1, 0, 9), (2, 10, 19), (2, 110, 119)), []),
    ],
)
def test_an_operation_lasts_as_long_as_its_tasks(tables, said):
    assert [severity for _, code, severity in judged(SPAN, tables) if code == "I109"] == said


@pytest.mark.parametrize(("lost", "said"), [(0, []), (1, [Severity.WARNING]), (3, [Severity.ERROR])])
def test_a_single_launch_without_a_task_is_remarkable(lost, said):
    tables = {
        **LAUNCHES,
        "CANN_API": [called(100, one) for one in range(20)],  # type: ignore[arg-type]
        "TASK": [task(one, one, one) for one in range(lost, 20)],
    }
    assert [severity for *_, severity in judged("launches_of_the_database_ran", tables)] == said


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("NPU_MEM", {"type": 1, "timestampNs": 5}, [Severity.ERROR]),
        ("NPU_MODULE_MEM", {"moduleId": 1, "timestampNs": 5}, [Severity.WARNING]),
        ("AICORE_FREQ", {"deviceId": 0, "timestampNs": 5, "freq": 1800}, [Severity.WARNING]),
        ("ACC_PMU", {"accId": 0, "timestampNs": 5}, [Severity.WARNING]),
        ("RANK_DEVICE_MAP", {"rankId": 0, "deviceId": 0}, [Severity.WARNING]),
    ],
)
def test_a_reading_of_the_device_may_be_logged_twice(name, row, said):
    assert [severity for *_, severity in judged("rows_of_the_database_are_written_once", {name: [row, row]})] == said


@pytest.mark.parametrize(("elapse_ms", "said"), [(1000.0, []), (999.0, [Severity.WARNING]), (1001.0, [Severity.ERROR])])
def test_an_operation_may_take_less_on_its_main_stream(elapse_ms, said):
    check = "communication_of_the_database_is_what_ran"
    rows = judged(check, {"COMMUNICATION_OP": [RAN]}, {"CommAnalyzerTime": [timed("hcom_a", 1e6, elapse_ms)]})
    assert [severity for *_, severity in rows] == said


@pytest.mark.parametrize(("table", "said"), [("HBM", [Severity.ERROR]), ("NPU_MODULE_MEM", [Severity.WARNING])])
def test_a_driver_may_have_sampled_before_the_session(table, said):
    rows = judged(LIES, {table: [{"timestampNs": 10**18 - 3600 * 10**9}], **SESSION})
    assert [severity for *_, severity in rows] == said


def test_nobody_has_read_whether_mindspore_waits_for_its_launches(monkeypatch):
    monkeypatch.setitem(FILES, "ascend_pytorch_profiler", "ascend_mindspore_profiler_1.db")
    tables = {**LAUNCHES, "TASK": [task(1, 0, 9)]}
    assert [severity for *_, severity in judged("launches_of_the_database_ran", tables)] == [Severity.WARNING]
