"""Recordings whose process was killed: each is INVALID by its path, beside whole ones and below them, and never left out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.testing import generate
from tests.cli import RECORDINGS, TORCH, copied, run
from tests.facts import unlistable

#: What a capture leaves, by when it was killed: given a whole recording, remove what was not written yet.
LEFT: dict[str, Callable[[Path], object]] = {
    "before the profiler's directory": lambda place: (shutil.rmtree(place), place.mkdir()),
    "before the profiler wrote": lambda place: (shutil.rmtree(place), (place / "profiler").mkdir(parents=True)),
    "before steps.json": lambda place: [(place / name).unlink() for name in ("recording.json", "steps.json")],
    "while steps.json was written": lambda place: (
        (place / "steps.json").rename(place / ".steps.json.x1.tmp"),
        (place / "recording.json").unlink(),
    ),
    "before recording.json": lambda place: (place / "recording.json").unlink(),
    "a launcher's logs": lambda place: (
        (place / "logs").mkdir(),
        [(place / name).unlink() for name in ("recording.json", "steps.json")],
    ),
    "steps.json lost": lambda place: (place / "steps.json").unlink(),
}
#: Where it is, relative to the directory of recordings.
PLACES = ("killed", "job/killed", "job/deeper/killed")
MESSAGE = "the process that recorded it was killed, or is still running"


def outcomes(*words: object) -> tuple[int, dict[str, str]]:
    """Return the exit code of a check, and the outcome by workload."""
    found = run("check", *words, "--json")
    document = json.loads(found.stdout)
    return found.exit_code, {one["workload"]: one["outcome"] for one in document.get("workloads", [document])}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    place = tmp_path / "several"
    copied(TORCH, place / "whole")
    return place


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.variants(1)
def test_a_killed_recording_is_invalid_wherever_it_is(several, left, place):
    if left.startswith("before the profiler's") and place != "killed":
        pytest.skip("an empty folder is one only beside a recording")
    LEFT[left](copied(TORCH, several / place))
    assert outcomes(several) == (3, {str(several / "whole"): "PASSED", str(several / place): "INVALID"})
    pytest.importorskip("fsspec", reason="URLs need the extra remote")
    url = f"local://{several}"
    assert outcomes(url) == (3, {f"{url}/whole": "PASSED", f"{url}/{place}": "INVALID"})


def test_every_command_that_takes_several_recordings_names_a_killed_one(several, tmp_path):
    LEFT["before steps.json"](copied(TORCH, several / "killed"))
    shown = str(several / "killed")
    report = tmp_path / "report.json"
    run("report", several, "--json", report)
    verdicts = json.loads(report.read_text(encoding="utf-8"))["workloads"]
    assert {one["workload"]: one["outcome"] for one in verdicts}[shown] == "INVALID"
    page = tmp_path / "page.html"
    assert run("view", several, "--no-open", "-o", page).exit_code == 0
    assert MESSAGE in page.read_text(encoding="utf-8")
    asked = run("sql", several, "select count(*) from cycles")
    assert shown in asked.stderr
    for words in (("ops", several), ("compare", several, TORCH), ("analyse", several)):
        refused = run(*words)
        assert (refused.exit_code, shown in refused.stderr) == (2, True), words


def test_a_directory_of_several_with_only_killed_ones_that_were_named_by_their_steps(tmp_path):
    for name in ("one", "two"):
        LEFT["before recording.json"](copied(TORCH, tmp_path / "several" / name))
    places = {str(tmp_path / "several" / name): "INVALID" for name in ("one", "two")}
    assert outcomes(tmp_path / "several") == (3, places)
    assert outcomes(tmp_path / "several" / "one") == (3, {str(tmp_path / "several" / "one"): "INVALID"})


def test_recordings_of_several_jobs_are_judged_one_by_one(several):
    copied(TORCH, several / "job" / "one")
    copied(RECORDINGS / "mindspore-graph", several / "job" / "two")
    places = [several / name for name in ("whole", "job/one", "job/two")]
    assert outcomes(several) == (0, {str(place): "PASSED" for place in places})


@pytest.mark.parametrize(
    "files",
    [
        ("README.md", "report.json", "latest.html"),
        ("logs/run.log", "logs/old/run.log"),
        ("checkout/profiler/__init__.py", "checkout/setup.py"),
        ("notes/steps.txt",),
    ],
)
@pytest.mark.variants(1)
def test_other_files_beside_recordings_are_no_finding(several, files):
    for name in files:
        (several / name).parent.mkdir(parents=True, exist_ok=True)
        (several / name).write_text("{}\n", encoding="utf-8")
    assert outcomes(several) == (0, {str(several / "whole"): "PASSED"})


@pytest.mark.parametrize("place", ["", "theirs", "jobs/theirs", "data/x/profiler"])
@pytest.mark.variants(1)
def test_output_without_facts_beside_recordings_is_judged_by_what_it_holds(several, place):
    (trace,) = (TORCH / "profiler").iterdir()
    theirs = several / place / trace.name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    if place.startswith("data"):
        (several / "data" / "x" / "README").touch()
    shutil.copyfile(trace, theirs)
    beside = f"{several} (beside its recordings)"
    assert outcomes(several) == (0, {str(several / "whole"): "PASSED", beside: "PASSED"})
    theirs.write_bytes(trace.read_bytes()[:-100])
    assert outcomes(several) == (3, {str(several / "whole"): "PASSED", beside: "INVALID"})


def test_a_folder_that_cannot_be_listed_beside_recordings_is_said(several, monkeypatch):
    (several / "closed").mkdir()
    unlistable(monkeypatch, "closed")
    code, found = outcomes(several)
    assert (code, found[f"{several} (beside its recordings)"]) == (4, "INCONCLUSIVE")


_TEST = textwrap.dedent(
    """
    import os, signal, pytest, torch

    @pytest.mark.perfguard(backend="torch")
    @pytest.mark.parametrize("dies_at", [None, {at}])
    def test_step(perfguard, dies_at):
        model, steps = torch.nn.Linear(8, 8), []
        def step():
            steps.append(0)
            if len(steps) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(4, 8))
        perfguard(step)
    """
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", [1, 5, 8, 11])
def test_a_test_that_is_killed_while_it_records_is_found(tmp_path, at):
    pytest.importorskip("torch")
    (tmp_path / "test_it.py").write_text(_TEST.format(at=at), encoding="utf-8")
    several = tmp_path / "several"
    words = ["-q", "-p", "no:randomly", "--perfguard", f"--perfguard-recordings={several}", "test_it.py"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout
    code, found = outcomes(several)
    assert (code, sorted(found.values())) == (3, ["INVALID", "PASSED"])
    (killed,) = (name for name, outcome in found.items() if outcome == "INVALID")
    # By itself it has output without facts, which is whole in the end.
    assert outcomes(killed)[0] == (3 if at > 3 else 4)


# -- a verdict over nothing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [one.id for one in layouts()])
@pytest.mark.parametrize("name", sorted(os.listdir(RECORDINGS)))
@pytest.mark.variants(4)
def test_no_layout_makes_a_recording_without_its_files_pass(name, layout):
    found = run("check", RECORDINGS / name, "--layout", layout)
    assert "0 files" not in found.stdout or found.exit_code != 0, found.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--ignore", "A"),
        ("--ignore", "A,S,I,C"),
        ("--select", "S1"),
        ("--layout", "cluster"),
        ("--layout", "pt-npu"),
    ],
    ids=str,
)
@pytest.mark.parametrize("what", ["empty", "links", "emptied", "folders"])
@pytest.mark.variants(6)
def test_nothing_never_passes(tmp_path, what, words):
    place = tmp_path / "place"
    place.mkdir()
    if what == "links":
        (place / "a.pt.trace.json").symlink_to("/etc/passwd")
        (place / "b").symlink_to(tmp_path)
    elif what == "folders":
        (place / "ASCEND_PROFILER_OUTPUT").mkdir()
        (place / "rank_0").mkdir()
    elif what == "emptied":
        shutil.rmtree(copied(TORCH, place / "whole") / "profiler")
    found = run("check", place, *words)
    assert found.exit_code in (3, 4), found.output
    assert "PASSED" not in found.stdout


def test_generated_output_of_each_layout_still_passes_as_itself(tmp_path):
    for name in ("pt-torch", "ms-2.5+"):
        generate(name, seed=1).write(tmp_path / name)
        assert run("check", tmp_path / name, "--layout", name).exit_code == 0
