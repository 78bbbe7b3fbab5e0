"""The site: links lead somewhere, every page is near the first one, and a search for a finding finds its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import OF_THE_SITE
from perfguard.findings import Code
from tests.docs.pages import DOCS, README, ROOT, blocks_of, page_paths

LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(path: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_links_that_name_no_host_lead_to_files_of_the_repository():
    """A plain git host shows each file with its links relative to it."""
    named = [
        (path, link.partition("#")[0])
        for path in [*page_paths(), README, *ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md")]
        for link in LINK.findall(prose(path))
        if not link.startswith(("https://", "#"))
    ]
    assert len(named) >= 100
    outside = [(path.name, link) for path, link in named if not (path.parent / link).resolve().is_relative_to(ROOT)]
    assert outside == []
    assert [(path.name, link) for path, link in named if not (path.parent / link).exists()] == []


def test_the_readme_is_short():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    # What pytest prints is as long as it is.
    assert [line for line in lines if len(line) > 120 and not line.startswith("E ")] == []


def test_who_reads_sixty_lines_has_a_red_gate():
    (line,) = (
        number
        for number, line in enumerate(README.read_text(encoding="utf-8").splitlines(), 1)
        if "fails as above" in line
    )
    assert line <= 60


@pytest.mark.parametrize("name", ["main", "tests"])
def test_the_two_commands_are_there_and_are_one_line_each(name):
    (block,) = [block for block in blocks_of(README) if block.marks.get("command") == name]
    assert len(block.text.splitlines()) == 1
    assert ".venv/bin/pytest" in block.text


def paragraphs(path: Path) -> list[str]:
    """Return the paragraphs and list items of a page."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", prose(path))
    return [one.strip() for one in parts if not one.lstrip().startswith(("|", "#", "<!--"))]


def test_a_paragraph_has_at_most_five_lines():
    long = [(path.name, one[:60]) for path in page_paths() for one in paragraphs(path) if one.count("\n") >= 5]
    assert not long


def links(path: Path) -> set[Path]:
    """Return the pages that a page links to."""
    targets = [link.partition("#")[0] for link in LINK.findall(path.read_text(encoding="utf-8"))]
    return {(path.parent / target).resolve() for target in targets if target.endswith(".md") and "://" not in target}


def test_every_page_is_two_clicks_from_the_first():
    first = DOCS / "index.md"
    near = {first} | links(first)
    near |= {page for one in near for page in links(one)}
    # The index of the site has those that are not in the repository, see test_reference.
    pages = {page for page in DOCS.rglob("*.md") if page.name not in OF_THE_SITE}
    assert pages - near == set()


def test_every_command_is_on_the_page_of_commands():
    from perfguard.cli import cli

    text = (DOCS / "how-to" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in cli.list_commands(None) if f"perfguard {name}" not in text] == []


def test_the_settings_shown_are_complete():
    import dataclasses

    from perfguard.settings import Settings

    shown = blocks_of(DOCS / "how-to" / "tune.md")[0].text
    # These are a marker's.
    of_marker = {"root", "marker_tolerance", "marker_ignore", "marker_target", "isolated", "period"}
    keys = {one.name for one in dataclasses.fields(Settings)} - of_marker
    assert [key for key in keys if key not in shown] == []


def test_the_summaries_shown_fit_their_terminal_and_have_todays_columns():
    from perfguard.reports.table import display_width
    from perfguard.reports.terminal import _OF_A_RUN

    shown = "\n".join(block.text for block in blocks_of(DOCS / "how-to" / "read-the-result.md"))
    tables = re.findall(r"^(outcome  .*)\n([- ]+)\n((?:[A-Z].*\n)+)", shown, re.MULTILINE)
    outcomes = [row.split()[0] for _, _, rows in tables for row in rows.splitlines()]
    assert outcomes == [*["PASSED"] * 3, "FAILED", "INVALID", "INCONCLUSIVE", "PASSED"]
    for head, rule, rows in tables:
        titles = re.split(r"  +", head.strip())
        assert titles == [column.title for column in _OF_A_RUN if column.title in titles]
        assert max(map(display_width, [head, rule, *rows.splitlines()])) <= 80


def test_the_words_of_a_failure_are_those_of_the_code():
    """The failures shown are real output; their words are those of today's messages."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "perfguard").rglob("*.py"))
    page = (DOCS / "how-to" / "read-the-result.md").read_text(encoding="utf-8")
    for words in ("allowed ", "if the change is intended, ", "accept it with:", "shown, not judged"):
        assert words in page
        assert words in code


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site: what PERFGUARD_SITE names, as in .ci/run, or one that is built now without a warning."""
    named = os.environ.get("PERFGUARD_SITE")
    place = Path(named) if named else tmp_path_factory.mktemp("site")
    if not named:
        pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install -e '.[docs]'")
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", str(DOCS), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return place


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_search_for_a_finding_finds_its_page(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    titles = set(re.findall(r'"([a-z]\d{3})[^"]*":', index))
    assert [code.name for code in Code if code.name.lower() not in titles] == []
    page = (site / "reference" / "findings.html").read_text(encoding="utf-8")
    assert [code.name for code in Code if f'id="{code.name.lower()}' not in page] == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_internal_link_of_the_built_site_is_dead(site):
    dead = []
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for path, text in pages.items():
        for target in re.findall(r'href="([^"]+)"', text):
            name, _, anchor = target.partition("#")
            if "://" in target or target.startswith(("mailto:", "data:")):
                continue
            there = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not there.exists() or (anchor and f'id="{anchor}"' not in pages.get(there, "")):
                dead.append(f"{path.name}: {target}")
    assert not dead
