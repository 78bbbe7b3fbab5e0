"""Opening: what others wrote is opened once, and what was opened is checked, not its name.

Between a look at a path and the opening of it another process can put a link there. So the file is opened first; then the
system says what was opened and where it is. While a directory confines, nothing outside of it is opened or listed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

#: Whether the system opens a file without its contents, and shows the path of what was opened (Linux, proc_pid_fd(5)).
_SHOWS_PATHS = hasattr(os, "O_PATH") and os.path.isdir("/proc/self/fd")
_LEADS_OUT = "it leads out of the directory: it is not read"

_boundaries: ContextVar[tuple[str, ...]] = ContextVar("boundaries", default=())


class NotRegular(OSError):
    """What is at a path is not a regular file; `strerror` says so in words, as for any other `OSError`."""


class Outside(OSError):
    """What is at a path is outside of the directories that confine, and is not read; `strerror` says so."""


@contextmanager
def confined(*directories: Path) -> Iterator[None]:
    """Open and list nothing outside of these directories while this lasts, nor outside of those that confine already.

    The directories themselves may be links, or lie below one; links in them are followed to files inside.
    """
    token = _boundaries.set((*_boundaries.get(), *map(_real_path, directories)))
    try:
        yield
    finally:
        _boundaries.reset(token)


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file to read its bytes, without ever waiting for a pipe.

    Raises `NotRegular` for anything else, `Outside` for a file outside, another `OSError` if it cannot be opened.
    """
    return open(path, "rb", buffering=buffering, opener=_open_checked)


@contextmanager
def listed(directory: str | os.PathLike[str]) -> Iterator[list[os.DirEntry[str]]]:
    """Give the entries of a directory. Raises `Outside`, or another `OSError` if it cannot be listed."""
    if not _SHOWS_PATHS:
        _require_inside(os.path.realpath(directory))
        with os.scandir(directory) as entries:
            yield list(entries)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_inside(_path_of(descriptor))
        with os.scandir(descriptor) as entries:
            yield list(entries)
    finally:
        os.close(descriptor)


def is_open_twice(descriptor: int) -> bool:
    """Whether another descriptor of this process has the same file open, such as that of a library that takes paths.

    True if the system does not show what is open.
    """
    if not _SHOWS_PATHS:
        return True
    mine = os.fstat(descriptor)
    others = (int(name) for name in os.listdir("/proc/self/fd"))
    return any(one != descriptor and os.path.samestat(mine, found) for one in others if (found := _status(one)))


def _status(descriptor: int) -> os.stat_result | None:
    try:
        return os.fstat(descriptor)
    except OSError:
        # That of the listing, which is closed; or another thread has closed it.
        return None


def _open_checked(path: str, flags: int) -> int:
    if not _SHOWS_PATHS:
        return _open_compared(path, flags)
    # Opening a device or a pipe can have effects: a handle of the file has none.
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _require_regular(handle)
        _require_inside(_path_of(handle))
        return os.open(f"/proc/self/fd/{handle}", flags)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(handle)


def _open_compared(path: str, flags: int) -> int:
    """Open a file where the system does not show its path: a link can still be put there between two looks."""
    opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        _require_regular(opened)
        real = os.path.realpath(path)
        _require_inside(real)
        if not os.path.samestat(os.fstat(opened), os.stat(real)):
            raise Outside(errno.ELOOP, _LEADS_OUT)
    except OSError as error:
        os.close(opened)
        error.filename = path
        raise
    return opened


def _require_regular(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise NotRegular(errno.EINVAL, "it is not a regular file")


def _require_inside(path: str) -> None:
    for boundary in _boundaries.get():
        if path != boundary and not path.startswith(os.path.join(boundary, "")):
            raise Outside(errno.ELOOP, _LEADS_OUT)


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _real_path(directory: Path) -> str:
    """Return the path of a directory as the system shows it: on some file systems other names lead there, too."""
    try:
        descriptor = os.open(directory, os.O_PATH | os.O_CLOEXEC) if _SHOWS_PATHS else -1
    except OSError:
        return os.path.realpath(directory)
    if descriptor < 0:
        return os.path.realpath(directory)
    try:
        return _path_of(descriptor)
    finally:
        os.close(descriptor)
