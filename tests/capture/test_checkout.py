"""The checkout of a run: commit, branch, and the page of the CI."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from perfguard.capture.checkout import commit_of_baseline, current_commit, measured_commit, provenance, repository_of
from tests.programs import git


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


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("setting", ["core.fsmonitor", "gpg.program"])
def test_no_program_of_a_repository_s_own_settings_runs(tmp_path, setting):
    place, ran, program = tmp_path / "unpacked", tmp_path / "ran", tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\necho ran >> '{ran}'\ncat > {os.devnull}\necho SIGNED\necho '[GNUPG:] SIG_CREATED ' >&2\n"
    )
    program.chmod(0o755)
    place.mkdir()
    git(place, "init", "-q")
    (place / "net.py").write_text("one")
    git(place, "add", "net.py")
    git(place, "-c", f"gpg.program={program}", "commit", "-q", "-S", "-m", "one")
    ran.unlink()
    git(place, "config", "log.showSignature", "true")
    git(place, "config", setting, str(program))
    (place / "net.py").write_text("two")
    found = provenance(place, {})
    assert (found.commit or "").endswith("+dirty")
    assert "+dirty." in (measured_commit(place, place / "baselines") or "")
    assert datetime.fromisoformat(found.committed_at or "")
    assert not ran.exists()


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


class Repository:
    """A repository with a model, a test of it, and a baseline that is stored beside them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.test = top / "tests" / "test_net.py"
        self.baseline = top / "baselines" / "a.json"
        for place in (self.test, self.baseline):
            place.parent.mkdir(parents=True)

    def commit(self, words: str, **files: str) -> str:
        self.write(**files)
        git(self.top, "add", "-A")
        git(self.top, "commit", "-q", "-m", words)
        return git(self.top, "rev-parse", "HEAD")

    def write(self, **files: str) -> None:
        places = {"test": self.test, "baseline": self.baseline}
        for name, text in files.items():
            places.get(name, self.top / f"{name}.py").write_text(text)

    def refresh(self) -> str:
        """Store a baseline, and return the commit that it names."""
        found = measured_commit(self.top, self.baseline.parent)
        assert found is not None
        self.write(baseline=found)
        return found

    def found(self, recorded: str | None) -> tuple[str | None, str]:
        return commit_of_baseline(self.baseline, recorded, self.test)


@pytest.fixture
def repository(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    made = Repository(tmp_path / "project")
    git(made.top, "init", "-q")
    return made


def test_the_commit_of_a_baseline_is_the_one_it_names(repository, tmp_path):
    first = repository.commit("one", net="one", test="one")
    assert repository.refresh() == first
    assert repository.found(first) == (first, "")
    # Baselines are no code: what was refreshed before and is not committed yet does not count.
    repository.commit("baseline")
    repository.write(baseline="other")
    assert repository.refresh() == git(repository.top, "rev-parse", "HEAD")
    assert repository.found(None) == (None, "the baseline names no commit")
    assert repository.found("--upload-pack=evil")[1].startswith("the baseline names no commit of git")
    unknown = f"the repository has no commit {'0' * 7} (it was squashed or rebased away)"
    for more in ("", "+dirty", f"+dirty.{16 * '0'}"):
        assert repository.found(f"{40 * '0'}{more}") == (None, unknown)
    nowhere = commit_of_baseline(repository.baseline, first, tmp_path / "nowhere" / "test_a.py")
    assert nowhere == (None, "git knows no repository at nowhere")


def test_of_changed_files_it_is_the_commit_made_of_them(repository):
    first = repository.commit("one", net="one", test="one")
    lost = (
        None,
        f"the baseline was made of files changed after {first[:7]}, and no commit right after it has these files",
    )
    repository.write(net="two", more="new")
    recorded = repository.refresh()
    assert recorded.startswith(f"{first}+dirty.")
    assert repository.found(recorded) == lost
    # What is new and no Python file may be left lying there.
    (repository.top / "notes.txt").write_text("mine")
    brought = repository.commit("two, with its baseline")
    assert repository.found(recorded) == (brought, "")
    # An older perfguard wrote no digest: whether that commit is the code that was measured, nobody knows.
    assert repository.found(f"{first}+dirty") == lost
    # Later commits may touch the file: a refresh of something else, another name.
    repository.commit("three", net="three", baseline="2")
    assert repository.found(recorded) == (brought, "")
    # Squashed together with later work, it is of other code.
    git(repository.top, "reset", "-q", "--soft", brought)
    git(repository.top, "commit", "-q", "--amend", "-m", "squashed")
    assert repository.found(recorded) == lost


@pytest.mark.parametrize(
    "then",
    [
        pytest.param({"net": "two, and slower"}, id="edited on before the commit"),
        pytest.param({"net": "one"}, id="the baseline alone"),
        pytest.param({"other": "a module"}, id="another file as well"),
    ],
)
def test_a_commit_of_other_code_than_was_measured_is_not_taken_for_it(repository, then):
    repository.commit("one", net="one", test="one")
    repository.write(net="two")
    recorded = repository.refresh()
    repository.commit("two", **then)
    assert repository.found(recorded)[0] is None


def test_of_a_test_that_was_new_it_is_the_commit_that_brought_it(repository):
    first = repository.commit("one", net="one")
    repository.write(test="new")
    recorded = repository.refresh()
    assert recorded.startswith(f"{first}+new.")
    assert repository.found(recorded)[0] is None
    brought = repository.commit("its test, and its baseline")
    assert repository.found(recorded) == (brought, "")
    # An older perfguard named the commit alone.
    assert repository.found(first) == (None, f"the baseline's commit {first[:7]} has no tests/test_net.py")


def test_beside_a_new_file_that_is_never_committed_it_is_the_commit_it_names(repository):
    first = repository.commit("one", net="one", test="one")
    repository.write(scratch="mine")
    recorded = repository.refresh()
    repository.commit("the baseline")
    assert repository.found(recorded) == (first, "")


def test_a_checkout_of_another_user_says_what_to_set(repository, monkeypatch):
    first = repository.commit("one", net="one", test="one")
    # git's own way to play that.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = repository.found(first)
    assert found[1].startswith("git refuses ")
    command = f"(git config --global --add safe.directory {repository.top})"
    assert found[1].endswith(f"which another user owns {command}")


def test_in_a_shallow_checkout_there_is_none(repository, tmp_path):
    """Every file seems to come with its only commit."""
    repository.commit("one", net="one", test="one")
    repository.write(net="two")
    recorded = repository.refresh()
    repository.commit("two")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository.top}", str(tmp_path / "shallow"))
    shallow = tmp_path / "shallow"
    found = commit_of_baseline(shallow / "baselines" / "a.json", recorded, shallow / "tests" / "test_net.py")
    assert found[1].endswith("(git fetch --unshallow may bring it)")


def test_a_file_that_is_gone_counts_as_changed(repository):
    repository.commit("one", net="one", test="one", old="one")
    (repository.top / "old.py").unlink()
    recorded = repository.refresh()
    brought = repository.commit("without it")
    assert "+dirty." in recorded
    assert repository.found(recorded) == (brought, "")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_hook_of_git_does_not_lead_to_its_own_repository(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert repository_of(tmp_path / "one") == (tmp_path / "one").resolve()
    assert repository_of(tmp_path / "nowhere") is None
