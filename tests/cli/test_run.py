"""`perfguard run`, as a user types it: a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli import run
from tests.installed import needs
from tests.programs import run_program

needs("torch", "models")
pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[1] / "capture" / "scripts"


@pytest.fixture
def project(tmp_path):
    for name in ("torch_train.py", "seed_train.py"):
        shutil.copy(SCRIPTS / name, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\ntime = "off"\n')
    return tmp_path


def perfguard(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfguard", "run", *arguments]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "RECORDING": str(directory / "out")}
    return run_program(*command, cwd=directory, **own | environment)


@pytest.fixture
def here(project, monkeypatch):
    """Run the command in this process, in the project; the script has a process of its own."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("RECORDING", str(project / "out"))
    return lambda *arguments: run("run", *arguments)


def said(ended: subprocess.CompletedProcess[str] | Result) -> list[str]:
    return [line.removeprefix("perfguard: ") for line in ended.stderr.splitlines() if line.startswith("perfguard: ")]


WINDOW = ("--window", "2:4", "--", "python", "torch_train.py")


def test_a_script_is_stored_and_found_worse(project, here):
    stored = here("--update", "--reason", "the first", *WINDOW, "train")
    assert (stored.exit_code, said(stored)[0]) == (0, "created torch_train.py::train")
    assert len(list((project / "baselines").glob("*.json"))) == 1

    do_more(project)
    worse = here(*WINDOW, "train")
    assert worse.exit_code == 1
    assert said(worse)[0] == "FAILED torch_train.py::train"
    assert any("R102 memory_allocated_bytes[cpu] " in line for line in said(worse))
    assert any("aten::sin" in line for line in said(worse))


def do_more(project: Path) -> None:
    """Let the script compute a sine in every step."""
    script = (project / "torch_train.py").read_text()
    (project / "torch_train.py").write_text(
        script.replace("        optimizer.step()\n", "        torch.sin(inputs)\n        optimizer.step()\n")
    )


@pytest.mark.exhaustive
def test_a_script_is_compared_refused_and_accepted(project, here):
    window = WINDOW
    first = here(*window, "train")
    assert first.exit_code == 4
    assert said(first)[0] == "INCONCLUSIVE torch_train.py::train"
    assert said(first)[1] == "  B101 no baseline to compare with: there is none"
    assert (
        said(first)[-1]
        == "store this as the baseline with: perfguard run --update --window 2:4 -- python torch_train.py train"
    )

    stored = here("--update", "--reason", "the first", *window, "train")
    assert (stored.exit_code, said(stored)[0]) == (0, "created torch_train.py::train")
    assert len(list((project / "baselines").glob("*.json"))) == 1

    again = perfguard(project, "--report", "report.json", *window, "train")
    assert again.returncode == 0, again.stderr
    assert said(again)[0] == "PASSED torch_train.py::train"
    # Which operators are shown is decided by their times; what is known of each is in the report.
    assert any("aten::" in line for line in said(again))
    (workload,) = json.loads((project / "report.json").read_text())["workloads"]
    assert workload["outcome"] == "PASSED"
    known = {(one["metric"], one["subject"]): one for one in workload["comparisons"]}
    assert known["operator_calls", "aten::addmm"]["state"] == "same"
    assert known["operator_time", "aten::addmm"]["current"] > 0

    do_more(project)
    kept = {path.name: path.read_bytes() for path in (project / "baselines").glob("*.json")}
    refused = here("--update", *window, "train")
    assert refused.exit_code == 1
    assert said(refused)[0] == "refused torch_train.py::train"
    assert said(refused)[1].startswith("  B110 the baseline would get worse without a reason: ")
    assert said(refused)[1].endswith('; if this is intended, say why: --reason "why"')
    assert any(line.startswith("  worse: memory_allocated_bytes[cpu] ") for line in said(refused))
    assert {path.name: path.read_bytes() for path in (project / "baselines").glob("*.json")} == kept

    accepted = here("--update", "--reason", "a sine", *window, "train")
    assert (accepted.exit_code, said(accepted)[0]) == (0, "updated torch_train.py::train")
    assert any(line.endswith("operator_calls[aten::sin] is new: 1 calls/step") for line in said(accepted))
    (stored_now,) = (project / "baselines").glob("*.json")
    assert json.loads(stored_now.read_text())["reason"] == "a sine"


@pytest.mark.exhaustive
def test_the_sample_of_the_documents_ends_in_a_verdict(project):
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install 'perfguard-ml[models]'")
    ended = perfguard(project, "--update", "--", "python", "seed_train.py")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "trained"
    lines = said(ended)
    assert lines[0] == "created seed_train.py"
    for metric in ("steps", "peak_memory_bytes[cpu]", "operator_time[MatMul]"):
        assert any(line.startswith(f"  {metric} ") for line in lines), metric
    assert any("has its own profiler (mindspore.Profiler); its output in" in line for line in lines)


@pytest.mark.exhaustive
def test_the_status_of_the_script_is_that_of_the_command(project):
    ended = perfguard(project, "--", "python", "torch_train.py", "train", "exit")
    assert ended.returncode == 7, ended.stderr
    assert "C113 the script failed" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "lines"),
    [
        (("--window", "5:9", "--", "python", "torch_train.py", "train"), 3, ["C106", "the window needs 9"]),
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
def test_what_goes_wrong_has_its_exit_code_and_one_sentence(here, arguments, status, lines):
    ended = here(*arguments)
    assert ended.exit_code == status, ended.stderr
    for line in lines:
        assert line in ended.stderr


def test_ctrl_c_ends_the_script_and_says_so(project):
    import signal
    import time

    command = [
        sys.executable,
        "-m",
        "perfguard",
        "run",
        "--output",
        "out",
        "--",
        sys.executable,
        "torch_train.py",
        "train",
        "hang",
    ]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
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
