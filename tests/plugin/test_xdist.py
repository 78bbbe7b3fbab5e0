"""Many processes: time is refused under xdist, exact metrics are merged, and nobody loses an entry."""

from __future__ import annotations

import json
import re

import pytest

from tests.plugin.conftest import RECORDINGS, SECONDS_UNTIL_A_HANG, TORCH_HEAD, WRITTEN_HEAD, Project

pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
pytestmark = pytest.mark.slow

FILES = {"test_a.py": "torch-mlp", "test_b.py": "torch-repeat2", "test_c.py": "torch-mlp"}


def write_three_files(project: Project) -> None:
    for name, recording in FILES.items():
        project.replays(name, test_one=recording, test_two=recording)


@pytest.fixture(scope="module")
def recorded(module_project) -> Project:
    project: Project = module_project("recorded")
    write_three_files(project)
    run = project.run("-n2", "--perfguard-update", "--perfguard-time=off")
    assert (run.status, run.counts) == (0, {"passed": 6}), run.text
    return project


@pytest.mark.parametrize("arguments", [("-n2",), ("--tx=2*popen", "--dist=load")])
@pytest.mark.exhaustive
def test_time_under_xdist_is_refused_with_one_sentence(recorded, arguments):
    run = recorded.run("--perfguard", *arguments)
    assert (run.status, run.counts) == (4, {})
    assert run.line("pytest-xdist") == (
        "ERROR: perfguard: tests that run in parallel disturb each other's time, so --perfguard refuses pytest-xdist; "
        "run without -n, or judge exact metrics only: pytest -n ... --perfguard --perfguard-time=off"
    )


@pytest.mark.exhaustive
def test_no_worker_is_no_refusal(recorded):
    run = recorded.run("--perfguard", "-n0")
    assert (run.status, run.counts["passed"]) == (0, 6)


@pytest.mark.exhaustive
def test_without_the_gate_workers_run_each_test_once(recorded):
    run = recorded.run("-n2")
    assert (run.status, run.counts) == (0, {"passed": 6})


@pytest.mark.exhaustive
def test_refreshing_under_xdist_writes_every_baseline(recorded):
    assert recorded.workloads == sorted(f"{name}::{test}" for name in FILES for test in ("test_one", "test_two"))


def test_exact_metrics_are_judged_in_the_workers_and_merged_on_the_controller(recorded, tmp_path):
    """And a file that was removed is not overlooked."""
    project = recorded.copy(tmp_path / "project")
    path = project.directory / "baselines" / "test_b--test_two.json"
    baseline = json.loads(path.read_text())
    (calls,) = [m for m in baseline["measurements"] if (m["metric"], m["subject"]) == ("operator_calls", "aten::addmm")]
    was = calls["value"]
    calls["value"] = was - 1
    path.write_text(json.dumps(baseline))
    (project.directory / "test_c.py").unlink()
    run = project.run(
        "-n2", "--perfguard", "--perfguard-time=off", "--perfguard-report=report.json", "--junitxml=junit.xml"
    )
    assert (run.status, run.counts) == (1, {"failed": 1, "passed": 3}), run.text
    findings = project.findings()
    assert findings.pop("test_b.py::test_two") == ("FAILED", ["R102"])
    assert findings == {
        f"test_{name}": ("PASSED", []) for name in ("a.py::test_one", "a.py::test_two", "b.py::test_one")
    }
    assert f"R102 operator_calls[aten::addmm] {was - 1} → {was} calls/step, +1" in run.out
    # What is not compared has its reason in the same line.
    line = r"^\d+ compared: 1 worse, 0 better, 0 changed; [1-9]\d* not comparable \(time is off\)"
    assert re.search(line, run.out, re.MULTILINE)
    assert (project.junit().get("failures"), project.junit().get("errors")) == ("1", "0")
    assert "perfguard.outcome" in {p.get("name") for p in project.junit().iter("property")}
    assert "B104 a baseline whose test no longer exists: test_c.py::test_one" in run.out


@pytest.mark.exhaustive
def test_with_time_off_in_the_settings_xdist_is_allowed_and_no_timed_metric_is_judged(recorded, tmp_path):
    """Groups of tests have the baselines of their tests."""
    project = recorded.copy(tmp_path / "project")
    project.settings('time = "off"')
    grouped = "import pytest\npytestmark = pytest.mark.xdist_group('gpu')\n"
    for name in FILES:
        project.write(name, grouped + (project.directory / name).read_text())
    run = project.run("-n1", "--dist=loadgroup", "--perfguard", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (0, {"passed": 6}), run.text
    assert set(project.findings()) == set(recorded.workloads)
    assert "not run" not in run.out
    assert "taken out" not in run.out
    judged = {c["metric"] for w in project.report()["workloads"] for c in w["comparisons"] if c["judged"]}
    assert judged
    assert judged & {"step_time", "step_cpu_time", "operator_time", "operator_share", "profiler_overhead"} == set()
    assert "time off: exact metrics only" in run.line("perfguard 0")


@pytest.mark.parametrize(
    "head", [WRITTEN_HEAD, pytest.param(TORCH_HEAD, marks=pytest.mark.exhaustive)], ids=["written", "torch"]
)
@pytest.mark.exhaustive
def test_steps_are_profiled_in_workers_without_timed_steps(project, head):
    project.written()
    project.write("test_t.py", head + "def test_step(perfguard):\n    perfguard(matmul)\n")
    run = project.run("-n1", "--perfguard-update", "--perfguard-time=off", "--perfguard-report=report.json")
    assert (run.status, run.counts["passed"]) == (0, 1), run.text
    (workload,) = project.report()["workloads"]
    metrics = {m["metric"] for m in workload["measurements"]}
    assert "operator_calls" in metrics
    assert "step_time" not in metrics
    assert project.workloads == ["test_t.py::test_step"]


@pytest.mark.exhaustive
def test_two_runs_that_refresh_one_directory_lose_no_entry(project):
    source = (
        "import pytest\n\n"
        "@pytest.mark.parametrize('number', range(6))\n"
        f"def test_many(perfguard, number):\n    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r})\n"
    )
    project.write("test_a.py", source)
    project.write("test_b.py", source)
    started = [
        project.start("--perfguard-update", "-q", *files) for files in (["test_a.py"], ["test_b.py", "test_a.py"])
    ]
    outs = [process.communicate(timeout=SECONDS_UNTIL_A_HANG)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outs
    assert project.workloads == sorted(f"test_{f}.py::test_many[{number}]" for f in "ab" for number in range(6))
    created = sum(int(out.partition("baselines: ")[2].split()[0]) for out in outs)
    assert created == 12
    assert project.run("--perfguard").status == 0
