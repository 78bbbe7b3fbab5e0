"""The SQLite exports of torch_npu and MindSpore: every fact a number, every text an id in STRING_IDS.

Tables and columns: real databases of torch_npu level 1 (msinsight test data). MindSpore's hold CANN's share of them.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.testing.ascend_communication import (
    bandwidth_info,
    by_kind,
    collectives_by_step,
    matrix_entries,
    time_info,
)
from perfguard.testing.ascend_memory import (
    MODULES,
    POOL_RESERVED,
    PROCESS_RESERVED,
    READING_NS,
    STREAM_POINTER,
    block_rows,
    memory_rows,
)
from perfguard.testing.ascend_operators import (
    COMPUTE_STREAM,
    FIRST_CONNECTION,
    NO_ID,
    call_stack,
    calls,
    collective_name,
    input_shapes,
    kernel_name,
    shape_text,
    torch_shapes,
    torch_types,
)
from perfguard.testing.ascend_steps import rows_of
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Collective, Kernel, Rank, Truth, of_step

#: Ids of the framework's own strings begin far above CANN's.
_FRAMEWORK_STRINGS = 1 << 28

_LEVELS = ("runtime", "hccl", "node", "model", "acl", "op", "queue")

_ENUMS = {
    "ENUM_API_TYPE": dict(zip((5000, 5500, 10000, 15000, 20000, 50001, 50002), _LEVELS, strict=True)),
    "ENUM_MODULE": dict(enumerate(MODULES)),
    "ENUM_HCCL_DATA_TYPE": {0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32"},
    "ENUM_HCCL_LINK_TYPE": {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 3: "ROCE"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 1: "RDMA", 2: "LOCAL"},
    "ENUM_HCCL_RDMA_TYPE": {0: "RDMA_SEND_NOTIFY", 1: "RDMA_SEND_PAYLOAD", 2: "RDMA_PAYLOAD_PREPARE"},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
}

_TABLES = {
    "SESSION_TIME_INFO": "startTimeNs INTEGER,endTimeNs INTEGER",
    "NPU_INFO": "id INTEGER,name TEXT",
    "HOST_INFO": "hostUid TEXT,hostName TEXT",
    "META_DATA": "name TEXT,value TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "STRING_IDS": "id INTEGER PRIMARY KEY,value TEXT",
    "TASK": (
        "startNs INTEGER,endNs INTEGER,deviceId INTEGER,connectionId INTEGER,globalTaskId INTEGER,globalPid INTEGER,"
        "taskType INTEGER,contextId INTEGER,streamId INTEGER,taskId INTEGER,modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER,globalTaskId INTEGER PRIMARY KEY,blockDim INTEGER,mixBlockDim INTEGER,taskType INTEGER,"
        "opType INTEGER,inputFormats INTEGER,inputDataTypes INTEGER,inputShapes INTEGER,outputFormats INTEGER,"
        "outputDataTypes INTEGER,outputShapes INTEGER,attrInfo INTEGER"
    ),
    "COMMUNICATION_OP": (
        "opName INTEGER,startNs INTEGER,endNs INTEGER,connectionId INTEGER,groupName INTEGER,opId INTEGER PRIMARY KEY,"
        "relay INTEGER,retry INTEGER,dataType INTEGER,algType INTEGER,count NUMERIC,opType INTEGER"
    ),
    "COMMUNICATION_TASK_INFO": (
        "name INTEGER,globalTaskId INTEGER,taskType INTEGER,planeId INTEGER,groupName INTEGER,notifyId INTEGER,"
        "rdmaType INTEGER,srcRank INTEGER,dstRank INTEGER,transportType INTEGER,size INTEGER,dataType INTEGER,"
        "linkType INTEGER,opId INTEGER"
    ),
    "CANN_API": (
        "startNs INTEGER,endNs INTEGER,type INTEGER,globalTid INTEGER,connectionId INTEGER PRIMARY KEY,name INTEGER"
    ),
    "NPU_MEM": "type INTEGER,ddr NUMERIC,hbm NUMERIC,timestampNs INTEGER,deviceId INTEGER",
    "NPU_MODULE_MEM": "moduleId INTEGER,timestampNs INTEGER,totalReserved NUMERIC,deviceId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER,timestampNs NUMERIC,freq INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "PYTORCH_API": (
        "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
        "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "MEMORY_RECORD": (
        "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, "
        "streamPtr INTEGER, deviceId INTEGER"
    ),
    "OP_MEMORY": (
        "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER, "
        "duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, "
        "allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER, "
        "releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER"
    ),
    "StepTraceTime": (
        "step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
        "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC"
    ),
    "ClusterStepTraceTime": (
        "step TEXT, type TEXT, [index] TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, "
        "overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC"
    ),
    "CommAnalyzerBandwidth": (
        "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, "
        "bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC, "
        "step TEXT, type TEXT"
    ),
    "CommAnalyzerMatrix": (
        "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, "
        "transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT"
    ),
    "CommAnalyzerTime": (
        "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC, "
        "wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT"
    ),
}

Row = tuple[object, ...]


@dataclass(slots=True)
class _Strings:
    """Ids of texts, in the order of first use."""

    first: int
    ids: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, self.first + len(self.ids))


def torch_database(truth: Truth, rank: Rank, *, memory: bool) -> bytes:
    """Write ascend_pytorch_profiler of one rank and cycle."""
    strings, words = _Strings(0), _Strings(_FRAMEWORK_STRINGS)
    tables = _device_tables(truth, rank, strings)
    tables["STEP_TIME"] = [(step.number, step.start_ns, step.end_ns) for step in rank.steps]
    tables |= _torch_operations(rank, words)
    if memory:
        tables |= _torch_memory(rank, words)
    tables["STRING_IDS"] = [(number, text) for one in (strings, words) for text, number in one.ids.items()]
    return _database(tables)


def mindspore_database(truth: Truth, rank: Rank, *, memory: bool) -> bytes:
    """Write ascend_mindspore_profiler of one rank and cycle: CANN's part."""
    strings = _Strings(0)
    tables = _device_tables(truth, rank, strings)
    if not memory:
        del tables["NPU_MODULE_MEM"]
    tables["STRING_IDS"] = [(number, text) for text, number in strings.ids.items()]
    return _database(tables)


def analysis_database(truth: Truth, rank: Rank, *, scheduled: bool, level: int) -> bytes:
    """Write torch_npu's analysis.db: times of steps, and from level 1 on those of communication."""
    tables: dict[str, list[Row]] = {"StepTraceTime": _step_rows(rank, scheduled=scheduled)}
    if level:
        tables |= _communication_tables(truth, rank, mindspore=False, scheduled=scheduled)
    return _database(tables)


def _step_rows(rank: Rank, *, scheduled: bool) -> list[Row]:
    """Return the rows of StepTraceTime: unlike those of the csv file, a step ends with its last task."""
    rows: list[Row] = []
    for step, number in rows_of(rank, scheduled=scheduled):
        computing = [(one.start_ns, one.end_ns) for one in of_step(rank.kernels, number)]
        collectives = of_step(rank.collectives, number)
        moving = [(one.start_ns, one.end_ns) for one in collectives]
        both = [*computing, *moving]
        busy, sent, whole = _covered(computing), _covered(moving), _covered(both)
        first, last = min(start for start, _ in both), max(end for _, end in both)
        bubble = sum(one.duration_ns for one in collectives if one.type == "receive")
        bare, span = whole - busy, last - first
        stage = (span - bubble, bubble, bare - bubble, first - step.start_ns)
        times = (busy, bare, sent - bare, sent, span - whole, *stage)
        rows.append(("" if number is None else str(number), *(ns / 1000 for ns in times)))
    return rows


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the length of time that the spans cover together."""
    length = until = 0
    for start, end in sorted(spans):
        length += max(0, end - max(start, until))
        until = max(until, end)
    return length


def communication_database(truth: Truth, rank: Rank, *, scheduled: bool, level: int) -> bytes:
    """Write MindSpore's communication_analyzer.db; the tables are empty at level 0."""
    tables = _communication_tables(truth, rank, mindspore=True, scheduled=scheduled)
    return _database(tables if level else {name: [] for name in tables})


def cluster_database(rows: list[list[object]]) -> bytes:
    """Write msprof-analyze's cluster_analysis.db from the rows of cluster_step_trace_time.csv."""
    return _database({"ClusterStepTraceTime": [(str(row[0]), *row[1:]) for row in rows]})


def _database(tables: dict[str, list[Row]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        connection = sqlite3.connect(path)
        try:
            with connection:
                for name, rows in tables.items():
                    columns = _TABLES.get(name, "id INTEGER PRIMARY KEY,name TEXT")
                    connection.execute(f"CREATE TABLE {name} ({columns})")
                    marks = ",".join("?" for _ in columns.split(","))
                    connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        finally:
            connection.close()
        return path.read_bytes()


def _device_tables(truth: Truth, rank: Rank, strings: _Strings) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {name: list(pairs.items()) for name, pairs in _ENUMS.items()}
    number = rank.number
    thread = rank.pid << 32 | rank.pid
    tables["SESSION_TIME_INFO"] = [(rank.start_ns, rank.end_ns)]
    tables["NPU_INFO"] = [(number, "Ascend910B")]
    tables["HOST_INFO"] = [("3538958389648580163", truth.host)]
    versions = {"MAJOR": "1", "MINOR": "0", "MICRO": "0"}
    tables["META_DATA"] = [("SCHEMA_VERSION", "1.0.0"), *((f"SCHEMA_VERSION_{k}", v) for k, v in versions.items())]
    tables["RANK_DEVICE_MAP"] = [(number, number)]
    tasks: list[Row] = []
    computing: list[Row] = []
    moving: list[Row] = []
    operations: list[Row] = []
    for i, one in enumerate(rank.kernels):
        kind = strings("KERNEL_AICORE" if one.operator.is_cube else "KERNEL_AIVEC")
        where = (kind, NO_ID, COMPUTE_STREAM, one.task, NO_ID)
        tasks.append((one.start_ns, one.end_ns, number, FIRST_CONNECTION + i, i, rank.pid, *where))
        computing.append(_kernel_row(one, i, strings))
    for i, collective in enumerate(rank.collectives, start=len(rank.kernels)):
        operations.append(_collective_row(truth, collective, i, strings))
        for link in collective.links:
            task, kind = len(tasks), strings("Memcpy")
            length = min(link.duration_ns, collective.duration_ns)
            # An operation lasts from its first task to its last one.
            start = collective.start_ns if link is not collective.links[-1] else collective.end_ns - length
            if len(collective.links) == 1:
                start, length = collective.start_ns, collective.duration_ns
            connection = FIRST_CONNECTION + i
            tasks.append((start, start + length, number, connection, task, rank.pid, kind, NO_ID, 4, 807, NO_ID))
            name, group = strings(collective_name(truth, collective)), strings(truth.group)
            link_type = {"LOCAL": 0, "HCCS": 1, "RDMA": 3}[link.transport]
            rdma, transport = (1, 1) if link.transport == "RDMA" else (65535, 0)
            ends = (link.source, link.target, transport, link.packet_bytes)
            moving.append((name, task, kind, 0, group, 0, rdma, *ends, 4, link_type, i))
    tables |= {"TASK": tasks, "COMPUTE_TASK_INFO": computing}
    tables |= {"COMMUNICATION_OP": operations, "COMMUNICATION_TASK_INFO": moving}
    types = {"acl": 20000, "node": 10000, "hccl": 5500}
    tables["CANN_API"] = [
        (
            call.start_ns,
            call.start_ns + call.duration_ns,
            types[call.level],
            thread,
            # An id is unique here, and leads to the tasks of a launch.
            call.connection if call.level == "node" else 100_000 + i,
            strings(call.name),
        )
        for i, call in enumerate(calls(rank))
    ]
    tables["NPU_MEM"] = [
        (strings("app"), 0, PROCESS_RESERVED, at, number) for at in range(rank.start_ns, rank.end_ns, READING_NS)
    ]
    tables["NPU_MODULE_MEM"] = [
        (module, rank.start_ns + READING_NS * reading, 1_048_576 * module, number)
        for reading in range(4)
        for module in range(len(MODULES))
    ]
    tables["AICORE_FREQ"] = [(number, rank.start_ns, 1800), (number, rank.end_ns, 1800)]
    return tables


def _kernel_row(one: Kernel, number: int, strings: _Strings) -> Row:
    operator = one.operator
    texts = (operator.kind.core, operator.type, "ND", "FLOAT", input_shapes(operator), "ND", "FLOAT")
    name = strings(kernel_name(one))
    return (name, number, 32, 0, *map(strings, (*texts, shape_text(operator.output), "N/A")))


def _collective_row(truth: Truth, one: Collective, number: int, strings: _Strings) -> Row:
    name, group = strings(collective_name(truth, one)), strings(truth.group)
    algorithm, kind = strings("MESH-RING"), strings(f"hcom_{one.type}_")
    return (
        name,
        one.start_ns,
        one.end_ns,
        FIRST_CONNECTION + number,
        group,
        number,
        0,
        0,
        4,
        algorithm,
        one.elements,
        kind,
    )


def _torch_operations(rank: Rank, words: _Strings) -> dict[str, list[Row]]:
    thread = rank.pid << 32 | rank.pid
    called: list[Row] = []
    connections: list[Row] = []
    chains: list[Row] = []
    for i, one in enumerate(host_operations(rank)):
        connections.append((i, 10_000 + i))
        chain = None if one.is_backward else i
        if chain is not None:
            chains += [(i, words(line), depth) for depth, line in enumerate(call_stack(one).split(";\r\n"))]
        called.append(_operation_row(one, i, thread, chain, words))
    for step in rank.steps:
        name = words(f"ProfilerStep#{step.number}")
        called.append((str(step.start_ns), str(step.end_ns), thread, None, name, None, None, None, None, None, 50001))
    return {"PYTORCH_API": called, "CONNECTION_IDS": connections, "PYTORCH_CALLCHAINS": chains}


def _operation_row(one: HostOperation, number: int, thread: int, chain: int | None, words: _Strings) -> Row:
    types = shapes = None
    if one.operator is not None:
        types = words(torch_types(one.operator))
        shapes = words(torch_shapes(one))
    forward = 1 if one.is_backward else 0
    name, start, end = words(one.name), str(one.start_ns), str(one.end_ns)
    return (start, end, thread, number, name, one.sequence, forward, types, shapes, chain, 50001)


def _torch_memory(rank: Rank, words: _Strings) -> dict[str, list[Row]]:
    records: list[Row] = []
    for one in memory_rows(rank, mindspore=False):
        if one.allocated is not None:
            stream = None if one.active is None else STREAM_POINTER
            sizes = (one.allocated, one.reserved, one.active)
            records.append((words(one.component), one.at_ns, *sizes, stream, rank.number))
    blocks: list[Row] = []
    for block in block_rows(rank, mindspore=False):
        end, at_start, at_end = block.end_ns, block.total_at_start, block.total_at_end
        length, released = (None, None) if end is None else (end - block.start_ns, POOL_RESERVED)
        totals = (at_start, POOL_RESERVED, at_start, at_end, released, at_end)
        times = (block.start_ns, end, end, length, length)
        blocks.append((words(block.name), block.size, *times, *totals, STREAM_POINTER, rank.number))
    return {"MEMORY_RECORD": records, "OP_MEMORY": blocks}


def _communication_tables(truth: Truth, rank: Rank, *, mindspore: bool, scheduled: bool) -> dict[str, list[Row]]:
    times: list[Row] = []
    speeds: list[Row] = []
    links: list[Row] = []
    group = truth.group
    for step, ones in collectives_by_step(rank, mindspore=mindspore, scheduled=scheduled):
        for one in ones:
            name, info = collective_name(truth, one), time_info(one)
            kind = "p2p" if one.is_point_to_point else "collective"
            times.append((name, group, *list(info.values())[:6], step, kind))
            for transport, part in bandwidth_info(one).items():
                rows = _packet_rows(part)
                speeds += [(name, group, transport, *row, step, kind) for row in rows]
        for kind, same in by_kind(ones).items():
            for name, link, entry in matrix_entries(truth, same):
                source, _, target = link.partition("-")
                moved, operation = list(entry.values())[:4], entry.get("Op Name", "")
                links.append((name, group, source, target, *moved, step, kind, operation))
    return {"CommAnalyzerTime": times, "CommAnalyzerBandwidth": speeds, "CommAnalyzerMatrix": links}


def _packet_rows(part: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each size of packet; zeros if the sizes are not known, no row without any data."""
    if not part["Transit Size(MB)"]:
        return
    whole = (part["Transit Size(MB)"], part["Transit Time(ms)"], part["Bandwidth(GB/s)"], part["Large Packet Ratio"])
    for size, (count, time) in part["Size Distribution"].items() or [("0", [0, 0])]:
        yield (*whole, float(size), count, time)
