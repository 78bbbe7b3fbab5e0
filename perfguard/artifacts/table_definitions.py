"""Table definitions: the columns of all tables that readers fill (tables.sql), and what a batch needs besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Null in an integer column; in a column of floats null is NaN.
NULL = -(2**63)

_TABLE = re.compile(r"^create table (\w+) \((.*?)\);$", re.DOTALL | re.MULTILINE)
_COMMENTED = re.compile(r"((?:^-- .*\n)*)^create (?:view|table) (?:fill_)?(\w+) (?:as|\()", re.MULTILINE)
_STATEMENTS = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")

#: Columns by name, with their types.
Columns = Mapping[str, str]


def tables_in(statements: str) -> dict[str, Columns]:
    """Return the tables that statements create, by name."""
    return {name: dict(re.findall(r"(\w+) (\w+)", columns)) for name, columns in _TABLE.findall(statements)}


#: The tables that readers fill.
TABLES = tables_in(_STATEMENTS)

#: The meanings of columns that many tables have.
COLUMNS = {
    "cycle": "the number of the cycle: the output of one rank and one cycle of the schedule; the table `cycles` has its rank",
    "file": "the number of the file among those of the same kind in its cycle",
    "row": "the place in the file: the line of a table, or the position of an event in a trace",
    "path": "the place in a JSON document",
    "parent": "in a part of a JSON document: the `row` of the enclosing part",
    "step": "the step of the window, from 0; null outside of the steps",
    "name": "the name of the event, operator or kernel",
    "category": "the category of the event",
    "thread": "process and thread: `6289/6289`",
    "start_ns": "the start",
    "duration_ns": "the duration",
    "self_ns": "the duration without what ran inside",
    "time_ns": "the time of an event without a duration",
    "correlation": "the id that connects a call of the runtime with the kernel that it launched",
    "input_shapes": "the shapes of the inputs, as JSON",
    "input_types": "the types of the inputs, as JSON",
}


def comments(statements: str = _STATEMENTS) -> dict[str, str]:
    """Return the comment above each table and view."""
    return {name: " ".join(line[3:] for line in text.splitlines()) for text, name in _COMMENTED.findall(statements)}


def meanings(statements: str = _STATEMENTS) -> dict[str, str]:
    """Return the first sentence of the comment above each table and view, without its full stop."""
    found = comments(statements)
    return {name: re.split(r"(?<=\.) ", text)[0].removesuffix(".") for name, text in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The tables of a batch with their columns and types, and its views. Each is created once in a process."""

    tables: Mapping[str, Columns] = field(default_factory=lambda: TABLES)
    #: Statements that create views and macros, by a name, in their order.
    views: Mapping[str, str] = field(default_factory=dict)
    #: The derived tables that a query needs, by the view or table that it names; each is filled from its view `fill_<table>`.
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Views that are put together: of each its columns, and the views whose rows it has; a column that one lacks is null.
    unions: Mapping[str, tuple[Columns, Sequence[str]]] = field(default_factory=dict)


def union(name: str, columns: Columns, parts: Iterable[str]) -> str:
    """Return the statement that creates a view of the rows of others, each with the rank of its cycle."""
    empty = ", ".join(f'null::{kind} as "{column}"' for column, kind in columns.items() if column != "rank")
    rows = "".join(f"\n  union all by name from {part}" for part in parts)
    shown = ", ".join(f'{"cycles" if column == "rank" else "found"}."{column}"' for column in columns)
    return (
        f"create or replace view {name} as select {shown} from (\n  select {empty} where false{rows}) as found "
        "left join cycles using (cycle);"
    )
