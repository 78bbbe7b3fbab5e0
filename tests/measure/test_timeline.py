"""The timeline of a profiled step: literal executions, and the order, gaps and overlaps they have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.table_definitions import NULL, TABLES
from perfguard.artifacts.tables import Batch, batch
from perfguard.contract import Cycle, Requested
from perfguard.dialects.metric_queries import measured
from perfguard.dialects.queries import definitions, named_texts

LAYOUT = "ms-2.5+cpu"


def asked(
    metric: str,
    *executions: tuple[str, int | None, int, int],
    edges: Sequence[tuple[int, int]] = ((0, 100_000),),
    collectives: Sequence[tuple[str, int, int]] = (),
    driven_ns: Sequence[int] = (),
    steps: int | None = None,
    is_timeline: bool = True,
) -> dict[str, Any]:
    """Return what a metric says of executions (operator, step, start, duration in ns), by subject."""
    with batch(definitions(frozenset({LAYOUT})), named_texts()) as tables:
        operators, of_steps, starts, lasts = zip(*executions, strict=True) if executions else ((), (), (), ())
        names = np.array(operators, dtype=object)
        numbers = np.array([NULL if one is None else one for one in of_steps], np.int64)
        columns = {"step": numbers, "start_ns": np.array(starts, np.int64), "duration_ns": np.array(lasts, np.int64)}
        ones, none = np.ones(len(names), np.int64), np.array([None] * len(names), dtype=object)
        tables.add(
            "listed", 0, place=np.arange(len(names)), operator=names, name=names, shapes=none, calls=ones, **columns
        )
        begins, ends = (np.array([one[at] for one in edges], np.int64) for at in (0, 1))
        order = np.arange(len(edges))
        tables.add("steps", 0, step=order, number=order, thread=0 * order, start_ns=begins, end_ns=ends)
        count = steps if steps is not None else len(edges) or len(driven_ns) or None
        known = {"by_step": False, "steps_differ": False, "is_timeline": is_timeline, "on_device": False}
        flags = {name: np.array([value]) for name, value in known.items()}
        tables.add("windows", 0, steps=np.array([NULL if count is None else count]), **flags)
        tables.add("driven_steps", 0, step=np.arange(len(driven_ns)), wall_ns=np.array(driven_ns, np.int64))
        for name, start, duration in collectives:
            _annotate(tables, name, start, duration)
        tables.hand_over()
        cycle = Cycle(
            layout=layout_named(LAYOUT), place=Path("c"), rank=0, index=0, artifacts={}, requested=Requested()
        )
        return dict(measured(tables, {0: cycle}).get(0, {}).get(metric, []))


def _annotate(tables: Batch, name: str, start: int, duration: int) -> None:
    """Add what torch annotates of a collective beside its operators."""
    numbers = {
        "name": tables.word(name),
        "category": tables.word("user_annotation"),
        "start_ns": start,
        "duration_ns": duration,
    }
    columns = {name: np.array([numbers.get(name, 0)]) for name in TABLES["spans"] if name != "cycle"}
    tables.add("spans", 0, **columns)


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
@pytest.mark.variants(2)
def test_the_parts_of_the_fastest_step(executions, facts, expected):
    assert asked("profiled_step_part", *executions, **facts) == expected


SPANS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "AllReduce"]), st.just(0), st.integers(0, 900), st.integers(0, 300)),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(SPANS)
def test_the_parts_and_the_operators_are_the_step(spans):
    found = asked("profiled_step_part", *spans, edges=((0, 1000),))
    operators = sum(duration for name, _, _, duration in spans if name != "AllReduce") / 1e3
    whole = operators - found["overlap"] + found.get("communication", 0.0) + found["idle"]
    assert whole == pytest.approx(1.0)
    ran = {now for _, _, start, duration in spans for now in range(start, min(start + duration, 1000))}
    assert found["idle"] == pytest.approx((1000 - len(ran)) / 1e3)


def test_the_time_of_a_step_is_known_without_its_edges():
    assert asked("profiled_step_time", edges=(), driven_ns=(3000, 2500)) == {"": (3.0, 2.5)}
    assert asked("profiled_step_time", edges=(), driven_ns=(3000, 2500), steps=3) == {}
    assert asked("profiled_step_time", edges=((0, 1000),), driven_ns=(3000,)) == {"": (1.0,)}
    assert asked("profiled_step_time", edges=()) == {}


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
    found = asked("operator_position", *executions)
    assert found == {name: place for place, name in enumerate(expected)}
    assert all(found[one] < found[next_] for one, next_ in pairwise(expected))


def test_no_order_is_known_where_no_time_is():
    assert asked("operator_position", ("a", 0, 0, 1), is_timeline=False) == {}


def test_the_time_of_an_operator_has_a_sample_of_each_step_it_ran_in():
    ran = [("Add", 0, 0, 5000), ("Rare", 1, 10, 9000), ("Add", 1, 20, 7000), ("Add", 2, 30, 6000)]
    assert asked("operator_time", *ran, edges=((0, 1),) * 3) == {"Add": (5.0, 7.0, 6.0), "Rare": (9.0,)}
    # Where something is in no step there is one: the mean.
    assert asked("operator_time", *ran, ("Add", None, 40, 3000), edges=((0, 1),) * 3) == {"Add": (7.0,), "Rare": (3.0,)}
