"""`perfguard compare`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from perfguard.documents import schema
from perfguard.testing import generate
from perfguard.version import upgrade_command
from tests.cli import RECORDINGS, TORCH, copied, report_file, run

GRAPH = RECORDINGS / "mindspore-graph"
REPEAT = RECORDINGS / "torch-repeat2"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Settings come from the directory of the call: one without a pyproject.toml."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def renamed(tmp_path):
    """The torch recording, with one operator under another name; it fails, for the settings ask for a snapshot."""
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nchanged = "fail"\n')
    return copied(TORCH, tmp_path / "renamed", replace=('"aten::addmm"', '"aten::baddbmm"'))


# -- two recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch-repeat2", "mindspore-graph"])
@pytest.mark.variants(1)
def test_a_recording_equals_itself(name):
    found = run("compare", RECORDINGS / name, RECORDINGS / name)
    assert found.exit_code == 0
    assert found.stdout.startswith("PASSED ")
    assert ": 0 worse, 0 better, 0 changed; 0 not comparable" in found.stdout.splitlines()[-1]


def test_another_operator_is_a_change(tmp_path, renamed):
    (tmp_path / "pyproject.toml").unlink()
    found = run("compare", TORCH, renamed)
    assert found.exit_code == 0
    first, change = found.stdout.splitlines()[:2]
    assert first == "CHANGED test_rec.py::test_torch_mlp"
    assert change == "  R107 (warning) operators changed: 1 new (aten::baddbmm), 1 gone (aten::addmm)"


def test_in_a_snapshot_another_operator_is_a_regression(renamed):
    found = run("compare", TORCH, renamed)
    assert found.exit_code == 1
    assert found.stdout.startswith("FAILED test_rec.py::test_torch_mlp\n")
    assert (
        '  R103 operator_calls[aten::addmm] was 2 calls/step, and is not measured any more (fails because of changed = "fail")'
        in found.stdout.splitlines()
    )
    assert (
        '  R104 operator_calls[aten::baddbmm] is 2 calls/step, and the baseline has none (fails because of changed = "fail")'
        in found.stdout.splitlines()
    )


@pytest.mark.exhaustive
def test_the_order_of_the_two_decides_what_is_new_and_what_is_gone(renamed):
    found = run("compare", renamed, TORCH)
    assert found.exit_code == 1
    assert "R103 operator_calls[aten::baddbmm]" in found.stdout
    assert "R104 operator_calls[aten::addmm]" in found.stdout


def test_another_fingerprint_cannot_be_compared(tmp_path):
    other = {"mode": "compiled", "device": "cuda", "threads": 2, "world_size": 8, "backend": "mindspore"}
    found = run("compare", TORCH, copied(TORCH, tmp_path / "other", **other))
    assert found.exit_code == 4
    assert found.stdout.startswith("INCONCLUSIVE ")
    (told,) = [line for line in found.stdout.splitlines() if "B102" in line]
    before = {"mode": "eager", "device": "cpu", "threads": 1, "world_size": 1, "backend": "torch"}
    expected = {f"{name}: {before[name]} → {value}" for name, value in other.items()}
    assert {*told.removeprefix("  B102 the baseline belongs to another fingerprint: ").split("; ")} == expected


@pytest.mark.exhaustive
def test_one_other_fact_is_enough(tmp_path):
    found = run("compare", TORCH, copied(TORCH, tmp_path / "other", threads=2))
    assert found.exit_code == 4
    assert "B102 the baseline belongs to another fingerprint: threads: 1 → 2" in found.stdout


@pytest.mark.exhaustive
def test_two_recordings_are_compared_under_whatever_names(tmp_path):
    other = copied(TORCH, tmp_path / "other", workload="tests/another.py::test_name")
    found = run("compare", TORCH, other)
    assert found.exit_code == 0
    assert found.stdout.startswith("PASSED tests/another.py::test_name\n")
    assert "gone" not in found.stdout.splitlines()[0]


@pytest.mark.parametrize("side", ["base", "current"])
@pytest.mark.variants(1)
def test_an_invalid_side_makes_the_comparison_invalid(tmp_path, side):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("[]")
    found = run("compare", *((torn, TORCH) if side == "base" else (TORCH, torn)))
    assert found.exit_code == 3
    first, *others = found.stdout.splitlines()
    assert first == f"INVALID: {'the base' if side == 'base' else 'the current one'}, {torn}, is not whole"
    assert others[0].startswith("  ")
    assert others[-1] == "0 compared: 0 worse, 0 better, 0 changed; 0 not comparable"
    assert f"\nINVALID  {TORCH}" not in found.stdout


def test_two_invalid_sides_are_told_with_the_findings_of_each(tmp_path):
    base, current = copied(TORCH, tmp_path / "base"), copied(TORCH, tmp_path / "current")
    next((base / "profiler").glob("*.json")).write_text("[]")
    next((current / "profiler").glob("*.json")).unlink()
    lines = run("compare", base, current).stdout.splitlines()
    heads = [line for line in lines if line.startswith("INVALID")]
    assert heads == [f"INVALID: the base, {base}, is not whole", f"INVALID: the current one, {current}, is not whole"]
    told = {head: lines[lines.index(head) + 1].split()[0] for head in heads}
    assert told == {heads[0]: "S103", heads[1]: "A101"}


def test_the_report_of_an_invalid_base_says_whose_findings_they_are(tmp_path):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("[]")
    assert run("compare", torn, TORCH, "--report", "out.json").exit_code == 3
    (workload,) = json.loads((tmp_path / "out.json").read_text())["workloads"]
    assert workload["findings"]
    assert all(one["message"].startswith("in the base: ") for one in workload["findings"])


#: Plain directories: layout, conditions, ranks.
PLAIN = {
    "npu": ("pt-npu", {}, 1),
    "npu db": ("pt-npu", {"db": True, "text": False}, 1),
    "npu x 2": ("pt-npu", {}, 2),
    "ascend": ("ms-2.5+", {}, 1),
    "cpu": ("ms-2.5+cpu", {}, 1),
    "old cpu": ("ms-2.0", {"cpu_device": True, "graph": True}, 1),
    "torch": ("pt-torch", {}, 1),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Give a plain directory by its name, generated once."""
    place = tmp_path_factory.mktemp("plain")

    def of(name: str) -> Path:
        layout, conditions, ranks = PLAIN[name]
        if not (place / name).exists():
            generate(layout, seed=1, ranks=ranks, steps=2, conditions=conditions).write(place / name)
        return place / name

    return of


@pytest.mark.parametrize(
    ("base", "current", "shown"),
    [
        ("npu", "cpu", "backend: torch → mindspore; device: npu → cpu"),
        ("ascend", "cpu", "device: ascend → cpu"),
        ("npu", "npu x 2", "ranks: 1 → 2"),
        ("npu x 2", "cpu", "backend: torch → mindspore; device: npu → cpu; ranks: 2 → 1"),
    ],
)
@pytest.mark.variants(1)
def test_plain_directories_of_another_kind_cannot_be_compared(plain, base, current, shown):
    found = run("compare", plain(base), plain(current))
    assert found.exit_code == 4
    assert found.stdout.startswith("INCONCLUSIVE ")
    assert f"  B102 the baseline belongs to another fingerprint: {shown}" in found.stdout.splitlines()
    assert "R103" not in found.stdout


@pytest.mark.parametrize(
    ("base", "current"),
    [("cpu", "old cpu"), ("torch", "npu"), ("npu db", "npu")],
)
@pytest.mark.variants(1)
def test_what_nobody_knows_of_a_plain_directory_compares_with_anything(plain, base, current):
    found = run("compare", plain(base), plain(current))
    assert found.exit_code in (0, 1)
    assert "B102" not in found.stdout


@pytest.mark.parametrize(
    ("recorded", "other", "shown"),
    [
        (TORCH, "cpu", "backend: torch → mindspore"),
        (GRAPH, "ascend", "device: cpu → ascend"),
    ],
)
@pytest.mark.variants(1)
def test_a_recording_cannot_be_compared_with_a_plain_directory_of_another_kind(plain, recorded, other, shown):
    found = run("compare", recorded, plain(other))
    assert found.exit_code == 4
    assert f"B102 the baseline belongs to another fingerprint: {shown}" in found.stdout


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.variants(1)
def test_a_foreign_directory_compares_with_a_recording(swap):
    pair = (TORCH / "profiler", TORCH)
    found = run("compare", *(reversed(pair) if swap else pair))
    assert "INVALID" not in found.stdout
    assert found.exit_code in (0, 1)


@pytest.mark.exhaustive
def test_another_environment_is_shown(tmp_path):
    other = copied(TORCH, tmp_path / "other")
    facts = json.loads((other / "recording.json").read_text())
    facts["environment"]["packages"]["torch"] = "2.14.0"
    (other / "recording.json").write_text(json.dumps(facts))
    found = run("compare", TORCH, other)
    assert found.exit_code == 0
    assert "  environment, base → current: torch: 2.13.0+cpu → 2.14.0" in found.stdout.splitlines()


def test_times_of_another_machine_are_shown_and_not_judged(tmp_path):
    other = copied(TORCH, tmp_path / "other")
    facts = json.loads((other / "recording.json").read_text())
    facts["environment"]["cpu_count"] = 64
    (other / "recording.json").write_text(json.dumps(facts))
    steps = json.loads((other / "steps.json").read_text())
    for step in steps["steps"]:
        step["wall_ns"] *= 10 if step["phase"] == "timed" else 1
    (other / "steps.json").write_text(json.dumps(steps))
    found = run("compare", TORCH, other)
    assert found.exit_code == 0
    assert "B103 (note)" in found.stdout
    assert "R101" not in found.stdout


@pytest.fixture
def slower(tmp_path):
    """The torch recording, every timed step three times as long."""
    slow = copied(TORCH, tmp_path / "slower")
    steps = json.loads((slow / "steps.json").read_text())
    for step in steps["steps"]:
        step["wall_ns"] *= 3 if step["phase"] == "timed" else 1
    (slow / "steps.json").write_text(json.dumps(steps))
    return slow


@pytest.mark.parametrize("options, exit_code", [((), 1), (("--time", "on"), 1), (("--time", "off"), 0)])
@pytest.mark.variants(1)
def test_a_step_three_times_slower_is_a_regression_unless_time_is_off(slower, options, exit_code):
    Path("pyproject.toml").write_text("[tool.perfguard]\ntolerance.step_time = 1.0\n")
    found = run("compare", TORCH, slower, *options)
    assert found.exit_code == exit_code
    assert ("R101 step_time 294.5 → 883.4 us, +200.0 % (allowed +100.0 %)" in found.stdout) is bool(exit_code)


@pytest.mark.parametrize(
    "table, options, exit_code",
    [
        ('time = "off"', (), 0),
        ('time = "off"', ("--time", "on"), 0),
        ('time = "off"\ntolerance.step_time = 0.5', (), 0),
        ('time = "off"\ntolerance.step_time = 0.5', ("--time", "on"), 1),
        ("tolerance.step_time = 5.0", (), 0),
        ('tolerance.step_time = "off"', (), 0),
        ("tolerance.step_time = 0.5", (), 1),
        ('ignore = ["R101"]\ntolerance.step_time = 0.5', (), 0),
    ],
)
@pytest.mark.variants(1)
def test_the_settings_of_the_nearest_project_hold(tmp_path, slower, table, options, exit_code):
    (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\n{table}\n")
    assert run("compare", TORCH, slower, *options).exit_code == exit_code


@pytest.mark.parametrize(
    "table, message",
    [
        ("tolerence = {}", "did you mean 'tolerance'?"),
        ("tolerance.step_tim = 1", "did you mean 'step_time'?"),
        ("[", "is not valid TOML"),
    ],
)
def test_broken_settings_are_a_usage_error(tmp_path, table, message):
    (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\n{table}\n")
    found = run("compare", TORCH, TORCH)
    assert found.exit_code == 2
    assert message in found.stderr


@pytest.mark.parametrize("swap", [False, True])
def test_a_missing_side_is_a_usage_error(tmp_path, swap):
    pair = (TORCH, tmp_path / "missing")
    found = run("compare", *(reversed(pair) if swap else pair))
    assert found.exit_code == 2
    assert found.stderr == (
        f"perfguard: {tmp_path / 'missing'} does not exist; "
        f"write a report with: pytest --perfguard --perfguard-report {tmp_path / 'missing'}\n"
    )


def test_a_name_longer_than_any_file_system_takes_is_a_usage_error():
    found = run("compare", TORCH, "x" * 5000)
    assert found.exit_code == 2
    assert found.stderr.startswith("perfguard: ")


# -- the report it writes ------------------------------------------------------------------------------------------------


def test_the_comparison_is_written_as_a_report(tmp_path, renamed):
    found = run("compare", TORCH, renamed, "--report", tmp_path / "deep" / "report.json")
    document = json.loads((tmp_path / "deep" / "report.json").read_text())
    Draft202012Validator(schema("report")).validate(document)
    assert found.exit_code == 1
    assert document["summary"]["outcomes"] == {"FAILED": 1}
    assert {"R103", "R104"} <= {finding["code"] for finding in document["workloads"][0]["findings"]}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_a_usage_error(tmp_path):
    (tmp_path / "place").mkdir()
    found = run("compare", TORCH, TORCH, "--report", tmp_path / "place")
    assert found.exit_code == 2
    assert found.stderr.startswith(f"perfguard: {tmp_path / 'place'} is not a regular file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place"]


def test_a_report_never_takes_the_place_of_something_that_is_no_file(tmp_path):
    """A device or a socket under that name is refused; as root, a rename would otherwise replace /dev/null."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("special")  # relative: the name of a socket has room for a hundred bytes
        found = run("compare", TORCH, TORCH, "--report", tmp_path / "special")
    assert (tmp_path / "special").is_socket()
    assert found.exit_code == 2


def test_a_report_that_holds_a_workload_twice_is_not_compared(tmp_path):
    """Joined from two jobs: one of the two would be judged, and the regression may be in the other."""
    assert run("report", TORCH, "--json", "a.json").exit_code == 0
    (tmp_path / "one.json").write_text((tmp_path / "a.json").read_text())
    assert run("report", "a.json", "one.json", "--json", "both.json").exit_code == 0
    assert run("compare", "a.json", "one.json").exit_code == 0
    for sides in (("a.json", "both.json"), ("both.json", "a.json")):
        found = run("compare", *sides)
        assert found.exit_code == 2
        assert (
            "twice, as reports of several jobs that were joined do; compare the reports it was made of" in found.stderr
        )


def test_a_report_never_takes_the_place_of_one_that_is_compared(tmp_path):
    assert run("report", TORCH, "--json", "a.json").exit_code == 0
    before = (tmp_path / "a.json").read_bytes()
    found = run("compare", "a.json", TORCH, "--report", "a.json")
    assert found.exit_code == 2
    assert "would be overwritten" in found.stderr
    assert (tmp_path / "a.json").read_bytes() == before


@pytest.mark.exhaustive
def test_a_report_is_written_through_a_link(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link.json").symlink_to("kept/report.json")
    assert run("compare", TORCH, TORCH, "--report", "link.json").exit_code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "kept" / "report.json").is_file()


@pytest.mark.exhaustive
def test_a_comparison_that_was_written_can_be_compared_again(tmp_path, renamed):
    run("compare", TORCH, renamed, "--report", "first.json")
    found = run("compare", "first.json", "first.json")
    assert found.exit_code == 0


# -- two report files ----------------------------------------------------------------------------------------------------


def test_equal_reports_pass(tmp_path):
    report = report_file(tmp_path / "a.json", mlp=TORCH, graph=GRAPH)
    found = run("compare", report, report)
    assert found.exit_code == 0
    assert [line for line in found.stdout.splitlines() if line.startswith("PASSED")][:2] == [
        "PASSED mlp",
        "PASSED graph",
    ]


@pytest.mark.parametrize(
    "base, current, exit_code, said",
    [
        ({"a": TORCH, "b": GRAPH}, {"a": TORCH}, 1, ["gone: b"]),
        ({"a": TORCH}, {"a": TORCH, "b": GRAPH}, 0, ["new: b"]),
        ({"a": TORCH, "b": GRAPH}, {"b": GRAPH, "c": REPEAT}, 1, ["gone: a", "new: c"]),
        ({"a": TORCH, "b": GRAPH}, {"c": TORCH, "d": GRAPH}, 4, ["gone: a", "gone: b", "new: c", "new: d"]),
        ({"a": TORCH}, {}, 4, ["gone: a"]),
        ({}, {"a": TORCH}, 4, ["new: a"]),
        ({}, {}, 4, []),
        ({"a": TORCH, "b": TORCH}, {"a": TORCH, "b": GRAPH}, 4, []),
    ],
)
def test_workloads_of_two_reports_are_paired_by_name(tmp_path, base, current, exit_code, said):
    found = run("compare", report_file(tmp_path / "a.json", **base), report_file(tmp_path / "b.json", **current))
    lines = [line.partition(" is in ")[0] for line in found.stdout.splitlines() if line.startswith(("gone", "new"))]
    assert (found.exit_code, lines) == (exit_code, said)


def test_the_gravest_of_several_outcomes_is_the_exit_code(tmp_path, renamed, slower):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("[]")
    base = report_file(tmp_path / "a.json", one=TORCH, two=TORCH, three=TORCH)
    current = report_file(tmp_path / "b.json", one=TORCH, two=renamed, three=torn)
    found = run("compare", base, current)
    assert found.exit_code == 3
    assert [line for line in found.stdout.splitlines() if line[:3].isupper() and "::" not in line][:3] == [
        "PASSED one",
        "FAILED two",
        f"INVALID: the current one, three of {current}, is not whole",
    ]


def test_a_report_compares_with_a_recording(tmp_path):
    report = report_file(tmp_path / "a.json", mlp=TORCH)
    assert run("compare", report, TORCH).exit_code == 0


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nPASSED lines", "turned \u202e round"])
def test_hostile_workloads_are_escaped(tmp_path, name):
    report = report_file(tmp_path / "a.json", **{name: TORCH})
    other = report_file(tmp_path / "b.json", **{"same": TORCH, f"other {name}": TORCH})
    for pair in ((report, report), (report, other), (other, report)):
        found = run("compare", *pair)
        assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
        assert "\nPASSED lines" not in found.stdout


def test_the_name_of_a_report_is_escaped(tmp_path):
    base = report_file(tmp_path / "\x1b[31m.json", a=TORCH, b=GRAPH)
    found = run("compare", base, report_file(tmp_path / "b.json", a=TORCH))
    assert "gone: b" in found.stdout
    assert "\x1b" not in found.stdout


def test_a_workload_that_is_not_utf8_can_be_written_to_a_report(tmp_path):
    report = report_file(tmp_path / "a.json", mlp=TORCH)
    document = json.loads(report.read_text())
    document["workloads"][0]["workload"] = "not-utf8-\udcff"
    report.write_text(json.dumps(document))
    found = run("compare", report, report, "--report", "out.json")
    assert found.exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text())["workloads"][0]["workload"] == "not-utf8-\udcff"


# -- damaged report files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is damaged: it is empty."),
        ("{", "is damaged: "),
        ("[" * 100_000, "is damaged: "),
        ("null", "is damaged: $ null is not of type 'object'"),
        ("{}", "is damaged: $ 'format' is a required property (and 3 more)"),
        ('{"format": 4}', "has format 4, but this perfguard reads formats up to 3: a newer perfguard wrote it."),
        ('{"format": true}', "is damaged"),
        ('{"format": "1"}', "is damaged"),
        ("\x00\x01", "is damaged: "),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.variants(1)
def test_a_damaged_report_is_said_in_one_sentence(tmp_path, swap, text, message):
    (tmp_path / "bad.json").write_text(text)
    pair = (tmp_path / "bad.json", TORCH)
    found = run("compare", *(reversed(pair) if swap else pair))
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"perfguard: {tmp_path / 'bad.json'} ")
    assert message in found.stderr
    assert "pytest --perfguard --perfguard-report FILE" in found.stderr or upgrade_command() in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_report_that_is_not_utf8_is_damaged(tmp_path):
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe{}")
    found = run("compare", TORCH, tmp_path / "bad.json")
    assert found.exit_code == 2
    assert "is damaged" in found.stderr


@pytest.mark.parametrize("optional", ["layouts", "baseline", "changes"])
def test_a_workload_without_what_the_schema_leaves_free_can_be_read(tmp_path, optional):
    report = report_file(tmp_path / "a.json", mlp=TORCH)
    document = json.loads(report.read_text())
    del document["workloads"][0][optional]
    report.write_text(json.dumps(document))
    assert run("compare", report, report).exit_code in (0, 2)


@pytest.mark.parametrize(
    "path, value",
    [
        (("findings",), [{"code": "Z999", "headline": "", "severity": "error", "message": "", "place": ""}]),
        (("measurements", 0, "value"), float("nan")),
        (("measurements", 0, "value"), float("inf")),
        (("measurements", 0, "value"), {"name": "text"}),
        (("measurements", 0, "value"), [{"no": "name"}]),
        (("measurements", 0, "samples"), [float("nan")]),
    ],
)
def test_values_no_perfguard_writes_are_damage(tmp_path, path, value):
    good = report_file(tmp_path / "good.json", mlp=TORCH)
    document = json.loads(good.read_text())
    *parents, last = ("workloads", 0, *path)
    place = document
    for key in parents:
        place = place[key]
    place[last] = value
    (tmp_path / "bad.json").write_text(json.dumps(document))
    found = run("compare", good, tmp_path / "bad.json")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"perfguard: {tmp_path / 'bad.json'} ")
    assert " is damaged: " in found.stderr or " holds what this perfguard does not know: " in found.stderr
