"""Runs the commands of a page in its project, and compares what they print with what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfguard.testing import generate
from tests.cli import RECORDINGS, run
from tests.docs.pages import ROOT, Block, blocks_of
from tests.plugin.conftest import Project
from tests.programs import run_program

#: Real recordings of more profilers, where they are at hand.
CORPUS = Path(os.environ.get("PERFGUARD_CORPUS") or ROOT.parent / "shared" / "corpus") / "recorded"
#: What differs from run to run, in what a command that measures prints: (pattern, what stands for it).
VARIES = (
    (r"/tmp/pytest-of-[^/]+/pytest-\d+/", "/tmp/"),
    (r"/tmp/perfguard-run-\w+", "/tmp/perfguard-run"),
    (r"\bin \d+\.\d+s\b.*", "in a while"),
    (r"[+−-]?\d[\d.]* (us|ms|s|min)\b", r"N \1"),
    # The columns of the summary that hold times and their change.
    (r"(?<=\s)\d+\.\d+( → \d+\.\d+)?(?=\s)", "N"),
    (r"[+−]\d+(\.\d+)? %(?=  )", "N %"),
    (r"\b[0-9a-f]{12}\b", "COMMIT"),
)
#: In what any command prints: the name that torch gives a trace, and what depends on the width of other lines.
LAYOUT = (
    (r"\b[\w.-]+_\d+\.\d+\.pt\.trace", "HOST_PID.TIME.pt.trace"),
    (r"-{3,}", "---"),
    (r"={3,}", "==="),
    (r"_{3,}", "___"),
    (r"(?<=\S) +", " "),
)
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


def write(path: Path, text: str) -> None:
    """Write a file of a page's project; byte code of the text before is not used for it."""
    earlier = path.stat().st_mtime if path.exists() else 0.0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (max(path.stat().st_mtime, earlier + 1),) * 2)


def new_project(place: Path) -> Path:
    """Make the folder that every page's commands start in: recordings, and output of torch_npu with two ranks."""
    shutil.copytree(RECORDINGS, place)
    generate("pt-npu", ranks=2, steps=3).write(place / "npu")
    if (raced := CORPUS / "mindspore-2.10-cpu-graph-window3-raced").is_dir():
        shutil.copytree(raced, place / "window3")
    return place


def is_here(block: Block) -> bool:
    """Whether what a block needs is installed."""
    needed = block.marks.get("only with")
    return needed is None or (CORPUS.is_dir() if needed == "corpus" else find_spec(needed) is not None)


def outputs(page: Path, place: Path, *, timed: bool = False) -> Iterator[tuple[Block, str, str, str]]:
    """Run the commands of a page, those that are timed as well or not.

    Each comes with its block, what the page shows and what it printed.
    """
    for block in blocks_of(page):
        if "file" in block.marks:
            write(place / block.marks["file"], block.text)
        elif block.language == "console" and "shown" not in block.marks and is_here(block):
            if "timed" in block.marks and not timed:
                continue
            for command, shown in block.commands:
                yield block, command, shown, printed_by(command, place)


def measures(command: str) -> bool:
    """Whether a command runs a model, so that it prints times."""
    return command.startswith(("pytest", *PROCESSES))


def normal(text: str, *, measured: bool) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern, by in (VARIES if measured else ()) + LAYOUT:
        text = re.sub(pattern, by, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def says(printed: str, shown: str) -> bool:
    """Whether a line is the one that a page shows."""
    words = map(re.escape, shown.split("[...]"))
    return re.fullmatch(".*".join(words), printed) is not None


def difference(shown: list[str], printed: list[str]) -> str | None:
    """Return the first part of the page that the output lacks, in its order.

    A line `...` stands for lines left out, `[...]` inside a line for words left out.
    """
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        places = [i for i in range(at, len(printed) - len(part) + 1) if all(map(says, printed[i:], part))]
        places = [
            i for i in places if (not first or i == 0) and (not last or not part or i + len(part) == len(printed))
        ]
        if not places:
            return "\n".join(part)
        at = places[0] + len(part)
    if len(parts) == 1 and at != len(printed):
        return "nothing more, but there is:\n" + "\n".join(printed[at:])
    return None
