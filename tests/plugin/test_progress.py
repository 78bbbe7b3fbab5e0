"""The progress line: on a terminal only, for windows that take long, and gone when the test ends."""

from __future__ import annotations

import re

import pytest

from perfguard.plugin.progress import AtWork
from tests.plugin.conftest import TORCH_HEAD
from tests.terminals import on_a_terminal

pytestmark = pytest.mark.slow

SLOW = (
    TORCH_HEAD
    + """
import time

@pytest.mark.perfguard(timed_steps=6)
def test_slow(perfguard):
    def step():
        matmul()
        time.sleep(0.25)
    perfguard(step)
"""
)


REFRESHED = (
    TORCH_HEAD
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


def test_the_line_is_shown_on_a_terminal_and_taken_away(project):
    project.write("test_p.py", SLOW)
    lines = shown_on_a_terminal(project, "--perfguard-update", "--color=no")
    shown = [line.strip() for line in lines if line.startswith("perfguard: ")]
    assert shown
    assert all(" step " in line and line.endswith(" s left") and "/10, about " in line for line in shown)
    # The result of the test comes after the line was taken away, behind the name of its file.
    assert any(line.startswith("test_p.py .") for line in lines)


@pytest.mark.exhaustive
def test_nothing_of_it_is_in_a_log(project):
    project.write("test_p.py", SLOW)
    run = project.run("--perfguard-update")
    assert "s left" not in run.text


@pytest.mark.exhaustive
def test_a_refresh_says_which_test_and_process_it_is_at_and_what_is_left(project):
    project.write("test_p.py", REFRESHED)
    lines = shown_on_a_terminal(project, "--perfguard-update", "--perfguard-runs=2", "--color=no", columns=75)
    shown = [line.strip() for line in lines if line.startswith("perfguard: test ")]
    assert max(map(len, shown)) < 75
    worded = [re.sub(r"about \d+ s left", "about N s left", line) for line in dict.fromkeys(shown)]
    assert worded == [
        "perfguard: test 1 of 2, timed process 1 of 2: test_one",
        "perfguard: test 1 of 2, timed process 2 of 2, about N s left: test_one",
        "perfguard: test 2 of 2, timed process 1 of 2, about N s left: test_two",
        "perfguard: test 2 of 2, timed process 2 of 2, about N s left: test_two",
    ]
    assert any(line.startswith("test_p.py .") for line in lines)
    assert "baselines: 2 created, 0 updated, 0 kept, 0 unused" in lines


@pytest.mark.exhaustive
def test_nothing_of_a_refresh_is_in_a_log(project):
    project.write("test_p.py", REFRESHED)
    run = project.run("--perfguard-update", "--perfguard-runs=1", "--perfguard-time=on")
    assert run.status == 0
    assert "timed process" not in run.text
    assert "\r" not in run.text
    assert "\x1b" not in run.text


class Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.name = nodeid


@pytest.mark.parametrize(
    "calls, worded",
    [
        ([("a", 0, 1)], "perfguard: test 1 of 3, timed process 1 of 5: a"),
        # One took 10 s, four are to come, and two tests of five.
        ([("a", 0, 1), ("a", 10, 2)], "perfguard: test 1 of 3, timed process 2 of 5, about 140 s left: a"),
        # The first test took 60 s, this one has not begun, one more is to come.
        ([("a", 10, 1), ("b", 60, 1)], "perfguard: test 2 of 3, timed process 1 of 5, about 120 s left: b"),
        # Its own processes say more of it: 4 x 5 s, and one test of 60 s.
        (
            [("a", 10, 1), ("b", 60, 1), ("b", 65, 2)],
            "perfguard: test 2 of 3, timed process 2 of 5, about 80 s left: b",
        ),
    ],
)
def test_the_time_left_is_that_of_what_came_before(monkeypatch, calls, worded):
    now = 0.0
    monkeypatch.setattr("perfguard.plugin.progress.time.monotonic", lambda: now)
    work = AtWork()
    work.begin(["a", "b", "c"])
    for name, at, number in calls:
        now = at
        told = work.worded(Item(name), number, (5, True))
    assert told == worded


def test_where_nobody_knows_how_many_there_will_be_no_time_is_promised():
    work = AtWork()
    work.begin(["a"])
    work.worded(Item("a"), 1, (5, False))
    assert work.worded(Item("a"), 2, (5, False)) == "perfguard: timed process 2 of at most 5: a"
