"""Metrics of summary files: the scalars of a training, such as the loss, and which values there are.

A loss is the same in every run of a training with a fixed seed, on one machine: bit for bit in five fresh processes each, in
graph and in PyNative mode, with one thread and with two (MindSpore 2.10, CPU, 20 and 60 steps). With another instruction set
(AVX2 or SSE 4.1 instead of AVX-512) it differed by up to 2.1e-7 of itself within 60 steps. So it has a tolerance, like metrics
that depend on the machine: a warning beyond 1e-6, a failure beyond 1e-4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Samples

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract import Cycle

SLOT = "summary_events"
#: Most steps of which a scalar is kept. A longer training keeps every n-th step, and the last one.
_STEPS_KEPT = 200


def _scalar(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield the last finite number of every step, of at most 200 steps."""
    for prefix, values in _by_file(cycle):
        last = values.drop_nulls("number").unique(("tag", "step"), keep="last", maintain_order=True)
        for (tag,), rows in last.group_by("tag", maintain_order=True):
            for step, number in _kept(rows.sort("step")).select("step", "number").iter_rows():
                if math.isfinite(number):
                    yield f"{prefix}{tag}@{step}", number


def _not_finite(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield the number of steps with a NaN or an infinity, by tag."""
    import polars as pl

    for prefix, values in _by_file(cycle):
        numbers = values.drop_nulls("number").group_by("tag", maintain_order=True)
        broken = numbers.agg(pl.col("step").filter(~pl.col("number").is_finite()).n_unique())
        yield from ((prefix + tag, steps) for tag, steps in broken.iter_rows())


def _steps(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield the number of different steps, by tag."""
    import polars as pl

    for prefix, values in _by_file(cycle):
        count = values.group_by("tag", maintain_order=True).agg(pl.col("step").n_unique())
        yield from ((prefix + tag, steps) for tag, steps in count.iter_rows())


def _tags(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield sorted names: `loss/auto (scalar)`."""
    for prefix, values in _by_file(cycle):
        names = values.select("tag", "kind").unique().iter_rows()
        yield prefix, sorted({f"{tag} ({kind})" if kind else tag for tag, kind in names})


def _by_file(cycle: Cycle) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield a prefix of subjects and the values of every summary file; a resumed training has a second one (`run2:`)."""
    from perfguard.dialects.invariants.summary_events import collected_values

    files = sorted((file for file in cycle.files if file.slot.name == SLOT), key=lambda file: file.path.name)
    for number, file in enumerate(files, start=1):
        yield f"run{number}:" if number > 1 else "", collected_values(file)


def _kept(rows: pl.DataFrame) -> pl.DataFrame:
    """Return every n-th row, and the last one."""
    every = math.ceil(rows.height / _STEPS_KEPT)
    return rows if every <= 1 else rows[sorted({*range(0, rows.height, every), rows.height - 1})]


OF_CYCLE: dict[str, Callable[[Cycle], Iterator[tuple[str, Samples]]]] = {
    "summary_scalar": _scalar,
    "summary_not_finite": _not_finite,
    "summary_steps": _steps,
    "summary_tags": _tags,
}
