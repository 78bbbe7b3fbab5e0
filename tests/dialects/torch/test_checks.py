"""Invariants of torch traces: silent on real ones, and each found when one thing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfguard.artifacts.table_definitions import TABLES
from perfguard.artifacts.tables import batch
from perfguard.contract import expectation, inspect
from perfguard.dialects.queries import definitions, named_texts
from perfguard.findings import Severity
from perfguard.measure import measure
from perfguard.recording import read_recording
from tests.conftest import recorded

OURS = {
    "operators_of_a_thread_are_nested",
    "the_external_id_of_an_operator_is_its_own",
    "every_flow_has_two_ends",
    "allocated_memory_is_a_running_sum",
    "what_was_to_be_recorded_is_there",
}
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def trace(copy_recording) -> Path:
    """Copy a small recording; return its trace alone, as a foreign directory has it."""
    (path,) = (copy_recording("torch-mlp") / "profiler").glob("*.json")
    return Path(path)


def found(path: Path, edit: Edit | None = None, *, expect: str = "") -> list[tuple[str, str, str]]:
    """Return check, code and severity of what our invariants find after an edit."""
    if edit is not None:
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))
    contract = inspect(read_recording(path.parent), expectation([expect]))
    return [(f.check, f.code.name, f.severity.value) for f in contract.findings if f.check in OURS]


def work(document: dict[str, Any], category: str = "cpu_op") -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("cat") == category]


def test_real_traces_are_clean(trace):
    assert found(trace) == []
    for place in recorded("torch-*"):
        assert [f for f in inspect(read_recording(place)).findings if f.check in OURS] == []


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
@pytest.mark.variants(1)
def test_a_flow_that_lost_an_end_is_found(trace, phase):
    def edit(document):
        document["traceEvents"].remove(next(e for e in work(document, "fwdbwd") if e["ph"] == phase))

    assert found(trace, edit) == [("every_flow_has_two_ends", "I110", "error")]


@pytest.mark.parametrize("phase", ["s", "f"])
@pytest.mark.variants(1)
def test_a_call_of_the_runtime_that_leads_nowhere_is_right(trace, phase):
    """Kineto ends a flow at every call, and begins one where a memset has no bytes."""

    def edit(document):
        document["traceEvents"].append({**work(document, "fwdbwd")[0], "ph": phase, "cat": "ac2g", "id": 99})

    assert found(trace, edit) == []


@pytest.mark.parametrize("change", ["lost", "twice", "negated", "total"])
@pytest.mark.variants(1)
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


def of_two_threads(document):
    """Number the memory events thread by thread, as torch does: every second one is of another thread."""
    memory = sorted(work(document, "cpu_instant_event"), key=lambda event: event["args"]["Ev Idx"])
    numbers = [event["args"]["Ev Idx"] for event in memory]
    for number, event in zip(numbers, [*memory[::2], *memory[1::2]], strict=True):
        event["args"]["Ev Idx"] = number
    return memory


def test_memory_of_several_threads_adds_up_by_its_times(trace):
    assert found(trace, of_two_threads) == []
    peaks = [one.value for one in measure(inspect(read_recording(trace.parent))) if one.metric == "peak_memory_bytes"]
    again = trace.parent / "again"
    again.mkdir()
    (again / trace.name).write_text(trace.read_text())
    document = json.loads(trace.read_text())
    for number, event in enumerate(sorted(work(document, "cpu_instant_event"), key=lambda event: event["ts"])):
        event["args"]["Ev Idx"] = 10**6 + number
    (again / trace.name).write_text(json.dumps(document))
    in_order = [one.value for one in measure(inspect(read_recording(again))) if one.metric == "peak_memory_bytes"]
    assert peaks == in_order


def test_memory_of_several_threads_that_does_not_add_up_is_found(trace):
    def edit(document):
        of_two_threads(document)[7]["args"]["Total Allocated"] += 512

    assert set(found(trace, edit)) == {("allocated_memory_is_a_running_sum", "I107", "error")}


def test_memory_of_a_device_that_does_not_add_up_is_a_warning(trace):
    def edit(document):
        for event in work(document, "cpu_instant_event"):
            event["args"] |= {"Device Type": 1, "Device Id": 0}
        work(document, "cpu_instant_event")[5]["args"]["Bytes"] += 512

    assert {severity for _, _, severity in found(trace, edit)} == {"warning"}


def test_memory_that_was_to_be_profiled_and_is_not_there_is_found(trace):
    def edit(document):
        document["traceEvents"] = [e for e in document["traceEvents"] if e["name"] != "[memory]"]

    # With profile_all_threads torch writes the same header and records no memory.
    assert found(trace, edit) == [("what_was_to_be_recorded_is_there", "I113", "warning")]
    assert found(trace, lambda document: document.pop("profile_memory")) == []


@pytest.mark.parametrize("expected", ["memory", "shapes"])
@pytest.mark.variants(1)
def test_what_is_expected_and_was_not_recorded_is_found_though_the_header_leaves_it_out(trace, expected):
    def edit(document):
        for option in ("profile_memory", "record_shapes"):
            document.pop(option, None)
        document["traceEvents"] = [e for e in document["traceEvents"] if e["name"] != "[memory]"]
        for event in work(document) if expected == "shapes" else ():
            event["args"].pop("Input Dims", None)

    assert found(trace, edit, expect=expected) == [("what_was_to_be_recorded_is_there", "I113", "error")]
    assert found(trace, edit, expect=f"no-{expected}") == []


def test_shapes_that_were_to_be_recorded_and_are_not_there_are_found(trace):
    def edit(document):
        for event in work(document):
            event["args"].pop("Input Dims", None)

    assert found(trace, edit) == [("what_was_to_be_recorded_is_there", "I113", "error")]
    assert found(trace, lambda document: document.pop("record_shapes")) == []


GROUP = {"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        # A rank lists the groups it is in, and counts all that were ever made.
        ({"rank": 1, "world_size": 4, "pg_count": 71, "pg_config": [GROUP, {**GROUP, "ranks": [0, 1], "pg_size": 2}]}, ""),
        ({"rank": 1, "world_size": 4, "pg_count": 1, "pg_config": [GROUP]}, ""),
        # Of the group that is the world no rank is listed.
        ({"rank": 1, "world_size": 4, "pg_count": 2,
          "pg_config": [{**GROUP, "ranks": []}, {**GROUP, "ranks": [0, 1], "pg_size": 2}]}, ""),
        ({"rank": 1, "world_size": 4, "pg_config": [{**GROUP, "ranks": [0, 1], "pg_size": 2}]},
         "no process group has all 4 ranks"),
        # A hashed name is not counted (use_local_synchronization), nor is one that the caller gave.
        ({"rank": 1, "world_size": 4, "pg_count": 1,
          "pg_config": [GROUP, {**GROUP, "pg_name": "4a2ad14e71"}, {**GROUP, "pg_name": "mine"}]}, ""),
        # Kineto's own, of a trace that was requested from outside: ranks are a text.
        ({"rank": 1, "world_size": 4, "pg_count": 1, "pg_config": [{**GROUP, "ranks": "[0, 1, ..., 3]"}]}, ""),
        # As HTA's documents advise to edit a trace.
        ({"rank": 1}, ""),
        (
            {"rank": 1, "world_size": 4, "pg_count": 1, "pg_config": [GROUP, GROUP]},
            "pg_count is 1, but 2 process groups with a number are listed",
        ),
        ({"rank": 4, "world_size": 4}, "rank is 4, but there are 4 ranks"),
        ({"world_size": 4}, "'rank' is a required property"),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_what_a_trace_says_of_its_groups(trace, told, expected):
    document = json.loads(trace.read_text())
    trace.write_text(json.dumps({**document, "distributedInfo": told}))
    errors = [one for one in inspect(read_recording(trace.parent)).findings if one.severity is Severity.ERROR]
    assert [one.message for one in errors] == ([expected] if expected else [])


def test_a_trace_with_the_categories_of_torch_1_8_is_measured(trace):
    def numbers():
        found = measure(inspect(read_recording(trace.parent)))
        return {one.key: one.value for one in found if one.metric in ("operator_calls", "steps")}

    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        for lost in ("External id", "Ev Idx", "Input type"):
            event.get("args", {}).pop(lost, None)
    trace.write_text(json.dumps(document))
    expected = numbers()
    for event in document["traceEvents"]:
        if event.get("cat") == "cpu_op" or event["name"].startswith("ProfilerStep#"):
            event["cat"] = "Operator"
    trace.write_text(json.dumps(document))
    assert numbers() == expected
    assert expected
    # What nobody calls a category is no operator.
    for event in document["traceEvents"]:
        event["cat"] = "Operators"
    trace.write_text(json.dumps(document))
    assert "C103" in {one.code.name for one in inspect(read_recording(trace.parent)).findings}


def test_a_trace_without_any_of_these_events_is_silent(trace):
    def edit(document):
        document["traceEvents"] = [e for e in document["traceEvents"] if e["ph"] == "M"]

    assert found(trace, edit) == []
    assert Severity.ERROR in {finding.severity for finding in inspect(read_recording(trace.parent)).findings}


@pytest.mark.parametrize(("start", "lasts"), [(9e15, 9e15), (-9e15, 9e15), (9e15, 0), (0, 9e15)])
@pytest.mark.variants(1)
def test_times_at_the_ends_of_what_a_clock_has_are_findings(trace, start, lasts):
    def edit(document):
        for event in work(document)[:40]:
            event |= {"ts": start, "dur": lasts}

    found(trace, edit)
    codes = {one.code.name for one in inspect(read_recording(trace.parent)).findings}
    assert "I113" in codes


@pytest.mark.parametrize(
    ("change", "is_odd"), [({}, False), ({7: 8}, True), ({0: 450_000}, True), ({449_999: -1}, True)]
)
@pytest.mark.variants(2)
def test_whether_numbers_are_lost_or_doubled_is_exact_in_a_large_trace(change, is_odd):
    numbers = np.random.default_rng(1).permutation(450_000)
    for number, other in change.items():
        numbers[numbers == number] = other
    columns = {name: np.zeros_like(numbers) for name in TABLES["spans"] if name != "cycle"}
    with batch(definitions(frozenset({"pt-torch"})), named_texts()) as tables:
        tables.add("spans", 3, **columns | {"event_index": numbers})
        tables.hand_over()
        assert tables.execute("from misnumbered") == [(3,)] * is_odd
