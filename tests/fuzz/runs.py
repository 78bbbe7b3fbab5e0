"""One case: its input is made, each command runs in a fork with bounds, and what it left is looked at.

The parent has imported what a command needs, but has started no thread, so that a fork is a process that has just started.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import random
import re
import resource
import signal
import stat
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.kinds import KINDS

#: What one command may cost, besides what the parent had imported before: far above what any takes on a slow machine.
CPU_S, WALL_S, MEMORY_MB = 60, 180, 512
#: Modules with names of the standard library and of what perfguard imports: whoever imports one leaves a mark.
_PLANTED = ("json", "multiprocessing", "sitecustomize", "duckdb", "polars", "conftest", "perfguard_plugin")
_WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning: ", re.MULTILINE)
_FRAME = re.compile(r'File "[^"]*/(\w+/\w+\.py)", line (\d+), in (\w+)')
#: Escape sequences and marks of direction are never shown as they are.
_RAW = re.compile("[\x1b\x9b\u202e\u2066]")


@dataclass(frozen=True, slots=True)
class Fall:
    """What a command must not do: `key` is the same for the same defect."""

    key: str
    command: Sequence[str]
    output: str

    @property
    def words(self) -> str:
        """The fall in some lines."""
        return f"FALL {self.key}\n  perfguard {' '.join(self.command)}\n{self.output[-3000:]}"


def warm_up() -> None:
    """Import what commands import, without running any of it."""
    for name in ("perfguard.cli", "perfguard.artifacts", "perfguard.contract", "perfguard.dialects", "perfguard.judge"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("duckdb", "polars", "jsonschema", "scipy.stats", "tabulate"):
        importlib.import_module(name)
    from perfguard.artifacts.layout import layouts

    layouts()


def run_case(case: str, folder: Path, *, show: bool = False) -> tuple[list[Fall], list[int]]:
    """Make the input of a case in a folder, and run its commands; return the falls, and the exit status of each command."""
    name, _, _ = case.partition(":")
    here, home, temporary = (folder / one for one in ("here", "home", "tmp"))
    for one in (here, home, temporary):
        one.mkdir()
    mark = folder / "executed"
    commands = KINDS[name](random.Random(case), here)
    for module in _PLANTED:
        if not os.path.lexists(here / f"{module}.py"):
            (here / f"{module}.py").write_text(f"open({str(mark)!r}, 'a').write({module!r})\n")
    found, statuses = [], []
    for command in commands:
        before = _tree(here, home)
        status, problem, output = _run(command, here=here, home=home, temporary=temporary, log=folder / "log")
        statuses.append(status)
        if show:
            print(f"$ perfguard {' '.join(command)}\n{output}-> {status}", flush=True)
        keys = list(_wrong(status, problem, output))
        # With --json a pipe gets the exact data.
        if "--json" not in command and _RAW.search(output):
            keys.append("characters that a terminal obeys")
        if _tree(here, home) != before:
            keys.append(f"it wrote {_difference(before, _tree(here, home))}")
        if mark.exists():
            keys.append(f"it executed {mark.read_text()}")
        found += [Fall(f"{key} ({command[0]})", command, output) for key in keys]
    _make_removable(folder)
    return found, statuses


def _wrong(status: int, problem: str, output: str) -> Iterator[str]:
    if problem:
        yield problem
    elif "Traceback (most recent call last)" in output or "defect of perfguard" in output:
        last = [
            line for line in output.splitlines() if re.match(r"\w[\w.]*(Error|Exception|Warning|Interrupt)\b", line)
        ]
        frames = [":".join(one) for one in _FRAME.findall(output)]
        yield f"a traceback: {(last or ['?'])[-1][:80]} at {' '.join(frames[-1:])}"
    elif status not in (0, 1, 2, 3, 4):
        yield f"status {status}"
    elif status == 2 and not output.strip():
        yield "status 2 without a word"
    if _WARNING.search(output):
        yield "a warning of Python: " + _WARNING.search(output)[0].rpartition("/")[2]


def _run(command: Sequence[str], *, here: Path, home: Path, temporary: Path, log: Path) -> tuple[int, str, str]:
    """Run a command in a fork; return its status, why it was ended or nothing, and what it printed."""
    pid = os.fork()
    if pid == 0:
        _child(command, here=here, home=home, temporary=temporary, log=log)
    problem, end = "", time.monotonic() + WALL_S
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if not problem and _memory_mb(pid) > MEMORY_MB:
            problem = f"more than {MEMORY_MB} MB"
        elif not problem and time.monotonic() > end:
            problem = f"more than {WALL_S} seconds"
        if problem:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    code = os.waitstatus_to_exitcode(status)
    if not problem and code < 0:
        is_slow = code in (-signal.SIGXCPU, -signal.SIGKILL) and used.ru_utime + used.ru_stime > CPU_S - 1
        problem = f"more than {CPU_S} CPU seconds" if is_slow else f"ended by {signal.Signals(-code).name}"
    return code, problem, log.read_bytes().decode("utf-8", "replace")


def _child(command: Sequence[str], *, here: Path, home: Path, temporary: Path, log: Path) -> None:
    status = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, one in ((0, nothing), (1, out), (2, out)):
            os.dup2(one, number)
        os.chdir(here)
        os.environ.update(HOME=str(home), TMPDIR=str(temporary), PYTHONIOENCODING="utf-8")
        for name in [name for name in os.environ if name.startswith(("PERFGUARD", "GITHUB", "CI"))]:
            del os.environ[name]
        import tempfile

        tempfile.tempdir = None
        sys.argv = ["perfguard", *command]
        from perfguard.cli import main

        status = _status_of(main)
    except BaseException:  # noqa: BLE001 - nothing of a case may go on in a fork
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _status_of(main: object) -> int:
    try:
        main()  # type: ignore[operator]
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def _memory_mb(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2
    except (OSError, IndexError):
        return 0.0


def _tree(*folders: Path) -> dict[str, tuple[int, ...]]:
    """Return what lies in folders: modes, sizes, times of change."""
    found: dict[str, tuple[int, ...]] = {}
    for folder in folders:
        for place, names, files in os.walk(folder, onerror=None):
            for name in (*names, *files):
                path = os.path.join(place, name)
                one = os.lstat(path)
                found[path] = (one.st_mode, one.st_size, 0 if stat.S_ISDIR(one.st_mode) else one.st_mtime_ns)
    return found


def _difference(before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]) -> str:
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    return ", ".join(os.path.basename(path) for path in changed[:3])


def _make_removable(folder: Path) -> None:
    for place, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
