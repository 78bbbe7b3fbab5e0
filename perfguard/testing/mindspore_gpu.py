"""The flat `profiler/` directory MindSpore 1.x to 2.2 writes on a GPU. Its names end in the device, its times are in us.

Formats: MindSpore 2.0 source (gpu_data_saver.cc, data_saver.h, cpu_gpu_timeline_generator.py); timelines read on real
output (test data of MindInsight). No other real file is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from perfguard.testing import minddata
from perfguard.testing.formats import csv_bytes, json_bytes, plain_csv, six_digits, us
from perfguard.testing.mindspore_cpu import lane_labels, utc
from perfguard.testing.truth import Kernel, Operator, Rank, Truth

_DETAIL = (
    "op_side",
    "op_type",
    "op_name",
    "op_full_name",
    "op_occurrences",
    "op_total_time(us)",
    "op_avg_time(us)",
    "total_proportion",
    "cuda_activity_cost_time(us)",
    "cuda_activity_call_count",
)
_ACTIVITY = (
    "name",
    "type",
    "op_full_name",
    "stream_id",
    "block_dim",
    "grid_dim",
    "occurrences",
    "total_duration(us)",
    "avg_duration(us)",
    "max_duration(us)",
    "min_duration(us)",
)


def directory(truth: Truth, rank: Rank, on: Mapping[str, bool]) -> dict[str, bytes]:
    """Write `profiler/` of one device."""
    number = rank.number
    runs: dict[str, list[Kernel]] = {one.full_name: [] for one in truth.operators}
    for kernel in rank.kernels:
        runs[kernel.operator.full_name].append(kernel)
    whole = sum(one.launch.duration_ns for one in rank.kernels)
    files = {
        f"gpu_op_detail_info_{number}.csv": _detail(truth, runs, whole),
        f"gpu_op_type_info_{number}.csv": _types(runs, whole),
        f"gpu_activity_data_{number}.csv": _activities(truth, runs),
        f"gpu_op_execute_timestamp_{number}.txt": _timestamps(truth, runs),
        f"activity_execute_timestamp_{number}.txt": _activity_timestamps(rank),
        f"gpu_framework_{number}.txt": _framework(truth, rank),
        f"step_trace_profiling_{number}.txt": _step_points(truth, runs),
        f"start_time_{number}.txt": _start_time(rank),
        f"profiler_info_{number}.json": _info(truth, rank),
        **_timeline(truth, rank),
    }
    if on["dynamic_shape"]:
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(rank)
    if on["data_process"]:
        files |= minddata.collected(rank.pipeline, number, sink=on["sink"], version="2.0")
        files |= minddata.analysed(rank.pipeline, number, sink=on["sink"], version="2.0")
        if on["sink"]:
            files[f"minddata_getnext_profiling_{number}.txt"] = _fetches(rank)
    return {f"profiler/{name}": content for name, content in files.items()}


def _activity(operator: Operator) -> str:
    return f"{operator.type}Kernel<float>(int, float const*, float*)"


def _detail(truth: Truth, runs: dict[str, list[Kernel]], whole: int) -> bytes:
    rows: list[tuple[object, ...]] = [_DETAIL]
    for one in truth.operators:
        kernels = runs[one.full_name]
        count, total = len(kernels), us(sum(kernel.launch.duration_ns for kernel in kernels))
        device = us(sum(kernel.duration_ns for kernel in kernels))
        times = (six_digits(total), six_digits(total / count), six_digits(total * 1000 / whole), six_digits(device))
        rows.append(("Device", one.type, one.name, one.full_name, count, *times, count))
    return plain_csv(rows)


def _types(runs: dict[str, list[Kernel]], whole: int) -> bytes:
    groups: dict[str, list[int]] = {}
    for kernels in runs.values():
        for one in kernels:
            groups.setdefault(one.operator.type, []).append(one.launch.duration_ns)
    rows: list[tuple[object, ...]] = [
        ("op_type", "type_occurrences", "total_time(us)", "total_proportion", "avg_time(us)")
    ]
    for kind, durations in groups.items():
        total = us(sum(durations))
        share, mean = six_digits(total * 1000 / whole), six_digits(total / len(durations))
        rows.append((kind, len(durations), six_digits(total), share, mean))
    return plain_csv(rows)


def _activities(truth: Truth, runs: dict[str, list[Kernel]]) -> bytes:
    rows: list[tuple[object, ...]] = [_ACTIVITY]
    for one in truth.operators:
        times = [us(kernel.duration_ns) for kernel in runs[one.full_name]]
        total = sum(times)
        what = (_activity(one), "cuLaunchKernel", one.full_name, 17, "256,1,1", "8,1,1")
        rows.append((*what, len(times), *map(six_digits, (total, total / len(times), max(times), min(times)))))
    return csv_bytes(rows, newline="\n")


def _timestamps(truth: Truth, runs: dict[str, list[Kernel]]) -> bytes:
    lines = []
    for one in truth.operators:
        spans = "".join(
            f"{kernel.launch.start_ns},{six_digits(us(kernel.launch.duration_ns))} " for kernel in runs[one.full_name]
        )
        lines.append(f"{one.full_name};GpuOps;{spans}\n")
    return "".join(lines).encode()


def _activity_timestamps(rank: Rank) -> bytes:
    lines = [f"{_activity(one.operator)};17;{one.start_ns};{six_digits(us(one.duration_ns))}\n" for one in rank.kernels]
    return "".join(lines).encode()


def _framework(truth: Truth, rank: Rank) -> bytes:
    lines = []
    for one in rank.executions:
        shapes = (str(list(shape)) for shape in one.operator.inputs if shape is not None)
        inputs = "".join(f"input_{i}:{shape};" for i, shape in enumerate(shapes, start=1))
        lines.append(f"{one.operator.type};{one.operator.name};{truth.graph};{inputs}\n")
    return "".join(lines).encode()


def _step_points(truth: Truth, runs: dict[str, list[Kernel]]) -> bytes:
    """Write the operators that bound a step, with their starts and ends in counts of 10 ns."""
    lines = []
    for one in (truth.operators[0], truth.operators[-1]):
        spans = " ".join(f"{kernel.start_ns // 10},{kernel.end_ns // 10}" for kernel in runs[one.full_name])
        lines.append(f"{one.full_name} {spans}\n")
    return "".join(lines).encode()


def _start_time(rank: Rank) -> bytes:
    return f"host_monotonic_raw_time(ns): {rank.start_ns % 10**15}\ngpu_start_time(ns): {rank.start_ns}\n".encode()


def _dynamic_shapes(rank: Rank) -> bytes:
    """Write the runs of operators and kernels, and their sums by type, step by step (microseconds)."""
    operators: dict[str, list[dict[str, object]]] = {}
    kernels: dict[str, list[dict[str, object]]] = {}
    operator_types: dict[str, dict[str, list[object]]] = {}
    kernel_types: dict[str, dict[str, list[object]]] = {}
    for number, step in enumerate(rank.steps, start=1):
        ran = [one for one in rank.kernels if one.step == step.number]
        key = str(number)
        operators[key] = [
            {
                "step": number,
                "op_side": "gpu",
                "op_type": one.operator.type,
                "op_name": one.operator.name,
                "dur": us(one.launch.duration_ns),
                "shape_info": [str(list(shape)) for shape in one.operator.inputs if shape is not None],
            }
            for one in ran
        ]
        kernels[key] = [
            {
                "step": number,
                "op_type": "cuLaunchKernel",
                "op_name": _activity(one.operator),
                "op_full_name": one.operator.full_name,
                "dur": us(one.duration_ns),
                "block_dim": "256,1,1",
                "grid_dim": "8,1,1",
            }
            for one in ran
        ]
        launched = _sums((one.operator.type, one.launch.duration_ns) for one in ran)
        operator_types[key] = {name: list(sums) for name, sums in launched.items()}
        owners = {_activity(one.operator): one.operator.full_name for one in ran}
        run = _sums((_activity(one.operator), one.duration_ns) for one in ran)
        kernel_types[key] = {name: [*sums, owners[name]] for name, sums in run.items()}
    return json_bytes(
        {"operator": operators, "kernel": kernels, "operator_type": operator_types, "kernel_type": kernel_types}
    )


def _sums(durations: Iterable[tuple[str, int]]) -> dict[str, tuple[float, int, float]]:
    """Return time, number and mean time by name, in microseconds."""
    groups: dict[str, list[int]] = {}
    for name, ns in durations:
        groups.setdefault(name, []).append(ns)
    return {name: (us(sum(times)), len(times), round(us(sum(times)) / len(times), 4)) for name, times in groups.items()}


def _fetches(rank: Rank) -> bytes:
    lines = []
    for batch in rank.pipeline.batches:
        start = batch.at_ms * 1000
        lines.append(f"GetNext {start} {start + batch.push_ms * 1000} {batch.queued}\n")
    return "".join(lines).encode()


def _info(truth: Truth, rank: Rank) -> bytes:
    start, stop = (f"{utc(ns):%Y-%m-%d %H:%M:%S}" for ns in (rank.start_ns, rank.end_ns))
    return json_bytes(
        {
            "profiling_start_time": start,
            "profiling_stop_time": stop,
            "analyse_start_time": stop,
            "context_mode": "graph",
            "rank_id": str(rank.number),
            "ms_version": "2.0.0",
            "graph_ids": [0],
            "analyse_end_time": stop,
            "rank_size": truth.world,
            "is_heterogeneous": False,
        }
    )


def _timeline(truth: Truth, rank: Rank) -> dict[str, bytes]:
    events: list[dict[str, object]] = []
    for one in rank.kernels:
        launch = one.launch
        event = {"name": one.operator.full_name, "ph": "X", "tid": "Ops", "ts": us(launch.start_ns)}
        events.append({**event, "dur": us(launch.duration_ns), "pid": rank.number})
    for one in rank.kernels:
        args = {
            "type": "cuLaunchKernel",
            "op_full_name": one.operator.full_name,
            "block_dim": "256,1,1",
            "grid_dim": "8,1,1",
        }
        event = {"name": _activity(one.operator), "ph": "X", "tid": "17", "ts": us(one.start_ns)}
        events.append({**event, "dur": us(one.duration_ns), "pid": rank.number, "args": args})
    events += lane_labels(str(rank.number), "GPU Op")
    summary = {
        "total_time": sum(us(one.launch.duration_ns) for one in rank.kernels) / 1000,
        "num_of_streams": 1,
        "num_of_ops": len(truth.operators),
        "op_exe_times": len(rank.kernels),
        "max_scope_name_num": 0,
    }
    return {
        f"gpu_timeline_display_{rank.number}.json": f"[{','.join(map(json.dumps, events))}]".encode(),
        f"gpu_timeline_summary_{rank.number}.json": json_bytes(summary),
    }
