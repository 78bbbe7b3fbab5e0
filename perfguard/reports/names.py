"""Names of a recording, as a reader may see them."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what a terminal would obey or hide: control characters, and marks that turn the direction of text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(name: str, width: int = 60) -> str:
    """Cut a name in front, where it tells least."""
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def cut(text: str, width: int) -> str:
    """Cut a text at its end."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
