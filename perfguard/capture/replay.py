"""The replay backend: a directory that lies on disk is the recording."""

from __future__ import annotations

import os
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.recording import Recording, read_recording


def replay(directory: Path) -> Recording:
    """Return what lies in `directory` as a recording, with its facts where perfguard recorded it.

    Raises `UsageError` when it is no directory, `StoreError` when its facts are damaged.
    """
    if not os.path.isdir(directory):  # unlike Path.is_dir, False for a name no file system takes
        raise UsageError(f"{directory} is not a directory; name one that a profiler wrote, or a perfguard recording.")
    return read_recording(directory.resolve())
