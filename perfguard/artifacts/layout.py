"""Layouts: where the profilers put their files. A layout is a JSON file; this module matches directories against it.

`Layout` says how one *cycle* (what the profiler wrote for one rank and one schedule cycle) is recognised and which *slots*
it has; `survey` walks a directory once and returns every cycle with its files. Of a file at most its first 64 KiB are
looked at here, where a layout recognises its dialect by a text.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import stat
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from perfguard.documents import schemas_directory, shipped_json, violations
from perfguard.errors import StoreError, UsageError, nearest
from perfguard.extensions import dialect_folders
from perfguard.findings import Code, Finding, Severity

#: How deep below the judged directory anything is looked at; msprof's raw data lies seven levels down.
MAX_DEPTH = 16
#: How many files and folders are looked at; a rank with its raw data has some hundred.
MAX_ENTRIES = 1_000_000
#: How many files one slot with a wildcard may have, logs for instance.
MAX_FILES_OF_SLOT = 10_000
#: How much of a file is searched for the text that tells its dialect.
HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The place declared for one kind of file.

    `path` is relative to the cycle, with `*` (inside a name), `**` (across folders), `{rank}`, and `{_rank}` for a rank with
    its underscore that is not always there. `required` is "always",
    "optional", "never" or an expression of conditions (`graph & !heterogeneous`), `otherwise` what holds where that
    expression is known to be false.
    """

    name: str
    path: str
    format: str
    #: The versions of its schema, the first that fits counts; empty where nothing is known of the inside.
    schemas: tuple[str, ...] = ()
    required: str = "always"
    otherwise: str = "optional"
    #: The finding's code when it is missing.
    missing: str = "A102"

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
    """One way to know a layout: all that is named here must hold.

    `name` is searched in the own name of the directory (or file), `path` in its whole path; some path below must match one
    of `contains`; every text of `texts` (glob -> regex) must be in the head of some file; nothing may match `lacks`.
    """

    name: str | None = None
    path: str | None = None
    contains: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All places of one dialect of profiler output. Layouts are tried by `order`, the smallest first.

    `cycle` is what one cycle of it is: a directory, a file, or "parent": a directory that only says the rank (and the
    window) of the cycles below. `ranks` is "suffix" where one directory may hold files of many ranks; with `nests`, cycles
    of other layouts may lie below one of this.
    """

    id: str
    title: str
    source: str
    order: int
    cycle: str
    ranks: str
    nests: bool
    recognise: tuple[Recognition, ...]
    #: Where each condition can be read from; see perfguard.artifacts.conditions.
    conditions: Mapping[str, tuple[Mapping[str, Any], ...]]
    slots: tuple[Slot, ...]
    #: What of it goes into tables, see the meta-schema; None where no queries are run on it.
    tables: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file in a slot: not opened yet."""

    slot: Slot
    path: Path
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What the name of a directory above a cycle says: `rank_3`, `rank0_start2_stop4`."""

    layout: Layout
    place: Path
    rank: int | None
    #: Steps of the window, where the name says them.
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCycle:
    """What the profiler wrote for one rank and one schedule cycle, as far as names can tell."""

    layout: Layout
    place: Path
    files: tuple[FoundFile, ...]
    strangers: tuple[str, ...] = ()
    #: By what the layout was recognised, in words.
    because: str = ""
    parents: tuple[Parent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything found in a directory; `findings` are about what could not be looked at."""

    cycles: tuple[FoundCycle, ...]
    parents: tuple[Parent, ...]
    findings: tuple[Finding, ...]


@cache
def layouts() -> tuple[Layout, ...]:
    """Load every layout, those of other distributions included, in the order they are tried. Raises `StoreError` for a damaged
    one of perfguard, and `UsageError` for one of another distribution.

    perfguard's own are checked against the meta-schema by the tests, not again by every command: that would be a quarter of
    its time.
    """
    loaded = []
    for path in sorted((schemas_directory() / "layouts").glob("*.json")):
        try:
            loaded.append(_layout(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, LookupError, TypeError) as error:
            remedy = "Run: pip install --force-reinstall perfguard"
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}. {remedy}") from error
    loaded += _added_layouts({layout.id for layout in loaded})
    return tuple(sorted(loaded, key=lambda layout: (layout.order, layout.id)))


def _added_layouts(taken: set[str]) -> Iterator[Layout]:
    """Yield the layouts of dialects from other distributions. Raises `UsageError` for a wrong one, or one whose id is taken."""
    for folder in dialect_folders().values():
        for path in sorted((folder / "layouts").glob("*.json")):
            plain = shipped_json(path, "a layout")
            if broken := violations(plain, "layout"):
                raise UsageError(f"{path} is no layout: {broken[0]}. Mend it, or uninstall what it came with.")
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
    return Layout(
        id=plain["id"],
        title=plain["title"],
        source=plain["source"],
        order=plain["order"],
        cycle=plain["cycle"],
        ranks=plain.get("ranks", "one"),
        nests=plain.get("nests", False),
        recognise=tuple(
            Recognition(
                name=one.get("name"),
                path=one.get("path"),
                contains=tuple(one.get("contains", ())),
                texts=one.get("texts", {}),
                lacks=tuple(one.get("lacks", ())),
            )
            for one in plain["recognise"]
        ),
        conditions={name: tuple(sources) for name, sources in plain.get("conditions", {}).items()},
        slots=tuple(_slot(slot) for slot in plain.get("slots", ())),
        tables=plain.get("tables"),
    )


def _slot(plain: Mapping[str, Any]) -> Slot:
    schemas = plain.get("schema", ())
    known = {key: value for key, value in plain.items() if not key.startswith("$") and key != "schema"}
    return Slot(**known, schemas=(schemas,) if isinstance(schemas, str) else tuple(schemas))


# -- looking ---------------------------------------------------------------------------------------------------------


class Tree(Protocol):
    """Where a directory lies that is no directory of this machine: its paths lead nowhere here."""

    def listing(self, directory: Path) -> Listing:
        """Return what is in a directory."""

    def head(self, path: Path) -> str:
        """Return the first 64 KiB of a file as text, the empty text for anything else; raises `OSError` where it cannot."""


def survey(directory: Path, only: Layout | None = None, tree: Tree | None = None) -> Survey:
    """Return every cycle in and below `directory`, in the order of their names (which begin with the time).

    With `only`, nothing but that layout is looked for, and where it is not recognised the directory itself is taken for it.
    The directory is one of this machine, unless it lies in a `tree`.
    """
    listing = _listed(directory) if tree is None else tree.listing(directory)
    heads = _Heads(read_head if tree is None else tree.head)
    tried = layouts() if only is None else (*(one for one in layouts() if one.cycle == "parent"), only)
    found: list[FoundCycle] = []
    parents: dict[str, Parent] = {}
    taken: set[str] = set()
    nesting: set[str] = set()
    marks = _marks(listing, tried)
    for folder in listing.folders:
        if _is_inside(folder, taken):
            continue
        place = directory / folder if folder else directory
        here = marks.get(folder, {})
        for layout in tried:
            # A directory can be both: `rank_3` that holds the files themselves.
            if (
                layout.cycle == "parent"
                and folder not in parents
                and _recognised(layout, place, here, heads) is not None
            ):
                parents[folder] = _parent(layout, place)
        for layout in tried:
            because = _recognised(layout, place, here, heads) if layout.cycle == "directory" else None
            if because is None:
                continue
            if layout.nests and _is_inside(folder, nesting):
                continue
            found += _directory_cycles(layout, place, folder, listing, because)
            (nesting if layout.nests else taken).add(folder)
            break
    found += _file_cycles(tried, directory, listing, taken, heads)
    if only is not None and not found and only.cycle == "directory":
        found = _directory_cycles(only, directory, "", listing, "you said so")
    cycles = [_with_parents(_without_inner(cycle, found), directory, parents) for cycle in found]
    return Survey(
        cycles=tuple(sorted(cycles, key=lambda cycle: str(cycle.place))),
        parents=tuple(parents[folder] for folder in sorted(parents)),
        findings=(*listing.findings, *heads.findings(directory, cycles)),
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """Relative paths of everything in a directory: folders first to last, files sorted."""

    folders: list[str]
    files: list[str]
    findings: list[Finding]

    def below(self, folder: str) -> list[str]:
        """Return the files below a folder, relative to it."""
        if not folder:
            return self.files
        start = bisect_left(self.files, folder + "/")
        end = bisect_left(self.files, folder + "0")  # "0" is the character after "/"
        return [file[len(folder) + 1 :] for file in self.files[start:end]]


def _listed(directory: Path) -> Listing:
    """List a directory without following links to folders, and without leaving it."""
    listing = Listing([], [], [])
    root = os.path.realpath(directory)
    waiting = [("", 0)]
    seen = 0
    while waiting:
        folder, depth = waiting.pop()
        listing.folders.append(folder)
        try:
            entries = sorted(os.scandir(os.path.join(root, folder)), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            reason = f"it cannot be listed: {error.strerror}"
            listing.findings.append(Finding(code=Code.A109, place=folder or ".", message=reason))
            continue
        for entry in entries:
            seen += 1
            if seen > MAX_ENTRIES:
                reason = f"more than {MAX_ENTRIES} files and folders: the rest was not looked at"
                listing.findings.append(Finding(code=Code.A108, place=folder or ".", message=reason))
                waiting.clear()
                break
            relative = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink() and (refusal := _link_refused(entry, root)):
                severity = Severity.NOTE if refusal.endswith("folder") else Severity.ERROR
                listing.findings.append(
                    Finding(code=Code.A109, severity=severity, place=relative, message=f"it is a link {refusal}")
                )
            elif entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    waiting.append((relative, depth + 1))
                else:
                    reason = f"it lies {MAX_DEPTH} folders deep: what is in it was not looked at"
                    listing.findings.append(Finding(code=Code.A108, place=relative, message=reason))
            else:
                listing.files.append(relative)
    listing.folders.sort()
    listing.files.sort()
    return listing


def _link_refused(entry: os.DirEntry[str], root: str) -> str | None:
    """Return why a link is not read: it must lead to a file inside the judged directory."""
    target = os.path.realpath(entry.path)
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return "that leads nowhere"
    if stat.S_ISDIR(mode):
        # `latest -> run7` is common and harmless: what it leads to is judged under its own name.
        return "to a folder"
    return None if target.startswith(root + os.sep) else "that leads out of the directory: it is not read"


#: What a folder holds of the globs that layouts look for: glob -> the first paths.
_Marks = Mapping[str, list[str]]
_ReadHead = Callable[[Path], str]


def _marks(listing: Listing, tried: Iterable[Layout]) -> Mapping[str, _Marks]:
    """Say of every folder which of the layouts' globs match something below it, in one pass over all paths."""
    by_depth: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for glob in dict.fromkeys(
        glob for layout in tried for way in layout.recognise for glob in (*way.contains, *way.texts, *way.lacks)
    ):
        short = glob.removesuffix("/**")  # a folder with anything in it is a folder
        by_depth[short.count("/")].append((glob, short))
    # Most paths match none of them, so that hardly any has to be compiled for itself.
    any_of = {
        depth: re.compile("|".join(f"(?:{_without_groups(_regex_of(short))})" for _, short in globs))
        for depth, globs in by_depth.items()
    }
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in (*listing.folders, *listing.files):
        parts = path.split("/")
        for depth, globs in by_depth.items():
            if len(parts) <= depth:
                continue
            tail = "/".join(parts[-depth - 1 :])
            if not any_of[depth].fullmatch(tail):
                continue
            folder = "/".join(parts[: -depth - 1])
            for glob, short in globs:
                if len(found[folder][glob]) < 4 and glob_pattern(short).fullmatch(tail):
                    found[folder][glob].append(tail)
    return found


def _without_groups(pattern: str) -> str:
    return pattern.replace("?P<rank>", "?:").replace("(?P=rank)", "[0-9]+")


def _recognised(layout: Layout, place: Path, marks: _Marks, read_head: _ReadHead) -> str | None:
    """Return by what a directory is known to be of a layout, in words, or None when it is not."""
    for way in layout.recognise:
        reasons = _holds(way, place, marks, read_head)
        if reasons is not None:
            return " and ".join(reasons)
    return None


def _holds(way: Recognition, place: Path, marks: _Marks, read_head: _ReadHead) -> list[str] | None:
    reasons = []
    if way.name is not None:
        if not re.search(way.name, place.name):
            return None
        reasons.append(f"its name matches {way.name}")
    if way.path is not None:
        if not re.search(way.path, place.as_posix()):
            return None
        reasons.append(f"its path matches {way.path}")
    if way.contains:
        present = next((marks[glob][0] for glob in way.contains if marks.get(glob)), None)
        if present is None:
            return None
        reasons.append(f"it holds {present}")
    if any(marks.get(glob) for glob in way.lacks):
        return None
    for glob, text in way.texts.items():
        bearer = next(
            (one for one in marks.get(glob, ()) if re.search(text, read_head(place / one), re.MULTILINE)), None
        )
        if bearer is None:
            return None
        reasons.append(f"{'it' if bearer == '.' else bearer} says {text}")
    return reasons


def head(path: Path) -> str:
    """Return the first 64 KiB of a regular file as text (of gzip: of what is in it), the empty text for anything else."""
    try:
        return read_head(path)
    except OSError:
        # Whoever reads the file whole will say what is wrong with it.
        return ""


def read_head(path: Path) -> str:
    """Return what `head` does; raises `OSError` for a file that cannot be read, of which nobody knows what it is."""
    if not stat.S_ISREG(path.stat().st_mode):
        return ""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(HEAD_BYTES).decode("utf-8", errors="replace")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return ""


class _Heads:
    """Reads heads, and remembers which files could not be read: one of them may be a rank."""

    def __init__(self, read: _ReadHead) -> None:
        self._read = read
        self.unread: dict[Path, str] = {}

    def __call__(self, path: Path) -> str:
        try:
            return self._read(path)
        except OSError as error:
            self.unread[path] = error.strerror or str(error)
            return ""

    def findings(self, directory: Path, cycles: Iterable[FoundCycle]) -> Iterator[Finding]:
        """Yield what could not be read and is in no cycle, whose inspection would say so."""
        seen = {file.path for cycle in cycles for file in cycle.files} if self.unread else set()
        for path, reason in sorted(self.unread.items()):
            if path not in seen:
                place = path.relative_to(directory).as_posix()
                message = f"it cannot be read, so nobody knows what it is: {reason}"
                yield Finding(code=Code.A111, place=place, message=message)


def size_of(path: Path) -> int:
    """Return how many bytes a file has, 0 where that cannot be told: whoever reads it will say why."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parent(layout: Layout, place: Path) -> Parent:
    ways = (re.search(way.path, place.as_posix()) for way in layout.recognise if way.path)
    found = next((way for way in ways if way), None)
    named = {key: int(value) for key, value in found.groupdict().items() if value} if found else {}
    steps = named["stop"] - named["start"] + 1 if {"start", "stop"} <= named.keys() else None
    return Parent(layout=layout, place=place, rank=named.get("rank"), steps=steps)


def _without_inner(cycle: FoundCycle, found: list[FoundCycle]) -> FoundCycle:
    """Leave out of a cycle that nests others what belongs to those."""
    inner = {other.place for other in found if other.place != cycle.place} if cycle.layout.nests else set()
    if not inner:
        return cycle

    def is_own(path: Path) -> bool:
        return path not in inner and inner.isdisjoint(path.parents)

    return dataclasses.replace(
        cycle,
        files=tuple(file for file in cycle.files if is_own(file.path)),
        strangers=tuple(one for one in cycle.strangers if is_own(cycle.place / one)),
    )


def _with_parents(cycle: FoundCycle, directory: Path, parents: Mapping[str, Parent]) -> FoundCycle:
    above = [parents[folder] for folder in _ancestors(cycle.place, directory) if folder in parents]
    return dataclasses.replace(cycle, parents=tuple(above)) if above else cycle


def _ancestors(place: Path, directory: Path) -> Iterator[str]:
    """Yield the folder of a cycle and those it lies in, the nearest first."""
    for parent in (place, *place.parents):
        if not parent.is_relative_to(directory):
            return
        yield "" if parent == directory else parent.relative_to(directory).as_posix()


def _directory_cycles(layout: Layout, place: Path, folder: str, listing: Listing, because: str) -> list[FoundCycle]:
    files: list[FoundFile] = []
    strangers: list[str] = []
    for relative in listing.below(folder):
        for slot in layout.slots:
            rank = slot.match(relative)
            if rank is not False:
                files.append(FoundFile(slot=slot, path=place / relative, rank=rank))
                break
        else:
            strangers.append(relative)
    ranks = sorted({file.rank for file in files if file.rank is not None})
    if layout.ranks == "one" or len(ranks) < 2:
        return [FoundCycle(layout=layout, place=place, files=tuple(files), strangers=tuple(strangers), because=because)]
    # What carries no rank belongs to all of them; it is looked at once, with the first.
    return [
        FoundCycle(
            layout=layout,
            place=place,
            files=tuple(f for f in files if f.rank == rank or (f.rank is None and rank == ranks[0])),
            strangers=tuple(strangers) if rank == ranks[0] else (),
            because=because,
        )
        for rank in ranks
    ]


def _is_inside(path: str, folders: set[str]) -> bool:
    """Whether a relative path is one of the folders, or lies in one."""
    if not folders:
        return False
    parts = path.split("/")
    return "" in folders or any("/".join(parts[:count]) in folders for count in range(1, len(parts) + 1))


def _file_cycles(
    tried: Iterable[Layout], directory: Path, listing: Listing, taken: set[str], read_head: _ReadHead
) -> Iterator[FoundCycle]:
    of_files = [layout for layout in tried if layout.cycle == "file"]
    for relative in listing.files:
        if _is_inside(relative, taken):
            continue
        path = directory / relative
        for layout in of_files:
            # Of a file there is nothing below: the texts are looked for in the file itself.
            reasons = next(
                (r for way in layout.recognise if (r := _holds(way, path, {"*": ["."]}, read_head)) is not None), None
            )
            if reasons is not None:
                file = FoundFile(slot=layout.slots[0], path=path, rank=None)
                yield FoundCycle(layout=layout, place=path, files=(file,), because=" and ".join(reasons))
                break


@cache
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the regex of a slot's path or a layout's glob; the rank is its group `rank`, `{_rank}` is `_7` or nothing."""
    return re.compile(_regex_of(glob), re.DOTALL)


def _regex_of(glob: str) -> str:
    pattern = re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    pattern = pattern.replace(r"\{_rank\}", r"(?:_(?P<rank>[0-9]+))?", 1)
    return pattern.replace(r"\{rank\}", r"(?P<rank>[0-9]+)", 1).replace(r"\{rank\}", "(?P=rank)")
