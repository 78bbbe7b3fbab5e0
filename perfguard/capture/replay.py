"""The replay backend: a directory on disk is the recording."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from perfguard.artifacts.remote import RemoteTree, Unfetched
from perfguard.errors import DamagedError, UsageError
from perfguard.recording import RECORDING_FILE, STEPS_FILE, Recording, read_recording


def replay(directory: Path) -> Recording:
    """Return the recording in `directory`, with its recording.json and steps.json if perfguard wrote them.

    Raises `UsageError` if it is not a directory, `DamagedError` if one of these files is damaged.
    """
    recordings = recordings_in(directory)
    if len(recordings) != 1:
        named = ", ".join(str(one) for one in recordings[:5])
        raise UsageError(f"{directory} holds {len(recordings)} perfguard recordings; name one of them: {named}")
    return read_recording(recordings[0].resolve())


def recordings_in(directory: Path) -> list[Path]:
    """Return a directory itself if perfguard recorded it, else the recordings directly below it, else the directory itself.

    `--perfguard-recordings DIR` puts one recording per measurement into DIR; judged as one they would be averaged. Raises
    `UsageError` if it is not a directory.
    """
    if not os.path.isdir(directory):  # unlike Path.is_dir, False for a name no file system takes
        raise UsageError(f"{directory} is not a directory; name one that a profiler wrote, or a perfguard recording.")
    if os.path.lexists(directory / RECORDING_FILE):
        return [directory]
    try:
        return sorted(one for one in directory.iterdir() if os.path.lexists(one / RECORDING_FILE)) or [directory]
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}. Change its permissions.") from error


def trees_in(url: str) -> list[RemoteTree]:
    """Return the recordings below a URL, as `recordings_in` does. Raises `UsageError` if it cannot be listed."""
    tree = RemoteTree(url)
    if tree.is_file(tree.root / RECORDING_FILE):
        return [tree]
    ending = f"/{RECORDING_FILE}"
    folders = [name.removesuffix(ending) for name in sorted(tree.sizes) if name.endswith(ending)]
    return [tree.below(folder) for folder in folders if "/" not in folder] or [tree]


def replay_tree(tree: RemoteTree) -> Recording:
    """Return the recording at a URL; its directory is the root of the tree, which is not on this machine.

    Raises the errors of `replay`.
    """
    if not tree.is_file(tree.root / RECORDING_FILE):
        return Recording(directory=tree.root)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="perfguard-") as scratch:
        for name in (RECORDING_FILE, STEPS_FILE):
            if tree.is_file(tree.root / name):
                try:
                    Path(scratch, name).write_bytes(tree.read_bytes(name))
                except Unfetched as error:
                    raise DamagedError(f"{tree.shown}/{error}; repair it, then run the same command again.") from error
        try:
            return replace(read_recording(Path(scratch)), directory=tree.root)
        except DamagedError as error:
            raise DamagedError(str(error).replace(scratch, tree.shown)) from error
