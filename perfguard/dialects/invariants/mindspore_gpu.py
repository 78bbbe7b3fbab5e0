"""MindSpore's GPU files (1.x to 2.2): the same identities as those of the CPU files, in microseconds.

Source: MindSpore 2.0 source: gpu_data_saver.cc, data_saver.cc (one writer for both devices); no real directory of 2.0 was
at hand. Numbers are printed with six significant digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

_RELATIVE = 2e-5
_DAY_NS = 86_400 * 10**9


@invariant()
def gpu_averages_follow(cycle: Cycle) -> Iterator[Finding]:
    """Average * count = total in the tables of operators, types and activities (2e-5); min <= average <= max."""
    for slot, count, total, average in (
        ("gpu_op_detail_info", "op_occurrences", "op_total_time(us)", "op_avg_time(us)"),
        ("gpu_op_type_info", "type_occurrences", "total_time(us)", "avg_time(us)"),
        ("gpu_activity_data", "occurrences", "total_duration(us)", "avg_duration(us)"),
    ):
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        columns = {"count": count, "total": total, "average": average}
        if slot == "gpu_activity_data":
            columns |= {"least": "min_duration(us)", "most": "max_duration(us)"}
        frame = quantities(artifact.content.frame, **columns)
        off = (frame["count"] * frame["average"] - frame["total"]).abs() > _RELATIVE * frame["total"].abs() + 1e-6
        yield from disagreeing_rows(
            artifact,
            off,
            Code.I105,
            lambda row: f"{row['count']:g} times {row['average']:g} us is not the total, {row['total']:g} us",
            frame=frame,
        )
        if "least" in columns:
            mixed = (frame["least"] > frame["average"] * (1 + _RELATIVE)) | (
                frame["average"] > frame["most"] * (1 + _RELATIVE)
            )
            yield from disagreeing_rows(
                artifact,
                mixed,
                Code.I105,
                lambda row: (
                    f"the least is {row['least']:g}, the average {row['average']:g}, the most {row['most']:g} us"
                ),
                frame=frame,
            )


@invariant(needs=("gpu_op_type_info", "gpu_op_detail_info"))
def gpu_types_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """Occurrences and total of a type = the sums over its operators (exact; 2e-5), and the types are the same."""
    import polars as pl

    kinds, detail = cycle.artifacts["gpu_op_type_info"], cycle.artifacts["gpu_op_detail_info"]
    told = quantities(kinds.content.frame, count="type_occurrences", total="total_time(us)")
    rows = quantities(detail.content.frame, count="op_occurrences", total="op_total_time(us)")
    sums = rows.group_by("op_type").agg(pl.col("count").sum(), pl.col("total").sum())
    both = told.select("op_type", "count", "total").join(sums, on="op_type", how="full", coalesce=True, suffix=" there")
    both = both.fill_null(0).sort("op_type")
    counted = both.filter(pl.col("count") != pl.col("count there"))
    yield from _said(
        Code.I101,
        counted,
        kinds.place,
        lambda r: f"{r['op_type']}: {r['count']:g} here, {r['count there']:g} in {detail.path.name}",
    )
    off = both.filter((pl.col("total") - pl.col("total there")).abs() > _RELATIVE * pl.col("total there").abs() + 1e-6)
    yield from _said(
        Code.I104,
        off,
        kinds.place,
        lambda r: f"{r['op_type']}: {r['total']:g} us here, {r['total there']:g} us in {detail.path.name}",
    )


@invariant()
def gpu_shares_follow(cycle: Cycle) -> Iterator[Finding]:
    """total_proportion = the total of a row / the sum of all (2e-5), of types and of operators."""
    for slot, total in (("gpu_op_type_info", "total_time(us)"), ("gpu_op_detail_info", "op_total_time(us)")):
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        frame = quantities(artifact.content.frame, total=total, share="total_proportion")
        whole = float(frame["total"].sum())
        if not whole > 0:
            continue
        # In percent, or as a fraction: nobody had a real file.
        scale = 100.0 if float(frame["share"].sum()) > 2 else 1.0
        off = (frame["share"] - frame["total"] / whole * scale).abs() > _RELATIVE * scale
        yield from disagreeing_rows(
            artifact,
            off,
            Code.I105,
            lambda row, whole=whole: (  # type: ignore[misc]
                f"total_proportion is {row['share']:g}, {row['total']:g} of {whole:g} us is {row['total'] / whole:g}"
            ),
            frame=frame,
        )


@invariant(needs=("gpu_op_execute_timestamp", "gpu_op_detail_info"))
def gpu_timestamps_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """As many executions as op_occurrences, of the same operators, and they add up to the total (2e-5)."""
    import polars as pl

    stamps, detail = cycle.artifacts["gpu_op_execute_timestamp"], cycle.artifacts["gpu_op_detail_info"]
    rows = quantities(detail.content.frame, count="op_occurrences", total="op_total_time(us)")
    told = rows.group_by(pl.col("op_full_name").alias("name")).agg(pl.col("count").sum(), pl.col("total").sum())
    runs = quantities(stamps.content.frame, lasts="duration")
    sums = runs.group_by(pl.col("full_op_name").alias("name")).agg(
        pl.len().cast(pl.Float64).alias("count"), pl.col("lasts").sum().alias("total")
    )
    both = told.join(sums, on="name", how="full", coalesce=True, suffix=" there").fill_null(0).sort("name")
    counted = both.filter(pl.col("count") != pl.col("count there"))
    yield from _said(
        Code.I102,
        counted,
        stamps.place,
        lambda r: f"{r['name']}: {r['count there']:g} executions here, {r['count']:g} in {detail.path.name}",
    )
    off = both.filter(
        (pl.col("count") == pl.col("count there"))
        & ((pl.col("total") - pl.col("total there")).abs() > _RELATIVE * pl.col("total").abs() + 1e-6)
    )
    yield from _said(
        Code.I104,
        off,
        stamps.place,
        lambda r: f"{r['name']}: executions of {r['total there']:g} us here, {r['total']:g} us in {detail.path.name}",
    )


@invariant(needs=("gpu_activity_data", "activity_execute_timestamp"))
def gpu_activities_are_their_executions(cycle: Cycle) -> Iterator[Finding]:
    """Occurrences, total, least and most of an activity = those of its lines in activity_execute_timestamp (exact; 2e-5).

    By name and stream; silent unless the most of them agree in number, so that another key is no fault of the file.
    """
    import polars as pl

    table, stamps = cycle.artifacts["gpu_activity_data"], cycle.artifacts["activity_execute_timestamp"]
    columns = {"total": "total_duration(us)", "most": "max_duration(us)", "least": "min_duration(us)"}
    told = quantities(table.content.frame, count="occurrences", **columns)
    told = told.select("name", pl.col("stream_id").str.strip_chars(), "count", *columns)
    keys = ["name", "stream_id"]
    told = told.group_by(keys, maintain_order=True).agg(
        pl.col("count").sum(), pl.col("total").sum(), pl.col("most").max(), pl.col("least").min()
    )
    runs = quantities(stamps.content.frame, lasts="duration").with_columns(pl.col("stream_id").str.strip_chars())
    sums = runs.group_by(keys).agg(
        pl.len().cast(pl.Float64).alias("count"),
        pl.col("lasts").sum().alias("total"),
        pl.col("lasts").max().alias("most"),
        pl.col("lasts").min().alias("least"),
    )
    both = told.join(sums, on=keys, how="full", coalesce=True, suffix=" there").sort(keys)
    same = (both["count"] == both["count there"]).fill_null(False)
    if 2 * same.sum() <= min(told.height, sums.height):
        return
    yield from _said(
        Code.I102,
        both.filter(~same),
        stamps.place,
        lambda r: f"{r['name']}: {r['count there'] or 0:g} executions here, {r['count'] or 0:g} in {table.path.name}",
    )
    for column, header in columns.items():
        off = (pl.col(column) - pl.col(f"{column} there")).abs() > _RELATIVE * pl.col(column).abs() + 1e-6
        yield from _said(
            Code.I104,
            both.filter(same).filter(off),
            table.place,
            lambda r, column=column, header=header: (
                f"{r['name']}: {header} is {r[column]:g}, its executions in {stamps.path.name} make {r[f'{column} there']:g}"
            ),
        )


@invariant(needs=("gpu_op_execute_timestamp",))
def gpu_executions_lie_together(cycle: Cycle) -> Iterator[Finding]:
    """All executions begin within a day. Source: the clock of a process, in nanoseconds."""
    artifact = cycle.artifacts["gpu_op_execute_timestamp"]
    start = quantities(artifact.content.frame, start="start")["start"]
    middle = start.median()
    if not isinstance(middle, float):
        return
    yield from disagreeing_rows(
        artifact,
        (start - middle).abs() > _DAY_NS,
        Code.I113,
        lambda row: f"{row['full_op_name']} starts at {row['start']}, most others about {middle:.0f}",
    )


def _said(code: Code, rows: pl.DataFrame, place: str, message: Any) -> Iterator[Finding]:
    yield from disagreements(
        code, ((place, message(row)) for row in rows.iter_rows(named=True)), count=rows.height, place=place
    )
