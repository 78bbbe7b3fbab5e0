"""Layouts: where the profilers put their files, as data.

A layout is a JSON file of schemas/layouts. It defines how one *cycle* (the output of a profiler for one rank and one schedule
cycle) is recognised and which *slots* it has. `survey` matches directories against the layouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from perfguard.documents import schemas_directory, shipped_json, violations
from perfguard.errors import StoreError, UsageError, nearest
from perfguard.extensions import dialect_folders
from perfguard.version import reinstall_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The declared place of one kind of file.

    `path` is relative to the cycle, with `*` (inside a name), `**` (across folders), `{rank}`, and `{_rank}` for an optional
    rank with its underscore. `required` is "always", "optional", "never" or an expression of conditions
    (`graph & !heterogeneous`); `otherwise` holds where that expression is known to be false.
    """

    name: str
    path: str
    format: str
    #: The versions of its schema: the first that fits counts. Empty for a file whose content is not checked.
    schemas: tuple[str, ...] = ()
    required: str = "always"
    otherwise: str = "optional"
    #: The finding's code when it is missing.
    missing: str = "A102"
    #: What the finding adds: who does not write the file, and what to do then.
    remark: str = ""

    def match(self, relative: str) -> int | bool | None:
        """Return the rank in the file's name (None when the slot carries none), or False when it does not match."""
        found = glob_pattern(self.path).fullmatch(relative)
        if found is None:
            return False
        rank = found.groupdict().get("rank")
        return None if rank is None else int(rank)

    @property
    def is_single(self) -> bool:
        """Whether one cycle has at most one such file."""
        return "*" not in self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """One way to recognise a layout: all given conditions must be true.

    `name` is searched in the own name of the directory (or file), `path` in its whole path; some path below must match one
    of `contains`; every text of `texts` (glob -> regex) must be in the head of some file; nothing may match `lacks`.
    """

    name: str | None = None
    path: str | None = None
    contains: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    lacks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All places of one dialect of profiler output. Layouts are tried by `order`, the smallest first.

    `cycle` is the form of a cycle: a directory, a file, or "parent": a directory that only gives the rank (and the
    window) of the cycles below. `ranks` is "suffix" where one directory may hold files of many ranks; with `nests`, cycles
    of other layouts may be below one of this. `rank` finds it in the name of a file that is a cycle, in its first group.
    """

    id: str
    title: str
    source: str
    order: int
    cycle: str
    ranks: str = "one"
    nests: bool = False
    rank: str = ""
    #: The framework that writes it, and what that calls the devices of the conditions npu and gpu; empty where several do.
    backend: str = ""
    devices: Mapping[str, str] = field(default_factory=dict)
    recognise: tuple[Recognition, ...]
    #: Where each condition can be read from; see perfguard.artifacts.conditions.
    conditions: Mapping[str, tuple[Mapping[str, Any], ...]]
    slots: tuple[Slot, ...]
    #: Which of its files go into tables, see the meta-schema; None if no queries are run on it.
    tables: Mapping[str, Any] | None = None


@cache
def layouts() -> tuple[Layout, ...]:
    """Load every layout, those of other distributions included, in the order they are tried.

    Raises `StoreError` for a damaged one of perfguard, and `UsageError` for one of another distribution. Tests check
    perfguard's own against the meta-schema: that would be a quarter of the time of every command.
    """
    loaded = []
    for path in sorted((schemas_directory() / "layouts").glob("*.json")):
        try:
            loaded.append(_layout(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            remedy = f"Run: {reinstall_command()}"
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}. {remedy}") from error
    loaded += _added_layouts({layout.id for layout in loaded})
    return tuple(sorted(loaded, key=lambda layout: (layout.order, layout.id)))


def _added_layouts(taken: set[str]) -> Iterator[Layout]:
    """Yield the layouts of dialects from other distributions. Raises `UsageError` for a wrong one, or one whose id is taken."""
    for folder in dialect_folders().values():
        for path in sorted((folder / "layouts").glob("*.json")):
            plain = shipped_json(path, "a layout")
            if broken := violations(plain, "layout"):
                raise UsageError(
                    f"{path} is not a layout: {broken[0]}. Correct it, or uninstall the package it came with."
                )
            if plain["id"] in taken:
                raise UsageError(f"{path} has the id of another layout, {plain['id']!r}; rename it.")
            taken.add(plain["id"])
            yield _layout(plain)


def layout_named(name: str) -> Layout:
    """Return one layout; raises `UsageError` with the nearest id."""
    known = {layout.id: layout for layout in layouts()}
    if name not in known:
        raise UsageError(f"There is no layout {name!r}; {nearest(name, known)}")
    return known[name]


def _layout(plain: Mapping[str, Any]) -> Layout:
    known = {key: value for key, value in plain.items() if not key.startswith("$") and key != "format"}
    conditions = {name: tuple(sources) for name, sources in plain.get("conditions", {}).items()}
    ways = tuple(Recognition(**one) for one in plain["recognise"])
    slots = tuple(_slot(slot) for slot in plain.get("slots", ()))
    return Layout(**known | {"recognise": ways, "conditions": conditions, "slots": slots})


def _slot(plain: Mapping[str, Any]) -> Slot:
    schemas = plain.get("schema", ())
    known = {key: value for key, value in plain.items() if not key.startswith("$") and key != "schema"}
    return Slot(**known, schemas=(schemas,) if isinstance(schemas, str) else tuple(schemas))


@cache
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the regex of a slot's path or a layout's glob; the rank is its group `rank`, `{_rank}` is `_7` or nothing."""
    return re.compile(regex_of(glob), re.DOTALL)


def regex_of(glob: str, rank: str | None = "rank") -> str:
    """Return the uncompiled regex of a glob, with a group of the name `rank`; None: without groups."""
    first, again = (f"(?P<{rank}>[0-9]+)", f"(?P={rank})") if rank else ("[0-9]+", "[0-9]+")
    pattern = re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    pattern = pattern.replace(r"\{_rank\}", f"(?:_{first})?", 1)
    return pattern.replace(r"\{rank\}", first, 1).replace(r"\{rank\}", again)
