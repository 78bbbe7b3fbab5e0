"""Memory of an Ascend device: memory_record, operator_memory and npu_module_mem.

Source, unless a function says otherwise: real output of torch_npu at levels 0, 1 and 2 (msinsight test data).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.artifacts.table import nanoseconds
from perfguard.dialects.disagreement import constant_factor, disagreeing_rows
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import quantities
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: Old files print UNIX times as float64 (0.25 us apart) with one decimal, durations are of the numbers before that.
_DURATION_US = 0.5
#: Totals in MB are binary fractions written in full, or rounded to three decimals.
_MB = 0.002
#: Components that are the sum of two allocators.
_SUMS = ("PTA+GE", "MindSpore+GE")
_TOTALS = ("Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)")


@invariant(needs=("memory_record",))
def memory_records_are_in_order(cycle: Cycle) -> Iterator[Finding]:
    """Timestamps of memory_record do not decrease, component by component (and device). Exact.

    Not across components: the samples of the whole process (APP) are written apart from the allocator's.
    """
    yield from _in_order(cycle, "memory_record", ["Component", "Device Type"])


@invariant(needs=("npu_module_mem",))
def module_memory_is_in_order(cycle: Cycle) -> Iterator[Finding]:
    """Timestamps of npu_module_mem do not decrease, component by component (and device). Exact."""
    yield from _in_order(cycle, "npu_module_mem", ["Component", "Device", "Device_id"])


def _in_order(cycle: Cycle, slot: str, keys: list[str]) -> Iterator[Finding]:
    import polars as pl

    artifact = cycle.artifacts[slot]
    frame = artifact.content.frame
    frame = frame.with_columns(time=nanoseconds(frame["Timestamp(us)"]))
    frame = frame.with_columns(before=pl.col("time").shift(1).over([key for key in keys if key in frame.columns]))
    yield from disagreeing_rows(
        artifact,
        frame["time"] < frame["before"],
        Code.I106,
        lambda row: (
            f"{row['Component']} at {row['Timestamp(us)'].strip()} us comes {(row['before'] - row['time']) / 1000:g} us "
            "before its previous row"
        ),
        frame=frame,
    )


@invariant(needs=("memory_record",))
def allocated_fits_into_reserved(cycle: Cycle) -> Iterator[Finding]:
    """Total Allocated <= Total Reserved in memory_record (MB, to 0.002). APP has no allocated memory."""
    artifact = cycle.artifacts["memory_record"]
    frame = quantities(artifact.content.frame, allocated="Total Allocated(MB)", reserved="Total Reserved(MB)")
    yield from disagreeing_rows(
        artifact,
        frame["allocated"] > frame["reserved"] + _MB,
        Code.I107,
        lambda row: (
            f"{row['Component']}: {row['allocated']:g} MB are allocated, more than the {row['reserved']:g} MB reserved"
        ),
        frame=frame,
    )


@invariant(needs=("memory_record",))
def combined_memory_is_the_sum(cycle: Cycle) -> Iterator[Finding]:
    """PTA+GE (MindSpore+GE) = the row right above it + the last of the other allocator, allocated and reserved (MB, to 0.002).

    Each record of one allocator is followed by the sum, with the same time. Not for `Total Active`, which GE does not know.
    Source: torch_npu: _memory_view_parser.py, holds on three real files; MindSpore 2.10 source: ascend_memory_viewer.py.
    """
    import polars as pl

    artifact = cycle.artifacts["memory_record"]
    frame = quantities(artifact.content.frame, allocated="Total Allocated(MB)", reserved="Total Reserved(MB)")
    is_sum = pl.col("Component").is_in(list(_SUMS))
    is_ge = pl.col("Component") == "GE"
    # Not only PTA: newer versions interleave WORKSPACE in the same way. Whatever a sum follows is an allocator.
    is_own = ~is_ge & ~is_sum & is_sum.shift(-1).fill_null(False)
    frame = frame.with_columns(
        **{
            f"{name}_{kind}": pl.when(which).then(pl.col(name)).forward_fill().fill_null(0.0)
            for name in ("allocated", "reserved")
            for kind, which in (("own", is_own), ("ge", is_ge))
        },
        above=pl.col("Timestamp(us)").shift(1),
        above_component=pl.col("Component").shift(1),
    )
    frame = frame.with_columns(
        **{f"{name}_sum": pl.col(f"{name}_own") + pl.col(f"{name}_ge") for name in ("allocated", "reserved")}
    )
    sums = frame.select(is_sum).to_series()
    yield from disagreeing_rows(
        artifact,
        sums & ((nanoseconds(frame["above"]) != nanoseconds(frame["Timestamp(us)"])).fill_null(True)),
        Code.I107,
        lambda row: (
            f"{row['Component']} at {row['Timestamp(us)'].strip()} us does not follow the row it sums up: above is "
            f"{row['above_component'] or 'nothing'} at {(row['above'] or '').strip()} us"
        ),
        frame=frame,
    )
    for name in ("allocated", "reserved"):
        yield from disagreeing_rows(
            artifact,
            sums & ((frame[name] - frame[f"{name}_sum"]).abs() > _MB),
            Code.I107,
            lambda row, name=name: (  # type: ignore[misc]
                f"{row['Component']}: {row[name]:.9g} MB {name}, the allocators above add up to {row[f'{name}_sum']:.9g} MB"
            ),
            frame=frame,
        )


@invariant(needs=("operator_memory",))
def blocks_live_as_long_as_they_say(cycle: Cycle) -> Iterator[Finding]:
    """Duration = Release - Allocation, Active Duration = Active Release - Allocation, within 0.5 us (0.35 seen).

    A block that was never released has no duration (blank in torch_npu, N/A in MindSpore).
    """
    artifact = cycle.artifacts["operator_memory"]
    for kind in ("", "Active "):
        release, duration = f"{kind}Release Time(us)", f"{kind}Duration(us)"
        frame = quantities(artifact.content.frame, duration=duration)
        if release not in frame.columns:
            continue
        frame = frame.with_columns(
            begin=nanoseconds(frame["Allocation Time(us)"]),
            end=nanoseconds(frame[release]),
        )
        frame = frame.with_columns(life=(frame["end"] - frame["begin"]) / 1000)
        yield from disagreeing_rows(
            artifact,
            (frame["duration"] - frame["life"]).abs() > _DURATION_US,
            Code.I107,
            lambda row, release=release, duration=duration: (  # type: ignore[misc]
                f"{row['Name']}: {duration} is {row['duration']:g}, {release} - Allocation Time(us) is {row['life']:g}"
            ),
            frame=frame,
        )
        yield from disagreeing_rows(
            artifact,
            frame["duration"].is_null() != frame["life"].is_null(),
            Code.I107,
            lambda row, release=release, duration=duration: (  # type: ignore[misc]
                f"{row['Name']}: of {duration} ({_cell(row[duration])}) and {release} ({_cell(row[release])}) one is missing"
            ),
            frame=frame,
        )
        yield from disagreeing_rows(
            artifact,
            frame["life"] < -_DURATION_US,
            Code.I106,
            lambda row, release=release: (  # type: ignore[misc]
                f"{row['Name']}: {release} lies {-row['life']:g} us before its allocation"
            ),
            frame=frame,
        )


def _cell(text: str) -> str:
    return text.strip() or "blank"


@invariant(layouts=("pt-npu", "ms-2.5+"), needs=("operator_memory",))
def blocks_are_of_whole_units(cycle: Cycle) -> Iterator[Finding]:
    """Size(KB) is a multiple of 0.5: the allocators hand out 512 bytes at a time. Exact."""
    artifact = cycle.artifacts["operator_memory"]
    frame = quantities(artifact.content.frame, size="Size(KB)")
    yield from disagreeing_rows(
        artifact,
        (frame["size"] * 2) % 1 != 0,
        Code.I107,
        lambda row: f"{row['Name']}: {row['size']:g} KB is no multiple of 512 bytes",
        frame=frame,
    )


@invariant(needs=("operator_memory",))
def blocks_fit_into_reserved(cycle: Cycle) -> Iterator[Finding]:
    """Total Allocated <= Total Reserved at the allocation and at the release of a block (MB, to 0.002)."""
    artifact = cycle.artifacts["operator_memory"]
    for when in ("Allocation", "Release"):
        frame = quantities(
            artifact.content.frame,
            allocated=f"{when} Total Allocated(MB)",
            reserved=f"{when} Total Reserved(MB)",
        )
        yield from disagreeing_rows(
            artifact,
            frame["allocated"] > frame["reserved"] + _MB,
            Code.I107,
            lambda row, when=when: (  # type: ignore[misc]
                f"{row['Name']}: {row['allocated']:g} MB are allocated at its {when.lower()}, more than the "
                f"{row['reserved']:g} MB reserved"
            ),
            frame=frame,
        )


@invariant(layouts=("pt-npu",), needs=("operator_memory", "memory_record"))
def blocks_are_in_the_memory_record(cycle: Cycle) -> Iterator[Finding]:
    """Where memory_record has a row of the same time and device, one such row has the totals operator_memory gives.

    At the allocation and at the release, for allocated and reserved (MB, to 0.002). Both files are made of the same events;
    holds on the 344 times of each of two real ranks. A time memory_record lacks is not judged.
    """
    record = cycle.artifacts["memory_record"]
    rows = quantities(record.content.frame, there="Total Allocated(MB)", kept="Total Reserved(MB)")
    rows = rows.with_columns(time=nanoseconds(rows["Timestamp(us)"])).filter(rows["Component"] != "PTA+GE")
    rows = rows.select("time", "Device Type", "there", "kept").drop_nulls()
    for when in ("Allocation", "Release"):
        yield from _recorded(cycle, when, rows)


def _recorded(cycle: Cycle, when: str, rows: pl.DataFrame) -> Iterator[Finding]:
    import polars as pl

    artifact, record = cycle.artifacts["operator_memory"], cycle.artifacts["memory_record"]
    frame = quantities(
        artifact.content.frame, allocated=f"{when} Total Allocated(MB)", reserved=f"{when} Total Reserved(MB)"
    )
    frame = frame.with_columns(time=nanoseconds(frame[f"{when} Time(us)"])).with_row_index("row")
    found = (
        frame.join(rows, on=["time", "Device Type"], how="inner")
        .with_columns(
            off=pl.max_horizontal(
                (pl.col("allocated") - pl.col("there")).abs(), (pl.col("reserved") - pl.col("kept")).abs()
            )
        )
        .sort("off")
        .group_by("row")
        .first()
        .select("row", "off", "there", "kept")
    )
    frame = frame.join(found, on="row", how="left", maintain_order="left")
    yield from disagreeing_rows(
        artifact,
        frame["off"] > _MB,
        Code.I107,
        lambda row: (
            f"{row['Name']}: {row['allocated']:.9g} of {row['reserved']:.9g} MB are allocated at its {when.lower()}, "
            f"{record.path.name} says {row['there']:.9g} of {row['kept']:.9g} MB at that time"
        ),
        frame=frame,
    )


@invariant(layouts=("pt-npu",), needs=("operator_memory", "memory_record"))
def allocations_are_in_the_record(cycle: Cycle) -> Iterator[Finding]:
    """Where memory_record has the moment of an allocation or a release, it has the same totals (0.002 MB) and the size.

    Size(KB) is what the total of PTA grew by (0.01 KB). Record and operators end together: no allocation comes after
    the last row. Holds for all 184 allocations and 160 releases of both ranks of real torch_npu level 1; versions of 2023 print
    other moments, so nothing is said where fewer than one in five is in the record.
    """
    import polars as pl

    artifact, record = cycle.artifacts["operator_memory"], cycle.artifacts["memory_record"]
    moments = _moments(record.content.frame)
    cells = artifact.content.frame
    for side in ("Allocation", "Release"):
        totals = [name for name in _TOTALS if f"{side} {name}" in cells.columns and name in moments.columns]
        rows = quantities(cells, size="Size(KB)", **{f"its {name}": f"{side} {name}" for name in totals})
        rows = rows.with_row_index("row").with_columns(at=nanoseconds(cells[f"{side} Time(us)"])).drop_nulls("at")
        met = rows.join(moments, on="at", how="inner", suffix=" there")
        met = met.group_by("row", maintain_order=True).agg(
            pl.col("size").first(),
            pl.col("grew").sort_by((pl.col("grew") - pl.col("size")).abs()).first(),
            *((pl.col(f"its {name}") - pl.col(name)).abs().min().alias(name) for name in totals),
        )
        if met.is_empty() or met.height < rows.height / 5:
            continue
        last = moments["at"].max()
        after = int((rows["at"] > last).sum())
        if after:
            yield Finding(
                code=Code.I107,
                place=record.place,
                message=f"it ends before {after} of {rows.height} {side.lower()}s in {artifact.path.name}",
            )
        wrong = {name: (met[name] > _MB).fill_null(False) for name in totals}
        joined = any(broken.sum() <= met.height / 10 for broken in wrong.values())
        for name, broken in wrong.items():
            if joined:
                rows_of = set(met.filter(broken)["row"].to_list())
                yield from disagreeing_rows(
                    artifact,
                    pl.Series([row in rows_of for row in range(cells.height)], dtype=pl.Boolean),
                    Code.I107,
                    lambda row, name=name, side=side: (  # type: ignore[misc]
                        f"{side} {name} is {row[f'{side} {name}'].strip()}, {record.path.name} has another at that moment"
                    ),
                )
        if side == "Allocation" and joined:
            yield from _sizes(cycle, met)


def _moments(record: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one allocator each: at [ns], totals [MB], and what PTA's total allocated grew by [KB]."""
    import polars as pl

    named = {name: name for name in _TOTALS if name in record.columns}
    frame = quantities(record, **named).with_columns(at=nanoseconds(record["Timestamp(us)"]))
    keys = [key for key in ("Component", "Device Type") if key in record.columns]
    frame = frame.filter(~pl.col("Component").is_in([*_SUMS, "APP"]))
    # GE gives memory back before it takes more, and writes one row for both.
    grew = pl.when(pl.col("Component") == "PTA").then(pl.col(_TOTALS[0]).diff().over(keys) * 1024)
    return frame.with_columns(grew=grew).select("at", "grew", *named)


def _sizes(cycle: Cycle, met: pl.DataFrame) -> Iterator[Finding]:
    """Say which blocks are not what the total grew by: one by one, or all of them where they are in another unit."""
    import polars as pl

    artifact = cycle.artifacts["operator_memory"]
    known = met.filter(pl.col("grew") > 0)
    off = known.filter((pl.col("grew") - pl.col("size")).abs() > 0.01)
    if off.height > known.height / 10:
        if (factor := constant_factor(known["size"], known["grew"])) is not None:
            message = f"Size(KB) is {factor:.6g} times what the total grew by in all rows: another unit?"
            yield Finding(code=Code.I107, place=artifact.place, message=message)
        return
    sizes = {row: (size, grew) for row, size, grew in off.select("row", "size", "grew").iter_rows()}
    yield from disagreeing_rows(
        artifact,
        pl.Series([row in sizes for row in range(artifact.content.frame.height)], dtype=pl.Boolean),
        Code.I107,
        lambda row: f"Size(KB) is {sizes[row['row']][0]:.6g}, the total grew by {sizes[row['row']][1]:.6g} KB",
        frame=artifact.content.frame.with_row_index("row"),
    )


@invariant(needs=("operator_memory", "memory_record"))
def memory_is_of_one_device(cycle: Cycle) -> Iterator[Finding]:
    """Device Type is the same in both files: every device of one is in the other. Exact. Source: real output of torch_npu."""
    artifact, record = cycle.artifacts["operator_memory"], cycle.artifacts["memory_record"]
    if "Device Type" not in artifact.content.frame.columns or "Device Type" not in record.content.frame.columns:
        return
    here, there = (
        {text for text in one.content.frame["Device Type"].drop_nulls().unique().to_list() if text.startswith("NPU:")}
        for one in (artifact, record)
    )
    if here and there and not here & there:
        yield Finding(
            code=Code.I113,
            place=record.place,
            message=f"it is of {', '.join(sorted(there))}, {artifact.path.name} of {', '.join(sorted(here))}",
        )
