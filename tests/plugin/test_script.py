"""`perfguard.script([...])` in a test: an unmodified script is run, judged against the test's baseline, and left as it was."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'perfguard[models]'")
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "capture" / "scripts" / "torch_train.py"
TEST = f"""
import pytest

@pytest.mark.perfguard(backend="torch")
def test_training(perfguard):
    perfguard.script([{sys.executable!r}, "train.py", *WORDS], window="2:4")
"""


@pytest.fixture
def trained(project):
    shutil.copy(SCRIPT, project.directory / "train.py")
    project.write("test_train.py", TEST.replace("*WORDS", "'train'"))
    return project


def test_a_script_is_gated_like_any_workload(trained):
    assert trained.run("--perfguard").counts == {"failed": 1}
    stored = trained.run("--perfguard-update")
    assert stored.counts == {"passed": 1}
    assert trained.workloads == ["test_train.py::test_training"]
    again = trained.run("--perfguard", "--perfguard-report", "report.json")
    assert again.counts == {"passed": 1}, again.text
    script = trained.directory / "train.py"
    script.write_text(
        script.read_text().replace(
            "        optimizer.step()\n", "        torch.sin(inputs)\n        optimizer.step()\n"
        )
    )
    worse = trained.run("--perfguard", "--perfguard-report", "report.json")
    assert worse.counts == {"failed": 1}
    outcome, codes = trained.findings()["test_train.py::test_training"]
    assert outcome == "FAILED"
    assert "R104" in codes


def test_without_the_option_it_only_runs(trained):
    assert trained.run().counts == {"passed": 1}
    trained.write("test_train.py", TEST.replace("*WORDS", "'exit'"))
    failed = trained.run()
    assert failed.counts == {"failed": 1}
    assert "train.py exit ended with status 7" in failed.text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("perfguard.script('python train.py')", "takes a list of words, such as ['python', 'train.py']"),
        (
            "perfguard.script(['python'], windows='2:4')",
            "perfguard.script(...) has no key 'windows'; did you mean 'window'?",
        ),
        ("perfguard.script(['python'], window='4:2')", "start_step=4, stop_step=2 is not a window"),
        ("perfguard.script([])", "there is no command to run"),
        (
            f"perfguard.script([{sys.executable!r}, 'train.py', 'train', 'raise'])",
            "C113 the script failed: recording.json the script ended with status 1: RuntimeError: out of luck",
        ),
    ],
)
def test_what_goes_wrong_fails_the_test_with_one_sentence(trained, call, message):
    trained.write("test_train.py", f"def test_it(perfguard):\n    {call}\n")
    run = trained.run("--perfguard")
    assert run.counts == {"failed": 1}
    assert message in run.text


def test_a_framework_that_is_not_here_is_no_matter_where_the_script_has_its_own(trained, tmp_path):
    """The backend is of the script's Python, and not of the one that judges."""
    bare = tmp_path / "bare"
    trained.write("conftest.py", "import sys\nsys.modules['torch'] = None\n")
    run = trained.run("--perfguard-update", "--basetemp", str(bare))
    assert run.counts == {"passed": 1}, run.text
