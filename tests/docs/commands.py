"""Runs the commands of a page in its project, and compares what they print with what the page shows."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli import run
from tests.plugin.conftest import Project
from tests.programs import run_program

#: What differs from run to run, in what a command that measures prints: (pattern, what stands for it).
VARIES = (
    (r"/tmp/pytest-of-[^/]+/pytest-\d+/", "/tmp/"),
    (r"/tmp/perfguard-run-\w+", "/tmp/perfguard-run"),
    (r"\bin \d+\.\d+s\b.*", "in a while"),
    (r"[+−-]?\d[\d.]* (us|ms|s|min)\b", r"N \1"),
    # The columns of the summary that hold times and their change.
    (r"(?<=\s)\d+\.\d+( → \d+\.\d+)?(?=\s)", "N"),
    (r"\b[0-9a-f]{12}\b", "COMMIT"),
)
#: What depends on the width of what other lines hold, in what any command prints.
LAYOUT = ((r"-{3,}", "---"), (r"={3,}", "==="), (r"_{3,}", "___"), (r"(?<=\S) +", " "))
#: Started as processes: they start others, whose output is their own.
PROCESSES = {"perfguard run", "perfguard ab", "perfguard analyse"}


def printed_by(command: str, place: Path) -> str:
    """Return what a command prints, in the folder of its project."""
    words = shlex.split(command)
    if words[0] == "pytest":
        project = Project.__new__(Project)
        project.directory = place
        return project.run(*words[1:], "-p", "no:randomly", "-p", "no:cacheprovider", env={"COLUMNS": "80"}).text
    if words[0] == "perfguard" and " ".join(words[:2]) not in PROCESSES:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            found = run(*words[1:])
            return str(found.stdout) + str(found.stderr)
    binaries = Path(sys.executable).parent
    done = run_program(*words, cwd=place, PATH=f"{binaries}:/usr/bin:/bin", COLUMNS="100")
    return done.stdout + done.stderr


def measures(command: str) -> bool:
    """Whether a command runs a model, so that it prints times."""
    return command.startswith(("pytest", *PROCESSES))


def normal(text: str, *, measured: bool) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern, by in (VARIES if measured else ()) + LAYOUT:
        text = re.sub(pattern, by, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def difference(shown: list[str], printed: list[str]) -> str | None:
    """Return the first part of the page that the output lacks, in its order; `...` stands for lines left out."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        places = [i for i in range(at, len(printed) - len(part) + 1) if printed[i : i + len(part)] == part]
        places = [i for i in places if (not first or i == 0) and (not last or not part or i + len(part) == len(printed))]
        if not places:
            return "\n".join(part)
        at = places[0] + len(part)
    if len(parts) == 1 and at != len(printed):
        return "nothing more, but there is:\n" + "\n".join(printed[at:])
    return None
