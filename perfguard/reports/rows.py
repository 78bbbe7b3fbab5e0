"""Rows of a query as a table, CSV or JSON, written one by one."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from types import SimpleNamespace
from typing import Any

from perfguard.reports.table import Column, Cut, table
from perfguard.screen import LOG, Screen, csv_cell, printable

#: Names and types of columns.
Columns = Sequence[tuple[str, str]]
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")
_SHORTEST_TEXT, _LONGEST_TEXT = 12, 70


def table_text(columns: Columns, rows: Iterable[Sequence[Any]], screen: Screen = LOG) -> str:
    """Return rows as a table that fits the screen; null is `-`."""
    shown = [
        Column(title=printable(name), align="right")
        if any(word in kind for word in _NUMBERS) and "[" not in kind
        else Column(title=printable(name), least=_SHORTEST_TEXT, most=_LONGEST_TEXT, cut=Cut.END)
        for name, kind in columns
    ]
    return table(shown, [["-" if cell is None else printable(_text(cell)) for cell in row] for row in rows], screen)


def csv_lines(columns: Columns, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield CSV, with the names of the columns first; nulls are empty, and no cell is a formula."""
    # `writerow` returns what `write` does: the line.
    writer = csv.writer(SimpleNamespace(write=str), lineterminator="\n")
    for row in chain([[name for name, _ in columns]], rows):
        yield str(writer.writerow([csv_cell(_text(cell)) for cell in row]))


def json_lines(columns: Columns, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield a JSON list, one object a line; the second column of one name gets a number."""
    names = unique([name for name, _ in columns])
    before = "[\n"
    for row in rows:
        found = {name: _plain(cell) for name, cell in zip(names, row, strict=True)}
        yield f"{before}  {json.dumps(found, allow_nan=False)}"
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def unique(names: Iterable[str]) -> list[str]:
    """Return names without duplicates: the second of one name gets a number."""
    found: dict[str, None] = {}
    for name in names:
        number, one = 1, name
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found[one] = None
    return list(found)


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return repr(cell)
    plain = _plain(cell)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(cell: Any) -> Any:
    """Return a value for JSON: NaN and infinity are null, bytes are hexadecimal, dates are strings."""
    if cell is None or isinstance(cell, (bool, int, str)):
        return cell
    if isinstance(cell, (float, Decimal)):
        return float(cell) if math.isfinite(cell) else None
    if isinstance(cell, Mapping):
        return {str(key): _plain(one) for key, one in cell.items()}
    if isinstance(cell, (list, tuple)):
        return [_plain(one) for one in cell]
    return cell.hex() if isinstance(cell, bytes) else str(cell)
