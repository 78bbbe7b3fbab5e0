"""Directories that nobody drove step by step: what real runs leave behind is no error, what was lost is."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import Contract, inspect
from perfguard.findings import Severity
from perfguard.recording import Recording, read_recording
from perfguard.testing import generate
from tests.dialects.summed import groups_of

Document = dict[str, Any]


@pytest.fixture
def trace(copy_recording) -> Path:
    (path,) = (copy_recording("torch-mlp") / "profiler").glob("*.json")
    return Path(path)


@pytest.fixture
def cycle(copy_recording) -> Path:
    """A MindSpore directory of a CPU run, without perfguard's own record of its steps."""
    (path,) = (copy_recording("mindspore-pynative") / "profiler").glob("*_ascend_ms")
    return Path(path)


def edited(path: Path, edit: Callable[[Document], None]) -> Contract:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    return inspect(read_recording(path.parent))


def said(contract: Contract, severity: Severity = Severity.ERROR) -> list[tuple[str, str]]:
    return [(f.code.name, f.message) for f in contract.findings if f.severity is severity]


def codes(contract: Contract, severity: Severity = Severity.ERROR) -> set[str]:
    return {code for code, _ in said(contract, severity)}


def operators(document: Document) -> list[Document]:
    return [event for event in document["traceEvents"] if event.get("cat") == "cpu_op"]


def marks(document: Document) -> list[Document]:
    return sorted(
        (e for e in document["traceEvents"] if e["name"].startswith("ProfilerStep#")), key=lambda event: event["ts"]
    )


def renumber(document: Document) -> None:
    """Give the operators and marks of the only thread their numbers again, in the order of their starts."""
    numbered = [one for one in document["traceEvents"] if one.get("cat") in ("cpu_op", "user_annotation")]
    for key in ("Ev Idx", "External id", "Record function id"):
        having = [event for event in numbered if event["args"].get(key)]
        numbers = sorted(event["args"][key] for event in having)
        for number, event in zip(numbers, sorted(having, key=lambda event: (event["ts"], -event["dur"])), strict=True):
            event["args"][key] = number


def inside(event: Document, mark: Document) -> bool:
    return bool(mark["ts"] <= event["ts"] <= mark["ts"] + mark["dur"])


# -- torch: the numbers of its events --------------------------------------------------------------------------------


def test_events_that_are_gone_are_counted_and_named(trace):
    def edit(document):
        gone = {event["args"]["Ev Idx"] for event in operators(document)[7:10]}
        document["traceEvents"] = [e for e in document["traceEvents"] if e.get("args", {}).get("Ev Idx") not in gone]

    (message,) = [text for code, text in said(edited(trace, edit)) if code == "I102"]
    assert "3 of " in message
    assert "Ev Idx" in message


def test_the_first_event_is_missed_too(trace):
    def edit(document):
        numbered = [e for e in document["traceEvents"] if "Ev Idx" in e.get("args", {})]
        document["traceEvents"].remove(next(e for e in numbered if e["args"]["Ev Idx"] == 0))

    assert any(code == "I102" and text.endswith("Ev Idx 0") for code, text in said(edited(trace, edit)))


def test_a_number_that_two_events_have_is_found(trace):
    def edit(document):
        first, second = operators(document)[3:5]
        second["args"]["Ev Idx"] = first["args"]["Ev Idx"]

    assert {"I102", "I114"} <= codes(edited(trace, edit))


# -- torch: steps nobody asked for -----------------------------------------------------------------------------------


def test_a_step_that_nothing_ran_in_is_no_error_where_nobody_asked(trace):
    """The loop ended right after the profiler had begun another step."""

    def edit(document):
        last = marks(document)[-1]
        begin = last["ts"]
        last["ts"], last["dur"] = begin + last["dur"], 1.0
        before = marks(document)[-2]
        before["dur"] = last["ts"] - before["ts"] - 1
        renumber(document)

    contract = edited(trace, edit)
    assert codes(contract) == set()
    assert {"C101", "C102"} & codes(contract, Severity.WARNING)


def test_operators_outside_of_the_only_step_are_operators(trace):
    """A mark is made right before the loop ends: what ran was before it."""

    def edit(document):
        *others, last = marks(document)
        document["traceEvents"] = [event for event in document["traceEvents"] if event not in others]
        last["ts"], last["dur"] = max(one["ts"] + one["dur"] for one in operators(document)) + 1, 1.0
        renumber(document)
        numbered = [one for one in document["traceEvents"] if "Ev Idx" in one.get("args", {})]
        for number, event in enumerate(sorted(numbered, key=lambda one: one["args"]["Ev Idx"])):
            event["args"]["Ev Idx"] = number
        external = sorted(event["args"]["External id"] for event in numbered if event["args"].get("External id"))
        for number, event in enumerate(sorted(numbered, key=lambda one: one["args"]["Ev Idx"])):
            if event["args"].get("External id"):
                event["args"]["External id"] = external[0] + number

    assert codes(edited(trace, edit)) == set()


def test_steps_of_a_foreign_run_may_differ(trace):
    def edit(document):
        operators(document)[5]["name"] = "aten::other"

    contract = edited(trace, edit)
    assert codes(contract) == set()
    assert codes(contract, Severity.WARNING) == {"C102"}


def test_another_thread_does_not_stop_for_the_marks(trace):
    def edit(document):
        first, second = marks(document)[:2]
        between = (first["ts"] + first["dur"] + second["ts"]) / 2
        model = operators(document)[0]
        number = max(e["args"]["Ev Idx"] for e in document["traceEvents"] if "Ev Idx" in e.get("args", {})) + 1
        args = {"External id": 999_999, "Ev Idx": number}
        document["traceEvents"].append(
            {**model, "name": "aten::relu", "tid": model["tid"] + 1, "ts": between, "dur": 0, "args": args}
        )

    contract = edited(trace, edit)
    assert codes(contract) == set()
    (one,) = contract.cycles
    assert one.executions is not None
    assert groups_of(contract.recording)["step"].null_count() == 0


def test_an_operator_that_had_not_ended_ends_with_the_recording(trace):
    """A hook of a backward pass stops the profiler: Kineto extends the operators around it."""

    def edit(document):
        without_marks = [e for e in document["traceEvents"] if not e["name"].startswith("ProfilerStep#")]
        document["traceEvents"] = without_marks
        (window,) = (e for e in without_marks if e.get("cat") == "Trace")
        (stop,) = (e for e in without_marks if e["name"] == "Record Window End")
        last = max(operators(document), key=lambda event: event["ts"])
        stop["ts"] = window["ts"] + window["dur"] + 200
        last["dur"] = stop["ts"] - last["ts"] - by

    def found(contract):
        return [text for code, text in said(contract) if code == "I113"]

    by = 0.0
    assert found(edited(trace, edit)) == []
    by = 100.0
    assert found(edited(trace, edit))


def test_a_kernel_is_of_the_step_that_launched_it(trace):
    """It may run when all steps have ended; without its launch, it is of the last step that had begun."""

    def edit(document):
        first, last = marks(document)[0], marks(document)[-1]
        host = {"pid": first["pid"], "tid": first["tid"]}
        late = last["ts"] + last["dur"] + 100
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **host, "ts": first["ts"] + 1, "dur": 1}
        kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "dur": 5}
        document["traceEvents"] += [
            {**launch, "args": {"correlation": 41}},
            {**kernel, "name": "launched", "ts": late, "args": {"correlation": 41, "stream": 7}},
            {**kernel, "name": "stray", "ts": late + 10, "args": {"correlation": 42, "stream": 7}},
            {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": late, "args": {"name": "GPU 0"}},
        ]

    contract = edited(trace, edit)
    (one,) = contract.cycles
    assert one.executions is not None
    found = groups_of(contract.recording)
    steps = dict(found.filter(found["name"].is_in(["launched", "stray"])).select("name", "step").rows())
    assert steps == {"launched": 0, "stray": (one.executions.steps or 0) - 1}


def test_the_handle_of_a_mark_is_no_work_of_the_model(trace):
    """torch 1.12 makes a tensor before every mark, and numbers no event."""

    def edit(document):
        for event in document["traceEvents"]:
            event.get("args", {}).pop("Ev Idx", None)
        for number, mark in enumerate(marks(document)):
            model = {"ph": "X", "cat": "cpu_op", "pid": mark["pid"], "tid": mark["tid"], "dur": 0.1}
            for offset, name in ((0.9, "aten::zeros"), (0.8, "aten::empty"), (0.7, "aten::zero_")):
                args = {"External id": 10**6 + 10 * number + int(10 * offset)}
                document["traceEvents"].append({**model, "name": name, "ts": mark["ts"] - offset, "args": args})

    assert said(edited(trace, edit)) == []


def test_a_rank_with_fewer_cycles_than_the_others_is_a_warning(trace):
    for rank in range(3):
        document = json.loads(trace.read_text())
        document["distributedInfo"] = {"rank": rank, "world_size": 3, "backend": "gloo"}
        for cycle_number in range(1 if rank == 1 else 2):
            for event in document["traceEvents"]:
                event["ts"] = event.get("ts", 0) + 1 + 10 * rank  # no two are copies of each other
            (trace.parent / f"rank{rank}.{cycle_number}.pt.trace.json").write_text(json.dumps(document))
    trace.unlink()
    contract = inspect(read_recording(trace.parent))
    assert said(contract) == []
    assert said(contract, Severity.WARNING) == [("C101", "rank 1 has 1 of the 2 cycles that other ranks have")]


# -- torch: names and text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.json", "my_model.json.gz"])
@pytest.mark.variants(1)
def test_a_trace_is_known_by_its_first_words_as_well(trace, name):
    raw = trace.read_bytes()
    (trace.parent / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    trace.unlink()
    contract = inspect(read_recording(trace.parent))
    assert contract.layouts == ("pt-torch",)
    assert said(contract) == []


def test_any_other_json_is_not_taken_for_a_trace(tmp_path):
    (tmp_path / "settings.json").write_text('{"version": 1, "schemaVersion": 1}')
    (tmp_path / "half.json.gz").write_bytes(gzip.compress(b'{"schemaVersion": 1,' * 999)[:30])
    assert inspect(read_recording(tmp_path)).layouts == ()


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{\n"schemaVersion": 1,\n"k": "v "q""\n}', ":3", 'after \'"k": "v "\', before \'q""\''),
        (
            '{\n"schemaVersion": 1, "traceEvents": [{"ph',
            "",
            "the file is cut off, it ends in the middle of an event at byte 42, after",
        ),
        (" \n", "", "the file is empty"),
        ('{"schemaVersion": 1} x', ":1", "trailing characters"),
    ],
)
def test_broken_json_is_shown_where_it_breaks(tmp_path, text, place, words):
    (tmp_path / "a.pt.trace.json").write_text(text)
    (finding,) = inspect(read_recording(tmp_path)).findings
    assert (finding.code.name, finding.place) == ("S101", f"a.pt.trace.json{place}")
    assert words in finding.message


@pytest.mark.parametrize(("separator", "named"), [(";", "';'"), ("\t", "'\\t'")])
def test_a_table_that_a_spreadsheet_saved_is_told_by_its_separator(cycle, separator, named):
    table = cycle / "FRAMEWORK" / "cpu_op_type_info_0.csv"
    table.write_text(table.read_text().replace(",", separator))
    (finding,) = [f for f in inspect(read_recording(cycle.parent)).findings if f.severity is Severity.ERROR]
    assert (finding.code.name, finding.message) == ("S101", f"its cells are separated by {named}, not by a comma")


# -- MindSpore 1.x wrote no profiler_info ------------------------------------------------------------------------------

GPU_FILE = ("gpu_op_type_info_0.csv", "op_type,type_occurrences,total_time(us),total_proportion,avg_time(us)\n")


def _drawn(lane: str | int) -> str:
    """Return a timeline of a GPU with one operator: up to 1.2 lanes had names, later numbers."""
    return json.dumps(
        [{"name": "MatMul-op1", "ph": "X", "tid": lane, "ts": 1600695893269618.2, "dur": 303.84, "pid": 0}]
    )


_FRAMEWORK = "task_id,stream_id,block_dim,full_op_name,op_name,op_type,subgraph,op_info"


@pytest.mark.parametrize(
    ("file", "text", "is_old"),
    [
        ("framework_raw_0.csv", f"{_FRAMEWORK}\n", True),
        ("framework_raw_0.csv", f"{_FRAMEWORK},graph_id\n", False),
        ("pipeline_profiling_0.json", '{"op_info": [{"metrics": {"output_queue": {"throughput": [0.5]}}}]}', True),
        ("pipeline_profiling_0.json", '{"op_info": [{"metrics": {"output_queue": {"size": [0]}}}]}', False),
        ("minddata_cpu_utilization_0.json", '{"device_info": {"runnable_processes": [1]}}', True),
        ("minddata_cpu_utilization_0.json", '{"device_info": {"runnable_process": [1]}}', False),
        ("op_execute_timestamp_0.txt", "Default/MatMul-op1;Ops;1600695893269618200,303.84 \n", True),
        ("gpu_op_execute_timestamp_0.txt", "Default/MatMul-op1;GpuOps;1600695893269618200,303.84 \n", False),
        ("gpu_timeline_display_0.json", _drawn("Ops"), True),
        ("gpu_timeline_display_0.json", _drawn("GpuOps"), True),
        ("gpu_timeline_display_0.json", _drawn(100002), False),
        ("gpu_timeline_display_0.json", _drawn("HostCpuOps0"), False),
    ],
)
def test_what_only_1x_wrote_tells_it_from_a_2_0_that_was_killed(tmp_path, file, text, is_old):
    for name, content in (GPU_FILE, (file, text)):
        (tmp_path / name).write_text(content)
    contract = inspect(read_recording(tmp_path))
    assert contract.layouts == ("ms-1.x" if is_old else "ms-2.0",)
    assert ("C110" in codes(contract)) is not is_old
    # With the file that came in 2022 it is 2.0, whatever else it holds.
    (tmp_path / "profiler_info_0.json").write_text('{"context_mode": "graph"}')
    assert inspect(read_recording(tmp_path)).layouts == ("ms-2.0",)


def test_a_gpu_of_1_1_wrote_no_profiler_info(tmp_path):
    profiler = _of_a_gpu(tmp_path)
    for name in ("profiler_info_0.json", "gpu_framework_0.txt", "step_trace_point_info_0.json"):
        (profiler / name).unlink()
    runs = profiler / "gpu_op_execute_timestamp_0.txt"
    (profiler / "op_execute_timestamp_0.txt").write_text(runs.read_text().replace(";GpuOps;", ";Ops;"))
    runs.unlink()
    events = [one for one in json.loads((profiler / "gpu_timeline_display_0.json").read_text()) if one["ph"] == "X"]
    drawn = [
        {**one, "tid": "Ops" if one["tid"] == 100002 else str(one["tid"])} for one in events if one["tid"] != 100000
    ]
    (profiler / "gpu_timeline_display_0.json").write_text(json.dumps(drawn))
    figures = json.loads((profiler / "gpu_timeline_summary_0.json").read_text())
    figures.pop("max_scope_name_num")
    (profiler / "gpu_timeline_summary_0.json").write_text(json.dumps(figures))
    contract = inspect(read_recording(tmp_path))
    assert contract.layouts == ("ms-1.x",)
    assert codes(contract) == set()


@pytest.mark.parametrize("lost", [(), ("gpu_framework_0.txt",), ("gpu_framework_0.txt", "start_time_0.txt")])
@pytest.mark.variants(1)
def test_a_gpu_of_2_0_without_profiler_info_is_incomplete_whatever_else_it_lost(tmp_path, lost):
    profiler = _of_a_gpu(tmp_path)
    for name in ("profiler_info_0.json", *lost):
        (profiler / name).unlink()
    contract = inspect(read_recording(tmp_path))
    assert contract.layouts == ("ms-2.0",)
    (finding,) = [one for one in contract.findings if one.code.name == "C110"]
    assert "1.6 and older wrote none" in finding.message
    assert "--ignore C110" in finding.message


def _of_a_gpu(place: Path) -> Path:
    generate("ms-2.0", seed=3, operators=4, conditions={"gpu": True}).write(place)
    return place / "profiler"


# -- MindSpore: directories with nothing but a log ---------------------------------------------------------------------


BEFORE, BEHIND = "_20201121150900370_ascend_ms", "_20991121150900370_ascend_ms"
STOPPED = ("start", "stop", "finalize", "analyse")


@pytest.mark.parametrize(
    ("whole", "words", "errors", "warnings"),
    [
        (BEFORE, ("start",), {"C110"}, set()),
        (BEFORE, ("finalize",), set(), {"C103"}),
        # A schedule that repeats opens another window behind the last step of the loop: nothing runs in it.
        (BEFORE, STOPPED, set(), {"C103"}),
        (BEHIND, STOPPED, {"C103"}, set()),
        (None, STOPPED, {"C103"}, set()),
    ],
)
@pytest.mark.variants(1)
def test_a_directory_with_nothing_but_its_log_is_told_by_what_the_log_says(cycle, whole, words, errors, warnings):
    if whole:
        shutil.copytree(cycle, cycle.with_name(cycle.name.rsplit("_", 3)[0] + whole))
    (log,) = (cycle / "logs").iterdir()
    log.write_text("".join(f"[2026-11-21-15:09:05] [INFO] [cpu_profiler.py:5] CpuProfiler {word}.\n" for word in words))
    shutil.rmtree(cycle / "FRAMEWORK")
    shutil.rmtree(cycle / "ASCEND_PROFILER_OUTPUT")
    contract = inspect(read_recording(cycle.parent))
    assert codes(contract) == errors
    assert codes(contract, Severity.WARNING) == warnings


def test_a_directory_with_nothing_at_all_lacks_every_file(cycle):
    for folder in ("FRAMEWORK", "ASCEND_PROFILER_OUTPUT", "logs"):
        shutil.rmtree(cycle / folder)
    (cycle / "FRAMEWORK").mkdir()
    assert codes(inspect(read_recording(cycle.parent))) == {"A102", "A104"}


def test_a_process_that_died_in_the_window_is_told_beside_what_is_missing(cycle):
    (log,) = (cycle / "logs").iterdir()
    log.write_text(
        "".join(line for line in log.read_text().splitlines(True) if "CpuProfiler st" in line or "log.py" in line)
    )
    log.write_text(log.read_text().replace("CpuProfiler stop.\n", "\n"))
    (cycle / "FRAMEWORK" / "cpu_op_type_info_0.csv").unlink()
    assert codes(inspect(read_recording(cycle.parent))) == {"A102", "C110"}


def trace_of():
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.0, "dur": 1.0, "args": {}}
    named = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 7.0}
    return {"traceEvents": [event, named, end]}


@pytest.mark.parametrize(
    ("document", "layouts"),
    [
        ({"schemaVersion": 1, **trace_of()}, ("pt-torch",)),
        # As tools write a trace that they have read: other keys first, or last.
        ({"distributedInfo": {"rank": 0}, "schemaVersion": 1, **trace_of()}, ("pt-torch",)),
        ({"metadata": {"num_errors": 0}, **trace_of(), "schemaVersion": 1}, ("pt-torch",)),
        ({**trace_of(), "deviceProperties": []}, ("pt-torch",)),
        # Traces of others, and what is no trace.
        ({"traceEvents": [{"ph": "X", "cat": "disabled-by-default-v8", "name": "f"}]}, ()),
        ({"schemaVersion": 1, "stages": []}, ()),
        ([{"ph": "X", "cat": "cpu_op", "name": "aten::mm"}], ()),
    ],
)
@pytest.mark.variants(1)
def test_a_trace_of_torch_is_known_by_what_it_holds_whatever_its_name(tmp_path, document, layouts):
    (tmp_path / "some.json").write_text(json.dumps(document, indent=1))
    contract = inspect(Recording(directory=tmp_path))
    assert contract.layouts == layouts
    errors = [one.code.name for one in contract.findings if one.severity is Severity.ERROR]
    assert errors == ([] if layouts else ["A101"])


def test_what_was_analysed_of_a_cluster_is_found_where_it_lies(tmp_path):
    generate("cluster", seed=1, ranks=3).write(tmp_path / "made")
    outer = tmp_path / "cluster_analysis_output"
    outer.mkdir()
    assert inspect(Recording(directory=outer)).layouts == ()
    (tmp_path / "made" / "cluster_analysis_output").rename(outer / "of_a_recipe")
    contract = inspect(Recording(directory=outer))
    assert contract.layouts == ("cluster",)
    assert contract.read["files"] == 4


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("PROF_000001_20250707105711991_ABCDEF/host/data/x.slice_0", "raw", "is raw data of CANN"),
        (
            "run/42_results.json",
            '{"rocprofiler-sdk-tool": [{"metadata": {}}]}',
            "run/42_results.json is written by rocprofv3",
        ),
        (
            "mindstudio_profiler_output/op_summary_20250707.csv",
            "Op Name\n",
            "mindstudio_profiler_output is what msprof exports",
        ),
        ("host/msprof_20250707105711.db", "SQLite format 3", "is a database of msprof"),
        ("report1.nsys-rep", "x", "is a report of Nsight Systems"),
        (
            "report1.sqlite",
            "SQLite format 3 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (",
            "is a database of Nsight Systems",
        ),
        ("report1.sqlite", "SQLite format 3 CREATE TABLE users (", ""),
        ("node/42_results.db", "SQLite format 3 CREATE TABLE rocpd_string_0 (", "is a database of rocprofv3 (rocpd)"),
        ("42_kernel_trace.csv", "Kind\n", "is written by rocprofv3"),
        ("42_results.pftrace", "x", "is a trace in Perfetto's binary format"),
        ("plugins/profile/2025/host.xplane.pb", "x", "is a profile of JAX or TensorFlow"),
        ("memory_snapshot/rank0.pickle", "x", "is a pickle"),
        ("42_results.json", '{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "is written by rocprofv3"),
        ("42_results.json", '{"benchmarks": []}', ""),
        ("PROF_of.txt", "notes", ""),
    ],
)
def test_what_is_no_profilers_output_is_named_where_it_is_known(tmp_path, name, text, says):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (found,) = inspect(Recording(directory=tmp_path)).findings
    assert found.code.name == "A101"
    assert says in found.message
    assert found.message.startswith("nothing here looks like the output of a known profiler") is (not says)
