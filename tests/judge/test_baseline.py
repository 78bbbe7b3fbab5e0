"""Refreshing: what is written, what is kept, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import StepWindow
from perfguard.judge import Baseline, Policy, Refresh, Rule, State, Tolerance, compare, refreshed
from perfguard.measure import METRICS, Measurement
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, baseline, measured

CALLS = measured("operator_calls", 2, "MatMul")
STEP = measured("step_time", 100.0, samples=(100.0, 110.0))


def refresh(old: list[Measurement] | None, new: list[Measurement], *, policy: Policy | None = None, **changes):
    before = None if old is None else baseline(*old, commit="old")
    return refreshed(before, baseline(*new, commit="new", **changes), policy=policy or Policy())


def values(stored: Baseline) -> dict[str, object]:
    return {m.label: m.value for m in stored.measurements}


def rule(pattern: str, tolerance: Tolerance | None) -> Policy:
    return Policy(settings=(Rule(pattern=pattern, tolerance=tolerance),))


# -- created, updated, kept ------------------------------------------------------------------------------------------


def test_the_first_baseline_is_created_as_it_was_measured():
    stored, done, changes = refresh(None, [CALLS, STEP])
    assert (done, changes) == (Refresh.CREATED, ())
    assert stored == baseline(CALLS, STEP, commit="new")


def test_the_same_numbers_are_kept():
    stored, done, changes = refresh([CALLS, STEP], [CALLS, STEP])
    assert (done, changes) == (Refresh.KEPT, ())
    assert stored == baseline(CALLS, STEP, commit="old")


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (("operator_calls", 2, "MatMul"), ("operator_calls", 3, "MatMul"), "operator_calls[MatMul] 2 → 3 calls/step"),
        (("operator_calls", 3, "MatMul"), ("operator_calls", 2, "MatMul"), "operator_calls[MatMul] 3 → 2 calls/step"),
        (("peak_memory_bytes", 100, "cpu"), ("peak_memory_bytes", 99, "cpu"), "peak_memory_bytes[cpu] 100 → 99 bytes"),
        (("operator_set", ["a"], ""), ("operator_set", ["a", "b"], ""), "operator_set 1 names → 2 names"),
        (
            ("operator_shapes", {"[2]": 1}, "Add"),
            ("operator_shapes", {"[3]": 1}, "Add"),
            "operator_shapes[Add] [2] x 1 → [3] x 1 calls/step by shape",
        ),
        (("step_time", 100.0, ""), ("step_time", 131.0, ""), "step_time 100 → 131 us"),
        (("step_time", 100.0, ""), ("step_time", 60.0, ""), "step_time 100 → 60 us"),
    ],
)
def test_what_changed_is_written_and_told_as_before_and_after(before, after, change):
    stored, done, changes = refresh([measured(*before)], [measured(*after)])
    assert (done, changes) == (Refresh.UPDATED, (change,))
    assert stored == baseline(measured(*after), commit="new")


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ([], [CALLS], "operator_calls[MatMul] (none) → 2 calls/step"),
        ([CALLS], [], "operator_calls[MatMul] 2 → (gone) calls/step"),
        ([CALLS], [CALLS, STEP], "step_time (none) → 100 us"),
        ([measured("metric_of_yesterday", 1), CALLS], [CALLS], "metric_of_yesterday 1 → (gone)"),
    ],
)
def test_what_came_or_went_is_written(old, new, change):
    stored, done, changes = refresh(old, new)
    assert (done, changes) == (Refresh.UPDATED, (change,))
    assert stored.measurements == tuple(new)


@pytest.mark.parametrize("after", [100.0, 100.1, 129.9, 130.0, 99.0, 77.0])
@pytest.mark.parametrize("metric", ["step_time", "step_cpu_time"])
def test_noise_is_not_written(metric, after):
    stored, done, changes = refresh([measured(metric, 100.0)], [measured(metric, after)])
    assert (done, changes, values(stored)) == (Refresh.KEPT, (), {metric: 100.0})


def test_an_exact_change_does_not_drag_noise_along():
    stored, done, changes = refresh([CALLS, STEP], [replace(CALLS, value=3), replace(STEP, value=120.0)])
    assert (done, values(stored)) == (Refresh.UPDATED, {"operator_calls[MatMul]": 3, "step_time": 100.0})
    assert changes == ("operator_calls[MatMul] 2 → 3 calls/step",)


@pytest.mark.parametrize("metric", sorted(name for name, metric in METRICS.items() if not metric.gated))
@pytest.mark.parametrize("after", [None, 500.0, 0.1])
def test_what_is_only_ranked_never_causes_a_write(metric, after):
    old = [CALLS, measured(metric, 1.0, "x"), STEP]
    new = [CALLS, STEP] if after is None else [CALLS, measured(metric, after, "x"), STEP]
    stored, done, changes = refresh(old, new)
    assert (done, changes) == (Refresh.KEPT, ())
    assert stored.measurements == tuple(old)
    assert refresh(new, old)[1:] == (Refresh.KEPT, ())


@pytest.mark.parametrize("subject", ["MatMul", "autograd::engine::evaluate_function: AddmmBackward0", "a b c"])
def test_what_is_only_ranked_is_written_along_and_not_told(subject):
    old = [CALLS, measured("operator_time", 1.0, subject), STEP]
    new = [replace(CALLS, value=3), measured("operator_time", 9.0, subject), STEP]
    stored, done, changes = refresh(old, new)
    assert (done, stored.measurements) == (Refresh.UPDATED, tuple(new))
    assert changes == ("operator_calls[MatMul] 2 → 3 calls/step",)


def test_an_operator_time_the_user_named_causes_a_write():
    policy = rule("operator_time[MatMul]", Tolerance(relative=0.1))
    old, new = ([measured("operator_time", value, "MatMul"), STEP] for value in (100.0, 111.0))
    assert refresh(old, new, policy=policy)[1:] == (Refresh.UPDATED, ("operator_time[MatMul] 100 → 111 us/step",))
    assert refresh(old, old, policy=policy)[1] is Refresh.KEPT


def test_an_exact_metric_is_written_at_any_difference_whatever_its_tolerance():
    policy = rule("operator_calls", Tolerance(relative=9.0))
    assert refresh([CALLS], [replace(CALLS, value=3)], policy=policy)[1] is Refresh.UPDATED


@pytest.mark.parametrize(
    ("tolerance", "done"), [(Tolerance(relative=0.1), "updated"), (Tolerance(relative=0.5), "kept")]
)
def test_noise_is_what_the_tolerance_says(tolerance, done):
    _, found, _ = refresh([STEP], [replace(STEP, value=120.0)], policy=rule("step_time", tolerance))
    assert found.value == done


# -- another window, another machine, no time ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mode": "graph"}, "fingerprint mode: eager → graph"),
        ({"threads": 2}, "fingerprint threads: 1 → 2"),
        ({"window": StepWindow(active=6)}, "fingerprint window: "),
    ],
)
def test_another_fingerprint_replaces_everything(changes, told):
    fingerprint = replace(FINGERPRINT, **changes)
    stored, done, changed = refresh([CALLS, STEP], [CALLS], fingerprint=fingerprint)
    assert done is Refresh.UPDATED
    assert stored == baseline(CALLS, commit="new", fingerprint=fingerprint)
    assert len(changed) == 1
    assert changed[0].startswith(told)


def test_another_machine_replaces_every_time():
    new = [CALLS, replace(STEP, value=101.0)]
    stored, done, changes = refresh([CALLS, STEP], new, environment=ELSEWHERE)
    assert (done, changes) == (Refresh.UPDATED, ("step_time 100 → 101 us",))
    assert stored == baseline(*new, commit="new", environment=ELSEWHERE)


def test_another_release_alone_is_not_written():
    stored, done, _ = refresh([CALLS, STEP], [CALLS, STEP], environment=replace(HERE, packages={"torch": "3.0"}))
    assert (done, stored.environment) == (Refresh.KEPT, HERE)


@pytest.mark.parametrize("calls", [2, 3])
def test_with_time_off_stored_times_stay(calls):
    old = [CALLS, STEP, measured("operator_time", 5.0, "MatMul"), measured("profiler_overhead", 1.5)]
    new = [replace(CALLS, value=calls), measured("operator_time", 50.0, "MatMul")]
    stored, done, _ = refresh(old, new, policy=Policy(judge_time=False))
    assert done is (Refresh.KEPT if calls == 2 else Refresh.UPDATED)
    assert values(stored) == {
        "operator_calls[MatMul]": calls,
        "step_time": 100.0,
        "operator_time[MatMul]": 5.0,
        "profiler_overhead": 1.5,
    }
    assert STEP in stored.measurements


def test_with_time_off_measured_times_are_not_written_either():
    new = [replace(CALLS, value=3), replace(STEP, value=900.0)]
    stored, _, _ = refresh([CALLS, STEP], new, policy=Policy(judge_time=False))
    assert STEP in stored.measurements


def test_times_kept_from_one_machine_are_never_judged_on_another():
    # An exact change is refreshed elsewhere with time off; the times that are kept were measured here.
    stored, done, _ = refresh(
        [CALLS, STEP], [replace(CALLS, value=3)], policy=Policy(judge_time=False), environment=ELSEWHERE
    )
    assert done is Refresh.UPDATED
    slow = replace(STEP, value=1000.0)
    found = compare([slow], stored, environment=ELSEWHERE, policy=Policy())
    assert {c.state for c in found if c.metric == "step_time"} <= {State.NOT_COMPARABLE, State.NEW}


# -- a refresh and the rule ------------------------------------------------------------------------------------------


@given(
    tolerance=st.one_of(st.none(), st.builds(Tolerance, relative=st.floats(0, 5), absolute=st.floats(0, 1e6))),
    before=st.floats(0.1, 1e6),
    after=st.floats(0.1, 1e6),
)
def test_a_refresh_never_changes_a_tolerance(tolerance, before, after):
    policy = rule("step_time", tolerance)
    stored, _, _ = refresh([replace(STEP, value=before)], [replace(STEP, value=after)], policy=policy)
    text = str(stored.as_dict())
    assert all(word not in text for word in ("toleran", "relative", "absolute", "allow", "warn"))
    assert policy.tolerance(METRICS["step_time"], "") == tolerance
    (kept,) = stored.measurements
    assert kept.value in (before, after)


@given(after=st.lists(st.floats(1.0, 1e4), min_size=1, max_size=6))
def test_many_small_refreshes_cannot_drift_past_the_limit_unseen(after):
    # Each refresh within noise keeps the old number, so the next run is still judged against it.
    stored = baseline(STEP)
    for value in after:
        new = baseline(replace(STEP, value=value))
        before = stored.measurements[0].value
        stored, done, changes = refreshed(stored, new, policy=Policy())
        assert (done is Refresh.KEPT) == (stored.measurements[0].value == before)
        assert (done is Refresh.UPDATED) == bool(changes)


@given(old=st.integers(0, 50), new=st.integers(0, 50))
def test_a_refreshed_baseline_passes_and_is_kept_next_time(old, new):
    now = [replace(CALLS, value=new), replace(STEP, value=float(new + 1))]
    stored, _, _ = refresh([replace(CALLS, value=old), replace(STEP, value=float(old + 1))], now)
    assert all(
        c.state is State.SAME
        for c in compare(now, stored, environment=HERE, policy=Policy())
        if c.metric != "step_time"
    )
    assert not [c for c in compare(now, stored, environment=HERE, policy=Policy()) if c.finding]
    assert refreshed(stored, baseline(*now), policy=Policy())[1] is Refresh.KEPT


# -- plain form ------------------------------------------------------------------------------------------------------


def test_the_plain_form_is_the_baseline():
    stored = baseline(CALLS, STEP, measured("operator_set", ["a"]), commit="abc", reason="why", runs=3)
    assert Baseline.from_dict(stored.as_dict()) == replace(
        stored, measurements=(CALLS, measured("operator_set", ["a"]), STEP)
    )


def test_samples_of_what_is_only_ranked_are_not_stored():
    plain = baseline(measured("operator_time", 1.0, "x", samples=(1.0, 2.0)), STEP).as_dict()["measurements"]
    assert plain[0] == {"metric": "operator_time", "subject": "x", "value": 1.0}
    assert plain[1]["samples"] == [100.0, 110.0]
