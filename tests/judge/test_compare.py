"""Comparing: what becomes of every measurement, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Severity, worst_first
from perfguard.judge.compare import changes_text, compare
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.quantities import show, sides_text
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.work import COUNTED
from perfguard.measure import METRICS, Kind, Measurement
from perfguard.measure.measurement import Better
from tests.facts import ELSEWHERE, HERE, baseline, measured

TIMED = sorted(name for name, metric in METRICS.items() if metric.kind is Kind.TIMED)
EXACT = sorted(name for name, metric in METRICS.items() if metric.kind is Kind.EXACT and metric.gated)
VALUES = {"operator_set": ["a", "b"], "operator_shapes": {"[2]": 1}}
OTHERS = {"operator_set": ["a", "c"], "operator_shapes": {"[3]": 1}}


def compared(before: list[Measurement], now: list[Measurement], *, environment=HERE, **policy) -> list[Comparison]:
    return list(compare(now, baseline(*before), environment=environment, policy=Policy(**policy)))


def one(metric: str, before, now, *, environment=HERE, **policy) -> Comparison:
    (found,) = compared(
        [] if before is None else [measured(metric, before)],
        [] if now is None else [measured(metric, now)],
        environment=environment,
        **policy,
    )
    return found


def rule(pattern: str, tolerance: Tolerance | None) -> dict:
    return {"settings": (Rule(pattern=pattern, tolerance=tolerance),)}


def told(comparisons: list[Comparison]) -> list[tuple[str, str]]:
    return [(c.finding.code.name, c.label) for c in comparisons if c.finding is not None]


# -- one measurement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "before", "now", "state", "judged", "code", "severity"),
    [
        ("steps", 5, 5, State.SAME, True, None, None),
        ("steps", 5, 4, State.WORSE, True, "R102", Severity.ERROR),
        ("steps", 5, 6, State.BETTER, True, "R106", Severity.WARNING),
        ("operator_calls", 2, 2, State.SAME, True, None, None),
        ("operator_calls", 2, 2.0, State.SAME, True, None, None),
        ("operator_calls", 2, 3, State.WORSE, True, "R102", Severity.ERROR),
        ("operator_calls", 2, 1.8, State.CHANGED, True, None, None),
        ("communication_calls", 2, 3, State.WORSE, True, "R102", Severity.ERROR),
        ("communication_calls", 2, 1, State.BETTER, True, "R106", Severity.WARNING),
        ("graph_compilations", 1, 2, State.WORSE, True, "R102", Severity.ERROR),
        # Of graphs that nobody ran, more operators are more work.
        ("graph_operators", 1, 2, State.WORSE, True, "R102", Severity.ERROR),
        ("graph_operators", 2, 1, State.CHANGED, True, None, None),
        ("graph_passes", ["a"], ["b"], State.CHANGED, True, None, None),
        ("peak_memory_bytes", 1024, 1026, State.WORSE, True, "R102", Severity.ERROR),
        ("peak_memory_bytes", 1024, 1022, State.BETTER, True, "R106", Severity.WARNING),
        ("memory_allocations", 0, 1, State.CHANGED, True, None, None),
        ("memory_allocated_bytes", 10, 5, State.BETTER, True, "R106", Severity.WARNING),
        ("operator_set", ["a"], ["a"], State.SAME, True, None, None),
        ("operator_set", ["a"], ["b"], State.CHANGED, True, None, None),
        ("operator_shapes", {"[2]": 1}, {"[2]": 1}, State.SAME, True, None, None),
        ("operator_shapes", {"[2]": 1}, {"[2]": 2}, State.CHANGED, True, None, None),
        # One process against one process: a time only warns, however long it is.
        ("step_time", 100.0, 200.0, State.SAME, True, None, None),
        ("step_time", 100.0, 201.0, State.SAME, True, "R105", Severity.WARNING),
        ("step_time", 100.0, 1e9, State.SAME, True, "R105", Severity.WARNING),
        ("step_time", 100.0, 50.0, State.SAME, True, None, None),
        ("step_time", 100.0, 49.0, State.BETTER, True, "R106", Severity.WARNING),
        ("step_cpu_time", 100.0, 201.0, State.SAME, True, "R105", Severity.WARNING),
        ("run_wall_p90", 100.0, 201.0, State.SAME, True, "R105", Severity.WARNING),
        # The larger of 1 ms and as much again.
        ("run_blocked_time", 0.0, 1001.0, State.WORSE, True, "R105", Severity.WARNING),
        ("run_blocked_time", 0.0, 1000.0, State.SAME, True, None, None),
        ("run_blocked_time", 20_000.0, 40_001.0, State.WORSE, True, "R105", Severity.WARNING),
        ("run_blocked_time", 20_000.0, 40_000.0, State.SAME, True, None, None),
        ("run_blocked_time", 20_000.0, 9_000.0, State.BETTER, True, "R106", Severity.WARNING),
        # The larger of 8 KiB a step and a quarter more.
        ("host_memory_growth_bytes", 0.0, 8193.0, State.WORSE, True, "R105", Severity.WARNING),
        ("host_memory_growth_bytes", 0.0, 8192.0, State.SAME, True, None, None),
        ("host_memory_growth_bytes", 1 << 20, 1_310_721.0, State.WORSE, True, "R105", Severity.WARNING),
        ("host_memory_growth_bytes", 1 << 20, 1_310_720.0, State.SAME, True, None, None),
        ("run_cpu_time", 100.0, 900.0, State.WORSE, False, None, None),
        # Without samples it is one run, and five make a baseline.
        ("step_cost", 1.0, 1.101, State.WORSE, True, "R105", Severity.WARNING),
        ("step_cost", 1.0, 1.0999, State.SAME, True, None, None),
        ("step_cost", 1.0, 0.9, State.BETTER, True, "R106", Severity.WARNING),
        ("step_cost", 1.0, None, State.NOT_COMPARABLE, False, "B108", Severity.ERROR),
        ("run_cpu_time", 1.0, None, State.WORSE, False, None, None),
        ("step_cost", None, 1.0, State.NOT_COMPARABLE, False, None, None),
        ("operator_time", 100.0, 1000.0, State.WORSE, False, None, None),
        ("operator_time", 100.0, 1.0, State.BETTER, False, None, None),
        ("operator_share", 0.1, 0.1, State.SAME, False, None, None),
        ("profiler_overhead", 1.0, 9.0, State.WORSE, False, None, None),
        ("steps", 5, None, State.WORSE, True, "R103", Severity.ERROR),
        ("step_time", 5.0, None, State.WORSE, True, "R103", Severity.ERROR),
        ("operator_time", 5.0, None, State.WORSE, False, None, None),
        # A whole metric the baseline never had is news of perfguard, not of the model.
        ("steps", None, 5, State.NOT_COMPARABLE, True, "R104", Severity.WARNING),
        ("operator_time", None, 5.0, State.NOT_COMPARABLE, False, None, None),
        ("metric_of_tomorrow", 5, 6, State.NOT_COMPARABLE, False, None, None),
        ("metric_of_tomorrow", 5, None, State.NOT_COMPARABLE, False, None, None),
    ],
)
def test_what_becomes_of_a_measurement(metric, before, now, state, judged, code, severity):
    found = one(metric, before, now)
    assert (found.state, found.judged, found.reference, found.current) == (state, judged, before, now)
    assert (found.finding and found.finding.code.name) == code
    assert (found.finding and found.finding.severity) == severity


@pytest.mark.parametrize("prefix", ["", "rank1:"])
@pytest.mark.parametrize(
    ("metric", "before", "now", "state"),
    [
        # A class got another name, and its graph with it.
        ("graph_compilations", {"Net_construct": 1}, {"LeNet_construct": 1}, State.CHANGED),
        ("graph_compilations", {"Net_construct": 1}, {"LeNet_construct": 2}, State.WORSE),
        ("communication_calls", {"allReduce": 4}, {"reduceScatter": 2, "allGather": 2}, State.CHANGED),
        ("communication_calls", {"allReduce": 4}, {"allReduce": 4, "broadcast": 1}, State.WORSE),
    ],
)
def test_a_new_subject_is_worse_where_all_come_to_more(prefix, metric, before, now, state):
    sides = ([measured(metric, value, prefix + name) for name, value in side.items()] for side in (before, now))
    assert {one.state for one in compared(*sides) if one.is_new} == {state}


@pytest.mark.parametrize(
    ("metric", "before", "now", "state", "code"),
    [
        # Less would be better of it: one more is worse, one fewer a change.
        ("peak_memory_bytes", ["cpu"], ["cpu", "cuda:0"], State.WORSE, "R104"),
        ("peak_memory_bytes", ["cpu", "cuda:0"], ["cpu"], State.CHANGED, None),
        ("graph_compilations", ["f"], ["f", "g"], State.WORSE, "R104"),
        ("graph_compilations", ["f", "g"], ["f"], State.CHANGED, None),
        ("graph_operators", ["Add"], ["Add", "Mul"], State.WORSE, "R104"),
        ("summary_scalar", ["loss@1", "loss@2"], ["loss@1"], State.WORSE, "R103"),
    ],
)
def test_what_becomes_of_a_subject_that_only_one_side_has(metric, before, now, state, code):
    sides = ([measured(metric, 1, subject) for subject in subjects] for subjects in (before, now))
    (found,) = (one for one in compared(*sides) if one.is_new or one.is_gone)
    assert (found.state, found.judged) == (state, True)
    assert (found.finding and found.finding.code.name) == code


@pytest.mark.parametrize(("before", "now"), [(3, 4), (3, None), (None, 3), (3, 0)])
def test_what_is_only_shown_fails_nothing_and_warns_of_nothing(before, now):
    for name in (name for name, metric in METRICS.items() if not metric.gated):
        found = one(name, before, now)
        assert (found.judged, found.finding) == (False, None), name


def test_every_metric_is_the_same_as_itself():
    for name in METRICS:
        value = VALUES.get(name, 3)
        found = one(name, value, value)
        assert (found.state, found.finding) == (State.SAME, None), name


@pytest.mark.parametrize("name", EXACT)
def test_every_exact_metric_differs_at_the_least_difference(name):
    least = 1_000_001 + 1_000_000 * METRICS[name].relative
    values = [VALUES.get(name, 1_000_000), OTHERS.get(name, int(least))]
    if METRICS[name].better is Better.HIGHER:
        values.reverse()
    found = one(name, *values, changed_fails=True)
    is_change = METRICS[name].better is Better.EQUAL
    assert found.state is (State.CHANGED if is_change else State.WORSE)
    assert found.finding is not None
    assert found.finding.code.name == "R102"
    assert found.finding.severity is Severity.ERROR


# -- what cannot be compared -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize(("environment", "judge_time"), [(ELSEWHERE, True), (HERE, False), (ELSEWHERE, False)])
def test_times_are_not_comparable_elsewhere_or_when_off(name, environment, judge_time):
    for before, now in ((1.0, 99.0), (1.0, 1.0), (1.0, None), (None, 1.0)):
        for policy in ({}, rule(name, Tolerance())):
            found = one(name, before, now, environment=environment, judge_time=judge_time, **policy)
            assert (found.state, found.judged, found.finding) == (State.NOT_COMPARABLE, False, None), (before, now)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("environment", "judge_time"), [(ELSEWHERE, True), (HERE, False), (ELSEWHERE, False)])
def test_exact_metrics_are_judged_everywhere(name, environment, judge_time):
    other = 4 if METRICS[name].better is Better.HIGHER else 6
    found = one(name, VALUES.get(name, 5), OTHERS.get(name, other), environment=environment, judge_time=judge_time)
    # One call more of the only operator is a fifth more work.
    is_change = METRICS[name].only_changes and name not in COUNTED
    assert (found.state, found.judged) == (State.CHANGED if is_change else State.WORSE, True)


@pytest.mark.parametrize("field", ["cpu_model", "cpu_count", "device_name"])
def test_another_processor_is_another_machine(field):
    other = replace(HERE, **{field: getattr(ELSEWHERE, field)})
    assert one("step_time", 1.0, 99.0, environment=other).state is State.NOT_COMPARABLE


@pytest.mark.parametrize("changes", [{"python": "3.12.1"}, {"packages": {"torch": "3.0"}}, {"platform": "other"}])
def test_another_release_is_the_same_machine(changes):
    assert one("step_cost", 1.0, 99.0, environment=replace(HERE, **changes)).state is State.WORSE


# -- what the user set -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "tolerance", "before", "now", "state", "code"),
    [
        ("operator_calls", Tolerance(relative=0.5), 2, 3, State.SAME, None),
        ("operator_calls", Tolerance(relative=0.5), 2, 4, State.WORSE, "R101"),
        ("operator_calls", Tolerance(absolute=1), 2, 1, State.SAME, None),
        ("operator_calls", Tolerance(absolute=1), 2, 0, State.WORSE, "R101"),
        ("peak_memory_bytes", Tolerance(absolute=512), 1024, 1536, State.SAME, None),
        ("peak_memory_bytes", Tolerance(absolute=512), 1024, 1537, State.WORSE, "R101"),
        ("peak_memory_bytes", Tolerance(absolute=512), 1024, 511, State.BETTER, "R106"),
        ("operator_time", Tolerance(relative=0.1), 100.0, 111.0, State.WORSE, "R101"),
        ("operator_time", Tolerance(relative=0.5, warn_relative=0.1), 100.0, 111.0, State.SAME, "R105"),
        ("step_time", Tolerance(relative=9.0), 100.0, 900.0, State.SAME, None),
        ("step_time", Tolerance(), 100.0, 100.5, State.WORSE, "R102"),
    ],
)
def test_a_tolerance_of_the_user_holds(metric, tolerance, before, now, state, code):
    found = one(metric, before, now, **rule(metric, tolerance))
    assert (found.state, found.judged) == (state, True)
    assert (found.finding and found.finding.code.name) == code


@pytest.mark.parametrize("sides", ["both", "gone", "new"])
def test_off_is_shown_and_never_judged(sides):
    for name in METRICS:
        before = None if sides == "new" else VALUES.get(name, 5)
        worse = 0.5 if METRICS[name].better is Better.HIGHER else 50_000
        now = None if sides == "gone" else OTHERS.get(name, worse)
        found = one(name, before, now, **rule(name, None))
        assert (found.judged, found.finding) == (False, None), name
        assert (found.is_gone, found.is_new) == (sides == "gone", sides == "new"), name
        if sides == "both":
            assert found.state is (State.CHANGED if METRICS[name].only_changes else State.WORSE), name


# -- an operator is told once ----------------------------------------------------------------------------------------


def census(**calls: int) -> list[Measurement]:
    return [
        *(measured("operator_calls", count, name) for name, count in calls.items()),
        *(measured("operator_shapes", {"[2]": count}, name) for name, count in calls.items()),
        *(measured("operator_time", 9.0, name) for name in calls),
        measured("operator_set", sorted(calls)),
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"Add": 1}, {"Add": 1}, []),
        ({"Add": 1}, {"Add": 1, "Mul": 2}, [("R104", "operator_calls[Mul]")]),
        ({"Add": 1, "Mul": 2}, {"Add": 1}, [("R103", "operator_calls[Mul]")]),
        ({"Add": 1}, {"Mul": 1}, [("R103", "operator_calls[Add]"), ("R104", "operator_calls[Mul]")]),
        ({"Add": 1}, {"Add": 2}, [("R102", "operator_calls[Add]"), ("R102", "operator_shapes[Add]")]),
    ],
)
def test_as_a_snapshot_a_new_or_gone_operator_is_told_once(before, now, expected):
    assert told(compared(census(**before), census(**now), changed_fails=True)) == expected


def test_what_is_told_once_is_counted_everywhere():
    found = compared(census(Add=1), census(Add=1, Mul=2))
    assert {c.label: c.state for c in found if c.judged and c.state is not State.SAME} == {
        "operator_calls[Mul]": State.WORSE,
        "operator_shapes[Mul]": State.CHANGED,
        "operator_set": State.CHANGED,
    }


def test_the_set_speaks_where_the_calls_are_off():
    found = compared(census(Add=1), census(Add=1, Mul=2), changed_fails=True, **rule("operator_calls", None))
    assert told(found) == [("R102", "operator_set"), ("R104", "operator_shapes[Mul]")]


def test_the_set_speaks_of_what_the_calls_do_not_show():
    before = [measured("operator_set", ["Add", "Mul"]), measured("operator_calls", 1, "Add")]
    now = [measured("operator_set", ["Add"]), measured("operator_calls", 2, "Add")]
    assert told(compared(before, now, changed_fails=True)) == [
        ("R102", "operator_calls[Add]"),
        ("R102", "operator_set"),
    ]


def test_ranks_are_told_apart():
    before = [measured("operator_set", ["Add"], f"rank{rank}:") for rank in (0, 1)]
    before += [measured("operator_calls", 1, f"rank{rank}:Add") for rank in (0, 1)]
    now = [
        measured("operator_set", ["Add"], "rank0:"),
        measured("operator_set", ["Add", "Mul"], "rank1:"),
        measured("operator_calls", 1, "rank0:Add"),
        measured("operator_calls", 1, "rank1:Add"),
        measured("operator_calls", 1, "rank1:Mul"),
    ]
    assert told(compared(before, now)) == [("R104", "operator_calls[rank1:Mul]")]
    # The other rank's operator says nothing of this rank's set.
    now[0] = measured("operator_set", ["Add", "Mul"], "rank0:")
    assert ("R102", "operator_set[rank0:]") in told(compared(before, now, changed_fails=True))


# -- worse, better, changed ------------------------------------------------------------------------------------------


def step_of(cost: float | None, **shares: float) -> list[Measurement]:
    """A step with one call of each operator, their shares of its time, and the judged cost of the step."""
    return [
        *(measured("operator_calls", 1, name) for name in shares),
        *(measured("operator_share", share, name) for name, share in shares.items()),
        *([] if cost is None else [measured("step_cost", cost, samples=(cost,) * 5)]),
    ]


def one_more(name: str, **shares: float) -> list[Measurement]:
    return [*step_of(None, **shares), measured("operator_calls", 1, name)]


MATH = {"mm": 0.6, "softmax": 0.2, "mul": 0.2}
FUSED = {"mm": 0.6, "fused": 0.4}


@pytest.mark.parametrize(
    ("before", "now", "worse", "changed"),
    [
        pytest.param(step_of(None, mm=1.0), step_of(None, mm=0.94, add=0.06), {"add"}, set(), id="added work"),
        pytest.param(
            step_of(None, mm=0.96, t=0.04), one_more("aten::view", mm=0.96, t=0.04), set(), {"aten::view"}, id="views"
        ),
        pytest.param(
            step_of(None, a=0.98, t=0.02),
            [*one_more("aten::view", a=0.98, t=0.02), measured("operator_calls", 1, "add")],
            {"add"},
            {"aten::view"},
            id="cause and views",
        ),
        pytest.param(
            step_of(10, mm=1.0), step_of(10.5, mm=0.94, add=0.06), {"add"}, set(), id="added, within the noise"
        ),
        pytest.param(
            step_of(10, mm=1.0), step_of(8, mm=0.5, add=0.5), {"add"}, set(), id="added, and the step is faster"
        ),
        pytest.param(
            step_of(10, **MATH), step_of(8, **FUSED), set(), {"fused", "softmax", "mul"}, id="fused and faster"
        ),
        pytest.param(
            step_of(10, **MATH), step_of(10.4, **FUSED), set(), {"fused", "softmax", "mul"}, id="fused, the same"
        ),
        pytest.param(
            step_of(None, **MATH), step_of(None, **FUSED), set(), {"fused", "softmax", "mul"}, id="fused, untimed"
        ),
        pytest.param(
            step_of(None, **MATH),
            [*step_of(None, mm=0.4, slow=0.6), measured("operator_calls", 3, "slow")],
            {"slow"},
            {"softmax", "mul"},
            id="replaced by more",
        ),
        pytest.param(step_of(None, a=1.0), step_of(None, b=1.0), set(), {"a", "b"}, id="renamed"),
        pytest.param(step_of(None, a=0.5, b=0.5), step_of(None, a=1.0), set(), {"b"}, id="gone"),
        pytest.param(
            [measured("operator_calls", 100, "a")],
            [measured("operator_calls", 100, "a"), measured("operator_calls", 6, "b")],
            {"b"},
            set(),
            id="without times calls stand for them",
        ),
    ],
)
def test_operators_are_worse_by_what_they_weigh(before, now, worse, changed):
    found = [c for c in compared(before, now) if c.metric == "operator_calls"]
    assert {c.subject for c in found if c.state is State.WORSE} == worse
    assert {c.subject for c in found if c.state is State.CHANGED} == changed
    errors = {c.subject for c in found if c.finding is not None and c.finding.severity is Severity.ERROR}
    assert errors == worse


def test_added_work_of_a_rank_is_worse_in_the_sum_of_all_ranks():
    def ranks(**calls: int) -> list[Measurement]:
        return [
            measured("operator_calls", count, f"rank{rank}:{name}") for rank in (0, 1) for name, count in calls.items()
        ]

    total = [measured("operator_calls", 2, "ranks:mm")]
    found = compared([*ranks(mm=1), *total], [*ranks(mm=1, add=1), *total, measured("operator_calls", 2, "ranks:add")])
    assert {c.subject for c in found if c.state is State.WORSE} == {"rank0:add", "rank1:add", "ranks:add"}


@pytest.mark.parametrize(("now", "state"), [(3, State.WORSE), (1, State.WORSE), (2, State.SAME)])
def test_an_operator_the_user_names_is_judged_by_its_own_rule(now, state):
    before = [measured("operator_calls", 2, "view"), *step_of(None, mm=1.0)]
    after = [measured("operator_calls", now, "view"), *step_of(None, mm=1.0)]
    found = compared(before, after, **rule("operator_calls[view]", Tolerance()))
    assert {c.subject: c.state for c in found if c.metric == "operator_calls"} == {"mm": State.SAME, "view": state}


def test_a_change_is_named_by_kind_with_the_first_names():
    before = census(a=1, b=1, c=2, d=1)
    now = [one for one in census(a=1, c=1, e=1) if one.key != ("operator_shapes", "a")]
    now += [measured("operator_shapes", {"[3]": 1}, "a"), measured("graph_passes", ["x"])]
    found = compare(now, baseline(*before, measured("graph_passes", ["y"])), environment=HERE, policy=Policy())
    assert changes_text(found) == (
        "operators changed: 1 new (e), 2 gone (b, d), 1 called more or less often (c 2 → 1), 1 called with other shapes (a); "
        "changed: graph_passes"
    )


# -- what is said ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "before", "now", "policy", "expected"),
    [
        (
            "operator_calls",
            8,
            9,
            {},
            "operator_calls 8 → 9 calls/step, +1 (added work: +12.5 % operators in the step, all together)",
        ),
        ("steps", 5, 4, {}, "steps 5 → 4 steps, −1 (exact: any decrease fails)"),
        (
            "peak_memory_bytes",
            1000,
            2000,
            {},
            "peak_memory_bytes 1000 → 2000 bytes, +100.0 % (allowed +0.1 %)",
        ),
        (
            "step_time",
            8200.0,
            18200.7,
            rule("step_time", Tolerance(relative=1.0)),
            "step_time 8200 → 18200.7 us, +122.0 % (allowed +100.0 %)",
        ),
        (
            "operator_time",
            8200.0,
            11340.7,
            rule("operator_time", Tolerance(relative=0.25)),
            "operator_time 8200 → 11340.7 us/step, +38.3 % (allowed +25.0 %)",
        ),
        (
            "operator_time",
            10.0,
            100.0,
            rule("operator_time", Tolerance(relative=0.25, absolute=50)),
            "operator_time 10 → 100 us/step, +900.0 % (allowed +50 us/step)",
        ),
        (
            "step_time",
            1000.0,
            1500.0,
            rule("step_time", Tolerance(relative=1.0, warn_relative=0.3)),
            "step_time 1000 → 1500 us, +50.0 % (warned beyond +30.0 %, allowed +100.0 %)",
        ),
        ("step_time", 1000.0, 2500.0, {}, "step_time 1000 → 2500 us, +150.0 % (warned beyond +100.0 %)"),
        ("step_time", 1000.0, 400.0, {}, "step_time 1000 → 400 us, −60.0 %: better than the baseline"),
        (
            "peak_memory_bytes",
            423414784,
            422914784,
            {},
            "peak_memory_bytes 404 → 403 MiB, −0.1 %: better than the baseline",
        ),
        (
            "peak_memory_bytes",
            10_000_000,
            10_012_000,
            {},
            "peak_memory_bytes 9.54 → 9.55 MiB, +0.1 % (allowed +0.1 %)",
        ),
        (
            "memory_allocated_bytes",
            1969196,
            6828076,
            {},
            "memory_allocated_bytes 1.88 → 6.51 MiB/step, +246.7 % (allowed +0.1 %)",
        ),
        (
            "memory_allocated_bytes",
            0,
            1 << 20,
            {},
            "memory_allocated_bytes 0 → 1.00 MiB/step, +1.00 MiB/step (allowed +0.1 %)",
        ),
        # Few bytes stay what they are, as do numbers that would read the same.
        (
            "memory_growth_bytes",
            0,
            4096,
            {},
            "memory_growth_bytes 0 → 4096 bytes/step, +4096 (exact: any increase fails)",
        ),
        (
            "memory_growth_bytes",
            1 << 20,
            (1 << 20) + 12,
            {},
            "memory_growth_bytes 1048576 → 1048588 bytes/step, +12 (exact: any increase fails)",
        ),
        (
            "memory_growth_bytes",
            10_000_000,
            10_004_096,
            {},
            "memory_growth_bytes 10000000 → 10004096 bytes/step, +4096 bytes/step (exact: any increase fails)",
        ),
        (
            "operator_set",
            ["a", "b"],
            ["a", "c"],
            {"changed_fails": True},
            'operator_set changed: − b; + c (fails because of changed = "fail")',
        ),
        (
            "operator_shapes",
            {"[2]": 1, "[3]": 1},
            {"[2]": 2},
            {"changed_fails": True},
            'operator_shapes changed: [2] 1 → 2; [3] 1 → 0 (fails because of changed = "fail")',
        ),
        ("steps", 5, None, {}, "steps was 5 steps, and is not measured any more"),
        ("steps", None, 5, {}, "steps is 5 steps, and the baseline has none"),
        (
            "operator_set",
            ["a", "b"],
            None,
            {"changed_fails": True},
            "operator_set was 2 names, and is not measured any more",
        ),
    ],
)
def test_a_message_names_the_thing_and_the_two_numbers(metric, before, now, policy, expected):
    found = one(metric, before, now, **policy)
    assert found.finding is not None
    assert found.finding.message == expected


def test_a_message_shows_four_differences_and_counts_the_rest():
    found = one("operator_set", [], list("abcdef"), changed_fails=True)
    assert found.finding is not None
    assert found.finding.message.startswith("operator_set changed: + a; + b; + c; + d and 2 more (fails because")


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"float[2];Scalar[]": 1}, {"c10::BFloat16[2];Scalar[]": 1}, "1 moved from float to BFloat16 (a)"),
        ({"float[2];float[2]": 1}, {"double[2];long int[2]": 1}, "1 called with other types (a)"),
        ({"float[2]": 1}, {"float[3]": 1}, "1 called with other shapes (a)"),
        ({"float[2]": 1}, {"double[3]": 1}, "1 called with other shapes (a)"),
        ({"[2]": 1}, {"[3]": 1}, "1 called with other shapes (a)"),
    ],
)
def test_other_shapes_are_told_from_other_types(before, now, text):
    sides = ([measured("operator_calls", 1, "a"), measured("operator_shapes", one, "a")] for one in (before, now))
    assert changes_text(compared(*sides)) == f"operators changed: {text}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (5, "5"),
        (5.0, "5"),
        (2.5, "2.5"),
        (1234.56, "1234.6"),
        (0.000266, "0.000266"),
        (-3.5, "-3.5"),
        (10**18, "1000000000000000000"),
        (10**150, "1e+150"),
        (-1.5e30, "-1.5e+30"),
        (["a", "b"], "2 names"),
        ({"[2]": 1, "[3]": 2.5}, "[2] x 1, [3] x 2.5"),
    ],
)
def test_values_are_written_for_people(value, expected):
    assert show(value) == expected


@given(
    before=st.one_of(st.integers(0, 10**15), st.floats(0, 1e15)),
    now=st.one_of(st.integers(0, 10**15), st.floats(0, 1e15)),
)
def test_any_two_numbers_are_compared_in_one_line(before, now):
    for metric in ("steps", "peak_memory_bytes", "step_time"):
        found = one(metric, before, now)
        if found.finding is not None:
            assert found.finding.place == metric
            in_bytes = metric == "peak_memory_bytes"
            sides = sides_text(before, now, "bytes") if in_bytes else f"{show(before)} → {show(now)} "
            assert found.finding.message.startswith(f"{metric} {sides}")
            assert "\n" not in found.finding.message


# -- order -----------------------------------------------------------------------------------------------------------


#: As many samples as the rule for time asks for.
FIVE = (1.0,) * 5

WHOLE = ["steps", "step_cost", "peak_memory_bytes"]
WHOLE += [f"memory_{name}" for name in ("allocations", "allocated_bytes", "growth_bytes")]


def order(before: list[Measurement], now: list[Measurement], **policy) -> list[str]:
    """Return what is told, in the order in which it is told."""
    return [f.place for f in worst_first([c.finding for c in compared(before, now, **policy) if c.finding is not None])]


@pytest.mark.parametrize("metric", WHOLE)
@pytest.mark.parametrize("calls", [2, 1000, 10**9])
def test_the_whole_workload_goes_before_its_operators(metric, calls):
    worse = 50 if metric == "steps" else 205
    found = order(
        [*census(Add=1), measured(metric, 100, samples=FIVE)],
        [*census(Add=calls, Mul=1), measured(metric, worse, samples=FIVE)],
        changed_fails=True,
    )
    assert found == [metric, "operator_calls[Add]", "operator_calls[Mul]", "operator_shapes[Add]"]


def test_the_time_of_the_step_goes_first_then_what_is_worst_of_the_whole_and_warnings_last():
    before = {"step_cost": 100.0, "peak_memory_bytes": 100, "memory_allocated_bytes": 100, "step_cpu_time": 100.0}
    now = {"step_cost": 390.0, "peak_memory_bytes": 120, "memory_allocated_bytes": 1966, "step_cpu_time": 260.0}
    found = order(
        [*census(Add=1, Gone=1), *(measured(name, value, samples=FIVE) for name, value in before.items())],
        [*census(Add=9), *(measured(name, value, samples=FIVE) for name, value in now.items())],
        changed_fails=True,
    )
    whole = ["step_cost", "memory_allocated_bytes", "peak_memory_bytes"]
    operators = ["operator_calls[Add]", "operator_calls[Gone]", "operator_shapes[Add]"]
    assert found == [*whole, *operators, "step_cpu_time"]


def test_a_slow_operator_weighs_less_than_what_is_exact():
    found = compared(
        [measured("operator_time", 100.0, "MatMul"), measured("peak_memory_bytes", 100, "cpu")],
        [measured("operator_time", 150.0, "MatMul"), measured("peak_memory_bytes", 101, "cpu")],
        **rule("operator_time", Tolerance(relative=0.1)),
    )
    weights = {c.metric: c.finding.weight for c in found if c.finding is not None}
    assert weights["peak_memory_bytes"] > weights["operator_time"] > 0


def test_the_worse_of_two_times_weighs_more():
    found = compared(
        [measured("step_time", 100.0), measured("step_cpu_time", 100.0)],
        [measured("step_time", 300.0), measured("step_cpu_time", 400.0)],
    )
    weights = {c.metric: c.finding.weight for c in found if c.finding is not None}
    assert weights["step_cpu_time"] > weights["step_time"]


def test_comparisons_come_in_the_order_of_metric_and_subject():
    found = compared(census(b=1, a=1), census(c=1, a=1))
    assert [(c.metric, c.subject) for c in found] == sorted((c.metric, c.subject) for c in found)


# -- what is 0 because it is not there -----------------------------------------------------------------------------------

RAN = measured("kernel_calls", 3, "gemm")


@pytest.mark.parametrize(
    ("before", "now", "states"),
    [
        ([RAN], [RAN, measured("copies", 2, "HtoD")], {"copies[HtoD]": State.WORSE}),
        ([RAN, measured("copies", 2, "HtoD")], [RAN], {"copies[HtoD]": State.BETTER}),
        # Without kernels nobody knows whether anything was copied.
        ([], [RAN, measured("copies", 2, "HtoD")], {"copies[HtoD]": State.NOT_COMPARABLE}),
        (
            [RAN],
            [RAN, measured("copies", 2, "HtoD"), measured("copied_bytes", 64, "HtoD")],
            {"copies[HtoD]": State.WORSE, "copied_bytes[HtoD]": State.WORSE},
        ),
        # The bytes of these copies were not told.
        (
            [RAN, measured("copies", 2, "HtoD")],
            [RAN, measured("copies", 2, "HtoD"), measured("copied_bytes", 64, "HtoD")],
            {"copies[HtoD]": State.SAME, "copied_bytes[HtoD]": State.NOT_COMPARABLE},
        ),
    ],
)
def test_a_kind_of_copy_that_did_not_run_is_no_unknown_one(before, now, states):
    found = {one.label: one.state for one in compared(before, now) if one.metric != "kernel_calls"}
    assert found == states
