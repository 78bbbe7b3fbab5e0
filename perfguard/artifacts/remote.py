"""Remote directories: URLs of file systems that fsspec supports. They are listed, and fetched cycle by cycle.

A worker fetches the files of one cycle into a temporary directory, inspects it there, and removes it, so that the disk never
holds more than the cycles being inspected. Places in findings are relative, as for local directories.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from perfguard import scratch
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
from perfguard.version import install_command

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::.*)?://")
#: File systems that exist only in the process that filled them.
_OF_ONE_PROCESS = frozenset({"memory"})


def is_url(name: str) -> bool:
    """Whether a name is a URL, not a path."""
    return _URL.match(name) is not None


def local_path(name: str) -> Path | None:
    """Return the path of a `file://` URL or of a name that is a path; None for other URLs."""
    if not is_url(name):
        return Path(name)
    return Path(name.removeprefix("file://")) if name.startswith("file:///") else None


class Unfetched(OSError):
    """A file could not be fetched from a remote file system."""


@dataclass(frozen=True)
class RemoteTree:
    """A directory of a remote file system: the URL that the user named, and the folder below it.

    All its paths are below `root`, which does not exist on this machine. Only the URL and the folder are pickled.
    """

    url: str
    folder: str = ""
    #: Whether the folder is a link, which is not followed.
    is_link: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cached listing: every task contains the tree.
        return RemoteTree, (self.url, self.folder, self.is_link)

    @cached_property
    def _file_system(self) -> tuple[Any, str]:
        """The file system, and the path of the URL there. Raises `UsageError` if its package is missing."""
        try:
            from fsspec.core import url_to_fs
            from fsspec.registry import known_implementations
        except ImportError as error:
            raise UsageError(
                f"{self.url} needs the package fsspec, and it cannot be imported ({error}). "
                f"Run: {install_command('remote')}"
            ) from error
        try:
            system, path = url_to_fs(self.url)
        except ImportError as error:
            raise UsageError(_driver_missing(self.url, error, known_implementations)) from error
        except ValueError as error:
            raise UsageError(
                f"{self.url} cannot be read: {error}; fsspec.readthedocs.io lists the file systems that can."
            ) from error
        return system, str(path).rstrip("/")

    @property
    def shown(self) -> str:
        """The URL of the folder."""
        return f"{self.url.rstrip('/')}/{self.folder}" if self.folder else self.url

    @property
    def is_of_one_process(self) -> bool:
        """Whether only this process can read it."""
        return self.url.partition(":")[0] in _OF_ONE_PROCESS

    @cached_property
    def root(self) -> Path:
        """The path above all its paths."""
        _, path = self._file_system
        inside = f"{path.split('://', 1)[-1]}/{self.folder}"
        return Path("/", *(part for part in inside.split("/") if part))

    def below(self, folder: str) -> RemoteTree:
        """Return the tree of a folder in it, with the same file system object."""
        inside = f"{self.folder}/{folder}" if self.folder else folder
        tree = RemoteTree(self.url, inside, is_link=folder in self.links)
        tree.__dict__["_file_system"] = self._file_system
        return tree

    def _remote(self, path: Path) -> str:
        _, top = self._file_system
        inside = path.relative_to(self.root).as_posix()
        return "/".join(part for part in (top, self.folder, inside if inside != "." else "") if part) or "/"

    @property
    def sizes(self) -> dict[str, int | None]:
        """The size of every file in bytes, and None for every folder, by relative path; no link. Raises `UsageError`."""
        return self._listed[0]

    @property
    def links(self) -> set[str]:
        """The links by relative path, none of which is followed. Raises `UsageError`."""
        return self._listed[1]

    @cached_property
    def _listed(self) -> tuple[dict[str, int | None], set[str]]:
        """The sizes, and the links."""
        system, _ = self._file_system
        top = self._remote(self.root)
        try:
            found = system.find(top, withdirs=True, detail=True)
            is_there = bool(found) or system.isdir(top)
        except Exception as error:
            raise UsageError(
                f"{self.shown} cannot be listed ({type(error).__name__}: {error}); correct this and run the command again."
            ) from error
        sizes: dict[str, int | None] = {}
        links: set[str] = set()
        start = top.strip("/")
        is_file = False
        for name, entry in found.items():
            relative = name.strip("/").removeprefix(start).strip("/")
            if relative and (entry.get("islink") or entry.get("type") == "link"):
                links.add(relative)
            elif relative:
                sizes[relative] = None if entry.get("type") == "directory" else int(entry.get("size") or 0)
            else:
                # Some file systems list the directory itself.
                is_file = entry.get("type") != "directory"
        if not is_there or (is_file and not sizes and not links):
            raise UsageError(
                f"{self.shown} is not a directory; name one that a profiler wrote, or a perfguard recording."
            )
        return sizes, links

    def is_folder(self, path: Path) -> bool:
        """Whether a path is a folder in it."""
        name = path.relative_to(self.root).as_posix()
        return self.sizes.get(name, 0) is None or any(one.startswith(f"{name}/") for one in self.sizes)

    def is_file(self, path: Path) -> bool:
        """Whether a path is a file in it."""
        return self.sizes.get(path.relative_to(self.root).as_posix()) is not None

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return self.sizes.get(path.relative_to(self.root).as_posix()) or 0

    def listing(self, directory: Path) -> Listing:
        """Return the files and folders in one of its folders."""
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
        links = sorted(name.removeprefix(start) for name in self.links if name.startswith(start))
        for name in links:
            message = "it is a link of another file system: it is not read"
            findings[f"{start}{name}"] = Finding(code=Code.A109, place=name, message=message)
        return Listing(sorted(folders), sorted(files), list(findings.values()), links)

    def head(self, path: Path) -> str:
        """Return the first 64 KiB of a file as text, as `survey.read_head` does. Raises `Unfetched`."""
        if not self.is_file(path):
            return ""
        with scratch.folder() as place:
            local = place / path.name
            self._fetch_head(path, local)
            return read_head(local)

    def read_bytes(self, name: str) -> bytes:
        """Return the bytes of a small file. Raises `Unfetched`."""
        with self._unfetched(name):
            system, _ = self._file_system
            content: bytes = system.cat_file(self._remote(self.root / name))
            return content

    def _fetch_head(self, path: Path, local: Path) -> None:
        with self._unfetched(path.name):
            system, _ = self._file_system
            # The beginning of a gzip file cannot be unpacked alone.
            is_whole = path.suffix == ".gz" or self.size(path) <= HEAD_BYTES
            part = {} if is_whole else {"start": 0, "end": HEAD_BYTES}
            local.write_bytes(system.cat_file(self._remote(path), **part))

    @contextlib.contextmanager
    def fetched(self, found: FoundCycle) -> Iterator[tuple[FoundCycle, Path]]:
        """Fetch one cycle into a directory that exists until the context ends; yield both. Raises `Unfetched`.

        Files that perfguard never opens are created empty.
        """
        # A directory of the same name: layouts and messages may use the name.
        with scratch.folder() as place:
            here = place / "at" / self.root.name

            def moved(path: Path) -> Path:
                return here / path.relative_to(self.root)

            searched = {
                slot for sources in found.layout.conditions.values() for one in sources for slot in one.get("text", ())
            }
            paths: list[Path] = []
            moved(found.place if found.layout.cycle == "directory" else found.place.parent).mkdir(parents=True)
            for file in found.files:
                moved(file.path).parent.mkdir(parents=True, exist_ok=True)
                if file.slot.format != OPAQUE:
                    paths.append(file.path)
                elif file.slot.name in searched:
                    self._fetch_head(file.path, moved(file.path))
                else:
                    moved(file.path).touch()
            for name in found.unmatched:
                path = moved(found.place / name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            with self._unfetched(found.place.name):
                system, _ = self._file_system
                # With lists, some file systems fetch the files in parallel.
                system.get([self._remote(path) for path in paths], [os.fspath(moved(path)) for path in paths])
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
    def _unfetched(self, name: str) -> Iterator[None]:
        """Raise errors of a file system as `Unfetched`."""
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            raise Unfetched(f"{name}: {type(error).__name__}: {error}") from error


def _driver_missing(url: str, error: ImportError, known: Any) -> str:
    """Return the message for a missing package that implements the file system of a URL."""
    protocol = url.partition(":")[0]
    if not (packages := _packages_of(protocol, known.get(protocol, {}))):
        return (
            f"{protocol}:// cannot be read: {str(error).rstrip('.')}. "
            "Install what fsspec.readthedocs.io names for it, then run the command again."
        )
    missing = " ".join(packages)
    return f"{protocol}:// needs the package {missing}, and it cannot be imported. Run: pip install {missing}"


def _packages_of(protocol: str, entry: Mapping[str, str]) -> list[str]:
    """Return the packages that fsspec names for a protocol: its own extra, a module, or its message.

    Never the protocol itself: a package of that name may be anybody's.
    """
    from importlib.metadata import requires

    module = entry.get("class", "").partition(".")[0]
    if module not in ("", "fsspec"):
        return [module.replace("_", "-")]
    pattern = rf"([\w.-]+).*; extra == ['\"]{re.escape(protocol)}['\"]"
    extra = [found[1] for one in requires("fsspec") or () if (found := re.fullmatch(pattern, one))]
    message = entry.get("err", "")
    told = re.findall(r'"([\w-]+)"', message) or re.findall(r"[Ii]nstall (?:the )?([a-z][\w-]+)", message)
    return told or extra
