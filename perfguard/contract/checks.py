"""Checks: queries that return the rows that break a rule, run on all cycles of a batch at once.

A file of checks has queries with headers (`perfguard.dialects.headers`) that begin with `-- check:`. Keys of their own:

* `check` (its name; two queries may have one), `code`, `severity` (error where it is not there), `message` with `{columns}`;
* `where`: a condition, such as `level1`, that must not be off; `when`: conditions that must be known to be on;
* `in`: the slot, or the table of a database, that `row` refers to (default: the trace); its file must have been read;
* `at`: the place in the document of a finding without a row;
* `headline`: what is wrong, in a few words, where that of the code is not true of it;
* `invariant`: what the rule is an instance of, a row of the grid (`perfguard.contract.grid`), where its code does not say it.

A query returns `cycle`, optionally `row` (and `path` for a part of a document, or of a document in a cell), and the columns
that its message names. Optional columns: `severity`, and `place`, which overrides `in` for one row.

Users' checks have codes of their own (U001). They see the readable tables, which have texts in place of codes.
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
from perfguard.dialects.queries import DIALECTS, by_folder, sql
from perfguard.errors import UsageError, counted
from perfguard.findings import Code, Finding, OwnCode, Severity, code_named, is_code

if TYPE_CHECKING:
    from perfguard.artifacts.readable import Readable
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

_KEYS = frozenset((*KEYS, "check", "code", "severity", "message", "where", "when", "in", "at", "headline", "invariant"))
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
    #: Empty where that of the code is true of it.
    headline: str = ""
    #: A row of the grid; empty where the code says which.
    invariant: str = ""

    def is_for(self, cycle: Cycle) -> bool:
        """Whether the check applies to a cycle."""
        # A dataclass with slots is a new class, and `super()` refers to the old one.
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
        """The columns named in the message."""
        return frozenset(field for _, field, _, _ in Formatter().parse(self.message) if field is not None)

    def place_in(self, cycle: Cycle) -> Place | None:
        """Return the slot (and database table) that findings refer to, or None if its file was not read."""
        dialect = DIALECTS.get(cycle.layout.id)
        return place_of(self.slot or (dialect.slot if dialect is not None else ""), cycle)

    def message_of(self, row: Mapping[str, Any]) -> str:
        """Return the message for a row."""
        text = self.message.format_map({name: _NULL if value is None else value for name, value in row.items()})
        return shortened(text) if self.is_own else text


class _Null:
    """Formats a null value as `null`, whatever the format specification."""

    def __format__(self, form: str) -> str:
        return "null"


_NULL = _Null()


def parsed(text: str, name: str, *, own: bool = False) -> tuple[Check, ...]:
    """Return the checks of a file; `own` checks have user codes. Raises `UsageError` with file and line for a wrong one."""
    return tuple(_check(one, own=own) for one in entries(text, name, "check", _KEYS, _REQUIRED))


def _check(entry: Entry, *, own: bool) -> Check:
    header, place = entry.header, entry.place
    code = header["code"]
    if not is_code(code) or (code not in Code.__members__) != own or header.get("severity", "error") not in _SEVERITIES:
        codes = "U and three digits, such as U001" if own else "those of perfguard codes"
        raise UsageError(
            f"{place}: code {code!r} or severity {header.get('severity', 'error')!r} is unknown; codes are {codes}, "
            f"severities {', '.join(_SEVERITIES)}"
        )
    try:
        parts = [*Formatter().parse(header["message"])]
    except ValueError as error:
        raise UsageError(f"{place}: in a message {error}; write {{{{ and }}}} for braces.") from None
    for _, field, form, conversion in parts:
        if field is not None and (
            not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", field) or conversion or "{" in (form or "")
        ):
            raise UsageError(f"{place}: a message names columns in braces, and {field!r} is none")
        if not _FORM.fullmatch(form or ""):
            raise UsageError(
                f"{place}: a message formats a column as in {{{field}:.1f}}, with two digits of width or precision at most, "
                f"and {form!r} is no such format"
            )
    return Check(
        name=header["check"],
        code=code_named(code, f"not met: {header['check'].replace('_', ' ')}"),
        severity=_SEVERITIES[header.get("severity", "error")],
        message=header["message"],
        where=header.get("where", ""),
        when=words(header.get("when", "")),
        slot=header.get("in", ""),
        at=header.get("at", ""),
        headline=header.get("headline", ""),
        invariant=header.get("invariant", ""),
        **entry.common,
    )


_SEVERITIES = {one.value: one for one in Severity}
#: A format specification of Python that makes no long text of a short value: a width of a billion is a gigabyte.
_FORM = re.compile(r"(.?[<>=^])?[-+ ]?#?\d{0,2}[,_]?(\.\d{1,2})?[a-zA-Z%]?")


@cache
def checks_of(folder: str) -> tuple[Check, ...]:
    """Return the checks of a folder of queries, in their order."""
    return parsed(sql(folder, "checks"), f"{folder}/checks.sql")


def broken_rules(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, list[Finding]]:
    """Run the checks of the dialects on the cycles in the tables; return the findings by cycle number."""
    found: dict[int, list[Finding]] = {}
    for check, of_dialect in ((check, of) for folder, of in by_folder(cycles).items() for check in checks_of(folder)):
        concerned = {number: cycle for number, cycle in of_dialect.items() if check.is_for(cycle)}
        if concerned and check.has_rows(batch) and batch.is_any(check.query):
            for number, finding in findings_of(check, batch, concerned):
                found.setdefault(number, []).append(finding)
    return found


def findings_of(check: Check, tables: Batch | Readable, cycles: Mapping[int, Cycle]) -> Iterator[tuple[int, Finding]]:
    """Run a check on tables; yield each finding with the number of its cycle."""
    columns = [one["column_name"] for one in tables.rows(f"describe ({check.query}\n)")]
    # In a user's check `place` is a column like others.
    optional = ("severity",) if check.is_own else ("place", "severity")
    group = ", ".join(["cycle", *(one for one in optional if one in columns)])
    # Findings without a row are ordered by their columns.
    kept = ("file", "row") if "row" in columns else [name for name in columns if name not in ("cycle", "severity")]
    order = "".join(f', "{one}"' for one in kept if one in columns)
    query = (
        f"select *, count(*) over (partition by {group}) as in_all from ({check.query}\n) "
        # A row of another cycle is not asked for; one of none must not be lost.
        f"where cycle in ({', '.join(map(str, cycles))}) or cycle is null or cycle not in (select cycle from cycles) "
        f"qualify row_number() over (partition by {group} order by {order[2:] or 'cycle'}) <= {SHOWN_VIOLATIONS} "
        f"order by {group}{order}"
    )
    rows: dict[tuple[int, str, Severity], list[dict[str, Any]]] = {}
    for row in tables.rows(query):
        if row["cycle"] not in cycles:
            number = "null" if row["cycle"] is None else row["cycle"]
            raise UsageError(
                f"{check.place}: {check.name} returned a row whose cycle is {number}, and there is no such cycle, so it cannot "
                "be reported. Return the cycle of each row, as the tables have it."
            )
        severity = _SEVERITIES[row["severity"]] if "severity" in row else check.severity
        table = "" if check.is_own else row.get("place", "")
        rows.setdefault((row["cycle"], table, severity), []).append(row)
    for (number, table, severity), several in rows.items():
        cycle = cycles[number]
        where = place_of(table, cycle) if table else check.place_in(cycle)
        pairs = [(_place(cycle, where, check, row), check.message_of(row)) for row in several]
        count = several[0]["in_all"]
        whole = _place(cycle, where, replace(check, at=""), {**several[0], "row": None, "path": None})
        for finding in disagreements(check.code, pairs, count, whole, severity=severity):
            yield number, replace(finding, check=check.name, of_check=check.headline)


def _place(cycle: Cycle, where: Place | None, check: Check, columns: Mapping[str, Any]) -> str:
    """Return the place of a row that a query returned; a user's check may refer to no file."""
    if where is None:
        return cycle.place.name
    slot, inner = where
    row = columns.get("row")
    files = [one for one in cycle.files if one.slot.name == slot] or [cycle.artifacts[slot]]
    number = columns.get("file") or 0
    if not 0 <= number < len(files):
        raise UsageError(
            f"{check.place}: {check.name} returned a row of file {number}, and of {slot} there is {counted(len(files), 'file')}"
            ", and the first is 0. Return the file of each row, as the tables have it."
        )
    artifact = files[number]
    if inner:
        return f"{artifact.place} {inner}" + ("" if row is None else f"[{row}]")
    if columns.get("path") is not None and artifact.content.table is None:
        return f"{artifact.place} {columns['path']}"
    if row is None:
        return f"{artifact.place} {check.at}" if check.at else artifact.place
    if artifact.content.table is not None or artifact.content.tables or artifact.slot.format == "log":
        return f"{artifact.place}:{row}" + (f" {columns['path']}" if columns.get("path") is not None else "")
    return f"{artifact.place} {artifact.content.events_path}[{row}]"
