"""The fuzz itself: some cases of each kind hold, a seed repeats a case, and what must not happen is seen."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.fuzz.kinds import KINDS
from tests.fuzz.runs import _wrong

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.variants(1)
def test_some_cases_of_each_kind_hold(name):
    command = [sys.executable, "-m", "tests.fuzz", "--cases", "4", "--seed", "0", "--only", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 cases" in done.stdout


#: Cases that fell once; a case is what its seed makes of the generator of today.
FALLEN = ["documents:43:2161"]


@pytest.mark.slow
@pytest.mark.parametrize("case", FALLEN)
def test_a_case_that_fell_holds(case):
    command = [sys.executable, "-m", "tests.fuzz", "--case", case]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_seed_repeats_a_case(tmp_path, tmp_path_factory, monkeypatch, name):
    # A process keeps right inputs for its later cases; pytest removes them with its own folder.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))

    def made(place: Path) -> tuple[object, dict[str, object]]:
        place.mkdir()
        commands = KINDS[name](random.Random(f"{name}:7:3"), place)
        files = {path.relative_to(place): path for path in sorted(place.rglob("*"))}
        return commands, {
            inside: os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            for inside, path in files.items()
        }

    assert made(tmp_path / "one") == made(tmp_path / "two")


@pytest.mark.parametrize(
    ("status", "problem", "output", "fall"),
    [
        (0, "", "PASSED", []),
        (3, "", "INVALID", []),
        (2, "", "perfguard: x is not there. Name another one.", []),
        (2, "", "", ["status 2 without a word"]),
        (-11, "ended by SIGSEGV", "", ["ended by SIGSEGV"]),
        (70, "", "", ["status 70"]),
        (0, "", "x/y.py:3: RuntimeWarning: overflow", ["a warning of Python: y.py:3: RuntimeWarning: "]),
        (
            2,
            "",
            'Traceback (most recent call last):\n  File "/x/cli/check.py", line 3, in f\nKeyError: 1',
            ["a traceback: KeyError: 1 at cli/check.py:3:f"],
        ),
    ],
)
def test_what_must_not_happen_is_a_fall(status, problem, output, fall):
    assert list(_wrong(status, problem, output)) == fall
