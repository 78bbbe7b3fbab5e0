"""Remote directories: URLs of file systems that fsspec supports. They are listed, and fetched cycle by cycle.

A worker fetches the files of one cycle into a temporary directory, inspects it there, and removes it, so that the disk never
holds more than the cycles being inspected. Places in findings are relative, as for local directories.

A server may send more than it lists, or without an end. So all that is fetched is counted as it arrives, in bytes and in time.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from perfguard import inputs, scratch
from perfguard.artifacts.readers import MAX_BYTES, OPAQUE
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
#: The largest size of a file whose size the server does not list, and of all files of a cycle together; the last is also
#: bounded by the space in the temporary folder.
MAX_UNLISTED_BYTES = MAX_BYTES
MAX_CYCLE_BYTES = 32 * 1024**3
#: The largest answer of a web server that is held in memory: the page of a folder. One of 8 MiB lists 100 000 files.
MAX_PAGE_BYTES = 8 * 1024**2
#: How long a server may need for a list, and how long for each megabyte of a file.
LISTING_S = 300
MEGABYTE_S = 60
#: Their folders are listed one after the other, so that a list ends at a bound; other servers list all files at once.
_BY_FOLDER = ("http", "https")
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


class _IsEnough(Exception):
    """The beginning of a file has been fetched."""


@cache
def _options_of_web() -> Mapping[str, Any]:
    """Return the options of fsspec for a web server whose answers are bounded."""
    import aiohttp

    class Bounded(aiohttp.ClientResponse):
        """An answer that is read whole only if it is short, and comes in time."""

        async def read(self) -> bytes:
            if self._body is None:
                end, found = time.monotonic() + MEGABYTE_S, bytearray()
                async for part in self.content.iter_any():
                    found += part
                    if len(found) > MAX_PAGE_BYTES:
                        self.close()
                        raise Unfetched(f"the answer has more than {MAX_PAGE_BYTES} bytes")
                    if time.monotonic() > end:
                        self.close()
                        raise Unfetched(f"the answer has not ended after {MEGABYTE_S} seconds")
                self._body = bytes(found)
            return self._body

    async def client(**more: Any) -> aiohttp.ClientSession:
        # A large file may take as long as it needs, as long as it arrives.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=MEGABYTE_S)
        return aiohttp.ClientSession(**{"timeout": timeout, **more}, response_class=Bounded)

    return {"get_client": client}


def _options(url: str) -> dict[str, Any]:
    names = [name for name in _BY_FOLDER if re.search(rf"(^|::){name}://", url)]
    return {name: dict(_options_of_web()) for name in names}


def _found(system: Any, top: str, *, by_folder: bool) -> dict[str, Any]:
    """Return the entries below a folder by their names. Raises what the file system raises, and `Unfetched` after too long."""
    if not by_folder:
        found: dict[str, Any] = system.find(top, withdirs=True, detail=True)
        return found
    end = time.monotonic() + LISTING_S
    found, waiting = {}, [(top, 0)]
    while waiting and len(found) <= MAX_ENTRIES:
        folder, depth = waiting.pop()
        for entry in system.ls(folder, detail=True):
            if entry["name"] in found:
                continue
            found[entry["name"]] = entry
            if entry["type"] == "directory" and depth <= MAX_DEPTH:
                waiting.append((entry["name"], depth + 1))
        if time.monotonic() > end:
            raise Unfetched(f"it has not ended after {LISTING_S} seconds and {len(found)} entries")
    return found


def _counting(limits: Mapping[str, int], free: int, head_bytes: int | None) -> Any:
    """Return a callback of fsspec that counts the bytes of each file as they arrive, and raises `Unfetched` at a bound."""
    from fsspec.callbacks import Callback

    left = [free]

    class Counting(Callback):  # type: ignore[misc]
        """Counts one file, or the files of a call."""

        def __init__(self, name: str | None = None) -> None:
            super().__init__()
            self.name = name
            self.begun = time.monotonic()
            self.received = 0

        def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Counting:
            return Counting(path_1)

        def relative_update(self, inc: int = 1) -> None:
            if self.name is None:
                return
            self.received += inc
            left[0] -= inc
            limit = limits.get(self.name, MAX_UNLISTED_BYTES)
            if head_bytes is not None and self.received >= head_bytes:
                raise _IsEnough
            if self.received > limit or left[0] < 0:
                raise Unfetched(f"{self.name} has more than the {min(limit, free)} bytes that are listed or read")
            if time.monotonic() - self.begun > MEGABYTE_S * (1 + self.received / 1024**2):
                raise Unfetched(
                    f"{self.name} has sent {self.received} bytes after {MEGABYTE_S} seconds or more: too slowly"
                )

    return Counting()


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
            system, path = url_to_fs(self.url, **_options(self.url))
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
            found = _found(system, top, by_folder=bool(_options(self.url)))
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
        with scratch.folder() as place:
            self._get({self.root / name: place / "it"}, most_bytes=inputs.MAX_BYTES)
            return (place / "it").read_bytes()

    def _fetch_head(self, path: Path, local: Path) -> None:
        # The beginning of a gzip file cannot be unpacked alone.
        if path.suffix == ".gz" or 0 < self.size(path) <= HEAD_BYTES:
            self._get({path: local})
        elif self.size(path):
            with self._unfetched(path.name):
                system, _ = self._file_system
                local.write_bytes(system.cat_file(self._remote(path), start=0, end=HEAD_BYTES))
        else:
            # Of a web server it is not known whether it sends a part alone.
            with contextlib.suppress(_IsEnough):
                self._get({path: local}, head_bytes=HEAD_BYTES)
            os.truncate(local, min(os.path.getsize(local), HEAD_BYTES))

    def _get(self, paths: Mapping[Path, Path], *, most_bytes: int = MAX_BYTES, head_bytes: int | None = None) -> None:
        """Fetch files to paths here. Raises `Unfetched`, also where the server sends more than it lists, or too slowly."""
        listed = {self._remote(path): self.size(path) for path in paths}
        free = min(MAX_CYCLE_BYTES, shutil.disk_usage(next(iter(paths.values())).parent).free) if paths else 0
        if (needed := sum(listed.values())) > free:
            raise Unfetched(
                f"the files have {needed} bytes, more than the {free} that are fetched into the temporary folder"
            )
        limits = {name: size or min(most_bytes, MAX_UNLISTED_BYTES) for name, size in listed.items()}
        with self._unfetched(", ".join(path.name for path in list(paths)[:3])):
            system, _ = self._file_system
            # With lists, some file systems fetch the files in parallel.
            system.get(list(limits), [*map(os.fspath, paths.values())], callback=_counting(limits, free, head_bytes))
        for (name, limit), local in zip(limits.items(), paths.values(), strict=True):
            # Not every file system counts.
            if (size := os.path.getsize(local)) > limit:
                raise Unfetched(f"{name} has {size} bytes, more than the {limit} that are listed or read")

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
            self._get({path: moved(path) for path in paths})
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
        except (UsageError, Unfetched, _IsEnough):
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
