"""Groups: sums over executions."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from perfguard.dialects.groups import KEYS, aggregated

SCHEMA = {
    "operator": pl.String,
    "name": pl.String,
    "step": pl.Int64,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "self_ns": pl.Int64,
    "shapes": pl.String,
}
SUMS = ("calls", "total_ns", "self_ns", "unfilled")
PLACES = ("first_ns", "first_place", "last_ns", "last_place")

# Few of each, so that executions fall into the same group, and begin together.
EXECUTIONS = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(["a-1", "b-2"]),
    st.sampled_from([0, 1, None]),
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(-1, 4),
    st.sampled_from(["f[2]", None]),
)


def frame(executions: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(executions, schema=SCHEMA, orient="row")


def test_executions_are_added_up_by_operator_name_step_and_shapes():
    found = aggregated(
        frame(
            [
                ("Mul", "Mul-1", 0, 0, 0, 0, None),
                ("Add", "Add-1", 0, 5, 3, 2, "f[2]"),
                ("Add", "Add-1", 0, 5, 4, 4, "f[2]"),
                ("Add", "Add-1", 0, 9, 1, 1, "f[4]"),
                ("Add", "Add-1", 1, 11, 5, 5, "f[2]"),
                ("Add", "Add-1", None, None, 7, 7, "f[2]"),
            ]
        )
    )
    assert found.columns == [*KEYS, *SUMS, *PLACES]
    assert found.rows() == [
        ("Add", "Add-1", None, "f[2]", 1, 7, 7, 0, None, None, None, None),
        ("Mul", "Mul-1", 0, None, 1, 0, 0, 1, 0, 0, 0, 0),
        ("Add", "Add-1", 0, "f[2]", 2, 7, 6, 0, 5, 1, 5, 2),
        ("Add", "Add-1", 0, "f[4]", 1, 1, 1, 0, 9, 3, 9, 3),
        ("Add", "Add-1", 1, "f[2]", 1, 5, 5, 0, 11, 4, 11, 4),
    ]


def test_a_row_may_stand_for_many_executions_or_none():
    rows = frame([("a", "a", 0, 0, 4, 3, None), ("a", "a", 0, 0, 0, 0, None), ("b", "b", 0, 0, 1, 1, None)])
    found = aggregated(rows.with_columns(calls=pl.Series([3, 2, 0])))
    assert found.select(*SUMS, *PLACES).rows() == [(5, 12, 9, 2, 0, 0, 0, 1)]


def test_no_executions_are_no_groups():
    empty = aggregated(frame([]))
    assert empty.height == 0
    assert empty.schema == aggregated(frame([("a", "a", 0, 0, 4, 3, None)])).schema


@given(st.lists(EXECUTIONS, max_size=24))
def test_groups_are_what_counting_by_hand_says(executions):
    by_hand: dict[tuple, list] = {}
    for place, (operator, name, step, start, duration, own, shapes) in enumerate(executions):
        sums = by_hand.setdefault((operator, name, step, shapes), [0, 0, 0, 0, []])
        sums[0] += 1
        sums[1] += duration or 0
        sums[2] += own
        sums[3] += start == duration == 0
        sums[4] += [] if start is None else [(start, place)]
    expected = {
        key: (*sums, *((min(starts), max(starts)) if starts else ((None, None), (None, None))))
        for key, (*sums, starts) in by_hand.items()
    }
    found = {row[:4]: (*row[4:8], row[8:10], row[10:]) for row in aggregated(frame(executions)).iter_rows()}
    assert found == expected
