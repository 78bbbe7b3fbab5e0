"""Files of queries with headers: `checks.sql` and `metrics.sql`.

A file has one query after the other, each under a header of lines `-- key: value` whose first one names the query; a line
`--   ...` goes on with the one above. Keys that all have:

* `needs`: tables that must be there, `a, b`: both, `a | b`: one of them; that of a slot if its file was read, others if they
  have rows;
* `layouts`: the layouts it is run for, where not all; `files`: slots that must have been read;
* `each`: names, and several values for them (`part, whole = self_ns, total_ns; device_ns, total_ns`): the query is run once for
  each, with `{part}` replaced in it and in the rest of the header; `a | b` as a value stands for two rows, one with each;
* `about`, `tolerance` (exact, where not there), `source`: for people.

A query with the name of the one above is of the same rule: keys of `SHARED` that it does not have are those of that one, and of
`SHARED_BY_CODE` where its code is that one's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.columns import DATABASE, shapes_of, slot_names, slot_of_parts
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

#: Keys that every header can have.
KEYS = ("needs", "layouts", "files", "each", "about", "tolerance", "source")
#: Keys that queries of one rule share.
SHARED = ("code", "needs", "in", "layouts", "files", "source")
#: Keys that those with the same code share.
SHARED_BY_CODE = ("headline", "invariant")
#: A slot, and the name that a database has for one of its tables.
Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadedQuery:
    """One query with what all headers have; `place` is where it is written."""

    name: str
    #: Of each of these one table must have rows.
    needs: tuple[frozenset[str], ...]
    query: str
    layouts: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    about: str = ""
    tolerance: str = ""
    source: str = ""
    place: str
    #: The line on which its query begins.
    line: int = 0

    def has_rows(self, batch: Batch) -> bool:
        """Whether its tables have rows; fills those that follow from others, unless one before them has no row."""
        return all(_has_any(tables, batch) for tables in self.needs)

    def is_for(self, cycle: Cycle) -> bool:
        """Whether it runs for a cycle."""
        is_of_layout = not self.layouts or cycle.layout.id in self.layouts
        return is_of_layout and self.files <= cycle.artifacts.keys() and self._are_read(cycle)

    def _are_read(self, cycle: Cycle) -> bool:
        return all(
            any(not is_of_a_slot(one) or place_of(one, cycle) is not None for one in tables) for tables in self.needs
        )


def _has_any(tables: frozenset[str], batch: Batch) -> bool:
    if any(one in batch.filled or is_of_a_slot(one) for one in tables):
        return True
    batch.keep(tables)
    return not batch.filled.isdisjoint(tables)


def is_of_a_slot(table: str) -> bool:
    """Whether a table is that of a slot, or of a database or a document in one."""
    return table.startswith(DATABASE) or table in slot_names() or bool(slot_of_parts(table))


def place_of(table: str, cycle: Cycle) -> Place | None:
    """Return where the rows of a slot's or a database's table come from in a cycle; None where no such file was read."""
    if not table.startswith(DATABASE):
        slot = table if table in slot_names() else slot_of_parts(table)
        return (slot, "") if slot in cycle.artifacts else None
    shapes = ((slot, shape) for slot in cycle.artifacts for shape in shapes_of(slot) if shape.name == table)
    found = ((slot, shape.inner) for slot, shape in shapes)
    return next((one for one in found if one[1] in cycle.artifacts[one[0]].content.tables), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file: its header, and what every query has of it."""

    header: Mapping[str, str]
    place: str
    common: Mapping[str, Any]


def entries(text: str, file: str, kind: str, keys: frozenset[str], required: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries of a file whose headers begin with the key `kind`. Raises `UsageError` with file and line for a wrong
    one."""
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.startswith(f"-- {kind}:")]
    above: dict[str, str] = {}
    for begin, end in pairwise([*begins, len(lines)]):
        place = f"{file}:{begin + 1}"
        header, count = _header(lines[begin:end], place, kind, keys)
        if header[kind] == above.get(kind) and "{" not in header[kind]:
            shared = (
                SHARED if header.get("code", above.get("code")) != above.get("code") else (*SHARED, *SHARED_BY_CODE)
            )
            header = {**{key: above[key] for key in shared if key in above}, **header}
        above = dict(header)
        query = "\n".join(lines[begin + count : end])
        for pairs in _each(header.pop("each", ""), place):
            replaced = {key: _replaced(value, pairs) for key, value in header.items()}
            if missing := [one for one in required if not replaced.get(one)]:
                raise UsageError(f"{place}: the header of a {kind} has no {', '.join(missing)}")
            first = begin + 1 + count + next((at for at, line in enumerate(query.split("\n")) if line.strip()), 0)
            yield Entry(header=replaced, place=place, common=_common(replaced, _replaced(query, pairs), place, first))


def _common(header: Mapping[str, str], query: str, place: str, line: int) -> dict[str, Any]:
    return {
        "needs": tuple(frozenset(re.split(r"\s*\|\s*", one.strip())) for one in header["needs"].split(",")),
        "query": query.strip().rstrip(";"),
        "layouts": words(header.get("layouts", "")),
        "files": words(header.get("files", "")),
        **{name: header.get(name, "") for name in ("about", "tolerance", "source")},
        "place": place,
        "line": line,
    }


def words(text: str) -> frozenset[str]:
    """Return the words of a text, between commas and blanks."""
    return frozenset(filter(None, re.split(r"[\s,]+", text)))


def _each(text: str, place: str) -> list[list[tuple[str, str]]]:
    """Return the values that a header has for some names, with these; one time none where it has none."""
    if not text:
        return [[]]
    names, equals, rows = text.partition("=")
    keys = [f"{{{one.strip()}}}" for one in names.split(",")]
    cells = [[[one.strip() for one in cell.split(" | ")] for cell in row.split(",")] for row in rows.split(";")]
    values = [list(row) for alternatives in cells for row in product(*alternatives)]
    if not equals or any(len(row) != len(keys) for row in values):
        raise UsageError(f"{place}: `each` is `name, name = value, value; value, value`: {text!r}")
    return [list(zip(keys, row, strict=True)) for row in values]


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for name, value in pairs:
        text = text.replace(name, value)
    return text


def _header(lines: Sequence[str], place: str, kind: str, keys: frozenset[str]) -> tuple[dict[str, str], int]:
    """Return the header of a query, and how many lines it has."""
    header: dict[str, str] = {}
    key = ""
    count = 0
    for line in lines:
        if not line.startswith("--"):
            break
        count += 1
        if key and line.startswith("--   "):
            header[key] += f" {line[2:].strip()}"
            continue
        key, colon, value = (part.strip() for part in line[2:].partition(":"))
        if not colon or key not in keys or key in header:
            known = ", ".join(sorted(keys))
            raise UsageError(
                f"{place}: a line of a {kind}'s header is `-- key: value`, each key once ({known}): {line!r}"
            )
        header[key] = value
    return header, count
