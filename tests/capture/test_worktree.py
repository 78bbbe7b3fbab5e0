"""A worktree beside a real checkout: nothing of the user's is touched, and nothing is left, however the process ends."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfguard.capture import worktree
from perfguard.capture.command import kill_marked
from perfguard.capture.worktree import (
    Place,
    add_worktree,
    find_commit,
    find_repository,
    guarded_place,
    is_below,
    relocated,
    sweep,
)
from perfguard.errors import CaptureError, UsageError
from tests.programs import git, wait_until

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of this test's own, for guarded places."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


@pytest.fixture
def checkout(tmp_path):
    """A repository with two commits, a staged change, a changed file, an untracked one, a stash and a hook."""
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "model.py").write_text("old = 1\n")
    (top / "sub").mkdir()
    (top / "sub" / "inner.py").write_text("inner = 1\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    git(top, "tag", "v1.0")
    (top / "model.py").write_text("new = 1\n")
    git(top, "commit", "-qam", "two")
    (top / "model.py").write_text("stashed = 1\n")
    git(top, "stash")
    (top / "model.py").write_text("staged = 1\n")
    git(top, "add", "model.py")
    (top / "model.py").write_text("changed = 1\n")
    (top / "untracked.py").write_text("untracked = 1\n")
    hook = top / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    return top


def contents(top: Path) -> dict[str, str]:
    """Return every file of a checkout and of its git directory, by checksum."""
    files = (path for path in top.rglob("*") if path.is_file())
    return {str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# -- the checkout ------------------------------------------------------------------------------------------------------


def test_a_base_is_checked_out_beside_a_dirty_checkout_that_stays_as_it_is(checkout, temporary):
    before = contents(checkout)
    with guarded_place() as place:
        found = add_worktree(find_repository(checkout / "sub"), "v1.0", place)
        assert (found.top / "model.py").read_text() == "old = 1\n"
        assert found.top.name == "project"
        assert not (found.top / "untracked.py").exists()
        assert git(found.top, "rev-parse", "HEAD") == found.commit
    assert contents(checkout) == before
    assert list(temporary.iterdir()) == []
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_base_that_a_test_wrote_into_goes_away_all_the_same(checkout, temporary):
    with guarded_place() as place:
        found = add_worktree(find_repository(checkout), "HEAD", place)
        (found.top / "model.py").write_text("changed\n")
        (found.top / "left.txt").write_text("left\n")
    assert list(temporary.iterdir()) == []
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_worktree_of_the_users_own_stays_also_where_its_disk_is_gone(checkout, temporary, tmp_path):
    git(checkout, "worktree", "add", "-q", str(tmp_path / "mine"), "v1.0")
    shutil.rmtree(tmp_path / "mine")
    with guarded_place() as place:
        add_worktree(find_repository(checkout), "main", place)
    assert str(tmp_path / "mine") in git(checkout, "worktree", "list")


def test_two_at_a_time_do_not_disturb_each_other(checkout, temporary):
    with guarded_place() as one, guarded_place() as other:
        first = add_worktree(find_repository(checkout), "v1.0", one)
        second = add_worktree(find_repository(checkout), "main", other)
        assert (first.top / "model.py").read_text() == "old = 1\n"
        assert (second.top / "model.py").read_text() == "new = 1\n"
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="/proc tells which process has a mark")
def test_whoever_ends_the_run_by_its_mark_does_not_end_the_guardian(checkout, temporary, monkeypatch):
    """A comparison that confirms a time is ended by the mark of the confirmation; then somebody has to clear away."""
    monkeypatch.setenv("PERFGUARD_CONFIRMATION", "ended")
    with guarded_place() as place:
        add_worktree(find_repository(checkout), "v1.0", place)
        kill_marked("PERFGUARD_CONFIRMATION", "ended")
        assert place.directory.is_dir()
    assert not place.directory.exists()
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_hook_that_calls_perfguard_does_not_lead_git_astray(checkout, temporary, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert find_repository(checkout).top == checkout


# -- what is wrong with a call -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ref, said",
    [
        ("mian", "There is no commit 'mian' in .*; did you mean 'main'?"),
        ("v1", "did you mean 'v1.0'?"),
        ("0123456", "fetch it with: git fetch origin 0123456, then compare with what was fetched: --base FETCH_HEAD"),
        ("origin/we;ird$(touch x)", r"git fetch origin 'we;ird\$\(touch x\)', then"),
        ("HEAD^9", "a shallow clone lacks older commits; fetch them with: git fetch --deepen=1"),
        ("^main", "There is no commit '.main'"),
        ("--all", "There is no commit '--all'"),
        ("main:model.py", "There is no commit"),
        ("", "There is no commit ''"),
    ],
)
def test_an_unknown_base_is_refused_with_what_is_near(checkout, ref, said):
    with pytest.raises(UsageError, match=said):
        find_commit(find_repository(checkout), ref)


def test_a_name_of_a_branch_and_a_tag_is_refused(checkout):
    repository = find_repository(checkout)
    git(checkout, "tag", "main", "v1.0")
    with pytest.raises(
        UsageError, match=r"main is a branch and a tag.*--base refs/heads/main, or --base refs/tags/main"
    ):
        find_commit(repository, "main")
    assert find_commit(repository, "refs/tags/main") == git(checkout, "rev-parse", "v1.0^{commit}")


def test_what_a_shallow_clone_lacks_is_there_after_the_hint(checkout, tmp_path):
    git(checkout, "branch", "other", "v1.0")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=main", checkout.as_uri(), str(clone))
    with pytest.raises(
        UsageError, match="git fetch origin other, then compare with what was fetched: --base FETCH_HEAD"
    ):
        find_commit(find_repository(clone), "other")
    git(clone, "fetch", "-q", "origin", "other")
    assert find_commit(find_repository(clone), "FETCH_HEAD") == git(checkout, "rev-parse", "other")


def test_a_directory_outside_of_git_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match=r"is not in a git repository.*--base-python"):
        find_repository(tmp_path)


def test_a_machine_without_git_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no git on the PATH"):
        find_repository(tmp_path)


def test_a_repository_without_a_commit_is_refused(tmp_path):
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="the repository has no commit yet"):
        find_commit(find_repository(tmp_path), "main")


def test_what_git_says_is_passed_on(checkout, temporary):
    with guarded_place() as place:
        blob = git(checkout, "rev-parse", "v1.0:model.py")
        # The one file: the folder around it holds every object whose name begins so, the commit's own at times.
        (checkout / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        with pytest.raises(CaptureError, match=r"git could not check v1\.0 out"):
            add_worktree(find_repository(checkout), "v1.0", place)
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_name_whose_commit_is_lost_is_not_called_unknown(checkout):
    commit = git(checkout, "rev-parse", "v1.0")
    (checkout / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(CaptureError, match=r"cannot read the commit it stands for.*git fsck"):
        find_commit(find_repository(checkout), "v1.0")


# -- paths -------------------------------------------------------------------------------------------------------------


def test_a_path_into_the_checkout_leads_into_the_worktree(tmp_path):
    top = str(tmp_path)
    assert relocated(f"{top}/src/pkg", top, "/w/t") == "/w/t/src/pkg"
    assert relocated(top, top, "/w/t") == "/w/t"
    assert relocated(f"{top}-other/src", top, "/w/t") == f"{top}-other/src"
    assert relocated("/usr/lib", top, "/w/t") == "/usr/lib"


def test_an_environment_inside_the_checkout_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert not is_below(str(tmp_path / ".venv" / "lib" / "site-packages"), str(tmp_path))
    assert is_below(str(tmp_path / ".venvironment"), str(tmp_path))


# -- however it ends ---------------------------------------------------------------------------------------------------

#: Checks a base out, starts a process that would live on, and says so.
WORK = """
import os, signal, subprocess, sys, time
from pathlib import Path
from perfguard.capture.worktree import MARK, add_worktree, find_repository, guarded_place

# A shell that starts the suite in the background lets it ignore Ctrl-C and its hanging up, and everything below it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with guarded_place() as place:
    add_worktree(find_repository(Path.cwd()), "v1.0", place)
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: place.mark}, start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(600)
"""


@contextmanager
def working(command: list[str], directory: Path):
    """Start the work, wait until it has a worktree, and in the end wait until it has ended."""
    with subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process, int(process.stdout.readline())
        process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.variants(2)
def test_nothing_is_left_of_a_process_that_was_ended(checkout, temporary, number):
    before = contents(checkout)
    code = [sys.executable, "-c", WORK]
    with working(code, checkout) as (process, child):
        assert len(git(checkout, "worktree", "list").splitlines()) == 2
        process.send_signal(number)
    wait_until(lambda: list(temporary.iterdir()) == [])
    assert contents(checkout) == before
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


@pytest.mark.slow
def test_what_a_guardian_could_not_clear_the_next_run_does(checkout, temporary):
    before = contents(checkout)
    with working([sys.executable, "-c", WORK], checkout) as (process, child):
        for pid in (*children_of(process.pid), process.pid):
            if pid != child:
                os.kill(pid, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    assert len(list(temporary.iterdir())) == 1
    with guarded_place():
        pass
    assert list(temporary.iterdir()) == []
    assert contents(checkout) == before


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_sweep_leaves_what_is_in_use_and_what_is_a_strangers(checkout, temporary):
    (temporary / "perfguard-ab-strange").mkdir()
    with guarded_place() as place:
        add_worktree(find_repository(checkout), "v1.0", place)
        sweep()
        assert place.directory.is_dir()
        assert len(git(checkout, "worktree", "list").splitlines()) == 2
    assert (temporary / "perfguard-ab-strange").is_dir()


def test_a_directory_without_an_owner_is_deleted_and_one_of_another_process_stays(temporary):
    left = temporary / "perfguard-ab-leftover"
    left.mkdir()
    hold = "import sys; from perfguard.scratch import Folder; Folder(sys.argv[1]); print(flush=True); input()"
    command = [sys.executable, "-c", hold, str(left)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        sweep()
        assert left.exists()
        owner.kill()
    sweep()
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_a_sweep_follows_no_link_that_another_user_planted(checkout, temporary, tmp_path):
    mine = tmp_path / "mine"
    git(checkout, "worktree", "add", "-q", str(mine / "base" / "tree"), "v1.0")
    (mine / "repository").write_text(str(checkout / ".git"))
    planted = temporary / "perfguard-ab-planted1"
    planted.symlink_to(mine)
    os.lchown(planted, 65534, 65534)
    sweep()
    assert (mine / "base" / "tree" / "model.py").is_file()


@pytest.mark.parametrize("gitdir", [b"/mnt/\xff\xfe/mine/.git\n", b"../../../../mine/.git\n", b""])
def test_worktrees_of_the_users_own_may_lie_anywhere(checkout, temporary, gitdir):
    entry = checkout / ".git" / "worktrees" / "mine"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_bytes(gitdir)
    with guarded_place() as place:
        assert add_worktree(find_repository(checkout), "v1.0", place).top.is_dir()
    assert (entry / "gitdir").read_bytes() == gitdir


def test_what_the_machine_deleted_is_forgotten_by_git_as_well(checkout, temporary):
    gone = temporary / "perfguard-ab-gone"
    git(checkout, "worktree", "add", "-q", "--detach", str(gone / "base" / "project"), "v1.0")
    shutil.rmtree(gone)
    with guarded_place() as place:
        add_worktree(find_repository(checkout), "v1.0", place)
        assert "perfguard-ab-gone" not in git(checkout, "worktree", "list")


def test_one_that_was_interrupted_in_the_making_goes_away(checkout, temporary):
    before = contents(checkout)
    with guarded_place() as place:
        found = add_worktree(find_repository(checkout), "v1.0", place)
        entry = checkout / ".git" / "worktrees" / found.top.name
        (entry / "locked").write_text("initializing")
        (found.top / ".git").unlink()
        (entry / "HEAD").unlink()
    assert contents(checkout) == before


def test_a_directory_that_cannot_be_looked_at_is_passed_over(temporary, monkeypatch):
    (temporary / "perfguard-ab-other").mkdir()
    monkeypatch.setattr(worktree.os, "getuid", lambda: -1)
    sweep()
    assert (temporary / "perfguard-ab-other").is_dir()


def test_a_text_for_later_names_no_file_in_a_place_that_is_deleted(tmp_path):
    place = Place(directory=tmp_path, mark="m")
    text = f"{tmp_path}/base/project/tests/test_a.py:3: OSError: {tmp_path}/run-0/tmp/x, in {tmp_path}/base/project, /tmp/y"
    assert place.outside(text) == "tests/test_a.py:3: OSError: (deleted)/run-0/tmp/x, in ., /tmp/y"
