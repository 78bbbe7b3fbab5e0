"""A temporary worktree of another commit of the user's repository, removed however this process ends.

Everything is in one temporary directory. A guardian, a process in its own session, waits until the work is done, or the pipe
to it is closed (after kill -9 by the kernel). Then it ends all processes of the comparison, removes the worktree from the
repository and deletes the directory. If the guardian ends too (power cut), the next run does this.

The checkout, its index, its branch and its stash are never changed: the only commands of git are `worktree add --detach` and
`worktree remove`, without hooks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfguard.capture.command import guarded, kill_marked, last_line, process_fields
from perfguard.errors import CaptureError, UsageError, nearest

#: The variable that identifies every process of a comparison.
MARK = "PERFGUARD_BESIDE"

_PREFIX = "perfguard-ab-"
_OWNER = "owner.json"
#: Set by git for its hooks; with them every git below would use the wrong repository.
_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
#: Seconds after which a directory of another machine in a shared place counts as abandoned.
_ABANDONED_S = 7 * 86400.0
#: Seconds that a git command may take: checking out a large repository takes minutes.
_GIT_TIMEOUT_S = 600.0


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
) -> subprocess.CompletedProcess[str]:
    """Run git in English, with `given` as its input, and never ask the user. Raises the errors of `subprocess.run`."""
    return subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**without_git_variables(os.environ), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(variables or {})},
        input=given or "",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
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
    """Return the commit of a branch, a tag or a hash. Raises `UsageError` for an unknown one."""
    found = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"], repository.top)
    if found.returncode == 0:
        return found.stdout.strip()
    names = _git(["for-each-ref", "--format=%(refname:short)"], repository.top).stdout.splitlines()
    fetch = f"fetch it with: git fetch origin {ref}" if names else "the repository has no commit yet"
    raise UsageError(f"There is no commit {ref!r} in {repository.top}; {nearest(ref, names, otherwise=fetch)}")


def add_worktree(repository: Repository, ref: str, place: Place) -> Worktree:
    """Check `ref` out into a guarded place. Raises `UsageError` for an unknown ref, `CaptureError` if git fails."""
    commit = find_commit(repository, ref)
    _forget(repository.common, _has_vanished)
    _own(place.directory, repository.common)
    # The name of the checkout: if the top is a package, its name matters.
    top = place.directory / "base" / repository.top.name
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


@contextmanager
def guarded_place() -> Iterator[Place]:
    """Yield a temporary directory; it is deleted, and its processes and worktree end, with this process."""
    sweep()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    mark = uuid.uuid4().hex
    _own(directory, None)
    with guarded("perfguard.capture.worktree:clear_away", str(directory), mark):
        yield Place(directory=directory, mark=mark)


def clear_away(directory: str, mark: str) -> None:
    """End the processes of a comparison, then delete its directory."""
    kill_marked(MARK, mark)
    clear(Path(directory))


def sweep() -> None:
    """Delete the directories of comparisons whose guardian was killed as well."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            # Another user may make a directory of this name, with an owner file that would have git remove things.
            is_left = directory.stat().st_uid == os.getuid() and not _is_owned(directory)
        except OSError:
            continue
        if is_left:
            clear(directory)


def clear(directory: Path) -> None:
    """Remove the worktree below a guarded directory from its repository, and delete the directory."""
    common = _owner(directory).get("repository")
    for top in (directory / "base").glob("*"):
        if common is not None:
            # Twice: a worktree whose creation was interrupted is locked.
            _git(["--git-dir", str(common), "worktree", "remove", "--force", "--force", str(top)], directory.parent)
    if common is not None:
        _forget(Path(str(common)), lambda place: place.is_relative_to(directory))
    shutil.rmtree(directory, ignore_errors=True)


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


def _own(directory: Path, repository: Path | None) -> None:
    owner = {
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "machine": _machine(),
        "repository": str(repository) if repository else None,
    }
    (directory / _OWNER).write_text(json.dumps(owner), encoding="utf-8")


def _owner(directory: Path) -> dict[str, str | int | None]:
    try:
        owner = json.loads((directory / _OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_owned(directory: Path) -> bool:
    """Whether the process that made a directory still runs; a directory without an owner file is being made."""
    owner = _owner(directory)
    pid = owner.get("pid")
    if not isinstance(pid, int):
        return True
    if owner.get("machine") != _machine():
        # Several machines or containers share this place, and their processes are not visible here.
        return time.time() - directory.stat().st_mtime < _ABANDONED_S
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return owner.get("started") == _started(pid)


def _machine() -> str:
    """Return the scope of process ids: the boot of the machine and the pid namespace of the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return os.uname().nodename


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot (proc(5): /proc/pid/stat, field 22); None if unknown.

    It distinguishes a process from an earlier one with the same id.
    """
    fields = process_fields(pid)
    return int(fields[19]) if fields else None


def _git(arguments: list[str], directory: Path, mark: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run git without hooks. Raises `UsageError` without git, `CaptureError` if it hangs."""
    marked = {MARK: mark} if mark is not None else {}
    try:
        return run_git(
            ["-c", f"core.hooksPath={os.devnull}", *arguments], directory, timeout_s=_GIT_TIMEOUT_S, variables=marked
        )
    except FileNotFoundError:
        raise UsageError(
            "there is no git on the PATH, so no base can be checked out; install it, or compare two environments: "
            "perfguard ab --base-python PATH"
        ) from None
    except subprocess.TimeoutExpired:
        raise CaptureError(
            f"git {arguments[0]} did not end within {_GIT_TIMEOUT_S:.0f} seconds in {directory}; find what blocks it."
        ) from None


def _error_of(found: subprocess.CompletedProcess[str]) -> str:
    return last_line(found.stderr) or f"git ended with status {found.returncode}"
