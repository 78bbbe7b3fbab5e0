"""The rule for time: five processes of a baseline, fresh ones until one is quick enough, and whose fault it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Severity
from perfguard.gate import judge_time, seems_suspect
from perfguard.judge.machine import common_mode
from perfguard.judge.shown_time import step_time_of, without_details
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome
from perfguard.timing import LostRun, Timing
from tests.facts import HERE, baseline, measured
from tests.judge.test_verdict import ELSEWHERE, examine

KERNEL_NS = 1_000_000
FIVE = (2.0, 2.1, 2.05, 2.2, 2.0)
#: What controlled processes can fail by.
JUDGED = ("step_cost", "run_blocked_time", "host_memory_growth_bytes")
OPERATORS = [f"aten::op{number}" for number in range(8)]


def timing(cost: float, *, kernel: float = 1.0, wall_ns: int | None = None) -> Timing:
    """One process whose steps cost `cost` kernels of `kernel` ms."""
    kernel_ns = round(KERNEL_NS * kernel)
    step_ns = round(cost * kernel_ns)
    wall = step_ns if wall_ns is None else wall_ns
    return Timing(
        workload="w",
        clock="process",
        thread_cpu_ns=(step_ns,) * 3,
        process_cpu_ns=(step_ns,) * 3,
        wall_ns=(wall,) * 3,
        calibration_ns=(kernel_ns,) * 3,
        run_queue_ns=(0,) * 3,
    )


def stored(*costs: float, kernel_us: float = 1000.0, operators: float = 10.0, **facts):
    """A baseline of so many processes, with eight operators beside."""
    return baseline(
        measured("operator_calls", 1, "aten::mm"),
        *(measured("operator_time", operators, name) for name in OPERATORS),
        *(measured("operator_calls", 1, name) for name in OPERATORS),
        *([measured("step_cost", min(costs), samples=tuple(costs))] if costs else []),
        measured("run_calibration", kernel_us, samples=(kernel_us,)),
        **facts,
    )


def judged(base, *found, operators: float = 10.0, policy: Policy | None = None, **facts):
    """Judge; each process that is asked for gives the next of `found`. Returns the verdict and how many were asked for."""
    verdict = examine(
        measured("operator_calls", 1, "aten::mm"),
        *(measured("operator_time", operators, name) for name in OPERATORS),
        *(measured("operator_calls", 1, name) for name in OPERATORS),
        **facts,
    )
    asked = []

    def run(number):
        asked.append(number)
        one = found[number - 1]
        return replace(one, number=number) if isinstance(one, LostRun) else one

    return judge_time(verdict, base, policy=policy or Policy(), run=run), asked


def codes(verdict, severity=Severity.ERROR):
    return [f.code.name for f in verdict.findings if f.severity is severity]


LOST = LostRun(number=1, reason="was ended by SIGKILL")


# -- five of five ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "asked", "outcome", "errors"),
    [
        ([2.0], 1, "PASSED", []),
        ([2.19], 1, "PASSED", []),
        ([2.21, 2.1], 2, "PASSED", []),
        ([2.3, 2.4, 2.5, 2.6, 2.19], 5, "PASSED", []),
        ([2.3, 2.4, 2.5, 2.6, 2.21], 5, "FAILED", ["R101"]),
        ([9.0] * 5, 5, "FAILED", ["R101"]),
        ([1.0], 1, "PASSED", []),
    ],
)
def test_a_test_passes_with_the_first_quick_process_and_fails_after_five_slow_ones(costs, asked, outcome, errors):
    verdict, numbers = judged(stored(*FIVE), *map(timing, costs))
    assert (verdict.outcome.value, codes(verdict)) == (outcome, errors)
    assert numbers == list(range(1, asked + 1))
    assert len(verdict.timings) == asked


@given(costs=st.lists(st.floats(1.0, 4.0), min_size=5, max_size=5), tolerance=st.floats(0.01, 1.0))
def test_passing_early_is_the_same_as_asking_five(costs, tolerance):
    policy = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=tolerance)),))
    verdict, _ = judged(stored(*FIVE), *map(timing, costs), policy=policy)
    best = min(round(round(cost * KERNEL_NS) / KERNEL_NS, 6) for cost in costs)
    assert verdict.passed is not (best - 2.0 > 2.0 * tolerance)


@given(costs=st.lists(st.floats(1.0, 4.0), min_size=1, max_size=4), tolerance=st.floats(0.01, 1.0))
def test_the_forecast_is_what_the_judge_does(costs, tolerance):
    policy = Policy(settings=(Rule(pattern="step_cost", tolerance=Tolerance(relative=tolerance)),))
    timings = tuple(replace(timing(cost), environment=HERE) for cost in costs)
    _, asked = judged(stored(*FIVE), *timings, *[timing(1.0)] * 5, policy=policy)
    assert seems_suspect(timings, stored(*FIVE), policy=policy) is (len(asked) > len(costs))


def test_nothing_is_forecast_of_another_machine():
    slow = (replace(timing(9.0), environment=ELSEWHERE),)
    assert not seems_suspect(slow, stored(*FIVE), policy=Policy())


def test_the_message_has_one_time_and_one_percentage():
    verdict, _ = judged(stored(*FIVE), *map(timing, (2.4, 2.5, 2.3, 2.6, 2.8)))
    (found,) = [f.message for f in verdict.findings if f.code.name == "R101"]
    assert found == "step 2.00 → 2.30 ms, +15.0 % (allowed +10.0 %), worse in all of 5 fresh processes"


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_a_baseline_of_fewer_processes_only_warns_and_says_so(runs):
    verdict, numbers = judged(stored(*FIVE[:runs]), *map(timing, [9.0] * 5))
    assert (verdict.outcome, len(numbers)) == (Outcome.PASSED, 5)
    (warning,) = [f.message for f in verdict.findings if f.code.name == "R105" and f.place == "step_cost"]
    assert f"this only warns, as the baseline has {runs} of 5 runs: perfguard baseline refresh --runs 5" in warning


def test_a_baseline_of_fifty_fails_nothing_that_one_of_five_passes():
    # One lucky process in fifty says little of what five come to.
    fifty = [1.5, *([2.0, 2.1, 2.2, 2.05, 2.15] * 10)[1:]]
    assert judged(stored_with_value(fifty), timing(2.1))[0].passed
    assert not judged(stored_with_value(fifty), *map(timing, [2.3] * 5))[0].passed


def stored_with_value(samples):
    from perfguard.measure.runs import best_of_runs

    base = stored(*samples)
    cost = measured("step_cost", best_of_runs(samples), samples=tuple(samples))
    return replace(base, measurements=tuple(cost if m.metric == "step_cost" else m for m in base.measurements))


# -- processes that are lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "outcome", "lost"),
    [
        ([LOST, timing(2.0)], "PASSED", 1),
        ([timing(2.5), timing(2.5), LOST, timing(2.0)], "PASSED", 1),
        ([timing(2.5), timing(2.5), LOST, timing(2.5), timing(2.5)], "FAILED", 1),
        ([timing(2.5), LOST, LOST, timing(2.5), timing(2.5)], "FAILED", 2),
        ([timing(2.5), LOST, LOST, LOST, timing(2.5)], "INCONCLUSIVE", 3),
        ([LOST] * 5, "INCONCLUSIVE", 5),
    ],
)
def test_the_others_count_as_long_as_three_are_left(found, outcome, lost):
    verdict, _ = judged(stored(*FIVE), *found)
    assert verdict.outcome.value == outcome
    assert codes(verdict, Severity.WARNING).count("B109") == lost
    assert ("B108" in codes(verdict)) is (outcome == "INCONCLUSIVE")


# -- where time is not judged ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "facts", "policy"),
    [
        (stored(*FIVE), {"environment": ELSEWHERE}, Policy()),
        (stored(*FIVE), {}, Policy(settings=tuple(Rule(pattern=name, tolerance=None) for name in JUDGED))),
        (stored(), {}, Policy()),
        (None, {}, Policy()),
    ],
    ids=["another machine", "off", "a baseline without runs", "no baseline"],
)
def test_no_process_is_started_that_nobody_would_judge(base, facts, policy):
    verdict, numbers = judged(base, policy=policy, **facts)
    assert numbers == []
    assert "R101" not in codes(verdict)


def test_a_baseline_without_runs_is_said():
    verdict, _ = judged(stored())
    assert verdict.outcome is Outcome.PASSED
    assert codes(verdict, Severity.NOTE) == ["B108"]


@pytest.mark.parametrize(
    ("facts", "policy", "outcome"),
    [
        ({}, Policy(), "INCONCLUSIVE"),
        ({}, Policy(judge_time=False), "PASSED"),
        ({"environment": ELSEWHERE}, Policy(), "PASSED"),
        ({}, Policy(settings=tuple(Rule(pattern=name, tolerance=None) for name in JUDGED)), "PASSED"),
        # Nothing is better about a run that lost a time, and something else is worse.
        ({"operators": 0}, Policy(), "FAILED"),
    ],
    ids=["here", "time off", "another machine", "off", "a worse run"],
)
def test_a_stored_time_that_is_not_measured_any_more_is_not_green(facts, policy, outcome):
    verdict = examine(measured("operator_calls", 1, "aten::mm"), **{k: v for k, v in facts.items() if k != "operators"})
    base = baseline(
        measured("operator_calls", 1, "aten::mm"),
        measured("step_cost", 2.0, samples=FIVE),
        *([measured("steps", 5)] if "operators" in facts else []),
    )
    found = judge_time(verdict, base, policy=policy, run=None)
    lost = [f.place for f in found.findings if f.code.name == "B108" and f.severity is Severity.ERROR]
    assert (found.outcome.value, lost) == (outcome, [] if outcome == "PASSED" else ["step_cost"])


@pytest.mark.parametrize(
    ("steps", "outcome"),
    # A test that times fewer steps than before loses the growth of the memory; else the window was short by chance.
    [((30, 3), "INCONCLUSIVE"), ((5, 5), "PASSED"), ((5, 30), "PASSED")],
)
def test_a_leak_that_a_shorter_test_cannot_see_is_not_green(steps, outcome):
    before, now = (measured("step_time", 10.0, samples=(10.0,) * count) for count in steps)
    base = baseline(before, measured("step_cost", 2.0, samples=FIVE), measured("host_memory_growth_bytes", 300.0))
    asked = []

    def run(number):
        asked.append(number)
        return timing(2.0)

    verdict = judge_time(examine(now), base, policy=Policy(), run=run)
    found = next(f for f in verdict.findings if f.code.name == "B108")
    assert (verdict.outcome.value, found.place) == (outcome, "host_memory_growth_bytes")
    assert len(asked) == (1 if outcome == "PASSED" else 5)


# -- the machine moved ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "operators", "outcome", "errors"),
    [
        # Everything moved by one factor: the machine.
        (1.2, 13.0, "INCONCLUSIVE", ["B107"]),
        # The operators moved and the kernel did not: the model, or its framework.
        (1.0, 13.0, "FAILED", ["R101"]),
        (1.04, 13.0, "FAILED", ["R101"]),
        # The kernel moved and the operators did not.
        (1.2, 10.0, "FAILED", ["R101"]),
        # More than a kernel of 1.1 explains.
        (1.1, 20.0, "FAILED", ["R101"]),
        # The kernel moved so far that nothing is known.
        (1.6, 10.0, "INCONCLUSIVE", ["B107"]),
    ],
)
def test_whose_fault_it_is(kernel, operators, outcome, errors):
    slow = [timing(2.5, kernel=kernel)] * 5
    verdict, _ = judged(stored(*FIVE), *slow, operators=operators)
    assert (verdict.outcome.value, codes(verdict)) == (outcome, errors)


def test_of_a_device_the_kernel_says_nothing():
    """Its steps are counted in ms: 2 and 2.5, whatever the host's kernel did."""
    base = stored(*FIVE)
    for kernel, cost in ((1.6, 2.5), (0.7, 2.5), (1.6, 2.0)):
        slow = replace(timing(1.0, kernel=kernel, wall_ns=round(cost * 1e6)), clock="wall")
        verdict, _ = judged(base, *[slow] * 5, operators=13.0)
        assert (verdict.outcome.value, codes(verdict)) == (("FAILED", ["R101"]) if cost > 2.2 else ("PASSED", []))


def test_a_machine_that_moved_hides_no_step_that_moved_further():
    """As a line of Python does, which no operator shows."""
    verdict, _ = judged(stored(*FIVE), *[timing(3.0, kernel=1.06)] * 5, operators=10.6)
    assert (verdict.outcome.value, codes(verdict)) == ("FAILED", ["R101"])


def test_a_machine_that_moved_too_far_is_not_green_either():
    verdict, numbers = judged(stored(*FIVE), *[timing(2.0, kernel=1.7)] * 5, operators=17.0)
    assert (verdict.outcome.value, codes(verdict), len(numbers)) == ("INCONCLUSIVE", ["B107"], 5)
    (found,) = [f.message for f in verdict.findings if f.code.name == "B107"]
    assert found == ("the calibration kernel is 1.70 times what it was, 8 of 8 unchanged operators about 1.70 times")


def test_a_machine_that_moved_and_came_back_is_green():
    verdict, numbers = judged(stored(*FIVE), timing(2.0, kernel=1.7), timing(2.0))
    assert (verdict.outcome, len(numbers)) == (Outcome.PASSED, 2)


def test_what_is_exact_fails_on_a_machine_that_moved():
    base = stored(*FIVE)
    verdict, _ = judged(
        replace(base, measurements=(*base.measurements, measured("steps", 3))),
        *[timing(2.5, kernel=1.2)] * 5,
        operators=13.0,
    )
    assert verdict.outcome is Outcome.FAILED
    assert codes(verdict) == ["R103"]


@pytest.mark.parametrize(
    ("change", "controls"),
    [
        ({}, 8),
        ({"operator_calls": 2}, 7),
        ({"operator_shapes": {"[2]": 1}}, 7),
    ],
)
def test_only_what_did_not_change_is_a_control(change, controls):
    before = [m for m in stored(*FIVE).measurements if m.metric != "step_cost"]
    after = [replace(m, value=m.value * 1.3) if m.metric in ("operator_time", "run_calibration") else m for m in before]
    changed = [measured(metric, value, OPERATORS[0]) for metric, value in change.items()]
    after = [m for m in after if m.key not in {one.key for one in changed}] + changed
    found = common_mode(after, before)
    assert found is not None
    kernel, factor, sentence = found
    assert (round(kernel, 6), round(factor, 6)) == (1.3, 1.3)
    assert f"{controls} of {controls} unchanged operators" in sentence


def test_too_few_controls_say_nothing():
    few = stored(*FIVE)
    before = [m for m in few.measurements if m.metric != "operator_time" or m.subject in OPERATORS[:4]]
    after = [replace(m, value=m.value * 1.3) if m.metric in ("operator_time", "run_calibration") else m for m in before]
    assert common_mode(after, before) is None


def test_half_of_the_operators_is_no_common_mode():
    before = list(stored(*FIVE).measurements)
    slower = {*OPERATORS[:4]}
    after = [
        replace(m, value=m.value * (1.4 if m.metric == "run_calibration" else 1.7 if m.subject in slower else 1.0))
        if m.metric in ("operator_time", "run_calibration")
        else m
        for m in before
    ]
    assert common_mode(after, before) is None


# -- what a minimum of CPU time cannot see -----------------------------------------------------------------------------


def waiting(*baseline_us: float):
    """The baseline of five, whose steps waited so long."""
    base = stored(*FIVE)
    return replace(
        base,
        measurements=(*base.measurements, measured("run_blocked_time", min(baseline_us), samples=baseline_us)),
    )


def wall(*blocked_us: float) -> list[Timing]:
    """A process for each time that its steps of 2 ms wait."""
    return [timing(2.0, wall_ns=2_000_000 + round(1000 * one)) for one in blocked_us]


@pytest.mark.parametrize(
    ("baseline_us", "blocked_us", "asked", "outcome"),
    [
        # time.sleep(0.02) is new.
        (50.0, [20_100.0] * 5, 5, "FAILED"),
        (50.0, [1050.0] * 5, 1, "PASSED"),
        (50.0, [1051.0] * 5, 5, "FAILED"),
        # One process without it, as a busy machine leaves one in five, and it was the machine.
        (50.0, [1051.0, 9000.0, 1050.0], 3, "PASSED"),
        # A step that sleeps on purpose, on a bad day, and twice as long.
        (20_000.0, [20_000.0], 1, "PASSED"),
        (20_000.0, [39_000.0], 1, "PASSED"),
        (20_000.0, [41_000.0] * 5, 5, "FAILED"),
        (20_000.0, [50.0], 1, "PASSED"),
    ],
)
def test_a_stall_is_judged_like_the_cost(baseline_us, blocked_us, asked, outcome):
    verdict, numbers = judged(waiting(*[baseline_us] * 5), *wall(*blocked_us))
    assert (verdict.outcome.value, len(numbers)) == (outcome, asked)
    failed = [f.place for f in verdict.findings if f.severity is Severity.ERROR]
    assert failed == (["run_blocked_time"] if outcome == "FAILED" else [])


def test_what_is_said_of_a_stall():
    verdict, _ = judged(waiting(*[50.0] * 5), *wall(20_100, 20_200, 20_100, 20_300, 20_150))
    assert verdict.findings[0].message == (
        "run_blocked_time 0.05 → 20.1 ms, +20.1 ms (allowed +1 ms), "
        "worse in all of 5 fresh processes (possible causes: sleep, I/O, lock, data loader)"
    )


def test_a_stall_of_a_baseline_of_few_processes_only_warns():
    verdict, numbers = judged(waiting(50.0, 50.0), *wall(*[20_100.0] * 5))
    assert (verdict.outcome, len(numbers)) == (Outcome.PASSED, 5)
    assert [f.place for f in verdict.findings if f.severity is Severity.WARNING] == ["run_blocked_time"]


def test_a_baseline_that_knows_no_stall_is_not_judged_by_one():
    assert judged(stored(*FIVE), *wall(20_100.0))[0].outcome is Outcome.PASSED


def test_waiting_for_a_device_is_no_stall():
    base = replace(stored(*FIVE), environment=HERE)
    device = [replace(one, clock="wall", wall_ns=(2_000_000,) * 3, process_cpu_ns=(1000,) * 3) for one in wall(0.0)]
    assert judged(base, *device)[0].outcome is Outcome.PASSED


def test_a_machine_that_moved_explains_no_stall():
    """A quarter slower, kernel and operators alike; and the steps wait 20 ms."""
    slow = [timing(2.0, kernel=1.25, wall_ns=22_500_000)] * 5
    verdict, _ = judged(waiting(*[50.0] * 5), *slow, operators=12.5)
    assert (verdict.outcome.value, codes(verdict), verdict.findings[0].place) == (
        "FAILED",
        ["R101"],
        "run_blocked_time",
    )


# -- what a step keeps ---------------------------------------------------------------------------------------------------


def keeping(*bytes_a_step: float) -> list[Timing]:
    """A process for each: forty steps."""
    return [
        replace(timing(2.0), host_memory_bytes=tuple(round(10 * one * tenth) for tenth in range(5)))
        for one in bytes_a_step
    ]


@pytest.mark.parametrize(
    ("before", "kept", "asked", "outcome"),
    [
        (200.0, [65_800.0] * 5, 5, "FAILED"),
        (200.0, [8392.0] * 5, 1, "PASSED"),
        (200.0, [8393.0] * 5, 5, "FAILED"),
        (200.0, [65_800.0, 65_800.0, 200.0], 3, "PASSED"),
        # A step that keeps a mebibyte on purpose.
        (1 << 20, [1 << 20], 1, "PASSED"),
        (1 << 20, [1.3 * (1 << 20)] * 5, 5, "FAILED"),
    ],
)
def test_a_leak_is_judged_like_the_cost(before, kept, asked, outcome):
    base = stored(*FIVE)
    known = measured("host_memory_growth_bytes", before, samples=(before,) * 5)
    verdict, numbers = judged(replace(base, measurements=(*base.measurements, known)), *keeping(*kept))
    assert (verdict.outcome.value, len(numbers)) == (outcome, asked)
    failed = [f.message for f in verdict.findings if f.severity is Severity.ERROR]
    assert [message.partition(", +")[0] for message in failed] == {
        65_800.0: ["host_memory_growth_bytes 0.195 → 64.3 KiB/step"],
        8393.0: ["host_memory_growth_bytes 0.195 → 8.2 KiB/step"],
        1.3 * (1 << 20): ["host_memory_growth_bytes 1 → 1.3 MiB/step"],
    }.get(kept[-1], [])


# -- limits of the user's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost_is_off", [False, True])
def test_a_limit_of_the_users_own_fails_after_five_processes_too(cost_is_off):
    base = stored(*FIVE)
    base = replace(base, measurements=(*base.measurements, measured("run_wall_time", 2000.0, samples=(2000.0,) * 5)))
    rules = [Rule(pattern="run_wall_time", tolerance=Tolerance(relative=0.2))]
    if cost_is_off:
        rules.append(Rule(pattern="step_cost", tolerance=None))
    policy = Policy(settings=tuple(rules))
    verdict, numbers = judged(base, *[timing(2.0, wall_ns=7_000_000)] * 5, policy=policy)
    assert (len(numbers), codes(verdict), verdict.findings[0].place) == (5, ["R101"], "run_wall_time")
    verdict, numbers = judged(base, timing(2.0, wall_ns=7_000_000), timing(2.0), policy=policy)
    assert (len(numbers), verdict.outcome) == (2, Outcome.PASSED)


def test_here_is_where_the_baseline_is_from():
    assert stored(*FIVE).environment == HERE


def test_a_step_that_stands_still_has_one_time():
    """It also costs more, as a step does whose caches are cold; that is a part of its whole time."""
    base = stored(*FIVE)
    more = [
        measured("run_blocked_time", 100.0, samples=(100.0,) * 5),
        measured("run_cpu_time", 2000.0, samples=(2000.0,) * 5),
    ]
    base = replace(base, measurements=(*base.measurements, *more))
    verdict, _ = judged(base, *[timing(2.6, wall_ns=22_600_000)] * 5)
    assert codes(verdict) == ["R101", "R101"]
    (shown, *_) = without_details(verdict)
    assert shown.message.startswith(
        "step 2.10 → 22.6 ms, +976.2 %; it waits longer: run_blocked_time 0.1 → 20 ms, +19.9 ms (allowed +1 ms)"
    )
    assert [one.place for one in without_details(verdict) if one.severity is Severity.ERROR] == ["run_blocked_time"]
    step = step_time_of(verdict)
    assert step is not None
    assert step.text == "2.10 → 22.6 ms, +976.2 %"
