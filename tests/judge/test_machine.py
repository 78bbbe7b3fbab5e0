"""The clock of a device: a time that it explains is nobody's fault, and decides nothing."""

from __future__ import annotations

import pytest

from perfguard.findings import Severity
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Verdict, compared
from tests.facts import baseline, codes, measured
from tests.judge.test_verdict import examine

TENTH = Tolerance(relative=0.1)
POLICY = Policy(settings=tuple(Rule(pattern=name, tolerance=TENTH) for name in ("kernel_time", "device_idle")))


def judged(mhz: float | None, us: float, *more, idle: float = 10.0) -> Verdict:
    """A kernel that took 100 us at 1800 MHz."""
    clocks = [] if mhz is None else [measured("device_clock", mhz, "npu:1")]
    now = [measured("kernel_time", us, "gemm"), measured("device_idle", idle, "npu:1"), *clocks, *more]
    before = [measured("kernel_time", 100.0, "gemm"), measured("device_idle", 10.0, "npu:1")]
    base = baseline(*before, measured("device_clock", 1800.0, "npu:1"), measured("operator_calls", 1, "aten::mm"))
    return compared(examine(*now, measured("operator_calls", 1, "aten::mm")), base, policy=POLICY)


@pytest.mark.parametrize(
    ("mhz", "us", "outcome"),
    [
        pytest.param(1800, 101, "PASSED", id="nothing happened"),
        pytest.param(1800, 125, "FAILED", id="slower at the same clock"),
        pytest.param(1476, 125, "INCONCLUSIVE", id="the clock explains it"),
        pytest.param(1476, 102, "PASSED", id="a slower clock and no slower time"),
        pytest.param(1476, 150, "FAILED", id="slower than the clock explains"),
        pytest.param(1760, 112, "FAILED", id="a clock that hardly moved"),
        pytest.param(2000, 125, "FAILED", id="a faster clock"),
        pytest.param(None, 125, "FAILED", id="no clock"),
    ],
)
def test_what_a_clock_explains(mhz, us, outcome):
    found = judged(mhz, us)
    assert found.outcome.value == outcome
    if outcome == "INCONCLUSIVE":
        assert [one.message for one in found.findings if one.code.name == "B107"] == [
            "the clock of npu:1 was at 82 % of the baseline's (1476 of 1800 MHz)"
        ]


@pytest.mark.parametrize(
    ("mhz", "cost", "outcome"),
    [(1980.0, 1.25, "FAILED"), (1584.0, 1.25, "INCONCLUSIVE"), (1584.0, 1.5, "FAILED"), (None, 1.25, "FAILED")],
)
def test_a_clock_that_a_driver_said_explains_the_cost_of_a_step(mhz, cost, outcome):
    """Without a driver that says one nothing is explained, and the lack of it fails nothing by itself."""
    before = [
        measured("step_cost", 1.0, samples=(1.0,) * 5),
        measured("run_device_clock", 1980.0, samples=(1980.0,) * 5),
    ]
    now = [measured("step_cost", cost, samples=(cost,) * 5)]
    if mhz is not None:
        now.append(measured("run_device_clock", mhz, samples=(mhz,) * 5))
    calls = measured("operator_calls", 1, "aten::mm")
    found = compared(examine(*now, calls), baseline(*before, calls), policy=Policy())
    assert found.outcome.value == outcome
    if outcome == "INCONCLUSIVE":
        (message,) = (one.message for one in found.findings if one.code.name == "B107")
        assert message == "the clock of the device was at 80 % of the baseline's (1584 of 1980 MHz)"
    same = compared(examine(before[0], calls), baseline(*before, calls), policy=Policy())
    assert same.outcome.value == "PASSED"


def test_another_failure_is_not_explained():
    assert judged(1476, 125, measured("operator_calls", 2, "aten::relu")).outcome.value == "FAILED"
    found = judged(1476, 125, idle=100.0)
    assert found.outcome.value == "FAILED"
    assert [one.place for one in found.findings if one.severity is Severity.ERROR] == ["device_idle[npu:1]"]
    assert "B107" in codes(found)
