"""A file that a user edits while a training runs: polled between steps, read again only after an edit."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from perfguard.integrations.config_files import LARGEST_BYTES

#: Two edits within this time may have the same modification time: FAT counts in steps of two seconds.
_RACY_NS = 2 * 10**9


class WatchedFile:
    """A file that is polled: one `stat` without an edit; a read after its time, size or inode changed.

    A file edited within two seconds of the last read is read again, as its modification time may hide an edit. A half-written
    file is returned as it is; the rest of it is the next change.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._digest = b""
        self._is_racy = False

    def changed(self) -> bytes | None:
        """Return the contents if the file was saved since the last call, else None; None also without a file.

        Raises `OSError`, once for each save.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._stamp = None
            return None
        if _stamp(found) == self._stamp and not self._is_racy:
            return None
        before, self._stamp, self._is_racy = self._stamp, _stamp(found), False
        data, stamps, found = _read(self.path)
        if len(stamps) > 1:
            # Written during the read: the next call returns the contents.
            self._stamp, self._is_racy = before, True
            return None
        self._stamp = _stamp(found)
        self._is_racy = abs(time.time_ns() - found.st_mtime_ns) < _RACY_NS
        digest = hashlib.sha256(data).digest()
        is_same = self._stamp == before and digest == self._digest
        self._digest = digest
        return None if is_same else data


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file, one byte more than a configuration may have at most; never waits for a pipe."""
    return _read(path)[0]


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[bytes, set[tuple[int, int, int]], os.stat_result]:
    """Return the contents, the stamps before and after the read, and the last `stat`."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        before = os.fstat(file.fileno())
        data = file.read(LARGEST_BYTES + 1) or b""
        after = os.fstat(file.fileno())
    return data, {_stamp(before), _stamp(after)}, after
