"""The flat `profiler/` directory of MindSpore 1.x to 2.2 on a GPU: names end in the device, times are in microseconds.

Formats: MindSpore 2.0 source (gpu_data_saver.cc, data_saver.h, cpu_gpu_timeline_generator.py); timelines read on real
output (test data of MindInsight). No other real file is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfguard.testing import minddata
from perfguard.testing.formats import (
    Event,
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
#: Lanes of the timeline.
_STEPS_LANE, _OPERATORS_LANE = 100000, 100002
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
        f"profiler_info_{number}.json": profiler_info(
            output, analysed_ns=rank.end_ns, known={"graph_ids": [output.truth.graph]}
        ),
        **_timeline(output),
    }
    if output.on["graph"]:
        files |= _step_trace(output)
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
    """Write the activities by their names, each under the operator that it first ran for."""
    rows = []
    for name, ones in grouped(rank.kernels, lambda one: _activity(one.operator)).items():
        times = [us(one.duration_ns) for one in ones]
        total = sum(times)
        what = (name, _LAUNCH, ones[0].operator.full_name, _STREAM, *_DIMENSIONS.values())
        rows.append((*what, len(times), *map(six_digits, (total, total / len(times), max(times), min(times)))))
    return csv_bytes(columns("gpu_activity_data"), rows, newline="\n")


def _stamped(one: Execution) -> str:
    return f"{one.start_ns},{six_digits(us(one.duration_ns))} "


def _activity_timestamps(rank: Rank) -> bytes:
    runs = grouped(rank.kernels, lambda one: _activity(one.operator))
    return lines_bytes(
        f"{name};{_STREAM};{one.start_ns};{six_digits(us(one.duration_ns))}"
        for name, ones in runs.items()
        for one in ones
    )


def _shapes(operator: Operator) -> list[str]:
    return [str(list(shape)) for shape in operator.shapes]


def _points_of_steps(rank: Rank) -> Iterator[list[tuple[str, int]]]:
    """Yield of every step the operators that begin it, begin and end its passes, and end it, with their times in ns."""
    for step in rank.steps:
        inside = of_step(rank.executions, step.step)
        starts = [(one.operator.full_name, one.start_ns) for one in (inside[0], inside[0], inside[-2])]
        yield [*starts, (inside[-1].operator.full_name, inside[-1].start_ns + inside[-1].duration_ns)]


def _step_points(rank: Rank) -> bytes:
    """Write the points of every step, a step a line: kernels are launched asynchronously."""
    return lines_bytes(" ".join(f"{name},{ns}" for name, ns in points) for points in _points_of_steps(rank))


def _step_trace(output: Output) -> Files:
    """Write what MindSpore makes of the points: the parts of every step in counts of 10 ns, and their mean."""
    number, points = output.number, list(_points_of_steps(output.rank))
    rows = []
    for step, named in enumerate(points, start=1):
        start, forward, backward, end = (ns // 10 for _, ns in named)
        parts = (forward - start, backward - forward, end - backward)
        rows.append([step, start, end, end - start, forward, backward, *parts])
    means = [(2 * sum(column) + len(rows)) // (2 * len(rows)) for column in zip(*rows, strict=True)]
    names = [{"fp_start": named[1][0], "bp_end": named[2][0]} for named in points]
    return {
        f"step_trace_raw_{number}_detail_time.csv": csv_bytes(columns("step_trace_raw"), [*rows, ["-", *means[1:]]]),
        f"step_trace_point_info_{number}.json": json_bytes(names),
    }


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
    """Write what is drawn: steps, operators and activities, and their sums. Names have no scope, lanes are numbers."""
    rank, number = output.rank, output.number

    def event(name: str, lane: int, start_ns: int, dur: float, **more: object) -> Event:
        return timeline_event(name.rpartition("/")[2], lane, us(start_ns), dur, number, **more)

    drawn = []
    for step, points in enumerate(_points_of_steps(rank), start=1):
        start, end = points[0][1], points[-1][1]
        drawn.append((start, event(str(step), _STEPS_LANE, start, us(end - start))))
    for launch in rank.executions:
        name, dur = launch.operator.full_name, float(six_digits(us(launch.duration_ns)))
        drawn.append((launch.start_ns, event(name, _OPERATORS_LANE, launch.start_ns, dur)))
    first: dict[str, str] = {}
    for one in rank.kernels:
        operator = first.setdefault(_activity(one.operator), one.operator.full_name)
        args = {"type": _LAUNCH, "op_full_name": operator, **_DIMENSIONS}
        dur = float(six_digits(us(one.duration_ns)))
        drawn.append((one.start_ns, event(_activity(one.operator), _STREAM, one.start_ns, dur, args=args)))
    events = [one for _, one in sorted(drawn, key=lambda pair: pair[0])] + lane_labels(str(number), "GPU Op")
    total = sum(float(six_digits(us(one.duration_ns))) for one in rank.executions) / 1000
    operators = {one.operator.full_name for one in rank.executions}
    depth = max(name.count("/") for name in operators)
    summary = timeline_summary(total, operators=len(operators), runs=len(rank.executions), depth=depth)
    return {f"gpu_timeline_display_{number}.json": one_by_one(events), f"gpu_timeline_summary_{number}.json": summary}
