"""One process of an A/B comparison: its command, its environment and its directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.capture.ab.sides import Side
from perfguard.capture.command import END_WITH_PARENT, Ended, last_line, run_command
from perfguard.capture.interpreter import interpreter_flags
from perfguard.capture.worktree import MARK, Place

#: The mark of one process, in addition to that of the whole comparison.
RUN_MARK = "PERFGUARD_BESIDE_RUN"
#: perfguard is imported before the side's paths are set: it is the running one even if the project is perfguard.
_START = (
    f"{END_WITH_PARENT}; import sys; sys.path.insert(0, sys.argv[1]); import perfguard; del sys.path[0]; "
    "from perfguard.plugin.side import main; main(sys.argv[2])"
)


def run_side(
    side: Side,
    request: Mapping[str, Any],
    own: Path,
    place: Place,
    *,
    environment: Mapping[str, str],
    timeout_s: float,
) -> tuple[Ended, str]:
    """Run one process of a side to its end; return how it ended, and the last line of its output."""
    with open(own / "output", "wb") as output:
        ended = run_command(
            command_of(side, request, own),
            environment=marked(environment, place, own),
            mark=RUN_MARK,
            timeout_s=timeout_s,
            output=output,
            directory=side.directory,
        )
    return ended, last_line(own / "output", only_errors=ended.timed_out or ended.status > 128)


def command_of(side: Side, request: Mapping[str, Any], own: Path) -> list[str]:
    """Write the request for `plugin.side` into the process's own directory; return the command that reads it."""
    path = own / "request.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    return [side.python, *interpreter_flags(), "-c", _START, side.home, str(path)]


def marked(environment: Mapping[str, str], place: Place, own: Path) -> dict[str, str]:
    """Return the environment of a process: it writes nothing into the user's checkout, and `worktree` can find it."""
    temporary = own / "temporary"
    temporary.mkdir()
    # The summary page of a CI job must not show one side alone.
    own_variables = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary), "GITHUB_STEP_SUMMARY": ""}
    return {**environment, **own_variables, MARK: place.mark, RUN_MARK: f"{place.mark}-{own.name}"}


def fresh_directory(place: Place) -> Path:
    """Make the directory of the next process."""
    own = place.directory / f"run-{sum(1 for _ in place.directory.glob('run-*'))}"
    own.mkdir()
    return own
