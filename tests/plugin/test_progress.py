"""The progress line: on a terminal only, for windows that take long, and gone when the test ends."""

from __future__ import annotations

import re

import pytest

from perfguard.plugin.progress import RoundProgress
from tests.plugin.conftest import WRITTEN_HEAD
from tests.terminals import on_a_terminal

pytestmark = pytest.mark.slow

SLOW = (
    WRITTEN_HEAD
    + """
@pytest.mark.perfguard(timed_steps=6)
def test_slow(perfguard):
    def step():
        matmul()
        time.sleep(0.25)
    perfguard(step)
"""
)


REFRESHED = (
    WRITTEN_HEAD
    + """
def test_one(perfguard):
    perfguard(matmul)

def test_two(perfguard):
    perfguard(matmul)
"""
)


def shown_on_a_terminal(project, *arguments: str, columns: int = 80) -> list[str]:
    """Run pytest on a pseudo terminal, and return the lines it wrote, also those it wrote over."""
    _, text = on_a_terminal(
        project.command(*arguments), columns=columns, cwd=project.directory, env=project.environment()
    )
    return text.replace("\r", "\n").splitlines()


@pytest.mark.exhaustive
def test_the_line_is_shown_on_a_terminal_and_taken_away(project):
    project.written()
    project.write("test_p.py", SLOW)
    lines = shown_on_a_terminal(project, "--perfguard-update", "--color=no")
    shown = [line.strip() for line in lines if line.startswith("perfguard: ")]
    assert shown
    assert all(" step " in line and line.endswith(" s left") and "/12, about " in line for line in shown)
    # The result of the test comes after the line was taken away, behind the name of its file.
    assert any(line.startswith("test_p.py .") for line in lines)


@pytest.mark.exhaustive
def test_a_refresh_says_which_round_and_test_it_is_at_and_what_is_left(project):
    project.written()
    project.write("test_p.py", REFRESHED)
    lines = shown_on_a_terminal(project, "--perfguard-update", "--perfguard-runs=2", "--color=no", columns=75)
    shown = [line.strip() for line in lines if line.startswith("perfguard: round ")]
    assert max(map(len, shown)) < 75
    worded = [re.sub(r"about \d+ s left", "about N s left", line) for line in dict.fromkeys(shown)]
    assert worded == [
        "perfguard: round 1 of 2: 1 of 2 test_one",
        "perfguard: round 1 of 2: 2 of 2 test_two, about N s left",
        "perfguard: round 2 of 2: 1 of 2 test_two, about N s left",
        "perfguard: round 2 of 2: 2 of 2 test_one, about N s left",
    ]
    assert any(line.startswith("test_p.py .") for line in lines)
    assert "baselines: 2 created, 0 updated, 0 kept, 0 unused" in lines


@pytest.mark.exhaustive
def test_nothing_of_it_is_in_a_log(project):
    project.written()
    project.write("test_p.py", REFRESHED + SLOW.removeprefix(WRITTEN_HEAD))
    run = project.run("--perfguard-update", "--perfguard-runs=1", "--perfguard-time=on")
    assert run.status == 0
    assert "s left" not in run.text
    assert "round 1" not in run.text
    assert "\r" not in run.text
    assert "\x1b" not in run.text


#: Called at so many seconds with a test, its place, how many its round has, the round, how many there are, whether so many.
FIXED, OPEN = True, False


@pytest.mark.parametrize(
    "calls, worded",
    [
        ([(0, "a", 1, 3, 1, 5, FIXED)], "perfguard: round 1 of 5: 1 of 3 a"),
        # One of fifteen took 2 s.
        (
            [(0, "a", 1, 3, 1, 5, FIXED), (2, "b", 2, 3, 1, 5, FIXED)],
            "perfguard: round 1 of 5: 2 of 3 b, about 28 s left",
        ),
        # Three took 9 s.
        (
            [*((at, "x", 1, 3, 1, 5, FIXED) for at in range(3)), (9, "b", 1, 3, 2, 5, FIXED)],
            "perfguard: round 2 of 5: 1 of 3 b, about 36 s left",
        ),
        ([(0, "a", 1, 1, 1, 5, FIXED)], "perfguard: round 1 of 5: a"),
        # Where nobody knows how many there will be no time is promised.
        ([(0, "a", 1, 3, 1, 5, OPEN), (2, "a", 1, 1, 2, 5, OPEN)], "perfguard: round 2 of at most 5: a"),
        # What is timed once more than planned takes no time away.
        ([(at, "a", 1, 1, 1, 1, FIXED) for at in range(4)], "perfguard: round 1 of 1: a"),
    ],
)
def test_what_is_said_of_a_round(monkeypatch, calls, worded):
    now = 0.0
    monkeypatch.setattr("perfguard.plugin.progress.time.monotonic", lambda: now)
    work = RoundProgress()
    work.begin(3)
    for at, *facts in calls:
        now = at
        told = work.line(*facts)
    assert told == worded
