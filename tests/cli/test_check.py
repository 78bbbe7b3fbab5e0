"""`perfguard check`."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
from urllib.parse import unquote_to_bytes

import pytest
from jsonschema import Draft202012Validator

from perfguard.artifacts.layout import layouts
from perfguard.documents import schema
from perfguard.version import upgrade_command
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


READ = {
    "torch-mlp": "pt-torch: 1 rank, 1 cycle, 1 file, 592 rows",
    "torch-repeat2": "pt-torch: 1 rank, 2 cycles, 2 files, 442 rows",
    "mindspore-graph": "ms-2.5+cpu: 1 rank, 1 cycle, 7 files, 201 rows",
    "mindspore-pynative": "ms-2.5+cpu: 1 rank, 1 cycle, 7 files, 253 rows",
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.variants(2)
def test_a_whole_recording_passes_and_what_was_read_is_counted(name):
    found = run("check", RECORDINGS / name)
    assert (found.exit_code, found.stdout) == (0, f"PASSED {RECORDINGS / name} ({READ[name]})\n")


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
@pytest.mark.variants(1)
def test_what_the_profiler_wrote_passes_without_perfguards_own_facts(name):
    assert run("check", RECORDINGS / name / "profiler").exit_code == 0


def test_a_lost_step_is_invalid(tmp_path):
    lost = copied(TORCH, tmp_path / "lost", window={"skip_first": 2, "wait": 0, "warmup": 1, "active": 4, "repeat": 1})
    found = run("check", lost)
    assert found.exit_code == 3
    assert found.stdout.startswith(f"INVALID {lost} ({READ['torch-mlp']})\n")
    assert "C101" in found.stdout
    assert "4 steps were requested, but the trace marks 3" in found.stdout


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
    assert f"({len(layouts())} known layouts, see: perfguard schema list)" in found.stdout


def test_an_empty_directory_is_not_said_to_have_passed_whatever_is_ignored(tmp_path):
    found = run("check", tmp_path, "--ignore", "A101")
    assert found.exit_code == 4
    assert not found.stdout.startswith("PASSED")


def test_a_trace_is_judged_alone_and_the_next_command_follows(tmp_path):
    trace = next((TORCH / "profiler").glob("*.pt.trace.json"))
    broken = tmp_path / "cut.pt.trace.json"
    broken.write_bytes(trace.read_bytes()[:9000])
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    (tmp_path / "a-file.txt").write_text("text")
    cases = {
        trace: (0, "PASSED", f"next: perfguard check {trace} --metrics  (what is measured in it)"),
        packed: (0, "PASSED", f"next: perfguard check {packed} --metrics  (what is measured in it)"),
        broken: (3, "INVALID", "next: perfguard codes S101  (the cause and the fix)"),
        tmp_path / "a-file.txt": (
            4,
            "INCONCLUSIVE",
            f"next: perfguard check {tmp_path / 'a-file.txt'} --explain  (what was recognised, and what is unknown)",
        ),
    }
    for path, (code, outcome, following) in cases.items():
        found = run("check", path)
        first, *middle, last = found.stdout.splitlines()
        assert (found.exit_code, last) == (code, following), found.output
        assert first.startswith(f"{outcome} {path}")
        # The directory in which it was alone is gone.
        assert not any("perfguard-" in line for line in middle)
        # What follows is a command.
        assert run(*shlex.split(last.partition("  (")[0].removeprefix("next: perfguard "))).exit_code in (0, code)


def test_the_numbers_of_a_trace_are_those_of_its_directory():
    (trace,) = (TORCH / "profiler").glob("*.pt.trace.json")
    alone, beside = (json.loads(run("check", one, "--json").stdout) for one in (trace, TORCH / "profiler"))
    assert alone["measurements"] == beside["measurements"]
    assert (alone["workload"], alone.get("recording")) == (str(trace), None)


def test_what_is_not_there_is_a_usage_error(tmp_path):
    found = run("check", tmp_path / "missing")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: {tmp_path / 'missing'} does not exist; name a directory that a profiler wrote, or a perfguard "
        "recording (perfguard check takes a trace file, too).\n"
    )


def test_a_command_for_directories_says_so_of_a_file(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    found = run("view", tmp_path / "t.json", "--no-open")
    assert found.exit_code == 2
    assert found.stderr.startswith(
        f"perfguard: {tmp_path / 't.json'} is not a directory; name a directory that a profiler"
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
    assert len(found.stdout.splitlines()) == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_escaped_in_an_error(tmp_path, name):
    found = run("check", tmp_path / name)
    assert found.exit_code == 2
    assert not [c for c in found.stderr if not c.isprintable() and c != "\n"]
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.variants(2)
def test_a_hostile_file_inside_is_escaped(tmp_path, name):
    recording = tmp_path / "recording"
    shutil.copytree(RECORDINGS / "mindspore-graph", recording)
    cycle = next((recording / "profiler").iterdir())
    (cycle / name).write_text("a stranger")
    found = run("check", recording)
    assert found.exit_code == 0
    assert not [c for c in found.stdout if not c.isprintable() and c != "\n"]
    _, file, note = found.stdout.splitlines()
    assert file == f"  profiler/{cycle.name}"
    assert note.startswith("    A103 (note)")
    assert len(found.stdout.splitlines()) == 3


@pytest.mark.parametrize("name", ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"])
@pytest.mark.variants(1)
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
    cycle = "profiler/vm_6289_20261121115248307_ascend_ms"
    assert found.stdout.splitlines()[1:3] == [
        "  layouts: ms-2.5+cpu",
        f"  {cycle}: layout ms-2.5+cpu, because its name matches _ascend_ms$; rank 0",
    ]


def test_explain_says_what_was_on_and_who_says_so():
    line = run("check", RECORDINGS / "mindspore-graph", "--explain", "--expect", "no-shapes").stdout.splitlines()[3]
    assert "graph on (the recording)" in line
    assert "shapes off (you)" in line


def test_explain_says_what_could_not_be_known(tmp_path):
    foreign = tmp_path / "foreign"
    shutil.copytree(RECORDINGS / "mindspore-graph" / "profiler", foreign)
    next(foreign.rglob("cpu_ms_memory_record_0.txt")).unlink()
    found = run("check", foreign, "--explain")
    assert found.exit_code == 0
    assert sum("cannot tell whether memory was on" in line for line in found.stdout.splitlines()[2:]) == 1


def test_explain_of_an_empty_directory_says_that_no_layout_was_recognised(tmp_path):
    assert "  layouts: none recognised" in run("check", tmp_path, "--explain").stdout.splitlines()


def test_metrics_are_listed_with_value_and_unit():
    lines = run("check", TORCH, "--metrics", "-v").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["metric"] == ["value", "median", "unit"]
    assert rows["steps"] == ["3", "steps"]
    assert rows["operator_calls[aten::addmm]"] == ["2", "calls/step"]
    assert rows["step_time"][2] == "us"


def test_a_screen_holds_the_largest_of_each_metric():
    lines = run("check", TORCH, "--metrics").stdout.splitlines()
    assert len(lines) < 40
    assert sum(line.startswith("operator_calls[") for line in lines) == 3
    assert lines[-1] == "204 smaller not shown; -v shows all"


@pytest.mark.parametrize(
    ("name", "count"), {"in a job": ("true", 1), "elsewhere": ("", 0)}.values(), ids=["in a job", "elsewhere"]
)
def test_in_a_job_of_github_what_is_wrong_is_annotated(tmp_path, monkeypatch, name, count):
    monkeypatch.setenv("GITHUB_ACTIONS", name)
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("{")
    lines = run("check", torn).stdout.splitlines()
    assert sum(line.startswith("::error title=perfguard INVALID%3A") for line in lines) == count
    assert not any(line.startswith("::error") for line in run("check", TORCH).stdout.splitlines())


def test_metrics_of_an_invalid_recording_are_not_shown(tmp_path):
    torn = copied(TORCH, tmp_path / "torn")
    next((torn / "profiler").glob("*.json")).write_text("{")
    assert "operator_calls" not in run("check", torn, "--metrics").stdout


@pytest.mark.parametrize("ignored", ["C1", "C101", "C"])
@pytest.mark.variants(1)
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
    [("C1O1", "did you mean 'C101'?"), ("c101x", "did you mean 'C101'?"), ("zz", "known are A101,"), ("", "known are")],
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
        ('{"format": 99}', f"a newer perfguard wrote it. Run: {upgrade_command()}"),
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


@pytest.mark.exhaustive
def test_many_recordings_are_checked_one_by_one(tmp_path):
    for name in ("torch-mlp", "torch-repeat2", "mindspore-graph"):
        copied(RECORDINGS / name, tmp_path / name)
    found = run("check", tmp_path)
    assert (found.exit_code, found.stdout.splitlines()) == (
        0,
        [f"PASSED {tmp_path / name} ({READ[name]})" for name in ("mindspore-graph", "torch-mlp", "torch-repeat2")],
    )
    facts = tmp_path / "torch-mlp" / "recording.json"
    facts.write_text(facts.read_text().replace('"complete"', '"step-raised"'))
    found = run("check", tmp_path)
    assert found.exit_code == 3
    said = f"INVALID {tmp_path / 'torch-mlp'} ({READ['torch-mlp']})\n  recording.json\n    C105 a step raised: "
    assert said in found.stdout
    assert f"PASSED {tmp_path / 'torch-repeat2'}" in found.stdout
    assert len(json.loads(run("check", tmp_path, "--json").stdout)["workloads"]) == 3
    refused = run("compare", tmp_path, tmp_path / "torch-repeat2")
    assert refused.exit_code == 2
    assert "holds 3 perfguard recordings; name one of them" in refused.stderr


# -- what you say of the directory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "code", "said"),
    [
        (("ranks=1",), 0, None),
        (("ranks=2",), 3, "A107 a rank is missing: ranks=2 is expected, but rank 1 is missing"),
        (("steps=3",), 0, None),
        (
            ("steps=4",),
            3,
            "C101 the profiled window is not the requested one: 4 steps were requested, but the trace marks 3",
        ),
        (("shapes,memory",), 0, None),
        (
            ("no-memory",),
            3,
            "A110 the output differs from --expect: no-memory is expected, but it was on: profile_memory of trace",
        ),
        (
            ("graph", "ranks=1,steps=3"),
            3,
            "A110 the output differs from --expect: graph is expected, but it was off: layout pt-torch",
        ),
    ],
)
@pytest.mark.variants(1)
def test_what_is_expected_is_judged(expected, code, said):
    options = [word for one in expected for word in ("--expect", one)]
    found = run("check", TORCH / "profiler", *options)
    assert found.exit_code == code
    assert said is None or said in found.stdout


def test_a_file_is_required_where_you_say_that_it_was_asked_for(tmp_path):
    foreign = tmp_path / "foreign"
    shutil.copytree(RECORDINGS / "mindspore-graph" / "profiler", foreign)
    next(foreign.rglob("cpu_ms_memory_record_0.txt")).unlink()
    assert run("check", foreign).exit_code == 0
    found = run("check", foreign, "--expect", "memory")
    assert found.exit_code == 3
    assert "A102 a required file is missing: layout ms-2.5+cpu requires it where memory" in found.stdout
    assert run("check", foreign, "--expect", "no-memory").exit_code == 0


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("memroy", "--expect 'memroy' is not known; did you mean 'memory'?"),
        ("no-memroy", "did you mean 'memory'?"),
        ("rank=8", "numbers are ranks=N, cycles=N, steps=N, "),
        ("ranks=none", "numbers are ranks=N, cycles=N, steps=N, "),
        ("\x1b[31m", "known are graph, "),
    ],
)
def test_an_unknown_expectation_is_refused_with_the_nearest(word, hint):
    found = run("check", TORCH, "--expect", word)
    assert (found.exit_code, found.stdout) == (2, "")
    assert hint in found.stderr
    assert "\x1b" not in found.stderr


def test_a_directory_is_judged_as_the_layout_that_is_named(tmp_path):
    foreign = tmp_path / "renamed"
    shutil.copytree(next((RECORDINGS / "mindspore-graph" / "profiler").iterdir()), foreign)
    assert "(ms-2.5+cpu: " in run("check", foreign, "--layout", "ms-2.5+cpu").stdout
    found = run("check", TORCH / "profiler", "--layout", "ms-2.5+cpu", "--explain")
    assert found.exit_code == 3
    assert "A102 a required file is missing" in found.stdout
    assert "because it was requested" in found.stdout


def test_an_unknown_layout_is_refused_with_the_nearest():
    found = run("check", TORCH, "--layout", "pt-trch")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == "perfguard: There is no layout 'pt-trch'; did you mean 'pt-torch'?\n"


# -- what you want to see ----------------------------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path):
    """A recording with I101 and I105 in its types, and a stranger (A103, a note)."""
    recording = tmp_path / "broken"
    shutil.copytree(RECORDINGS / "mindspore-graph", recording)
    types = next(recording.rglob("cpu_op_type_info_0.csv"))
    types.write_text(types.read_text().replace("MatMul,6", "MatMul,7"))
    types.with_name("stranger").touch()
    return recording


@pytest.mark.parametrize(
    ("options", "code", "shown"),
    [
        ((), 3, {"I101": "error", "I105": "error", "A103": "note"}),
        (("--select", "I101"), 3, {"I101": "error"}),
        (("--select", "I"), 3, {"I101": "error", "I105": "error"}),
        (("--select", "i1"), 3, {"I101": "error", "I105": "error"}),
        (("--select", "I101,A103"), 3, {"I101": "error", "A103": "note"}),
        (("--select", "I101 , A103"), 3, {"I101": "error", "A103": "note"}),
        (("--select", "I101", "--select", "A"), 3, {"I101": "error", "A103": "note"}),
        (("--select", "A,S,C"), 0, {"A103": "note"}),
        (("--ignore", "I"), 0, {"I101": "note", "I105": "note", "A103": "note"}),
        (("--ignore", "I101"), 3, {"I101": "note", "I105": "error", "A103": "note"}),
        (("--ignore", "I101,I105"), 0, {"I101": "note", "I105": "note", "A103": "note"}),
        (("--select", "I", "--ignore", "I105"), 3, {"I101": "error", "I105": "note"}),
        (("--select", "I105", "--ignore", "I105"), 0, {"I105": "note"}),
    ],
)
@pytest.mark.variants(1)
def test_codes_are_selected_and_ignored_by_beginnings(broken, options, code, shown):
    found = run("check", broken, "--json", *options)
    document = json.loads(found.stdout)
    assert {one["code"]: one["severity"] for one in document["findings"]} == shown
    assert (found.exit_code, document["outcome"]) == (code, {0: "PASSED", 3: "INVALID"}[code])


@pytest.mark.parametrize("code", ["I9", "X", "", "I101,,I105", "I101,nope"])
def test_an_unknown_code_cannot_be_selected(code):
    found = run("check", TORCH, "--select", code)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "to select; " in found.stderr


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ((), "rows)"),
        (("--select", "A"), "rows); only A checked"),
        (("--select", "a1,C101", "--select", "S"), "rows); only A1, C101, S checked"),
    ],
)
@pytest.mark.variants(1)
def test_the_first_line_says_which_codes_alone_were_looked_at(options, end):
    found = run("check", TORCH, *options)
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0].endswith(end)


@pytest.mark.parametrize(("codes", "never"), [("B", "B"), ("R101", "R101"), ("r", "R"), ("A,B102,R", "B102, R")])
def test_what_check_never_finds_cannot_be_selected(codes, never):
    found = run("check", TORCH, "--select", codes)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: check never finds {never}, because it compares with nothing; "
        "select codes of A, S, I, C and U, or use: perfguard compare BASE CURRENT\n"
    )


def test_findings_lie_under_their_file_worst_first(broken):
    _, *lines = run("check", broken).stdout.splitlines()
    cycle = "profiler/vm_6289_20261121115248307_ascend_ms"
    assert [line for line in lines if not line.startswith("    ")] == [
        f"  {cycle}/FRAMEWORK/cpu_framework_0.txt",
        f"  {cycle}/FRAMEWORK/cpu_op_detail_info_0.csv",
        f"  {cycle}/FRAMEWORK/cpu_op_type_info_0.csv",
        f"  {cycle}",
    ]
    assert lines[-1].startswith("    A103 (note) ")
    assert lines[-3].startswith(
        "    I105 an average or a share does not follow from its parts: line 5: MatMul: average "
    )


def test_of_many_alike_in_a_file_the_rest_is_counted(tmp_path):
    recording = tmp_path / "recording"
    shutil.copytree(RECORDINGS / "mindspore-graph", recording)
    memory = next(recording.rglob("cpu_ms_memory_record_0.txt"))
    header, *rows = memory.read_text().splitlines()
    assert len(rows) > 15
    memory.write_text("\n".join([header, *(f"{row}x" for row in rows)]) + "\n")
    _, file, *lines = run("check", recording).stdout.splitlines()
    assert file.endswith("/FRAMEWORK/cpu_ms_memory_record_0.txt")
    assert lines[0] == "    S103 a value breaks the schema:"
    assert [line[:11] for line in lines[1:-1]] == ["      line "] * 10
    assert "line 2 $['Total Active(Byte)']: " in lines[1]
    assert lines[-1] == f"      and {len(rows) - 10} more like it"


def test_ranks_are_named_where_there_are_several(tmp_path):
    text = next((TORCH / "profiler").glob("*.json")).read_text()
    for rank in (0, 3):
        broken = text.replace('"ph": "M"', '"ph": "Q"', 1)
        distributed = f'"distributedInfo": {{"rank": {rank}, "world_size": 4}}, "schemaVersion"'
        (tmp_path / f"{rank}.pt.trace.json").write_text(broken.replace('"schemaVersion"', distributed, 1))
    lines = run("check", tmp_path).stdout.splitlines()
    assert [line for line in lines[1:] if not line.startswith("    ")] == ["  0.pt.trace.json", "  3.pt.trace.json"]
    # The rank is inside the trace, which could not be read: nobody knows it. In the directory's name it can be read.
    for rank in (0, 3):
        (tmp_path / f"rank_{rank}").mkdir()
        (tmp_path / f"{rank}.pt.trace.json").rename(tmp_path / f"rank_{rank}" / "x.pt.trace.json")
    lines = run("check", tmp_path).stdout.splitlines()
    assert [line for line in lines[1:] if not line.startswith("    ")] == [
        "  rank 0: rank_0/x.pt.trace.json",
        "  rank 3: rank_3/x.pt.trace.json",
    ]


# -- SARIF -------------------------------------------------------------------------------------------------------------


def sarif_of(directory, tmp_path, *options):
    file = tmp_path / "findings.sarif"
    found = run("check", directory, "--sarif", file, *options)
    return found, json.loads(file.read_text(encoding="utf-8"))


def test_sarif_never_takes_the_place_of_what_is_checked(tmp_path):
    shutil.copytree(TORCH, tmp_path / "r")
    before = (tmp_path / "r" / "recording.json").read_bytes()
    found = run("check", tmp_path / "r", "--sarif", tmp_path / "r" / "recording.json")
    assert found.exit_code == 2
    assert "would be overwritten" in found.stderr
    assert (tmp_path / "r" / "recording.json").read_bytes() == before


def test_sarif_is_written_beside_what_is_printed(broken, tmp_path):
    found, log = sarif_of(broken, tmp_path)
    assert found.exit_code == 3
    assert found.stdout.startswith(f"INVALID {broken}")
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["I101", "I101", "I105", "A103"]
    assert [one["level"] for one in log["runs"][0]["results"]] == ["error", "error", "error", "note"]


def test_sarif_has_a_run_for_every_recording(tmp_path):
    for name in ("torch-mlp", "mindspore-graph"):
        copied(RECORDINGS / name, tmp_path / "r" / name)
    _, log = sarif_of(tmp_path / "r", tmp_path)
    bases = [run_["originalUriBaseIds"]["PROFILER_OUTPUT"]["uri"] for run_ in log["runs"]]
    assert bases == [f"{(tmp_path / 'r' / name).as_uri()}/" for name in ("mindspore-graph", "torch-mlp")]
    assert [run_["results"] for run_ in log["runs"]] == [[], []]


def test_sarif_can_be_written_together_with_json(broken, tmp_path):
    found, log = sarif_of(broken, tmp_path, "--json")
    assert len(json.loads(found.stdout)["findings"]) == len(log["runs"][0]["results"])


@pytest.mark.parametrize("name", [*HOSTILE, "two words", "100%", "a#b?c", "a:7", "é", os.fsdecode(b"\xff")])
@pytest.mark.variants(1)
def test_sarif_names_hostile_files(broken, tmp_path, name):
    cycle = next((broken / "profiler").iterdir())
    cycle.rename(cycle.with_name(f"{name}_ascend_ms"))
    _, log = sarif_of(broken, tmp_path)
    places = [result["locations"][0] for result in log["runs"][0]["results"]]
    uris = [place["physicalLocation"]["artifactLocation"]["uri"] for place in places]
    assert not [c for uri in uris for c in uri if not c.isascii() or not c.isprintable() or c in " #?"]
    files = ["cpu_framework_0.txt", "cpu_op_detail_info_0.csv", "cpu_op_type_info_0.csv"]
    assert [os.fsdecode(unquote_to_bytes(uri)) for uri in uris] == [
        *(f"profiler/{name}_ascend_ms/FRAMEWORK/{file}" for file in files),
        f"profiler/{name}_ascend_ms",
    ]
    json.dumps(log, ensure_ascii=False).encode("utf-8")


def test_a_sarif_file_that_cannot_be_written_is_said_in_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    found = run("check", TORCH, "--sarif", tmp_path / "file" / "x.sarif")
    assert found.exit_code == 2
    assert found.stderr.startswith("perfguard: ")
    assert len(found.stderr.splitlines()) == 1


def test_nothing_is_written_by_a_check(tmp_path):
    recording = copied(TORCH, tmp_path / "recording")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run("check", recording, "--explain", "--metrics")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
