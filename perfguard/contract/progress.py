"""Progress: how many of the bytes there are have been looked at, told while it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Is told how many more bytes were looked at.
Tell = Callable[[int], None]


class Progress(Protocol):
    """What is told of the work: `begin` once for every recording, with its bytes; then `tell`, until they are all told."""

    def begin(self, total: int) -> None:
        """So many bytes are going to be looked at."""

    def tell(self, count: int) -> None:
        """So many more of them were."""


class Meter:
    """Counts the bytes of one file after the other: what its reader does not tell itself is told at its end."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell
        self._left = 0

    def begin(self, size: int) -> None:
        """Begin a file of `size` bytes; what is left of the one before it is told."""
        self.end()
        self._left = size

    def tell(self, count: int) -> None:
        """So many more bytes of the file were read; never more are told than it has."""
        count = min(count, self._left)
        self._left -= count
        if count and self._tell is not None:
            self._tell(count)

    def end(self) -> None:
        """Tell what is left of the file."""
        self.tell(self._left)
