"""What must hold in a kernel_details table, asked while it goes by; `invariants.ascend` and `ascend_joins` say why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from perfguard.dialects.disagreement import constant_factor
from perfguard.dialects.folds_of_tables import fold_of_table
from perfguard.dialects.invariants.ascend import (
    counted_kernels,
    kernels_by_type,
    kernels_of_a_kind,
    pipeline_ratios,
    ratio_is_off,
)
from perfguard.dialects.invariants.ascend_joins import EDGE_NS, MOST, ratio_of_times_is_off
from perfguard.dialects.worded import WordedLines
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.large_comma import Rows
    from perfguard.dialects.cycle import Artifact, Cycle

_START, _DURATION, _WAIT, _DEVICE = "Start Time(us)", "Duration(us)", "Wait Time(us)", "Device_id"
#: From how many of the first odd rows it is told whether a column is in another unit.
_SAMPLE = 100_000
#: How many kernels that start in the same nanosecond are compared with each other.
_MOST_ALIKE = 10_000


def _device(rows: Rows) -> pl.Series:
    if _DEVICE in rows.frame.columns:
        return rows.frame[_DEVICE]
    return pl.repeat("", rows.frame.height, dtype=pl.String, eager=True)


class _Before:
    """The row before each row on the same device, over the ends of blocks."""

    def __init__(self) -> None:
        self._last: pl.DataFrame | None = None

    def shifted(self, rows: Rows, value: pl.Series) -> pl.Series:
        """Return the value of the row before, null for the first of a device."""
        frame = pl.DataFrame({"device": _device(rows), "value": value})
        after = 0
        if self._last is not None:
            after = self._last.height
            frame = pl.concat([self._last, frame])
        alone = frame["device"].n_unique() == 1
        before = frame.select(pl.col("value").shift(1) if alone else pl.col("value").shift(1).over("device"))
        self._last = frame.group_by("device", maintain_order=True).last()
        return before.to_series().slice(after)


@fold_of_table("kernel_details")
class Order:
    """Whether kernels are sorted by start, and whether one is there twice: such two start in the same nanosecond."""

    checks: ClassVar[tuple[str, ...]] = ("kernels_are_in_order", "no_kernel_is_written_twice")

    def __init__(self) -> None:
        self._disorder = WordedLines()
        self._twice = WordedLines()
        self._before = _Before()
        self._alike: dict[tuple[str, int], set[tuple[str, ...]]] = {}
        self._unseen = False

    def wants(self, column: str) -> bool:
        """Look at starts and devices."""
        return column in ("Name", _START, _DEVICE)

    def see(self, rows: Rows) -> None:
        """Compare each start with the one before."""
        start = rows.nanoseconds(_START)
        before = self._before.shifted(rows, start)
        frame = rows.frame.with_columns(start=start, before=before)
        self._disorder.add_where(
            rows,
            start < before,
            lambda row: (
                f"{row['Name']} starts at {row[_START].strip()} us, {(row['before'] - row['start']) / 1000:g} us "
                "before the kernel in the row above: rows are sorted by start"
            ),
            frame,
        )
        self._compare(rows, frame)

    def _compare(self, rows: Rows, frame: pl.DataFrame) -> None:
        """Compare the cells of kernels of one start; those of the last start are kept for the next block."""
        starts = pl.DataFrame({"device": _device(rows), "start": frame["start"]}).with_row_index("row")
        last = starts.group_by("device").agg(pl.col("start").last())
        known = pl.DataFrame(list(self._alike), schema={"device": pl.String, "start": pl.Int64}, orient="row")
        met = starts.join(known, on=["device", "start"], how="semi")["row"].to_list()
        again: set[int] = set(met)
        if frame["start"].is_duplicated().any():
            several = starts.filter(pl.struct("device", "start").is_duplicated())
            again |= set(several["row"].to_list())
        ends = set(starts.join(last, on=["device", "start"], how="semi")["row"].to_list())
        twice = []
        for row, device, start in starts.filter(pl.col("row").is_in(sorted(again | ends))).iter_rows():
            alike = self._alike.setdefault((device, start), set())
            cells = rows.cells_of(row)
            if cells in alike:
                twice.append(row)
            elif len(alike) < _MOST_ALIKE:
                alike.add(cells)
            else:
                self._unseen = True
        places = pl.Series(range(frame.height)).is_in(twice) if twice else pl.Series([False] * frame.height)
        self._twice.add_where(
            rows,
            places,
            lambda row: f"{row['Name']} at {row[_START].strip()} us is here a second time, the same in every column",
            frame,
        )
        now = {(device, start) for device, start in last.iter_rows()}
        devices = {device for device, _ in now}
        self._alike = {key: one for key, one in self._alike.items() if key in now or key[0] not in devices}

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which kernels are out of order, and which are there twice."""
        yield from self._disorder.findings(Code.I106, artifact, check="kernels_are_in_order")
        yield from self._twice.findings(Code.I114, artifact, check="no_kernel_is_written_twice")
        if self._unseen or self._disorder.count:
            yield Finding(
                code=Code.I114,
                severity=Severity.NOTE,
                place=artifact.place,
                message="only kernels near each other were compared: whether one is there twice is not known of all",
                check="no_kernel_is_written_twice",
            )


@fold_of_table("kernel_details")
class Times:
    """Whether durations and waits are times, and whether a kernel waits for the one before."""

    checks: ClassVar[tuple[str, ...]] = ("kernels_take_time", "kernels_wait_for_the_one_before")

    def __init__(self) -> None:
        self._negative, self._nothing, self._waited = WordedLines(), WordedLines(), WordedLines()
        self._before = _Before()
        self._long, self._short, self._either = WordedLines(), WordedLines(), WordedLines()
        self._known = 0
        self._sample: list[pl.DataFrame] = []

    def wants(self, column: str) -> bool:
        """Look at times and devices."""
        return column in ("Name", _START, _DURATION, _WAIT, _DEVICE)

    def see(self, rows: Rows) -> None:
        """Compare each wait with the end of the kernel before."""
        start, lasts, wait = (rows.nanoseconds(column) for column in (_START, _DURATION, _WAIT))
        self._take_time(rows)
        end = self._before.shifted(rows, start + lasts)
        frame = pl.DataFrame({"wait": wait, "gap": (start - end).clip(lower_bound=0)})
        long, short = frame["wait"] > frame["gap"] + EDGE_NS, frame["wait"] < frame["gap"] - EDGE_NS
        for worded, broken in ((self._long, long), (self._short, short), (self._either, long | short)):
            worded.add_where(
                rows,
                broken,
                lambda row: (
                    f"it waited {row['wait'] / 1000:g} us, the kernel before it ended {row['gap'] / 1000:g} us before"
                ),
                frame,
            )
        self._known += int((frame["gap"].is_not_null() & frame["wait"].is_not_null()).sum())
        left = _SAMPLE - sum(part.height for part in self._sample)
        if left > 0 and (long | short).any():
            self._sample.append(frame.filter((pl.col("gap") > EDGE_NS) & (pl.col("wait") > 0)).head(left))

    def _take_time(self, rows: Rows) -> None:
        lasts, wait = rows.quantity(_DURATION), rows.quantity(_WAIT)
        for worded, broken, words in (
            (self._negative, lasts < 0, lambda row: f"{row['Name']} lasts {row['lasts']:g} us: no time is negative"),
            (self._nothing, lasts == 0, lambda row: f"{row['Name']} lasts 0 us: a kernel that ran takes time"),
            (self._waited, wait < 0, lambda row: f"{row['Name']} waited {row['wait']:g} us: no time is negative"),
        ):
            if broken.any():
                worded.add_where(rows, broken, words, rows.frame.with_columns(lasts=lasts, wait=wait))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which times are none, and which waits are wrong."""
        check = "kernels_take_time"
        yield from self._negative.findings(Code.I106, artifact, check=check)
        yield from self._nothing.findings(Code.I106, artifact, check=check, severity=Severity.WARNING)
        yield from self._waited.findings(Code.I106, artifact, check=check)
        check = "kernels_wait_for_the_one_before"
        few = (1 - MOST) * self._known
        if max(self._long.count, self._short.count) > few and self._sample:
            gaps = pl.concat(self._sample)
            if (factor := constant_factor(gaps["wait"], gaps["gap"])) is not None:
                message = f"Wait Time(us) is {factor:.6g} times the gap before the kernel in all rows: another unit?"
                yield Finding(code=Code.I105, place=artifact.place, message=message, check=check)
                return
        if self._long.count <= few:
            broken = self._either if self._short.count <= few else self._long
            yield from broken.findings(Code.I105, artifact, check=check)


@fold_of_table("kernel_details")
class Counters:
    """Whether ratios follow from times."""

    checks: ClassVar[tuple[str, ...]] = (
        "pipeline_ratios_follow_from_times",
        "ratios_of_a_kernel_follow_from_its_times",
    )

    def __init__(self) -> None:
        self._ratios: dict[str, _Ratio] = {}

    def wants(self, column: str) -> bool:
        """Look at the times and ratios of units."""
        return column == "Name" or column.startswith(("aic", "aiv"))

    def see(self, rows: Rows) -> None:
        """Divide the times of each kernel."""
        for column, part, whole in pipeline_ratios(rows.frame.columns):
            self._ratios.setdefault(column, _Ratio(column, part, whole)).see(rows)

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which ratios do not follow."""
        for ratio in self._ratios.values():
            yield from ratio.shown.findings(Code.I105, artifact, check=self.checks[0], severity=Severity.WARNING)
        for ratio in self._ratios.values():
            for finding in ratio.findings(artifact):
                yield replace(finding, check=self.checks[1])


class _Ratio:
    """One column of ratios."""

    def __init__(self, column: str, part: str, whole: str) -> None:
        self.names = (column, part, whole)
        #: Rows whose ratio is not what its times say as they are printed, and rows where it is far off.
        self.shown, self._off = WordedLines(), WordedLines()
        self._known = 0
        self._sample: list[pl.DataFrame] = []

    def see(self, rows: Rows) -> None:
        column, part, whole = self.names
        found = pl.DataFrame(
            {"ratio": rows.quantity(column), "part": rows.quantity(part), "whole": rows.quantity(whole)}
        )
        broken = found.select(shown=ratio_is_off(), off=ratio_of_times_is_off())
        self._known += int((found["ratio"].is_not_null() & found["part"].is_not_null()).sum())
        if not (broken["shown"].any() or broken["off"].any()):
            return
        frame = found.with_columns(rows.frame["Name"])
        self.shown.add_where(rows, broken["shown"], self._printed, frame)
        self._off.add_where(rows, broken["off"], self._apart, frame)
        if (left := _SAMPLE - sum(one.height for one in self._sample)) > 0:
            self._sample.append(found.head(left))

    def _printed(self, row: dict[str, Any]) -> str:
        column, part, whole = self.names
        return f"{row['Name']}: {column} is {row['ratio']:g}, {part} / {whole} is {row['part'] / row['whole']:.4g}"

    def _apart(self, row: dict[str, Any]) -> str:
        column, part, whole = self.names
        return f"{column} is {row['ratio']:g}, {part} is {row['part']:g} of {row['whole']:g} in {whole}"

    def findings(self, artifact: Artifact) -> Iterator[Finding]:
        """Say where the ratio is far off; where it always is, only whether that is another unit."""
        column, part, _ = self.names
        if self._off.count <= (1 - MOST) * self._known:
            yield from self._off.findings(Code.I105, artifact, check="")
        elif self._sample:
            sample = pl.concat(self._sample)
            if (factor := constant_factor(sample["part"], sample["ratio"] * sample["whole"])) is not None:
                message = f"{part} is {factor:.6g} times what {column} says in all rows: another unit?"
                yield Finding(code=Code.I105, place=artifact.place, message=message)


@fold_of_table("kernel_details")
class Kinds:
    """How many kernels of each type there are, for op_statistic."""

    checks: ClassVar[tuple[str, ...]] = ("op_statistic_counts_kernels",)

    def __init__(self) -> None:
        self._counted: pl.DataFrame | None = None

    def wants(self, column: str) -> bool:
        """Look at types, cores and durations."""
        return column in ("Type", "Accelerator Core", _DURATION, _DEVICE)

    def see(self, rows: Rows) -> None:
        """Count the kernels of a block."""
        counted = kernels_of_a_kind(rows.frame)
        self._counted = counted if self._counted is None else kernels_by_type([self._counted, counted])

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Compare with op_statistic, if it is there."""
        statistic, table = cycle.artifacts.get("op_statistic"), artifact.content.table
        if statistic is None or table is None:
            return
        counted = self._counted
        if counted is None:
            counted = kernels_of_a_kind(pl.DataFrame(schema=dict.fromkeys(table.columns, pl.String)))
        for finding in counted_kernels(statistic, artifact, counted, has_rows=table.height > 0):
            yield replace(finding, check=self.checks[0])


@fold_of_table("kernel_details")
class Busy:
    """How busy the units of the device were: means over kernels, weighted by their durations."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        #: By column: the sum of value x duration, and of the durations, over kernels that have the counter.
        self.sums: dict[str, tuple[float, float]] = {}

    def wants(self, column: str) -> bool:
        """Look at ratios and durations."""
        return column == _DURATION or column.startswith(("aic", "aiv", "aicore", "cube"))

    def see(self, rows: Rows) -> None:
        """Add the ratios of a block up."""
        weights = rows.quantity(_DURATION)
        for column in rows.frame.columns:
            if column.endswith(("_ratio", "_utilization(%)")):
                values = rows.quantity(column)
                there = values.is_not_null() & weights.is_not_null()
                total, weight = self.sums.get(column, (0.0, 0.0))
                self.sums[column] = (
                    total + float((values * weights).sum() or 0.0), weight + float(weights.filter(there).sum() or 0.0),
                )  # fmt: skip

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say nothing: a mean is not wrong."""
        return iter(())
