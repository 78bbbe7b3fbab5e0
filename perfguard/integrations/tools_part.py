"""The parts of a tools.json profile (static window, dynamic windows, memory history): their methods, directory and driver."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.capture.driver import Driver
from perfguard.capture.torch_backend import TorchBackend, TorchOptions
from perfguard.documents import FORMAT, dumps
from perfguard.errors import PerfguardError, UsageError, listed
from perfguard.recording import PROFILER_DIRECTORY, Recording
from perfguard.screen import one_line
from perfguard.window import StepWindow
from perfguard.writing import write_atomically

logger = logging.getLogger(__name__)

#: The requested options and those without effect on this device; written next to recording.json.
OPTIONS_FILE = "options.json"
#: In a directory while a capture writes into it, so that no two processes use the same one.
CLAIM_FILE = ".perfguard-running"
_NAMED = 3


class Part:
    """One profiler of a tools.json: a window, windows on demand, or a memory history."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []

    def start(self) -> None:
        """Begin before the first step."""

    def step(self) -> None:
        """End a step, and begin the next one."""

    def stop(self) -> None:
        """End after the last step."""

    def abort(self, error: BaseException) -> None:
        """End in mid-step. Raises nothing."""


class WindowPart(Part):
    """A window in a claimed directory; its recording is next to the profiler's files, and no step is timed unprofiled.

    The `requested` options, and the `notes` on those without effect here, are written next to the recording. Raises
    `CaptureError` and `StoreError`, and releases the directory then.
    """

    def __init__(
        self,
        options: TorchOptions,
        *,
        workload: str,
        directory: Path,
        window: StepWindow,
        requested: dict[str, Any],
        notes: list[str],
    ) -> None:
        super().__init__()
        self._directory = directory
        try:
            backend = TorchBackend(replace(options, directory=directory))
            self.driver = Driver(backend, workload=workload, directory=directory, window=window, timed_steps=0)
            # The trace is next to recording.json, where other tools look for it; an empty profiler/ would hide it.
            (directory / PROFILER_DIRECTORY).rmdir()
            document = {"format": FORMAT, "asked": requested, "without_meaning": notes}
            write_atomically(directory / OPTIONS_FILE, dumps(document))
        except PerfguardError:
            _release(directory)
            raise

    def start(self) -> None:
        """Begin the first step."""
        self.driver.begin()

    def step(self) -> None:
        """End a step and begin the next one; the last one of the window writes the recording."""
        if self.driver.has_ended:
            return
        if self.driver.end():
            self.finish()
        else:
            self.driver.begin()

    def stop(self) -> None:
        """End the capture; an incomplete window ends as LOADER_ENDED."""
        self.driver.close()
        self.finish()

    def abort(self, error: BaseException) -> None:
        """End the capture in mid-step."""
        self.driver.abort(error)
        self.finish()
        if self.driver.problem:
            logger.error("%s", self.driver.problem)

    def finish(self) -> None:
        """Release the directory after the capture has ended. Idempotent."""
        if self.driver.recording is not None:
            self.recordings = [self.driver.recording]
        _release(self._directory)


def claim(directory: Path, *, name: str, above: Path | None = None) -> None:
    """Create a directory, or take an empty one, for one recording. Raises `UsageError` and changes nothing if it is in use.

    `name` is its name in messages; `above` may hold only one directory per rank.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = [one for one in _names(above) if not re.fullmatch(r"rank_[0-9]{1,9}", one)] if above is not None else []
        held = held or _names(directory)
        if not held:
            # Only one process can create the file, so two that find the directory empty never share it.
            os.close(os.open(directory / CLAIM_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return
    except FileExistsError as error:
        if not directory.is_dir():
            raise UsageError(f"{name} is a file, or is below one; name a directory.") from error
        held = _names(directory)
    except OSError as error:
        raise UsageError(f"{name} cannot be created: {error.strerror}; name another directory.") from error
    raise UsageError(
        f"{name} already holds {listed([one_line(one) for one in held], _NAMED)}, and a directory holds one run; move it away "
        "or name another directory."
    )


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def _release(directory: Path) -> None:
    """Release a claimed directory. Idempotent."""
    with suppress(OSError):  # the file or its file system is gone; the recording says how it ended
        (directory / CLAIM_FILE).unlink()
