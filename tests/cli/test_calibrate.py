"""`perfguard calibrate`: ten real runs of a suite, and what they say of its gate."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import RECORDINGS, TORCH, run
from tests.installed import needs
from tests.programs import run_program

needs("scipy", "calibrate")

pytestmark = pytest.mark.slow

SCRIPT = Path(sys.executable).with_name("perfguard")

#: Every other run judges another recording, so that operators come and go.
TESTS = """
from pathlib import Path

def test_steady(perfguard):
    perfguard.replay("one")

def test_fickle(perfguard):
    runs = Path("runs")
    runs.write_text(runs.read_text() + "x" if runs.is_file() else "x")
    perfguard.replay("one" if len(runs.read_text()) % 2 else "other")

def test_invalid(perfguard):
    perfguard.replay("empty")
"""


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A project, and what ten runs of its suite printed."""
    project = tmp_path_factory.mktemp("calibrated")
    (project / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p no:randomly -p no:hypothesispytest -p no:benchmark"\n[tool.perfguard]\n'
    )
    (project / "test_a.py").write_text(TESTS)
    (project / "empty").mkdir()
    shutil.copytree(TORCH, project / "one")
    shutil.copytree(RECORDINGS / "torch-repeat2", project / "other")
    return project, calibrate(project, "--runs", "10")


def calibrate(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(SCRIPT, "calibrate", *arguments, cwd=project)


@pytest.mark.exhaustive
def test_what_is_exact_is_told_to_be_steady_or_not(calibrated):
    _, done = calibrated
    assert done.returncode == 0, done.stdout + done.stderr
    (steady,) = [line for line in done.stdout.splitlines() if "test_steady" in line and "exact metrics" in line]
    assert steady.split("exact metrics")[1].split() == ["11", "steady"]
    fickle = [line for line in done.stdout.splitlines() if "test_fickle" in line and "values" in line]
    assert any("operator_calls" in line and "2 values" in line for line in fickle)


@pytest.mark.exhaustive
def test_without_processes_of_their_own_no_rate_is_claimed(calibrated):
    _, done = calibrated
    assert "time was not compared: no workload was timed in processes of its own ten times" in done.stdout
    assert "this gate" not in done.stdout


@pytest.mark.exhaustive
def test_the_result_lies_beside_the_baselines_and_no_baseline_is_touched(calibrated):
    project, done = calibrated
    assert [path.name for path in (project / "baselines").iterdir()] == ["calibration.json"]
    assert "written to" in done.stdout
    document = json.loads((project / "baselines" / "calibration.json").read_text())
    assert (document["runs"], document["error_rate"]) == (10, None)
    assert re.fullmatch(r"perfguard: 10 runs of \d+ s: about \d+ minutes\n", done.stderr)
    # What is not whole is measured by nobody.
    assert {line["workload"] for line in document["metrics"]} == {"test_a.py::test_steady", "test_a.py::test_fickle"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--runs", "9"), "9 is not in the range"),
        (("--runs", "x"), "'x' is not a valid integer range"),
        (("--runs", "10", "--no-such-option"), "no-such-option"),
    ],
)
@pytest.mark.variants(1)
def test_a_wrong_call_is_a_sentence(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = run("calibrate", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive
def test_a_suite_that_measures_nothing_is_a_sentence(tmp_path):
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    pass\n")
    done = calibrate(tmp_path, "--runs", "10")
    assert done.returncode == 2
    assert "the first run measured nothing that is whole" in done.stderr
