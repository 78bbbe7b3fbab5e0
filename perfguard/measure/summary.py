"""The values a training wrote to its summary files: the loss of every collected step, and which values there are at all.

A loss is the same in every run of a training with a fixed seed, on one machine: bit for bit in five fresh processes each, in
graph and in PyNative mode, with one thread and with two (MindSpore 2.10, CPU, 20 and 60 steps). With another instruction set
(AVX2 or SSE 4.1 instead of AVX-512) it moved by up to 2.1e-7 of itself within 60 steps. So it has a tolerance, as what moves
with the machine does: a warning beyond 1e-6, a failure beyond 1e-4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, cycle_metric

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract import Cycle

#: Of how many steps a scalar is kept; of a longer training every so many steps, and the last one.
_STEPS_KEPT = 200


@cycle_metric(
    Metric(
        name="summary_scalar",
        unit="value",
        kind=Kind.TIMED,
        better=Better.EQUAL,
        relative=1e-4,
        # A loss that has come down to nothing moves by all of itself.
        absolute=1e-6,
        warn_relative=1e-6,
        meaning="A scalar of a summary file, by step: loss/auto@10 is the loss of step 10.",
    ),
    needs=("summary_events",),
)
def summary_scalar(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """The last number of every step, of at most 200 steps; what is no finite number has a metric of its own."""
    for prefix, values in _by_file(cycle):
        last = values.drop_nulls("number").unique(("tag", "step"), keep="last", maintain_order=True)
        for (tag,), rows in last.group_by("tag", maintain_order=True):
            for step, number in _kept(rows.sort("step")).select("step", "number").iter_rows():
                if math.isfinite(number):
                    yield f"{prefix}{tag}@{step}", number


@cycle_metric(
    Metric(
        name="summary_not_finite",
        unit="steps",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="In how many collected steps a scalar of a summary file is NaN or infinite.",
    ),
    needs=("summary_events",),
)
def summary_not_finite(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Steps, by tag; 0 where all is well."""
    import polars as pl

    for prefix, values in _by_file(cycle):
        numbers = values.drop_nulls("number").group_by("tag", maintain_order=True)
        broken = numbers.agg(pl.col("step").filter(~pl.col("number").is_finite()).n_unique())
        yield from ((prefix + tag, steps) for tag, steps in broken.iter_rows())


@cycle_metric(
    Metric(
        name="summary_steps",
        unit="steps",
        kind=Kind.EXACT,
        better=Better.HIGHER,
        meaning="In how many steps a value was collected into a summary file.",
    ),
    needs=("summary_events",),
)
def summary_steps(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Different steps, by tag."""
    import polars as pl

    for prefix, values in _by_file(cycle):
        count = values.group_by("tag", maintain_order=True).agg(pl.col("step").n_unique())
        yield from ((prefix + tag, steps) for tag, steps in count.iter_rows())


@cycle_metric(
    Metric(
        name="summary_tags",
        unit="names",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="Which values a summary file has at all, and of what kind they are.",
    ),
    needs=("summary_events",),
)
def summary_tags(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Sorted names: `loss/auto (scalar)`."""
    for prefix, values in _by_file(cycle):
        names = values.select("tag", "kind").unique().iter_rows()
        yield prefix, sorted({f"{tag} ({kind})" if kind else tag for tag, kind in names})


def _by_file(cycle: Cycle) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the values of every summary file; `run2:` leads the subjects of a second one, as of a training that went on."""
    from perfguard.dialects.invariants.summary_events import collected_values

    files = sorted(
        (file for file in cycle.files if file.slot.name == "summary_events"), key=lambda file: file.path.name
    )
    for number, file in enumerate(files, start=1):
        yield f"run{number}:" if number > 1 else "", collected_values(file)


def _kept(rows: pl.DataFrame) -> pl.DataFrame:
    """Return some rows of those of all steps, and the last one."""
    every = math.ceil(rows.height / _STEPS_KEPT)
    return rows if every <= 1 else rows[sorted({*range(0, rows.height, every), rows.height - 1})]
