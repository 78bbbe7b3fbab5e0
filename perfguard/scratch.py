"""Scratch: temporary folders of perfguard's own, and what killed processes left behind.

A folder is in use while a process holds a lock on it (flock(2): the system releases it however the process ends, also in
another container that shares the folder). Who makes a folder deletes first what is no longer in use. Only folders of this
user's with perfguard's names are, and no link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

#: How the names of folders that nothing outlives begin; as `tempfile` makes them.
PREFIX = "perfguard-scratch-"
_NAME = re.compile(r"[a-z0-9_]{8}")


class Folder:
    """A folder that this process uses until it ends, or removes it."""

    def __init__(self, path: Path) -> None:
        """Use a folder. Raises `OSError`."""
        self.path = path
        self._process = os.getpid()
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with suppress(OSError):  # a file system without locks: nothing is ever deleted there
            lock(self._handle, wait=True)

    @property
    def is_there(self) -> bool:
        """Whether nobody deleted it in the moment between its making and its lock."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Delete the folder with its content; a forked process leaves it to the one that made it."""
        if os.getpid() == self._process:
            remove_tree(self.path)
            self.release()

    def release(self) -> None:
        """Use it no longer."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def new_folder(prefix: str = PREFIX) -> Folder:
    """Make a folder. Raises `OSError`."""
    while True:
        made = Folder(Path(tempfile.mkdtemp(prefix=prefix)))
        if made.is_there:
            return made
        made.release()


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for the time of the context. Raises `OSError`."""
    made = own_folder()
    try:
        yield made.path
    finally:
        made.remove()


def own_folder() -> Folder:
    """Make a folder that its user removes, once what killed processes left is deleted. Raises `OSError`."""
    _sweep(tempfile.gettempdir())
    return new_folder()


def kept_folder(prefix: str, result: str) -> Path:
    """Make a folder that is there for good as soon as it holds `result`; those of killed processes never do."""
    for path in left(prefix):
        if not (path / result).exists():
            remove_tree(path)
    return new_folder(prefix).path  # in use until the end of the process


@cache
def _sweep(above: str) -> None:
    """Delete what killed processes left, once for a temporary directory."""
    for path in left(PREFIX):
        remove_tree(path)


def left(prefix: str) -> Iterator[Path]:
    """Yield this user's folders that no process uses; none begins to while one is looked at."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _NAME.fullmatch(path.name.removeprefix(prefix)):
            with abandoned(path) as is_left:
                if is_left:
                    yield path


@contextmanager
def abandoned(path: Path, *, kind: Callable[[int], bool] = stat.S_ISDIR) -> Iterator[bool]:
    """Give whether a folder, or another kind of file, is this user's and no process uses it."""
    try:
        # A pipe without a writer must not block.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        yield False
        return
    try:
        yield _is_free(handle, kind)
    finally:
        os.close(handle)


def _is_free(handle: int, kind: Callable[[int], bool]) -> bool:
    found = os.fstat(handle)
    try:
        # Another user may make a file of any name.
        return kind(found.st_mode) and found.st_uid == os.getuid() and lock(handle, wait=False)
    except OSError:
        return False


def remove_tree(path: Path) -> None:
    """Delete a folder, also what is write-protected in it. What cannot be deleted is tried again by the next sweep."""
    for place, folders, _ in os.walk(path):
        for name in folders:
            with suppress(OSError):
                if not os.path.islink(os.path.join(place, name)):
                    os.chmod(os.path.join(place, name), 0o700)
    shutil.rmtree(path, ignore_errors=True)


def lock(handle: int, *, wait: bool) -> bool:
    """Lock an open folder or file; return whether this process has the lock. Raises `OSError` where there are none."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
