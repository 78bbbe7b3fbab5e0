"""The replay backend: a directory that lies on disk is the recording."""

from __future__ import annotations

import os
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.recording import RECORDING_FILE, Recording, read_recording


def replay(directory: Path) -> Recording:
    """Return what lies in `directory` as a recording, with its facts where perfguard recorded it.

    Raises `UsageError` when it is no directory, `StoreError` when its facts are damaged.
    """
    recordings = recordings_in(directory)
    if len(recordings) != 1:
        named = ", ".join(str(one) for one in recordings[:5])
        raise UsageError(f"{directory} holds {len(recordings)} perfguard recordings; name one of them: {named}")
    return read_recording(recordings[0].resolve())


def recordings_in(directory: Path) -> list[Path]:
    """Return the recordings in a directory: itself, or where it is none, those directly below it; else itself again.

    `--perfguard-recordings DIR` fills DIR with one recording a measurement; judged as one they would be averaged. Raises
    `UsageError` when it is no directory.
    """
    if not os.path.isdir(directory):  # unlike Path.is_dir, False for a name no file system takes
        raise UsageError(f"{directory} is not a directory; name one that a profiler wrote, or a perfguard recording.")
    if os.path.lexists(directory / RECORDING_FILE):
        return [directory]
    try:
        return sorted(one for one in directory.iterdir() if os.path.lexists(one / RECORDING_FILE)) or [directory]
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}. Mend its permissions.") from error
