"""Write files: a whole file or none, and only where there is nothing else than a file."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from perfguard.errors import StoreError
from perfguard.scratch import abandoned, lock

_DESCRIPTOR = re.compile(r"/dev/(fd/|std(in|out|err)\Z)|/proc/[^/]+/(task/[^/]+/)?fd/")
#: A pipe without a reader must not block, and a terminal must not become that of this process.
_CAUTIOUS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)

#: The name of a temporary file, as `tempfile` makes it.
_ENDING = "-perfguard.tmp"
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}" + re.escape(_ENDING), re.DOTALL)


def write_atomically(path: Path, content: str | bytes | Iterable[str | bytes], *, is_new: bool = False) -> None:
    """Write a temporary file beside `path` and rename it, so that no reader, crash or full disk leaves half a file.

    A long content may come in pieces; texts are UTF-8. A link is kept, and its target written; a file that is there keeps its
    mode and its owner; with `is_new` none may be there. Raises `StoreError`; a file at `path` is then unchanged.
    """
    temporary: str | None = None
    old: os.stat_result | None = None
    try:
        old = _replaced(path)
        if old is not None and is_new:
            raise _kept(path)
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = _neighbour(path)
        with os.fdopen(handle, "wb") as file:
            pieces = [content] if isinstance(content, str | bytes) else content
            file.writelines(piece.encode("utf-8") if isinstance(piece, str) else piece for piece in pieces)
            file.flush()
            os.fsync(file.fileno())
            # While it is open, its lock keeps other processes from deleting it.
            _be_like(temporary, old)
            _put(temporary, path, is_new=is_new)
    except OSError as error:
        raise _unwritten(path, error, "The previous file is kept. " if old is not None else "") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # the rename succeeded
                os.unlink(temporary)


def _put(temporary: str, path: Path, *, is_new: bool) -> None:
    """Give a file its name; with `is_new` only if nothing has it, whatever other processes do meanwhile."""
    if not is_new:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise _kept(path) from error
    except OSError:
        # A file system without hard links: only one process can make it, and a kill here leaves it empty.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(temporary, path)


def _kept(path: Path) -> StoreError:
    return StoreError(f"{path} is there already, and is kept. Move it away, then run the same command again.")


def _neighbour(path: Path) -> tuple[int, str]:
    """Make the temporary file beside a path; return it open, and its name.

    It has a name that nobody can know before, and is never opened through a link (O_EXCL, O_NOFOLLOW).
    """
    _sweep(path.parent)
    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=_ENDING)
        with contextlib.suppress(OSError):  # a file system without locks
            lock(handle, wait=True)
        # Another process may have deleted it in the moment before.
        if os.path.lexists(temporary):
            return handle, temporary
        os.close(handle)


@cache
def _sweep(directory: Path) -> None:
    """Delete the temporary files of killed processes in a directory, once."""
    try:
        names = [name for name in os.listdir(directory) if _TEMPORARY.fullmatch(name)]
    except PermissionError:
        # It may be written, and not listed.
        return
    for name in names:
        # Whoever may not delete it leaves it to its owner.
        with abandoned(directory / name, kind=stat.S_ISREG) as is_left, contextlib.suppress(OSError):
            if is_left:
                os.unlink(directory / name)


def append(path: Path, text: str) -> None:
    """Append to a file that other programs append to as well, and that is created if it is missing. Raises `StoreError`."""
    try:
        _replaced(path)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _CAUTIOUS, 0o666)
        with os.fdopen(handle, "wb") as file:
            _require_file(path, os.fstat(handle))
            file.write(text.encode("utf-8"))
    except OSError as error:
        raise _unwritten(path, error) from error


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield the content of a file that another program wrote, for `write_atomically`."""
    with open(path, "rb") as file:
        while piece := file.read(1024**2):
            yield piece


def _replaced(path: Path) -> os.stat_result | None:
    """Return the file at a path, none if it is missing. Raises `StoreError` for anything else, and a file that is protected."""
    if _is_a_descriptor(path):
        raise StoreError(f"{path} is not a regular file. Write to a file, and print it afterwards.")
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # also a link to a file that is to be made
    _require_file(path, found)
    if not found.st_mode & 0o222:
        # A rename would replace it all the same, and root may write it.
        raise StoreError(f"{path} is write-protected, and is kept. Run: chmod u+w {shlex.quote(str(path))}")
    # The system decides who may write it, also through a link that somebody else made (proc_sys_fs(5), protected_symlinks).
    os.close(os.open(path, os.O_WRONLY | _CAUTIOUS))
    return found


def _require_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a regular file. Name another one.")


def _be_like(temporary: str, old: os.stat_result | None) -> None:
    """Give a new file the mode and the owner of the one that it replaces, or the mode of any other."""
    if old is not None and hasattr(os, "chown"):
        # Only root may give a file to another user, and not every file system has users: the content is what counts.
        with contextlib.suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, 0o666 & ~_umask() if old is None else stat.S_IMODE(old.st_mode) & 0o777)


def _unwritten(path: Path, error: OSError, kept: str = "") -> StoreError:
    is_in_the_way = isinstance(error, FileExistsError) and error.filename != str(path)
    found = f"{error.filename} is not a directory" if is_in_the_way else error.strerror
    return StoreError(
        f"{path} cannot be written: {found}. {kept}"
        "Free disk space or correct the permissions, then run the same command again."
    )


def _is_a_descriptor(path: Path) -> bool:
    """Whether a path is a file descriptor, such as /dev/stdout: renaming would replace the log that is open there."""
    seen: set[str] = set()
    place = os.path.abspath(path)
    while place not in seen and not _DESCRIPTOR.match(place) and os.path.islink(place):
        seen.add(place)
        place = os.path.abspath(os.path.join(os.path.dirname(place), os.readlink(place)))
    return _DESCRIPTOR.match(place) is not None


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
