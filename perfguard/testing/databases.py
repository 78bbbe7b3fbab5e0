"""The SQLite exports of torch_npu and MindSpore: every fact a number, every text an id in STRING_IDS.

Tables and columns: real databases of torch_npu level 1 (msinsight test data). MindSpore's hold CANN's share of them.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from perfguard.testing import ascend_memory as memory
from perfguard.testing.ascend_communication import (
    bandwidth_info,
    by_kind,
    collectives_by_step,
    matrix_entries,
    time_info,
)
from perfguard.testing.ascend_operators import (
    COMPUTE_STREAM,
    FIRST_CONNECTION,
    NO_ID,
    calls,
)
from perfguard.testing.ascend_steps import database_step_rows
from perfguard.testing.formats import Row
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Collective, Link, Output, shape_text

#: Ids of the framework's own strings begin far above CANN's.
_FRAMEWORK_STRINGS = 1 << 28

_API_TYPES = {5000: "runtime", 5500: "hccl", 10000: "node", 15000: "model", 20000: "acl", 50001: "op", 50002: "queue"}

_ENUMS = {
    "ENUM_API_TYPE": _API_TYPES,
    "ENUM_MODULE": dict(enumerate(memory.MODULES)),
    "ENUM_HCCL_DATA_TYPE": {0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32"},
    "ENUM_HCCL_LINK_TYPE": {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 3: "ROCE"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 1: "RDMA", 2: "LOCAL"},
    "ENUM_HCCL_RDMA_TYPE": {0: "RDMA_SEND_NOTIFY", 1: "RDMA_SEND_PAYLOAD", 2: "RDMA_PAYLOAD_PREPARE"},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
}

_Tables = dict[str, list[Row]]


#: Ids of texts, in the order of first use.
_Strings = defaultdict[str, int]


def profiler_database(output: Output) -> bytes:
    """Write ascend_pytorch_profiler of one rank and cycle, or ascend_mindspore_profiler: CANN's part of it."""
    strings: _Strings = defaultdict(count().__next__)
    words: _Strings = defaultdict(count(_FRAMEWORK_STRINGS).__next__)
    tables = _device_tables(output, strings)
    if not output.version:
        tables["STEP_TIME"] = [(step.step, step.start_ns, step.end_ns) for step in output.rank.steps]
        tables |= _torch_operations(output, words)
        if output.on["memory"]:
            tables |= _torch_memory(output, words)
    elif not output.on["memory"]:
        del tables["NPU_MODULE_MEM"]
    tables["STRING_IDS"] = [(number, text) for ids in (strings, words) for text, number in ids.items()]
    return _database(tables)


def communication_database(output: Output) -> bytes:
    """Write torch_npu's analysis.db or MindSpore's communication_analyzer.db.

    torch_npu has the times of steps, and from level 1 on those of communication; MindSpore's tables are empty at level 0.
    """
    tables = _communication_tables(output)
    if output.version:
        return _database(tables if output.level else {name: [] for name in tables})
    return _database({"StepTraceTime": database_step_rows(output), **(tables if output.level else {})})


def cluster_database(rows: list[list[object]]) -> bytes:
    """Write msprof-analyze's cluster_analysis.db from the rows of cluster_step_trace_time.csv."""
    return _database({"ClusterStepTraceTime": [(str(row[0]), *row[1:]) for row in rows]})


def _database(tables: _Tables) -> bytes:
    statements = Path(__file__).with_name("databases.sql").read_text().splitlines()
    created = {statement.split()[2]: statement for statement in statements}
    with closing(sqlite3.connect(":memory:")) as connection:
        with connection:
            for name, rows in tables.items():
                statement = created.get(name, f"CREATE TABLE {name} (id INTEGER PRIMARY KEY,name TEXT)")
                connection.execute(statement)
                marks = ",".join("?" for _ in statement.split(","))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return connection.serialize()


def _device_tables(output: Output, strings: _Strings) -> _Tables:
    rank, number = output.rank, output.number
    tables: _Tables = {name: [*pairs.items()] for name, pairs in _ENUMS.items()}
    tables["SESSION_TIME_INFO"] = [(rank.start_ns, rank.end_ns)]
    tables["NPU_INFO"] = [(number, "Ascend910B")]
    tables["HOST_INFO"] = [("3538958389648580163", output.truth.host)]
    versions = {"": "1.0.0", "_MAJOR": "1", "_MINOR": "0", "_MICRO": "0"}
    tables["META_DATA"] = [(f"SCHEMA_VERSION{part}", value) for part, value in versions.items()]
    tables["RANK_DEVICE_MAP"] = [(number, number)]
    tables |= _tasks(output, strings)
    types = {name: number for number, name in _API_TYPES.items()}
    tables["CANN_API"] = [
        (
            call.start_ns,
            call.start_ns + call.duration_ns,
            types[call.level],
            _thread(output),
            # An id is unique here, and leads to the tasks of a launch.
            call.connection if call.level == "node" else 100_000 + i,
            strings[call.name],
        )
        for i, call in enumerate(calls(rank))
    ]
    readings = range(rank.start_ns, rank.end_ns, memory.READING_NS)
    tables["NPU_MEM"] = [(strings["app"], 0, memory.PROCESS_RESERVED, at, number) for at in readings]
    tables["NPU_MODULE_MEM"] = [
        (module, rank.start_ns + memory.READING_NS * reading, 1_048_576 * module, number)
        for reading in range(4)
        for module in range(len(memory.MODULES))
    ]
    tables["AICORE_FREQ"] = [(number, at, 1800) for at in (rank.start_ns, rank.end_ns)]
    return tables


def _thread(output: Output) -> int:
    return output.rank.pid << 32 | output.rank.pid


def _tasks(output: Output, strings: _Strings) -> _Tables:
    """Return the tables of kernels and collective operations; the tasks of both are numbered together."""
    rank = output.rank
    tasks: list[Row] = []
    computing: list[Row] = []
    moving: list[Row] = []
    operations: list[Row] = []
    for i, one in enumerate(rank.kernels):
        kind = strings["KERNEL_AICORE" if one.operator.is_cube else "KERNEL_AIVEC"]
        where = (kind, NO_ID, COMPUTE_STREAM, one.task, NO_ID)
        tasks.append((one.start_ns, one.end_ns, rank.number, FIRST_CONNECTION + i, i, rank.pid, *where))
        operator = one.operator
        formats, types = (";".join(word for _ in operator.input_shapes.split(";")) for word in ("ND", "FLOAT"))
        texts = [operator.core, operator.type, formats, types, operator.input_shapes, "ND", "FLOAT"]
        texts = [one.name, *texts, shape_text(operator.output), "N/A"]
        name, *kinds = (strings[text] for text in texts)
        computing.append((name, i, 32, 0, *kinds))
    for i, collective in enumerate(rank.collectives, start=len(rank.kernels)):
        texts = [output.truth.name_of(collective), output.truth.group, "MESH-RING", f"hcom_{collective.type}_"]
        name, group, algorithm, kind = (strings[text] for text in texts)
        times, connection = (collective.start_ns, collective.end_ns), FIRST_CONNECTION + i
        counts = (0, 0, 4, algorithm, collective.elements, kind)
        operations.append((name, *times, connection, group, i, *counts))
        for link in collective.links:
            task, kind = len(tasks), strings["Memcpy"]
            ids = (rank.number, connection, task, rank.pid)
            tasks.append((*_link_times(collective, link), *ids, kind, NO_ID, 4, 807, NO_ID))
            link_type = {"LOCAL": 0, "HCCS": 1, "RDMA": 3}[link.transport]
            rdma, transport = (1, 1) if link.transport == "RDMA" else (65535, 0)
            ends = (link.source, link.target, transport, link.packet_bytes)
            moving.append((name, task, kind, 0, group, 0, rdma, *ends, 4, link_type, i))
    tables = {"TASK": tasks, "COMPUTE_TASK_INFO": computing}
    return {**tables, "COMMUNICATION_OP": operations, "COMMUNICATION_TASK_INFO": moving}


def _link_times(one: Collective, link: Link) -> tuple[int, int]:
    """Return start and end of a link's task: an operation lasts from its first task to its last one."""
    if len(one.links) == 1:
        return one.start_ns, one.end_ns
    length = min(link.duration_ns, one.duration_ns)
    return (one.end_ns - length, one.end_ns) if link is one.links[-1] else (one.start_ns, one.start_ns + length)


def _torch_operations(output: Output, words: _Strings) -> _Tables:
    thread = _thread(output)
    called: list[Row] = []
    connections: list[Row] = []
    chains: list[Row] = []
    for i, one in enumerate(host_operations(output.rank)):
        connections.append((i, 10_000 + i))
        chain = None if one.is_backward else i
        if chain is not None:
            chains += [(i, words[line], depth) for depth, line in enumerate(one.call_stack.split(";\r\n"))]
        called.append(_operation_row(one, i, thread, chain, words))
    for step in output.rank.steps:
        name = words[f"ProfilerStep#{step.step}"]
        called.append((str(step.start_ns), str(step.end_ns), thread, None, name, None, None, None, None, None, 50001))
    return {"PYTORCH_API": called, "CONNECTION_IDS": connections, "PYTORCH_CALLCHAINS": chains}


def _operation_row(one: HostOperation, number: int, thread: int, chain: int | None, words: _Strings) -> Row:
    types = shapes = None
    if one.operator is not None:
        types = words[one.input_types]
        shapes = words[one.input_shapes]
    forward = 1 if one.is_backward else 0
    name, start, end = words[one.name], str(one.start_ns), str(one.end_ns)
    return (start, end, thread, number, name, one.sequence, forward, types, shapes, chain, 50001)


def _torch_memory(output: Output, words: _Strings) -> _Tables:
    records: list[Row] = []
    for one in memory.memory_rows(output.rank, mindspore=False):
        if one.allocated is not None:
            stream = None if one.active is None else memory.STREAM_POINTER
            records.append((words[one.component], *one[1:], stream, output.number))
    blocks: list[Row] = []
    for block, at_start, at_end in memory.block_totals(output.rank):
        end = block.end_ns
        length, reserved = (None, None) if end is None else (end - block.start_ns, memory.POOL_RESERVED)
        after = None if end is None else at_end
        totals = (at_start, memory.POOL_RESERVED, at_start, after, reserved, after)
        times = (block.start_ns, end, end, length, length)
        name = words[block.operator.torch]
        blocks.append((name, block.size, *times, *totals, memory.STREAM_POINTER, output.number))
    return {"MEMORY_RECORD": records, "OP_MEMORY": blocks}


def _communication_tables(output: Output) -> _Tables:
    times: list[Row] = []
    speeds: list[Row] = []
    links: list[Row] = []
    group = output.truth.group
    for step, ones in collectives_by_step(output):
        for one in ones:
            name, info = output.truth.name_of(one), time_info(one)
            kind = "p2p" if one.is_point_to_point else "collective"
            times.append((name, group, *list(info.values())[:6], step, kind))
            for transport, part in bandwidth_info(one).items():
                speeds += [(name, group, transport, *row, step, kind) for row in _packet_rows(part)]
        for kind, same in by_kind(ones).items():
            for name, link, entry, operation in matrix_entries(output, same):
                links.append((name, group, *link.split("-"), *entry.values(), step, kind, operation))
    return {"CommAnalyzerTime": times, "CommAnalyzerBandwidth": speeds, "CommAnalyzerMatrix": links}


def _packet_rows(part: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each size of packet; zeros if the sizes are not known, no row without any data."""
    if not part["Transit Size(MB)"]:
        return
    whole = (part["Transit Size(MB)"], part["Transit Time(ms)"], part["Bandwidth(GB/s)"], part["Large Packet Ratio"])
    for size, (packets, time) in part["Size Distribution"].items() or [("0", [0, 0])]:
        yield (*whole, float(size), packets, time)
