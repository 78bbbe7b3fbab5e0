"""Operators: ways to corrupt a file. Each yields the places where it applies; a `Site` can then change the bytes.

An operator is a function of a `View` (one file of a subject, taken apart); it yields at most `view.sites` places for each
column, drawn from the view's own random numbers, so that a run is the same whenever the seed is.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import pairwise
from math import isfinite
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.mutation import records
from tests.mutation.sheets import Cell, Edit, Part, Row, Sheet, applied, number_parts, sheet_of

#: Formats whose bytes are not text.
_BINARY = ("tfrecord", "sqlite", "opaque")

#: A cell that holds a number: what is before it, the number, what is behind it.
_Number = tuple[Cell, str, Decimal, str]


@dataclass(frozen=True, slots=True)
class Site:
    """One place where an operator applies. `column` names a class of places, `place` this one."""

    operator: str
    column: str
    place: str
    #: Old bytes -> new bytes.
    change: Callable[[bytes], bytes]
    #: Unit of the column, "-" where it measures nothing.
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """One file of a subject: its bytes, and what they are where its format can be taken apart."""

    form: str
    raw: bytes
    sheet: Sheet | None
    #: The same file of another run.
    stale: bytes | None
    units: Callable[[str], str | None]
    random: Random
    #: How many places of one column an operator takes.
    sites: int = 1
    #: The cells that hold a number, by column.
    numbers: dict[str, list[_Number]] = field(default_factory=dict)
    known: dict[str, str | None] = field(default_factory=dict)

    def some(self, found: Sequence[Any], *, spare: int = 0) -> list[Any]:
        """Draw as many as are wanted of one column, and some to spare."""
        wanted = self.sites + spare
        return list(found) if len(found) <= wanted else self.random.sample(list(found), wanted)

    def unit(self, column: str) -> str | None:
        """Return what a column measures."""
        if column not in self.known:
            self.known[column] = self.units(column)
        return self.known[column]


Operator = Callable[[View], Iterable[Site]]


def view_of(
    path: Path, form: str, *, stale: bytes | None, units: Callable[[str], str | None], seed: str, sites: int
) -> View:
    """Take a file apart. `units` names the unit of a column, None where it measures nothing."""
    raw = path.read_bytes()
    sheet = None if form in _BINARY else sheet_of(_text(raw), form)
    numbers = {} if sheet is None else _numbers(sheet)
    random = Random(seed)
    return View(form=form, raw=raw, sheet=sheet, stale=stale, units=units, random=random, sites=sites, numbers=numbers)


def _text(raw: bytes) -> str:
    plain = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    return plain.decode("utf-8", errors="surrogateescape")


def _edit(*edits: Edit) -> Callable[[bytes], bytes]:
    """Replace spans of the text, packing it again where it was packed."""

    def change(raw: bytes) -> bytes:
        new = applied(_text(raw), list(edits)).encode("utf-8", errors="surrogateescape")
        return gzip.compress(new, mtime=0) if raw[:2] == b"\x1f\x8b" else new

    return change


# -- one value -------------------------------------------------------------------------------------------------------


def _numbers(sheet: Sheet) -> dict[str, list[_Number]]:
    found: dict[str, list[_Number]] = {}
    for row in sheet.rows:
        for cell in row.cells:
            parts = number_parts(sheet.of(cell))
            if parts is not None:
                found.setdefault(cell.column, []).append((cell, parts[0], Decimal(parts[1]), parts[2]))
    return found


def _place(view: View, offset: int) -> str:
    return view.sheet.place(offset) if view.sheet is not None else ""


def _worded(value: Decimal, like: Decimal) -> str:
    """Print a number with the decimals the other has."""
    if "E" in f"{like}":
        return f"{value:E}"
    exponent = like.as_tuple().exponent
    decimals = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    return f"{value:.{decimals}f}"


def _value(name: str, compute: Callable[[Decimal], Decimal | str]) -> Operator:
    """Make an operator that gives one cell another value."""

    def sites(view: View) -> Iterator[Site]:
        for column, cells in view.numbers.items():
            tried = view.some(cells, spare=20)
            changed = [(one[0], new) for one in tried if (new := _changed(one, compute)) is not None]
            for cell, new in changed[: view.sites]:
                edit = _edit((cell.start, cell.end, new))
                yield Site(name, column, _place(view, cell.start), edit, view.unit(column) or "-")

    return sites


def _changed(one: _Number, compute: Callable[[Decimal], Decimal | str]) -> str | None:
    """Return the cell's new text, or None where it would be the old number."""
    _, before, value, behind = one
    new = compute(value)
    if isinstance(new, str):
        return before + new + behind
    worded = _worded(new, value)
    return None if Decimal(worded) == value else before + worded + behind


def _ten_percent(value: Decimal) -> Decimal:
    """Add a tenth; to a whole number at least 1."""
    more = value * Decimal("1.1")
    return more if abs(more - value) >= 1 or value % 1 else value + 1


# -- a whole column in another unit ----------------------------------------------------------------------------------


def _column(name: str, factor: Decimal, only: tuple[str, ...], but: tuple[str, ...] = ()) -> Operator:
    """Make an operator that multiplies a whole column."""

    def sites(view: View) -> Iterator[Site]:
        for column, cells in view.numbers.items():
            unit = view.unit(column)
            if unit is None or unit in but or (only and unit not in only):
                continue
            edits = []
            for cell, before, value, behind in cells:
                new = value * factor
                worded = f"{new:f}" if value % 1 or new == new.to_integral_value() else f"{new.to_integral_value()}"
                if Decimal(worded) != value:
                    edits.append((cell.start, cell.end, before + worded + behind))
            if edits:
                yield Site(name, column, "", _edit(*edits), unit)

    return sites


# -- rows and events -------------------------------------------------------------------------------------------------


def _by_kind(view: View) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    if view.sheet is not None:
        for row in view.sheet.rows:
            if row.cut != (-1, -1):
                found.setdefault(row.kind, []).append(row)
    return found


def _drop_rows(name: str, *, events: bool) -> Operator:
    def sites(view: View) -> Iterator[Site]:
        if view.sheet is None or (view.form == "chrome-trace") is not events:
            return
        for kind, rows in _by_kind(view).items():
            for row in view.some(rows):
                yield Site(name, kind, _place(view, row.start), _edit((*row.cut, "")))
        for part in _elements(view):
            yield Site(name, part.column, _place(view, part.start), _edit((*part.cut, "")))

    return sites


def _duplicate_rows(name: str, *, events: bool) -> Operator:
    def sites(view: View) -> Iterator[Site]:
        if view.sheet is None or (view.form == "chrome-trace") is not events:
            return
        for kind, rows in _by_kind(view).items():
            for row in view.some(rows):
                yield Site(name, kind, _place(view, row.start), _edit((row.start, row.start, _again(view, row))))
        for part in _elements(view):
            again = view.sheet.text[part.start : part.end] + ", "
            yield Site(name, part.column, _place(view, part.start), _edit((part.start, part.start, again)))

    return sites


def _again(view: View, row: Row) -> str:
    assert view.sheet is not None
    text = view.sheet.text[row.start : row.end]
    if view.sheet.is_json:
        return text + ", "
    return text if text.endswith("\n") else text + "\n"


def _elements(view: View) -> list[Part]:
    """Draw elements of the arrays of a JSON document."""
    if view.form != "json" or view.sheet is None:
        return []
    found: dict[str, list[Part]] = {}
    for part in view.sheet.keys:
        if part.column.endswith("[]"):
            found.setdefault(part.column, []).append(part)
    return [part for parts in found.values() for part in view.some(parts)]


def _swap_values(view: View) -> Iterator[Site]:
    """Exchange the values of two neighbouring numbers of one row."""
    if view.sheet is None:
        return
    found: dict[str, list[tuple[Cell, Cell]]] = {}
    for row in view.sheet.rows:
        measured = [cell for cell in row.cells if view.unit(cell.column)]
        cells = [(cell, Decimal(parts[1])) for cell in measured if (parts := number_parts(view.sheet.of(cell)))]
        for (one, a), (two, b) in pairwise(cells):
            if one.column != two.column and a != b:
                found.setdefault(f"{one.column} & {two.column.rsplit('.', 1)[-1]}", []).append((one, two))
    for column, pairs in found.items():
        for one, two in view.some(pairs):
            edit = _edit((one.start, one.end, view.sheet.of(two)), (two.start, two.end, view.sheet.of(one)))
            yield Site("swap the values of two columns", column, _place(view, one.start), edit)


def _drop_step(view: View) -> Iterator[Site]:
    """Take all of one step away: the rows, the events, the key that name it."""
    if view.sheet is None:
        return
    if view.form == "chrome-trace":
        yield from _drop_step_of_trace(view)
        return
    by_step: dict[str, list[Row]] = {}
    for row in view.sheet.rows:
        for cell in row.cells:
            step = view.sheet.of(cell).strip('" \t')
            if cell.column.lower() in ("step", "step id", "step_num", "step_id") and row.cut != (-1, -1) and step:
                by_step.setdefault(step, []).append(row)
    if len(by_step) > 1:
        for step in view.some(sorted(by_step)):
            yield Site("drop a step", "", f" step {step}", _edit(*((*row.cut, "") for row in by_step[step])))
    steps = [part for part in view.sheet.keys if view.sheet.text[part.start : part.start + 5] == '"step']
    steps = [part for part in steps if part.column == "*"]
    if len(steps) > 1:
        for part in view.some(steps):
            yield Site("drop a step", "", _place(view, part.start), _edit((*part.cut, "")))
    if view.form == "cpu-op-timestamps":
        stamps = [row.cells[2:] for row in view.sheet.rows if len(row.cells) >= 8]
        edits = [(cells[-3].start - 1, cells[-1].end, "") for cells in stamps]
        if edits:
            yield Site("drop a step", "", " the last execution of every operator", _edit(*edits))


def _drop_step_of_trace(view: View) -> Iterator[Site]:
    assert view.sheet is not None
    spans = {}
    for row in view.sheet.rows:
        at = {cell.column.rsplit(".", 1)[-1]: view.sheet.of(cell).strip('"') for cell in row.cells}
        if row.kind.startswith("X") and "ts" in at and "dur" in at:
            spans[row.start] = (Decimal(at["ts"]), Decimal(at["ts"]) + Decimal(at["dur"]))
    marks = [row for row in view.sheet.rows if row.kind == "X:ProfilerStep"]
    events = [row for row in view.sheet.rows if row.cut != (-1, -1)]
    if len(marks) < 2:
        return
    for mark in view.some(marks):
        begin, end = spans[mark.start]
        gone = {start for start, span in spans.items() if begin <= span[0] and span[1] <= end}
        kept = ",\n".join(view.sheet.text[row.start : row.end] for row in events if row.start not in gone)
        yield Site("drop a step", "", _place(view, mark.start), _edit((events[0].start, events[-1].end, kept)))


# -- columns and keys ------------------------------------------------------------------------------------------------


def _tabular(view: View) -> Row | None:
    if view.sheet is None or view.sheet.glue != ",":
        return None
    return view.sheet.header


def _drop_column(view: View) -> Iterator[Site]:
    header = _tabular(view)
    if header is None or view.sheet is None:
        return
    for number, cell in enumerate(header.cells):
        edits = []
        for row in (header, *view.sheet.rows):
            if number < len(row.cells):
                one = row.cells[number]
                last = number + 1 == len(row.cells)
                edits.append((one.start - 1 if last and number else one.start, one.end + (0 if last else 1), ""))
        yield Site("drop a column", cell.column, ":1", _edit(*edits))


def _rename_column(view: View) -> Iterator[Site]:
    if view.sheet is None or view.sheet.header is None:
        return
    for cell in view.sheet.header.cells:
        text = view.sheet.of(cell)
        yield Site("rename a column", cell.column, ":1", _edit((cell.start, cell.end, f"{text.rstrip()}x")))


def _keys(view: View) -> Iterator[Part]:
    if view.sheet is None or not view.sheet.is_json:
        return
    found: dict[str, list[Part]] = {}
    for part in view.sheet.keys:
        if not part.column.endswith("[]"):
            found.setdefault(part.column, []).append(part)
    for parts in found.values():
        yield from view.some(parts)


def _drop_key(view: View) -> Iterator[Site]:
    for part in _keys(view):
        yield Site("drop a key", part.column, _place(view, part.start), _edit((*part.cut, "")))


def _wrong_type(view: View) -> Iterator[Site]:
    """Give a JSON value another type, a text cell that was a number a word."""
    if view.sheet is None:
        return
    if not view.sheet.is_json:
        for column, cells in view.numbers.items():
            for cell, *_ in view.some(cells):
                edit = _edit((cell.start, cell.end, "seven"))
                yield Site("wrong type", column, _place(view, cell.start), edit, view.unit(column) or "-")
        return
    for part in _keys(view):
        text = view.sheet.text[part.value[0] : part.value[1]]
        new = '"seven"' if text == "null" else "7" if text[0] == "[" else "[7]"
        yield Site("wrong type", part.column, _place(view, part.start), _edit((*part.value, new)))


# -- bytes -----------------------------------------------------------------------------------------------------------


def _truncate(view: View) -> Iterator[Site]:
    size = len(view.raw)
    if size < 2:
        return
    cuts = {"to nothing": 0, "in half": size // 2, "by a byte": size - 1, "by ten bytes": max(size - 10, 0)}
    lines = [i + 1 for i, byte in enumerate(view.raw[:-1]) if byte == 10]
    if lines and view.form not in _BINARY:
        cuts["at a line"] = lines[len(lines) // 2]
    for name, at in cuts.items():
        # The last line break of a text is no content: a CSV or a JSON document without it is whole.
        if view.raw[at:].strip(b"\r\n \t"):
            yield Site("truncate a file", name, f" at byte {at}", _cut(at))


def _cut(at: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:at]


def _broken_text(view: View) -> Iterator[Site]:
    if view.sheet is None or view.raw[:2] == b"\x1f\x8b" or len(view.raw) < 3:
        return
    at = view.random.randrange(1, len(view.raw))
    yield Site("broken UTF-8", "", f" at byte {at}", lambda raw: raw[:at] + b"\xff" + raw[at:])


def _flip_bit(view: View) -> Iterator[Site]:
    packed = view.raw[:2] == b"\x1f\x8b"
    if view.form not in ("tfrecord", "sqlite") and not packed:
        return
    name = "flip a bit of a gzip" if packed else f"flip a bit of a {view.form}"
    for _ in range(3 * view.sites):
        at, bit = view.random.randrange(len(view.raw)), view.random.randrange(8)
        if packed and 3 <= at <= 9:
            continue  # flags, the time, the compression level and the system of the packer: nothing that is read
        column = "" if view.form != "sqlite" else "beginning" if at < 24 else "header" if at < 100 else "page"
        yield Site(name, column, f" bit {bit} of byte {at}", _flipped(at, bit))


def _flipped(at: int, bit: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:at] + bytes([raw[at] ^ (1 << bit)]) + raw[at + 1 :]


def _stale(view: View) -> Iterator[Site]:
    if view.stale is not None and view.stale != view.raw:
        stale = view.stale
        yield Site("stale file of another run", "", "", lambda raw: stale)


# -- rows, as a writer or a copy loses and doubles them ------------------------------------------------------------------


def _kept_rows(view: View, kept: Callable[[int, int], int], rows: list[Row]) -> Callable[[bytes], bytes]:
    """Write each of `rows` as often as `kept(its number, how many there are)` says."""
    sheet = view.sheet
    assert sheet is not None
    counts = {row.start: kept(number, len(rows)) for number, row in enumerate(rows)}

    def change(raw: bytes) -> bytes:
        if not sheet.is_json:
            edits = [(row.start, row.end, _again(view, row) * counts[row.start]) for row in rows]
            return _edit(*edits)(raw)
        events = [row for row in sheet.rows if row.cut != (-1, -1)]
        texts = [sheet.text[row.start : row.end] for row in events for _ in range(counts.get(row.start, 1))]
        return _edit((events[0].start, events[-1].end, ",\n".join(texts)))(raw)

    return change


#: How often each row of a kind is written: its number, of how many.
_LOSSES: dict[str, Callable[[int, int], int]] = {
    "second half of the rows gone": lambda number, of: int(number < of / 2),
    "first half of the rows gone": lambda number, of: int(number >= of // 2),
    "every second row gone": lambda number, of: int(number % 2 == 0),
    "a stretch of rows gone": lambda number, of: int(not of // 3 <= number < max(2 * of // 3, of // 3 + 1)),
    "every row twice": lambda number, of: 2,
    "all rows gone": lambda number, of: 0,
}


def _lose_rows(view: View) -> Iterator[Site]:
    if view.sheet is None or view.form == "log":
        return
    kinds = {kind: rows for kind, rows in _by_kind(view).items() if rows}
    if len(kinds) > 1:
        kinds["(all)"] = [row for row in view.sheet.rows if row.cut != (-1, -1)]
    for kind, rows in kinds.items():
        for name, kept in _LOSSES.items():
            if len(rows) > 1 or name in ("every row twice", "all rows gone"):
                yield Site(name, kind, "", _kept_rows(view, kept, rows))


# -- values ----------------------------------------------------------------------------------------------------------


def _cells(view: View) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    if view.sheet is not None:
        for row in view.sheet.rows:
            for cell in row.cells:
                found.setdefault(cell.column, []).append(cell)
    return found


def _bare(text: str) -> str:
    return text.strip('" \t\r')


def _exchange(view: View) -> Iterator[Site]:
    """Give a cell what another row has in the column (another thread, stream, rank, name, shape), a new text, or none."""
    if view.sheet is None or view.form == "log":
        return
    sheet = view.sheet
    for column, cells in _cells(view).items():
        values = sorted({sheet.of(cell) for cell in cells})
        for cell in view.some(cells):
            text, place = sheet.of(cell), _place(view, cell.start)
            others = [value for value in values if _bare(value) != _bare(text)]
            if others:
                other = view.random.choice(others)
                yield Site("value of another row", column, place, _edit((cell.start, cell.end, other)))
            if len(_bare(text)) > 1 and number_parts(text) is None and text not in ("true", "false", "null"):
                at = text.rindex(_bare(text)) + len(_bare(text))
                yield Site("rename a value", column, place, _edit((cell.start, cell.end, f"{text[:at]}x{text[at:]}")))
            if _bare(text):
                empty = "null" if sheet.is_json else ""
                yield Site("empty a value", column, place, _edit((cell.start, cell.end, empty)))
        if len(values) > 1:
            first = sheet.of(cells[0])
            same = [(cell.start, cell.end, first) for cell in cells]
            yield Site("one value in a whole column", column, "", _edit(*same))
        if not sheet.is_json and any(_bare(value) for value in values):
            yield Site("empty a column", column, "", _edit(*((cell.start, cell.end, "") for cell in cells)))


def _shift(view: View) -> Iterator[Site]:
    """Move one value, or the second half of a column, by more than the column spans: a clock jumps, or goes back."""
    for column, cells in view.numbers.items():
        values = [value for _, _, value, _ in cells]
        span = max(max(values) - min(values), Decimal(1))
        some = view.some(cells)
        yield from _moved(view, "move a value beyond the column", column, some, span * Decimal("1.5"))
        yield from _moved(view, "move a value before the column", column, some, -span * Decimal("1.5"))
        if len(cells) > 3:
            half = cells[len(cells) // 2 :]
            yield from _moved(view, "second half of a column ahead", column, half, span * 10)
            yield from _moved(view, "second half of a column back", column, half, -span)


def _moved(view: View, name: str, column: str, cells: list[_Number], by: Decimal) -> Iterator[Site]:
    edits = [(c.start, c.end, before + _worded(value + by, value) + behind) for c, before, value, behind in cells]
    yield Site(name, column, _place(view, cells[0][0].start), _edit(*edits), view.unit(column) or "-")


def _scale_rows(view: View) -> Iterator[Site]:
    """Multiply every number of one row that measures something; negate a whole column."""
    if view.sheet is None:
        return
    for kind, rows in _by_kind(view).items():
        for row in view.some(rows):
            edits = []
            for cell in row.cells:
                parts = number_parts(view.sheet.of(cell))
                if parts and Decimal(parts[1]) and view.unit(cell.column):
                    edits.append((cell.start, cell.end, parts[0] + f"{Decimal(parts[1]) * 1000:f}" + parts[2]))
            if edits:
                yield Site("a row in another unit", kind, _place(view, row.start), _edit(*edits))
    for column, cells in view.numbers.items():
        if len(cells) > 1 and any(value for _, _, value, _ in cells):
            edits = [(c.start, c.end, before + _worded(-value, value) + behind) for c, before, value, behind in cells]
            yield Site("negate a column", column, "", _edit(*edits), view.unit(column) or "-")


def _exchange_names(view: View) -> Iterator[Site]:
    """Exchange two neighbouring names of a header and leave the values where they are."""
    header = _tabular(view)
    if header is not None and view.sheet is not None:
        for one, two in pairwise(header.cells):
            edit = _edit((one.start, one.end, view.sheet.of(two)), (two.start, two.end, view.sheet.of(one)))
            yield Site("exchange two column names", one.column, ":1", edit)


# -- records of a summary --------------------------------------------------------------------------------------------


def _record_sites(view: View) -> Iterator[Site]:
    if view.form != "tfrecord":
        return
    count = len(records.split(view.raw))

    def drop(at: int) -> Callable[[bytes], bytes]:
        return lambda raw: b"".join(one for i, one in enumerate(records.split(raw)) if i != at)

    def double(at: int) -> Callable[[bytes], bytes]:
        return lambda raw: b"".join(one * (2 if i == at else 1) for i, one in enumerate(records.split(raw)))

    def swap(at: int) -> Callable[[bytes], bytes]:
        def change(raw: bytes) -> bytes:
            found = records.split(raw)
            found[at], found[at + 1] = found[at + 1], found[at]
            return b"".join(found)

        return change

    for at in range(count):
        kind = "version" if at == 0 else "last" if at == count - 1 else "between"
        yield Site("drop a row", kind, f" record {at}", drop(at))
        yield Site("duplicate a row", kind, f" record {at}", double(at))
        if at + 1 < count:
            yield Site("swap two rows", kind, f" record {at}", swap(at))
    for name, kept in _LOSSES.items():
        if count > 1 or name in ("every row twice", "all rows gone"):
            yield Site(name, "", "", _kept_records(kept))
    for column in records.COLUMNS:
        parts = records.parts_of(view.raw, column)
        if parts and isinstance(parts[0].value, bytes):
            yield from _record_texts(view, column, parts)
        elif parts:
            yield from _record_numbers(view, column, parts)


def _kept_records(kept: Callable[[int, int], int]) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        found = records.split(raw)
        return b"".join(one * kept(number, len(found)) for number, one in enumerate(found))

    return change


def _in_records(column: str, new: dict[records.Part, records.Value]) -> Callable[[bytes], bytes]:
    values = {(one.record, one.place): value for one, value in new.items()}
    return lambda raw: records.changed(raw, column, values)


def _record_texts(view: View, column: str, parts: list[records.Part]) -> Iterator[Site]:
    values = sorted({one.value for one in parts if isinstance(one.value, bytes)})
    for one in view.some(parts):
        place = f" record {one.record}"
        yield Site("rename a value", column, place, _in_records(column, {one: one.value + b"x"}))
        yield Site("empty a value", column, place, _in_records(column, {one: b""}))
        if others := [value for value in values if value != one.value]:
            other = view.random.choice(others)
            yield Site("value of another row", column, place, _in_records(column, {one: other}))
    if len(values) > 1:
        yield Site("one value in a whole column", column, "", _in_records(column, dict.fromkeys(parts, values[0])))


def _constant(value: float, _: float) -> float:
    return value


def _record_numbers(view: View, column: str, parts: list[records.Part]) -> Iterator[Site]:
    numbers = [one for one in parts if not isinstance(one.value, bytes) and isfinite(one.value)]
    if not numbers:
        return
    values = {one: float(one.value) for one in numbers}
    unit = view.unit(column) or "-"
    span = max(values.values()) - min(values.values()) or 1.0

    def of(some: list[records.Part], compute: Callable[[float], float]) -> Callable[[bytes], bytes]:
        """Change values; a step is whole, and never below 0."""
        new = {one: min(max(compute(values[one]), -_LARGEST_FLOAT), _LARGEST_FLOAT) for one in some}
        return _in_records(column, {p: max(round(n), 0) if isinstance(p.value, int) else n for p, n in new.items()})

    for one in view.some(numbers):
        place = f" record {one.record}"
        for operator, compute in (
            ("zero a value", lambda value: 0.0),
            ("negate a value", lambda value: -value),
            ("change a value by a tenth", lambda value: float(_ten_percent(Decimal(value)))),
            ("move a value beyond the column", lambda value: value + 1.5 * span),
            ("move a value before the column", lambda value: value - 1.5 * span),
        ):
            yield Site(operator, column, place, of([one], compute), unit)
        if others := sorted({value for value in values.values() if value != values[one]}):
            other = view.random.choice(others)
            yield Site("value of another row", column, place, of([one], partial(_constant, other)), unit)
    yield Site("a thousand times too large", column, "", of(numbers, lambda value: value * 1000), unit)
    yield Site("a thousand times too small", column, "", of(numbers, lambda value: value / 1000), unit)
    if len(numbers) > 3:
        half = numbers[len(numbers) // 2 :]
        yield Site("second half of a column ahead", column, "", of(half, lambda value: value + 10 * span), unit)
        yield Site("second half of a column back", column, "", of(half, lambda value: value - span), unit)


# -- databases -------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(raw: bytes) -> Iterator[tuple[sqlite3.Connection, Path]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "copy.db"
        path.write_bytes(raw)
        with closing(sqlite3.connect(path)) as base:
            yield base, path


def _in_database(*statements: tuple[str, tuple[Any, ...]]) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        with _opened(raw) as (base, path):
            for statement, values in statements:
                base.execute(statement, values)
            base.commit()
            return path.read_bytes()

    return change


@dataclass(frozen=True, slots=True)
class _Stored:
    """A table of a database: its columns, those in a key or an index, and its rows with their rowid first."""

    name: str
    columns: list[str]
    keys: set[str]
    rows: list[tuple[Any, ...]]


def _tables(raw: bytes) -> list[_Stored]:
    found = []
    with _opened(raw) as (base, _):
        names = [name for (name,) in base.execute("select name from sqlite_master where type = 'table' order by name")]
        for table in names:
            described = base.execute(f'pragma table_info("{table}")').fetchall()
            keys = {row[1] for row in described if row[5]}
            for index in base.execute(f'pragma index_list("{table}")').fetchall():
                keys |= {row[2] for row in base.execute(f'pragma index_info("{index[1]}")')}
            rows = base.execute(f'select rowid, * from "{table}" limit 5000').fetchall()
            found.append(_Stored(table, [row[1] for row in described], keys, rows))
    return found


def _database(view: View) -> Iterator[Site]:
    if view.form != "sqlite":
        return
    for stored in _tables(view.raw):
        table, columns = stored.name, stored.columns
        yield Site("drop a table", table, "", _in_database((f'drop table "{table}"', ())))
        for column in columns:
            name = f"{table}.{column}" if stored.rows else f"{table}.{column} (empty)"
            rename = f'alter table "{table}" rename column "{column}" to "{column}x"'
            yield Site("rename a column", name, "", _in_database((rename, ())))
            if len(columns) > 1 and column not in stored.keys:
                drop = f'alter table "{table}" drop column "{column}"'
                yield Site("drop a column", name, "", _in_database((drop, ())))
        for row in view.some(stored.rows):
            place = f" row {row[0]}"
            gone = _in_database((f'delete from "{table}" where rowid = ?', (row[0],)))
            yield Site("drop a row", table, place, gone)
            if not stored.keys:
                marks = ", ".join("?" * len(columns))
                double = _in_database((f'insert into "{table}" values ({marks})', tuple(row[1:])))
                yield Site("duplicate a row", table, place, double)
        if stored.rows:
            yield from _database_values(view, stored)
            yield from _database_losses(stored)


def _database_values(view: View, stored: _Stored) -> Iterator[Site]:
    changes: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("zero a value", lambda value: 0),
        ("negate a value", lambda value: -value),
        ("change a value by a tenth", lambda value: min(type(value)(_ten_percent(Decimal(value))), _LARGEST)),
        ("wrong type", lambda value: "seven"),
    )
    table = stored.name
    for number, column in enumerate(stored.columns, start=1):
        if column in stored.keys:
            continue  # the database itself would refuse it
        name, unit = f"{table}.{column}", view.unit(f"{table}.{column}")
        update = f'update "{table}" set "{column}" = ? where rowid = ?'
        filled = [row for row in stored.rows if row[number] is not None]
        numeric = [row for row in filled if isinstance(row[number], (int, float)) and row[number]]
        values = sorted({row[number] for row in filled}, key=str)
        for row in view.some(filled):
            place = f" row {row[0]}"
            yield Site("empty a value", name, place, _in_database((update, (None, row[0]))))
            if isinstance(row[number], str) and row[number]:
                yield Site("rename a value", name, place, _in_database((update, (row[number] + "x", row[0]))))
            if others := [value for value in values if value != row[number]]:
                other = view.random.choice(others)
                yield Site("value of another row", name, place, _in_database((update, (other, row[0]))))
        span = max((row[number] for row in numeric), default=0) - min((row[number] for row in numeric), default=0) or 1
        for row in view.some(numeric):
            for operator, compute in changes:
                change = _in_database((update, (compute(row[number]), row[0])))
                yield Site(operator, name, f" row {row[0]}", change, unit or "-")
            for operator, by in (("move a value beyond the column", 3), ("move a value before the column", -3)):
                moved = max(-_LARGEST, min(row[number] + span * by // 2, _LARGEST))
                yield Site(operator, name, f" row {row[0]}", _in_database((update, (moved, row[0]))), unit or "-")
        if len(filled) > 1 and len(values) > 1:
            same = f'update "{table}" set "{column}" = ? where "{column}" is not null'
            yield Site("one value in a whole column", name, "", _in_database((same, (filled[0][number],))))
        if len(numeric) > 3:
            half = numeric[len(numeric) // 2][0]
            for operator, by in (("second half of a column ahead", span * 10), ("second half of a column back", -span)):
                if max(abs(row[number]) for row in numeric) + abs(by) < _LARGEST:
                    shift = (
                        f'update "{table}" set "{column}" = "{column}" + ? where rowid >= ? and "{column}" is not null'
                    )
                    yield Site(operator, name, "", _in_database((shift, (by, half))), unit or "-")
        if numeric:
            whole = f'update "{table}" set "{column}" = '
            yield Site("negate a column", name, "", _in_database((f'{whole} -"{column}"', ())), unit or "-")
            if unit is not None and unit not in _UNSCALED:
                for operator, factor in (
                    ("a thousand times too large", "* 1000"),
                    ("a thousand times too small", "/ 1000"),
                ):
                    yield Site(operator, name, "", _in_database((f'{whole} "{column}" {factor}', ())), unit)


def _database_losses(stored: _Stored) -> Iterator[Site]:
    """Yield the losses of rows of a table that has some."""
    table = stored.name
    middle = stored.rows[len(stored.rows) // 2][0]
    losses = {
        "all rows gone": "",
        "second half of the rows gone": f"where rowid >= {middle}",
        "first half of the rows gone": f"where rowid < {middle}",
        "every second row gone": "where rowid % 2 = 0",
    }
    for name, where in losses.items():
        if not where or len(stored.rows) > 1:
            yield Site(name, table, "", _in_database((f'delete from "{table}" {where}', ())))
    if not stored.keys:
        yield Site("every row twice", table, "", _in_database((f'insert into "{table}" select * from "{table}"', ())))


#: What a scalar of a summary file can hold.
_LARGEST_FLOAT = 3e38
#: What a column of SQLite can hold.
_LARGEST = (1 << 63) - 1
_PARTS = ("percent", "fraction")
_UNSCALED = ("1", "address", "cycle", *_PARTS)

#: Every operator that changes the inside of one file. Those that drop, rename or replace files are in run.py.
OPERATORS: tuple[Operator, ...] = (
    _value("zero a value", lambda value: Decimal(0)),
    _value("negate a value", lambda value: -value),
    _value("change a value by a tenth", _ten_percent),
    _value("NaN", lambda value: "NaN"),
    _value("Infinity", lambda value: "Infinity"),
    _wrong_type,
    _column("a thousand times too large", Decimal(1000), (), _UNSCALED),
    _column("a thousand times too small", Decimal("0.001"), (), _UNSCALED),
    _column("a hundred times too large", Decimal(100), _PARTS),
    _column("a hundred times too small", Decimal("0.01"), _PARTS),
    _drop_column,
    _rename_column,
    _exchange_names,
    _drop_rows("drop a row", events=False),
    _drop_rows("drop an event", events=True),
    _duplicate_rows("duplicate a row", events=False),
    _duplicate_rows("duplicate an event", events=True),
    _lose_rows,
    _exchange,
    _shift,
    _scale_rows,
    _swap_values,
    _drop_step,
    _drop_key,
    _truncate,
    _broken_text,
    _flip_bit,
    _stale,
    _record_sites,
    _database,
)


def sites_of(view: View) -> list[Site]:
    """Return every place of one file at which one of the operators applies, always in the same order."""
    return [site for operator in OPERATORS for site in operator(view)]
