"""Databases: the times of a step, against what ran in it.

Source, unless a function says otherwise: a real database export of torch_npu level 1 (msinsight test data), on which
everything here holds for every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities, quantity
from perfguard.dialects.invariants.database import (
    ANALYSES,
    PROFILERS,
    SUM_US,
    broken_rows,
    databases,
    integers,
    table_frame,
    texts_of,
    with_text,
)
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


#: CANN_API of this type launch what an operator runs.
_NODE = 10000
#: Each step is looked up among all tasks; a window has a few.
_MOST_STEPS = 200


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
    for artifact in databases(cycle, ANALYSES):
        frame = table_frame(artifact, "StepTraceTime", "step", "deviceId")
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
            yield from broken_rows(artifact, "StepTraceTime", frame, wrong, Code.I108, message)
        off = frame["computing"] + frame["exposed"] + frame["idle"] - frame["span"] - frame["gap"]
        yield from broken_rows(
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
        for profiler in databases(cycle, PROFILERS):
            marked = table_frame(profiler, "STEP_TIME", "id")
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


def step_marks(artifact: Artifact) -> pl.DataFrame | None:
    """Return the events ProfilerStep#N of PYTORCH_API that occur once, as `id`, `start` and `end` [ns]."""
    import polars as pl

    called = table_frame(artifact, "PYTORCH_API", "name", "startNs", "endNs")
    if called is None:
        return None
    texts = texts_of(artifact, among=called["name"]).select(
        name="id", id=pl.col("text").str.extract(r"^ProfilerStep#(\d{1,18})$").cast(pl.Int64)
    )
    marks = called.join(texts.drop_nulls(), on="name", how="inner", maintain_order="left")
    marks = marks.select("id", start=integers(marks, "startNs"), end=integers(marks, "endNs"))
    return marks.filter(pl.len().over("id") == 1).drop_nulls()


@invariant(needs=("ascend_pytorch_profiler",))
def steps_are_the_marks_of_the_host(cycle: Cycle) -> Iterator[Finding]:
    """STEP_TIME has the steps ProfilerStep#N of PYTORCH_API, from their start to their end. Exact."""
    artifact = cycle.artifacts["ascend_pytorch_profiler"]
    steps, marks = table_frame(artifact, "STEP_TIME", "id", "startNs", "endNs"), step_marks(artifact)
    if steps is None or marks is None or marks.is_empty():
        return
    steps = steps.with_columns(
        id=integers(steps, "id"), begin=integers(steps, "startNs"), until=integers(steps, "endNs")
    )
    for number in marks.filter(~marks["id"].is_in(steps["id"].drop_nulls().implode()))["id"].to_list():
        message = f"PYTORCH_API marks step {number} (ProfilerStep#{number}), STEP_TIME does not have it"
        yield Finding(code=Code.I113, place=f"{artifact.place} STEP_TIME", message=message)
    both = steps.join(marks, on="id", how="left", maintain_order="left")
    yield from broken_rows(
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


def what_ran(artifact: Artifact) -> _Ran | None:
    """Return what ran on the device and who launched it, or None where a table for it is missing."""
    import polars as pl

    tasks = table_frame(artifact, "TASK", "startNs", "endNs", "connectionId", "globalTaskId", "deviceId")
    described = table_frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId")
    calls = table_frame(artifact, "CANN_API", "type", "startNs", "endNs", "connectionId")
    if tasks is None or described is None or calls is None or tasks["deviceId"].n_unique() > 1:
        return None

    def spans(frame: pl.DataFrame, **more: pl.Series) -> pl.DataFrame:
        times = {"start": integers(frame, "startNs"), "end": integers(frame, "endNs")}
        return frame.with_columns(**times, connection=integers(frame, "connectionId"), **more)

    tasks = spans(tasks, task=integers(tasks, "globalTaskId"))
    receives = pl.col("label").str.starts_with("hcom_receive").fill_null(False)
    moving = table_frame(artifact, "COMMUNICATION_TASK_INFO", "globalTaskId", "name")
    empty = pl.DataFrame(schema={"task": pl.Int64, "is_receive": pl.Boolean})
    if moving is not None:
        moving = with_text(artifact, moving, "name", "label").with_columns(task=integers(moving, "globalTaskId"))
    operations = operations_of(artifact)
    return _Ran(
        tasks=tasks.select("start", "end", "connection", "task"),
        computing=integers(described, "globalTaskId").drop_nulls().unique(),
        moving=empty if moving is None else moving.select("task", is_receive=receives).unique("task"),
        operations=operations.with_columns(is_receive=receives),
        launches=spans(calls.filter(integers(calls, "type") == _NODE)).select("start", "end", "connection"),
    )


def operations_of(artifact: Artifact) -> pl.DataFrame:
    """Return COMMUNICATION_OP as `row`, `label`, `start`, `end` [ns] and `connection`; no rows where it is missing."""
    import polars as pl

    frame = table_frame(artifact, "COMMUNICATION_OP", "opName", "startNs", "endNs", "connectionId")
    if frame is None:
        numbers = dict.fromkeys(("row", "start", "end", "connection"), pl.Int64)
        return pl.DataFrame(schema={**numbers, "label": pl.String})
    frame = frame.with_columns(
        start=integers(frame, "startNs"), end=integers(frame, "endNs"), connection=integers(frame, "connectionId")
    )
    frame = with_text(artifact, frame.with_row_index("row"), "opName", "label")
    return frame.select(pl.col("row").cast(pl.Int64), "label", "start", "end", "connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What belongs to one step by the rules of torch_npu; `start` and `end` [ns] are where it lies on the device."""

    start: int
    end: int
    #: Pairs of what computes and what communicates in it: three versions tell them differently.
    versions: tuple[tuple[pl.DataFrame, pl.DataFrame], ...]


def step_of(ran: _Ran, begin: int | None, until: int | None) -> _Step:
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


def marked_steps(artifact: Artifact) -> dict[str, tuple[int | None, int | None]]:
    """Return start and end [ns] of each step of STEP_TIME; of the first ones, where there are very many."""
    frame = table_frame(artifact, "STEP_TIME", "id", "startNs", "endNs")
    if frame is None:
        return {}
    frame = frame.head(_MOST_STEPS)
    names = frame["id"].str.strip_chars('"').to_list()
    spans = zip(integers(frame, "startNs").to_list(), integers(frame, "endNs").to_list(), strict=True)
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
    frame, ran = table_frame(artifact, "StepTraceTime", "step", "deviceId"), what_ran(profiler)
    if frame is None or ran is None or frame["deviceId"].n_unique() > 1:
        return
    place, marked = artifact.content.tables["StepTraceTime"].place, marked_steps(profiler)
    columns = ("computing", "communication", "communication_not_overlapped", "free", "stage", "bubble", "preparing")
    own = {name: quantity(frame, name).to_list() for name in columns}
    names = [(text or "").strip('"') for text in frame["step"].to_list()]
    found: dict[Severity, list[tuple[str, str]]] = {Severity.ERROR: [], Severity.WARNING: []}
    for row, name in enumerate(names[:_MOST_STEPS]):
        if (name and name not in marked) or (not name and frame.height > 1):
            continue
        begin, until = marked[name] if name else (None, None)
        step = step_of(ran, begin, until)
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
                    if (value := own[column][row]) is not None and abs(value - there) > SUM_US + 1e-9 * abs(there)
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
