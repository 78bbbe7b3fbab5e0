"""The grid: which invariant is checked for which kind of output, which cannot hold there and why, and which is missing.

The rows and columns are in `grid.toml`, what is checked is read from the headers of the checks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfguard.artifacts.columns import DATABASE, slot_of_parts
from perfguard.artifacts.layout import layouts
from perfguard.contract.checks import Check, checks_of
from perfguard.dialects.headers import is_of_a_slot
from perfguard.dialects.invariants import INVARIANTS
from perfguard.dialects.queries import DIALECTS, SLOTS
from perfguard.extensions import dialect_folders

#: What stands for the check that no file is missing which the layout requires.
REQUIRED_FILES = "required_files_are_there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column: one kind of output, its layouts, and the folders of queries about it."""

    name: str
    title: str
    layouts: frozenset[str]
    folders: tuple[str, ...]
    #: Whether it has operators or steps, which functions of `perfguard.dialects.invariants` look at.
    has_operators: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One invariant of one kind of output: the names of its checks, or why it cannot hold; neither: it is missing."""

    checks: tuple[str, ...] = ()
    cannot: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether nothing checks it, and nothing says why not."""
        return not self.checks and not self.cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One invariant: what must hold, and a cell for each kind of output, by the name of its column."""

    name: str
    about: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All rows and columns, in their order."""

    outputs: tuple[Output, ...]
    rows: tuple[Row, ...]


@cache
def grid() -> Grid:
    """Return the grid, with a column for each dialect of another distribution."""
    facts = tomllib.loads(Path(__file__).with_name("grid.toml").read_text(encoding="utf-8"))
    outputs = (*_outputs(facts["outputs"]), *_added())
    invariants = facts["invariants"]
    of_code = {code: name for name, one in invariants.items() for code in one.get("codes", ())}
    checked: dict[tuple[str, str], dict[str, None]] = {}
    for output in outputs:
        for check in _checks(output):
            row = check.invariant or of_code[check.code.name]
            checked.setdefault((row, output.name), {})[check.name] = None
        for name, one in invariants.items():
            for function in _functions(output, one.get("functions", ())):
                checked.setdefault((name, output.name), {})[function] = None
            if one.get("files") and _has_several_files(output):
                checked.setdefault((name, output.name), {})[REQUIRED_FILES] = None
    # A dialect of another distribution may have invariants of its own.
    names = dict.fromkeys((*invariants, *(row for row, _ in checked)))
    return Grid(
        outputs=outputs,
        rows=tuple(
            Row(
                name=name,
                about=invariants.get(name, {}).get("about", ""),
                cells={
                    output.name: Cell(
                        checks=tuple(checked.get((name, output.name), ())),
                        cannot=invariants.get(name, {}).get("cannot", {}).get(output.name, ""),
                    )
                    for output in outputs
                },
            )
            for name in names
        ),
    )


def _outputs(facts: Mapping[str, Mapping[str, Any]]) -> Iterable[Output]:
    for name, one in facts.items():
        yield Output(
            name=name,
            title=one["title"],
            layouts=frozenset(one["layouts"]),
            folders=tuple(one["folders"]),
            has_operators=one.get("operators", False),
        )


def _added() -> Iterable[Output]:
    """Yield a column for each dialect of another distribution."""
    for folder in dialect_folders():
        names = frozenset(layout for layout, dialect in DIALECTS.items() if folder in dialect.folders)
        yield Output(name=folder, title=folder, layouts=names, folders=(folder,))


def _checks(output: Output) -> Iterable[Check]:
    for folder in output.folders:
        yield from (check for check in checks_of(folder) if _is_for(check, output))


def _is_for(check: Check, output: Output) -> bool:
    """Whether some layout of an output has the files that a check needs."""
    if check.layouts and not check.layouts & output.layouts:
        return False
    slots = {slot.name for layout in layouts() if layout.id in output.layouts for slot in layout.slots}
    return (not check.slot or _is_in(check.slot, slots)) and all(
        any(_is_in(SLOTS.get(table, table), slots) for table in tables) for tables in check.needs
    )


def _is_in(table: str, slots: set[str]) -> bool:
    # What a view is made of is not looked up; tables of databases are shared by all of them, wherever one may be.
    return not is_of_a_slot(table) or table.startswith(DATABASE) or (slot_of_parts(table) or table) in slots


def _has_several_files(output: Output) -> bool:
    """Whether a layout of an output says of several files when they must be there (`perfguard.contract.completeness`)."""
    slots = {
        slot.name
        for layout in layouts()
        if layout.id in output.layouts
        for slot in layout.slots
        if slot.required not in ("optional", "never")
    }
    return len(slots) > 1


def _functions(output: Output, names: Iterable[str]) -> Iterable[str]:
    """Yield the invariants without a query that run on an output."""
    for name in names if output.has_operators else ():
        one = INVARIANTS[name]
        slots = {slot.name for layout in layouts() if layout.id in output.layouts for slot in layout.slots}
        if (not one.layouts or output.layouts & set(one.layouts)) and set(one.needs) <= slots:
            yield name
