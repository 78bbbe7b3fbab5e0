"""The guides for contributors: every name of Python's and every path that they give in backticks exists."""

from __future__ import annotations

import ast
import keyword
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

GUIDES = (ROOT / ".github" / "CONTRIBUTING.md", DOCS / "how-to" / "extend.md")
#: Names in backticks that are no names of this code, with what they are.
OF_OTHERS = {
    "X": "a placeholder",
    "always": "a word of layouts",
    "never": "a word of layouts",
    "optional": "a word of layouts",
    "opaque": "a format of layouts",
    "order": "a key of layouts",
    "otherwise": "a key of layouts",
    "tables": "a key of layouts",
    "tolerance": "a line of a check's header",
    "source": "a line of a check's header",
    "properties": "a keyword of JSON Schema",
    "description": "a keyword of JSON Schema",
    "baselines": "a setting",
    "checks": "a setting",
    "console": "a kind of block",
    "slow": "a marker",
    "exhaustive": "a marker",
    "op": "Alembic's",
    "create_all": "SQLAlchemy's",
    "fill_X": "the name of a view",
    "reporters": "a group of entry points",
    "stores": "a group of entry points",
}
#: What a command makes, or what an extension brings.
MADE = frozenset({"build/docs/index.html", "layouts/", "artifacts/"})
NAME = re.compile(r"@?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?(?: -> \w+)?")
PATH = re.compile(r"[\w./-]+/[\w./-]*|[\w-]+\.(?:py|toml|sql|md)")


@cache
def defined() -> frozenset[str]:
    """Return what modules of the package and of its tests define: functions, classes, arguments, fields and variables."""
    names: set[str] = set()
    for path in [*(ROOT / "perfguard").rglob("*.py"), *(ROOT / "tests" / "docs").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return frozenset(names)


def quoted(path: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def unknown_names(words: list[str]) -> list[str]:
    """Return those that look like a name of Python's and are defined nowhere."""
    found = []
    for word in words:
        match = NAME.fullmatch(word)
        if match is None or keyword.iskeyword(word) or PATH.fullmatch(word):
            continue
        first, _, last = match[1].rpartition(".")
        is_group = first == "perfguard" and last in {"backends", "dialects", "readers", "reporters", "stores"}
        # pytest's marker, and the standard library.
        if is_group or last in OF_OTHERS or first.startswith(("pytest", "concurrent")) or last in defined():
            continue
        found.append(word)
    return found


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_name_is_defined(guide):
    words = quoted(guide)
    assert len([word for word in words if NAME.fullmatch(word)]) >= 20
    assert unknown_names(words) == []


def test_a_name_that_nothing_defines_is_found():
    words = ["@recording_invariant", "@cycle_fact()", "READERS", "extract_of", "Extract"]
    assert unknown_names(words) == ["@recording_invariant", "@cycle_fact()"]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_path_is_there(guide):
    """A path is below the repository, or below the package; one with a placeholder has its folder there."""
    places = [ROOT, ROOT / "perfguard", ROOT / "perfguard" / "dialects", ROOT / "perfguard" / "artifacts"]
    paths = [word.partition("<")[0].partition("*")[0] for word in quoted(guide) if "/" in word]
    paths = [one.removeprefix(".venv/bin/") for one in paths if PATH.fullmatch(one) and not one.startswith(".venv")]
    gone = [one for one in paths if not any((place / one).exists() for place in places)]
    assert [one for one in gone if one not in MADE] == []
