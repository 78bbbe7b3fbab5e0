"""Several projects in one run: each test has the settings and the baselines of the nearest `[tool.perfguard]`."""

from __future__ import annotations

import json

import pytest

from tests.cli import run as perfguard
from tests.plugin.conftest import RECORDINGS, Project

pytestmark = pytest.mark.slow

REPLAY = f"def test_one(perfguard):\n    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r})\n"
OFF = '[tool.perfguard.tolerance]\nstep_time = "off"\nstep_cpu_time = "off"\nprofiler_overhead = "off"\n'
ROOT = '[tool.pytest.ini_options]\naddopts = "-p no:randomly -p no:cacheprovider --import-mode=importlib"\n'


def table(text: str = "") -> str:
    return f"{OFF}[tool.perfguard]\nruns = 0\n{text}\n"


def write_packages(project: Project, **packages: str) -> None:
    """Write a repository whose packages have settings and a test each; its own pyproject.toml has none of perfguard."""
    project.write("pyproject.toml", ROOT)
    for name, settings in packages.items():
        project.write(f"{name}/pyproject.toml", table(settings))
        project.write(f"{name}/test_x.py", REPLAY)


def stored(project: Project) -> dict[str, list[str]]:
    """Return the workloads of every directory of baselines."""
    found: dict[str, list[str]] = {}
    for path in sorted(project.directory.rglob("*--*.json")):
        document = json.loads(path.read_text())
        place = path.parent.relative_to(project.directory).as_posix()
        found.setdefault(place, []).append(document["workload"])
    return found


@pytest.mark.exhaustive
def test_packages_that_keep_baselines_in_one_directory_above_them_do_not_call_each_others_unused(tmp_path):
    """Each has a rootdir of its own, which the names begin at."""
    top = Project(tmp_path / "top")
    top.write("pyproject.toml", table())
    for name in "ab":
        top.write(f"{name}/pyproject.toml", ROOT)
        top.write(f"{name}/test_of_{name}.py", REPLAY)
        created = top.run("--rootdir", name, "-c", f"{name}/pyproject.toml", "--perfguard-update", name)
        assert created.status == 0, created.text
    assert stored(top) == {"baselines": ["test_of_a.py::test_one", "test_of_b.py::test_one"]}
    run = top.run("--rootdir", "b", "-c", "b/pyproject.toml", "--perfguard", "b")
    assert run.status == 0, run.text
    assert "B104" not in run.out
    (top.directory / "a" / "test_of_a.py").unlink()
    assert "B104" in top.run("--rootdir", "b", "-c", "b/pyproject.toml", "--perfguard", "b").out


@pytest.fixture(scope="module")
def two_once(module_project) -> Project:
    project: Project = module_project("two")
    write_packages(project, a="", b='baselines = "perf"\nunused = "warn"')
    run = project.run("--perfguard-update")
    assert (run.status, run.counts) == (0, {"passed": 2}), run.text
    return project


@pytest.fixture
def two(two_once, tmp_path) -> Project:
    """Two packages with a baseline each, in one repository."""
    return two_once.copy(tmp_path / "two")


def test_every_test_has_the_baselines_of_the_nearest_settings(two):
    assert stored(two) == {"a/baselines": ["test_x.py::test_one"], "b/perf": ["test_x.py::test_one"]}
    run = two.run("--perfguard", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (0, {"passed": 2}), run.text
    assert two.findings() == {"a/test_x.py::test_one": ("PASSED", []), "b/test_x.py::test_one": ("PASSED", [])}
    assert "perfguard: (time on); baselines: a/baselines (1)" in run.out
    assert "perfguard: (time on); baselines: b/perf (1)" in run.out


@pytest.mark.parametrize("arguments", [("a", "b"), ("b", "a"), ("a",), ("b/test_x.py::test_one",)])
@pytest.mark.variants(1)
def test_a_baseline_is_the_same_file_however_pytest_is_started(two, arguments):
    run = two.run("--perfguard", *arguments)
    assert (run.status, run.counts["passed"]) == (0, len(arguments)), run.text
    assert "B104" not in run.out


@pytest.mark.exhaustive
def test_a_baseline_is_the_same_file_when_pytest_starts_in_the_package(two):
    before = stored(two)
    inner = Project.__new__(Project)
    inner.directory = two.directory / "a"
    for options in ("--perfguard",), ("--perfguard", "--rootdir=."), ("--perfguard-update", "--rootdir=."):
        run = inner.run(*options)
        assert (run.status, run.counts) == (0, {"passed": 1}), run.text
        assert "B104" not in run.out
    assert stored(two) == before


def test_every_test_is_judged_by_its_own_tolerances(two):
    for name in ("a/baselines", "b/perf"):
        path = two.directory / name / "test_x--test_one.json"
        document = json.loads(path.read_text())
        (calls,) = [
            m for m in document["measurements"] if (m["metric"], m["subject"]) == ("operator_calls", "aten::addmm")
        ]
        calls["value"] = 0
        path.write_text(json.dumps(document))
    two.write("b/pyproject.toml", table('baselines = "perf"').replace(OFF, OFF + '"operator_calls" = "off"\n'))
    run = two.run("--perfguard", "--perfguard-report=report.json")
    assert {name: codes for name, (_, codes) in two.findings().items()} == {
        "a/test_x.py::test_one": ["R102"],
        "b/test_x.py::test_one": [],
    }, run.text


@pytest.mark.exhaustive
def test_an_option_goes_before_the_settings_of_all(two):
    two.write("b/pyproject.toml", table('baselines = "perf"\ntime = "on"'))
    run = two.run("--perfguard-update", "--perfguard-time=off", "--perfguard-baselines=all")
    assert (run.status, run.counts) == (0, {"passed": 2}), run.text
    assert run.out.count("(time off: exact metrics only); baselines: all (") == 3
    assert stored(two)["all"] == ["a/test_x.py::test_one", "b/test_x.py::test_one"]
    again = two.run("--perfguard", "--perfguard-baselines=all")
    assert (again.status, again.counts) == (0, {"passed": 2}), again.text


@pytest.mark.exhaustive
def test_every_test_is_driven_and_timed_by_its_own_settings(project):
    step = (
        "import torch\n\ndef test_step(perfguard):\n    x = torch.ones(4, 4)\n    perfguard(lambda: torch.mm(x, x))\n"
    )
    project.write("pyproject.toml", ROOT)
    for name, active, runs in ("a", 2, 1), ("b", 3, 0):
        window = f"{{ skip_first = 1, warmup = 1, active = {active} }}"
        settings = table(f'backend = "torch"\ntimed_steps = 3\nwindow = {window}').replace("runs = 0", f"runs = {runs}")
        project.write(f"{name}/pyproject.toml", settings)
        project.write(f"{name}/test_{name}.py", step)
    run = project.run("--perfguard-update", "--perfguard-report=report.json")
    assert (run.status, run.counts["passed"]) == (0, 2), run.text
    measured = {
        one["workload"][0]: {m["metric"]: m["value"] for m in one["measurements"]}
        for one in project.report()["workloads"]
    }
    assert {name: of["steps"] for name, of in measured.items()} == {"a": 2, "b": 3}
    files = (json.loads(path.read_text()) for path in sorted(project.directory.rglob("*--*.json")))
    assert [one["fingerprint"]["workload"] for one in files] == ["test_a.py::test_step", "test_b.py::test_step"]
    assert {name: "run_wall_time" in of for name, of in measured.items()} == {"a": True, "b": False}


# -- unused baselines ----------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_package_whose_tests_are_gone_is_not_overlooked_and_its_own_settings_say_what_becomes_of_it(two):
    (two.directory / "b" / "test_x.py").unlink()
    warned = two.run("--perfguard")
    assert (warned.status, warned.counts) == (0, {"passed": 1}), warned.text
    assert "B104 a baseline whose test no longer exists: b/test_x.py::test_one" in warned.out
    two.write("a/test_y.py", REPLAY)
    (two.directory / "a" / "test_x.py").unlink()
    failed = two.run("--perfguard-update-new-only")
    assert failed.status == 1
    assert failed.out.splitlines()[-1] == (
        "perfguard: the run fails: 1 unused baseline (B104), "
        "remove it with: perfguard baseline prune a/test_x.py::test_one --yes"
    )


def test_the_command_that_a_run_prints_works_where_it_ran(two, monkeypatch):
    monkeypatch.chdir(two.directory)
    ids = [f"{name}/test_x.py::test_one" for name in ("a", "b")]
    assert perfguard("baseline", "show", ids[0]).stdout.startswith(f"{ids[0]}: 1 run")
    assert perfguard("baseline", "prune", *ids, "--yes").exit_code == 0
    assert stored(two) == {}


# -- side by side --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_workers_use_the_nearest_settings_too(two):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    (two.directory / "b" / "test_x.py").rename(two.directory / "b" / "test_z.py")
    run = two.run("-n1", "--perfguard", "--perfguard-time=off", "--perfguard-report=report.json")
    assert two.findings() == {
        "a/test_x.py::test_one": ("PASSED", []),
        "b/test_z.py::test_one": ("INCONCLUSIVE", ["B101"]),
    }
    assert two.report()["summary"]["unused"] == ["b/test_x.py::test_one"]
    assert run.status == 1


# -- refused -------------------------------------------------------------------------------------------------------------


def test_a_package_outside_of_the_rootdir_is_refused_with_both_paths(two):
    (two.directory / "pyproject.toml").unlink()
    run = two.run("--perfguard", "a", "b")
    assert (run.status, run.counts) == (4, {})
    top = two.directory
    assert run.line("outside of pytest's rootdir") == (
        f"ERROR: perfguard: {top / 'b'} has its settings in {top / 'b' / 'pyproject.toml'}, outside of pytest's rootdir "
        f"{top / 'a'}; name a rootdir that holds both: pytest --rootdir={top} ..."
    )
    named = two.run("--perfguard", f"--rootdir={top}", "--import-mode=importlib", "a", "b")
    assert (named.status, named.counts) == (0, {"passed": 2}), named.text


@pytest.mark.exhaustive
def test_two_packages_with_one_directory_of_baselines_are_refused_with_both_paths(two):
    two.write("a/pyproject.toml", table('baselines = "../all"'))
    two.write("b/pyproject.toml", table('baselines = "../all"'))
    run = two.run("--perfguard")
    assert (run.status, run.counts) == (4, {})
    line = run.line("keep their baselines in one directory")
    assert all(str(two.directory / place) in line for place in ("a/pyproject.toml", "b/pyproject.toml", "all"))


@pytest.mark.parametrize("settings", ["timed_steps = 0", "tool = = 3"])
@pytest.mark.variants(1)
def test_settings_that_are_wrong_are_refused_with_their_path_before_any_test_runs(two, settings):
    place = two.write("b/pyproject.toml", table(settings))
    run = two.run("--perfguard", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (4, {}), run.text
    assert run.line("ERROR: perfguard: ").count(str(place)) == 1
    workers = two.run("-n1", "--perfguard", "--perfguard-time=off", "-k", "test_one")
    assert (workers.status, workers.counts) == (1, {"passed": 1, "failed": 1}), workers.text
    assert workers.line("FAILED b/test_x.py::test_one - ").count(str(place)) == 1
