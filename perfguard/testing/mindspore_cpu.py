"""Files that MindSpore's own profiler writes: operators on the host, their timelines, profiler_info and logs.

Formats read on real output of MindSpore 2.0.0 and 2.10.0 on CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from perfguard.testing.formats import (
    Event,
    Files,
    below,
    complete,
    date_and_time,
    json_bytes,
    lane,
    lane_labels,
    lines_bytes,
    lossy_microseconds,
    milliseconds,
    one_by_one,
    plain_csv,
    scope_lane,
    scope_layers,
    six_digits,
    stamp,
    template,
    timeline_event,
    timeline_summary,
    us,
    utc,
)
from perfguard.testing.truth import Execution, Operator, Output, Rank, grouped, memory_totals, of_step

#: Types that PyNative mode runs through its fast path; the profiler knows their type, not their scope.
_FAST_PATH = frozenset({"MatMul", "ReLU"})

_POOL_BYTES = 1 << 30

#: The model's weights, allocated before the window.
_BEFORE_BYTES = 9_728


def directory_name(output: Output) -> str:
    """Name of a cycle's directory since MindSpore 2.5; it carries no rank, and its time is UTC."""
    return f"{output.truth.host}_{output.rank.pid}_{stamp(output.rank.start_ns)}_ascend_ms"


def profiler_info(
    output: Output, *, analysed_ns: int, known: dict[str, object], world: int | None = None, **more: object
) -> bytes:
    """Write profiler_info of MindSpore 2.0 to 2.4.

    `known` is what the profiler knows at its end, `more` replaces the values of graph mode.
    """
    rank = output.rank
    document: dict[str, object] = {"profiling_start_time": date_and_time(rank.start_ns)}
    if known:
        document["profiling_stop_time"] = date_and_time(rank.end_ns)
    document |= {
        "analyse_start_time": date_and_time(rank.end_ns),
        "context_mode": "graph",
        "rank_id": str(rank.number),
        "ms_version": {"2.1": "2.1.1", "2.3": "2.3.1"}.get(output.version, "2.0.0"),
        **known,
        "analyse_end_time": date_and_time(analysed_ns),
        "rank_size": world or output.truth.world,
        "is_heterogeneous": False,
    }
    return json_bytes(document | more)


def log_file(output: Output, kind: str, directory: str, *, analysed: bool = False) -> Files:
    """Write the log of a profiler: `kind` is "torch", "cpu" or "npu", `directory` the name of the cycle's directory."""
    rank = output.rank
    begin = rank.end_ns if kind == "torch" else rank.start_ns
    name = f"profiler_{utc(begin):%Y%m%d%H%M%S}_{rank.pid}.log"
    found = template("logs")
    lines = []
    for moment, delay_ms, place, text in [*found[kind], *(found[f"{kind} analysis"] if analysed else [])]:
        at = utc((rank.start_ns if moment == "start" else rank.end_ns) + 10**6 * delay_ms)
        message = text.format(path=f"/home/user/out/{directory}", log=name, worker=rank.pid + 117)
        lines.append(f"[{at:%Y-%m-%d-%H:%M:%S}] [INFO] [{place}] {message}")
    return {f"logs/{name}": lines_bytes(lines)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostRuns:
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


def _host_runs(output: Output) -> list[_HostRuns]:
    """Return the operators as the profiler names them in graph or in PyNative mode."""
    names = grouped(output.truth.operators, lambda one: _full_name(one, output))
    runs = grouped(output.rank.executions, lambda run: _full_name(run.operator, output))
    return [_HostRuns(type=ones[0].type, full_name=name, executions=runs[name]) for name, ones in names.items()]


def _is_pynative(output: Output) -> bool:
    # On an Ascend device the host's operators are written in graph mode's form.
    return output.version == "2.5" and not output.on["graph"]


def _is_fast(operator: Operator, output: Output) -> bool:
    return _is_pynative(output) and operator.type in _FAST_PATH


def _full_name(operator: Operator, output: Output) -> str:
    if not _is_pynative(output):
        return operator.full_name
    return operator.type if _is_fast(operator, output) else f"Default/{operator.type}-op{operator.number}"


def operator_files(output: Output) -> Files:
    """Write the four operator files of one rank, by their names. Their clock is the machine's uptime before 2.1."""
    kept = _host_runs(output)
    number = output.number
    return {
        f"cpu_op_detail_info_{number}.csv": _detail(kept, output.rank),
        f"cpu_op_type_info_{number}.csv": _types(kept),
        f"cpu_op_execute_timestamp_{number}.txt": _timestamps(kept, _offset_ns(output)),
        f"cpu_framework_{number}.txt": _framework(output),
    }


def _offset_ns(output: Output) -> int:
    """Return the nanoseconds between UNIX time and the uptime that MindSpore 2.0 prints; 0 for later versions."""
    return output.rank.steps[0].start_ns - 1_182_000_000_000 if output.version == "2.0" else 0


def _detail(kept: list[_HostRuns], rank: Rank) -> bytes:
    whole = sum(one.total_ms for one in kept)
    rows = []
    for one in reversed(kept):
        count = len(one.executions)
        times = map(six_digits, (one.total_ms, one.total_ms / count, one.total_ms / whole))
        rows.append(("Host", one.type, one.name, one.full_name, count, *times, "Default", rank.pid))
    header = "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),total_proportion"
    return plain_csv(f"{header},subgraph,pid", rows)


def _types(kept: list[_HostRuns]) -> bytes:
    whole = sum(one.total_ms for one in kept)
    rows = []
    for kind, ones in grouped(kept, lambda one: one.type).items():
        count = sum(len(one.executions) for one in ones)
        total = sum(one.total_ms for one in ones)
        frequency = count // len(ones[0].executions)
        rows.append((kind, count, frequency, *map(six_digits, (total, total / count, total / whole))))
    header = "op_type,type_occurrences,execution_frequency(per-step),total_compute_time,avg_time(ms),percent"
    return plain_csv(header, rows)


def _timestamps(kept: list[_HostRuns], offset_ns: int) -> bytes:
    lines = []
    for one in kept:
        runs = "".join(f"{run.start_ns - offset_ns},{milliseconds(run.duration_ns)},0 " for run in one.executions)
        lines.append(f"{one.full_name};HostCpuOps;{runs}")
    return lines_bytes(lines)


def _framework(output: Output) -> bytes:
    """Write cpu_framework: in PyNative mode 2.10 leaves the type of fast-path operators blank."""
    lines = []
    for execution in output.rank.executions:
        operator = execution.operator
        if _is_fast(operator, output):
            lines.append(f";;{output.truth.graph};")
            continue
        shapes = ("NoShape" if shape is None else list(shape) for shape in operator.inputs)
        inputs = "".join(f"input_{i}:{shape};" for i, shape in enumerate(shapes, start=1))
        lines.append(f"{operator.type};{operator.name};{output.truth.graph};{inputs}")
    return lines_bytes(lines)


def memory_file(rank: Rank) -> Files:
    """Write cpu_ms_memory_record of one rank (MindSpore 2.3 and later, `profile_memory`)."""
    totals = ((at, _BEFORE_BYTES + total) for at, _, total in memory_totals(rank.allocations))
    header = "Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)"
    table = plain_csv(header, ((at, total, _POOL_BYTES, total) for at, total in totals))
    return {f"cpu_ms_memory_record_{rank.number}.txt": table}


def _trace_view(output: Output) -> bytes:
    """Write trace_view.json of MindSpore 2.5 and later on a CPU: `ts` and `dur` are strings."""
    runs = [(one.full_name, run) for one in _host_runs(output) for run in one.executions]
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


def _timeline_files(output: Output) -> Files:
    """Write cpu_timeline_display and cpu_timeline_summary of MindSpore 2.0 on a CPU in graph mode."""
    rank, kept = output.rank, _host_runs(output)
    runs = sorted(((run, one) for one in kept for run in one.executions), key=lambda pair: pair[0].start_ns)
    layers = scope_layers((one.full_name, run.start_ns, run.end_ns) for run, one in runs)
    number = rank.number

    def event(name: str, tid: object, start_ns: int, dur: float, pid: int = number, **more: object) -> Event:
        return timeline_event(name, tid, us(start_ns - _offset_ns(output)), dur, pid, **more)

    events = []
    for tid, index, times in ((100001, -3, len(layers)), (100000, -4, 2 * len(rank.steps))):
        place: Event = {"name": "thread_sort_index", "pid": number, "tid": tid, "ts": 0, "ph": "M", "cat": "__metadata"}
        events += [{**place, "args": {"sort_index": index}}] * times
    for run, one in runs:
        events.append(event(one.name, "HostCpuOps0", run.start_ns, float(milliseconds(run.duration_ns)) * 1000))
    for layer in layers:
        dur = us(layer.end_ns - layer.start_ns)
        events.append(event(layer.name, 100001, layer.start_ns, dur, scope_level=layer.depth))
    for i, step in enumerate(rank.steps, start=1):
        inside = of_step((run for run, _ in runs), step.step)
        events.append(event(str(i), 100000, inside[0].start_ns, us(inside[-1].end_ns - inside[0].start_ns)))
    for run, _ in runs:
        events.append(event("computation_op", "7999", run.start_ns, us(run.duration_ns), pid=12000))
    for (before, _), (after, _) in pairwise(runs):
        events.append(event("free_time", "8002", before.end_ns, us(after.start_ns - before.end_ns), pid=12000))
    events += lane_labels(str(number), "Host CPU OP")
    total = sum(float(milliseconds(run.duration_ns)) for run, _ in runs)
    depth = max(one.full_name.count("/") for one in kept)
    summary = timeline_summary(total, operators=len(kept), runs=len(runs), depth=depth)
    return {
        f"cpu_timeline_display_{number}.json": one_by_one(events),
        f"cpu_timeline_summary_{number}.json": summary,
    }


def cycle_2_5(output: Output) -> Files:
    """Write the directory of one rank and cycle of MindSpore 2.5 and later on a CPU."""
    name, analysed = directory_name(output), output.on["analysed"]
    files = below("FRAMEWORK", operator_files(output) | (memory_file(output.rank) if output.on["memory"] else {}))
    files |= log_file(output, "cpu", name, analysed=analysed)
    if analysed:
        files["ASCEND_PROFILER_OUTPUT/trace_view.json"] = _trace_view(output)
    return below(name, files)


def directory_2_0(output: Output) -> Files:
    """Write `profiler/` of one rank of MindSpore 2.0 on a CPU in graph mode: seven files."""
    files = operator_files(output) | _timeline_files(output)
    # A process on a CPU does not learn of the others, whatever RANK_SIZE says.
    info = profiler_info(output, world=1, analysed_ns=output.rank.end_ns + 10**9, known={})
    return below("profiler", {**files, f"profiler_info_{output.number}.json": info})
