"""Trends: lasting changes and since when, creep, two anchors, and how often all of this is wrong (seeded simulations)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import thresholds
from perfguard.judge.tolerance import Tolerance, default_tolerance
from perfguard.judge.trend import Series, Trend, change_points, trend
from perfguard.measure import METRICS
from perfguard.version import install_command
from tests.histories import series
from tests.installed import needs

needs("ruptures", "history")

LIMIT = Tolerance(relative=0.10)


def told(found: Series, *, tolerance: Tolerance | str | None = "its own") -> Trend:
    metric = METRICS.get(found.metric)
    own = default_tolerance(metric) if metric is not None else None
    return trend(found, metric=metric, tolerance=own if tolerance == "its own" else tolerance)  # type: ignore[arg-type]


def changes(found: Trend) -> list[tuple[int, float, float]]:
    return [(one.index, one.before, one.after) for one in found.changes]


# -- exact numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, expected",
    [
        ([7], []),
        ([7, 7, 7], []),
        ([7, 7, 8, 8], [(2, 7, 8)]),
        ([7, 7, 8], [(2, 7, 8)]),  # the newest run is believed: the number is exact
        ([7, 8, 7, 7], []),  # it did not last
        ([7, 7, 8, 7, 9], [(4, 7, 9)]),
        ([7, 8, 9], [(1, 7, 8), (2, 8, 9)]),
        ([7, 8, 8, 7], [(1, 7, 8), (3, 8, 7)]),
        ([0, 0, 4096, 4096], [(2, 0, 4096)]),
        # Neither 6 nor 7 lasted; 8 did, by and large.
        ([5, 5, 6, 7, 5, 5], []),
        ([5, 6, 7, 5, 6], [(4, 5, 6)]),
        ([7, 8, 9, 8, 7], [(1, 7, 8), (4, 8, 7)]),
        ([5, 6, 6, 7, 5], [(1, 5, 6), (3, 6, 7), (4, 7, 5)]),
    ],
)
def test_an_exact_number_changes_where_it_changes(values, expected):
    assert changes(told(series(values, metric="peak_memory_bytes"))) == expected


def test_an_exact_number_needs_no_ten_runs_to_be_worse():
    found = told(series([7, 7, 8], metric="peak_memory_bytes"))
    assert (found.worse, found.level, found.reference) == (True, 8, 7)
    assert found.changes[0].beyond
    assert not told(series([8, 8, 7], metric="peak_memory_bytes")).worse


def test_what_only_changes_is_shown_and_never_worse():
    assert told(series([5, 5, 4], metric="steps")).worse
    found = told(series([5, 5, 6], metric="operator_calls"))
    assert (found.worse, changes(found)) == (False, [(2, 5, 6)])


def test_a_tolerance_holds_for_an_exact_number_too():
    values = [1000, 1000, 1050]
    assert told(series(values, metric="peak_memory_bytes")).worse
    assert not told(series(values, metric="peak_memory_bytes"), tolerance=LIMIT).worse
    shown = told(series(values, metric="peak_memory_bytes"), tolerance=None)
    assert (shown.worse, changes(shown)) == (False, [(2, 1000, 1050)])


def test_small_steps_of_an_exact_number_creep():
    values = [1000 + 10 * (number // 2) for number in range(30)]
    found = told(series(values, metric="peak_memory_bytes"), tolerance=LIMIT)
    assert found.creep is not None
    assert (found.creep.before, found.creep.after, found.creep.runs) == (1000, 1140, 30)
    assert found.creep.largest_step == pytest.approx(0.01, abs=1e-3)
    assert found.worse
    assert not told(series(values[:18], metric="peak_memory_bytes"), tolerance=LIMIT).worse


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_the_levels_of_an_exact_number_lead_from_its_first_to_its_newest(values):
    found = told(series(values, metric="peak_memory_bytes"))
    assert all(one.before != one.after for one in found.changes)
    path = [values[0], *(one.after for one in found.changes)]
    assert [one.before for one in found.changes] == path[:-1]
    assert found.level == path[-1] == values[-1]


# -- noisy numbers -------------------------------------------------------------------------------------------------------


def noisy(runs: int, *, seed: int, noise: float = 0.03, level: Callable[[int], float] = lambda _: 1.0) -> list[float]:
    """Return runs of 100, with this noise (as a fraction), times a level."""
    spread = np.random.default_rng(seed).normal(0, noise, runs)
    return [100 * level(number) * math.exp(spread[number]) for number in range(runs)]


def step(at: int, by: float) -> Callable[[int], float]:
    return lambda number: 1 + by if number >= at else 1.0


def ramp(runs: int, by: float, *, since: int = 0) -> Callable[[int], float]:
    return lambda number: (1 + by) ** (max(0, number - since) / (runs - 1 - since))


def share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)


def test_what_did_not_change_has_few_change_points_and_is_never_worse():
    trends = [told(series(noisy(40, seed=seed))) for seed in range(200)]
    assert share([bool(one.changes) for one in trends]) <= 0.03
    assert share([one.worse or one.creep is not None for one in trends]) == 0


def test_heavy_tails_are_no_changes():
    draws = np.random.default_rng(5).standard_t(3, (200, 40)) * 0.03 / math.sqrt(3)
    trends = [told(series(100 * np.exp(draw))) for draw in draws]
    assert share([bool(one.changes) for one in trends]) <= 0.05
    assert share([one.worse for one in trends]) == 0


def test_a_machine_whose_noise_drifts_is_not_worse():
    """Noise that remembers (an AR(1) of 0.6) wanders, so it has levels; but none beyond the tolerance."""
    generator = np.random.default_rng(6)
    trends = []
    for _ in range(200):
        values = [0.0]
        for kick in generator.normal(0, 0.024, 39):
            values.append(0.6 * values[-1] + kick)
        trends.append(told(series(100 * np.exp(values))))
    assert share([one.worse for one in trends]) <= 0.02


@pytest.mark.parametrize("at", [8, 20, 32])
@pytest.mark.variants(1)
def test_a_step_of_ten_per_cent_is_found_where_it_is(at):
    found = [told(series(noisy(40, seed=seed, level=step(at, 0.10)))) for seed in range(200)]
    near = [
        any(abs(change.index - at) <= 2 and change.after > change.before for change in one.changes) for one in found
    ]
    assert share(near) >= 0.95


def test_a_step_beyond_the_tolerance_is_worse():
    found = [told(series(noisy(40, seed=seed, level=step(25, 0.20)))) for seed in range(100)]
    assert share([one.worse for one in found]) == 1
    assert (
        share([any(change.beyond and abs(change.index - 25) <= 2 for change in one.changes) for one in found]) >= 0.98
    )
    assert share([one.creep is None for one in found]) >= 0.98


def test_a_step_that_was_mended_is_no_longer_worse():
    level = lambda number: 1.3 if 15 <= number < 25 else 1.0  # noqa: E731
    found = [told(series(noisy(40, seed=seed, level=level))) for seed in range(50)]
    assert not any(one.worse for one in found)
    assert share([len(one.changes) == 2 for one in found]) >= 0.9


@pytest.mark.parametrize("at", [0, 1, 20, 38, 39])
@pytest.mark.variants(1)
def test_one_outlier_is_no_change(at):
    found = [told(series(noisy(40, seed=seed, level=lambda n: 1.5 if n == at else 1.0))) for seed in range(100)]
    assert share([bool(one.changes) for one in found]) <= 0.05
    assert not any(one.worse for one in found)


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.variants(1)
def test_creep_of_many_small_steps_is_told(noise):
    found = [told(series(noisy(60, seed=seed, noise=noise, level=ramp(60, 0.18)))) for seed in range(100)]
    assert share([one.worse for one in found]) >= 0.97
    crept = [one.creep for one in found if one.creep is not None]
    assert len(crept) >= 95
    totals = [one.after / one.before - 1 for one in crept]
    assert 0.14 < float(np.median(totals)) < 0.20
    assert share([one.largest_step < 0.10 for one in crept]) >= 0.95


@pytest.mark.exhaustive
def test_creep_after_a_long_rest_is_dated_to_its_own_runs():
    values = [noisy(140, seed=seed, noise=0.01, level=ramp(140, 0.18, since=100)) for seed in range(50)]
    found = [told(series(one)) for one in values]
    assert share([one.worse for one in found]) >= 0.97
    starts = [one.creep.index for one in found if one.creep is not None]
    assert len(starts) >= 45
    assert 80 <= float(np.median(starts)) <= 110


def test_two_small_steps_that_each_passed_are_worse_together():
    level = lambda number: 1.07 ** ((number >= 20) + (number >= 40))  # noqa: E731
    found = [told(series(noisy(60, seed=seed, noise=0.01, level=level))) for seed in range(50)]
    assert all(one.worse for one in found)
    assert share([[c.beyond for c in one.changes] == [False, False] for one in found]) >= 0.95
    assert all(one.creep is not None for one in found)


@pytest.mark.parametrize("runs", [20, 40, 80])
@pytest.mark.parametrize("noise", [0.01, 0.02])
@pytest.mark.parametrize("by", [0.05, 0.07])
@pytest.mark.variants(1)
def test_a_step_within_the_tolerance_is_neither_worse_nor_a_creep(runs, noise, by):
    """A line through a step rises more than the step does."""
    found = [told(series(noisy(runs, seed=seed, noise=noise, level=step(runs // 2, by)))) for seed in range(60)]
    assert not any(one.worse or one.creep for one in found)


def test_steps_that_stay_within_the_tolerance_together_are_no_creep():
    level = lambda number: 1.04 ** ((number >= 15) + (number >= 30))  # noqa: E731
    found = [told(series(noisy(45, seed=seed, noise=0.01, level=level))) for seed in range(50)]
    # +8.2 % of 10 % that are allowed: two in fifty are taken for a line.
    assert share([one.worse or one.creep is not None for one in found]) <= 0.06


def test_a_creep_that_is_over_ends_where_its_newest_level_begins():
    level = lambda number: 1.004 ** min(number, 40)  # noqa: E731
    found = [told(series(noisy(80, seed=seed, noise=0.01, level=level))) for seed in range(50)]
    assert all(one.worse for one in found)
    crept = [one.creep for one in found if one.creep is not None]
    assert len(crept) >= 45
    assert not any(one.straight for one in crept)
    # No level ever was higher than 117.3, or lower than 100.
    assert all(99 <= one.before < one.after <= 118 for one in crept)
    assert share([25 <= one.runs <= 55 for one in crept]) >= 0.95


@pytest.mark.parametrize(
    "odd, by", [(0.25, 0.15), (0.15, 0.2), (0.3, 0.2), (0.25, 0.05)], ids=["a quarter", "few", "a third", "small"]
)
@pytest.mark.parametrize("runs", [20, 40, 100])
@pytest.mark.variants(1)
def test_a_machine_of_two_speeds_has_no_levels(runs, odd, by):
    """More than half of the neighbours are equal, and a clock of few digits looks the same."""
    generator = np.random.default_rng(runs)
    found = [told(series(np.where(generator.random(runs) < odd, 100 * (1 + by), 100.0))) for _ in range(200)]
    assert share([bool(one.changes) for one in found]) <= 0.12
    assert share([one.worse for one in found]) <= 0.04


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_creep_out_of_a_level_of_zeros_has_no_percentage(low):
    noise = [((number * 7) % 5 - 2) * 0.4 for number in range(20)]
    values = [
        *([low, low, low, 1.0] * 3),
        low,
        low,
        *([1.0] * 6),
        10,
        10.5,
        9.5,
        10.2,
        10.7,
        9.8,
        *(20 + one for one in noise),
    ]
    found = told(series(values), tolerance=Tolerance(relative=0, absolute=15))
    assert math.isfinite(found.level)


def test_less_than_the_tolerance_is_no_creep():
    found = [told(series(noisy(60, seed=seed, noise=0.01, level=ramp(60, 0.06)))) for seed in range(100)]
    assert not any(one.worse or one.creep for one in found)


def test_what_becomes_better_is_not_worse():
    for level in (step(20, -0.3), ramp(40, -0.3)):
        found = told(series(noisy(40, seed=1, level=level)))
        assert found.changes
        assert not found.worse
        assert found.creep is None


def test_more_is_better_where_the_metric_says_so():
    name = next(metric.name for metric in METRICS.values() if metric.better.value == "higher")
    down = told(series(noisy(40, seed=1, level=step(20, -0.4)), metric=name), tolerance=LIMIT)
    up = told(series(noisy(40, seed=1, level=step(20, 0.4)), metric=name), tolerance=LIMIT)
    assert (down.worse, up.worse) == (True, False)


@pytest.mark.parametrize("runs", range(1, thresholds.TREND_RUNS))
def test_of_few_runs_nothing_is_claimed(runs):
    found = told(series(noisy(runs, seed=1, level=step(runs // 2, 1.0))))
    assert (found.changes, found.creep, found.worse, found.judged) == ((), None, False, False)


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 20,
        [5.0] * 20,
        [0.0] * 10 + [3.0] * 10,
        [-1.0] * 10 + [1.0] * 10,
        [1e-300] * 10 + [1e300] * 10,
        [0.0] * 19 + [1e12],
    ],
    ids=range(6),
)
def test_zeros_and_extremes_are_numbers(values):
    found = told(series(values, metric="run_blocked_time"), tolerance=LIMIT)
    assert math.isfinite(found.level)
    assert [change.index for change in found.changes] == ([10] if values[0] != values[10] else [])


@given(
    st.lists(st.floats(0, 1e9) | st.floats(-10, 10), min_size=1, max_size=60),
    st.sets(st.integers(0, 59)),
)
def test_any_numbers_have_a_trend(values, releases):
    found = told(series(values, releases=sorted(releases)), tolerance=LIMIT)
    assert math.isfinite(found.level)
    assert all(one.before is not None and 0 < one.index < len(values) for one in found.changes)
    assert len(values) >= thresholds.TREND_RUNS or not found.worse


def test_thousands_of_runs_are_quick_enough_to_be_one_call():
    found = change_points(noisy(5000, seed=1, level=step(3000, 0.05)))
    assert [abs(place - 3000) <= 3 for place in found] == [True]


# -- anchors -------------------------------------------------------------------------------------------------------------


def test_the_two_anchors_are_the_run_before_and_the_last_release():
    found = told(series(range(100, 112), releases=[3, 7]))
    assert found.previous is not None
    assert found.release is not None
    assert (found.latest.value, found.previous.value, found.release.value) == (111, 110, 107)
    assert found.release.moment.release == "v7"


def test_a_run_that_is_a_release_is_held_against_the_one_before():
    found = told(series([7, 7, 8, 8], metric="peak_memory_bytes", releases=[1, 3]))
    assert (found.release.moment.release, found.reference, found.worse) == ("v1", 7, True)


def test_what_was_worse_already_in_the_last_release_is_not_worse_than_it():
    values = [7, 7, 8, 8, 8]
    assert told(series(values, metric="peak_memory_bytes")).worse
    assert not told(series(values, metric="peak_memory_bytes", releases=[3])).worse
    assert told(series(values, metric="peak_memory_bytes", releases=[1])).worse


def test_a_creep_is_held_against_where_it_was_at_the_release():
    values = noisy(60, seed=2, noise=0.005, level=ramp(60, 0.30))
    early, late = (told(series(values, releases=[release])) for release in (10, 50))
    assert (early.worse, late.worse) == (True, False)
    assert late.creep is not None


# -- what is not judged --------------------------------------------------------------------------------------------------


def test_what_is_gone_or_unknown_or_only_warns_is_shown():
    values = noisy(40, seed=1, level=step(20, 0.5))
    assert told(series(values)).worse
    assert not told(series(values, current=False)).worse
    assert not told(series(values, metric="metric_of_tomorrow")).worse
    assert not told(series(values, metric="step_time")).worse  # it only ever warns
    assert not told(series(values, current=False)).judged
    assert not told(series(values), tolerance=None).judged
    assert not told(series(values, metric="step_time")).judged
    assert told(series(values)).judged


@pytest.mark.parametrize("package, function", [("ruptures", "change_points"), ("scipy.stats", "trend")])
def test_what_is_missing_is_said_with_the_command_that_brings_it(monkeypatch, package, function):
    import sys

    from perfguard.errors import UsageError

    monkeypatch.setitem(sys.modules, package, None)
    values = noisy(40, seed=1, level=ramp(40, 0.3))
    with pytest.raises(UsageError, match=re.escape(install_command("history"))):
        change_points(values) if function == "change_points" else told(series(values))
