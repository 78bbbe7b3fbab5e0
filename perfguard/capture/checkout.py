"""The checkout of a run: its commit and branch, and the page of its CI job."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from perfguard import child
from perfguard.capture.worktree import run_git
from perfguard.recording import Provenance

#: Variables of CI systems with the branch, the first that is set; a pull request's own branch before its target.
#: Sources: GitHub Actions "Variables", GitLab CI "Predefined CI/CD variables", Jenkins "Using environment variables",
#: CircleCI and Buildkite "Environment variables", Azure Pipelines "Predefined variables".
_BRANCHES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME"),
    *("CIRCLE_BRANCH", "BUILDKITE_BRANCH", "BUILD_SOURCEBRANCHNAME"),
)
_PAGES = ("CI_JOB_URL", "BUILD_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL")

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def provenance(root: Path, environ: Mapping[str, str]) -> Provenance:
    """Return the origin of a run at `root` that ends now; unknown values are None."""
    return Provenance(
        commit=current_commit(root),
        branch=_branch(root, environ),
        committed_at=_git(root, "show", "-s", "--format=%cI", "HEAD") or None,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ci_url=_page(environ),
    )


def current_commit(root: Path) -> str | None:
    """Return the commit checked out at `root`, with `+dirty` when tracked files differ, or None outside git."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return None if changed is None else f"{head}+dirty" if changed else head


def measured_commit(root: Path, baselines: Path) -> str | None:
    """Return the commit checked out at `root` and a digest of uncommitted code, or None outside git.

    Changed files are marked `+dirty.DIGEST`; if only Python files are new, `+new.DIGEST`. The digest identifies the commit
    that is made of these files later. The directory of the baselines does not count.
    """
    commit = current_commit(root)
    top = repository_of(root)
    if commit is None or top is None:
        return commit
    head = commit.partition("+")[0]
    changes = _changes(top, "HEAD")
    fresh = _git(top, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py")
    if changes is None or fresh is None:
        return commit
    changes |= dict.fromkeys(fresh.split("\0")[:-1], "A")
    counted = _counted(changes, baselines, top)
    if not counted:
        # Only baselines differ.
        return head
    present = [name for name in counted if (top / name).is_file()]
    # One name per line; a submodule is not a file and has no digest.
    hashed = _git(top, "hash-object", "--stdin-paths", given="".join(f"{name}\n" for name in present))
    if hashed is None or len(hashed.split()) != len(present) or any("\n" in name for name in present):
        return commit
    digest = _digest(dict(zip(present, hashed.split(), strict=True)) | dict.fromkeys(counted - {*present}, ""))
    how = "new" if all(changes[name] == "A" for name in counted) else "dirty"
    return f"{head}+{how}.{digest}"


def _changes(top: Path, *commits: str) -> dict[str, str] | None:
    """Return the files that differ between commits, or between one and the checkout, with git's letter of the change."""
    found = _git(top, "diff", "--name-status", "--no-renames", "--no-ext-diff", "-z", *commits, "--")
    if found is None:
        return None
    letters, names = found.split("\0")[:-1:2], found.split("\0")[1::2]
    return dict(zip(names, letters, strict=True))


def _counted(changes: Mapping[str, str], baselines: Path, top: Path) -> set[str]:
    """Return the files that are code: not the baselines, and of new files only Python's, as others may be temporary."""
    place = os.path.relpath(baselines.resolve(), top.resolve()) + "/"
    return {
        name
        for name, letter in changes.items()
        if not name.startswith(place) and (letter != "A" or name.endswith(".py"))
    }


def _digest(blobs: Mapping[str, str]) -> str:
    """Return a digest of files and their contents (git's own hashes; empty for a deleted file)."""
    return hashlib.sha256(json.dumps(sorted(blobs.items())).encode()).hexdigest()[:16]


def repository_of(place: Path) -> Path | None:
    """Return the top of the checkout that a directory is in; None if git knows none."""
    top = _git(place, "rev-parse", "--show-toplevel") if place.is_dir() else None
    return Path(top) if top else None


def remotes(top: Path) -> str:
    """Return the URLs of the remotes of a checkout, a line each; empty without one."""
    return _git(top, "config", "--get-regexp", r"^remote\..*\.url$") or ""


def commit_of_baseline(file: Path, recorded: str | None, test: Path) -> tuple[str | None, str]:
    """Return the commit in the repository of a test's file that the baseline in `file` was measured on, or why it is unknown.

    It is the recorded commit. If files were changed or new then, it is the commit made of them: the next one that contains
    the baseline, if it has exactly the files that were measured.
    """
    top = repository_of(test.parent)
    if top is None:
        return None, _why_no_repository(test.parent)
    if not recorded:
        return None, "the baseline names no commit"
    commit, _, changed = recorded.partition("+")
    if not _HASH.fullmatch(commit):
        return None, f"the baseline names no commit of git ({recorded[:20]})"
    if _git(top, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        is_shallow = _git(top, "rev-parse", "--is-shallow-repository") == "true"
        hint = "git fetch --unshallow may bring it" if is_shallow else "it was squashed or rebased away"
        return None, f"the repository has no commit {commit[:7]} ({hint})"
    how, _, digest = changed.partition(".")
    if how != "dirty":
        name = os.path.relpath(test.resolve(), top.resolve())
        if _git(top, "cat-file", "-e", f"{commit}:{name}") is not None:
            return commit, ""
        if not how:
            return None, f"the baseline's commit {commit[:7]} has no {name}"
    if repository_of(file.parent) == top:
        history = _git(file.parent, "log", "--format=%H %P", "--", file.name) or ""
        children = [line.split()[0] for line in history.splitlines() if line.split()[1:2] == [commit]]
        if children and digest and _digest_of(children[-1], commit, file.parent, top) == digest:
            return children[-1], ""
    changes = f"files changed after {commit[:7]}, and no commit right after it has these files"
    return None, f"the baseline was made of {changes}"


def _why_no_repository(place: Path) -> str:
    found = _run_git(place, "rev-parse", "--show-toplevel") if place.is_dir() else None
    if found is not None and "dubious ownership" in found.stderr:
        # A container's checkout often belongs to another user; git ends with the command that allows it.
        command = found.stderr.rpartition("\n\n")[2].strip()
        return f"git refuses {place.name}, which another user owns ({command})"
    return f"git knows no repository at {place.name}"


def _digest_of(child: str, commit: str, baselines: Path, top: Path) -> str | None:
    """Return the digest of the changes of a commit to its parent, as `measured_commit` makes it."""
    changes = _changes(top, commit, child)
    if changes is None:
        return None
    blobs = {}
    for name in _counted(changes, baselines, top):
        blobs[name] = "" if changes[name] == "D" else _git(top, "rev-parse", f"{child}:{name}") or "?"
    return _digest(blobs)


def _branch(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the branch of the CI's variables, as CI checks out a commit, not a branch; else git's branch."""
    named = next((environ[name] for name in _BRANCHES if environ.get(name)), None)
    return named or _git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or None


def _page(environ: Mapping[str, str]) -> str | None:
    if environ.get("GITHUB_ACTIONS") == "true" and environ.get("GITHUB_RUN_ID"):
        server = environ.get("GITHUB_SERVER_URL", "https://github.com")
        repository = environ.get("GITHUB_REPOSITORY", "")
        return f"{server}/{repository}/actions/runs/{environ['GITHUB_RUN_ID']}"
    return next((environ[name] for name in _PAGES if environ.get(name)), None)


def _git(root: Path, *arguments: str, given: str | None = None) -> str | None:
    """Return git's output for the input `given`, or None if it fails."""
    found = _run_git(root, *arguments, given=given)
    return found.stdout.strip() if found is not None and found.returncode == 0 else None


def _run_git(root: Path, *arguments: str, given: str | None = None) -> child.CompletedProcess[str] | None:
    """Run git without the locks that refresh the user's index; None without git, or if it hangs."""
    try:
        return run_git(["--no-optional-locks", *arguments], root, timeout_s=10, given=given)
    except (OSError, child.TimeoutExpired):
        return None
