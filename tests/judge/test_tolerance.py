"""Tolerances: how far is too far, and which rule speaks of which measurement."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.errors import UsageError
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.tolerance import Policy, Rule, Tolerance, default_tolerance
from perfguard.measure import METRICS, Better

FRACTIONS = st.floats(0, 10)
NUMBERS = st.floats(-1e12, 1e12)
LIMITS = st.builds(Tolerance, relative=FRACTIONS, absolute=st.floats(0, 1e12), warn_relative=FRACTIONS)
DIRECTIONS = st.sampled_from(Better)
PLAIN_SUBJECTS = st.text().filter(lambda text: not set(text) & set("*?"))


# -- how far is too far ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relative", "absolute", "better", "reference", "current", "worse", "improved"),
    [
        (0.25, 0, Better.LOWER, 100, 125, False, False),
        (0.25, 0, Better.LOWER, 100, 126, True, False),
        (0.25, 0, Better.LOWER, 126, 100, False, True),
        (0.25, 0, Better.LOWER, 125, 100, False, False),
        (0.25, 30, Better.LOWER, 100, 130, False, False),
        (0.25, 30, Better.LOWER, 100, 131, True, False),
        (0.25, 0, Better.HIGHER, 100, 75, False, False),
        (0.25, 0, Better.HIGHER, 100, 74, True, False),
        (0.25, 0, Better.HIGHER, 74, 100, False, True),
        (0.25, 0, Better.EQUAL, 100, 125, False, False),
        (0.25, 0, Better.EQUAL, 100, 126, True, False),
        (0.25, 0, Better.EQUAL, 100, 74, True, False),
        (0.0, 0, Better.LOWER, 3, 3, False, False),
        (0.0, 0, Better.LOWER, 3, 4, True, False),
        (0.0, 0, Better.LOWER, 3, 2, False, True),
        (0.0, 0, Better.EQUAL, 3, 2, True, False),
        (0.5, 0, Better.LOWER, 0, 1, True, False),
        (0.5, 1, Better.LOWER, 0, 1, False, False),
        (0.5, 0, Better.LOWER, -10, -6, False, False),
        (0.5, 0, Better.LOWER, -10, -4, True, False),
    ],
)
def test_worse_and_better(relative, absolute, better, reference, current, worse, improved):
    limits = Tolerance(relative=relative, absolute=absolute)
    assert limits.is_worse(current, reference, better) is worse
    assert limits.is_better(current, reference, better) is improved


@given(limits=LIMITS, reference=NUMBERS)
def test_the_allowance_is_the_larger_of_the_two(limits, reference):
    relative = Tolerance(relative=limits.relative).allowance(reference)
    absolute = Tolerance(absolute=limits.absolute).allowance(reference)
    assert limits.allowance(reference) == max(relative, absolute)
    assert relative == abs(reference) * limits.relative
    assert absolute == limits.absolute
    assert limits.allowance(-reference) == limits.allowance(reference)


@given(limits=LIMITS, reference=NUMBERS, currents=st.tuples(NUMBERS, NUMBERS))
def test_worse_is_monotone(limits, reference, currents):
    near, far = sorted(currents)
    assert limits.is_worse(far, reference, Better.LOWER) or not limits.is_worse(near, reference, Better.LOWER)
    assert limits.is_worse(near, reference, Better.HIGHER) or not limits.is_worse(far, reference, Better.HIGHER)
    away, close = sorted(currents, key=lambda current: -abs(current - reference))
    assert limits.is_worse(away, reference, Better.EQUAL) or not limits.is_worse(close, reference, Better.EQUAL)


@given(limits=LIMITS, reference=NUMBERS, current=NUMBERS, wider=FRACTIONS)
def test_a_wider_tolerance_fails_less(limits, reference, current, wider):
    wide = Tolerance(relative=limits.relative + wider, absolute=limits.absolute)
    for better in Better:
        assert limits.is_worse(current, reference, better) or not wide.is_worse(current, reference, better)


@given(limits=LIMITS, reference=NUMBERS, current=NUMBERS)
def test_lower_and_higher_mirror_each_other_and_equal_is_both(limits, reference, current):
    lower = limits.is_worse(current, reference, Better.LOWER)
    higher = limits.is_worse(current, reference, Better.HIGHER)
    assert higher == limits.is_worse(-current, -reference, Better.LOWER)
    assert limits.is_worse(current, reference, Better.EQUAL) == (lower or higher)
    assert not (lower and higher)


@given(limits=LIMITS, reference=NUMBERS, current=NUMBERS, better=DIRECTIONS)
def test_an_improvement_is_what_would_be_worse_the_other_way_round(limits, reference, current, better):
    expected = better is not Better.EQUAL and limits.is_worse(reference, current, better)
    assert limits.is_better(current, reference, better) == expected
    assert not (limits.is_better(current, reference, better) and limits.is_worse(current, reference, better))


@given(limits=LIMITS, reference=NUMBERS, better=DIRECTIONS)
def test_no_change_is_never_anything(limits, reference, better):
    assert not limits.is_worse(reference, reference, better)
    assert not limits.is_warning(reference, reference, better)
    assert not limits.is_better(reference, reference, better)


@given(reference=NUMBERS, current=NUMBERS, better=DIRECTIONS)
def test_without_a_narrower_limit_nothing_is_warned(reference, current, better):
    assert not Tolerance(relative=1.0).is_warning(current, reference, better)


@given(limits=LIMITS, reference=NUMBERS, current=NUMBERS, better=DIRECTIONS)
def test_the_warning_limit_is_a_tolerance_of_its_own(limits, reference, current, better):
    narrow = Tolerance(relative=limits.warn_relative, absolute=limits.absolute)
    assert limits.is_warning(current, reference, better) == narrow.is_worse(current, reference, better)


# -- which rule speaks of what ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "metric", "subject", "expected"),
    [
        ("step_time", "step_time", "", True),
        ("step_time", "step_cpu_time", "", False),
        ("operator_time", "operator_time", "MatMul", True),
        ("operator_time", "operator_time", "fused[0]", True),
        ("operator_time[MatMul]", "operator_time", "MatMul", True),
        ("operator_time[MatMul]", "operator_time", "BatchMatMul", False),
        ("operator_time[MatMul]", "operator_time", "MatMulV2", False),
        ("operator_time[MatMul]", "operator_time", "matmul", False),
        ("operator_time[MatMul]", "operator_calls", "MatMul", False),
        ("operator_time[MatMul*]", "operator_time", "MatMulV2", True),
        ("operator_time[MatMul?]", "operator_time", "MatMul", False),
        ("operator_time[MatMul?]", "operator_time", "MatMul2", True),
        ("operator_time[aten::*]", "operator_time", "aten::mm", True),
        ("operator_time[aten::*]", "operator_time", "detach", False),
        ("operator_time[*: AddmmBackward0]", "operator_time", "evaluate_function: AddmmBackward0", True),
        ("operator_time[fused[0]]", "operator_time", "fused[0]", True),
        ("operator_time[fused[0]]", "operator_time", "fused0", False),
        ("operator_time[fused[*]]", "operator_time", "fused[12]", True),
        ("operator_time[fused[*]]", "operator_time", "fused*", False),
        ("operator_time[[a]]", "operator_time", "[a]", True),
        ("operator_time[[!a]]", "operator_time", "b", False),
        ("operator_time[a]b]", "operator_time", "a]b", True),
        ("operator_time[]", "operator_time", "MatMul", False),
        ("operator_time[*]", "operator_time", "two\nlines", True),
        ("peak_memory_bytes[cuda:0]", "peak_memory_bytes", "cuda:0", True),
        ("peak_memory_bytes[cuda:*]", "peak_memory_bytes", "cpu", False),
    ],
)
def test_a_pattern_speaks_of_a_measurement(pattern, metric, subject, expected):
    assert Rule(pattern=pattern, tolerance=Tolerance()).matches(metric, subject) is expected


@given(subject=PLAIN_SUBJECTS)
def test_an_exact_pattern_speaks_of_its_subject_whatever_is_in_it(subject):
    rule = Rule(pattern=f"operator_time[{subject}]", tolerance=Tolerance())
    assert rule.matches("operator_time", subject)
    assert not rule.matches("operator_time", subject + "x")


@given(subject=PLAIN_SUBJECTS.filter(bool))
def test_exact_beats_glob_beats_bare_whatever_the_order(subject):
    exact = Rule(pattern=f"operator_time[{subject}]", tolerance=Tolerance(relative=0.1))
    glob = Rule(pattern="operator_time[*]", tolerance=Tolerance(relative=0.2))
    bare = Rule(pattern="operator_time", tolerance=Tolerance(relative=0.3))
    for rules in ((exact, glob, bare), (bare, glob, exact), (glob, exact, bare)):
        assert Policy(settings=rules).rule("operator_time", subject) is exact
        assert Policy(settings=rules).rule("operator_time", subject + "x") is glob
        assert Policy(settings=tuple(r for r in rules if r is not glob)).rule("operator_time", subject + "x") is bare


@given(subject=st.text("ab[]!", max_size=6), pattern=st.text("ab*?", max_size=6))
def test_a_glob_is_what_the_shell_says(subject, pattern):
    rule = Rule(pattern=f"operator_time[{pattern}]", tolerance=Tolerance())
    assert rule.matches("operator_time", subject) is fnmatchcase(subject, pattern)


@pytest.mark.parametrize(
    ("patterns", "subject", "expected"),
    [
        (["operator_time[*]", "operator_time[Mat*]", "operator_time[MatMul*]"], "MatMulV2", "operator_time[MatMul*]"),
        (["operator_time[MatMulV?]", "operator_time[MatMulV2]"], "MatMulV2", "operator_time[MatMulV2]"),
        (["operator_time[VeryLongNameWhichIsGlob*]", "operator_time"], "MatMul", "operator_time"),
        (["operator_time[VeryLongGlob*]", "operator_time[V]"], "V", "operator_time[V]"),
        (["step_time"], "MatMul", None),
    ],
)
def test_the_longer_glob_is_more_precise(patterns, subject, expected):
    for order in (patterns, patterns[::-1]):
        policy = Policy(settings=tuple(Rule(pattern=pattern, tolerance=None) for pattern in order))
        rule = policy.rule("operator_time", subject)
        assert (rule and rule.pattern) == expected


def test_the_marker_goes_before_the_settings():
    marker = Rule(pattern="operator_time", tolerance=None)
    setting = Rule(pattern="operator_time[MatMul]", tolerance=Tolerance())
    policy = Policy(marker=(marker,), settings=(setting,))
    assert policy.rule("operator_time", "MatMul") is marker
    assert Policy(settings=(setting,)).rule("operator_time", "MatMul") is setting


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "is not a metric"),
        ("step time", "is not a metric"),
        ("Step", "is not a metric"),
        ("step_time]", "is not a metric"),
        ("operator_time[MatMul", "is not a metric"),
        ("[MatMul]", "is not a metric"),
        ("step_time\n", "is not a metric"),
        ("step_tim", r"did you mean 'step_time'\?"),
        ("operator_times[MatMul]", r"did you mean 'operator_time'\?"),
        ("xyz", "known are api_time, collective_transfer, "),
        ("operator_set", 'Set it to "off"'),
        ("operator_shapes[MatMul]", 'Set it to "off"'),
    ],
)
def test_a_pattern_of_nothing_is_refused(pattern, message):
    with pytest.raises(UsageError, match=message):
        Rule(pattern=pattern, tolerance=Tolerance(relative=0.1))


# -- which tolerance gates what --------------------------------------------------------------------------------------


@pytest.mark.parametrize("judge_time", [True, False])
def test_without_a_rule_a_metric_has_its_own_tolerance(judge_time):
    for metric in METRICS.values():
        shown_only = not metric.gated or (metric.kind.value == "timed" and not judge_time)
        expected = None if shown_only else default_tolerance(metric)
        assert Policy(judge_time=judge_time).tolerance(metric, "any") == expected, metric.name


@pytest.mark.parametrize("name", ["operator_time", "profiler_overhead", "step_time", "operator_calls"])
def test_whoever_names_a_metric_gates_it(name):
    policy = Policy(settings=(Rule(pattern=name, tolerance=Tolerance(relative=0.1)),))
    assert policy.tolerance(METRICS[name], "any") == Tolerance(relative=0.1)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_off_switches_the_judging_off(name):
    assert Policy(marker=(Rule(pattern=name, tolerance=None),)).tolerance(METRICS[name], "any") is None


# -- ignoring --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ignore", "noted"),
    [
        ((), []),
        (("C101",), [Code.C101]),
        (("C",), [Code.C101, Code.C102]),
        (("C10", "A103"), [Code.A103, Code.C101, Code.C102]),
        (("S",), []),
    ],
)
def test_what_is_ignored_is_still_shown_as_a_note(ignore, noted):
    findings = [Finding(code=code, message=code.value) for code in (Code.A103, Code.C101, Code.C102, Code.R101)]
    considered = Policy(ignore=ignore).considered(findings)
    assert {f.code for f in considered} == {f.code for f in findings}
    assert sorted((f.code for f in considered if f.severity is Severity.NOTE), key=lambda c: c.name) == noted
    for one in considered:
        assert one.message.endswith(f"(ignored: {one.code.name})") == (one.code in noted)


def test_a_note_is_not_ignored_twice():
    note = Finding(code=Code.A103, message="strange", severity=Severity.NOTE)
    policy = Policy(ignore=("A",))
    assert policy.considered([note]) == (note,)
    once = policy.considered([Finding(code=Code.A102, message="missing")])
    assert policy.considered(once) == once


@pytest.mark.parametrize("subject", ["MatMul", "rank0:MatMul", "rank12:MatMul"])
def test_a_rule_for_an_operator_holds_on_every_rank(subject):
    policy = Policy(settings=(Rule(pattern="operator_time[MatMul*]", tolerance=Tolerance(relative=0.25)),))
    assert policy.tolerance(METRICS["operator_time"], subject) == Tolerance(relative=0.25)
    assert policy.tolerance(METRICS["operator_time"], "rank0:Add") is None


@pytest.mark.parametrize(
    ("select", "seen"),
    [
        ((), ["A102", "C101", "S103"]),
        (("A",), ["A102"]),
        (("C1", "S103"), ["C101", "S103"]),
        (("I",), []),
    ],
)
def test_what_is_not_selected_is_not_looked_at(select, seen):
    findings = [Finding(code=code, message="m") for code in (Code.A102, Code.C101, Code.S103)]
    assert sorted(f.code.name for f in Policy(select=select).considered(findings)) == seen


def test_what_is_selected_can_still_be_ignored():
    findings = [Finding(code=code, message="m") for code in (Code.A102, Code.C101)]
    (one,) = Policy(select=("A",), ignore=("A1",)).considered(findings)
    assert (one.code, one.severity) == (Code.A102, Severity.NOTE)
