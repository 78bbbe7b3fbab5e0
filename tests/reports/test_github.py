"""Annotations of GitHub Actions, read back as its runner reads them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Code, Finding
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports.github import MOST, workflow_commands
from tests.reports import runs_to_show as show

ROOT = Path("/checkout/project")
_COMMAND = re.compile(r"::(?P<name>[a-z]+)(?: (?P<properties>.*?))?::(?P<message>.*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as actions/runner does (ActionCommand.TryParseV2): split, then unescape."""
    found = _COMMAND.fullmatch(line)
    assert found is not None, line
    properties = dict(pair.split("=", 1) for pair in (found["properties"] or "").split(",") if pair)
    for escaped, plain in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        properties = {key: value.replace(escaped, plain) for key, value in properties.items()}
    message = found["message"]
    for escaped, plain in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        message = message.replace(escaped, plain)
    return found["name"], properties, message


def commands(*verdicts: Verdict, **how) -> list[tuple[str, dict[str, str], str]]:
    return [read(line) for line in workflow_commands(show.run_of(*verdicts), root=ROOT, **how)]


def failed(workload: str, source: str = "", *messages: str) -> Verdict:
    findings = tuple(Finding(code=Code.R102, message=message) for message in messages or ("m",))
    return Verdict(workload=workload, outcome=Outcome.FAILED, findings=findings, source=source)


def test_a_test_that_failed_is_annotated_at_its_file_and_line():
    ((name, properties, message),) = commands(show.failing(), show.passing(), workspace=Path("/checkout"))
    assert name == "error"
    assert properties == {
        "file": "project/tests/test_net.py",
        "line": "20",
        "title": "perfguard FAILED: tests/test_net.py::test_fails",
    }
    # The added work is the cause, so it leads.
    assert message.splitlines()[0].startswith(
        "more work: aten::addmm (0 → 2 calls a step); R101 step_time 147.2 → 294.5 us, +100.0 % (allowed +25.0 %)"
    )


def test_without_a_place_there_is_a_title():
    ((_, properties, _),) = commands(failed("train.py"))
    assert properties == {"title": "perfguard FAILED: train.py"}


def test_several_measurements_of_one_test_are_one_annotation():
    ((_, properties, message),) = commands(
        failed("a.py::a#prefill", "a.py:3", "one"),
        replace(failed("a.py::a#decode", "a.py:3", "two"), outcome=Outcome.INVALID),
    )
    assert properties["title"] == "perfguard FAILED and INVALID: a.py::a"
    assert message.splitlines() == [
        "a#prefill: R102 one",
        "a#decode: R102 two",
        "here: pytest --perfguard a.py::a",
        'if it is intended: pytest --perfguard --perfguard-update a.py::a --perfguard-reason "..."',
    ]


def test_of_a_test_with_parameters_the_worst_one_is_told_first():
    ((_, properties, message),) = commands(
        *(replace(failed(f"a.py::C::a[{n}]", "a.py:3"), outcome=Outcome.INCONCLUSIVE) for n in range(10)),
        failed("a.py::C::a[x::y]", "a.py:3", "worse"),
    )
    assert properties["title"] == "perfguard FAILED and INCONCLUSIVE: a.py::C::a"
    assert message.splitlines()[0] == "a[x::y]: R102 worse"


def test_what_failed_is_told_before_what_has_no_baseline():
    unknown = [replace(failed(f"a.py::t{n}", f"a.py:{n + 1}"), outcome=Outcome.INCONCLUSIVE) for n in range(40)]
    found = commands(*unknown, failed("z.py::z", "z.py:1"))
    assert found[0][1]["title"] == "perfguard FAILED: z.py::z"


@pytest.mark.parametrize("count, shown", [(0, 0), (1, 1), (MOST, MOST), (MOST + 1, MOST), (500, MOST)])
def test_there_are_ten_at_most_and_the_tenth_counts_the_rest(count, shown):
    found = commands(*(failed(f"a.py::t{number}", f"a.py:{number + 1}") for number in range(count)))
    assert len(found) == shown
    if count > MOST:
        assert found[-1][1]["title"] == f"perfguard: {count - MOST + 1} more are not green"


def test_what_is_invalid_names_the_command_with_cause_and_fix_and_no_directory_of_the_job():
    broken = Verdict(
        workload="out/run",
        outcome=Outcome.INVALID,
        recording=Path("/tmp/gone"),
        findings=(Finding(code=Code.C106, message="m"),),
    )
    ((_, _, message),) = commands(broken)
    assert message.splitlines()[1:] == ["cause and fix: perfguard codes C106"]
    assert "/tmp/gone" not in message


def test_many_findings_are_counted():
    ((_, _, message),) = commands(failed("a", "", *(str(number) for number in range(30))))
    assert len(message.splitlines()) <= 10


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_name_ends_a_command_or_begins_another(workload, file, message):
    lines = workflow_commands(show.run_of(failed(workload, f"{file}:3", message)), root=ROOT)
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert "\r" not in lines[0]
    name, properties, _ = read(lines[0])
    assert name == "error"
    assert set(properties) <= {"file", "line", "title"}
