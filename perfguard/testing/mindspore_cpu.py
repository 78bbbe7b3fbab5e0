"""Files of operators that MindSpore runs on the host: the four files of 2.0 to 2.10, and the timelines made from them.

Formats read on real output of MindSpore 2.0.0 and 2.10.0 on CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from perfguard.testing.formats import (
    Files,
    below,
    columns,
    json_bytes,
    lines_bytes,
    lossy_microseconds,
    milliseconds,
    plain_csv,
    six_digits,
    us,
)
from perfguard.testing.mindspore_info import cpu_log, directory_name, log_name, profiler_info
from perfguard.testing.timelines import (
    Event,
    complete,
    lane,
    lane_labels,
    one_by_one,
    scope_lane,
    scope_layers,
    timeline_summary,
)
from perfguard.testing.truth import Execution, Operator, Rank, Shape, Truth, grouped, memory_totals, of_step

#: Types that PyNative mode runs through its fast path; the profiler knows their type, not their scope.
_FAST_PATH = frozenset({"MatMul", "ReLU"})

_POOL_BYTES = 1 << 30

#: The model's weights, allocated before the window.
_BEFORE_BYTES = 9_728

_DETAIL = columns(
    "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),total_proportion,subgraph,pid"
)
_TYPE = columns("op_type,type_occurrences,execution_frequency(per-step),total_compute_time,avg_time(ms),percent")
_MEMORY = columns("Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOperator:
    """All executions that the profiler counts under one name."""

    type: str
    full_name: str
    executions: list[Execution]

    @property
    def name(self) -> str:
        """The name without its scope."""
        return self.full_name.rpartition("/")[2]

    @property
    def total_ms(self) -> float:
        """Sum of the executions' durations, in milliseconds."""
        return sum(one.duration_ns for one in self.executions) / 1_000_000


def operators(truth: Truth, rank: Rank, *, graph: bool) -> list[CpuOperator]:
    """Return the operators as the profiler names them in graph or in PyNative mode."""
    names = grouped(truth.operators, lambda one: _full_name(one, graph=graph))
    runs = grouped(rank.executions, lambda run: _full_name(run.operator, graph=graph))
    return [
        CpuOperator(type=ones[0].type, full_name=name, executions=runs.get(name, [])) for name, ones in names.items()
    ]


def _full_name(operator: Operator, *, graph: bool) -> str:
    if graph:
        return operator.full_name
    return operator.type if operator.type in _FAST_PATH else f"Default/{operator.type}-op{operator.number}"


def operator_files(truth: Truth, rank: Rank, *, graph: bool, epoch: bool, names_fast_path: bool = False) -> Files:
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
    rows: list[tuple[object, ...]] = [_DETAIL]
    for one in reversed(kept):
        count = len(one.executions)
        times = map(six_digits, (one.total_ms, one.total_ms / count, one.total_ms / whole))
        rows.append(("Host", one.type, one.name, one.full_name, count, *times, "Default", rank.pid))
    return plain_csv(rows)


def _types(kept: list[CpuOperator]) -> bytes:
    whole = sum(one.total_ms for one in kept)
    rows: list[tuple[object, ...]] = [_TYPE]
    for kind, ones in grouped(kept, lambda one: one.type).items():
        count = sum(len(one.executions) for one in ones)
        total = sum(one.total_ms for one in ones)
        frequency = count // len(ones[0].executions)
        rows.append((kind, count, frequency, *map(six_digits, (total, total / count, total / whole))))
    return plain_csv(rows)


def _timestamps(kept: list[CpuOperator], offset_ns: int) -> bytes:
    lines = []
    for one in kept:
        runs = "".join(f"{run.start_ns - offset_ns},{milliseconds(run.duration_ns)},0 " for run in one.executions)
        lines.append(f"{one.full_name};HostCpuOps;{runs}")
    return lines_bytes(lines)


def _framework(truth: Truth, rank: Rank, *, hides: bool) -> bytes:
    lines = []
    for execution in rank.executions:
        operator = execution.operator
        if hides and operator.type in _FAST_PATH:
            lines.append(f";;{truth.graph};")
            continue
        inputs = "".join(f"input_{i}:{_shape(shape)};" for i, shape in enumerate(operator.inputs, start=1))
        lines.append(f"{operator.type};{operator.name};{truth.graph};{inputs}")
    return lines_bytes(lines)


def _shape(shape: Shape | None) -> str:
    return "NoShape" if shape is None else str(list(shape))


def memory_file(rank: Rank) -> bytes:
    """Write cpu_ms_memory_record of one rank (MindSpore 2.3 and later, `profile_memory`)."""
    totals = ((at, _BEFORE_BYTES + total) for at, _, total in memory_totals(rank.allocations))
    rows = [(at, total, _POOL_BYTES, total) for at, total in totals]
    return plain_csv([_MEMORY, *rows])


def trace_view(truth: Truth, rank: Rank, *, graph: bool) -> bytes:
    """Write trace_view.json of MindSpore 2.5 and later on a CPU: `ts` and `dur` are strings."""
    kept = operators(truth, rank, graph=graph)
    runs = [(one.full_name, run) for one in kept for run in one.executions]
    events = lane(2, "CPU OP", 2, 0)
    for name, run in runs:
        dur = lossy_microseconds(milliseconds(run.duration_ns), 1000)
        events.append(complete(name, 2, 0, _start(run.start_ns), dur, {"type": "HostCpuOps"}))
    # Operators of the fast path have no scope.
    scoped = ((name, run.start_ns, run.end_ns) for name, run in runs if name.startswith(("Default", "Gradients")))
    names, spans = scope_lane(scoped, _start)
    return json_bytes([*events, *names, *spans])


def _start(ns: int) -> str:
    return lossy_microseconds(str(ns), 0.001)


def timeline_files(truth: Truth, rank: Rank) -> Files:
    """Write cpu_timeline_display and cpu_timeline_summary of MindSpore 2.0 on a CPU in graph mode."""
    kept = operators(truth, rank, graph=True)
    runs = sorted(((run, one) for one in kept for run in one.executions), key=lambda pair: pair[0].start_ns)
    offset = uptime_offset(rank)
    layers = scope_layers((one.full_name, run.start_ns, run.end_ns) for run, one in runs)
    number = rank.number

    def event(name: str, tid: object, start_ns: int, dur: float, pid: int = number, **more: object) -> Event:
        return {"name": name, "ph": "X", "tid": tid, "ts": us(start_ns - offset), "dur": dur, "pid": pid, **more}

    events = [_sort_index(number, 100001, -3)] * len(layers)
    events += [_sort_index(number, 100000, -4)] * (2 * len(rank.steps))
    for run, one in runs:
        dur = float(milliseconds(run.duration_ns)) * 1000
        events.append(event(one.name, "HostCpuOps0", run.start_ns, dur))
    for layer in layers:
        dur = us(layer.end_ns - layer.start_ns)
        events.append(event(layer.name, 100001, layer.start_ns, dur, scope_level=layer.depth))
    for i, step in enumerate(rank.steps, start=1):
        inside = of_step((run for run, _ in runs), step.number)
        span = us(inside[-1].end_ns - inside[0].start_ns)
        events.append(event(str(i), 100000, inside[0].start_ns, span))
    for run, _ in runs:
        events.append(event("computation_op", "7999", run.start_ns, us(run.duration_ns), pid=12000))
    for (before, _), (after, _) in pairwise(runs):
        events.append(event("free_time", "8002", before.end_ns, us(after.start_ns - before.end_ns), pid=12000))
    events += lane_labels(str(number), "Host CPU OP")
    total = sum(float(milliseconds(run.duration_ns)) for run, _ in runs)
    depth = max(one.full_name.count("/") for one in kept)
    return {
        f"cpu_timeline_display_{number}.json": one_by_one(events),
        f"cpu_timeline_summary_{number}.json": timeline_summary(
            total, operators=len(kept), runs=len(runs), depth=depth
        ),
    }


def _sort_index(pid: int, tid: int, index: int) -> Event:
    event: Event = {"name": "thread_sort_index", "pid": pid, "tid": tid, "ts": 0, "ph": "M", "cat": "__metadata"}
    return {**event, "args": {"sort_index": index}}


def cycle_2_5(truth: Truth, rank: Rank, *, graph: bool, memory: bool, analysed: bool) -> Files:
    """Write the directory of one rank and cycle of MindSpore 2.5 and later on a CPU."""
    name = directory_name(truth, rank)
    framework = operator_files(truth, rank, graph=graph, epoch=True)
    if memory:
        framework[f"cpu_ms_memory_record_{rank.number}.txt"] = memory_file(rank)
    files = below("FRAMEWORK", framework)
    files[f"logs/{log_name(rank)}"] = cpu_log(rank, name, analysed=analysed)
    if analysed:
        files["ASCEND_PROFILER_OUTPUT/trace_view.json"] = trace_view(truth, rank, graph=graph)
    return below(name, files)


def directory_2_0(truth: Truth, rank: Rank) -> Files:
    """Write `profiler/` of one rank of MindSpore 2.0 on a CPU in graph mode: seven files."""
    files = operator_files(truth, rank, graph=True, epoch=False, names_fast_path=True)
    files |= timeline_files(truth, rank)
    # A process on a CPU does not learn of the others, whatever RANK_SIZE says.
    files[f"profiler_info_{rank.number}.json"] = profiler_info(
        rank, version="2.0.0", world=1, analysed_ns=rank.end_ns + 10**9, known={}
    )
    return below("profiler", files)
