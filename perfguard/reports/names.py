"""Names of a recording as short text."""

from __future__ import annotations


def shortened(name: str, width: int = 60) -> str:
    """Cut the beginning of a long name, which matters least."""
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def cut(text: str, width: int) -> str:
    """Cut the end of a long text."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
