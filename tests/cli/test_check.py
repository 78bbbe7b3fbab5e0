"""`perfguard check`."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from jsonschema import Draft202012Validator

from perfguard.documents import schema
from tests.cli import RECORDINGS, TORCH, copied, run

#: What a terminal would obey, or what would turn a line into two.
HOSTILE = [
    "\x1b[2J\x1b[31mred",
    "two\nPASSED lines",
    "carriage\rreturn",
    "bell\x07",
    "turned \u202e round",
    "c1 \x9b31m",
    "hidden \u200b space",
]


@pytest.mark.parametrize("name", ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"])
def test_a_whole_recording_passes(name):
    found = run("check", RECORDINGS / name)
    assert (found.exit_code, found.stdout) == (0, f"PASSED {RECORDINGS / name}\n")


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
def test_what_the_profiler_wrote_passes_without_perfguards_own_facts(name):
    assert run("check", RECORDINGS / name / "profiler").exit_code == 0


def test_a_lost_step_is_invalid(tmp_path):
    lost = copied(TORCH, tmp_path / "lost", window={"skip_first": 2, "wait": 0, "warmup": 1, "active": 4, "repeat": 1})
    found = run("check", lost)
    assert found.exit_code == 3
    assert found.stdout.startswith(f"INVALID {lost}\n")
    assert "C101" in found.stdout
    assert "4 steps were asked for, the trace marks 3" in found.stdout


def test_a_truncated_trace_is_invalid(tmp_path):
    torn = copied(TORCH, tmp_path / "torn")
    trace = next((torn / "profiler").glob("*.json"))
    trace.write_bytes(trace.read_bytes()[:-1000])
    found = run("check", torn)
    assert found.exit_code == 3
    assert "S101" in found.stdout


def test_a_recording_whose_profiler_wrote_nothing_is_invalid(tmp_path):
    empty = copied(TORCH, tmp_path / "empty")
    shutil.rmtree(empty / "profiler")
    (empty / "profiler").mkdir()
    found = run("check", empty)
    assert found.exit_code == 3
    assert "A101" in found.stdout


def test_an_empty_directory_cannot_be_judged(tmp_path):
    found = run("check", tmp_path)
    assert found.exit_code == 4
    assert "A101 no profiler output of a known layout" in found.stdout
    assert "ms-2.5+cpu, pt-torch" in found.stdout


def test_an_empty_directory_is_not_said_to_have_passed_whatever_is_ignored(tmp_path):
    found = run("check", tmp_path, "--ignore", "A101")
    assert found.exit_code == 4
    assert not found.stdout.startswith("PASSED")


@pytest.mark.parametrize("name", ["a-file.txt", "missing"])
def test_what_is_no_directory_is_a_usage_error(tmp_path, name):
    (tmp_path / "a-file.txt").write_text("text")
    found = run("check", tmp_path / name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: {tmp_path / name} is not a directory; name one that a profiler wrote, or a perfguard recording.\n"
    )


def test_a_name_longer_than_any_file_system_takes_is_a_usage_error():
    found = run("check", "x" * 5000)
    assert found.exit_code == 2
    assert found.stderr.startswith("perfguard: ")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_escaped_in_the_output(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    found = run("check", directory)
    assert found.exit_code == 4
    assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
    assert len(found.stdout.splitlines()) == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_escaped_in_an_error(tmp_path, name):
    found = run("check", tmp_path / name)
    assert found.exit_code == 2
    assert not [c for c in found.stderr if not c.isprintable() and c != "\n"]
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_inside_is_escaped(tmp_path, name):
    recording = tmp_path / "recording"
    shutil.copytree(RECORDINGS / "mindspore-graph", recording)
    cycle = next((recording / "profiler").iterdir())
    (cycle / name).write_text("a stranger")
    found = run("check", recording)
    assert found.exit_code == 0
    assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
    assert [line[:13] for line in found.stdout.splitlines()[1:]] == ["  A103 (note)"]


@pytest.mark.parametrize("name", ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"])
def test_json_is_one_workload_of_the_report_schema(name):
    found = run("check", RECORDINGS / name, "--json")
    document = json.loads(found.stdout)
    Draft202012Validator(schema("report")["properties"]["workloads"]["items"]).validate(document)
    assert found.exit_code == 0
    assert (document["outcome"], document["workload"]) == ("PASSED", str(RECORDINGS / name))
    assert len(document["measurements"]) > 20


def test_json_of_an_empty_directory_holds_the_finding(tmp_path):
    found = run("check", tmp_path, "--json")
    document = json.loads(found.stdout)
    Draft202012Validator(schema("report")["properties"]["workloads"]["items"]).validate(document)
    assert found.exit_code == 4
    assert [finding["code"] for finding in document["findings"]] == ["A101"]
    assert (document["fingerprint"], document["environment"], document["measurements"]) == (None, None, [])


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_name_that_is_not_utf8_can_be_checked(tmp_path, options):
    directory = os.fsdecode(os.fsencode(tmp_path) + b"/not-utf8-\xff")
    os.mkdir(directory)
    found = run("check", directory, *options)
    assert found.exit_code == 4
    assert "A101" in found.stdout


def test_explain_names_the_layouts():
    found = run("check", RECORDINGS / "mindspore-graph", "--explain")
    assert found.stdout.splitlines()[1:] == ["  layouts: ms-2.5+cpu"]


def test_explain_says_what_could_not_be_known(tmp_path):
    foreign = tmp_path / "foreign"
    shutil.copytree(RECORDINGS / "mindspore-graph" / "profiler", foreign)
    next(foreign.rglob("cpu_ms_memory_record_0.txt")).unlink()
    found = run("check", foreign, "--explain")
    assert found.exit_code == 0
    assert "cannot tell whether memory was on" in found.stdout.splitlines()[2]


def test_explain_of_an_empty_directory_says_that_no_layout_was_recognised(tmp_path):
    assert "  layouts: none recognised" in run("check", tmp_path, "--explain").stdout.splitlines()


def test_metrics_are_listed_with_value_and_unit():
    lines = run("check", TORCH, "--metrics").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["metric"] == ["value", "median", "unit"]
    assert rows["steps"] == ["3", "steps"]
    assert rows["operator_calls[aten::addmm]"] == ["2", "calls/step"]
    assert rows["step_time"][2] == "us"


def test_metrics_of_an_invalid_recording_are_not_shown(tmp_path):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("{")
    assert "operator_calls" not in run("check", torn, "--metrics").stdout


@pytest.mark.parametrize("ignored", ["C1", "C101", "C"])
def test_an_ignored_finding_is_shown_and_not_judged(tmp_path, ignored):
    window = {"skip_first": 2, "wait": 0, "warmup": 1, "active": 4, "repeat": 1}
    lost = copied(TORCH, tmp_path / "lost", window=window)
    found = run(
        "check", lost, *(("--ignore", ignored) if ignored != "C101" else ("--ignore", "C101", "--ignore", "C107"))
    )
    assert found.exit_code == 0
    assert "C101 (note)" in found.stdout
    assert "(ignored: C101)" in found.stdout


@pytest.mark.parametrize(
    "code, hint",
    [("C1O1", "did you mean 'C101'?"), ("c101x", "did you mean 'C101'?"), ("x", "known are A101,"), ("", "known are")],
)
def test_an_unknown_code_is_refused_with_the_nearest(code, hint):
    found = run("check", TORCH, "--ignore", code)
    assert found.exit_code == 2
    assert f"There is no finding code {code!r} to ignore; ".upper() in found.stderr.upper()
    assert hint in found.stderr


@pytest.mark.parametrize(
    "damage, text",
    [
        ("{", "is damaged"),
        ('{"format": 1}', "is damaged"),
        ('{"format": 99}', "was written by a newer one. Run: pip install --upgrade perfguard"),
        ("[" * 100_000, "is damaged"),
        ("[1]", "is damaged"),
        ('{"format": NaN}', "is damaged"),
    ],
)
def test_damaged_facts_are_said_in_one_sentence(tmp_path, damage, text):
    recording = copied(TORCH, tmp_path / "recording")
    (recording / "recording.json").write_text(damage)
    found = run("check", recording)
    # A newer format is whole, and this perfguard is too old for it; anything else is a recording that is not whole.
    assert found.exit_code == (2 if "newer" in text else 3)
    told = found.stderr + found.stdout
    assert f"{recording / 'recording.json'} " in told
    assert text in told
    assert "Traceback" not in told


def test_lost_steps_of_a_recording_are_said_in_one_sentence(tmp_path):
    recording = copied(TORCH, tmp_path / "recording")
    (recording / "steps.json").unlink()
    found = run("check", recording)
    assert found.exit_code == 3
    assert "S101" in found.stdout
    assert "steps.json is missing." in found.stdout


def test_many_recordings_are_checked_one_by_one(tmp_path):
    for name in ("torch-mlp", "torch-repeat2", "mindspore-graph"):
        copied(RECORDINGS / name, tmp_path / name)
    found = run("check", tmp_path)
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        [f"PASSED {tmp_path / name}" for name in ("mindspore-graph", "torch-mlp", "torch-repeat2")],
    )
    facts = tmp_path / "torch-mlp" / "recording.json"
    facts.write_text(facts.read_text().replace('"complete"', '"step-raised"'))
    found = run("check", tmp_path)
    assert found.exit_code == 3
    assert f"INVALID {tmp_path / 'torch-mlp'}\n  C105 a step raised" in found.stdout
    assert f"PASSED {tmp_path / 'torch-repeat2'}" in found.stdout
    assert len(json.loads(run("check", tmp_path, "--json").stdout)["workloads"]) == 3
    refused = run("compare", tmp_path, tmp_path / "torch-repeat2")
    assert refused.exit_code == 2
    assert "holds 3 perfguard recordings; name one of them" in refused.stderr


def test_nothing_is_written_by_a_check(tmp_path):
    recording = copied(TORCH, tmp_path / "recording")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run("check", recording, "--explain", "--metrics")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
