"""Executions that files list, added up by queries."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, batch
from perfguard.dialects.queries import definitions, named_texts
from tests.dialects.counted import KEYS, Covered, aggregated, covered_steps
from tests.dialects.summed import covered, frame

SCHEMA = {
    "operator": pl.String,
    "name": pl.String,
    "step": pl.Int64,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "shapes": pl.String,
    "calls": pl.Int64,
}
EDGES = ((10, 30), (30, 40), (45, 60))
_WINDOW = {
    "steps": np.array([3]),
    "by_step": np.array([True]),
    "steps_differ": np.array([False]),
    "is_timeline": np.array([True]),
}

# Few of each, so that executions fall into the same group, and begin together.
EXECUTIONS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "AllReduce"]),
        st.sampled_from(["a-1", "b-2"]),
        st.sampled_from([0, 1, 2, None]),
        st.one_of(st.none(), st.integers(0, 70)),
        st.one_of(st.none(), st.integers(-2, 30)),
        st.sampled_from(["f[2]", None]),
        st.integers(0, 3),
    ),
    max_size=24,
)


@pytest.fixture(scope="module")
def tables():
    with batch(definitions(frozenset({"ms-2.5+cpu"})), named_texts()) as found:
        yield found


def sums(tables: Batch, rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Covered, ...], list[tuple]]:
    """Return groups, coverage and collectives of executions in the order of their starts."""
    for table in ("listed", "steps", "windows"):
        tables.hand_over()
        tables._run(f"delete from {table}")
    order, edges = np.arange(3), dict(zip(("start_ns", "end_ns"), np.array(EDGES).T, strict=True))
    tables.add("steps", 3, step=order, number=order, thread=order, **edges)
    tables.add("windows", 3, on_device=np.array([False]), **_WINDOW)
    if rows.height:
        numbers = {name: rows[name].fill_null(NULL).to_numpy() for name in ("step", "start_ns", "duration_ns", "calls")}
        texts = {name: np.array(rows[name].to_list(), object) for name in ("operator", "name", "shapes")}
        tables.add("listed", 3, place=np.arange(rows.height), **numbers, **texts)
    tables.hand_over()
    groups = frame(tables, "select * exclude (cycle) from fill_listed_sums where cycle = 3")
    collectives = tables.execute("select operator, start_ns, duration_ns from host_collectives order by start_ns")
    return groups, covered(tables, len(EDGES), 3), collectives


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(executions=EXECUTIONS)
@pytest.mark.exhaustive
def test_queries_add_up_as_counting_one_by_one_does(tables, executions):
    # An execution without a start is in no step.
    executions = [(*one[:2], None if one[3] is None else one[2], *one[3:]) for one in executions]
    rows = pl.DataFrame(executions, schema=SCHEMA, orient="row").sort("start_ns", maintain_order=True)
    groups, in_steps, collectives = sums(tables, rows)
    expected = aggregated(rows.with_columns(self_ns="duration_ns"))
    assert groups.columns == expected.columns
    assert sorted(groups.rows(), key=str) == sorted(expected.rows(), key=str)
    assert groups.height == 0 or groups.select(KEYS).is_unique().all()
    assert in_steps == covered_steps(rows, EDGES)
    inside = rows.filter((pl.col("operator") == "AllReduce") & pl.col("step").is_not_null())
    assert sorted(collectives, key=str) == sorted(inside.select("operator", "start_ns", "duration_ns").rows(), key=str)
