"""Extensions by other distributions: entry points in the groups `perfguard.backends`, `perfguard.readers`, ...

A `Registry` is an open table. Its built-in parts have the form of entry points (`module:attribute`). Entry points are looked
up only for a name that is not built in, and a part is imported when its own name is requested. Dialects are folders of files,
so their code is not imported (`dialect_folders`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from perfguard.errors import UsageError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Parts of one kind by name: built-in ones, and those of the entry points of `group`."""

    def __init__(self, group: str, built_in: Mapping[str, str]) -> None:
        self.group = group
        #: Module and attribute of each built-in part.
        self.built_in = built_in
        self._loaded: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        """Import the part of that name. Raises `UsageError` if it is unknown, or cannot be imported."""
        if name not in self._loaded:
            self._loaded[name] = cast("Part", self._load(name))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._added()

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._added()

    def __len__(self) -> int:
        return len(self.built_in) + len(self._added())

    def _load(self, name: str) -> Any:
        if (place := self.built_in.get(name)) is not None:
            module, _, attribute = place.partition(":")
            return getattr(import_module(module), attribute)
        if (entry := self._added().get(name)) is None:
            raise UsageError(f"There is no {name!r} in perfguard.{self.group}; {nearest(name, self)}")
        try:
            found = entry.load()
        except Exception as error:
            raise _broken(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error
        if not callable(found):
            raise _broken(entry, f"must be a class or a function, got {type(found).__name__}")
        return found

    def _added(self) -> Mapping[str, EntryPoint]:
        added = _entries(self.group)
        for name, entry in added.items():
            if name in self.built_in:
                raise _broken(entry, "has the name of a built-in part, which cannot be replaced")
        return added


@cache
def dialect_folders() -> Mapping[str, Path]:
    """Return the dialect folders of other distributions by name. Raises `UsageError` for a missing one.

    Such an entry point names a package, such as `perfguard_jax.dialect`; only its parent package is imported.
    """
    return {name: _folder(entry) for name, entry in _entries("dialects").items()}


def _folder(entry: EntryPoint) -> Path:
    from importlib.util import find_spec
    from pathlib import Path

    try:
        spec = None if entry.attr else find_spec(entry.module)
    except Exception as error:
        raise _broken(entry, f"cannot be found: {type(error).__name__}: {error}") from error
    places = [] if spec is None else [Path(one) for one in spec.submodule_search_locations or ()]
    if not places or not places[0].is_dir():
        raise _broken(entry, "must name a package (a folder of files)")
    return places[0]


@cache
def _entries(group: str) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"perfguard.{group}"):
        if (other := found.setdefault(entry.name, entry)) is not entry:
            raise UsageError(
                f"{_distribution(other)} and {_distribution(entry)} both have an entry point {entry.name!r} in "
                f"perfguard.{group}. Uninstall one of them."
            )
    return found


def _broken(entry: EntryPoint, problem: str) -> UsageError:
    package = _distribution(entry)
    return UsageError(
        f"the entry point {entry.name!r} ({entry.value}) of {package} in {entry.group} {problem}. "
        f"Update it, or run: pip uninstall {package}"
    )


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown distribution"
