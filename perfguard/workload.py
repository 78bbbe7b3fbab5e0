"""The name of a workload: the id of its test, and the name that one of several measurements in it was given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

#: After the function: parameters in brackets, which may hold anything, and a name, which may as well.
_REST = re.compile(r"(?P<function>[^\[#]*)(?P<parameters>\[.*?\](?=#|\Z))?(?:#(?P<name>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`tests/test_a.py::test_b[4-relu]#decode`, in its parts; parameters with their brackets, absent parts empty."""

    function: str
    parameters: str
    name: str

    @property
    def test(self) -> str:
        """The id pytest knows the test by."""
        return self.function + self.parameters


def named(nodeid: str, name: str | None) -> str:
    """Return what the measurement `name` of a test is called."""
    return nodeid if name is None else f"{nodeid}#{name}"


def workload_of(text: str) -> Workload:
    """Take a workload's name apart; one that is of no test, such as a recording's path, is all function."""
    path, separator, rest = text.partition("::")
    found = _REST.match(rest) if separator else None
    if found is None:
        return Workload(function=text, parameters="", name="")
    return Workload(
        function=f"{path}::{found['function']}", parameters=found["parameters"] or "", name=found["name"] or ""
    )


def places(text: str) -> tuple[str, str, str, str]:
    """Return the places a workload is at, the widest first: its file, its test function, its test, itself."""
    found = workload_of(text)
    return text.partition("::")[0], found.function, found.test, text


def moved(names: Iterable[str], old: str, new: str) -> dict[str, str]:
    """Return the new name of every workload at a place that is renamed: a directory, a file, a class, a test, or itself.

    What belongs to a place moves along: the tests of a file, the parameters and the named measurements of a test, except
    where the new place says them itself.
    """
    told = workload_of(new)
    return {
        name: new + name[len(old) :]
        for name in names
        if name == old
        or (_is_at(name, old) and not told.name and (not told.parameters or workload_of(name).test == old))
    }


def _is_at(name: str, place: str) -> bool:
    if "::" not in place:
        path = name.partition("::")[0]
        return path == place or path.startswith(f"{place}/")
    found, asked = workload_of(name), workload_of(place)
    if asked.name or asked.parameters:
        return found.test == place
    return found.function == place or found.function.startswith(f"{place}::")


def moves(names: Mapping[str, str], stored: Collection[str]) -> list[tuple[str, str]]:
    """Return the fewest places to rename so that workloads get their new names, and no other of those `stored` a new one."""
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
