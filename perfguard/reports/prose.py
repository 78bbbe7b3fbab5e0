"""Prose: the Markdown of pages that are made from the code. Texts of the code become paragraphs, code spans and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Parts that are code already, or are shown as code: options, tables of settings, placeholders of messages.
_CODE = re.compile(r"`[^`]+`|(?<![\w-])--[a-z][\w-]*(?:=[^\s,;:.()]+)?|\[tool\.perfguard[^\]]*\](?:\.\w+)?")
_SPECIAL = re.compile(r"[\\*<>\[\]]|(?<!\w)_|_(?!\w)")


def code(text: str) -> str:
    """Return a text as a code span."""
    fence = "``" if "`" in text else "`"
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}" if text else ""


def prose(text: str) -> str:
    """Return a text with its special characters escaped; options and what is between backticks are code."""
    parts: list[str] = []
    end = 0
    for found in _CODE.finditer(text):
        parts += [_escaped(text[end : found.start()]), found[0] if found[0].startswith("`") else code(found[0])]
        end = found.end()
    return "".join([*parts, _escaped(text[end:])])


def sentence(text: str) -> str:
    """Return prose that begins with a capital letter and ends with a full stop."""
    first = text[:1].upper() + text[1:]
    return prose(first if first.endswith((".", "?", "!", ":")) else f"{first}.")


def table(headers: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table; its cells are Markdown. Columns that are empty in every row are left out."""
    titles = [*headers]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    kept = [place for place in range(len(titles)) if not cells or any(row[place] for row in cells)]
    lines = [[titles[place] for place in kept], *([row[place] for place in kept] for row in cells)]
    shown = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(kept), *shown[1:]])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)
