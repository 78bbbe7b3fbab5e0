"""Executions: steps, self times, shapes and types of what ran, whatever dialect wrote it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.contract import Contract, inspect
from perfguard.contract.executions import infer_steps, self_times, step_of, unquoted
from perfguard.recording import Recording, read_recording

# -- step_of ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "edges", "steps"),
    [
        ([], [], []),
        ([5], [], [None]),
        ([9, 10, 15, 20, 21], [(10, 20)], [None, 0, 0, 0, None]),
        ([20, 25, 30, 31], [(10, 20), (30, 40)], [0, None, 1, 1]),
        ([20], [(10, 20), (20, 30)], [1]),
        ([40, 10], [(10, 20), (30, 40)], [1, 0]),
    ],
)
def test_the_step_of_a_time(times, edges, steps):
    assert step_of(times, edges) == steps


@given(gaps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=5), times=st.lists(st.integers(-2, 60)))
def test_the_step_of_a_time_is_the_one_whose_edges_hold_it(gaps, times):
    edges, now = [], 0
    for gap, length in gaps:
        edges.append((now + gap, now + gap + length))
        now += gap + length
    holding = [[i for i, (start, end) in enumerate(edges) if start <= time <= end] for time in times]
    assert step_of(times, edges) == [found[0] if found else None for found in holding]


# -- infer_steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "steps"),
    [
        ({}, None),
        ({"a": 1, "b": 1}, None),
        ({"a": 5}, 5),
        ({"a": 3, "b": 3}, 3),
        ({"a": 3, "b": 6, "c": 9}, 3),
        ({"a": 6, "b": 6, "c": 12}, 6),
        ({"a": 3, "b": 3, "c": 3, "d": 4, "e": 4}, 3),
        ({"a": 3, "b": 3, "once": 1}, 3),
        ({"a": 2, "b": 3, "c": 5, "d": 7}, None),
        ({"a": 2, "b": 3, "c": 1}, None),
    ],
)
def test_the_number_of_steps_inferred_from_counts(counts, steps):
    assert infer_steps(Counter(counts)) == steps


@given(steps=st.integers(2, 30), each=st.lists(st.integers(1, 9), max_size=8))
def test_whole_steps_are_inferred_where_one_operator_ran_once_a_step(steps, each):
    counts = Counter({"once": steps, **{str(i): steps * one for i, one in enumerate(each)}})
    assert infer_steps(counts) == steps


@given(steps=st.integers(3, 30), whole=st.integers(1, 6), leaked=st.integers(0, 6))
def test_a_leaked_tail_does_not_change_the_steps_inferred(steps, whole, leaked):
    leaked = min(leaked, whole)
    counts = Counter({f"w{i}": steps for i in range(whole + 1)} | {f"l{i}": steps + 1 for i in range(leaked)})
    assert infer_steps(counts) == steps


@pytest.mark.usefixtures("must_not_hang")
def test_the_steps_of_large_counts_are_inferred_without_trying_every_number():
    assert infer_steps(Counter({"a": 10**12, "b": 2 * 10**12})) == 10**12


# -- self_times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "own"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("t", 0, 10)], [10], id="one"),
        pytest.param([("t", 0, 10), ("t", 2, 3), ("t", 5, 5)], [2, 3, 5], id="two children, one to the end"),
        pytest.param([("t", 0, 10), ("t", 0, 10)], [0, 10], id="a child as long as its parent"),
        pytest.param([("t", 0, 10), ("t", 1, 8), ("t", 2, 3)], [2, 5, 3], id="a grandchild"),
        pytest.param([("t", 0, 10), ("u", 2, 3)], [10, 3], id="another thread"),
        pytest.param([("t", 0, 10), ("t", 10, 5)], [10, 5], id="a neighbour that touches"),
        pytest.param([("t", 0, 10), ("t", 5, 10)], [10, 10], id="an overlap is no child"),
        pytest.param([("t", 0, 10), ("t", 0, 0), ("t", 10, 0)], [10, 0, 0], id="events without duration"),
        pytest.param([("t", 0, 4), ("t", 4, 0), ("t", 4, 4), ("t", 5, 1)], [4, 0, 3, 1], id="an empty one between"),
    ],
)
def test_the_self_times_of_events(events, own):
    assert self_times(*map(list, zip(*events, strict=True))) == own if events else self_times([], [], []) == []


TREES = st.recursive(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.just(())),
    lambda inner: st.tuples(st.integers(0, 3), st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def nested_events(trees: Any, now: int, track: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield (track, start, duration, own time) of every event of a row of trees that begins at `now`, parents first."""
    for gap, tail, children in trees:
        start = now + gap
        inside = list(nested_events(children, start, track))
        end = max([start, *(begin + duration for _, begin, duration, _ in inside)]) + tail
        direct, at = 0, start
        for _, begin, duration, _ in inside:
            if begin >= at and duration:  # the next one behind, not inside, the last direct child
                direct, at = direct + duration, begin + duration
        yield track, start, end - start, end - start - direct
        yield from inside
        now = end


@given(st.dictionaries(st.sampled_from("tu"), st.lists(TREES, max_size=3), max_size=2))
def test_self_times_of_nested_events_are_durations_without_direct_children(tracks):
    events = [event for track, trees in tracks.items() for event in nested_events(trees, 0, track)]
    events.sort(key=lambda event: (event[1], -event[2]))
    found = self_times([e[0] for e in events], [e[1] for e in events], [e[2] for e in events])
    assert found == [e[3] for e in events]


@given(st.lists(TREES, max_size=4))
def test_self_times_of_one_thread_add_up_to_the_time_it_was_busy(trees):
    events = sorted(nested_events(trees, 0, "t"), key=lambda event: (event[1], -event[2]))
    busy = {tick for _, start, duration, _ in events for tick in range(start, start + duration)}
    assert sum(self_times([e[0] for e in events], [e[1] for e in events], [e[2] for e in events])) == len(busy)


# -- texts -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(), max_size=4), st.booleans())
def test_raw_json_strings_lose_their_quotes_and_escapes(texts, ascii_only):
    raw = pl.DataFrame({"a": pl.Series([json.dumps(t, ensure_ascii=ascii_only) for t in texts], dtype=pl.String)})
    assert raw.select(unquoted("a"))["a"].to_list() == texts


# -- a trace of torch ------------------------------------------------------------------------------------------------


def event(name: str, start: float, duration: float, *, cat: str = "cpu_op", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, **more}


def step(number: int, start: float, duration: float) -> dict[str, Any]:
    return event(f"ProfilerStep#{number}", start, duration, cat="user_annotation")


def judged(directory: Path, *events: dict[str, Any]) -> Contract:
    trace = {"schemaVersion": 1, "traceEvents": list(events)}
    (directory / "w.pt.trace.json").write_text(json.dumps(trace), encoding="utf-8")
    return inspect(Recording(directory=directory))


def executed(directory: Path, *events: dict[str, Any]) -> list[dict[str, Any]]:
    (cycle,) = judged(directory, *events).cycles
    assert cycle.executions is not None
    return cycle.executions.frame.to_dicts()


def test_a_torch_trace_becomes_executions_with_steps_self_times_and_shapes(tmp_path):
    shapes = {"Input Dims": [[4, 8], [], [2]], "Input type": ["float", "Scalar", "long int"]}
    rows = executed(
        tmp_path,
        step(7, 100, 50),
        step(8, 160, 50),
        event("aten::linear", 110.5, 20.25, args=shapes),
        event("aten::mm", 112, 10),
        event("aten::linear", 170, 30, args=shapes),
        event("aten::late", 155, 1),
        event("a python call", 112, 3, cat="python_function"),
    )
    text = "float[4, 8];Scalar[];long int[2]"
    assert [tuple(row.values()) for row in rows] == [
        ("aten::linear", "aten::linear", 0, 110_500, 20_250, 10_250, text),
        ("aten::mm", "aten::mm", 0, 112_000, 10_000, 10_000, None),
        ("aten::late", "aten::late", None, 155_000, 1_000, 1_000, None),
        ("aten::linear", "aten::linear", 1, 170_000, 30_000, 30_000, text),
    ]


def test_the_steps_of_a_torch_trace_are_its_marks_in_the_order_of_time(tmp_path):
    (cycle,) = judged(tmp_path, step(8, 160, 50), step(7, 100, 50), event("aten::mm", 112, 10)).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step) == (2, True)
    assert executions.step_numbers == (7, 8)
    assert executions.edges_ns == ((100_000, 150_000), (160_000, 210_000))


def test_a_torch_trace_without_marks_has_no_steps(tmp_path):
    (cycle,) = judged(tmp_path, event("aten::mm", 112, 10)).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step, executions.step_numbers) == (None, False, ())


@pytest.mark.parametrize("name", ["ProfilerStep#", "ProfilerStep#1x", "xProfilerStep#1", "profilerstep#1"])
def test_only_profiler_marks_are_steps(tmp_path, name):
    mark = event(name, 0, 5, cat="user_annotation")
    (cycle,) = judged(tmp_path, mark, event("aten::mm", 1, 2)).cycles
    assert cycle.executions is not None
    assert cycle.executions.steps is None


@pytest.mark.parametrize("category", ["cpu_op", "kernel", "gpu_memcpy", "gpu_memset"])
def test_host_operators_and_device_work_are_executions(tmp_path, category):
    assert [row["name"] for row in executed(tmp_path, event("x", 1, 2, cat=category))] == ["x"]


@pytest.mark.parametrize("category", ["user_annotation", "python_function", "cuda_runtime", "ac2g", "Trace"])
def test_other_categories_are_no_executions(tmp_path, category):
    assert executed(tmp_path, event("x", 1, 2, cat=category), event("y", 1, 2))[0]["name"] == "y"


def test_one_stream_number_on_two_devices_is_two_tracks(tmp_path):
    first = event("long", 0, 10, cat="kernel", pid=0, tid=7)
    second = event("short", 2, 3, cat="kernel", pid=1, tid=7)
    assert [row["self_ns"] for row in executed(tmp_path, first, second)] == [10_000, 3_000]


@pytest.mark.parametrize(
    ("arguments", "shapes"),
    [
        ({}, None),
        ({"Input Dims": []}, ""),
        ({"Input Dims": [[2, 3]]}, "[2, 3]"),
        ({"Input Dims": [[], [2]], "Input type": ["", "float"]}, "-;float[2]"),
        ({"Input Dims": [[[2], [3]]], "Input type": ["TensorList"]}, "TensorList[[2], [3]]"),
        ({"Input Dims": [[]], "Input type": ["double"]}, "double[]"),
    ],
)
def test_the_shapes_of_a_torch_operator(tmp_path, arguments, shapes):
    assert executed(tmp_path, event("x", 1, 2, args=arguments))[0]["shapes"] == shapes


# -- MindSpore -------------------------------------------------------------------------------------------------------


def test_mindspore_executions_are_typed_and_lie_in_the_steps_perfguard_drove(copy_recording):
    (cycle,) = inspect(read_recording(copy_recording("mindspore-graph"))).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step) == (3, True)
    frame = executions.frame
    assert frame["start_ns"].is_sorted()
    assert frame.group_by("step").len().sort("step").rows() == [(0, 9), (1, 9), (2, 9)]
    assert frame.row(0, named=True) == {
        "operator": "MatMul",
        "name": "Default/network-WithLossCell/_backbone-Dense/MatMul-op0",
        "step": 0,
        "start_ns": 1795261968310120869,
        "duration_ns": 21462,
        "self_ns": 21462,
        "shapes": None,
    }


def test_the_steps_of_a_foreign_mindspore_directory_are_inferred(copy_recording):
    (cycle,) = inspect(Recording(directory=copy_recording("mindspore-graph"))).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step, executions.edges_ns) == (3, False, ())
    assert executions.frame["step"].null_count() == executions.frame.height == 27


@pytest.mark.parametrize("slot", ["cpu_op_execute_timestamp_0.txt", "cpu_op_detail_info_0.csv"])
def test_without_timestamps_or_types_there_are_no_executions(copy_recording, slot):
    directory = copy_recording("mindspore-graph")
    next(directory.rglob(slot)).unlink()
    (cycle,) = inspect(read_recording(directory)).cycles
    assert cycle.executions is None
