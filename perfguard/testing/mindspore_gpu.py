"""The flat `profiler/` directory of MindSpore 1.x to 2.2 on a GPU: names end in the device, times are in microseconds.

Formats: MindSpore 2.0 source (gpu_data_saver.cc, data_saver.h, cpu_gpu_timeline_generator.py); timelines read on real
output (test data of MindInsight). No other real file is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfguard.testing import minddata
from perfguard.testing.formats import (
    Files,
    below,
    columns,
    csv_bytes,
    json_bytes,
    lines_bytes,
    plain_csv,
    six_digits,
    us,
)
from perfguard.testing.mindspore_info import profiler_info
from perfguard.testing.timelines import Event, lane_labels, one_by_one, timeline_summary
from perfguard.testing.truth import Kernel, Operator, Rank, Span, Truth, grouped, of_step

_DETAIL = columns(
    "op_side,op_type,op_name,op_full_name,op_occurrences,op_total_time(us),op_avg_time(us),total_proportion,"
    "cuda_activity_cost_time(us),cuda_activity_call_count"
)
_ACTIVITY = columns(
    "name,type,op_full_name,stream_id,block_dim,grid_dim,occurrences,total_duration(us),avg_duration(us),"
    "max_duration(us),min_duration(us)"
)
_LAUNCH = "cuLaunchKernel"
_STREAM, _BLOCKS, _GRID = 17, "256,1,1", "8,1,1"


def directory(truth: Truth, rank: Rank, on: Mapping[str, bool]) -> Files:
    """Write `profiler/` of one device."""
    number = rank.number
    runs = truth.by_operator(rank.kernels)
    whole = sum(one.launch.duration_ns for one in rank.kernels)
    files = {
        f"gpu_op_detail_info_{number}.csv": _detail(runs, whole),
        f"gpu_op_type_info_{number}.csv": _types(runs, whole),
        f"gpu_activity_data_{number}.csv": _activities(runs),
        f"gpu_op_execute_timestamp_{number}.txt": _timestamps(runs),
        f"activity_execute_timestamp_{number}.txt": _activity_timestamps(rank),
        f"gpu_framework_{number}.txt": _framework(truth, rank),
        f"step_trace_profiling_{number}.txt": _step_points(runs),
        f"start_time_{number}.txt": _start_time(rank),
        f"profiler_info_{number}.json": profiler_info(
            rank, version="2.0.0", world=truth.world, analysed_ns=rank.end_ns, known={"graph_ids": [0]}
        ),
        **_timeline(truth, rank),
    }
    if on["dynamic_shape"]:
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(rank)
    if on["data_process"]:
        files |= minddata.collected(rank.pipeline, number, sink=on["sink"], version="2.0")
        files |= minddata.analysed(rank.pipeline, number, sink=on["sink"], version="2.0")
        if on["sink"]:
            files[f"minddata_getnext_profiling_{number}.txt"] = _fetches(rank)
    return below("profiler", files)


def _activity(operator: Operator) -> str:
    return f"{operator.type}Kernel<float>(int, float const*, float*)"


def _times(spans: Sequence[Span]) -> list[float]:
    return [us(one.duration_ns) for one in spans]


def _detail(runs: dict[Operator, list[Kernel]], whole: int) -> bytes:
    rows: list[tuple[object, ...]] = [_DETAIL]
    for one, kernels in runs.items():
        count, total = len(kernels), us(sum(kernel.launch.duration_ns for kernel in kernels))
        device = us(sum(kernel.duration_ns for kernel in kernels))
        times = map(six_digits, (total, total / count, total * 1000 / whole, device))
        rows.append(("Device", one.type, one.name, one.full_name, count, *times, count))
    return plain_csv(rows)


def _types(runs: dict[Operator, list[Kernel]], whole: int) -> bytes:
    kernels = [kernel for ones in runs.values() for kernel in ones]
    rows: list[tuple[object, ...]] = [columns("op_type,type_occurrences,total_time(us),total_proportion,avg_time(us)")]
    for kind, ones in grouped(kernels, lambda one: one.operator.type).items():
        total = us(sum(one.launch.duration_ns for one in ones))
        rows.append((kind, len(ones), *map(six_digits, (total, total * 1000 / whole, total / len(ones)))))
    return plain_csv(rows)


def _activities(runs: dict[Operator, list[Kernel]]) -> bytes:
    rows: list[tuple[object, ...]] = [_ACTIVITY]
    for one, kernels in runs.items():
        times = _times(kernels)
        total = sum(times)
        what = (_activity(one), _LAUNCH, one.full_name, _STREAM, _BLOCKS, _GRID)
        rows.append((*what, len(times), *map(six_digits, (total, total / len(times), max(times), min(times)))))
    return csv_bytes(rows, newline="\n")


def _timestamps(runs: dict[Operator, list[Kernel]]) -> bytes:
    lines = []
    for one, kernels in runs.items():
        launches = (kernel.launch for kernel in kernels)
        spans = "".join(f"{run.start_ns},{six_digits(us(run.duration_ns))} " for run in launches)
        lines.append(f"{one.full_name};GpuOps;{spans}")
    return lines_bytes(lines)


def _activity_timestamps(rank: Rank) -> bytes:
    return lines_bytes(
        f"{_activity(one.operator)};{_STREAM};{one.start_ns};{six_digits(us(one.duration_ns))}" for one in rank.kernels
    )


def _framework(truth: Truth, rank: Rank) -> bytes:
    lines = []
    for one in rank.executions:
        inputs = "".join(f"input_{i}:{shape};" for i, shape in enumerate(_shapes(one.operator), start=1))
        lines.append(f"{one.operator.type};{one.operator.name};{truth.graph};{inputs}")
    return lines_bytes(lines)


def _shapes(operator: Operator) -> list[str]:
    return [str(list(shape)) for shape in operator.shapes]


def _step_points(runs: dict[Operator, list[Kernel]]) -> bytes:
    """Write the first and the last operator of a step, with their starts and ends in counts of 10 ns."""
    operators = list(runs)
    lines = []
    for one in (operators[0], operators[-1]):
        spans = " ".join(f"{kernel.start_ns // 10},{kernel.end_ns // 10}" for kernel in runs[one])
        lines.append(f"{one.full_name} {spans}")
    return lines_bytes(lines)


def _start_time(rank: Rank) -> bytes:
    return f"host_monotonic_raw_time(ns): {rank.start_ns % 10**15}\ngpu_start_time(ns): {rank.start_ns}\n".encode()


def _dynamic_shapes(rank: Rank) -> bytes:
    """Write the runs of operators and kernels, and their sums by type, step by step (microseconds)."""
    document: dict[str, dict[str, object]] = {
        name: {} for name in ("operator", "kernel", "operator_type", "kernel_type")
    }
    for number, step in enumerate(rank.steps, start=1):
        kernels = of_step(rank.kernels, step.number)
        by_type = grouped(kernels, lambda one: one.operator.type)
        by_activity = grouped(kernels, lambda one: _activity(one.operator))
        parts: dict[str, object] = {
            "operator": [_operator_run(number, one) for one in kernels],
            "kernel": [_kernel_run(number, one) for one in kernels],
            "operator_type": {name: _sums([one.launch for one in ones]) for name, ones in by_type.items()},
            "kernel_type": {name: [*_sums(ones), ones[-1].operator.full_name] for name, ones in by_activity.items()},
        }
        for name, part in parts.items():
            document[name][str(number)] = part
    return json_bytes(document)


def _operator_run(step: int, one: Kernel) -> dict[str, object]:
    operator = one.operator
    run = {"step": step, "op_side": "gpu", "op_type": operator.type, "op_name": operator.name}
    return {**run, "dur": us(one.launch.duration_ns), "shape_info": _shapes(operator)}


def _kernel_run(step: int, one: Kernel) -> dict[str, object]:
    names = {"op_type": _LAUNCH, "op_name": _activity(one.operator), "op_full_name": one.operator.full_name}
    return {"step": step, **names, "dur": us(one.duration_ns), "block_dim": _BLOCKS, "grid_dim": _GRID}


def _sums(spans: Sequence[Span]) -> list[object]:
    """Return time, number and mean time, in microseconds."""
    total = us(sum(one.duration_ns for one in spans))
    return [total, len(spans), round(total / len(spans), 4)]


def _fetches(rank: Rank) -> bytes:
    lines = []
    for batch in rank.pipeline.batches:
        start = batch.at_ms * 1000
        lines.append(f"GetNext {start} {start + batch.push_ms * 1000} {batch.queued}")
    return lines_bytes(lines)


def _timeline(truth: Truth, rank: Rank) -> Files:
    launches = [one.launch for one in rank.kernels]
    events: list[Event] = []
    for launch in launches:
        event: Event = {"name": launch.operator.full_name, "ph": "X", "tid": "Ops", "ts": us(launch.start_ns)}
        events.append({**event, "dur": us(launch.duration_ns), "pid": rank.number})
    for one in rank.kernels:
        args = {"type": _LAUNCH, "op_full_name": one.operator.full_name, "block_dim": _BLOCKS, "grid_dim": _GRID}
        event = {"name": _activity(one.operator), "ph": "X", "tid": str(_STREAM), "ts": us(one.start_ns)}
        events.append({**event, "dur": us(one.duration_ns), "pid": rank.number, "args": args})
    events += lane_labels(str(rank.number), "GPU Op")
    total = sum(_times(launches)) / 1000
    return {
        f"gpu_timeline_display_{rank.number}.json": one_by_one(events),
        f"gpu_timeline_summary_{rank.number}.json": timeline_summary(
            total, operators=len(truth.operators), runs=len(rank.kernels), depth=0
        ),
    }
