"""Invariants of torch traces: silent on real ones, and each found when one thing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import read_recording

OURS = {
    "operators_of_a_thread_are_nested",
    "the_external_id_of_an_operator_is_its_own",
    "every_flow_has_two_ends",
    "allocated_memory_is_a_running_sum",
    "what_the_header_says_was_recorded_is_there",
}
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def trace(copy_recording) -> Path:
    """Copy a small recording; return its trace alone, as a foreign directory has it."""
    (path,) = (copy_recording("torch-mlp") / "profiler").glob("*.json")
    return Path(path)


def found(path: Path, edit: Edit | None = None) -> list[tuple[str, str, str]]:
    """Return check, code and severity of what our invariants find after an edit."""
    if edit is not None:
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))
    contract = inspect(read_recording(path.parent))
    return [(f.check, f.code.name, f.severity.value) for f in contract.findings if f.check in OURS]


def work(document: dict[str, Any], category: str = "cpu_op") -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("cat") == category]


def test_real_traces_are_clean(corpus, trace):
    assert found(trace) == []
    for name in ("torch-2.13-cpu-torchrun-2ranks", "torch-2.13-cpu-torchrun-2ranks-gz"):
        assert [f for f in inspect(read_recording(corpus / name)).findings if f.check in OURS] == []


def test_an_operator_that_outlasts_its_parent_is_found(trace):
    def edit(document):
        operators = sorted(work(document), key=lambda event: event["ts"])
        parent, child = next(
            (a, b) for a, b in pairwise(operators) if a["tid"] == b["tid"] and b["ts"] < a["ts"] + a["dur"]
        )
        child["dur"] = parent["dur"] + 5

    assert ("operators_of_a_thread_are_nested", "I112", "error") in found(trace, edit)


def test_an_operator_that_reaches_out_of_its_step_is_found(trace):
    def edit(document):
        (step, *_) = [e for e in document["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        inside = [e for e in work(document) if step["ts"] <= e["ts"] <= step["ts"] + step["dur"]]
        last = max(inside, key=lambda event: (event["ts"], -event["dur"]))
        last["dur"] = step["ts"] + step["dur"] - last["ts"] + 10

    assert ("operators_of_a_thread_are_nested", "I112", "error") in found(trace, edit)


def test_times_to_the_whole_microsecond_are_no_overlap(trace):
    def edit(document):
        for event in document["traceEvents"]:
            for key in ("ts", "dur"):
                if key in event:
                    event[key] = int(event[key])

    assert found(trace, edit) == []


def test_an_operator_that_is_there_twice_is_found(trace):
    def edit(document):
        document["traceEvents"].append(work(document)[3])

    assert ("the_external_id_of_an_operator_is_its_own", "I114", "error") in found(trace, edit)


def test_an_external_id_of_two_operators_is_found(trace):
    def edit(document):
        operators = work(document)
        operators[1]["args"]["External id"] = operators[0]["args"]["External id"]

    assert found(trace, edit) == [("the_external_id_of_an_operator_is_its_own", "I114", "error")]


@pytest.mark.parametrize("phase", ["s", "f"])
def test_a_flow_that_lost_an_end_is_found(trace, phase):
    def edit(document):
        document["traceEvents"].remove(next(e for e in work(document, "fwdbwd") if e["ph"] == phase))

    assert found(trace, edit) == [("every_flow_has_two_ends", "I110", "error")]


def test_a_flow_to_a_device_that_lost_an_end_is_a_warning(trace):
    def edit(document):
        document["traceEvents"].append({**work(document, "fwdbwd")[0], "ph": "s", "cat": "ac2g", "id": 99})

    assert found(trace, edit) == [("every_flow_has_two_ends", "I110", "warning")]


@pytest.mark.parametrize("change", ["lost", "twice", "negated", "total"])
def test_memory_that_does_not_add_up_is_found(trace, change):
    def edit(document):
        memory = sorted(work(document, "cpu_instant_event"), key=lambda event: event["args"]["Ev Idx"])
        chosen = memory[len(memory) // 2]
        if change == "lost":
            document["traceEvents"].remove(chosen)
        elif change == "twice":
            document["traceEvents"].append(chosen)
        elif change == "negated":
            chosen["args"]["Bytes"] *= -1
        else:
            chosen["args"]["Total Allocated"] += 512

    checks = found(trace, edit)
    assert checks
    assert set(checks) == {("allocated_memory_is_a_running_sum", "I107", "error")}


def test_memory_of_a_device_that_does_not_add_up_is_a_warning(trace):
    def edit(document):
        for event in work(document, "cpu_instant_event"):
            event["args"] |= {"Device Type": 1, "Device Id": 0}
        work(document, "cpu_instant_event")[5]["args"]["Bytes"] += 512

    assert {severity for _, _, severity in found(trace, edit)} == {"warning"}


def test_memory_that_was_to_be_profiled_and_is_not_there_is_found(trace):
    def edit(document):
        document["traceEvents"] = [e for e in document["traceEvents"] if e["name"] != "[memory]"]

    assert found(trace, edit) == [("what_the_header_says_was_recorded_is_there", "I113", "error")]
    assert found(trace, lambda document: document.pop("profile_memory")) == []


def test_shapes_that_were_to_be_recorded_and_are_not_there_are_found(trace):
    def edit(document):
        for event in work(document):
            event["args"].pop("Input Dims", None)

    assert found(trace, edit) == [("what_the_header_says_was_recorded_is_there", "I113", "error")]
    assert found(trace, lambda document: document.pop("record_shapes")) == []


def test_a_trace_without_any_of_these_events_is_silent(trace):
    def edit(document):
        document["traceEvents"] = [e for e in document["traceEvents"] if e["ph"] == "M"]

    assert found(trace, edit) == []
    assert Severity.ERROR in {finding.severity for finding in inspect(read_recording(trace.parent)).findings}
