"""The database export: tables of one rank against each other.

torch_npu writes `ascend_pytorch_profiler_<rank>.db` (UNIX times in ns, names as ids of STRING_IDS) and `analysis.db` (step
times in us, communication in ms); MindSpore the same as `ascend_mindspore_profiler_<rank>.db` and `communication_analyzer.db`.
Source, unless a function says otherwise: a real database export of torch_npu level 1 (msinsight test data), on which
everything here holds for every row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.database import (
    ANALYSES,
    LARGEST,
    MOST,
    PROFILERS,
    broken_rows,
    databases,
    integers,
    missing_table,
    row_count,
    table_frame,
    with_text,
)
from perfguard.dialects.invariants.database_steps import step_marks
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


#: Columns that hold an id of STRING_IDS.
_NAMES = {
    "TASK": ("taskType",),
    "COMPUTE_TASK_INFO": (
        "name",
        "taskType",
        "opType",
        "inputFormats",
        "inputDataTypes",
        "inputShapes",
        "outputFormats",
        "outputDataTypes",
        "outputShapes",
        "attrInfo",
    ),
    "CANN_API": ("name",),
    "COMMUNICATION_OP": ("opName", "groupName", "algType", "opType"),
    "COMMUNICATION_TASK_INFO": ("name", "taskType", "groupName"),
    "PYTORCH_API": ("name", "inputShapes", "inputDtypes"),
    "PYTORCH_CALLCHAINS": ("stack",),
    "MEMORY_RECORD": ("component",),
    "OP_MEMORY": ("name",),
    "NPU_OP_MEM": ("operatorName", "type", "component"),
    "TASK_PMU_INFO": ("name",),
    "NPU_MEM": ("type",),
    "HBM": ("type",),
    "LLC": ("mode",),
}
#: Other references: table and column -> table and column.
_REFERENCES = (
    ("COMPUTE_TASK_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("COMMUNICATION_TASK_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("COMMUNICATION_TASK_INFO", "opId", "COMMUNICATION_OP", "opId"),
    ("TASK_PMU_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("PYTORCH_API", "callchainId", "PYTORCH_CALLCHAINS", "id"),
    ("NPU_MODULE_MEM", "moduleId", "ENUM_MODULE", "id"),
    ("PYTORCH_API", "connectionId", "CONNECTION_IDS", "id"),
    ("CANN_API", "type", "ENUM_API_TYPE", "id"),
    ("PYTORCH_API", "type", "ENUM_API_TYPE", "id"),
    ("COMMUNICATION_OP", "dataType", "ENUM_HCCL_DATA_TYPE", "id"),
    ("COMMUNICATION_TASK_INFO", "dataType", "ENUM_HCCL_DATA_TYPE", "id"),
    ("COMMUNICATION_TASK_INFO", "linkType", "ENUM_HCCL_LINK_TYPE", "id"),
    ("COMMUNICATION_TASK_INFO", "transportType", "ENUM_HCCL_TRANSPORT_TYPE", "id"),
    ("COMMUNICATION_TASK_INFO", "rdmaType", "ENUM_HCCL_RDMA_TYPE", "id"),
    ("TASK", "deviceId", "NPU_INFO", "id"),
    ("RANK_DEVICE_MAP", "deviceId", "NPU_INFO", "id"),
)
#: In the enumerations of HCCL, from here on: none, unknown.
_NO_KIND = 65534
_SPANS = ("TASK", "COMMUNICATION_OP", "CANN_API", "PYTORCH_API", "STEP_TIME", "SESSION_TIME_INFO")
_TIMES = {
    "TASK": ("startNs", "endNs"),
    "COMMUNICATION_OP": ("startNs", "endNs"),
    "CANN_API": ("startNs", "endNs"),
    "PYTORCH_API": ("startNs", "endNs"),
    "STEP_TIME": ("startNs", "endNs"),
    "NPU_MEM": ("timestampNs",),
    "NPU_OP_MEM": ("timestampNs",),
    "NPU_MODULE_MEM": ("timestampNs",),
    "AICORE_FREQ": ("timestampNs",),
    "HBM": ("timestampNs",),
    "LLC": ("timestampNs",),
    "ACC_PMU": ("timestampNs",),
    "SOC_BANDWIDTH_LEVEL": ("timestampNs",),
    "MEMORY_RECORD": ("timestamp",),
    "OP_MEMORY": ("allocationTime", "releaseTime", "activeReleaseTime"),
}
_IDENTITIES = (
    ("STRING_IDS", "id"),
    ("TASK", "globalTaskId"),
    ("COMPUTE_TASK_INFO", "globalTaskId"),
    ("STEP_TIME", "id"),
)
#: Device times are joined with the session's by the profiler's own clock correlation.
_SESSION_NS = 10**10
#: No profiler runs for a month.
_LONGEST_NS = 31 * 86_400 * 10**9
#: Kinds of tasks that run code of an operator, or of a collective one, on the device's cores.
_KERNEL_TASKS = (
    "KERNEL_AICORE",
    "KERNEL_AIVEC",
    "KERNEL_MIX_AIC",
    "KERNEL_MIX_AIV",
    "AI_CORE",
    "AI_VECTOR_CORE",
    "MIX_AIC",
    "MIX_AIV",
)


@invariant()
def spans_of_the_database_have_two_ends(cycle: Cycle) -> Iterator[Finding]:
    """startNs <= endNs in every table of spans. Exact; events without duration are real (PROFILING_ENABLE)."""
    for artifact in databases(cycle, PROFILERS):
        for table in _SPANS:
            first, last = ("startTimeNs", "endTimeNs") if table == "SESSION_TIME_INFO" else ("startNs", "endNs")
            if (frame := table_frame(artifact, table, first, last)) is None:
                continue
            frame = frame.with_columns(start=integers(frame, first), end=integers(frame, last))
            yield from broken_rows(
                artifact,
                table,
                frame,
                frame["start"] > frame["end"],
                Code.I106,
                lambda row: f"it ends {row['start'] - row['end']} ns before it starts",
            )


@invariant()
def ids_of_the_database_resolve(cycle: Cycle) -> Iterator[Finding]:
    """Every name is an id of STRING_IDS; tasks, operations, modules, devices, kinds and call chains are in their own tables.

    Exact. The table they lead to is there (an enumeration may be missing in other versions). Not the connection ids of TASK:
    two of 552 are in no CANN_API of a correct database.
    """
    names = tuple((table, column, "STRING_IDS", "id") for table, columns in _NAMES.items() for column in columns)
    for artifact in databases(cycle, PROFILERS):
        lost: dict[str, str] = {}
        references = (*names, *_REFERENCES)
        unresolved = _unresolved(artifact, references)
        for table, column, other, key in references:
            frame = table_frame(artifact, table, column)
            if frame is None:
                continue
            if other not in artifact.content.tables:
                if frame[column].is_not_null().any() and not other.startswith(("ENUM_", "NPU_INFO")):
                    lost.setdefault(other, f"{table}.{column}")
                continue
            broken = frame[column].is_in(unresolved[other, key].implode())
            if other.startswith("ENUM_HCCL_"):
                broken &= integers(frame, column) < _NO_KIND
            yield from broken_rows(
                artifact,
                table,
                frame,
                broken,
                Code.I115,
                lambda row, column=column, other=other, key=key: (  # type: ignore[misc]
                    f"{column} is {row[column]}, which {other}.{key} does not have"
                ),
            )
        for other, column in lost.items():
            yield missing_table(artifact, other, f"{column} leads to it")


def _unresolved(
    artifact: Artifact, references: Iterable[tuple[str, str, str, str]]
) -> dict[tuple[str, str], pl.Series]:
    """Return the ids that a table is asked for and does not have, by table and column.

    All columns that lead to a table are looked up in it together: it may have millions of rows.
    """
    import polars as pl

    asked: dict[tuple[str, str], list[pl.Series]] = defaultdict(list)
    for table, column, other, key in references:
        if (frame := table_frame(artifact, table, column)) is not None:
            asked[other, key].append(frame[column].drop_nulls().unique().alias(key))
    found = {}
    for (other, key), ids in asked.items():
        if (there := table_frame(artifact, other, key)) is not None:
            wanted = pl.concat(ids).unique()
            found[other, key] = wanted.filter(~wanted.is_in(there[key].drop_nulls().implode()))
    return found


@invariant()
def ids_of_the_database_are_unique(cycle: Cycle) -> Iterator[Finding]:
    """One row for each id of STRING_IDS, TASK, COMPUTE_TASK_INFO and STEP_TIME. Exact."""
    for artifact in databases(cycle, PROFILERS):
        for table, column in _IDENTITIES:
            if (frame := table_frame(artifact, table, column)) is None:
                continue
            repeated = frame[column].is_not_null() & ~frame[column].is_first_distinct()
            yield from broken_rows(
                artifact,
                table,
                frame,
                repeated,
                Code.I114,
                lambda row, column=column: f"{column} {row[column]} has a second row",  # type: ignore[misc]
            )


@invariant()
def what_the_database_holds_lies_in_the_session(cycle: Cycle) -> Iterator[Finding]:
    """All times lie in the session SESSION_TIME_INFO tells of, within 10 s: else a table is of another run or unit."""
    for artifact in databases(cycle, PROFILERS):
        session = table_frame(artifact, "SESSION_TIME_INFO", "startTimeNs", "endTimeNs")
        if session is None or session.height != 1:
            continue
        begin, end = integers(session, "startTimeNs")[0], integers(session, "endTimeNs")[0]
        if begin is None or end is None:
            continue
        if end - begin > _LONGEST_NS:
            message = f"the session lasts {(end - begin) / 86_400e9:.6g} days"
            yield Finding(code=Code.I113, place=f"{artifact.place} SESSION_TIME_INFO", message=message)
        for table, columns in _TIMES.items():
            if (frame := table_frame(artifact, table, *columns)) is None:
                continue
            for column in columns:
                times = integers(frame, column)
                outside = (times < begin - _SESSION_NS) | (times > min(end + _SESSION_NS, LARGEST))
                yield from broken_rows(
                    artifact,
                    table,
                    frame.select(at=times),
                    outside,
                    Code.I113,
                    lambda row, column=column, begin=begin: (  # type: ignore[misc]
                        f"{column} is {(row['at'] - begin) / 1e9:.6g} s after the start of the session, outside of it"
                    ),
                )


@invariant()
def the_database_is_of_its_rank(cycle: Cycle) -> Iterator[Finding]:
    """The rank in the name of `..._profiler_<rank>.db` is one of RANK_DEVICE_MAP. Exact."""
    for artifact in databases(cycle, PROFILERS):
        named = re.search(r"_(\d+)\.db$", artifact.path.name)
        ranks = table_frame(artifact, "RANK_DEVICE_MAP", "rankId")
        if named is None or ranks is None or ranks.is_empty():
            continue
        said = ranks["rankId"].drop_nulls().to_list()
        if named[1] not in said:
            message = f"it says it is of rank {', '.join(said)}, the file's name says {named[1]}"
            yield Finding(code=Code.I113, place=f"{artifact.place} RANK_DEVICE_MAP", message=message)


@invariant()
def something_ran_according_to_the_database(cycle: Cycle) -> Iterator[Finding]:
    """TASK is there and has rows where the NPU was traced."""
    for artifact in databases(cycle, PROFILERS):
        tasks = table_frame(artifact, "TASK")
        # A table without rows may not be written at all; then somebody has to say that the NPU was traced.
        if cycle.conditions.get("npu", tasks is not None) and (tasks is None or tasks.is_empty()):
            yield Finding(
                code=Code.C112, place=f"{artifact.place} $.TASK", message="the NPU was traced, and no task is here"
            )


@invariant()
def what_ran_is_described(cycle: Cycle) -> Iterator[Finding]:
    """Kernels of TASK have COMPUTE_TASK_INFO: by their id, or that of another task of the same launch, or they communicate.

    Where the table is missing or empty, any kernel is an error (not where the profiler's level has none); else single ones
    are, where at least nine in ten have it. Exact on the real database: 17 of 202 are shadows of a task that is described.
    """
    import polars as pl

    for artifact in databases(cycle, PROFILERS):
        tasks = table_frame(artifact, "TASK", "taskType", "connectionId", "globalTaskId")
        if tasks is None or not cycle.conditions.get("aicore", True):
            continue
        tasks = with_text(artifact, tasks.with_row_index("row"), "taskType", "kind")
        operations = table_frame(artifact, "COMMUNICATION_OP", "connectionId")
        if operations is not None:
            tasks = tasks.join(operations.select("connectionId").drop_nulls(), on="connectionId", how="anti")
        kernels = tasks.filter(pl.col("kind").is_in(list(_KERNEL_TASKS)))
        if kernels.is_empty():
            continue
        described = table_frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId")
        ran = f"TASK has {kernels.height} kernels"
        if described is None:
            yield missing_table(artifact, "COMPUTE_TASK_INFO", ran)
            continue
        if described.is_empty():
            yield Finding(code=Code.C103, place=f"{artifact.place} COMPUTE_TASK_INFO", message=f"it has no rows, {ran}")
            continue
        launched = tasks.join(described, on="globalTaskId", how="semi")["connectionId"].drop_nulls()
        lost = kernels.join(described, on="globalTaskId", how="anti").filter(
            ~pl.col("connectionId").is_in(launched.unique().implode())
        )
        if lost.height > (1 - MOST) * kernels.height:
            continue
        place = artifact.content.tables["TASK"].place
        yield from disagreements(
            Code.I101,
            (
                (
                    f"{artifact.place}{place(row)}",
                    f"task {task} ({kind}) is a kernel, COMPUTE_TASK_INFO does not have it",
                )
                for row, task, kind in lost.sort("row").select("row", "globalTaskId", "kind").iter_rows()
            ),
            count=lost.height,
            place=f"{artifact.place} TASK",
        )


@invariant()
def tables_of_the_database_come_together(cycle: Cycle) -> Iterator[Finding]:
    """What is known to have been on has its tables: the memory, the steps, the communication.

    torch_npu writes MEMORY_RECORD and OP_MEMORY with profile_memory; STEP_TIME where PYTORCH_API has ProfilerStep#N (since
    it writes META_DATA too); all of CommAnalyzerTime, CommAnalyzerBandwidth and CommAnalyzerMatrix, from level 1 on; CANN's
    own calls at every level. Source: also torch_npu: prof_db_parse/.
    """
    for artifact in databases(cycle, ("ascend_pytorch_profiler",)):
        tables = artifact.content.tables
        known = cycle.conditions
        if row_count(artifact, "PYTORCH_API") and known.get("memory") and known.get("npu"):
            for table in ("MEMORY_RECORD", "OP_MEMORY"):
                if table not in tables:
                    yield missing_table(artifact, table, "profile_memory was on")
                elif not row_count(artifact, table):
                    message = "it has no rows, and profile_memory was on"
                    yield Finding(code=Code.I107, place=f"{artifact.place} {table}", message=message)
        marks = step_marks(artifact)
        if marks is not None and marks.height and "META_DATA" in tables and "STEP_TIME" not in tables:
            numbers = ", ".join(map(str, marks["id"].to_list()[:8]))
            yield missing_table(artifact, "STEP_TIME", f"PYTORCH_API marks steps {numbers}")
        for table in ("CONNECTION_IDS", "PYTORCH_CALLCHAINS"):
            if row_count(artifact, table) and "PYTORCH_API" not in tables:
                yield missing_table(artifact, "PYTORCH_API", f"{table} has {row_count(artifact, table)} rows")
        if row_count(artifact, "COMPUTE_TASK_INFO") and "CANN_API" not in tables and known.get("aicore"):
            yield missing_table(
                artifact, "CANN_API", f"COMPUTE_TASK_INFO has {row_count(artifact, 'COMPUTE_TASK_INFO')} rows"
            )
        for analysis in databases(cycle, ("analysis",)):
            there = analysis.content.tables
            if "StepTraceTime" not in there:
                yield missing_table(analysis, "StepTraceTime", "torch_npu always writes it")
            if row_count(artifact, "COMMUNICATION_OP") and known.get("level1") and known.get("npu"):
                for table in ("CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
                    if table not in there:
                        yield missing_table(analysis, table, f"{artifact.path.name} has operations in COMMUNICATION_OP")
                if "COMMUNICATION_TASK_INFO" not in tables:
                    yield missing_table(artifact, "COMMUNICATION_TASK_INFO", "COMMUNICATION_OP has operations")
    for analysis in databases(cycle, ANALYSES):
        for table in ("CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
            if row_count(analysis, table) and "CommAnalyzerTime" not in analysis.content.tables:
                yield missing_table(analysis, "CommAnalyzerTime", f"{table} has {row_count(analysis, table)} rows")
        for artifact in databases(cycle, PROFILERS):
            if row_count(analysis, "CommAnalyzerTime") and "COMMUNICATION_OP" not in artifact.content.tables:
                yield missing_table(
                    artifact, "COMMUNICATION_OP", f"CommAnalyzerTime in {analysis.path.name} has operations"
                )
