"""The workflows: GitHub's own schema, and the commands of the copyable one, run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    from tomllib import loads as read_toml
else:
    from tomli import loads as read_toml

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OURS = ROOT / ".github" / "workflows" / "perfguard.yml"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_what_github_knows(path):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def steps(job: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(OURS.read_text())["jobs"][job]["steps"])


def script(job: str, beginning: str) -> str:
    """Return the script of a step that begins with, or holds, these words."""
    return str(next(step["run"] for step in steps(job) if beginning in step.get("run", "")))


def test_no_job_may_write_and_no_input_is_put_into_a_script():
    document = yaml.safe_load(OURS.read_text())
    assert document["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in OURS.read_text()
    for job in document["jobs"].values():
        assert "permissions" not in job
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step


def test_options_of_the_workflow_are_options_there_are():
    from perfguard.cli import cli

    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for word in re.findall(r"--perfguard[a-z-]*", script("gate", "pytest")):
        assert re.search(rf"{word}\b", told.stdout), word
    for job in yaml.safe_load(OURS.read_text())["jobs"].values():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                if line.startswith("perfguard "):
                    assert shlex.split(line.partition("||")[0])[1] in cli.list_commands(None)  # type: ignore[arg-type]


def test_the_extras_it_installs_are_extras_there_are():
    known = read_toml((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for names in re.findall(r"pip install -e '\.\[([a-z,]+)\]'", OURS.read_text()):
        assert set(names.split(",")) <= known.keys()


@pytest.mark.slow
def test_a_refresh_is_offered_as_a_patch_that_applies(tmp_path):
    """The last steps of the refresh job, in a real repository: a changed baseline, and a new one."""
    place = tmp_path / "checkout"
    (place / "baselines").mkdir(parents=True)
    (place / "baselines" / "old.json").write_text('{\n  "a": 1\n}\n')

    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, cwd=place, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (place / "baselines" / "old.json").write_text('{\n  "a": 2\n}\n')
    (place / "baselines" / "new.json").write_text("{}\n")
    summary = tmp_path / "summary.md"
    environ = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script("refresh", "baselines.patch")], cwd=place, env=environ, check=True
    )
    assert '+  "a": 2' in summary.read_text()
    git("reset", "-q", "--hard")
    (place / "baselines" / "new.json").unlink(missing_ok=True)
    git("apply", "baselines.patch")
    assert (place / "baselines" / "old.json").read_text() == '{\n  "a": 2\n}\n'
    assert (place / "baselines" / "new.json").read_text() == "{}\n"
