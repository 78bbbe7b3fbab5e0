"""Which unused baseline a test without a baseline looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.renames import lacks_baseline, renames, with_rename
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
