"""Databases: collective operations, their tasks, times and links.

Source, unless a function says otherwise: a real database export of torch_npu level 1 (msinsight test data), on which
everything here holds for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import unquoted
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities
from perfguard.dialects.invariants.database import (
    ANALYSES,
    EXACT_MS,
    FOUR_DECIMALS,
    LARGEST,
    PROFILERS,
    TOTAL,
    broken_rows,
    databases,
    integers,
    table_frame,
)
from perfguard.dialects.invariants.database_steps import marked_steps, operations_of, step_of, what_ran
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


#: The two clocks of an operation's start: 21 us apart in real output; and they may drift.
_START_NS = 10**6
_DRIFT = 10**4


@invariant()
def communication_of_the_database_adds_up(cycle: Cycle) -> Iterator[Finding]:
    """As in communication.json: idle, bandwidths, and package sizes; times in ms, sizes in MB.

    idle = elapse - transit - wait, synchronization <= wait (1e-6 ms); bandwidth = size / time (1e-4); where a link of an
    operation lists its packages they add up to its size and time (1e-6), and its rows repeat one size, time and bandwidth.
    """
    for artifact in databases(cycle, ANALYSES):
        times = table_frame(artifact, "CommAnalyzerTime")
        if times is not None:
            times = quantities(
                times,
                elapse="elapse_time",
                transit="transit_time",
                wait="wait_time",
                synchronization="synchronization_time",
                idle="idle_time",
            )
            yield from broken_rows(
                artifact,
                "CommAnalyzerTime",
                times,
                (times["elapse"] - times["transit"] - times["wait"] - times["idle"]).abs() > EXACT_MS,
                Code.I109,
                lambda row: (
                    f"idle is {row['idle']:.9g} ms, elapse - transit - wait is "
                    f"{row['elapse'] - row['transit'] - row['wait']:.9g} ms"
                ),
            )
            yield from broken_rows(
                artifact,
                "CommAnalyzerTime",
                times,
                times["synchronization"] > times["wait"] + EXACT_MS,
                Code.I109,
                lambda row: f"synchronization is {row['synchronization']:.9g} ms, more than wait, {row['wait']:.9g} ms",
            )
        for table in ("CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
            yield from _bandwidths(artifact, table)
        yield from _packages(artifact)


def _bandwidths(artifact: Artifact, table: str) -> Iterator[Finding]:
    import polars as pl

    if (frame := table_frame(artifact, table)) is None:
        return
    frame = quantities(frame, size="transit_size", time="transit_time", own="bandwidth").with_columns(
        real=pl.when(pl.col("time") > 0).then(pl.col("size") / pl.col("time")).otherwise(0.0)
    )
    yield from broken_rows(
        artifact,
        table,
        frame,
        (frame["own"] - frame["real"]).abs() > FOUR_DECIMALS + 1e-6 * frame["real"],
        Code.I109,
        lambda row: (
            f"bandwidth is {row['own']:.9g} GB/s, {row['size']:.9g} MB in {row['time']:.9g} ms are {row['real']:.4f}"
        ),
    )


def _packages(artifact: Artifact) -> Iterator[Finding]:
    import polars as pl

    keys = ("hccl_op_name", "group_name", "transport_type", "step", "type")
    if (frame := table_frame(artifact, "CommAnalyzerBandwidth", *keys)) is None:
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
    slack = EXACT_MS + 1e-9 * pl.max_horizontal(pl.col("sizes"), pl.col("times"))
    yield from broken_rows(
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
def operations_are_made_of_their_tasks(cycle: Cycle) -> Iterator[Finding]:
    """An operation of COMMUNICATION_OP lasts from the start of its first task to the end of its last one. Exact.

    Its tasks, in COMMUNICATION_TASK_INFO, carry its name and its group. An operation without any is remarkable where others
    have some.
    """
    import polars as pl

    for artifact in databases(cycle, PROFILERS):
        operations = table_frame(artifact, "COMMUNICATION_OP", "opId", "opName", "groupName", "startNs", "endNs")
        moving = table_frame(artifact, "COMMUNICATION_TASK_INFO", "opId", "globalTaskId", "name", "groupName")
        tasks = table_frame(artifact, "TASK", "globalTaskId", "startNs", "endNs")
        if operations is None or moving is None or tasks is None or operations.is_empty():
            continue
        if moving.is_empty():
            if not cycle.conditions.get("level1", True):
                continue
            message = f"it has no rows, and COMMUNICATION_OP has {operations.height} operations"
            yield Finding(code=Code.I109, place=f"{artifact.place} COMMUNICATION_TASK_INFO", message=message)
            continue
        tasks = tasks.select("globalTaskId", first=integers(tasks, "startNs"), last=integers(tasks, "endNs"))
        parts = moving.join(tasks.unique("globalTaskId"), on="globalTaskId", how="inner")
        sums = parts.group_by("opId").agg(
            pl.col("first").min(), pl.col("last").max(), pl.col("name").unique(), pl.col("groupName").unique(), pl.len()
        )
        frame = operations.with_columns(start=integers(operations, "startNs"), end=integers(operations, "endNs"))
        frame = frame.join(sums, on="opId", how="left", suffix=" of tasks", maintain_order="left")
        # Where most begin elsewhere, this version means something else by it.
        is_meant = 2 * int((frame["start"] != frame["first"]).sum()) <= frame.height
        yield from broken_rows(
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
            yield from broken_rows(
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
    for artifact in databases(cycle, ANALYSES):
        times = table_frame(artifact, "CommAnalyzerTime", "step", "group_name", "hccl_op_name")
        if times is None:
            continue
        plain = pl.col(keys).str.strip_chars('"').fill_null("")
        times = times.with_columns(operation="hccl_op_name").with_columns(plain)
        repeated = (
            ~times.select(pl.struct(*keys, pl.col("type") if "type" in times.columns else "operation"))
            .to_series()
            .is_first_distinct()
        )
        yield from broken_rows(
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
            frame = table_frame(artifact, table, "step", "group_name", column)
            if frame is None:
                continue
            frame = frame.with_columns(operation=column).with_columns(plain)
            known = frame.join(
                times.select(*keys, known=pl.lit(True)).unique(), on=keys, how="left", maintain_order="left"
            )
            yield from broken_rows(
                artifact,
                table,
                known,
                known["known"].is_null() & ~known["operation"].is_in(["", TOTAL]),
                Code.I109,
                lambda row: (
                    f"operation {row['operation']} of group {row['group_name']} in {row['step'] or 'no step'} has no row in "
                    "CommAnalyzerTime"
                ),
            )
        yield from _matrix_totals(artifact)


def _matrix_totals(artifact: Artifact) -> Iterator[Finding]:
    import polars as pl

    links = table_frame(artifact, "CommAnalyzerMatrix", "hccl_op_name", "group_name", "transport_type", "step")
    speeds = table_frame(artifact, "CommAnalyzerBandwidth", "hccl_op_name", "group_name", "transport_type", "step")
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
            for step, group, kind, size, time, size_told, time_told in both.filter(off > EXACT_MS)
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

    for artifact in databases(cycle, ANALYSES):
        table = "CommAnalyzerTime"
        times = table_frame(artifact, table, "hccl_op_name", "step", "start_timestamp", "elapse_time")
        for profiler in databases(cycle, PROFILERS):
            ran = operations_of(profiler)
            if times is None or ran.is_empty():
                continue
            rows = quantities(times, told="start_timestamp", elapse="elapse_time").with_row_index("place")
            rows = rows.with_columns(label=unquoted("hccl_op_name"), step=pl.col("step").fill_null(""))
            rows = rows.filter(pl.col("label") != TOTAL)
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
                    once.filter((pl.col("elapse") - lasts).abs() > 2 * EXACT_MS + 1e-9 * lasts),
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
    session = table_frame(profiler, "SESSION_TIME_INFO", "startTimeNs", "endTimeNs")
    if session is None or session.height != 1:
        return 0
    begin, end = integers(session, "startTimeNs")[0], integers(session, "endTimeNs")[0]
    return max(end - begin, 0) if begin is not None and end is not None else 0


def _in_a_step(profiler: Artifact, rows: pl.DataFrame, operations: pl.DataFrame, apart: int) -> pl.Expr:
    """Return the expression that says whether an operation certainly belongs to a step, of clocks `apart` ns."""
    import polars as pl

    listed = rows.join(operations, on="label", how="inner").group_by("step")
    spans = list(listed.agg(pl.col("start").min(), pl.col("end").max()).select("start", "end").iter_rows())
    ran = what_ran(profiler) if profiler.slot.name == "ascend_pytorch_profiler" else None
    if ran is not None:
        for begin, until in list(marked_steps(profiler).values()) or [(None, None)]:
            step = step_of(ran, begin, until)
            spans.append((step.start + apart, step.end - apart))
    return pl.any_horizontal(
        pl.lit(False),
        *((pl.col("start") > min(start, LARGEST)) & (pl.col("start") < min(end, LARGEST)) for start, end in spans),
    )
