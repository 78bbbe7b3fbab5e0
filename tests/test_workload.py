"""The parts of a workload's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.workload import moved, moves, named, places, renumbered, workload_of


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


@pytest.mark.parametrize(
    "text, found",
    [
        ("t/a.py::test_b[4]#c", ("t/a.py", "t/a.py::test_b", "t/a.py::test_b[4]", "t/a.py::test_b[4]#c")),
        ("t/a.py::Case::test_b", ("t/a.py", *["t/a.py::Case::test_b"] * 3)),
        ("runs/monday#1", ("runs/monday#1",) * 4),
    ],
)
def test_the_places_of_a_workload(text, found):
    assert places(text) == found


STORED = (
    *("t/a.py::test_b", "t/a.py::test_b#c", "t/a.py::test_b[4]", "t/a.py::test_b[4]#c", "t/a.py::test_b[x#y]"),
    *("t/a.py::test_bc", "t/a.py::Case::test_b", "t/ab.py::test_b", "t/d/a.py::test_b", "train.py::--lr 1", "train.py"),
)


@pytest.mark.parametrize(
    "old, new, found",
    [
        ("t/a.py::test_b", "t/a.py::test_z", {"test_b", "test_b#c", "test_b[4]", "test_b[4]#c", "test_b[x#y]"}),
        ("t/a.py::test_b#c", "t/a.py::test_z#e", {"test_b#c"}),
        ("t/a.py::test_b[4]", "t/a.py::test_b[5]", {"test_b[4]", "test_b[4]#c"}),
        ("t/a.py::test_b[x", "t/a.py::test_z", set()),
        # What the new name says itself is not said twice.
        ("t/a.py::test_b", "t/a.py::test_b[4-8]", {"test_b", "test_b#c"}),
        ("t/a.py::test_b", "t/a.py::test_b#one", {"test_b"}),
        ("t/a.py::Case", "t/a.py::Suite", {"Case::test_b"}),
        ("t/a.py::Ca", "t/a.py::Suite", set()),
    ],
)
def test_what_belongs_to_a_test_moves_along(old, new, found):
    expected = {f"t/a.py::{name}" for name in found}
    assert moved(STORED, old, new) == {name: new + name[len(old) :] for name in expected}


@pytest.mark.parametrize(
    "old, new, found",
    [
        ("t/ab.py", "t/z.py", {"t/ab.py::test_b": "t/z.py::test_b"}),
        ("t/d", "u", {"t/d/a.py::test_b": "u/a.py::test_b"}),
        ("t/a", "u", {}),
        ("train.py", "fit.py", {"train.py::--lr 1": "fit.py::--lr 1", "train.py": "fit.py"}),
    ],
)
def test_what_is_in_a_file_or_directory_moves_along(old, new, found):
    assert moved(STORED, old, new) == found


def test_a_directory_moves_with_every_test_below_it():
    assert moved(STORED, "t", "u") == {name: f"u{name[1:]}" for name in STORED if name.startswith("t/")}


@pytest.mark.parametrize(
    "names, stored, found",
    [
        # All of a file, and a part of it: what stays must keep its name.
        ({"a.py::x": "b.py::x", "a.py::y": "b.py::y"}, (), [("a.py", "b.py")]),
        ({"a.py::x": "b.py::x", "a.py::y": "b.py::y"}, ("a.py::z",), [("a.py::x", "b.py::x"), ("a.py::y", "b.py::y")]),
        ({"a.py::x": "b.py::x", "a.py::y": "b.py::z"}, (), [("a.py::x", "b.py::x"), ("a.py::y", "b.py::z")]),
        # All parameters and measurements of a test.
        ({"a.py::x[1]": "a.py::y[1]", "a.py::x[2]#d": "a.py::y[2]#d"}, ("a.py::z",), [("a.py::x", "a.py::y")]),
        ({"a.py::x[1]": "a.py::y[1]"}, ("a.py::x[2]",), [("a.py::x[1]", "a.py::y[1]")]),
        ({"a.py::x[1]": "a.py::x[8]"}, ("a.py::x[2]",), [("a.py::x[1]", "a.py::x[8]")]),
        ({"a.py::x#c": "a.py::x#d"}, ("a.py::x",), [("a.py::x#c", "a.py::x#d")]),
        ({}, ("a.py::x",), []),
    ],
)
def test_the_fewest_moves_that_rename_workloads(names, stored, found):
    everything = [*names, *stored]
    assert moves(names, everything) == found
    renamed = {}
    for old, new in found:
        renamed |= moved(everything, old, new)
    assert renamed == names


@pytest.mark.parametrize(
    "workload, arguments, found",
    [
        ("t.py::b[cfg0-relu]", ("cfg", "kind"), ["t.py::b[cfg1-relu]", "t.py::b[cfg12-relu]"]),
        ("t.py::b[cfg7-relu]", ("cfg",), ["t.py::b[cfg0-relu]", "t.py::b[cfg1-relu]", "t.py::b[cfg12-relu]"]),
        ("t.py::b[cfg0-relu]#decode", ("cfg",), ["t.py::b[cfg1-relu]#decode"]),
        # Another argument's value, a value of its own, another test, no parameters.
        ("t.py::b[cfg0-relu]", ("kind",), []),
        ("t.py::b[wide-relu]", ("cfg",), []),
        ("t.py::c[cfg1-relu]", ("cfg",), []),
        ("t.py::b", ("cfg",), []),
        ("t.py::b[cfg0-relu]", (), []),
    ],
)
def test_the_other_numbers_of_unnamed_parameters(workload, arguments, found):
    stored = [f"t.py::b[{one}-relu]" for one in ("cfg0", "cfg1", "cfg12", "wide", "xcfg3", "cfg")]
    stored += ["t.py::b[cfg1-gelu]", "t.py::b[cfg1-relu]#decode", "t.py::c[cfg9]", "t.py::b"]
    assert renumbered(workload, arguments, stored) == found
