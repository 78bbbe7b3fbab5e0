"""Right output of torch is never refused, whatever system, exporter or loop wrote it; each rule finds what it is there for."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import expectation, inspect
from perfguard.findings import Severity
from perfguard.measure import measure
from perfguard.recording import read_recording
from tests.conftest import corpus_place

Document = dict[str, Any]
Edit = Callable[[Document], None]


def judged(directory: Path, *expected: str) -> list[tuple[str, str, str]]:
    """Return check, code and severity of each finding of a directory."""
    contract = inspect(read_recording(directory), expectation(expected))
    return [(one.check, one.code.name, one.severity.value) for one in contract.findings]


def errors(directory: Path, *expected: str) -> list[str]:
    """Return the errors of a directory as they are printed."""
    contract = inspect(read_recording(directory), expectation(expected))
    return [f"{one.code.name} {one.message}" for one in contract.findings if one.severity is Severity.ERROR]


def measured(directory: Path) -> dict[str, Any]:
    """Return the measurements of a directory by key."""
    found = measure(inspect(read_recording(directory)))
    return {f"{one.metric}[{one.subject}]" if one.subject else one.metric: one.value for one in found}


@pytest.fixture
def edited(copy_recording) -> Callable[..., Path]:
    """Return a function that edits the trace of a small recording and returns its directory alone."""

    def make(edit: Edit) -> Path:
        (path,) = (copy_recording("torch-mlp") / "profiler").glob("*.json")
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))
        return Path(path.parent)

    return make


def event(name: str, ts: float, last: float = 5.0, thread: int = 1, category: str = "cpu_op", **more: Any) -> Document:
    """Return a span of process 1."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": last, **more}


def step(number: int, ts: float, last: float = 100.0) -> Document:
    """Return the mark of a step."""
    return event(f"ProfilerStep#{number}", ts, last, category="user_annotation")


def written(place: Path, *events: Document, **header: Any) -> Path:
    """Write a trace with the mark that is always its last; return its directory."""
    last = max((one.get("ts", 0) + one.get("dur", 0) for one in events), default=0)
    mark = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": last + 1}
    document = {"schemaVersion": 1, "traceEvents": [*events, mark]} | header
    (place / "rank0.pt.trace.json").write_text(json.dumps(document))
    return place


# -- names of processes ------------------------------------------------------------------------------------------------


def name_rows(document: Document, *names: str) -> list[Document]:
    """Return the metadata events of these names."""
    return [one for one in document["traceEvents"] if one["ph"] == "M" and one["name"] in names]


def without(*names: str) -> Edit:
    """Return an edit that removes the metadata events of these names."""

    def edit(document: Document) -> None:
        gone = list(map(id, name_rows(document, *names)))
        document["traceEvents"] = [one for one in document["traceEvents"] if id(one) not in gone]

    return edit


def repeated(document: Document) -> None:
    document["traceEvents"] += name_rows(document, "process_name") * 120_000


def with_devices(named: range, drawn: int) -> Edit:
    """Return an edit that names devices and draws a kernel on one."""

    def edit(document: Document) -> None:
        for number in named:
            for kind, key, text in (("process_name", "name", "python"), ("process_labels", "labels", f"GPU {number}")):
                row = {"ph": "M", "name": kind, "pid": number, "tid": 0, "ts": 0, "args": {key: text}}
                document["traceEvents"].append(row)
        first = next(one for one in document["traceEvents"] if one.get("cat") == "cpu_op")
        document["traceEvents"].append({**first, "cat": "kernel", "name": "k", "pid": drawn, "tid": 7, "args": {}})

    return edit


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        # macOS and Windows have no /proc.
        (without("process_name", "process_labels"), ""),
        # MTIA's traces.
        (repeated, ""),
        (without("process_name"), ""),
        # A device of a profiler that Kineto hosts, behind those that it names.
        (with_devices(range(8), 9), ""),
        (with_devices(range(8), 3), ""),
    ],
)
@pytest.mark.variants(1)
def test_a_trace_names_all_of_its_processes_or_none(edited, edit, code):
    assert [one for one in judged(edited(edit)) if one[1] in ("I103", "S101")] == []


@pytest.mark.parametrize("lost", ["host", "device", "name of a label"])
@pytest.mark.variants(1)
def test_a_trace_that_names_some_of_its_processes_lost_names(edited, lost):
    def edit(document):
        with_devices(range(8), 3)(document)
        host = next(one["pid"] for one in document["traceEvents"] if one.get("cat") == "cpu_op")
        process, kinds = {
            "host": (host, ("process_name", "process_labels")),
            "device": (3, ("process_name", "process_labels")),
            "name of a label": (5, ("process_name",)),
        }[lost]
        document["traceEvents"] = [
            one for one in document["traceEvents"] if not (one["name"] in kinds and one["pid"] == process)
        ]

    assert ("processes_are_named_together", "I103", "error") in judged(edited(edit))


def test_too_many_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("perfguard.artifacts.trace_rows.MAX_PROCESSES", 100)
    names = [{"ph": "M", "name": "process_name", "pid": n, "tid": 0, "args": {"name": "p"}} for n in range(101)]
    (found,) = errors(written(tmp_path, event("aten::mm", 0), *names))
    assert "it names more than 100 processes" in found


# -- times --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "is_found"),
    [
        # Ten minutes of pause in front of the only work, in the profiler's own span.
        ([event("PyTorch Profiler (0)", 0, 6.1e8, category="Trace", pid="Spans"), event("aten::mm", 6e8)], False),
        # The same where no span says how long the profiler ran.
        ([event("aten::mm", 0), event("aten::mm", 6e8), event("aten::mm", 6e8 + 10)], False),
        # Two minutes behind the profiler's own span.
        ([event("PyTorch Profiler (0)", 0, 100, category="Trace", pid="Spans"), event("aten::mm", 10),
          *[event("aten::mm", 20 + 10 * n) for n in range(6)], event("python", 1.2e8, category="python_function")], True),
        # Another unit.
        ([*[event("aten::mm", 5e12 + 10 * n) for n in range(6)], event("aten::mm", 5e15)], True),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_a_run_may_pause_and_is_one(tmp_path, events, is_found):
    found = [one for one in judged(written(tmp_path, *events)) if one[0] == "a_trace_is_of_one_run"]
    assert bool(found) == is_found


def test_a_finding_of_one_trace_reads_as_what_it_found_and_not_as_its_code(tmp_path):
    events = [*[event("aten::mm", 5e12 + 10 * n) for n in range(6)], event("aten::mm", 5e15)]
    findings = inspect(read_recording(written(tmp_path, *events))).findings
    found = {(one.code.name, one.headline) for one in findings if one.check == "a_trace_is_of_one_run"}
    assert found == {("I113", "an event is far from the times of the others")}


# -- memory -------------------------------------------------------------------------------------------------------------


def memory(ts: float, total: int, number: int) -> Document:
    """Return an allocation of 64 bytes."""
    args = {
        "Bytes": 64,
        "Total Allocated": total,
        "Total Reserved": 0,
        "Device Type": 0,
        "Device Id": -1,
        "Ev Idx": number,
    }
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": args,
    }


def test_memory_may_be_allocated_between_operators(tmp_path):
    events = [event("aten::t", 0, args={"Ev Idx": 0}), memory(20, 64, 1), memory(30, 128, 2)]
    assert errors(written(tmp_path, *events, profile_memory=1)) == []


def test_memory_that_was_moved_is_found_by_its_number(tmp_path):
    events = [event("aten::t", 0, args={"Ev Idx": 0}), memory(20, 64, 1), memory(10, 64, 2), memory(30, 128, 3)]
    found = judged(written(tmp_path, *events, profile_memory=1))
    assert ("numbers_follow_threads_and_starts", "I106", "error") in found


NAMED = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}


@pytest.mark.parametrize(
    ("dims", "named", "is_found"),
    [
        ([[2, 3], []], True, True),
        ([[], []], True, True),
        # No bytes.
        ([[0], []], True, False),
        ([[4, 0, 2], []], True, False),
        # macOS may have run it on a device whose allocator reports nothing.
        ([[2, 3], []], False, False),
    ],
)
@pytest.mark.variants(1)
def test_memory_events_are_missed_only_where_bytes_were_allocated(tmp_path, dims, named, is_found):
    args = {"Input Dims": dims, "Ev Idx": 1}
    events = [event("aten::empty", 0, args={"Ev Idx": 0, "Input Dims": [[]]}), event("aten::empty_like", 10, args=args)]
    found = judged(written(tmp_path, *events, *[NAMED] * named, profile_memory=1))
    # With profile_all_threads torch writes the same header and records no memory.
    assert (("what_was_to_be_recorded_is_there", "I113", "warning") in found) == is_found


def in_python(document: Document) -> None:
    """Write memory as torch's exporter in Python does (2.13, _chrome_trace_export.py)."""
    last = max(one["ts"] for one in document["traceEvents"] if "ts" in one)
    for one in document["traceEvents"]:
        if one["name"] == "[memory]":
            del one["s"]
            one |= {"ph": "X", "dur": last - one["ts"]}
            one["args"]["finished"] = False
    for key in ("trace_id", "host_name"):
        document.pop(key, None)


def test_memory_of_the_exporter_in_python_is_that_of_the_other(edited):
    directory = edited(lambda document: None)
    as_usual = measured(directory)
    (path,) = directory.glob("*.json")
    document = json.loads(path.read_text())
    in_python(document)
    path.write_text(json.dumps(document))
    assert errors(directory) == []
    assert measured(directory) == as_usual
    assert any(key.startswith("peak_memory_bytes") for key in as_usual)


def test_memory_of_the_exporter_in_python_that_does_not_add_up_is_found(edited):
    def edit(document):
        in_python(document)
        [one for one in document["traceEvents"] if one["name"] == "[memory]"][5]["args"]["Bytes"] += 8

    assert ("allocated_memory_is_a_running_sum", "I107", "error") in judged(edited(edit))


def test_an_allocation_that_failed_may_be_of_any_size(tmp_path):
    args = {
        "Bytes": 4 * 10**15,
        "Total Allocated": 0,
        "Total Reserved": 0,
        "Device Type": 0,
        "Device Id": -1,
        "Ev Idx": 1,
    }
    failed = {**memory(10, 0, 1), "name": "[OutOfMemory]", "args": args}
    assert errors(written(tmp_path, event("aten::empty", 0, 20, args={"Ev Idx": 0}), failed)) == []


def test_an_annotation_may_have_any_name(tmp_path):
    named = event("[memory]", 0, category="user_annotation", args={"Ev Idx": 0})
    assert errors(written(tmp_path, named, event("aten::mm", 1, 2, args={"Ev Idx": 1}))) == []


# -- steps --------------------------------------------------------------------------------------------------------------

LAUNCH = {"category": "cuda_runtime", "args": {"correlation": 5}}


@pytest.mark.parametrize(
    ("events", "steps"),
    [
        # The loop ends inside the window: the last mark has no work.
        ([step(1, 0), event("aten::mm", 10), step(2, 100), event("aten::mm", 110), step(3, 200)], 2),
        # It calls step() first.
        ([step(0, 0), step(1, 100), event("aten::mm", 110), step(2, 200), event("aten::mm", 210)], 2),
        # A loader is asked once more behind the last batch.
        ([step(1, 0), event("aten::mm", 10), step(2, 100), event("next", 110, category="user_annotation")], 1),
        # Another thread works on.
        ([step(1, 0), event("aten::mm", 10), step(2, 100), event("aten::mm", 110, thread=2)], 1),
        # torch 1.12 keeps the handle of an annotation in a tensor.
        ([step(1, 0), event("aten::mm", 10), step(2, 100), event("aten::zeros", 110), event("aten::empty", 111, 1)], 1),
        # Steps whose work is on other threads, or is launched outside of operators.
        ([step(1, 0), event("aten::mm", 10, thread=2), step(2, 100), event("aten::mm", 110, thread=2)], 2),
        ([step(1, 0), event("aten::mm", 10), step(2, 100), event("cudaGraphLaunch", 110, **LAUNCH)], 2),
        # A step between others may be without work; it is named.
        ([step(1, 0), event("aten::mm", 10), step(2, 100), step(3, 200), event("aten::mm", 210)], 3),
    ],
)
@pytest.mark.variants(1)
def test_a_mark_at_an_end_of_the_window_without_work_is_no_step(tmp_path, events, steps):
    found = measured(written(tmp_path, *events))
    assert found["steps"] == steps
    if steps < 3:
        marked = sum(one["name"].startswith("ProfilerStep#") for one in events)
        for expected in {steps, marked}:
            said = [one for one in errors(tmp_path, f"steps={expected}") if "requested, but the trace marks" in one]
            assert bool(said) == (expected > steps)


def test_calls_are_counted_by_the_steps_that_ran(tmp_path):
    events = [one for n in range(4) for one in (step(n, 100 * n), event("aten::mm", 100 * n + 10))][:-1]
    found = measured(written(tmp_path, *events))
    assert (found["steps"], found["operator_calls[aten::mm]"], found["profiled_step_time"]) == (3, 1, 100)
    assert judged(tmp_path) == [("the_steps_asked_for_were_found", "C101", "note")]


@pytest.mark.parametrize(
    ("events", "severity"),
    [
        # The loop ended as the window began; only Python was profiled.
        ([step(1, 0) | {"args": {"Ev Idx": 0}}], "warning"),
        ([event("f", 0, category="python_function", args={"Ev Idx": 0})], "warning"),
        # Nothing says whether something was lost.
        ([event("f", 0, category="python_function")], "error"),
        ([], "error"),
    ],
)
@pytest.mark.variants(1)
def test_a_window_in_which_no_operator_ran_may_be_right(tmp_path, events, severity):
    assert ("something_was_recorded", "C103", severity) in judged(written(tmp_path, *events))


# -- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", ['"cat": "cpu_op", "name": "{}", "pid": 1,', '"cat": "cpu_op",\n  "name": "{}",\n  "pid": 1,']
)
@pytest.mark.parametrize("name", ['say "hi"', '"a", "b"', 'x"'])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_quotation_mark_that_kineto_did_not_escape_is_named(tmp_path, layout, name, is_packed):
    one = '{"ph": "X", ' + layout.replace("{}", name) + ' "tid": 1, "ts": 1, "dur": 1}'
    text = f'{{"schemaVersion": 1, "traceEvents": [{one}]}}'
    if is_packed:
        (tmp_path / "rank0.pt.trace.json.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (tmp_path / "rank0.pt.trace.json").write_text(text)
    (found,) = errors(tmp_path)
    assert "a quotation mark in a name is not escaped, as Kineto before mid-2026" in found


def test_other_json_that_is_broken_says_nothing_of_quotation_marks(tmp_path):
    text = json.dumps({"schemaVersion": 1, "traceEvents": [event("aten::mm", 0)]}).replace('"dur"', "dur")
    (tmp_path / "rank0.pt.trace.json").write_text(text)
    (found,) = errors(tmp_path)
    assert found.startswith("S101")
    assert "quotation" not in found


# -- real recordings of this machine's torch ----------------------------------------------------------------------------


def steps_cut_off(torch, out):
    model, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    handler = torch.profiler.tensorboard_trace_handler(out, worker_name="rank0")
    window = torch.profiler.schedule(wait=0, warmup=1, active=9)
    with recording(torch, schedule=window, on_trace_ready=handler) as profiler:
        for _ in range(4):
            model(x).sum().backward()
            profiler.step()


def storage(torch, out):
    x = torch.ones(3)
    with recording(torch) as profiler:
        kept = [torch.UntypedStorage(4096) for _ in range(5)]
        x.view(3).t()
    profiler.export_chrome_trace(f"{out}/rank0.pt.trace.json")
    del kept


def no_bytes(torch, out):
    with recording(torch) as profiler:
        for _ in range(5):
            torch.empty_like(torch.empty(0))
    profiler.export_chrome_trace(f"{out}/rank0.pt.trace.json")


def only_python(torch, out):
    with recording(torch, with_stack=True) as profiler:
        sorted(map(str, range(9)))
    profiler.export_chrome_trace(f"{out}/rank0.pt.trace.json")


def failed_allocation(torch, out):
    with recording(torch) as profiler:
        torch.ones(3).sum()
        with contextlib.suppress(RuntimeError):
            torch.empty(10**15)
    profiler.export_chrome_trace(f"{out}/rank0.pt.trace.json")


def recording(torch, **more):
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True, **more)


@pytest.mark.parametrize("record", [steps_cut_off, storage, no_bytes, only_python, failed_allocation])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.variants(1)
def test_a_real_recording_is_right(tmp_path, record):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    record(torch, str(tmp_path))
    assert errors(tmp_path) == []


@pytest.mark.parametrize("edit", [without("process_name", "process_labels"), repeated])
@pytest.mark.exhaustive
def test_real_traces_of_devices_are_right_on_other_systems(tmp_path, edit):
    places = sorted((corpus_place() / "gpu").glob("*/*.json.gz"))
    if not places:
        pytest.skip("the corpus is not here")
    for place in places[:3]:
        document = json.loads(gzip.decompress(place.read_bytes()))
        edit(document)
        (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(document))
        assert errors(tmp_path) == []
