"""The SQL of dialects: macros that all of them have, and folders with views, checks and other queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from perfguard.artifacts.columns import shapes_of
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.tables import TABLES, Definitions
from perfguard.artifacts.trace_rows import OF_TORCH, OF_VIEW
from perfguard.dialects.collectives import COLLECTIVE, HOST_COLLECTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What of a layout is in tables: the trace in `slot`, and the folders whose queries are asked of it."""

    folders: tuple[str, ...]
    #: Empty: its trace, if it has one, is read whole.
    slot: str = ""
    #: The argument that says what a span is; None: the trace is one of torch.
    kind: str | None = None

    @property
    def wanted(self) -> Mapping[str, tuple[str, ...]]:
        """Arguments that are read though no schema names them, by kind of event."""
        return OF_TORCH if self.kind is None else {**OF_VIEW, "X": (*OF_VIEW["X"], self.kind)}


_MINDSPORE = Dialect(slot="trace_view", folders=("trace", "ascend"), kind="type")
_FLAT = Dialect(folders=("mindspore_flat",))
#: By layout, where its rules are queries.
DIALECTS: Mapping[str, Dialect] = {
    "pt-torch": Dialect(slot="trace", folders=("trace", "torch")),
    "pt-npu": Dialect(slot="trace_view", folders=("trace", "ascend"), kind="Task Type"),
    "ms-1.x": _FLAT,
    "ms-2.0": _FLAT,
    "ms-2.1": _FLAT,
    "ms-2.3": replace(_MINDSPORE, folders=(*_MINDSPORE.folders, *_FLAT.folders)),
    "ms-2.5+": _MINDSPORE,
    "ms-2.5+cpu": _MINDSPORE,
}
_NAMED = re.compile(r"number_of\('([^']*)'\)")
_MACROS = f"""
create macro is_collective(name) as regexp_matches(name, '{COLLECTIVE.pattern}');
create macro is_host_collective(name) as regexp_matches(name, '{HOST_COLLECTIVE.pattern}');
"""


@cache
def sql(folder: str, name: str) -> str:
    """Return the text of a file of a folder; `number_of('text')` in it is the number that the text has in `words`."""
    numbers = {text: number for number, text in enumerate(named_texts())}
    # A number is planned at once, a subquery for it is a join.
    return _NAMED.sub(lambda found: str(numbers[found[1]]), _read(f"{folder}/{name}.sql"))


@cache
def definitions(ids: frozenset[str]) -> Definitions:
    """Return what the queries of some layouts need: macros, the views of their folders, and the tables that these name."""
    wanted = dict.fromkeys(folder for layout in sorted(ids) for folder in folders_of(layout))
    # What all of them have in common is a view of this one.
    wanted = {"torch": None, **wanted}
    views = {"macros": f"{_MACROS}\n{_read('macros.sql')}"}
    for folder in wanted:
        views[folder] = sql(folder, "views")
        if folder == "torch":
            views["coverage"] = _read("coverage.sql")
    return Definitions(tables={**TABLES, **_slot_tables(frozenset(wanted), ids)}, views=views)


def _slot_tables(wanted: frozenset[str], ids: frozenset[str]) -> dict[str, Mapping[str, str]]:
    """Return the tables for the slots of these layouts, and of all that have a folder of queries in common with them."""
    alike = {one for one in DIALECTS if not wanted.isdisjoint(folders_of(one))} if ids & DIALECTS.keys() else set()
    slots = dict.fromkeys(slot.name for one in layouts() if one.id in ids | alike for slot in one.slots)
    return {shape.name: shape.kinds for slot in slots for shape in shapes_of(slot)}


def folders_of(layout: str) -> tuple[str, ...]:
    """Return the folders whose queries are asked of a layout."""
    return DIALECTS[layout].folders if layout in DIALECTS else ()


@cache
def named_texts() -> tuple[str, ...]:
    """Return the texts that queries name. They come first in `words`, so their numbers are always the same."""
    texts = (
        file.read_text(encoding="utf-8")
        for folder in folders()
        for file in sorted((files(__package__) / folder).iterdir(), key=lambda one: one.name)
        if file.name.endswith(".sql")
    )
    return tuple(dict.fromkeys(found for text in texts for found in _NAMED.findall(text)))


def folders() -> tuple[str, ...]:
    """Return the folders of queries, each once."""
    return tuple(dict.fromkeys(folder for dialect in DIALECTS.values() for folder in dialect.folders))


def _read(path: str) -> str:
    return (files(__package__) / path).read_text(encoding="utf-8")
