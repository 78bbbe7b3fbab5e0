"""Tables that fit the screen: long names are cut, less important columns dropped, and at last each row is a block of lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from perfguard.screen import LOG, Screen

#: Blanks between two columns (those of tabulate), and the indentation of the lines of a block.
_GAP = 2
_INDENT = 2
#: Cells without a value.
_NOTHING = ("", "-")


class Cut(Enum):
    """The part of a text to cut."""

    #: For the id of a test, whose end matters most.
    FRONT = "front"
    #: For names such as `operator_time[aten::mm]`.
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its title, its alignment, and how it shrinks."""

    title: str
    align: str = "left"
    #: Least width, in columns of the screen, and the part of its cells to cut; None: they are never cut.
    least: int | None = None
    cut: Cut = Cut.FRONT
    #: Largest width in a log, which has no width.
    most: int | None = None
    #: The column with the highest number is dropped first; 0 is never dropped.
    leaves: int = 0


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], screen: Screen = LOG) -> str:
    """Return the rows below their titles, no line wider than the screen. A cell may hold several lines.

    In a table that is too wide, columns are dropped in their order, and cells that may be cut share the room. With -v, or if
    no more columns can be dropped, a row becomes a block of lines.
    """
    cells = [[screen.carried(str(cell)) for cell in row] for row in rows]
    wide = [
        max(width, display_width(column.title) + _GAP)
        for column, width in zip(columns, _natural_widths(columns, cells, screen), strict=True)
    ]
    if screen.width is None or _sum(wide) <= screen.width:
        return _laid_out(columns, cells, wide, screen)
    columns, cells = _that_stay(list(columns), cells, screen)
    natural = _natural_widths(columns, cells, screen)
    if _least_sum(columns, natural) > screen.width:
        return _blocks(columns, cells, screen)
    return _laid_out(columns, cells, _shared(columns, natural, screen.width), screen)


def display_width(text: str) -> int:
    """Return the width of a text in columns of a terminal (wcwidth: wide East Asian characters two, combining marks none)."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(0, int(wcswidth(text)))


def cut(text: str, width: int, where: Cut = Cut.FRONT, ellipsis: str = "…") -> str:
    """Return the text in at most `width` columns of a terminal, with an ellipsis in the place of the cut."""
    if display_width(text) <= width:
        return text
    room = max(0, width - display_width(ellipsis))
    front = {Cut.FRONT: 0, Cut.MIDDLE: room // 2, Cut.END: room}[where]
    head = _head(text, front)
    return f"{head}{ellipsis}{_tail(text, room - front)}"


def _head(text: str, width: int) -> str:
    """Return the longest beginning that fits; a combining mark goes with the character before it, and never alone."""
    longest = bisect_right(range(1, len(text) + 1), width, key=lambda count: display_width(text[:count]))
    return text[:longest] if width > 0 else ""


def _tail(text: str, width: int) -> str:
    """Return the longest end that fits, and does not begin with a combining mark."""
    longest = bisect_right(range(1, len(text) + 1), width, key=lambda count: display_width(text[-count:]))
    begin = len(text) - longest
    while begin < len(text) and display_width(text[begin]) == 0:
        begin += 1
    return text[begin:]


def _that_stay(columns: list[Column], cells: list[list[str]], screen: Screen) -> tuple[list[Column], list[list[str]]]:
    """Drop columns until the others fit, empty ones first; with -v none."""
    if screen.width is None or screen.is_verbose:
        return columns, cells
    empty = {column for at, column in enumerate(columns) if all(row[at] in _NOTHING for row in cells)}
    leaving = sorted((c for c in columns if c.leaves), key=lambda column: (column not in empty, -column.leaves))
    while leaving and _least_sum(columns, _natural_widths(columns, cells, screen)) > screen.width:
        at = columns.index(leaving.pop(0))
        columns = columns[:at] + columns[at + 1 :]
        cells = [row[:at] + row[at + 1 :] for row in cells]
    return columns, cells


def _natural_widths(columns: Sequence[Column], cells: list[list[str]], screen: Screen) -> list[int]:
    """Return the widths that the columns need."""
    widths = []
    for at, column in enumerate(columns):
        widest = max((display_width(line) for row in cells for line in row[at].split("\n")), default=0)
        if column.most is not None and screen.width is None and not screen.is_verbose:
            widest = min(widest, column.most)
        widths.append(max(widest, display_width(column.title)))
    return widths


def _least(column: Column, width: int) -> int:
    return width if column.least is None else min(width, max(column.least, display_width(column.title)))


def _least_sum(columns: Sequence[Column], natural: Sequence[int]) -> int:
    return _sum(list(map(_least, columns, natural)))


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _shared(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Share the width among the columns: each has its least, and the first ones take what they need beyond."""
    spare = width - _least_sum(columns, natural)
    widths = []
    for column, full in zip(columns, natural, strict=True):
        least = _least(column, full)
        more = min(spare, full - least)
        widths.append(least + more)
        spare -= more
    return widths


def _laid_out(columns: Sequence[Column], cells: list[list[str]], widths: Sequence[int], screen: Screen) -> str:
    from tabulate import tabulate

    fitted = [
        [
            "\n".join(cut(line, width, column.cut, screen.ellipsis) for line in cell.split("\n"))
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        for row in cells
    ]
    # As a row, because tabulate pads titles by two columns, for which there may be no room.
    titles = [column.title for column in columns]
    rules = ["-" * width for width in widths]
    aligned = [column.align for column in columns]
    text = tabulate([titles, rules, *fitted], tablefmt="plain", disable_numparse=True, colalign=aligned)
    return "\n".join(line.rstrip() for line in str(text).splitlines())


def _blocks(columns: Sequence[Column], cells: list[list[str]], screen: Screen) -> str:
    """Return a few lines a row: the columns that are never dropped in the first, then a line a column."""
    assert screen.width is not None
    heads = [column for column in columns if not column.leaves] or list(columns[:1])
    lines = []
    for row in cells:
        named = dict(zip((column.title for column in columns), row, strict=True))
        lines += _head_lines([(column, named.pop(column.title)) for column in heads], screen)
        lines += [
            cut(f"{' ' * _INDENT}{title}: {' '.join(cell.split())}", screen.width, Cut.END, screen.ellipsis)
            for title, cell in named.items()
            if cell
        ]
    return "\n".join(lines)


def _head_lines(head: Sequence[tuple[Column, str]], screen: Screen) -> list[str]:
    """Return the first line of a block, and further lines for cells that do not fit in it."""
    assert screen.width is not None
    lines, used = [""], 0
    for column, cell in head:
        room = screen.width - used - (_GAP if used else 0)
        if used and room < min(display_width(cell), _least(column, display_width(cell))):
            lines.append(" " * _INDENT)
            used, room = _INDENT, screen.width - _INDENT
            lines[-1] += cut(cell, room, column.cut, screen.ellipsis)
        else:
            lines[-1] += " " * (_GAP if used else 0) + cut(cell, room, column.cut, screen.ellipsis)
        used = display_width(lines[-1])
    return [line.rstrip() for line in lines]
