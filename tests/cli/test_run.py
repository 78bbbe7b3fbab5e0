"""`perfguard run`, as a user types it: a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.capture.command import Ended
from perfguard.capture.script import ScriptRun
from perfguard.recording import read_recording
from tests.cli import run
from tests.installed import needs
from tests.programs import run_program

needs("torch", "models")
pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[1] / "capture" / "scripts"


#: A recording with timed steps.
TIMED = Path(__file__).parents[1] / "data" / "recordings" / "torch-mlp"
SETTINGS = '[tool.perfguard]\ntime = "off"\n'


def made(directory: Path) -> Path:
    for name in ("torch_train.py", "seed_train.py"):
        shutil.copy(SCRIPTS / name, directory)
    (directory / "pyproject.toml").write_text(SETTINGS)
    return directory


@pytest.fixture
def project(tmp_path):
    return made(tmp_path)


def perfguard(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfguard", "run", *arguments]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "RECORDING": str(directory / "out")}
    return run_program(*command, cwd=directory, **own | environment)


def said(ended: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("perfguard: ") for line in ended.stderr.splitlines() if line.startswith("perfguard: ")]


WINDOW = ("--window", "2:4", "--", "python", "torch_train.py", "train")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A project in which a script was stored by a first run, and compared after it was changed."""
    project = made(tmp_path_factory.mktemp("runs"))
    stored = perfguard(project, "--update", "--reason", "the first", "--output", "first", *WINDOW)
    assert stored.returncode == 0, stored.stderr
    script = (project / "torch_train.py").read_text()
    (project / "torch_train.py").write_text(
        script.replace("        optimizer.step()\n", "        torch.sin(inputs)\n        optimizer.step()\n")
    )
    worse = perfguard(project, "--report", "report.json", "--output", "worse", *WINDOW)
    return project, stored, worse


@pytest.mark.exhaustive
def test_a_script_is_stored_compared_and_found_worse(runs):
    project, stored, worse = runs
    assert said(stored)[0] == "created torch_train.py::train"
    assert len(list((project / "baselines").glob("*.json"))) == 1
    # Which operators are shown is decided by their times; what is known of each is in the report.
    assert any("aten::" in line for line in said(stored))

    assert worse.returncode == 1
    assert said(worse)[0] == "FAILED torch_train.py::train"
    assert any("R102 memory_allocated_bytes[cpu] " in line for line in said(worse))
    assert any("aten::sin" in line for line in said(worse))
    (workload,) = json.loads((project / "report.json").read_text())["workloads"]
    assert workload["outcome"] == "FAILED"
    known = {(one["metric"], one["subject"]): one for one in workload["comparisons"]}
    assert known["operator_calls", "aten::addmm"]["state"] == "same"
    assert known["operator_time", "aten::addmm"]["current"] > 0


@pytest.fixture
def judged(runs, tmp_path, monkeypatch):
    """What `perfguard run` says where its script leaves a recording that one of the runs left, by the name of that."""
    recorded, _, _ = runs
    shutil.copytree(recorded / "baselines", tmp_path / "baselines")
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def judge(name, *arguments, others_share=None):
        recording = replace(read_recording(recorded / name), others_share=others_share)
        done = ScriptRun(recording=recording, ended=Ended(status=0))
        monkeypatch.setattr("perfguard.capture.script.run_script", lambda script, *, workload, directory: done)
        found = run("run", "--name", "torch_train.py::train", *arguments, *WINDOW)
        return found.exit_code, [line.removeprefix("perfguard: ") for line in found.stderr.splitlines()]

    return judge


@pytest.mark.exhaustive
def test_without_a_baseline_it_says_how_to_store_one(judged, tmp_path):
    shutil.rmtree(tmp_path / "baselines")
    status, lines = judged("first")
    assert status == 4
    assert lines[0] == "INCONCLUSIVE torch_train.py::train"
    assert lines[1] == "  B101 no baseline to compare with: there is none"
    assert lines[-1] == (
        "store this as the baseline with: perfguard run --update --name torch_train.py::train "
        "--window 2:4 -- python torch_train.py train"
    )


@pytest.mark.exhaustive
def test_times_of_a_busy_machine_are_stored_for_a_reason_only(judged, tmp_path):
    shutil.rmtree(tmp_path / "baselines")
    status, lines = judged(TIMED, "--time", "on", "--update", others_share=0.62)
    assert (status, lines[0]) == (1, "refused torch_train.py::train")
    assert lines[1].startswith(
        "  B112 the machine was busy: other processes used 62 % of the machine's CPU time while "
    )
    assert not (tmp_path / "baselines").exists() or not list((tmp_path / "baselines").glob("*.json"))
    assert lines[-1].partition(": ")[0] == "store it all the same with"
    words = shlex.split(lines[-1].partition(": ")[2])
    assert words[:4] == ["perfguard", "run", "--reason", "..."]
    # The command as it is printed gives no reason.
    assert run(*words[1:]).exit_code == 1
    assert run(*words[1:3], "it is always busy", *words[4:]).exit_code == 0
    # On a quiet machine it needs none.
    shutil.rmtree(tmp_path / "baselines")
    assert judged(TIMED, "--time", "on", "--update", others_share=0.05)[0] == 0


@pytest.mark.exhaustive
def test_what_is_the_same_passes(judged):
    status, lines = judged("first", "--report", "report.json")
    assert (status, lines[0]) == (0, "PASSED torch_train.py::train")
    (workload,) = json.loads(Path("report.json").read_text())["workloads"]
    assert workload["outcome"] == "PASSED"


@pytest.mark.exhaustive
def test_a_baseline_gets_worse_for_a_reason_only(judged):
    kept = {path.name: path.read_bytes() for path in Path("baselines").glob("*.json")}
    status, refused = judged("worse", "--update")
    assert (status, refused[0]) == (1, "refused torch_train.py::train")
    assert refused[1].startswith("  B110 the baseline would get worse without a reason: ")
    assert refused[1].endswith('; if this is intended, say why: --reason "..."')
    assert any(line.startswith("  worse: memory_allocated_bytes[cpu] ") for line in refused)
    assert {path.name: path.read_bytes() for path in Path("baselines").glob("*.json")} == kept

    status, accepted = judged("worse", "--update", "--reason", "a sine")
    assert (status, accepted[0]) == (0, "updated torch_train.py::train")
    assert any(line.endswith("operator_calls[aten::sin] is new: 1 calls/step") for line in accepted)
    (stored_now,) = Path("baselines").glob("*.json")
    assert json.loads(stored_now.read_text())["reason"] == "a sine"


@pytest.mark.exhaustive
def test_the_sample_of_the_documents_ends_in_a_verdict(project):
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install -e '.[models]'")
    ended = perfguard(project, "--update", "--", "python", "seed_train.py")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "trained"
    lines = said(ended)
    assert lines[0] == "created seed_train.py"
    for metric in ("steps", "peak_memory_bytes[cpu]", "operator_time[MatMul]"):
        assert any(line.startswith(f"  {metric} ") for line in lines), metric
    assert any("has its own profiler (mindspore.Profiler); its output in" in line for line in lines)


def test_the_status_of_the_script_is_that_of_the_command(project):
    """That of one whose training was recorded before it failed is read in tests/capture/test_script.py."""
    ended = perfguard(project, "--", "python", "-c", "raise SystemExit(7)")
    assert ended.returncode == 7, ended.stderr
    assert "C113 the script failed" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "lines"),
    [
        pytest.param(
            *(("--window", "5:9", "--", "python", "torch_train.py", "train"), 3, ["C106", "the window needs 9"]),
            marks=pytest.mark.exhaustive,
        ),
        (("--window", "9:5", "--", "python", "torch_train.py"), 2, ["start_step=9, stop_step=5 is not a window"]),
        (
            ("--window", "x", "--", "python", "torch_train.py"),
            2,
            ["'x' is not a window. Write START:STOP, such as 10:20"],
        ),
        (("--option", "profile_memory", "--", "python", "t.py"), 2, ["--option profile_memory is no option"]),
        (("--ranks", "2", "--", "python", "torch_train.py"), 2, ["--ranks 2 needs a launcher"]),
        (("--timeout", "2", "--", "python", "-c", "import time; time.sleep(600)"), 3, ["C108", "did not end in 2 s"]),
        (("--", "no-such-program"), 2, ["there is no command 'no-such-program'"]),
        ((), 2, []),
    ],
)
@pytest.mark.variants(1)
def test_what_goes_wrong_has_its_exit_code_and_one_sentence(project, tmp_path, monkeypatch, arguments, status, lines):
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    ended = run("run", *arguments)
    assert ended.exit_code == status, ended.stderr
    for line in lines:
        assert line in ended.stderr
    # A call that is wrong leaves no recording.
    assert status != 2 or not [*(tmp_path / "temporary").glob("perfguard-run-*")]


def test_ctrl_c_ends_the_script_and_says_so(project):
    hangs = "import time; print('hanging', flush=True); time.sleep(600)"
    command = [sys.executable, "-m", "perfguard", "run", "--output", "out", "--", sys.executable, "-c", hangs]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "perfguard: stopped before the end; nothing more was done." in error


def test_another_runs_place_is_neither_mixed_with_nor_overwritten(project, monkeypatch):
    (project / "out").mkdir()
    (project / "out" / "notes.txt").write_text("mine")
    monkeypatch.chdir(project)
    ended = run("run", "--output", "out", "--", sys.executable, "torch_train.py")
    assert ended.exit_code == 2
    assert (
        f"{project / 'out'} is not empty, and may hold another run; name a new directory with --output DIR."
        in ended.stderr
    )
    assert [path.name for path in (project / "out").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train.py"),
        (["python3.11", "-u", "-X", "dev", "train.py", "--epochs", "2"], "train.py::--epochs 2"),
        (["python", "-m", "package.train", "-v"], "package.train::-v"),
        (["python", "-c", "import torch"], "-c::'import torch'"),
        (["bash", "train.sh"], "bash::train.sh"),
        (["python"], "python"),
    ],
)
def test_a_baseline_is_named_after_the_script_and_its_arguments(tmp_path, command, name):
    from perfguard.cli.run import _workload

    assert _workload(tuple(command), tmp_path) == name
