"""Checks: queries that return the rows that break a rule, asked of all cycles of a batch at once.

A file of checks has queries with headers (`perfguard.dialects.headers`) that begin with `-- check:`. Keys of their own:

* `check` (its name; two queries may have one), `code`, `severity` (error where it is not there), `message` with `{columns}`;
* `where`: a condition, such as `level1`, that must not be off; `when`: conditions that must be known to be on;
* `in`: the slot, or the table of a database, whose rows its `row` counts, where that is not the trace; it must have been read;
* `at`: where in the document a finding is that names no row.

A query returns `cycle`, `row` where it knows one (and `path` where it is a part of a document, or of one in a cell), what its
message names, and where it differs from row to row `severity`, and `place`, the table that is meant instead of that after `in`.

Those of a user's project have codes of their own (U001), and are asked of tables with texts in place of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from string import Formatter
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.contract.conformity import shortened
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.headers import KEYS, Entry, HeadedQuery, Place, entries, place_of, words
from perfguard.dialects.queries import DIALECTS, folders_of, sql
from perfguard.errors import UsageError
from perfguard.findings import Code, Finding, OwnCode, Severity, code_named, is_code

if TYPE_CHECKING:
    from perfguard.artifacts.readable import Readable
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

_KEYS = frozenset((*KEYS, "check", "code", "severity", "message", "where", "when", "in", "at"))
_REQUIRED = ("check", "code", "message", "needs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(HeadedQuery):
    """One query with its header."""

    code: Code | OwnCode
    severity: Severity
    message: str
    where: str = ""
    when: frozenset[str] = frozenset()
    slot: str = ""
    at: str = ""

    def is_for(self, cycle: Cycle) -> bool:
        """Whether it is asked of a cycle."""
        # A class with slots is made anew, and `super()` knows the old one.
        return (
            HeadedQuery.is_for(self, cycle)
            and (self.is_own or self.place_in(cycle) is not None)
            and all(map(cycle.conditions.get, self.when))
            and (not self.where or cycle.conditions.get(self.where) is not False)
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


def parsed(text: str, name: str, *, own: bool = False) -> tuple[Check, ...]:
    """Return the checks of a file; `own` ones have a user's codes. Raises `UsageError` with file and line for a wrong one."""
    return tuple(_check(one, own=own) for one in entries(text, name, "check", _KEYS, _REQUIRED))


def _check(entry: Entry, *, own: bool) -> Check:
    header, place = entry.header, entry.place
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
        where=header.get("where", ""),
        when=words(header.get("when", "")),
        slot=header.get("in", ""),
        at=header.get("at", ""),
        **entry.common,
    )


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
        f"qualify row_number() over (partition by {apart} order by {order[2:] or 'cycle'}) <= {SHOWN_VIOLATIONS} "
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
