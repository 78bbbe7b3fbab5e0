"""The database export: tables of one rank against each other.

torch_npu writes `ascend_pytorch_profiler_<rank>.db` (UNIX times in ns, names as ids of STRING_IDS) and `analysis.db` (step
times in us, communication in ms); MindSpore the same as `ascend_mindspore_profiler_<rank>.db` and `communication_analyzer.db`.
Source, unless a function says otherwise: a real database export of torch_npu level 1 (msinsight test data), on which
everything here holds for every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.contract.executions import unquoted
from perfguard.contract.invariants import invariant
from perfguard.contract.invariants.ascend import quantities, quantity
from perfguard.contract.invariants.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract.inspection import Artifact, Cycle

_PROFILERS = ("ascend_pytorch_profiler", "ascend_mindspore_profiler")
_ANALYSES = ("analysis", "communication_analyzer")

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
#: The last Int64.
_LARGEST = 2**63 - 1
_EXACT_MS = 1e-6
_FOUR_DECIMALS = 1e-4
#: Three decimals of a microsecond, added up as floats.
_SUM_US = 0.002
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
_MOST = 0.9
#: CANN_API of this type launch what an operator runs.
_NODE = 10000
#: The two clocks of an operation's start: 21 us apart in real output; and they may drift.
_START_NS = 10**6
#: Each step is looked up among all tasks; a window has a few.
_MOST_STEPS = 200
_DRIFT = 10**4
#: The entry that adds up the operators of a step, in versions that write one.
_TOTAL = "Total Op Info"


def _databases(cycle: Cycle, slots: tuple[str, ...]) -> Iterator[Artifact]:
    for slot in slots:
        if slot in cycle.artifacts:
            yield cycle.artifacts[slot]


def _frame(artifact: Artifact, table: str, *columns: str) -> pl.DataFrame | None:
    """Return a table with at least these columns, or None where the database has no such table.

    A column in which every cell is NULL may be absent from what was read; it comes back as one of nulls.
    """
    import polars as pl

    if table not in artifact.content.tables:
        return None
    frame = artifact.content.tables[table].frame
    return frame.with_columns(
        pl.lit(None, dtype=pl.String).alias(name) for name in columns if name not in frame.columns
    )


def _integers(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a column as exact Int64; times are integers, or integers in text."""
    import polars as pl

    return frame[column].str.strip_chars('"').cast(pl.Int64, strict=False)


def _broken(
    artifact: Artifact, table: str, frame: pl.DataFrame, broken: pl.Series, code: Code, message: Callable[[Any], str]
) -> Iterator[Finding]:
    rows = broken.fill_null(False).arg_true().to_list()
    place = artifact.content.tables[table].place
    yield from disagreements(
        code,
        ((f"{artifact.place}{place(row)}", message(frame.row(row, named=True))) for row in rows),
        count=len(rows),
        place=f"{artifact.place} {table}",
    )


def _missing(artifact: Artifact, table: str, because: str) -> Finding:
    return Finding(code=Code.S102, place=artifact.place, message=f"table '{table}' is missing: {because}")


def _rows(artifact: Artifact | None, table: str) -> int:
    """Return how many rows a table has; none where it is missing."""
    if artifact is None or table not in artifact.content.tables:
        return 0
    return artifact.content.tables[table].frame.height


def _texts(artifact: Artifact) -> pl.DataFrame:
    """Return STRING_IDS as `id` (as its cells are) and `text`."""
    import polars as pl

    frame = _frame(artifact, "STRING_IDS", "id", "value")
    if frame is None:
        return pl.DataFrame(schema={"id": pl.String, "text": pl.String})
    return frame.select("id", text=unquoted("value")).unique("id", keep="first", maintain_order=True)


def _named(artifact: Artifact, frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """Return the frame with one more column: the text that an id of STRING_IDS stands for."""
    return frame.join(
        _texts(artifact).rename({"id": column, "text": name}), on=column, how="left", maintain_order="left"
    )


@invariant()
def spans_of_the_database_have_two_ends(cycle: Cycle) -> Iterator[Finding]:
    """startNs <= endNs in every table of spans. Exact; events without duration are real (PROFILING_ENABLE)."""
    for artifact in _databases(cycle, _PROFILERS):
        for table in _SPANS:
            first, last = ("startTimeNs", "endTimeNs") if table == "SESSION_TIME_INFO" else ("startNs", "endNs")
            if (frame := _frame(artifact, table, first, last)) is None:
                continue
            frame = frame.with_columns(start=_integers(frame, first), end=_integers(frame, last))
            yield from _broken(
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
    for artifact in _databases(cycle, _PROFILERS):
        lost: dict[str, str] = {}
        for table, column, other, key in (*names, *_REFERENCES):
            frame, there = _frame(artifact, table, column), _frame(artifact, other, key)
            if frame is None:
                continue
            if there is None:
                if frame[column].is_not_null().any() and not other.startswith(("ENUM_", "NPU_INFO")):
                    lost.setdefault(other, f"{table}.{column}")
                continue
            broken = frame[column].is_not_null() & ~frame[column].is_in(there[key].drop_nulls().unique().implode())
            if other.startswith("ENUM_HCCL_"):
                broken &= _integers(frame, column) < _NO_KIND
            yield from _broken(
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
            yield _missing(artifact, other, f"{column} leads to it")


@invariant()
def ids_of_the_database_are_unique(cycle: Cycle) -> Iterator[Finding]:
    """One row for each id of STRING_IDS, TASK, COMPUTE_TASK_INFO and STEP_TIME. Exact."""
    for artifact in _databases(cycle, _PROFILERS):
        for table, column in _IDENTITIES:
            if (frame := _frame(artifact, table, column)) is None:
                continue
            repeated = frame[column].is_not_null() & ~frame[column].is_first_distinct()
            yield from _broken(
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
    for artifact in _databases(cycle, _PROFILERS):
        session = _frame(artifact, "SESSION_TIME_INFO", "startTimeNs", "endTimeNs")
        if session is None or session.height != 1:
            continue
        begin, end = _integers(session, "startTimeNs")[0], _integers(session, "endTimeNs")[0]
        if begin is None or end is None:
            continue
        for table, columns in _TIMES.items():
            if (frame := _frame(artifact, table, *columns)) is None:
                continue
            for column in columns:
                times = _integers(frame, column)
                outside = (times < begin - _SESSION_NS) | (times > min(end + _SESSION_NS, _LARGEST))
                yield from _broken(
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
    for artifact in _databases(cycle, _PROFILERS):
        named = re.search(r"_(\d+)\.db$", artifact.path.name)
        ranks = _frame(artifact, "RANK_DEVICE_MAP", "rankId")
        if named is None or ranks is None or ranks.is_empty():
            continue
        said = ranks["rankId"].drop_nulls().to_list()
        if named[1] not in said:
            message = f"it says it is of rank {', '.join(said)}, the file's name says {named[1]}"
            yield Finding(code=Code.I113, place=f"{artifact.place} RANK_DEVICE_MAP", message=message)


@invariant()
def something_ran_according_to_the_database(cycle: Cycle) -> Iterator[Finding]:
    """TASK is there and has rows where the NPU was traced."""
    for artifact in _databases(cycle, _PROFILERS):
        tasks = _frame(artifact, "TASK")
        # A table without rows may not be written at all; then somebody has to say that the NPU was traced.
        if cycle.conditions.get("npu", tasks is not None) and (tasks is None or tasks.is_empty()):
            yield Finding(
                code=Code.C112, place=f"{artifact.place} $.TASK", message="the NPU was traced, and no task is here"
            )


@invariant()
def memory_of_the_database_adds_up(cycle: Cycle) -> Iterator[Finding]:
    """As in the text files, but exact: bytes and ns are integers.

    MEMORY_RECORD: timestamps in order for each component and device, allocated <= reserved. OP_MEMORY: both durations are
    differences of times, sizes are multiples of 512 bytes, allocated <= reserved at allocation and release.
    """
    import polars as pl

    for artifact in _databases(cycle, _PROFILERS):
        frame = _frame(
            artifact, "MEMORY_RECORD", "component", "deviceId", "timestamp", "totalAllocated", "totalReserved"
        )
        if frame is not None:
            frame = frame.with_columns(
                time=_integers(frame, "timestamp"),
                allocated=quantity(frame, "totalAllocated"),
                reserved=quantity(frame, "totalReserved"),
            ).with_columns(before=pl.col("time").shift(1).over("component", "deviceId"))
            yield from _broken(
                artifact,
                "MEMORY_RECORD",
                frame,
                frame["time"] < frame["before"],
                Code.I106,
                lambda row: (
                    f"its time lies {row['before'] - row['time']} ns before that of its component's previous row"
                ),
            )
            yield from _broken(
                artifact,
                "MEMORY_RECORD",
                frame,
                frame["allocated"] > frame["reserved"],
                Code.I107,
                lambda row: f"{row['allocated']:.0f} bytes are allocated, more than the {row['reserved']:.0f} reserved",
            )
        yield from _blocks(artifact)


def _blocks(artifact: Artifact) -> Iterator[Finding]:
    table = "OP_MEMORY"
    frame = _frame(
        artifact, table, "allocationTime", "releaseTime", "duration", "activeReleaseTime", "activeDuration", "size"
    )
    if frame is None:
        return
    for end, length in (("releaseTime", "duration"), ("activeReleaseTime", "activeDuration")):
        found = frame.with_columns(
            own=_integers(frame, length), life=_integers(frame, end) - _integers(frame, "allocationTime")
        )
        yield from _broken(
            artifact,
            table,
            found,
            found["own"] != found["life"],
            Code.I107,
            lambda row, end=end, length=length: (  # type: ignore[misc]
                f"{length} is {row['own']} ns, {end} - allocationTime is {row['life']} ns"
            ),
        )
    size = _integers(frame, "size")
    yield from _broken(
        artifact, table, frame, size % 512 != 0, Code.I107, lambda row: f"{row['size']} bytes are no multiple of 512"
    )
    for when in ("allocation", "release"):
        totals = quantities(frame, allocated=f"{when}TotalAllocated", reserved=f"{when}TotalReserved")
        yield from _broken(
            artifact,
            table,
            totals,
            totals["allocated"] > totals["reserved"],
            Code.I107,
            lambda row, when=when: (  # type: ignore[misc]
                f"at its {when} {row['allocated']:.0f} bytes are allocated, more than the {row['reserved']:.0f} reserved"
            ),
        )


@invariant()
def steps_of_the_database_add_up(cycle: Cycle) -> Iterator[Finding]:
    """The columns of StepTraceTime are made of each other, as in step_trace_time.csv and to the same tolerance (us).

    Its steps are those of STEP_TIME in the database beside it.
    """
    import polars as pl

    columns = {
        "computing": "computing",
        "exposed": "communication_not_overlapped",
        "over": "overlapped",
        "whole": "communication",
        "idle": "free",
        "span": "stage",
        "gap": "bubble",
        "sent": "communication_not_overlapped_and_exclude_receive",
    }
    for artifact in _databases(cycle, _ANALYSES):
        frame = _frame(artifact, "StepTraceTime", "step", "deviceId")
        if frame is None:
            continue
        frame = quantities(frame, **columns)
        frame = frame.with_columns(alone=pl.len().over("deviceId") == 1)
        for wrong, message in (
            (
                (frame["whole"] - frame["exposed"] - frame["over"]).abs() > 0.002,
                lambda row: (
                    f"overlapped is {row['over']:.9g} us, the rest of communication is "
                    f"{row['whole'] - row['exposed']:.9g} us"
                ),
            ),
            (
                (frame["exposed"] - frame["gap"] - frame["sent"]).abs() > 0.002,
                lambda row: (
                    f"communication without receive is {row['sent']:.9g} us, what is not overlapped minus bubble is "
                    f"{row['exposed'] - row['gap']:.9g} us"
                ),
            ),
        ):
            yield from _broken(artifact, "StepTraceTime", frame, wrong, Code.I108, message)
        off = frame["computing"] + frame["exposed"] + frame["idle"] - frame["span"] - frame["gap"]
        yield from _broken(
            artifact,
            "StepTraceTime",
            frame,
            (off > 0.5) | (frame["alone"] & (off < -0.5)),
            Code.I108,
            lambda row: (
                f"computing + communication not overlapped + free is {row['computing'] + row['exposed'] + row['idle']:.9g} us, "
                f"stage + bubble is {row['span'] + row['gap']:.9g} us"
            ),
        )
        steps = {text.strip('"') for text in frame["step"].drop_nulls().to_list()} - {""}
        for profiler in _databases(cycle, _PROFILERS):
            marked = _frame(profiler, "STEP_TIME", "id")
            if marked is None or marked.is_empty() or not steps:
                continue
            there = set(marked["id"].drop_nulls().to_list())
            if steps != there:
                yield Finding(
                    code=Code.I113,
                    place=f"{artifact.place} StepTraceTime",
                    message=f"it holds steps {', '.join(sorted(steps))}, STEP_TIME in {profiler.path.name} steps "
                    f"{', '.join(sorted(there))}",
                )


@invariant()
def communication_of_the_database_adds_up(cycle: Cycle) -> Iterator[Finding]:
    """As in communication.json: idle, bandwidths, and package sizes; times in ms, sizes in MB.

    idle = elapse - transit - wait, synchronization <= wait (1e-6 ms); bandwidth = size / time (1e-4); where a link of an
    operation lists its packages they add up to its size and time (1e-6), and its rows repeat one size, time and bandwidth.
    """
    for artifact in _databases(cycle, _ANALYSES):
        times = _frame(artifact, "CommAnalyzerTime")
        if times is not None:
            times = quantities(
                times,
                elapse="elapse_time",
                transit="transit_time",
                wait="wait_time",
                synchronization="synchronization_time",
                idle="idle_time",
            )
            yield from _broken(
                artifact,
                "CommAnalyzerTime",
                times,
                (times["elapse"] - times["transit"] - times["wait"] - times["idle"]).abs() > _EXACT_MS,
                Code.I109,
                lambda row: (
                    f"idle is {row['idle']:.9g} ms, elapse - transit - wait is "
                    f"{row['elapse'] - row['transit'] - row['wait']:.9g} ms"
                ),
            )
            yield from _broken(
                artifact,
                "CommAnalyzerTime",
                times,
                times["synchronization"] > times["wait"] + _EXACT_MS,
                Code.I109,
                lambda row: f"synchronization is {row['synchronization']:.9g} ms, more than wait, {row['wait']:.9g} ms",
            )
        for table in ("CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
            yield from _bandwidths(artifact, table)
        yield from _packages(artifact)


def _bandwidths(artifact: Artifact, table: str) -> Iterator[Finding]:
    import polars as pl

    if (frame := _frame(artifact, table)) is None:
        return
    frame = quantities(frame, size="transit_size", time="transit_time", own="bandwidth").with_columns(
        real=pl.when(pl.col("time") > 0).then(pl.col("size") / pl.col("time")).otherwise(0.0)
    )
    yield from _broken(
        artifact,
        table,
        frame,
        (frame["own"] - frame["real"]).abs() > _FOUR_DECIMALS + 1e-6 * frame["real"],
        Code.I109,
        lambda row: (
            f"bandwidth is {row['own']:.9g} GB/s, {row['size']:.9g} MB in {row['time']:.9g} ms are {row['real']:.4f}"
        ),
    )


def _packages(artifact: Artifact) -> Iterator[Finding]:
    import polars as pl

    keys = ("hccl_op_name", "group_name", "transport_type", "step", "type")
    if (frame := _frame(artifact, "CommAnalyzerBandwidth", *keys)) is None:
        return
    frame = quantities(
        frame, size="transit_size", time="transit_time", each="package_size", packages="count", lasted="total_duration"
    )
    frame = frame.with_columns(
        sizes=(pl.col("each") * pl.col("packages")).sum().over(keys),
        times=pl.col("lasted").sum().over(keys),
        listed=(pl.col("packages") > 0).any().over(keys),
    )
    off = pl.max_horizontal((pl.col("size") - pl.col("sizes")).abs(), (pl.col("time") - pl.col("times")).abs())
    slack = _EXACT_MS + 1e-9 * pl.max_horizontal(pl.col("sizes"), pl.col("times"))
    yield from _broken(
        artifact,
        "CommAnalyzerBandwidth",
        frame,
        frame.select(pl.col("listed") & (off > slack)).to_series(),
        Code.I109,
        lambda row: (
            f"{row['size']:.9g} MB in {row['time']:.9g} ms, the packages of its link add up to {row['sizes']:.9g} MB in "
            f"{row['times']:.9g} ms"
        ),
    )


@invariant()
def what_ran_is_described(cycle: Cycle) -> Iterator[Finding]:
    """Kernels of TASK have COMPUTE_TASK_INFO: by their id, or that of another task of the same launch, or they communicate.

    Where the table is missing or empty, any kernel is an error (not where the profiler's level has none); else single ones
    are, where at least nine in ten have it. Exact on the real database: 17 of 202 are shadows of a task that is described.
    """
    import polars as pl

    for artifact in _databases(cycle, _PROFILERS):
        tasks = _frame(artifact, "TASK", "taskType", "connectionId", "globalTaskId")
        if tasks is None or not cycle.conditions.get("aicore", True):
            continue
        tasks = _named(artifact, tasks.with_row_index("row"), "taskType", "kind")
        operations = _frame(artifact, "COMMUNICATION_OP", "connectionId")
        if operations is not None:
            tasks = tasks.join(operations.select("connectionId").drop_nulls(), on="connectionId", how="anti")
        kernels = tasks.filter(pl.col("kind").is_in(list(_KERNEL_TASKS)))
        if kernels.is_empty():
            continue
        described = _frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId")
        ran = f"TASK has {kernels.height} kernels"
        if described is None:
            yield _missing(artifact, "COMPUTE_TASK_INFO", ran)
            continue
        if described.is_empty():
            yield Finding(code=Code.C103, place=f"{artifact.place} COMPUTE_TASK_INFO", message=f"it has no rows, {ran}")
            continue
        launched = tasks.join(described, on="globalTaskId", how="semi")["connectionId"].drop_nulls()
        lost = kernels.join(described, on="globalTaskId", how="anti").filter(
            ~pl.col("connectionId").is_in(launched.unique().implode())
        )
        if lost.height > (1 - _MOST) * kernels.height:
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
    for artifact in _databases(cycle, ("ascend_pytorch_profiler",)):
        tables = artifact.content.tables
        known = cycle.conditions
        if _rows(artifact, "PYTORCH_API") and known.get("memory") and known.get("npu"):
            for table in ("MEMORY_RECORD", "OP_MEMORY"):
                if table not in tables:
                    yield _missing(artifact, table, "profile_memory was on")
                elif not _rows(artifact, table):
                    message = "it has no rows, and profile_memory was on"
                    yield Finding(code=Code.I107, place=f"{artifact.place} {table}", message=message)
        marks = _step_marks(artifact)
        if marks is not None and marks.height and "META_DATA" in tables and "STEP_TIME" not in tables:
            numbers = ", ".join(map(str, marks["id"].to_list()[:8]))
            yield _missing(artifact, "STEP_TIME", f"PYTORCH_API marks steps {numbers}")
        for table in ("CONNECTION_IDS", "PYTORCH_CALLCHAINS"):
            if _rows(artifact, table) and "PYTORCH_API" not in tables:
                yield _missing(artifact, "PYTORCH_API", f"{table} has {_rows(artifact, table)} rows")
        if _rows(artifact, "COMPUTE_TASK_INFO") and "CANN_API" not in tables and known.get("aicore"):
            yield _missing(artifact, "CANN_API", f"COMPUTE_TASK_INFO has {_rows(artifact, 'COMPUTE_TASK_INFO')} rows")
        for analysis in _databases(cycle, ("analysis",)):
            there = analysis.content.tables
            if "StepTraceTime" not in there:
                yield _missing(analysis, "StepTraceTime", "torch_npu always writes it")
            if _rows(artifact, "COMMUNICATION_OP") and known.get("level1") and known.get("npu"):
                for table in ("CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
                    if table not in there:
                        yield _missing(analysis, table, f"{artifact.path.name} has operations in COMMUNICATION_OP")
                if "COMMUNICATION_TASK_INFO" not in tables:
                    yield _missing(artifact, "COMMUNICATION_TASK_INFO", "COMMUNICATION_OP has operations")
    for analysis in _databases(cycle, _ANALYSES):
        for table in ("CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
            if _rows(analysis, table) and "CommAnalyzerTime" not in analysis.content.tables:
                yield _missing(analysis, "CommAnalyzerTime", f"{table} has {_rows(analysis, table)} rows")
        for artifact in _databases(cycle, _PROFILERS):
            if _rows(analysis, "CommAnalyzerTime") and "COMMUNICATION_OP" not in artifact.content.tables:
                yield _missing(artifact, "COMMUNICATION_OP", f"CommAnalyzerTime in {analysis.path.name} has operations")


def _step_marks(artifact: Artifact) -> pl.DataFrame | None:
    """Return the events ProfilerStep#N of PYTORCH_API that occur once, as `id`, `start` and `end` [ns]."""
    import polars as pl

    called = _frame(artifact, "PYTORCH_API", "name", "startNs", "endNs")
    if called is None:
        return None
    texts = _texts(artifact).select(
        name="id", id=pl.col("text").str.extract(r"^ProfilerStep#(\d{1,18})$").cast(pl.Int64)
    )
    marks = called.join(texts.drop_nulls(), on="name", how="inner", maintain_order="left")
    marks = marks.select("id", start=_integers(marks, "startNs"), end=_integers(marks, "endNs"))
    return marks.filter(pl.len().over("id") == 1).drop_nulls()


@invariant(needs=("ascend_pytorch_profiler",))
def steps_are_the_marks_of_the_host(cycle: Cycle) -> Iterator[Finding]:
    """STEP_TIME has the steps ProfilerStep#N of PYTORCH_API, from their start to their end. Exact."""
    artifact = cycle.artifacts["ascend_pytorch_profiler"]
    steps, marks = _frame(artifact, "STEP_TIME", "id", "startNs", "endNs"), _step_marks(artifact)
    if steps is None or marks is None or marks.is_empty():
        return
    steps = steps.with_columns(
        id=_integers(steps, "id"), begin=_integers(steps, "startNs"), until=_integers(steps, "endNs")
    )
    for number in marks.filter(~marks["id"].is_in(steps["id"].drop_nulls().implode()))["id"].to_list():
        message = f"PYTORCH_API marks step {number} (ProfilerStep#{number}), STEP_TIME does not have it"
        yield Finding(code=Code.I113, place=f"{artifact.place} STEP_TIME", message=message)
    both = steps.join(marks, on="id", how="left", maintain_order="left")
    yield from _broken(
        artifact,
        "STEP_TIME",
        both,
        (both["begin"] != both["start"]) | (both["until"] != both["end"]),
        Code.I108,
        lambda row: (
            f"step {row['id']} lasts from {row['begin']} to {row['until']} ns, ProfilerStep#{row['id']} in PYTORCH_API from "
            f"{row['start']} to {row['end']} ns"
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """What ran on a device, with `start` and `end` [ns]: tasks (`connection`, `task`), and whole collective operations."""

    tasks: pl.DataFrame
    #: Ids of tasks that compute.
    computing: pl.Series
    #: Tasks that communicate: `task` and `is_receive`.
    moving: pl.DataFrame
    #: Operations: `name`, `connection`, `is_receive`.
    operations: pl.DataFrame
    #: Launches of operators: `connection`.
    launches: pl.DataFrame


def _ran(artifact: Artifact) -> _Ran | None:
    import polars as pl

    tasks = _frame(artifact, "TASK", "startNs", "endNs", "connectionId", "globalTaskId", "deviceId")
    described = _frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId")
    calls = _frame(artifact, "CANN_API", "type", "startNs", "endNs", "connectionId")
    if tasks is None or described is None or calls is None or tasks["deviceId"].n_unique() > 1:
        return None

    def spans(frame: pl.DataFrame, **more: pl.Series) -> pl.DataFrame:
        times = {"start": _integers(frame, "startNs"), "end": _integers(frame, "endNs")}
        return frame.with_columns(**times, connection=_integers(frame, "connectionId"), **more)

    tasks = spans(tasks, task=_integers(tasks, "globalTaskId"))
    receives = pl.col("label").str.starts_with("hcom_receive").fill_null(False)
    moving = _frame(artifact, "COMMUNICATION_TASK_INFO", "globalTaskId", "name")
    empty = pl.DataFrame(schema={"task": pl.Int64, "is_receive": pl.Boolean})
    if moving is not None:
        moving = _named(artifact, moving, "name", "label").with_columns(task=_integers(moving, "globalTaskId"))
    operations = _operations(artifact)
    return _Ran(
        tasks=tasks.select("start", "end", "connection", "task"),
        computing=_integers(described, "globalTaskId").drop_nulls().unique(),
        moving=empty if moving is None else moving.select("task", is_receive=receives).unique("task"),
        operations=operations.with_columns(is_receive=receives),
        launches=spans(calls.filter(_integers(calls, "type") == _NODE)).select("start", "end", "connection"),
    )


def _operations(artifact: Artifact) -> pl.DataFrame:
    """Return COMMUNICATION_OP as `row`, `label`, `start`, `end` [ns] and `connection`; no rows where it is missing."""
    import polars as pl

    frame = _frame(artifact, "COMMUNICATION_OP", "opName", "startNs", "endNs", "connectionId")
    if frame is None:
        numbers = dict.fromkeys(("row", "start", "end", "connection"), pl.Int64)
        return pl.DataFrame(schema={**numbers, "label": pl.String})
    frame = frame.with_columns(
        start=_integers(frame, "startNs"), end=_integers(frame, "endNs"), connection=_integers(frame, "connectionId")
    )
    frame = _named(artifact, frame.with_row_index("row"), "opName", "label")
    return frame.select(pl.col("row").cast(pl.Int64), "label", "start", "end", "connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What belongs to one step by the rules of torch_npu; `start` and `end` [ns] are where it lies on the device."""

    start: int
    end: int
    #: Pairs of what computes and what communicates in it: three versions tell them differently.
    versions: tuple[tuple[pl.DataFrame, pl.DataFrame], ...]


def _step(ran: _Ran, begin: int | None, until: int | None) -> _Step:
    """Find what belongs to the step the host marked from `begin` to `until`; without these, to the only one there is."""
    import polars as pl

    launches = ran.launches
    if begin is not None and until is not None:
        launches = launches.filter((pl.col("start") >= begin) & (pl.col("end") <= until))
    launched = ran.tasks.join(launches.select("connection").drop_nulls(), on="connection", how="semi")
    first, last = launched["start"].min(), launched["end"].max()
    start = int(first) if isinstance(first, int) else begin or 0
    end = max(int(last) if isinstance(last, int) else 0, until if until is not None else 2**62)
    inside = (pl.col("start") >= start) & (pl.col("start") < end)
    of_tasks = pl.col("task").is_in(ran.computing.implode())
    operations = ran.operations.filter(inside)
    own = operations.join(ran.tasks.select("connection").drop_nulls(), on="connection", how="semi")
    moving = launched.join(ran.moving, on="task", how="inner")
    computing = launched.filter(of_tasks)
    return _Step(
        start=start,
        end=end,
        versions=((computing, operations), (ran.tasks.filter(inside & of_tasks), own), (computing, moving)),
    )


def _union(spans: pl.DataFrame) -> int:
    """Return the length [ns] of what the spans cover."""
    import polars as pl

    ends = spans.select("start", "end").drop_nulls().sort("start")
    free = pl.max_horizontal("start", pl.col("end").cum_max().shift(1))
    return int(ends.select((pl.col("end") - free).clip(lower_bound=0).sum()).item() or 0)


def _step_times(computing: pl.DataFrame, moving: pl.DataFrame) -> dict[str, float]:
    """Return the columns of StepTraceTime, in us, of what computed and what communicated."""
    import polars as pl

    both = pl.concat([computing.select("start", "end"), moving.select("start", "end")])
    if both.is_empty():
        return dict.fromkeys(
            ("computing", "communication", "communication_not_overlapped", "free", "stage", "bubble"), 0.0
        )
    whole, busy, sent = _union(both), _union(computing), _union(moving)
    span = both.select(pl.col("end").max() - pl.col("start").min()).item() or 0
    gap = moving.filter("is_receive").select((pl.col("end") - pl.col("start")).sum()).item() or 0
    found = {
        "computing": busy,
        "communication": sent,
        "communication_not_overlapped": whole - busy,
        "free": span - whole,
        "stage": span - gap,
        "bubble": gap,
    }
    return {name: length / 1000 for name, length in found.items()}


def _marked_steps(artifact: Artifact) -> dict[str, tuple[int | None, int | None]]:
    """Return start and end [ns] of each step of STEP_TIME; of the first ones, where there are very many."""
    frame = _frame(artifact, "STEP_TIME", "id", "startNs", "endNs")
    if frame is None:
        return {}
    frame = frame.head(_MOST_STEPS)
    names = frame["id"].str.strip_chars('"').to_list()
    spans = zip(_integers(frame, "startNs").to_list(), _integers(frame, "endNs").to_list(), strict=True)
    return {name: span for name, span in zip(names, spans, strict=True) if name is not None and None not in span}


@invariant(needs=("ascend_pytorch_profiler", "analysis"))
def step_times_are_what_ran(cycle: Cycle) -> Iterator[Finding]:
    """A row of StepTraceTime = lengths of what its tasks of COMPUTE_TASK_INFO and its collective operations cover.

    To 0.002 us. Its tasks are those whose launch (CANN_API of type node) lies in the step's STEP_TIME; it reaches from
    the first of them to the end of the last or of the step, and its operations of COMMUNICATION_OP begin in there.
    Overlapped counts once; free is what is left from the first to the last, stage all of that but receives; `preparing` is
    how long after the start of the step the first begins. Newer versions take all tasks that begin in there; the oldest took
    the tasks of collective operations for these: a row has to agree with one version. Source: also torch_npu:
    prof_db_parse/_trace_step_time_db_parser.py and _step_info_db_parser.py; databases of one device only.
    """
    artifact, profiler = cycle.artifacts["analysis"], cycle.artifacts["ascend_pytorch_profiler"]
    frame, ran = _frame(artifact, "StepTraceTime", "step", "deviceId"), _ran(profiler)
    if frame is None or ran is None or frame["deviceId"].n_unique() > 1:
        return
    place, marked = artifact.content.tables["StepTraceTime"].place, _marked_steps(profiler)
    columns = ("computing", "communication", "communication_not_overlapped", "free", "stage", "bubble", "preparing")
    own = {name: quantity(frame, name).to_list() for name in columns}
    names = [(text or "").strip('"') for text in frame["step"].to_list()]
    found: dict[Severity, list[tuple[str, str]]] = {Severity.ERROR: [], Severity.WARNING: []}
    for row, name in enumerate(names[:_MOST_STEPS]):
        if (name and name not in marked) or (not name and frame.height > 1):
            continue
        begin, until = marked[name] if name else (None, None)
        step = _step(ran, begin, until)
        told = [_step_times(*version) for version in step.versions]
        for times, (computing, moving) in zip(told, step.versions, strict=True):
            first = computing["start"].min()
            if begin is not None and isinstance(first, int):
                earliest = moving["start"].min()
                times["preparing"] = (min(first, earliest if isinstance(earliest, int) else first) - begin) / 1000
        wrong = min(
            (
                [
                    (column, value, there)
                    for column, there in times.items()
                    if (value := own[column][row]) is not None and abs(value - there) > _SUM_US + 1e-9 * abs(there)
                ]
                for times in told
            ),
            key=len,
        )
        where, which = f"{artifact.place}{place(row)}", f"in step {name}" if name else "in all"
        # Where most of it is another, so is the rule: a version nobody has read.
        severity = Severity.ERROR if 2 * len(wrong) <= len(told[0]) else Severity.WARNING
        found[severity] += [
            (
                where,
                f"{column} is {value:.9g} us, what ran {which} according to {profiler.path.name} makes {there:.9g} us",
            )
            for column, value, there in wrong
        ]
    for severity, rows in found.items():
        yield from disagreements(Code.I108, rows, place=f"{artifact.place} StepTraceTime", severity=severity)


@invariant()
def operations_are_made_of_their_tasks(cycle: Cycle) -> Iterator[Finding]:
    """An operation of COMMUNICATION_OP lasts from the start of its first task to the end of its last one. Exact.

    Its tasks, in COMMUNICATION_TASK_INFO, carry its name and its group. An operation without any is remarkable where others
    have some.
    """
    import polars as pl

    for artifact in _databases(cycle, _PROFILERS):
        operations = _frame(artifact, "COMMUNICATION_OP", "opId", "opName", "groupName", "startNs", "endNs")
        moving = _frame(artifact, "COMMUNICATION_TASK_INFO", "opId", "globalTaskId", "name", "groupName")
        tasks = _frame(artifact, "TASK", "globalTaskId", "startNs", "endNs")
        if operations is None or moving is None or tasks is None or operations.is_empty():
            continue
        if moving.is_empty():
            if not cycle.conditions.get("level1", True):
                continue
            message = f"it has no rows, and COMMUNICATION_OP has {operations.height} operations"
            yield Finding(code=Code.I109, place=f"{artifact.place} COMMUNICATION_TASK_INFO", message=message)
            continue
        tasks = tasks.select("globalTaskId", first=_integers(tasks, "startNs"), last=_integers(tasks, "endNs"))
        parts = moving.join(tasks.unique("globalTaskId"), on="globalTaskId", how="inner")
        sums = parts.group_by("opId").agg(
            pl.col("first").min(), pl.col("last").max(), pl.col("name").unique(), pl.col("groupName").unique(), pl.len()
        )
        frame = operations.with_columns(start=_integers(operations, "startNs"), end=_integers(operations, "endNs"))
        frame = frame.join(sums, on="opId", how="left", suffix=" of tasks", maintain_order="left")
        # Where most begin elsewhere, this version means something else by it.
        is_meant = 2 * int((frame["start"] != frame["first"]).sum()) <= frame.height
        yield from _broken(
            artifact,
            "COMMUNICATION_OP",
            frame,
            ((frame["start"] != frame["first"]) | (frame["end"] != frame["last"])) & is_meant,
            Code.I109,
            lambda row: (
                f"operation {row['opId']} lasts from {row['start']} to {row['end']} ns, its {row['len']} tasks in "
                f"COMMUNICATION_TASK_INFO from {row['first']} to {row['last']} ns"
            ),
        )
        for column, other in (("opName", "name"), ("groupName", "groupName of tasks")):
            yield from _broken(
                artifact,
                "COMMUNICATION_OP",
                frame,
                frame.select(pl.col(other).list.set_difference(pl.concat_list(column)).list.len() > 0).to_series(),
                Code.I109,
                lambda row, column=column, other=other: (  # type: ignore[misc]
                    f"operation {row['opId']}: {column} is {row[column]}, its tasks in COMMUNICATION_TASK_INFO have "
                    f"{', '.join(map(str, row[other]))}"
                ),
            )
        without = frame["len"].is_null() & frame["opId"].is_not_null()
        place = artifact.content.tables["COMMUNICATION_OP"].place
        yield from disagreements(
            Code.I109,
            (
                (
                    f"{artifact.place}{place(row)}",
                    f"operation {frame['opId'][row]} has no task in COMMUNICATION_TASK_INFO",
                )
                for row in without.arg_true().to_list()
            ),
            count=int(without.sum()),
            place=f"{artifact.place} COMMUNICATION_OP",
            severity=Severity.WARNING,
        )


@invariant()
def communication_tables_have_the_same_operations(cycle: Cycle) -> Iterator[Finding]:
    """An operation of CommAnalyzerBandwidth, and `op_name` of CommAnalyzerMatrix, has its row in CommAnalyzerTime. Exact.

    By step, group and name. `<type>-total` of a group in the matrix moved as much over its links between devices as
    CommAnalyzerBandwidth says of all operations of that type (1e-6 MB, ms), and is there for each type in it that moved.
    """
    import polars as pl

    keys = ["step", "group_name", "operation"]
    for artifact in _databases(cycle, _ANALYSES):
        times = _frame(artifact, "CommAnalyzerTime", "step", "group_name", "hccl_op_name")
        if times is None:
            continue
        plain = pl.col(keys).str.strip_chars('"').fill_null("")
        times = times.with_columns(operation="hccl_op_name").with_columns(plain)
        repeated = (
            ~times.select(pl.struct(*keys, pl.col("type") if "type" in times.columns else "operation"))
            .to_series()
            .is_first_distinct()
        )
        yield from _broken(
            artifact,
            "CommAnalyzerTime",
            times,
            repeated,
            Code.I114,
            lambda row: (
                f"operation {row['operation']} of group {row['group_name']} has a second row in {row['step'] or 'no step'}"
            ),
        )
        for table, column in (("CommAnalyzerBandwidth", "hccl_op_name"), ("CommAnalyzerMatrix", "op_name")):
            frame = _frame(artifact, table, "step", "group_name", column)
            if frame is None:
                continue
            frame = frame.with_columns(operation=column).with_columns(plain)
            known = frame.join(
                times.select(*keys, known=pl.lit(True)).unique(), on=keys, how="left", maintain_order="left"
            )
            yield from _broken(
                artifact,
                table,
                known,
                known["known"].is_null() & ~known["operation"].is_in(["", _TOTAL]),
                Code.I109,
                lambda row: (
                    f"operation {row['operation']} of group {row['group_name']} in {row['step'] or 'no step'} has no row in "
                    "CommAnalyzerTime"
                ),
            )
        yield from _matrix_totals(artifact)


def _matrix_totals(artifact: Artifact) -> Iterator[Finding]:
    import polars as pl

    links = _frame(artifact, "CommAnalyzerMatrix", "hccl_op_name", "group_name", "transport_type", "step")
    speeds = _frame(artifact, "CommAnalyzerBandwidth", "hccl_op_name", "group_name", "transport_type", "step")
    if links is None or speeds is None:
        return
    keys = ["step", "group_name", "kind"]
    links = quantities(links, size="transit_size", time="transit_time").with_columns(
        kind=pl.col("hccl_op_name").str.extract(r'^"([A-Za-z]+)-total"$')
    )
    # Versions that add nothing up name the operations themselves.
    if not links["hccl_op_name"].str.contains(r'-(top1|middle|bottom[123]|total)"$').any():
        return
    links = links.filter(pl.col("kind").is_not_null() & (pl.col("transport_type") != '"LOCAL"'))
    speeds = quantities(speeds, size="transit_size", time="transit_time").with_columns(
        kind=pl.col("hccl_op_name").str.extract(r'^"(?:hcom_)?([A-Za-z]+)').str.to_lowercase()
    )
    carried = pl.col("transport_type").is_in([f'"{one}"' for one in ("RDMA", "HCCS", "PCIE", "SIO")])
    speeds = speeds.filter(carried).unique([*keys, "hccl_op_name", "transport_type"])
    sums = [
        one.with_columns(pl.col(keys).str.strip_chars('"').fill_null(""))
        .group_by(keys)
        .agg(pl.col("size", "time").sum())
        for one in (links, speeds)
    ]
    both = sums[0].join(sums[1], on=keys, how="full", coalesce=True, suffix="_told").sort(keys).fill_null(0.0)
    off = pl.max_horizontal(
        (pl.col("size") - pl.col("size_told")).abs() - 1e-9 * pl.col("size_told"),
        (pl.col("time") - pl.col("time_told")).abs() - 1e-9 * pl.col("time_told"),
    )
    yield from disagreements(
        Code.I109,
        (
            (
                f"{artifact.place} CommAnalyzerMatrix",
                f"{kind}-total of group {group} in {step} is {size:.9g} MB in {time:.9g} ms between devices, the operations "
                f"in CommAnalyzerBandwidth moved {size_told:.9g} MB in {time_told:.9g} ms",
            )
            for step, group, kind, size, time, size_told, time_told in both.filter(off > _EXACT_MS)
            .select(*keys, "size", "time", "size_told", "time_told")
            .iter_rows()
        ),
        place=f"{artifact.place} CommAnalyzerMatrix",
    )


@invariant()
def communication_of_the_database_is_what_ran(cycle: Cycle) -> Iterator[Finding]:
    """CommAnalyzerTime = COMMUNICATION_OP, by name: elapse_time = endNs - startNs (2 ns), start_timestamp near startNs (1 ms).

    The start is told by another clock (21 us off for all four real operations), and both may drift (1e-4 of the session).
    Each operation in CommAnalyzerTime ran, and each that ran in a step has its row: in torch_npu where it begins further
    inside the step than the two clocks differ, in all between the first and the last operation of a step. Where no name is
    in both, that is said once. Source of the rule: also torch_npu: prof_db_parse/_communication_db_parser.py.
    """
    import polars as pl

    for artifact in _databases(cycle, _ANALYSES):
        table = "CommAnalyzerTime"
        times = _frame(artifact, table, "hccl_op_name", "step", "start_timestamp", "elapse_time")
        for profiler in _databases(cycle, _PROFILERS):
            ran = _operations(profiler)
            if times is None or ran.is_empty():
                continue
            rows = quantities(times, told="start_timestamp", elapse="elapse_time").with_row_index("place")
            rows = rows.with_columns(label=unquoted("hccl_op_name"), step=pl.col("step").fill_null(""))
            rows = rows.filter(pl.col("label") != _TOTAL)
            once = rows.filter(pl.len().over("label") == 1).join(
                ran.filter(pl.len().over("label") == 1), on="label", how="inner", maintain_order="left"
            )
            lost = rows.join(ran, on="label", how="anti")
            if rows.height and lost.height == rows.height:
                message = f"none of its {rows.height} operations is in COMMUNICATION_OP of {profiler.path.name}"
                yield Finding(code=Code.I113, place=f"{artifact.place} {table}", message=message)
                continue
            where = artifact.content.tables[table].place
            slack = _START_NS + _session_ns(profiler) // _DRIFT
            lasts = (pl.col("end") - pl.col("start")) / 1e6
            off = once.select((pl.col("told") * 1000 - pl.col("start")).abs().max()).item()
            apart = _START_NS if off is None else round(min(_START_NS, off + 1000))
            messages: tuple[tuple[pl.DataFrame, Callable[[dict[str, Any]], str]], ...] = (
                (lost, lambda row: f"operation {row['label']} did not run: COMMUNICATION_OP does not have it"),
                (
                    once.filter((pl.col("elapse") - lasts).abs() > 2 * _EXACT_MS + 1e-9 * lasts),
                    lambda row: (
                        f"elapse_time of {row['label']} is {row['elapse']:.9g} ms, in COMMUNICATION_OP it lasts "
                        f"{(row['end'] - row['start']) / 1e6:.9g} ms"
                    ),
                ),
                (
                    once.filter((pl.col("told") * 1000 - pl.col("start")).abs() > slack),
                    lambda row: (
                        f"{row['label']} starts at {row['told']:.3f} us here, at {row['start'] / 1000:.3f} us in "
                        "COMMUNICATION_OP"
                    ),
                ),
            )
            for found, message_of in messages:
                yield from disagreements(
                    Code.I109,
                    (
                        (f"{artifact.place}{where(row['place'])}", message_of(row))
                        for row in found.iter_rows(named=True)
                    ),
                    count=found.height,
                    place=f"{artifact.place} {table}",
                )
            without = ran.join(rows, on="label", how="anti").filter(_in_a_step(profiler, rows, ran, apart)).sort("row")
            there = profiler.content.tables["COMMUNICATION_OP"].place
            yield from disagreements(
                Code.I109,
                (
                    (
                        f"{profiler.place}{there(row)}",
                        f"operation {label} has no row in {table} of {artifact.path.name}",
                    )
                    for row, label in without.select("row", "label").iter_rows()
                ),
                count=without.height,
                place=f"{profiler.place} COMMUNICATION_OP",
            )


def _session_ns(profiler: Artifact) -> int:
    session = _frame(profiler, "SESSION_TIME_INFO", "startTimeNs", "endTimeNs")
    if session is None or session.height != 1:
        return 0
    begin, end = _integers(session, "startTimeNs")[0], _integers(session, "endTimeNs")[0]
    return max(end - begin, 0) if begin is not None and end is not None else 0


def _in_a_step(profiler: Artifact, rows: pl.DataFrame, operations: pl.DataFrame, apart: int) -> pl.Expr:
    """Return the expression that says whether an operation certainly belongs to a step, of clocks `apart` ns."""
    import polars as pl

    listed = rows.join(operations, on="label", how="inner").group_by("step")
    spans = list(listed.agg(pl.col("start").min(), pl.col("end").max()).select("start", "end").iter_rows())
    ran = _ran(profiler) if profiler.slot.name == "ascend_pytorch_profiler" else None
    if ran is not None:
        for begin, until in list(_marked_steps(profiler).values()) or [(None, None)]:
            step = _step(ran, begin, until)
            spans.append((step.start + apart, step.end - apart))
    return pl.any_horizontal(
        pl.lit(False),
        *((pl.col("start") > min(start, _LARGEST)) & (pl.col("start") < min(end, _LARGEST)) for start, end in spans),
    )


@invariant()
def counters_of_the_database_are_whole(cycle: Cycle) -> Iterator[Finding]:
    """Tasks of one kind (taskType of COMPUTE_TASK_INFO) have the same counters in TASK_PMU_INFO, each once.

    Exact; a kind may have none (DSA_SQE). A task without any where most others of its kind have some is a warning: the
    profiler may lose counters on the way. A unit whose time is counted has its ratio, and the other way round, as in
    kernel_details. Counters are of tasks in COMPUTE_TASK_INFO.
    """
    import polars as pl

    for artifact in _databases(cycle, _PROFILERS):
        table = "TASK_PMU_INFO"
        counted, described = (
            _frame(artifact, table, "globalTaskId", "name"),
            _frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId", "taskType"),
        )
        if counted is None or counted.is_empty() or described is None or described.is_empty():
            continue
        orphans = ~counted["globalTaskId"].is_in(described["globalTaskId"].unique().implode())
        yield from _broken(
            artifact,
            table,
            counted,
            orphans,
            Code.I115,
            lambda row: f"globalTaskId is {row['globalTaskId']}, which COMPUTE_TASK_INFO does not have",
        )
        frame = _named(artifact, counted, "name", "counter")
        yield from _broken(
            artifact,
            table,
            frame,
            ~frame.select(pl.struct("globalTaskId", "name")).to_series().is_first_distinct(),
            Code.I114,
            lambda row: f"task {row['globalTaskId']} has {row['counter']} twice",
        )
        sets = frame.group_by("globalTaskId").agg(counters=pl.col("counter").unique().sort())
        tasks = _named(artifact, described.with_row_index("row"), "taskType", "kind")
        tasks = tasks.join(sets, on="globalTaskId", how="left", maintain_order="left")
        usual = tasks.drop_nulls("counters").group_by("kind").agg(all=pl.col("counters").explode().unique().sort())
        tasks = tasks.join(usual, on="kind", how="inner", maintain_order="left")
        place = artifact.content.tables["COMPUTE_TASK_INFO"].place
        for severity, part in (
            (Severity.ERROR, tasks.filter(pl.col("counters") != pl.col("all"))),
            (Severity.WARNING, tasks.filter(pl.col("counters").is_null())),
        ):
            yield from disagreements(
                Code.I105,
                (
                    (
                        f"{artifact.place}{place(row)}",
                        f"task {task} ({kind}) has {len(own or ())} counters in {table}, others of its kind have "
                        f"{len(usual_)}: it lacks {', '.join(sorted(set(usual_) - set(own or ()))[:4])}",
                    )
                    for row, task, kind, own, usual_ in part.select(
                        "row", "globalTaskId", "kind", "counters", "all"
                    ).iter_rows()
                ),
                count=part.height,
                place=f"{artifact.place} COMPUTE_TASK_INFO",
                severity=severity,
            )
        yield from _lost_halves(artifact, set(frame["counter"].drop_nulls().unique().to_list()))


def _lost_halves(artifact: Artifact, counters: set[str]) -> Iterator[Finding]:
    ends = {end: {one.removesuffix(end) for one in counters if one.endswith(end)} for end in ("_time", "_ratio")}
    # Counters of the whole core have no ratio; other groups than PipeUtilization have no times of units.
    units = {one for one in ends["_time"] if not one.endswith(("_total", "aicore", "aiv", "aic"))}
    for core in ("aic", "aiv"):
        whole = {f"{core}_total_time", f"{core}_total_cycles"}
        if len(there := whole & counters) == 1:
            message = f"no task has {', '.join(whole - there)}, and there is {', '.join(there)}"
            yield Finding(code=Code.I105, place=f"{artifact.place} TASK_PMU_INFO", message=message)
    if not units:
        return
    for end, lost in (("_ratio", units - ends["_ratio"]), ("_time", ends["_ratio"] - units)):
        for unit in sorted(lost):
            other = "_time" if end == "_ratio" else "_ratio"
            message = f"no task has {unit}{end}, and there is {unit}{other}"
            yield Finding(code=Code.I105, place=f"{artifact.place} TASK_PMU_INFO", message=message)


@invariant(needs=("ascend_pytorch_profiler",))
def memory_tables_tell_the_same(cycle: Cycle) -> Iterator[Finding]:
    """What CANN wrote into NPU_OP_MEM is in MEMORY_RECORD (component GE) and OP_MEMORY; PTA+GE is the sum. Exact, bytes.

    A record of GE has time, allocated and reserved of a row of NPU_OP_MEM. A block is an allocation and the next release of
    the same operator and address. Each record of PTA or GE is followed by PTA+GE: itself and the last one of the other. When
    a block is allocated there is a record.
    Source: also torch_npu: prof_db_parse/_memory_db_parser.py.
    """
    import polars as pl

    artifact = cycle.artifacts["ascend_pytorch_profiler"]
    records = _frame(artifact, "MEMORY_RECORD", "component", "timestamp", "totalAllocated", "totalReserved", "deviceId")
    engine = _frame(artifact, "NPU_OP_MEM", "operatorName", "addr", "type", "size", "timestampNs")
    if records is not None:
        records = _named(artifact, records, "component", "label")
    if records is not None and records["deviceId"].n_unique() <= 1:
        yield from _sums_of_components(artifact, records)
        own = ["timestamp", "totalAllocated", "totalReserved"]
        if engine is not None and engine.height:
            made = engine.select("timestampNs", "totalAllocate", "totalReserve").rename(
                dict(zip(("timestampNs", "totalAllocate", "totalReserve"), own, strict=True))
            )
            ge = records.filter(pl.col("label") == "GE").select(own)
            sides = [one.group_by(own).len() for one in (ge, made)]
            both = sides[0].join(sides[1], on=own, how="full", coalesce=True, suffix="_made").fill_null(0)
            both = both.filter(pl.col("len") != pl.col("len_made")).sort("timestamp")
            yield from disagreements(
                Code.I107,
                (
                    (
                        f"{artifact.place} MEMORY_RECORD",
                        f"{count} records of GE at {at} ns with {allocated} bytes allocated and {reserved} reserved, "
                        f"NPU_OP_MEM has {told}",
                    )
                    for at, allocated, reserved, count, told in both.select(*own, "len", "len_made").iter_rows()
                ),
                count=both.height,
                place=f"{artifact.place} MEMORY_RECORD",
            )
    blocks = _frame(artifact, "OP_MEMORY", "name", "size", "allocationTime", "releaseTime")
    if records is not None and blocks is not None and records.height:
        yield from _records_of_blocks(artifact, records, blocks)
    if engine is not None and blocks is not None and engine.height:
        yield from _blocks_of_the_engine(artifact, engine, blocks)


def _sums_of_components(artifact: Artifact, records: pl.DataFrame) -> Iterator[Finding]:
    import polars as pl

    is_sum = pl.col("label") == "PTA+GE"
    frame = quantities(records, allocated="totalAllocated", reserved="totalReserved")
    frame = frame.with_columns(
        **{
            f"{name}_{part}": pl.when(pl.col("label") == part).then(pl.col(name)).forward_fill().fill_null(0.0)
            for name in ("allocated", "reserved")
            for part in ("PTA", "GE")
        },
        above=pl.col("timestamp").shift(1),
        below=pl.when(is_sum.shift(-1)).then(pl.col("timestamp").shift(-1)),
    )
    if not frame.select(is_sum.any()).item():
        return
    yield from _broken(
        artifact,
        "MEMORY_RECORD",
        frame,
        frame.select(
            pl.col("label").is_in(["PTA", "GE"]) & ~pl.col("timestamp").eq_missing(pl.col("below"))
        ).to_series(),
        Code.I107,
        lambda row: f"no record of PTA+GE follows {row['label']} at {row['timestamp']} ns",
    )
    sums = frame.select(is_sum).to_series()
    yield from _broken(
        artifact,
        "MEMORY_RECORD",
        frame,
        sums & (frame["above"] != frame["timestamp"]).fill_null(True),
        Code.I107,
        lambda row: (
            f"PTA+GE at {row['timestamp']} ns does not follow the record it sums up: above is {row['above']} ns"
        ),
    )
    for name in ("allocated", "reserved"):
        yield from _broken(
            artifact,
            "MEMORY_RECORD",
            frame,
            sums & (frame[name] != frame[f"{name}_PTA"] + frame[f"{name}_GE"]),
            Code.I107,
            lambda row, name=name: (  # type: ignore[misc]
                f"PTA+GE has {row[name]:.0f} bytes {name}, PTA {row[f'{name}_PTA']:.0f} and GE {row[f'{name}_GE']:.0f}"
            ),
        )


def _records_of_blocks(artifact: Artifact, records: pl.DataFrame, blocks: pl.DataFrame) -> Iterator[Finding]:
    """Yield blocks whose allocation no record tells of, where nine in ten have one."""
    broken = ~blocks["allocationTime"].is_in(records["timestamp"].drop_nulls().unique().implode())
    if broken.sum() > (1 - _MOST) * blocks.height:
        return
    yield from _broken(
        artifact,
        "OP_MEMORY",
        blocks,
        broken,
        Code.I107,
        lambda row: (
            f"{row['size']} bytes are allocated at {row['allocationTime']} ns, MEMORY_RECORD has no record then"
        ),
    )


def _blocks_of_the_engine(artifact: Artifact, engine: pl.DataFrame, blocks: pl.DataFrame) -> Iterator[Finding]:
    import polars as pl

    key = ["operatorName", "addr", *(["deviceId"] if "deviceId" in engine.columns else [])]
    engine = _named(artifact, engine, "type", "action").with_columns(
        next=pl.col("type").shift(-1).over(key), released=pl.col("timestampNs").shift(-1).over(key)
    )
    # A second allocation at the same address takes the place of the first.
    made = engine.filter(
        (pl.col("action") == "allocate") & (pl.col("next").is_null() | (pl.col("next") != pl.col("type")))
    )
    if made.is_empty():
        return
    same = ["name", "size", "allocationTime", "releaseTime"]
    made = made.select("operatorName", "size", "timestampNs", "released").rename(
        dict(zip(("operatorName", "size", "timestampNs", "released"), same, strict=True))
    )
    ours = blocks.select(same).filter(pl.col("name").is_in(engine["operatorName"].drop_nulls().unique().implode()))
    sides = [one.with_columns(pl.col("releaseTime").fill_null("")).group_by(same).len() for one in (ours, made)]
    both = sides[0].join(sides[1], on=same, how="full", coalesce=True, suffix="_made")
    both = both.with_columns(pl.col("len", "len_made").fill_null(0)).filter(pl.col("len") != pl.col("len_made"))
    yield from disagreements(
        Code.I107,
        (
            (
                f"{artifact.place} OP_MEMORY",
                f"operator {name} (id in STRING_IDS) took {size} bytes at {start} ns and released them at {end or 'no'} ns "
                f"{count} times here, {told} times in NPU_OP_MEM",
            )
            for name, size, start, end, count, told in both.sort("allocationTime")
            .select(*same, "len", "len_made")
            .iter_rows()
        ),
        count=both.height,
        place=f"{artifact.place} OP_MEMORY",
    )
