"""The parts of a workload's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.workload import named, workload_of


@pytest.mark.parametrize(
    "text, function, parameters, name",
    [
        ("a.py::test_b", "a.py::test_b", "", ""),
        ("a.py::test_b#decode", "a.py::test_b", "", "decode"),
        ("a.py::test_b[4-relu]", "a.py::test_b", "[4-relu]", ""),
        ("a.py::test_b[4-relu]#decode", "a.py::test_b", "[4-relu]", "decode"),
        ("a.py::Case::test_b[x::y]", "a.py::Case::test_b", "[x::y]", ""),
        # Parameters and names hold what they like.
        ("a.py::test_b[#4]", "a.py::test_b", "[#4]", ""),
        ("a.py::test_b[a[0]]", "a.py::test_b", "[a[0]]", ""),
        ("a.py::test_b#prefill[128]", "a.py::test_b", "", "prefill[128]"),
        ("a.py::test_b[1]#prefill[128]", "a.py::test_b", "[1]", "prefill[128]"),
        ("a.py::test_b#one#two", "a.py::test_b", "", "one#two"),
        ("a.py::test_b[a\nb]#c\nd", "a.py::test_b", "[a\nb]", "c\nd"),
        ("dir[1]#2/a.py::test_b#c", "dir[1]#2/a.py::test_b", "", "c"),
        # Of no test.
        ("runs/monday#1", "runs/monday#1", "", ""),
        ("a.py::test_b[", "a.py::test_b[", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_name_is_taken_apart(text, function, parameters, name):
    found = workload_of(text)
    assert (found.function, found.parameters, found.name) == (function, parameters, name)
    assert found.test == function + parameters


PARAMETERS = st.none() | st.text(st.characters(exclude_categories=("Cs",))).filter(lambda text: "]#" not in text)


@given(PARAMETERS, st.none() | st.text(min_size=1))
def test_what_was_named_is_found_again(parameters, name):
    nodeid = "tests/test_a.py::test_b" + ("" if parameters is None else f"[{parameters}]")
    found = workload_of(named(nodeid, name))
    assert (found.test, found.name) == (nodeid, name or "")
