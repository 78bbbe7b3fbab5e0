"""The files a run leaves for people and for CI, and what GitHub Actions is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from perfguard.version import install_command
from tests.plugin.conftest import Project, Run

pytestmark = pytest.mark.slow

ALL = {
    "--perfguard-report": "r.json",
    "--perfguard-html": "p.html",
    "--perfguard-markdown": "m.md",
    "--perfguard-metrics": "x.txt",
}


@pytest.fixture(scope="module")
def project(module_project) -> Project:
    """A project in which one test is green and one is not."""
    found: Project = module_project("files")
    found.replays("test_a.py", test_passed="torch-mlp", test_failed="torch-mlp")
    assert found.run("--perfguard-update").status == 0
    path = found.directory / "baselines" / "test_a--test_failed.json"
    baseline = json.loads(path.read_text())
    for one in baseline["measurements"]:
        if (one["metric"], one["subject"]) == ("operator_calls", "aten::addmm"):
            one["value"] = 0
    path.write_text(json.dumps(baseline))
    return found


def github(place: Path, **more: str) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(place / "summary.md"), **more}


@pytest.fixture(scope="module")
def written(project, tmp_path_factory) -> tuple[Run, Path]:
    """A run that leaves every file, where GitHub Actions is not, and the directory they are in."""
    place = tmp_path_factory.mktemp("written")
    environ = {key: value for key, value in github(place).items() if key != "GITHUB_ACTIONS"}
    files = (f"{flag}={place}/out/{name}" for flag, name in ALL.items())
    return project.run("--perfguard", f"--junitxml={place}/j.xml", *files, env=environ), place


def test_every_file_is_written_and_told(project, written):
    run, place = written
    assert run.status == 1
    for name in ALL.values():
        assert (place / "out" / name).stat().st_size > 100
        assert f"report: {place}/out/{name}" in run.out
    document = json.loads((place / "out" / "r.json").read_text())
    sources = {one["workload"]: one["source"] for one in document["workloads"]}
    lines = (project.directory / "test_a.py").read_text().splitlines()
    for workload, source in sources.items():
        file, _, line = source.rpartition(":")
        assert file == "test_a.py"
        # The line of the test, or of its first decorator.
        assert any(workload.partition("::")[2] in text for text in lines[int(line) - 1 : int(line) + 2])


@pytest.mark.parametrize("flag", sorted(ALL))
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(project, tmp_path, flag):
    run = project.run("--perfguard", f"{flag}={tmp_path}")
    assert run.status == 4
    assert "is a directory" in run.err
    assert "test_a.py" not in run.out


@pytest.mark.parametrize("flag", sorted(ALL))
@pytest.mark.variants(2)
def test_a_file_does_nothing_without_the_gate(project, flag):
    run = project.run(f"{flag}=x")
    assert run.status == 4
    assert f"{flag} does nothing without --perfguard" in run.err


@pytest.mark.exhaustive
def test_without_its_packages_the_page_is_refused_before_anything_runs(project, tmp_path):
    blocked = tmp_path / "site"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        "    return None if name == 'jinja2' else found(name, path, target)\n"
        "import functools\n"
        "PathFinder.find_spec = functools.partial(find_spec)\n"
    )
    run = project.run("--perfguard", "--perfguard-html=p.html", env={"PYTHONPATH": str(blocked)})
    assert run.status == 4
    assert install_command("html") in run.err


def test_github_actions_gets_a_summary_and_an_annotation(project, tmp_path):
    (tmp_path / "summary.md").write_text("what another step said\n")
    run = project.run("--perfguard", env=github(tmp_path, GITHUB_WORKSPACE=str(project.directory.parent)))
    assert run.status == 1
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("what another step said\n### perfguard: ❌ 1 failed, ✅ 1 passed")
    (line,) = [line for line in run.out.splitlines() if line.startswith("::")]
    assert line.startswith(f"::error file={project.directory.name}/test_a.py,line=")
    assert "title=perfguard FAILED%3A test_a.py%3A%3Atest_failed::R102 operator_calls[aten::addmm]" in line


def test_elsewhere_github_is_told_nothing(written):
    run, place = written
    assert "::error" not in run.out
    assert not (place / "summary.md").exists()


@pytest.mark.exhaustive
def test_a_summary_that_cannot_be_written_is_said_and_fails_the_run(project, tmp_path):
    run = project.run("--perfguard", "-k", "passed", env=github(tmp_path / "nowhere"))
    assert run.status == 1
    assert f"summary.md cannot be written: {os.strerror(2)}. " in run.out


def test_junit_is_read_back_with_the_outcome_as_a_property(written):
    junitparser = pytest.importorskip("junitparser", reason="junitparser is not installed")
    _, place = written
    suites = junitparser.JUnitXml.fromfile(str(place / "j.xml"))
    cases = {case.name: case for suite in suites for case in suite}
    told = {
        name: {one.name: one.value for one in case.child(junitparser.Properties) or ()} for name, case in cases.items()
    }
    assert told["test_passed"]["perfguard.outcome"] == "PASSED"
    assert told["test_failed"]["perfguard.outcome"] == "FAILED"
    assert cases["test_passed"].is_passed
    (failure,) = cases["test_failed"].result
    assert failure.message.startswith("Failed: perfguard FAILED: R102 operator_calls[aten::addmm]")
