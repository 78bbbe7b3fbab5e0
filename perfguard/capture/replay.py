"""The replay backend: a directory on disk is the recording."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from perfguard import scratch
from perfguard.artifacts.remote import RemoteTree, Unfetched
from perfguard.artifacts.survey import Listing, is_inside, listed_in, survey
from perfguard.errors import DamagedError, UsageError, counted
from perfguard.opening import confined
from perfguard.recording import (
    FACTS_FILES,
    PROFILER_DIRECTORY,
    RECORDING_FILE,
    Recording,
    read_recording,
    unfinished,
)

#: What a capture that was killed leaves beside the profiler's directory: the launcher's logs, and files half written.
_LOGS = "logs"


def replay(directory: Path, *, found_in: Path | None = None) -> Recording:
    """Return the recording in `directory`, with its recording.json and steps.json if perfguard wrote them.

    One that was `found_in` another directory, and not named, may be a link: it is not followed out of that directory. Found in
    itself, a directory is what is in it beside its recordings. Raises `UsageError` if it is not a directory, `DamagedError` if
    one of these files is damaged, or missing since the process that recorded it was killed.
    """
    others = [one for one in recordings_in(directory) if one != directory]
    if found_in is None and others:
        named = ", ".join(str(one) for one in others[:5])
        which = "it" if len(others) == 1 else "one of them"
        raise UsageError(f"{directory} holds {counted(len(others), 'perfguard recording')}; name {which}: {named}")
    around = Path(os.path.realpath(directory if found_in is None else found_in))
    # What is compared is read: another process may change the link.
    real = Path(os.path.realpath(directory))
    if not real.is_relative_to(around):
        return Recording(directory=directory.absolute(), leads_out=True)
    with confined(around):
        found = read_recording(real)
    if found.fingerprint is None and real != around and not _has_facts(real):
        raise unfinished(str(directory))
    without = tuple(one.relative_to(directory).as_posix() for one in others)
    return replace(found, found_in=around, without=without)


def recordings_in(directory: Path) -> list[Path]:
    """Return a directory itself if perfguard recorded it, else the recordings below it, else the directory itself.

    `--perfguard-recordings DIR` puts one recording per measurement into DIR; judged as one they would be averaged. Among them
    are those that a process left when it was killed, and last, if there is other output of a profiler, the directory itself.
    Raises `UsageError` if it is not a directory.
    """
    if not os.path.isdir(directory):  # unlike Path.is_dir, False for a name no file system takes
        what = "is not a directory" if os.path.lexists(directory) else "does not exist"
        raise UsageError(
            f"{directory} {what}; name a directory that a profiler wrote, or a perfguard recording (perfguard check takes a "
            "trace file, too)."
        )
    if _has_facts(directory):
        return [directory]
    try:
        os.scandir(directory).close()
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}. Change its permissions.") from error
    with confined(directory):
        listing = listed_in(directory)
        found = _recorded(listing, lambda link: _has_facts(directory / link))
        if not found:
            return [directory]
        rest = listing.without(found)
        is_more = not rest.is_whole or survey(directory, listing=rest).cycles
    return [*(directory / one for one in found), *([directory] if is_more else [])]


def _has_facts(directory: Path) -> bool:
    return any(os.path.lexists(directory / name) for name in FACTS_FILES)


def _recorded(listing: Listing, is_recording: Callable[[str], bool]) -> list[str]:
    """Return the folders that perfguard recorded into, by relative path; none if none of them has its facts.

    A link is one if `is_recording` says so. A recording without its facts was killed: it has the profiler's directory and
    nothing else, or nothing at all beside another recording. A folder that has other files as well is not a recording.
    """
    marked = {
        folder
        for path in (*listing.files, *listing.links)
        for folder, _, name in (path.rpartition("/"),)
        if name in FACTS_FILES
    }
    found = set(_topmost({*marked, *filter(is_recording, listing.links)}))
    if not found:
        return []
    content: dict[str, set[str]] = defaultdict(set)
    rest = listing.without(found)
    for path in (*listing.folders, *rest.files, *rest.links):
        folder, _, name = path.rpartition("/")
        content[folder].add(name)
    folders = set(rest.folders)
    beside = {one.rpartition("/")[0] for one in found}
    unlisted = {one.place for one in rest.findings}
    for folder in rest.folders:
        names = content.get(folder, set())
        is_profiled = f"{folder}/{PROFILER_DIRECTORY}" in folders and all(
            name in (PROFILER_DIRECTORY, _LOGS) or name.startswith(".") for name in names
        )
        is_empty = not names and folder not in unlisted and folder.rpartition("/")[0] in beside
        if folder and (is_profiled or is_empty):
            found.add(folder)
    return _topmost(found)


def _topmost(folders: set[str]) -> list[str]:
    """Return the folders that are in no other of them, sorted."""
    return sorted(one for one in folders if not is_inside(one.rpartition("/")[0], folders))


def trees_in(url: str) -> list[RemoteTree]:
    """Return the recordings below a URL, as `recordings_in` does. Raises `UsageError` if it cannot be listed."""
    tree = RemoteTree(url)
    if not {*tree.sizes, *tree.links}.isdisjoint(FACTS_FILES):
        return [tree]
    listing = tree.listing(tree.root)
    if not (found := _recorded_at(tree)):
        return [tree]
    rest = listing.without(found)
    is_more = not rest.is_whole or survey(tree.root, listing=rest, read=tree.head).cycles
    return [*(tree.below(folder) for folder in found), *([tree] if is_more else [])]


def _recorded_at(tree: RemoteTree) -> list[str]:
    # A link may be a recording as well.
    return _recorded(tree.listing(tree.root), lambda link: "/" not in link)


def replay_tree(tree: RemoteTree) -> Recording:
    """Return the recording at a URL; its directory is the root of the tree, which is not on this machine.

    One whose facts are links is foreign, as for `read_recording`. Raises the errors of `replay`.
    """
    if tree.is_link:
        return Recording(directory=tree.root, leads_out=True)
    if not tree.links.isdisjoint(FACTS_FILES):
        return Recording(directory=tree.root)
    present = [name for name in FACTS_FILES if tree.is_file(tree.root / name)]
    if RECORDING_FILE not in present and (present or tree.folder):
        raise unfinished(tree.shown)
    if not present:
        return Recording(directory=tree.root, without=tuple(_recorded_at(tree)))
    with scratch.folder() as place:
        for name in present:
            try:
                (place / name).write_bytes(tree.read_bytes(name))
            except Unfetched as error:
                raise DamagedError(f"{tree.shown}/{error}; repair it, then run the same command again.") from error
        try:
            return replace(read_recording(place), directory=tree.root)
        except DamagedError as error:
            raise DamagedError(str(error).replace(str(place), tree.shown)) from error
