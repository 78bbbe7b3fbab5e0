"""A figure: its title, caption, legend, table, and the drawing as plain values, which `figure.html` turns into HTML and SVG.

Nothing is drawn by a script, so a figure is there without one and in print. Shapes are paths in a square of 1000 x 1000 that is
stretched to the window; labels are text beside it, so they never shrink with it. Colours are names of roles (`now`, `base`,
`worse`, ...) of the light or dark theme. All texts are escaped by the template.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from perfguard.judge.step_time import TimeUnit
from perfguard.screen import printable

#: No time, size or count is larger.
LARGEST = 1e150
#: The largest number of steps, or of points of a curve, that are drawn.
STEPS = 600
#: Headers of `time_row`, without the first one.
TIMES = ("steps", "fastest", "median", "slowest")
#: The side of the square in which shapes are drawn.
SIDE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The range of an axis, and its labels at parts of its length from 0 to 1."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    is_log: bool = False

    @property
    def widest(self) -> str:
        """The longest label."""
        return max((text for _, text in self.ticks), key=len, default="")

    def at(self, value: float) -> float:
        """Return the place of a value, as a part of the length."""
        low, high, value = (
            math.log10(max(one, 1e-300)) if self.is_log else one for one in (self.low, self.high, value)
        )
        # Of numbers near the limit of a float, the range may be infinite: halves are not.
        span = high / 2 - low / 2
        return min(1.0, max(0.0, (value / 2 - low / 2) / span)) if span > 0 else 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A path of one role. `style` is line, dash, dots, bars (filled) or area (filled, translucent)."""

    role: str
    style: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Shapes on two axes. `hover` are texts at parts of the width, which the page shows below the pointer."""

    x: Axis
    y: Axis
    shapes: tuple[Shape, ...]
    hover: tuple[tuple[float, str], ...] = ()
    form: str = "chart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A labelled bar from `start` to `end`, parts of the width."""

    label: str
    text: str
    role: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Labelled bars below each other, with a sentence below them."""

    bars: tuple[Bar, ...]
    note: str = ""
    form: str = "bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """A strip of cells for each subject, a column a rank: paths by level, from `low3` over `low1` to `high3`."""

    strips: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    columns: int
    first: str
    last: str
    form: str = "strips"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A table of coloured cells: (subject, cells), a cell is (text, level); levels as in `Strips`, empty for none."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    form: str = "cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure. `kind` is its place on the page, `legend` are pairs of role and name.

    `rows` is its table with the headers first, `named` the column with the name of a row.
    """

    kind: str
    title: str
    caption: str
    rows: tuple[tuple[str, ...], ...]
    drawing: Chart | Bars | Strips | Cells | None
    legend: tuple[tuple[str, str], ...] = ()
    named: int = 0


def hover_of(figure: Figure) -> list[tuple[float, str]]:
    """Return the texts below the pointer, at parts of the width, as printable text."""
    drawing = figure.drawing
    return [(at, printable(text)) for at, text in drawing.hover] if isinstance(drawing, Chart) else []


@cache
def own_file(name: str) -> str:
    """Return the text of a file of the page."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def table_rows(rows: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a figure's table."""
    return tuple(map(tuple, rows))


# -- numbers ---------------------------------------------------------------------------------------------------------


def time_row(unit: TimeUnit, name: str, times_us: Sequence[float]) -> tuple[str, ...]:
    """Return a row about the times of steps."""
    found = min(times_us), statistics.median(times_us), max(times_us)
    return (name, str(len(times_us)), *map(unit.text, found))


def plain_number(value: float) -> str:
    """Return a number with three digits, and all digits before the point."""
    size = abs(value)
    if size and not 1e-4 <= size < 1e15:
        return f"{value:.3g}"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:.{digits}f}" if size else "0"


# -- axes ------------------------------------------------------------------------------------------------------------

#: About so many labels; more do not fit below a figure on a phone.
_TICKS = 4


def number_axis(low: float, high: float, *, title: str = "", is_log: bool = False, least_step: float = 0.0) -> Axis:
    """Return an axis whose labels are round numbers, `least_step` apart or more; decades if it is logarithmic."""
    if is_log:
        first, last = math.floor(math.log10(max(low, 1e-12))), math.ceil(math.log10(max(high, 1e-12)))
        last = max(last, first + 1)
        decades = math.ceil((last - first) / _TICKS)
        axis = Axis(low=10.0**first, high=10.0**last, ticks=(), title=title, is_log=True)
        powers = range(first, last + 1, decades)
        return _with_ticks(axis, [(10.0**power, f"{10.0**power:g}") for power in powers])
    if not high > low:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    axis = Axis(low=low, high=high, ticks=(), title=title)
    each = max(least_step, _round_step(high / _TICKS - low / _TICKS))
    digits = max(0, -math.floor(math.log10(each)))
    first = math.ceil(low / each)
    values = [(first + count) * each for count in range(2 * _TICKS + 2)]
    texts = [(value, f"{value:.{min(digits, 9)}f}" if abs(value) < 1e7 else f"{value:.6g}") for value in values]
    return _with_ticks(axis, [one for one in texts if one[0] <= high + each * 1e-9])


def _with_ticks(axis: Axis, ticks: Iterable[tuple[float, str]]) -> Axis:
    placed = tuple((round(axis.at(value), 4), text) for value, text in ticks)
    return Axis(low=axis.low, high=axis.high, ticks=placed, title=axis.title, is_log=axis.is_log)


def _round_step(least: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(least) and least > 0):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least * 0.999), 10 * power)


# -- shapes ----------------------------------------------------------------------------------------------------------


def curve(xs: Sequence[float], ys: Sequence[float], *, is_step: bool = False, closes: bool = False) -> str:
    """Return the path of a curve through parts of the square; `is_step`: each value holds until the next one.

    `closes`: down to the bottom at both ends.
    """
    points = [(_x(x), _y(y)) for x, y in zip(xs, ys, strict=True)]
    if not points:
        return ""
    (x, y), *others = points
    parts = [f"M{x} {SIDE}V{y}" if closes else f"M{x} {y}"]
    for x, y in others:
        parts.append(f"H{x}V{y}" if is_step else f"L{x} {y}")
    return "".join(parts) + (f"V{SIDE}Z" if closes else "")


def dots(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Return the path of points: lines without a length, whose round ends are drawn."""
    return "".join(f"M{_x(x)} {_y(y)}h0" for x, y in zip(xs, ys, strict=True))


def columns(xs: Sequence[float], ys: Sequence[float], width: float) -> str:
    """Return the path of bars from the bottom; `width` is a part of the whole."""
    wide = round(max(width * SIDE, 0.8), 1)
    return "".join(f"M{round(_x(x) - wide / 2, 1)} {SIDE}V{_y(y)}h{wide}V{SIDE}Z" for x, y in zip(xs, ys, strict=True))


def upright(x: float) -> str:
    """Return the path of a vertical line."""
    return f"M{_x(x)} 0V{SIDE}"


def level(y: float) -> str:
    """Return the path of a horizontal line."""
    return f"M0 {_y(y)}H{SIDE}"


def _x(part: float) -> float:
    return round(part * SIDE, 1)


def _y(part: float) -> float:
    return round((1 - part) * SIDE, 1)
