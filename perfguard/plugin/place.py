"""Place: the working directory, the import path and the modules of one side of an A/B comparison."""

from __future__ import annotations

import contextlib
import filecmp
import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import perfguard
from perfguard.capture.worktree import is_below, relocated


class Place:
    """The working directory, paths and project modules of one side; a process can alternate between two of them.

    `moved` is the checkout and the worktree that replaces it, if the side is in one; else `top` is the checkout.
    """

    def __init__(self, directory: str, moved: tuple[str, str] | None, top: str | None = None) -> None:
        self.directory = directory
        self.top = moved[1] if moved is not None else top
        self._moved = moved
        self._path, self._editable = _import_paths()
        self._modules: dict[str, ModuleType] = {}
        self._known = 0

    def settle(self) -> None:
        """Make this process the side's, with its working directory first, as `python -m pytest` has it."""
        self._path = [self.directory, *(self._relocated(one) for one in self._path if one)]
        for table in self._editable:
            table.update({name: self._relocated(place) for name, place in table.items()})
        self.enter()
        importlib.invalidate_caches()

    def _relocated(self, path: str) -> str:
        return path if self._moved is None else relocated(path, *self._moved)

    def lead_children(self) -> None:
        """Set PYTHONPATH so that child processes import the side's code, not the checkout of an editable install."""
        if self._moved is None:
            return
        packages = [os.path.dirname(place) for table in self._editable for place in table.values()]
        led = [one for one in (*self._path[1:], *packages) if is_below(one, self._moved[1])]
        there = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(one for one in (*led, *there) if one))

    def enter(self) -> None:
        """Put the side's paths and modules into the process."""
        sys.path[:] = self._path
        for table, own in zip(_editable_installs(), self._editable, strict=False):
            table.update(own)
        os.chdir(self.directory)
        sys.modules.update(self._modules)

    def leave(self) -> None:
        """Take them out again, as they are now."""
        self._path, self._editable = _import_paths()
        self.directory = os.getcwd()
        if len(sys.modules) != self._known:
            self._modules = {name: module for name, module in list(sys.modules.items()) if self._owns(name, module)}
            self._known = len(sys.modules)
        for name in self._modules:
            sys.modules.pop(name, None)

    def _owns(self, name: str, module: ModuleType) -> bool:
        return self.top is not None and not _is_perfguard(name) and is_below(file_of(module), self.top)


def file_of(module: ModuleType) -> str | None:
    """Return the file of a module, or the first directory of a namespace package."""
    if isinstance(found := getattr(module, "__file__", None), str):
        return found
    try:
        return next(iter(getattr(module, "__path__", ())), None)
    except TypeError:
        return None


def _import_paths() -> tuple[list[str], list[dict[str, str]]]:
    """Return copies of `sys.path` and of the tables of editable installs."""
    return list(sys.path), [dict(table) for table in _editable_installs()]


def _is_perfguard(name: str) -> bool:
    return name.partition(".")[0] == "perfguard"


def _editable_installs() -> Iterator[dict[str, str]]:
    """Yield the tables by which setuptools' editable installs find their packages (`__editable___*_finder.MAPPING`)."""
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            yield mapping


#: Most files that are remembered.
_MOST_OPENED = 100_000


def opened_below(top: str) -> dict[str, None]:
    """Return a table that fills with the files below `top` that Python code of this process opens to read, from now on."""
    opened: dict[str, None] = {}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(path := arguments[0], (str, bytes)) or len(opened) >= _MOST_OPENED:
            return
        if any(letter in str(arguments[1] or "r") for letter in "wax"):
            return
        found = os.path.abspath(os.fsdecode(path))
        if found.startswith(top + os.sep):
            opened[found] = None

    # A hook stays as long as its process.
    sys.addaudithook(hook)
    return opened


def taken_from(opened: Iterable[str], moved: tuple[str, str]) -> list[str]:
    """Return the files of the checkout that the side in its worktree opened, and of which it has another version itself."""
    found = []
    for path in opened:
        own = relocated(path, *moved)
        is_both = own != path and not is_below(path, moved[1]) and os.path.isfile(own) and os.path.isfile(path)
        if is_both and _is_foreign(path) and not filecmp.cmp(path, own, shallow=False):
            found.append(os.path.relpath(path, moved[0]))
    return sorted(found)


def _is_foreign(path: str) -> bool:
    """Whether a file is no part of perfguard, which may itself be the project, nor of git."""
    return ".git" not in Path(path).parts and not is_below(path, os.path.dirname(os.path.realpath(perfguard.__file__)))


def strangers(tops: Sequence[str], checkout: str) -> list[str]:
    """Return the modules that are not the side's own: of the user's checkout, or of an installed copy of its code.

    `tops` are the top of the side's tree, and directories in it that may be a project's.
    """
    found = []
    built = _built_from(checkout)
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        if file is None or _is_perfguard(name) or is_below(file, tops[0]):
            continue
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
        is_copy = is_installed and (name.partition(".")[0] in built or any(_is_in(top, name) for top in tops))
        if is_below(file, checkout) or is_copy:
            found.append(name)
    return sorted(found)


def _built_from(checkout: str) -> set[str]:
    """Return the top-level modules that were installed as a copy from a directory of the checkout (PEP 610)."""
    names = set()
    for distribution in importlib.metadata.distributions():
        origin: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        url = urlsplit(origin.get("url", ""))
        # An archive in the checkout may be of any project, and a submodule is another project's.
        if url.scheme != "file" or "dir_info" not in origin or origin["dir_info"].get("editable"):
            continue
        directory = Path(url2pathname(url.path))
        if is_below(str(directory), checkout) and not _is_in_submodule(directory, Path(checkout)):
            names |= {file.parts[0].removesuffix(".py") for file in distribution.files or () if file.suffix == ".py"}
    return names


def _is_in_submodule(directory: Path, checkout: Path) -> bool:
    between = (one for one in (directory, *directory.parents) if one != checkout and one.is_relative_to(checkout))
    return any((one / ".git").exists() for one in between)


def _is_in(top: str, name: str) -> bool:
    """Whether a tree has a module or package of that name in one of the usual directories."""
    path = name.replace(".", "/")
    places = (Path(top), Path(top, "src"), Path(top, "lib"), Path(top, "python"))
    return any((p / path / "__init__.py").is_file() or (p / f"{path}.py").is_file() for p in places)
