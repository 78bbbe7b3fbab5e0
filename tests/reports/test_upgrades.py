"""The headline of a red verdict names the upgrade behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, compared
from perfguard.reports.overview import headline, with_upgrade
from perfguard.reports.terminal import failure_message
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, WORKLOAD, baseline, measured

CALLS = measured("operator_calls", 2, "MatMul")


def judged(environment, calls=3) -> Verdict:
    """Judge a run that calls an operator so often, against a baseline of torch 2.13 that calls it twice."""
    examined = Verdict(
        workload=WORKLOAD,
        outcome=Outcome.PASSED,
        findings=(),
        fingerprint=FINGERPRINT,
        environment=environment,
        measurements=(measured("operator_calls", calls, "MatMul"),),
    )
    return compared(examined, baseline(CALLS), policy=Policy())


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"packages": {"torch": "2.14.0"}}, "; torch 2.13.0 → 2.14.0 since the baseline"),
        (
            {"packages": {"torch": "2.14.0"}, "python": "3.12.1"},
            "; torch 2.13.0 → 2.14.0, python 3.11.7 → 3.12.1 since the baseline",
        ),
        # Of a package that one side does not know, nobody can say that it was upgraded.
        ({"packages": {"torch": "2.13.0", "numpy": "2.0"}}, ""),
        ({"packages": {"torch": "2.13.0", "perfguard": "9"}, "platform": "Plan 9"}, ""),
        ({}, ""),
    ],
)
def test_the_first_line_of_a_failure_and_the_headline_name_what_the_step_runs_on(changes, words):
    verdict = judged(replace(HERE, **changes))
    first = failure_message(verdict, refresh_command="pytest").splitlines()[0]
    assert first.startswith("perfguard FAILED: R102 operator_calls[MatMul] 2 → 3 calls/step")
    assert first.rpartition(")")[2] == words
    assert headline(verdict).rpartition(")")[2] == f"{words}."


def test_another_machine_is_no_upgrade():
    assert "since the baseline" not in headline(judged(ELSEWHERE))


def test_a_green_verdict_blames_no_upgrade():
    verdict = judged(replace(HERE, packages={"torch": "2.14.0"}), calls=2)
    assert verdict.environment_changes == ("torch: 2.13.0 → 2.14.0",)
    assert with_upgrade("Nothing got worse.", verdict) == "Nothing got worse."
