"""The pages of docs/reference, made from the code: `python -m docs.generate` writes them, a test fails when one is stale.

The longest are of the site alone: they are written when it is built, and are not in the repository.

Each module makes one page; the facts are where the code has them (docstrings, help texts, schemas, headers of queries).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from docs.generate import (
    command_line,
    finding_codes,
    formats,
    grid,
    index,
    marker_and_fixture,
    metrics,
    python_api,
    settings,
    tables,
)
from perfguard.reports import catalogue

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
#: The pages by file name, in the order of the index; each function returns Markdown.
PAGES: dict[str, Callable[[], str]] = {
    "command-line.md": command_line.page,
    "settings.md": settings.page,
    "marker-and-fixture.md": marker_and_fixture.page,
    "metrics.md": metrics.page,
    "findings.md": finding_codes.page,
    "grid.md": grid.page,
    "layouts.md": catalogue.markdown,
    "tables.md": tables.page,
    "reports.md": formats.page,
    "python-api.md": python_api.page,
}
#: Pages of the site alone, which no page of the repository links to, by the command that prints the same.
OF_THE_SITE = {"layouts.md": "perfguard schema list", "tables.md": "perfguard sql DIR --tables"}


def pages() -> dict[str, str]:
    """Return the content of every page by its file name."""
    texts = {name: _tidy(page()) for name, page in PAGES.items()}
    return {"index.md": _tidy(index.page(texts, OF_THE_SITE)), **texts}


def write() -> None:
    """Write all pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")


def _tidy(text: str) -> str:
    """Return a text with single empty lines outside of code, and one line break at its end."""
    parts = text.split("```")
    parts[::2] = [re.sub(r"\n{3,}", "\n\n", part) for part in parts[::2]]
    return f"{'```'.join(parts).rstrip()}\n"
