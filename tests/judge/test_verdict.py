"""Verdicts: what all findings on one recording come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import StepWindow
from perfguard.contract import Contract
from perfguard.dialects.extract import Extract
from perfguard.findings import INVALIDATING_FAMILIES, Code, Finding, Severity, worst_first
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Coverage, Outcome, Verdict, compared, examined
from perfguard.measure import Measurement
from perfguard.recording import Recording
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, WORKLOAD, baseline, codes, measured

CALLS = measured("operator_calls", 2, "MatMul")
MANY = measured("operator_calls", 98, "Add")
PEAK = measured("peak_memory_bytes", 8, "cpu")
STEP = measured("step_time", 100.0)
COST = measured("step_cost", 2.0, samples=(2.0, 2.1, 2.2, 2.1, 2.0))


def examine(
    *measurements: Measurement,
    findings: tuple[Finding, ...] = (),
    policy: Policy | None = None,
    files: int = 1,
    **facts,
) -> Verdict:
    recording = Recording(directory=Path("here"), **{"fingerprint": FINGERPRINT, "environment": HERE, **facts})
    read = Extract(layout="pt-torch", name="a", rank=0, is_window=True, files=files)
    contract = Contract(recording=recording, cycles=(), findings=findings, extracts=(read,))
    return examined(contract, measurements, workload=WORKLOAD, policy=policy or Policy())


def judge(
    before: list[Measurement] | None, now: list[Measurement], *, policy: Policy | None = None, **facts
) -> Verdict:
    policy = policy or Policy()
    stored = None if before is None else baseline(*before)
    return compared(examine(*now, policy=policy, **facts), stored, policy=policy)


# -- by itself -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("severity", list(Severity))
def test_a_recording_is_invalid_when_an_error_says_that_it_is_not_whole(severity):
    for code in Code:
        verdict = examine(CALLS, findings=(Finding(code=code, message="", severity=severity),))
        invalid = severity is Severity.ERROR and code.name[0] in "ASIC"
        assert verdict.outcome is (Outcome.INVALID if invalid else Outcome.PASSED), code
        assert verdict.passed is not invalid, code


@pytest.mark.parametrize("ignore", [(), ("A",)])
def test_of_a_recording_without_a_file_no_outcome_is_green(ignore):
    assert examine(CALLS, files=0, policy=Policy(ignore=ignore)).outcome is Outcome.INCONCLUSIVE


def test_a_whole_recording_keeps_its_facts():
    verdict = examine(CALLS)
    assert (verdict.workload, verdict.measurements) == (WORKLOAD, (CALLS,))
    assert (verdict.fingerprint, verdict.environment, verdict.recording) == (FINGERPRINT, HERE, Path("here"))
    assert verdict.coverage == Coverage()


@pytest.mark.parametrize(
    ("ignore", "outcome"), [((), "INVALID"), (("C102",), "PASSED"), (("C",), "PASSED"), (("S",), "INVALID")]
)
def test_what_is_ignored_becomes_a_note_and_decides_nothing(ignore, outcome):
    finding = Finding(code=Code.C102, message="they differ")
    verdict = examine(CALLS, findings=(finding,), policy=Policy(ignore=ignore))
    assert verdict.outcome.value == outcome
    assert codes(verdict) == ["C102"]
    assert (verdict.findings[0].severity is Severity.NOTE) == (outcome == "PASSED")


# -- against a baseline ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "outcome", "expected"),
    [
        ([CALLS, STEP], [CALLS, STEP], "PASSED", []),
        ([CALLS], [replace(CALLS, value=3)], "FAILED", ["R102"]),
        ([CALLS, COST], [CALLS, replace(COST, value=3.0)], "FAILED", ["R101"]),
        ([CALLS, STEP], [CALLS, replace(STEP, value=300.0)], "PASSED", ["R105"]),
        ([CALLS, STEP], [CALLS, replace(STEP, value=10.0)], "PASSED", ["R106"]),
        ([CALLS, STEP], [CALLS], "FAILED", ["R103"]),
        ([CALLS], [CALLS, STEP], "PASSED", ["R104"]),
        ([CALLS], [CALLS, measured("operator_calls", 1, "Mul")], "FAILED", ["R104"]),
        ([CALLS], [replace(CALLS, value=1)], "CHANGED", ["R107"]),
        ([CALLS, MANY], [CALLS, MANY, measured("operator_calls", 1, "View")], "CHANGED", ["R107"]),
        ([CALLS, MANY], [MANY, replace(CALLS, value=9)], "FAILED", ["R102"]),
        ([CALLS, MANY], [CALLS], "FAILED", ["R108", "R107"]),
        ([CALLS, COST], [replace(CALLS, subject="Fused"), replace(COST, value=1.0)], "CHANGED", ["R107", "R106"]),
        ([CALLS, PEAK], [replace(CALLS, subject="Fused"), replace(PEAK, value=9)], "FAILED", ["R102", "R107"]),
        ([CALLS, STEP], [], "FAILED", ["R103", "R103"]),
        (None, [CALLS], "INCONCLUSIVE", ["B101"]),
        (None, [], "INCONCLUSIVE", ["B101"]),
        ([], [], "INCONCLUSIVE", ["B101"]),
        ([measured("operator_time", 1.0, "x")], [measured("operator_time", 9.0, "x")], "INCONCLUSIVE", ["B101"]),
        ([measured("metric_of_tomorrow", 1)], [measured("metric_of_tomorrow", 1)], "INCONCLUSIVE", ["B101"]),
    ],
)
def test_outcomes(before, now, outcome, expected):
    verdict = judge(before, now)
    assert (verdict.outcome.value, codes(verdict)) == (outcome, expected)
    assert verdict.passed is (outcome in ("PASSED", "CHANGED"))


def test_what_only_changed_fails_where_the_user_wants_a_snapshot():
    fewer = [replace(CALLS, value=1)]
    verdict = judge([CALLS], fewer, policy=Policy(changed_fails=True))
    assert (verdict.outcome, codes(verdict)) == (Outcome.FAILED, ["R102"])
    assert (verdict.coverage.changed, verdict.coverage.worse) == (1, 0)
    ignored = judge([CALLS], fewer, policy=Policy(ignore=("R107",)))
    assert (ignored.outcome, codes(ignored)) == (Outcome.PASSED, ["R107"])


@pytest.mark.parametrize("before", [[], [measured("operator_time", 1.0, "x")], [measured("metric_of_tomorrow", 1)]])
def test_news_alone_compare_nothing_and_are_not_green(before):
    # Everything measured is new to this baseline: no number was compared with another.
    verdict = judge(before, [CALLS, STEP])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "B101" in codes(verdict)


def test_everything_off_is_not_green():
    policy = Policy(settings=tuple(Rule(pattern=name, tolerance=None) for name in ("operator_calls", "step_time")))
    assert judge([CALLS, STEP], [CALLS, STEP], policy=policy).outcome is Outcome.INCONCLUSIVE


def test_only_times_on_another_machine_are_not_green():
    verdict = judge([STEP], [STEP], environment=ELSEWHERE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert codes(verdict)[0] == "B101"


def test_only_times_with_time_off_are_not_green():
    assert judge([STEP], [STEP], policy=Policy(judge_time=False)).outcome is Outcome.INCONCLUSIVE


def test_an_invalid_recording_is_not_compared():
    invalid = (Finding(code=Code.C101, message="a step is lost"),)
    for before in (None, [CALLS], [replace(CALLS, value=9)]):
        verdict = judge(before, [CALLS], findings=invalid)
        assert (verdict.outcome, codes(verdict), verdict.comparisons) == (Outcome.INVALID, ["C101"], ())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mode": "graph"}, "mode: eager → graph"),
        ({"backend": "mindspore", "world_size": 2}, "backend: torch → mindspore; world_size: 1 → 2"),
        ({"window": StepWindow(active=6)}, "window: "),
    ],
)
def test_another_fingerprint_is_inconclusive(changes, told):
    verdict = judge([CALLS], [CALLS], fingerprint=replace(FINGERPRINT, **changes))
    assert (verdict.outcome, codes(verdict), verdict.comparisons) == (Outcome.INCONCLUSIVE, ["B102"], ())
    assert verdict.findings[0].message.startswith(told)


def test_another_name_of_the_workload_is_the_same_fingerprint():
    assert judge([CALLS], [CALLS], fingerprint=replace(FINGERPRINT, workload="renamed")).outcome is Outcome.PASSED


def test_a_foreign_directory_is_compared_by_what_it_holds():
    verdict = judge([CALLS], [replace(CALLS, value=3)], fingerprint=None, environment=None)
    assert (verdict.outcome, codes(verdict), verdict.environment_changes) == (Outcome.FAILED, ["R102"], ())


def test_another_machine_is_noted_and_still_judged_by_what_is_exact():
    verdict = judge([CALLS, STEP], [CALLS, replace(STEP, value=900.0)], environment=ELSEWHERE)
    assert (verdict.outcome, codes(verdict)) == (Outcome.PASSED, ["B103"])
    assert verdict.findings[0].severity is Severity.NOTE
    assert verdict.coverage == Coverage(compared=1, not_comparable=1)
    assert "cpu_count: 2 → 64" in verdict.environment_changes


@pytest.mark.parametrize("field", ["cpu_model", "cpu_count", "device_name"])
def test_the_note_on_another_machine_shows_what_is_other(field):
    verdict = judge([CALLS], [CALLS], environment=replace(HERE, **{field: getattr(ELSEWHERE, field)}))
    (note,) = verdict.findings
    assert str(getattr(HERE, field)) in note.message
    assert str(getattr(ELSEWHERE, field)) in note.message


def test_another_release_is_shown_and_changes_nothing():
    verdict = judge([CALLS, STEP], [CALLS, STEP], environment=replace(HERE, packages={"torch": "2.14.0"}))
    assert (verdict.outcome, codes(verdict)) == (Outcome.PASSED, [])
    assert verdict.environment_changes == ("torch: 2.13.0 → 2.14.0",)


@pytest.mark.parametrize(
    ("ignore", "outcome"), [((), "FAILED"), (("R102",), "PASSED"), (("R",), "PASSED"), (("R103",), "FAILED")]
)
def test_a_regression_can_be_ignored_and_is_still_told(ignore, outcome):
    verdict = judge([CALLS], [replace(CALLS, value=3)], policy=Policy(ignore=ignore))
    assert verdict.outcome.value == outcome
    assert codes(verdict) == ["R102"]
    assert verdict.coverage.worse == 1


@pytest.mark.parametrize("ignore", [("B",), ("B101",), ("B102",)])
def test_that_nothing_was_compared_cannot_be_ignored(ignore):
    policy = Policy(ignore=ignore)
    assert judge(None, [CALLS], policy=policy).outcome is Outcome.INCONCLUSIVE
    other = replace(FINGERPRINT, mode="graph")
    assert judge([CALLS], [CALLS], policy=policy, fingerprint=other).outcome is Outcome.INCONCLUSIVE


def test_warnings_of_the_contract_stay_beside_regressions():
    note = Finding(code=Code.A103, message="strange", severity=Severity.NOTE)
    verdict = judge([CALLS], [replace(CALLS, value=3)], findings=(note,))
    assert codes(verdict) == ["R102", "A103"]


def test_a_tolerance_of_the_user_decides():
    policy = Policy(settings=(Rule(pattern="operator_calls[Mat*]", tolerance=Tolerance(relative=0.5)),))
    assert judge([CALLS], [replace(CALLS, value=3)], policy=policy).outcome is Outcome.PASSED
    assert judge([CALLS], [replace(CALLS, value=4)], policy=policy).outcome is Outcome.FAILED


# -- coverage --------------------------------------------------------------------------------------------------------

COMPARISONS = st.lists(
    st.builds(
        Comparison,
        metric=st.just("steps"),
        subject=st.just(""),
        state=st.sampled_from(State),
        judged=st.booleans(),
        reference=st.none(),
        current=st.none(),
    )
)


@given(comparisons=COMPARISONS)
def test_every_comparison_is_counted_once(comparisons):
    coverage = Coverage.of(comparisons)
    assert coverage.compared + coverage.shown_only + coverage.not_comparable == len(comparisons)
    judged = [c.state for c in comparisons if c.judged]
    for state in (State.WORSE, State.BETTER, State.CHANGED):
        assert getattr(coverage, state.value) == judged.count(state)


@given(one=COMPARISONS, other=COMPARISONS)
def test_coverage_adds_up(one, other):
    assert Coverage.of(one) + Coverage.of(other) == Coverage.of([*one, *other])


# -- findings --------------------------------------------------------------------------------------------------------


def test_codes_are_a_letter_and_three_digits_with_a_headline_of_their_own():
    for code in Code:
        assert code.name[0] == code.family
        assert code.family in "ASICBR"
        assert code.name[1:].isdigit()
        assert code.value
    assert len({code.value for code in Code}) == len(Code)
    assert frozenset("ASICU") == INVALIDATING_FAMILIES


FINDINGS = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from(Code),
        message=st.just(""),
        place=st.sampled_from(["", "a", "b"]),
        severity=st.sampled_from(Severity),
        weight=st.floats(0, 10),
    ),
    max_size=6,
)


@given(findings=FINDINGS, seed=st.randoms())
def test_the_order_does_not_depend_on_where_findings_came_from(findings, seed):
    ordered = worst_first(findings)
    assert sorted(map(repr, ordered)) == sorted(map(repr, findings))
    shuffled = list(findings)
    seed.shuffle(shuffled)
    assert worst_first(shuffled) == ordered
    assert worst_first(ordered) == ordered


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([("R101", "error", 0), ("C101", "error", 0)], ["C101", "R101"]),
        ([("C101", "warning", 0), ("R101", "error", 0)], ["R101", "C101"]),
        ([("A103", "note", 9), ("R105", "warning", 0)], ["R105", "A103"]),
        ([("R101", "error", 1), ("R102", "error", 2)], ["R102", "R101"]),
        ([("S101", "error", 0), ("I101", "error", 0), ("A102", "error", 0)], ["A102", "S101", "I101"]),
    ],
)
def test_the_worst_comes_first(findings, expected):
    made = [Finding(code=Code[c], message="", severity=Severity(s), weight=w) for c, s, w in findings]
    assert [finding.code.name for finding in worst_first(made)] == expected
