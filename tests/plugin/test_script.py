"""`perfguard.script([...])` in a test: an unmodified script is run, judged against the test's baseline, and left as it was."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.installed import needs

needs("torch", "models")
# Each script imports torch, and each run of pytest judges what it left.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SCRIPT = Path(__file__).parents[1] / "capture" / "scripts" / "torch_train.py"
TEST = f"""
import pytest

@pytest.mark.perfguard(backend="torch")
def test_training(perfguard):
    perfguard.script([{sys.executable!r}, "train.py", "train"], window="2:4")
"""


def test_a_script_is_gated_like_any_workload(project):
    shutil.copy(SCRIPT, project.directory / "train.py")
    project.write("test_train.py", TEST)
    stored = project.run("--perfguard-update")
    assert stored.counts == {"passed": 1}, stored.text
    assert project.workloads == ["test_train.py::test_training"]
    # The framework is of the script's Python: it is no matter that the one that judges has none.
    project.write("conftest.py", "import sys\nsys.modules['torch'] = None\n")
    again = project.run("--perfguard")
    assert again.counts == {"passed": 1}, again.text
    script = project.directory / "train.py"
    script.write_text(
        script.read_text().replace(
            "        optimizer.step()\n", "        torch.sin(inputs)\n        optimizer.step()\n"
        )
    )
    worse = project.run("--perfguard", "--perfguard-report", "report.json")
    assert worse.counts == {"failed": 1}
    outcome, codes = project.findings()["test_train.py::test_training"]
    assert outcome == "FAILED"
    # Its bytes are red. Whether the operator is red by itself depends on shares that the baseline stores; it is told anyway.
    assert codes in (["R102"], ["R102", "R104"])
    (one,) = project.report()["workloads"]
    assert any("aten::sin" in finding["message"] for finding in one["findings"] if finding["code"] in ("R104", "R107"))


def test_without_the_option_it_only_runs(project):
    project.write(
        "test_plain.py",
        "def test_ends(perfguard):\n"
        f"    perfguard.script([{sys.executable!r}, '-c', 'open(\"ran\", \"w\")'], window='2:4')\n"
        "def test_fails(perfguard):\n"
        f"    perfguard.script([{sys.executable!r}, '-c', 'import sys; sys.exit(7)'], window='2:4')\n",
    )
    plain = project.run()
    assert plain.counts == {"passed": 1, "failed": 1}
    assert (project.directory / "ran").is_file()
    assert "-c 'import sys; sys.exit(7)' ended with status 7" in plain.text


#: What goes wrong, by the name of the test it goes wrong in: the call, and the sentence.
WRONG = {
    "no_list": ("perfguard.script('python train.py')", "takes a list of words, such as ['python', 'train.py']"),
    "no_key": (
        "perfguard.script(['python'], windows='2:4')",
        "perfguard.script(...): windows is not a known key; did you mean 'window'?",
    ),
    "no_window": ("perfguard.script(['python'], window='4:2')", "start_step=4, stop_step=2 is not a window"),
    "no_command": ("perfguard.script([])", "there is no command to run"),
    "raises": (
        f"perfguard.script([{sys.executable!r}, 'train.py', 'train', 'raise'])",
        "C113 the script failed: recording.json the script ended with status 1: RuntimeError: out of luck",
    ),
}


@pytest.fixture(scope="module")
def wrong(module_project):
    project = module_project("wrong")
    shutil.copy(SCRIPT, project.directory / "train.py")
    project.write(
        "test_w.py", "\n".join(f"def test_{name}(perfguard):\n    {call}\n" for name, (call, _) in WRONG.items())
    )
    return project.run("--perfguard")


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_fails_the_test_with_one_sentence(wrong, name):
    assert wrong.counts == {"failed": len(WRONG)}
    assert WRONG[name][1] in wrong.line(f"FAILED test_w.py::test_{name} - ")
