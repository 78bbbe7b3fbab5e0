"""The plain form of a baseline, as the store keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard.judge.baseline import Baseline
from perfguard.measure import METRICS, Measurement
from tests.facts import baseline, measured

CALLS = measured("operator_calls", 2, "MatMul")
STEP = measured("step_time", 100.0, samples=(100.0, 110.0))


def test_the_plain_form_is_the_baseline():
    stored = baseline(CALLS, STEP, measured("operator_set", ["a"]), commit="abc", reason="why", runs=3)
    assert Baseline.from_dict(stored.as_dict()) == replace(
        stored, measurements=(CALLS, measured("operator_set", ["a"]), STEP)
    )


@pytest.mark.parametrize(("by_run", "kept"), [(False, None), (True, [1.0, 2.0])])
def test_samples_of_what_is_only_ranked_are_not_stored_unless_each_is_a_run(monkeypatch, by_run, kept):
    monkeypatch.setitem(METRICS, "operator_time", replace(METRICS["operator_time"], by_run=by_run))
    plain = baseline(measured("operator_time", 1.0, "x", samples=(1.0, 2.0)), STEP).as_dict()["measurements"]
    assert plain[0].get("samples") == kept
    assert plain[1]["samples"] == [100.0, 110.0]


@pytest.mark.parametrize(("timed", "first"), [(0, 4), (30, 34)])
def test_a_baseline_of_before_the_first_step_was_kept_is_of_the_steps_after_the_timed_ones(timed, first):
    measurements = [Measurement(metric="step_time", subject="", value=1.0, samples=(1.0,) * timed)] if timed else []
    plain = baseline(*measurements).as_dict()
    del plain["fingerprint"]["first_profiled_step"]
    assert Baseline.from_dict(plain).fingerprint.first_profiled_step == first
