"""The checkout of a run: commit, branch, and the page of the CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from perfguard.capture.checkout import (
    BaselineCommit,
    commit_of_baseline,
    current_commit,
    provenance,
    repository_of,
)


def git(place: Path, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=place, check=True, capture_output=True, text=True, env={**os.environ, **identity, **settings}
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_named_and_marked_when_files_differ(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "net.py").write_text("one")
    assert current_commit(tmp_path) is None
    git(tmp_path, "add", "net.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "tag", "-a", "v1", "-m", "v1")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert current_commit(tmp_path) == commit
    (tmp_path / "net.py").write_text("two")
    assert current_commit(tmp_path) == f"{commit}+dirty"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_asking_for_the_commit_writes_nothing(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "net.py").write_text("one")
    git(tmp_path, "add", "net.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    # git would write down that the file is the same at another time.
    os.utime(tmp_path / "net.py", (1_000_000_000, 1_000_000_000))
    before = (tmp_path / ".git" / "index").read_bytes()
    assert current_commit(tmp_path) == git(tmp_path, "rev-parse", "HEAD")
    assert (tmp_path / ".git" / "index").read_bytes() == before


def test_outside_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert current_commit(tmp_path) is None
    assert current_commit(tmp_path / "nowhere") is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_run_comes_from_a_commit_a_branch_and_a_time(tmp_path):
    git(tmp_path, "init", "-q", "-b", "wider")
    (tmp_path / "net.py").write_text("one")
    git(tmp_path, "add", "net.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    found = provenance(tmp_path, {})
    assert (found.commit, found.branch, found.ci_url) == (git(tmp_path, "rev-parse", "HEAD"), "wider", None)
    assert datetime.fromisoformat(found.committed_at) <= datetime.fromisoformat(found.finished_at)
    assert found.finished_at.endswith("+00:00")
    git(tmp_path, "checkout", "-q", "--detach")
    assert provenance(tmp_path, {}).branch is None


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://git.example",
    "GITHUB_REPOSITORY": "a/b",
    "GITHUB_RUN_ID": "7",
    "GITHUB_REF_NAME": "12/merge",
}


@pytest.mark.parametrize(
    "environ, branch, page",
    [
        ({}, None, None),
        (GITHUB, "12/merge", "https://git.example/a/b/actions/runs/7"),
        ({**GITHUB, "GITHUB_HEAD_REF": "topic"}, "topic", "https://git.example/a/b/actions/runs/7"),
        ({"CI_COMMIT_REF_NAME": "main", "CI_JOB_URL": "https://x/1"}, "main", "https://x/1"),
        ({"BRANCH_NAME": "PR-3", "CHANGE_BRANCH": "topic", "BUILD_URL": "https://j/2"}, "topic", "https://j/2"),
    ],
)
def test_ci_names_the_branch_and_its_page(tmp_path, monkeypatch, environ, branch, page):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = provenance(tmp_path, environ)
    assert (found.commit, found.committed_at, found.branch, found.ci_url) == (None, None, branch, page)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_baseline_is_the_one_it_names_or_the_one_made_of_the_files_changed_then(tmp_path):
    def found(recorded, place):
        return commit_of_baseline(place, recorded, tmp_path / "tests")

    def commit(words, **files):
        for name, text in files.items():
            (tmp_path / name / "a.json").write_text(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", words)
        return git(tmp_path, "rev-parse", "HEAD")

    for name in ("baselines", "tests"):
        (tmp_path / name).mkdir()
    file = tmp_path / "baselines" / "a.json"
    assert found(None, file) == BaselineCommit(reason="git knows no repository at tests")
    git(tmp_path, "init", "-q")
    first = commit("one", tests="one")
    assert found(None, file) == BaselineCommit(reason="the baseline names no commit")
    assert found("--upload-pack=evil", file).reason.startswith("the baseline names no commit of git")
    assert found(first, file) == BaselineCommit(commit=first)
    unknown = f"the repository has no commit {'0' * 7} (git fetch --unshallow may bring it)"
    assert found("0" * 40, file) == BaselineCommit(reason=unknown)
    lost = BaselineCommit(
        reason=f"the baseline was made of files changed after {first[:7]}, and no commit right after it has it"
    )
    assert found(f"{first}+dirty", file) == lost
    brought = commit("two, with its baseline", tests="two", baselines="1")
    assert found(f"{first}+dirty", file) == BaselineCommit(commit=brought)
    # Later commits may touch the file: a refresh of something else, another name.
    commit("three", tests="three", baselines="2")
    assert found(f"{first}+dirty", file) == BaselineCommit(commit=brought)
    # Squashed together with later work, it may be of other code.
    git(tmp_path, "reset", "-q", "--soft", first)
    git(tmp_path, "commit", "-q", "--amend", "-m", "squashed")
    assert found(f"{first}+dirty", file) == lost
    # Where the checkout is shallow, every file seems to come with its only commit.
    (tmp_path / "shallow").mkdir()
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}", str(tmp_path / "shallow" / "one"))
    shallow = tmp_path / "shallow" / "one"
    assert commit_of_baseline(shallow / "baselines" / "a.json", f"{first}+dirty", shallow / "tests") == lost


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_hook_of_git_does_not_lead_to_its_own_repository(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert repository_of(tmp_path / "one") == (tmp_path / "one").resolve()
    assert repository_of(tmp_path / "nowhere") is None
