"""The summary of a run of pytest on screens: widths, colours, characters, -q and -v."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from perfguard.reports.table import display_width
from tests.cli import TORCH
from tests.plugin.conftest import RECORDINGS, SECONDS_UNTIL_A_HANG, Run
from tests.terminals import on_a_terminal

pytestmark = pytest.mark.slow

NAME = "test_of_a_model_whose_name_is_as_long_as_names_are"
#: One of each: green, worse, not whole, without a baseline.
TESTS = """
def test_fails(perfguard):
    perfguard.replay("worse")

def test_invalid(perfguard):
    perfguard.replay("cut")

def test_new(perfguard):
    perfguard.replay("other")

def {name}(perfguard):
    perfguard.replay("good")
"""
GREEN = "def test_one(perfguard):\n    perfguard.replay('good')\n"


@pytest.fixture(scope="module")
def four(module_project):
    """A project with a test of each outcome, which runs only look at."""
    project = module_project("four")
    places = {name: project.directory / name for name in ("good", "worse", "cut", "other")}
    shutil.copytree(TORCH, places["good"])
    project.write("test_a.py", TESTS.format(name=NAME).replace('"worse"', '"good"').replace('"cut"', '"good"'))
    assert project.run("--perfguard-update", "-k", f"fails or {NAME}").status == 0
    project.write("test_a.py", TESTS.format(name=NAME))
    shutil.copytree(TORCH, places["worse"])
    stored = project.directory / "baselines" / "test_a--test_fails.json"
    baseline = json.loads(stored.read_text())
    for one in baseline["measurements"]:
        if (one["metric"], one["subject"]) == ("operator_calls", "aten::addmm"):
            one["value"] = 0
    stored.write_text(json.dumps(baseline))
    shutil.copytree(TORCH, places["cut"])
    for trace in (places["cut"] / "profiler").rglob("*.json"):
        trace.write_text(trace.read_text(encoding="utf-8")[:2000], encoding="utf-8")
    shutil.copytree(RECORDINGS / "torch-repeat2", places["other"])
    return project


@dataclass(frozen=True)
class Seen:
    """What one run showed and wrote."""

    run: Run
    report: str
    messages: list[str]


@pytest.fixture(scope="module")
def seen(four) -> Callable[..., Seen]:
    """Run pytest with these options and variables, once."""

    @cache
    def once(*arguments: str, **environment: str) -> Seen:
        files = ("--junitxml=junit.xml", "--perfguard-report=report.json")
        run = four.run("--perfguard", *files, *arguments, env=environment)
        messages = [failure.get("message") for failure in four.junit().iter("failure")]
        return Seen(run, (four.directory / "report.json").read_text(encoding="utf-8"), messages)

    return once


def section(text: str) -> list[str]:
    """Return the lines of perfguard's section."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    after = re.split(r"=+ perfguard =+\n", plain)[1]
    return re.split(r"=+ short test summary info =+|=+ \d+ ", after)[0].splitlines()


def table_of(text: str) -> list[str]:
    lines = section(text)
    return lines[: lines.index("")]


# -- widths ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [40, 80, pytest.param(200, marks=pytest.mark.exhaustive)])
@pytest.mark.variants(1)
def test_the_table_is_no_wider_than_the_terminal(four, columns):
    status, text = on_a_terminal(
        four.command("--perfguard", "--tb=no"), columns=columns, cwd=four.directory, env=four.environment()
    )
    assert status == 1
    table = table_of(text)
    assert max(map(display_width, table)) <= columns
    assert [row.split()[0] for row in table[2:]] == ["FAILED", "INVALID", "INCONCLUSIVE", "PASSED"]
    assert all(
        row.split()[1].endswith(end)
        for row, end in zip(table[2:], ("fails", "invalid", "new", NAME[-15:]), strict=True)
    )
    assert (NAME in text.split("= perfguard =")[1]) == (columns == 200)
    assert ("step ms" in table[0]) == (columns >= 80)


@pytest.mark.exhaustive
def test_a_log_names_everything_whole(seen):
    run = seen("--tb=no", COLUMNS="").run
    table = table_of(run.out)
    assert table[-1].split()[1] == f"test_a.py::{NAME}"
    assert table[0].split()[-1] == "changed"
    assert "…" not in run.out
    assert "\r" not in run.out
    assert "\x1b" not in run.out


@pytest.mark.exhaustive
def test_verbose_on_a_narrow_terminal_is_a_block_a_workload(four):
    _, text = on_a_terminal(
        four.command("--perfguard", "--tb=no", "-v"), columns=50, cwd=four.directory, env=four.environment()
    )
    lines = section(text)
    assert "FAILED  test_a.py::test_fails" in lines
    assert sum(line.startswith("  step ms: ") for line in lines) == 4


# -- colours ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, environment, is_coloured",
    [
        # An option goes before the environment; without one that says so.
        (("--color=yes",), {"NO_COLOR": "1"}, True),
        (("--color=no",), {"FORCE_COLOR": "1"}, False),
        ((), {"FORCE_COLOR": "1"}, True),
    ],
)
@pytest.mark.variants(1)
def test_colours_are_those_of_pytest(seen, arguments, environment, is_coloured):
    shown = seen(*arguments, **environment)
    for word, colour in (("FAILED", 31), ("INVALID", 35), ("INCONCLUSIVE", 33), ("PASSED", 32)):
        assert (f"\x1b[{colour};1m{word}\x1b[0m" in shown.run.out) == is_coloured
    assert "\x1b" not in shown.report
    assert "\\u001b" not in shown.report
    # With colours from the environment pytest colours the lines of source it quotes there, and no message.
    assert len(shown.messages) == 3
    assert not any("x1b" in message.lower() or "\x1b" in message for message in shown.messages)


@pytest.mark.exhaustive
def test_a_failing_message_has_no_colours_of_its_own(seen):
    run = seen("--color=yes", NO_COLOR="1").run
    lines = [line for line in run.out.splitlines() if "E  " in line and "R10" in line]
    assert lines
    assert all(line.count("\x1b[31m") == 1 for line in lines)  # pytest's own


# -- characters ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("cp1252", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_nothing_is_lost_where_the_output_lacks_characters(four, encoding):
    done = subprocess.run(
        four.command("--perfguard", "--junitxml=junit.xml"),
        cwd=four.directory,
        env=four.environment(PYTHONIOENCODING=encoding, COLUMNS="60"),
        capture_output=True,
        timeout=SECONDS_UNTIL_A_HANG,
        check=False,
    )
    out = done.stdout.decode(encoding)
    assert done.returncode == 1
    assert "\\u2192" not in out
    assert "\\nE" not in out
    told = [line for line in out.splitlines() if line.startswith("E  ")]
    assert any(" -> " in line for line in told)
    assert max(map(len, table_of(out))) <= 60
    if encoding != "cp1252":
        assert "..." in table_of(out)[-1]
    # The file has the characters as they are.
    assert "→" in (four.directory / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_the_output_is_as_it_was_after_a_run(project):
    """Other runs of the process write as they did: a plugin of a test runner must not change a stream for good."""
    project.replays(test_one="torch-mlp")
    source = "import sys, pytest; pytest.main(['--perfguard', '-q']); print(sys.stdout.errors)"
    command = [project.command()[0], "-c", source]
    environment = project.environment(PYTHONIOENCODING="ascii")
    done = subprocess.run(command, cwd=project.directory, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "strict"


# -- less and more -----------------------------------------------------------------------------------------------------------


def test_quiet_names_what_is_not_green_and_counts(seen):
    run = seen("--tb=no", "-q").run
    lines = [line.removeprefix("perfguard: ") for line in run.out.splitlines() if line.startswith("perfguard: ")]
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["FAILED", "test_a.py::test_fails:"],
        ["INVALID", "test_a.py::test_invalid:"],
        ["INCONCLUSIVE", "test_a.py::test_new:"],
    ]
    assert " compared: " in lines[-1]
    assert "= perfguard =" not in run.out


def test_quiet_and_green_is_one_line(project):
    project.replays(test_one="torch-mlp", test_two="torch-mlp")
    assert project.run("--perfguard-update", "-q").line("perfguard: baselines") == (
        "perfguard: baselines: 2 created, 0 updated, 0 kept, 0 unused"
    )
    run = project.run("--perfguard", "-qq")
    assert run.status == 0
    assert [line for line in run.out.splitlines() if "perfguard" in line] == [
        "perfguard: 184 compared: 0 worse, 0 better, 0 changed; 0 not comparable; 282 shown, not judged"
    ]


@pytest.mark.exhaustive
def test_verbose_says_all_that_is_known(seen):
    few, all_ = seen("--color=no", FORCE_COLOR="1").run.out, seen("-v").run.out
    assert "residual" not in few
    assert f"test_a.py::{NAME}\n" in all_
    assert "layout pt-torch" in all_
    assert "residual" in all_


@pytest.mark.exhaustive
def test_in_ci_a_failure_is_told_once(seen):
    run = seen("--color=no", CI="true").run
    told, _, counted = run.out.partition(" short test summary info ")
    assert [line.split()[0] for line in counted.splitlines()[1:-1]] == ["FAILED"] * 3
    assert "FAILED test_a.py::test_fails - Failed: perfguard FAILED: " in counted
    assert "  workload: test_a.py::test_fails" in told
    # Without the section above, it is told there.
    _, _, counted = seen("--color=no", "--tb=no", CI="true").run.out.partition(" short test summary info ")
    assert "  workload: test_a.py::test_fails" in counted


# -- to be read elsewhere ------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_the_same_run_is_the_same_report_on_every_screen(seen):
    runs = seen("--tb=no", COLUMNS=""), seen("-v"), seen("--color=yes", NO_COLOR="1")
    one, *others = (
        [(w["workload"], w["outcome"], w["findings"]) for w in json.loads(run.report)["workloads"]] for run in runs
    )
    assert others == [one, one]
