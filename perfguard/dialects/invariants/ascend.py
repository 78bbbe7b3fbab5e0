"""What must agree in the text files of an Ascend device, as torch_npu and MindSpore >= 2.5 write them from the same CANN data.

Unless a function says otherwise its source is: real output of torch_npu at levels 0, 1 and 2 (msinsight test data, eight
directories), on which it holds with the tolerance given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import nanoseconds
from perfguard.dialects.ascend.kernels import Kernels, kernels_of
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content
    from perfguard.dialects.cycle import Cycle

#: Half of the third decimal: what printing a time in us, or a percentage, can cost.
_HALF_DIGIT = 0.0005
#: Stage is measured between float64 UNIX times in us, which are 0.25 us apart: two roundings of each end.
_STAGE_US = 0.5
#: The other columns of step_trace_time are differences of each other; MindSpore prints three decimals.
_STEP_US = 0.002


def quantity(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a text column as Float64 in its own unit; what is no number (blank, `N/A`) or is no column becomes null."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None] * frame.height, dtype=pl.Float64)
    return frame[column].str.strip_chars(' \t"').cast(pl.Float64, strict=False)


def quantities(frame: pl.DataFrame, **columns: str) -> pl.DataFrame:
    """Return the frame with more columns: `name="Column(us)"` adds `name`, the column as Float64 (see `quantity`)."""
    return frame.with_columns(**{name: quantity(frame, column) for name, column in columns.items()})


def span_ns(content: Content, column: str) -> tuple[int, int] | None:
    """Return the first and the last time in a column of microseconds, or None where it holds none."""
    if content.table is None or column not in content.table.columns:
        return None
    if isinstance(content.work, Kernels):
        return content.work.span_ns
    times = nanoseconds(content.frame[column])
    first, last = times.min(), times.max()
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def distinct_texts(content: Content, column: str) -> set[str]:
    """Return the texts in a column; of kernels that went by it can only be the column of their steps."""
    if isinstance(content.work, Kernels):
        return set(content.work.step_texts)
    return set(content.frame[column].drop_nulls().unique().to_list())


def by_device(frame: pl.DataFrame) -> list[str]:
    """Return the column that tells devices apart, if the file has one: only some versions write it."""
    return [column for column in ("Device_id",) if column in frame.columns]


@invariant(needs=("op_statistic", "kernel_details"))
def op_statistic_counts_kernels(cycle: Cycle) -> Iterator[Finding]:
    """Count, Total, Min and Max of op_statistic = rows of kernel_details of the same Type and Accelerator Core.

    Count exact; Total to 0.0005 us a row (0.007 us seen), Min and Max to 0.002 us. Communication is not in op_statistic.
    Both ways: a type of kernel_details that op_statistic lacks is wrong too. At level 0 every Type is N/A, and there is
    nothing to compare.
    """
    import polars as pl

    statistic, kernels = cycle.artifacts["op_statistic"], cycle.artifacts["kernel_details"]
    kinds = kernels_of(kernels.content).kinds.rename({"device": "Device_id", "type": "OP Type", "core": "Core Type"})
    if (kinds["OP Type"] == "N/A").all() and kernels.content.table is not None and kernels.content.table.height:
        return
    device = by_device(statistic.content.frame) if kinds["Device_id"].null_count() < kinds.height else []
    keys = [*device, "OP Type", "Core Type"]
    rows = kinds.group_by(keys, maintain_order=True).agg(
        pl.col("rows").sum(),
        sum=pl.col("total_us").sum(),
        least=pl.col("least_us").min(),
        most=pl.col("most_us").max(),
    )
    here = quantities(
        statistic.content.frame,
        count="Count",
        total="Total Time(us)",
        min="Min Time(us)",
        max="Max Time(us)",
    ).join(rows, on=keys, how="left", maintain_order="left")
    here = here.with_columns(pl.col("rows").fill_null(0))
    yield from disagreeing_rows(
        statistic,
        here["count"] != here["rows"],
        Code.I101,
        lambda row: f"{_operator(row)}: {row['count']:g} here, {row['rows']} kernels in {kernels.path.name}",
        frame=here,
    )
    same = here["count"] == here["rows"]
    yield from disagreeing_rows(
        statistic,
        same & ((here["total"] - here["sum"]).abs() > 0.01 + _HALF_DIGIT * here["rows"]),
        Code.I104,
        lambda row: (
            f"{_operator(row)}: total {row['total']:g} us here, its kernels add up to {row['sum']:.6g} us in "
            f"{kernels.path.name}"
        ),
        frame=here,
    )
    for column, other, word in (("min", "least", "shortest"), ("max", "most", "longest")):
        yield from disagreeing_rows(
            statistic,
            same & ((here[column] - here[other]).abs() > 0.002),
            Code.I105,
            lambda row, column=column, other=other, word=word: (  # type: ignore[misc]
                f"{_operator(row)}: {column} {row[column]:g} us here, its {word} kernel takes {row[other]:g} us in "
                f"{kernels.path.name}"
            ),
            frame=here,
        )
    missing = rows.join(statistic.content.frame, on=keys, how="anti", maintain_order="left")
    yield from disagreements(
        Code.I101,
        (
            (statistic.place, f"{_operator(row)}: not here, {row['rows']} kernels in {kernels.path.name}")
            for row in missing.iter_rows(named=True)
        ),
    )


@invariant(needs=("op_statistic",))
def op_statistic_follows_from_itself(cycle: Cycle) -> Iterator[Finding]:
    """Min <= Avg <= Max, Avg x Count = Total, Ratio(%) = share of the total, one row for each type and core.

    Avg has three decimals, so its product is off by 0.0005 us x Count at most; a ratio by 0.0005 percent.
    """
    import polars as pl

    artifact = cycle.artifacts["op_statistic"]
    frame = quantities(
        artifact.content.frame,
        count="Count",
        total="Total Time(us)",
        min="Min Time(us)",
        avg="Avg Time(us)",
        max="Max Time(us)",
        ratio="Ratio(%)",
    )
    device = by_device(frame)
    whole = pl.col("total").sum()
    frame = frame.with_columns(whole=whole)
    frame = frame.with_columns(own=whole.over(device) if device else whole)
    yield from disagreeing_rows(
        artifact,
        frame.select(pl.struct(*device, "OP Type", "Core Type").is_first_distinct()).to_series().not_(),
        Code.I114,
        lambda row: f"{_operator(row)} has a second row: one for each type and core",
        frame=frame,
    )
    yield from _averages(cycle, "op_statistic", frame, _operator)
    share = [100 * pl.col("total") / pl.col(one) for one in ("whole", "own")]
    off = pl.min_horizontal((pl.col("ratio") - one).abs() for one in share) > 3 * _HALF_DIGIT
    yield from disagreeing_rows(
        artifact,
        frame.select((pl.col("whole") > 0) & off).to_series(),
        Code.I105,
        lambda row: (
            f"{_operator(row)}: ratio {row['ratio']:g} %, its total is {100 * row['total'] / row['own']:.5g} % of the "
            f"{row['own']:.8g} us of all rows"
        ),
        frame=frame,
    )


@invariant(needs=("api_statistic",))
def api_statistic_follows_from_itself(cycle: Cycle) -> Iterator[Finding]:
    """Min <= Avg <= Max, Avg x Count = Time, a variance that such values can have, one row for each API and level.

    Avg has three decimals: 0.0005 us x Count. The variance of values between Min and Max is at most (Max - Avg)(Avg - Min).
    """
    import polars as pl

    artifact = cycle.artifacts["api_statistic"]
    frame = quantities(
        artifact.content.frame,
        count="Count",
        total="Time(us)",
        min="Min(us)",
        avg="Avg(us)",
        max="Max(us)",
        variance="Variance",
    )
    yield from disagreeing_rows(
        artifact,
        frame.select(pl.struct(*by_device(frame), "Level", "API Name").is_first_distinct()).to_series().not_(),
        Code.I114,
        lambda row: f"{_api(row)} has a second row: one for each API and level",
        frame=frame,
    )
    yield from _averages(cycle, "api_statistic", frame, _api)
    # A sample variance divides by Count - 1, which makes it larger by Count / (Count - 1).
    most = (pl.col("max") - pl.col("avg") + 0.001) * (pl.col("avg") - pl.col("min") + 0.001)
    most = most * pl.col("count") / pl.max_horizontal(pl.col("count") - 1, pl.lit(1.0)) + 0.001
    yield from disagreeing_rows(
        artifact,
        frame.select(pl.col("variance") > most).to_series(),
        Code.I105,
        lambda row: (
            f"{_api(row)}: variance {row['variance']:g} is more than times between {row['min']:g} and {row['max']:g} us "
            "can have"
        ),
        frame=frame,
    )


def _averages(cycle: Cycle, slot: str, frame: pl.DataFrame, name: Any) -> Iterator[Finding]:
    artifact = cycle.artifacts[slot]
    slack = 2 * _HALF_DIGIT
    off = frame["avg"] * frame["count"] - frame["total"]
    # CANN 8.3 and later cut the average of an operator off, so it can be a whole digit too small.
    below = 2 if slot == "op_statistic" else 1
    broken = (off > slack + 1.02 * _HALF_DIGIT * frame["count"]) | (
        off < -slack - below * 1.02 * _HALF_DIGIT * frame["count"]
    )
    yield from disagreeing_rows(
        artifact,
        broken,
        Code.I105,
        lambda row: (
            f"{name(row)}: average {row['avg']:g} us x {row['count']:g} is {row['avg'] * row['count']:.8g} us, the total "
            f"says {row['total']:.8g} us"
        ),
        frame=frame,
    )
    yield from disagreeing_rows(
        artifact,
        (frame["avg"] < frame["min"] - slack) | (frame["avg"] > frame["max"] + slack),
        Code.I105,
        lambda row: (
            f"{name(row)}: average {row['avg']:g} us is not between min {row['min']:g} us and max {row['max']:g} us"
        ),
        frame=frame,
    )


def _operator(row: dict[str, Any]) -> str:
    return f"{row['OP Type']} on {row['Core Type']}"


def _api(row: dict[str, Any]) -> str:
    return f"{row['Level']} {row['API Name']}"


@invariant(needs=("operator_details",))
def operators_contain_their_parts(cycle: Cycle) -> Iterator[Finding]:
    """Self <= total, on host and device, and time with AI Core <= device time; to 0.001 us.

    torch_npu only: MindSpore's operator_details has no times.
    """
    artifact = cycle.artifacts["operator_details"]
    frame = artifact.content.frame
    for part, whole in (
        ("Host Self Duration(us)", "Host Total Duration(us)"),
        ("Device Self Duration(us)", "Device Total Duration(us)"),
        ("Device Self Duration With AICore(us)", "Device Self Duration(us)"),
        ("Device Total Duration With AICore(us)", "Device Total Duration(us)"),
        ("Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"),
    ):
        found = quantities(frame, part=part, whole=whole)
        yield from disagreeing_rows(
            artifact,
            found["part"] > found["whole"] + 0.001,
            Code.I112,
            lambda row, part=part, whole=whole: (  # type: ignore[misc]
                f"{row['Name']}: {part} is {row['part']:g}, more than {whole}, {row['whole']:g}"
            ),
            frame=found,
        )


@invariant(needs=("step_trace_time",))
def step_times_add_up(cycle: Cycle) -> Iterator[Finding]:
    """The columns of step_trace_time are made of each other (us).

    Overlapped = Communication - Communication(Not Overlapped); the part without Receive = Communication(Not Overlapped) -
    Bubble: exact, 0.002 us for three printed decimals. Computing + Communication(Not Overlapped) + Free = Stage + Bubble
    within 0.5 us (0.13 us seen), where the file has one step of a device. Of several, each event goes whole to the step it
    begins in, so a collective that reaches into the next step stretches the Stage of its own: there the sum may only be
    smaller. Source: torch_npu: _trace_step_time_parser.py. MindSpore's Stage is another: from the first collective to the
    end of the last (MindSpore 2.10 source: ascend_step_trace_time_viewer.py), so only the first two hold there.
    """
    height = cycle.artifacts["step_trace_time"].content.frame.height
    yield from step_time_findings(cycle, "step_trace_time", [True] * height, stages=cycle.layout.id == "pt-npu")


def step_time_findings(cycle: Cycle, slot: str, rows: Sequence[bool], *, stages: bool) -> Iterator[Finding]:
    """Yield what breaks the identities of step times in a table with step_trace_time's columns, in the chosen rows.

    `stages` says whether Stage is torch_npu's.
    """
    import polars as pl

    artifact = cycle.artifacts[slot]
    columns = artifact.content.frame.columns
    excluding = "Communication(Not Overlapped and Exclude Receive)"
    frame = quantities(
        artifact.content.frame,
        computing="Computing",
        exposed="Communication(Not Overlapped)",
        overlapped="Overlapped",
        communication="Communication",
        free="Free",
        stage="Stage",
        bubble="Bubble",
        sent=excluding,
    )
    looked_at = pl.Series(rows, dtype=pl.Boolean)
    slack = _STEP_US + 1e-12 * frame["communication"].abs()
    yield from disagreeing_rows(
        artifact,
        looked_at & ((frame["communication"] - frame["exposed"] - frame["overlapped"]).abs() > slack),
        Code.I108,
        lambda row: (
            f"step {row['Step'] or '(none)'}: Overlapped is {row['overlapped']:g} us, Communication minus its part that "
            f"is not overlapped is {row['communication'] - row['exposed']:.9g} us"
        ),
        frame=frame,
    )
    yield from disagreeing_rows(
        artifact,
        looked_at & ((frame["exposed"] - frame["bubble"] - frame["sent"]).abs() > slack),
        Code.I108,
        lambda row: (
            f"step {row['Step'] or '(none)'}: {excluding} is {row['sent']:g} us, {row['exposed']:g} us not overlapped "
            f"minus a Bubble of {row['bubble']:g} us is {row['exposed'] - row['bubble']:.9g} us"
        ),
        frame=frame,
    )
    if not stages:
        return
    keys = [column for column in ("Device_id", "Type", "Index") if column in columns]
    frame = frame.with_columns(
        busy=pl.col("computing") + pl.col("exposed") + pl.col("free"),
        span=pl.col("stage") + pl.col("bubble"),
        alone=(pl.len().over(keys) if keys else pl.len()) == 1,
    )
    off = frame["busy"] - frame["span"]
    yield from disagreeing_rows(
        artifact,
        looked_at & ((off > _STAGE_US) | (frame["alone"] & (off < -_STAGE_US))),
        Code.I108,
        lambda row: (
            f"step {row['Step'] or '(none)'}: Computing + Communication(Not Overlapped) + Free is {row['busy']:.9g} us, "
            f"Stage + Bubble is {row['span']:.9g} us"
        ),
        frame=frame,
    )


@invariant(needs=("step_trace_time",))
def every_step_has_one_row(cycle: Cycle) -> Iterator[Finding]:
    """step_trace_time has one row for each step of a device. Exact."""
    import polars as pl

    artifact = cycle.artifacts["step_trace_time"]
    frame = artifact.content.frame
    yield from disagreeing_rows(
        artifact,
        frame.select(pl.struct(*by_device(frame), "Step").is_first_distinct()).to_series().not_(),
        Code.I114,
        lambda row: f"step {row['Step'] or '(none)'} has a second row",
    )
