"""The flat `profiler/` directory of MindSpore 1.x to 2.4 on an Ascend device; columns and units differ by version.

Formats: real output of MindSpore 1.x and 2.0 (test data of MindInsight), MindSpore 1.9, 2.0 and 2.1 sources
(integrator.py, optime_parser.py, flops_parser.py, step_trace_parser.py, hccl_parser.py, ascend_op_generator.py), documents
of 2.3 and 2.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from perfguard.testing import minddata
from perfguard.testing.ascend_communication import communication_files
from perfguard.testing.ascend_memory import block_cells
from perfguard.testing.ascend_operators import kernel_details
from perfguard.testing.ascend_steps import step_trace_time
from perfguard.testing.ascend_trace import cann_events, trace_view
from perfguard.testing.flat_steps import (
    STREAM,
    cluster_file,
    communication_costs,
    device_ns,
    flops_files,
    points,
    step_trace,
)
from perfguard.testing.formats import (
    Event,
    Files,
    Row,
    below,
    csv_bytes,
    json_bytes,
    lane_labels,
    lines_bytes,
    microseconds,
    one_by_one,
    plain_csv,
    scope_layers,
    timeline_event,
    timeline_summary,
    us,
)
from perfguard.testing.graphs import tracker_files
from perfguard.testing.mindspore_cpu import memory_file, operator_files, profiler_info
from perfguard.testing.truth import Kernel, Operator, Output, Rank, Runs, grouped, shape_text


def directory(output: Output) -> Files:
    """Write `profiler/` of one rank. 1.x knows graph mode only, and no profiler_info."""
    on, number = output.on, output.number
    files = _raw(output)
    if not output.before_2_0:
        files[f"profiler_info_{number}.json"] = _info(output)
    if on.get("graph", True):
        files |= _graph_files(output)
    else:
        files |= _device_tables(output) if output.since_2_1 else _pynative(output)
    if on["data_process"]:
        # The pipeline's files are those of 2.0 but for 1.3.
        pipeline = output if output.version == "1.3" else replace(output, version="2.0")
        files |= minddata.pipeline_files(pipeline)
        if on["sink"]:
            wait = minddata.device_wait(output.rank.pipeline, header=not output.before_2_0)
            files[f"minddata_aicpu_{number}.txt"] = wait
    if on.get("heterogeneous"):
        files |= operator_files(output)
    if on.get("host_info"):
        files |= _host_info(output)
    if output.version == "2.3":
        files |= _since_2_3(output)
    return below("profiler", files)


def _graph_files(output: Output) -> Files:
    on, number = output.on, output.number
    files = _device_tables(output)
    if not output.since_2_1:
        files |= _reports(output)
    if on["aicpu"]:
        files |= _aicpu(output)
    if on["flops"]:
        files |= flops_files(output)
    if not (on.get("heterogeneous") or on.get("dynamic_shape")):
        files[f"step_trace_raw_{number}_detail_time.csv"] = step_trace(output)
        suffix = "" if output.before_2_0 else f"_{number}"
        files[f"step_trace_point_info{suffix}.json"] = points(output)
    if on.get("dynamic_shape"):
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(output)
    if on.get("memory") and output.version == "2.0":
        files |= _memory_usage(output)
    if output.is_distributed:
        if on["communication"]:
            files[f"hccl_raw_{number}.csv"] = communication_costs(output)
            files[f"hccl_info_{number}/hccl_info.csv"] = b""
        files |= cluster_file(output)
    if on["parallel_strategy"]:
        files[f"parallel_strategy_{number}.json"] = _parallel_strategy(output)
    return files


# --- operators


def _device_tables(output: Output) -> Files:
    number, unit = output.number, 1000 if output.since_2_1 else 1_000_000
    header = output.columns("aicore_intermediate_detail").split(",")
    detail = [(one.name, one.mean_ns / unit, len(one.runs), one.operator.core) for one in output.rank.runs()]
    return {
        f"aicore_intermediate_{number}_detail.csv": csv_bytes(header, (row[: len(header)] for row in detail)),
        f"aicore_intermediate_{number}_type.csv": _type_table(output, output.columns("aicore_intermediate_type")),
        f"framework_raw_{number}.csv": _framework(output),
        f"output_timeline_data_{number}.txt": _timeline_data(output),
        f"ascend_timeline_display_{number}.json": _timeline(output),
        f"ascend_timeline_summary_{number}.json": _summary(output),
    }


def _by_type(runs: Iterable[Runs[Kernel]], *, once: bool) -> dict[str, tuple[float, int]]:
    """Return time in nanoseconds and number of runs of each type.

    `once`: mean time and number of operators, because 1.x counts an operator once, however often it ran.
    """
    return {
        kind: (sum(one.mean_ns for one in ones), len(ones))
        if once
        else (sum(one.total_ns for one in ones), sum(len(one.runs) for one in ones))
        for kind, ones in grouped(runs, lambda one: one.operator.type).items()
    }


def _type_table(output: Output, header: str) -> bytes:
    groups = _by_type(output.rank.runs(), once=output.before_2_0)
    whole = sum(total for total, _ in groups.values())
    rows: list[Row] = [
        (kind, total / 1000, times, total / whole)
        if output.since_2_1
        else (kind, total / 1_000_000, times, f"{100 * total / whole:.2f}")
        for kind, (total, times) in groups.items()
    ]
    return csv_bytes(header, rows)


def _operator_info(operator: Operator, *, capital: bool) -> dict[str, dict[str, object]]:
    named = {f"input_{i}": shape for i, shape in enumerate(operator.shapes)} | {"output_0": operator.output}
    return {
        name.capitalize() if capital else name: {
            "format": "DefaultFormat",
            "data_type": "NUMBER_TYPE_FLOAT32",
            "shape": shape_text(shape),
        }
        for name, shape in named.items()
    }


def _framework(output: Output) -> bytes:
    header = output.columns("framework_raw").split(",")
    is_kernel = "full_kernel_name" in header
    rows = []
    for one in output.rank.runs():
        operator, kind = one.operator, one.operator.type
        cells = {"task_id": one.runs[0].task, "stream_id": STREAM, "block_dim": 32, "subgraph": operator.subgraph}
        cells |= {"full_op_name": one.name, "full_kernel_name": one.name, "kernel_name": operator.name}
        cells |= {"op_name": one.name if is_kernel else operator.name, "op_type": kind}
        cells |= {"kernel_type": kind if is_kernel else operator.core, "model_id": 1, "graph_id": output.truth.graph}
        cells["op_info"] = json.dumps(_operator_info(operator, capital=output.since_2_1))
        rows.append([cells[column] for column in header])
    return csv_bytes(header, rows)


def _timeline_data(output: Output) -> bytes:
    rows: list[Row] = []
    for one in output.rank.kernels:
        start = device_ns(output.rank, one.start_ns)
        if one.operator.is_cube or not output.since_2_1:
            begin = us(start) if output.since_2_1 else start / 1_000_000
            rows.append((one.operator.full_name, STREAM, begin, one.duration_ns / 1_000_000))
    return (csv_bytes if output.since_2_1 else plain_csv)(output.columns("output_timeline_data"), rows)


def _timeline(output: Output) -> bytes:
    rank, events = output.rank, list[Event]()
    if output.since_2_1:
        pid = int(f"1{rank.number}")
        name = {"name": f"Scope Layer Rank{rank.number}"}
        events += cann_events(output, strings=False)
        events.append({"name": "process_name", "pid": pid, "tid": 0, "args": name, "ph": "M"})
        for layer in scope_layers((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels):
            event: Event = {"name": layer.name, "ph": "X", "pid": pid, "tid": layer.depth}
            ts, dur = microseconds(layer.start_ns), us(layer.end_ns - layer.start_ns)
            events.append({**event, "ts": ts, "dur": dur, "args": {}})
        return json_bytes(events)
    for one in rank.kernels:
        operator, start = one.operator, us(one.start_ns - rank.kernels[0].start_ns)
        args = {"type": operator.type, "fullname": operator.full_name, **_operator_info(operator, capital=False)}
        events.append(timeline_event(operator.name, str(STREAM), start, us(one.duration_ns), rank.number, args=args))
    return one_by_one([*events, *lane_labels(str(rank.number), "AI Core Op")])


def _summary(output: Output) -> bytes:
    runs = output.rank.runs()
    depth = max(one.name.count("/") for one in runs) + output.since_2_1
    return timeline_summary(
        sum(one.total_ns for one in runs) / (1000 if output.since_2_1 else 1_000_000),
        operators=len(runs),
        runs=len(output.rank.kernels),
        depth=None if output.version == "1.3" else depth,
    )


def _reports(output: Output) -> Files:
    """Write the text reports of 2.0 and older: tables for people, with blanks between the columns."""
    rank, number = output.rank, output.number
    files = {
        f"output_op_compute_time_{number}.txt": _compute_times(rank, counts=not output.before_2_0),
        f"output_op_compute_time_detail_{number}.txt": _compute_time_details(rank),
        f"output_format_data_hwts_{number}.txt": _hardware_tasks(rank),
    }
    if output.before_2_0:
        first = device_ns(rank, rank.kernels[0].start_ns)
        files[f"min_cycle_counter_{number}.txt"] = str(first / 1_000_000).encode()
    return files


def _report(title: str, lines: Iterable[str]) -> bytes:
    return lines_bytes([f"{title:=^{len(title) + 40}}", *lines])


def _compute_times(rank: Rank, *, counts: bool) -> bytes:
    lines = [
        f"op_name       compute_time(ms) stream_id{' execution_times' if counts else ''}",
        f"------------  ---------------  ---------{' ---------------' if counts else ''}",
    ]
    for one in rank.runs():
        times = f" {len(one.runs)}" if counts else ""
        lines.append(f"{one.name} {one.mean_ns / 1_000_000}  {STREAM}{times}")
    lines.append(f"total op  {sum(one.mean_ns / 1_000_000 for one in rank.runs())} 0")
    return _report("op compute time", lines)


def _compute_time_details(rank: Rank) -> bytes:
    runs = rank.runs()
    whole = sum(one.mean_ns for one in runs)
    lines = ["optype_name compute_time(ms, per-step) called_times(per-step) percent"]
    for kind, (time, count) in _by_type(runs, once=True).items():
        lines.append(f"{kind} {time / 1_000_000} {count} {round(100 * time / whole, 2)}")
    lines += ["", "Detail:", "op_name op_type avg_execution_time subgraph full_op_name"]
    for one in runs:
        operator, mean = one.operator, one.mean_ns / 1_000_000
        lines.append(f"{operator.name} {operator.type} {mean} {operator.subgraph} {one.name}")
    return _report("op compute time", lines)


def _hardware_tasks(rank: Rank) -> bytes:
    lines = ["Type           cnt  Core_ID  Block_ID  Task_ID  Cycle_counter   Stream_ID"]
    for place, kernel in enumerate(rank.kernels):
        for offset, (kind, at) in enumerate((("Start of task", kernel.start_ns), ("End of task", kernel.end_ns))):
            count, name = (2 * place + offset) % 16, f"{STREAM}_{kernel.task % 60_000}"
            ticks = device_ns(rank, at) // 10
            lines.append(f"{kind:<14} {count:<4} 0        0         {name:<8} {ticks:<15} {STREAM}")
    return _report("45 HWTS data", lines)


def _aicpu(output: Output) -> Files:
    """Write the operators of the AI CPU: the one that fetches a batch, once a step."""
    dispatch, run = 0.15, 0.22
    total = dispatch + run if output.since_2_1 else 0.888
    rows: list[Row] = []
    for serial, step in enumerate(output.rank.steps, start=1):
        start = device_ns(output.rank, step.start_ns) // 1000
        rows.append((serial, "GetNext", total, dispatch, run, start, start + 370))
    files = {f"aicpu_intermediate_{output.number}.csv": csv_bytes(output.columns("aicpu_intermediate"), rows)}
    if not output.since_2_1:
        lines = [" ".join(map(str, (*row[:4], *row[5:]) if output.before_2_0 else row)) for row in rows]
        lines = [output.columns("output_data_preprocess_aicpu"), *lines]
        last = f"AI CPU Total Time(ms): {0.888 * len(rows):.6f}"
        files[f"output_data_preprocess_aicpu_{output.number}.txt"] = lines_bytes([*lines, last])
    return files


def _pynative(output: Output) -> Files:
    detail = [(one.name, one.mean_ns / 1_000_000) for one in output.rank.runs()]
    name = f"pynative_op_intermediate_{output.number}"
    return {
        f"{name}_detail.csv": csv_bytes("full_op_name,execution_time", detail),
        f"{name}_type.csv": _type_table(output, "op_type,execution_time,execution_frequency,percent"),
    }


# --- everything else


def _info(output: Output) -> bytes:
    truth, on = output.truth, output.on
    known: dict[str, object] = {"graph_ids": [0]}
    if output.is_distributed:
        mode = "data_parallel" if truth.stages == 1 else "semi_auto_parallel"
        stage = output.number % truth.stages
        known |= {"parallel_mode": mode, "stage_num": truth.stages, "pipeline_stage_id": stage}
    mode = "graph" if on["graph"] else "pynative"
    analysed_ns = output.rank.end_ns + 4 * 10**9
    return profiler_info(
        output, analysed_ns=analysed_ns, known=known, context_mode=mode, is_heterogeneous=on["heterogeneous"]
    )


def _raw(output: Output) -> Files:
    (name, random), number = output.raw_folder(), output.number
    files = {f"{name}/device_{number}/data/hwts.data.{number}.slice_0": random.randbytes(128)}
    if not output.since_2_1:
        files[f"container/{number}/data/Framework.host.vm.point.1.slice_0"] = random.randbytes(64)
    return files


def _dynamic_shapes(output: Output) -> bytes:
    """Write times and shapes of every execution; those of a type are the means of its operators, execution by execution."""
    document: dict[str, object] = {}
    means: dict[str, object] = {}
    for kind, ones in grouped(output.rank.runs(), lambda one: one.operator.type).items():
        entries = []
        times_of = [[kernel.duration_ns / 1_000_000 for kernel in one.runs] for one in ones]
        for one, times in zip(ones, times_of, strict=True):
            info = json.dumps(_operator_info(one.operator, capital=output.since_2_1)).replace('"', "")
            shapes = [f"{info},{output.truth.graph}"] * len(times)
            entry = {"op_exe_time": times, "op_shape": shapes, "op_exe_occurrences": len(times)}
            entries.append({one.operator.name: entry})
        document[kind] = entries
        means[kind] = [round(sum(together) / len(together), 4) for together in zip(*times_of, strict=True)]
    return json_bytes({**document, "op_type": means})


def _memory_usage(output: Output) -> Files:
    sizes = [4 * one.output[0] * one.output[-1] / (1 << 30) for one in output.truth.operators]
    nodes = []
    for number, (one, size) in enumerate(zip(output.truth.operators, sizes, strict=True)):
        node = {"name": one.name, "fullname": one.full_name, "node_id": number, "allocations": 1}
        nodes.append({**node, "size": size, "allocated": size, "inputs": [], "outputs": []})
    lines, count = [*accumulate(sizes)], len(sizes)
    graph: Event = {"graph_id": 0, "static_mem": 0.0, "fp_start": 0, "bp_end": count - 1}
    graph |= {"lines": lines, "nodes": nodes, "breakdowns": []}
    summary = {"capacity": 32, "allocations": count, "deallocations": count, "peak_mem": lines[-1], "static_mem": 0.0}
    return {
        f"memory_usage_summary_{output.number}.json": json_bytes(summary),
        f"memory_usage_details_{output.number}.json": json_bytes({"0": graph}),
    }


def _parallel_strategy(output: Output) -> bytes:
    world = output.truth.world
    strategy = {"dtype": "DT_TUPLE", "values": [{"dtype": "DT_INT64", "intVal": str(world)}]}
    nodes: list[Event] = []
    for number, one in enumerate(output.truth.operators, start=1):
        node: Event = {"name": str(number), "opType": one.type, "scope": one.scope}
        node["attribute"] = [{"name": "gen_strategy", "value": strategy}]
        nodes.append({**node, "fullName": one.full_name, "instanceName": ""})
    devices = [{"dim": [{"size": str(number)} for number in range(world)]}]
    config = {"rankId": output.number, "stageId": 0, "parallelType": "data_parallel", "stageDevices": devices}
    return json_bytes({"config": config, "graph": {"node": nodes}}, indent=2)


def _host_info(output: Output) -> Files:
    rank = output.rank
    rows: list[Row] = []
    events = []
    for number, step in enumerate(rank.steps):
        for kind, at in ((0, step.start_ns), (1, step.end_ns)):
            memory = 345_682 + 4 * (2 * number + kind)
            rows.append((rank.pid, rank.pid, 1, "Graph", "RunGraph", "Run", 0, kind, "", memory, at // 1000))
        dur = step.end_ns // 1000 - step.start_ns // 1000
        event = {"name": "RunGraph", "ph": "X", "pid": rank.pid, "tid": rank.pid, "ts": step.start_ns // 1000}
        events.append({**event, "dur": dur, "args": {"module": "Graph", "stage": "Run"}})
    return {
        f"host_info/host_info_{rank.number}.csv": plain_csv(output.columns("host_info"), rows),
        f"host_info/timeline_{rank.number}.json": json_bytes(events),
    }


def _since_2_3(output: Output) -> Files:
    """Write the files that 2.3 added: raw data of the framework, tables of the memory tracker, MindStudio Insight's folder."""
    on, rank, number = output.on, output.rank, output.number
    folder = f"rank-{number}_{rank.start_ns // 10**9}_ascend_ms"
    files = {
        f"FRAMEWORK/op_range_{number}": output.random("framework").randbytes(256),
        f"dataset_{number}.csv": _dataset(output),
        f"{folder}/profiler_info_{number}.json": _info(output),
    }
    made = {
        "trace_view.json": trace_view(output),
        "kernel_details.csv": kernel_details(output),
        "step_trace_time.csv": step_trace_time(output),
    }
    if output.is_distributed and on["communication"]:
        made |= communication_files(output)
    files |= below(f"{folder}/ASCEND_PROFILER_OUTPUT", made)
    if on["memory"]:
        files |= memory_file(rank)
        files[f"operator_memory_{number}.csv"] = _operator_memory(output)
        tracked = tracker_files(output, blocks=True)
        files |= below(f"rank_{number}", {name: tracked[name] for name in ("memory_block.csv", "task.csv")})
    return files


def _dataset(output: Output) -> bytes:
    stages, batches = output.rank.pipeline.stages, output.rank.pipeline.batches
    rows = [(stage.type.removesuffix("Op"), "WorkerEntry", len(batches), 125.5, "") for stage in stages]
    return csv_bytes(output.columns("dataset"), rows)


def _operator_memory(output: Output) -> bytes:
    header = output.columns("operator_memory 2.3")
    names = f"{header} Type".split(",")
    blocks = block_cells(output, blank="", time=microseconds, duration=us)
    return plain_csv(header, ([cells[name] for name in names] for cells in blocks))
