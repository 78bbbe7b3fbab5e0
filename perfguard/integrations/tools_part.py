"""A part of what a tools.json asks for: what each can do, the directory that it alone fills, and the driver of its window."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from perfguard.capture.driver import Driver
from perfguard.capture.torch_backend import TorchBackend
from perfguard.documents import FORMAT, dumps, write_atomically
from perfguard.errors import PerfguardError, UsageError
from perfguard.integrations.tools_config import one_line
from perfguard.recording import PROFILER_DIRECTORY, Recording
from perfguard.window import StepWindow

#: What was asked for, and what of it has no meaning on this device; beside recording.json.
OPTIONS_FILE = "options.json"
#: In a directory as long as a capture fills it, so that two processes never take the same one.
CLAIM_FILE = ".perfguard-running"
_NAMED = 3


class Part(Protocol):
    """What one profiler object does: a window, windows on demand, a history of memory."""

    recordings: list[Recording]

    def start(self) -> None:
        """Begin before the first step."""

    def step(self) -> None:
        """End a step, and begin the next one."""

    def stop(self) -> None:
        """End after the last step."""

    def abort(self, error: BaseException) -> None:
        """End in mid-step, and raise nothing."""


def event_driver(
    backend: TorchBackend,
    *,
    workload: str,
    directory: Path,
    window: StepWindow,
    asked: dict[str, Any],
    notes: list[str],
) -> Driver:
    """Make the driver of a loop that is only watched, in a directory that was claimed: nothing is timed unprofiled.

    What was `asked`, and the `notes` on what of it nobody reads here, are written beside the recording. Raises
    `CaptureError` and `StoreError`; the directory is released then.
    """
    try:
        driver = Driver(backend, workload=workload, directory=directory, window=window, timed_steps=0)
        # The trace lies beside the facts, where other tools look for it; an empty profiler/ would hide it.
        (directory / PROFILER_DIRECTORY).rmdir()
        document = {"format": FORMAT, "asked": asked, "without_meaning": notes}
        write_atomically(directory / OPTIONS_FILE, dumps(document))
    except PerfguardError:
        release(directory)
        raise
    return driver


def claim(directory: Path, *, name: str, above: Path | None = None) -> None:
    """Take a directory for one recording: made, and empty. Raises `UsageError`, with nothing touched, where it is not.

    `name` is what messages call it; `above` holds a directory a rank, and nothing else.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = [one for one in _names(above) if not re.fullmatch(r"rank_[0-9]{1,9}", one)] if above is not None else []
        held = held or _names(directory)
        if not held:
            # Only one process can make it: two that found the directory empty never share it.
            os.close(os.open(directory / CLAIM_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return
    except FileExistsError as error:
        if not directory.is_dir():
            raise UsageError(f"{name} is a file or lies in one; name a directory.") from error
        held = _names(directory)
    except OSError as error:
        raise UsageError(f"{name} cannot be made: {error.strerror}; name another place.") from error
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    raise UsageError(
        f"{name} already holds {', '.join(map(one_line, held[:_NAMED]))}{more}, and two runs are never mixed; move it away "
        "or name another place."
    )


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def release(directory: Path) -> None:
    """Say that a directory is filled. Idempotent."""
    with suppress(OSError):  # gone already, or its file system is: the recording itself says how it ended
        (directory / CLAIM_FILE).unlink()
