"""Metrics: the numbers of real recordings, counted again here from the raw files with nothing but json and csv."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import statistics
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from perfguard.contract import inspect
from perfguard.measure import METRICS, Measurement, measure
from perfguard.measure.runs import pause_between_steps
from perfguard.recording import Recording, Step, read_recording
from perfguard.window import Phase
from tests.facts import RECORDINGS

TORCH = ("torch-mlp", "torch-repeat2")
MINDSPORE = ("mindspore-graph", "mindspore-pynative")


def found(recording: str | Path) -> dict[str, dict[str, Measurement]]:
    """Measure a recording: metric -> subject -> measurement."""
    table: dict[str, dict[str, Measurement]] = defaultdict(dict)
    for one in measure(inspect(read_recording(RECORDINGS / recording))):
        table[one.metric][one.subject] = one
    return table


def values(table: dict[str, Measurement]) -> dict[str, object]:
    return {subject: one.value for subject, one in table.items()}


def steps_of(recording: str, phase: str) -> list[dict]:
    document = json.loads((RECORDINGS / recording / "steps.json").read_text())
    return [step for step in document["steps"] if step["phase"] == phase]


# -- torch, counted by hand ------------------------------------------------------------------------------------------


def nanoseconds(microseconds) -> int:
    return int(Decimal(microseconds) * 1000)


def torch_steps(recording: str) -> list[dict]:
    """Return, for every active step, its operator events and its memory events in the order of Ev Idx."""
    steps = []
    for path in sorted((RECORDINGS / recording / "profiler").glob("*.json")):
        events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
        marks = sorted(
            (nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"]))
            for e in events
            if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")
        )
        memory = sorted((e for e in events if e["name"] == "[memory]"), key=lambda e: e["args"]["Ev Idx"])
        for start, end in marks:
            inside = [e for e in events if e.get("cat") == "cpu_op" and start <= nanoseconds(e["ts"]) <= end]
            steps.append(
                {
                    "operators": inside,
                    "bytes": [e["args"]["Bytes"] for e in memory if start <= nanoseconds(e["ts"]) <= end],
                }
            )
    return steps


def self_times_us(operators: list[dict]) -> dict[str, float]:
    """Sum, by operator, the time of its events without the events directly inside them, every pair looked at."""
    spans = [
        (e["tid"], nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"]), e["name"]) for e in operators
    ]
    spans.sort(key=lambda s: (s[1], s[1] - s[2]))
    own = [end - start for _, start, end, _ in spans]
    for index, (thread, start, end, _) in enumerate(spans):
        around = [
            i for i, (t, s, e, _) in enumerate(spans[:index]) if t == thread and s <= start and end <= e and start < e
        ]
        if around:
            own[max(around)] -= end - start
    total: dict[str, float] = defaultdict(float)
    for (_, _, _, name), time in zip(spans, own, strict=True):
        total[name] += time / 1000
    return dict(total)


@pytest.mark.parametrize(("recording", "steps"), [("torch-mlp", 3), ("torch-repeat2", 4)])
@pytest.mark.variants(1)
def test_torch_operators_are_counted_by_step(recording, steps):
    table, raw = found(recording), torch_steps(recording)
    assert values(table["steps"]) == {"": steps}
    assert len(raw) == steps
    calls = Counter(e["name"] for step in raw for e in step["operators"])
    assert values(table["operator_calls"]) == {name: count / steps for name, count in calls.items()}
    assert values(table["operator_set"]) == {"": sorted(calls)}


@pytest.mark.parametrize("recording", TORCH)
@pytest.mark.variants(1)
def test_torch_shapes_add_up_to_the_calls_that_have_any(recording):
    table, raw = found(recording), torch_steps(recording)
    census: dict[str, Counter] = defaultdict(Counter)
    for step in raw:
        for event in step["operators"]:
            if "Input Dims" in event["args"]:
                dims, kinds = event["args"]["Input Dims"], event["args"]["Input type"]
                written = ";".join(f"{k}{json.dumps(d)}" if k or d else "-" for k, d in zip(kinds, dims, strict=True))
                census[event["name"]][written] += 1
    expected = {name: {text: n / len(raw) for text, n in shapes.items()} for name, shapes in census.items()}
    assert values(table["operator_shapes"]) == expected


@pytest.mark.parametrize("recording", TORCH)
@pytest.mark.variants(1)
def test_torch_time_is_self_time_step_by_step(recording):
    table, raw = found(recording), torch_steps(recording)
    by_step = [self_times_us(step["operators"]) for step in raw]
    for name, one in table["operator_time"].items():
        assert one.samples == pytest.approx([times.get(name, 0.0) for times in by_step], abs=1e-6)
        assert one.value == min(one.samples)
    whole = sum(sum(times.values()) for times in by_step)
    for name, one in table["operator_share"].items():
        assert one.value == pytest.approx(sum(times.get(name, 0.0) for times in by_step) / whole, abs=1e-6)
    assert sum(one.value for one in table["operator_share"].values()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("recording", TORCH)
@pytest.mark.variants(1)
def test_torch_self_times_add_up_to_the_outermost_operators(recording):
    outermost = 0
    for step in torch_steps(recording):
        spans = sorted((nanoseconds(e["ts"]), -nanoseconds(e["dur"]), e["tid"]) for e in step["operators"])
        end: dict[int, int] = {}
        for start, negative, thread in spans:
            if start >= end.get(thread, 0):
                outermost -= negative
                end[thread] = start - negative
    samples = [sum(one.samples) for one in found(recording)["operator_time"].values()]
    assert sum(samples) * 1000 == pytest.approx(outermost, abs=1)


@pytest.mark.parametrize(
    ("recording", "allocations", "allocated", "peak"),
    [("torch-mlp", 23, 2628, 1552), ("torch-repeat2", 13, 1996, 1488)],
)
@pytest.mark.variants(1)
def test_torch_memory_is_counted_by_step(recording, allocations, allocated, peak):
    table, raw = found(recording), torch_steps(recording)
    rises = []
    for step in raw:
        levels = [0]
        for size in step["bytes"]:
            levels.append(levels[-1] + size)
        rises.append(max(levels) - min(levels))
    counts = [sum(size > 0 for size in step["bytes"]) for step in raw]
    sums = [sum(size for size in step["bytes"] if size > 0) for step in raw]
    assert (statistics.median_low(counts), statistics.median_low(sums), max(rises)) == (allocations, allocated, peak)
    assert values(table["memory_allocations"]) == {"cpu": allocations}
    assert values(table["memory_allocated_bytes"]) == {"cpu": allocated}
    assert values(table["peak_memory_bytes"]) == {"cpu": peak}


# -- MindSpore, counted by hand --------------------------------------------------------------------------------------


def framework(recording: str, name: str) -> Path:
    (path,) = (RECORDINGS / recording / "profiler").glob(f"*/FRAMEWORK/{name}")
    return path


def mindspore_executions(recording: str) -> list[tuple[str, int, float]]:
    """Return (operator, start in ns, duration in us) of every execution."""
    with framework(recording, "cpu_op_detail_info_0.csv").open(newline="") as file:
        types = {row["full_op_name"]: row["op_type"] for row in csv.DictReader(file)}
    executions = []
    for line in framework(recording, "cpu_op_execute_timestamp_0.txt").read_text().splitlines():
        name, _, runs = line.split(";")
        for run in runs.split():
            start, milliseconds, _ = run.split(",")
            executions.append((types[name], int(start), float(milliseconds) * 1000))
    return executions


def step_number(recording: str, time: int) -> int:
    (number,) = [
        i
        for i, step in enumerate(steps_of(recording, "active"))
        if step["start_ns"] <= time <= step["start_ns"] + step["wall_ns"]
    ]
    return number


@pytest.mark.parametrize("recording", MINDSPORE)
@pytest.mark.variants(1)
def test_mindspore_operators_are_counted_by_step(recording):
    table = found(recording)
    assert values(table["steps"]) == {"": 3}
    executions = mindspore_executions(recording)
    calls = Counter(operator for operator, _, _ in executions)
    assert values(table["operator_calls"]) == {name: count / 3 for name, count in calls.items()}
    assert values(table["operator_set"]) == {"": sorted(calls)}
    with framework(recording, "cpu_op_type_info_0.csv").open(newline="") as file:
        reported = {row["op_type"]: int(row["type_occurrences"]) for row in csv.DictReader(file)}
    assert reported == dict(calls)


@pytest.mark.parametrize("recording", MINDSPORE)
def test_mindspore_time_is_summed_by_step(recording):
    table, executions = found(recording), mindspore_executions(recording)
    times: dict[str, list[float]] = defaultdict(lambda: [0.0] * 3)
    for operator, start, duration in executions:
        times[operator][step_number(recording, start)] += duration
    assert set(times) == set(table["operator_time"])
    whole = sum(map(sum, times.values()))
    for operator, samples in times.items():
        assert table["operator_time"][operator].samples == pytest.approx(samples, abs=1e-6)
        assert table["operator_time"][operator].value == pytest.approx(min(samples), abs=1e-6)
        assert table["operator_share"][operator].value == pytest.approx(sum(samples) / whole, abs=1e-6)


@pytest.mark.parametrize("recording", MINDSPORE)
@pytest.mark.variants(1)
def test_mindspore_shapes_are_those_of_the_framework_file(recording):
    census: dict[str, Counter] = defaultdict(Counter)
    for line in framework(recording, "cpu_framework_0.txt").read_text().splitlines():
        operator, _, _, *inputs = line.rstrip(";").split(";")
        shapes = [re.sub(r"^input_\d+:", "", one) for one in inputs]
        while shapes and shapes[-1] == "NoShape":
            shapes.pop()
        if operator:
            census[operator][";".join(shapes)] += 1
    expected = {name: {text: n / 3 for text, n in shapes.items()} for name, shapes in census.items()}
    assert values(found(recording)["operator_shapes"]) == expected


@pytest.mark.parametrize(
    ("recording", "allocations", "allocated", "peak"),
    [("mindspore-graph", 4, 2048, 1536), ("mindspore-pynative", 11, 5632, 4608)],
)
def test_mindspore_memory_is_read_from_the_pool(recording, allocations, allocated, peak):
    with framework(recording, "cpu_ms_memory_record_0.txt").open(newline="") as file:
        rows = [(int(r["Timestamp(ns)"]), int(r["Total Allocated(Byte)"])) for r in csv.DictReader(file)]
    growths, rises = [], []
    for step in steps_of(recording, "active"):
        levels = [level for time, level in rows if step["start_ns"] <= time <= step["start_ns"] + step["wall_ns"]]
        growths.append([after - before for before, after in pairwise(levels) if after > before])
        rises.append(max(levels) - min(levels))
    counted = (statistics.median_low(map(len, growths)), statistics.median_low(map(sum, growths)), max(rises))
    assert counted == (allocations, allocated, peak)
    table = found(recording)
    assert values(table["memory_allocations"]) == {"cpu": allocations}
    assert values(table["memory_allocated_bytes"]) == {"cpu": allocated}
    assert values(table["peak_memory_bytes"]) == {"cpu": peak}


# -- every recording -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", [*TORCH, *MINDSPORE])
@pytest.mark.variants(1)
def test_steps_are_timed_unprofiled_and_the_overhead_is_their_ratio(recording):
    table = found(recording)
    timed, active = steps_of(recording, "timed"), steps_of(recording, "active")
    for metric, key in (("step_time", "wall_ns"), ("step_cpu_time", "thread_cpu_ns")):
        samples = tuple(step[key] / 1000 for step in timed)
        assert (table[metric][""].samples, table[metric][""].value) == (samples, min(samples))
    ratio = min(step["wall_ns"] for step in active) / min(step["wall_ns"] for step in timed)
    assert table["profiler_overhead"][""].value == round(ratio, 3)


def paused(phase: Phase, *pauses_ms: float | None, rank: int = 0) -> list[Step]:
    return [
        Step(
            index=index,
            phase=phase,
            cycle=0,
            start_ns=0,
            wall_ns=1,
            thread_cpu_ns=1,
            pause_ns=None if pause is None else round(1e6 * pause),
            rank=rank,
        )
        for index, pause in enumerate(pauses_ms)
    ]


@pytest.mark.parametrize(
    ("steps", "expected_ms"),
    [
        (paused(Phase.TIMED, 1, 2, 3, 4, 900), 2.5),
        # Four workers that are late together.
        (paused(Phase.TIMED, 0, 0, 0, 40, 0, 0, 0, 40, 0), 5),
        # Those of the profiled steps count where none was timed: a whole run.
        (paused(Phase.ACTIVE, None, 1, 2, 3, 4, 5), 2.5),
        (paused(Phase.TIMED, 1, 1, 1, 1, 1) + paused(Phase.ACTIVE, 9, 9, 9, 9, 9), 1),
        (paused(Phase.TIMED, 1, 1, 1, 1), None),
        (paused(Phase.SETTLE, 1, 1, 1, 1, 1, 1), None),
        # perfguard's own loop has no pauses.
        (paused(Phase.TIMED, *[None] * 9), None),
        # A job waits for its slowest rank.
        (paused(Phase.TIMED, *[1] * 5) + paused(Phase.TIMED, *[7] * 5, rank=1), 7),
    ],
)
def test_the_pause_between_the_steps_of_a_script(steps, expected_ms):
    found = [value / 1e3 for _, value in pause_between_steps(Recording(directory=Path(), steps=tuple(steps)))]
    assert found == ([] if expected_ms is None else [expected_ms])


#: What can be measured where no device ran: of a recording that perfguard drove itself, and besides of a torch trace.
READ_BY_TORCH = {"host_reads", "waiting_operators"}
OF_A_HOST = {
    *("steps", "operator_set", "operator_calls", "operator_shapes", "operator_time", "operator_share"),
    *("peak_memory_bytes", "memory_allocations", "memory_allocated_bytes", "memory_growth_bytes"),
    *("step_time", "step_cpu_time", "profiler_overhead"),
    *("operator_position", "profiled_step_time", "profiled_step_part"),
}


@pytest.mark.parametrize("recording", [*TORCH, *MINDSPORE])
@pytest.mark.variants(1)
def test_every_metric_is_measured_and_in_order(recording):
    measurements = measure(inspect(read_recording(RECORDINGS / recording)))
    assert {one.metric for one in measurements} == OF_A_HOST | (READ_BY_TORCH if recording in TORCH else set())
    keys = [one.key for one in measurements]
    assert keys == sorted(set(keys))
    assert measurements == measure(inspect(read_recording(RECORDINGS / recording)))


@pytest.mark.parametrize("recording", [*TORCH, *MINDSPORE])
@pytest.mark.variants(1)
def test_a_foreign_directory_has_the_same_exact_numbers(tmp_path, recording):
    shutil.copytree(RECORDINGS / recording / "profiler", tmp_path / "profiler")
    foreign, own = found(tmp_path), found(recording)
    of_steps = {"step_time", "step_cpu_time", "profiler_overhead", "profiled_step_time", "profiled_step_part"}
    assert set(own) - set(foreign) <= of_steps
    for metric in ("steps", "operator_set", "operator_calls", "operator_shapes", "operator_position"):
        assert values(foreign[metric]) == values(own[metric])


@pytest.mark.exhaustive
def test_ranks_are_measured_one_by_one(tmp_path):
    (trace,) = (RECORDINGS / "torch-mlp" / "profiler").glob("*.json")
    document = json.loads(trace.read_text())
    for rank in (0, 1):
        name = re.sub(r"\d+\.\d+", f"{rank + 1}.{rank + 1}", trace.name)
        info = {"backend": "gloo", "rank": rank, "world_size": 2}
        (tmp_path / name).write_text(json.dumps({**document, "distributedInfo": info}))
    table, single = found(tmp_path), found("torch-mlp")
    assert values(table["steps"]) == {"rank0:": 3, "rank1:": 3}
    for metric in ("operator_calls", "operator_shapes", "memory_allocations"):
        of_one = values(single[metric])
        expected = {f"rank{r}:{subject}": value for r in (0, 1) for subject, value in of_one.items()}
        if metric != "operator_shapes":
            # A job does the work of all its ranks.
            expected |= {f"ranks:{subject}": 2 * value for subject, value in of_one.items()}
        assert values(table[metric]) == expected
    peak = values(single["peak_memory_bytes"])["cpu"]
    assert values(table["peak_memory_bytes"]) == {"rank0:cpu": peak, "rank1:cpu": peak, "ranks:cpu": peak}


@pytest.mark.parametrize(
    ("name", "unit", "kind", "better", "gated"),
    [
        ("steps", "steps", "exact", "higher", True),
        ("operator_set", "names", "exact", "equal", True),
        ("operator_calls", "calls/step", "exact", "equal", True),
        ("operator_shapes", "calls/step by shape", "exact", "equal", True),
        ("peak_memory_bytes", "bytes", "exact", "lower", True),
        ("memory_allocations", "allocations/step", "exact", "equal", True),
        ("memory_allocated_bytes", "bytes/step", "exact", "lower", True),
        ("memory_growth_bytes", "bytes/step", "exact", "lower", True),
        ("resident_memory_bytes", "bytes", "exact", "lower", False),
        ("operator_time", "us/step", "timed", "lower", False),
        ("operator_share", "fraction", "timed", "equal", False),
        ("step_time", "us", "timed", "lower", True),
        ("step_cpu_time", "us", "timed", "lower", True),
        ("step_cost", "ratio", "timed", "lower", True),
        ("run_cpu_time", "us", "timed", "lower", False),
        ("run_wall_time", "us", "timed", "lower", False),
        ("run_wall_p90", "us", "timed", "lower", True),
        ("run_blocked_time", "us", "timed", "lower", True),
        ("host_memory_growth_bytes", "bytes/step", "timed", "lower", True),
        ("pause_between_steps", "us", "timed", "lower", True),
        ("run_calibration", "us", "timed", "lower", False),
        ("run_machine_load", "%", "timed", "lower", False),
        ("device_clock", "MHz", "timed", "higher", False),
        ("kernel_calls", "calls/step", "exact", "equal", True),
        ("kernel_time", "us/step", "timed", "lower", False),
        ("launches", "launches/step", "exact", "lower", True),
        ("synchronisations", "calls/step", "exact", "lower", True),
        ("host_reads", "reads/step", "exact", "equal", True),
        ("waiting_operators", "waits/step by operator", "exact", "equal", True),
        ("waiting_functions", "names", "exact", "equal", False),
        ("copies", "copies/step", "exact", "lower", True),
        ("copied_bytes", "bytes/step", "exact", "lower", True),
        ("device_time", "us", "timed", "equal", False),
        ("exposed_communication", "us/step", "timed", "lower", False),
        ("device_idle", "us/step", "timed", "lower", False),
        ("launch_delay", "us", "timed", "lower", False),
        ("queue_length", "launches", "timed", "equal", False),
        ("straggler", "us/step", "timed", "lower", False),
        ("profiler_overhead", "ratio", "timed", "lower", False),
        ("api_time", "us/step", "timed", "lower", False),
        ("communication_bandwidth", "GB/s", "timed", "higher", False),
        ("communication_calls", "calls/step", "exact", "lower", True),
        ("communication_size", "MB/step", "exact", "lower", True),
        ("communication_time", "us/step", "timed", "lower", False),
        ("communication_wait", "us/step", "timed", "lower", False),
        ("device_utilisation", "fraction", "timed", "higher", False),
        ("flops", "MFLOP or GFLOP/s", "timed", "equal", False),
        ("pipeline_batch_time", "us", "timed", "lower", False),
        ("pipeline_queue_usage", "fraction", "timed", "higher", False),
        ("rank_spread", "ratio", "timed", "lower", False),
        ("slowest_rank", "ratio", "timed", "lower", False),
        ("graph_passes", "names", "exact", "equal", True),
        ("graph_pass_details", "names", "exact", "equal", True),
        ("graph_compilations", "compilations", "exact", "lower", True),
        ("graphs_built", "graphs", "exact", "lower", True),
        ("graph_operators", "operators", "exact", "equal", True),
        ("collective_wait", "us/step", "timed", "lower", False),
        ("collective_transfer", "us/step", "timed", "lower", False),
        ("step_part_time", "us", "timed", "lower", False),
    ],
)
def test_what_a_metric_declares(name, unit, kind, better, gated):
    metric = METRICS[name]
    assert (metric.name, metric.unit, metric.kind.value, metric.better.value) == (name, unit, kind, better)
    assert metric.gated is gated
    assert metric.meaning.endswith(".")
    limits = (metric.relative, metric.absolute, metric.warn_relative)
    if name in ("peak_memory_bytes", "memory_allocated_bytes", "resident_memory_bytes"):
        assert limits == (0.001, 0.0, None)
        return
    # Twice the time fails and 1.3 times warns; of what should be high, that is half and 1/1.3 of it.
    timed = (0.5, 0.0, pytest.approx(0.3 / 1.3)) if better == "higher" else (1.0, 0.0, 0.3)
    if gated and kind == "timed":
        # What fails; the others only warn.
        failing = {
            "pause_between_steps": (1.0, 5000.0, None),
            "step_cost": (0.1, 0.0, None),
            "run_blocked_time": (1.0, 1000.0, None),
            "host_memory_growth_bytes": (0.25, 8192.0, None),
        }
        timed = failing.get(name, (math.inf, 0.0, 1.0))
    assert limits == ((0.0, 0.0, None) if kind == "exact" else timed)


def test_the_table_holds_what_is_tested_here():
    assert len(METRICS) == 73


@pytest.mark.parametrize("allocated", [1024, 2**30])
@pytest.mark.variants(1)
def test_an_allocation_that_opens_a_step_counts(tmp_path, allocated):
    """The pool's record goes on from step to step: the level before a step's first event is known but for the first step."""
    place = tmp_path / "recording"
    shutil.copytree(RECORDINGS / "mindspore-graph", place)
    (record,) = place.glob("profiler/*/FRAMEWORK/cpu_ms_memory_record_0.txt")
    steps = [s for s in json.loads((place / "steps.json").read_text())["steps"] if s["phase"] == "active"]
    rows = ["Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)"]
    for step in steps:
        for after, level in ((1000, 512 + allocated), (2000, 1024 + allocated)):
            rows.append(f"{step['start_ns'] + after},{level},1073741824,{level}")
        rows.append(f"{step['start_ns'] + step['wall_ns'] + 1},512,1073741824,512")
    record.write_text("\n".join(rows) + "\n")
    table = found(place)
    assert values(table["memory_allocations"]) == {"cpu": 2}
    assert values(table["memory_allocated_bytes"]) == {"cpu": 512 + allocated}
    assert values(table["peak_memory_bytes"]) == {"cpu": 512 + allocated}
    # What is released before the next step begins was not left behind.
    assert values(table["memory_growth_bytes"]) == {"cpu": 0}
