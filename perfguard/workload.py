"""Workload names: the id of the test, and optionally the name of one of its measurements."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

#: After the function: parameters in brackets and a name; both may hold any character.
_REST = re.compile(r"(?P<function>[^\[#]*)(?P<parameters>\[.*?\](?=#|\Z))?(?:#(?P<name>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The parts of `tests/test_a.py::test_b[4-relu]#decode`; parameters keep their brackets, absent parts are empty."""

    function: str
    parameters: str
    name: str

    @property
    def test(self) -> str:
        """The node id of the test in pytest."""
        return self.function + self.parameters


def named(nodeid: str, name: str | None) -> str:
    """Return the workload name of the measurement `name` of a test."""
    return nodeid if name is None else f"{nodeid}#{name}"


def workload_of(text: str) -> Workload:
    """Split a workload's name; a name without a test, such as a recording's path, is all function."""
    path, separator, rest = text.partition("::")
    found = _REST.match(rest) if separator else None
    if found is None:
        return Workload(function=text, parameters="", name="")
    return Workload(
        function=f"{path}::{found['function']}", parameters=found["parameters"] or "", name=found["name"] or ""
    )


def renumbered(text: str, arguments: Collection[str], stored: Iterable[str]) -> list[str]:
    """Return the `stored` workloads of the same test that differ in the numbers of unnamed parameters alone.

    pytest numbers the values of an argument that have no text of their own: `test_b[cfg0-relu]`.
    """
    if not arguments:
        return []
    number = re.compile(rf"(?<=[\[-])({'|'.join(map(re.escape, sorted(arguments)))})[0-9]+(?=[\]-])")

    def plain(name: str) -> tuple[str, str, str]:
        found = workload_of(name)
        return found.function, number.sub(r"\1*", found.parameters), found.name

    mine = plain(text)
    if mine[1] == workload_of(text).parameters:
        return []
    return [one for one in stored if one != text and plain(one) == mine]


def places(text: str) -> tuple[str, str, str, str]:
    """Return the places of a workload, the widest first: its file, its test function, its test, itself."""
    found = workload_of(text)
    return text.partition("::")[0], found.function, found.test, text


def moved(names: Iterable[str], old: str, new: str) -> dict[str, str]:
    """Return the new name of every workload at a renamed place: a directory, a file, a class, a test, or a workload.

    Everything at a place moves with it: the tests of a file, the parameters and the named measurements of a test, unless
    the new place names them itself.
    """
    target = workload_of(new)
    return {
        name: new + name[len(old) :]
        for name in names
        if name == old
        or (_is_at(name, old) and not target.name and (not target.parameters or workload_of(name).test == old))
    }


def _is_at(name: str, place: str) -> bool:
    if "::" not in place:
        path = name.partition("::")[0]
        return path == place or path.startswith(f"{place}/")
    found, renamed = workload_of(name), workload_of(place)
    if renamed.name or renamed.parameters:
        return found.test == place
    return found.function == place or found.function.startswith(f"{place}::")


def moves(names: Mapping[str, str], stored: Collection[str]) -> list[tuple[str, str]]:
    """Return the fewest renamed places that give these workloads their new names, and rename no other of the `stored` ones."""
    found: list[tuple[str, str]] = []
    left = dict(names)
    while left:
        name, new = next(iter(left.items()))
        for place in zip(places(name), places(new), strict=True):
            done = moved(stored, *place)
            if place[0] != place[1] and name in done and (done.items() <= names.items() or place == (name, new)):
                break
        found.append(place)
        left = {one: to for one, to in left.items() if one != name and one not in done}
    return found
