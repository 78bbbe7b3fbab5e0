"""The executions of a kernel_details table that goes by, added up; with its steps and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from perfguard.artifacts.readers.large_comma import Rows, stream_csv
from perfguard.dialects.collectives import no_collectives
from perfguard.dialects.coverage import Covered, CoveredSteps, covered_steps
from perfguard.dialects.cycle import Executions
from perfguard.dialects.executions import STEP_COLUMNS, kernel_rows, marked_edges
from perfguard.dialects.folds_of_tables import fold_of_table
from perfguard.dialects.groups import KEYS, aggregated, merged
from perfguard.findings import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from perfguard.dialects.cycle import Artifact, Cycle

_START, _DURATION = "Start Time(us)", "Duration(us)"
_COLUMNS = frozenset({*STEP_COLUMNS, "Name", "Type", "Input Shapes", _START, _DURATION})
#: From this many on the groups of blocks are merged, and those of steps that have gone by are put aside.
_MOST_PENDING = 50_000


@fold_of_table("kernel_details")
class KernelWork:
    """Sums over kernels by operator, name, step and shapes; which steps are named; when the first and the last began."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        #: Texts of the step column, as they are in the file; blank where a kernel is of no step.
        self.step_texts: set[str] = set()
        #: When the first and the last kernel began; None without kernels.
        self.span_ns: tuple[int, int] | None = None
        self._in_order = True
        self._pending: list[pl.DataFrame] = []
        self._closed: list[pl.DataFrame] = []
        self._closed_steps: set[int | None] = set()
        self._again = False

    def wants(self, column: str) -> bool:
        """Look at what executions are made of."""
        return column in _COLUMNS

    def see(self, rows: Rows) -> None:
        """Add the kernels of a block up."""
        step = _steps(rows)
        start = rows.nanoseconds(_START)
        listed = kernel_rows(rows.frame, step=step, start_ns=start, duration_ns=rows.nanoseconds(_DURATION))
        self._time(start)
        column = next((name for name in STEP_COLUMNS if name in rows.frame.columns), None)
        if column is not None:
            self.step_texts |= set(rows.frame[column].unique().to_list())
        groups = aggregated(listed, first_place=rows.first)
        self._pending.append(_apart(groups) if 4 * groups.height < listed.height else groups)
        if sum(part.height for part in self._pending) > _MOST_PENDING:
            self._close(step[-1])

    def _time(self, start: pl.Series) -> None:
        first, last = start.min(), start.max()
        assert isinstance(first, int)
        assert isinstance(last, int)
        before = self.span_ns
        self._in_order &= start.is_sorted() and (before is None or before[1] <= first)
        self.span_ns = (first, last) if before is None else (min(before[0], first), max(before[1], last))

    def _close(self, last: int | None) -> None:
        """Put groups aside whose step has gone by; those of the last step may go on in the next block."""
        groups = merged(self._pending)
        goes_on = pl.col("step").eq_missing(pl.lit(last, dtype=pl.Int64))
        done = groups.filter(~goes_on)
        self._pending = [groups.filter(goes_on)]
        if self._pending[0].height > _MOST_PENDING // 2:
            done, self._pending = groups, []
        steps = set(done["step"].unique().to_list())
        # A step that comes back is added up once more in the end.
        self._again |= not steps.isdisjoint(self._closed_steps)
        self._closed_steps |= steps
        self._closed.append(done)

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say nothing: sums are not wrong."""
        return iter(())

    def groups(self) -> pl.DataFrame:
        """Return the groups of all kernels, see `groups.aggregated`; their steps have the numbers that the file gives them."""
        pending = [merged(self._pending)] if self._pending else []
        parts = [*self._closed, *pending]
        if not parts:
            texts, numbers = ("operator", "name", "shapes"), ("step", "start_ns", "duration_ns", "self_ns")
            return aggregated(
                pl.DataFrame(schema={**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(texts, pl.String)})
            )
        again = self._again or any(
            not self._closed_steps.isdisjoint(part["step"].unique().to_list()) for part in pending
        )
        return merged(parts) if again else pl.concat(parts).sort("first_ns", "first_place", *KEYS)

    def executions(self, cycle: Cycle) -> Executions:
        """Return what `executions.from_kernel_details` and `executions.summed` make of a table that is held."""
        groups = self.groups()
        marked = sorted(groups["step"].drop_nulls().unique().to_list())
        order = {number: index for index, number in enumerate(marked)}
        if order:
            groups = groups.with_columns(pl.col("step").replace_strict(order, default=None, return_dtype=pl.Int64))
        edges = marked_edges(cycle, marked)
        return Executions(
            groups=groups,
            covered=self._covered(cycle.artifacts["kernel_details"].path, order, edges) if edges else (),
            collectives=no_collectives(),
            steps=len(marked) or None,
            by_step=bool(marked) and groups["step"].null_count() == 0,
            step_numbers=tuple(marked),
            edges_ns=edges,
            marks_steps=bool(marked),
            on_device=True,
        )

    def _covered(self, path: Path, order: dict[int, int], edges: Sequence[tuple[int, int]]) -> tuple[Covered, ...]:
        """Return what covers each step; the edges are known only now, so the table goes by once more."""
        covered = CoveredSteps.of(edges)
        parts: list[pl.DataFrame] = []

        def see(rows: Rows) -> None:
            nonlocal covered
            step = _steps(rows).replace_strict(order, default=None, return_dtype=pl.Int64)
            listed = kernel_rows(
                rows.frame, step=step, start_ns=rows.nanoseconds(_START), duration_ns=rows.nanoseconds(_DURATION)
            )
            if self._in_order:
                covered = covered.extended(listed)
            else:
                # Of several devices one after the other: four columns are held to be sorted.
                parts.append(listed.select("operator", "step", "start_ns", "duration_ns"))

        stream_csv(path, {}, {}, [*_COLUMNS - {"Input Shapes"}], see)
        return covered.by_step if self._in_order else covered_steps(pl.concat(parts), edges)


def _apart(groups: pl.DataFrame) -> pl.DataFrame:
    """Return groups whose texts are copies: a text of a few bytes holds all texts of the block that it came from."""
    texts = (name for name in groups.columns if groups[name].dtype == pl.String)
    return groups.with_columns(pl.Series(name, groups[name].to_list(), dtype=pl.String) for name in texts)


def _steps(rows: Rows) -> pl.Series:
    column = next((name for name in STEP_COLUMNS if name in rows.frame.columns), None)
    if column is None:
        return pl.repeat(None, rows.frame.height, dtype=pl.Int64, eager=True)
    return rows.whole_numbers(column)
