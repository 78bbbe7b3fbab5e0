"""A figure: its title, caption, table and plotly's traces and layout, as plain values."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from perfguard.reports.names import printable

#: A figure: kind (its position on the page), title, caption, table, and plotly's traces and layout.
Figure = dict[str, Any]
#: No time, size or count is larger.
LARGEST = 1e150
#: The largest number of steps that are drawn.
STEPS = 2000


def figure(
    kind: str, title: str, caption: str, rows: Sequence[Sequence[str]], traces: list[Any], **layout: Any
) -> Figure:
    """Return a figure; `rows` are its table, the first one the headers."""
    return {"kind": kind, "title": title, "caption": caption, "rows": rows, "traces": traces, "layout": layout}


def safe(text: str) -> str:
    """Return a text that plotly shows as it is."""
    return html.escape(printable(text), quote=False)


def as_float(value: float | None) -> float | None:
    """Return a number with five digits, which is more than a figure shows."""
    return None if value is None else float(f"{value:.5g}")
