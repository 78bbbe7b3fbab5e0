"""The timeline of a profiled step: literal executions, and the order, gaps and overlaps they have."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.measure.profile import Profile
from perfguard.measure.profile_metrics import operator_position, profiled_step_part, profiled_step_time
from tests.dialects.counted import aggregated, covered_steps

SHAPES = pl.DataFrame(schema={"operator": pl.String, "shapes": pl.String, "calls": pl.Int64})
COLUMNS = {"operator": pl.String, "step": pl.Int64, "start_ns": pl.Int64, "duration_ns": pl.Int64}


def profile(*executions: tuple[str, int | None, int, int], edges=((0, 100_000),), collectives=(), **facts) -> Profile:
    """Return a profile of (operator, step, start, duration) in ns."""
    rows = pl.DataFrame(list(executions), schema=COLUMNS, orient="row").with_columns(
        name="operator", self_ns="duration_ns", shapes=pl.lit(None, dtype=pl.String)
    )
    lying = [
        (name, step, start, duration)
        for name, start, duration in collectives
        for step, (first, last) in enumerate(edges)
        if start < last and start + duration > first
    ]
    beside = rows.select(*COLUMNS).vstack(pl.DataFrame(lying, schema=COLUMNS, orient="row"))
    return Profile(
        **{
            "rank": 0,
            "steps": len(edges) or None,
            "groups": aggregated(rows).with_columns(cycle=pl.lit(0)),
            "covered": covered_steps(beside, edges),
            "shapes": SHAPES,
            "memory": (),
            "edges_ns": tuple(edges),
            "step_ns": tuple(end - start for start, end in edges),
            **facts,
        }
    )


@pytest.mark.parametrize(
    ("executions", "facts", "expected"),
    [
        pytest.param([], {}, {"idle": 100.0, "overlap": 0.0}, id="nothing ran"),
        pytest.param([("a", 0, 0, 100_000)], {}, {"idle": 0.0, "overlap": 0.0}, id="the whole step"),
        pytest.param(
            [("a", 0, 10_000, 20_000), ("b", 0, 50_000, 30_000)], {}, {"idle": 50.0, "overlap": 0.0}, id="gaps"
        ),
        pytest.param(
            [("a", 0, 10_000, 50_000), ("b", 0, 40_000, 30_000), ("c", 0, 45_000, 1_000)],
            {},
            {"idle": 40.0, "overlap": 21.0},
            id="beside each other",
        ),
        pytest.param([("a", 0, 90_000, 30_000)], {}, {"idle": 90.0, "overlap": 20.0}, id="beyond the end"),
        pytest.param(
            [("a", 0, 0, 40_000), ("AllReduce", 0, 30_000, 30_000)],
            {},
            {"idle": 40.0, "overlap": 0.0, "communication": 20.0},
            id="a collective, in part beside an operator",
        ),
        pytest.param(
            [("a", 0, 0, 40_000), ("hcom_allReduce_", 0, 10_000, 10_000)],
            {},
            {"idle": 60.0, "overlap": 0.0, "communication": 0.0},
            id="a collective all of which is hidden",
        ),
        pytest.param(
            [("a", 0, 0, 40_000)],
            {"collectives": [("gloo:all_reduce", 30_000, 30_000), ("gloo:all_reduce", 500_000, 30_000)]},
            {"idle": 40.0, "overlap": 0.0, "communication": 20.0},
            id="one that is annotated beside",
        ),
        pytest.param(
            [("a", 0, 0, 40_000), ("a", 1, 100_000, 50_000)],
            {"edges": ((0, 90_000), (100_000, 160_000))},
            {"idle": 10.0, "overlap": 0.0},
            id="the fastest step",
        ),
        pytest.param([("a", None, 0, 40_000)], {}, {}, id="of no step"),
        pytest.param([("a", 0, 0, 40_000)], {"edges": (), "steps": 1}, {}, id="steps without edges"),
        pytest.param([("a", 0, 0, 40_000)], {"is_timeline": False}, {}, id="times that are not known"),
    ],
)
def test_the_parts_of_the_fastest_step(executions, facts, expected):
    assert dict(profiled_step_part(profile(*executions, **facts))) == expected


SPANS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "AllReduce"]), st.just(0), st.integers(0, 900), st.integers(0, 300)),
    max_size=12,
)


@given(SPANS)
def test_the_parts_and_the_operators_are_the_step(spans):
    found = dict(profiled_step_part(profile(*spans, edges=((0, 1000),))))
    operators = sum(duration for name, _, _, duration in spans if name != "AllReduce") / 1e3
    whole = operators - found["overlap"] + found.get("communication", 0.0) + found["idle"]
    assert whole == pytest.approx(1.0)
    ran = {now for _, _, start, duration in spans for now in range(start, min(start + duration, 1000))}
    assert found["idle"] == pytest.approx((1000 - len(ran)) / 1e3)


def test_the_time_of_a_step_is_known_without_its_edges():
    assert dict(profiled_step_time(profile(step_ns=(3000, 2500)))) == {"": (3.0, 2.5)}
    assert dict(profiled_step_time(profile(edges=()))) == {}


@pytest.mark.parametrize(
    ("executions", "expected"),
    [
        ([], []),
        ([("b", 0, 5, 1), ("a", 0, 1, 1), ("b", 0, 0, 1)], ["b", "a"]),
        ([("a", 0, 0, 9), ("b", 0, 0, 5), ("c", 0, 0, 1)], ["a", "b", "c"]),
        # Most steps decide; of equally many the first by name.
        (
            [("a", 0, 0, 1), ("b", 0, 1, 1), ("b", 1, 10, 1), ("a", 1, 11, 1), ("b", 2, 20, 1), ("a", 2, 21, 1)],
            ["b", "a"],
        ),
        ([("b", 0, 0, 1), ("a", 0, 1, 1), ("a", 1, 10, 1), ("b", 1, 11, 1)], ["a", "b"]),
        # What runs in few steps comes after.
        ([("rare", 0, 0, 1), ("a", 0, 1, 1), ("a", 1, 10, 1), ("a", 2, 20, 1)], ["a", "rare"]),
        ([("a", None, 0, 1), ("b", None, 1, 1), ("a", None, 2, 1)], ["a", "b"]),
    ],
)
def test_operators_stand_in_the_order_they_begin_in(executions, expected):
    found = dict(operator_position(profile(*executions)))
    assert found == {name: place for place, name in enumerate(expected)}
    assert all(found[one] < found[next_] for one, next_ in pairwise(expected))


def test_no_order_is_known_where_no_time_is():
    assert dict(operator_position(profile(("a", 0, 0, 1), is_timeline=False))) == {}
