"""The checkout of a run: commit, branch, and the page of the CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from perfguard.capture.checkout import current_commit, provenance


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
