"""llms.txt: its links and commands exist, and what it shows as output is what the command prints."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from perfguard.cli import cli
from tests.cli.test_check import run
from tests.docs.pages import ROOT

TEXT = (ROOT / "llms.txt").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\(([^)]+)\)", PROSE)
    assert len(links) >= 12
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_command_and_option_exists(pytestconfig):
    commands = [shlex.split(one) for one in re.findall(r"`((?:perfguard|pytest) [^`]+)`", PROSE)]
    assert len(commands) >= 9
    for program, *words in commands:
        flags = {word.partition("=")[0] for word in words if word.startswith("-")}
        if program == "pytest":
            helped = {name for one in pytestconfig._parser._groups for option in one.options for name in option.names()}
            assert flags <= helped
            continue
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, words
        assert flags <= {name for one in command.params for name in one.opts}, words


def test_what_is_shown_is_what_is_printed(monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = re.findall(r"^```console\n\$ perfguard ([^\n]+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert shown
    for command, output in shown:
        assert run(*shlex.split(command)).stdout == output


def test_the_test_that_is_shown_is_one(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    (source,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(compile(source, "llms.txt", "exec"), names)
    called: list[object] = []
    names["test_inference"](lambda step: called.append(step()))  # type: ignore[operator]
    assert called[0].shape == (128, 10)  # type: ignore[attr-defined]
