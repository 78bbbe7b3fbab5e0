"""Two sides timed beside each other: what processes come to, symmetrical, and never from too few of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.gate import compare_paired, is_to_be_confirmed
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.pairs import Pace, agreeing_of, effect_of, paired, with_pairs
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement
from perfguard.timing import LostRun, PairedTiming
from tests.facts import FINGERPRINT

BASE_NS = 1_000_000


def process(percent: float, *, interleaved: bool = True, base: int = BASE_NS) -> PairedTiming:
    """One process, or pair of processes, in which every step costs so many per cent more than the base's."""
    current = round(base * (1 + percent / 100))
    return PairedTiming(interleaved=interleaved, base_ns=(base,) * 5, current_ns=(current,) * 5)


def processes(*percents: float, interleaved: bool = True) -> tuple[PairedTiming, ...]:
    return tuple(process(percent, interleaved=interleaved) for percent in percents)


# -- one process -------------------------------------------------------------------------------------------------------


def test_interleaved_steps_are_compared_pair_by_pair_and_the_median_counts():
    timing = PairedTiming(interleaved=True, base_ns=(100, 200, 300), current_ns=(110, 220, 3000))
    assert effect_of(timing) == pytest.approx(math.log(1.1))


def test_of_blocks_the_minima_are_compared():
    timing = PairedTiming(interleaved=False, base_ns=(100, 200, 900), current_ns=(120, 500))
    assert effect_of(timing) == pytest.approx(math.log(1.2))


@pytest.mark.parametrize("interleaved", [True, False])
def test_where_a_clock_saw_no_time_go_by_there_is_no_number(interleaved):
    assert effect_of(PairedTiming(interleaved=interleaved, base_ns=(0, 0), current_ns=(5, 5))) is None
    assert effect_of(PairedTiming(interleaved=interleaved, base_ns=(5,), current_ns=(0,))) is None


def test_a_pair_without_a_time_is_left_out():
    timing = PairedTiming(interleaved=True, base_ns=(0, 100, 100), current_ns=(100, 0, 120))
    assert effect_of(timing) == pytest.approx(math.log(1.2))


# -- all of them -------------------------------------------------------------------------------------------------------

INTERLEAVED = [
    ((5.2, 5.2, 5.2, 5.2, 5.2), Pace.SLOWER),
    ((4.8, 4.8, 4.8, 4.8, 4.8), Pace.SAME),
    # The median counts, and one process of five may point the other way.
    ((-1.0, 5.5, 5.5, 6.0, 90.0), Pace.SLOWER),
    ((-1.0, -1.0, 5.5, 6.0, 90.0), Pace.SAME),
    ((0.0, 0.0, 0.0, 90.0, 90.0), Pace.SAME),
    ((-6.0, -6.0, -6.0, -6.0, 1.0), Pace.FASTER),
    ((-6.0, -6.0, -6.0, 1.0, 1.0), Pace.SAME),
    # Lost ones: four must all agree, and so must three.
    ((-1.0, 6.0, 6.0, 6.0), Pace.SAME),
    ((1.0, 6.0, 6.0, 6.0), Pace.SLOWER),
    ((-1.0, 9.0, 9.0), Pace.SAME),
    ((1.0, 9.0, 9.0), Pace.SLOWER),
    ((9.0, 9.0), Pace.UNDECIDED),
    ((90.0,), Pace.UNDECIDED),
    ((), Pace.UNDECIDED),
]


@pytest.mark.parametrize("percents, pace", INTERLEAVED)
def test_interleaved(percents, pace):
    assert paired(processes(*percents)).pace is pace


TURNS = [
    ((4.2, 4.2, 4.2), Pace.SLOWER),
    ((3.8, 3.8, 3.8), Pace.SAME),
    # The mean counts, in logarithms, and all three have to point one way.
    ((0.5, 3.0, 10.0), Pace.SLOWER),
    ((-1.0, 4.0, 10.0), Pace.SAME),
    ((20.0, -0.5, 2.3), Pace.SAME),
    # Of five, which confirm it, the median.
    ((0.5, 1.0, 2.0, 10.0, 30.0), Pace.SAME),
    ((0.5, 1.0, 4.2, 10.0, 30.0), Pace.SLOWER),
    ((-0.5, 4.5, 5.0, 5.0, 5.0), Pace.SAME),
    ((-4.2, -4.2, -4.2), Pace.FASTER),
    ((30.0, 30.0), Pace.UNDECIDED),
    ((), Pace.UNDECIDED),
]


@pytest.mark.parametrize("percents, pace", TURNS)
def test_in_turns(percents, pace):
    found = paired(processes(*percents, interleaved=False))
    assert found.pace is pace
    assert found.allowed == thresholds.BLOCK_TOLERANCE or not percents


def test_sensitive_is_for_all_five_and_only_where_both_share_a_process():
    assert paired(processes(*[3.2] * 5), sensitive=True).pace is Pace.SLOWER
    assert paired(processes(*[3.2] * 5)).pace is Pace.SAME
    assert paired(processes(*[3.2] * 4), sensitive=True).pace is Pace.SAME
    assert paired(processes(*[3.2] * 3, interleaved=False), sensitive=True).pace is Pace.SAME


def test_a_tolerance_of_the_users_own_goes_before_the_measured_one():
    assert paired(processes(*[9.0] * 5), tolerance=0.10).pace is Pace.SAME
    assert paired(processes(*[9.0] * 5), tolerance=0.02).allowed == 0.02


@pytest.mark.parametrize("count, agreeing", [(3, 3), (4, 4), (5, 4), (6, 5), (10, 8), (0, 0)])
def test_how_many_have_to_agree(count, agreeing):
    assert agreeing_of(count) == agreeing


PERCENTS = st.lists(st.floats(-60, 150), min_size=0, max_size=9)


# The largest change that is allowed: rounding may not decide for one side alone.
@example([0.0, 1.0, 3.0, 3.0, 3.0], True, True)
@given(PERCENTS, st.booleans(), st.booleans())
def test_swapping_the_sides_swaps_slower_and_faster(percents, interleaved, sensitive):
    there = tuple(process(percent, interleaved=interleaved) for percent in percents)
    back = tuple(
        PairedTiming(interleaved=one.interleaved, base_ns=one.current_ns, current_ns=one.base_ns) for one in there
    )
    found, swapped = paired(there, sensitive=sensitive), paired(back, sensitive=sensitive)
    opposite = {Pace.SLOWER: Pace.FASTER, Pace.FASTER: Pace.SLOWER}
    assert swapped.pace is opposite.get(found.pace, found.pace)
    assert math.log(swapped.ratio) == pytest.approx(-math.log(found.ratio), abs=1e-12)


@given(PERCENTS, st.booleans(), st.randoms())
def test_the_order_of_processes_does_not_matter(percents, interleaved, draw):
    timings = [process(percent, interleaved=interleaved) for percent in percents]
    before = paired(timings)
    draw.shuffle(timings)
    assert paired(timings).pace is before.pace


@given(PERCENTS, st.integers(1, 50))
def test_a_step_so_many_times_as_long_on_both_sides_changes_nothing(percents, times):
    timings = [process(percent) for percent in percents]
    longer = [
        PairedTiming(
            interleaved=True,
            base_ns=tuple(times * ns for ns in one.base_ns),
            current_ns=tuple(times * ns for ns in one.current_ns),
        )
        for one in timings
    ]
    assert paired(longer).pace is paired(timings).pace


@given(st.lists(st.floats(5.1, 100), min_size=5, max_size=5))
def test_what_is_slower_in_all_of_five_is_slower(percents):
    assert paired(processes(*percents)).pace is Pace.SLOWER


# -- the verdict -------------------------------------------------------------------------------------------------------


def compared_verdict(outcome: Outcome = Outcome.PASSED, findings: tuple[Finding, ...] = ()) -> Verdict:
    exact = Comparison(metric="steps", subject="", state=State.SAME, judged=True, reference=3, current=3)
    return Verdict(workload="t.py::t", outcome=outcome, findings=findings, comparisons=(exact,))


def judged(*percents: float, interleaved: bool = True, lost: tuple[LostRun, ...] = (), policy: Policy | None = None):
    timings = processes(*percents, interleaved=interleaved)
    return with_pairs(compared_verdict(), timings, lost, policy=policy or Policy())[0]


def test_a_slower_step_fails_with_one_time_and_one_percentage():
    verdict = judged(8.0, 9.0, 7.0, 8.5, 7.5)
    assert verdict.outcome is Outcome.FAILED
    (finding,) = verdict.findings
    assert finding.code is Code.R101
    assert finding.message == ("step 1.00 → 1.08 ms, +8.0 % (allowed +5.0 %), slower step by step in 5 processes")
    assert {c.metric: c.state for c in verdict.comparisons}["step_ab"] is State.WORSE
    assert next(m for m in verdict.measurements if m.metric == "step_ab").samples == (1.08, 1.09, 1.07, 1.085, 1.075)
    assert verdict.coverage.worse == 1


def test_a_faster_step_is_told_and_passes():
    verdict = judged(-8.0, -9.0, -7.0, interleaved=False)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.findings[0].severity is Severity.NOTE
    assert "reported beyond −3.8 %), faster in 3 alternating pairs of processes" in verdict.findings[0].message


def test_the_same_step_passes_without_a_word():
    verdict = judged(0.3, -0.4, 0.0, 1.0, -1.0)
    assert (verdict.outcome, verdict.findings) == (Outcome.PASSED, ())
    assert verdict.coverage.compared == 2


def test_lost_processes_are_told_and_the_others_count():
    lost = (LostRun(number=2, reason="was ended by SIGKILL"), LostRun(number=4, reason="hung"))
    verdict = judged(8.0, 9.0, 7.0, lost=lost)
    assert verdict.outcome is Outcome.FAILED
    assert [f.code for f in verdict.findings] == [Code.R101, Code.B109, Code.B109]
    assert judged(0.0, 0.0, 0.0, lost=lost).outcome is Outcome.PASSED


def test_with_too_few_left_time_decides_nothing_and_nothing_is_green():
    verdict = judged(80.0, 90.0, lost=(LostRun(number=1, reason="crashed"),))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "B108" in {f.code.name for f in verdict.findings}
    assert {c.metric: c.state for c in verdict.comparisons}["step_ab"] is State.NOT_COMPARABLE
    assert with_pairs(compared_verdict(), (), (), policy=Policy())[0].outcome is Outcome.INCONCLUSIVE


def test_a_change_that_could_not_be_confirmed_decides_nothing():
    """Two more pairs were to confirm what three have seen, and were lost."""
    lost = tuple(LostRun(number=number, reason="hung") for number in (4, 5, 6, 7))
    assert judged(8.0, 9.0, 7.0, interleaved=False, lost=lost).outcome is Outcome.INCONCLUSIVE
    assert judged(8.0, 9.0, 7.0, 8.0, 9.0, interleaved=False).outcome is Outcome.FAILED


def test_pairs_are_confirmed_by_the_tolerance_of_the_test():
    timings = processes(3.0, 3.0, 3.0, interleaved=False)
    strict = (Rule(pattern="step_ab", tolerance=Tolerance(relative=0.02)),)
    plain, marked = compared_verdict(), replace(compared_verdict(), rules=strict)
    assert not is_to_be_confirmed(timings, plain, policy=Policy())
    assert is_to_be_confirmed(timings, plain, policy=Policy(settings=strict))
    assert is_to_be_confirmed(timings, marked, policy=Policy())


def test_the_rules_of_the_test_go_first():
    exact = Measurement(metric="steps", subject="", value=3)
    base = replace(compared_verdict(), comparisons=(), measurements=(exact,), fingerprint=FINGERPRINT)
    wide = replace(base, rules=(Rule(pattern="step_ab", tolerance=Tolerance(relative=0.2)),))
    ignoring = replace(base, ignore=("R101",))
    slower = processes(*[8.0] * 5)
    outcomes = [
        compare_paired(base, one, slower, (), policy=Policy())[0].outcome.value for one in (base, wide, ignoring)
    ]
    assert outcomes == ["FAILED", "PASSED", "PASSED"]


def test_an_exact_change_fails_whatever_time_says():
    exact = Finding(code=Code.R102, place="steps", message="steps 3 → 4")
    for timings in ((), processes(*[0.0] * 5), processes(80.0)):
        verdict = with_pairs(compared_verdict(Outcome.FAILED, (exact,)), timings, (), policy=Policy())[0]
        assert verdict.outcome is Outcome.FAILED


@pytest.mark.parametrize("outcome", [Outcome.INVALID, Outcome.INCONCLUSIVE])
def test_what_could_not_be_compared_stays_so(outcome):
    verdict = with_pairs(compared_verdict(outcome), processes(*[90.0] * 5), (), policy=Policy())[0]
    assert verdict.outcome is outcome


def test_the_user_may_show_it_only_or_widen_it():
    off = Policy(settings=(Rule(pattern="step_ab", tolerance=None),))
    assert judged(*[90.0] * 5, policy=off).outcome is Outcome.PASSED
    assert judged(90.0, policy=off).outcome is Outcome.PASSED
    wide = Policy(settings=(Rule(pattern="step_ab", tolerance=Tolerance(relative=1.0)),))
    assert judged(*[90.0] * 5, policy=wide).outcome is Outcome.PASSED


def test_times_of_one_side_after_the_other_decide_nothing():
    late = Finding(code=Code.R101, place="step_time", message="step_time 1 → 9 us")
    slow = Comparison(
        metric="step_time", subject="", state=State.WORSE, judged=True, reference=1.0, current=9.0, finding=late
    )
    verdict = Verdict(workload="t", outcome=Outcome.FAILED, findings=(late,), comparisons=(slow,))
    found = with_pairs(verdict, processes(*[0.0] * 5), (), policy=Policy())[0]
    assert (found.outcome, found.findings) == (Outcome.PASSED, ())
    assert found.coverage.shown_only == 2


def waiting(base_us: float, current_us: float, clock: str = "process") -> PairedTiming:
    """A process whose steps cost 5 ms on both sides, and stand still for so long."""
    cost_ns = (5_000_000,) * 4
    return PairedTiming(
        interleaved=True,
        base_ns=cost_ns,
        current_ns=cost_ns,
        base_wall_ns=tuple(cost + round(1e3 * base_us) for cost in cost_ns),
        current_wall_ns=tuple(cost + round(1e3 * current_us) for cost in cost_ns),
        clock=clock,
    )


@pytest.mark.parametrize(
    ("timings", "outcome", "found"),
    [
        ([waiting(10, 20_000)] * 5, Outcome.FAILED, [Code.R101]),
        ([waiting(10, 1_020)] * 5, Outcome.FAILED, [Code.R101]),
        ([waiting(10, 900)] * 5, Outcome.PASSED, []),
        # A base that sleeps may sleep twice as long.
        ([waiting(5_000, 9_900)] * 5, Outcome.PASSED, []),
        ([waiting(5_000, 10_100)] * 5, Outcome.FAILED, [Code.R101]),
        ([waiting(20_000, 10)] * 5, Outcome.PASSED, []),
        # Other processes make a step wait now and then: what one process did not see only warns.
        ([*[waiting(10, 20_000)] * 4, waiting(10, 10)], Outcome.PASSED, [Code.R105]),
        ([*[waiting(10, 10)] * 4, waiting(10, 20_000)], Outcome.PASSED, []),
        # Where a device does the work, waiting for it is no stall.
        ([waiting(10, 20_000, "wall")] * 5, Outcome.PASSED, []),
    ],
)
def test_a_step_that_stands_still_fails_though_it_costs_no_more(timings, outcome, found):
    verdict = with_pairs(compared_verdict(), tuple(timings), (), policy=Policy())[0]
    assert verdict.outcome is outcome
    assert [f.code for f in verdict.findings] == found


def test_the_time_of_a_step_that_stands_still_is_its_whole_time():
    verdict = with_pairs(compared_verdict(), (waiting(1000, 20_000),) * 5, (), policy=Policy())[0]
    step = step_time_of(verdict)
    assert step is not None
    assert step.text == "6.00 → 25.0 ms, +316.7 %"
    assert verdict.findings[0].message.startswith("step 6.00 → 25.0 ms, +316.7 %; it waits longer: ")


def test_waits_are_not_judged_where_the_user_switched_them_off():
    off = Policy(settings=(Rule(pattern="run_blocked_time", tolerance=None),))
    assert with_pairs(compared_verdict(), (waiting(10, 20_000),) * 5, (), policy=off)[0].findings == ()
