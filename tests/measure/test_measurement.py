"""Measurements: one number with its samples, and how it is written down."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.measure import Measurement
from perfguard.measure.measurement import label, p90, rank_of
from tests.facts import measured

SAMPLES = st.lists(st.floats(0, 1e15), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 2.0], 1.9),
        ([3.0, 1.0, 2.0], 2.8),
        (list(range(11)), 9.0),
        (list(range(101)), 90.0),
        ([1.0, 1.0, 1.0, 100.0], 70.3),
    ],
)
def test_p90(samples, expected):
    assert p90(samples) == pytest.approx(expected)


@given(samples=SAMPLES)
def test_p90_interpolates_between_neighbours(samples):
    ordered = sorted(samples)
    position = 0.9 * (len(ordered) - 1)
    below = int(position + 1e-9)
    above = min(below + 1, len(ordered) - 1)
    expected = ordered[below] + (position - below) * (ordered[above] - ordered[below])
    assert p90(samples) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(samples=SAMPLES, order=st.randoms())
def test_p90_does_not_depend_on_the_order(samples, order):
    shuffled = list(samples)
    order.shuffle(shuffled)
    assert p90(shuffled) == p90(samples)


def test_no_samples_have_no_statistics():
    assert measured("steps", 5).as_dict().keys() == {"metric", "subject", "value"}


@pytest.mark.parametrize(
    ("metric", "subject", "expected"),
    [
        ("step_time", "", "step_time"),
        ("operator_time", "MatMul", "operator_time[MatMul]"),
        ("operator_time", "fused[0]", "operator_time[fused[0]]"),
        ("operator_set", "rank1:", "operator_set[rank1:]"),
    ],
)
def test_a_label_is_written_as_in_the_settings(metric, subject, expected):
    assert label(metric, subject) == measured(metric, 1, subject).label == expected
    assert measured(metric, 1, subject).key == (metric, subject)


@given(
    measurement=st.builds(
        Measurement,
        metric=st.text(),
        subject=st.text(),
        value=st.one_of(
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.lists(st.text(), max_size=3),
            st.dictionaries(st.text(), st.integers(), max_size=3),
        ),
        samples=SAMPLES.map(tuple) | st.just(()),
    )
)
def test_the_plain_form_is_the_measurement(measurement):
    plain = json.loads(json.dumps(measurement.as_dict()))
    assert Measurement.from_dict(plain) == measurement
    assert ("samples" in plain) == ("median" in plain) == ("p90" in plain) == bool(measurement.samples)


def test_median_and_p90_are_computed_anew():
    plain = {**measured("step_time", 1.0, samples=(1.0, 3.0)).as_dict(), "median": 99.0, "p90": 99.0}
    again = Measurement.from_dict(plain).as_dict()
    assert (again["median"], again["p90"]) == (2.0, pytest.approx(2.8))


@pytest.mark.parametrize(
    "subject, expected",
    [
        ("rank3:MatMul", (3, "MatMul")),
        ("rank3:", (3, "")),
        ("rank12", (12, "")),
        ("rank1:a:b\nc", (1, "a:b\nc")),
        ("ranks:MatMul", None),
        ("rank:MatMul", None),
        ("ranking", None),
        ("rank3x", None),
        ("", None),
    ],
)
def test_a_subject_of_one_rank_is_split(subject, expected):
    assert rank_of(subject) == expected
