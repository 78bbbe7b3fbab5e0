"""Checks: queries that return the rows that break a rule, asked of all cycles of a batch at once.

A file of checks has one query after the other, each under a header of lines `-- key: value` that begins with `-- check:`; a
line `--   ...` goes on with the one above. Keys:

* `check` (its name; two queries may have one), `code`, `severity` (error where it is not there), `message` with `{columns}`;
* `needs`: tables that must be there, `a, b`: both, `a | b`: one of them; that of a slot if its file was read, others if they
  have rows;
* `layouts`: the layouts of which it is asked, where not of all; `where`: a condition, such as `level1`, that must not be off;
  `when`: conditions that must be known to be on;
* `files`: slots that must have been read, besides that of the file whose rows are meant;
* `in`: the slot, or the table of a database, whose rows its `row` counts, where that is not the trace;
* `each`: names, and several values for them (`part, whole = self_ns, total_ns; device_ns, total_ns`): the query is run once for
  each, with `{part}` replaced in it and in the rest of the header;
* `at`: where in the document a finding is that names no row; `about`, `tolerance`, `source`: for people.

A query returns `cycle`, `row` where it knows one, what its message names, and where it differs from row to row `severity`, and
`place`, the table that is meant instead of that after `in`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from string import Formatter
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.columns import DATABASE, shapes_of, slot_names
from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.queries import DIALECTS, folders_of, sql
from perfguard.errors import UsageError
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Artifact, Cycle

_KEYS = frozenset(
    (
        "check",
        "code",
        "severity",
        "message",
        "needs",
        "layouts",
        "where",
        "when",
        "files",
        "each",
        "in",
        "at",
        "about",
        "tolerance",
        "source",
    )
)
_REQUIRED = ("check", "code", "message", "needs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One query with its header, and the line on which it begins."""

    name: str
    code: Code
    severity: Severity
    message: str
    #: Of each of these one table must have rows.
    needs: tuple[frozenset[str], ...]
    query: str
    layouts: frozenset[str] = frozenset()
    where: str = ""
    when: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    slot: str = ""
    at: str = ""
    about: str = ""
    tolerance: str = ""
    source: str = ""
    place: str

    def is_asked(self, filled: set[str]) -> bool:
        """Whether there is anything to ask it of."""
        return all(any(one in filled or is_of_a_slot(one) for one in tables) for tables in self.needs)

    def is_for(self, cycle: Cycle) -> bool:
        """Whether it is asked of a cycle."""
        is_of_layout = not self.layouts or cycle.layout.id in self.layouts
        are_read = self.place_in(cycle) is not None and self.files <= cycle.artifacts.keys() and self._are_read(cycle)
        are_on = all(map(cycle.conditions.get, self.when)) and (
            not self.where or cycle.conditions.get(self.where) is not False
        )
        return is_of_layout and are_read and are_on

    def _are_read(self, cycle: Cycle) -> bool:
        return all(
            any(not is_of_a_slot(one) or place_of(one, cycle) is not None for one in tables) for tables in self.needs
        )

    def place_in(self, cycle: Cycle) -> Place | None:
        """Return the slot of the file whose rows are meant, and the table of a database; None where it was not read."""
        return place_of(self.slot or DIALECTS[cycle.layout.id].slot, cycle)

    def worded(self, row: Mapping[str, Any]) -> str:
        """Return the message for a row."""
        return self.message.format_map({name: _NULL if value is None else value for name, value in row.items()})


class _Null:
    """What a message has where a value is null, whatever format it has for it."""

    def __format__(self, form: str) -> str:
        return "null"


_NULL = _Null()


#: A slot, and the name that a database has for one of its tables.
Place = tuple[str, str]


def is_of_a_slot(table: str) -> bool:
    """Whether a table is that of a slot, or of a database in one."""
    return table.startswith(DATABASE) or table in slot_names()


def place_of(table: str, cycle: Cycle) -> Place | None:
    """Return where the rows of a slot's or a database's table come from in a cycle; None where no such file was read."""
    if not table.startswith(DATABASE):
        return (table, "") if table in cycle.artifacts else None
    shapes = ((slot, shape) for slot in cycle.artifacts for shape in shapes_of(slot) if shape.name == table)
    found = ((slot, shape.inner) for slot, shape in shapes)
    return next((one for one in found if one[1] in cycle.artifacts[one[0]].content.tables), None)


def parsed(text: str, name: str) -> tuple[Check, ...]:
    """Return the checks of a file. Raises `UsageError` with file and line for a header that is none."""
    found = []
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.startswith("-- check:")]
    for begin, end in pairwise([*begins, len(lines)]):
        place = f"{name}:{begin + 1}"
        header, query = _header(lines[begin:end], place)
        found += [
            _check({key: _replaced(value, pairs) for key, value in header.items()}, _replaced(query, pairs), place)
            for pairs in _each(header.pop("each", ""), place)
        ]
    return tuple(found)


def _each(text: str, place: str) -> list[list[tuple[str, str]]]:
    """Return the values that a header has for some names, with these; one time none where it has none."""
    if not text:
        return [[]]
    names, equals, rows = text.partition("=")
    keys = [f"{{{one.strip()}}}" for one in names.split(",")]
    values = [[one.strip() for one in row.split(",")] for row in rows.split(";")]
    if not equals or any(len(row) != len(keys) or not all(row) for row in values):
        raise UsageError(f"{place}: `each` is `name, name = value, value; value, value`: {text!r}")
    return [list(zip(keys, row, strict=True)) for row in values]


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for name, value in pairs:
        text = text.replace(name, value)
    return text


def _header(lines: Sequence[str], place: str) -> tuple[dict[str, str], str]:
    """Return the keys of a header with their values, and the query below it."""
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
        if not colon or key not in _KEYS or key in header:
            known = ", ".join(sorted(_KEYS))
            raise UsageError(
                f"{place}: a line of a check's header is `-- key: value`, each key once ({known}): {line!r}"
            )
        header[key] = value
    return header, "\n".join(lines[count:]).strip().rstrip(";")


def _check(header: Mapping[str, str], query: str, place: str) -> Check:
    if missing := [one for one in _REQUIRED if not header.get(one)]:
        raise UsageError(f"{place}: the header of a check has no {', '.join(missing)}")
    if header["code"] not in Code.__members__ or header.get("severity", "error") not in _SEVERITIES:
        raise UsageError(
            f"{place}: code {header['code']!r}, severity {header.get('severity', 'error')!r} are not both known"
        )
    for _, field, form, conversion in Formatter().parse(header["message"]):
        if field is not None and (not re.fullmatch(r"[a-z_]+", field) or conversion or "{" in (form or "")):
            raise UsageError(f"{place}: a message names columns in braces, and {field!r} is none")
    return Check(
        name=header["check"],
        code=Code[header["code"]],
        severity=_SEVERITIES[header.get("severity", "error")],
        message=header["message"],
        needs=tuple(frozenset(re.split(r"\s*\|\s*", one.strip())) for one in header["needs"].split(",")),
        layouts=_words(header.get("layouts", "")),
        files=_words(header.get("files", "")),
        where=header.get("where", ""),
        when=_words(header.get("when", "")),
        slot=header.get("in", ""),
        query=query,
        at=header.get("at", ""),
        about=header.get("about", ""),
        tolerance=header.get("tolerance", ""),
        source=header.get("source", ""),
        place=place,
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(filter(None, re.split(r"[\s,]+", text)))


_SEVERITIES = {one.value: one for one in Severity}


@cache
def checks_of(folder: str) -> tuple[Check, ...]:
    """Return the checks of a folder of queries, in their order."""
    return parsed(sql(folder, "checks"), f"{folder}/checks.sql")


def broken_rules(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, list[Finding]]:
    """Ask the checks of their dialects of the cycles in the tables, by their numbers; return what they say of each."""
    found: dict[int, list[Finding]] = {}
    folders = (folder for cycle in cycles.values() for folder in folders_of(cycle.layout.id))
    for check in (check for folder in dict.fromkeys(folders) for check in checks_of(folder)):
        asked = {number: cycle for number, cycle in cycles.items() if check.is_for(cycle)}
        if asked and check.is_asked(batch.filled) and batch.is_any(check.query):
            for number, finding in _findings(batch, check, asked):
                found.setdefault(number, []).append(replace(finding, check=check.name))
    return found


def _findings(batch: Batch, check: Check, cycles: Mapping[int, Cycle]) -> Iterator[tuple[int, Finding]]:
    columns = {one["column_name"] for one in batch.rows(f"describe (\n{check.query}\n)")}
    apart = ", ".join(["cycle", *(one for one in ("place", "severity") if one in columns)])
    order = "".join(f", {one}" for one in ("file", "row") if one in columns)
    query = (
        f"select *, count(*) over (partition by {apart}) as in_all from (\n{check.query}\n) "
        f"where cycle in ({', '.join(map(str, cycles))}) "
        f"qualify row_number() over (partition by {apart} order by {order[2:] or 'cycle'}) <= {WORDED_ROWS} "
        f"order by {apart}{order}"
    )
    rows: dict[tuple[int, str, Severity], list[dict[str, Any]]] = {}
    for row in batch.rows(query):
        severity = _SEVERITIES[row["severity"]] if "severity" in row else check.severity
        rows.setdefault((row["cycle"], row.get("place", ""), severity), []).append(row)
    for (number, table, severity), several in rows.items():
        cycle = cycles[number]
        place = place_of(table, cycle) if table else check.place_in(cycle)
        assert place is not None
        slot, inner = place
        files = [one for one in cycle.files if one.slot.name == slot] or [cycle.artifacts[slot]]
        pairs = [
            (_place(files[row.get("file", 0)], inner, check, row.get("row")), check.worded(row)) for row in several
        ]
        count = several[0]["in_all"]
        whole = _place(files[several[0].get("file", 0)], inner, replace(check, at=""), None)
        for finding in disagreements(check.code, pairs, count=count, place=whole, severity=severity):
            yield number, finding


def _place(artifact: Artifact, inner: str, check: Check, row: int | None) -> str:
    if inner:
        return f"{artifact.place} {inner}" + ("" if row is None else f"[{row}]")
    if row is None:
        return f"{artifact.place} {check.at}" if check.at else artifact.place
    if artifact.content.table is not None:
        return f"{artifact.place}:{row}"
    return f"{artifact.place} {artifact.content.events_path}[{row}]"
