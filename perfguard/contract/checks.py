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

A query returns `cycle`, `row` where it knows one (and `path` where it is a part of a document, or of one in a cell), what its
message names, and where it differs from row to row `severity`, and `place`, the table that is meant instead of that after `in`.

Those of a user's project have codes of their own (U001), and are asked of tables with texts in place of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from string import Formatter
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.columns import DATABASE, shapes_of, slot_names, slot_of_parts
from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.contract.conformity import shortened
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.queries import DIALECTS, folders_of, sql
from perfguard.errors import UsageError
from perfguard.findings import Code, Finding, OwnCode, Severity, code_named, is_code

if TYPE_CHECKING:
    from perfguard.artifacts.readable import Readable
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

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
    code: Code | OwnCode
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
    #: The line on which its query begins.
    line: int = 0

    @property
    def names(self) -> frozenset[str]:
        """The tables that it needs."""
        return frozenset().union(*self.needs)

    def is_asked(self, filled: set[str]) -> bool:
        """Whether there is anything to ask it of."""
        return all(any(one in filled or is_of_a_slot(one) for one in tables) for tables in self.needs)

    def is_for(self, cycle: Cycle) -> bool:
        """Whether it is asked of a cycle."""
        is_of_layout = not self.layouts or cycle.layout.id in self.layouts
        is_read = self.is_own or self.place_in(cycle) is not None
        are_read = is_read and self.files <= cycle.artifacts.keys() and self._are_read(cycle)
        are_on = all(map(cycle.conditions.get, self.when)) and (
            not self.where or cycle.conditions.get(self.where) is not False
        )
        return is_of_layout and are_read and are_on

    def _are_read(self, cycle: Cycle) -> bool:
        return all(
            any(not is_of_a_slot(one) or place_of(one, cycle) is not None for one in tables) for tables in self.needs
        )

    @property
    def is_own(self) -> bool:
        """Whether the user wrote it."""
        return isinstance(self.code, OwnCode)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that its message names."""
        return frozenset(field for _, field, _, _ in Formatter().parse(self.message) if field is not None)

    def place_in(self, cycle: Cycle) -> Place | None:
        """Return the slot of the file whose rows are meant, and the table of a database; None where it was not read."""
        dialect = DIALECTS.get(cycle.layout.id)
        return place_of(self.slot or (dialect.slot if dialect is not None else ""), cycle)

    def worded(self, row: Mapping[str, Any]) -> str:
        """Return the message for a row."""
        told = self.message.format_map({name: _NULL if value is None else value for name, value in row.items()})
        return shortened(told) if self.is_own else told


class _Null:
    """What a message has where a value is null, whatever format it has for it."""

    def __format__(self, form: str) -> str:
        return "null"


_NULL = _Null()


#: A slot, and the name that a database has for one of its tables.
Place = tuple[str, str]


def is_of_a_slot(table: str) -> bool:
    """Whether a table is that of a slot, or of a part of its files."""
    return table.startswith(DATABASE) or table in slot_names() or bool(slot_of_parts(table))


def place_of(table: str, cycle: Cycle) -> Place | None:
    """Return where the rows of a slot's or a database's table come from in a cycle; None where no such file was read."""
    if not table.startswith(DATABASE):
        slot = table if table in slot_names() else slot_of_parts(table)
        return (slot, "") if slot in cycle.artifacts else None
    shapes = ((slot, shape) for slot in cycle.artifacts for shape in shapes_of(slot) if shape.name == table)
    found = ((slot, shape.inner) for slot, shape in shapes)
    return next((one for one in found if one[1] in cycle.artifacts[one[0]].content.tables), None)


def parsed(text: str, name: str, *, own: bool = False) -> tuple[Check, ...]:
    """Return the checks of a file; `own` ones have a user's codes. Raises `UsageError` with file and line for a wrong one."""
    found = []
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.startswith("-- check:")]
    for begin, end in pairwise([*begins, len(lines)]):
        header, count = _header(lines[begin:end], f"{name}:{begin + 1}")
        query = "\n".join(lines[begin + count : end])
        for pairs in _each(header.pop("each", ""), f"{name}:{begin + 1}"):
            replaced = {key: _replaced(value, pairs) for key, value in header.items()}
            found.append(_check(replaced, _replaced(query, pairs), name, begin + 1, count, own=own))
    return tuple(found)


def _each(text: str, place: str) -> list[list[tuple[str, str]]]:
    """Return the values that a header has for some names, with these; one time none where it has none."""
    if not text:
        return [[]]
    names, equals, rows = text.partition("=")
    keys = [f"{{{one.strip()}}}" for one in names.split(",")]
    values = [[one.strip() for one in row.split(",")] for row in rows.split(";")]
    if not equals or any(len(row) != len(keys) for row in values):
        raise UsageError(f"{place}: `each` is `name, name = value, value; value, value`: {text!r}")
    return [list(zip(keys, row, strict=True)) for row in values]


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for name, value in pairs:
        text = text.replace(name, value)
    return text


def _header(lines: Sequence[str], place: str) -> tuple[dict[str, str], int]:
    """Return the header of a check, and how many lines it has."""
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
    return header, count


def _check(header: Mapping[str, str], query: str, file: str, first: int, count: int, *, own: bool) -> Check:
    place = f"{file}:{first}"
    if missing := [one for one in _REQUIRED if not header.get(one)]:
        raise UsageError(f"{place}: the header of a check has no {', '.join(missing)}")
    code = header["code"]
    if not is_code(code) or (code not in Code.__members__) != own or header.get("severity", "error") not in _SEVERITIES:
        codes = "U and three digits, such as U001" if own else "those of perfguard codes"
        raise UsageError(
            f"{place}: code {code!r}, severity {header.get('severity', 'error')!r} are not both known; codes are {codes}, "
            f"severities {', '.join(_SEVERITIES)}"
        )
    for _, field, form, conversion in Formatter().parse(header["message"]):
        if field is not None and (
            not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", field) or conversion or "{" in (form or "")
        ):
            raise UsageError(f"{place}: a message names columns in braces, and {field!r} is none")
    return Check(
        name=header["check"],
        code=code_named(code, f"not met: {header['check'].replace('_', ' ')}"),
        severity=_SEVERITIES[header.get("severity", "error")],
        message=header["message"],
        needs=tuple(frozenset(re.split(r"\s*\|\s*", one.strip())) for one in header["needs"].split(",")),
        layouts=_words(header.get("layouts", "")),
        files=_words(header.get("files", "")),
        where=header.get("where", ""),
        when=_words(header.get("when", "")),
        slot=header.get("in", ""),
        query=query.strip().rstrip(";"),
        at=header.get("at", ""),
        about=header.get("about", ""),
        tolerance=header.get("tolerance", ""),
        source=header.get("source", ""),
        place=place,
        line=first + count + next((at for at, line in enumerate(query.split("\n")) if line.strip()), 0),
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
        if not asked:
            continue
        batch.keep(check.names)
        if check.is_asked(batch.filled) and batch.is_any(check.query):
            for number, finding in findings_of(check, batch, asked):
                found.setdefault(number, []).append(finding)
    return found


def findings_of(check: Check, tables: Batch | Readable, cycles: Mapping[int, Cycle]) -> Iterator[tuple[int, Finding]]:
    """Ask a check of tables; yield what it says of the cycles, with their numbers."""
    columns = [one["column_name"] for one in tables.rows(f"describe ({check.query}\n)")]
    # In a user's check `place` is a column like others.
    told = ("severity",) if check.is_own else ("place", "severity")
    apart = ", ".join(["cycle", *(one for one in told if one in columns)])
    # What names no row comes in the order of what it says.
    kept = ("file", "row") if "row" in columns else [name for name in columns if name not in ("cycle", "severity")]
    order = "".join(f', "{one}"' for one in kept if one in columns)
    query = (
        f"select *, count(*) over (partition by {apart}) as in_all from ({check.query}\n) "
        f"where cycle in ({', '.join(map(str, cycles))}) "
        f"qualify row_number() over (partition by {apart} order by {order[2:] or 'cycle'}) <= {WORDED_ROWS} "
        f"order by {apart}{order}"
    )
    rows: dict[tuple[int, str, Severity], list[dict[str, Any]]] = {}
    for row in tables.rows(query):
        severity = _SEVERITIES[row["severity"]] if "severity" in row else check.severity
        table = "" if check.is_own else row.get("place", "")
        rows.setdefault((row["cycle"], table, severity), []).append(row)
    for (number, table, severity), several in rows.items():
        cycle = cycles[number]
        where = place_of(table, cycle) if table else check.place_in(cycle)
        pairs = [(_place(cycle, where, check, row), check.worded(row)) for row in several]
        count = several[0]["in_all"]
        whole = _place(cycle, where, replace(check, at=""), {**several[0], "row": None, "path": None})
        for finding in disagreements(check.code, pairs, count=count, place=whole, severity=severity):
            yield number, replace(finding, check=check.name)


def _place(cycle: Cycle, where: Place | None, check: Check, columns: Mapping[str, Any]) -> str:
    """Say where a row that a query returned is; a user's check may be of no file."""
    if where is None:
        return cycle.place.name
    slot, inner = where
    row = columns.get("row")
    files = [one for one in cycle.files if one.slot.name == slot] or [cycle.artifacts[slot]]
    artifact = files[columns.get("file") or 0]
    if inner:
        return f"{artifact.place} {inner}" + ("" if row is None else f"[{row}]")
    if columns.get("path") is not None and artifact.content.table is None:
        return f"{artifact.place} {columns['path']}"
    if row is None:
        return f"{artifact.place} {check.at}" if check.at else artifact.place
    if artifact.content.table is not None:
        return f"{artifact.place}:{row}" + (f" {columns['path']}" if columns.get("path") is not None else "")
    return f"{artifact.place} {artifact.content.events_path}[{row}]"
