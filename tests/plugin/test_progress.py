"""The progress line: on a terminal only, for windows that take long, and gone when the test ends."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.plugin.conftest import TORCH_HEAD

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


def on_a_terminal(project, *arguments: str) -> str:
    """Run pytest on a pseudo terminal, and return everything it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        project.command(*arguments), cwd=project.directory, env=project.environment(), stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    process.wait(60)
    os.close(ours)
    return written.decode()


def test_the_line_is_shown_on_a_terminal_and_taken_away(project):
    project.write("test_p.py", SLOW)
    text = on_a_terminal(project, "--perfguard-update", "--color=no")
    lines = text.replace("\r", "\n").splitlines()
    shown = [line.strip() for line in lines if line.startswith("perfguard: ")]
    assert shown
    assert all(" step " in line and line.endswith(" s left") and "/10, about " in line for line in shown)
    # The result of the test comes after the line was taken away, behind the name of its file.
    assert any(line.startswith("test_p.py .") for line in lines)


def test_nothing_of_it_is_in_a_log(project):
    project.write("test_p.py", SLOW)
    run = project.run("--perfguard-update")
    assert "s left" not in run.text
