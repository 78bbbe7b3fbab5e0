"""Layouts: the shipped files, their order and names, and how a slot matches a path."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts.layout import Slot, glob_pattern, layout_named, layouts
from perfguard.documents import schemas_directory
from perfguard.errors import StoreError, UsageError
from perfguard.version import reinstall_command


def a_slot(path: str, name: str = "x", **more: Any) -> Slot:
    return Slot(name=name, path=path, **{"format": "csv", **more})


# -- slots and globs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "relative", "match"),
    [
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0.csv", 0),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_17.csv", 17),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_x.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_-1.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0.csv.bak", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0.csv\n", False),
        ("FRAMEWORK/a_{rank}.csv", "x/FRAMEWORK/a_0.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0xcsv", False),
        ("r{rank}/a_{rank}.csv", "r3/a_3.csv", 3),
        ("r{rank}/a_{rank}.csv", "r3/a_4.csv", False),
        ("logs/profiler_*.log", "logs/profiler_1.log", None),
        ("logs/profiler_*.log", "logs/profiler_.log", None),
        ("logs/profiler_*.log", "logs/profiler_a/b.log", False),
        ("logs/profiler_*.log", "logs/profiler_\n.log", None),
        ("PROF_*/**", "PROF_1/a/b/c", None),
        ("PROF_*/**.csv", "PROF_1/a/b/c.csv", None),
        ("PROF_*/**.csv", "PROF_1/c.csv", None),
        ("PROF_*/**.csv", "x/PROF_1/c.csv", False),
        ("trace_view.json", "trace_view.json", None),
        ("trace_view.json", "TRACE_VIEW.JSON", False),
    ],
)
def test_a_slot_matches_names_and_reads_the_rank(path, relative, match):
    found = a_slot(path).match(relative)
    assert (found, type(found)) == (match, type(match))


@given(rank=st.integers(0, 10**9), before=st.text("ab_.[]()+?^$|\\", max_size=8))
def test_the_rank_of_any_name_is_read_back(rank, before):
    assert a_slot(before + "{rank}.csv").match(f"{before}{rank}.csv") == rank


@given(name=st.text("ab/._[](){}+?^$|\\-\n é", max_size=20))
def test_a_name_without_wildcards_matches_itself_and_nothing_else(name):
    pattern = glob_pattern(name)
    assert pattern.fullmatch(name)
    assert not pattern.fullmatch(name + "x")
    assert not pattern.fullmatch("x" + name)


@given(parts=st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4))
def test_one_star_stays_in_a_folder_and_two_do_not(parts):
    path = "/".join(parts)
    assert bool(glob_pattern("*").fullmatch(path)) == (len(parts) == 1)
    assert glob_pattern("**").fullmatch(path)


@pytest.mark.parametrize(
    ("path", "single"), [("a.csv", True), ("a_{rank}.csv", True), ("a_*.csv", False), ("a/**", False)]
)
def test_only_a_slot_without_a_wildcard_holds_one_file(path, single):
    assert a_slot(path).is_single is single


# -- the shipped layouts ---------------------------------------------------------------------------------------------


def test_layouts_are_tried_by_their_order():
    assert [one.order for one in layouts()] == sorted(one.order for one in layouts())


@pytest.mark.parametrize("one", layouts(), ids=lambda one: one.id)
def test_a_layout_is_found_by_its_id(one):
    assert layout_named(one.id) is one


@pytest.mark.parametrize(
    ("name", "hint"), [("pt-torhc", "did you mean 'pt-torch'"), ("zzz", "known are "), ("", "known are ")]
)
def test_an_unknown_layout_is_refused_with_the_nearest(name, hint):
    with pytest.raises(UsageError, match=re.escape(f"There is no layout {name!r}; {hint}")):
        layout_named(name)


def test_shipped_layout_files_are_plain_json():
    for path in sorted((schemas_directory() / "layouts").glob("*.json")):
        text = path.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n", path.name


@pytest.mark.parametrize("text", ["{", "[]", '{"id": "ms-2.0"}', '{"id": "x", "title": "", "source": "", "order": 1}'])
def test_a_damaged_layout_is_one_sentence_and_a_command(tmp_path, monkeypatch, text):
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "ms-2.0.json").write_text(text)
    monkeypatch.setattr("perfguard.artifacts.layout.schemas_directory", lambda: tmp_path)
    with pytest.raises(StoreError, match="ms-2.0.json is damaged: .* Run: " + re.escape(reinstall_command())):
        layouts.__wrapped__()
