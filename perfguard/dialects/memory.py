"""Memory: what each step of one cycle did to a device's memory, from whichever file of the cycle records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.table import as_int64, in_int64, unquoted
from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.cycle import MemoryStep

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle, Executions

Ints = np.ndarray[Any, np.dtype[np.int64]]
#: Databases of a device's tasks.
DATABASES = ("ascend_pytorch_profiler", "ascend_mindspore_profiler")
#: Into how many parts a step's curve is cut, and how many all steps of a window may have together.
_PARTS_OF_A_STEP = 32
_PARTS_OF_A_WINDOW = 2000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Allocated bytes (`level`) at a `time` [ns], row by row; `component` is a position in `components`.

    Texts of two million rows would take more memory than the numbers.
    """

    rows: pl.DataFrame
    components: tuple[str, ...]


def component_levels(batch: Batch, cycles: Sequence[int]) -> dict[int, Levels]:
    """Return the levels of the components in memory_record, by cycle."""
    components = tuple(name for (name,) in batch.execute("select component from memory_components order by code"))
    found = frames(batch, "select * exclude (row) from memory_levels order by cycle, row", cycles)
    return {cycle: Levels(rows=rows, components=components) for cycle, rows in found.items()}


def pool_levels(batch: Batch, cycles: Sequence[int]) -> dict[int, pl.DataFrame]:
    """Return the levels of MindSpore's host pool in cpu_ms_memory_record, by cycle: `time` [ns] and `level` in bytes."""
    return frames(batch, "select * exclude (row) from pool_levels order by cycle, row", cycles)


def parts_of_a_step(steps: int) -> int:
    """Return into how many parts the curve of a step is cut in a window of so many; 0 where even one each would be too many."""
    return min(_PARTS_OF_A_STEP, _PARTS_OF_A_WINDOW // max(1, steps))


def memory_of(cycle: Cycle, executions: Executions) -> tuple[MemoryStep, ...]:
    """Return the memory of each step, by device; cut where the executions' steps are, empty where none was recorded.

    torch writes an event where memory is allocated or released, and none for a host that did neither. Where the header says
    that memory was recorded that is a 0 and no gap: a step that begins to allocate is worse than one that did not.
    """
    if (trace := cycle.content("trace")) is not None:
        found: tuple[MemoryStep, ...] = trace.work
        if trace.document.get("profile_memory") != 1 or any(one.device == "cpu" for one in found):
            return found
        return (
            *found,
            MemoryStep(device="cpu", step=0, rise_bytes=0, allocations=0, allocated_bytes=0, growth_bytes=0),
        )
    for slot, read in (
        ("cpu_ms_memory_record", _of_pool),
        ("memory_record", _of_components),
        *((slot, _of_database) for slot in DATABASES),
    ):
        if slot in cycle.artifacts:
            return tuple(read(cycle, executions))
    return ()


def _of_pool(cycle: Cycle, executions: Executions) -> list[MemoryStep]:
    """Memory of MindSpore's host pool: a row an event, Total Allocated after it.

    The record of a later cycle or session repeats earlier ones, with gaps, so only rows of the cycle's own window count; what
    the very first of them did to the level is not known.
    """
    import polars as pl

    rows: pl.DataFrame = cycle.artifacts["cpu_ms_memory_record"].content.work
    if edges := executions.edges_ns:
        rows = rows.filter(pl.col("time").is_between(in_int64(edges[0][0]), in_int64(edges[-1][1])))
    rows = rows.with_columns(before=pl.col("level").shift(1).fill_null(pl.col("level")))
    return levels_by_step("cpu", edges, *(rows[name].to_numpy() for name in ("time", "level", "before")))


def device_name(kind: int, number: int) -> str:
    """Return `cpu`, `cuda:0`, ... for torch's type and number of a device."""
    # c10::DeviceType: 0 is the CPU, 1 is CUDA; others keep their number.
    names = {0: "cpu", 1: "cuda"}
    name = names.get(kind, f"device{kind}")
    return name if number < 0 else f"{name}:{number}"


def levels_by_step(
    device: str, edges_ns: Sequence[tuple[int, int]], times: Ints, levels: Ints, before: Ints
) -> list[MemoryStep]:
    """Cut the levels of a device, in bytes, into steps, in the order of their first events.

    There is one event for each time (ns): the level after it and before it. Without steps all are of one.
    """
    if edges_ns:
        starts, ends = (np.array([*map(in_int64, column)], np.int64) for column in zip(*edges_ns, strict=True))
        steps = np.searchsorted(starts, times, "right") - 1
        inside = np.flatnonzero((steps >= 0) & (times <= ends[np.maximum(steps, 0)]))
        places = inside[np.argsort(steps[inside], kind="stable")]
    else:
        steps, places = np.zeros(len(times), np.int64), np.arange(len(times))
    steps, times, levels, before = (column[places] for column in (steps, times, levels, before))
    parts = parts_of_a_step(len(edges_ns)) if edges_ns else 0
    firsts = np.flatnonzero(np.diff(steps, prepend=-1)).tolist()
    found = {}
    for first, end in pairwise([*firsts, len(steps)]):
        step, own = int(steps[first]), slice(first, end)
        lowest = int(min(levels[own].min(), before[own].min()))
        growth = np.maximum(levels[own] - before[own], 0)
        drawn = curve_bytes(edges_ns[step], parts, times[own], levels[own], before[own]) if parts else ()
        found[int(places[first])] = MemoryStep(
            device=device,
            step=step,
            rise_bytes=int(max(levels[own].max(), before[own].max())) - lowest,
            allocations=int(np.count_nonzero(growth)),
            allocated_bytes=int(growth.sum()),
            growth_bytes=int(levels[end - 1] - before[first]),
            curve_bytes=tuple(height - lowest for height in drawn),
        )
    return [found[place] for place in sorted(found)]


def curve_bytes(edges_ns: tuple[int, int], parts: int, times: Ints, levels: Ints, before: Ints) -> tuple[int, ...]:
    """Return the highest level of a device in equal parts of a step's time; a part begins as high as the one before ended.

    There is at least one event; they come in their order.
    """
    start, end = edges_ns
    part = np.clip((times - start) * parts // max(1, end - start), 0, parts - 1)
    # A clock that goes back is a finding of its own; here what came later counts.
    order = np.argsort(part, kind="stable")
    firsts = np.flatnonzero(np.diff(part[order], prepend=-1))
    highest = dict(zip(part[order][firsts].tolist(), np.maximum.reduceat(levels[order], firsts).tolist(), strict=True))
    last = dict(zip(part[order].tolist(), levels[order].tolist(), strict=True))
    level = int(before[0])
    curve = []
    for number in range(parts):
        curve.append(max(level, highest.get(number, level)))
        level = last.get(number, level)
    return tuple(curve)


def _of_components(cycle: Cycle, executions: Executions) -> list[MemoryStep]:
    """Memory of an Ascend device, from memory_record: a row an event of a component (PTA, GE, MindSpore, ...).

    The components' levels are added up by their own sum row (PTA+GE) already, so each is a device of its own: `PTA`, `APP`.
    """
    levels: Levels = cycle.artifacts["memory_record"].content.work
    return _by_component(levels.rows, executions, levels.components)


def _of_database(cycle: Cycle, executions: Executions) -> list[MemoryStep]:
    """The same of a database export: MEMORY_RECORD in bytes and ns, its components by STRING_IDS."""
    import polars as pl

    artifact = next((cycle.artifacts[slot] for slot in DATABASES if slot in cycle.artifacts), None)
    if artifact is None or not {"MEMORY_RECORD", "STRING_IDS"} <= artifact.content.tables.keys():
        return []
    record = artifact.content.tables["MEMORY_RECORD"].frame
    names = artifact.content.tables["STRING_IDS"].frame
    names = names.filter(pl.col("id").is_in(record["component"].drop_nulls().unique().implode()))
    names = names.select(component="id", text=unquoted("value"))
    if "totalAllocated" not in record.columns:
        return []
    rows = record.join(names, on="component", how="left", maintain_order="left")
    rows = rows.select(
        component=pl.col("text").fill_null(pl.col("component")),
        time=as_int64(rows["timestamp"]),
        level=as_int64(rows["totalAllocated"]),
    )
    return _by_component(rows, executions)


def _by_component(rows: pl.DataFrame, executions: Executions, names: Sequence[str] | None = None) -> list[MemoryStep]:
    """Cut levels into the steps that the host marks; if it marks none, divide the whole by the number of known steps.

    With `names`, components are positions in them.
    """
    import polars as pl

    edges = executions.edges_ns
    steps = 1 if edges else executions.steps or 1
    found: list[MemoryStep] = []
    for (component,), part in (
        rows.drop_nulls().sort("time", maintain_order=True).group_by("component", maintain_order=True)
    ):
        levels = part.with_columns(before=pl.col("level").shift(1).fill_null(pl.col("level")))
        found += [
            replace(
                one,
                allocations=one.allocations // steps,
                allocated_bytes=one.allocated_bytes // steps,
                growth_bytes=one.growth_bytes // steps,
            )
            for one in levels_by_step(
                str(component if names is None else names[component]),
                edges,
                *(levels[name].to_numpy() for name in ("time", "level", "before")),
            )
        ]
    return found
