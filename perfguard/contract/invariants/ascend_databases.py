"""The database export: tables of one rank against each other.

torch_npu writes `ascend_pytorch_profiler_<rank>.db` (UNIX times in ns, names as ids of STRING_IDS) and `analysis.db` (step
times in us, communication in ms); MindSpore the same as `ascend_mindspore_profiler_<rank>.db` and `communication_analyzer.db`.
Source: a real database export of torch_npu level 1 (msinsight test data), on which everything here holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from perfguard.contract.invariants import invariant
from perfguard.contract.invariants.ascend import quantities, quantity
from perfguard.contract.invariants.disagreement import disagreements
from perfguard.findings import Code, Finding

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
}
#: Other references: table and column -> table and column.
_REFERENCES = (
    ("COMPUTE_TASK_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("COMMUNICATION_TASK_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("COMMUNICATION_TASK_INFO", "opId", "COMMUNICATION_OP", "opId"),
    ("TASK_PMU_INFO", "globalTaskId", "TASK", "globalTaskId"),
    ("PYTORCH_API", "callchainId", "PYTORCH_CALLCHAINS", "id"),
    ("NPU_MODULE_MEM", "moduleId", "ENUM_MODULE", "id"),
    ("CANN_API", "type", "ENUM_API_TYPE", "id"),
)
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
_EXACT_MS = 1e-6
_FOUR_DECIMALS = 1e-4


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
    """Every name is an id of STRING_IDS; tasks, operations, modules, API levels and call chains are in their own tables. Exact.

    Not the connection ids of TASK: two of 552 are in no CANN_API of a correct database.
    """
    names = tuple((table, column, "STRING_IDS", "id") for table, columns in _NAMES.items() for column in columns)
    for artifact in _databases(cycle, _PROFILERS):
        for table, column, other, key in (*names, *_REFERENCES):
            frame, there = _frame(artifact, table, column), _frame(artifact, other, key)
            if frame is None or there is None:
                continue
            broken = frame[column].is_not_null() & ~frame[column].is_in(there[key].drop_nulls().unique().implode())
            yield from _broken(
                artifact,
                table,
                frame,
                broken,
                Code.I113,
                lambda row, column=column, other=other, key=key: (  # type: ignore[misc]
                    f"{column} is {row[column]}, which {other}.{key} does not have"
                ),
            )


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
                outside = (times < begin - _SESSION_NS) | (times > end + _SESSION_NS)
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
