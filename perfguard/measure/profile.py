"""A profile: what the artifacts of one rank say, in one spelling and one unit, whatever dialect wrote them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from perfguard.contract.executions import DATABASES, step_of, unquoted
from perfguard.contract.shared_memory import without_shared
from perfguard.contract.table import as_float64, as_int64, nanoseconds
from perfguard.measure.collectives import ANNOTATED, annotated_collectives

if TYPE_CHECKING:
    from perfguard.contract import Contract, Cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """Memory of one device over one step, or over the window where steps are not known.

    `rise_bytes` is how far the allocated bytes rise above their lowest point; `allocations` and `allocated_bytes` count
    what was newly allocated, whether or not it was released again; `growth_bytes` is what the step left behind.
    """

    device: str
    rise_bytes: int
    allocations: int
    allocated_bytes: int
    growth_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One rank: executions of all its cycles (steps numbered through), shapes and memory.

    `steps` is None where nobody can tell how many steps the window had; counts are then per window.
    """

    rank: int
    steps: int | None
    executions: pl.DataFrame
    #: operator, shapes (text), calls: over the whole window.
    shapes: pl.DataFrame
    memory: tuple[MemoryStep, ...]
    #: Start and end of every step in the clock of the executions, in ns; empty where they are not known of all steps.
    edges_ns: tuple[tuple[int, int], ...] = ()
    #: How long every step took, by its edges or by perfguard's own clock; empty where that is not known of all steps.
    step_ns: tuple[int, ...] = ()
    #: Collectives that are annotated beside the operators: operator, start_ns, duration_ns.
    collectives: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ANNOTATED))
    #: Whether start times are known.
    is_timeline: bool = True


def profiles(contract: Contract) -> list[Profile]:
    """Return one profile a rank, from the cycles whose executions could be read."""
    by_rank: dict[int, list[Cycle]] = {}
    for cycle in contract.cycles:
        if cycle.executions is not None:
            by_rank.setdefault(cycle.rank, []).append(cycle)
    return [_profile(rank, cycles) for rank, cycles in sorted(by_rank.items())]


def _profile(rank: int, cycles: list[Cycle]) -> Profile:
    frames, shapes = [], []
    steps: int | None = 0
    memory: list[MemoryStep] = []
    edges: list[tuple[int, int]] = []
    durations: list[int] = []
    for cycle in cycles:
        executions = cycle.executions
        assert executions is not None
        edges += executions.edges_ns
        durations += [end - start for start, end in executions.edges_ns] or [s.wall_ns for s in cycle.asked.steps]
        offset = steps or 0
        # What lies outside every step belongs to no step of the model; where steps are unknown all of it counts.
        frame = executions.frame.drop_nulls("step") if executions.by_step else executions.frame
        frames.append(frame.with_columns(pl.col("step") + offset))
        shapes.append(_shapes(cycle))
        memory += _memory(cycle)
        steps = None if steps is None or executions.steps is None else steps + executions.steps
    return Profile(
        rank=rank,
        steps=steps,
        executions=pl.concat(frames),
        shapes=pl.concat(shapes).group_by("operator", "shapes").agg(pl.col("calls").sum()),
        memory=tuple(memory),
        edges_ns=tuple(edges) if len(edges) == steps else (),
        step_ns=tuple(durations) if len(durations) == steps else (),
        collectives=pl.concat([annotated_collectives(cycle) for cycle in cycles]),
        is_timeline=all(cycle.executions is not None and cycle.executions.is_timeline for cycle in cycles),
    )


# -- shapes ----------------------------------------------------------------------------------------------------------


def _shapes_of_framework(cycle: Cycle) -> pl.DataFrame:
    """Shapes as cpu_framework has them: one row an execution, blank for what ran through pyboost."""
    content = cycle.content("cpu_framework")
    if content is None:
        return _no_shapes()
    named = content.frame.filter(pl.col("op_type") != "")
    text = (
        pl.col("inputs").str.replace_all(r"input_[0-9]+:", "").str.replace(r"(NoShape;)*$", "").str.strip_chars_end(";")
    )
    return (
        named.select(operator="op_type", shapes=text)
        .group_by("operator", "shapes")
        .len("calls")
        .cast({"calls": pl.Int64})
    )


def _shapes_of_executions(cycle: Cycle) -> pl.DataFrame:
    assert cycle.executions is not None
    needed = ["shapes", "step"] if cycle.executions.by_step else ["shapes"]
    recorded = cycle.executions.frame.drop_nulls(needed)
    return recorded.group_by("operator", "shapes").len("calls").cast({"calls": pl.Int64})


def _no_shapes() -> pl.DataFrame:
    return pl.DataFrame(schema={"operator": pl.String, "shapes": pl.String, "calls": pl.Int64})


def _shapes(cycle: Cycle) -> pl.DataFrame:
    """Shapes from the executions themselves where they have any, else from the file that lists them apart."""
    assert cycle.executions is not None
    if cycle.executions.frame["shapes"].null_count() < cycle.executions.frame.height:
        return _shapes_of_executions(cycle)
    if cycle.executions.on_device:
        return _no_shapes()
    return _shapes_of_framework(cycle)


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory_of_pool(cycle: Cycle) -> list[MemoryStep]:
    """Memory of MindSpore's host pool: a row an event, Total Allocated after it.

    The record of a later cycle or session repeats earlier ones, with gaps, so only rows of the cycle's own window count; what
    the very first of them did to the level is not known.
    """
    content = cycle.content("cpu_ms_memory_record")
    executions = cycle.executions
    if content is None or executions is None:
        return []
    rows = pl.DataFrame(
        {
            "time": as_int64(content.frame["Timestamp(ns)"]),
            "level": as_int64(content.frame["Total Allocated(Byte)"]),
        }
    )
    if edges := executions.edges_ns:
        rows = rows.filter(pl.col("time").is_between(edges[0][0], edges[-1][1]))
    rows = rows.with_columns(before=pl.col("level").shift(1).fill_null(pl.col("level")))
    return _memory_by_step(rows, edges, "cpu")


def _memory_of_trace(cycle: Cycle) -> list[MemoryStep]:
    """Memory events of a torch trace: `[memory]` with Bytes, summed in the order of Ev Idx.

    Total Allocated is not used: on a CPU it goes on counting from one cycle to the next.
    """

    class Event(
        msgspec.Struct,
        rename={
            "size": "Bytes",
            "order": "Ev Idx",
            "kind": "Device Type",
            "number": "Device Id",
            "total": "Total Allocated",
            "reserved": "Total Reserved",
            "address": "Addr",
        },
    ):
        # The schema has seen that they are whole; JSON's 1.0 is whole as well.
        size: int | float
        kind: int | float
        #: torch 1.12 numbers no event; there the order is that of the times.
        order: int | float = 0
        number: int | float = -1
        total: int | float | None = None
        reserved: int | float | None = None
        address: int | float | None = None

    content = cycle.content("trace")
    executions = cycle.executions
    if content is None or executions is None or "args" not in content.frame.columns:
        return []
    events = content.frame.filter(unquoted("name") == "[memory]")
    decoder = msgspec.json.Decoder(Event)
    decoded = [decoder.decode(text) for text in events["args"].to_list()]
    rows = pl.DataFrame(
        {
            "time": nanoseconds(events["ts"]) if events.height else pl.Series([], dtype=pl.Int64),
            "Bytes": _whole(e.size for e in decoded),
            "order": _whole(e.order for e in decoded),
            "Total Allocated": _whole(e.total for e in decoded),
            "Total Reserved": _whole(e.reserved for e in decoded),
            "Addr": _whole(e.address for e in decoded),
            "Device Type": _whole(e.kind for e in decoded),
            "Device Id": _whole(e.number for e in decoded),
            "device": pl.Series([_device_name(int(e.kind), int(e.number)) for e in decoded], dtype=pl.String),
        }
    )
    rows = without_shared(rows.sort("order", "time", maintain_order=True)).rename({"Bytes": "size"})
    found: list[MemoryStep] = []
    for (device,), part in rows.group_by("device", maintain_order=True):
        levels = part.sort("order", "time", maintain_order=True).with_columns(level=pl.col("size").cum_sum())
        levels = levels.select("time", "level", before=pl.col("level") - pl.col("size"))
        found += _memory_by_step(levels, executions.edges_ns, str(device))
    return found


def _whole(values: Iterable[float | None]) -> pl.Series:
    return pl.Series([None if value is None else int(value) for value in values], dtype=pl.Int64)


def _device_name(kind: int, number: int) -> str:
    # c10::DeviceType: 0 is the CPU, 1 is CUDA; others keep their number.
    names = {0: "cpu", 1: "cuda"}
    name = names.get(kind, f"device{kind}")
    return name if number < 0 else f"{name}:{number}"


def _memory_by_step(rows: pl.DataFrame, edges_ns: tuple[tuple[int, int], ...], device: str) -> list[MemoryStep]:
    """Cut `rows` (time, level after the event, level before it) into steps."""
    steps = step_of(rows["time"].to_list(), edges_ns) if edges_ns else [0] * rows.height
    marked = rows.with_columns(step=pl.Series(steps, dtype=pl.Int64)).drop_nulls("step")
    found = []
    for _, part in marked.group_by("step", maintain_order=True):
        level, before = part["level"].to_list(), part["before"].to_list()
        growth = [after - earlier for after, earlier in zip(level, before, strict=True) if after > earlier]
        found.append(
            MemoryStep(
                device=device,
                rise_bytes=max(*level, *before) - min(*level, *before),
                allocations=len(growth),
                allocated_bytes=sum(growth),
                growth_bytes=level[-1] - before[0],
            )
        )
    return found


def _memory_of_components(cycle: Cycle) -> list[MemoryStep]:
    """Memory of an Ascend device, from memory_record: a row an event of a component (PTA, GE, MindSpore, ...).

    The components' levels are added up by their own sum row (PTA+GE) already, so each is a device of its own: `PTA`, `APP`.
    MB are of 1024 x 1024 bytes; MindSpore writes MB of 1000 KB.
    """
    artifact = cycle.artifacts.get("memory_record")
    if artifact is None:
        return []
    cells = artifact.content.frame
    scale = 1000 * 1024 if cycle.layout.id.startswith("ms-") else 1024 * 1024
    rows = cells.select(
        component="Component",
        time=nanoseconds(cells["Timestamp(us)"]),
        level=(as_float64(cells["Total Allocated(MB)"]) * scale).round().cast(pl.Int64),
    )
    return _memory_by_component(cycle, rows)


def _memory_of_database(cycle: Cycle) -> list[MemoryStep]:
    """The same of a database export: MEMORY_RECORD in bytes and ns, its components by STRING_IDS."""
    artifact = next((cycle.artifacts[slot] for slot in DATABASES if slot in cycle.artifacts), None)
    if artifact is None or not {"MEMORY_RECORD", "STRING_IDS"} <= artifact.content.tables.keys():
        return []
    record = artifact.content.tables["MEMORY_RECORD"].frame
    names = artifact.content.tables["STRING_IDS"].frame.select(component="id", text=unquoted("value"))
    if "totalAllocated" not in record.columns:
        return []
    rows = record.join(names, on="component", how="left", maintain_order="left")
    return _memory_by_component(
        cycle,
        rows.select(
            component=pl.col("text").fill_null(pl.col("component")),
            time=as_int64(rows["timestamp"]),
            level=as_int64(rows["totalAllocated"]),
        ),
    )


def _memory_by_component(cycle: Cycle, rows: pl.DataFrame) -> list[MemoryStep]:
    """Cut levels into the steps the host marks; where it marks none, the whole is divided by the steps that are known."""
    edges = cycle.executions.edges_ns if cycle.executions is not None else ()
    steps = 1 if edges or cycle.executions is None else cycle.executions.steps or 1
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
            for one in _memory_by_step(levels, edges, str(component))
        ]
    return found


def _memory(cycle: Cycle) -> list[MemoryStep]:
    """Memory from whichever file of the cycle records it."""
    for slot, read in (
        ("trace", _memory_of_trace),
        ("cpu_ms_memory_record", _memory_of_pool),
        ("memory_record", _memory_of_components),
        *((slot, _memory_of_database) for slot in DATABASES),
    ):
        if slot in cycle.artifacts:
            return read(cycle)
    return []
