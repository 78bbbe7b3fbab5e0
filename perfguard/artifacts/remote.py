"""Remote directories: a URL of a file system that fsspec knows is surveyed by its listing and fetched cycle by cycle.

A worker fetches the files of one cycle into a temporary directory of its own, inspects it there, and removes it, so that what
lies on the disk at any time is bounded by the cycles that are looked at. Places in findings are relative, as ever.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from perfguard.artifacts.readers import OPAQUE
from perfguard.artifacts.survey import (
    HEAD_BYTES,
    MAX_DEPTH,
    MAX_ENTRIES,
    FoundCycle,
    Listing,
    read_head,
    too_deep,
    too_many_entries,
)
from perfguard.errors import UsageError
from perfguard.findings import Code, Finding

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::.*)?://")
#: File systems that only the process knows which filled them.
_OF_ONE_PROCESS = frozenset({"memory"})


def is_url(name: str) -> bool:
    """Whether a name is a URL, and no path."""
    return _URL.match(name) is not None


def local_path(name: str) -> Path | None:
    """Return the path of a `file://` URL, which needs no fetching, and of a name that is a path; None of other URLs."""
    if not is_url(name):
        return Path(name)
    return Path(name.removeprefix("file://")) if name.startswith("file:///") else None


class Unfetched(OSError):
    """A file of another system could not be fetched."""


@dataclass(frozen=True)
class RemoteTree:
    """A directory of another file system: the URL of what was named, and the folder below it that is meant.

    Everything in it goes by a path below `root`, which lies nowhere. Pickled it is no more than its URL.
    """

    url: str
    folder: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        # What is known of it stays here: every task has it.
        return RemoteTree, (self.url, self.folder)

    @cached_property
    def _file_system(self) -> tuple[Any, str]:
        """The file system, and the path of the URL there. Raises `UsageError` where its package is missing."""
        try:
            from fsspec.core import url_to_fs
            from fsspec.registry import known_implementations
        except ImportError as error:
            raise UsageError(
                f"{self.url} is read with the package fsspec, and it cannot be imported ({error}). "
                "Run: pip install 'perfguard[remote]'"
            ) from error
        try:
            system, path = url_to_fs(self.url)
        except ImportError as error:
            raise UsageError(_driver_missing(self.url, error, known_implementations)) from error
        except ValueError as error:
            raise UsageError(f"{self.url} cannot be read: {error}; fsspec.readthedocs.io lists what can.") from error
        return system, str(path).rstrip("/")

    @property
    def shown(self) -> str:
        """The URL of the folder."""
        return f"{self.url.rstrip('/')}/{self.folder}" if self.folder else self.url

    @property
    def is_of_one_process(self) -> bool:
        """Whether no other process can read it."""
        return self.url.partition(":")[0] in _OF_ONE_PROCESS

    @cached_property
    def root(self) -> Path:
        """The path that its paths are below."""
        _, path = self._file_system
        named = PurePosixPath("/", *(part for part in path.partition("://")[2].split("/") or path if part))
        if "://" not in path:
            named = PurePosixPath("/", *(part for part in path.split("/") if part))
        return Path(named, *(part for part in self.folder.split("/") if part))

    def below(self, folder: str) -> RemoteTree:
        """Return the tree of a folder in it, with what is known of this one."""
        tree = RemoteTree(self.url, f"{self.folder}/{folder}" if self.folder else folder)
        tree.__dict__["_file_system"] = self._file_system
        return tree

    def _remote(self, path: Path) -> str:
        _, top = self._file_system
        inside = path.relative_to(self.root).as_posix()
        return "/".join(part for part in (top, self.folder, inside if inside != "." else "") if part) or "/"

    @cached_property
    def sizes(self) -> dict[str, int | None]:
        """Every file with its size in bytes, and every folder with None, by its path below this one.

        Raises `UsageError` where it cannot be listed.
        """
        system, _ = self._file_system
        top = self._remote(self.root)
        try:
            found = system.find(top, withdirs=True, detail=True)
            is_there = bool(found) or system.isdir(top)
        except Exception as error:
            raise UsageError(
                f"{self.shown} cannot be listed ({type(error).__name__}: {error}); mend that, then run the same command again."
            ) from error
        sizes: dict[str, int | None] = {}
        start = top.strip("/")
        for name, told in found.items():
            relative = name.strip("/").removeprefix(start).strip("/")
            if relative:
                sizes[relative] = None if told.get("type") == "directory" else int(told.get("size") or 0)
        if not is_there or (found and not sizes):
            raise UsageError(
                f"{self.shown} is not a directory; name one that a profiler wrote, or a perfguard recording."
            )
        return sizes

    def is_folder(self, path: Path) -> bool:
        """Whether a path is a folder in it."""
        name = path.relative_to(self.root).as_posix()
        return self.sizes.get(name, 0) is None or any(one.startswith(f"{name}/") for one in self.sizes)

    def is_file(self, path: Path) -> bool:
        """Whether a path is a file in it."""
        return self.sizes.get(path.relative_to(self.root).as_posix()) is not None

    def size(self, path: Path) -> int:
        """Return how many bytes a file has."""
        return self.sizes.get(path.relative_to(self.root).as_posix()) or 0

    def listing(self, directory: Path) -> Listing:
        """Return what is in a folder of it, as `survey` wants it."""
        inside = directory.relative_to(self.root).as_posix()
        start = "" if inside == "." else f"{inside}/"
        folders: set[str] = {""}
        files: list[str] = []
        findings: dict[str, Finding] = {}
        for name in sorted(self.sizes):
            if not name.startswith(start):
                continue
            relative = name.removeprefix(start)
            parts = relative.split("/")
            if not relative or not {"", ".", ".."}.isdisjoint(parts):
                message = "its name leads out of the directory: it is not read"
                findings[name] = Finding(code=Code.A109, place=name, message=message)
                continue
            if len(folders) + len(files) > MAX_ENTRIES:
                findings[""] = too_many_entries(".")
                break
            is_file = self.sizes[name] is not None
            above = parts[:-1] if is_file else parts
            if len(above) > MAX_DEPTH:
                deep = "/".join(above[: MAX_DEPTH + 1])
                findings[deep] = too_deep(deep)
                continue
            folders |= {"/".join(above[:count]) for count in range(1, len(above) + 1)}
            if is_file:
                files.append(relative)
        return Listing(sorted(folders), sorted(files), list(findings.values()))

    def head(self, path: Path) -> str:
        """Return the first 64 KiB of a file as text, as `survey.read_head` does. Raises `Unfetched`."""
        if not self.is_file(path):
            return ""
        with _scratch() as scratch:
            local = Path(scratch, path.name)
            self._fetch_head(path, local)
            return read_head(local)

    def text_of(self, name: str) -> bytes:
        """Return a small file whole. Raises `Unfetched`."""
        with self._told(name):
            system, _ = self._file_system
            content: bytes = system.cat_file(self._remote(self.root / name))
            return content

    def _fetch_head(self, path: Path, local: Path) -> None:
        with self._told(path.name):
            system, _ = self._file_system
            # Of a packed file the beginning alone cannot be unpacked.
            end = None if path.suffix == ".gz" or self.size(path) <= HEAD_BYTES else HEAD_BYTES
            local.write_bytes(system.cat_file(self._remote(path), start=None if end is None else 0, end=end))

    @contextlib.contextmanager
    def at_hand(self, found: FoundCycle) -> Iterator[tuple[FoundCycle, Path]]:
        """Fetch one cycle, and give it with the directory it was fetched into; both are gone afterwards.

        Files that nobody opens are there by their names, and empty. Raises `Unfetched`.
        """
        # A directory of the same name: a layout or a message may name it.
        with _scratch() as scratch:
            here = Path(scratch, "at", self.root.name)

            def moved(path: Path) -> Path:
                return here / path.relative_to(self.root)

            looked_into = {
                slot for sources in found.layout.conditions.values() for one in sources for slot in one.get("text", ())
            }
            fetched: list[Path] = []
            moved(found.place if found.layout.cycle == "directory" else found.place.parent).mkdir(parents=True)
            for file in found.files:
                moved(file.path).parent.mkdir(parents=True, exist_ok=True)
                if file.slot.format != OPAQUE:
                    fetched.append(file.path)
                elif file.slot.name in looked_into:
                    self._fetch_head(file.path, moved(file.path))
                else:
                    moved(file.path).touch()
            for stranger in found.strangers:
                path = moved(found.place / stranger)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            with self._told(found.place.name):
                system, _ = self._file_system
                # Two lists of files are fetched beside each other where the file system can.
                system.get([self._remote(path) for path in fetched], [os.fspath(moved(path)) for path in fetched])
            yield (
                replace(
                    found,
                    place=moved(found.place),
                    files=tuple(replace(file, path=moved(file.path)) for file in found.files),
                    parents=tuple(replace(parent, place=moved(parent.place)) for parent in found.parents),
                ),
                here,
            )

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Turn what a driver raises into `Unfetched`, with its own words."""
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            raise Unfetched(f"{name}: {type(error).__name__}: {error}") from error


def _scratch() -> contextlib.AbstractContextManager[str]:
    import tempfile

    return tempfile.TemporaryDirectory(prefix="perfguard-")


def _driver_missing(url: str, error: ImportError, known: Any) -> str:
    """Name the package that has the file system of a URL."""
    protocol = url.partition(":")[0]
    told = known.get(protocol, {})
    module = str(told.get("class", "")).partition(".")[0]
    packages = [module] if module not in ("", "fsspec") else re.findall(r'"([\w-]+)"', str(told.get("err", "")))
    missing = " ".join(packages or [error.name or protocol])
    return f"{protocol}:// needs the package {missing}, and it cannot be imported. Run: pip install {missing}"
