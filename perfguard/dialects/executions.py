"""Executions: which operators ran how often and how long, in which step; one value, whatever dialect wrote it.

A source lists them one by one (`Listed`); what is kept of a cycle (`Executions`) are sums over them, whose size depends on
how many different operators, steps and shapes there are. The columns of both are described in `groups`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_int64, unquoted
from perfguard.dialects.collectives import host_collectives, no_collectives
from perfguard.dialects.coverage import covered_steps
from perfguard.dialects.cycle import Executions, Steps
from perfguard.dialects.groups import aggregated
from perfguard.dialects.queries import DIALECTS

if TYPE_CHECKING:
    import msgspec
    import polars as pl

    from perfguard.dialects.cycle import Cycle, Requested


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed(Steps):
    """Executions of one cycle one by one, as a source has them."""

    #: One row an execution (or `calls` of them) in the order of their starts: COLUMNS, see `groups`.
    rows: pl.DataFrame


def calls_by(groups: pl.DataFrame, column: str) -> Counter[str]:
    """Return how often each operator (or name: what the column holds) ran, from groups or any rows with `calls`."""
    import polars as pl

    if groups.is_empty():
        return Counter()
    return Counter(dict(groups.group_by(column, maintain_order=True).agg(pl.col("calls").sum()).iter_rows()))


def summed(listed: Listed) -> Executions:
    """Add up executions that are listed one by one."""
    collectives = no_collectives() if listed.on_device else host_collectives(listed.in_the_window(listed.rows))
    return Executions(
        groups=aggregated(listed.rows),
        covered=covered_steps(listed.rows, listed.edges_ns) if listed.is_timeline else (),
        collectives=collectives,
        steps=listed.steps,
        by_step=listed.by_step,
        step_numbers=listed.step_numbers,
        edges_ns=listed.edges_ns,
        marks_steps=listed.marks_steps,
        on_device=listed.on_device,
        is_timeline=listed.is_timeline,
    )


def marks_of_steps(marks: pl.DataFrame, requested: Requested, header: Any) -> pl.DataFrame:
    """Return the marks that turned out to be of steps, numbered anew.

    While a whole run is recorded it is unknown whether a call belongs to a step or to an evaluation before the first one,
    and a mark cannot be taken back. steps.json says which were steps, in UNIX time; so does the trace, from its base on.
    """
    import polars as pl

    base = header.get("baseTimeNanoseconds", 0) if isinstance(header, Mapping) else 0
    steps = sorted((step.start_ns - base, step.end_ns - base) for step in requested.steps)
    began = marks["start_ns"].to_list()
    of_step = [number is not None for number in step_of(began, steps)]
    kept = marks.filter(pl.Series(of_step, dtype=pl.Boolean))
    return kept.with_columns(number=pl.int_range(kept.height, dtype=pl.Int64))


def from_database(cycle: Cycle) -> Listed | None:
    """Kernels of an Ascend device, from the TASK and COMPUTE_TASK_INFO tables of a database export; names by STRING_IDS.

    Steps are those of STEP_TIME where the table is there; a kernel belongs to the step it starts in.
    """
    import polars as pl

    artifact = next((cycle.artifacts[slot] for slot in DATABASES if slot in cycle.artifacts), None)
    if artifact is None or not {"TASK", "COMPUTE_TASK_INFO", "STRING_IDS"} <= artifact.content.tables.keys():
        return None
    tables = {name: table.frame for name, table in artifact.content.tables.items()}
    texts = tables["STRING_IDS"]
    task = tables["TASK"].select("startNs", "endNs", "globalTaskId")
    info = tables["COMPUTE_TASK_INFO"]
    if "inputShapes" not in info.columns:
        info = info.with_columns(pl.lit(None, dtype=pl.String).alias("inputShapes"))
    info = info.select("globalTaskId", "name", "opType", "inputShapes")
    joined = task.join(info, on="globalTaskId", how="inner")
    for column in ("name", "opType", "inputShapes"):
        joined = _with_text(joined, column, texts)
    joined = pl.concat([joined, _collectives(tables, texts)], how="diagonal")
    start_ns, end_ns = as_int64(joined["startNs"]), as_int64(joined["endNs"])
    frame = joined.select(
        operator=pl.col("opType_text").fill_null(pl.col("opType")),
        name=pl.col("name_text").fill_null(pl.col("name")),
        start_ns=start_ns,
        duration_ns=end_ns - start_ns,
        self_ns=end_ns - start_ns,
        shape=_shape("inputShapes_text"),
    ).sort("start_ns", maintain_order=True)
    steps = tables.get("STEP_TIME")
    edges: tuple[tuple[int, int], ...] = ()
    numbers: tuple[int, ...] = ()
    if steps is not None and steps.height:
        ordered = sorted(
            zip(
                as_int64(steps["startNs"]).to_list(),
                as_int64(steps["endNs"]).to_list(),
                as_int64(steps["id"]).to_list(),
                strict=True,
            )
        )
        edges = tuple((start, end) for start, end, _ in ordered)
        numbers = tuple(number for _, _, number in ordered)
    # The steps are the host's, and kernels run behind them: one that starts after the last step is of the last step.
    places = step_of(frame["start_ns"].to_list(), [(start, LATE_NS) for start, _ in edges]) if edges else None
    step = pl.Series("step", places if places is not None else [None] * frame.height, dtype=pl.Int64)
    return Listed(
        rows=frame.with_columns(step, shapes=pl.col("shape")).select(*COLUMNS),
        steps=len(edges) or None,
        by_step=bool(edges) and step.null_count() == 0,
        step_numbers=numbers,
        marks_steps=bool(numbers),
        on_device=True,
    )


def _with_text(rows: pl.DataFrame, column: str, texts: pl.DataFrame) -> pl.DataFrame:
    """Add the texts that the ids in a column stand for; of millions of texts only these are looked at."""
    import polars as pl

    used = texts.filter(pl.col("id").is_in(rows[column].drop_nulls().unique().implode()))
    named = used.select(pl.col("id").alias(column), unquoted("value").alias(f"{column}_text"))
    return rows.join(named, on=column, how="left")


def _collectives(tables: Mapping[str, pl.DataFrame], texts: pl.DataFrame) -> pl.DataFrame:
    """Return the collectives of COMMUNICATION_OP as rows beside the kernels: the text export has them in one table."""
    import polars as pl

    table = tables.get("COMMUNICATION_OP")
    if table is None or not {"opName", "startNs", "endNs", "opType"} <= set(table.columns):
        return pl.DataFrame(schema={"startNs": pl.String, "endNs": pl.String})
    found = table.select("startNs", "endNs", name="opName", opType="opType")
    for column in ("name", "opType"):
        found = _with_text(found, column, texts)
    return found


#: Databases of a device's tasks.
DATABASES = ("ascend_pytorch_profiler", "ascend_mindspore_profiler")
COLUMNS = ("operator", "name", "step", "start_ns", "duration_ns", "self_ns", "shapes")
LATE_NS = 2**63 - 1


def executions_of(cycle: Cycle) -> Executions | None:
    """Return the executions of a cycle, added up, or None where no source could be read."""
    # Rows in tables were queried already; the device's executions precede those of the host.
    dialect = DIALECTS.get(cycle.layout.id)
    traced = dialect.slot if dialect is not None and dialect.folder_of_work else ""
    for slot in (traced, "kernel_details"):
        if (content := cycle.content(slot)) is not None:
            found: Executions = content.work.executions if slot == traced else content.work
            return found
    # What files list one by one was added up while they were read.
    return summed(listed) if (listed := from_database(cycle)) is not None else cycle.executions


def step_of(start_ns: Sequence[int], edges_ns: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return the number of the step that contains each time, None for a time in none. Edges are in order and closed."""
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


def _shape(column: str) -> pl.Expr:
    """Return shapes without their quotes; N/A, as a collective has it, is none."""
    import polars as pl

    return pl.col(column).str.strip_chars('"').replace("N/A", None)


@cache
def _inputs_decoder() -> msgspec.json.Decoder[Any]:
    import msgspec

    class Inputs(msgspec.Struct, rename={"dims": "Input Dims", "types": "Input type"}):
        dims: list[Any] | None = None
        types: list[str] | None = None

    return msgspec.json.Decoder(Inputs)


def torch_shapes(arguments: Iterable[str | None]) -> list[str | None]:
    """Return `float[4, 8];long[]`, dtype and shape of every input of an operator, or None where not recorded."""
    import msgspec

    decoder = _inputs_decoder()
    none = decoder.decode("{}")
    shapes: list[str | None] = []
    for text in arguments:
        try:
            inputs = decoder.decode(text) if text else none
        except (msgspec.DecodeError, RecursionError):
            # The arguments are whole JSON, but not inputs as torch writes them: nothing was recorded that can be compared.
            inputs = none
        if inputs.dims is None:
            shapes.append(None)
            continue
        types = inputs.types or [""] * len(inputs.dims)
        shapes.append(
            ";".join(f"{kind}{dims}" if dims or kind else "-" for kind, dims in zip(types, inputs.dims, strict=False))
        )
    return shapes
