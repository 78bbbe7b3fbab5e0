"""The page on SQL, and its part of the README: each command is run, and prints what is said there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from perfguard.testing import generate
from tests.cli import RECORDINGS, run

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLES = [
    console
    for page in (PAGE, README.partition("## Ask in SQL")[2].partition("\n## ")[0])
    for console in re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
]
COMMANDS = [
    (command, printed)
    for console in CONSOLES
    for command, printed in re.findall(r"^\$ perfguard (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
]
WRONG = """-- check: matmul_is_short
-- code: U001
-- needs: spans
-- message: {name}

select cycle, name from spans
where duration > 1000
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project of the page."""
    place = tmp_path_factory.mktemp("page")
    shutil.copytree(RECORDINGS / "torch-mlp", place / "torch-mlp")
    (place / "npu").mkdir()
    generate("pt-npu", ranks=2, steps=3).write(place / "npu")
    (place / "perf" / "checks").mkdir(parents=True)
    for language, name in (("toml", "pyproject.toml"), ("sql", "perf/checks/model.sql")):
        (shown,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        (place / name).write_text(shown, encoding="utf-8")
    (place / "wrong.sql").write_text(WRONG, encoding="utf-8")
    return place


@pytest.mark.parametrize(("command", "printed"), COMMANDS)
def test_a_command_prints_what_the_page_says(command, printed, project, monkeypatch):
    monkeypatch.chdir(project)
    found = run(*shlex.split(command))
    wanted, shown = _lines(printed), _lines(found.stdout + found.stderr)
    if "..." not in wanted:
        assert shown == wanted
        return
    places = [shown.index(line) for line in wanted if line != "..."]
    assert places == sorted(places)


def _lines(text: str) -> list[str]:
    """Return lines without the blanks and rules that depend on what other lines hold."""
    return [re.sub(r"-{3,}", "-", re.sub(r" +", " ", line)).strip() for line in text.splitlines()]


def test_the_page_shows_commands():
    assert len(COMMANDS) >= 10
