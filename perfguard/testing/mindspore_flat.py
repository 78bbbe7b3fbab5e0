"""The flat `profiler/` directory MindSpore 1.x to 2.4 writes on an Ascend device; columns and units change on the way.

Formats: real output of MindSpore 1.x and 2.0 (test data of MindInsight), MindSpore 1.9, 2.0 and 2.1 sources
(integrator.py, optime_parser.py, flops_parser.py, step_trace_parser.py, hccl_parser.py, ascend_op_generator.py), documents
of 2.3 and 2.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from perfguard.testing import ascend_output as output
from perfguard.testing import minddata
from perfguard.testing.ascend_trace import cann_events, mindspore_trace_view
from perfguard.testing.formats import csv_bytes, json_bytes, microseconds, plain_csv, us
from perfguard.testing.graphs import tracker_files
from perfguard.testing.mindspore_cpu import (
    lane_labels,
    memory_file,
    operator_files,
    scope_layers,
    stamp,
    utc,
)
from perfguard.testing.truth import Collective, Kernel, Operator, Rank, Truth

_STREAM = 519

#: What the device's clock shows at the start of the window, in nanoseconds.
_DEVICE_START = 154_907_895_000_000

_PEAK_GFLOPS = 320_000

#: What the files call a type of collective operation.
_COLLECTIVES = {"allReduce": "AllReduce", "send": "Send", "receive": "Receive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Which form of the files is written: the version of MindSpore ("1.3", "1.9", "2.0", "2.1" or "2.3"), and a variant."""

    version: str
    #: "kernel-names" (kernel for op in names of columns), "inference" (no backward pass), "documented" (2.3 as in its
    #: documents, where they differ from its source).
    variant: str = ""

    @property
    def since_2_1(self) -> bool:
        """Whether the files are made from msprof's op_summary: times in microseconds."""
        return self.version in ("2.1", "2.3")

    @property
    def before_2_0(self) -> bool:
        """Whether it is 1.x."""
        return self.version.startswith("1.")

    @property
    def kernels(self) -> bool:
        """Whether columns speak of kernels, not operators."""
        return self.version == "2.3" or self.variant == "kernel-names"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """All runs of one operator's kernel."""

    operator: Operator
    kernels: tuple[Kernel, ...]

    @property
    def total_ns(self) -> int:
        return sum(one.duration_ns for one in self.kernels)

    @property
    def mean_ns(self) -> float:
        return self.total_ns / len(self.kernels)


def directory(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> dict[str, bytes]:
    """Write `profiler/` of one rank. 1.x knows graph mode only, and no profiler_info."""
    number = rank.number
    files = _raw(rank, form)
    if not form.before_2_0:
        files[f"profiler_info_{number}.json"] = _info(truth, rank, on, form)
    if on.get("graph", True):
        files |= _graph_files(truth, rank, on, form)
    elif form.since_2_1:
        files |= _device_tables(truth, rank, form)
    else:
        files |= _pynative(truth, rank)
    if on["data_process"]:
        version = "1.x" if form.version == "1.3" else "2.0"
        files |= minddata.collected(rank.pipeline, number, sink=on["sink"], version=version)
        files |= minddata.analysed(rank.pipeline, number, sink=on["sink"], version=version)
        if on["sink"]:
            files |= minddata.device_wait(rank.pipeline, number, header=not form.before_2_0)
    if on.get("heterogeneous"):
        files |= operator_files(truth, rank, graph=True, epoch=form.since_2_1, names_fast_path=True)
    if on.get("host_info"):
        files |= _host_info(rank)
    if form.version == "2.3":
        files |= _since_2_3(truth, rank, on, form)
    return {f"profiler/{name}": content for name, content in files.items()}


def _graph_files(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> dict[str, bytes]:
    number = rank.number
    files = _device_tables(truth, rank, form)
    if not form.since_2_1:
        files |= _reports(truth, rank, form)
    if on["aicpu"]:
        files |= _aicpu(rank, form)
    if on["flops"]:
        files |= _flops(truth, rank, form)
    if not (on.get("heterogeneous") or on.get("dynamic_shape")):
        files[f"step_trace_raw_{number}_detail_time.csv"] = _step_trace(rank, form)
        name = "step_trace_point_info" if form.before_2_0 else f"step_trace_point_info_{number}"
        files[f"{name}.json"] = _points(rank, form)
    if on.get("dynamic_shape"):
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(truth, rank, form)
    if on.get("memory") and form.version == "2.0":
        files |= _memory_usage(truth, rank)
    if truth.world > 1:
        if on["communication"]:
            files[f"hccl_raw_{number}.csv"] = _communication(rank, since_2_1=form.since_2_1)
            files[f"hccl_info_{number}/hccl_info.csv"] = b""
        files |= _cluster(truth, rank, form)
    if on["parallel_strategy"]:
        files[f"parallel_strategy_{number}.json"] = _parallel_strategy(truth, rank)
    return files


def _ran(truth: Truth, rank: Rank) -> list[_Ran]:
    runs: dict[str, list[Kernel]] = {one.full_name: [] for one in truth.operators}
    for kernel in rank.kernels:
        runs[kernel.operator.full_name].append(kernel)
    return [_Ran(operator=one, kernels=tuple(runs[one.full_name])) for one in truth.operators]


def _device_ns(rank: Rank, ns: int) -> int:
    """UNIX time as the device's clock shows it, a multiple of its ticks of 10 ns."""
    return (ns - rank.start_ns) // 10 * 10 + _DEVICE_START


# --- operators


def _device_tables(truth: Truth, rank: Rank, form: Form) -> dict[str, bytes]:
    number = rank.number
    ran = _ran(truth, rank)
    name = "full_kernel_name" if form.kernels else "full_op_name"
    detail: list[tuple[object, ...]]
    if form.since_2_1:
        detail = [(name, "task_duration", "execution_frequency", "task_type")]
        detail += [
            (one.operator.full_name, one.mean_ns / 1000, len(one.kernels), one.operator.kind.core) for one in ran
        ]
    elif form.before_2_0:
        detail = [(name, "execution_time"), *((one.operator.full_name, one.mean_ns / 1_000_000) for one in ran)]
    else:
        detail = [(name, "execution_time", "execution_frequency")]
        detail += [(one.operator.full_name, one.mean_ns / 1_000_000, len(one.kernels)) for one in ran]
    return {
        f"aicore_intermediate_{number}_detail.csv": csv_bytes(detail),
        f"aicore_intermediate_{number}_type.csv": _type_table(ran, form),
        f"framework_raw_{number}.csv": _framework(truth, ran, form),
        f"output_timeline_data_{number}.txt": _timeline_data(rank, form),
        f"ascend_timeline_display_{number}.json": _timeline(truth, rank, form),
        f"ascend_timeline_summary_{number}.json": _summary(ran, form),
    }


def _by_type(ran: Iterable[_Ran]) -> dict[str, tuple[int, int]]:
    """Return time in nanoseconds and number of runs of each type."""
    found: dict[str, tuple[int, int]] = {}
    for one in ran:
        total, times = found.get(one.operator.type, (0, 0))
        found[one.operator.type] = total + one.total_ns, times + len(one.kernels)
    return found


def _type_table(ran: list[_Ran], form: Form) -> bytes:
    groups: dict[str, tuple[float, int]] = {**_by_type(ran)}
    if form.before_2_0:
        groups = _by_type_once(ran)
    whole = sum(total for total, _ in groups.values())
    rows: list[tuple[object, ...]] = []
    for kind, (total, times) in groups.items():
        if form.since_2_1:
            rows.append((kind, total / 1000, times, total / whole))
        else:
            rows.append((kind, total / 1_000_000, times, f"{100 * total / whole:.2f}"))
    time = "task_time" if form.version == "2.3" else "execution_time" if form.before_2_0 else "total_time"
    names = ("kernel_type" if form.kernels else "op_type", time)
    return csv_bytes([(*names, "execution_frequency", "percent"), *rows])


def _by_type_once(ran: Iterable[_Ran]) -> dict[str, tuple[float, int]]:
    """Return mean time and number of operators of each type: in 1.x one counts once, however often it ran."""
    found: dict[str, tuple[float, int]] = {}
    for one in ran:
        total, count = found.get(one.operator.type, (0.0, 0))
        found[one.operator.type] = total + one.mean_ns, count + 1
    return found


def _operator_info(operator: Operator, *, capital: bool) -> dict[str, dict[str, object]]:
    first = str.capitalize if capital else str
    info: dict[str, dict[str, object]] = {}
    for i, shape in enumerate(shape for shape in operator.inputs if shape is not None):
        info[first(f"input_{i}")] = _tensor(shape)
    info[first("output_0")] = _tensor(operator.output)
    return info


def _tensor(shape: tuple[int, ...]) -> dict[str, object]:
    text = ",".join(map(str, shape))
    return {"format": "DefaultFormat", "data_type": "NUMBER_TYPE_FLOAT32", "shape": text}


def _framework(truth: Truth, ran: list[_Ran], form: Form) -> bytes:
    rows: list[tuple[object, ...]] = []
    for one in ran:
        operator, task = one.operator, one.kernels[0].task
        scope = operator.kind.scope.partition("/")[0]
        info = json.dumps(_operator_info(operator, capital=form.since_2_1))
        start = (task, _STREAM, 32, operator.full_name)
        if form.kernels:
            rows.append((*start, operator.full_name, operator.name, operator.type, scope, info, truth.graph))
        elif form.version == "2.1":
            rows.append((*start, operator.name, operator.type, scope, info, 1, operator.kind.core))
        elif form.before_2_0:
            rows.append((*start, operator.name, operator.type, scope, info))
        else:
            rows.append((*start, operator.name, operator.type, scope, info, truth.graph))
    first = ("task_id", "stream_id", "block_dim")
    header: tuple[str, ...] = (*first, "full_op_name", "op_name", "op_type", "subgraph", "op_info")
    if form.kernels:
        header = (*first, "full_kernel_name", "op_name", "kernel_name", "kernel_type", "subgraph", "op_info")
    if not form.before_2_0:
        header += ("model_id", "kernel_type") if form.version == "2.1" else ("graph_id",)
    return csv_bytes([header, *rows])


def _timeline_data(rank: Rank, form: Form) -> bytes:
    rows: list[tuple[object, ...]] = []
    for one in rank.kernels:
        start = _device_ns(rank, one.start_ns)
        if not form.since_2_1:
            rows.append((one.operator.full_name, _STREAM, start / 1_000_000, one.duration_ns / 1_000_000))
        elif one.operator.kind.core == "AI_CORE":
            rows.append((one.operator.full_name, _STREAM, us(start), one.duration_ns / 1_000_000))
    if not form.since_2_1:
        return b"op_name, stream_id, start_time(ms), duration(ms)\n" + plain_csv(rows)
    name = "kernel_name" if form.kernels else "op_name"
    return csv_bytes([(name, "stream_id", "start_time(us)", "duration(ms)"), *rows])


def _timeline(truth: Truth, rank: Rank, form: Form) -> bytes:
    if form.since_2_1:
        scopes = scope_layers((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels)
        pid = int(f"1{rank.number}")
        events: list[dict[str, object]] = [*cann_events(truth, rank)]
        events.append(
            {
                "name": "process_name",
                "pid": pid,
                "tid": 0,
                "args": {"name": f"Scope Layer Rank{rank.number}"},
                "ph": "M",
            }
        )
        for layer in scopes:
            ts, dur = microseconds(layer.start_ns), us(layer.end_ns - layer.start_ns)
            events.append(
                {"name": layer.name, "ph": "X", "pid": pid, "tid": layer.depth, "ts": ts, "dur": dur, "args": {}}
            )
        return json_bytes(events)
    first = rank.kernels[0].start_ns
    lines = []
    for one in rank.kernels:
        args = {
            "type": one.operator.type,
            "fullname": one.operator.full_name,
            **_operator_info(one.operator, capital=False),
        }
        event = {"name": one.operator.name, "ph": "X", "tid": str(_STREAM), "ts": us(one.start_ns - first)}
        lines.append(json.dumps({**event, "dur": us(one.duration_ns), "pid": rank.number, "args": args}))
    lines += [json.dumps(event) for event in lane_labels(str(rank.number), "AI Core Op")]
    return f"[{','.join(lines)}]".encode()


def _summary(ran: list[_Ran], form: Form) -> bytes:
    total = sum(one.total_ns for one in ran)
    depth = max(one.operator.full_name.count("/") for one in ran)
    summary: dict[str, object] = {
        "total_time": total / (1000 if form.since_2_1 else 1_000_000),
        "num_of_streams": 1,
        "num_of_ops": len(ran),
        "op_exe_times": sum(len(one.kernels) for one in ran),
    }
    if form.version != "1.3":
        summary["max_scope_name_num"] = depth + 1 if form.since_2_1 else depth
    return json_bytes(summary)


def _reports(truth: Truth, rank: Rank, form: Form) -> dict[str, bytes]:
    """Write the text reports only 2.0 and older have: tables for people, the columns parted by blanks."""
    number = rank.number
    ran = _ran(truth, rank)
    head = "====================op compute time====================\n"
    counts = not form.before_2_0
    lines = [
        head,
        f"op_name       compute_time(ms) stream_id{' execution_times' if counts else ''}\n",
        f"------------  ---------------  ---------{' ---------------' if counts else ''}\n",
    ]
    for one in ran:
        times = f" {len(one.kernels)}" if counts else ""
        lines.append(f"{one.operator.full_name} {one.mean_ns / 1_000_000}  {_STREAM}{times}\n")
    lines.append(f"total op  {sum(one.mean_ns / 1_000_000 for one in ran)} 0\n")
    whole = sum(one.mean_ns for one in ran)
    detail = [head, "optype_name compute_time(ms, per-step) called_times(per-step) percent\n"]
    groups: dict[str, list[_Ran]] = {}
    for one in ran:
        groups.setdefault(one.operator.type, []).append(one)
    for kind, ones in groups.items():
        time = sum(one.mean_ns for one in ones)
        detail.append(f"{kind} {time / 1_000_000} {len(ones)} {round(100 * time / whole, 2)}\n")
    detail.append("\nDetail:\nop_name op_type avg_execution_time subgraph full_op_name\n")
    for one in ran:
        scope = one.operator.kind.scope.partition("/")[0]
        time = one.mean_ns / 1_000_000
        detail.append(f"{one.operator.name} {one.operator.type} {time} {scope} {one.operator.full_name}\n")
    tasks = [
        "====================45 HWTS data====================\n",
        "Type           cnt  Core_ID  Block_ID  Task_ID  Cycle_counter   Stream_ID\n",
    ]
    for place, kernel in enumerate(rank.kernels):
        for offset, (kind, at) in enumerate((("Start of task", kernel.start_ns), ("End of task", kernel.end_ns))):
            count, name = (2 * place + offset) % 16, f"{_STREAM}_{kernel.task % 60_000}"
            ticks = _device_ns(rank, at) // 10
            tasks.append(f"{kind:<14} {count:<4} 0        0         {name:<8} {ticks:<15} {_STREAM}\n")
    files = {
        f"output_op_compute_time_{number}.txt": "".join(lines).encode(),
        f"output_op_compute_time_detail_{number}.txt": "".join(detail).encode(),
        f"output_format_data_hwts_{number}.txt": "".join(tasks).encode(),
    }
    if form.before_2_0:
        first = _device_ns(rank, rank.kernels[0].start_ns)
        files[f"min_cycle_counter_{number}.txt"] = str(first / 1_000_000).encode()
    return files


def _aicpu(rank: Rank, form: Form) -> dict[str, bytes]:
    """Write the operators that ran on the AI CPU: the one that fetches a batch, once a step."""
    kind = "kernel_type" if form.kernels or form.before_2_0 else "op_type"
    rows: list[tuple[object, ...]] = []
    for serial, step in enumerate(rank.steps, start=1):
        start = _device_ns(rank, step.start_ns) // 1000
        dispatch, run = 0.15, 0.22
        total = dispatch + run if form.since_2_1 else 0.888
        rows.append((serial, "GetNext", total, dispatch, run, start, start + 370))
    times = ("total_time", "dispatch_time", "execution_time", "run_start", "run_end")
    number = "serial_num" if form.variant == "documented" else "serial_number"
    files = {f"aicpu_intermediate_{rank.number}.csv": csv_bytes([(number, kind, *times), *rows])}
    if not form.since_2_1:
        execution = "" if form.before_2_0 else "execution_time(ms) "
        lines = [f"serial_number node_type_name total_time(ms) dispatch_time(ms) {execution}run_start run_end\n"]
        for row in rows:
            cells = (*row[:4], *row[5:]) if form.before_2_0 else row
            lines.append(" ".join(map(str, cells)) + "\n")
        lines.append(f"AI CPU Total Time(ms): {0.888 * len(rows):.6f}\n")
        files[f"output_data_preprocess_aicpu_{rank.number}.txt"] = "".join(lines).encode()
    return files


def _pynative(truth: Truth, rank: Rank) -> dict[str, bytes]:
    ran = _ran(truth, rank)
    whole = sum(one.total_ns for one in ran)
    detail = [("full_op_name", "execution_time"), *((one.operator.full_name, one.mean_ns / 1_000_000) for one in ran)]
    types: list[tuple[object, ...]] = [("op_type", "execution_time", "execution_frequency", "percent")]
    types += [
        (kind, total / 1_000_000, times, f"{100 * total / whole:.2f}") for kind, (total, times) in _by_type(ran).items()
    ]
    return {
        f"pynative_op_intermediate_{rank.number}_detail.csv": csv_bytes(detail),
        f"pynative_op_intermediate_{rank.number}_type.csv": csv_bytes(types),
    }


# --- floating point operations


def _work(operator: Operator) -> int:
    """Return the floating point operations of one run: of a product of matrices, else one for each number."""
    shapes = [shape for shape in operator.inputs if shape]
    numbers = shapes[0][0] * shapes[0][-1] if shapes else 1
    return 2 * numbers * shapes[1][0] if operator.type == "MatMul" else numbers


def _flops(truth: Truth, rank: Rank, form: Form) -> dict[str, bytes]:
    if form.before_2_0:
        return _flops_of_1(truth, rank, form)
    number = rank.number
    rows: list[tuple[object, ...]] = []
    totals = {"cube": 0.0, "vec": 0.0}
    time = 0.0
    for one in _ran(truth, rank):
        million = round(_work(one.operator) / 1_000_000, 6)
        rate = round(_work(one.operator) / one.mean_ns, 6)
        used = round(100 * rate / _PEAK_GFLOPS, 4)
        is_cube = one.operator.kind.core == "AI_CORE"
        totals["cube" if is_cube else "vec"] += million
        time += one.mean_ns
        parts = (million, rate) if form.since_2_1 else (million, rate, used)
        nothing = (0,) * len(parts)
        rows.append((one.operator.full_name, *(parts + nothing if is_cube else nothing + parts)))
    rates = {unit: round(total * 1_000_000 / time, 4) for unit, total in totals.items()}
    if form.since_2_1:
        name = "full_kernel_name" if form.kernels else "op_full_name"
        header = (name, "MFLOPs(10^6 cube)", "GFLOPS(10^9 cube)", "MFLOPs(10^6 vector)", "GFLOPS(10^9 vector)")
        summary = {
            f"{unit}_{key}": value
            for unit in totals
            for key, value in (("FLOPs", round(totals[unit], 4)), ("FLOPS", rates[unit]))
        }
        return {f"flops_{number}.txt": csv_bytes([header, *rows]), f"flops_summary_{number}.json": json_bytes(summary)}
    title = "op_full_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(% cube), MFLOPs(10^6 vec), "
    title += "GFLOPS(10^9 vec), FLOPS utilization(% vec) \n"
    if form.kernels:
        title = "full_kernel_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(cube), "
        title += "MFLOPs(10^6 vector), GFLOPS(10^9 vector), FLOPS utilization(vec)\n"
    whole = {"FLOPs": round(sum(totals.values()), 4), "FLOPS": round(sum(rates.values()), 4)}
    summary = {**whole, "FLOPS_Utilization": round(100 * whole["FLOPS"] / _PEAK_GFLOPS, 4)}
    for unit, total in totals.items():
        summary[f"{unit}_FLOPs"], summary[f"{unit}_FLOPS"] = round(total, 4), rates[unit]
        summary[f"{unit}_FLOPS_Utilization"] = round(100 * rates[unit] / _PEAK_GFLOPS, 4)
    return {
        f"flops_{number}.txt": title.encode() + plain_csv(rows, separator=", "),
        f"flops_summary_{number}.json": json_bytes(summary),
        f"flops_scope_{number}.json": _flops_by_scope(truth),
    }


def _flops_of_1(truth: Truth, rank: Rank, form: Form) -> dict[str, bytes]:
    """Write what 1.x has of floating point operations: one unit, and the share of the peak by step, in spite of its name."""
    number = rank.number
    rows: list[tuple[object, ...]] = []
    millions, rates = 0.0, []
    for one in _ran(truth, rank):
        million = round(_work(one.operator) / 1_000_000, 3)
        rate = round(_work(one.operator) / one.mean_ns, 3)
        rows.append((one.operator.full_name, million, rate, round(100 * rate / _PEAK_GFLOPS, 3)))
        millions += million
        rates.append(rate)
    mean = sum(rates) / len(rates)
    used = 100 * mean / _PEAK_GFLOPS
    title = "op_full_name, MFLOPs(10^6), GFLOPS(10^9), FLOPS utilization(%) \n"
    if form.version == "1.3":
        title = "full_kernel_name, FLOPs, FLOPS, FLOPS utilization\n"
    summary = {"FLOPs": round(millions, 3), "FLOPS": round(mean, 3), "FLOPS_Utilization": round(used, 3)}
    steps = [("steps", "FLOPS_Utilization %"), *((i, round(used, 3)) for i, _ in enumerate(rank.steps, start=1))]
    return {
        f"flops_{number}.txt": title.encode() + plain_csv(rows, separator=", "),
        f"flops_summary_{number}.json": json_bytes(summary),
        f"flops_scope_{number}.json": _flops_by_scope(truth),
        f"flops_utilization_step_{number}.json": plain_csv(steps),
    }


def _flops_by_scope(truth: Truth) -> bytes:
    links: dict[tuple[str, str], float] = {}
    depth = 0
    for operator in truth.operators:
        top, *scopes = operator.kind.scope.split("/")
        path = ["Total", top, *(f"{scope}({top})" for scope in scopes if scope != "Default")]
        depth = max(depth, len(path) - 1)
        for outer, inner in pairwise(path):
            links[outer, inner] = links.get((outer, inner), 0) + _work(operator) / 1_000_000
    nodes = sorted({name for link in links for name in link})
    return json_bytes(
        {
            "data": {
                "nodes": [{"name": name} for name in nodes],
                "links": [
                    {"source": outer, "target": inner, "value": round(value, 3)}
                    for (outer, inner), value in links.items()
                ],
            },
            "max_scope_num": depth,
        }
    )


# --- steps and communication


@dataclass(frozen=True, slots=True, kw_only=True)
class _Points:
    """The points of one step on the device's clock, in ticks of 10 ns."""

    start: int
    forward: int
    backward: int
    end: int
    reductions: tuple[tuple[int, int], ...]


def _step_points(rank: Rank) -> Iterator[_Points]:
    before: int | None = None
    for step in rank.steps:
        kernels = [one for one in rank.kernels if one.step == step.number]
        collectives = [one for one in rank.collectives if one.step == step.number]
        gradients = [one for one in kernels if one.operator.kind.scope.startswith("Gradients")] or kernels
        end = max(one.end_ns for lane in (kernels, collectives) for one in lane)
        ticks = [_device_ns(rank, ns) // 10 for ns in (kernels[0].start_ns, gradients[-1].end_ns, end)]
        yield _Points(
            # A step goes on where the one before it ended.
            start=ticks[0] if before is None else before,
            forward=ticks[0],
            backward=ticks[1],
            end=ticks[2],
            reductions=tuple(
                (_device_ns(rank, c.start_ns) // 10, _device_ns(rank, c.end_ns) // 10) for c in collectives
            ),
        )
        before = ticks[2]


def _step_trace(rank: Rank, form: Form) -> bytes:
    """Write the points of every step, its parts and its communication; 1.3 says 0 for the average, and its ends first."""
    is_early = form.version == "1.3"
    header = ["step_num", "start_point", "end_point", "total", "fp_point", "bp_point"]
    header += ["iteration_interval", "fp_and_bp", "tail"]
    if form.variant == "inference":
        header = ["step_num", "start_point", "end_point", "total", "fp_point", "iteration_interval", "fp"]
    rows = []
    for number, one in enumerate(_step_points(rank), start=1):
        row = [number, one.start, one.end, one.end - one.start, one.forward]
        if form.variant == "inference":
            row += [one.forward - one.start, one.end - one.forward]
        else:
            row.append(one.backward)
            row += [one.forward - one.start, one.backward - one.forward, one.end - one.backward]
        for start, end in one.reductions:
            row += [start, end, end - start] if is_early else [end - start, start, end]
        rows.append(row)
    first = [one for one in rank.collectives if one.step == rank.steps[0].number]
    for i, collective in enumerate(first):
        name = f"stream_10_parallel_{i}" if is_early else f"stream_48_{i}_{_COLLECTIVES[collective.type]}-op{4542 + i}"
        ends = [f"{name}_start_point", f"{name}_end_point"]
        header += [*ends, name] if is_early else [name, *ends]
    means = [sum(column) // len(rows) for column in zip(*rows, strict=True)]
    return csv_bytes([header, *rows, ["0" if is_early else "-", *means[1:]]])


def _points(rank: Rank, form: Form) -> bytes:
    kernels = [one for one in rank.kernels if one.step == rank.steps[0].number]
    gradients = [one for one in kernels if one.operator.kind.scope.startswith("Gradients")] or kernels
    point = {"fp_start": kernels[0].operator.full_name, "bp_end": gradients[-1].operator.full_name}
    return json_bytes([point] if form.since_2_1 else point)


def _communication(rank: Rank, *, since_2_1: bool) -> bytes:
    """Write hccl_raw: milliseconds and a row of means in 2.0, microseconds and the last step once more since."""
    unit = 1000 if since_2_1 else 1_000_000
    steps = []
    for i, step in enumerate(rank.steps, start=1):
        ones = [one for one in rank.collectives if one.step == step.number]
        operators = {
            f"stream_41_{k}_{_COLLECTIVES[one.type]}-op{4582 + k}": _operator_cost(one, unit)
            for k, one in enumerate(ones)
        }
        steps.append((str(i), operators))
    if since_2_1:
        steps.append(("-", steps[-1][1]))
    else:
        steps.append(("-", _mean_costs([operators for _, operators in steps])))
    rows: list[tuple[object, ...]] = []
    for name, operators in steps:
        links: dict[tuple[str, str], list[float]] = {}
        for cost in operators.values():
            for link, part in cost.links.items():
                entry = links.setdefault(link, [0.0, 0.0])
                entry[0], entry[1] = entry[0] + part[0], entry[1] + part[1]
        rows.append(
            (
                name,
                sum(cost.time for cost in operators.values()),
                sum(cost.wait for cost in operators.values()),
                json.dumps(_by_transport(links)),
                json.dumps(
                    {key: [name, cost.time, cost.wait, _by_transport(cost.links)] for key, cost in operators.items()}
                ),
            )
        )
    header = ("step_num", "communication_cost", "wait_cost", "link_info", "communication_operator_cost")
    return csv_bytes([header, *rows], newline="\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """What one collective operation cost in one step; a link (`1-0`, SDMA or RDMA) has its time and its size in KB."""

    time: float
    wait: float
    links: dict[tuple[str, str], list[float]]


def _operator_cost(one: Collective, unit: int) -> _Cost:
    links = {
        (f"{link.target}-{link.source}", "RDMA" if link.transport == "RDMA" else "SDMA"): [
            link.duration_ns / unit,
            link.packet_bytes * link.packets / 1000,
        ]
        for link in one.links
    }
    return _Cost(time=sum(time for time, _ in links.values()), wait=one.wait_ns / unit, links=links)


def _mean_costs(steps: list[dict[str, _Cost]]) -> dict[str, _Cost]:
    count = len(steps)
    return {
        name: _Cost(
            time=sum(step[name].time for step in steps) / count,
            wait=sum(step[name].wait for step in steps) / count,
            links={
                link: [sum(step[name].links[link][i] for step in steps) / count for i in range(2)]
                for link in steps[0][name].links
            },
        )
        for name in steps[0]
    }


def _by_transport(links: dict[tuple[str, str], list[float]]) -> dict[str, dict[str, list[float]]]:
    """Return time, size and bandwidth of every link; over a network also the time it waited."""
    found: dict[str, dict[str, list[float]]] = {}
    for (pair, transport), (time, size) in links.items():
        waited = [0.0] if transport == "RDMA" else []
        found.setdefault(pair, {})[transport] = [time, size, size / time * 1000 if time else 0, *waited]
    return found


def _cluster(truth: Truth, rank: Rank, form: Form) -> dict[str, bytes]:
    """Write the parts of every step for a view of the whole cluster; which parts depends on how the model is split."""
    if form.version == "1.9":
        header: tuple[str, ...] = ("iteration_interval", "fp_and_bp", "tail")
        ticks = [
            (one.forward - one.start, one.backward - one.forward, one.end - one.backward) for one in _step_points(rank)
        ]
        return {_cluster_name(truth, rank, "data"): plain_csv([header, *ticks], separator=", ")}
    receives = tuple(one for one in rank.collectives if one.type == "receive")
    spans, waits = output.overlap(rank), output.overlap(replace(rank, collectives=receives))
    rows: list[tuple[float, ...]] = []
    for step in rank.steps:
        lanes = (spans.computing, spans.not_overlapped, waits.not_overlapped)
        times = (sum(one.duration_ns for one in lane if one.step == step.number) / 1_000_000 for lane in lanes)
        computing, alone, receive = times
        parts = (computing, alone, computing + alone - receive, receive, alone - receive)
        rows.append(tuple(round(part, 4) for part in (parts if truth.stages > 1 else parts[:2])))
    header = ("computation" if form.before_2_0 else "computation_time", "communication_alone_time")
    if truth.stages > 1:
        header += ("stage_time", "receive_alone_time", "collective_communication_alone_time")
    mode = "pipeline" if truth.stages > 1 else "model"
    return {_cluster_name(truth, rank, mode): plain_csv([header, *rows])}


def _cluster_name(truth: Truth, rank: Rank, mode: str) -> str:
    return f"ascend_cluster_analyse_{mode}-parallel_{truth.stages}_{truth.world}_{rank.number}.csv"


# --- everything else


def _info(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> bytes:
    start, stop, end = (f"{utc(ns):%Y-%m-%d %H:%M:%S}" for ns in (rank.start_ns, rank.end_ns, rank.end_ns + 4 * 10**9))
    document: dict[str, object] = {
        "profiling_start_time": start,
        "profiling_stop_time": stop,
        "analyse_start_time": stop,
        "context_mode": "graph" if on["graph"] else "pynative",
        "rank_id": str(rank.number),
        "ms_version": {"2.0": "2.0.0", "2.1": "2.1.1", "2.3": "2.3.1"}[form.version],
        "graph_ids": [0],
    }
    if truth.world > 1:
        mode = "data_parallel" if truth.stages == 1 else "semi_auto_parallel"
        stage = rank.number % truth.stages
        document |= {"parallel_mode": mode, "stage_num": truth.stages, "pipeline_stage_id": stage}
    document |= {
        "analyse_end_time": end,
        "rank_size": truth.world,
        "is_heterogeneous": on["heterogeneous"],
    }
    return json_bytes(document)


def _raw(rank: Rank, form: Form) -> dict[str, bytes]:
    random = Random(f"raw {rank.start_ns} {rank.number}")
    number = rank.number
    token = "".join(random.choice("ABCDEFGHIJKLMNOPQR") for _ in range(16))
    name = f"PROF_000001_{stamp(rank.start_ns)}_{token}"
    files = {f"{name}/device_{number}/data/hwts.data.{number}.slice_0": random.randbytes(128)}
    if not form.since_2_1:
        files[f"container/{number}/data/Framework.host.vm.point.1.slice_0"] = random.randbytes(64)
    return files


def _dynamic_shapes(truth: Truth, rank: Rank, form: Form) -> bytes:
    """Write times and shapes of every execution; those of a type are the means of its operators, execution by execution."""
    document: dict[str, list[object]] = {}
    times_of: dict[str, list[list[float]]] = {}
    for one in _ran(truth, rank):
        times = [kernel.duration_ns / 1_000_000 for kernel in one.kernels]
        info = json.dumps(_operator_info(one.operator, capital=form.since_2_1)).replace('"', "")
        shapes = [f"{info},{truth.graph}"] * len(times)
        entry = {"op_exe_time": times, "op_shape": shapes, "op_exe_occurrences": len(times)}
        document.setdefault(one.operator.type, []).append({one.operator.name: entry})
        times_of.setdefault(one.operator.type, []).append(times)
    means = {
        kind: [round(sum(together) / len(together), 4) for together in zip(*lists, strict=True)]
        for kind, lists in times_of.items()
    }
    return json_bytes({**document, "op_type": means})


def _memory_usage(truth: Truth, rank: Rank) -> dict[str, bytes]:
    gigabyte = 1 << 30
    total = 0.0
    nodes, lines = [], []
    for number, one in enumerate(truth.operators):
        size = 4 * one.output[0] * one.output[-1] / gigabyte
        total += size
        lines.append(total)
        nodes.append(
            {
                "name": one.name,
                "fullname": one.full_name,
                "node_id": number,
                "allocations": 1,
                "size": size,
                "allocated": size,
                "inputs": [],
                "outputs": [],
            }
        )
    graph = {
        "graph_id": 0,
        "static_mem": 0.0,
        "fp_start": 0,
        "bp_end": len(nodes) - 1,
        "lines": lines,
        "nodes": nodes,
        "breakdowns": [],
    }
    summary = {
        "capacity": 32,
        "allocations": len(nodes),
        "deallocations": len(nodes),
        "peak_mem": total,
        "static_mem": 0.0,
    }
    return {
        f"memory_usage_summary_{rank.number}.json": json_bytes(summary),
        f"memory_usage_details_{rank.number}.json": json_bytes({"0": graph}),
    }


def _parallel_strategy(truth: Truth, rank: Rank) -> bytes:
    nodes = []
    for number, one in enumerate(truth.operators, start=1):
        strategy = {"dtype": "DT_TUPLE", "values": [{"dtype": "DT_INT64", "intVal": str(truth.world)}]}
        nodes.append(
            {
                "name": str(number),
                "opType": one.type,
                "scope": one.kind.scope,
                "attribute": [{"name": "gen_strategy", "value": strategy}],
                "fullName": one.full_name,
                "instanceName": "",
            }
        )
    devices = [{"dim": [{"size": str(number)} for number in range(truth.world)]}]
    config = {"rankId": rank.number, "stageId": 0, "parallelType": "data_parallel", "stageDevices": devices}
    return json_bytes({"config": config, "graph": {"node": nodes}}, indent=2)


def _host_info(rank: Rank) -> dict[str, bytes]:
    header = "tid,pid,parent_pid,module_name,event,stage,level,start_end,custom_info,memory_usage(kB),time_stamp(us)"
    lines = [f"{header}\n"]
    events = []
    memory = 345_678
    for step in rank.steps:
        for kind, at in ((0, step.start_ns), (1, step.end_ns)):
            memory += 4
            lines.append(f"{rank.pid},{rank.pid},1,Graph,RunGraph,Run,0,{kind},,{memory},{at // 1000}\n")
        dur = step.end_ns // 1000 - step.start_ns // 1000
        event = {"name": "RunGraph", "ph": "X", "pid": rank.pid, "tid": rank.pid, "ts": step.start_ns // 1000}
        events.append({**event, "dur": dur, "args": {"module": "Graph", "stage": "Run"}})
    return {
        f"host_info/host_info_{rank.number}.csv": "".join(lines).encode(),
        f"host_info/timeline_{rank.number}.json": json_bytes(events),
    }


def _since_2_3(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> dict[str, bytes]:
    """Write what 2.3 added: raw data of the framework, the memory tracker's tables, a directory for MindStudio Insight."""
    number = rank.number
    random = Random(f"framework {rank.start_ns} {number}")
    seconds = rank.start_ns // 10**9
    folder = f"rank-{number}_{seconds}_ascend_ms"
    files = {
        f"FRAMEWORK/op_range_{number}": random.randbytes(256),
        f"dataset_{number}.csv": _dataset(rank, form),
        f"{folder}/profiler_info_{number}.json": _info(truth, rank, on, form),
    }
    made = {
        "trace_view.json": mindspore_trace_view(truth, rank, scheduled=True),
        "kernel_details.csv": output.kernel_details(truth, rank, mindspore=True, level=0, scheduled=True),
        "step_trace_time.csv": output.step_trace_time(rank, mindspore=True, scheduled=True),
    }
    if truth.world > 1 and on["communication"]:
        made["communication.json"] = output.communication(truth, rank, mindspore=True, scheduled=True)
        made["communication_matrix.json"] = output.communication_matrix(truth, rank, mindspore=True, scheduled=True)
    files |= {f"{folder}/ASCEND_PROFILER_OUTPUT/{name}": content for name, content in made.items()}
    if on["memory"]:
        files[f"cpu_ms_memory_record_{number}.txt"] = memory_file(rank)
        files[f"operator_memory_{number}.csv"] = _operator_memory(rank)
        tracked = tracker_files(truth, rank, blocks=True)
        files |= {f"rank_{number}/{name}": tracked[name] for name in ("memory_block.csv", "task.csv")}
    return files


def _dataset(rank: Rank, form: Form) -> bytes:
    time = "Avg. time(us)" if form.variant == "documented" else "Avg. time (us)"
    header = ("Operation", "Stage", "Occurrences", time, "Custom Info")
    count = len(rank.pipeline.batches)
    rows = [(stage.type.removesuffix("Op"), "WorkerEntry", count, 125.5, "") for stage in rank.pipeline.stages]
    return csv_bytes([header, *rows])


def _operator_memory(rank: Rank) -> bytes:
    megabyte = 1 << 20
    reserved = output.POOL_RESERVED / megabyte
    header = (
        "Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),"
        "Release Total Allocated(MB),Release Total Reserved(MB),Device"
    )
    rows: list[tuple[object, ...]] = [tuple(header.split(","))]
    for one in output.block_rows(rank, mindspore=True):
        gone: tuple[object, ...] = ("", "")
        length: object = ""
        if one.end_ns is not None and one.total_at_end is not None:
            length, gone = us(one.end_ns - one.start_ns), (one.total_at_end / megabyte, reserved)
        start = microseconds(one.start_ns)
        taken = (one.total_at_start / megabyte, reserved)
        rows.append((one.name, one.size / 1024, start, length, *taken, *gone, f"NPU:{rank.number}"))
    return plain_csv(rows)
