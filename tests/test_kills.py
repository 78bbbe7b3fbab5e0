"""Commands that are killed at random moments lose nothing and leave nothing behind; `python -m tests.kills` kills more."""

from __future__ import annotations

import sys

import pytest

from tests.kills import COMMANDS, kill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which processes have a mark"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
@pytest.mark.variants(1)
def test_a_command_that_is_killed_loses_nothing_and_leaves_nothing_behind(tmp_path, command):
    if command.name == "run":
        pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    if command.name.startswith("history"):
        pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install -e '.[history]'")
    (outcome,) = kill([command], kills=2, seed=1, root=tmp_path)
    assert outcome.kills
    assert outcome.problems == []
