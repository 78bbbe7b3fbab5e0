"""The flat `profiler/` directory of MindSpore 1.x to 2.4 on an Ascend device; columns and units differ by version.

Formats: real output of MindSpore 1.x and 2.0 (test data of MindInsight), MindSpore 1.9, 2.0 and 2.1 sources
(integrator.py, optime_parser.py, flops_parser.py, step_trace_parser.py, hccl_parser.py, ascend_op_generator.py), documents
of 2.3 and 2.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random

from perfguard.testing import minddata
from perfguard.testing.ascend_communication import communication, communication_matrix
from perfguard.testing.ascend_memory import block_cells
from perfguard.testing.ascend_operators import kernel_details
from perfguard.testing.ascend_steps import step_trace_time
from perfguard.testing.ascend_trace import cann_events, mindspore_trace_view
from perfguard.testing.flat_flops import flops_files
from perfguard.testing.flat_form import STREAM, Form, Runs, device_ns, operator_runs
from perfguard.testing.flat_steps import cluster_file, communication_costs, points, step_trace
from perfguard.testing.formats import (
    Files,
    below,
    columns,
    csv_bytes,
    json_bytes,
    lines_bytes,
    microseconds,
    plain_csv,
    us,
)
from perfguard.testing.graphs import tracker_files
from perfguard.testing.mindspore_cpu import memory_file, operator_files
from perfguard.testing.mindspore_info import profiler_info
from perfguard.testing.raw import raw_token
from perfguard.testing.timelines import Event, lane_labels, one_by_one, scope_layers, timeline_summary
from perfguard.testing.truth import Operator, Rank, Shape, Truth, grouped


def directory(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> Files:
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
    return below("profiler", files)


def _graph_files(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> Files:
    number = rank.number
    files = _device_tables(truth, rank, form)
    if not form.since_2_1:
        files |= _reports(truth, rank, form)
    if on["aicpu"]:
        files |= _aicpu(rank, form)
    if on["flops"]:
        files |= flops_files(truth, rank, form)
    if not (on.get("heterogeneous") or on.get("dynamic_shape")):
        files[f"step_trace_raw_{number}_detail_time.csv"] = step_trace(rank, form)
        name = "step_trace_point_info" if form.before_2_0 else f"step_trace_point_info_{number}"
        files[f"{name}.json"] = points(rank, form)
    if on.get("dynamic_shape"):
        files[f"dynamic_shape_info_{number}.json"] = _dynamic_shapes(truth, rank, form)
    if on.get("memory") and form.version == "2.0":
        files |= _memory_usage(truth, rank)
    if truth.world > 1:
        if on["communication"]:
            files[f"hccl_raw_{number}.csv"] = communication_costs(rank, since_2_1=form.since_2_1)
            files[f"hccl_info_{number}/hccl_info.csv"] = b""
        files |= cluster_file(truth, rank, form)
    if on["parallel_strategy"]:
        files[f"parallel_strategy_{number}.json"] = _parallel_strategy(truth, rank)
    return files


# --- operators


def _device_tables(truth: Truth, rank: Rank, form: Form) -> Files:
    number = rank.number
    runs = operator_runs(truth, rank)
    unit = 1000 if form.since_2_1 else 1_000_000
    detail: list[tuple[object, ...]] = [(one.name, one.mean_ns / unit, len(one.kernels)) for one in runs]
    header = ["full_kernel_name" if form.kernels else "full_op_name", "execution_time", "execution_frequency"]
    if form.since_2_1:
        header = [header[0], "task_duration", "execution_frequency", "task_type"]
        detail = [(*row, one.operator.kind.core) for row, one in zip(detail, runs, strict=True)]
    elif form.before_2_0:
        header, detail = header[:2], [row[:2] for row in detail]
    return {
        f"aicore_intermediate_{number}_detail.csv": csv_bytes([header, *detail]),
        f"aicore_intermediate_{number}_type.csv": _type_table(runs, form),
        f"framework_raw_{number}.csv": _framework(truth, runs, form),
        f"output_timeline_data_{number}.txt": _timeline_data(rank, form),
        f"ascend_timeline_display_{number}.json": _timeline(truth, rank, form),
        f"ascend_timeline_summary_{number}.json": _summary(runs, form),
    }


def _by_type(runs: Iterable[Runs]) -> dict[str, tuple[float, int]]:
    """Return time in nanoseconds and number of runs of each type."""
    return {
        kind: (sum(one.total_ns for one in ones), sum(len(one.kernels) for one in ones))
        for kind, ones in grouped(runs, lambda one: one.operator.type).items()
    }


def _by_type_once(runs: Iterable[Runs]) -> dict[str, tuple[float, int]]:
    """Return mean time and number of operators of each type: 1.x counts an operator once, however often it ran."""
    return {
        kind: (sum(one.mean_ns for one in ones), len(ones))
        for kind, ones in grouped(runs, lambda one: one.operator.type).items()
    }


def _type_table(runs: list[Runs], form: Form) -> bytes:
    groups = _by_type_once(runs) if form.before_2_0 else _by_type(runs)
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


def _operator_info(operator: Operator, *, capital: bool) -> dict[str, dict[str, object]]:
    first = str.capitalize if capital else str
    info = {first(f"input_{i}"): _tensor(shape) for i, shape in enumerate(operator.shapes)}
    info[first("output_0")] = _tensor(operator.output)
    return info


def _tensor(shape: Shape) -> dict[str, object]:
    text = ",".join(map(str, shape))
    return {"format": "DefaultFormat", "data_type": "NUMBER_TYPE_FLOAT32", "shape": text}


def _framework(truth: Truth, runs: list[Runs], form: Form) -> bytes:
    first = "task_id,stream_id,block_dim"
    header = f"{first},full_op_name,op_name,op_type,subgraph,op_info"
    last: tuple[object, ...] = (truth.graph,)
    if form.kernels:
        header = f"{first},full_kernel_name,op_name,kernel_name,kernel_type,subgraph,op_info,graph_id"
    elif form.before_2_0:
        last = ()
    else:
        header += ",model_id,kernel_type" if form.version == "2.1" else ",graph_id"
    rows: list[tuple[object, ...]] = []
    for one in runs:
        operator = one.operator
        names = (one.name, one.name, operator.name) if form.kernels else (one.name, operator.name)
        info = json.dumps(_operator_info(operator, capital=form.since_2_1))
        end = (1, operator.kind.core) if form.version == "2.1" else last
        rows.append((one.kernels[0].task, STREAM, 32, *names, operator.type, operator.subgraph, info, *end))
    return csv_bytes([columns(header), *rows])


def _timeline_data(rank: Rank, form: Form) -> bytes:
    rows: list[tuple[object, ...]] = []
    for one in rank.kernels:
        start = device_ns(rank, one.start_ns)
        if not form.since_2_1:
            rows.append((one.operator.full_name, STREAM, start / 1_000_000, one.duration_ns / 1_000_000))
        elif one.operator.is_cube:
            rows.append((one.operator.full_name, STREAM, us(start), one.duration_ns / 1_000_000))
    if not form.since_2_1:
        return b"op_name, stream_id, start_time(ms), duration(ms)\n" + plain_csv(rows)
    name = "kernel_name" if form.kernels else "op_name"
    return csv_bytes([(name, "stream_id", "start_time(us)", "duration(ms)"), *rows])


def _timeline(truth: Truth, rank: Rank, form: Form) -> bytes:
    if form.since_2_1:
        pid = int(f"1{rank.number}")
        name = {"name": f"Scope Layer Rank{rank.number}"}
        events: list[Event] = [*cann_events(truth, rank)]
        events.append({"name": "process_name", "pid": pid, "tid": 0, "args": name, "ph": "M"})
        for layer in scope_layers((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels):
            event: Event = {"name": layer.name, "ph": "X", "pid": pid, "tid": layer.depth}
            ts, dur = microseconds(layer.start_ns), us(layer.end_ns - layer.start_ns)
            events.append({**event, "ts": ts, "dur": dur, "args": {}})
        return json_bytes(events)
    first = rank.kernels[0].start_ns
    events = []
    for one in rank.kernels:
        operator = one.operator
        args = {"type": operator.type, "fullname": operator.full_name, **_operator_info(operator, capital=False)}
        event = {"name": operator.name, "ph": "X", "tid": str(STREAM), "ts": us(one.start_ns - first)}
        events.append({**event, "dur": us(one.duration_ns), "pid": rank.number, "args": args})
    return one_by_one([*events, *lane_labels(str(rank.number), "AI Core Op")])


def _summary(runs: list[Runs], form: Form) -> bytes:
    total = sum(one.total_ns for one in runs)
    depth = max(one.name.count("/") for one in runs) + form.since_2_1
    return timeline_summary(
        total / (1000 if form.since_2_1 else 1_000_000),
        operators=len(runs),
        runs=sum(len(one.kernels) for one in runs),
        depth=None if form.version == "1.3" else depth,
    )


def _title(text: str) -> str:
    return f"{'=' * 20}{text}{'=' * 20}"


def _reports(truth: Truth, rank: Rank, form: Form) -> Files:
    """Write the text reports of 2.0 and older: tables for people, with blanks between the columns."""
    number = rank.number
    runs = operator_runs(truth, rank)
    files = {
        f"output_op_compute_time_{number}.txt": _compute_times(runs, counts=not form.before_2_0),
        f"output_op_compute_time_detail_{number}.txt": _compute_time_details(runs),
        f"output_format_data_hwts_{number}.txt": _hardware_tasks(rank),
    }
    if form.before_2_0:
        first = device_ns(rank, rank.kernels[0].start_ns)
        files[f"min_cycle_counter_{number}.txt"] = str(first / 1_000_000).encode()
    return files


def _compute_times(runs: list[Runs], *, counts: bool) -> bytes:
    lines = [
        _title("op compute time"),
        f"op_name       compute_time(ms) stream_id{' execution_times' if counts else ''}",
        f"------------  ---------------  ---------{' ---------------' if counts else ''}",
    ]
    for one in runs:
        times = f" {len(one.kernels)}" if counts else ""
        lines.append(f"{one.name} {one.mean_ns / 1_000_000}  {STREAM}{times}")
    lines.append(f"total op  {sum(one.mean_ns / 1_000_000 for one in runs)} 0")
    return lines_bytes(lines)


def _compute_time_details(runs: list[Runs]) -> bytes:
    whole = sum(one.mean_ns for one in runs)
    lines = [_title("op compute time"), "optype_name compute_time(ms, per-step) called_times(per-step) percent"]
    for kind, (time, count) in _by_type_once(runs).items():
        lines.append(f"{kind} {time / 1_000_000} {count} {round(100 * time / whole, 2)}")
    lines += ["", "Detail:", "op_name op_type avg_execution_time subgraph full_op_name"]
    for one in runs:
        operator, mean = one.operator, one.mean_ns / 1_000_000
        lines.append(f"{operator.name} {operator.type} {mean} {operator.subgraph} {one.name}")
    return lines_bytes(lines)


def _hardware_tasks(rank: Rank) -> bytes:
    lines = [
        _title("45 HWTS data"),
        "Type           cnt  Core_ID  Block_ID  Task_ID  Cycle_counter   Stream_ID",
    ]
    for place, kernel in enumerate(rank.kernels):
        for offset, (kind, at) in enumerate((("Start of task", kernel.start_ns), ("End of task", kernel.end_ns))):
            count, name = (2 * place + offset) % 16, f"{STREAM}_{kernel.task % 60_000}"
            ticks = device_ns(rank, at) // 10
            lines.append(f"{kind:<14} {count:<4} 0        0         {name:<8} {ticks:<15} {STREAM}")
    return lines_bytes(lines)


def _aicpu(rank: Rank, form: Form) -> Files:
    """Write the operators of the AI CPU: the one that fetches a batch, once a step."""
    kind = "kernel_type" if form.kernels or form.before_2_0 else "op_type"
    rows: list[tuple[object, ...]] = []
    for serial, step in enumerate(rank.steps, start=1):
        start = device_ns(rank, step.start_ns) // 1000
        dispatch, run = 0.15, 0.22
        total = dispatch + run if form.since_2_1 else 0.888
        rows.append((serial, "GetNext", total, dispatch, run, start, start + 370))
    times = ("total_time", "dispatch_time", "execution_time", "run_start", "run_end")
    number = "serial_num" if form.variant == "documented" else "serial_number"
    files = {f"aicpu_intermediate_{rank.number}.csv": csv_bytes([(number, kind, *times), *rows])}
    if not form.since_2_1:
        execution = "" if form.before_2_0 else "execution_time(ms) "
        lines = [f"serial_number node_type_name total_time(ms) dispatch_time(ms) {execution}run_start run_end"]
        lines += [" ".join(map(str, (*row[:4], *row[5:]) if form.before_2_0 else row)) for row in rows]
        lines.append(f"AI CPU Total Time(ms): {0.888 * len(rows):.6f}")
        files[f"output_data_preprocess_aicpu_{rank.number}.txt"] = lines_bytes(lines)
    return files


def _pynative(truth: Truth, rank: Rank) -> Files:
    runs = operator_runs(truth, rank)
    whole = sum(one.total_ns for one in runs)
    types = [
        (kind, total / 1_000_000, times, f"{100 * total / whole:.2f}")
        for kind, (total, times) in _by_type(runs).items()
    ]
    tables: dict[str, list[tuple[object, ...]]] = {
        "detail": [("full_op_name", "execution_time"), *((one.name, one.mean_ns / 1_000_000) for one in runs)],
        "type": [("op_type", "execution_time", "execution_frequency", "percent"), *types],
    }
    return {f"pynative_op_intermediate_{rank.number}_{name}.csv": csv_bytes(rows) for name, rows in tables.items()}


# --- everything else


def _info(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> bytes:
    known: dict[str, object] = {"graph_ids": [0]}
    if truth.world > 1:
        mode = "data_parallel" if truth.stages == 1 else "semi_auto_parallel"
        stage = rank.number % truth.stages
        known |= {"parallel_mode": mode, "stage_num": truth.stages, "pipeline_stage_id": stage}
    return profiler_info(
        rank,
        version={"2.0": "2.0.0", "2.1": "2.1.1", "2.3": "2.3.1"}[form.version],
        world=truth.world,
        analysed_ns=rank.end_ns + 4 * 10**9,
        known=known,
        context_mode="graph" if on["graph"] else "pynative",
        is_heterogeneous=on["heterogeneous"],
    )


def _raw(rank: Rank, form: Form) -> Files:
    random, name = raw_token(rank)
    number = rank.number
    files = {f"{name}/device_{number}/data/hwts.data.{number}.slice_0": random.randbytes(128)}
    if not form.since_2_1:
        files[f"container/{number}/data/Framework.host.vm.point.1.slice_0"] = random.randbytes(64)
    return files


def _dynamic_shapes(truth: Truth, rank: Rank, form: Form) -> bytes:
    """Write times and shapes of every execution; those of a type are the means of its operators, execution by execution."""
    document: dict[str, object] = {}
    means: dict[str, object] = {}
    for kind, ones in grouped(operator_runs(truth, rank), lambda one: one.operator.type).items():
        entries = []
        times_of = [[kernel.duration_ns / 1_000_000 for kernel in one.kernels] for one in ones]
        for one, times in zip(ones, times_of, strict=True):
            info = json.dumps(_operator_info(one.operator, capital=form.since_2_1)).replace('"', "")
            shapes = [f"{info},{truth.graph}"] * len(times)
            entry = {"op_exe_time": times, "op_shape": shapes, "op_exe_occurrences": len(times)}
            entries.append({one.operator.name: entry})
        document[kind] = entries
        means[kind] = [round(sum(together) / len(together), 4) for together in zip(*times_of, strict=True)]
    return json_bytes({**document, "op_type": means})


def _memory_usage(truth: Truth, rank: Rank) -> Files:
    gigabyte = 1 << 30
    total = 0.0
    nodes, lines = [], []
    for number, one in enumerate(truth.operators):
        size = 4 * one.output[0] * one.output[-1] / gigabyte
        total += size
        lines.append(total)
        node = {"name": one.name, "fullname": one.full_name, "node_id": number, "allocations": 1}
        nodes.append({**node, "size": size, "allocated": size, "inputs": [], "outputs": []})
    count = len(nodes)
    graph: Event = {"graph_id": 0, "static_mem": 0.0, "fp_start": 0, "bp_end": count - 1}
    graph |= {"lines": lines, "nodes": nodes, "breakdowns": []}
    summary = {"capacity": 32, "allocations": count, "deallocations": count, "peak_mem": total, "static_mem": 0.0}
    return {
        f"memory_usage_summary_{rank.number}.json": json_bytes(summary),
        f"memory_usage_details_{rank.number}.json": json_bytes({"0": graph}),
    }


def _parallel_strategy(truth: Truth, rank: Rank) -> bytes:
    nodes = []
    for number, one in enumerate(truth.operators, start=1):
        strategy = {"dtype": "DT_TUPLE", "values": [{"dtype": "DT_INT64", "intVal": str(truth.world)}]}
        attributes = [{"name": "gen_strategy", "value": strategy}]
        node = {"name": str(number), "opType": one.type, "scope": one.kind.scope, "attribute": attributes}
        nodes.append({**node, "fullName": one.full_name, "instanceName": ""})
    devices = [{"dim": [{"size": str(number)} for number in range(truth.world)]}]
    config = {"rankId": rank.number, "stageId": 0, "parallelType": "data_parallel", "stageDevices": devices}
    return json_bytes({"config": config, "graph": {"node": nodes}}, indent=2)


def _host_info(rank: Rank) -> Files:
    header = "tid,pid,parent_pid,module_name,event,stage,level,start_end,custom_info,memory_usage(kB),time_stamp(us)"
    lines = [header]
    events = []
    memory = 345_678
    for step in rank.steps:
        for kind, at in ((0, step.start_ns), (1, step.end_ns)):
            memory += 4
            lines.append(f"{rank.pid},{rank.pid},1,Graph,RunGraph,Run,0,{kind},,{memory},{at // 1000}")
        dur = step.end_ns // 1000 - step.start_ns // 1000
        event = {"name": "RunGraph", "ph": "X", "pid": rank.pid, "tid": rank.pid, "ts": step.start_ns // 1000}
        events.append({**event, "dur": dur, "args": {"module": "Graph", "stage": "Run"}})
    return {
        f"host_info/host_info_{rank.number}.csv": lines_bytes(lines),
        f"host_info/timeline_{rank.number}.json": json_bytes(events),
    }


def _since_2_3(truth: Truth, rank: Rank, on: Mapping[str, bool], form: Form) -> Files:
    """Write the files that 2.3 added: raw data of the framework, tables of the memory tracker, MindStudio Insight's folder."""
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
        "kernel_details.csv": kernel_details(truth, rank, mindspore=True, level=0, scheduled=True),
        "step_trace_time.csv": step_trace_time(rank, mindspore=True, scheduled=True),
    }
    if truth.world > 1 and on["communication"]:
        made["communication.json"] = communication(truth, rank, mindspore=True, scheduled=True)
        made["communication_matrix.json"] = communication_matrix(truth, rank, mindspore=True, scheduled=True)
    files |= below(f"{folder}/ASCEND_PROFILER_OUTPUT", made)
    if on["memory"]:
        files[f"cpu_ms_memory_record_{number}.txt"] = memory_file(rank)
        files[f"operator_memory_{number}.csv"] = _operator_memory(rank)
        tracked = tracker_files(truth, rank, blocks=True)
        files |= below(f"rank_{number}", {name: tracked[name] for name in ("memory_block.csv", "task.csv")})
    return files


def _dataset(rank: Rank, form: Form) -> bytes:
    time = "Avg. time(us)" if form.variant == "documented" else "Avg. time (us)"
    header = ("Operation", "Stage", "Occurrences", time, "Custom Info")
    count = len(rank.pipeline.batches)
    rows = [(stage.type.removesuffix("Op"), "WorkerEntry", count, 125.5, "") for stage in rank.pipeline.stages]
    return csv_bytes([header, *rows])


def _operator_memory(rank: Rank) -> bytes:
    header = columns(
        "Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),"
        "Release Total Allocated(MB),Release Total Reserved(MB),Device Type"
    )
    blocks = block_cells(rank, mindspore=True, blank="", time=microseconds, duration=us)
    return plain_csv([(*header[:-1], "Device"), *([cells[name] for name in header] for cells in blocks)])
