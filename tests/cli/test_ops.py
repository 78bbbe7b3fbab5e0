"""`perfguard ops`."""

from __future__ import annotations

import json
import re

import pytest

from perfguard.capture.replay import replay
from perfguard.screen import printable
from tests.cli import RECORDINGS, TORCH, copied, run
from tests.dialects.summed import groups_of
from tests.dialects.test_graph_files import IR

NAMES = ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"]


def operators(*arguments: object) -> list[dict]:
    found = run("ops", *arguments, "--json")
    assert found.exit_code == 0
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_operators_are_those_of_the_executions(name):
    found = operators(RECORDINGS / name)
    sums = groups_of(replay(RECORDINGS / name))
    assert sum(one["occurrences"] for one in found) == sums["calls"].sum()
    assert {one["operator"] for one in found} == {*sums["operator"]}
    total_us = sums["total_ns"].sum() / 1e3
    assert sum(one["total_us"] for one in found) == pytest.approx(total_us, abs=0.001 * len(found))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_an_operator_is_consistent_in_itself(name):
    for one in operators(RECORDINGS / name):
        assert set(one) == {
            "rank",
            "operator",
            "occurrences",
            "total_us",
            "self_us",
            "average_us",
            "shapes",
            "on_device",
        }
        assert one["average_us"] == pytest.approx(one["total_us"] / one["occurrences"], abs=0.001)
        assert 0 <= one["self_us"] <= one["total_us"]
        assert sum(one["shapes"].values()) <= one["occurrences"]


def test_counts_of_mindspore_are_those_of_its_own_table():
    types = next((RECORDINGS / "mindspore-graph").rglob("cpu_op_type_info_0.csv")).read_text().splitlines()[1:]
    own = {cells[0]: (int(cells[1]), float(cells[3])) for cells in (line.split(",") for line in types)}
    found = {
        one["operator"]: (one["occurrences"], one["total_us"]) for one in operators(RECORDINGS / "mindspore-graph")
    }
    assert found.keys() == own.keys()
    for name, (count, total_ms) in own.items():
        assert found[name] == (count, pytest.approx(total_ms * 1e3, rel=2e-5))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_the_table_shows_every_operator_with_its_counts(name):
    found = run("ops", RECORDINGS / name)
    assert found.exit_code == 0
    header, _, *rows = found.stdout.splitlines()
    for column in ("rank", "operator", "occurrences", "total us", "average us", "self us", "shapes"):
        assert column in header
    for one in operators(RECORDINGS / name):
        name = one["operator"] if len(one["operator"]) <= 70 else "…" + one["operator"][-69:]
        counts = [match[1] for row in rows if (match := re.match(rf" *0  {re.escape(name)}  +([0-9]+) ", row))]
        assert counts == [str(one["occurrences"])]


@pytest.mark.parametrize("wanted", [("aten::addmm",), ("aten::addmm", "aten::t")])
@pytest.mark.variants(1)
def test_only_the_operators_named_are_shown(wanted):
    options = [word for name in wanted for word in ("--op", name)]
    assert {one["operator"] for one in operators(TORCH, *options)} == set(wanted)
    rows = run("ops", TORCH, *options).stdout.splitlines()[2:]
    assert {row.split()[1] for row in rows if row.startswith("  ") and row.split()[0] == "0"} == set(wanted)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("aten::adm", "did you mean 'aten::addmm'"),
        ("addmm", "did you mean 'aten::addmm'"),
        ("mm", "did you mean 'aten::mm' or 'aten::addmm'"),
        ("ADDMM", "did you mean 'aten::addmm'"),
        ("addmm*", "did you mean 'aten::addmm'"),
        ("zzz", f"list them with: perfguard ops {TORCH}"),
        ("zzz*", f"list them with: perfguard ops {TORCH}"),
        ("", f"list them with: perfguard ops {TORCH}"),
    ],
)
@pytest.mark.variants(1)
def test_an_unknown_operator_is_refused_with_the_nearest_few(name, hint):
    found = run("ops", TORCH, "--op", name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"There is no operator {name!r} in {TORCH}; {hint}" in found.stderr
    assert found.stderr.count(" or ") < 3


@pytest.mark.parametrize(
    ("globs", "holds"),
    [
        (("aten::*mm",), lambda name: name.startswith("aten::") and name.endswith("mm")),
        (("*",), lambda name: True),
        (("aten::?",), lambda name: re.fullmatch("aten::.", name) is not None),
        (("aten::addmm", "*relu*"), lambda name: name == "aten::addmm" or "relu" in name),
    ],
)
@pytest.mark.variants(1)
def test_a_glob_names_several_operators(globs, holds):
    every = {one["operator"] for one in operators(TORCH)}
    found = {one["operator"] for one in operators(TORCH, *(word for glob in globs for word in ("--op", glob)))}
    assert found == {name for name in every if holds(name)}
    assert found


def test_brackets_of_an_operators_name_are_not_wild(tmp_path):
    recording = copied(TORCH, tmp_path / "r", replace=('"aten::addmm"', '"aten::add[mm]"'))
    assert {one["operator"] for one in operators(recording, "--op", "aten::add[mm]")} == {"aten::add[mm]"}
    assert run("ops", recording, "--op", "aten::ad[d]*").exit_code == 2


def test_a_directory_without_operators_is_said(tmp_path):
    found = run("ops", tmp_path)
    assert (found.exit_code, found.stdout) == (4, "")
    said = f"perfguard: no operators could be read in {tmp_path}; look at: perfguard check"
    assert found.stderr.startswith(said)


def test_what_is_no_directory_is_a_usage_error(tmp_path):
    found = run("ops", tmp_path / "missing")
    assert found.exit_code == 2
    assert "does not exist" in found.stderr


def test_an_unreadable_trace_has_no_operators(tmp_path):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("{")
    assert run("ops", torn).exit_code == 4


def test_a_hostile_operator_is_escaped(tmp_path):
    name = "a\\u001b[31m\\nPASSED\\u202e"
    recording = copied(TORCH, tmp_path / "r", replace=('"aten::addmm"', f'"{name}"'))
    found = run("ops", recording)
    assert found.exit_code == 0
    assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
    assert printable(json.loads(f'"{name}"')) in found.stdout
    assert json.loads(f'"{name}"') in {one["operator"] for one in operators(recording)}


def test_of_many_shapes_the_most_frequent_are_shown_and_the_rest_is_counted(tmp_path):
    recording = copied(TORCH, tmp_path / "r")
    trace = next((recording / "profiler").glob("*.json"))
    document = json.loads(trace.read_text())
    found = [event for event in document["traceEvents"] if event.get("name") == "aten::addmm"]
    assert len(found) == 6
    for number, event in enumerate(found):
        event["args"]["Input Dims"] = [[max(1, number - 1)]]
        event["args"]["Input type"] = ["float"]
    trace.write_text(json.dumps(document))
    (one,) = operators(recording, "--op", "aten::addmm")
    assert one["shapes"] == {"float[1]": 3, "float[2]": 1, "float[3]": 1, "float[4]": 1}
    lines = run("ops", recording, "--op", "aten::addmm").stdout.splitlines()[2:]
    assert [line.split("  ")[-1].strip() for line in lines] == [
        "3 x float[1]",
        "1 x float[2]",
        "1 x float[3]",
        "and 1 more",
    ]


def test_ranks_are_told_apart(tmp_path):
    text = next((TORCH / "profiler").glob("*.json")).read_text()
    for rank in (0, 3):
        (tmp_path / f"rank_{rank}").mkdir()
        (tmp_path / f"rank_{rank}" / "x.pt.trace.json").write_text(text)
    found = operators(tmp_path, "--op", "aten::addmm")
    assert [(one["rank"], one["occurrences"]) for one in found] == [(0, 6), (3, 6)]


# -- saved graphs ----------------------------------------------------------------------------------------------------


def graphs(place, *, final="", rank=None):
    """Write the graphs of one compilation; `final` is added to the final one, a line an operator."""
    folder = place if rank is None else place / f"rank_{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    nodes = "".join(f"  %{number}(y) = {name}(%para1_x)\n" for number, name in enumerate(final.split()))
    text = IR.replace(IR[IR.index("  %0(y)") : IR.index("  Return")], nodes, 1)
    for number, name in enumerate(("00_bootstrap", "21_validate", "graph_build_0")):
        (folder / f"{name}_{number:04d}.ir").write_text(text if name == "graph_build_0" else IR)
    return place


def rows(found):
    return [line.split() for line in found.stdout.splitlines()[2:] if line.startswith("  ")]


def test_saved_graphs_are_counted_the_most_frequent_operator_first(tmp_path):
    found = run("ops", graphs(tmp_path, final="Cast PrimFunc_MatMul Cast"))
    assert (found.exit_code, found.stderr) == (0, "")
    assert rows(found) == [["0", "Cast", "2"], ["0", "Return", "2"], ["0", "MatMul", "1"]]
    assert operators(tmp_path, "--op", "Cast") == [{"rank": 0, "operator": "Cast", "in_graphs": 2}]
    assert rows(run("ops", tmp_path, "--op", "Mat*")) == [["0", "MatMul", "1"]]


def test_an_unknown_operator_of_a_graph_is_refused_with_the_nearest(tmp_path):
    found = run("ops", graphs(tmp_path, final="Cast"), "--op", "cast")
    assert found.exit_code == 2
    assert "did you mean 'Cast'?" in found.stderr


def test_what_a_graph_and_its_base_do_not_share_is_shown_with_its_difference(tmp_path):
    base = graphs(tmp_path / "base", final="MatMul Cast Cast ReLU")
    now = graphs(tmp_path / "now", final="MatMul Cast Cast Cast Cast Cast BiasAdd")
    found = run("ops", now, "--against", base)
    assert (found.exit_code, found.stderr) == (0, "")
    assert rows(found) == [
        ["0", "BiasAdd", "0", "1", "+1", "in", "final", "graphs"],
        ["0", "Cast", "2", "5", "+3", "in", "final", "graphs"],
        ["0", "ReLU", "1", "0", "-1", "in", "final", "graphs"],
    ]
    assert found.stdout.splitlines()[-1] == "3 of 5 operators differ"
    assert {row[1] for row in rows(run("ops", now, "--against", base, "--all"))} == {
        *("BiasAdd", "Cast", "MatMul", "ReLU", "Return")
    }
    assert operators(now, "--against", base, "--op", "Cast") == [
        {"counted": "graph", "rank": 0, "operator": "Cast", "base": 2, "now": 5, "difference": 3}
    ]


def test_ranks_of_graphs_are_told_apart_and_one_that_is_gone_is_all_difference(tmp_path):
    for rank in (0, 1):
        graphs(tmp_path / "base", final="MatMul", rank=rank)
    now = graphs(tmp_path / "now", final="MatMul", rank=0)
    assert [row[:5] for row in rows(run("ops", now, "--against", tmp_path / "base"))] == [
        ["1", "MatMul", "1", "0", "-1"],
        ["1", "Return", "2", "0", "-2"],
    ]


@pytest.mark.parametrize("name", ["torch-repeat2", "mindspore-graph"])
@pytest.mark.exhaustive
def test_a_recording_does_not_differ_from_itself(name):
    found = run("ops", RECORDINGS / name, "--against", RECORDINGS / name)
    assert found.exit_code == 0
    count = len(operators(RECORDINGS / name))
    assert found.stdout == f"none of {count} operators differs\n"
    assert operators(RECORDINGS / name, "--against", RECORDINGS / name) == []
    every = operators(RECORDINGS / name, "--against", RECORDINGS / name, "--all")
    assert len(every) == count


def test_recordings_of_windows_of_other_lengths_are_compared_by_step():
    found = run("ops", RECORDINGS / "torch-repeat2", "--against", TORCH, "--op", "aten::t", "--all")
    (row,) = rows(found)
    repeated, plain = (
        {one["operator"]: one["occurrences"] for one in operators(RECORDINGS / name)}["aten::t"]
        for name in ("torch-repeat2", "torch-mlp")
    )
    assert (float(row[2]), float(row[3]), row[-1]) == (plain / 3, repeated / 4, "calls/step")


def test_an_added_operator_of_a_recording_is_told(tmp_path):
    renamed = copied(TORCH, tmp_path / "r", replace=('"aten::addmm"', '"aten::baddbmm"'))
    found = run("ops", renamed, "--against", TORCH)
    assert [row[1:5] for row in rows(found)] == [["aten::addmm", "2", "0", "-2"], ["aten::baddbmm", "0", "2", "+2"]]
    assert rows(found)[0][5] == "calls/step"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--all",), 2, "--all says which operators --against shows"),
        (("--against", "missing"), 2, "does not exist"),
        (("--against", "empty"), 4, "no operators could be read in empty"),
        (
            ("--against", "recording"),
            2,
            "recording holds operators that ran, and graphs graphs: nothing was counted in both",
        ),
        (("--against", "graphs", "--op", "Nope"), 2, "There is no operator 'Nope' in graphs"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    graphs(tmp_path / "graphs", final="Cast")
    (tmp_path / "empty").mkdir()
    copied(TORCH, tmp_path / "recording")
    found = run("ops", "graphs", *arguments)
    assert (found.exit_code, found.stdout) == (code, "")
    assert words in found.stderr


def test_what_is_not_whole_is_shown_and_said(tmp_path):
    base = graphs(tmp_path / "base", final="Cast")
    now = graphs(tmp_path / "now", final="Cast")
    (now / "analyze_fail.ir").write_text("the node\n")
    for found in (run("ops", now), run("ops", now, "--against", base), run("ops", base, "--against", now)):
        assert found.exit_code == 0
        assert (
            found.stderr == f"perfguard: {now} is incomplete, so operators may be missing; look at: perfguard check\n"
        )


def test_a_recording_that_holds_graphs_as_well_shows_both(tmp_path):
    place = copied(RECORDINGS / "mindspore-graph", tmp_path / "r")
    for name in ("recording.json", "steps.json"):
        (place / name).unlink()
    graphs(place / "graphs", final="Cast")
    first, second = run("ops", place).stdout.split("\n\n")
    assert "self us" in first
    assert second.split()[:4] == ["rank", "operator", "in", "final"]
    both = run("ops", place, "--against", place, "--all", "--json")
    assert {one["counted"] for one in json.loads(both.stdout)} == {"run", "graph"}


def test_a_hostile_operator_of_a_difference_is_escaped(tmp_path):
    name = "a\\u001b[31m\\nPASSED\\u202e"
    recording = copied(TORCH, tmp_path / "r", replace=('"aten::addmm"', f'"{name}"'))
    found = run("ops", recording, "--against", TORCH)
    assert found.exit_code == 0
    assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
    assert printable(json.loads(f'"{name}"')) in found.stdout
