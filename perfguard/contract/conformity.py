"""Conformity: findings about files that violate their schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from perfguard.artifacts.readers import NO_DOCUMENT, Content
from perfguard.artifacts.schema import SHOWN_VIOLATIONS, RowSchema, documents_in_cells, row_schema, unnamed_columns
from perfguard.artifacts.table import Cells, Table
from perfguard.dialects.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity
from perfguard.validator import Validator

if TYPE_CHECKING:
    from jsonschema import ValidationError

_LONGEST_MESSAGE = 300


def content_findings(content: Content, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Yield the schema violations of a file that was read."""
    if not rules:
        return
    yield from document_findings(content, rules, place)
    if content.table is not None:
        row = row_schema(rules)
        broken_header = list(header_findings(content.table, row, place))
        yield from broken_header
        if not lost_from_header(content.table, row):
            yield from row_findings(content.table, row, rules, place)
    for name in rules.get("required", ()) if content.tables else ():
        if name not in content.tables:
            yield Finding(code=Code.S102, place=place, message=f"table {name!r} is missing")
    for name, table in content.tables.items():
        row = row_schema(rules["properties"][name])
        lost = _lost_columns(table, row)
        for column in lost:
            yield Finding(code=Code.S102, place=f"{place} {name}", message=f"column {column!r} is missing")
        row = {**row, "required": [column for column in row.get("required", ()) if column not in lost]}
        yield from header_findings(table, row, place)
        yield from row_findings(table, row, rules, place)


def document_findings(content: Content, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Yield the schema violations of a document; its rows are checked as columns by `row_findings`."""
    document = content.document
    if content.table is not None and content.table.cells is Cells.JSON:
        # Rows are checked as columns; only the document around them is validated here.
        document = {**document, "traceEvents": []} if content.table.path != "$" else []
    elif content.event_schema is not None:
        document = {**document, "traceEvents": []} if content.events_path != "$" else []
    if document is NO_DOCUMENT or content.tables:
        return
    unknown: dict[str, str] = {}
    errors: list[ValidationError] = []
    for error in Validator(rules).errors(document):
        if (
            error.validator == "additionalProperties"
            and isinstance(error.schema, Mapping)
            and error.validator_value is False
        ):
            for key in unnamed_columns(cast("Mapping[str, Any]", error.instance), error.schema):
                unknown.setdefault(key, f"{place} {error.json_path}")
        elif len(errors) > SHOWN_VIOLATIONS:
            break
        else:
            errors.append(error)
    for error in sorted(errors[:SHOWN_VIOLATIONS], key=lambda e: e.json_path):
        yield Finding(code=Code.S103, place=f"{place} {error.json_path}", message=shortened(error.message))
    if len(errors) > SHOWN_VIOLATIONS:
        yield Finding(code=Code.S103, place=place, message="and more like these")
    yield from unknown_findings("key", unknown, place)


def unknown_findings(noun: str, unknown: Mapping[str, str], place: str) -> Iterator[Finding]:
    """Yield notes of columns or keys (by name: the place of the first one) that a schema lacks.

    Writers add them from version to version, so they are no errors.
    """
    shown = [
        (where, f"{noun} {shortened(name)!r} is not in the schema, and is not read")
        for name, where in islice(unknown.items(), SHOWN_VIOLATIONS)
    ]
    of_kind = f"{noun}s that are not in the schema"
    yield from violations(shown, len(unknown), place, code=Code.S102, severity=Severity.NOTE, of_kind=of_kind)


def _lost_columns(table: Table, row: Mapping[str, Any]) -> list[str]:
    """Return the columns that a table of a database lacks: `required` ones, and `x-columns`, whose cells may be null.

    An entry `a|b` of `x-columns` is missing if the table has neither column; it is shown as "a or b".
    """
    if table.cells is Cells.TEXT:
        return []
    there = set(table.frame.columns)
    needed = (*row.get("required", ()), *row.get("x-columns", ()))
    order = {name: position for position, name in enumerate(row["properties"])}
    lost = [names for names in (one.split("|") for one in needed) if there.isdisjoint(names)]
    return [" or ".join(names) for names in sorted(lost, key=lambda names: order.get(names[0], len(order)))]


def lost_from_header(table: Table, row: Mapping[str, Any]) -> list[str]:
    """Return the `required` columns that a header lacks, without which no row can be checked; empty for other tables."""
    if table.cells is not Cells.TEXT:
        return []
    there = frozenset(table.columns)
    return [name for name in row.get("required", ()) if name not in there]


def header_findings(table: Table, row: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Yield the violations of a header, once instead of for every row."""
    columns = table.frame.columns
    if table.cells is not Cells.TEXT:
        if row.get("additionalProperties") is False:
            yield from unknown_findings("key", dict.fromkeys(unnamed_columns(columns, row), place), place)
        return
    for name in lost_from_header(table, row):
        yield Finding(code=Code.S102, place=f"{place}:1", message=f"column {name!r} is missing")
    if row.get("additionalProperties") is False:
        unknown = unnamed_columns(columns, row)
        yield from unknown_findings("column", dict.fromkeys(unknown, f"{place}:1"), f"{place}:1")
    if row.get("x-ordered"):
        expected = [name for name in row["properties"] if name in columns]
        present = [name for name in columns if name in row["properties"]]
        if expected != present:
            yield Finding(
                code=Code.S102,
                place=f"{place}:1",
                message=shortened(f"columns are in the order {present}, not {expected}"),
            )


def row_findings(
    table: Table, rules_of_row: Mapping[str, Any], rules: Mapping[str, Any], place: str
) -> Iterator[Finding]:
    """Yield the rows of a table that violate the row schema."""
    row = dict(rules_of_row)
    if table.cells is Cells.TEXT:
        row = rules_under(rules_of_row, table.frame.columns)
    elif row.get("additionalProperties") is False:
        row["additionalProperties"] = True
    compiled = RowSchema(row, rules)
    invalid = compiled.invalid_rows(table)
    shown = [
        (f"{place}{table.place(error.row)} {error.path}", error.message)
        for error in compiled.errors(table, invalid[:SHOWN_VIOLATIONS])
    ]
    yield from violations(shown, len(invalid), place)
    in_cells = documents_in_cells(table, row)
    yield from violations((f"{place}{table.place(error.row)} {error.path}", error.message) for error in in_cells)


def violations(
    shown: Iterable[tuple[str, str]],
    count: int = 0,
    place: str = "",
    *,
    code: Code = Code.S103,
    severity: Severity = Severity.ERROR,
    of_kind: str = "rows like these",
) -> Iterator[Finding]:
    """Yield findings as `disagreements` does, with their messages cut."""
    pairs = ((where, shortened(message)) for where, message in shown)
    return disagreements(code, pairs, count, place, severity=severity, of_kind=of_kind)


def rules_under(row: Mapping[str, Any], header: Sequence[str]) -> dict[str, Any]:
    """Return the row schema without the rules that `header_findings` has already checked."""
    required = [name for name in row.get("required", ()) if name in header]
    return {**row, "required": required, "additionalProperties": True}


def shortened(message: str) -> str:
    """Return a message cut to 300 characters: jsonschema's may quote a whole cell of a megabyte."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}… ({len(message)} characters)"
