"""`perfguard ops`."""

from __future__ import annotations

import json
import re

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.reports.terminal import printable
from tests.cli import RECORDINGS, TORCH, copied, run

NAMES = ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"]


def operators(*arguments: object) -> list[dict]:
    found = run("ops", *arguments, "--json")
    assert found.exit_code == 0
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_those_of_the_executions(name):
    found = operators(RECORDINGS / name)
    frames = [cycle.executions.frame for cycle in inspect(replay(RECORDINGS / name)).cycles if cycle.executions]
    assert sum(one["occurrences"] for one in found) == sum(frame.height for frame in frames)
    assert {one["operator"] for one in found} == {name for frame in frames for name in frame["operator"]}
    total_us = sum(frame["duration_ns"].sum() for frame in frames) / 1e3
    assert sum(one["total_us"] for one in found) == pytest.approx(total_us, abs=0.001 * len(found))


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_is_consistent_in_itself(name):
    for one in operators(RECORDINGS / name):
        assert set(one) == {"rank", "operator", "occurrences", "total_us", "self_us", "average_us", "shapes"}
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
    assert "is not a directory" in found.stderr


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
