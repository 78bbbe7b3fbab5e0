"""Work: what operators that changed weigh."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfguard import thresholds
from perfguard.judge.work import Work, work_of
from perfguard.measure import Measurement
from tests.facts import measured


def side(prefix: str = "", **operators: tuple[float, float]) -> list[Measurement]:
    """Return one rank's calls and times of operators, with the shares that follow from the times."""
    total = sum(time for _, time in operators.values())
    return [
        *(measured("operator_calls", calls, prefix + name) for name, (calls, _) in operators.items()),
        *(measured("operator_share", time / total, prefix + name) for name, (_, time) in operators.items()),
    ]


def rounded(**operators: tuple[float, float]) -> list[Measurement]:
    """Return the same with shares of six digits, as they are measured."""
    return [replace(one, value=round(one.value, 6)) for one in side(**operators)]


def work(before: list[Measurement], now: list[Measurement]) -> Work:
    return work_of(now, before)[""]


@pytest.mark.parametrize(
    ("before", "now", "growth"),
    [
        pytest.param(side(a=(1, 100)), side(a=(1, 100)), 0.0, id="nothing changed"),
        pytest.param(side(a=(1, 100)), side(a=(1, 100), b=(1, 10)), 0.1, id="one more operator"),
        pytest.param(side(a=(2, 100)), side(a=(3, 150)), 0.5, id="one more call"),
        pytest.param(side(a=(1, 100)), side(a=(1, 300), b=(1, 30)), 0.1, id="on a machine of a third of the speed"),
        pytest.param(side(a=(1, 100), b=(1, 10)), side(a=(1, 100)), 0.0, id="one operator fewer"),
        pytest.param(
            side(a=(1, 50), b=(1, 50)), side(a=(1, 50), c=(1, 60)), 0.0, id="replaced, within the uncertainty"
        ),
        pytest.param(side(a=(1, 50), b=(1, 50)), side(a=(1, 50), c=(1, 100)), 0.375, id="replaced by twice as much"),
        pytest.param(side(a=(1, 50)), side(b=(1, 5000)), 0.0, id="nothing in common, so nothing to compare by"),
        pytest.param(side(a=(1, 2), b=(1, 98)), side(a=(1, 1.5), c=(1, 98)), 0.0, id="next to nothing in common"),
        pytest.param(
            side(a=(1, 7), b=(1, 93)), side(a=(1, 7), c=(1, 279)), 0.93, id="little in common, and three times the work"
        ),
        pytest.param(
            rounded(a=(1, 1), b=(1, 1), c=(1, 1)), rounded(d=(1, 1), e=(1, 1)), 0.0, id="shares that do not add up to 1"
        ),
    ],
)
def test_how_much_the_operator_time_of_a_step_grew(before, now, growth):
    assert work(before, now).growth(is_time_same=False) == pytest.approx(growth, abs=1e-9)


def test_what_replaced_operators_cost_is_settled_by_the_time_of_the_step():
    found = work(side(a=(1, 50), b=(1, 50)), side(a=(1, 50), c=(1, 100)))
    assert found.growth(is_time_same=True) == 0
    # What replaces nothing is added work, however the step's time moved within its noise.
    assert work(side(a=(1, 95)), side(a=(1, 95), c=(1, 5))).growth(is_time_same=True) == pytest.approx(5 / 95)


@pytest.mark.parametrize(("shapes", "growth"), [("[8,2]", 0.0), ("[8,6]", 0.8)])
def test_one_product_cut_in_three_is_no_added_work_where_the_step_takes_as_long(shapes, growth):
    before = [*side(a=(1, 50), mm=(1, 100)), measured("operator_shapes", {"[8,6]": 1}, "mm")]
    now = [*side(a=(1, 50), mm=(3, 100)), measured("operator_shapes", {shapes: 3}, "mm")]
    found = work(before, now)
    assert found.growth(is_time_same=True) == pytest.approx(growth)
    # Shares cannot tell.
    assert found.growth(is_time_same=False) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("before", "now", "is_gone"),
    [
        pytest.param(side(a=(1, 40), b=(1, 60)), side(a=(1, 40)), True, id="more than half"),
        pytest.param(side(a=(1, 60), b=(1, 40)), side(a=(1, 60)), False, id="less than half"),
        pytest.param(side(a=(1, 10), b=(9, 90)), side(a=(1, 10), c=(1, 5)), False, id="replaced by a fused one"),
        pytest.param(side(a=(12, 100)), side(a=(1, 8)), False, id="fewer calls of the same"),
        pytest.param(
            side(a=(1, 20), mm=(12, 78), addmm=(1, 2)), side(a=(1, 20), addmm=(13, 80)), False, id="more of another"
        ),
        pytest.param(side(a=(1, 5), b=(1, 95)), side(a=(1, 5), view=(1, 0.1)), True, id="next to nothing instead"),
    ],
)
def test_most_of_the_work_is_gone(before, now, is_gone):
    assert work(before, now).is_mostly_gone is is_gone


def test_ranks_are_weighed_one_by_one():
    before = side("rank0:", a=(1, 100)) + side("rank1:", a=(1, 100)) + [measured("operator_calls", 2, "ranks:a")]
    now = (
        side("rank0:", a=(1, 100)) + side("rank1:", a=(1, 100), b=(1, 50)) + [measured("operator_calls", 1, "ranks:b")]
    )
    found = work_of(now, before)
    assert list(found) == ["rank0:", "rank1:"]
    assert {rank: one.growth(is_time_same=False) for rank, one in found.items()} == pytest.approx(
        {"rank0:": 0.0, "rank1:": 0.5}
    )


def test_the_operators_that_carry_the_work_are_those_with_a_part_worth_telling():
    assert work(side(a=(1, 100)), side(a=(1, 100), b=(1, 96), view=(9, 4))).carriers == {"b"}
    # Where none has, the largest carry it: many small operators are work as well.
    many = {f"op{number}": (1, 1.0) for number in range(40)}
    assert len(work(side(a=(1, 100)), side(a=(1, 100), **many)).carriers) == 20


TIMES = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(1, 20), st.floats(1, 1e4)), min_size=1)


@given(before=TIMES, now=TIMES, speed=st.floats(0.1, 10))
# Shares of operators that were all replaced add up to less than a whole by rounding.
@example(before={"a": (1, 1.375), "d": (1, 4095.0), "e": (1, 1.25)}, now={"b": (1, 1.0), "c": (1, 1.8)}, speed=3.5)
def test_the_speed_of_the_machine_does_not_matter(before, now, speed):
    slower = {name: (calls, time * speed) for name, (calls, time) in now.items()}
    here, there = work(side(**before), side(**now)), work(side(**before), side(**slower))
    assert there.growth(is_time_same=False) == pytest.approx(here.growth(is_time_same=False), rel=1e-6, abs=1e-6)


@given(kept=TIMES, added=st.floats(0, 1e5))
def test_what_is_added_to_operators_that_stay_is_found_in_full(kept, added):
    found = work(side(**kept), side(**kept, new=(1, added)))
    assert found.growth(is_time_same=False) == pytest.approx(
        added / sum(t for _, t in kept.values()), rel=1e-6, abs=1e-9
    )


@given(before=TIMES, now=TIMES)
def test_less_of_everything_is_never_worse(before, now):
    fewer = dict.fromkeys(before.keys() & now.keys(), (1, 1.0)) or {min(before): (1, 1.0)}
    assert work(side(**before), side(**fewer)).growth(is_time_same=False) <= thresholds.OPERATOR_WEIGHT
