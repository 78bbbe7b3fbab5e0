"""Projects to run pytest in: each run is a process of its own.

Most of a run that judges a recording is imports, so `Project.run` forks it from a process that has done them (forks.py). What
`Project.start` and `Project.command` give, a run with variables that Python reads as it starts, and one on a terminal are
started as a user starts them; so are all processes that perfguard or xdist starts.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.distributions import add_distribution

FORKS = Path(__file__).with_name("forks.py")
RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"

#: Time is judged by nobody here: a busy machine must not decide these tests. Nor is it measured in processes of its own,
#: five for each workload that is refreshed; a test of those says `runs` itself.
SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:randomly -p no:cacheprovider"

[tool.perfguard.tolerance]
step_time = "off"
step_cpu_time = "off"
profiler_overhead = "off"

[tool.perfguard]
runs = 0
"""

#: The head of a test file whose steps run under torch's real profiler: 1 settle + 1 warmup + 2 active + 3 timed = 7 steps.
TORCH_HEAD = """
import os
import perfguard as pg
import pytest
import torch

pytestmark = pytest.mark.perfguard(
    backend="torch", timed_steps=3, window=pg.StepWindow(skip_first=1, warmup=1, active=2)
)
x = torch.ones(4, 4)

def matmul(batch=None):
    torch.mm(x, x)

"""

#: A backend that starts no framework: whatever the steps do, it leaves what torch's real profiler left of three steps. For
#: tests of processes, of which each would import torch otherwise. Threads are a number of the process, as they are in torch.
WRITTEN = f"""
import shutil
from perfguard.capture import Target

class Written:
    name = "written"
    conditions = {{"memory": True, "shapes": True}}
    threads = before = 4

    def prepare(self, threads):
        Written.threads = threads

    def restore(self):
        Written.threads = self.before

    def target(self):
        return Target(
            device="cpu", mode="eager", world_size=1, rank=0, threads=self.threads, device_name="", packages={{}}
        )

    def synchronize(self):
        pass

    def start(self, directory, window):
        assert (window.warmup, window.active, window.repeat) == (1, 3, 1), window
        self.directory = directory

    def advance(self):
        pass

    def stop(self):
        shutil.copytree({str(RECORDINGS / "torch-mlp" / "profiler")!r}, self.directory, dirs_exist_ok=True)
"""
#: The head of a test file whose steps run under it: as many of each kind as the recording has.
WRITTEN_HEAD = """
import os
import time
import numpy as np
import pytest
import perfguard as pg
from perfguard import thresholds

window = pg.StepWindow(skip_first=2, warmup=1, active=3)
pytestmark = pytest.mark.perfguard(backend="written", timed_steps=3, window=window)
x = np.ones((64, 64), np.float32)

def matmul(batch=None):
    x @ x

"""

#: Only a run that hangs takes so long, however busy the machine is.
SECONDS_UNTIL_A_HANG = 600.0
#: Variables that begin so are read as Python starts, or before pytest's plugins are imported.
READ_AT_THE_START = ("PYTHON", "PYTEST", "OMP_", "MKL_", "LD_")


@dataclass(frozen=True)
class Run:
    """What one pytest process came to."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def counts(self) -> dict[str, int]:
        """Outcome counts of pytest's last line, such as {"passed": 2, "failed": 1}; empty when no test was reached."""
        lines = self.out.splitlines()
        if lines and lines[-1].startswith("perfguard: the run fails: "):
            del lines[-1]
        return pytest.RunResult.parse_summary_nouns(lines) if " in " in "".join(lines[-1:]) else {}

    def line(self, part: str) -> str:
        """Return the one line that has `part`; repetitions of the same line count once."""
        found = {line.strip().removeprefix("E ").strip() for line in self.text.splitlines() if part in line}
        assert len(found) == 1, f"{part!r} is in {len(found)} lines of\n{self.text}"
        return found.pop()


def environment(**env: str) -> dict[str, str]:
    """Return the variables of a run, with more of them."""
    # CI makes pytest print whole messages in its short summary.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST") and k not in ("CI", "BUILD_NUMBER")}
    return {**clean, "COLUMNS": "1000", **env}


class Forks:
    """A process with everything imported, in which runs of pytest begin."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, FORKS],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    def _answer(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def run(
        self,
        modules: list[str],
        directory: Path,
        arguments: tuple[str, ...],
        environment: dict[str, str],
        timeout_s: float,
    ) -> Run:
        with TemporaryDirectory() as place:
            files = {name: str(Path(place, name)) for name in ("out", "err")}
            asked = {"directory": str(directory), "arguments": arguments, "environment": environment, **files}
            asked["modules"] = modules
            assert self._process.stdin
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            end = Timer(timeout_s, os.kill, (self._answer(), signal.SIGKILL))
            end.start()
            status = self._answer()
            end.cancel()
            out, err = (Path(file).read_text(encoding="utf-8") for file in files.values())
        return Run(status, out, err)


@cache
def forks() -> Forks:
    """Return the one that runs as long as this process."""
    return Forks()


class Project:
    """A directory with tests in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.write("pyproject.toml", SETTINGS)

    def write(self, name: str, source: str) -> Path:
        if "import torch" in source:
            pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier = path.stat().st_mtime if path.exists() else 0.0
        path.write_text(source, encoding="utf-8")
        # Byte code is of a file of its size and its second: one that is written again is of a later one.
        os.utime(path, (max(path.stat().st_mtime, earlier + 1),) * 2)
        return path

    def settings(self, text: str) -> None:
        """Append to pyproject.toml's `[tool.perfguard]`."""
        self.write("pyproject.toml", f"{SETTINGS}{text}\n")

    def replays(self, name: str = "test_a.py", **tests: str) -> None:
        """Write a test file in which every test judges a recording that lies on disk: `test_one="torch-mlp"`."""
        lines = [
            f"def {test}(perfguard):\n    perfguard.replay({str(RECORDINGS / recording)!r})\n"
            for test, recording in tests.items()
        ]
        self.write(name, "\n".join(lines))

    def written(self) -> None:
        """Install the backend `written`."""
        self.write("written.py", WRITTEN)
        add_distribution(self.directory, "written", {"backends": {"written": "written:Written"}})

    environment = staticmethod(environment)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pytest", *arguments]

    def run(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
        timeout_s: float = SECONDS_UNTIL_A_HANG,
    ) -> Run:
        if preexec is None and not any(name.startswith(READ_AT_THE_START) for name in env or ()):
            source = "\n".join(path.read_text("utf-8") for path in self.directory.rglob("*.py"))
            # torch's profiler imports `torch._inductor` as it starts, which takes as long as torch itself.
            torch = ["torch", "torch._inductor", "perfguard.capture.torch_backend"]
            modules = torch if "import torch" in source else []
            modules += ["mindspore", "perfguard.capture.mindspore_backend"] if "import mindspore" in source else []
            # Their imports take as long as ten runs.
            modules += [name for name in ("transformers.trainer", "lightning.pytorch") if name.split(".")[0] in source]
            return forks().run(modules, self.directory, arguments, environment(**(env or {})), timeout_s)
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            preexec_fn=preexec,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def copy(self, directory: Path) -> Project:
        """Return the same project in another place."""
        shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("__pycache__"))
        copied = Project.__new__(Project)
        copied.directory = directory
        return copied

    @property
    def baselines(self) -> dict[str, bytes]:
        """Every baseline file, by name."""
        return {path.name: path.read_bytes() for path in sorted((self.directory / "baselines").glob("*.json"))}

    @property
    def workloads(self) -> list[str]:
        """The workloads that have a baseline."""
        return sorted(json.loads(content)["workload"] for content in self.baselines.values())

    def report(self, name: str = "report.json") -> dict[str, Any]:
        return json.loads((self.directory / name).read_text(encoding="utf-8"))

    def findings(self, name: str = "report.json") -> dict[str, tuple[str, list[str]]]:
        """Outcome and codes of the errors in a report file, by workload."""
        return {
            one["workload"]: (one["outcome"], [f["code"] for f in one["findings"] if f["severity"] == "error"])
            for one in self.report(name)["workloads"]
        }

    def junit(self, name: str = "junit.xml") -> ET.Element:
        suite = ET.parse(self.directory / name).getroot().find("testsuite")
        assert suite is not None
        return suite


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    return Project(tmp_path / "project")


@pytest.fixture(scope="module")
def module_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """Make a project that the tests of one module share; they only look at what its runs left."""
    return lambda name: Project(tmp_path_factory.mktemp(name) / "project")
