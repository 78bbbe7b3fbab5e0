"""The step time: one time and one change, whatever was measured and however it was judged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Code, Finding, Severity
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.shown_time import step_time_of, without_details
from perfguard.judge.step_time import StepTime, percent, three_digits
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement

TIMES = st.floats(1e-3, 1e9)


def verdict(*comparisons: Comparison, outcome: Outcome = Outcome.FAILED, findings=(), **measured: tuple[float, ...]):
    """Return a verdict; of each metric the first number is its value."""
    measurements = (Measurement(metric=m, subject="", value=v[0], samples=v) for m, v in measured.items())
    return Verdict(
        workload="w", outcome=outcome, findings=findings, comparisons=comparisons, measurements=tuple(measurements)
    )


def compared(metric: str, before: float, now: float, state: State = State.SAME, *, limit: float | None = None):
    judged = state is not State.NOT_COMPARABLE
    return Comparison(
        metric=metric, subject="", state=state, judged=judged, reference=before, current=now, allowed=limit
    )


FRESH = {"run_wall_time": (40_200.0, 40_900.0), "step_cost": (15.92,)}
COST = compared("step_cost", 10.0, 15.92, State.WORSE, limit=11.0)
OWN = {"step_time": (35_600.0, 36_000.0, 40_000.0)}


@pytest.mark.parametrize(
    "found, text, judged, source",
    [
        # The judged change goes with the time of the fresh processes, whatever the test's own process saw.
        (verdict(COST, compared("step_time", 12_000.0, 35_600.0), **FRESH, **OWN), "25.3 → 40.2 ms, +59.2 %", True, "2 fresh"),
        # Of the first run, or a refresh.
        (verdict(**FRESH, **OWN), "40.2 ms", False, "2 fresh processes"),
        (verdict(compared("step_time", 12_000.0, 35_600.0), **OWN), "12.0 → 35.6 ms, +196.7 %", False, "3 timed steps of"),
        (verdict(compared("step_time", 12_000.0, 35_600.0, limit=24_000.0), **OWN), "12.0 → 35.6 ms, +196.7 %", True, "3"),
        # Times of another machine are no reference.
        (verdict(compared("step_time", 12_000.0, 35_600.0, State.NOT_COMPARABLE), **OWN), "35.6 ms", False, "3 timed steps"),
        (
            verdict(compared("step_ab", 1.0, 1.08, State.WORSE), compared("step_ab_time", 1000.0, 1100.0), **OWN),
            "1.02 → 1.10 ms, +8.0 %",
            True,
            "fresh processes, A/B with the base",
        ),
        # A step that fails because it stands still is as long as whoever waits for it says.
        (
            verdict(
                compared("run_blocked_time", 0.0, 20_100.0, State.WORSE, limit=1000.0),
                compared("run_cpu_time", 6000.0, 6100.0),
                compared("step_cost", 10.0, 10.2, limit=11.0),
                **FRESH,
            ),
            "6.00 → 26.2 ms, +336.7 %",
            True,
            "2 fresh processes",
        ),
        (verdict(profiled_step_time=(500.0,)), "500 us", False, "1 profiled steps"),
    ],
    ids=["cost", "new", "own", "own, judged", "elsewhere", "ab", "stall", "profiled"],
)  # fmt: skip
def test_a_verdict_has_one_time_and_one_change(found, text, judged, source):
    step = step_time_of(found)
    assert (step.text, step.judged) == (text, judged)
    assert step.source.startswith(source)


@pytest.mark.parametrize(
    "now_ms, change, text, text_ms",
    [
        (0.4, 1.0, "200 → 400 us", "0.200 → 0.400"),
        (1.2, 0.5, "0.800 → 1.20 ms", "0.800 → 1.20"),
        (25_200.0, None, "25.2 s", "25200"),
    ],
)
def test_both_times_have_one_unit(now_ms, change, text, text_ms):
    step = StepTime(now_ms=now_ms, change=change, judged=True, metric="step_time", source="")
    assert (step.times, step.times_ms) == (text, text_ms)


@pytest.mark.parametrize("found", [verdict(), verdict(outcome=Outcome.INVALID, **FRESH), verdict(step_time=(0.0,))])
def test_without_a_time_of_a_whole_recording_there_is_none(found):
    assert step_time_of(found) is None


@given(before=TIMES, now=TIMES, wall_us=TIMES)
def test_the_two_times_never_contradict_the_percentage(before, now, wall_us):
    step = step_time_of(verdict(compared("step_cost", before, now, limit=1.1 * before), run_wall_time=(wall_us,)))
    if step.change is None:
        return
    assert step.now_ms == pytest.approx(wall_us / 1e3)
    assert step.now_ms / step.baseline_ms == pytest.approx(now / before)
    shown = step.plain
    # As it is shown: three digits of each time.
    assert shown["step_ms"] == pytest.approx(step.now_ms, rel=0.006, abs=1e-9)
    assert shown["step_baseline_ms"] == pytest.approx(step.baseline_ms, rel=0.006, abs=1e-9)


@given(st.floats())
def test_any_number_can_be_written(value):
    assert three_digits(value)
    assert percent(value).endswith(" %")


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0412, "0.0412"),
        (0.9996, "1.00"),
        (9.996, "10.0"),
        (25.24, "25.2"),
        (999.4, "999"),
        (999.6, "1000"),
        (0, "0"),
        (-25.24, "-25.2"),
        (1e150, "1e+150"),
    ],
)
def test_a_time_has_three_digits(value, text):
    assert three_digits(value) == text


def test_a_change_that_rounds_to_nothing_has_no_minus():
    assert [percent(one) for one in (0.592, -0.024, -0.0001)] == ["+59.2 %", "−2.4 %", "+0.0 %"]
    step = StepTime(now_ms=1.0, change=-0.0001, judged=True, metric="step_cost", source="")
    assert math.copysign(1, step.plain["step_change_percent"]) == 1


def warning(place: str, code: Code = Code.R105, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(code=code, place=place, severity=severity, message=place)


@pytest.mark.parametrize(
    "state, places, shown",
    [
        # The same slowdown, seen by other clocks.
        (State.WORSE, ["step_time", "step_cpu_time", "run_wall_p90"], []),
        # Slow steps alone are news; what the test's own process saw of a step that is judged is none.
        (State.SAME, ["step_time", "run_wall_p90"], ["run_wall_p90"]),
        (State.SAME, ["run_blocked_time", "peak_memory_bytes[cpu]"], ["run_blocked_time", "peak_memory_bytes[cpu]"]),
    ],
)
def test_other_measurements_of_the_step_are_details(state, places, shown):
    cost = compared("step_cost", 10.0, 15.92, state, limit=11.0)
    found = verdict(cost, findings=tuple(map(warning, places)), **FRESH)
    assert [one.place for one in without_details(found)] == shown


def test_slow_steps_that_got_quicker_are_a_detail():
    cost = compared("step_cost", 10.0, 10.1, limit=11.0)
    assert without_details(verdict(cost, findings=(warning("run_wall_p90", Code.R106),), **FRESH)) == ()


def test_what_the_user_judges_is_never_a_detail():
    failed = warning("step_time", Code.R101, Severity.ERROR)
    assert without_details(verdict(COST, findings=(failed,), **FRESH)) == (failed,)
    # Without fresh processes the test's own time is the one.
    own = verdict(
        compared("step_time", 10.0, 35_600.0), findings=(warning("step_time"), warning("step_cpu_time")), **OWN
    )
    assert [one.place for one in without_details(own)] == ["step_time"]
