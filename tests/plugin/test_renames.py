"""Renamed tests: the run names the baseline that a test had under its old name, and the command that moves it."""

from __future__ import annotations

import shlex

import pytest

from tests.cli import run as perfguard
from tests.plugin.conftest import Project

pytestmark = pytest.mark.slow

OLD = {"test_one": "torch-mlp", "test_other": "mindspore-graph"}


@pytest.fixture(scope="module")
def renamed(module_project) -> Project:
    """A test is renamed in its file, a whole file is renamed, and a test of another window is removed."""
    project: Project = module_project("renamed")
    project.replays("test_a.py", **OLD)
    project.replays("test_b.py", test_left="torch-mlp", test_right="mindspore-graph")
    project.replays("test_c.py", test_gone="torch-repeat2")
    assert project.run("--perfguard-update").status == 0
    (project.directory / "test_b.py").rename(project.directory / "test_d.py")
    (project.directory / "test_c.py").unlink()
    project.replays("test_a.py", test_first="torch-mlp", test_other="mindspore-graph")
    return project


RENAMED = ("test_a.py::test_one", "test_a.py::test_first"), ("test_b.py", "test_d.py")


@pytest.mark.parametrize("arguments", [(), ("-n1", "--perfguard-time=off")], ids=["one process", "xdist"])
@pytest.mark.variants(1)
@pytest.mark.exhaustive
def test_a_test_without_a_baseline_names_the_one_it_looks_like(renamed, arguments):
    if arguments:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    run = renamed.run("--perfguard", "--perfguard-report=report.json", *arguments)
    assert (run.status, run.counts) == (1, {"failed": 3, "passed": 1}), run.text
    found = {one["workload"]: one["findings"] for one in renamed.report()["workloads"] if one["findings"]}
    pairs = {
        "test_a.py::test_first": ("test_a.py::test_one", "test_a.py::test_first"),
        "test_d.py::test_left": ("test_b.py::test_left", "test_d.py::test_left"),
        "test_d.py::test_right": ("test_b.py::test_right", "test_d.py::test_right"),
    }
    for workload, (old, new) in pairs.items():
        message = f"there is none; was this {old}? perfguard baseline move {old} {new}"
        assert [(one["code"], one["message"]) for one in found[workload]] == [("B101", message)]
        assert f"perfguard INCONCLUSIVE: B101 no baseline to compare with: {message}" in run.out
    summary = run.out.splitlines()
    for old, new in RENAMED:
        assert f"was {old} renamed? perfguard baseline move {old} {new}" in summary
    assert "remove with: perfguard baseline prune test_c.py::test_gone" in summary


@pytest.mark.exhaustive
def test_the_commands_of_the_summary_give_the_tests_their_baselines(renamed, tmp_path, monkeypatch):
    project = renamed.copy(tmp_path / "project")
    monkeypatch.chdir(project.directory)
    run = project.run("--perfguard", "-q")
    lines = [line for line in run.out.splitlines() if " renamed? " in line]
    assert len(lines) == len(RENAMED)
    for line in lines:
        words = shlex.split(line.partition(" renamed? ")[2])
        assert words[0] == "perfguard"
        done = perfguard(*words[1:])
        assert done.exit_code == 0, done.output
    run = project.run("--perfguard", "--perfguard-report=report.json")
    assert run.counts == {"passed": 4}, run.text
    assert project.report()["summary"]["unused"] == ["test_c.py::test_gone"]
    assert "renamed?" not in run.out


@pytest.mark.exhaustive
def test_a_new_test_that_looks_like_no_unused_baseline_names_none(renamed, tmp_path):
    project = renamed.copy(tmp_path / "project")
    project.replays("test_a.py", test_first="mindspore-pynative", test_other="mindspore-graph")
    run = project.run("--perfguard", "test_a.py")
    assert (run.status, run.counts) == (1, {"failed": 1, "passed": 1}), run.text
    assert "was this" not in run.out
    assert "renamed?" not in run.out


def test_a_damaged_baseline_of_another_test_is_reported_once_and_hides_no_verdict(renamed, tmp_path):
    project = renamed.copy(tmp_path / "project")
    (project.directory / "baselines" / "test_c--test_gone.json").write_text("{")
    run = project.run("--perfguard", "test_d.py")
    assert run.counts == {"failed": 2}
    assert "perfguard INCONCLUSIVE: B101 no baseline to compare with: there is none" in run.out
    assert "test_c--test_gone.json is damaged" in run.line("is damaged")


# -- parameters without names ------------------------------------------------------------------------------------------

NETS = """
import dataclasses
import pytest
import torch
import perfguard as pg

pytestmark = pytest.mark.perfguard(backend="torch", window=pg.StepWindow(skip_first=1, active=2))


@dataclasses.dataclass
class Net:
    width: int


@pytest.mark.parametrize("net", [Net(width) for width in {widths}]{ids})
def test_net(perfguard, net):
    x = torch.ones(4, net.width)

    def step():
        for _ in range({calls}):
            torch.mm(x, x.T)

    perfguard(step)
"""


def nets(project, *widths, ids=False, calls=1):
    named = ", ids=lambda net: f'wide{net.width}'" if ids else ""
    project.write("test_n.py", NETS.format(widths=widths, ids=named, calls=calls))


def judged(project):
    run = project.run("--perfguard", "--perfguard-time=off", "--perfguard-report=report.json", "-p", "no:randomly")
    found = {name.partition("::")[2]: one for name, one in project.findings().items()}
    return run, found


def test_parameters_that_only_changed_places_are_recognised(project, monkeypatch):
    nets(project, 8, 16, 32)
    assert project.run("--perfguard-update", "--perfguard-time=off").status == 0
    run, found = judged(project)
    assert (run.status, {outcome for outcome, _ in found.values()}) == (0, {"PASSED"}), run.text

    nets(project, 32, 16, 8)
    run, found = judged(project)
    moved = ("INCONCLUSIVE", ["B115"])
    assert found == {"test_net[net0]": moved, "test_net[net1]": ("PASSED", []), "test_net[net2]": moved}, run.text
    assert "net0 is what net2 was: " in run.out
    assert "net2 is what net0 was: " in run.out

    # A ratchet stores no improvement that is none.
    before = project.baselines
    project.run("--perfguard-ratchet", "--perfguard-time=off")
    assert project.baselines == before

    # With names each finds its baseline, whatever its place.
    nets(project, 32, 16, 8, ids=True)
    run, found = judged(project)
    assert {outcome for outcome, _ in found.values()} == {"INCONCLUSIVE"}
    monkeypatch.chdir(project.directory)
    lines = [line for line in run.out.splitlines() if " renamed? " in line]
    for line in lines:
        assert perfguard(*shlex.split(line.partition(" renamed? ")[2])[1:]).exit_code == 0
    run, found = judged(project)
    assert (len(lines), run.status) == (3, 0), run.text


@pytest.mark.exhaustive
def test_a_parameter_that_is_as_none_was_is_judged_by_its_own_baseline(project):
    nets(project, 8, 16, 32)
    assert project.run("--perfguard-update", "--perfguard-time=off").status == 0
    nets(project, 8, 16, 32, calls=3)
    _, found = judged(project)
    assert {outcome for outcome, _ in found.values()} == {"FAILED"}
