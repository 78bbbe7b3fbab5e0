"""The replay backend: a directory on disk is the recording."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from perfguard import scratch
from perfguard.artifacts.remote import RemoteTree, Unfetched
from perfguard.errors import DamagedError, UsageError
from perfguard.opening import confined
from perfguard.recording import FACTS_FILES, RECORDING_FILE, Recording, read_recording


def replay(directory: Path, *, found_in: Path | None = None) -> Recording:
    """Return the recording in `directory`, with its recording.json and steps.json if perfguard wrote them.

    One that was `found_in` another directory, and not named, may be a link: it is not followed out of that directory.
    Raises `UsageError` if it is not a directory, `DamagedError` if one of these files is damaged.
    """
    recordings = recordings_in(directory)
    if len(recordings) != 1:
        named = ", ".join(str(one) for one in recordings[:5])
        raise UsageError(f"{directory} holds {len(recordings)} perfguard recordings; name one of them: {named}")
    (place,) = recordings
    around = Path(os.path.realpath(directory if found_in is None else found_in))
    # What is compared is read: another process may change the link.
    real = Path(os.path.realpath(place))
    if not real.is_relative_to(around):
        return Recording(directory=place.absolute(), leads_out=True)
    with confined(around):
        return replace(read_recording(real), found_in=around)


def recordings_in(directory: Path) -> list[Path]:
    """Return a directory itself if perfguard recorded it, else the recordings directly below it, else the directory itself.

    `--perfguard-recordings DIR` puts one recording per measurement into DIR; judged as one they would be averaged. Raises
    `UsageError` if it is not a directory.
    """
    if not os.path.isdir(directory):  # unlike Path.is_dir, False for a name no file system takes
        what = "is not a directory" if os.path.lexists(directory) else "does not exist"
        raise UsageError(
            f"{directory} {what}; name a directory that a profiler wrote, or a perfguard recording (perfguard check takes a "
            "trace file, too)."
        )
    if os.path.lexists(directory / RECORDING_FILE):
        return [directory]
    try:
        return sorted(one for one in directory.iterdir() if os.path.lexists(one / RECORDING_FILE)) or [directory]
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}. Change its permissions.") from error


def trees_in(url: str) -> list[RemoteTree]:
    """Return the recordings below a URL, as `recordings_in` does. Raises `UsageError` if it cannot be listed."""
    tree = RemoteTree(url)
    names = {*tree.sizes, *tree.links}
    if RECORDING_FILE in names:
        return [tree]
    ending = f"/{RECORDING_FILE}"
    folders = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    if not (folders := [folder for folder in folders if "/" not in folder]):
        return [tree]
    # A link may be a recording as well.
    return [tree.below(folder) for folder in sorted({*folders, *(one for one in tree.links if "/" not in one)})]


def replay_tree(tree: RemoteTree) -> Recording:
    """Return the recording at a URL; its directory is the root of the tree, which is not on this machine.

    One whose facts are links is foreign, as for `read_recording`. Raises the errors of `replay`.
    """
    if tree.is_link:
        return Recording(directory=tree.root, leads_out=True)
    if not tree.is_file(tree.root / RECORDING_FILE) or not tree.links.isdisjoint(FACTS_FILES):
        return Recording(directory=tree.root)
    with scratch.folder() as place:
        for name in FACTS_FILES:
            if tree.is_file(tree.root / name):
                try:
                    (place / name).write_bytes(tree.read_bytes(name))
                except Unfetched as error:
                    raise DamagedError(f"{tree.shown}/{error}; repair it, then run the same command again.") from error
        try:
            return replace(read_recording(place), directory=tree.root)
        except DamagedError as error:
            raise DamagedError(str(error).replace(str(place), tree.shown)) from error
