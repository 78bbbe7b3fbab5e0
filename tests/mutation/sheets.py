"""Sheets: a file taken apart into rows and cells without losing a byte, so that one thing in it can be changed.

A `Sheet` knows where in the text each row, cell, key and element lies; an edit replaces such a span. Nothing is parsed into
values and printed again: what a mutant does not touch stays as the profiler wrote it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

#: (start, end, replacement): offsets in the text.
Edit = tuple[int, int, str]

_JSON_TOKEN = re.compile(r'[{}\[\]:,]|"(?:[^"\\]|\\.)*"|[^\s{}\[\]:,"]+')
_CSV_CELL = re.compile(r'[ ]*"(?:[^"]|"")*"[^,\r\n]*|[^,\r\n]*')
_LINE = re.compile(r"[^\n]*\n|[^\n]+$")
#: What separates the cells of a line, by format; each cell is a maximal run of other characters.
_CELLS = {
    "whitespace": re.compile(r"[^\s]+"),
    "columns": re.compile(r"[^\s]+"),
    "cpu-op-timestamps": re.compile(r"[^;,\s][^;,\n]*(?=;)|[^;,\s]+"),
    "gpu-op-timestamps": re.compile(r"[^;,\s][^;,\n]*(?=;)|[^;,\s]+"),
    "gpu-activity-timestamps": re.compile(r"[^;\n]+"),
    "gpu-step-points": re.compile(r"[^,\s]+"),
    "cpu-framework": re.compile(r"[^;\n]+"),
    "ragged": re.compile(r'"[^"\n]*"|[^,\n]+'),
}
_STAMPS = {
    "cpu-op-timestamps": ("start", "duration", "thread"),
    "gpu-op-timestamps": ("start", "duration"),
}
_NUMBER = re.compile(r'^([ "]*)(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)([ \t"]*)$')


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: its column, or its path with `*` for what is data, and its span."""

    column: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """Something that can be taken away: a key of an object, an element of an array. `cut` includes its comma."""

    column: str
    start: int
    end: int
    cut: tuple[int, int]
    #: The span of the value, of a key the text behind the colon.
    value: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One row or event with its cells."""

    kind: str
    start: int
    end: int
    cut: tuple[int, int]
    cells: tuple[Cell, ...]


@dataclass
class Sheet:
    """A file taken apart. `header` is the line of a table that names its columns."""

    text: str
    rows: list[Row] = field(default_factory=list)
    header: Row | None = None
    #: Keys and elements of a JSON document, of a trace those of its first event of every kind.
    keys: list[Part] = field(default_factory=list)
    #: Separator of two cells of a table that has a header.
    glue: str = ""
    is_json: bool = False

    def place(self, offset: int) -> str:
        """Return the line of an offset, counted from 1."""
        return f" at character {offset}" if self.is_json else f":{bisect_right(self._breaks, offset) + 1}"

    @cached_property
    def _breaks(self) -> list[int]:
        return [found.end() for found in re.finditer("\n", self.text)]

    def of(self, cell: Cell) -> str:
        """Return a cell's text."""
        return self.text[cell.start : cell.end]


def number_parts(text: str) -> tuple[str, str, str] | None:
    """Split `"12.5"\\t` into what is before the number, the number, and what is behind it; None where it is no number."""
    found = _NUMBER.match(text)
    return (found[1], found[2], found[3]) if found else None


def applied(text: str, edits: list[Edit]) -> str:
    """Return the text with every span replaced; spans must not overlap."""
    pieces, at = [], 0
    for start, end, new in sorted(edits):
        assert at <= start
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def sheet_of(text: str, form: str) -> Sheet:
    """Take a text apart, by the format its slot declares."""
    if form == "chrome-trace":
        return _trace(text)
    if form == "json":
        return _document(text)
    if form in ("csv", "csv-spaced"):
        return _csv(text)
    return _lines(text, form)


# -- lines -----------------------------------------------------------------------------------------------------------


def _csv(text: str) -> Sheet:
    rows: list[list[tuple[int, int]]] = []
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        begin, cells = at, []
        while True:
            found = _CSV_CELL.match(text, at)
            assert found is not None
            cells.append(found.span())
            at = found.end()
            if at < len(text) and text[at] == ",":
                at += 1
                continue
            break
        while at < len(text) and text[at] in "\r\n":
            at += 1
            if text[at - 1] == "\n":
                break
        if text[begin:at].strip():
            rows.append(cells)
            spans.append((begin, at))
        assert at > begin
    if not rows:
        return Sheet(text)
    names = [text[a:b].strip().lstrip("\ufeff") for a, b in rows[0]]
    made = [
        Row("", *span, span, tuple(Cell(n, *cell) for n, cell in zip(names, cells, strict=False)))
        for cells, span in zip(rows, spans, strict=True)
    ]
    return Sheet(text, made[1:], made[0], glue=",")


def _lines(text: str, form: str) -> Sheet:
    pattern = _CELLS.get(form)
    sheet = Sheet(text, glue=" " if form == "whitespace" else "")
    names: list[str] = []
    for found in _LINE.finditer(text):
        if not found[0].strip():
            continue
        if pattern is None:
            sheet.rows.append(Row("", *found.span(), found.span(), ()))
            continue
        spans = [part.span() for part in pattern.finditer(text, *found.span())]
        if form == "whitespace" and (sheet.header is None or found[0].startswith(("=", "-"))):
            if found[0].startswith(("=", "-")):
                sheet.header = sheet.header if found[0].startswith("-") else None
                continue
            if not any(number_parts(text[a:b]) for a, b in spans):
                names = [text[a:b] for a, b in spans]
                cells = tuple(Cell(name, *span) for name, span in zip(names, spans, strict=True))
                sheet.header = Row("", *found.span(), found.span(), cells)
                continue
        cells = tuple(
            Cell(_name(form, text, number, spans, names), *span)
            for number, span in enumerate(spans)
            if form != "ragged" or number
        )
        sheet.rows.append(Row("", *found.span(), found.span(), cells))
    return sheet


def _name(form: str, text: str, number: int, spans: list[tuple[int, int]], names: list[str]) -> str:
    if form == "ragged":
        return text[spans[0][0] : spans[0][1]]
    if form in _STAMPS and number >= 2:
        stamps = _STAMPS[form]
        return stamps[(number - 2) % len(stamps)]
    if form in _STAMPS:
        return ("full_op_name", "op_side")[number]
    return names[number] if number < len(names) else f"column {number}"


# -- JSON ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    start: int
    end: int
    #: (key or None, start of the key or the element, node)
    children: list[tuple[str | None, int, _Node]]
    kind: str


def _parse(text: str) -> _Node:
    """Parse JSON that is known to be well-formed into spans."""
    stack: list[_Node] = []
    key: tuple[str, int] | None = None
    waiting: tuple[str, int] | None = None
    root: _Node | None = None
    for found in _JSON_TOKEN.finditer(text):
        token, start, end = found[0], found.start(), found.end()
        first = token[0]
        if first in "}]":
            stack.pop().end = end
            continue
        if first == ",":
            continue
        if first == ":":
            key, waiting = waiting, None
            continue
        if first == '"' and stack and stack[-1].kind == "{" and key is None:
            waiting = (token[1:-1], start)
            continue
        node = _Node(start, end, [], first if first in "{[" else "v")
        if stack:
            stack[-1].children.append((key[0], key[1], node) if key else (None, start, node))
        else:
            root = node
        key = None
        if first in "{[":
            stack.append(node)
    assert root is not None
    return root


def _cuts(node: _Node) -> Iterator[tuple[str | None, int, _Node, tuple[int, int]]]:
    children = node.children
    for number, (key, start, child) in enumerate(children):
        if number + 1 < len(children):
            cut = (start, children[number + 1][1])
        elif number:
            cut = (children[number - 1][2].end, child.end)
        else:
            cut = (start, child.end)
        yield key, start, child, cut


def _step(key: str | None) -> str:
    """Name a key of a path; what holds digits or an `@` is data: an operator, a step, a link."""
    if key is None:
        return "[]"
    return "*" if re.search(r"[0-9@/:]", key) and key not in ("ts",) else key


def _walk(node: _Node, path: str, parts: list[Part], cells: list[Cell]) -> None:
    if node.kind == "v":
        cells.append(Cell(path, node.start, node.end))
    for key, start, child, cut in _cuts(node):
        below = f"{path}.{_step(key)}" if path else _step(key)
        parts.append(Part(below, start, child.end, cut, (child.start, child.end)))
        _walk(child, below, parts, cells)


def _document(text: str) -> Sheet:
    sheet = Sheet(text, is_json=True)
    cells: list[Cell] = []
    root = _parse(text)
    _walk(root, "", sheet.keys, cells)
    by_parent: dict[tuple[int, int], list[Cell]] = {}
    owner = {(cell.start, cell.end): (root.start, root.end) for cell in cells}
    _owners(root, owner)
    for cell in cells:
        by_parent.setdefault(owner[cell.start, cell.end], []).append(cell)
    sheet.rows = [Row("", *span, (-1, -1), tuple(found)) for span, found in by_parent.items()]
    return sheet


def _owners(node: _Node, owner: dict[tuple[int, int], tuple[int, int]]) -> None:
    for _, _, child in node.children:
        if child.kind == "v":
            owner[child.start, child.end] = (node.start, node.end)
        else:
            _owners(child, owner)


def _trace(text: str) -> Sheet:
    root = _parse(text)
    sheet = Sheet(text, is_json=True)
    events = root
    if root.kind == "{":
        events = next(child for key, _, child in root.children if key == "traceEvents")
        around = _Node(root.start, root.end, [c for c in root.children if c[0] != "traceEvents"], "{")
        cells: list[Cell] = []
        _walk(around, "$", sheet.keys, cells)
        sheet.rows.append(Row("$", root.start, root.end, (-1, -1), tuple(cells)))
    seen: set[tuple[str, str]] = set()
    lanes = _lanes(text, events)
    for _, start, child, cut in _cuts(events):
        keys: list[Part] = []
        found: list[Cell] = []
        _walk(child, "", keys, found)
        at = {cell.column: text[cell.start : cell.end].strip('"') for cell in found}
        kind = _event_kind(at, lanes)
        named = tuple(Cell(f"{kind}.{cell.column}", cell.start, cell.end) for cell in found)
        sheet.rows.append(Row(kind, start, child.end, cut, named))
        for key in keys:
            if (kind, key.column) not in seen:
                seen.add((kind, key.column))
                sheet.keys.append(Part(f"{kind}.{key.column}", key.start, key.end, key.cut, key.value))
    return sheet


def _lanes(text: str, events: _Node) -> dict[str, str]:
    """Return the name of every process, by pid."""
    names = {}
    for _, _, child in events.children:
        raw = text[child.start : child.end]
        if '"process_name"' in raw:
            pid = re.search(r'"pid"\s*:\s*"?([^",}]+)', raw)
            name = re.search(r'"args"\s*:\s*\{\s*"name"\s*:\s*"([^"]*)"', raw)
            if pid and name:
                names[pid[1].strip()] = name[1]
    return names


def _event_kind(at: dict[str, str], lanes: dict[str, str]) -> str:
    """Name what an event is: its phase, and its category, or else the process it is drawn in."""
    phase = at.get("ph", "?")
    if phase == "M":
        return f"M:{at.get('name', '')}"
    if phase in "sft" and "cat" in at:
        return f"{phase}:{at['cat']}"
    if phase == "i" or phase == "C":
        return f"{phase}:{re.sub(r'[0-9]+', '*', at.get('name', ''))}"
    if at.get("name", "").startswith("ProfilerStep#"):
        return f"{phase}:ProfilerStep"
    where = at.get("cat") or lanes.get(at.get("pid", ""), "")
    return f"{phase}:{re.sub(r'[0-9]+', '*', where)}"
