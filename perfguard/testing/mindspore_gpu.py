"""The flat `profiler/` directory of MindSpore 1.x to 2.2 on a GPU: names end in the device, times are in microseconds.

Formats: MindSpore 2.0 source (gpu_data_saver.cc, data_saver.h, cpu_gpu_timeline_generator.py); timelines read on real
output (test data of MindInsight). No other real file is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfguard.testing import minddata
from perfguard.testing.formats import (
    Files,
    below,
    columns,
    csv_bytes,
    json_bytes,
    lane_labels,
    lines_bytes,
    one_by_one,
    plain_csv,
    six_digits,
    timeline_event,
    timeline_summary,
    us,
)
from perfguard.testing.mindspore_cpu import framework_line, profiler_info, timestamps
from perfguard.testing.truth import Execution, Kernel, Operator, Output, Rank, Span, grouped, of_step, runs_by_name

_LAUNCH = "cuLaunchKernel"
_STREAM = 17
_DIMENSIONS = {"block_dim": "256,1,1", "grid_dim": "8,1,1"}


def directory(output: Output) -> Files:
    """Write `profiler/` of one device."""
    rank, number = output.rank, output.number
    files = {
        f"gpu_op_detail_info_{number}.csv": _detail(rank),
        f"gpu_op_type_info_{number}.csv": _types(rank),
        f"gpu_activity_data_{number}.csv": _activities(rank),
        f"gpu_op_execute_timestamp_{number}.txt": timestamps(runs_by_name(rank.executions), "GpuOps", _stamped),
        f"activity_execute_timestamp_{number}.txt": _activity_timestamps(rank),
        f"gpu_framework_{number}.txt": lines_bytes(
            framework_line(output, one.operator, _shapes(one.operator)) for one in rank.executions
        ),
        f"step_trace_profiling_{number}.txt": _step_points(rank),
        f"start_time_{number}.txt": lines_bytes(
            [f"host_monotonic_raw_time(ns): {rank.start_ns % 10**15}", f"gpu_start_time(ns): {rank.start_ns}"]
        ),
        f"profiler_info_{number}.json": profiler_info(output, analysed_ns=rank.end_ns, known={"graph_ids": [0]}),
        **_timeline(output),
    }
    if output.on["dynamic_shape"]:
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(rank)
    if output.on["data_process"]:
        files |= minddata.pipeline_files(output)
        if output.on["sink"]:
            files[f"minddata_getnext_profiling_{number}.txt"] = _fetches(rank)
    return below("profiler", files)


def _activity(operator: Operator) -> str:
    return f"{operator.type}Kernel<float>(int, float const*, float*)"


def _detail(rank: Rank) -> bytes:
    whole = sum(one.duration_ns for one in rank.executions)
    rows = []
    for launched, runs in zip(runs_by_name(rank.executions), rank.runs(), strict=True):
        one, count = runs.operator, len(runs.runs)
        times = (us(launched.total_ns), us(launched.total_ns) / count, launched.total_ns / whole, us(runs.total_ns))
        rows.append(("Device", one.type, one.name, one.full_name, count, *map(six_digits, times), count))
    return plain_csv(columns("gpu_op_detail_info"), rows)


def _types(rank: Rank) -> bytes:
    whole = sum(one.duration_ns for one in rank.executions)
    rows = []
    for kind, ones in grouped(rank.executions, lambda one: one.operator.type).items():
        total, count, _ = _sums(ones)
        rows.append((kind, count, *map(six_digits, (total, total * 1000 / whole, total / count))))
    return plain_csv(columns("gpu_op_type_info"), rows)


def _activities(rank: Rank) -> bytes:
    rows = []
    for runs in rank.runs():
        times = [us(one.duration_ns) for one in runs.runs]
        total = sum(times)
        what = (_activity(runs.operator), _LAUNCH, runs.operator.full_name, _STREAM, *_DIMENSIONS.values())
        rows.append((*what, len(times), *map(six_digits, (total, total / len(times), max(times), min(times)))))
    return csv_bytes(columns("gpu_activity_data"), rows, newline="\n")


def _stamped(one: Execution) -> str:
    return f"{one.start_ns},{six_digits(us(one.duration_ns))} "


def _activity_timestamps(rank: Rank) -> bytes:
    return lines_bytes(
        f"{_activity(one.operator)};{_STREAM};{one.start_ns};{six_digits(us(one.duration_ns))}" for one in rank.kernels
    )


def _shapes(operator: Operator) -> list[str]:
    return [str(list(shape)) for shape in operator.shapes]


def _step_points(rank: Rank) -> bytes:
    """Write the first and the last operator of a step, with their starts and ends in counts of 10 ns."""
    lines = []
    for runs in (rank.runs()[0], rank.runs()[-1]):
        spans = " ".join(f"{kernel.start_ns // 10},{kernel.end_ns // 10}" for kernel in runs.runs)
        lines.append(f"{runs.operator.full_name} {spans}")
    return lines_bytes(lines)


def _dynamic_shapes(rank: Rank) -> bytes:
    """Write the runs of operators and kernels, and their sums by type, step by step (microseconds)."""
    document: dict[str, dict[str, object]] = {}
    for number, step in enumerate(rank.steps, start=1):
        kernels = of_step(rank.kernels, step.step)
        by_type = grouped(kernels, lambda one: one.operator.type)
        by_activity = grouped(kernels, lambda one: _activity(one.operator))
        parts: dict[str, object] = {
            "operator": [_operator_run(number, one) for one in kernels],
            "kernel": [_kernel_run(number, one) for one in kernels],
            "operator_type": {name: _sums([one.launch for one in ones]) for name, ones in by_type.items()},
            "kernel_type": {name: [*_sums(ones), ones[-1].operator.full_name] for name, ones in by_activity.items()},
        }
        for name, part in parts.items():
            document.setdefault(name, {})[str(number)] = part
    return json_bytes(document)


def _operator_run(step: int, one: Kernel) -> dict[str, object]:
    operator = one.operator
    run = {"step": step, "op_side": "gpu", "op_type": operator.type, "op_name": operator.name}
    return {**run, "dur": us(one.launch.duration_ns), "shape_info": _shapes(operator)}


def _kernel_run(step: int, one: Kernel) -> dict[str, object]:
    names = {"op_type": _LAUNCH, "op_name": _activity(one.operator), "op_full_name": one.operator.full_name}
    return {"step": step, **names, "dur": us(one.duration_ns), **_DIMENSIONS}


def _sums(spans: Sequence[Span]) -> tuple[float, int, float]:
    """Return time, number and mean time, in microseconds."""
    total = us(sum(one.duration_ns for one in spans))
    return total, len(spans), round(total / len(spans), 4)


def _fetches(rank: Rank) -> bytes:
    lines = []
    for batch in rank.pipeline.batches:
        start = batch.at_ms * 1000
        lines.append(f"GetNext {start} {start + batch.push_ms * 1000} {batch.queued}")
    return lines_bytes(lines)


def _timeline(output: Output) -> Files:
    rank, number = output.rank, output.number
    events = []
    for launch in rank.executions:
        name, ts = launch.operator.full_name, us(launch.start_ns)
        events.append(timeline_event(name, "Ops", ts, us(launch.duration_ns), number))
    for one in rank.kernels:
        args = {"type": _LAUNCH, "op_full_name": one.operator.full_name, **_DIMENSIONS}
        name, ts, dur = _activity(one.operator), us(one.start_ns), us(one.duration_ns)
        events.append(timeline_event(name, str(_STREAM), ts, dur, number, args=args))
    events += lane_labels(str(number), "GPU Op")
    total = sum(us(one.duration_ns) for one in rank.executions) / 1000
    summary = timeline_summary(total, operators=len(output.truth.operators), runs=len(rank.kernels), depth=0)
    return {f"gpu_timeline_display_{number}.json": one_by_one(events), f"gpu_timeline_summary_{number}.json": summary}
