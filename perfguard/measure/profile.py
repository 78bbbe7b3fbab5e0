"""A profile: what the artifacts of one rank say, in one spelling and one unit, whatever dialect wrote them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from perfguard.contract.executions import step_of, unquoted
from perfguard.contract.readers.trace import nanoseconds

if TYPE_CHECKING:
    from perfguard.contract import Contract, Cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """Memory of one device over one step, or over the window where steps are not known.

    `rise_bytes` is how far the allocated bytes rise above their lowest point; `allocations` and `allocated_bytes` count
    what was newly allocated, whether or not it was released again.
    """

    device: str
    rise_bytes: int
    allocations: int
    allocated_bytes: int


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
    for cycle in cycles:
        executions = cycle.executions
        assert executions is not None
        offset = steps or 0
        # What lies outside every step belongs to no step of the model; where steps are unknown all of it counts.
        frame = executions.frame.drop_nulls("step") if executions.by_step else executions.frame
        frames.append(frame.with_columns(pl.col("step") + offset))
        shapes.append(SHAPES[cycle.layout.id](cycle))
        memory += MEMORY[cycle.layout.id](cycle)
        steps = None if steps is None or executions.steps is None else steps + executions.steps
    return Profile(
        rank=rank,
        steps=steps,
        executions=pl.concat(frames),
        shapes=pl.concat(shapes).group_by("operator", "shapes").agg(pl.col("calls").sum()),
        memory=tuple(memory),
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


def _shapes_of_trace(cycle: Cycle) -> pl.DataFrame:
    assert cycle.executions is not None
    recorded = cycle.executions.frame.drop_nulls(["shapes", "step"])
    return recorded.group_by("operator", "shapes").len("calls").cast({"calls": pl.Int64})


def _no_shapes() -> pl.DataFrame:
    return pl.DataFrame(schema={"operator": pl.String, "shapes": pl.String, "calls": pl.Int64})


SHAPES: dict[str, Callable[[Cycle], pl.DataFrame]] = {
    "ms-2.5+cpu": _shapes_of_framework,
    "pt-torch": _shapes_of_trace,
}


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory_of_pool(cycle: Cycle) -> list[MemoryStep]:
    """Memory of MindSpore's host pool: a row an event, Total Allocated after it. The record of a later cycle repeats the
    earlier ones, so only rows inside the cycle's own steps count.
    """
    content = cycle.content("cpu_ms_memory_record")
    executions = cycle.executions
    if content is None or executions is None:
        return []
    rows = content.frame.select(
        time=pl.col("Timestamp(ns)").cast(pl.Int64), level=pl.col("Total Allocated(Byte)").cast(pl.Int64)
    )
    return _memory_by_step(rows, executions.edges_ns, "cpu")


def _memory_of_trace(cycle: Cycle) -> list[MemoryStep]:
    """Memory events of a torch trace: `[memory]` with Bytes, summed in the order of Ev Idx.

    Total Allocated is not used: on a CPU it goes on counting from one cycle to the next.
    """

    class Event(
        msgspec.Struct, rename={"size": "Bytes", "order": "Ev Idx", "kind": "Device Type", "number": "Device Id"}
    ):
        size: int
        order: int
        kind: int
        number: int = -1

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
            "size": pl.Series([e.size for e in decoded], dtype=pl.Int64),
            "order": pl.Series([e.order for e in decoded], dtype=pl.Int64),
            "device": pl.Series([_device_name(e.kind, e.number) for e in decoded], dtype=pl.String),
        }
    )
    found: list[MemoryStep] = []
    for (device,), part in rows.group_by("device", maintain_order=True):
        levels = part.sort("order").with_columns(level=pl.col("size").cum_sum())
        levels = levels.select("time", "level", before=pl.col("level") - pl.col("size"))
        found += _memory_by_step(levels, executions.edges_ns, str(device))
    return found


def _device_name(kind: int, number: int) -> str:
    # c10::DeviceType: 0 is the CPU, 1 is CUDA; others keep their number.
    names = {0: "cpu", 1: "cuda"}
    name = names.get(kind, f"device{kind}")
    return name if number < 0 else f"{name}:{number}"


def _memory_by_step(rows: pl.DataFrame, edges_ns: tuple[tuple[int, int], ...], device: str) -> list[MemoryStep]:
    steps = pl.Series(
        "step", step_of(rows["time"].to_list(), edges_ns) if edges_ns else [0] * rows.height, dtype=pl.Int64
    )
    found = []
    for _, part in rows.with_columns(steps).drop_nulls("step").group_by("step", maintain_order=True):
        # A pool record says the level after an event only, so what its first event of a step did is not known.
        level = part["level"]
        before = part["before"] if "before" in part.columns else level.shift(1, fill_value=level[0])
        growth = (level - before).filter(level > before)
        found.append(
            MemoryStep(
                device=device,
                rise_bytes=max(*level, *before) - min(*level, *before),
                allocations=len(growth),
                allocated_bytes=_as_int(growth.sum()),
            )
        )
    return found


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0


MEMORY: dict[str, Callable[[Cycle], list[MemoryStep]]] = {
    "ms-2.5+cpu": _memory_of_pool,
    "pt-torch": _memory_of_trace,
}
