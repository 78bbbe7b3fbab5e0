"""Inspection: the clean recordings are clean, findings name their place, ranks and cycles are told apart."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts import survey as survey_module
from perfguard.artifacts.layout import Layout, Recognition, Slot, layout_named
from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.contract import Contract, expectation, inspect
from perfguard.contract import reading as reading_module
from perfguard.contract import reduction as reduction_module
from perfguard.findings import Code, Finding, Severity, worst_first
from perfguard.recording import Recording, read_recording

CLEAN = {
    "mindspore-graph": (("ms-2.5+cpu",), [(0, 0, 3, 27)]),
    "mindspore-pynative": (("ms-2.5+cpu",), [(0, 0, 3, 33)]),
    "torch-mlp": (("pt-torch",), [(0, 0, 3, 396)]),
    "torch-repeat2": (("pt-torch",), [(0, 0, 2, 138), (0, 1, 2, 138)]),
}


def inspected(directory: Path) -> Contract:
    return inspect(read_recording(directory))


def one(directory: Path, pattern: str) -> Path:
    (found,) = directory.rglob(pattern)
    return found


def replace(pattern: str, old: str, new: str) -> Callable[[Path], None]:
    def corrupt(directory: Path) -> None:
        path = one(directory, pattern)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return corrupt


# -- clean recordings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.variants(1)
def test_a_clean_recording_has_no_finding_above_a_note(copy_recording, name):
    contract = inspected(copy_recording(name))
    assert [f for f in contract.findings if f.severity is not Severity.NOTE] == []
    assert contract.is_whole
    assert [note for note in contract.notes if "cannot tell" in note] == []


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.variants(2)
def test_a_clean_recording_taken_as_a_foreign_directory_is_clean_too(copy_recording, name):
    contract = inspect(Recording(directory=copy_recording(name)))
    assert [f for f in contract.findings if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(("name", "expected"), CLEAN.items())
@pytest.mark.variants(2)
def test_layouts_ranks_cycles_and_steps_are_found(copy_recording, name, expected):
    contract = inspected(copy_recording(name))
    cycles = [
        (cycle.rank, cycle.index, cycle.executions.steps, cycle.executions.calls)
        for cycle in contract.cycles
        if cycle.executions is not None
    ]
    assert (contract.layouts, cycles) == expected


def test_every_file_of_a_clean_recording_has_a_slot_and_could_be_read(copy_recording):
    (cycle,) = inspected(copy_recording("mindspore-graph")).cycles
    assert sorted(cycle.artifacts) == [
        "cpu_framework",
        "cpu_ms_memory_record",
        "cpu_op_detail_info",
        "cpu_op_execute_timestamp",
        "cpu_op_type_info",
        "log",
        "trace_view",
    ]


# -- places ----------------------------------------------------------------------------------------------------------

MS = "profiler/vm_6289_20261121115248307_ascend_ms"
PT = "profiler/vm_6289.1795261965060177130.pt.trace.json"


@pytest.mark.parametrize(
    ("recording", "corrupt", "place", "message"),
    [
        pytest.param(
            "mindspore-graph",
            replace("cpu_op_type_info_0.csv", "0.0549051", "1.5"),
            f"{MS}/FRAMEWORK/cpu_op_type_info_0.csv:3 $.percent",
            "1.5 is greater than the maximum of 1.00001",
            id="a cell of a table",
        ),
        pytest.param(
            "mindspore-graph",
            replace("cpu_op_type_info_0.csv", "percent", "share"),
            f"{MS}/FRAMEWORK/cpu_op_type_info_0.csv:1",
            "column 'percent' is missing",
            id="a column",
        ),
        pytest.param(
            "mindspore-graph",
            replace("cpu_op_execute_timestamp_0.txt", "0.005558,0", "-1,0"),
            f"{MS}/FRAMEWORK/cpu_op_execute_timestamp_0.txt:2 $.duration",
            "-1 is less than the minimum of 0",
            id="an execution on a line of many",
        ),
        pytest.param(
            "mindspore-graph",
            replace("trace_view.json", '"dur": "21.462"', '"dur": 21.462'),
            f"{MS}/ASCEND_PROFILER_OUTPUT/trace_view.json $[5] $.dur",
            "21.462 is not of type 'string'",
            id="an event of a bare array",
        ),
        pytest.param(
            "torch-mlp",
            replace("*.pt.trace.json", '"ph": "M"', '"ph": "Q"'),
            f"{PT} $.traceEvents[0] $.ph",
            "'Q' is not one of ['X', 'M', 'i', 's', 'f', 'C', 'b', 'e', 't']",
            id="an event of an object",
        ),
        pytest.param(
            "torch-mlp",
            replace("*.pt.trace.json", '"schemaVersion": 1', '"schemaVersion": 2'),
            f"{PT} $.schemaVersion",
            "1 was expected",
            id="the object around the events",
        ),
        pytest.param(
            "torch-mlp",
            replace("*.pt.trace.json", '"Ev Idx": 2\n', '"Ev Idx": -2\n'),
            f"{PT} $.traceEvents[9] $.args['Ev Idx']",
            "-2 is less than the minimum of 0",
            id="an argument of an event",
        ),
    ],
)
@pytest.mark.variants(2)
def test_a_broken_value_is_named_by_file_line_and_path(copy_recording, recording, corrupt, place, message):
    directory = copy_recording(recording)
    corrupt(directory)
    finding = inspected(directory).findings[0]
    assert (finding.place, finding.message) == (place, message)


def test_a_missing_file_is_named_as_it_would_be_called(copy_recording):
    directory = copy_recording("mindspore-graph")
    one(directory, "cpu_op_type_info_0.csv").unlink()
    (finding,) = inspected(directory).findings
    assert finding.code is Code.A102
    assert finding.place.startswith(f"{MS}/FRAMEWORK/cpu_op_type_info_")
    assert not re.search("[{}]", finding.place), finding.place


def test_only_the_first_broken_rows_are_worded_and_the_rest_counted(copy_recording):
    directory = copy_recording("mindspore-graph")
    memory = one(directory, "cpu_ms_memory_record_0.txt")
    header = memory.read_text(encoding="utf-8").splitlines()[0]
    memory.write_text(header + "\n" + "1,-512,0,0\n" * (SHOWN_VIOLATIONS + 23), encoding="utf-8")
    findings = inspected(directory).findings
    assert {finding.code for finding in findings} == {Code.S103}
    assert len(findings) == SHOWN_VIOLATIONS + 1
    assert findings[-1].message == "and 23 more rows like these"


def test_thousands_of_disagreements_are_not_thousands_of_findings(copy_recording):
    directory = copy_recording("mindspore-graph")
    stamps = one(directory, "cpu_op_execute_timestamp_0.txt")
    text = stamps.read_text(encoding="utf-8")
    strange = "".join(f"strange{i};HostCpuOps;1795261968310120869,0.1,0 \n" for i in range(5000))
    stamps.write_text(text + strange, encoding="utf-8")
    found = [finding for finding in inspected(directory).findings if finding.code is Code.I102]
    assert 1 <= len(found) <= SHOWN_VIOLATIONS + 1


def test_a_message_never_carries_a_whole_broken_cell(copy_recording):
    directory = copy_recording("torch-mlp")
    replace("*.pt.trace.json", '"ph": "M"', f'"ph": "{"Q" * 1_000_000}"')(directory)
    assert max(len(finding.message) for finding in inspected(directory).findings) < 10_000


@pytest.mark.parametrize(
    ("name", "raw"),
    [("profiler_info_0.json", "null"), ("profiler_info_0.json", "[]"), ("profiler_info_0.json", "{}")],
)
@pytest.mark.variants(1)
def test_an_optional_file_that_is_there_must_keep_its_schema(copy_recording, name, raw):
    directory = copy_recording("mindspore-graph")
    (directory / MS / name).write_text(raw, encoding="utf-8")
    (finding,) = inspected(directory).findings
    assert (finding.code, finding.place.split(" ")[0]) == (Code.S103, f"{MS}/{name}")


@pytest.mark.parametrize(
    ("recording", "pattern", "change"),
    [
        ("mindspore-graph", "trace_view.json", lambda plain: {"traceEvents": plain}),
        ("torch-mlp", "*.pt.trace.json", lambda plain: plain["traceEvents"]),
    ],
    ids=["an object for an array", "an array for an object"],
)
def test_a_trace_of_the_other_shape_breaks_its_schema(copy_recording, recording, pattern, change):
    directory = copy_recording(recording)
    path = one(directory, pattern)
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    assert {finding.code for finding in inspected(directory).findings} == {Code.S103}


# -- what was asked for ----------------------------------------------------------------------------------------------


def test_a_foreign_directory_was_asked_for_nothing(copy_recording):
    for cycle in inspect(Recording(directory=copy_recording("mindspore-graph"))).cycles:
        assert (cycle.requested.active, cycle.requested.steps) == (None, ())


def test_each_cycle_was_asked_for_the_steps_of_its_own(copy_recording):
    cycles = inspected(copy_recording("torch-repeat2")).cycles
    assert [(cycle.requested.active, [step.cycle for step in cycle.requested.steps]) for cycle in cycles] == [
        (2, [0, 0]),
        (2, [1, 1]),
    ]


@pytest.mark.parametrize(
    ("conditions", "codes", "notes"),
    [({"memory": True}, ["A102"], 0), ({"memory": False}, [], 0), ({}, [], 1)],
    ids=["asked for", "not asked for", "nobody knows"],
)
def test_the_memory_record_is_required_where_it_was_asked_for(copy_recording, conditions, codes, notes):
    directory = copy_recording("mindspore-graph")
    one(directory, "cpu_ms_memory_record_0.txt").unlink()
    facts = json.loads((directory / "recording.json").read_text(encoding="utf-8"))
    (directory / "recording.json").write_text(json.dumps({**facts, "conditions": conditions}), encoding="utf-8")
    contract = inspected(directory)
    assert [finding.code.name for finding in contract.findings] == codes
    unknown = [note for note in contract.notes if "cannot tell" in note]
    assert len(unknown) == notes
    assert all("cannot tell whether memory was on: not required: FRAMEWORK/cpu_ms_memory" in note for note in unknown)


@pytest.mark.parametrize(
    ("recorded", "expected", "codes"),
    [
        ({"memory": True}, "no-memory", ["A110"]),
        ({"memory": False}, "memory", ["A110", "A102"]),
        ({}, "memory", ["A102"]),
        ({}, "no-memory", []),
        ({"memory": True}, "graph", ["A102"]),
    ],
)
@pytest.mark.variants(2)
def test_what_you_expect_goes_before_what_was_recorded(copy_recording, recorded, expected, codes):
    directory = copy_recording("mindspore-graph")
    one(directory, "cpu_ms_memory_record_0.txt").unlink()
    facts = json.loads((directory / "recording.json").read_text(encoding="utf-8"))
    (directory / "recording.json").write_text(json.dumps({**facts, "conditions": recorded}), encoding="utf-8")
    contract = inspect(read_recording(directory), expectation([expected]))
    assert [finding.code.name for finding in contract.findings] == codes
    who = "you" if "memory" in expected else "the recording"
    missing = [f.message for f in contract.findings if f.code.name == "A102"]
    assert missing == [f"layout ms-2.5+cpu requires it where memory (memory on: {who})"] * codes.count("A102")
    assert [note for note in contract.notes if "cannot tell" in note] == []


@pytest.mark.parametrize(
    ("expected", "codes", "place"),
    [
        ("ranks=1", [], None),
        ("ranks=2", ["A107"], "rank 1"),
        ("ranks=4", ["A107", "A107", "A107"], "rank 1"),
    ],
)
@pytest.mark.variants(1)
def test_every_rank_that_is_expected_must_be_there(copy_recording, expected, codes, place):
    contract = inspect(read_recording(copy_recording("torch-mlp")), expectation([expected]))
    found = [(f.code.name, f.rank) for f in contract.findings]
    assert found == [(code, rank) for rank, code in enumerate(codes, start=1)]
    assert place is None or contract.findings[0].place == place


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("cycles=2", []),
        ("cycles=1", [("A110", "rank 0", "cycles=1 is expected, but rank 0 has 2")]),
        ("cycles=3", [("A110", "rank 0", "cycles=3 is expected, but rank 0 has 2")]),
    ],
)
@pytest.mark.variants(1)
def test_every_rank_has_the_expected_number_of_cycles(copy_recording, expected, found):
    contract = inspect(read_recording(copy_recording("torch-repeat2")), expectation([expected]))
    assert [(one.code.name, one.place, one.message) for one in contract.findings] == found


def test_a_rank_beyond_those_expected_should_not_be_there(copy_recording):
    directory = copy_recording("torch-mlp")
    distributed = '"distributedInfo": {"rank": 3, "world_size": 4, "backend": "gloo"}, "schemaVersion"'
    replace("*.pt.trace.json", '"schemaVersion"', distributed)(directory)
    findings = inspect(read_recording(directory), expectation(["ranks=1"])).findings
    assert [(f.code.name, f.place, f.rank) for f in findings] == [("A107", "rank 0", 0), ("A106", "rank 3", 3)]


@pytest.mark.usefixtures("must_not_hang")
def test_a_thousand_million_ranks_can_be_expected(copy_recording):
    contract = inspect(read_recording(copy_recording("torch-mlp")), expectation(["ranks=999999999"]))
    assert {f.code for f in contract.findings} == {Code.A107}
    assert len(contract.findings) <= SHOWN_VIOLATIONS + 1


@pytest.mark.parametrize(("steps", "codes"), [(3, []), (2, ["C101"]), (5, ["C101"])])
@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
@pytest.mark.variants(2)
def test_the_steps_that_are_expected_of_a_foreign_directory_must_be_there(copy_recording, name, steps, codes):
    foreign = Recording(directory=copy_recording(name) / "profiler")
    contract = inspect(foreign, expectation([f"steps={steps}"]))
    assert [f.code.name for f in contract.findings] == codes
    assert {cycle.requested.active for cycle in contract.cycles} == {steps}


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
def test_a_recording_of_other_steps_than_expected_is_judged_by_its_own_window(copy_recording, name):
    contract = inspect(read_recording(copy_recording(name)), expectation(["steps=7"]))
    assert [cycle.requested.active for cycle in contract.cycles] == [3]
    (finding,) = contract.findings
    assert (finding.code, finding.severity, finding.place) == (Code.A110, Severity.ERROR, "recording.json")
    assert finding.message == "steps=7 is expected, but the window of the recording has 3"


def test_the_steps_of_a_script_with_a_window_of_its_own_are_unknown(copy_recording):
    directory = copy_recording("torch-mlp")
    facts = json.loads((directory / "recording.json").read_text(encoding="utf-8"))
    facts["fingerprint"]["window"] = None
    (directory / "recording.json").write_text(json.dumps(facts), encoding="utf-8")
    contract = inspect(read_recording(directory), expectation(["steps=7"]))
    assert [f for f in contract.findings if f.code is Code.A110] == []
    assert "cannot tell whether steps=7 were profiled: the window was the script's own" in contract.notes


# -- layouts in the engine -------------------------------------------------------------------------------------------


@pytest.fixture
def knowing(monkeypatch):
    """Return a function that makes one layout the only one there is: a directory called `run*` with these slots."""

    def know(*slots: Slot, **more: Any) -> None:
        facts = {"order": 1, "cycle": "directory", "ranks": "one", "nests": False, "conditions": {}} | more
        layout = Layout(id="a", title="t", source="s", recognise=(Recognition(name="^run"),), slots=slots, **facts)
        for module in (survey_module, reduction_module):
            monkeypatch.setattr(module, "layouts", lambda: (layout,))

    return know


def opaque(path: str, **more: Any) -> Slot:
    return Slot(name=path.partition("*")[0] or path, path=path, format="opaque", **more)


def touched(root: Path, *names: str) -> Recording:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return Recording(directory=root)


MEMORY_ON, MEMORY_OFF = {"memory": ({"always": True},)}, {"memory": ({"always": False},)}


@pytest.mark.parametrize(
    ("slot", "conditions", "there", "codes"),
    [
        ({"required": "always"}, {}, False, ["A102"]),
        ({"required": "always"}, {}, True, []),
        ({"required": "always", "missing": "C110"}, {}, False, ["C110"]),
        ({"required": "always", "missing": "A104"}, {}, False, ["A104"]),
        ({"required": "optional"}, {}, False, []),
        ({"required": "optional"}, {}, True, []),
        ({"required": "never"}, {}, False, []),
        ({"required": "never"}, {}, True, ["A106"]),
        ({"required": "memory"}, MEMORY_ON, False, ["A102"]),
        ({"required": "memory"}, MEMORY_OFF, False, []),
        ({"required": "memory"}, MEMORY_OFF, True, []),
        ({"required": "memory", "otherwise": "never"}, MEMORY_ON, True, []),
        ({"required": "memory", "otherwise": "never"}, MEMORY_OFF, True, ["A106"]),
        ({"required": "memory", "otherwise": "never"}, MEMORY_OFF, False, []),
        ({"required": "memory", "otherwise": "never"}, {}, True, []),
        ({"required": "memory", "otherwise": "never"}, {}, False, []),
        ({"required": "!memory"}, MEMORY_OFF, False, ["A102"]),
        ({"required": "memory & graph"}, MEMORY_ON, False, []),
        ({"required": "memory & graph", "otherwise": "never"}, MEMORY_OFF, True, ["A106"]),
    ],
)
def test_whether_a_file_must_be_there_follows_from_what_was_on(tmp_path, knowing, slot, conditions, there, codes):
    knowing(opaque("x", **slot), conditions=conditions)
    findings = inspect(touched(tmp_path, "run/anchor", *(["run/x"] if there else []))).findings
    errors = [f for f in findings if f.severity is Severity.ERROR]
    assert [(f.code.name, f.place) for f in errors] == [(code, "run/x") for code in codes]


def test_all_files_that_hang_on_the_same_unknown_are_one_note(tmp_path, knowing):
    slots = [opaque(name, required="memory & text") for name in ("x", "y")]
    knowing(*slots, opaque("z", required="text"), conditions=MEMORY_ON)
    notes = inspect(touched(tmp_path, "run/anchor")).notes
    assert [note for note in notes if "cannot tell" in note] == [
        "run: cannot tell whether text was on: not required: x, y, z"
    ]


def test_what_was_known_and_by_whom_is_explained(tmp_path, knowing):
    knowing(opaque("x", required="optional"), conditions=MEMORY_ON)
    contract = inspect(touched(tmp_path, "run/x"), expectation(["no-graph"]))
    assert contract.notes == (
        "run: layout a, because its name matches ^run; rank 0",
        "run: graph off (you), memory on (layout a)",
    )
    assert [dict(cycle.conditions) for cycle in contract.cycles] == [{"graph": False, "memory": True}]


def test_no_more_than_a_stated_number_of_files_of_a_slot_is_read(tmp_path, knowing, monkeypatch):
    monkeypatch.setattr(reading_module, "MAX_FILES_OF_SLOT", 3)
    knowing(Slot(name="log", path="*.log", format="log", required="optional"))
    contract = inspect(touched(tmp_path, *(f"run/{number}.log" for number in range(6))))
    assert [(f.code.name, f.place) for f in contract.findings] == [("A108", "run/3.log")]
    assert len(contract.cycles[0].files) == 3


def test_two_files_in_a_slot_for_one_are_not_one_rank(tmp_path, knowing):
    knowing(opaque("a_{rank}.bin"))
    contract = inspect(touched(tmp_path, "run/a_0.bin", "run/a_00.bin"))
    assert [f.code.name for f in contract.findings] == ["A105"]


@pytest.mark.parametrize("bytes_", [b"", b"\xff" * 100, b"{" * 100])
def test_what_is_opaque_is_never_opened(tmp_path, knowing, bytes_):
    knowing(opaque("x"))
    recording = touched(tmp_path, "run/x")
    (tmp_path / "run" / "x").write_bytes(bytes_)
    assert inspect(recording).findings == ()


def test_strangers_are_one_note_that_names_the_first_few(tmp_path, knowing):
    knowing(opaque("x", required="optional"))
    (finding,) = inspect(touched(tmp_path, *(f"run/s{number:02}" for number in range(11)))).findings
    assert (finding.code, finding.severity, finding.place) == (Code.A103, Severity.NOTE, "run")
    assert finding.message == f"layout a has no slot for {', '.join(f's{n:02}' for n in range(8))} and 3 more"


def test_a_parent_without_a_cycle_is_said(tmp_path):
    ranks = touched(tmp_path, "rank_0/w_ascend_ms/FRAMEWORK/x", "rank_1/notes.txt")
    found = [f for f in inspect(ranks).findings if f.code is Code.A101]
    assert [(f.place, f.rank, f.severity) for f in found] == [("rank_1", 1, Severity.ERROR)]


def test_the_rank_is_read_from_the_directory_above(copy_recording, tmp_path):
    source = copy_recording("torch-mlp") / "profiler"
    shutil.copytree(source, tmp_path / "judged" / "rank_6")
    contract = inspect(Recording(directory=tmp_path / "judged"))
    assert [cycle.rank for cycle in contract.cycles] == [6]
    assert "ranks" in contract.layouts


def test_the_steps_are_read_from_the_name_of_the_directory_above(copy_recording, tmp_path):
    source = copy_recording("torch-mlp") / "profiler"
    shutil.copytree(source, tmp_path / "judged" / "rank6_start2_stop5")
    contract = inspect(Recording(directory=tmp_path / "judged"))
    assert [(cycle.rank, cycle.requested.active) for cycle in contract.cycles] == [(6, 4)]
    assert [f.code.name for f in contract.findings] == ["C101"]


def test_a_directory_can_be_judged_as_a_layout_it_is_not(copy_recording):
    contract = inspect(Recording(directory=copy_recording("torch-mlp") / "profiler"), only=layout_named("ms-2.5+cpu"))
    assert contract.layouts == ("ms-2.5+cpu",)
    assert {f.code.name for f in contract.findings if f.severity is Severity.ERROR} == {"A102", "A104"}


# -- how much was looked at ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("torch-mlp", {"ranks": 1, "cycles": 1, "files": 1}),
        ("torch-repeat2", {"ranks": 1, "cycles": 2, "files": 2}),
        ("mindspore-graph", {"ranks": 1, "cycles": 1, "files": 7}),
    ],
)
@pytest.mark.variants(1)
def test_what_was_read_is_counted(copy_recording, name, read):
    found = inspected(copy_recording(name)).read
    assert {key: found[key] for key in read} == read
    assert found["rows"] > 50


def test_every_finding_names_its_rank_and_each_of_an_invariant_its_check(copy_recording):
    directory = copy_recording("mindspore-graph")
    replace("cpu_op_type_info_0.csv", "MatMul,6", "MatMul,7")(directory)
    findings = inspected(directory).findings
    assert {f.rank for f in findings} == {0}
    assert {f.check for f in findings} >= {"types_are_the_sum_of_details", "type_averages_follow"}


# -- versions of a schema --------------------------------------------------------------------------------------------

VERSIONS = {
    "v1": {"a": "integer", "b": "integer"},
    "v2": {"a": "integer", "c": "number"},
}


@pytest.fixture
def versions(monkeypatch, knowing):
    def rules(name: str) -> dict[str, Any]:
        properties = {key: {"type": kind} for key, kind in VERSIONS[name].items()}
        row = {"type": "object", "additionalProperties": False, "required": list(properties), "properties": properties}
        return {"type": "array", "items": row}

    monkeypatch.setattr(reading_module, "schema", rules)
    knowing(Slot(name="t", path="t.csv", format="csv", schemas=("v1", "v2")))


@pytest.mark.parametrize(
    ("text", "fits", "codes"),
    [
        ("a,b\n1,2\n", "v1", []),
        ("a,c\n1,2.5\n", "v2", []),
        ("a,b\n1,x\n", None, ["S103"]),
        ("a,c\n1,x\n", None, ["S103"]),
        ("a,c,d\n1,2,3\n", "v2", ["S102"]),
        ("", None, ["S101"]),
    ],
)
def test_a_file_is_judged_by_the_version_of_its_schema_that_fits_best(tmp_path, versions, text, fits, codes):
    recording = touched(tmp_path, "run/t.csv")
    (tmp_path / "run" / "t.csv").write_text(text)
    contract = inspect(recording)
    assert [f.code.name for f in contract.findings] == codes
    assert [artifact.schema for artifact in contract.cycles[0].files] == ([fits] if fits else [])


# -- ranks -----------------------------------------------------------------------------------------------------------


def test_the_rank_is_read_from_the_names_of_files(copy_recording):
    directory = copy_recording("mindspore-graph")
    for path in sorted((directory / MS / "FRAMEWORK").iterdir()):
        path.rename(path.with_name(path.name.replace("_0.", "_12.")))
    contract = inspected(directory)
    assert [cycle.rank for cycle in contract.cycles] == [12]
    assert contract.is_whole


def test_the_rank_is_read_from_a_trace(copy_recording):
    directory = copy_recording("torch-mlp")
    distributed = '"distributedInfo": {"rank": 3, "world_size": 4, "backend": "gloo"}, "schemaVersion"'
    replace("*.pt.trace.json", '"schemaVersion"', distributed)(directory)
    contract = inspected(directory)
    assert [cycle.rank for cycle in contract.cycles] == [3]
    assert contract.is_whole


def test_the_rank_of_a_silent_trace_is_that_of_the_recording(copy_recording):
    directory = copy_recording("torch-mlp")
    replace("recording.json", '"rank": 0', '"rank": 5')(directory)
    assert [cycle.rank for cycle in inspected(directory).cycles] == [5]


def test_cycles_are_counted_for_each_rank(tmp_path, copy_recording):
    source = copy_recording("torch-mlp") / PT
    text = source.read_text(encoding="utf-8")
    for name, rank in (("a", 1), ("b", 0), ("c", 1)):
        head = f'"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "schemaVersion"'
        path = tmp_path / "judged" / f"{name}.pt.trace.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace('"schemaVersion"', head, 1), encoding="utf-8")
    cycles = inspect(Recording(directory=tmp_path / "judged")).cycles
    assert [(cycle.place.name[0], cycle.rank, cycle.index) for cycle in cycles] == [
        ("a", 1, 0),
        ("b", 0, 0),
        ("c", 1, 1),
    ]


def test_a_renamed_cycle_is_still_found(copy_recording):
    directory = copy_recording("mindspore-graph")
    shutil.move(directory / MS, directory / "profiler" / "renamed")
    contract = inspected(directory)
    assert (contract.layouts, contract.findings) == (("ms-2.5+cpu",), ())


# -- findings --------------------------------------------------------------------------------------------------------


def finding(code: str, severity: str = "error", **more: object) -> Finding:
    return Finding(code=Code[code], message="m", severity=Severity(severity), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", Code)
def test_a_code_is_a_family_and_a_number_with_a_headline(code):
    assert re.fullmatch(r"[ASICBR][1-9][0-9]{2}", code.name)
    assert code.family == code.name[0]
    assert re.fullmatch(r"[a-z].*[^.]", code.value), "a headline, not a sentence"


@pytest.mark.parametrize("code", Code)
@pytest.mark.parametrize("severity", Severity)
def test_only_errors_of_the_contract_invalidate(code, severity):
    expected = severity is Severity.ERROR and code.name[0] in "ASIC"
    assert finding(code.name, severity.value).invalidates is expected


@pytest.mark.parametrize(
    ("given_findings", "order"),
    [
        pytest.param([("A103", "note"), ("R101", "error"), ("C102", "warning")], [1, 2, 0], id="severity first"),
        pytest.param(
            [("R101",), ("B101",), ("I101",), ("S101",), ("A101",), ("C101",)], [5, 4, 3, 2, 1, 0], id="family"
        ),
        pytest.param([("R102",), ("R101",)], [1, 0], id="then the code"),
    ],
)
def test_findings_are_ordered_worst_first(given_findings, order):
    findings = [finding(*one_of_them) for one_of_them in given_findings]
    assert list(worst_first(findings)) == [findings[i] for i in order]


def test_the_heavier_of_two_alike_comes_first():
    light, heavy, other = (
        finding("R101", weight=1.1),
        finding("R101", weight=9.0),
        finding("R101", weight=1.1, place="b"),
    )
    assert worst_first((other, light, heavy)) == (heavy, light, other)


@given(st.lists(st.tuples(st.sampled_from(sorted(Code.__members__)), st.sampled_from([s.value for s in Severity]))))
def test_ordering_keeps_every_finding(codes):
    findings = [finding(*code) for code in codes]
    ordered = worst_first(findings)
    assert sorted(map(repr, ordered)) == sorted(map(repr, findings))
    assert worst_first(ordered) == ordered


@pytest.mark.parametrize(
    ("name", "expect", "errors"),
    [
        ("mindspore-graph", "graph,cpu,steps=3", []),
        ("mindspore-graph", "npu", [("A110", "npu is expected, but it was off: layout ms-2.5+cpu")]),
        (
            "mindspore-graph",
            "pynative,no-memory",
            [
                ("A110", "no-graph is expected, but it was on: the recording"),
                ("A110", "no-memory is expected, but it was on: the recording"),
            ],
        ),
    ],
)
@pytest.mark.variants(1)
def test_what_is_expected_is_held_against_what_the_files_say(copy_recording, name, expect, errors):
    contract = inspect(read_recording(copy_recording(name)), expectation([expect]))
    assert [(f.code.name, f.message) for f in contract.findings if f.code.name == "A110"] == errors
