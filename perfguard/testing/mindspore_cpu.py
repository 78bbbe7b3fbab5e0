"""What MindSpore writes of operators that run on the host: the four files of 2.0 to 2.10, and what is made of them.

Formats read on real output of MindSpore 2.0.0 and 2.10.0 on CPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from perfguard.testing.formats import (
    json_bytes,
    lossy_microseconds,
    microseconds,
    milliseconds,
    plain_csv,
    six_digits,
    us,
)
from perfguard.testing.truth import Allocation, Execution, Operator, Rank, Truth

#: What PyNative mode runs through its fast path; it knows the type of these, and nothing of their scope.
_FAST_PATH = frozenset({"MatMul", "ReLU"})

_POOL_BYTES = 1 << 30

#: The model's weights, taken before the window.
_BEFORE_BYTES = 9_728

_DETAIL = (
    "op_side",
    "op_type",
    "op_name",
    "full_op_name",
    "op_occurrences",
    "op_total_time(ms)",
    "op_avg_time(ms)",
    "total_proportion",
    "subgraph",
    "pid",
)
_TYPE = (
    "op_type",
    "type_occurrences",
    "execution_frequency(per-step)",
    "total_compute_time",
    "avg_time(ms)",
    "percent",
)
_MEMORY = ("Timestamp(ns)", "Total Allocated(Byte)", "Total Reserved(Byte)", "Total Active(Byte)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOperator:
    """All executions the profiler keeps under one name."""

    type: str
    name: str
    full_name: str
    executions: tuple[Execution, ...]

    @property
    def total_ms(self) -> float:
        """Sum of the executions' durations, in milliseconds."""
        return sum(one.duration_ns for one in self.executions) / 1_000_000


def operators(truth: Truth, rank: Rank, *, graph: bool) -> list[CpuOperator]:
    """Return the operators as the profiler names them in graph or in PyNative mode."""
    found: dict[str, list[Execution]] = {}
    named: dict[str, tuple[str, str]] = {}
    for operator in truth.operators:
        full_name = _full_name(operator, graph=graph)
        named[full_name] = operator.type, full_name.rpartition("/")[2]
        found[full_name] = []
    for execution in rank.executions:
        found[_full_name(execution.operator, graph=graph)].append(execution)
    return [
        CpuOperator(type=named[name][0], name=named[name][1], full_name=name, executions=tuple(executions))
        for name, executions in found.items()
    ]


def _full_name(operator: Operator, *, graph: bool) -> str:
    if graph:
        return operator.full_name
    return operator.type if operator.type in _FAST_PATH else f"Default/{operator.type}-op{operator.number}"


def operator_files(
    truth: Truth, rank: Rank, *, graph: bool, epoch: bool, names_fast_path: bool = False
) -> dict[str, bytes]:
    """Write the four operator files of one rank, by their names.

    `epoch`: whether the clock is UNIX time (2.10) or the machine's uptime (2.0). In PyNative mode 2.10 leaves the
    type of fast-path operators blank in cpu_framework; `names_fast_path` has them written (2.0).
    """
    kept = operators(truth, rank, graph=graph)
    number = rank.number
    return {
        f"cpu_op_detail_info_{number}.csv": _detail(kept, rank),
        f"cpu_op_type_info_{number}.csv": _types(kept),
        f"cpu_op_execute_timestamp_{number}.txt": _timestamps(kept, 0 if epoch else uptime_offset(rank)),
        f"cpu_framework_{number}.txt": _framework(truth, rank, hides=not graph and not names_fast_path),
    }


def uptime_offset(rank: Rank) -> int:
    """Nanoseconds between UNIX time and the uptime MindSpore 2.0 prints."""
    return rank.steps[0].start_ns - 1_182_000_000_000


def _detail(kept: list[CpuOperator], rank: Rank) -> bytes:
    whole = sum(one.total_ms for one in kept)
    rows: list[Iterable[object]] = [_DETAIL]
    for one in reversed(kept):
        count = len(one.executions)
        rows.append(
            (
                "Host",
                one.type,
                one.name,
                one.full_name,
                count,
                six_digits(one.total_ms),
                six_digits(one.total_ms / count),
                six_digits(one.total_ms / whole),
                "Default",
                rank.pid,
            )
        )
    return plain_csv([tuple(row) for row in rows])


def _types(kept: list[CpuOperator]) -> bytes:
    whole = sum(one.total_ms for one in kept)
    by_type: dict[str, list[CpuOperator]] = {}
    for one in kept:
        by_type.setdefault(one.type, []).append(one)
    rows: list[tuple[object, ...]] = [_TYPE]
    for kind, ones in by_type.items():
        count = sum(len(one.executions) for one in ones)
        total = sum(one.total_ms for one in ones)
        frequency = count // len(ones[0].executions)
        rows.append((kind, count, frequency, six_digits(total), six_digits(total / count), six_digits(total / whole)))
    return plain_csv(rows)


def _timestamps(kept: list[CpuOperator], offset_ns: int) -> bytes:
    lines = []
    for one in kept:
        runs = "".join(f"{run.start_ns - offset_ns},{milliseconds(run.duration_ns)},0 " for run in one.executions)
        lines.append(f"{one.full_name};HostCpuOps;{runs}\n")
    return "".join(lines).encode()


def _framework(truth: Truth, rank: Rank, *, hides: bool) -> bytes:
    lines = []
    for execution in rank.executions:
        operator = execution.operator
        if hides and operator.type in _FAST_PATH:
            lines.append(f";;{truth.graph};\n")
            continue
        inputs = "".join(f"input_{i}:{_shape(shape)};" for i, shape in enumerate(operator.inputs, start=1))
        lines.append(f"{operator.type};{operator.name};{truth.graph};{inputs}\n")
    return "".join(lines).encode()


def _shape(shape: tuple[int, ...] | None) -> str:
    return "NoShape" if shape is None else str(list(shape))


def memory_totals(allocations: Iterable[Allocation]) -> Iterator[tuple[int, Allocation, int]]:
    """Give every taking and freeing of memory in the order of time: its time, the block, the total allocated after it."""
    events = [(one.start_ns, i, one, one.size) for i, one in enumerate(allocations)]
    events += [(one.end_ns, i, one, -one.size) for _, i, one, _ in list(events) if one.end_ns is not None]
    total = 0
    for at, _, block, change in sorted(events, key=lambda event: event[:2]):
        total += change
        yield at, block, total


def memory_file(rank: Rank) -> bytes:
    """Write cpu_ms_memory_record of one rank (MindSpore 2.3 and later, `profile_memory`)."""
    totals = ((at, _BEFORE_BYTES + total) for at, _, total in memory_totals(rank.allocations))
    rows = [(at, total, _POOL_BYTES, total) for at, total in totals]
    return plain_csv([_MEMORY, *rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    name: str
    depth: int
    start_ns: int
    end_ns: int


def scope_layers(runs: Iterable[tuple[str, int, int]]) -> list[_Layer]:
    """Return the spans of the scopes that named runs (full name, start, end) went through.

    A scope goes on as long as the runs that follow are inside it and inside all scopes around it.
    """
    done: list[_Layer] = []
    open_layers: list[_Layer] = []
    for full_name, start, end in sorted(runs, key=lambda run: run[1]):
        goes_on = True
        for depth, name in enumerate(full_name.split("/")[:-1]):
            layer = _Layer(name=name, depth=depth, start_ns=start, end_ns=end)
            if depth >= len(open_layers):
                open_layers.append(layer)
                continue
            before = open_layers[depth]
            if goes_on and before.name == name:
                layer = _Layer(name=name, depth=depth, start_ns=before.start_ns, end_ns=end)
            else:
                goes_on = False
                done.append(before)
            open_layers[depth] = layer
    return [*done, *open_layers]


def trace_view(truth: Truth, rank: Rank, *, graph: bool) -> bytes:
    """Write trace_view.json of MindSpore 2.5 and later on a CPU: `ts` and `dur` are strings."""
    return json_bytes([*cpu_events(truth, rank, graph=graph), *scope_events(truth, rank, graph=graph)])


def cpu_events(truth: Truth, rank: Rank, *, graph: bool) -> list[dict[str, object]]:
    """Return the lane "CPU OP" of trace_view.json."""
    events: list[dict[str, object]] = [
        _meta("process_name", 2, 0, name="CPU OP"),
        _meta("process_sort_index", 2, 0, sort_index=2),
        _meta("process_labels", 2, 0, labels="CPU"),
        _meta("thread_name", 2, 0, name="Thread 0"),
        _meta("thread_sort_index", 2, 0, sort_index=0),
    ]
    for one in operators(truth, rank, graph=graph):
        for run in one.executions:
            ts, dur = (
                lossy_microseconds(str(run.start_ns), 0.001),
                lossy_microseconds(milliseconds(run.duration_ns), 1000),
            )
            events.append(
                {
                    "ph": "X",
                    "name": one.full_name,
                    "pid": 2,
                    "tid": 0,
                    "ts": ts,
                    "dur": dur,
                    "cat": "",
                    "args": {"type": "HostCpuOps"},
                }
            )
    return events


def scope_events(truth: Truth, rank: Rank, *, graph: bool) -> list[dict[str, object]]:
    """Return the lane "Scope Layer" of trace_view.json; empty where no operator has a scope."""
    runs = [
        (one.full_name, run.start_ns, run.end_ns)
        for one in operators(truth, rank, graph=graph)
        if one.full_name.startswith(("Default", "Gradients"))
        for run in one.executions
    ]
    layers = scope_layers(runs)
    if not layers:
        return []
    events = [_meta("process_name", 3, 0, name="Scope Layer"), _meta("process_sort_index", 3, 0, sort_index=12)]
    for depth in range(max(layer.depth for layer in layers) + 1):
        events.append(_meta("thread_name", 3, depth, name=f"Thread {depth}"))
        events.append(_meta("thread_sort_index", 3, depth, sort_index=depth))
    events += [
        {
            "ph": "X",
            "name": layer.name,
            "pid": 3,
            "tid": layer.depth,
            "ts": lossy_microseconds(str(layer.start_ns), 0.001),
            "dur": microseconds(layer.end_ns - layer.start_ns),
            "cat": "",
            "args": {},
        }
        for layer in layers
    ]
    return events


def _meta(kind: str, pid: int, tid: int, /, **args: object) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def timeline_files(truth: Truth, rank: Rank) -> dict[str, bytes]:
    """Write cpu_timeline_display and cpu_timeline_summary of MindSpore 2.0 on a CPU in graph mode."""
    kept = operators(truth, rank, graph=True)
    runs = sorted(((run, one) for one in kept for run in one.executions), key=lambda pair: pair[0].start_ns)
    offset = uptime_offset(rank)
    layers = scope_layers((one.full_name, run.start_ns, run.end_ns) for run, one in runs)
    number = rank.number

    def complete(
        name: str, tid: object, start_ns: int, dur: float, pid: int = number, **more: object
    ) -> dict[str, object]:
        return {"name": name, "ph": "X", "tid": tid, "ts": us(start_ns - offset), "dur": dur, "pid": pid, **more}

    events = [_sort_index(number, 100001, -3) for _ in layers]
    events += [_sort_index(number, 100000, -4) for _ in range(2 * len(rank.steps))]
    for run, one in runs:
        dur = float(milliseconds(run.duration_ns)) * 1000
        events.append(complete(one.name, "HostCpuOps0", run.start_ns, dur))
    for layer in layers:
        dur = us(layer.end_ns - layer.start_ns)
        events.append(complete(layer.name, 100001, layer.start_ns, dur, scope_level=layer.depth))
    for i, step in enumerate(rank.steps, start=1):
        inside = [run for run, _ in runs if run.step == step.number]
        span = us(inside[-1].end_ns - inside[0].start_ns)
        events.append(complete(str(i), 100000, inside[0].start_ns, span))
    for run, _ in runs:
        events.append(complete("computation_op", "7999", run.start_ns, us(run.duration_ns), pid=12000))
    for (before, _), (after, _) in pairwise(runs):
        events.append(complete("free_time", "8002", before.end_ns, us(after.start_ns - before.end_ns), pid=12000))
    total = sum(float(milliseconds(run.duration_ns)) for run, _ in runs)
    summary = {
        "total_time": total,
        "num_of_streams": 1,
        "num_of_ops": len(kept),
        "op_exe_times": len(runs),
        "max_scope_name_num": max(one.full_name.count("/") for one in kept),
    }
    # The events are written one by one, with a comma and no blank between them.
    text = "[" + ",".join(json.dumps(event) for event in [*events, *lane_labels(str(number), "Host CPU OP")]) + "]"
    return {
        f"cpu_timeline_display_{number}.json": text.encode(),
        f"cpu_timeline_summary_{number}.json": json_bytes(summary),
    }


def _sort_index(pid: int, tid: int, index: int) -> dict[str, object]:
    return {
        "name": "thread_sort_index",
        "pid": pid,
        "tid": tid,
        "ts": 0,
        "ph": "M",
        "cat": "__metadata",
        "args": {"sort_index": index},
    }


def lane_labels(pid: str, label: str) -> list[dict[str, object]]:
    """Return the M events that end a timeline of MindSpore 2.0; the rank's pid is a string in them."""
    labels: list[tuple[object, str, int]] = [
        (pid, label, 0),
        (9000, "AICPU OP", 10),
        (10000, "Communication Op", 20),
        (11000, "Host CPU OP", 30),
        (12000, "Op Overlap Analyse", 40),
        (13000, "Activity Op", 50),
    ]
    events: list[dict[str, object]] = [
        {"name": "process_labels", "ph": "M", "pid": lane, "args": {"labels": text}} for lane, text, _ in labels
    ]
    events += [
        {"name": "process_sort_index", "ph": "M", "pid": lane, "args": {"sort_index": index}}
        for lane, _, index in labels[:-1]
    ]
    threads: list[tuple[object, int, str]] = [
        (11000, 100003, "Host CPU Op"),
        (12000, 7999, "Merged Computation Op"),
        (12000, 8000, "Pure Communication Op"),
        (12000, 8001, "Merged Communication Op"),
        (12000, 8002, "Free Time"),
        (pid, 100000, "Steps"),
        (pid, 0, "Ops"),
    ]
    events += [
        {"name": "thread_name", "ph": "M", "pid": lane, "tid": tid, "args": {"name": text}}
        for lane, tid, text in threads
    ]
    events += [
        {"name": "thread_sort_index", "ph": "M", "pid": 12000, "tid": tid, "args": {"sort_index": tid}}
        for tid in (7999, 8000, 8001, 8002)
    ]
    events.append({"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": 100000, "args": {"sort_index": -4}})
    return events


def utc(ns: int) -> datetime:
    """UNIX nanoseconds as a date and time in UTC, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


def stamp(ns: int) -> str:
    """The 17 digits in the name of a directory: year to millisecond."""
    at = utc(ns)
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03d}"


def log_name(rank: Rank) -> str:
    """The name of the first log below `logs/`."""
    return f"profiler_{utc(rank.start_ns):%Y%m%d%H%M%S}_{rank.pid}.log"


def cpu_log(rank: Rank, directory: str, *, analysed: bool) -> bytes:
    """Write the log of MindSpore 2.5 and later on a CPU; `directory` is the name the cycle's directory has."""
    path = f"/home/user/out/{directory}"
    parser = rank.pid + 117
    lines = [
        (rank.start_ns, "log.py:108", f"Profiler logger initialized at: {path}/logs/{log_name(rank)}"),
        (rank.start_ns, "cpu_profiler.py:51", "CpuProfiler start."),
        (rank.start_ns, "cpu_profiler.py:53", f"CpuProfiler framework_path: {path}/FRAMEWORK"),
        (rank.end_ns, "cpu_profiler.py:64", "CpuProfiler stop."),
        (rank.end_ns, "cpu_profiler.py:76", "CpuProfiler finalize."),
    ]
    if analysed:
        after = rank.end_ns + 400_000_000
        lines += [(after, place, text) for place, text in _analysis(path, parser)]
    return log_bytes(lines)


def _analysis(path: str, parser: int) -> list[tuple[str, str]]:
    return [
        ("cpu_profiler.py:71", "CpuProfiler analyse."),
        ("task_manager.py:89", f"TaskManager run flow [cpu_flow] [pid: {parser}] start"),
        ("ms_framework_parser.py:69", "FrameworkParser parse op range done."),
        ("ms_framework_parser.py:71", "FrameworkParser parse cpu op done."),
        ("base_parser.py:116", "Parser [FrameworkParser] post hook [MsDatasetViewer.save] start"),
        ("ms_dataset_viewer.py:50", "MsDatasetViewer start"),
        ("ms_dataset_viewer.py:57", "MsDatasetViewer end"),
        ("base_parser.py:129", "Parser [FrameworkParser] post hook [MsDatasetViewer.save] completed"),
        ("ascend_timeline_viewer.py:42", "AscendTimelineViewer start"),
        ("ascend_timeline_viewer.py:56", "Trace view saved start"),
        (
            "ascend_timeline_viewer.py:58",
            f"Trace view saved done, save path: {path}/ASCEND_PROFILER_OUTPUT/trace_view.json",
        ),
        ("ascend_timeline_viewer.py:52", "AscendTimelineViewer end"),
        ("task_manager.py:93", f"TaskManager flow [cpu_flow] [pid: {parser}] join"),
    ]


def log_bytes(lines: Iterable[tuple[int, str, str]]) -> bytes:
    """Write a profiler's log: UNIX time, `file.py:line` and message of each line, all at INFO."""
    return "".join(f"[{utc(at):%Y-%m-%d-%H:%M:%S}] [INFO] [{place}] {text}\n" for at, place, text in lines).encode()


def directory_name(truth: Truth, rank: Rank) -> str:
    """Name of a cycle's directory since MindSpore 2.5; it carries no rank, and its time is UTC."""
    return f"{truth.host}_{rank.pid}_{stamp(rank.start_ns)}_ascend_ms"


def cycle_2_5(truth: Truth, rank: Rank, *, graph: bool, memory: bool, analysed: bool) -> dict[str, bytes]:
    """Write the directory of one rank and cycle of MindSpore 2.5 and later on a CPU."""
    name = directory_name(truth, rank)
    framework = operator_files(truth, rank, graph=graph, epoch=True)
    if memory:
        framework[f"cpu_ms_memory_record_{rank.number}.txt"] = memory_file(rank)
    files = {f"{name}/FRAMEWORK/{file}": content for file, content in framework.items()}
    files[f"{name}/logs/{log_name(rank)}"] = cpu_log(rank, name, analysed=analysed)
    if analysed:
        files[f"{name}/ASCEND_PROFILER_OUTPUT/trace_view.json"] = trace_view(truth, rank, graph=graph)
    return files


def directory_2_0(truth: Truth, rank: Rank) -> dict[str, bytes]:
    """Write `profiler/` of one rank of MindSpore 2.0 on a CPU in graph mode: seven files."""
    files = operator_files(truth, rank, graph=True, epoch=False, names_fast_path=True)
    files |= timeline_files(truth, rank)
    files[f"profiler_info_{rank.number}.json"] = json_bytes(
        {
            "profiling_start_time": f"{utc(rank.start_ns):%Y-%m-%d %H:%M:%S}",
            "analyse_start_time": f"{utc(rank.end_ns):%Y-%m-%d %H:%M:%S}",
            "context_mode": "graph",
            "rank_id": str(rank.number),
            "ms_version": "2.0.0",
            "analyse_end_time": f"{utc(rank.end_ns + 10**9):%Y-%m-%d %H:%M:%S}",
            # A process on a CPU does not learn of the others, whatever RANK_SIZE says.
            "rank_size": 1,
            "is_heterogeneous": False,
        }
    )
    return {f"profiler/{file}": content for file, content in files.items()}


def info_2_5(
    rank: Rank, *, activities: tuple[str, ...], level: str, parameters: dict[str, object], scheduled: int
) -> bytes:
    """Write profiler_info of MindSpore 2.5 and later; `scheduled` is the number of active steps, 0 without a schedule."""
    document = {
        "profiler_parameters": {
            "is_set_schedule": scheduled > 0,
            "output_path": "./data",
            "profiler_level": level,
            "activities": list(activities),
            "aic_metrics": "PipeUtilization" if level != "Level0" else "None",
            "with_stack": False,
            "profile_memory": False,
            "data_process": False,
            "parallel_strategy": False,
            "start_profile": True,
            "l2_cache": False,
            "hbm_ddr": False,
            "pcie": False,
            "sys_io": False,
            "sys_interconnection": False,
            "host_sys": [],
            "sync_enable": True,
            "data_simplification": True,
            "record_shapes": False,
            "export_type": ["text"],
            "mstx": False,
            "mstx_domain_include": [],
            "mstx_domain_exclude": [],
            "schedule": {
                "wait": 0,
                "active": max(scheduled, 1),
                "warmup": 0,
                "repeat": 1 if scheduled else 0,
                "skip_first": 0,
            },
            **parameters,
        },
        "ms_profiler_info": {"rank_id": str(rank.number), "device_id": str(rank.number)},
        "cann_profiler_info": {},
        "analysis_cost_time": {},
        "ms_version": "2.10.0",
        "cann_version": "not known" if "NPU" not in activities else "8.2.RC1",
        "jit_level": "",
    }
    return json_bytes(document, indent=4)
