"""A stored time is confirmed by an A/B run with the commit of its baseline: real processes, in a repository of its own."""

from __future__ import annotations

import json
import shutil

import pytest

from perfguard.plugin.confirmation import Budget, Confirmation, kept_options
from tests.judge.test_time import stored
from tests.plugin.conftest import WRITTEN_HEAD, Project
from tests.programs import git

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:randomly -p no:cacheprovider"

[tool.perfguard]
backend = "written"
window = { skip_first = 2, warmup = 1, active = 3 }
"""
WORK = "TURNS = 0\n"
#: A window is a fifth of a second, and what a step does is the same for every backend.
TESTS = (
    WRITTEN_HEAD
    + """
from work import TURNS

# The suite makes a machine busy, and a machine changes its speed; what follows from that has tests of its own.
thresholds.BUSY_SHARE, thresholds.CALIBRATION_MOVED = 1.0, 10.0
thresholds.WINDOW_S, thresholds.WARMUP_S = 0.2, 0.1
x = np.ones((256, 256), np.float32)

def test_step(perfguard):
    def step():
        for _ in range(10):
            x @ x
        sum(range(TURNS))

    perfguard(step)
"""
)
#: Adds more than half of the step's time, and no operator.
SLOWER = "TURNS = 200_000\n"


@pytest.mark.parametrize(
    ("arguments", "selected", "kept"),
    [
        (["--perfguard", "tests"], ["tests"], []),
        (["--perfguard-report=r.json", "--perfguard-html", "r.html"], [], []),
        (["-c", "conf/pytest.ini", "tests/test_a.py::test_b"], ["tests/test_a.py::test_b"], ["-c", "conf/pytest.ini"]),
        (["--device=cuda", "--runslow", "tests"], ["tests"], ["--device=cuda", "--runslow"]),
        (["--device", "cuda", "tests"], ["tests"], ["--device", "cuda"]),
        (["-p", "mine", "-o", "x=y", "-W", "error"], [], ["-p", "mine", "-o", "x=y", "-W", "error"]),
        (["--junitxml=a.xml", "--cov=pkg", "--cov-report", "html", "-vv", "-x", "--pdb"], [], []),
        (["--rootdir=.", "--basetemp", "/tmp/x", "-n0", "--lf"], [], []),
        # The test was selected by them, and conftest.py may ask for them.
        (["-k", "mlp", "-m", "gpu", "tests"], ["tests"], ["-k", "mlp", "-m", "gpu"]),
        (["tests", "-k", "tests"], ["tests"], ["-k", "tests"]),
        # What stands after it would be files and tests; a log that is being written stays whole.
        (["--strict-markers", "--", "tests"], ["tests"], ["--strict-markers"]),
        (["--strict-markers", "tests", "--debug", "debug.log", "-f"], ["tests"], ["--strict-markers"]),
        # Of the project's own, whatever pytest's begin with.
        (
            ["--compile", "--dist-backend", "nccl", "--fft-size=4"],
            [],
            ["--compile", "--dist-backend", "nccl", "--fft-size=4"],
        ),
        (["--config-file=a.ini", "--confcutdir", "x"], [], ["--config-file=a.ini", "--confcutdir", "x"]),
    ],
)
def test_options_of_the_run_that_a_test_may_need_go_along(arguments, selected, kept):
    assert kept_options(arguments, selected) == kept


def test_a_run_that_spent_its_minutes_on_other_tests_confirms_no_more(pytestconfig, tmp_path):
    spent = Confirmation(
        config=pytestconfig,
        workload="test_step.py::test_step",
        baseline_file=tmp_path / "baseline.json",
        limit_s=60.0,
        budget=Budget(left_s=0.0),
        show=print,
    )
    assert spent.why_not(stored()) == "15 minutes of this run went into other tests"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A committed project with a baseline of five processes."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    project = Project(tmp_path_factory.mktemp("confirmed") / "project")
    project.write("pyproject.toml", SETTINGS)
    project.written()
    project.write("work.py", WORK)
    project.write("test_step.py", TESTS)
    project.write(".gitignore", "__pycache__\n")
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-qm", "one")
    # Files are changed, as they are where somebody refreshes and then commits.
    project.write("work.py", WORK + "# changed\n")
    created = project.run("--perfguard-update", timeout_s=600)
    assert created.status == 0, created.text
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-qm", "with a baseline")
    return project


@pytest.fixture
def copy(repository, tmp_path):
    shutil.copytree(repository.directory, tmp_path / "project")
    project = Project.__new__(Project)
    project.directory = tmp_path / "project"
    return project


def judged(project):
    """Run the gate; return the run and its one workload. Nothing of the repository is touched."""
    before = git(project.directory, "status", "--porcelain")
    run = project.run("--perfguard", "--perfguard-report=../report.json", timeout_s=600)
    assert git(project.directory, "status", "--porcelain") == before
    assert len(git(project.directory, "worktree", "list").splitlines()) == 1
    (one,) = json.loads((project.directory.parent / "report.json").read_text())["workloads"]
    return run, one


def edit_baseline(project, edit) -> None:
    (file,) = (project.directory / "baselines").glob("*.json")
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document))


def make_quicker(document) -> None:
    """Make the stored step as quick as on a machine whose kernel is as quick and whose memory is not."""
    (cost,) = [one for one in document["measurements"] if one["metric"] == "step_cost"]
    cost["samples"] = [sample * 0.6 for sample in cost["samples"]]
    cost["value"] *= 0.6


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_slower_step_is_confirmed_and_fails(copy):
    copy.write("work.py", SLOWER)
    run, one = judged(copy)
    assert (run.status, one["outcome"]) == (1, "FAILED"), run.text
    head = git(copy.directory, "rev-parse", "HEAD")[:7]
    assert f"confirmed by an A/B run with {head} in 5 processes" in run.line(
        "E       Failed: perfguard FAILED: R101 step "
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_step_that_is_slower_than_stored_and_not_side_by_side_passes_and_says_so(copy):
    edit_baseline(copy, make_quicker)
    git(copy.directory, "commit", "-qam", "of another day")
    run, one = judged(copy)
    assert (run.status, one["outcome"]) == (0, "PASSED"), run.text
    head = git(copy.directory, "rev-parse", "HEAD~")[:7]
    assert f"the step is not slower than the baseline's commit {head} in an A/B run of 5 processes" in run.line("B113 ")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_commit_that_cannot_be_run_leaves_the_verdict_as_it_is(copy):
    copy.write("work.py", "raise RuntimeError('half done')\n")
    git(copy.directory, "commit", "-qam", "half done")
    broken = git(copy.directory, "rev-parse", "HEAD")
    copy.write("work.py", WORK)
    git(copy.directory, "commit", "-qam", "mended")

    def of_a_broken_commit(document):
        make_quicker(document)
        document["commit"] = broken

    edit_baseline(copy, of_a_broken_commit)
    run, one = judged(copy)
    assert (run.status, one["outcome"]) == (1, "FAILED"), run.text
    headline = run.line("E       Failed: perfguard FAILED: R101 step ")
    said = "INVALID: pytest cannot run the base: RuntimeError: half done"
    assert f"not confirmed: perfguard ab --base {broken[:7]} says: {said}" in headline
