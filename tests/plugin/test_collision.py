"""Another distribution with the same plugin name: nobody believes in a gate that never ran."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SITE = sysconfig.get_paths()["purelib"]
OTHER = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--perfguard", action="store_true", help="the other plugin's")

@pytest.fixture
def perfguard():
    return print
"""
LOADED_OTHER = (
    "perfguard: pytest-perfguard is installed too and has the same plugin name; "
    "pytest loaded pytest-perfguard, not perfguard."
)
LOADED_OURS = (
    "perfguard: pytest-perfguard is installed too and has the same plugin name; "
    "pytest loaded perfguard, not pytest-perfguard."
)


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A directory with the other distribution in it."""
    directory = tmp_path / "site"
    (directory / "pytest_perfguard").mkdir(parents=True)
    (directory / "pytest_perfguard" / "__init__.py").touch()
    (directory / "pytest_perfguard" / "plugin.py").write_text(OTHER)
    facts = directory / "pytest_perfguard-0.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-perfguard\nVersion: 0.0\n")
    (facts / "entry_points.txt").write_text("[pytest11]\nperfguard = pytest_perfguard.plugin\n")
    return str(directory)


@pytest.fixture
def plain(project):
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    return project


def test_the_other_plugin_loaded_first_is_said_in_one_sentence(plain, other):
    run = plain.run(env={"PYTHONPATH": other})
    assert (run.status, run.counts) == (0, {"passed": 1})
    assert run.line("pytest-perfguard is installed") == LOADED_OTHER


def test_a_gate_that_the_other_plugin_would_swallow_is_refused(plain, other):
    run = plain.run("--perfguard", env={"PYTHONPATH": other})
    assert (run.status, run.counts) == (4, {})
    assert run.line("pytest-perfguard is installed") == f"ERROR: {LOADED_OTHER} Run: pip uninstall pytest-perfguard"


@pytest.mark.exhaustive
def test_perfguard_loaded_first_runs_and_says_so_in_one_sentence(project, other):
    project.replays(test_one="torch-mlp")
    run = project.run("--perfguard", "--perfguard-update", env={"PYTHONPATH": f"{SITE}:{other}"})
    assert (run.status, run.counts) == (0, {"passed": 1}), run.text
    assert run.line("pytest-perfguard is installed") == LOADED_OURS
    assert project.workloads == ["test_a.py::test_one"]


def test_alone_nothing_is_said(plain):
    assert "pytest-perfguard" not in plain.run().text


@pytest.mark.parametrize("first", [True, False], ids=["ours first", "the other first"])
@pytest.mark.variants(1)
def test_no_perfguard_blocks_both_and_the_sentence(plain, other, first):
    run = plain.run("-p", "no:perfguard", env={"PYTHONPATH": f"{SITE}:{other}" if first else other})
    assert (run.status, run.counts) == (0, {"passed": 1})
    assert "pytest-perfguard is installed" not in run.text
