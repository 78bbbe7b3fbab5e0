"""Survey: find the profilers' output in a directory.

`survey` walks a directory once and returns every *cycle* (the output of a profiler for one rank and one schedule cycle) with
its files. It reads at most the first 64 KiB of a file, and only if a layout is recognised by a text in it.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
import stat
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from perfguard.artifacts.layout import Layout, Recognition, Slot, glob_pattern, layouts, regex_of
from perfguard.findings import Code, Finding, Severity
from perfguard.opening import NotRegular, confined, listed, open_regular

#: The deepest folder that is listed, in levels below the inspected directory; msprof writes raw data seven levels down.
MAX_DEPTH = 16
#: The largest number of files and folders that are listed; a rank with its raw data has some hundred.
MAX_ENTRIES = 1_000_000
#: The largest number of files of one slot with a wildcard, logs for instance.
MAX_FILES_OF_SLOT = 10_000
#: The bytes at the beginning of a file that are searched for the text of a layout.
HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file in a slot, not opened yet."""

    slot: Slot
    path: Path
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A directory above a cycle whose name gives its rank and window: `rank_3`, `rank0_start2_stop4`."""

    layout: Layout
    place: Path
    rank: int | None
    #: Number of steps in the window, if the name gives it.
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCycle:
    """The files of one rank and one schedule cycle, by their names only; those that match no slot are `unmatched`."""

    layout: Layout
    place: Path
    files: tuple[FoundFile, ...]
    unmatched: tuple[str, ...] = ()
    #: Why the layout was recognised, in words.
    because: str = ""
    parents: tuple[Parent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything found in a directory; `findings` are about what could not be listed or read."""

    cycles: tuple[FoundCycle, ...]
    parents: tuple[Parent, ...]
    findings: tuple[Finding, ...]


def survey(
    directory: Path,
    only: Layout | None = None,
    *,
    listing: Listing | None = None,
    read: Callable[[Path], str] | None = None,
    without: Collection[str] = (),
) -> Survey:
    """Return every cycle in and below `directory`, in the order of their names (which begin with the time).

    With `only`, that layout alone is searched for; if it is not recognised, the directory itself is taken for it. For a
    directory of another file system, `listing` has its paths, and `read` is its `read_head`. The folders `without`, relative
    paths, are left out.
    """
    with confined(directory) if read is None else nullcontext():
        listing = listing or listed_in(directory)
        return _surveyed(directory, only, listing.without(without), _Heads(read or read_head))


def _surveyed(directory: Path, only: Layout | None, listing: Listing, heads: _Heads) -> Survey:
    parents_first = sorted(layouts(), key=lambda one: one.cycle != "parent")
    tried = parents_first if only is None else [*(one for one in parents_first if one.cycle == "parent"), only]
    found: list[FoundCycle] = []
    parents: dict[str, Parent] = {}
    taken: set[str] = set()
    nesting: set[str] = set()
    marks = _marks(listing, tried)
    for folder in listing.folders:
        if is_inside(folder, taken):
            continue
        place = directory / folder if folder else directory
        recognised = (
            (layout, because)
            for layout in tried
            if layout.cycle != "file"
            and (because := _recognised(layout, place, marks.get(folder, {}), heads)) is not None
        )
        for layout, because in recognised:
            # A directory can be both: `rank_3` that holds the files themselves.
            if layout.cycle == "parent":
                parents.setdefault(folder, _parent(layout, place))
            elif not (layout.nests and is_inside(folder, nesting)):
                found += _directory_cycles(layout, place, folder, listing, because)
                (nesting if layout.nests else taken).add(folder)
                break
    found += _file_cycles(tried, directory, listing, taken, heads)
    if only is not None and not found and only.cycle == "directory":
        found = _directory_cycles(only, directory, "", listing, "it was requested")
    cycles = [_with_parents(_without_inner(cycle, found), directory, parents) for cycle in found]
    return Survey(
        cycles=tuple(sorted(cycles, key=lambda cycle: str(cycle.place))),
        parents=tuple(parents[folder] for folder in sorted(parents)),
        findings=(*listing.findings, *heads.findings(directory, cycles)),
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """Relative paths of everything in a directory: folders first to last, files sorted, and links that are not followed."""

    folders: list[str]
    files: list[str]
    findings: list[Finding]
    links: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all was listed but what is behind links."""
        return all(one.place in self.links for one in self.findings)

    def without(self, folders: Collection[str]) -> Listing:
        """Return the listing without some folders and what is in them."""
        if not folders:
            return self
        apart = set(folders)
        folders, files, links = (
            [one for one in paths if not is_inside(one, apart)] for paths in (self.folders, self.files, self.links)
        )
        return Listing(folders, files, [one for one in self.findings if not is_inside(one.place, apart)], links)

    def below(self, folder: str) -> list[str]:
        """Return the files below a folder, relative to it."""
        if not folder:
            return self.files
        start = bisect_left(self.files, folder + "/")
        end = bisect_left(self.files, folder + "0")  # "0" is the character after "/"
        return [file[len(folder) + 1 :] for file in self.files[start:end]]


def listed_in(directory: Path) -> Listing:
    """List a directory without following links to folders, and without leaving it."""
    listing = Listing([], [], [])
    root = os.path.realpath(directory)
    waiting = [("", 0)]
    seen = 0
    while waiting:
        folder, depth = waiting.pop()
        listing.folders.append(folder)
        try:
            with listed(os.path.join(root, folder)) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):
                    seen += 1
                    if seen > MAX_ENTRIES:
                        listing.findings.append(too_many_entries(folder or "."))
                        waiting.clear()
                        break
                    relative = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_symlink() and (refused := _link_refused(os.path.join(root, relative), root)):
                        severity, where = refused
                        listing.links.append(relative)
                        listing.findings.append(
                            Finding(code=Code.A109, severity=severity, place=relative, message=f"it is a link {where}")
                        )
                    elif entry.is_dir(follow_symlinks=False):
                        if depth < MAX_DEPTH:
                            waiting.append((relative, depth + 1))
                        else:
                            listing.findings.append(too_deep(relative))
                    else:
                        listing.files.append(relative)
        except OSError as error:
            reason = f"it cannot be listed: {error.strerror}"
            listing.findings.append(Finding(code=Code.A109, place=folder or ".", message=reason))
    listing.folders.sort()
    listing.files.sort()
    listing.links.sort()
    return listing


def too_many_entries(place: str) -> Finding:
    """Return the finding for a directory with more entries than are listed."""
    return Finding(
        code=Code.A108, place=place, message=f"more than {MAX_ENTRIES} files and folders: the rest was not listed"
    )


def too_deep(place: str) -> Finding:
    """Return the finding for a folder below the deepest one that is listed."""
    return Finding(code=Code.A108, place=place, message=f"it is {MAX_DEPTH} folders deep: its content was not listed")


def _link_refused(path: str, root: str) -> tuple[Severity, str] | None:
    """Return how bad a link is and where it leads, or None for a link to a file inside the inspected directory."""
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return Severity.ERROR, "that leads nowhere"
    if stat.S_ISDIR(mode):
        # `latest -> run7` is common and harmless: its target is inspected under its own name.
        return Severity.NOTE, "to a folder"
    if target.startswith(root + os.sep):
        return None
    return Severity.ERROR, "that leads out of the directory: it is not read"


#: The paths in a folder that match the globs of the layouts: glob -> the first paths.
_Marks = Mapping[str, list[str]]
_ReadHead = Callable[[Path], str]


def _marks(listing: Listing, tried: Iterable[Layout]) -> Mapping[str, _Marks]:
    """Return for each folder the globs of the layouts that match something in it, in one pass over all paths."""
    by_depth: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for glob in dict.fromkeys(
        glob for layout in tried for way in layout.recognise for glob in (*way.contains, *way.texts, *way.lacks)
    ):
        short = glob.removesuffix("/**")  # a folder with anything in it is a folder
        by_depth[short.count("/")].append((glob, short))
    # Most paths match none of them: one pattern for all globs saves the loop below.
    any_of = {
        depth: re.compile("|".join(f"(?:{regex_of(short, rank=None)})" for _, short in globs))
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


def _recognised(layout: Layout, place: Path, marks: _Marks, read_head: _ReadHead) -> str | None:
    """Return why a directory or file is of a layout, in words, or None if it is not."""
    reasons = (_reasons(way, place, marks, read_head) for way in layout.recognise)
    return next((" and ".join(several) for several in reasons if several is not None), None)


def _reasons(way: Recognition, place: Path, marks: _Marks, read_head: _ReadHead) -> list[str] | None:
    reasons = []
    for what, pattern, text in (("name", way.name, place.name), ("path", way.path, place.as_posix())):
        if pattern is not None:
            if not re.search(pattern, text):
                return None
            reasons.append(f"its {what} matches {pattern}")
    if way.contains:
        present = next((marks[glob][0] for glob in way.contains if marks.get(glob)), None)
        if present is None:
            return None
        reasons.append(f"it holds {present}")
    if any(marks.get(glob) for glob in way.lacks):
        return None
    for glob, text in way.texts.items():
        paths = (one for one in marks.get(glob, ()) if re.search(text, read_head(place / one), re.MULTILINE))
        bearer = next(paths, None)
        if bearer is None:
            return None
        reasons.append(f"{'it' if bearer == '.' else bearer} says {text}")
    return reasons


def head(path: Path) -> str:
    """Return the first 64 KiB of a regular file as text (of gzip: of what is in it), the empty text for anything else."""
    try:
        return read_head(path)
    except OSError:
        # The reader of the whole file reports the error.
        return ""


def read_head(path: Path) -> str:
    """Return what `head` does, but raise `OSError` for a file that cannot be read."""
    try:
        with open_regular(path) as opened:
            file = gzip.GzipFile(fileobj=opened) if path.suffix == ".gz" else opened
            return file.read(HEAD_BYTES).decode("utf-8", errors="replace")
    except (NotRegular, gzip.BadGzipFile, EOFError, zlib.error):
        return ""


class _Heads:
    """Reads heads and remembers unreadable files: one may be the trace of a rank."""

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
        """Yield a finding for each unreadable file outside the cycles; the inspection of a cycle reports its own."""
        seen = {file.path for cycle in cycles for file in cycle.files} if self.unread else set()
        for path, reason in sorted(self.unread.items()):
            if path not in seen:
                place = path.relative_to(directory).as_posix()
                message = f"it cannot be read, so its layout is unknown: {reason}"
                yield Finding(code=Code.A111, place=place, message=message)


def size_of(path: Path) -> int:
    """Return the size of a file in bytes, 0 where `stat` fails: the reader reports the error."""
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
    """Remove from a cycle the files of the cycles nested in it."""
    inner = {other.place for other in found if other.place != cycle.place} if cycle.layout.nests else set()
    if not inner:
        return cycle

    def is_own(path: Path) -> bool:
        return path not in inner and inner.isdisjoint(path.parents)

    return dataclasses.replace(
        cycle,
        files=tuple(file for file in cycle.files if is_own(file.path)),
        unmatched=tuple(one for one in cycle.unmatched if is_own(cycle.place / one)),
    )


def _with_parents(cycle: FoundCycle, directory: Path, parents: Mapping[str, Parent]) -> FoundCycle:
    around = [one for one in (cycle.place, *cycle.place.parents) if one.is_relative_to(directory)]
    folders = ["" if one == directory else one.relative_to(directory).as_posix() for one in around]
    return dataclasses.replace(cycle, parents=tuple(parents[folder] for folder in folders if folder in parents))


def _directory_cycles(layout: Layout, place: Path, folder: str, listing: Listing, because: str) -> list[FoundCycle]:
    files: list[FoundFile] = []
    unmatched: list[str] = []
    for relative in listing.below(folder):
        for slot in layout.slots:
            rank = slot.match(relative)
            if rank is not False:
                files.append(FoundFile(slot=slot, path=place / relative, rank=rank))
                break
        else:
            unmatched.append(relative)
    ranks = sorted({file.rank for file in files if file.rank is not None})
    if layout.ranks == "one" or len(ranks) < 2:
        return [FoundCycle(layout=layout, place=place, files=tuple(files), unmatched=tuple(unmatched), because=because)]
    # A file without a rank belongs to all of them; it is inspected once, with the first.
    first = ranks[0]
    return [
        FoundCycle(
            layout=layout,
            place=place,
            files=tuple(file for file in files if file.rank == rank or (file.rank is None and rank == first)),
            unmatched=tuple(unmatched) if rank == first else (),
            because=because,
        )
        for rank in ranks
    ]


def is_inside(path: str, folders: set[str]) -> bool:
    """Whether a relative path is one of the folders, or inside one."""
    parts = path.split("/") if folders else []
    return "" in folders or any("/".join(parts[:count]) in folders for count in range(1, len(parts) + 1))


def _file_cycles(
    tried: Iterable[Layout], directory: Path, listing: Listing, taken: set[str], read_head: _ReadHead
) -> Iterator[FoundCycle]:
    of_files = [layout for layout in tried if layout.cycle == "file"]
    for relative in listing.files:
        if is_inside(relative, taken):
            continue
        path = directory / relative
        for layout in of_files:
            # A file has nothing below it: the texts are searched for in the file itself.
            because = _recognised(layout, path, {"*": ["."]}, read_head)
            if because is not None:
                named = re.search(layout.rank, path.name) if layout.rank else None
                file = FoundFile(slot=layout.slots[0], path=path, rank=int(named[1]) if named else None)
                yield FoundCycle(layout=layout, place=path, files=(file,), because=because)
                break
