"""What a run says: the header, the summary and its last lines, the report file."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator

from perfguard import __version__
from perfguard.documents import schema
from tests.cli import run as perfguard
from tests.plugin.conftest import RECORDINGS, Project

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(module_project):
    """A run with every outcome in it: its project, what it printed."""
    project: Project = module_project("told")
    project.replays("test_a.py", test_passed="torch-mlp", test_failed="torch-mlp", test_removed="torch-mlp")
    assert project.run("--perfguard-update").status == 0
    path = project.directory / "baselines" / "test_a--test_failed.json"
    baseline = json.loads(path.read_text())
    for one in baseline["measurements"]:
        if (one["metric"], one["subject"]) == ("operator_calls", "aten::addmm"):
            one["value"] = 0
    baseline["measurements"] = [m for m in baseline["measurements"] if m["metric"] != "operator_set"]
    path.write_text(json.dumps(baseline))
    project.replays("test_a.py", test_passed="torch-mlp", test_failed="torch-mlp", test_new="torch-repeat2")
    with (project.directory / "test_a.py").open("a") as file:
        file.write(
            "\ndef test_invalid(perfguard, tmp_path):\n    perfguard.replay(tmp_path)\n"
            "\ndef test_fails_before(perfguard):\n    assert False\n"
            "\ndef test_skips(perfguard):\n    import pytest\n    pytest.skip('not here')\n"
            f"\ndef test_named(perfguard):\n    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r}, name='decode')\n"
        )
    run = project.run(
        "--perfguard", "--perfguard-report=out/report.json", "--junitxml=junit.xml", env={"COLUMNS": "120"}
    )
    return project, run


def test_the_outcomes_are_counted_by_pytest(told):
    _, run = told
    assert (run.status, run.counts) == (1, {"passed": 1, "failed": 5, "skipped": 1})


def test_the_header_says_version_mode_baselines_and_machine(told):
    _, run = told
    pattern = (
        rf"perfguard {re.escape(__version__)}: judging \(time on\); baselines: baselines \(3\); "
        r"machine: .+, \d+ cores"
    )
    assert re.fullmatch(pattern, run.line("judging (time on)"))


@pytest.mark.parametrize(
    "arguments, mode",
    [
        (("--perfguard-update",), "refreshing (time on); baselines: baselines (0)"),
        (("--perfguard-update-new-only",), "judging, creating what is missing (time on); baselines: baselines (0)"),
        (("--perfguard-ratchet",), "judging, storing what got better (time on); baselines: baselines (0)"),
        (
            ("--perfguard", "--perfguard-time=off", "--perfguard-baselines=../else"),
            "judging (time off: exact metrics only); baselines: ",
        ),
    ],
)
@pytest.mark.variants(2)
def test_the_header_says_the_mode(project, arguments, mode):
    assert f": {mode}" in project.run(*arguments).line("; machine: ")


def test_the_last_lines_say_what_was_compared(told):
    _, run = told
    last = [line for line in run.out.splitlines() if line][-14:]
    (coverage,) = [line for line in last if " compared: " in line]
    assert re.match(r"\d+ compared: 1 worse, 0 better, 0 changed; 1 not comparable; \d+ shown, not judged", coverage)
    assert "2 not run (skipped or failed before measuring)" in last
    assert "B104 a baseline whose test no longer exists: test_a.py::test_removed" in last
    assert any(line.startswith("report: ") and line.endswith("out/report.json") for line in last)


@pytest.mark.parametrize(
    "workload, outcome, codes",
    [
        ("test_a.py::test_passed", "PASSED", []),
        ("test_a.py::test_failed", "FAILED", ["R102"]),
        ("test_a.py::test_new", "INCONCLUSIVE", ["B101"]),
        ("test_a.py::test_named#decode", "INCONCLUSIVE", ["B101"]),
        ("test_a.py::test_invalid", "INVALID", ["A101"]),
    ],
)
def test_the_report_names_outcome_and_codes_of_each_workload(told, workload, outcome, codes):
    project, _ = told
    assert project.findings("out/report.json")[workload] == (outcome, codes)


def test_the_report_keeps_its_schema_and_sums_up(told):
    project, _ = told
    report = project.report("out/report.json")
    assert list(Draft202012Validator(schema("report")).iter_errors(report)) == []
    summary = report["summary"]
    assert summary["outcomes"] == {"PASSED": 1, "FAILED": 1, "INCONCLUSIVE": 2, "INVALID": 1}
    assert summary["unused"] == ["test_a.py::test_removed"]
    assert summary["not_run"] == ["test_a.py::test_fails_before", "test_a.py::test_skips"]
    for key in ("compared", "worse", "better", "changed", "not-comparable"):
        assert summary["coverage"][key] == sum(w["coverage"][key] for w in report["workloads"])


def test_the_report_measures_whole_captures_only(told):
    project, _ = told
    measured = {w["outcome"] for w in project.report("out/report.json")["workloads"] if w["measurements"]}
    assert measured == {"PASSED", "FAILED", "INCONCLUSIVE"}


@pytest.mark.parametrize(
    "test, first_line",
    [
        ("test_failed", "perfguard FAILED: R102 operator_calls[aten::addmm]"),
        ("test_new", "perfguard INCONCLUSIVE: B101 no baseline to compare with: there is none"),
        ("test_invalid", "perfguard INVALID: A101 no profiler output of a known layout"),
    ],
)
def test_the_message_of_a_failure_begins_with_the_worst_finding(told, test, first_line):
    project, _ = told
    (case,) = [c for c in project.junit().iter("testcase") if c.get("name") == test]
    failure = case.find("failure")
    assert failure.get("message").removeprefix("Failed: ").startswith(first_line)
    # pytest shortens the message where it is long.
    assert f"workload: test_a.py::{test}" in failure.text
    assert (
        "perfguard check " if test == "test_invalid" else "pytest --perfguard --perfguard-update test_a.py::"
    ) in failure.text


def test_junit_names_the_measurement_of_a_named_workload(told):
    project, _ = told
    (case,) = [c for c in project.junit().iter("testcase") if c.get("name") == "test_named"]
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["perfguard[decode].outcome"] == "INCONCLUSIVE"
    assert properties["perfguard[decode].steps"] == "3"


def test_the_report_can_be_read_back_by_the_command_line(told, monkeypatch):
    project, _ = told
    monkeypatch.chdir(project.directory)
    done = perfguard("baseline", "diff", "out/report.json")
    assert done.exit_code == 3, done.output
    assert "R102 operator_calls[aten::addmm]" in done.stdout


def test_a_gate_that_measured_nothing_says_so(project):
    project.write("test_s.py", "import pytest\n\ndef test_s(perfguard):\n    pytest.skip('not here')\n")
    run = project.run("--perfguard")
    assert "1 not run" in run.out
