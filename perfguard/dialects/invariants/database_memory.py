"""Databases: memory and the counters of the device.

Source, unless a function says otherwise: a real database export of torch_npu level 1 (msinsight test data), on which
everything here holds for every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities, quantity
from perfguard.dialects.invariants.database import (
    MOST,
    PROFILERS,
    broken_rows,
    databases,
    integers,
    table_frame,
    with_text,
)
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


@invariant()
def memory_of_the_database_adds_up(cycle: Cycle) -> Iterator[Finding]:
    """As in the text files, but exact: bytes and ns are integers.

    MEMORY_RECORD: timestamps in order for each component and device, allocated <= reserved. OP_MEMORY: both durations are
    differences of times, sizes are multiples of 512 bytes, allocated <= reserved at allocation and release.
    """
    import polars as pl

    for artifact in databases(cycle, PROFILERS):
        frame = table_frame(
            artifact, "MEMORY_RECORD", "component", "deviceId", "timestamp", "totalAllocated", "totalReserved"
        )
        if frame is not None:
            frame = frame.with_columns(
                time=integers(frame, "timestamp"),
                allocated=quantity(frame, "totalAllocated"),
                reserved=quantity(frame, "totalReserved"),
            ).with_columns(before=pl.col("time").shift(1).over("component", "deviceId"))
            yield from broken_rows(
                artifact,
                "MEMORY_RECORD",
                frame,
                frame["time"] < frame["before"],
                Code.I106,
                lambda row: (
                    f"its time lies {row['before'] - row['time']} ns before that of its component's previous row"
                ),
            )
            yield from broken_rows(
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
    frame = table_frame(
        artifact, table, "allocationTime", "releaseTime", "duration", "activeReleaseTime", "activeDuration", "size"
    )
    if frame is None:
        return
    for end, length in (("releaseTime", "duration"), ("activeReleaseTime", "activeDuration")):
        found = frame.with_columns(
            own=integers(frame, length), life=integers(frame, end) - integers(frame, "allocationTime")
        )
        yield from broken_rows(
            artifact,
            table,
            found,
            found["own"] != found["life"],
            Code.I107,
            lambda row, end=end, length=length: (  # type: ignore[misc]
                f"{length} is {row['own']} ns, {end} - allocationTime is {row['life']} ns"
            ),
        )
    size = integers(frame, "size")
    yield from broken_rows(
        artifact, table, frame, size % 512 != 0, Code.I107, lambda row: f"{row['size']} bytes are no multiple of 512"
    )
    for when in ("allocation", "release"):
        totals = quantities(frame, allocated=f"{when}TotalAllocated", reserved=f"{when}TotalReserved")
        yield from broken_rows(
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
def counters_of_the_database_are_whole(cycle: Cycle) -> Iterator[Finding]:
    """Tasks of one kind (taskType of COMPUTE_TASK_INFO) have the same counters in TASK_PMU_INFO, each once.

    Exact; a kind may have none (DSA_SQE). A task without any where most others of its kind have some is a warning: the
    profiler may lose counters on the way. A unit whose time is counted has its ratio, and the other way round, as in
    kernel_details. Counters are of tasks in COMPUTE_TASK_INFO.
    """
    import polars as pl

    for artifact in databases(cycle, PROFILERS):
        table = "TASK_PMU_INFO"
        counted, described = (
            table_frame(artifact, table, "globalTaskId", "name"),
            table_frame(artifact, "COMPUTE_TASK_INFO", "globalTaskId", "taskType"),
        )
        if counted is None or counted.is_empty() or described is None or described.is_empty():
            continue
        orphans = ~counted["globalTaskId"].is_in(described["globalTaskId"].unique().implode())
        yield from broken_rows(
            artifact,
            table,
            counted,
            orphans,
            Code.I115,
            lambda row: f"globalTaskId is {row['globalTaskId']}, which COMPUTE_TASK_INFO does not have",
        )
        frame = with_text(artifact, counted, "name", "counter")
        yield from broken_rows(
            artifact,
            table,
            frame,
            ~frame.select(pl.struct("globalTaskId", "name")).to_series().is_first_distinct(),
            Code.I114,
            lambda row: f"task {row['globalTaskId']} has {row['counter']} twice",
        )
        sets = frame.group_by("globalTaskId").agg(counters=pl.col("counter").unique().sort())
        tasks = with_text(artifact, described.with_row_index("row"), "taskType", "kind")
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
    records = table_frame(
        artifact, "MEMORY_RECORD", "component", "timestamp", "totalAllocated", "totalReserved", "deviceId"
    )
    engine = table_frame(artifact, "NPU_OP_MEM", "operatorName", "addr", "type", "size", "timestampNs")
    if records is not None:
        records = with_text(artifact, records, "component", "label")
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
    blocks = table_frame(artifact, "OP_MEMORY", "name", "size", "allocationTime", "releaseTime")
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
    yield from broken_rows(
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
    yield from broken_rows(
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
        yield from broken_rows(
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
    if broken.sum() > (1 - MOST) * blocks.height:
        return
    yield from broken_rows(
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
    engine = with_text(artifact, engine, "type", "action").with_columns(
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
