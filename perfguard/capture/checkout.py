"""The checkout a run is of: its commit and branch, and the page of the CI that runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from perfguard.recording import Provenance

#: What CIs call the branch, the first that is set; a pull request's own branch goes before what it is merged into.
#: Sources: GitHub Actions "Variables", GitLab CI "Predefined CI/CD variables", Jenkins "Using environment variables",
#: CircleCI and Buildkite "Environment variables", Azure Pipelines "Predefined variables".
_BRANCHES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME"),
    *("CIRCLE_BRANCH", "BUILDKITE_BRANCH", "BUILD_SOURCEBRANCHNAME"),
)
_PAGES = ("CI_JOB_URL", "BUILD_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL")


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
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
