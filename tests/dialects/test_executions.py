"""Executions: steps, self times, shapes and types of what ran, whatever dialect wrote it."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import Content
from perfguard.artifacts.slot_rows import add_tables
from perfguard.artifacts.survey import FoundFile
from perfguard.artifacts.table import Cells, Table, unquoted
from perfguard.artifacts.tables import batch
from perfguard.contract import Artifact, Contract, Cycle, Requested, inspect
from perfguard.dialects import listed
from perfguard.dialects.counts import infer_steps
from perfguard.dialects.cycle import Executions
from perfguard.dialects.listed import listed_executions
from perfguard.dialects.queries import definitions, named_texts
from perfguard.dialects.work import step_of
from perfguard.findings import Code
from perfguard.recording import Recording, read_recording
from tests.dialects.counted import Covered
from tests.dialects.summed import covered, groups, groups_of, opened

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
    return summed(directory, *events).to_dicts()


def summed(directory: Path, *events: dict[str, Any]) -> pl.DataFrame:
    """What the operators of a trace add up to."""
    judged(directory, *events)
    return groups_of(Recording(directory=directory))


def covered_ns(directory: Path, steps: int) -> tuple[Covered, ...]:
    with opened(Recording(directory=directory)) as tables:
        return covered(tables, steps)


def test_a_torch_trace_becomes_executions_with_steps_self_times_and_shapes(tmp_path):
    shapes = {"Input Dims": [[4, 8], [], [2]], "Input type": ["float", "Scalar", "long int"]}
    (cycle,) = judged(
        tmp_path,
        step(7, 100, 50),
        step(8, 160, 50),
        event("aten::linear", 110.5, 20.25, args=shapes),
        event("aten::mm", 112, 10),
        event("aten::linear", 170, 30, args=shapes),
        event("aten::late", 155, 1),
        event("a python call", 112, 3, cat="python_function"),
    ).cycles
    sums = groups_of(Recording(directory=tmp_path))
    found = sums.select("operator", "name", "step", "first_ns", "total_ns", "self_ns").rows()
    assert found == [
        ("aten::late", "aten::late", None, 155_000, 1_000, 1_000),
        ("aten::linear", "aten::linear", 0, 110_500, 20_250, 10_250),
        ("aten::mm", "aten::mm", 0, 112_000, 10_000, 10_000),
        ("aten::linear", "aten::linear", 1, 170_000, 30_000, 30_000),
    ]
    # Of the steps: what runs outside of them has none.
    assert cycle.measured["operator_shapes"] == [("aten::linear", {"float[4, 8];Scalar[];long int[2]": 2})]


def test_the_steps_of_a_torch_trace_are_its_marks_in_the_order_of_time(tmp_path):
    (cycle,) = judged(
        tmp_path, step(8, 160, 50), step(7, 100, 50), event("aten::mm", 112, 10), event("aten::mm", 170, 10)
    ).cycles
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
@pytest.mark.variants(2)
def test_only_profiler_marks_are_steps(tmp_path, name):
    mark = event(name, 0, 5, cat="user_annotation")
    (cycle,) = judged(tmp_path, mark, event("aten::mm", 1, 2)).cycles
    assert cycle.executions is not None
    assert cycle.executions.steps is None


@pytest.mark.parametrize("category", ["cpu_op", "kernel", "gpu_memcpy", "gpu_memset"])
@pytest.mark.variants(1)
def test_host_operators_and_device_work_are_executions(tmp_path, category):
    assert [row["name"] for row in executed(tmp_path, event("x", 1, 2, cat=category))] == ["x"]


@pytest.mark.parametrize("category", ["user_annotation", "python_function", "cuda_runtime", "ac2g", "Trace"])
@pytest.mark.variants(1)
def test_other_categories_are_no_executions(tmp_path, category):
    assert executed(tmp_path, event("x", 1, 2, cat=category), event("y", 1, 2))[0]["name"] == "y"


def test_one_stream_number_on_two_devices_is_two_tracks(tmp_path):
    first = event("long", 0, 10, cat="kernel", pid=0, tid=7)
    second = event("short", 2, 3, cat="kernel", pid=1, tid=7)
    assert [row["self_ns"] for row in executed(tmp_path, first, second)] == [10_000, 3_000]


def launched(
    name: str, launch: float | None, start: float, *, stream: int = 7, number: int | None = None
) -> list[dict[str, Any]]:
    """A kernel and the call that launched it, which stands in the trace where `launch` is known."""
    numbered = {"args": {"correlation": int(10 * start) if number is None else number}}
    call = event("cudaLaunchKernel", launch or 0, 1, cat="cuda_runtime", **numbered)
    return [*([] if launch is None else [call]), event(name, start, 2, cat="kernel", pid=0, tid=stream, **numbered)]


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        # The queue is not empty when the first step begins, and some of it runs in the second.
        ([launched("k", None, 102), launched("k", None, 165), launched("k", 110, 170), launched("k", 180, 190)], {0: 1, 1: 1}),
        # By its launch a kernel is of the step before, whatever step it runs in.
        ([launched("k", 110, 120), launched("k", 140, 200)], {0: 2}),
        # Launched while the trace was written, and before the first step.
        ([launched("k", 50, 120), launched("k", 110, 130)], {0: 1}),
        # Behind what was launched in the trace its call was lost: it counts where it runs.
        ([launched("k", 110, 120), launched("k", None, 130), launched("k", None, 170)], {0: 2, 1: 1}),
        # The numbers of calls tell, not the order in which streams come to what waits on them.
        ([launched("k", 110, 120), launched("k", None, 130, stream=8, number=7), launched("k", 140, 150, stream=8)], {0: 2}),
        # Kineto records no driver call but launches: in every step the same runs before the first that has one.
        ([launched("k", None, 102, number=9), launched("k", 103, 104, number=8), launched("k", None, 162, number=11),
          launched("k", 163, 164, number=10)], {0: 2, 1: 2}),
        # A stream of which no call was recorded.
        ([launched("k", None, 101, stream=8), launched("k", 105, 108), launched("k", None, 130, stream=8)], {0: 2}),
        # Where no call was recorded at all nobody knows what was launched when.
        ([launched("k", None, 102), launched("k", None, 165)], {0: 1, 1: 1}),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_what_was_launched_before_the_window_is_of_no_step(tmp_path, kernels, expected):
    found = summed(tmp_path, step(1, 100, 50), step(2, 160, 50), *[one for few in kernels for one in few])
    assert dict(found.filter(pl.col("operator") == "k").sort("step").select("step", "calls").rows()) == expected


def test_what_runs_on_a_device_covers_no_step_of_the_host(tmp_path):
    judged(tmp_path, step(1, 100, 50), event("aten::mm", 112, 3), *launched("k", 110, 120))
    assert [one.operators_ns for one in covered_ns(tmp_path, 1)] == [3000]


def test_in_a_long_window_kernels_are_of_the_step_that_launched_them(tmp_path):
    kernels = [launched("k", None, 101), launched("k", None, 104), launched("k", 105, 108), launched("k", None, 112)]
    steps = [step(number, 60 * number + 40, 50) for number in range(1, 40)]
    found = summed(tmp_path, *steps, *[one for few in kernels for one in few])
    assert found.filter(pl.col("operator") == "k").select("step", "calls").rows() == [(0, 2)]


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
@pytest.mark.variants(1)
def test_the_shapes_of_a_torch_operator(tmp_path, arguments, shapes):
    (cycle,) = judged(tmp_path, event("x", 1, 2, args=arguments)).cycles
    assert cycle.measured.get("operator_shapes", []) == ([] if shapes is None else [("x", {shapes: 1})])


# -- MindSpore -------------------------------------------------------------------------------------------------------


def test_mindspore_executions_are_typed_and_lie_in_the_steps_perfguard_drove(copy_recording):
    (cycle,) = inspect(read_recording(directory := copy_recording("mindspore-graph"))).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step) == (3, True)
    found = groups_of(read_recording(directory))
    assert found["first_ns"].is_sorted()
    assert found.group_by("step").agg(pl.col("calls").sum()).sort("step").rows() == [(0, 9), (1, 9), (2, 9)]
    columns = ("operator", "name", "step", "shapes", "calls", "total_ns", "self_ns", "first_ns")
    assert found.select(columns).row(0, named=True) == {
        "operator": "MatMul",
        "name": "Default/network-WithLossCell/_backbone-Dense/MatMul-op0",
        "step": 0,
        "shapes": None,
        "calls": 1,
        "total_ns": 21462,
        "self_ns": 21462,
        "first_ns": 1795261968310120869,
    }


def test_the_steps_of_a_foreign_mindspore_directory_are_inferred(copy_recording):
    (cycle,) = inspect(recording := Recording(directory=copy_recording("mindspore-graph"))).cycles
    executions = cycle.executions
    assert executions is not None
    assert (executions.steps, executions.by_step, executions.edges_ns) == (3, False, ())
    assert groups_of(recording).filter(pl.col("step").is_null())["calls"].sum() == executions.calls == 27


@pytest.mark.parametrize("slot", ["cpu_op_execute_timestamp_0.txt", "cpu_op_detail_info_0.csv"])
def test_without_timestamps_or_types_there_are_no_executions(copy_recording, slot):
    directory = copy_recording("mindspore-graph")
    next(directory.rglob(slot)).unlink()
    (cycle,) = inspect(read_recording(directory)).cycles
    assert cycle.executions is None


# -- devices: one small table for each source ------------------------------------------------------------------------


class Told(NamedTuple):
    """What ran, and what it adds up to."""

    executions: Executions
    groups: pl.DataFrame


def listed_in(slot: str, version: str, content: Content, layout: str = "ms-2.0") -> Told | None:
    """Return what the only file of a cycle lists."""
    of_slot = next(one for one in layout_named(layout).slots if one.name == slot)
    artifact = Artifact(slot=of_slot, path=Path(slot), content=content, place=slot, schema=None)
    cycle = Cycle(
        layout=layout_named(layout),
        place=Path("c"),
        rank=0,
        index=0,
        artifacts={slot: artifact},
        requested=Requested(),
        files=(artifact,),
    )
    with batch(definitions(frozenset((layout,))), named_texts()) as tables:
        add_tables(tables, 0, 0, FoundFile(slot=of_slot, path=Path(slot), rank=0), version, content)
        tables.hand_over()
        found = listed_executions(tables, {0: cycle}).get(0)
        return None if found is None else Told(found, groups(tables))


def of_database(slot: str, tables: dict[str, dict[str, list[str]]]) -> Told | None:
    """Return what ran according to a database: tables of raw JSON cells."""
    frames = {name: Table(frame=pl.DataFrame(columns), cells=Cells.JSON) for name, columns in tables.items()}
    layout = {"ascend_pytorch_profiler": "pt-npu", "ascend_mindspore_profiler": "ms-2.5+"}[slot]
    return listed_in(slot, slot, Content(tables=frames), layout)


def listed_by(slot: str, version: str, header: str, *rows: str) -> Told:
    """Return what a table with cells between bars lists."""
    cells = [row.split("|") for row in rows]
    frame = pl.DataFrame(cells, schema=dict.fromkeys(header.split("|"), pl.String), orient="row")
    found = listed_in(slot, version, Content(table=Table(frame=frame, cells=Cells.TEXT)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("slot", "steps", "expected"),
    [
        ("ascend_mindspore_profiler", None, (None, None, ())),
        ("ascend_pytorch_profiler", None, (None, None, ())),
        (
            "ascend_pytorch_profiler",
            {"id": ["5", "6"], "startNs": ["90", "200"], "endNs": ["150", "260"]},
            (0, 1, (5, 6)),
        ),
    ],
)
def test_kernels_of_a_database_are_joined_with_their_names_and_steps(slot, steps, expected):
    tables = {
        "STRING_IDS": {"id": ["1", "2", "3", "4"], "value": ['"aclnnAdd"', '"Add"', '"\\"2,4\\""', '"Mul"']},
        "TASK": {"startNs": ["300", "100", "120"], "endNs": ["350", "110", "130"], "globalTaskId": ["8", "7", "99"]},
        "COMPUTE_TASK_INFO": {
            "globalTaskId": ["7", "8"],
            "name": ["1", "1"],
            "opType": ["2", "4"],
            "inputShapes": ["3", "3"],
        },
        **({"STEP_TIME": steps} if steps else {}),
    }
    first, second, numbers = expected
    found = of_database(slot, tables)
    # A task without an entry of its own is no kernel; one behind the last step's end is still of that step.
    shown = found.groups.select("operator", "name", "step", "first_ns", "total_ns", "self_ns", "shapes")
    assert shown.rows() == [
        ("Add", "aclnnAdd", first, 100, 10, 10, "2,4"),
        ("Mul", "aclnnAdd", second, 300, 50, 50, "2,4"),
    ]
    ran = found.executions
    assert ran.on_device
    assert (ran.step_numbers, ran.steps, ran.by_step) == (numbers, len(numbers) or None, bool(numbers))


@pytest.mark.parametrize("missing", ["TASK", "COMPUTE_TASK_INFO", "STRING_IDS"])
def test_a_database_without_kernels_has_no_executions(missing):
    tables = {name: {"id": ["1"]} for name in ("TASK", "COMPUTE_TASK_INFO", "STRING_IDS") if name != missing}
    assert of_database("ascend_pytorch_profiler", tables) is None


@pytest.mark.parametrize(
    ("version", "start", "times", "start_ns"),
    [
        ("2.1", "start_time(us)", ("1000.5", "2000.25"), (1000500, 2000250)),
        ("2.0", "start_time(ms)", ("1000.5", "2000.25"), (10005 * 10**5, 200025 * 10**4)),
    ],
)
def test_a_flat_timeline_is_read_in_the_unit_its_header_names(version, start, times, start_ns):
    found = listed_by(
        "output_timeline_data",
        f"output_timeline_data.{version}",
        f"op_name|stream_id|{start}|duration(ms)",
        f"Default/MatMul-op1|0|{times[1]}|0.002",
        f"Default/Add-op2|0|{times[0]}|0.001",
    )
    assert found.groups.select("operator", "name", "step", "first_ns", "total_ns", "self_ns", "calls").rows() == [
        ("Add", "Default/Add-op2", None, start_ns[0], 1000, 1000, 1),
        ("MatMul", "Default/MatMul-op1", None, start_ns[1], 2000, 2000, 1),
    ]
    assert (found.executions.on_device, found.executions.is_timeline) == (True, True)


@pytest.mark.parametrize(
    ("version", "header", "rows", "expected"),
    [
        ("1.x", "full_op_name|execution_time", ("Default/Add-op2|0.5",), [("Add", 1, 500_000)]),
        (
            "2.0",
            "full_op_name|execution_time|execution_frequency",
            ("Default/Add-op2|0.5|3",),
            [("Add", 3, 1_500_000)],
        ),
        (
            "2.3",
            "full_kernel_name|task_duration|execution_frequency",
            ("Default/Add-op2|0.5005|2",),
            [("Add", 2, 1_001_000)],
        ),
        ("2.0", "full_op_name|execution_time|execution_frequency", ("Default/Add-op2|0.5|0",), []),
    ],
)
def test_an_average_counts_as_often_as_it_was_taken(version, header, rows, expected):
    found = listed_by("aicore_intermediate_detail", f"aicore_intermediate_detail.{version}", header, *rows)
    assert found.groups.select("operator", "calls", "total_ns").rows() == expected
    assert found.executions.is_timeline is False


@pytest.mark.usefixtures("must_not_hang")
@pytest.mark.parametrize("count", ["-5", "999999999999", "9223372036854775807", "99999999999999999999"])
def test_a_damaged_frequency_does_not_fill_the_memory(count):
    header = "full_op_name|execution_time|execution_frequency"
    slot = "aicore_intermediate_detail"
    found = listed_by(slot, f"{slot}.2.0", header, f"Add-op1|1|{count}", "Mul-op1|1|2")
    assert found.executions.calls <= 1_000_002
    assert found.groups.height <= 2


def test_operators_of_a_gpu_are_averages_in_us():
    found = listed_by(
        "gpu_op_detail_info",
        "gpu_op_detail_info",
        "op_type|op_full_name|op_occurrences|op_avg_time(us)",
        "Conv2D|Default/Conv2D-op1|2|1.5",
        "Add|Default/Add-op2|2|0.25",
    )
    assert found.groups.select("operator", "first_ns", "calls", "total_ns").rows() == [
        ("Conv2D", 0, 2, 3000),
        ("Add", 0, 2, 500),
    ]
    assert (found.executions.steps, found.executions.is_timeline) == (2, False)


def test_what_a_device_did_goes_before_what_the_host_did(copy_recording):
    (host,) = inspect(read_recording(copy_recording("mindspore-graph"))).cycles
    device = dataclasses.replace(
        host, artifacts={**host.artifacts, "gpu_op_detail_info": next(iter(host.artifacts.values()))}
    )
    kernels = dataclasses.replace(
        host, artifacts={**host.artifacts, "kernel_details": next(iter(host.artifacts.values()))}
    )
    assert listed._source_of(host).on_device is False
    assert listed._source_of(device).on_device is True
    assert listed._source_of(kernels) is None


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_what_is_added_up_does_not_grow_with_the_executions(tmp_path):
    steps = [step(number, number * 1000, 1000) for number in range(2)]
    found = summed(tmp_path, *steps, *(event("aten::mm", 10 * i, 5) for i in range(1, 200)))
    assert found.select("operator", "step", "calls", "total_ns", "first_ns").rows() == [
        ("aten::mm", 0, 99, 495_000, 10_000),
        ("aten::mm", 1, 100, 500_000, 1_000_000),
    ]
    assert [one.operators_ns for one in covered_ns(tmp_path, 2)] == [495_000, 500_000]


def test_of_many_steps_without_operators_the_first_are_named(tmp_path):
    steps = [step(2 * number, number * 1000, 1000) for number in range(30)]
    ran = [event("aten::op", 10, 5), event("aten::op", 29_010, 5)]
    said = [one.message for one in judged(tmp_path, *steps, *ran).findings if one.code is Code.C101]
    numbers, empty = said
    assert "numbered 0, 2, 4, 6, 8, 10, 12, 14 and 22 more, which is not consecutive" in numbers
    assert "no operator ran in step 2, 3, 4, 5, 6, 7, 8, 9 and 20 more: " in empty


@pytest.mark.parametrize("recording", ["mindspore-graph", "torch-mlp"])
def test_what_is_kept_can_be_handed_to_another_process(copy_recording, recording):
    (cycle,) = inspect(read_recording(copy_recording(recording))).cycles
    kept = pickle.loads(pickle.dumps((cycle.measured, cycle.memory)))
    assert kept == (cycle.measured, cycle.memory)
    assert cycle.memory


def test_collectives_that_torch_annotates_are_kept_by_their_start(tmp_path):
    (cycle,) = judged(
        tmp_path,
        step(1, 100, 100),
        event("c10d::allreduce_", 110, 2),
        event("gloo:all_reduce", 150, 30, cat="user_annotation"),
        event("gloo:all_reduce", 120, 20, cat="user_annotation"),
        event("forward", 110, 20, cat="user_annotation"),
    ).cycles
    assert cycle.measured["collective_durations_ns"] == [("gloo:all_reduce", (20_000, 30_000))]
    assert covered_ns(tmp_path, 1) == (Covered(operators_ns=2000, collectives_ns=50_000, either_ns=52_000),)
