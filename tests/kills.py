"""Kills: every command that writes is killed at random moments; nothing may be lost, half written, or left behind.

Run: python -m tests.kills [--kills N] [--seed N] [--only WORD]

Each command runs once to its end. Then it runs again and again in a fresh copy of the same place, and is ended by SIGKILL at
a moment drawn from the time that it took: alone, as when memory runs out, or with all processes of its session, as a CI job is
ended. A file is then the old one or whole, and the same command, run once more, ends as it should, with no file or folder that
the undisturbed run had not left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

from perfguard.testing import generate
from tests.cli import TORCH, report_file, run, stored
from tests.programs import git, wait_until

TOP = Path(__file__).resolve().parent.parent
_MARK = "PERFGUARD_TESTS_KILLS"
_LONGEST_S = 300
REPLAY = "def test_{name}(perfguard):\n    perfguard.replay({recording!r})\n"
SETTINGS = (
    '[tool.perfguard]\nbackend = "replay"\ntime = "off"\n[tool.pytest.ini_options]\naddopts = "-p no:cacheprovider"\n'
)
#: A recording or page that a command keeps among the temporary files, one for each run.
_KEPT = re.compile(r"temporary/perfguard-(run|view)-\w{8}(/.*)?")
#: What pytest keeps of its last runs, locks of baselines, which stay where they are, and the four bytes by which Python's
#: tempfile finds out whether it can write to a directory: only their own process knows that they are left.
_NOT_OURS = re.compile(r"temporary/(pytest-of-[^/]+|perfguard-\d+)(/.*)?|work/\.git/.*")
_TRIED = re.compile(r"temporary/[a-z0-9_]{8}")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes: what is there before, and how it is called."""

    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], None] = lambda place: None
    #: Commands of which several kills cost no more than one of the others.
    weight: int = 4
    status: int = 0
    program: tuple[str, ...] = ("-m", "perfguard")


@dataclass
class Outcome:
    """What came of the kills of one command."""

    command: str
    kills: int = 0
    #: Kills after which something had been written, and after which nothing had.
    new: int = 0
    old: int = 0
    late: int = 0
    problems: list[str] = field(default_factory=list)


# -- what is there before ------------------------------------------------------------------------------------------------


def _recording(place: Path) -> None:
    shutil.copytree(TORCH, place / "rec")
    stored(place / "baselines", "rec")


def _many(place: Path) -> None:
    generate("pt-torch", seed=1, ranks=6, steps=20, operators=200).write(place / "rec")


def _outputs(*names: str) -> Callable[[Path], None]:
    """Prepare a recording, and files of an earlier run that are written anew."""

    def prepare(place: Path) -> None:
        _recording(place)
        for name in names:
            (place / name).write_text("old")

    return prepare


def _project(place: Path) -> None:
    (place / "pyproject.toml").write_text(SETTINGS)
    for name in ("a", "b", "c"):
        (place / f"test_{name}.py").write_text(REPLAY.format(name=name, recording=str(TORCH)))


def _baselines(place: Path) -> None:
    _project(place)
    names = [f"old/test_{number}.py::test_{number}" for number in range(12)]
    stored(place / "baselines", *names, "test_a.py::test_a")


def _history(place: Path) -> None:
    (place / "pyproject.toml").write_text("[tool.perfguard]\n")
    for number in range(4):
        report_file(place / f"r{number}.json", **{"a.py::test_a": TORCH, f"a.py::test_{number}": TORCH})
        added = ("history", "add", place / f"r{number}.json", "--history", place / "h.db", "--commit", f"{number}" * 40)
        assert run(*added, "--at", f"2026-01-0{number + 1}T00:00:00Z").exit_code == 0
    report_file(place / "new.json", **{f"b.py::test_{number}": TORCH for number in range(20)})


def _repository(place: Path) -> None:
    _project(place)
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "base")


def _script(place: Path) -> None:
    (place / "pyproject.toml").write_text("[tool.perfguard]\n")
    (place / "train.py").write_text(
        "import torch\nnet = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for _ in range(6):\n    net(torch.ones(2, 4)).sum().backward()\n    optimizer.step()\n"
    )


_UPDATE = ("-q", "--perfguard", "--perfguard-update", "--perfguard-time=off", "-p", "no:randomly")
_SELECT = "select * from operators order by all"
COMMANDS = [
    Command(
        name="check --out, --sarif",
        prepare=_outputs("out.sarif", "out.md"),
        arguments=("check", "rec", "--sarif", "out.sarif", "--out", "markdown:out.md"),
    ),
    Command(name="check -j 2", prepare=_many, arguments=("check", "rec", "-j", "2", "--sarif", "out.sarif")),
    Command(
        name="report",
        prepare=_outputs("perfguard.html", "out.json", "out.md", "out.prom"),
        arguments=(
            "report",
            "rec",
            "--html",
            "perfguard.html",
            "--json",
            "out.json",
            "--markdown",
            "out.md",
            "--metrics",
            "out.prom",
        ),
    ),
    Command(name="view", prepare=_recording, arguments=("view", "rec", "--no-open")),
    Command(
        name="compare --report",
        prepare=_outputs("out.json"),
        arguments=("compare", "rec", "rec", "--report", "out.json"),
    ),
    *(
        Command(
            name=f"sql -o .{ending}",
            prepare=_outputs(f"out.{ending}"),
            arguments=("sql", "rec", _SELECT, "-o", f"out.{ending}"),
        )
        for ending in ("csv", "json", "parquet", "txt")
    ),
    Command(name="history add", prepare=_history, arguments=("history", "add", "new.json", "--history", "h.db")),
    Command(
        name="history prune",
        prepare=_history,
        arguments=("history", "prune", "--keep-runs", "1", "--yes", "--history", "h.db"),
    ),
    Command(name="history export", prepare=_history, arguments=("history", "export", "out.jsonl", "--history", "h.db")),
    Command(name="baseline move", prepare=_baselines, arguments=("baseline", "move", "old", "new")),
    Command(name="baseline prune", prepare=_baselines, arguments=("baseline", "prune", "--yes")),
    Command(name="pytest --perfguard-update", prepare=_project, arguments=_UPDATE, program=("-m", "pytest"), weight=3),
    Command(
        name="pytest, baselines there",
        prepare=lambda place: (_project(place), stored(place / "baselines", "test_a.py::test_a", "test_b.py::test_b")),
        arguments=(*_UPDATE, "--perfguard-reason=new", "--perfguard-report=out.json"),
        program=("-m", "pytest"),
        weight=3,
    ),
    Command(name="baseline refresh", prepare=_project, arguments=("baseline", "refresh", *_UPDATE[3:]), weight=2),
    Command(
        name="ab",
        prepare=_repository,
        arguments=("ab", "--base", "main", "--time", "off", "--report", "out.json", "--", "-q", "-p", "no:randomly"),
        weight=2,
    ),
    Command(name="init", prepare=_script, arguments=("init", "--yes", "--ci", "github")),
    Command(name="demo", arguments=("demo",)),
    Command(
        name="run",
        prepare=_script,
        arguments=("run", "--update", "--time", "off", "--", sys.executable, "train.py"),
        weight=1,
    ),
]


# -- one kill ------------------------------------------------------------------------------------------------------------


class Place:
    """A directory to work in, and one for temporary files, both of one run."""

    def __init__(self, root: Path, template: Path) -> None:
        self.root = root
        self.mark = uuid.uuid4().hex
        self.temporary = root / "temporary"
        self.errors = root.with_name(f"{root.name}.errors")
        shutil.copytree(template, root, symlinks=True)
        self.temporary.mkdir(exist_ok=True)

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        clean = {
            name: text for name, text in os.environ.items() if not name.startswith(("PYTEST", "GIT", "PERFGUARD", "CI"))
        }
        environment = {
            "PYTHONPATH": str(TOP),
            "TMPDIR": str(self.temporary),
            _MARK: self.mark,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with open(self.errors, "wb") as errors:
            return subprocess.Popen(
                [sys.executable, *command.program, *command.arguments],
                cwd=self.root / "work",
                env={**clean, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def finish(self, command: Command) -> tuple[int, str, float]:
        """Run the command to its end; return its status, the last of what it wrote to standard error, and the seconds."""
        began = time.monotonic()
        status = self.start(command).wait(_LONGEST_S)
        wait_until(lambda: not self.processes(), _LONGEST_S)
        return status, self.errors.read_text(errors="replace")[-600:], time.monotonic() - began

    def processes(self) -> list[int]:
        """Return the processes that were started here."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"{_MARK}={self.mark}".encode() in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
            except OSError:
                continue
        return found

    def names(self) -> set[str]:
        """Return what is there, by its path."""
        paths = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*"))
        names = [
            name
            for name in paths
            if not (_NOT_OURS.fullmatch(name) or (_TRIED.fullmatch(name) and self._is_tried(name)))
        ]
        return {_KEPT.sub(r"temporary/perfguard-\1", name) for name in names}

    def _is_tried(self, name: str) -> bool:
        path = self.root / name
        return path.is_file() and path.read_bytes() in (b"", b"blat")

    def contents(self) -> dict[str, bytes]:
        """Return the files of the user's."""
        work, found = self.root / "work", {}
        for place, folders, names in os.walk(work):
            # A guardian may still delete git's notes on a worktree.
            folders[:] = [name for name in folders if name != ".git"]
            paths = (Path(place, name) for name in names)
            found |= {path.relative_to(work).as_posix(): path.read_bytes() for path in paths if path.is_file()}
        return found


def killed(command: Command, place: Place, draw: random.Random, took_s: float) -> bool:
    """Start the command and kill it; return whether it was still running."""
    with place.start(command) as process:
        try:
            # Half of them where most commands write, at their end.
            process.wait(draw.uniform(draw.choice((0.05, 0.7)), 1.05) * took_s)
        except subprocess.TimeoutExpired:
            if draw.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
    # Guardians and children end by themselves.
    wait_until(lambda: not place.processes(), _LONGEST_S)
    return process.returncode == -signal.SIGKILL


def half(name: str, content: bytes) -> str:
    """Return why a file is not whole; empty if it is."""
    text = content.decode("utf-8", "replace")
    try:
        if name.endswith((".json", ".sarif")) and "sql" not in name:
            json.loads(content)
        elif name.endswith(".html"):
            assert text.rstrip().endswith("</html>"), "no end"
        elif name.endswith(".parquet"):
            assert content[:4] == content[-4:] == b"PAR1", "no end"
        elif name.endswith(".prom"):
            assert text.endswith("# EOF\n"), "no end"
        elif name.endswith(".db"):
            _sound(content)
        else:
            assert text.endswith("\n"), "no end"
    except (ValueError, AssertionError, sqlite3.Error) as error:
        return f"{name}: {error}"
    return ""


def _sound(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "h.db")
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as database:
            (found,) = database.execute("pragma integrity_check").fetchone()
        assert found == "ok", found


def problems_of(command: Command, before: dict[str, bytes], undisturbed: Place, place: Place) -> Iterator[str]:
    """Yield what is wrong after a kill, and after the command has run once more."""
    after = place.contents()
    # A history is whole together with its journal, which the next command that opens it plays back.
    journals = {name for name in after if name.endswith(("-journal", "-wal", "-shm"))}
    open_files = {name.rpartition("-")[0] for name in journals}
    for name, content in after.items():
        is_temporary = name.endswith("-perfguard.tmp") or name in journals or name in open_files
        if content != before.get(name) and not is_temporary and (problem := half(name, content)):
            yield f"half written: {problem}"
    if command.name not in ("baseline move", "baseline prune"):
        yield from (f"lost: {name}" for name in before.keys() - after.keys())
    status, words, _ = place.finish(command)
    if status != command.status and not (command.name in AGAIN and status in AGAIN[command.name]):
        yield f"the next run ended with {status}: {words}"
    yield from (f"left behind: {name}" for name in sorted(place.names() - undisturbed.names()))
    yield from (f"lost: {name}" for name in sorted(undisturbed.names() - place.names()))
    for name, content in place.contents().items():
        if content != before.get(name) and (problem := half(name, content)):
            yield f"half written, next run: {problem}"


#: Where the first run had done all before it was killed, the next may find nothing to do, and say so.
AGAIN = {"baseline move": (2,), "history add": (0, 2)}


def kill(commands: list[Command], *, kills: int, seed: int, root: Path) -> Iterator[Outcome]:
    """Kill every command its share of so many times."""
    weights = sum(command.weight for command in commands)
    for command in commands:
        draw = random.Random(f"{seed} {command.name}")
        folder = root / re.sub(r"\W+", "-", command.name)
        (folder / "template" / "work").mkdir(parents=True)
        command.prepare(folder / "template" / "work")
        undisturbed = Place(folder / "undisturbed", folder / "template")
        before = undisturbed.contents()
        status, words, took_s = undisturbed.finish(command)
        outcome = Outcome(command=command.name)
        if status != command.status:
            outcome.problems.append(f"undisturbed, it ended with {status}: {words}")
            kills_here = 0
        else:
            kills_here = max(1, round(kills * command.weight / weights))
        while outcome.kills < kills_here and outcome.late < 2 * kills_here:
            place = Place(folder / f"kill-{outcome.kills + outcome.late}", folder / "template")
            is_killed = killed(command, place, draw, took_s)
            # A machine that other programs use is faster another time.
            took_s *= 1.0 if is_killed else 0.9
            outcome.kills += is_killed
            outcome.late += not is_killed
            outcome.new += is_killed and place.contents() != before
            outcome.old += is_killed and place.contents() == before
            outcome.problems += problems_of(command, before, undisturbed, place)
            shutil.rmtree(place.root)
        yield outcome


def main() -> int:
    """Kill, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="commands whose name has this word")
    asked = parser.parse_args()
    chosen = [command for command in COMMANDS if asked.only in command.name]
    found = []
    with tempfile.TemporaryDirectory(prefix="kills-") as root:
        for one in kill(chosen, kills=asked.kills, seed=asked.seed, root=Path(root)):
            found.append(one)
            print(f"{one.command}: {one.kills} kills, {len(one.problems)} problems", file=sys.stderr, flush=True)
            for problem in one.problems:
                print(f"  {problem}", file=sys.stderr, flush=True)
    rows = [(one.command, one.kills, one.old, one.new, one.late, len(one.problems)) for one in found]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 6))))
    print(tabulate(rows, headers=("command", "kills", "nothing new", "something new", "too late", "problems")))
    return 1 if rows[-1][-1] else 0


if __name__ == "__main__":
    sys.exit(main())
