"""Layouts: which directories and files are recognised, and which slot every file falls into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.contract.executions import EXECUTIONS
from perfguard.contract.layout import MAX_DEPTH, Slot, find_cycles, layouts
from perfguard.contract.readers import READERS
from perfguard.documents import schema, schemas_directory, violations
from perfguard.findings import Code

MS, PT = "ms-2.5+cpu", "pt-torch"


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return root


@pytest.mark.parametrize(
    ("path", "relative", "match"),
    [
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0.csv", 0),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_17.csv", 17),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_x.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0.csv.bak", False),
        ("FRAMEWORK/a_{rank}.csv", "x/FRAMEWORK/a_0.csv", False),
        ("FRAMEWORK/a_{rank}.csv", "FRAMEWORK/a_0xcsv", False),
        ("logs/profiler_*.log", "logs/profiler_1.log", None),
        ("logs/profiler_*.log", "logs/profiler_.log", None),
        ("logs/profiler_*.log", "logs/profiler_a/b.log", False),
        ("trace_view.json", "trace_view.json", None),
        ("trace_view.json", "TRACE_VIEW.JSON", False),
    ],
)
def test_a_slot_matches_names_and_reads_the_rank(path, relative, match):
    found = Slot(name="x", path=path, format="csv").match(relative)
    assert (found, type(found)) == (match, type(match))


@given(rank=st.integers(0, 10**9), before=st.text("ab_.[]()+*?", max_size=8).filter(lambda t: "*" not in t))
def test_the_rank_of_any_name_is_read_back(rank, before):
    slot = Slot(name="x", path=before + "{rank}.csv", format="csv")
    assert slot.match(f"{before}{rank}.csv") == rank


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.id)
def test_a_shipped_layout_names_only_what_exists(layout):
    assert layout.id in EXECUTIONS
    assert len({slot.name for slot in layout.slots}) == len(layout.slots)
    for slot in layout.slots:
        assert slot.format in READERS
        assert slot.missing in Code.__members__
        assert slot.schema is None or schema(slot.schema)["title"]


@pytest.mark.parametrize("path", sorted((schemas_directory() / "layouts").glob("*.json")), ids=lambda path: path.stem)
def test_a_shipped_layout_keeps_the_meta_schema_and_is_named_after_its_id(path):
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert violations(plain, "layout") == []
    assert plain["id"] == path.stem


@pytest.mark.parametrize(
    ("names", "cycles"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(["notes.txt", "a/b.json"], [], id="only strangers"),
        pytest.param(["w_ascend_ms/"], [(MS, "w_ascend_ms")], id="named as a cycle, empty"),
        pytest.param(["w_ascend_ms/FRAMEWORK/x"], [(MS, "w_ascend_ms")], id="named as a cycle"),
        pytest.param(["r/FRAMEWORK/cpu_op_detail_info_0.csv"], [(MS, "r")], id="renamed, known by a table"),
        pytest.param(["r/FRAMEWORK/cpu_op_execute_timestamp_3.txt"], [(MS, "r")], id="renamed, known by timestamps"),
        pytest.param(["FRAMEWORK/cpu_op_type_info_0.csv"], [(MS, ".")], id="the directory itself"),
        pytest.param(["r/FRAMEWORK/notes.txt"], [], id="a folder called FRAMEWORK is not enough"),
        pytest.param(["w_ascend_ms/PROF_1/"], [], id="device data: not a CPU run, empty folder"),
        pytest.param(["w_ascend_ms/PROF_1/a/b"], [], id="device data: not a CPU run"),
        pytest.param(["w_ascend_ms/ASCEND_PROFILER_OUTPUT/kernel_details.csv"], [], id="device tables: not a CPU run"),
        pytest.param(
            ["r/FRAMEWORK/cpu_op_type_info_0.csv", "r/ASCEND_PROFILER_OUTPUT/op_statistic.csv"],
            [],
            id="renamed, device tables",
        ),
        pytest.param(["w.1.pt.trace.json"], [(PT, "w.1.pt.trace.json")], id="torch"),
        pytest.param(["w.1.pt.trace.json.gz"], [(PT, "w.1.pt.trace.json.gz")], id="torch, gzip"),
        pytest.param(["w.pt.trace.json.bak", "pt.trace.json", "trace.json"], [], id="not quite torch"),
        pytest.param(["w.pt.trace.json/"], [], id="a folder named as a trace"),
        pytest.param(
            ["b_ascend_ms/", "a_ascend_ms/", "0/x.pt.trace.json"],
            [(PT, "0/x.pt.trace.json"), (MS, "a_ascend_ms"), (MS, "b_ascend_ms")],
            id="several, in the order of their names",
        ),
    ],
)
def test_the_cycles_of_a_directory(tmp_path, names, cycles):
    found = find_cycles(tree(tmp_path, *names))
    assert [(cycle.layout.id, cycle.place.relative_to(tmp_path).as_posix()) for cycle in found] == cycles


@pytest.mark.parametrize(("depth", "found"), [(0, 1), (MAX_DEPTH, 1), (MAX_DEPTH + 1, 0)])
def test_a_directory_is_searched_to_a_stated_depth(tmp_path, depth, found):
    folders = "/".join("d" * depth)
    assert len(find_cycles(tree(tmp_path, f"{folders}/w.pt.trace.json".lstrip("/")))) == found


def test_every_file_of_a_cycle_is_in_its_slot_or_a_stranger(tmp_path):
    tree(
        tmp_path / "w_ascend_ms",
        "FRAMEWORK/cpu_op_type_info_2.csv",
        "FRAMEWORK/cpu_op_type_info_2.csv.tmp",
        "ASCEND_PROFILER_OUTPUT/trace_view.json",
        "logs/profiler_1.log",
        "logs/profiler_2.log",
        "deep/er/core",
    )
    (cycle,) = find_cycles(tmp_path)
    assert [(file.slot.name, file.rank, file.path.name) for file in cycle.files] == [
        ("trace_view", None, "trace_view.json"),
        ("cpu_op_type_info", 2, "cpu_op_type_info_2.csv"),
        ("log", None, "profiler_1.log"),
        ("log", None, "profiler_2.log"),
    ]
    assert cycle.strangers == ("FRAMEWORK/cpu_op_type_info_2.csv.tmp", "deep/er/core")


def test_links_to_directories_are_not_followed(tmp_path):
    tree(tmp_path / "outside" / "w_ascend_ms", "FRAMEWORK/cpu_op_type_info_0.csv")
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "judged" / "loop").symlink_to(tmp_path / "judged")
    assert find_cycles(tmp_path / "judged") == []


def test_a_missing_directory_has_no_cycles(tmp_path):
    assert find_cycles(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["profile", "."])
def test_a_relative_directory_is_searched_like_an_absolute_one(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tree(tmp_path, "profile/w_ascend_ms/FRAMEWORK/cpu_op_type_info_0.csv"))
    assert [cycle.place for cycle in find_cycles(Path(name))] == [Path("profile/w_ascend_ms")]
