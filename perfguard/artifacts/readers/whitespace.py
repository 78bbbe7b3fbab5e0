"""Tables of MindSpore 1.x to 2.4 that are separated by blanks.

Source: MindSpore 2.0 source: common/util.py (fwrite_format), optime_parser.py, hwts_log_parser.py, aicpu_data_parser.py,
flops_parser.py; read on real output of 1.x (mindinsight test data).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import MAX_COLUMNS, Content, numbered_lines, refuse_repeated_names, text_table
from perfguard.artifacts.schema import is_table, row_schema
from perfguard.artifacts.table import Table, Unreadable, number_of

#: `====op compute time====` above a table, `-----  -----` below its header.
_TITLE = "===="
_RULER = re.compile(r"-+(?:[ \t]+-+)*")
_WORD = re.compile(r"\S+")
#: `Detail:` between two tables.
_HEADING = re.compile(r"[A-Za-z]+:")


def read_whitespace(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a table whose cells are separated by blanks.

    Titles in `====`, rulers of `----`, and blank lines are left out. The first line is the header, unless one of its cells is a
    number: then the columns are the schema's, in order. A cell may hold blanks where the schema says which text it is: column
    names, values of an `enum`, and `x-total`, the text that begins the last row together with the columns it fills (the
    others are blank there). A schema of type object names several tables; each begins with its header.

    Raises `Unreadable` for an empty file, a last line that is cut off, and a row with more or fewer cells than its header.
    """
    stripped = ((number, line.strip(" \t\r")) for number, line in numbered_lines(path))
    lines = ((number, line) for number, line in stripped if line and not _is_ornament(line))
    if is_table(schema) or "properties" not in schema:
        return Content(table=_read_section(lines, _rules(schema)))
    return _read_sections(list(lines), schema)


def read_columns(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read rows of cells with blanks between them; the schema's properties, in their order, are the columns.

    A first line that consists of these names is a header and no row. Where the first line has fewer cells the last
    columns are absent, where it has more they are called `column 6` and so on, so that the schema can say so. Raises
    `Unreadable` for an empty or cut off file, a blank line, and a line whose number of cells is not the first one's.
    Source: MindSpore 2.0, `device_queue_profiling` and `minddata_aicpu` (which has its header in some versions only).
    """
    names = list(row_schema(schema)["properties"]) if schema else []
    rows = ((number, line.split()) for number, line in numbered_lines(path))
    begin = next(rows)
    first = next(rows, None) if begin[1] == names else begin
    number, cells = first or begin
    width = len(cells)
    if width > MAX_COLUMNS:
        raise Unreadable(f"its first line has {width} cells, more than {MAX_COLUMNS}", f":{number}")
    columns = [*names[:width], *(f"column {at}" for at in range(len(names) + 1, width + 1))]
    return Content(table=text_table(_of_width(chain([first], rows) if first else (), width), columns))


def _of_width(rows: Iterable[tuple[int, list[str]]], width: int) -> Iterator[tuple[int, list[str]]]:
    for number, row in rows:
        if len(row) != width or not row:
            raise Unreadable(
                f"the line has {len(row)} cells, the first one {width}: {' '.join(row)[:120]!r}", f":{number}"
            )
        yield number, row


def _is_ornament(line: str) -> bool:
    is_title = len(line) >= 2 * len(_TITLE) and line.startswith(_TITLE) and line.endswith(_TITLE)
    return is_title or _RULER.fullmatch(line) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What the schema says about cutting the lines of one table: column names, enums by column, the total row."""

    names: Sequence[str] = ()
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    total: str = ""
    total_columns: Sequence[str] = ()


def _rules(schema: Mapping[str, Any]) -> _Rules:
    if not is_table(schema):
        return _Rules()
    properties: Mapping[str, Any] = row_schema(schema).get("properties", {})
    total: Mapping[str, Any] = schema.get("x-total", {})
    return _Rules(
        names=tuple(properties),
        enums={
            name: tuple(sorted((text for text in part["enum"] if isinstance(text, str)), key=len, reverse=True))
            for name, part in properties.items()
            if "enum" in part
        },
        total=total.get("text", ""),
        total_columns=tuple(total.get("columns", ())),
    )


def _read_section(lines: Iterable[tuple[int, str]], rules: _Rules) -> Table:
    body = iter(lines)
    number, first = next(body, (1, ""))
    if not first:
        raise Unreadable("it has no header line", ":1")
    header = _cut(first, rules.names)
    if any(number_of(cell) is not None for cell in header):
        cells = _row(first, rules.names, rules)
        if len(cells) > len(rules.names):
            raise Unreadable(f"the row has {len(cells)} cells and no header", f":{number}")
        header, body = list(rules.names[: len(cells)]), chain([(number, first)], body)
    if len(header) > MAX_COLUMNS:
        raise Unreadable(f"its header has {len(header)} columns, more than {MAX_COLUMNS}", f":{number}")
    refuse_repeated_names(header, f":{number}")

    def rows() -> Iterator[tuple[int, list[str]]]:
        for at, line in body:
            cells = _row(line, header, rules)
            if len(cells) != len(header):
                raise Unreadable(f"the row has {len(cells)} cells, the header {len(header)}: {line[:120]!r}", f":{at}")
            yield at, cells

    return text_table(rows(), header)


def _read_sections(lines: Sequence[tuple[int, str]], schema: Mapping[str, Any]) -> Content:
    """Cut a file of several tables where the header of the next one begins."""
    if not lines:
        raise Unreadable("it has no header line", ":1")
    rules = {name: _rules(part) for name, part in schema["properties"].items()}
    begins: dict[str, int] = {}
    for index, (_, line) in enumerate(lines):
        name = next((n for n, r in rules.items() if n not in begins and line.split()[0] == r.names[0]), None)
        if name is not None:
            begins[name] = index
    if not begins or min(begins.values()) > 0:
        raise Unreadable(f"no table of it begins here: {lines[0][1][:120]!r}", f":{lines[0][0]}")
    if absent := [name for name in schema.get("required", ()) if name not in begins]:
        header = " ".join(rules[absent[0]].names)
        raise Unreadable(f"it has no table {absent[0]}, which begins with {header!r}", f":{lines[-1][0]}")
    ends = [*sorted(begins.values())[1:], len(lines)]
    tables = {}
    for (name, start), end in zip(sorted(begins.items(), key=lambda one: one[1]), ends, strict=True):
        body = [lines[start], *(one for one in lines[start + 1 : end] if not _HEADING.fullmatch(one[1]))]
        tables[name] = _read_section(body, rules[name])
    return Content(tables=tables)


def _row(line: str, header: Sequence[str], rules: _Rules) -> list[str]:
    if rules.total and line.startswith(rules.total):
        cells = [rules.total, *line[len(rules.total) :].split()]
        filled = [name for name in rules.total_columns if name in header]
        if len(cells) == len(filled):
            known = dict(zip(filled, cells, strict=True))
            return [known.get(name, "") for name in header]
    if not any(name in rules.enums for name in header):
        return line.split()
    texts = [rules.enums.get(name, ()) for name in header]
    return list(_cells(line, lambda column: texts[column] if column < len(texts) else ()))


def _cut(line: str, names: Sequence[str]) -> list[str]:
    """Cut a header into columns: the names that are known, whatever blanks they hold, and what stands between blanks."""
    longest_first = sorted(names, key=len, reverse=True)
    return list(_cells(line, lambda column: longest_first))


def _cells(line: str, known: Callable[[int], Sequence[str]]) -> Iterator[str]:
    """Yield the cells of a line: one of the texts that are known for its column, or what stands between blanks."""
    at = column = 0
    while word := _WORD.search(line, at):
        at = word.start()
        texts = (text for text in known(column) if line.startswith(text, at))
        cell = next((text for text in texts if line[at + len(text) : at + len(text) + 1] in ("", " ", "\t")), word[0])
        yield cell
        at += len(cell)
        column += 1
