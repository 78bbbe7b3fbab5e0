"""The README is the front door: what it states must be so."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from perfguard.findings import Code
from perfguard.measure import METRICS
from perfguard.settings import Settings, read_settings

OWN_CHECK = "-- check: no_spans\n-- code: U001\n-- needs: spans\n-- message: {row}\nselect cycle, row from spans\n"
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_finding_has_its_row_with_its_headline():
    rows = dict(re.findall(r"^\| ([A-Z]\d{3}) \| ([^|]+?) \|", README, re.MULTILINE))
    assert set(rows) == {code.name for code in Code}
    for code in Code:
        assert re.sub(r" \((a note|a warning)\)$", "", rows[code.name]) == code.value


def test_every_metric_is_named():
    assert [name for name in METRICS if f"`{name}" not in README] == []


def test_the_settings_shown_are_accepted_and_complete(tmp_path):
    shown = re.search(r"```toml\n(.*?)```", README, re.DOTALL).group(1)
    (tmp_path / "pyproject.toml").write_text(shown, encoding="utf-8")
    (tmp_path / "perf" / "checks").mkdir(parents=True)
    (tmp_path / "perf" / "checks" / "own.sql").write_text(OWN_CHECK, encoding="utf-8")
    settings = read_settings(tmp_path)
    assert len(settings.tolerance) == 5
    # The last two are a marker's.
    keys = {f.name for f in dataclasses.fields(Settings)} - {"root", "marker_tolerance", "isolated"}
    assert [key for key in keys if key not in shown] == []


@pytest.mark.parametrize("name", ["main", "tests"])
def test_the_two_commands_are_there_and_are_one_line_each(name):
    block = re.search(rf"<!-- command: {name} -->\n```bash\n(.*?)```", README, re.DOTALL).group(1)
    assert len(block.strip().splitlines()) == 1
    assert ".venv/bin/pytest" in block


def test_the_summaries_shown_fit_their_terminal_and_have_todays_columns():
    from perfguard.reports.table import display_width
    from perfguard.reports.terminal import _OF_A_RUN

    section = re.search(r"## What it looks like\n(.*?)### Where the time went", README, re.DOTALL).group(1)
    tables = re.findall(r"^(outcome  .*)\n([- ]+)\n((?:\S.*\n)+)", section, re.MULTILINE)
    assert [row.split()[0] for _, _, rows in tables for row in rows.splitlines()] == [
        *["PASSED"] * 3,
        *("FAILED", "INVALID", "INCONCLUSIVE", "PASSED"),
    ]
    for head, rule, rows in tables:
        titles = re.split(r"  +", head.strip())
        assert titles == [column.title for column in _OF_A_RUN if column.title in titles]
        assert max(map(display_width, [head, rule, *rows.splitlines()])) <= 80


def test_every_command_of_the_command_line_is_shown():
    from perfguard.cli import cli

    for name in cli.list_commands(None):
        assert f"perfguard {name}" in README


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_to_files_and_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
        assert not anchor or anchor in _anchors(page.parent / target if target else page), anchor


def test_what_the_example_says_is_what_the_code_writes():
    """The failure shown is real output; its words are those of today's messages."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "perfguard").rglob("*.py"))
    for words in ("exact: any increase fails", "if the change is intended, accept it with:", "shown, not judged"):
        assert words in README
        assert words in code
