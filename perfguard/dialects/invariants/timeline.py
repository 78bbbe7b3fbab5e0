"""What a timeline says about itself: its lanes have names, and what is drawn from operators begins and ends with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.artifacts.table import nanoseconds, unquoted
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.disagreement import disagreeing_rows, disagreements
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle

#: Layouts whose writers name every process they draw; MindSpore before 2.5 and its GPU form leave some without a name.
NAMED_LAYOUTS = ("ms-2.5+", "ms-2.5+cpu", "pt-npu", "pt-torch")


@invariant(layouts=NAMED_LAYOUTS)
def drawn_processes_are_named(cycle: Cycle) -> Iterator[Finding]:
    """Every process (a number) with an event, an instant, a counter or the end of a flow is named by a `process_name`.

    Kineto's own span has a text for a process and no name, and torch 2.4 draws Python frames of threads it did not know in a
    process 0 without one. Source: real traces of MindSpore 2.10 on CPU, torch_npu level 1 (msinsight test data) and torch
    2.13: none else is without one.
    """
    import polars as pl

    artifact = cycle.artifacts.get("trace_view") or cycle.artifacts.get("trace")
    if artifact is None or artifact.content.table is None:
        return
    frame = artifact.content.frame
    if not {"name", "ph", "pid", "args"} <= set(frame.columns):
        return
    named = frame.filter((pl.col("ph") == '"M"') & (pl.col("name") == '"process_name"'))["pid"].unique()
    is_frame = pl.col("cat") == '"python_function"' if "cat" in frame.columns else pl.lit(False)
    unnamed = frame.with_columns(
        unnamed=pl.col("ph").is_in(['"X"', '"i"', '"s"', '"f"', '"C"'])
        & ~is_frame.fill_null(False)
        & pl.col("pid").str.contains("^-?[0-9]")
        & ~pl.col("pid").is_in(named.to_list())
    )
    # Once a process: at the first of its events that counts.
    drawn = unnamed.select(pl.col("unnamed") & pl.col("pid").is_first_distinct().over("unnamed")).to_series()
    yield from disagreeing_rows(
        artifact, drawn, Code.I103, lambda row: f"no process_name names process {row['pid']} of {row['name']}"
    )


@invariant(layouts=("ms-2.5+cpu",), needs=("trace_view",))
def scopes_begin_and_end_with_operators(cycle: Cycle) -> Iterator[Finding]:
    """A block of the lane "Scope Layer" begins where an operator of its scope begins, and ends where one ends. Exact.

    The thread of a block is the depth of its scope; the writer joins neighbours of one scope into a block. Source:
    MindSpore 2.7 and 2.10: scope_layer_timeline_creator.py; real output of 2.10.
    """
    artifact = cycle.artifacts["trace_view"]
    if not {"ph", "name", "pid", "tid", "ts", "dur", "args"} <= set(artifact.content.frame.columns):
        return
    events = _complete(artifact.content.frame)
    scopes = events.filter(_is_process("Scope Layer"))
    operators = events.filter(_is_process("CPU OP"))
    if scopes.is_empty() or operators.is_empty():
        return
    inside = _scopes_of(operators)
    for edge, word in EDGES:
        strangers = scopes.join(inside, on=["scope", "depth", edge], how="anti", maintain_order="left")
        places = (f"{artifact.place} $[{row}]" for row in strangers["row"].to_list())
        messages = (stray_edge(scope, word, at) for scope, at in strangers.select("scope", edge).iter_rows())
        yield from disagreements(
            Code.I103, zip(places, messages, strict=True), count=strangers.height, place=artifact.place
        )


#: The two ends of a block, and what it does there.
EDGES = (("start", "begins"), ("end", "ends"))


def stray_edge(scope: str, does: str, at: int) -> str:
    """Word a block that begins or ends at a time [ns] at which no operator of its scope does."""
    return f"the block of scope {scope} {does} at {at / 1000:.3f} us, where no operator of that scope does"


def _is_process(name: str) -> pl.Expr:
    import polars as pl

    return pl.col("process") == name


def _complete(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the events that last: row, process, scope (the name), depth (the thread), start and end [ns]."""
    import polars as pl

    named = frame.filter((pl.col("ph") == '"M"') & (pl.col("name") == '"process_name"')).select(
        "pid", process=pl.col("args").str.extract(r'"name":\s*"([^"]*)"')
    )
    events = (
        frame.with_row_index("row")
        .filter(pl.col("ph") == '"X"')
        .join(named.unique("pid", keep="first"), on="pid", how="left")
    )
    start = nanoseconds(events["ts"])
    return events.select(
        "row",
        "process",
        scope=unquoted("name"),
        depth=pl.col("tid").cast(pl.Int64, strict=False),
        start=start,
        end=start + nanoseconds(events["dur"]),
    )


def _scopes_of(operators: pl.DataFrame) -> pl.DataFrame:
    """Return the scopes each operator lies in, `a/b/op` in a at depth 0 and b at 1, with the operator's times."""
    import polars as pl

    parts = pl.col("scope").str.split("/").list.head(pl.col("scope").str.count_matches("/", literal=True))
    depths = pl.int_ranges(0, pl.col("scope").str.count_matches("/", literal=True).cast(pl.Int64))
    return (
        operators.select(parts.alias("scope"), depths.alias("depth"), "start", "end")
        .filter(pl.col("scope").list.len() > 0)
        .explode("scope", "depth")
    )
