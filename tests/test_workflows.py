"""The workflows: GitHub's own schema, and the commands of the copyable one, run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agreement.__main__ import new_project
from benchmarks.agreement.__main__ import run as run_project
from tests.test_comment_workflow import rendered

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted(one for place in (".", "examples/*") for one in ROOT.glob(f"{place}/.github/workflows/*.yml"))
OURS = ROOT / ".github" / "workflows" / "perfguard.yml"
COMMENT = OURS.with_name("perfguard-comment.yml")
#: A tag can be moved to another commit, and a commit cannot be changed.
PINNED = re.compile(r"uses: ([\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)")
#: The jobs that may do more than read the repository.
MORE_RIGHTS = {
    ("perfguard-comment", "render"): {"contents": "read", "actions": "read"},
    ("perfguard-comment", "comment"): {"pull-requests": "write"},
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
@pytest.mark.variants(1)
def test_a_workflow_is_what_github_knows(path):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_pinned_by_its_commit_with_its_version(path):
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines()]
    assert [line for line in lines if line.startswith("uses:") and not PINNED.fullmatch(line)] == []


def test_a_version_of_an_action_is_one_commit():
    # `actions/cache/save` is a folder of the repository `actions/cache`.
    found = {
        ("/".join(name.split("/")[:2]), version, commit)
        for path in WORKFLOWS
        for name, commit, version in PINNED.findall(path.read_text())
    }
    assert len({name for name, *_ in found}) == len(found) >= 7, sorted(found)


def test_the_pins_are_kept_fresh():
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    path = ROOT / ".github" / "dependabot.yml"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (update,) = yaml.safe_load(path.read_text())["updates"]
    # Dependabot looks for the workflows of `/` below `.github`, and takes any other directory as it is.
    folders = {ROOT / one.lstrip("/") / (".github/workflows" if one == "/" else "") for one in update["directories"]}
    assert update["package-ecosystem"] == "github-actions"
    assert folders == {workflow.parent for workflow in WORKFLOWS}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_the_rights_that_it_needs(path):
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] in ({}, {"contents": "read"})
    more = {(path.stem, name): job["permissions"] for name, job in document["jobs"].items() if "permissions" in job}
    assert more == {key: rights for key, rights in MORE_RIGHTS.items() if key[0] == path.stem}
    assert "secrets" not in path.read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_checkout_leaves_no_token_to_what_runs_after_it(path):
    """No job pushes; with the default, the token of the job is in `.git/config`, and in what is uploaded from there."""
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def steps(job: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(OURS.read_text())["jobs"][job]["steps"])


def script(job: str, beginning: str) -> str:
    """Return the script of a step that begins with, or holds, these words."""
    return str(next(step["run"] for step in steps(job) if beginning in step.get("run", "")))


def test_the_job_that_writes_runs_nothing_of_a_pull_request():
    document = yaml.safe_load(COMMENT.read_text())
    # YAML reads `on` as a truth value.
    assert document[True] == {"workflow_run": {"workflows": ["perfguard"], "types": ["completed"]}}
    assert yaml.safe_load(OURS.read_text())["name"] == "perfguard"
    assert document["permissions"] == {}
    assert document["jobs"].keys() == {"render", "comment"}
    job = document["jobs"]["comment"]
    assert job["needs"] == "render"
    # What the other job made, and nothing of the run of the pull request.
    fetch, post = job["steps"]
    assert fetch["uses"].partition("@")[0] == "actions/download-artifact"
    assert fetch["with"] == {"name": "perfguard-rendered", "path": "${{ runner.temp }}/comment"}
    assert {"shell", "env", "run", "name"} == post.keys()
    # The standard library alone, and no other process.
    imported = set(re.findall(r"^\s*(?:import|from) ([a-z_]+)", post["run"], flags=re.MULTILINE))
    assert imported <= {"json", "os", "sys", "urllib", "pathlib"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_text_of_others_is_put_into_a_script(path):
    """A title, a branch or an input is read from the environment: in the script it could end the command and begin another."""
    assert "pull_request_target" not in path.read_text()
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step


def test_the_job_that_renders_has_the_code_of_the_default_branch_and_the_data_of_a_pull_request():
    job = yaml.safe_load(COMMENT.read_text())["jobs"]["render"]
    assert "github.event.workflow_run.event == 'pull_request'" in job["if"]
    checkout, python, install, fetch, render, keep = job["steps"]
    assert checkout["with"] == {"persist-credentials": False}
    assert python["with"] == {"python-version": "3.11"}
    assert install == {"run": 'eval "$INSTALL_REPORT"'}
    # Outside of the checkout, where nothing looks for settings or modules.
    assert fetch["with"]["path"].startswith("${{ runner.temp }}/")
    assert render["env"] == {"REPORTS": fetch["with"]["path"], "COMMENT": keep["with"]["path"]}
    assert keep["with"]["name"] == "perfguard-rendered"


def test_what_a_copy_has_to_change_is_at_the_top():
    """Tests, baselines and how to install are named once; the rest is the same in every project."""
    named = yaml.safe_load(OURS.read_text())["env"]
    assert named.keys() == {"INSTALL", "INSTALL_HISTORY", "TESTS", "BASELINES"}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["perfguard"]
    assert named["BASELINES"] == settings["baselines"]
    assert (ROOT / named["TESTS"]).is_dir()
    for job in yaml.safe_load(OURS.read_text())["jobs"].values():
        for step in job["steps"]:
            assert "pip" not in step.get("run", "")
            assert named["TESTS"] not in step.get("run", "")


def test_options_of_the_workflow_are_options_there_are():
    from perfguard.cli import cli

    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for word in re.findall(r"--perfguard[a-z-]*", script("gate", "pytest")):
        assert re.search(rf"{word}\b", told.stdout), word
    for job in yaml.safe_load(OURS.read_text())["jobs"].values():
        for step in job["steps"]:
            for line in step.get("run", "").replace("\\\n", "").splitlines():
                if line.startswith("perfguard "):
                    assert shlex.split(line.partition("||")[0])[1] in cli.list_commands(None)  # type: ignore[arg-type]


def test_the_extras_it_installs_are_extras_there_are():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = re.findall(r"pip install .*?\[([a-z,]+)\]'", OURS.read_text())
    assert len(found) == 4
    for names in found:
        assert set(names.split(",")) <= known.keys()


@pytest.mark.slow
def test_a_refresh_is_offered_as_a_patch_that_applies(tmp_path):
    """The last steps of the refresh job, in a real repository: a changed baseline, and a new one."""
    place = tmp_path / "checkout"
    (place / "baselines").mkdir(parents=True)
    (place / "baselines" / "old.json").write_text('{\n  "a": 1\n}\n')

    git(place, "init", "-q")
    commit(place, "one")
    (place / "baselines" / "old.json").write_text('{\n  "a": 2\n}\n')
    (place / "baselines" / "new.json").write_text("{}\n")
    summary = tmp_path / "summary.md"
    environ = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "BASELINES": "baselines"}
    subprocess.run(["bash", "-e", "-c", script("refresh", "baselines.patch")], cwd=place, env=environ, check=True)
    assert '+  "a": 2' in summary.read_text()
    git(place, "reset", "-q", "--hard")
    (place / "baselines" / "new.json").unlink(missing_ok=True)
    git(place, "apply", "baselines.patch")
    assert (place / "baselines" / "old.json").read_text() == '{\n  "a": 2\n}\n'
    assert (place / "baselines" / "new.json").read_text() == "{}\n"


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """A repository in which a pull request that makes a test slower is checked out as GitHub does."""
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    place = tmp_path_factory.mktemp("merged") / "project"
    new_project(place)
    with (place / "pyproject.toml").open("a") as settings:
        # Nothing here is about time.
        settings.write('time = "off"\n')
    assert not run_project(place, TESTS_RUN, "--perfguard-update").status
    git(place, "init", "-q", "-b", "main")
    commit(place, "base")
    git(place, "checkout", "-q", "-b", "slower")
    model = place / "app" / "mlp.py"
    model.write_text(model.read_text().replace("documents @ (projection @ query)", "(documents @ projection) @ query"))
    commit(place, "slower")
    git(place, "checkout", "-q", "main")
    git(place, "merge", "-q", "--no-ff", "--no-edit", "slower")
    return place


TESTS_RUN = ("rank",)


def git(place: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, cwd=place, check=True, capture_output=True)


def commit(place: Path, message: str) -> None:
    git(place, "add", "-A")
    git(place, "commit", "-qm", message)


def run_step(place: Path, part: str) -> int:
    """Run the script of a step of the gate as GitHub's runner does, and return its exit status."""
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith(("PYTEST", "GIT"))},
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(place.parent / "summary.md"),
        "TESTS": " ".join(f"tests/test_speed.py::test_{test}" for test in TESTS_RUN),
        "BASELINES": "baselines",
        "NUMBER": "3",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script("gate", part)], cwd=place, env=environment, capture_output=True, text=True
    )
    print(done.stdout, done.stderr)
    return done.returncode


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_gate_of_a_pull_request_from_its_runs_to_its_comment(merged):
    """A regression fails the gate and the comparison, until its own baseline says why."""
    summary, results = merged.parent / "summary.md", merged / "perfguard-results"
    assert run_step(merged, "pytest --perfguard") == 1
    assert run_step(merged, "perfguard ab") == 1
    assert run_step(merged, "comment/number.txt") == 0
    gate, beside = (results / "summary.md").read_text(), (results / "ab.md").read_text()
    # Each run tells the job's page once; the runs inside of `ab` tell it nothing.
    assert summary.read_text() == f"{gate}\n{beside}"
    for text in (gate, beside):
        assert "### perfguard: ❌ 1 failed" in text
    assert (merged / "comment" / "number.txt").read_text() == "3\n"
    first, second = rendered(merged / "comment").split("\n## Side by side with the base\n")
    assert [text.count("### perfguard: ❌ 1 failed") for text in (first, second)] == [1, 1]
    assert "\n> not accepted: " in second

    (merged / "baselines" / "reason.md").write_text("Exact scores.\n")
    git(merged, "add", "baselines")
    git(merged, "commit", "-q", "--amend", "--no-edit")
    assert run_step(merged, "perfguard ab") == 1
    assert "\n> not accepted: " in (results / "ab.md").read_text()

    assert not run_project(merged, TESTS_RUN, "--perfguard-update", "--perfguard-reason=Exact scores.").status
    git(merged, "add", "baselines")
    git(merged, "commit", "-q", "--amend", "--no-edit")
    assert run_step(merged, "pytest --perfguard") == 0
    assert run_step(merged, "perfguard ab") == 0
    accepted = r"\n> accepted: .* and its baseline says why: Exact scores\.\n"
    assert re.search(accepted, (results / "ab.md").read_text())
    assert run_step(merged, "comment/number.txt") == 0
    assert re.search(accepted, rendered(merged / "comment"))


@pytest.mark.slow
def test_the_comment_of_a_run_that_wrote_nothing_has_its_number(tmp_path):
    assert run_step(tmp_path, "comment/number.txt") == 0
    assert [path.name for path in (tmp_path / "comment").iterdir()] == ["number.txt"]
    assert "**The gate wrote no report that can be read**" in rendered(tmp_path / "comment")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_thirds_of_ci_hold_every_exhaustive_test_once():
    """All variants of a test are in one third, so that what they share is made once."""

    def collected(*arguments: str) -> list[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-m",
            "exhaustive",
            *arguments,
            "tests/stores",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return [line for line in done.stdout.splitlines() if "::" in line]

    thirds = [collected("--third", str(number)) for number in range(3)]
    assert min(map(len, thirds)) > 0
    assert sorted(chain.from_iterable(thirds)) == sorted(collected())
    functions = [{one.partition("[")[0] for one in third} for third in thirds]
    assert len(set.union(*functions)) == sum(map(len, functions))


def test_a_commit_chooses_the_third_that_ci_runs():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "git rev-list --count HEAD" in text
    assert "third=(--third $((commits % 3)))" in text
