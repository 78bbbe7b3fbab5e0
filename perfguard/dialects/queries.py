"""The SQL of dialects: macros that all of them have, and folders with views, checks and other queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from perfguard.artifacts.columns import DATABASE, shapes_of, slot_of_parts
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.table_definitions import TABLES, Columns, Definitions, tables_in
from perfguard.artifacts.trace_rows import OF_TORCH, OF_VIEW
from perfguard.dialects.collectives import COLLECTIVE, HOST_COLLECTIVE
from perfguard.errors import UsageError, nearest
from perfguard.extensions import dialect_folders

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from perfguard.dialects.cycle import Cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The folders whose queries run for a layout, and the slot of its trace, if it has one."""

    folders: tuple[str, ...]
    #: Empty: its trace, if it has one, is read whole.
    slot: str = ""
    #: The argument that says what a span is; None: the trace is one of torch.
    kind: str | None = None

    @property
    def folder_of_work(self) -> str:
        """The folder that says what ran, see `perfguard.dialects.work`; empty where none does."""
        return next((folder for folder in self.folders if sql(folder, WORK[-1])), "")

    @property
    def arguments(self) -> Mapping[str, tuple[str, ...]]:
        """Arguments that are read though no schema names them, by kind of event."""
        return OF_TORCH if self.kind is None else {**OF_VIEW, "X": (*OF_VIEW["X"], self.kind)}


class _Dialects(Mapping[str, Dialect]):
    """The dialects of the layouts whose rules are queries, read when the first is requested."""

    def __getitem__(self, layout: str) -> Dialect:
        return _by_layout()[layout]

    def __iter__(self) -> Iterator[str]:
        return iter(_by_layout())

    def __len__(self) -> int:
        return len(_by_layout())


@cache
def _by_layout() -> Mapping[str, Dialect]:
    tables = {layout.id: layout.tables for layout in layouts() if layout.tables is not None}
    return {
        name: Dialect(slot=one.get("slot", ""), folders=tuple(one["queries"]), kind=one.get("kind"))
        for name, one in tables.items()
    }


#: The folder of what all dialects have in common.
COMMON = "common"
#: By layout, where its rules are queries.
DIALECTS: Mapping[str, Dialect] = _Dialects()
#: The queries that say what ran, in their order.
WORK = ("steps", "nested", "complete", "executions")
_VIEW = re.compile(r"^create view (\w+) as\b(.*?);$", re.DOTALL | re.MULTILINE)
_FILL = re.compile(r"^create view fill_(\w+) as\b.*?;$", re.DOTALL | re.MULTILINE)
#: By table whose rows are those of a file: its slot, where it is neither its own name nor the trace of its dialect.
SLOTS: Mapping[str, str] = {"kernel_lines": "kernel_details", "kernel_counters": "kernel_details"}
_NAMED = re.compile(r"number_of\('([^']*)'\)")
_MACROS = f"""
create macro is_collective(name) as regexp_matches(name, '{COLLECTIVE.pattern}');
create macro is_host_collective(name) as regexp_matches(name, '{HOST_COLLECTIVE.pattern}');
"""


@cache
def sql(folder: str, name: str) -> str:
    """Return the text of a file of a folder, empty where it has none; `number_of('text')` in it is the number that the text has
    in `words`.
    """
    numbers = {text: number for number, text in enumerate(named_texts())}
    file = _place(folder) / f"{name}.sql"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    # A number is planned at once, a subquery for it is a join.
    return _NAMED.sub(lambda found: str(numbers[found[1]]), text)


@cache
def definitions(ids: frozenset[str]) -> Definitions:
    """Return what the queries of some layouts need: macros, the views of their folders, and the tables that these name."""
    # What all of them have in common are views of the first two.
    needed = dict.fromkeys(("torch", COMMON, *(folder for layout in sorted(ids) for folder in folders_of(layout))))
    # Each statement ends with a semicolon, the last one too.
    texts = {folder: f"{sql(folder, 'views').rstrip().removesuffix(';')}\n;" for folder in needed}
    views = {"macros": f"{_MACROS}\n{_read('macros.sql')}", **texts}
    for folder, text in views.items():
        if taken := [name for name, _ in _VIEW.findall(text) if name in common_tables()]:
            raise UsageError(
                f"the views.sql of the dialect {folder!r} cannot be used: {taken[0]} is a table that all dialects fill; name "
                f"the view {taken[0]}_in_{folder}, and its rows are in it."
            )
    tables = {**TABLES, **_slot_tables(frozenset(needed), ids)}
    unions = {name: (columns, _parts(name, views)) for name, columns in common_tables().items()}
    return Definitions(
        tables=tables,
        views={name: _with_tables(text) for name, text in views.items()},
        kept=_kept(views, {name: parts for name, (_, parts) in unions.items()}),
        unions=unions,
    )


@cache
def common_tables() -> Mapping[str, Columns]:
    """Return the tables that all dialects fill, with their columns."""
    return tables_in(common_statements())


def common_statements() -> str:
    """Return the statements that describe the tables that all dialects fill."""
    return _read(f"{COMMON}/tables.sql")


def _parts(table: str, views: Mapping[str, str]) -> tuple[str, ...]:
    """Return the views whose rows a common table has."""
    named = (name for text in views.values() for name, _ in _VIEW.findall(text))
    return tuple(name for name in named if name.startswith(f"{table}_in_"))


def all_definitions() -> Definitions:
    """Return what the queries of all layouts need."""
    return definitions(frozenset(layout.id for layout in layouts()))


def _with_tables(text: str) -> str:
    """Return statements with a table behind each view that fills one: several queries name it, and it runs once a batch."""
    return _FILL.sub(r"\g<0>\ncreate table if not exists \1 as from fill_\1 limit 0;", text)


def _kept(views: Mapping[str, str], unions: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return by the name of a view or table, the tables to fill before it is queried, in order."""
    bodies = {name: set(re.findall(r"\w+", body)) for text in views.values() for name, body in _VIEW.findall(text)}
    bodies |= {name: set(parts) for name, parts in unions.items()}
    filled = [name.removeprefix("fill_") for name in bodies if name.startswith("fill_")]
    needed: dict[str, set[str]] = {}
    # A view names only those that are made before it.
    for name, words in bodies.items():
        parts = words & needed.keys()
        needed[name.removeprefix("fill_")] = parts.union(*(needed[part] for part in parts))
    return {
        name: tuple(one for one in filled if one in parts or one == name)
        for name, parts in needed.items()
        if name in filled or not parts.isdisjoint(filled)
    }


def _slot_tables(needed: frozenset[str], ids: frozenset[str]) -> dict[str, Mapping[str, str]]:
    """Return the tables for the slots of these layouts, and those that the queries of the folders name."""
    texts = (sql(folder, name) for folder in needed for name in ("views", "checks", "metrics"))
    named = {word for text in texts for word in re.findall(r"\w+", text)}
    read = named | {slot_of_parts(word) for word in named}
    databases = any(word.startswith(DATABASE) for word in named)
    slots = dict.fromkeys(
        slot.name
        for one in layouts()
        for slot in one.slots
        if one.id in ids or slot.name in read or (databases and slot.format == "sqlite")
    )
    return {shape.name: shape.kinds for slot in slots for shape in shapes_of(slot)}


def folders_of(layout: str) -> tuple[str, ...]:
    """Return the folders whose queries run for a layout."""
    return (COMMON, *DIALECTS[layout].folders) if layout in DIALECTS else ()


def by_folder(cycles: Mapping[int, Cycle]) -> dict[str, dict[int, Cycle]]:
    """Return the cycles that the queries of each folder are for: a batch may have cycles of several dialects."""
    found: dict[str, dict[int, Cycle]] = {}
    for number, cycle in cycles.items():
        for folder in folders_of(cycle.layout.id):
            found.setdefault(folder, {})[number] = cycle
    return found


@cache
def named_texts() -> tuple[str, ...]:
    """Return the texts that queries name. They come first in `words`, so their numbers are always the same."""
    texts = (
        file.read_text(encoding="utf-8")
        for folder in folders()
        for file in sorted(_place(folder).iterdir(), key=lambda one: one.name)
        if file.name.endswith(".sql")
    )
    return tuple(dict.fromkeys(found for text in texts for found in _NAMED.findall(text)))


def folders() -> tuple[str, ...]:
    """Return the folders of queries, each once, those of other distributions last."""
    named = dict.fromkeys((COMMON, *(folder for dialect in DIALECTS.values() for folder in dialect.folders)))
    return tuple(sorted(named, key=lambda folder: not _own(folder).is_dir()))


def _place(folder: str) -> Traversable:
    """Return a folder: perfguard's own, or that of a dialect from another distribution. Raises `UsageError`."""
    if (own := _own(folder)).is_dir():
        return own
    added = dialect_folders()
    if folder not in added:
        raise UsageError(
            f"A layout names the queries {folder!r}, and no folder of dialects has them; {nearest(folder, added)}"
        )
    return added[folder]


def _own(folder: str) -> Traversable:
    return files(__package__) / folder


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
