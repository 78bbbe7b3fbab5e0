"""trace_view in small: its steps, its processes and sums by name, of a trace that was read whole or of what its folds kept.

So an invariant that only asks for these is one function, however large the trace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import nanoseconds, unquoted

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers import Content

#: How the profilers mark a step, up to its number.
STEP_MARK = "ProfilerStep#"
#: Lanes of Overlap Analysis that step_trace_time adds up.
OVERLAP_LANES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
#: The type that MindSpore gives operators of the host.
HOST_OPERATOR = "HostCpuOps"
PROCESS_NAME, PROCESS_LABEL = r'"name":\s*"([^"]*)"', r'"labels":\s*"([^"]*)"'
_GRAPH = r'"level":\s*"(model|node)"'
_KEYS = ("name", "ph", "pid", "ts", "dur", "args", "cat")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """An event `ProfilerStep#<label>`; times are None where they are no number of nanoseconds."""

    label: str
    start_ns: int | None
    duration_ns: int | None

    @property
    def number(self) -> int | None:
        """The number of the step, or None where it has none."""
        return int(self.label) if re.fullmatch(r"[0-9]{1,18}", self.label) else None

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """Start and end of the step, or None where nobody can tell."""
        if self.start_ns is None or self.duration_ns is None:
            return None
        return self.start_ns, self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSum:
    """What the events of one name under Overlap Analysis add up to, on a device (None: it is not said on which)."""

    device: str | None
    lane: str
    total_us: float


def _facts(content: Content) -> Any:
    """Return what a fold kept of a trace that went by, under the names of these functions; None where it was read whole."""
    return content.folds.get("ViewFacts")


def step_marks(content: Content) -> tuple[StepMark, ...]:
    """Return the marks of steps, in the order of the trace."""
    import polars as pl

    if (facts := _facts(content)) is not None:
        found: tuple[StepMark, ...] = facts.step_marks
        return found
    frame = _keyed(content.frame)
    marks = frame.filter((pl.col("ph") == '"X"') & pl.col("name").str.starts_with(f'"{STEP_MARK}'))
    labels = marks["name"].str.slice(1 + len(STEP_MARK)).str.head(-1).to_list()
    times = (nanoseconds(marks["ts"]).to_list(), nanoseconds(marks["dur"]).to_list())
    return tuple(
        StepMark(label=label, start_ns=start, duration_ns=duration)
        for label, start, duration in zip(labels, *times, strict=True)
    )


def drawn_processes(content: Content) -> frozenset[str]:
    """Return the names of the processes that have events with a duration."""
    if (facts := _facts(content)) is not None:
        names: frozenset[str] = facts.drawn_processes
        return names
    return frozenset(complete_events(content.frame)["process"].drop_nulls().unique().to_list())


def range_of_events(content: Content) -> tuple[int, int] | None:
    """Return the first and the last start [ns], without what CANN tells of a graph (when it was loaded)."""
    import polars as pl

    if (facts := _facts(content)) is not None:
        found: tuple[int, int] | None = facts.range_of_events
        return found
    graph = pl.col("args").str.contains(_GRAPH).fill_null(False)
    times = complete_events(content.frame).filter(~((pl.col("process") == "CANN") & graph))["start"].drop_nulls()
    return (times.min(), times.max()) if len(times) else None  # type: ignore[return-value]


def lane_sums(content: Content) -> tuple[LaneSum, ...]:
    """Return what the lanes of Overlap Analysis add up to; empty where it has no event."""
    import polars as pl

    if (facts := _facts(content)) is not None:
        found: tuple[LaneSum, ...] = facts.lane_sums
        return found
    lanes = complete_events(content.frame).filter(
        pl.col("process") == "Overlap Analysis", pl.col("name").is_in(list(OVERLAP_LANES))
    )
    device = pl.col("label").str.extract(r"(\d+)").alias("device")
    sums = lanes.group_by(device, "name", maintain_order=True).agg(pl.col("duration").sum())
    return tuple(LaneSum(device=device, lane=lane, total_us=total) for device, lane, total in sums.iter_rows())


def has_operators(content: Content) -> bool:
    """Whether the framework's operators on the host (cpu_op) are there."""
    if (facts := _facts(content)) is not None:
        return bool(facts.has_operators)
    return bool((_keyed(content.frame)["cat"] == '"cpu_op"').any())


def operator_sums(content: Content) -> pl.DataFrame | None:
    """Return name, count and lasts [ns] of the operators on the host (cpu_op), steps excepted; None where none is drawn."""
    import polars as pl

    if (facts := _facts(content)) is not None:
        found: pl.DataFrame | None = facts.operator_sums
        return found
    frame = _keyed(content.frame)
    drawn = frame.filter((pl.col("ph") == '"X"') & (pl.col("cat") == '"cpu_op"'))
    drawn = drawn.select(name=unquoted("name"), lasts=nanoseconds(drawn["dur"]))
    drawn = drawn.filter(~pl.col("name").str.contains(rf"^{STEP_MARK}[0-9]+$"))
    if drawn.is_empty():
        return None
    return drawn.group_by("name").agg(pl.len().alias("count"), pl.col("lasts").sum())


#: Sums of CANN's calls: name (without what stands before @), count, lasts [ns]; least, most [us], and variance [us^2].
CALL_SUMS = ("name", "count", "lasts", "least_drawn", "most_drawn", "spread_drawn")


def call_sums(content: Content) -> pl.DataFrame:
    """Return CALL_SUMS of the events of the process CANN."""
    import polars as pl

    if (facts := _facts(content)) is not None:
        calls: pl.DataFrame = facts.call_sums
        return calls
    frame = _keyed(content.frame)
    named = frame.filter((pl.col("ph") == '"M"') & (pl.col("name") == '"process_name"'))
    ours = named.filter(pl.col("args").str.contains(r'"name":\s*"CANN"'))["pid"].unique()
    drawn = frame.filter((pl.col("ph") == '"X"') & pl.col("pid").is_in(ours.to_list()))
    drawn = drawn.select(name=unquoted("name").str.split("@").list.last(), lasts=nanoseconds(drawn["dur"]))
    return drawn.group_by("name").agg(
        pl.len().alias("count"),
        pl.col("lasts").sum(),
        least_drawn=pl.col("lasts").min() / 1000,
        most_drawn=pl.col("lasts").max() / 1000,
        spread_drawn=(pl.col("lasts") / 1000).var(ddof=0),
    )


def host_calls(content: Content) -> Counter[str]:
    """Return how often each operator of the host was drawn by MindSpore."""
    if (fold := content.folds.get("HostOperators")) is not None:
        found: Counter[str] = fold.calls
        return found
    return Counter(host_operators(content.frame)["name"].to_list())


# -- of a trace that was read whole ----------------------------------------------------------------------------------


def _keyed(frame: pl.DataFrame, keys: Sequence[str] = _KEYS) -> pl.DataFrame:
    """Add the keys that no event of the trace has."""
    import polars as pl

    return frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in keys if name not in frame.columns)


def complete_events(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the events with a duration: name, process, label (`NPU 0`), start and lasts [ns], duration [us], args, row.

    `duration` is the number as it is written, which may have more decimals than whole nanoseconds.
    """
    import polars as pl

    frame = _keyed(frame)
    meta = frame.filter((pl.col("ph") == '"M"') & pl.col("name").is_in(['"process_name"', '"process_labels"']))
    said = meta.select(
        "pid",
        process=pl.when(pl.col("name") == '"process_name"').then(pl.col("args").str.extract(PROCESS_NAME)),
        label=pl.when(pl.col("name") == '"process_labels"').then(pl.col("args").str.extract(PROCESS_LABEL)),
    )
    processes = said.group_by("pid").agg(pl.col("process").drop_nulls().first(), pl.col("label").drop_nulls().first())
    events = frame.with_row_index("row").filter(pl.col("ph") == '"X"')
    return events.select(
        "row",
        "pid",
        "args",
        name=unquoted("name"),
        start=nanoseconds(events["ts"]),
        lasts=nanoseconds(events["dur"]),
        duration=events["dur"].str.strip_chars(' \t"').cast(pl.Float64, strict=False),
    ).join(processes, on="pid", how="left", maintain_order="left")


def host_operators(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the events that MindSpore draws of operators of the host, with their row and plain name."""
    import polars as pl

    trace = _keyed(frame).with_row_index("row")
    marked = (pl.col("ph") == '"X"') & pl.col("args").str.contains(rf'"type":\s*"{HOST_OPERATOR}"')
    return trace.filter(marked).with_columns(unquoted("name"))


def step_numbers(texts: Iterable[str]) -> frozenset[int]:
    """Return the numbers of steps among texts; blanks around them do not count."""
    return frozenset(int(text) for text in texts if re.fullmatch(r"\s*\d{1,18}\s*", text))
