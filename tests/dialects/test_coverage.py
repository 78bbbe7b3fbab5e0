"""Coverage: the second count, with which tests compare queries, against one nanosecond by nanosecond."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.counted import Covered, covered_steps

SCHEMA = {"operator": pl.String, "step": pl.Int64, "start_ns": pl.Int64, "duration_ns": pl.Int64}
EDGES = ((10, 30), (30, 40), (45, 60))
EXECUTIONS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "AllReduce", None]),
        st.sampled_from([0, 1, 2, None]),
        st.one_of(st.none(), st.integers(0, 70)),
        st.one_of(st.none(), st.integers(-2, 30)),
    ),
    max_size=24,
)


def frame(executions: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(executions, schema=SCHEMA, orient="row")


def by_hand(executions: list[tuple]) -> tuple[int, ...]:
    """Count every nanosecond of every step in which one of its executions runs."""
    ran: list[set[int]] = [set() for _ in EDGES]
    for _, step, start, duration in executions:
        if None not in (step, start, duration):
            ran[step] |= set(range(max(start, EDGES[step][0]), min(start + duration, EDGES[step][1])))
    return tuple(map(len, ran))


@pytest.mark.parametrize(
    ("executions", "covered"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([("a", 0, 12, 5), ("b", 0, 20, 5)], 10, id="apart"),
        pytest.param([("a", 0, 12, 5), ("b", 0, 17, 5)], 10, id="one after the other"),
        pytest.param([("a", 0, 12, 10), ("b", 0, 14, 2), ("c", 0, 20, 5)], 13, id="beside each other"),
        pytest.param([("a", 0, 0, 15), ("b", 0, 25, 50)], 10, id="beyond the edges"),
        pytest.param([("a", 0, 32, 5)], 0, id="of the step, and outside it"),
        pytest.param([("a", None, 12, 5)], 0, id="of no step"),
    ],
)
def test_the_time_that_spans_cover(executions, covered):
    assert [one.operators_ns for one in covered_steps(frame(executions), EDGES)] == [covered, 0, 0]


def test_a_damaged_time_of_a_step_is_no_reason_to_fail():
    edges = ((10, 10**400), (-(10**400), 20))
    rows = frame([("a", 0, 12, 5), ("a", 1, 12, 5)])
    assert [one.either_ns for one in covered_steps(rows, edges)] == [5, 5]


def test_no_steps_are_covered_by_nothing():
    assert covered_steps(frame([("a", None, 0, 1)]), ()) == ()


@given(EXECUTIONS)
def test_covered_is_every_nanosecond_in_which_something_runs(executions):
    operators = [one for one in executions if one[0] in ("a", "b")]
    collectives = [one for one in executions if one[0] == "AllReduce"]
    expected = zip(by_hand(operators), by_hand(collectives), by_hand(operators + collectives), strict=True)
    assert covered_steps(frame(executions), EDGES) == tuple(
        Covered(operators_ns=one, collectives_ns=other, either_ns=either) for one, other, either in expected
    )
