"""Executions: which operator ran when, for how long, in which step; one frame, whatever dialect wrote it.

The columns are `operator` (type or name that metrics speak of), `name` (the most precise name the profiler has),
`step` (number inside the cycle, null when the execution lies in none), `start_ns`, `duration_ns`, `self_ns` (without the
operators inside it) and `shapes` (text, null where not recorded with the execution).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.contract.table import as_float64, as_int64

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract.inspection import Cycle

#: Categories of torch's trace that are work: host operators, and what ran on a device.
TORCH_WORK = ("cpu_op", "kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executions:
    """Executions of one cycle. `steps` is how many steps it shows, None where nobody can tell."""

    frame: pl.DataFrame
    steps: int | None
    #: Whether `step` was assigned by time, so that the steps can be compared with each other.
    by_step: bool
    #: Numbers the profiler itself gave the steps (torch's ProfilerStep#N), in order.
    step_numbers: tuple[int, ...] = ()
    #: Start and end of every step in the clock of the artifacts, in ns.
    edges_ns: tuple[tuple[int, int], ...] = ()


def from_mindspore_cpu(cycle: Cycle) -> Executions | None:
    """Executions of `cpu_op_execute_timestamp`, typed by `cpu_op_detail_info`; None when either is missing.

    MindSpore marks no steps on a CPU. Where perfguard drove the steps itself, their edges join with the timestamps: both
    are UNIX time. Elsewhere the number of steps is inferred from the counts (`infer_steps`).
    """
    import polars as pl

    timestamps = cycle.content("cpu_op_execute_timestamp")
    detail = cycle.content("cpu_op_detail_info")
    if timestamps is None or detail is None:
        return None
    types = detail.frame.select(name="full_op_name", operator="op_type").unique("name", keep="first")
    frame = (
        timestamps.frame.select(
            name=pl.col("full_op_name"),
            start_ns=as_int64(timestamps.frame["start"]),
            duration_ns=(as_float64(timestamps.frame["duration"]) * 1e6).round().cast(pl.Int64),
        )
        .join(types, on="name", how="left", maintain_order="left")
        .with_columns(pl.col("operator").fill_null(pl.col("name")), self_ns=pl.col("duration_ns"))
        .sort("start_ns", maintain_order=True)
    )
    edges = tuple(sorted((step.start_ns, step.end_ns) for step in cycle.asked.steps))
    steps = cycle.asked.active if edges else infer_steps(_counts(frame["name"]))
    return Executions(frame=_finish(frame, edges, shapes=None), steps=steps, by_step=bool(edges), edges_ns=edges)


def from_torch_trace(cycle: Cycle) -> Executions | None:
    """Executions of a torch trace; steps are its `ProfilerStep#N` annotations. None when it could not be read."""
    import polars as pl

    from perfguard.contract.readers.trace import nanoseconds

    trace = cycle.content("trace")
    if trace is None:
        return None
    frame = trace.frame
    for column in ("ph", "name", "cat", "pid", "tid", "ts", "dur", "args"):
        if column not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype=pl.String).alias(column))
    complete = frame.filter(pl.col("ph") == '"X"')
    complete = complete.with_columns(
        start_ns=nanoseconds(complete["ts"]),
        duration_ns=nanoseconds(complete["dur"]),
        category=unquoted("cat"),
        name=unquoted("name"),
    )
    marks = (
        complete.filter(
            (pl.col("category") == "user_annotation") & pl.col("name").str.contains(r"^ProfilerStep#[0-9]{1,18}$")
        )
        .with_columns(number=pl.col("name").str.slice(13).cast(pl.Int64))
        .sort("start_ns")
    )
    edges = tuple(zip(marks["start_ns"].to_list(), (marks["start_ns"] + marks["duration_ns"]).to_list(), strict=True))
    work = complete.filter(pl.col("category").is_in(list(TORCH_WORK))).sort(
        "start_ns", "duration_ns", descending=[False, True]
    )
    work = work.with_columns(
        operator=pl.col("name"),
        self_ns=pl.Series(
            self_times(work.select("pid", "tid").rows(), work["start_ns"].to_list(), work["duration_ns"].to_list()),
            dtype=pl.Int64,
        ),
    )
    shapes = pl.Series("shapes", _torch_shapes(work["args"].to_list()), dtype=pl.String)
    return Executions(
        frame=_finish(work, edges, shapes=shapes),
        steps=len(edges) or None,
        by_step=bool(edges),
        step_numbers=tuple(marks["number"].to_list()),
        edges_ns=edges,
    )


EXECUTIONS: dict[str, Callable[[Cycle], Executions | None]] = {
    "ms-2.5+cpu": from_mindspore_cpu,
    "pt-torch": from_torch_trace,
}


def step_of(start_ns: Sequence[int], edges_ns: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the number of the step each time lies in, None for a time in none. Edges are in order and closed."""
    from bisect import bisect_right

    starts = [start for start, _ in edges_ns]
    found = []
    for time in start_ns:
        step = bisect_right(starts, time) - 1
        found.append(step if step >= 0 and time <= edges_ns[step][1] else None)
    return found


def infer_steps(counts: Counter[str]) -> int | None:
    """Infer how many steps a window had from how often each operator ran, or None when the counts do not say.

    The number that divides most operators' counts, the largest of several; it must explain at least half of them, or
    the window may as well have had one step.
    """
    if not counts:
        return None
    candidates = {count for count in counts.values() if count > 1}
    support = {n: sum(count % n == 0 for count in counts.values()) for n in candidates}
    if not support:
        return None
    best = max(support, key=lambda n: (support[n], n))
    return best if 2 * support[best] >= len(counts) else None


def self_times(tracks: Sequence[Any], start_ns: Sequence[int], duration_ns: Sequence[int]) -> list[int]:
    """Return each event's time without the events nested in it on the same track (thread).

    Events come sorted by start, longer first where starts are equal. An event that only overlaps its predecessor is
    no child of it.
    """
    own = list(duration_ns)
    stacks: dict[Any, list[tuple[int, int]]] = {}
    for index, (track, start, duration) in enumerate(zip(tracks, start_ns, duration_ns, strict=True)):
        stack = stacks.setdefault(track, [])
        end = start + duration
        while stack and stack[-1][1] <= start and not (duration == 0 and stack[-1][1] == start):
            stack.pop()
        if stack and end <= stack[-1][1]:
            own[stack[-1][0]] -= duration
        stack.append((index, end))
    return own


def _finish(frame: pl.DataFrame, edges: Sequence[tuple[int, int]], shapes: pl.Series | None) -> pl.DataFrame:
    import polars as pl

    step = pl.Series("step", step_of(frame["start_ns"].to_list(), edges), dtype=pl.Int64)
    return frame.with_columns(
        step, shapes if shapes is not None else pl.lit(None, dtype=pl.String).alias("shapes")
    ).select("operator", "name", "step", "start_ns", "duration_ns", "self_ns", "shapes")


def _counts(names: pl.Series) -> Counter[str]:
    return Counter(names.to_list())


def unquoted(column: str) -> pl.Expr:
    """Return the expression that turns a column of raw JSON strings into their texts."""
    import polars as pl

    # Raw JSON strings; the few with escapes are decoded properly, the rest only lose their quotes.
    return (
        pl.when(pl.col(column).str.contains("\\", literal=True))
        .then(pl.col(column).map_elements(_decode_string, return_dtype=pl.String))
        .otherwise(pl.col(column).str.slice(1).str.head(-1))
    )


def _decode_string(text: str) -> str:
    import json

    value: str = json.loads(text)
    return value


def _torch_shapes(arguments: list[str | None]) -> list[str | None]:
    """Return `float[4, 8];long[]`, dtype and shape of every input of an operator, or None where not recorded."""
    import msgspec

    class Inputs(msgspec.Struct, rename={"dims": "Input Dims", "types": "Input type"}):
        dims: list[Any] | None = None
        types: list[str] | None = None

    decoder = msgspec.json.Decoder(Inputs)
    shapes: list[str | None] = []
    for text in arguments:
        try:
            inputs = decoder.decode(text) if text else Inputs()
        except (msgspec.DecodeError, RecursionError):
            # The arguments are whole JSON, but not inputs as torch writes them: nothing was recorded that can be compared.
            inputs = Inputs()
        if inputs.dims is None:
            shapes.append(None)
            continue
        types = inputs.types or [""] * len(inputs.dims)
        shapes.append(
            ";".join(f"{kind}{dims}" if dims or kind else "-" for kind, dims in zip(types, inputs.dims, strict=False))
        )
    return shapes
