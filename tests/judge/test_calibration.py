"""What a gate says of its own error rate: literal runs, expected rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.judge.calibration import (
    Calibrated,
    block_ratios,
    calibrated,
    error_rate,
    proposed_tolerance,
    rate_at_most,
    smallest_slowdown,
)
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from tests.facts import measured
from tests.installed import needs

needs("scipy", "calibrate")

STEADY = [2.0, 2.1, 2.05, 2.2, 2.02] * 4


def costs(values, policy=None):
    runs = [[measured("step_cost", value, samples=(value,))] for value in values]
    (found,) = calibrated(runs, policy=policy or Policy())
    return found


def test_steady_runs_raise_no_alarm_and_see_as_much_as_their_spread_allows():
    found = costs(STEADY)
    assert (found.runs, found.alarms, found.independent) == (20, 0, 2)
    assert found.comparisons == len(block_ratios(STEADY)) == 132
    # Every block of five has the same best, so what is slower than the tolerance is seen.
    assert (found.smallest_slowdown, found.proposed_tolerance) == (0.11, 0.10)
    # Two independent comparisons show little: 1 - 0.05 ** (1 / 2).
    assert found.at_most == pytest.approx(1 - math.sqrt(0.05), abs=1e-4)


@pytest.mark.parametrize(
    ("runs", "tolerance", "proposed"),
    [
        (20, 0.10, 0.10),
        (99, 0.10, 0.10),
        (100, 0.10, 0.03),
        (20, 0.05, 0.05),
        # One that the user set wider than what is known to hold is no floor.
        (20, 0.50, 0.10),
    ],
)
def test_a_tighter_tolerance_is_proposed_only_where_enough_was_seen(runs, tolerance, proposed):
    policy = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=tolerance)),))
    assert costs((STEADY * 5)[:runs], policy=policy).proposed_tolerance == proposed


def test_a_machine_that_changes_its_mind_raises_alarms_and_is_told_a_wider_tolerance():
    found = costs([2.0] * 10 + [2.5] * 10)
    assert found.alarms is not None
    assert found.alarms > 0
    assert found.proposed_tolerance == 0.40
    assert found.at_most is not None
    assert found.at_most > found.alarms / found.comparisons


@pytest.mark.parametrize("runs", [1, 4, 9])
def test_too_few_runs_claim_nothing(runs):
    found = costs(STEADY[:runs])
    assert (found.alarms, found.comparisons, found.at_most, found.smallest_slowdown) == (None, None, None, None)
    assert error_rate({"a": [found]}) is None


def test_ten_runs_are_two_comparisons_of_which_one_is_independent():
    found = costs(STEADY[:10])
    assert (found.comparisons, found.independent, found.at_most) == (2, 1, 0.95)


def test_a_wider_tolerance_sees_less():
    wide = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=0.5)),))
    assert costs(STEADY, wide).smallest_slowdown == 0.51
    assert costs(STEADY, Policy(settings=(Rule(pattern="step_cost", tolerance=None),))).comparisons is None


@pytest.mark.parametrize(
    ("values", "expected", "changed"),
    [([5, 5, 5], 1, None), ([5, 6, 5], 2, 1), ([5, None, 5], 2, 1), ([5, 6, 7], 3, 2)],
)
def test_an_exact_metric_has_one_value_or_is_none(values, expected, changed):
    runs = [[measured("operator_calls", value, "Add")] if value else [] for value in values]
    (found,) = calibrated(runs, policy=Policy())
    assert (found.values, found.alarms) == (expected, changed)


def test_operators_are_not_judged_by_time():
    assert calibrated([[measured("operator_time", 1.0, "Add")]], policy=Policy()) == ()
    assert calibrated([[measured("metric_of_tomorrow", 1.0)]], policy=Policy()) == ()


@pytest.mark.parametrize(
    ("rate", "independent", "expected"),
    [(0.0, 1, 0.95), (0.0, 59, 0.0495), (0.0, 300, 0.0099), (1.0, 5, 1.0), (0.0, 0, None)],
)
def test_a_rate_is_never_claimed_below_what_so_many_comparisons_show(rate, independent, expected):
    assert rate_at_most(rate, independent) == (expected if expected is None else pytest.approx(expected, abs=1e-4))


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_what_is_seen_is_seen(ratios, tolerance):
    found = smallest_slowdown(ratios, tolerance)
    if found is not None:
        assert sum(ratio * (1 + found) > 1 + tolerance for ratio in ratios) >= 0.95 * len(ratios)
    proposed = proposed_tolerance(ratios)
    if proposed is not None:
        assert max(ratios) <= 1 + proposed + 1e-9


@pytest.mark.parametrize(
    ("workloads", "independent", "at_most"),
    [
        (("a.py::test_one", "b.py::test_one"), 4, 53),
        # They may have shared their processes.
        (("a.py::test_one", "a.py::test_two"), 2, 78),
    ],
)
def test_workloads_are_pooled_and_the_least_sensitive_speaks(workloads, independent, at_most):
    wide = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=0.2)),))
    rate = error_rate(dict(zip(workloads, ([costs(STEADY)], [costs(STEADY, wide)]), strict=True)))
    assert rate is not None
    assert (rate.alarms, rate.comparisons, rate.independent, rate.smallest_slowdown) == (0, 264, independent, 0.21)
    assert rate.sentence == (
        f"this gate: at most {at_most} false alarms in 100 by time "
        f"(0 of 264 seen, {independent} share no process), sees +21 %"
    )


def test_the_plain_form_is_the_value():
    for one in (costs(STEADY), costs(STEADY[:3])):
        assert Calibrated(**one.as_dict()) == one
