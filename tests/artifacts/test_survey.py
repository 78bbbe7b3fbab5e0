"""Surveys: which directories and files are recognised, in which order, and which slot every file falls into."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts import survey as module
from perfguard.artifacts.layout import Layout, Recognition, Slot
from perfguard.artifacts.survey import head, survey
from perfguard.findings import Severity
from tests.facts import unlistable, unwritable_directory

MS, PT = "ms-2.5+cpu", "pt-torch"


def tree(root: Path, *names: str) -> Path:
    """Make files and, of names that end with a slash, folders; `name=text` is a file with a text."""
    for whole in names:
        name, _, text = whole.partition("=")
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return root


def a_layout(id_: str = "a", *ways: Recognition, slots: tuple[Slot, ...] = (), **more: Any) -> Layout:
    facts = {"title": "t", "source": "s", "order": 1, "cycle": "directory", "ranks": "one", "nests": False}
    return Layout(id=id_, recognise=ways, slots=slots, conditions={}, **(facts | more))


def a_slot(path: str, name: str = "x", **more: Any) -> Slot:
    return Slot(name=name, path=path, **{"format": "csv", **more})


@pytest.fixture
def knowing(monkeypatch):
    """Return a function that makes these layouts the only ones there are."""

    def know(*known: Layout) -> None:
        ordered = tuple(sorted(known, key=lambda one: (one.order, one.id)))
        monkeypatch.setattr(module, "layouts", lambda: ordered)

    return know


def found_in(directory: Path, only: Layout | None = None) -> list[tuple[str, str]]:
    cycles = survey(directory, only).cycles
    return [(cycle.layout.id, cycle.place.relative_to(directory).as_posix()) for cycle in cycles]


def told(directory: Path) -> list[tuple[str, str, str, str]]:
    return [(f.code.name, f.severity.value, f.place, f.message) for f in survey(directory).findings]


# -- the shipped layouts ---------------------------------------------------------------------------------------------


def test_a_rank_directory_that_holds_the_files_itself_is_both(tmp_path):
    tree(tmp_path, "rank_3/cluster_step_trace_time.csv")
    found = survey(tmp_path)
    assert [(cycle.layout.id, [parent.rank for parent in cycle.parents]) for cycle in found.cycles] == [
        ("cluster", [3])
    ]


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
        pytest.param(["w_ascend_ms/PROF_1/"], [("ms-2.5+", "w_ascend_ms")], id="device data: not a CPU run, empty"),
        pytest.param(["w_ascend_ms/PROF_1/a/b"], [("ms-2.5+", "w_ascend_ms")], id="device data: not a CPU run"),
        pytest.param(
            ["w_ascend_ms/ASCEND_PROFILER_OUTPUT/kernel_details.csv"],
            [("ms-2.5+", "w_ascend_ms")],
            id="device tables: not a CPU run",
        ),
        pytest.param(["w_ascend_pt/FRAMEWORK/torch.op_range"], [("pt-npu", "w_ascend_pt")], id="torch_npu"),
        pytest.param(["w.1.pt.trace.json"], [(PT, "w.1.pt.trace.json")], id="torch"),
        pytest.param(["w.1.pt.trace.json.gz"], [(PT, "w.1.pt.trace.json.gz")], id="torch, gzip"),
        pytest.param(["w.pt.trace.json.bak", "pt.trace.json", "trace.json"], [], id="not quite torch"),
        pytest.param(["w.pt.trace.json/"], [], id="a folder named as a trace"),
        pytest.param(
            ["w_ascend_ms/FRAMEWORK/x", "w_ascend_ms/deep/w.pt.trace.json"],
            [(MS, "w_ascend_ms")],
            id="nothing is looked for inside a cycle",
        ),
        pytest.param(
            ["b_ascend_ms/", "a_ascend_ms/", "0/x.pt.trace.json"],
            [(PT, "0/x.pt.trace.json"), (MS, "a_ascend_ms"), (MS, "b_ascend_ms")],
            id="several, in the order of their names",
        ),
    ],
)
def test_the_cycles_of_a_directory(tmp_path, names, cycles):
    assert found_in(tree(tmp_path, *names)) == cycles


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
    (cycle,) = survey(tmp_path).cycles
    assert [(file.slot.name, file.rank, file.path.name) for file in cycle.files] == [
        ("trace_view", None, "trace_view.json"),
        ("cpu_op_type_info", 2, "cpu_op_type_info_2.csv"),
        ("log", None, "profiler_1.log"),
        ("log", None, "profiler_2.log"),
    ]
    assert cycle.unmatched == ("FRAMEWORK/cpu_op_type_info_2.csv.tmp", "deep/er/core")


# -- ways to be recognised -------------------------------------------------------------------------------------------

NAMED = Recognition(name="^run")
HOLDING = Recognition(contains=("sub/*.csv", "top.txt"))
FOLDER = Recognition(contains=("PROF_*/**",))
SAYING = Recognition(texts={"info_*.json": '"kind": *"x"'})
LACKING = Recognition(name="^run", lacks=("sub/*", "no.txt"))
ALL = Recognition(name="^run", path="a/run", contains=("in.txt",), texts={"in.txt": "yes"}, lacks=("out.txt",))


@pytest.mark.parametrize(
    ("way", "names", "because"),
    [
        pytest.param(NAMED, ["run1/"], "its name matches ^run", id="name"),
        pytest.param(NAMED, ["a-run1/"], None, id="another name"),
        pytest.param(Recognition(path="a/run$"), ["a/run/"], "its path matches a/run$", id="path"),
        pytest.param(Recognition(path="a/run$"), ["b/run/"], None, id="another path"),
        pytest.param(HOLDING, ["r/sub/a.csv"], "it holds sub/a.csv", id="one of what it may hold"),
        pytest.param(HOLDING, ["r/top.txt"], "it holds top.txt", id="the other of what it may hold"),
        pytest.param(HOLDING, ["r/sub/deep/a.csv"], None, id="deeper than the glob"),
        pytest.param(HOLDING, ["r/sub/"], None, id="a folder that lacks the file"),
        pytest.param(FOLDER, ["r/PROF_1/"], "it holds PROF_1", id="an empty folder is held"),
        pytest.param(FOLDER, ["r/PROF_1/a/b"], "it holds PROF_1", id="a full folder is held"),
        pytest.param(SAYING, ['r/info_0.json={"kind": "x"}'], 'info_0.json says "kind": *"x"', id="text"),
        pytest.param(SAYING, ['r/info_0.json={"kind": "y"}'], None, id="another text"),
        pytest.param(SAYING, ["r/info_0.json=", 'r/info_1.json={"kind":"x"}'], "info_1.json", id="some file says it"),
        pytest.param(SAYING, ["r/info_0.json=" + " " * 70_000 + '"kind": "x"'], None, id="the text is beyond 64 KiB"),
        pytest.param(SAYING, ["r/info_0.json/"], None, id="a folder has no text"),
        pytest.param(SAYING, ["r/other"], None, id="no file that could say it"),
        pytest.param(LACKING, ["run/sub/"], "its name matches ^run", id="nothing it must lack"),
        pytest.param(LACKING, ["run/sub/a"], None, id="one of what it must lack"),
        pytest.param(LACKING, ["run/no.txt/"], None, id="a folder it must lack"),
        pytest.param(
            ALL,
            ["a/run/in.txt=yes"],
            "its name matches ^run and its path matches a/run and it holds in.txt and in.txt says yes",
            id="all that is said",
        ),
        pytest.param(ALL, ["a/run/in.txt=no"], None, id="all but the text"),
        pytest.param(ALL, ["b/run/in.txt=yes"], None, id="all but the path"),
        pytest.param(ALL, ["a/run/in.txt=yes", "a/run/out.txt"], None, id="all, and what it must lack"),
    ],
)
def test_all_of_a_way_must_hold(tmp_path, knowing, way, names, because):
    knowing(a_layout("a", way))
    cycles = survey(tree(tmp_path, *names)).cycles
    if because is None:
        assert cycles == ()
    else:
        (cycle,) = cycles
        assert because in cycle.because


def test_the_first_way_that_holds_is_enough_and_is_named(tmp_path, knowing):
    knowing(a_layout("a", NAMED, FOLDER))
    (cycle,) = survey(tree(tmp_path, "other/PROF_9/x")).cycles
    assert cycle.because == "it holds PROF_9"


@pytest.mark.parametrize(("orders", "winner"), [((1, 2), "a"), ((2, 1), "b"), ((1, 1), "a")])
def test_of_two_layouts_that_hold_the_smaller_order_wins(tmp_path, knowing, orders, winner):
    knowing(*(a_layout(name, NAMED, order=order) for name, order in zip("ab", orders, strict=True)))
    assert found_in(tree(tmp_path, "run/x")) == [(winner, "run")]


def test_a_glob_may_name_the_rank_twice(tmp_path, knowing):
    knowing(a_layout("a", Recognition(contains=("r{rank}/f_{rank}.txt", "other_*"))))
    assert found_in(tree(tmp_path, "x/r1/f_1.txt")) == [("a", "x")]
    assert found_in(tree(tmp_path / "y", "r1/f_2.txt")) == []


def test_a_text_is_found_at_the_beginning_of_a_line(tmp_path, knowing):
    knowing(a_layout("a", Recognition(texts={"f.csv": "^second,"})))
    assert found_in(tree(tmp_path, "r/f.csv=first\nsecond,third")) == [("a", "r")]


def test_a_file_is_one_cycle_by_its_own_name(tmp_path, knowing):
    knowing(a_layout("f", Recognition(name=r"\.trace$"), slots=(a_slot("*.trace"),), cycle="file"))
    tree(tmp_path, "a.trace", "deep/b.trace", "c.trace/")
    assert found_in(tmp_path) == [("f", "a.trace"), ("f", "deep/b.trace")]


def test_files_of_a_cycle_are_no_cycles(tmp_path, knowing):
    knowing(
        a_layout("f", Recognition(name=r"\.trace$"), slots=(a_slot("*.trace"),), cycle="file"),
        a_layout("d", NAMED, order=5),
    )
    assert found_in(tree(tmp_path, "run/a.trace", "other/b.trace")) == [("f", "other/b.trace"), ("d", "run")]


def test_a_neighbour_whose_name_goes_on_is_not_inside(tmp_path, knowing):
    knowing(a_layout("d", NAMED, HOLDING))
    tree(tmp_path, "run/top.txt", "run.more/x", "run-more/x", "run0/x", "run/run/x")
    assert [place for _, place in found_in(tmp_path)] == ["run", "run-more", "run.more", "run0"]
    (first, *_) = survey(tmp_path).cycles
    assert first.unmatched == ("run/x", "top.txt")


def test_the_first_slot_that_matches_takes_a_file(tmp_path, knowing):
    knowing(a_layout("a", NAMED, slots=(a_slot("a.csv", "first"), a_slot("*.csv", "second"))))
    (cycle,) = survey(tree(tmp_path, "run/a.csv", "run/b.csv")).cycles
    assert [(file.slot.name, file.path.name) for file in cycle.files] == [("first", "a.csv"), ("second", "b.csv")]


def test_a_cycle_that_nests_leaves_to_inner_cycles_what_is_theirs(tmp_path, knowing):
    outer = a_layout("outer", HOLDING, order=9, nests=True, slots=(a_slot("**.csv", "any"),))
    file = a_layout("file", Recognition(name=r"\.trace$"), slots=(a_slot("*.trace"),), cycle="file")
    knowing(outer, a_layout("inner", NAMED, slots=(a_slot("*.csv", "own"),)), file)
    tree(tmp_path, "o/top.txt", "o/a.csv", "o/run/b.csv", "o/run/odd", "o/runs.csv", "o/x.trace", "o/deep/sub/c.csv")
    cycles = {cycle.layout.id: cycle for cycle in survey(tmp_path).cycles}
    assert {
        id_: (cycle.place.relative_to(tmp_path).as_posix(), [f.path.name for f in cycle.files], cycle.unmatched)
        for id_, cycle in cycles.items()
    } == {
        "outer": ("o", ["a.csv", "c.csv", "runs.csv"], ("top.txt",)),
        "inner": ("o/run", ["b.csv"], ("odd",)),
        "file": ("o/x.trace", ["x.trace"], ()),
    }


def test_a_cycle_that_nests_is_not_nested_in_another_of_its_kind(tmp_path, knowing):
    knowing(a_layout("outer", HOLDING, nests=True))
    assert found_in(tree(tmp_path, "o/top.txt", "o/deep/top.txt")) == [("outer", "o")]


# -- one layout only -------------------------------------------------------------------------------------------------


def test_with_one_layout_nothing_else_is_looked_for(tmp_path, knowing):
    wanted, other = a_layout("wanted", FOLDER, order=9), a_layout("other", NAMED)
    knowing(wanted, other)
    tree(tmp_path, "run/PROF_1/x", "run2/x")
    assert found_in(tmp_path) == [("other", "run"), ("other", "run2")]
    assert found_in(tmp_path, wanted) == [("wanted", "run")]


def test_a_directory_is_taken_for_the_one_layout_that_was_named(tmp_path, knowing):
    wanted = a_layout("wanted", FOLDER, slots=(a_slot("a.csv"),))
    knowing(wanted)
    (cycle,) = survey(tree(tmp_path, "a.csv", "b.csv"), wanted).cycles
    assert (cycle.place, cycle.because, cycle.unmatched) == (tmp_path, "it was requested", ("b.csv",))
    assert [file.path.name for file in cycle.files] == ["a.csv"]


def test_a_layout_of_files_needs_a_file_even_when_it_was_named(tmp_path, knowing):
    wanted = a_layout("f", Recognition(name=r"\.trace$"), slots=(a_slot("*.trace"),), cycle="file")
    knowing(wanted)
    assert found_in(tree(tmp_path, "x.json"), wanted) == []


# -- parents ---------------------------------------------------------------------------------------------------------

RANKS = a_layout("ranks", Recognition(path=r"(^|/)rank_(?P<rank>[0-9]+)$"), cycle="parent", order=0)
WINDOW = a_layout(
    "window",
    Recognition(path=r"(^|/)rank(?P<rank>[0-9]+)_start(?P<start>[0-9]+)_stop(?P<stop>[0-9]+)$"),
    cycle="parent",
)


def test_parents_say_rank_and_steps_and_the_nearest_comes_first(tmp_path, knowing):
    knowing(RANKS, WINDOW, a_layout("a", NAMED))
    found = survey(tree(tmp_path, "rank_3/rank3_start2_stop4/run/x", "rank_12/run/x", "run/x"))
    assert [
        (cycle.place.relative_to(tmp_path).as_posix(), [(p.layout.id, p.rank, p.steps) for p in cycle.parents])
        for cycle in found.cycles
    ] == [
        ("rank_12/run", [("ranks", 12, None)]),
        ("rank_3/rank3_start2_stop4/run", [("window", 3, 3), ("ranks", 3, None)]),
        ("run", []),
    ]
    assert [parent.place.name for parent in found.parents] == ["rank_12", "rank_3", "rank3_start2_stop4"]


def test_a_parent_is_still_looked_into_and_may_be_a_cycle_itself(tmp_path, knowing):
    knowing(RANKS, a_layout("a", HOLDING))
    found = survey(tree(tmp_path, "rank_1/top.txt"))
    assert [(cycle.layout.id, cycle.place.name) for cycle in found.cycles] == [("a", "rank_1")]
    assert [(p.rank, p.place.name) for p in found.cycles[0].parents] == [(1, "rank_1")]


def test_the_judged_directory_may_be_a_parent(tmp_path, knowing):
    knowing(RANKS, a_layout("a", NAMED))
    (cycle,) = survey(tree(tmp_path, "rank_7/run/x") / "rank_7").cycles
    assert [parent.rank for parent in cycle.parents] == [7]


def test_parents_count_with_one_layout_only_as_well(tmp_path, knowing):
    wanted = a_layout("a", NAMED)
    knowing(RANKS, wanted)
    (cycle,) = survey(tree(tmp_path, "rank_7/run/x"), wanted).cycles
    assert [parent.rank for parent in cycle.parents] == [7]


@pytest.mark.parametrize(("ways", "rank"), [((RANKS.recognise[0], NAMED), 7), ((NAMED, RANKS.recognise[0]), 7)])
def test_the_rank_is_read_by_whichever_way_held(tmp_path, knowing, ways, rank):
    knowing(a_layout("p", *ways, cycle="parent"), a_layout("a", HOLDING))
    (parent,) = survey(tree(tmp_path, "rank_7/x/top.txt")).parents
    assert parent.rank == rank


# -- many ranks in one directory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "cycles"), [("suffix", 2), ("one", 1)])
def test_files_of_many_ranks_are_told_apart_where_the_layout_says_so(tmp_path, knowing, ranks, cycles):
    slots = (a_slot("a_{rank}.csv", "a"), a_slot("b_{rank}.csv", "b"), a_slot("info.json", "info"))
    knowing(a_layout("a", NAMED, slots=slots, ranks=ranks))
    found = survey(
        tree(tmp_path, *(f"run/{n}" for n in ("a_0.csv", "a_10.csv", "b_10.csv", "info.json", "odd")))
    ).cycles
    assert len(found) == cycles
    if ranks == "suffix":
        assert [[file.path.name for file in cycle.files] for cycle in found] == [
            ["a_0.csv", "info.json"],
            ["a_10.csv", "b_10.csv"],
        ]
        assert [cycle.unmatched for cycle in found] == [("odd",), ()]


def test_one_rank_in_a_directory_of_many_is_one_cycle(tmp_path, knowing):
    knowing(a_layout("a", NAMED, slots=(a_slot("a_{rank}.csv", "a"),), ranks="suffix"))
    (cycle,) = survey(tree(tmp_path, "run/a_4.csv")).cycles
    assert [file.rank for file in cycle.files] == [4]


@given(files=st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), min_size=1))
def test_every_file_lands_in_exactly_one_cycle_of_its_own_rank(files):
    names = [f"{name}_{rank}.csv" for name, rank in files]
    slots = (a_slot("a_{rank}.csv", "a"), a_slot("b_{rank}.csv", "b"))
    listing = module.Listing([""], sorted(names), [])
    cycles = module._directory_cycles(a_layout("a", slots=slots, ranks="suffix"), Path("p"), "", listing, "")
    assert sorted(file.path.name for cycle in cycles for file in cycle.files) == sorted(names)
    assert [{file.rank for file in cycle.files} for cycle in cycles] == [{r} for r in sorted({r for _, r in files})]


# -- what is not looked at -------------------------------------------------------------------------------------------


def test_links_to_directories_are_not_followed_and_only_noted(tmp_path):
    tree(tmp_path / "outside" / "w_ascend_ms", "FRAMEWORK/cpu_op_type_info_0.csv")
    judged = tmp_path / "judged"
    judged.mkdir()
    (judged / "link").symlink_to(tmp_path / "outside")
    (judged / "loop").symlink_to(judged)
    assert found_in(judged) == []
    assert sorted(told(judged)) == [("A109", "note", name, "it is a link to a folder") for name in ("link", "loop")]


def test_a_link_to_a_file_inside_is_read_like_the_file(tmp_path):
    tree(tmp_path, "data/real.json")
    (tmp_path / "w.pt.trace.json").symlink_to("data/real.json")
    assert found_in(tmp_path) == [(PT, "w.pt.trace.json")]
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("../secret", "it is a link that leads out of the directory: it is not read"),
        ("/etc/passwd", "it is a link that leads out of the directory: it is not read"),
        ("../judged-too/x", "it is a link that leads out of the directory: it is not read"),
        ("nowhere", "it is a link that leads nowhere"),
        ("w.pt.trace.json", "it is a link that leads nowhere"),
        ("a/../../secret", "it is a link that leads out of the directory: it is not read"),
    ],
)
def test_a_link_that_leads_out_or_nowhere_is_an_error_and_not_read(tmp_path, target, reason):
    judged = tmp_path / "judged"
    tree(tmp_path, "secret=s", "judged/a/", "judged-too/x")
    (judged / "w.pt.trace.json").symlink_to(target)
    assert found_in(judged) == []
    assert told(judged) == [("A109", "error", "w.pt.trace.json", reason)]


def test_a_directory_reached_by_a_link_is_listed_as_itself(tmp_path):
    tree(tmp_path, "real/w.pt.trace.json", "real/data.json")
    (tmp_path / "real" / "v.pt.trace.json").symlink_to("data.json")
    (tmp_path / "latest").symlink_to("real")
    assert found_in(tmp_path / "latest") == [(PT, "v.pt.trace.json"), (PT, "w.pt.trace.json")]
    assert told(tmp_path / "latest") == []


@pytest.mark.parametrize(("depth", "found"), [(0, 1), (3, 1), (4, 0)])
def test_a_directory_is_searched_to_a_stated_depth(tmp_path, monkeypatch, depth, found):
    monkeypatch.setattr(module, "MAX_DEPTH", 3)
    folders = "/".join("d" * depth)
    assert len(found_in(tree(tmp_path, f"{folders}/w.pt.trace.json".lstrip("/")))) == found
    findings = told(tmp_path)
    assert [(code, severity, place) for code, severity, place, _ in findings] == (
        [] if found else [("A108", "error", "d/d/d/d")]
    )


@pytest.mark.parametrize(("entries", "code"), [(5, []), (6, ["A108"])])
def test_no_more_than_a_stated_number_of_entries_is_looked_at(tmp_path, monkeypatch, entries, code):
    monkeypatch.setattr(module, "MAX_ENTRIES", 5)
    tree(tmp_path, *(f"{number}.pt.trace.json" for number in range(entries)))
    assert [one[0] for one in told(tmp_path)] == code
    assert len(found_in(tmp_path)) == 5


def test_entries_are_counted_over_all_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 5)
    tree(tmp_path, "a/x", "a/y", "b/x", "b/y", "c/x")
    ((code, severity, _, message),) = told(tmp_path)
    assert (code, severity) == ("A108", "error")
    assert "more than 5 files and folders" in message


def test_a_missing_directory_has_no_cycles_and_says_so(tmp_path):
    assert found_in(tmp_path / "nowhere") == []
    assert [(code, place) for code, _, place, _ in told(tmp_path / "nowhere")] == [("A109", ".")]


def test_a_folder_that_may_not_be_listed_is_said():
    with unwritable_directory(0o311) as place:
        assert told(place) == [("A109", "error", ".", "it cannot be listed: Permission denied")]


def test_the_rest_is_looked_at_where_one_folder_cannot_be_listed(tmp_path, monkeypatch):
    tree(tmp_path, "gone/x", "w.pt.trace.json")
    unlistable(monkeypatch, "gone")
    assert told(tmp_path) == [("A109", "error", "gone", "it cannot be listed: Permission denied")]
    assert found_in(tmp_path) == [(PT, "w.pt.trace.json")]


@pytest.mark.usefixtures("must_not_hang")
def test_a_fifo_is_a_file_that_is_never_opened_while_looking(tmp_path, knowing):
    knowing(a_layout("a", Recognition(texts={"info.json": "x"}), NAMED, slots=(a_slot("info.json"),)))
    tree(tmp_path, "run/")
    os.mkfifo(tmp_path / "run" / "info.json")
    assert head(tmp_path / "run" / "info.json") == ""
    (cycle,) = survey(tmp_path).cycles
    assert (cycle.because, [file.path.name for file in cycle.files]) == ("its name matches ^run", ["info.json"])


@pytest.mark.parametrize(
    "name", ["two\nlines", "tab\there", "quote\"'", "-rf", "a*b[c]", os.fsdecode(b"\xff\xfe"), "\x1b[31m", "é", " "]
)
def test_odd_names_are_only_names(tmp_path, knowing, name):
    slots = (a_slot("*.csv", "table"), a_slot("deep/**.csv", "deep"))
    knowing(a_layout("a", Recognition(contains=("*.csv", "deep/**"), texts={"*.csv": "x"}), slots=slots))
    folder = tmp_path / name
    tree(folder, f"{name}.csv=x", f"deep/{name}/{name}.csv", name)
    (cycle,) = survey(tmp_path).cycles
    assert cycle.place == folder
    assert [(file.slot.name, file.path.name) for file in cycle.files] == [
        *sorted([("deep", f"{name}.csv"), ("table", f"{name}.csv")], reverse=f"{name}.csv" < "deep")
    ]
    assert cycle.unmatched == (name,)


@pytest.mark.parametrize("name", ["profile", "."])
def test_a_relative_directory_is_searched_like_an_absolute_one(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tree(tmp_path, "profile/w_ascend_ms/FRAMEWORK/cpu_op_type_info_0.csv"))
    assert [cycle.place for cycle in survey(Path(name)).cycles] == [Path("profile/w_ascend_ms")]


def test_the_head_of_a_file_is_its_first_64_kib(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff" + b"x" * 100_000)
    assert (len(head(tmp_path / "f")), head(tmp_path / "f")[0]) == (module.HEAD_BYTES, "\ufffd")
    assert head(tmp_path) == head(tmp_path / "missing") == ""


# -- any tree at all -------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(["a_ascend_ms", "b_ascend_pt", "FRAMEWORK", "PROF_1", "rank_0", "x.pt.trace.json", "n", "a-"])


@settings(deadline=None)
@given(paths=st.sets(st.lists(PIECES, min_size=1, max_size=4).map(tuple), max_size=8))
def test_no_cycle_lies_in_another_and_all_are_found_again(tmp_path_factory, paths):
    root = tmp_path_factory.mktemp("any")
    for parts in sorted(paths):
        path = root.joinpath(*parts)
        if not any(parent.is_file() for parent in (path, *path.parents)) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    found = survey(root)
    places = [cycle.place for cycle in found.cycles if cycle.layout.ranks == "one" and not cycle.layout.nests]
    assert len(set(places)) == len(places)
    assert [one for one in places if set(one.parents) & set(places)] == []
    assert [f for f in found.findings if f.severity is Severity.ERROR] == []
    assert survey(root) == found
    for cycle in found.cycles:
        if cycle.place in places and cycle.layout.cycle == "directory":
            there = sorted(one for one in cycle.place.rglob("*") if one.is_file())
            assert sorted([*(f.path for f in cycle.files), *(cycle.place / s for s in cycle.unmatched)]) == there
