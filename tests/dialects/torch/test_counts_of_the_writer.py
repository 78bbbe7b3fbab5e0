"""What Kineto and torch write twice in a trace: silent where both agree, and found when one of the two is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.recording import read_recording

Document = dict[str, Any]
Found = set[tuple[str, str, str]]


@pytest.fixture
def after(copy_recording) -> Callable[..., Found]:
    """Return a function that edits the trace of a small recording, and returns check, code and severity of its findings."""

    def judge(edit: Callable[[Document], None] = lambda document: None) -> Found:
        (path,) = (copy_recording("torch-mlp") / "profiler").glob("*.json")
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))
        findings = inspect(read_recording(Path(path.parent))).findings
        return {(one.check, one.code.name, one.severity.value) for one in findings}

    return judge


def of(document: Document, category: str) -> list[Document]:
    return [one for one in document["traceEvents"] if one.get("cat") == category]


def named(document: Document, start: str) -> list[Document]:
    return [one for one in document["traceEvents"] if one["name"].startswith(start)]


def without(document: Document, start: str) -> None:
    document["traceEvents"] = [one for one in document["traceEvents"] if not one["name"].startswith(start)]


# -- numbers and External ids -------------------------------------------------------------------------------------------


def raise_external_id(document: Document) -> None:
    of(document, "cpu_op")[40]["args"]["External id"] = 70_001


def external_ids_in_blocks(document: Document) -> None:
    """Move the second half of the events to another block of 512, as where the first was full."""
    hosts = sorted(of(document, "cpu_op") + of(document, "user_annotation"), key=lambda one: one["args"]["Ev Idx"])
    half = hosts[len(hosts) // 2 :]
    for number, one in enumerate(half):
        one["args"]["External id"] = 100 * 512 + 1 + number


def lose_events(document: Document) -> None:
    """Older torch numbers nothing."""
    for one in document["traceEvents"]:
        one.get("args", {}).pop("Ev Idx", None)
    raise_external_id(document)


def test_an_external_id_that_does_not_follow_the_number_is_found(after):
    assert ("external_ids_follow_their_events", "I101", "error") in after(raise_external_id)


@pytest.mark.parametrize("edit", [external_ids_in_blocks, lose_events])
@pytest.mark.variants(1)
def test_external_ids_rise_in_blocks_and_only_where_events_are_numbered(after, edit):
    assert not [one for one in after(edit) if one[0] == "external_ids_follow_their_events"]


# -- steps --------------------------------------------------------------------------------------------------------------


def shorten_a_step(document: Document) -> None:
    named(document, "ProfilerStep#")[1]["dur"] /= 1000


def delay_a_step(document: Document) -> None:
    (mark, *_) = named(document, "ProfilerStep#")
    mark["ts"] += mark["dur"] / 2
    mark["dur"] /= 2


def mark_on_two_threads(document: Document) -> None:
    shorten_a_step(document)
    named(document, "ProfilerStep#")[0]["tid"] += 1


def keep_handles_in_tensors(document: Document) -> None:
    """Write what torch 1.12 does between two marks."""
    first = min(named(document, "ProfilerStep#"), key=lambda one: one["ts"])
    operator = of(document, "cpu_op")[0]
    document["traceEvents"].append({**operator, "name": "aten::zeros", "ts": first["ts"] - 3, "dur": 1, "args": {}})


def run_before_the_first_step(document: Document) -> None:
    first = min(named(document, "ProfilerStep#"), key=lambda one: one["ts"])
    operator = min(of(document, "cpu_op"), key=lambda one: one["dur"])
    operator["ts"] = first["ts"] - 5


def run_behind_the_last_step(document: Document) -> None:
    last = max(named(document, "ProfilerStep#"), key=lambda one: one["ts"])
    operator = min(of(document, "cpu_op"), key=lambda one: one["dur"])
    operator["ts"] = last["ts"] + last["dur"] + 5


def mark_one_step(document: Document) -> None:
    """Leave one mark, drawn right before the loop ends."""
    marks = sorted(named(document, "ProfilerStep#"), key=lambda one: one["ts"])
    document["traceEvents"] = [one for one in document["traceEvents"] if one not in marks[:-1]]


@pytest.mark.parametrize("edit", [run_before_the_first_step, run_behind_the_last_step])
@pytest.mark.variants(1)
def test_an_operator_outside_of_the_steps_is_found(after, edit):
    assert ("operators_run_in_steps", "I112", "error") in after(edit)


@pytest.mark.parametrize(
    "edit",
    [
        mark_on_two_threads,
        mark_one_step,
        keep_handles_in_tensors,
        # A part of the loop is marked: much is outside.
        shorten_a_step,
        delay_a_step,
        lambda document: without(document, "ProfilerStep#"),
    ],
)
@pytest.mark.variants(1)
def test_what_may_run_outside_of_the_steps_is_right(after, edit):
    assert not [one for one in after(edit) if one[0] == "operators_run_in_steps"]


# -- memory -------------------------------------------------------------------------------------------------------------


def pairs(document: Document) -> list[tuple[Document, Document]]:
    """Return allocations with their releases."""
    found, last = [], {}
    for one in sorted(named(document, "[memory]"), key=lambda one: (one["ts"], one["args"]["Ev Idx"])):
        address = one["args"]["Addr"]
        if one["args"]["Bytes"] > 0:
            last[address] = one
        elif address in last:
            found.append((last.pop(address), one))
    return found


def release_more(count: int, device: int = 0) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for one in named(document, "[memory]"):
            one["args"]["Device Type"] = device
        for _, release in pairs(document)[:count]:
            release["args"]["Bytes"] -= 64

    return edit


def release_what_was_allocated_before(document: Document) -> None:
    """Lose the allocation: it was in an earlier window."""
    allocation, _ = pairs(document)[3]
    document["traceEvents"].remove(allocation)


@pytest.mark.parametrize(
    ("count", "device", "severity"),
    [
        (1, 0, "error"),
        # A thread that is not recorded may have released and allocated there.
        (1, 1, "warning"),
    ],
)
@pytest.mark.variants(1)
def test_a_block_that_is_released_in_another_size_is_found(after, count, device, severity):
    found = after(release_more(count, device))
    assert ("a_release_has_the_size_of_its_allocation", "I107", severity) in found


def test_a_block_of_an_earlier_window_may_be_released(after):
    found = after(release_what_was_allocated_before)
    assert not [one for one in found if one[0] == "a_release_has_the_size_of_its_allocation"]


# -- the window ---------------------------------------------------------------------------------------------------------


def twice(start: str) -> Callable[[Document], None]:
    return lambda document: document["traceEvents"].append(named(document, start)[0])


def gone(start: str) -> Callable[[Document], None]:
    return lambda document: without(document, start)


def moved(start: str, by: float) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        named(document, start)[0]["ts"] += by

    return edit


def renamed_to(start: str, ending: str) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        named(document, start)[0]["name"] += ending

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        *(
            change(start)
            for change in (twice, gone)
            for start in ("Iteration Start", "Record Window End", "PyTorch Profiler")
        ),
        *(renamed_to(start, "x") for start in ("Iteration Start", "PyTorch Profiler")),
        moved("Iteration Start", 10),
        moved("PyTorch Profiler", -10),
        moved("Record Window End", -(10**6)),
        lambda document: document["traceEvents"].__delitem__(slice(len(document["traceEvents"]) // 2, None)),
    ],
)
@pytest.mark.variants(1)
def test_a_window_without_one_of_its_marks_is_found(after, edit):
    assert ("the_window_is_marked_once", "I113", "error") in after(edit)


def several_spans(document: Document) -> None:
    """Draw two spans, as a trace that was requested from outside does."""
    for start in ("Iteration Start", "PyTorch Profiler"):
        (one,) = named(document, start)
        document["traceEvents"].append({**one, "ts": one["ts"] + 5})


def no_span(document: Document) -> None:
    """Draw no span, as where no host was recorded."""
    for start in ("Iteration Start", "PyTorch Profiler"):
        without(document, start)


@pytest.mark.parametrize("edit", [several_spans, no_span])
@pytest.mark.variants(1)
def test_a_window_of_several_spans_or_none_is_right(after, edit):
    assert not [one for one in after(edit) if one[0] == "the_window_is_marked_once"]


# -- autograd ------------------------------------------------------------------------------------------------------------


def flows(document: Document, phase: str) -> list[Document]:
    return [one for one in of(document, "fwdbwd") if one["ph"] == phase]


def exchange_two_ends(document: Document) -> None:
    one, two = flows(document, "f")[:2]
    one["id"], two["id"] = two["id"], one["id"]


def lose_a_flow(number: int) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        last = sorted({one["id"] for one in of(document, "fwdbwd")})[number]
        events = document["traceEvents"]
        document["traceEvents"] = [one for one in events if one.get("cat") != "fwdbwd" or one["id"] != last]

    return edit


def change_a_sequence(document: Document) -> None:
    backward = [one for one in of(document, "cpu_op") if one["args"].get("Fwd thread id")]
    backward[3]["args"]["Sequence number"] += 4000


def lose_all_flows(document: Document) -> None:
    """Draw none, as torch before 2.0."""
    document["traceEvents"] = [one for one in document["traceEvents"] if one.get("cat") != "fwdbwd"]


def let_threads_share_sequences(document: Document) -> None:
    """Number operators of another thread in the same way: which of both a backward operator is of is not known."""
    operator = next(one for one in of(document, "cpu_op") if one["args"].get("Fwd thread id") == 0)
    document["traceEvents"].append(
        {**operator, "tid": operator["tid"] + 3, "args": {**operator["args"], "Ev Idx": 10**6}}
    )
    lose_a_flow(-1)(document)


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (exchange_two_ends, "flows_connect_one_sequence"),
        (change_a_sequence, "flows_connect_one_sequence"),
        (lose_a_flow(0), "flows_are_numbered_through"),
        (lose_a_flow(2), "flows_are_numbered_through"),
        (lose_a_flow(-1), "a_backward_operator_has_its_flow"),
    ],
)
@pytest.mark.variants(1)
def test_flows_between_forward_and_backward_are_those_of_autograd(after, edit, check):
    assert (check, "I110", "error") in after(edit)


@pytest.mark.parametrize("edit", [lose_all_flows, let_threads_share_sequences])
@pytest.mark.variants(1)
def test_where_flows_are_not_known_none_is_missed(after, edit):
    assert not [one for one in after(edit) if one[0] == "a_backward_operator_has_its_flow"]


def number_calls(*numbers: int) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for one, number in zip(of(document, "cpu_op"), numbers, strict=False):
            one["args"]["Record function id"] = number

    return edit


def test_two_calls_with_one_number_are_found(after):
    assert ("calls_have_a_number_of_their_own", "I114", "error") in after(number_calls(5, 6, 5))


def test_calls_without_a_number_are_right(after):
    assert not [one for one in after(number_calls(5, 0, 0, 6)) if one[2] == "error"]


# -- Python --------------------------------------------------------------------------------------------------------------


def python_functions(tmp_path: Path, **changed: Any) -> Found:
    """Judge a trace with five Python functions; `changed` names one by its number and what is different."""
    rows = [
        # Python id, caller, thread, start, duration
        (1, None, 1, 10, 80, "train.py(1): main"),
        (2, 1, 1, 20, 30, "nn.Module: Linear_0"),
        (3, 2, 1, 25, 10, "<built-in function linear>"),
        (4, 1, 1, 60, 10, "nn.Module: Linear_1"),
        # Of another thread, which runs the backward pass.
        (5, 1, 2, 95, 3, "hooks.py(3): hook"),
    ]
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 1,
            "tid": 1,
            "ts": 26,
            "dur": 5,
            "args": {"Ev Idx": 0, "External id": 1},
        }
    ]
    for number, caller, thread, start, last, name in rows:
        args: Document = {"Python id": number, "Python parent id": caller, "Ev Idx": number}
        if name.startswith("nn.Module: "):
            args["Python module id"] = int(name[-1])
        one = {
            "ph": "X",
            "cat": "python_function",
            "name": name,
            "pid": 1,
            "tid": thread,
            "ts": start,
            "dur": last,
            "args": args,
        }
        for key, value in changed.get(f"of_{number}", {}).items():
            (args if key in args or key.startswith("Python") else one)[key] = value
        events.append(one)
    events.append({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 200})
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return {(one.check, one.code.name, one.severity.value) for one in inspect(read_recording(tmp_path)).findings}


def test_python_functions_are_right_as_torch_writes_them(tmp_path):
    assert not [one for one in python_functions(tmp_path) if one[2] != "info"]


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"of_3": {"Python id": 7}}, ("python_ids_follow_their_events", "I101", "error")),
        ({"of_3": {"Python id": 4}}, ("python_ids_follow_their_events", "I101", "error")),
        ({"of_3": {"Python parent id": 9}}, ("python_functions_have_their_caller", "I115", "error")),
        # Its caller had ended, or begins behind it.
        ({"of_4": {"Python parent id": 2}}, ("python_functions_have_their_caller", "I115", "error")),
        ({"of_2": {"Python parent id": 4}}, ("python_functions_have_their_caller", "I115", "error")),
        ({"of_2": {"Python module id": 1}}, ("modules_are_named_by_their_number", "I101", "error")),
        ({"of_3": {"Python module id": 0}}, ("modules_are_named_by_their_number", "I101", "error")),
        ({"of_4": {"name": "nn.Module: Linear_1x"}}, ("modules_are_named_by_their_number", "I101", "error")),
    ],
)
@pytest.mark.variants(1)
def test_a_python_function_that_was_changed_is_found(tmp_path, changed, check):
    assert check in python_functions(tmp_path, **changed)


# -- the file ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written", "is_found"),
    [
        ("host_1.1795254636725133111", "log/host_1.1795254636725133111", False),
        ("host_1.1795254636725133111", "log/host_1.1795254636744253766", True),
        # Given another name by hand, or packed.
        ("rank0", "log/host_1.1795254636744253766", False),
        ("host_1.1795254636725133111", "/tmp/tmpf87z0qdp", False),
    ],
)
@pytest.mark.variants(1)
def test_a_file_with_the_trace_of_another_is_found(tmp_path, name, written, is_found):
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 26, "dur": 5, "args": {}}]
    document = {"schemaVersion": 1, "traceEvents": events, "traceName": f"{written}.pt.trace.json"}
    (tmp_path / f"{name}.pt.trace.json").write_text(json.dumps(document))
    found = {(one.check, one.code.name, one.severity.value) for one in inspect(read_recording(tmp_path)).findings}
    assert (("a_trace_is_in_the_file_it_was_written_to", "I113", "error") in found) == is_found


# -- lanes, memory, inputs, times ------------------------------------------------------------------------------------------


def lane_of(name: str) -> Callable[[Document], Document]:
    """Return a function that finds the first metadata event of a name, of a process with a number."""
    return lambda document: next(one for one in named(document, name) if isinstance(one["pid"], int))


def without_lane(name: str) -> Callable[[Document], None]:
    """Return an edit that removes the metadata events of a name, except of processes that are no number."""

    def edit(document: Document) -> None:
        events = document["traceEvents"]
        document["traceEvents"] = [one for one in events if one["name"] != name or not isinstance(one["pid"], int)]
        # One of another lane stays.
        document["traceEvents"].append({**lane_of(name)({"traceEvents": events}), "pid": 99})

    return edit


def move_lane(name: str, key: str) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        lane_of(name)(document)[key] += 1

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        without_lane("thread_name"),
        without_lane("thread_sort_index"),
        without_lane("process_labels"),
        move_lane("thread_name", "tid"),
        move_lane("thread_name", "pid"),
        move_lane("thread_sort_index", "tid"),
        lambda document: lane_of("thread_name")(document)["args"].update(name="thread 77 (python)"),
    ],
)
@pytest.mark.variants(1)
def test_a_lane_with_half_of_its_metadata_is_found(after, edit):
    assert ("lanes_have_names_and_places", "I103", "error") in after(edit)


def no_places(document: Document) -> None:
    """Write what torch 1.8 did."""
    for name in ("thread_sort_index", "process_sort_index"):
        without(document, name)


def no_names_of_processes(document: Document) -> None:
    """Write what Kineto does without /proc."""
    for name in ("process_name", "process_labels"):
        without(document, name)


def lanes_twice(document: Document) -> None:
    """Repeat them, as MTIA's traces do."""
    document["traceEvents"] += named(document, "thread_") + named(document, "process_")


@pytest.mark.parametrize("edit", [no_places, no_names_of_processes, lanes_twice])
@pytest.mark.variants(1)
def test_lanes_may_be_without_places_and_processes_without_names(after, edit):
    assert not [one for one in after(edit) if one[2] == "error"]


def test_a_label_of_an_unnamed_process_is_named_in_the_message(after):
    label = {"ph": "M", "name": "process_labels", "pid": 5, "tid": 0, "ts": 0, "args": {"labels": "GPU 5"}}
    assert ("processes_are_named_together", "I103", "error") in after(
        lambda document: document["traceEvents"].append(label)
    )


def memory(**changes: Any) -> Callable[[Document], None]:
    """Return an edit of the fifth memory event; the others are of the same device."""

    def edit(document: Document) -> None:
        events = named(document, "[memory]")
        for one in events:
            one["args"] |= {key: value for key, value in changes.items() if key == "Device Type"}
            if changes.get("Device Type") == 1:
                one["args"] |= {"Device Id": 0, "Total Reserved": 2**40, "Addr": one["args"]["Addr"] * 16}
        allocations = [one for one in events if one["args"]["Bytes"] > 0]
        allocations[5]["args"] |= changes

    return edit


CANNOT_BE = ("memory_is_where_and_what_it_can_be", "I107", "error")


@pytest.mark.parametrize(
    "changes",
    [
        {"Addr": 94_134_243_940_549},
        {"Total Allocated": 1},
        {"Device Type": 1, "Total Reserved": 1},
        {"Device Type": 1, "Addr": 94_134_243_940_560},
    ],
)
@pytest.mark.variants(1)
def test_memory_that_cannot_be_is_found(after, changes):
    assert CANNOT_BE in after(memory(**changes))


@pytest.mark.parametrize(
    "changes", [{"Addr": 94_134_243_940_560}, {"Device Type": 1}, {"Device Type": 1, "Total Reserved": 0}]
)
@pytest.mark.variants(1)
def test_memory_that_can_be_is_right(after, changes):
    assert CANNOT_BE not in after(memory(**changes))


def test_memory_of_another_category_is_found(after):
    def edit(document: Document) -> None:
        named(document, "[memory]")[3]["cat"] = "cpu_instant_eventx"

    assert ("memory_events_are_of_their_category", "S103", "error") in after(edit)


def lower_a_sequence(document: Document) -> None:
    forward = [one for one in of(document, "cpu_op") if one["args"].get("Fwd thread id") == 0]
    max(forward, key=lambda one: one["ts"])["args"]["Sequence number"] = 0


def one_sequence(document: Document) -> None:
    for one in of(document, "cpu_op"):
        if "Sequence number" in one["args"]:
            one["args"]["Sequence number"] = 7


def test_a_sequence_number_that_falls_is_found(after):
    assert ("sequences_rise_with_the_forward_pass", "I106", "error") in after(lower_a_sequence)


def test_a_sequence_number_of_all_is_found(after):
    assert ("a_sequence_has_one_flow", "I114", "error") in after(one_sequence)


def inputs(name: str, change: Callable[[list[Any]], Any]) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        found = next(
            one["args"]
            for one in of(document, "cpu_op")
            if one["args"].get("Input Dims", [[]])[0] and "Scalar" in one["args"]["Input type"]
        )
        found[name] = change(found[name])

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        inputs("Input Dims", lambda found: found[1:]),
        inputs("Input type", lambda found: found[1:]),
        inputs("Input type", lambda found: ["", *found[1:]]),
        inputs("Input Dims", lambda found: [[-size for size in found[0]], *found[1:]]),
        inputs("Input Dims", lambda found: [[2, 3]] * len(found)),
    ],
)
@pytest.mark.variants(1)
def test_inputs_that_are_described_in_two_ways_are_found(after, edit):
    assert ("inputs_are_described_one_by_one", "S103", "error") in after(edit)


def test_a_base_of_1970_is_found(after):
    check = ("times_are_of_this_century", "I113", "error")
    assert check in after(lambda document: document.update(baseTimeNanoseconds=1_790_857_026_000_000))


def test_a_trace_without_a_base_counts_from_anywhere(after):
    found = after(lambda document: document.pop("baseTimeNanoseconds"))
    assert not [one for one in found if one[0] == "times_are_of_this_century"]


@pytest.mark.parametrize("caller", [None, 5])
@pytest.mark.variants(1)
def test_a_python_function_inside_of_another_has_its_caller_on_its_thread(tmp_path, caller):
    found = python_functions(tmp_path, of_3={"Python parent id": caller})
    assert ("python_functions_have_their_caller", "I115", "error") in found


def test_a_python_function_that_outlasts_its_caller_is_a_note(tmp_path):
    found = python_functions(tmp_path, of_3={"dur": 40})
    assert [one for one in found if one[0] == "python_functions_end_with_their_caller"] == [
        ("python_functions_end_with_their_caller", "I112", "note")
    ]


def test_the_recording_is_right_as_it_is(after):
    assert not [one for one in after() if one[2] in ("error", "warning")]
