"""Bars of commands that take long: there on a terminal, gone when it is done, and no byte of them in a pipe."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.cli import TORCH
from tests.cli.test_ab import MAIN, REPLAY, Checkout
from tests.terminals import on_a_terminal

pytestmark = pytest.mark.slow

#: On a fast machine they do not take two seconds.
SOON = "from perfguard.cli import bar, main; bar.SHOWN_AFTER_S = 0.0; main()"
COMPARE = [sys.executable, "-c", SOON, "compare", str(TORCH), str(TORCH)]


@pytest.mark.exhaustive
def test_compare_shows_how_many_bytes_it_has_read_and_takes_that_away():
    status, text = on_a_terminal([*COMPARE, "--color=never"])
    assert status == 0
    assert "B/s]" in text
    # What is left when it is over begins where the bar stood.
    assert text.rpartition("\r")[2].startswith("PASSED ")


@pytest.mark.exhaustive
def test_a_pipe_sees_nothing_of_it():
    done = subprocess.run(COMPARE, capture_output=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\r" not in done.stdout


@pytest.mark.exhaustive
def test_quiet_has_no_bar():
    _, text = on_a_terminal([*COMPARE, "-q", "--color=never"])
    assert re.fullmatch(r"\d+ compared: 0 worse.*\n", text)


@pytest.mark.exhaustive
def test_calibrate_says_which_run_it_is_at_and_what_is_left(tmp_path):
    pytest.importorskip("scipy", reason="scipy is not installed: pip install -e '.[calibrate]'")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p no:randomly -p no:hypothesispytest -p no:benchmark"\n[tool.perfguard]\n'
    )
    (tmp_path / "test_a.py").write_text("def test_a(perfguard):\n    perfguard.replay('one')\n")
    shutil.copytree(TORCH, tmp_path / "one")
    # As many runs as have a meaning are more than it takes to see this.
    few = "from perfguard.cli import calibrate, main; calibrate.command.params[0].type.min = 3; main()"
    command = [sys.executable, "-c", few, "calibrate", "--runs", "3"]
    status, text = on_a_terminal(command, cwd=tmp_path)
    assert status == 0
    shown = [line.strip() for line in text.replace("\r", "\n").splitlines()]
    assert "perfguard: run 1 of 3" in shown
    assert any(re.fullmatch(r"perfguard: run 3 of 3, about \d+ s left", line) for line in shown)
    # The result is not behind what was shown.
    assert any(line.startswith("workload ") for line in text.rpartition("\r")[2].splitlines())


@pytest.mark.exhaustive
def test_ab_says_what_it_is_at_and_takes_that_away(tmp_path):
    checkout = Checkout(tmp_path / "checkout", tmp_path / "temporary")
    checkout.commit(test_replay=REPLAY)
    command = [sys.executable, "-c", MAIN, "ab", "--base", "HEAD", "--", "test_replay.py"]
    status, text = on_a_terminal(command, cwd=checkout.top, env=checkout.environment, columns=60)
    assert status == 0, text
    shown = [line.strip() for line in text.replace("\r", "\n").splitlines()]
    for what in ("checking out HEAD", "recording the working tree", "recording the base"):
        assert f"perfguard: {what}" in shown
    assert text.rpartition("\r")[2].startswith("perfguard ab: HEAD ")


def test_a_name_longer_than_the_terminal_is_cut(monkeypatch):
    source = (
        "from perfguard.cli.bar import Steps\n"
        "with Steps() as steps:\n"
        "    steps.begin(2)\n"
        "    steps.show('x' * 300)\n"
        "    steps.report(1)\n"
        "    steps.show('中' * 300)\n"
    )
    _, text = on_a_terminal([sys.executable, "-c", source], columns=50, env=dict(os.environ))
    assert "\n" not in text.strip("\n")
    assert all(len(part) <= 50 for part in text.split("\r"))
    assert "about " in text
