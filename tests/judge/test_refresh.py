"""Refreshing: what is written, what is kept, what is refused, and what is told of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import StepWindow
from perfguard.findings import Code
from perfguard.judge.baseline import Baseline
from perfguard.judge.compare import compare
from perfguard.judge.comparison import State
from perfguard.judge.refresh import Refresh, Refreshed, ratcheted, refreshed
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.measure import METRICS, Better, Kind, Measurement, Metric
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, baseline, measured, names_the_next_command

CALLS = measured("operator_calls", 2, "MatMul")
STEP = measured("step_time", 100.0, samples=(100.0, 110.0))
MEMORY = measured("peak_memory_bytes", 1000, "cpu")
WHY = "a second projection"


def refresh(
    old: list[Measurement] | None,
    new: list[Measurement],
    *,
    policy: Policy | None = None,
    reason: str | None = None,
    **changes,
) -> Refreshed:
    before = None if old is None else baseline(*old, commit="old")
    return refreshed(before, baseline(*new, commit="new", reason=reason, **changes), policy=policy or Policy())


def ratchet(old: list[Measurement], new: list[Measurement], *, policy: Policy | None = None, **changes) -> Refreshed:
    return ratcheted(baseline(*old, commit="old"), baseline(*new, commit="new", **changes), policy=policy or Policy())


def told(found: Refreshed) -> list[str]:
    return [str(change) for change in found.changes]


def values(stored: Baseline | None) -> dict[str, object]:
    assert stored is not None
    return {m.label: m.value for m in stored.measurements}


def rule(pattern: str, tolerance: Tolerance | None) -> Policy:
    return Policy(settings=(Rule(pattern=pattern, tolerance=tolerance),))


# -- created, updated, kept ------------------------------------------------------------------------------------------


def test_the_first_baseline_is_created_as_it_was_measured():
    found = refresh(None, [CALLS, STEP])
    assert found == Refreshed(stored=baseline(CALLS, STEP, commit="new"), state=Refresh.CREATED)


def test_the_same_numbers_are_kept():
    found = refresh([CALLS, STEP], [CALLS, STEP])
    assert found == Refreshed(stored=baseline(CALLS, STEP, commit="old"), state=Refresh.KEPT)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (("operator_calls", 2, "Mul"), ("operator_calls", 3, "Mul"), "worse: operator_calls[Mul] 2 → 3 calls/step"),
        (("operator_calls", 3, "Mul"), ("operator_calls", 2, "Mul"), "changed: operator_calls[Mul] 3 → 2 calls/step"),
        (("graph_operators", 3, "Mul"), ("graph_operators", 4, "Mul"), "worse: graph_operators[Mul] 3 → 4 operators"),
        (("graphs_built", 1, ""), ("graphs_built", 2, ""), "worse: graphs_built 1 → 2 graphs"),
        (
            ("communication_calls", 2, "a"),
            ("communication_calls", 1, "a"),
            "better: communication_calls[a] 2 → 1 calls/step",
        ),
        (
            ("graph_compilations", 1, "f"),
            ("graph_compilations", 2, "f"),
            "worse: graph_compilations[f] 1 → 2 compilations",
        ),
        (
            ("peak_memory_bytes", 9, "cpu"),
            ("peak_memory_bytes", 8, "cpu"),
            "better: peak_memory_bytes[cpu] 9 → 8 bytes",
        ),
        (
            ("peak_memory_bytes", 8, "cpu"),
            ("peak_memory_bytes", 9, "cpu"),
            "worse: peak_memory_bytes[cpu] 8 → 9 bytes",
        ),
        (("steps", 3, ""), ("steps", 4, ""), "better: steps 3 → 4 steps"),
        (("steps", 4, ""), ("steps", 3, ""), "worse: steps 4 → 3 steps"),
        (
            ("summary_scalar", 0.5, "loss@1"),
            ("summary_scalar", 0.4, "loss@1"),
            "changed: summary_scalar[loss@1] 0.5 → 0.4 value",
        ),
        (("operator_set", ["a"], ""), ("operator_set", ["a", "b"], ""), "changed: operator_set 1 names → 2 names"),
        (
            ("operator_shapes", {"[2]": 1}, "Add"),
            ("operator_shapes", {"[3]": 1}, "Add"),
            "changed: operator_shapes[Add] [2] x 1 → [3] x 1 calls/step by shape",
        ),
        # What can only warn is not worse.
        (("step_time", 100.0, ""), ("step_time", 201.0, ""), "changed: step_time 100 → 201 us"),
        (("step_time", 100.0, ""), ("step_time", 40.0, ""), "better: step_time 100 → 40 us"),
    ],
)
def test_what_changed_is_written_and_told_by_its_direction_as_before_and_after(before, after, change):
    found = refresh([measured(*before)], [measured(*after)], reason=WHY)
    assert (found.state, told(found), found.refused) == (Refresh.UPDATED, [change], None)
    assert found.stored == baseline(measured(*after), commit="new", reason=WHY)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ([], [CALLS], "changed: operator_calls[MatMul] is new: 2 calls/step"),
        ([replace(CALLS, subject="Add"), CALLS], [CALLS], "changed: operator_calls[Add] is gone: 2 calls/step"),
        ([CALLS], [CALLS, STEP], "changed: step_time is new: 100 us"),
        ([measured("metric_of_yesterday", 1), CALLS], [CALLS], "changed: metric_of_yesterday is gone: 1"),
    ],
)
def test_what_came_or_went_is_written_without_a_reason(old, new, change):
    found = refresh(old, new)
    assert (found.state, told(found)) == (Refresh.UPDATED, [change])
    assert found.stored.measurements == tuple(new)


def test_what_is_worse_is_told_first():
    old = [CALLS, MEMORY, measured("operator_calls", 3, "Add"), measured("operator_calls", 1, "Sub")]
    new = [replace(CALLS, value=1), replace(MEMORY, value=2000), measured("operator_calls", 5, "Add")]
    old.append(measured("memory_allocated_bytes", 300, "cpu"))
    new.append(measured("memory_allocated_bytes", 200, "cpu"))
    found = refresh(old, [*new, measured("operator_calls", 1, "Zero"), STEP], reason=WHY)
    assert told(found) == [
        "worse: operator_calls[Add] 3 → 5 calls/step",
        "worse: operator_calls[Zero] is new: 1 calls/step",
        "worse: peak_memory_bytes[cpu] 1000 → 2000 bytes",
        "changed: operator_calls[MatMul] 2 → 1 calls/step",
        "changed: operator_calls[Sub] is gone: 1 calls/step",
        "changed: step_time is new: 100 us",
        "better: memory_allocated_bytes[cpu] 300 → 200 bytes/step",
    ]


@pytest.mark.parametrize("after", [100.0, 100.1, 129.9, 130.0, 99.0, 77.0])
@pytest.mark.parametrize("metric", ["step_time", "step_cpu_time"])
def test_noise_is_not_written(metric, after):
    found = refresh([measured(metric, 100.0)], [measured(metric, after)])
    assert (found.state, told(found), values(found.stored)) == (Refresh.KEPT, [], {metric: 100.0})


def test_an_exact_change_does_not_drag_noise_along():
    found = refresh([CALLS, STEP], [replace(CALLS, value=1), replace(STEP, value=120.0)])
    assert (found.state, values(found.stored)) == (Refresh.UPDATED, {"operator_calls[MatMul]": 1, "step_time": 100.0})
    assert told(found) == ["changed: operator_calls[MatMul] 2 → 1 calls/step"]


@pytest.mark.parametrize("metric", sorted(name for name, metric in METRICS.items() if not metric.gated))
@pytest.mark.parametrize("after", [None, 500.0, 0.1])
def test_what_is_only_ranked_never_causes_a_write(metric, after):
    old = [CALLS, measured(metric, 1.0, "x"), STEP]
    new = [CALLS, STEP] if after is None else [CALLS, measured(metric, after, "x"), STEP]
    found = refresh(old, new)
    assert (found.state, told(found)) == (Refresh.KEPT, [])
    assert found.stored.measurements == tuple(old)
    assert refresh(new, old).state is Refresh.KEPT


@pytest.mark.parametrize("subject", ["MatMul", "autograd::engine::evaluate_function: AddmmBackward0", "a b c"])
def test_what_is_only_ranked_is_written_along_and_not_told(subject):
    old = [CALLS, measured("operator_time", 1.0, subject), STEP]
    new = [replace(CALLS, value=1), measured("operator_time", 9.0, subject), STEP]
    found = refresh(old, new)
    assert (found.state, found.stored.measurements) == (Refresh.UPDATED, tuple(new))
    assert told(found) == ["changed: operator_calls[MatMul] 2 → 1 calls/step"]


def test_an_operator_time_the_user_named_causes_a_write():
    policy = rule("operator_time[MatMul]", Tolerance(relative=0.1))
    old, new = ([measured("operator_time", value, "MatMul"), STEP] for value in (100.0, 111.0))
    assert refresh(old, new, policy=policy).state is Refresh.REFUSED
    assert told(refresh(old, new, policy=policy, reason=WHY)) == ["worse: operator_time[MatMul] 100 → 111 us/step"]
    assert refresh(old, old, policy=policy).state is Refresh.KEPT


@pytest.mark.parametrize(("after", "direction"), [(0.9, "better"), (0.3, "worse")])
def test_of_what_should_be_high_less_is_worse(after, direction):
    policy = rule("device_utilisation", Tolerance(relative=0.1))
    old, new = ([measured("device_utilisation", value, "aicore")] for value in (0.5, after))
    assert told(refresh(old, new, policy=policy)) == [f"{direction}: device_utilisation[aicore] 0.5 → {after} fraction"]
    assert ratchet(old, new, policy=policy).state is (Refresh.UPDATED if direction == "better" else Refresh.KEPT)


def test_an_exact_metric_is_written_at_any_difference_whatever_its_tolerance():
    policy = rule("operator_calls", Tolerance(relative=9.0))
    assert refresh([CALLS], [replace(CALLS, value=1)], policy=policy).state is Refresh.UPDATED
    assert refresh([CALLS], [replace(CALLS, value=3)], policy=policy).state is Refresh.REFUSED


@pytest.mark.parametrize(
    ("tolerance", "done"), [(Tolerance(relative=0.1), "updated"), (Tolerance(relative=0.5), "kept")]
)
def test_noise_is_what_the_tolerance_says(tolerance, done):
    found = refresh([STEP], [replace(STEP, value=120.0)], policy=rule("step_time", tolerance), reason=WHY)
    assert found.state.value == done


# -- another window, another machine, no time ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "beginning"),
    [
        ({"mode": "graph"}, "changed: fingerprint mode: eager → graph"),
        ({"threads": 2}, "changed: fingerprint threads: 1 → 2"),
        ({"window": StepWindow(active=6)}, "changed: fingerprint window: "),
    ],
)
def test_another_fingerprint_replaces_everything_with_a_reason_only(changes, beginning):
    fingerprint = replace(FINGERPRINT, **changes)
    more = replace(CALLS, value=9)
    found = refresh([CALLS, STEP], [more], fingerprint=fingerprint)
    code, message = refused(found, [CALLS, STEP])
    assert code is Code.B110
    assert message.startswith(f"the fingerprint differs ({beginning.removeprefix('changed: fingerprint ')}")
    found = refresh([CALLS, STEP], [more], fingerprint=fingerprint, reason=WHY)
    assert found.state is Refresh.UPDATED
    assert found.stored == baseline(more, commit="new", fingerprint=fingerprint, reason=WHY)
    (change,) = told(found)
    assert change.startswith(beginning)


def test_another_machine_replaces_every_time():
    new = [CALLS, replace(STEP, value=101.0)]
    found = refresh([CALLS, STEP], new, environment=ELSEWHERE)
    assert (found.state, told(found)) == (Refresh.UPDATED, ["changed: step_time 100 → 101 us"])
    assert found.stored == baseline(*new, commit="new", environment=ELSEWHERE)


def test_on_another_machine_a_longer_time_is_a_change_and_added_work_is_worse():
    slower = refresh([CALLS, STEP], [CALLS, replace(STEP, value=900.0)], environment=ELSEWHERE)
    assert (slower.state, told(slower)) == (Refresh.UPDATED, ["changed: step_time 100 → 900 us"])
    more = refresh([CALLS, STEP], [replace(CALLS, value=3), STEP], environment=ELSEWHERE)
    assert (more.state, told(more)[0]) == (Refresh.REFUSED, "worse: operator_calls[MatMul] 2 → 3 calls/step")


def test_where_the_window_began_cold_a_longer_time_is_a_change():
    cold = replace(FINGERPRINT, world_size=2, window=None)
    old, new = (baseline(CALLS, replace(STEP, value=value), fingerprint=cold) for value in (100.0, 900.0))
    found = refreshed(old, new, policy=Policy())
    assert (found.state, told(found)) == (Refresh.UPDATED, ["changed: step_time 100 → 900 us"])


def test_another_release_alone_is_not_written():
    found = refresh([CALLS, STEP], [CALLS, STEP], environment=replace(HERE, packages={"torch": "3.0"}))
    assert (found.state, found.stored.environment) == (Refresh.KEPT, HERE)


@pytest.mark.parametrize("calls", [2, 1])
def test_with_time_off_stored_times_stay(calls):
    old = [CALLS, STEP, measured("operator_time", 5.0, "MatMul"), measured("profiler_overhead", 1.5)]
    new = [replace(CALLS, value=calls), measured("operator_time", 50.0, "MatMul")]
    found = refresh(old, new, policy=Policy(judge_time=False))
    assert found.state is (Refresh.KEPT if calls == 2 else Refresh.UPDATED)
    assert values(found.stored) == {
        "operator_calls[MatMul]": calls,
        "step_time": 100.0,
        "operator_time[MatMul]": 5.0,
        "profiler_overhead": 1.5,
    }
    assert STEP in found.stored.measurements


@pytest.mark.parametrize(
    ("time", "subject", "counted", "stays"),
    [
        ("profiled_step_part", "idle", CALLS, True),
        ("device_idle", "cuda:0", CALLS, True),
        ("operator_time", "MatMul", CALLS, True),
        ("operator_time", "Add", CALLS, False),
        ("kernel_time", "gemm", measured("kernel_calls", 1, "gemm"), True),
        ("kernel_time", "gemm", CALLS, False),
    ],
)
def test_with_time_off_a_stored_time_stays_unless_what_it_is_of_is_gone(time, subject, counted, stays):
    one = measured(time, 5.0, subject)
    found = refresh([counted, one], [replace(counted, value=1)], policy=Policy(judge_time=False))
    assert (one in found.stored.measurements) is stays


@pytest.mark.parametrize(("time", "runs"), [(False, 5), (True, 1)])
def test_times_that_stay_are_of_as_many_processes_as_before(time, runs):
    old, new = baseline(CALLS, STEP, runs=5), baseline(replace(CALLS, value=1), STEP, runs=1)
    assert refreshed(old, new, policy=Policy(judge_time=time)).stored.runs == runs


def test_with_time_off_measured_times_are_not_written_either():
    new = [replace(CALLS, value=1), replace(STEP, value=900.0)]
    assert STEP in refresh([CALLS, STEP], new, policy=Policy(judge_time=False)).stored.measurements


@pytest.mark.parametrize(("where", "written"), [(HERE, True), (ELSEWHERE, False)])
def test_with_time_off_no_time_of_another_machine_joins_those_that_stay(where, written):
    one, two = (measured("operator_time", 5.0, name) for name in ("MatMul", "Add"))
    new = [CALLS, replace(CALLS, subject="Add"), replace(one, value=50.0), two]
    found = refresh([CALLS, one, STEP], new, policy=Policy(judge_time=False), environment=where, reason=WHY)
    assert (two in found.stored.measurements) is written
    assert one in found.stored.measurements


def test_times_kept_from_one_machine_are_never_judged_on_another():
    # An exact change is refreshed elsewhere with time off; the times that are kept were measured here.
    found = refresh([CALLS, STEP], [replace(CALLS, value=1)], policy=Policy(judge_time=False), environment=ELSEWHERE)
    assert found.state is Refresh.UPDATED
    slow = replace(STEP, value=1000.0)
    comparisons = compare([slow], found.stored, environment=ELSEWHERE, policy=Policy())
    assert {c.state for c in comparisons if c.metric == "step_time"} == {State.NOT_COMPARABLE}


# -- a refresh and the rule ------------------------------------------------------------------------------------------


@given(
    tolerance=st.one_of(st.none(), st.builds(Tolerance, relative=st.floats(0, 5), absolute=st.floats(0, 1e6))),
    before=st.floats(0.1, 1e6),
    after=st.floats(0.1, 1e6),
)
def test_a_refresh_never_changes_a_tolerance(tolerance, before, after):
    policy = rule("step_time", tolerance)
    stored = refresh([replace(STEP, value=before)], [replace(STEP, value=after)], policy=policy, reason=WHY).stored
    text = str(stored.as_dict()).replace(WHY, "")
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
        found = refreshed(stored, new, policy=rule("step_time", Tolerance(relative=1.0)))
        stored = found.stored
        assert (found.state is Refresh.UPDATED) == (stored.measurements[0].value != before)
        assert (found.state is not Refresh.KEPT) == bool(found.changes)
        assert (found.state is Refresh.UPDATED) <= (value < before)
        assert (found.state is Refresh.REFUSED) <= (value > before)


@given(old=st.integers(0, 50), new=st.integers(0, 50))
def test_a_refreshed_baseline_passes_and_is_kept_next_time(old, new):
    now = [replace(CALLS, value=new), replace(STEP, value=float(new + 1))]
    stored = refresh([replace(CALLS, value=old), replace(STEP, value=float(old + 1))], now, reason=WHY).stored
    assert all(
        c.state is State.SAME
        for c in compare(now, stored, environment=HERE, policy=Policy())
        if c.metric != "step_time"
    )
    assert not [c for c in compare(now, stored, environment=HERE, policy=Policy()) if c.finding]
    assert refreshed(stored, baseline(*now), policy=Policy()).state is Refresh.KEPT


# -- refused ---------------------------------------------------------------------------------------------------------


def refused(found: Refreshed, old: list[Measurement]) -> tuple[Code, str]:
    """Return code and message of a refusal that left the old baseline alone."""
    assert found.state is Refresh.REFUSED
    assert found.refused is not None
    assert found.stored == baseline(*old, commit="old")
    return found.refused.code, found.refused.message


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ([replace(CALLS, value=3), MEMORY, STEP], "operator_calls[MatMul] 2 → 3 calls/step"),
        ([CALLS, replace(MEMORY, value=1002), STEP], "peak_memory_bytes[cpu] 1000 → 1002 bytes"),
        (
            [replace(CALLS, value=3), replace(MEMORY, value=2000), STEP],
            "operator_calls[MatMul] 2 → 3 calls/step and 1 more",
        ),
        ([replace(CALLS, value=1), replace(MEMORY, value=2000), STEP], "peak_memory_bytes[cpu] 1000 → 2000 bytes"),
    ],
)
@pytest.mark.parametrize("blank", [None, "", "  ", "..."])
def test_a_relaxation_without_a_reason_is_refused_and_accepted_with_one(new, named, blank):
    old = [CALLS, MEMORY, STEP]
    found = refresh(old, new, reason=blank)
    assert refused(found, old) == (Code.B110, f'{named}; if this is intended, say why: --perfguard-reason "..."')
    accepted = refresh(old, new, reason=WHY)
    assert (accepted.state, accepted.refused, accepted.changes) == (Refresh.UPDATED, None, found.changes)
    assert accepted.stored == baseline(*new, commit="new", reason=WHY)


BUSY_STEP = [
    measured("operator_calls", 1, "aten::mm"),
    measured("operator_calls", 1, "aten::add"),
    measured("operator_share", 0.8, "aten::mm"),
    measured("operator_share", 0.2, "aten::add"),
]
IDLE_STEP = [measured("operator_calls", 1, "aten::add"), measured("operator_share", 1.0, "aten::add")]


def test_a_step_that_hardly_does_anything_any_more_needs_a_reason():
    code, message = refused(refresh(BUSY_STEP, IDLE_STEP), BUSY_STEP)
    assert code is Code.B110
    assert message.startswith(
        "the step lost 80 % of the baseline's operator time (aten::mm 1 → 0), and what was added is 0 % of what is left"
    )
    assert message.endswith('does it still do its work? If this is intended, say why: --perfguard-reason "..."')
    assert refresh(BUSY_STEP, IDLE_STEP, reason=WHY).state is Refresh.UPDATED


@pytest.mark.parametrize("changes", [{}, {"environment": ELSEWHERE}])
@pytest.mark.parametrize("policy", [Policy(), Policy(judge_time=False)])
def test_shares_of_operators_are_those_of_one_recording(policy, changes):
    replaced = [
        measured("operator_calls", 1, "aten::mm"),
        measured("operator_calls", 0.5, "aten::sum"),
        measured("operator_share", 0.79, "aten::mm"),
        measured("operator_share", 0.21, "aten::sum"),
    ]
    found = values(refresh(BUSY_STEP, replaced, policy=policy, **changes).stored)
    assert {name: share for name, share in found.items() if name.startswith("operator_share")} == {
        "operator_share[aten::mm]": 0.79,
        "operator_share[aten::sum]": 0.21,
    }


@pytest.mark.parametrize("name", ["operator_calls", "step_time", "peak_memory_bytes"])
def test_what_the_user_switched_off_needs_no_reason(name):
    new = [replace(CALLS, value=3), replace(MEMORY, value=2000), replace(STEP, value=900.0)]
    old = [CALLS, MEMORY, STEP]
    found = refresh(old, new, policy=rule(name, None))
    assert found.refused is not None
    assert not [change for change in found.changes if change.key[0] == name]


def test_on_a_backend_that_only_shows_a_metric_it_needs_no_reason():
    old, new = (
        baseline(measured("step_cpu_time", value), fingerprint=replace(FINGERPRINT, backend="mindspore"))
        for value in (100.0, 900.0)
    )
    assert refreshed(old, new, policy=Policy()).state is Refresh.KEPT


def test_the_reason_that_accepted_what_is_stored_stays_until_there_is_another():
    accepted = refresh([CALLS], [replace(CALLS, value=4)], reason=WHY).stored
    improved = refreshed(accepted, baseline(replace(CALLS, value=3), commit="newer"), policy=Policy()).stored
    assert (improved.reason, improved.commit, values(improved)) == (WHY, "newer", {"operator_calls[MatMul]": 3})
    other = refreshed(improved, baseline(CALLS, reason="fused"), policy=Policy()).stored
    assert other.reason == "fused"


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ([CALLS, STEP], "peak_memory_bytes of the stored baseline is missing"),
        ([CALLS, MEMORY], "step_time of the stored baseline is missing"),
        ([CALLS], "peak_memory_bytes and 1 more of the stored baseline is missing"),
        # What is missing is said before what is relaxed.
        ([replace(CALLS, value=3), STEP], "peak_memory_bytes of the stored baseline is missing"),
    ],
)
def test_a_metric_that_is_missing_is_refused_and_gone_with_a_reason(new, named):
    old = [CALLS, MEMORY, STEP]
    code, message = refused(refresh(old, new), old)
    assert (code, message) == (
        Code.B111,
        f'{named}; record it again, or say why it is gone: --perfguard-reason "..."',
    )
    assert names_the_next_command(message)
    accepted = refresh(old, new, reason=WHY)
    assert (accepted.state, accepted.stored.measurements) == (Refresh.UPDATED, tuple(new))


def test_a_metric_that_is_missing_on_one_device_only_is_gone():
    old = [MEMORY, replace(MEMORY, subject="npu")]
    assert told(refresh(old, [MEMORY])) == ["changed: peak_memory_bytes[npu] is gone: 1000 bytes"]


@pytest.mark.parametrize("policy", [Policy(judge_time=False), rule("step_time", None)])
def test_a_time_that_nobody_judges_may_be_missing(policy):
    found = refresh([CALLS, STEP], [CALLS], policy=policy)
    assert found.state is Refresh.KEPT
    # Nor does a rule that gates it make a time that is switched off be missing.
    gated = rule("step_time", Tolerance(relative=0.1))
    assert refresh([CALLS, STEP], [CALLS], policy=replace(gated, judge_time=False)).state is Refresh.KEPT


def test_what_is_only_ranked_is_never_missing():
    assert refresh([CALLS, STEP, measured("profiler_overhead", 1.5)], [CALLS, STEP]).state is Refresh.KEPT


@pytest.mark.parametrize(("value", "said"), [(0.0, "0"), (-1.0, "-1"), (math.nan, "nan"), (math.inf, "inf")])
@pytest.mark.parametrize("old", [None, [CALLS, STEP]])
@pytest.mark.parametrize("reason", [None, WHY])
def test_a_time_of_nothing_is_refused_always(old, value, said, reason):
    found = refresh(old, [CALLS, replace(STEP, value=value)], reason=reason)
    assert found.state is Refresh.REFUSED
    assert found.stored == (None if old is None else baseline(*old, commit="old"))
    assert found.refused.code is Code.B111
    assert found.refused.message == f"step_time is {said} us, which is no measurement; record it again"


@pytest.mark.parametrize(
    ("one", "policy"),
    [
        (measured("memory_growth_bytes", 0, "cpu"), Policy()),
        (measured("summary_scalar", 0.0, "loss@1"), Policy()),
        (measured("operator_time", 0.0, "MatMul"), Policy()),
        (replace(STEP, value=0.0), Policy(judge_time=False)),
    ],
)
def test_other_numbers_may_be_0(one, policy):
    assert refresh(None, [CALLS, one], policy=policy).state is Refresh.CREATED


def test_a_loss_that_is_no_number_is_refused():
    assert refresh(None, [measured("summary_scalar", math.nan, "loss@1")]).refused.message.startswith(
        "summary_scalar[loss@1] is nan value"
    )


# -- runs ------------------------------------------------------------------------------------------------------------


def runs(*samples: float) -> Measurement:
    return measured("cost_by_run", min(samples), samples=samples)


@pytest.fixture
def cost(monkeypatch):
    """A metric with one sample a process."""
    metric = Metric(
        name="cost_by_run",
        unit="ratio",
        kind=Kind.TIMED,
        better=Better.LOWER,
        relative=0.5,
        warn_relative=0.1,
        by_run=True,
        meaning="What a step costs.",
    )
    monkeypatch.setitem(METRICS, "cost_by_run", metric)
    return metric


FIVE = (1.0, 1.1, 1.2, 1.3, 1.4)


@pytest.mark.parametrize("value", [2.0, 0.5])
@pytest.mark.parametrize("reason", [None, WHY])
@pytest.mark.parametrize("changes", [{}, {"environment": ELSEWHERE}, {"fingerprint": replace(FINGERPRINT, threads=2)}])
def test_fewer_runs_never_replace_more(cost, value, reason, changes):
    old = [CALLS, runs(*FIVE)]
    found = refresh(old, [CALLS, runs(value)], reason=reason, **changes)
    assert refused(found, old) == (
        Code.B111,
        "cost_by_run has 1 run, the stored baseline 5; run: perfguard baseline refresh --runs 5",
    )


def test_where_fewer_runs_say_the_same_the_many_are_kept(cost):
    found = refresh([CALLS, runs(*FIVE)], [replace(CALLS, value=1), runs(1.05, 1.2)])
    assert found.state is Refresh.UPDATED
    assert runs(*FIVE) in found.stored.measurements
    assert told(found) == ["changed: operator_calls[MatMul] 2 → 1 calls/step"]


def test_more_runs_replace_fewer_that_say_the_same(cost):
    found = refresh([CALLS, runs(1.0)], [CALLS, runs(1.05, 1.06, 1.07, 1.08, 1.09)])
    assert (found.state, told(found)) == (
        Refresh.UPDATED,
        ["changed: cost_by_run 1 → 1.05 ratio, 5 runs instead of 1"],
    )
    assert len(found.stored.measurements[0].samples) == 5


@pytest.mark.parametrize(
    ("value", "reason", "change"),
    [
        (0.5, None, "better: cost_by_run 1 → 0.5 ratio, 2 runs instead of 1"),
        (2.0, WHY, "worse: cost_by_run 1 → 2 ratio, 2 runs instead of 1"),
    ],
)
def test_more_runs_that_say_otherwise_are_told_by_their_direction(cost, value, reason, change):
    assert told(refresh([runs(1.0)], [runs(value, value + 1)], reason=reason)) == [change]


def test_as_many_runs_are_compared_as_ever(cost):
    assert refresh([runs(1.0, 1.2)], [runs(1.05, 1.2)]).state is Refresh.KEPT
    assert refresh([runs(1.0, 1.2)], [runs(1.2, 1.3)]).refused.code is Code.B110


def test_runs_of_what_is_only_ranked_are_not_looked_at(cost):
    assert refresh([CALLS, runs(*FIVE)], [CALLS, runs(9.0)], policy=rule("cost_by_run", None)).state is Refresh.KEPT


# -- the ratchet -----------------------------------------------------------------------------------------------------


ADD = measured("operator_calls", 1, "Add")
ADD_TIME = measured("operator_time", 5.0, "Add")


@pytest.mark.parametrize(
    ("operators", "environment", "policy", "stored"),
    [
        pytest.param([ADD, ADD_TIME], HERE, Policy(), [ADD, ADD_TIME], id="changed operators come along"),
        pytest.param([replace(CALLS, value=9)], HERE, Policy(), [CALLS], id="worse operators do not"),
        pytest.param([ADD, ADD_TIME], ELSEWHERE, Policy(), [CALLS], id="nor those of another machine"),
        pytest.param(
            [ADD, replace(CALLS, value=1)],
            HERE,
            rule("operator_calls[MatMul]", Tolerance()),
            [ADD, CALLS],
            id="nor those of which the user has a rule",
        ),
    ],
)
def test_the_ratchet_writes_what_is_better_and_the_operators_it_was_measured_with(
    operators, environment, policy, stored
):
    less = replace(MEMORY, value=900)
    new = [*operators, less, replace(STEP, value=120.0), measured("steps", 3)]
    found = ratchet([CALLS, MEMORY, STEP], new, policy=policy, environment=environment)
    assert (found.state, told(found)) == (Refresh.UPDATED, ["better: peak_memory_bytes[cpu] 1000 → 900 bytes"])
    assert found.stored == baseline(*stored, less, STEP, commit="new")


@pytest.mark.parametrize(
    ("now", "policy"),
    [
        pytest.param(replace(STEP, value=60.0), Policy(), id="beyond noise and within the tolerance"),
        pytest.param(replace(STEP, value=300.0), Policy(), id="worse"),
        pytest.param(replace(STEP, value=40.0), Policy(judge_time=False), id="time off"),
        pytest.param(replace(STEP, value=40.0), rule("step_time", None), id="switched off"),
    ],
)
def test_the_ratchet_leaves_what_is_no_improvement_beyond_the_tolerance(now, policy):
    found = ratchet([CALLS, STEP], [CALLS, now], policy=policy)
    assert found == Refreshed(stored=baseline(CALLS, STEP, commit="old"), state=Refresh.KEPT)


def test_the_ratchet_takes_a_time_beyond_the_tolerance_with_its_samples():
    fast = measured("step_time", 49.0, samples=(49.0, 60.0))
    assert ratchet([STEP], [fast]).stored == baseline(fast, commit="new")
    half = rule("step_time", Tolerance(relative=0.5))
    assert ratchet([STEP], [replace(STEP, value=60.0)], policy=half).state is Refresh.UPDATED


@pytest.mark.parametrize(
    ("changes", "state"),
    [({"environment": ELSEWHERE}, Refresh.UPDATED), ({"fingerprint": replace(FINGERPRINT, threads=2)}, Refresh.KEPT)],
)
def test_of_another_machine_the_ratchet_takes_what_is_exact_and_of_another_fingerprint_nothing(changes, state):
    found = ratchet([MEMORY, STEP], [replace(MEMORY, value=1), replace(STEP, value=1.0)], **changes)
    assert found.state is state
    # The machine stays that of the times.
    assert found.stored.environment == HERE
    assert STEP in found.stored.measurements


def test_the_ratchet_keeps_the_reason_unless_there_is_another():
    old = baseline(MEMORY, reason=WHY)
    assert ratcheted(old, baseline(replace(MEMORY, value=1)), policy=Policy()).stored.reason == WHY
    fused = baseline(replace(MEMORY, value=1), reason="fused")
    assert ratcheted(old, fused, policy=Policy()).stored.reason == "fused"


def test_the_ratchet_refuses_a_time_of_nothing():
    old = [CALLS, STEP]
    assert refused(ratchet(old, [CALLS, replace(STEP, value=0.0)]), old)[0] is Code.B111


def test_the_ratchet_leaves_more_runs_than_it_has(cost):
    assert ratchet([runs(*FIVE)], [runs(0.1)]).state is Refresh.KEPT
    assert ratchet([runs(1.0)], [runs(0.1, 0.2)]).state is Refresh.UPDATED


# -- for every baseline ----------------------------------------------------------------------------------------------

NUMBERS = {
    "operator_calls": st.integers(0, 6),
    "steps": st.integers(1, 4),
    "peak_memory_bytes": st.integers(0, 300),
    "memory_growth_bytes": st.integers(-100, 100),
    "graph_compilations": st.integers(0, 4),
    "step_time": st.floats(0.5, 500),
    "summary_scalar": st.floats(-2, 2),
    "operator_time": st.floats(0.5, 500),
    "device_utilisation": st.floats(0.01, 1),
    "flops": st.floats(1, 100),
    "metric_of_yesterday": st.integers(0, 3),
}
#: Which way each gets worse: device_utilisation when it falls.
WORSE = {
    "steps": -1,
    "peak_memory_bytes": 1,
    "memory_growth_bytes": 1,
    "graph_compilations": 1,
    "step_time": 1,
    "operator_time": 1,
    "device_utilisation": -1,
}
TOLERANCES = st.one_of(st.none(), st.builds(Tolerance, relative=st.floats(0, 2), absolute=st.sampled_from([0.0, 5.0])))


@st.composite
def measurements(draw) -> list[Measurement]:
    keys = draw(st.lists(st.tuples(st.sampled_from(sorted(NUMBERS)), st.sampled_from("ab")), unique=True, max_size=12))
    return [measured(name, draw(NUMBERS[name]), subject) for name, subject in keys]


@st.composite
def policies(draw) -> Policy:
    named = draw(
        st.dictionaries(st.sampled_from(sorted(NUMBERS.keys() - {"metric_of_yesterday"})), TOLERANCES, min_size=3)
    )
    rules = tuple(Rule(pattern=name, tolerance=tolerance) for name, tolerance in named.items())
    return Policy(settings=rules, judge_time=draw(st.booleans()))


ENVIRONMENTS = st.sampled_from([HERE, ELSEWHERE])


def worse(stored: Baseline, before: Baseline, policy: Policy, *, failing: bool = False) -> list[str]:
    """Return the gated numbers (or those that can fail) that are on the bad side of what they were."""
    was = {one.key: one for one in before.measurements}
    found = []
    for one in stored.measurements:
        limit = policy.tolerance(METRICS[one.metric], one.subject) if one.metric in WORSE else None
        if one.key not in was or limit is None or (failing and limit.relative == math.inf):
            continue
        if WORSE[one.metric] * (one.value - was[one.key].value) > 0:
            found.append(one.label)
    return found


@given(old=measurements(), new=measurements(), policy=policies(), where=ENVIRONMENTS)
def test_a_ratchet_never_stores_anything_worse(old, new, policy, where):
    before = baseline(*old)
    found = ratcheted(before, baseline(*new, environment=where), policy=policy)
    assert worse(found.stored, before, policy) == []
    # But for operators nothing comes, nothing goes, and what moved is told and moved to the better side.
    was = {one.key: one for one in old if not one.metric.startswith("operator_")}
    now = {one.key: one for one in found.stored.measurements if not one.metric.startswith("operator_")}
    assert now.keys() == was.keys()
    told_of = {change.key for change in found.changes if not change.key[0].startswith("operator_")}
    assert {key for key in now if now[key] != was[key]} == told_of
    assert {change.direction for change in found.changes} <= {State.BETTER}
    again = ratcheted(found.stored, baseline(*new, environment=where), policy=policy)
    assert again.state is Refresh.KEPT


@given(old=measurements(), new=measurements(), policy=policies(), where=ENVIRONMENTS)
def test_a_refresh_without_a_reason_never_stores_what_is_worse(old, new, policy, where):
    before = baseline(*old)
    found = refreshed(before, baseline(*new, environment=where), policy=policy)
    # Times of another machine are no times to compare with.
    timed = {name for name in NUMBERS if name in METRICS and METRICS[name].kind is Kind.TIMED}
    loosened = [
        label
        for label in worse(found.stored, before, policy, failing=True)
        if where == HERE or label.split("[")[0] not in timed
    ]
    assert loosened == []
    assert all(change.direction is not State.WORSE for change in found.changes if found.refused is None)


@given(old=measurements(), new=measurements(), policy=policies(), where=ENVIRONMENTS)
def test_a_second_refresh_of_the_same_keeps(old, new, policy, where):
    now = baseline(*new, environment=where, reason=WHY)
    found = refreshed(baseline(*old), now, policy=policy)
    assert found.state in (Refresh.UPDATED, Refresh.KEPT)
    again = refreshed(found.stored, now, policy=policy)
    assert again == Refreshed(stored=found.stored, state=Refresh.KEPT)


@given(old=measurements(), new=measurements(), policy=policies(), where=ENVIRONMENTS)
def test_what_a_refresh_refuses_leaves_the_old_baseline(old, new, policy, where):
    before = baseline(*old)
    found = refreshed(before, baseline(*new, environment=where), policy=policy)
    assert (found.state is Refresh.REFUSED) == (found.refused is not None)
    if found.state is not Refresh.UPDATED:
        assert found.stored == before


def test_the_step_is_told_by_its_one_time():
    five = (1.0,) * 5
    before = [measured("step_cost", 2.0, samples=five), measured("run_wall_time", 1000.0, samples=five)]
    now = [measured("step_cost", 3.0, samples=five), measured("run_wall_time", 1800.0, samples=five)]
    assert told(refresh(before, now, reason="meant")) == ["worse: step 1.20 → 1.80 ms, +50.0 %"]


@pytest.mark.parametrize("ratcheting", [False, True])
@pytest.mark.parametrize(("cost", "load"), [(1.0, 2.0), (2.0, 60.0)])
def test_the_load_that_is_stored_is_that_of_the_cost_that_is_stored(ratcheting, cost, load):
    """A cost of a busy day beside the load of a quiet one would be judged by the wrong machine."""
    five = (2.0,) * 5
    before = [CALLS, measured("step_cost", 2.0, samples=five), measured("run_machine_load", 60.0)]
    # The memory is better, so that there is something to store.
    before.append(measured("host_memory_growth_bytes", 90_000.0, samples=(90_000.0,) * 5))
    now = [CALLS, measured("step_cost", cost, samples=(cost,) * 5), measured("run_machine_load", 2.0)]
    now.append(measured("host_memory_growth_bytes", 0.0, samples=(0.0,) * 5))
    # So would its milliseconds: 20 % less moves the cost, and is within what they would warn of.
    before += [measured(name, 2000.0, samples=(2000.0,) * 5) for name in ("run_cpu_time", "run_wall_time")]
    now += [measured(name, 1000.0 * cost, samples=(1000.0 * cost,) * 5) for name in ("run_cpu_time", "run_wall_time")]
    found = (ratchet if ratcheting else refresh)(before, now)
    stored = values(found.stored)
    assert (found.state, stored["step_cost"], stored["run_machine_load"]) == (Refresh.UPDATED, cost, load)
    assert stored["host_memory_growth_bytes"] == 0.0
    assert {stored["run_cpu_time"], stored["run_wall_time"]} == {1000.0 * cost}


def waiting(cost: float, waits_us: float) -> list[Measurement]:
    """Return the times of a step in five processes: what it costs, what it waits, and both together."""
    times = {"step_cost": cost, "run_cpu_time": 1000 * cost, "run_blocked_time": waits_us}
    times["run_wall_time"] = 1000 * cost + waits_us
    return [measured(name, value, samples=(value,) * 5) for name, value in times.items()]


def test_the_milliseconds_come_along_with_the_waits_as_well():
    found = values(refresh([CALLS, *waiting(4.0, 20_000.0)], [CALLS, *waiting(4.1, 0.0)]).stored)
    assert (found["step_cost"], found["run_blocked_time"], found["run_wall_time"]) == (4.0, 0.0, 4100.0)


@pytest.mark.parametrize("ratcheting", [True, False])
def test_what_a_rule_judges_by_itself_goes_by_itself(ratcheting):
    policy = rule("run_wall_time", Tolerance(relative=0.2))
    do = ratchet if ratcheting else refresh
    better = values(do([CALLS, *waiting(4.0, 20_000.0)], [CALLS, *waiting(4.0, 5_000.0)], policy=policy).stored)
    assert better["run_wall_time"] == 9_000.0
    # Within its tolerance it stays.
    worse = values(do([CALLS, *waiting(4.0, 6_000.0)], [CALLS, *waiting(2.0, 9_500.0)], policy=policy).stored)
    assert (worse["step_cost"], worse["run_wall_time"]) == (2.0, 10_000.0)


def test_kernels_that_ran_in_place_of_each_other_are_told_as_a_set():
    def kernels(**calls: int) -> list[Measurement]:
        return [measured("kernel_calls", count, name) for name, count in calls.items()]

    found = refresh(kernels(cutlass=3, relu=1), kernels(ampere=3, relu=1))
    assert told(found)[-1] == (
        "changed: these kernels ran in place of each other; if a library chooses, write into [tool.perfguard.kernels]: "
        'chosen-1 = ["ampere", "cutlass"]'
    )
    assert not any("in place" in one for one in told(refresh(kernels(cutlass=3), kernels(ampere=4))))
    in_a_set = Policy(kernels={"gemm": ("cutlass", "ampere")})
    assert not any("in place" in one for one in told(refresh(kernels(cutlass=3), kernels(ampere=3), policy=in_a_set)))
