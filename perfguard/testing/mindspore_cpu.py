"""Files that MindSpore's own profiler writes: operators on the host, their timelines, profiler_info and logs.

Formats read on real output of MindSpore 2.0.0 and 2.10.0 on CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from perfguard.testing.formats import (
    Event,
    Files,
    below,
    columns,
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
from perfguard.testing.truth import (
    Execution,
    Operator,
    Output,
    Rank,
    Runs,
    grouped,
    memory_totals,
    of_step,
    runs_by_name,
)

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


def _host_name(operator: Operator, output: Output) -> str:
    """Return the name under which the profiler counts the executions of an operator, in graph or in PyNative mode."""
    # On an Ascend device the host's operators are written in graph mode's form.
    if output.version != "2.5" or output.on["graph"]:
        return operator.full_name
    return operator.type if operator.type in _FAST_PATH else f"Default/{operator.name}"


def _host_runs(output: Output) -> list[Runs[Execution]]:
    return runs_by_name(output.rank.executions, lambda operator: _host_name(operator, output))


def operator_files(output: Output) -> Files:
    """Write the four operator files of one rank, by their names. Their clock is the machine's uptime before 2.1."""
    kept, number, offset_ns = _host_runs(output), output.number, _offset_ns(output)

    def stamped(run: Execution) -> str:
        return f"{run.start_ns - offset_ns},{milliseconds(run.duration_ns)},0 "

    return {
        f"cpu_op_detail_info_{number}.csv": _detail(kept, output.rank),
        f"cpu_op_type_info_{number}.csv": _types(kept),
        f"cpu_op_execute_timestamp_{number}.txt": timestamps(kept, "HostCpuOps", stamped),
        f"cpu_framework_{number}.txt": _framework(output),
    }


def timestamps(kept: Iterable[Runs[Execution]], side: str, stamped: Callable[[Execution], str]) -> bytes:
    """Write the starts and durations of every execution, an operator a line."""
    return lines_bytes(f"{one.name};{side};{''.join(map(stamped, one.runs))}" for one in kept)


def _offset_ns(output: Output) -> int:
    """Return the nanoseconds between UNIX time and the uptime that MindSpore 2.0 prints; 0 for later versions."""
    return output.rank.steps[0].start_ns - 1_182_000_000_000 if output.version == "2.0" else 0


def _total_ms(kept: Iterable[Runs[Execution]]) -> float:
    return sum(one.total_ns / 1_000_000 for one in kept)


def _detail(kept: list[Runs[Execution]], rank: Rank) -> bytes:
    whole = _total_ms(kept)
    rows = []
    for one in reversed(kept):
        kind, name, count, total = one.operator.type, one.name.rpartition("/")[2], len(one.runs), _total_ms([one])
        times = map(six_digits, (total, total / count, total / whole))
        rows.append(("Host", kind, name, one.name, count, *times, "Default", rank.pid))
    return plain_csv(columns("cpu_op_detail_info"), rows)


def _types(kept: list[Runs[Execution]]) -> bytes:
    whole = _total_ms(kept)
    rows = []
    for kind, ones in grouped(kept, lambda one: one.operator.type).items():
        count, total = sum(len(one.runs) for one in ones), _total_ms(ones)
        times = map(six_digits, (total, total / count, total / whole))
        rows.append((kind, count, count // len(ones[0].runs), *times))
    return plain_csv(columns("cpu_op_type_info"), rows)


def _framework(output: Output) -> bytes:
    """Write cpu_framework: in PyNative mode 2.10 leaves the type of fast-path operators blank."""
    lines = []
    for operator in (one.operator for one in output.rank.executions):
        shapes = ["NoShape" if shape is None else list(shape) for shape in operator.inputs]
        is_fast = _host_name(operator, output) == operator.type
        lines.append(f";;{output.truth.graph};" if is_fast else framework_line(output, operator, shapes))
    return lines_bytes(lines)


def framework_line(output: Output, operator: Operator, shapes: Iterable[object]) -> str:
    """Return an operator's line in cpu_framework or gpu_framework."""
    inputs = "".join(f"input_{i}:{shape};" for i, shape in enumerate(shapes, start=1))
    return f"{operator.type};{operator.name};{output.truth.graph};{inputs}"


def memory_file(rank: Rank) -> Files:
    """Write cpu_ms_memory_record of one rank (MindSpore 2.3 and later, `profile_memory`)."""
    # The pool records its total behind an allocation and before a release (mem_dynamic_allocator.cc).
    totals = (
        (at, _BEFORE_BYTES + total + (block.size if at == block.end_ns else 0))
        for at, block, total in memory_totals(rank.allocations)
    )
    rows = ((at, total, _POOL_BYTES, total) for at, total in totals)
    return {f"cpu_ms_memory_record_{rank.number}.txt": plain_csv(columns("cpu_ms_memory_record"), rows)}


def _trace_view(output: Output) -> bytes:
    """Write trace_view.json of MindSpore 2.5 and later on a CPU: `ts` and `dur` are strings."""
    runs = [(one.name, run) for one in _host_runs(output) for run in one.runs]
    events = lane(2, "CPU OP", 2, 0)
    for name, run in runs:
        dur = lossy_microseconds(milliseconds(run.duration_ns), 1000)
        events.append(complete(name, 2, 0, _start(run.start_ns), dur, {"type": "HostCpuOps"}))
    # Operators of the fast path have no scope.
    names, spans = scope_lane(((name, run.start_ns, run.end_ns) for name, run in runs if "/" in name), _start)
    return json_bytes([*events, *names, *spans])


def _start(ns: int) -> str:
    return lossy_microseconds(str(ns), 0.001)


def _timeline_files(output: Output) -> Files:
    """Write cpu_timeline_display and cpu_timeline_summary of MindSpore 2.0 on a CPU in graph mode."""
    rank, runs, number = output.rank, output.rank.executions, output.number
    layers = scope_layers((run.operator.full_name, run.start_ns, run.end_ns) for run in runs)

    def event(name: str, tid: object, start_ns: int, dur: float, pid: int = number, **more: object) -> Event:
        return timeline_event(name, tid, us(start_ns - _offset_ns(output)), dur, pid, **more)

    events = []
    for tid, index, times in ((100001, -3, len(layers)), (100000, -4, 2 * len(rank.steps))):
        place: Event = {"name": "thread_sort_index", "pid": number, "tid": tid, "ts": 0, "ph": "M", "cat": "__metadata"}
        events += [{**place, "args": {"sort_index": index}}] * times
    for run in runs:
        dur = float(milliseconds(run.duration_ns)) * 1000
        events.append(event(run.operator.name, "HostCpuOps0", run.start_ns, dur))
    for layer in layers:
        dur = us(layer.end_ns - layer.start_ns)
        events.append(event(layer.name, 100001, layer.start_ns, dur, scope_level=layer.depth))
    for i, step in enumerate(rank.steps, start=1):
        inside = of_step(runs, step.step)
        events.append(event(str(i), 100000, inside[0].start_ns, us(inside[-1].end_ns - inside[0].start_ns)))
    events += [event("computation_op", "7999", run.start_ns, us(run.duration_ns), pid=12000) for run in runs]
    for before, after in pairwise(runs):
        events.append(event("free_time", "8002", before.end_ns, us(after.start_ns - before.end_ns), pid=12000))
    events += lane_labels(str(number), "Host CPU OP")
    total = sum(float(milliseconds(run.duration_ns)) for run in runs)
    depth = max(one.full_name.count("/") for one in output.truth.operators)
    summary = timeline_summary(total, operators=len(output.truth.operators), runs=len(runs), depth=depth)
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
