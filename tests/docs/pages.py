"""The pages of the documentation as values: their blocks of code, and what a comment above a block says about it.

| comment above a block | what it says |
|---|---|
| `<!-- file: NAME -->` | the block is a file of the page's project; later commands find it |
| `<!-- shown: REASON -->` | the block is not run here, because of a reason in `REASONS` |
| `<!-- timed: WHY -->` | the block takes a minute: it is run with the exhaustive tests |
| `<!-- only with: MODULE -->` | the block is run where this module is installed, or where the `corpus` is |
| `<!-- command: NAME -->` | `.ci/run` runs the block |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

#: Why a block is shown and not run: what is not here, or what a run of the tests must not take.
REASONS = {
    "a drawing": "a diagram, or a tree of folders",
    "another release": "other releases of a framework, in environments of their own",
    "measured times": "figures of a benchmark or of a timed run, on the machine that the page names",
    "a training": "a training under the profiler; the tests of that part run one",
    "its own tests": "the tests of that part run these commands, in a project of their own",
    "another service": "GitHub, GitLab, a database, a cluster or an object store",
}

#: Pages of parts whose own tests run them, in projects that they set up: their blocks need no comment.
OF_THEIR_OWN_TESTS = frozenset(
    f"docs/how-to/{name}.md" for name in ("init-and-doctor", "trainer", "lightning", "release")
)

_COMMENT = re.compile(r"<!-- (file|shown|timed|only with|command): (.*?) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code on a page."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where the block is."""
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console, each with what it prints."""
        return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", self.text, re.MULTILINE)


def page_paths() -> list[Path]:
    """Return the README and every page of the site but the reference, which is made from the code and tested there."""
    return [README, *sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "reference")]


@cache
def blocks_of(path: Path) -> tuple[Block, ...]:
    """Return the blocks of a page in their order."""
    from markdown_it import MarkdownIt

    found = []
    marks: dict[str, str] = {}
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8")):
        if token.type == "html_block":
            marks |= dict(_COMMENT.findall(token.content))
            continue
        if token.type == "fence" and not token.info.startswith("{"):
            assert token.map
            page = path.relative_to(ROOT).as_posix()
            if page in OF_THEIR_OWN_TESTS and token.info in ("console", "text"):
                marks = {"shown": "its own tests"} | marks
            found.append(Block(page=page, line=token.map[0] + 1, language=token.info, text=token.content, marks=marks))
        marks = {}
    return tuple(found)
