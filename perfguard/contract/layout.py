"""Layouts: where the profilers put their files. A layout is a JSON file; this module matches a directory against it.

`Layout` says how one *cycle* (what the profiler wrote for one rank and one schedule cycle) is recognised and which *slots*
it has; `find_cycles` walks a directory and returns every cycle with its artifacts. Nothing is opened here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from perfguard.documents import read_document, schemas_directory

#: How deep below the judged directory a cycle may lie: <output>/profile/rank_0/<worker>_ascend_ms and the like.
MAX_DEPTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The place declared for one kind of file.

    `path` is relative to the cycle, with `*` and `{rank}`; `required` is "always", "optional", or the name of a condition
    under which the file must be there ("memory", "shapes", ...).
    """

    name: str
    path: str
    format: str
    schema: str | None = None
    required: str = "always"
    #: The finding's code when it is missing.
    missing: str = "A102"

    def match(self, relative: str) -> int | bool | None:
        """Return the rank in the file's name (None when the slot carries none), or False when it does not match."""
        found = _slot_pattern(self.path).fullmatch(relative)
        if found is None:
            return False
        rank = found.groupdict().get("rank")
        return None if rank is None else int(rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All places of one dialect of profiler output.

    A cycle is a directory or a single file (`cycle`); it is recognised by the pattern of its name or by what it
    contains, unless it has something of `lacks`.
    """

    id: str
    title: str
    cycle: str
    name: str
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file in a slot: not opened yet."""

    slot: Slot
    path: Path
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCycle:
    """What the profiler wrote for one rank and one schedule cycle, as far as names can tell."""

    layout: Layout
    place: Path
    files: tuple[FoundFile, ...]
    strangers: tuple[str, ...] = field(default=())


@cache
def layouts() -> tuple[Layout, ...]:
    """Load every layout that ships, checked against the meta-schema."""
    paths = sorted((schemas_directory() / "layouts").glob("*.json"))
    return tuple(
        _layout(read_document(path, "layout", remedy="Run: pip install --force-reinstall perfguard")) for path in paths
    )


def _layout(plain: Mapping[str, Any]) -> Layout:
    return Layout(
        id=plain["id"],
        title=plain["title"],
        cycle=plain["recognise"]["cycle"],
        name=plain["recognise"]["name"],
        contains=tuple(plain["recognise"].get("contains", ())),
        lacks=tuple(plain["recognise"].get("lacks", ())),
        slots=tuple(
            Slot(**{key: value for key, value in slot.items() if not key.startswith("$")}) for slot in plain["slots"]
        ),
    )


def find_cycles(directory: Path) -> list[FoundCycle]:
    """Return every cycle in and below `directory`, in the order of their names (which begin with the time)."""
    found = []
    for place, folders, files in _walk(directory):
        names = [*folders, *files]
        for layout in layouts():
            if layout.cycle == "file":
                found += [_file_cycle(layout, place / name) for name in files if re.search(layout.name, name)]
            elif _recognises(layout, place, names):
                found.append(_directory_cycle(layout, place))
    return sorted(found, key=lambda cycle: str(cycle.place))


def _recognises(layout: Layout, place: Path, names: list[str]) -> bool:
    inside = None
    if not re.search(layout.name, place.name):
        inside = [str(f) for f in _files_below(place)] if _may_contain(layout, names) else []
        if not any(fnmatchcase(one, pattern) for pattern in layout.contains for one in inside):
            return False
    if layout.lacks:
        inside = inside or [str(f) for f in _files_below(place)]
        return not any(fnmatchcase(one, pattern) for pattern in layout.lacks for one in [*inside, *names])
    return True


def _may_contain(layout: Layout, names: list[str]) -> bool:
    firsts = {pattern.split("/", 1)[0] for pattern in layout.contains}
    return any(fnmatchcase(name, first) for name in names for first in firsts)


def _file_cycle(layout: Layout, path: Path) -> FoundCycle:
    return FoundCycle(layout=layout, place=path, files=(FoundFile(slot=layout.slots[0], path=path, rank=None),))


def _directory_cycle(layout: Layout, place: Path) -> FoundCycle:
    files, strangers = [], []
    for relative in _files_below(place):
        for slot in layout.slots:
            rank = slot.match(str(relative))
            if rank is not False:
                files.append(FoundFile(slot=slot, path=place / relative, rank=rank))
                break
        else:
            strangers.append(str(relative))
    return FoundCycle(layout=layout, place=place, files=tuple(files), strangers=tuple(strangers))


@cache
def _slot_pattern(path: str) -> re.Pattern[str]:
    pattern = re.escape(path).replace(r"\{rank\}", r"(?P<rank>\d+)").replace(r"\*", r"[^/]*")
    return re.compile(pattern)


def _walk(directory: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk without following links, at most `MAX_DEPTH` deep, in the order of names."""
    root_depth = len(directory.parts)
    for current, folders, files in os.walk(directory, followlinks=False):
        place = Path(current)
        folders.sort()
        yield place, list(folders), sorted(files)
        if len(place.parts) - root_depth >= MAX_DEPTH:
            folders.clear()


def _files_below(place: Path) -> list[PurePosixPath]:
    return sorted(
        PurePosixPath((folder / name).relative_to(place).as_posix())
        for folder, _, files in _walk(place)
        for name in files
    )
