"""Sums: what is measured of executions, by operator and step, with their shapes and collectives, and what covers each step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from perfguard.artifacts.readers.events import Words
from perfguard.artifacts.tables import Batch, frames
from perfguard.dialects.coverage import covered_sums
from perfguard.dialects.cycle import Executions
from perfguard.dialects.executions import groups_of

if TYPE_CHECKING:
    import polars as pl

_SHAPES, _KINDS = msgspec.json.Decoder(list[Any] | None), msgspec.json.Decoder(list[str] | None)


def with_sums(batch: Batch, executions: Mapping[int, Executions]) -> dict[int, Executions]:
    """Return executions with what is measured of them, by the numbers of their cycles.

    Of a long run this is the most that is held, so it comes after all other queries. Raises `OSError` where the memory of this
    machine is not enough.
    """
    found: dict[int, Executions] = {}
    covered = covered_sums(batch, {number: one.edges_ns for number, one in executions.items()})
    for table in dict.fromkeys(one.table for one in executions.values()):
        own = [number for number, one in executions.items() if one.table == table]
        on_host = [number for number in own if not executions[number].on_device]
        shapes, collectives = {}, {}
        if on_host:
            shapes_of, query = _ON_HOST[table]
            shapes, collectives = shapes_of(batch, on_host), frames(batch, query, on_host)
        groups = groups_of(batch, table, own)
        for number in own:
            found[number] = replace(
                executions[number],
                groups=groups[number],
                covered=covered[number],
                shapes=shapes.get(number),
                collectives=collectives.get(number, executions[number].collectives),
            )
    return found


def _listed_shapes(batch: Batch, cycles: Collection[int]) -> dict[int, pl.DataFrame]:
    return frames(batch, "from framework_shapes order by cycle", cycles)


def _shapes(batch: Batch, cycles: Collection[int]) -> dict[int, pl.DataFrame]:
    """Return how often each operator ran with which shapes in the window."""
    import polars as pl

    found = frames(batch, "from input_sums order by cycle, operator", cycles)
    shapes = {}
    for cycle, rows in found.items():
        texts = [_shape(dims, types) for dims, types in rows.select("dims", "types").iter_rows()]
        recorded = rows.select("operator", "name", pl.Series("shapes", texts, dtype=pl.String), "calls").drop_nulls(
            "shapes"
        )
        shapes[cycle] = _added_up(recorded)
    return shapes


def _added_up(recorded: pl.DataFrame) -> pl.DataFrame:
    """Add up the calls of arguments that are worded alike, in the order of the first ones."""
    import polars as pl

    # By numbers: of half a million texts that takes a third of the memory.
    words = Words()
    pairs = recorded["name"].to_numpy() << 32 | words.numbers(recorded["shapes"], recorded.height)
    _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    calls = np.zeros(len(first), np.int64)
    np.add.at(calls, group, recorded["calls"].to_numpy())
    order = np.argsort(first)
    firsts: pl.DataFrame = recorded[first[order]]
    return firsts.select("operator", "shapes", calls=pl.Series(calls[order]))


@lru_cache(maxsize=10_000)
def _shape(dims: str, types: str | None) -> str | None:
    """Return `float[4, 8];long[]`, dtype and shape of every input of an operator; None for other JSON than torch writes."""
    try:
        shapes = _SHAPES.decode(dims)
        kinds = _KINDS.decode(types or "null")
    except (msgspec.DecodeError, RecursionError):
        return None
    if shapes is None:
        return None
    pairs = zip(kinds or [""] * len(shapes), shapes, strict=False)
    return ";".join(f"{kind}{shape}" if shape or kind else "-" for kind, shape in pairs)


#: Of each table with executions of a host: what returns their shapes, and the query for their collectives.
_ON_HOST = {
    "operator_sums": (
        _shapes,
        "select cycle, word(name) as operator, start_ns, duration_ns from annotated_collectives order by cycle, start_ns",
    ),
    "listed_sums": (_listed_shapes, "from listed_collectives order by cycle, start_ns nulls first"),
}
