"""Which unused baseline a test without a baseline looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.renames import lacks_baseline, renames, with_changed_places, with_rename
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, compared
from tests.facts import FINGERPRINT, HERE, baseline, measured

CALLS = {"aten::addmm": 6, "aten::relu": 3, "aten::add_": 1}


def calls(counts):
    return tuple(measured("operator_calls", count, name) for name, count in counts.items())


def without_baseline(workload, counts=CALLS, **changes):
    verdict = Verdict(
        workload=workload,
        outcome=Outcome.PASSED,
        findings=(),
        fingerprint=replace(FINGERPRINT, workload=workload, **changes),
        environment=HERE,
        measurements=calls(counts),
    )
    return compared(verdict, None, policy=Policy())


def unused(workload, counts=CALLS):
    return baseline(*calls(counts), workload=workload)


NEW = "t/test_a.py::test_new"


@pytest.mark.parametrize(
    "old, counts, changes, is_alike",
    [
        ("t/test_b.py::test_net", CALLS, {}, True),
        ("t/test_b.py::test_net", {**CALLS, "aten::relu": 1}, {}, True),
        ("t/test_b.py::test_net", {**CALLS, "aten::addmm": 3}, {}, False),
        ("t/test_b.py::test_net", {"aten::mm": 10}, {}, False),
        ("t/test_b.py::test_net", {}, {}, False),
        # Of another mode, framework or window nothing could be compared.
        ("t/test_b.py::test_net", CALLS, {"mode": "graph"}, False),
        ("t/test_b.py::test_net", CALLS, {"threads": 2}, False),
        # In the same file a near name is enough.
        ("t/test_a.py::test_new_one", {"aten::mm": 10}, {}, True),
        ("t/test_a.py::test_net", {"aten::mm": 10}, {}, True),
        ("t/test_a.py::test_old", {"aten::mm": 10}, {}, False),
        ("t/test_b.py::test_new_one", {"aten::mm": 10}, {}, False),
        ("t/test_a.py::test_new_one", {"aten::mm": 10}, {"backend": "mindspore"}, False),
    ],
)
def test_it_needs_nearly_the_same_operators_or_a_near_name_in_the_same_file(old, counts, changes, is_alike):
    found = renames([without_baseline(NEW, **changes)], [unused(old, counts)])
    assert found == ({old: NEW} if is_alike else {})


def test_the_edge_of_what_is_alike():
    edge = thresholds.RENAMED_OPERATORS
    old = "t/test_b.py::test_net"
    for shared, found in ((edge, {old: NEW}), (edge - 0.01, {})):
        assert renames([without_baseline(NEW, {"a": 100})], [unused(old, {"a": 100 * shared})]) == found


def test_each_baseline_is_named_once_the_most_alike_first():
    verdicts = [without_baseline(f"t/test_a.py::{name}") for name in ("test_x", "test_left_side", "test_right")]
    stored = [unused("t/test_a.py::test_left"), unused("t/test_b.py::test_right")]
    assert renames(verdicts, stored) == {
        "t/test_a.py::test_left": "t/test_a.py::test_left_side",
        "t/test_b.py::test_right": "t/test_a.py::test_right",
    }


def test_the_verdict_asks_with_the_command():
    old = "t/test_b.py::test_net[4]"
    verdict = without_baseline(NEW)
    (finding,) = with_rename(verdict, [unused(old)], stored=[old, "t/test_b.py::test_other"], policy=Policy()).findings
    assert finding.message == f"there is none; was this {old}? perfguard baseline move '{old}' {NEW}"
    assert with_rename(verdict, [], stored=[old], policy=Policy()) is verdict


def test_what_has_a_baseline_is_no_renamed_test():
    verdict = without_baseline(NEW)
    assert lacks_baseline(verdict)
    # One that holds nothing to compare with is there all the same.
    empty = compared(replace(verdict, outcome=Outcome.PASSED, findings=()), unused(NEW, {}), policy=Policy())
    assert empty.outcome is not Outcome.PASSED
    assert not lacks_baseline(empty)
    other = replace(verdict, findings=(Finding(code=Code.B102, message=""),))
    assert renames([empty, other], [unused("t/test_b.py::test_net")]) == {}


def test_a_renamed_test_that_is_worse_fails_against_its_old_baseline():
    old = "t/test_b.py::test_net"
    more = without_baseline(NEW, {**CALLS, "aten::relu": 5})
    verdict = with_rename(more, [unused(old)], stored=[old], policy=Policy())
    assert verdict.outcome is Outcome.FAILED
    assert [(one.code, one.severity) for one in verdict.findings] == [
        (Code.R102, Severity.ERROR),
        (Code.B101, Severity.NOTE),
    ]
    assert verdict.findings[0].message.startswith("operator_calls[aten::relu] 3 → 5 calls/step")
    assert "was this t/test_b.py::test_net?" in verdict.findings[1].message
    assert lacks_baseline(verdict)


# -- parameters without names ------------------------------------------------------------------------------------------

ZERO, ONE, TWO = (f"t/test_a.py::test_net[cfg{number}]" for number in range(3))
#: What each parameter did when its baseline was stored.
STORED = {ZERO: {"aten::addmm": 1}, ONE: {"aten::addmm": 2}, TWO: {"aten::addmm": 3}}


def judged(workload, counts, *, has_baseline=True):
    alone = replace(without_baseline(workload, counts), outcome=Outcome.PASSED, findings=())
    return compared(alone, unused(workload, STORED[workload]) if has_baseline else None, policy=Policy())


def placed(verdict):
    others = [unused(name, counts) for name, counts in STORED.items() if name != verdict.workload]
    return with_changed_places(verdict, others, policy=Policy())


@pytest.mark.parametrize(
    "workload, counts, before, was",
    [
        # Worse than its own baseline, fewer calls, and without one.
        (ZERO, STORED[TWO], Outcome.FAILED, "cfg0 is what cfg2 was"),
        (TWO, STORED[ZERO], Outcome.FAILED, "cfg2 is what cfg0 was"),
        (TWO, STORED[ONE], Outcome.CHANGED, "cfg2 is what cfg1 was"),
    ],
)
def test_an_unnamed_parameter_that_changed_places_is_recognised(workload, counts, before, was):
    verdict = judged(workload, counts)
    assert verdict.outcome is before
    found = placed(verdict)
    assert (found.outcome, [one.code for one in found.findings]) == (Outcome.INCONCLUSIVE, [Code.B115])
    assert found.findings[0].message.startswith(f"{was}: ")
    assert found.comparisons == ()


def test_a_parameter_that_is_one_more_is_recognised_without_a_baseline():
    verdict = replace(judged(ZERO, STORED[TWO], has_baseline=False), workload="t/test_a.py::test_net[cfg3]")
    (finding,) = placed(verdict).findings
    assert finding.message.startswith("cfg3 is what cfg2 was: ")


@pytest.mark.parametrize(
    "workload, counts",
    [
        pytest.param(ZERO, STORED[ZERO], id="as it was"),
        pytest.param(ZERO, {"aten::addmm": 9}, id="as none was"),
        pytest.param(ZERO, {**STORED[TWO], "aten::relu": 1}, id="one operator more"),
    ],
)
def test_what_is_as_before_or_as_no_other_keeps_its_verdict(workload, counts):
    verdict = judged(workload, counts)
    assert placed(verdict) is verdict


def test_a_parameter_of_another_window_or_of_other_bytes_is_no_other_one():
    verdict = judged(ZERO, STORED[TWO])
    other = unused(TWO, STORED[TWO])
    threads = replace(other, fingerprint=replace(other.fingerprint, threads=7))
    bytes_ = replace(other, measurements=(*other.measurements, measured("memory_allocated_bytes", 8, "cpu")))
    for one in (threads, bytes_, unused(TWO, {})):
        assert with_changed_places(verdict, [one], policy=Policy()) is verdict


def test_what_is_invalid_is_not_placed():
    verdict = replace(judged(ZERO, STORED[TWO]), outcome=Outcome.INVALID)
    assert placed(verdict) is verdict


def test_the_most_alike_has_the_same_shapes():
    """Parameters that only differ in a size run the same operators."""

    def of(workload, size):
        return baseline(*calls(CALLS), measured("operator_shapes", {f"[{size}]": 6}, "aten::addmm"), workload=workload)

    verdict = without_baseline("t/test_a.py::test_net[wide]")
    verdict = replace(verdict, measurements=of(verdict.workload, 64).measurements)
    assert renames([verdict], [of(ZERO, 16), of(TWO, 64), of(ONE, 32)]) == {TWO: verdict.workload}
