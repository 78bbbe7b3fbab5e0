"""The name of a workload: the id of its test, and the name that one of several measurements in it was given."""

from __future__ import annotations

import re
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
