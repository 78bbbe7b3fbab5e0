"""A directory of baselines: one JSON file per workload, with readable diffs."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from perfguard.documents import FORMAT, dumps, exists, read_document
from perfguard.errors import DamagedError, StoreError
from perfguard.judge.baseline import Baseline
from perfguard.judge.refresh import GIVE_REASON
from perfguard.stores.calibration import CALIBRATION_FILE
from perfguard.writing import write_atomically

#: File names are cut to this length, so that they fit every file system with room for the temporary neighbour.
_LONGEST_NAME = 120
_LOCK_SECONDS = 60.0


class BaselineDirectory:
    """A store of baselines in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, workload: str) -> Baseline | None:
        """Return the baseline, or None if there is no file. Raises `StoreError` for one that cannot be read.

        What is there and is no file that can be read is not new: what it held is unknown.
        """
        path = self.path(workload)
        _require_directory(self.directory)
        if not exists(path):
            return None
        _require_readable(path)
        found = _read(path)
        if found.workload != workload:
            raise DamagedError(
                f"{path} holds the baseline of {found.workload}, not of {workload}: the file was renamed or copied. {_REMEDY}"
            )
        return found

    def save(self, baseline: Baseline) -> None:
        """Write the baseline atomically. Raises `StoreError`, also for a link: its target is another file."""
        path = self.path(baseline.workload)
        if os.path.islink(path):
            _require_readable(path)
            target = shlex.quote(os.path.realpath(path))
            raise StoreError(
                f"{path} is a link, and is not written through. Make it a file of its own, then run the same command again: "
                f"cp --remove-destination {target} {shlex.quote(str(path))}"
            )
        document = {"format": FORMAT, **baseline.as_dict()}
        write_atomically(path, dumps(document, lines_of="measurements"))

    def delete(self, workload: str) -> None:
        """Remove the file of a workload."""
        try:
            self.path(workload).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path(workload)} cannot be removed: {error.strerror}. "
                "Correct the permissions, then run the same command again."
            ) from error

    def workloads(self) -> list[str]:
        """Return the workloads of all files, sorted. Raises `StoreError` for a damaged file."""
        _require_directory(self.directory)
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.directory} cannot be read: {error.strerror}. Correct its permissions.") from error
        paths = [self.directory / name for name in names if names_baseline(name)]
        for path in paths:
            if exists(path):
                _require_readable(path)
        return sorted(_read(path).workload for path in paths)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory against every process on this file system while an entry is read and written."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            held = FileLock(self._lock_path(), timeout=_LOCK_SECONDS).acquire()
        except Timeout as error:
            raise StoreError(
                f"{self.directory} has been locked by another run for {_LOCK_SECONDS:.0f} seconds. "
                "Wait for it to end, then run the same command again."
            ) from error
        except OSError as error:
            raise StoreError(
                f"{self.directory} cannot be written: {error.strerror}. "
                "Correct its permissions, or name another directory with --perfguard-baselines DIR."
            ) from error
        with held:
            yield

    def _lock_path(self) -> Path:
        # In the folder of temporary files, so that no lock remains in a repository.
        name = hashlib.sha256(os.fsencode(os.path.realpath(self.directory))).hexdigest()[:16]
        return _private_folder() / f"{name}.lock"

    def path(self, workload: str) -> Path:
        """Return the file of a workload."""
        return self.directory / f"{file_name(workload)}.json"


def _require_directory(directory: Path) -> None:
    """Raise `StoreError` for another entry in its place, and for a link that leads to none; it may be missing."""
    if os.path.lexists(directory) and not os.path.isdir(directory):
        what = "a link that leads to no directory" if os.path.islink(directory) else "not a directory"
        raise StoreError(
            f"{directory} is {what}, so its baselines cannot be read. Restore it from version control, or name another "
            "directory with --perfguard-baselines DIR."
        )


def _require_readable(path: Path) -> None:
    """Raise `StoreError` for an entry that is no regular file, or that this user cannot read."""
    file = shlex.quote(str(path))
    if os.path.isfile(path):
        try:
            path.open("rb").close()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}. Run: chmod u+r {file}") from error
        return
    if os.path.islink(path):
        what, remedy = f"a link to {os.readlink(path)}, which is no file", "Mend the link, or restore the file"
    elif os.path.isdir(path):
        what, remedy = "a directory", "Move it away, and restore the file"
    else:
        what, remedy = "not a regular file", "Restore the file"
    raise StoreError(f"{path} is {what}, so its baseline cannot be read. {remedy}. Run: git checkout -- {file}")


def _private_folder() -> Path:
    """Return this user's folder among the temporary files, which every user can write to.

    Raises `StoreError` for one that others could have planted something in: it has a name that they know.
    """
    if not hasattr(os, "getuid"):
        return Path(tempfile.gettempdir())  # Windows: it is the user's own
    folder = Path(tempfile.gettempdir()) / f"perfguard-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StoreError(
            f"{folder} must be a directory of yours that nobody else can use (mode 0700), because baselines are locked in it. "
            "Remove it, or set TMPDIR to another directory, then run the same command again."
        )
    return folder


def names_baseline(name: str) -> bool:
    """Whether a file of this name may be a baseline; the calibration is in the same directory."""
    return name.endswith(".json") and not name.startswith(".") and name != CALIBRATION_FILE


def file_name(workload: str) -> str:
    """Convert a test id to a readable file name, different for different ids.

    `tests/models/test_torch.py::test_mlp` is `tests.models.test_torch--test_mlp`. If the id has upper case or
    other characters that a file system may change, a hash of the whole id follows.
    """
    plain = workload.replace(".py::", "--").replace("::", "--").replace("/", ".")
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", plain).strip(".")[:_LONGEST_NAME]
    lossless = re.fullmatch(r"(?:[a-z0-9_]+/)*[a-z0-9_]+\.py::[a-z0-9_]+", workload) and safe == plain
    if lossless:
        return safe
    return f"{safe or 'workload'}-{hashlib.sha256(workload.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


_REMEDY = f"Restore it from version control, or replace it: pytest --perfguard --perfguard-update {GIVE_REASON}"


def _read(path: Path) -> Baseline:
    baseline = Baseline.from_dict(read_document(path, "baseline", remedy=_REMEDY))
    keys = [measurement.label for measurement in baseline.measurements]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DamagedError(f"{path} is damaged: it holds {twice} twice, as after a merge. {_REMEDY}")
    return baseline
