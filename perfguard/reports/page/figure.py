"""A figure: its title, caption, table, and plotly's traces and layout as plain values.

What all figures of a style have in common is in `styles.json`. Colours are names of roles (`now`, `base`, `worse`, ...), which
the page replaces with those of its light or dark theme.
"""

from __future__ import annotations

import html
import json
import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from perfguard.documents import merged
from perfguard.judge.quantities import time_us
from perfguard.screen import printable

#: A figure: kind (its position on the page), title, caption, table, and plotly's traces and layout.
Figure = dict[str, Any]
#: No time, size or count is larger.
LARGEST = 1e150
#: The largest number of steps that are drawn.
STEPS = 2000
#: Headers of `times_row`, without the first one.
TIMES = ("steps", "fastest", "median", "slowest")


@cache
def own_file(name: str) -> str:
    """Return the text of a file of the page."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _styles() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(own_file("styles.json"))
    return found


def figure(
    kind: str,
    title: str,
    caption: str,
    rows: Sequence[Sequence[str]],
    traces: Iterable[Figure],
    *,
    style: str = "",
    **layout: Any,
) -> Figure:
    """Return a figure; `rows` are its table, the first one the headers. The style is that of its kind by default."""
    common = _styles()[style or kind]
    drawn = [merged(common["trace"], one) for one in traces]
    layout = merged(common["layout"], layout)
    return {"kind": kind, "title": title, "caption": caption, "rows": rows, "traces": drawn, "layout": layout}


def line(at: float, role: str, **other: Any) -> dict[str, Any]:
    """Return a vertical line at a value."""
    return merged(_styles()["line"], {"x0": at, "x1": at, "line": {"color": role}, **other})


def times_row(name: str, times_us: Sequence[float]) -> list[str]:
    """Return a row about the times of steps."""
    found = min(times_us), statistics.median(times_us), max(times_us)
    return [name, str(len(times_us)), *map(time_us, found)]


def safe(text: str) -> str:
    """Return a text that plotly shows as it is."""
    return html.escape(printable(text), quote=False)


def as_float(value: float | None) -> float | None:
    """Return a number with five digits, which is more than a figure shows."""
    return None if value is None else float(f"{value:.5g}")
