"""Progress: how many bytes have been read so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Called with the number of bytes that were read since the last call.
Report = Callable[[int], None]


class Progress(Protocol):
    """Receives progress: `begin` once for each recording with its bytes, then `report` until all of them are reported."""

    def begin(self, total: int) -> None:
        """Announce the total number of bytes."""

    def report(self, count: int) -> None:
        """Report `count` more bytes as read."""


class Meter:
    """Counts the bytes of one file after the other; bytes that a reader does not report are reported at the end of the file."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._left = 0

    def begin(self, size: int) -> None:
        """Begin a file of `size` bytes, after reporting the rest of the file before it."""
        self.end()
        self._left = size

    def report(self, count: int) -> None:
        """Report `count` more bytes of the file, never more than its size."""
        count = min(count, self._left)
        self._left -= count
        if count and self._report is not None:
            self._report(count)

    def end(self) -> None:
        """Report the rest of the file."""
        self.report(self._left)
