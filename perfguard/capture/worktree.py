"""A temporary worktree of another commit of the user's repository, removed however this process ends.

Everything is in one temporary directory. A guardian, a process in its own session, waits until the work is done, or the pipe
to it is closed (after kill -9 by the kernel). Then it ends all processes of the comparison, removes the worktree from the
repository and deletes the directory. If the guardian ends too (power cut), the next run does this.

The checkout, its index, its branch and its stash are never changed: the only commands of git are `worktree add --detach` and
`worktree remove`, without hooks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfguard import child, scratch
from perfguard.capture.command import guarded, kill_marked, last_line
from perfguard.errors import CaptureError, UsageError, nearest

#: The variable that identifies every process of a comparison.
MARK = "PERFGUARD_BESIDE"

_PREFIX = "perfguard-ab-"
#: The file with the repository that has a worktree in the directory.
_REPOSITORY = "repository"
#: The folder of the worktree, below the directory.
_BASE = "base"
#: Set by git for its hooks; with them every git below would use the wrong repository.
_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
#: Seconds that a git command may take: checking out a large repository takes minutes.
_GIT_TIMEOUT_S = 600.0
#: Programs that a repository's own config names, and git would start to ask for a status, show a commit or check one out.
_NO_PROGRAMS = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "log.showSignature=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The user's repository: `top` is the checkout, `common` the git directory that all worktrees share."""

    top: Path
    common: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The temporary directory of one comparison; its processes have `mark` in the variable `MARK`."""

    directory: Path
    mark: str

    def outside(self, text: str) -> str:
        """Return a text for readers after the directory is deleted: a file of the worktree is one of the checkout."""
        top = rf"{re.escape(str(self.directory))}/{_BASE}/[^/\s]+"
        for pattern, name in ((f"{top}/", ""), (rf"{top}\b", "."), (re.escape(str(self.directory)), "(deleted)")):
            text = re.sub(pattern, name, text)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A commit checked out in a temporary directory."""

    top: Path
    commit: str


def without_git_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git uses the working directory, even if a hook of git started this process."""
    return {name: value for name, value in environment.items() if name not in _GIT_VARIABLES}


def run_git(
    arguments: list[str],
    directory: Path,
    *,
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
    given: str | None = None,
) -> child.CompletedProcess[str]:
    """Run git in English, with `given` as its input, without the repository's hooks, monitor and signatures' checker.

    It never asks the user. Raises the errors of `child.run`.
    """
    return child.run(
        ["git", *(word for one in _NO_PROGRAMS for word in ("-c", one)), *arguments],
        cwd=directory,
        env={**without_git_variables(os.environ), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(variables or {})},
        input=given or "",
        capture_output=True,
        timeout=timeout_s,
        start_new_session=True,
    )


def find_repository(directory: Path) -> Repository:
    """Return the repository of a directory. Raises `UsageError` if there is none, or no git."""
    found = _git(["rev-parse", "--show-toplevel", "--git-common-dir"], directory)
    if found.returncode != 0:
        raise UsageError(
            f"{directory} is not in a git repository, so there is no base to check out ({_error_of(found)}). Run this in "
            "one, or compare two environments: perfguard ab --base-python PATH"
        )
    top, common = found.stdout.splitlines()[:2]
    return Repository(top=Path(top), common=(directory / common).resolve())


def find_commit(repository: Repository, ref: str) -> str:
    """Return the commit of a branch, a tag or a hash.

    Raises `UsageError` for an unknown one, and for a name that a branch and a tag have (git takes the tag); `CaptureError` for
    one whose commit the repository has lost.
    """
    found = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"], repository.top)
    if found.returncode == 0 and (commit := found.stdout.strip()).isalnum():
        both = [f"refs/{kind}/{ref}" for kind in ("heads", "tags")]
        there = _git(["for-each-ref", "--format=%(refname)", *both], repository.top).stdout.splitlines()
        if set(both) <= set(there):
            raise UsageError(
                f"{ref} is a branch and a tag of {repository.top}. Write --base {both[0]}, or --base {both[1]}"
            )
        return commit
    names = _git(["for-each-ref", "--format=%(refname:short)"], repository.top).stdout.splitlines()
    if ref in names:
        raise CaptureError(
            f"git has the name {ref} in {repository.top}, and cannot read the commit it stands for. See what is damaged "
            f"with: git fsck, and fetch it again with: git fetch origin {ref}"
        )
    raise UsageError(
        f"There is no commit {ref!r} in {repository.top}; {nearest(ref, names, otherwise=_fetched(ref, names))}"
    )


def _fetched(ref: str, names: list[str]) -> str:
    """Return how to fetch what a repository lacks: a shallow clone has no parents, and tracks one branch."""
    if not names:
        return "the repository has no commit yet"
    if re.search(r"[\^~]", ref):
        return "a shallow clone lacks older commits; fetch them with: git fetch --deepen=1"
    if not re.match(r"[^-\s]", ref):
        return "name a branch, a tag or a commit"
    branch = shlex.quote(ref.removeprefix("origin/"))
    return f"fetch it with: git fetch origin {branch}, then compare with what was fetched: --base FETCH_HEAD"


def add_worktree(repository: Repository, ref: str, place: Place) -> Worktree:
    """Check `ref` out into a guarded place. Raises `UsageError` for an unknown ref, `CaptureError` if git fails."""
    commit = find_commit(repository, ref)
    _forget(repository.common, _has_vanished)
    (place.directory / _REPOSITORY).write_bytes(os.fsencode(repository.common))
    # The name of the checkout: if the top is a package, its name matters.
    top = place.directory / _BASE / repository.top.name
    top.parent.mkdir()
    found = _git(["worktree", "add", "--detach", "--quiet", str(top), commit], repository.top, place.mark)
    if found.returncode != 0:
        raise CaptureError(
            f"git could not check {ref} out into {top}: {_error_of(found)}. Free the disk or fix what git reports, then run "
            "the same command again."
        )
    return Worktree(top=top, commit=commit)


def relocated(path: str, checkout: str, top: str) -> str:
    """Return the path in the worktree at `top` for one in the checkout, and any other path unchanged."""
    if not is_below(path, checkout):
        return path
    return os.path.normpath(os.path.join(top, os.path.relpath(os.path.realpath(path), checkout)))


def is_below(path: str | None, top: str) -> bool:
    """Whether a path is in a tree, and not in this interpreter's own environment: a worktree has no `.venv`."""
    if not path:
        return False
    path, prefix = os.path.realpath(path), os.path.realpath(sys.prefix)
    if prefix.startswith(top + os.sep) and (path == prefix or path.startswith(prefix + os.sep)):
        return False
    return path == top or path.startswith(top + os.sep)


@contextlib.contextmanager
def guarded_place() -> Iterator[Place]:
    """Yield a temporary directory; it is deleted, and its processes and worktree end, with this process."""
    sweep()
    folder = scratch.new_folder(_PREFIX)
    directory = folder.path.resolve()
    mark = uuid.uuid4().hex
    try:
        with guarded("perfguard.capture.worktree:clear_away", str(directory), mark):
            yield Place(directory=directory, mark=mark)
    finally:
        folder.release()


def clear_away(directory: str, mark: str) -> None:
    """End the processes of a comparison, then delete its directory."""
    kill_marked(MARK, mark)
    clear(Path(directory))


def sweep() -> None:
    """Delete the directories of comparisons whose guardian was killed as well."""
    for directory in scratch.left(_PREFIX):
        clear(directory)


def clear(directory: Path) -> None:
    """Remove the worktree below a guarded directory from its repository, and delete the directory."""
    with contextlib.suppress(FileNotFoundError):
        common = os.fsdecode((directory / _REPOSITORY).read_bytes())
        for top in (directory / _BASE).glob("*"):
            # Twice: a worktree whose creation was interrupted is locked.
            _git(["--git-dir", common, "worktree", "remove", "--force", "--force", str(top)], directory.parent)
        _forget(Path(common), lambda place: place.is_relative_to(directory))
    scratch.remove_tree(directory)


def _forget(common: Path, is_ours: Callable[[Path], bool]) -> None:
    """Delete git's entries of perfguard's worktrees; git does not remove those of incomplete worktrees itself.

    Not by `git worktree prune`: that would also delete the entry of a user's worktree on a disk that is not mounted now.
    """
    for entry in (common / "worktrees").glob("*"):
        try:
            # A path of any bytes, relative to here if git is configured so.
            place = Path(os.path.normpath(entry / os.fsdecode((entry / "gitdir").read_bytes().strip())))
        except OSError:
            continue
        if is_ours(place):
            shutil.rmtree(entry, ignore_errors=True)


def _has_vanished(place: Path) -> bool:
    """Whether a worktree was in a guarded directory that no longer exists: machines delete temporary files."""
    guarded = next((one for one in place.parents if one.name.startswith(_PREFIX)), None)
    return guarded is not None and not guarded.exists()


def _git(arguments: list[str], directory: Path, mark: str | None = None) -> child.CompletedProcess[str]:
    """Run git. Raises `UsageError` without git, `CaptureError` if it hangs."""
    marked = {MARK: mark} if mark is not None else {}
    try:
        return run_git(arguments, directory, timeout_s=_GIT_TIMEOUT_S, variables=marked)
    except FileNotFoundError:
        raise UsageError(
            "there is no git on the PATH, so no base can be checked out; install it, or compare two environments: "
            "perfguard ab --base-python PATH"
        ) from None
    except child.TimeoutExpired:
        raise CaptureError(
            f"git {arguments[0]} did not end within {_GIT_TIMEOUT_S:.0f} seconds in {directory}; find what blocks it."
        ) from None


def _error_of(found: child.CompletedProcess[str]) -> str:
    return last_line(found.stderr) or f"git ended with status {found.returncode}"
