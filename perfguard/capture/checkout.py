"""The checkout a run is of: its commit and branch, and the page of the CI that runs it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from perfguard.capture.worktree import without_git_variables
from perfguard.recording import Provenance

#: What CIs call the branch, the first that is set; a pull request's own branch goes before what it is merged into.
#: Sources: GitHub Actions "Variables", GitLab CI "Predefined CI/CD variables", Jenkins "Using environment variables",
#: CircleCI and Buildkite "Environment variables", Azure Pipelines "Predefined variables".
_BRANCHES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME"),
    *("CIRCLE_BRANCH", "BUILDKITE_BRANCH", "BUILD_SOURCEBRANCHNAME"),
)
_PAGES = ("CI_JOB_URL", "BUILD_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL")

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def provenance(root: Path, environ: Mapping[str, str]) -> Provenance:
    """Return where a run at `root` that ends now comes from; what nobody knows is None."""
    return Provenance(
        commit=current_commit(root),
        branch=_branch(root, environ),
        committed_at=_git(root, "show", "-s", "--format=%cI", "HEAD") or None,
        finished_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        ci_url=_page(environ),
    )


def current_commit(root: Path) -> str | None:
    """Return the commit checked out at `root`, with `+dirty` when tracked files differ, or None outside git."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return None if changed is None else f"{head}+dirty" if changed else head


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineCommit:
    """The commit whose code a baseline was measured on; where it is not known, `reason` says why."""

    commit: str | None = None
    reason: str = ""


def repository_of(place: Path) -> Path | None:
    """Return the top of the checkout that a directory is in, None where git knows of none."""
    top = _git(place, "rev-parse", "--show-toplevel") if place.is_dir() else None
    return Path(top) if top else None


def commit_of_baseline(file: Path, recorded: str | None, code: Path) -> BaselineCommit:
    """Return the commit of the repository of `code` that the baseline kept in `file` was measured on.

    That is the one it names. Where files were changed then, it is the commit made of them: the one right after it that brought
    the file, since a baseline is committed together with the code it was measured on. A commit further away (squashed,
    rebased, of a shallow clone) may hold other code.
    """
    top = repository_of(code)
    if top is None:
        return BaselineCommit(reason=f"git knows no repository at {code.name}")
    if not recorded:
        return BaselineCommit(reason="the baseline names no commit")
    commit, changed, _ = recorded.partition("+")
    if not _HASH.fullmatch(commit):
        return BaselineCommit(reason=f"the baseline names no commit of git ({recorded[:20]})")
    if not changed:
        if _git(code, "cat-file", "-e", f"{commit}^{{commit}}") is not None:
            return BaselineCommit(commit=commit)
        return BaselineCommit(reason=f"the repository has no commit {commit[:7]} (git fetch --unshallow may bring it)")
    if repository_of(file.parent) == top:
        history = _git(file.parent, "log", "--format=%H %P", "--", file.name) or ""
        children = [line.split()[0] for line in history.splitlines() if line.split()[1:2] == [commit]]
        if children:
            return BaselineCommit(commit=children[-1])
    return BaselineCommit(
        reason=f"the baseline was made of files changed after {commit[:7]}, and no commit right after it has it"
    )


def _branch(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the branch as CI names it, which checks out a commit and no branch; else as git does."""
    named = next((environ[name] for name in _BRANCHES if environ.get(name)), None)
    return named or _git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or None


def _page(environ: Mapping[str, str]) -> str | None:
    if environ.get("GITHUB_ACTIONS") == "true" and environ.get("GITHUB_RUN_ID"):
        server, repository = (
            environ.get("GITHUB_SERVER_URL", "https://github.com"),
            environ.get("GITHUB_REPOSITORY", ""),
        )
        return f"{server}/{repository}/actions/runs/{environ['GITHUB_RUN_ID']}"
    return next((environ[name] for name in _PAGES if environ.get(name)), None)


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says, or None where it cannot. Without the locks by which it would refresh the user's index."""
    try:
        found = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=root,
            # A hook of git may have started this process, with variables for another place.
            env=without_git_variables(os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
