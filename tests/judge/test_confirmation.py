"""Confirmation: what a run side by side with the baseline's commit makes of a stored time."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from perfguard.findings import Code, Severity
from perfguard.gate import judge_again, judge_time
from perfguard.judge.confirmation import PairedRun
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.reports.document import verdict_document, verdict_from_document
from perfguard.reports.overview import trade_off
from perfguard.reports.where import where_text
from tests.facts import HERE, measured
from tests.judge.test_time import FIVE, OPERATORS, examine, stored, timing
from tests.judge.test_verdict import ELSEWHERE

COMMIT = "3f2a91c" + 33 * "0"


class Beside:
    """Answers as a side-by-side run would, and remembers whether it was asked."""

    def __init__(self, *ratios: float, interleaved: bool = True, why_not: str = "", lost: str = "") -> None:
        self.found = lost or PairedRun(
            commit=COMMIT,
            ratio=statistics.median(ratios) if ratios else 1.0,
            ratios=ratios,
            interleaved=interleaved,
            base_us=2000.0,
            current_us=2400.0,
        )
        self.reason = why_not
        self.asked = 0

    def why_not(self, baseline):
        return self.reason

    def __call__(self, baseline):
        self.asked += 1
        return self.found


#: What the recording holds beside its time: as in the baseline.
SAME = [
    measured("operator_calls", 1, "aten::mm"),
    *(measured("operator_time", 10.0, name) for name in OPERATORS),
    *(measured("operator_calls", 1, name) for name in OPERATORS),
]


def judged(beside, *costs, policy=None, measurements=(), load=0.0, base=None, environment=HERE):
    verdict = examine(*SAME, *measurements, environment=environment, policy=policy)
    timings = [replace(timing(cost), others_share=load) for cost in costs]
    base = base or stored(*FIVE, environment=HERE)
    return judge_time(verdict, base, policy=policy or Policy(), run=lambda number: timings[number - 1], confirm=beside)


def decisive(verdict):
    return [f for f in verdict.findings if f.severity is not Severity.NOTE and f.code.family in "BR"]


SLOW = [2.5] * 5
QUIET = measured("run_machine_load", 1.0)
NEARLY = [2.15] * 5


@pytest.mark.parametrize(
    ("costs", "ratios", "asked", "outcome", "found"),
    [
        # Slower than stored: the run side by side decides, by the same tolerance.
        (SLOW, [1.2, 1.21, 1.19, 1.2, 1.22], 1, "FAILED", ["R101"]),
        (SLOW, [1.0, 1.01, 0.99, 1.0, 1.02], 1, "PASSED", ["B113"]),
        (SLOW, [1.07, 1.08, 1.06, 1.07, 1.09], 1, "PASSED", ["B113"]),
        (SLOW, [0.8] * 5, 1, "PASSED", ["B113"]),
        # Processes that do not agree are no slowdown: 4 of 5, or 3 of 3, have to point one way.
        (SLOW, [1.2, 1.2, 1.2, 0.99, 0.98], 1, "PASSED", ["B113"]),
        (SLOW, [1.2, 1.2, 1.2, 1.3, 0.98], 1, "FAILED", ["R101"]),
        (SLOW, [1.2, 1.3, 0.99], 1, "PASSED", ["B113"]),
        # Slower by more than half of the tolerance: the best of five is too coarse, so it is confirmed as well.
        (NEARLY, [1.15] * 5, 1, "FAILED", ["R101"]),
        (NEARLY, [1.09] * 5, 1, "PASSED", []),
        # Within it, or in one process only: nothing to confirm.
        ([2.05] * 5, [1.5] * 5, 0, "PASSED", []),
        ([2.5, 2.5, 2.5, 2.5, 2.0], [1.5] * 5, 0, "PASSED", []),
    ],
)
def test_side_by_side_decides_about_a_stored_time(costs, ratios, asked, outcome, found):
    beside = Beside(*ratios)
    verdict = judged(beside, *costs)
    assert (beside.asked, verdict.outcome.value) == (asked, outcome)
    assert [one.code.name for one in decisive(verdict)] == found
    assert len(verdict.timings) == (5 if asked else costs.index(min(costs)) + 1)


def test_the_one_time_is_that_of_the_run_side_by_side():
    verdict = judged(Beside(*[1.2] * 5), *SLOW)
    step = step_time_of(verdict)
    assert step is not None
    # By the clock of the fresh processes, as in every run; the change is that of the run side by side.
    assert (step.text, step.metric) == ("2.08 → 2.50 ms, +20.0 %", "step_ab")
    (worst,) = decisive(verdict)
    assert worst.message == (
        "step 2.08 → 2.50 ms, +20.0 % (allowed +10.0 %), confirmed by an A/B run with 3f2a91c in 5 processes"
    )
    cost = next(one for one in verdict.comparisons if one.metric == "step_cost")
    assert not cost.judged


@pytest.mark.parametrize(
    ("costs", "ratios"), [(SLOW, [1.2] * 5), (SLOW, [1.0] * 5), (NEARLY, [1.15] * 5), (NEARLY, [1.0] * 5)]
)
def test_a_report_that_is_judged_again_keeps_what_was_confirmed(costs, ratios):
    base = replace(stored(*FIVE, environment=HERE), commit=COMMIT)
    verdict = judged(Beside(*ratios), *costs, base=base)
    again = judge_again(verdict_from_document(verdict_document(verdict)), base, policy=Policy())
    assert (again.outcome, again.findings) == (verdict.outcome, verdict.findings)
    assert step_time_of(again) == step_time_of(verdict)
    # Beside another baseline the stored time is judged by itself.
    other = judge_again(verdict, replace(base, commit="0" * 40), policy=Policy())
    assert (other.outcome.value, "step_ab" in {one.metric for one in other.comparisons}) == (
        "FAILED" if costs == SLOW else "PASSED",
        False,
    )


STRICTER = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=0.05)),))


@pytest.mark.parametrize(
    ("policy", "outcome", "found"),
    [
        pytest.param(Policy(judge_time=False), "PASSED", [], id="time is off"),
        pytest.param(Policy(settings=(Rule(pattern="step_cost", tolerance=None),)), "PASSED", [], id="the step is off"),
        pytest.param(Policy(ignore=("R101",)), "PASSED", [], id="ignored"),
        # By other limits the stored time is judged by itself: the run side by side decided about another question.
        pytest.param(STRICTER, "FAILED", ["R101"], id="stricter"),
    ],
)
def test_a_report_is_judged_again_by_the_rules_of_now(policy, outcome, found):
    base = replace(stored(*FIVE, environment=HERE), commit=COMMIT)
    verdict = judged(Beside(*[1.2] * 5), *SLOW, base=base)
    assert verdict.outcome.value == "FAILED"
    again = judge_again(verdict, base, policy=policy)
    assert (again.outcome.value, [one.code.name for one in decisive(again)]) == (outcome, found)


def test_a_baseline_of_another_window_is_not_judged_by_what_was_confirmed():
    base = replace(stored(*FIVE, environment=HERE), commit=COMMIT)
    verdict = judged(Beside(*[1.2] * 5), *SLOW, base=base)
    other = replace(base, fingerprint=replace(base.fingerprint, threads=7))
    assert judge_again(verdict, other, policy=Policy()).outcome.value == "INCONCLUSIVE"


def test_a_confirmation_without_numbers_is_left_out():
    base = replace(stored(*FIVE, environment=HERE), commit=COMMIT)
    verdict = judged(Beside(*[1.0] * 5), *SLOW, base=base)
    damaged = tuple(
        replace(one, reference=None) if one.metric == "step_ab_time" else one for one in verdict.comparisons
    )
    assert judge_again(replace(verdict, comparisons=damaged), base, policy=Policy()).outcome.value == "FAILED"


@pytest.mark.parametrize(
    ("ratios", "outcome", "said"),
    [
        # Pairs of processes that took turns: all have to point one way, and five of them to confirm a change.
        ([1.2, 1.3, 1.2, 1.2, 1.2], "FAILED", "confirmed by an A/B run"),
        ([0.99, 1.11, 1.12, 1.2, 1.23], "PASSED", "not slower"),
        ([1.0, 1.2, 0.99], "PASSED", "not slower"),
        ([1.2, 1.3, 1.2], "FAILED", "not confirmed: in the A/B run with 3f2a91c 3 processes left a time, of 5 needed"),
    ],
)
def test_processes_that_took_turns_decide_by_their_own_rule(ratios, outcome, said):
    verdict = judged(Beside(*ratios, interleaved=False), *SLOW)
    assert verdict.outcome.value == outcome
    assert said in decisive(verdict)[0].message


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (Beside(why_not="baselines is in no git repository"), "not confirmed: baselines is in no git repository"),
        (Beside(lost="perfguard ab says: INVALID: no torch"), "not confirmed: perfguard ab says: INVALID: no torch"),
        (Beside(1.0, 1.0), "not confirmed: in the A/B run with 3f2a91c 2 processes left a time, of 3 needed"),
    ],
)
def test_without_a_run_side_by_side_the_stored_time_stands_and_says_why(beside, words):
    verdict = judged(beside, *SLOW)
    assert verdict.outcome.value == "FAILED"
    (worst,) = decisive(verdict)
    assert worst.message.endswith(f"worse in all of 5 fresh processes; {words}")
    # What nearly fails and cannot be confirmed passes as before, and needs no words.
    assert decisive(judged(Beside(why_not="no git"), *NEARLY)) == []


def test_an_upgrade_is_not_confirmed_away():
    newer = replace(HERE, packages={**HERE.packages, "torch": "99.0"})
    beside = Beside(*[1.0] * 5)
    verdict = judged(beside, *SLOW, environment=newer)
    assert (verdict.outcome.value, beside.asked) == ("FAILED", 0)
    assert "another torch is installed than for the baseline" in decisive(verdict)[0].message
    # perfguard itself is no part of a step.
    assert judged(beside, *SLOW, environment=replace(HERE, packages={**HERE.packages, "perfguard": "99.0"})).passed


def test_what_fails_for_another_reason_is_not_confirmed():
    beside = Beside(*[1.0] * 5)
    grown = judged(
        beside,
        *SLOW,
        measurements=[measured("peak_memory_bytes", 2_000_000)],
        base=_with(measured("peak_memory_bytes", 1_000_000)),
    )
    assert (grown.outcome.value, beside.asked) == ("FAILED", 0)


def _with(*more):
    base = stored(*FIVE, environment=HERE)
    return replace(base, measurements=(*base.measurements, *more))


def test_time_of_another_machine_or_switched_off_is_not_confirmed():
    beside = Beside(*[1.2] * 5)
    assert judged(beside, *SLOW, environment=ELSEWHERE).passed
    off = Policy(settings=(Rule(pattern="step_cost", tolerance=None),))
    assert judged(beside, *SLOW, policy=off).passed
    assert beside.asked == 0


def test_the_tolerance_of_the_user_decides_side_by_side_as_well():
    wide = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=0.5)),))
    assert not judged(Beside(*[1.6] * 5), *[3.2] * 5, policy=wide).passed
    assert judged(Beside(*[1.4] * 5), *[3.2] * 5, policy=wide).passed


# -- a busy machine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "outcome", "found"),
    [
        (1.0, 0.60, "INCONCLUSIVE", ["B112"]),
        (1.0, 0.10, "FAILED", ["R101"]),
        # It was as busy when the baseline was made.
        (60.0, 0.60, "FAILED", ["R101"]),
        # An older baseline does not say.
        (None, 0.60, "FAILED", ["R101"]),
    ],
)
def test_a_busy_machine_is_no_slower_step(before, now, outcome, found):
    base = _with(*([] if before is None else [measured("run_machine_load", before)]))
    verdict = judged(Beside(why_not="no git"), *SLOW, base=base, load=now)
    assert (verdict.outcome.value, [one.code.name for one in decisive(verdict)]) == (outcome, found)


@pytest.mark.parametrize(("few", "policy"), [(2, Policy()), (5, Policy(ignore=("R101",)))])
def test_what_would_only_warn_needs_no_excuse_on_a_busy_machine(few, policy):
    base = replace(stored(*FIVE[:few], environment=HERE), commit=COMMIT)
    base = replace(base, measurements=(*base.measurements, QUIET))
    verdict = judged(Beside(why_not="no git"), *SLOW, policy=policy, base=base, load=0.6)
    assert (verdict.outcome.value, [one.code.name for one in verdict.findings if one.code is Code.B112]) == (
        "PASSED",
        [],
    )


def test_what_fails_for_another_reason_on_a_busy_machine_blames_no_time():
    grown = measured("peak_memory_bytes", 2_000_000), measured("memory_allocated_bytes", 90, "cpu")
    base = _with(QUIET, measured("peak_memory_bytes", 1_000_000), measured("memory_allocated_bytes", 99, "cpu"))
    verdict = judged(Beside(why_not="no git"), *SLOW, measurements=grown, base=base, load=0.6)
    assert (verdict.outcome.value, [one.code.name for one in decisive(verdict)]) == ("FAILED", ["R102", "R106"])
    (told,) = (one for one in verdict.findings if one.code is Code.B112)
    assert (told.severity, told.message.partition(" %")[0]) == (Severity.NOTE, "other processes used 60")
    assert "step" not in trade_off(verdict)
    assert where_text(verdict) == ""


@pytest.mark.parametrize(("ratios", "outcome"), [([1.2] * 5, "FAILED"), ([1.0] * 5, "PASSED")])
def test_side_by_side_decides_on_a_busy_machine_as_well(ratios, outcome):
    beside = Beside(*ratios)
    verdict = judged(beside, *SLOW, base=_with(QUIET), load=0.6)
    assert (verdict.outcome.value, beside.asked) == (outcome, 1)
    assert not [one for one in verdict.findings if one.code.name == "B112"]


def test_on_a_busy_machine_only_what_would_fail_is_confirmed():
    beside = Beside(*[1.2] * 5)
    verdict = judged(beside, *NEARLY, base=_with(QUIET), load=0.6)
    assert (verdict.outcome.value, beside.asked, len(verdict.timings)) == ("PASSED", 0, 1)


def test_a_quiet_moment_among_the_processes_is_no_excuse():
    verdict = examine(*SAME, environment=HERE)
    shares = iter([0.6, 0.6, 0.02, 0.6, 0.6])
    slow = [replace(timing(2.5), others_share=share) for share in shares]
    found = judge_time(verdict, _with(QUIET), policy=Policy(), run=lambda number: slow[number - 1])
    assert found.outcome.value == "FAILED"


def test_a_wait_is_no_matter_of_the_run_side_by_side():
    """It times what a step costs: a sleep would be as long on neither side's CPU."""
    verdict = examine(*SAME, environment=HERE)
    waiting = [replace(timing(2.0, wall_ns=9_000_000), others_share=0.6) for _ in range(5)]
    base = _with(QUIET, measured("run_blocked_time", 0.0, samples=(0.0,) * 5))
    beside = Beside(*[1.0] * 5)
    found = judge_time(verdict, base, policy=Policy(), run=lambda number: waiting[number - 1], confirm=beside)
    assert (found.outcome.value, beside.asked) == ("INCONCLUSIVE", 0)


def test_what_the_user_ignores_stays_ignored():
    verdict = judged(Beside(*[1.2] * 5), *NEARLY, policy=Policy(ignore=("R101",)))
    assert verdict.outcome.value == "PASSED"
    assert any("(ignored: R101)" in one.message for one in verdict.findings)


def test_the_step_does_not_decide_what_changed_operators_weigh():
    """A fusion: what replaced two operators weighs less than the doubt about its cost, whether or not the step got slower."""
    share = {"aten::a": 0.3, "aten::b": 0.3, "aten::rest": 0.4}
    now_share = {"aten::fused": 0.65, "aten::rest": 0.35}

    def step(shares):
        return [
            *(measured("operator_calls", 1, name) for name in shares),
            *(measured("operator_share", value, name) for name, value in shares.items()),
            *(measured("operator_time", 100 * value, name) for name, value in shares.items()),
            measured("operator_set", sorted(shares)),
        ]

    base = replace(stored(*FIVE, environment=HERE), measurements=())
    base = replace(base, measurements=(*step(share), measured("step_cost", 2.0, samples=FIVE)))
    verdict = examine(*step(now_share), environment=HERE)

    def timed(cost, confirm=None):
        slow = [timing(cost)] * 5
        return judge_time(verdict, base, policy=Policy(), run=lambda number: slow[number - 1], confirm=confirm)

    slower, same = timed(2.5), timed(2.0)
    assert [one.code.name for one in decisive(slower)] == ["R101", "R107"]
    assert [one.code.name for one in decisive(same)] == ["R107"]
    assert [f.message for f in decisive(slower)][1:] == [f.message for f in decisive(same)]
    beside = Beside(*[1.0] * 5)
    assert (timed(2.5, beside).outcome.value, beside.asked) == ("CHANGED", 1)
    # Where that cannot be, the stored time stands, and says so; the operators do not.
    time, operators = decisive(timed(2.5, Beside(lost="no git")))
    assert time.message.endswith("; not confirmed: no git")
    assert "not confirmed" not in operators.message
