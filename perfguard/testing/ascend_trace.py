"""trace_view.json of an Ascend device: events of the framework, of CANN and of the device, and the flows between them.

Formats: real output of torch_npu level 1 (msinsight test data), MindSpore 2.10 source
(mindspore/profiler/analysis/parser/timeline_event). CANN's part is the same; MindSpore prints durations as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfguard.testing.ascend_operators import (
    COMPUTE_STREAM,
    FIRST_CONNECTION,
    NO_ID,
    calls,
)
from perfguard.testing.ascend_steps import overlap
from perfguard.testing.formats import (
    Event,
    complete,
    json_bytes,
    lane,
    metadata,
    microseconds,
    scope_lane,
    thread_names,
    us,
)
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Kernel, Link, Output, Rank

#: CANN's lanes: the number is part of the process id, and the place in the view.
_CANN, _HARDWARE, _FREQUENCY, _HCCL, _OVERLAP = 7, 13, 14, 15, 23

_LANES = {
    _CANN: ("CANN", "CPU"),
    _HARDWARE: ("Ascend Hardware", "NPU"),
    _FREQUENCY: ("AI Core Freq", "NPU"),
    _HCCL: ("HCCL", "NPU"),
    _OVERLAP: ("Overlap Analysis", "NPU"),
}

#: Layers of CANN, as the names of calls begin.
_LAYERS = {"node": "Node", "acl": "AscendCL", "hccl": "HCCL"}

#: A span of CANN: name, lane, thread, start and duration [ns], arguments.
_Span = tuple[str, int, int, int, int, Event | None]


def trace_view(output: Output) -> bytes:
    """Write trace_view.json of one rank and cycle: `ts` are strings; `dur` are strings for MindSpore, else numbers."""
    rank = output.rank
    cann = cann_events(output, strings=bool(output.version))
    if not output.version:
        return json_bytes([*_torch_host(output), *cann, *_torch_flows(rank)])
    runs = ((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels)
    names, scopes = scope_lane(runs, microseconds)
    return json_bytes([*_mindspore_host(output), *cann, *_mindspore_flows(rank), *scopes, *names])


def cann_events(output: Output, *, strings: bool) -> Iterator[Event]:
    """Yield CANN's part of a trace: calls, tasks, collective operations, overlap and the flows between them.

    `strings`: as MindSpore 2.3 and later writes it, where durations are strings and events have a category.
    """
    rank = output.rank

    def printed(event: Event) -> Event:
        """Return an event as its framework prints it: torch_npu has no category, and the phase comes last."""
        if strings:
            return event
        event = {key: value for key, value in event.items() if key != "cat" and value != {}}
        if "dur" in event:
            event["dur"] = float(str(event["dur"]))
        return {**{key: value for key, value in event.items() if key != "ph"}, "ph": event["ph"]}

    def spans(spans: Iterable[_Span]) -> Iterator[Event]:
        for name, number, tid, start_ns, duration_ns, args in spans:
            times = microseconds(start_ns), microseconds(duration_ns)
            yield printed(complete(name, _pid(rank, number), tid, *times, args))

    yield from map(printed, _names(rank))
    frequency: Event = {"name": "AI Core Freq", "ph": "C", "ts": microseconds(rank.start_ns)}
    yield printed({**frequency, "pid": _pid(rank, _FREQUENCY), "tid": 0, "args": {"MHz": 1800}})
    yield from spans(_work(output, strings=strings))
    yield from _launch_flows(rank)
    yield from spans(
        (name, _OVERLAP, tid, span.start_ns, span.duration_ns, None)
        for tid, (name, spans) in enumerate(overlap(rank).items())
        for span in spans
    )


def _pid(rank: Rank, lane: int) -> int:
    return rank.pid * 1024 + lane * 32


def _names(rank: Rank) -> Iterator[Event]:
    threads = {
        _CANN: {rank.pid: f"Thread {rank.pid}"},
        _HARDWARE: {COMPUTE_STREAM: f"Stream {COMPUTE_STREAM}"},
        _HCCL: {0: "Group 0 Communication", 1: "Plane 0"},
        _OVERLAP: dict(enumerate(overlap(rank))),
    }
    for number, (title, label) in _LANES.items():
        if number == _HCCL and not rank.collectives:
            continue
        pid = _pid(rank, number)
        yield metadata("process_name", pid, 0, name=title)
        for tid, name in threads.get(number, {}).items():
            yield from thread_names(pid, tid, name)
        yield metadata("process_labels", pid, 0, labels=label)
        yield metadata("process_sort_index", pid, 0, sort_index=number)


def _work(output: Output, *, strings: bool) -> Iterator[_Span]:
    """Yield the calls, the tasks of kernels, and the collective operations with their transfers."""
    rank = output.rank
    for call in calls(rank):
        args: Event = {"Thread Id": rank.pid, "Mode": call.name, "level": call.level, "id": call.name}
        args |= {"item_id": "0", "connection_id": call.connection}
        yield f"{_LAYERS[call.level]}@{call.name}", _CANN, rank.pid, call.start_ns, call.duration_ns, args
    for number, kernel in enumerate(rank.kernels, start=FIRST_CONNECTION):
        core = "KERNEL_AICORE" if kernel.operator.is_cube else "KERNEL_AIVEC"
        args = {"Model Id": NO_ID, "Task Type": core, "Physic Stream Id": COMPUTE_STREAM, "Task Id": kernel.task}
        args |= {"Batch Id": 0, "Subtask Id": NO_ID, "connection_id": number}
        if strings:
            args["mindspore_op"] = _launch_name(kernel)
        yield kernel.name, _HARDWARE, COMPUTE_STREAM, kernel.start_ns, kernel.duration_ns, args
    for number, one in enumerate(rank.collectives, start=FIRST_CONNECTION + len(rank.kernels)):
        args = {"connection_id": number, "model id": NO_ID, "data_type": "FP32", "alg_type": "MESH-RING"}
        args["count"] = one.elements
        yield output.truth.name_of(one), _HCCL, 0, one.start_ns, one.duration_ns, args
        at = one.start_ns
        for link in one.links:
            length = min(link.duration_ns, one.transit_ns // len(one.links))
            yield "Memcpy", _HCCL, 1, at, length, _packet_args(link)
            at += length


def _launch_flows(rank: Rank) -> Iterator[Event]:
    """Yield the flows from CANN's launches to the device's tasks."""
    ends = [(one.launch.start_ns, _HARDWARE, COMPUTE_STREAM, one.start_ns) for one in rank.kernels]
    ends += [(one.launch_ns, _HCCL, 0, one.start_ns) for one in rank.collectives]
    for number, (start, lane_number, tid, end) in enumerate(ends, start=FIRST_CONNECTION):
        name, identity = f"HostToDevice{number << 32}", str(number << 32)
        begin: Event = {"name": name, "ph": "s", "cat": "HostToDevice", "id": identity}
        yield {**begin, "pid": _pid(rank, _CANN), "tid": rank.pid, "ts": microseconds(start)}
        finish: Event = {"name": name, "ph": "f", "id": identity, "ts": microseconds(end)}
        yield {**finish, "cat": "HostToDevice", "pid": _pid(rank, lane_number), "tid": tid, "bp": "e"}


def _packet_args(link: Link) -> Event:
    return {
        "notify_id": "0",
        "duration estimated(us)": us(link.duration_ns),
        "stream id": 4,
        "task id": 807,
        "context id": 0,
        "task type": "Memcpy",
        "src rank": link.source,
        "dst rank": link.target,
        "transport type": "RDMA" if link.transport == "RDMA" else "SDMA",
        "size(Byte)": link.size,
        "data type": "FP32",
        "link type": {"LOCAL": "ON_CHIP", "RDMA": "ROCE"}.get(link.transport, link.transport),
        "bandwidth(GB/s)": link.size / link.duration_ns,
        "model id": NO_ID,
    }


# --- torch_npu's own part: operators, the queue between the two launching threads, and steps


def _torch_host(output: Output) -> Iterator[Event]:
    rank, pid = output.rank, output.rank.pid
    operations = host_operations(rank)
    for one in operations:
        yield _operation(output, one)
    for number, one in enumerate((o for o in operations if o.is_kernel_launch), start=8226):
        yield from _queue(rank, number, one)
    for step in rank.steps if output.is_scheduled else ():
        name = f"ProfilerStep#{step.step}"
        yield _operation(output, HostOperation(name=name, step=0, start_ns=step.start_ns, end_ns=step.end_ns))
    yield metadata("process_name", pid, 0, name="Python")
    yield metadata("process_labels", pid, 0, labels="CPU")
    yield metadata("process_sort_index", pid, 0, sort_index=0)
    for tid in (pid, _worker(rank)):
        yield from thread_names(pid, tid, f"Thread {tid}")
    numbers: dict[int | None, int] = {}
    for one in operations:
        if one.has_flow:
            number = numbers.setdefault(one.sequence, 1350 + len(numbers))
            yield _flow("f" if one.is_backward else "s", "fwdbwd", number, pid, pid, one.start_ns, "fwdbwd")
    if output.on["stack"]:
        first, last = rank.steps[0].start_ns - 250_000, rank.steps[-1].end_ns + 50_000
        args: Event = {"Python id": 0, "Python parent id": 0}
        yield _host_event(rank, "<string>(1): <module>", pid, first, last, "python_function", args)


def _worker(rank: Rank) -> int:
    """Return the thread that takes from the queue."""
    return rank.pid + 3198


def _host_event(rank: Rank, name: str, tid: int, start_ns: int, end_ns: int, category: str, args: Event) -> Event:
    event: Event = {"ph": "X", "name": name, "pid": rank.pid, "tid": tid, "ts": microseconds(start_ns)}
    return {**event, "dur": us(end_ns - start_ns), "cat": category, "args": args}


def _operation(output: Output, one: HostOperation) -> Event:
    args: Event = {"Sequence number": -1 if one.sequence is None else one.sequence}
    args["Fwd thread id"] = 1 if one.is_backward else 0
    if output.on["shapes"] and one.operator is not None:
        args |= {"Input Dims": one.input_shapes, "Input type": one.input_types}
    if output.on["stack"] and not one.is_backward:
        args["Call stack"] = one.call_stack
    return _host_event(output.rank, one.name, output.rank.pid, one.start_ns, one.end_ns, "cpu_op", args)


def _queue(rank: Rank, number: int, one: HostOperation) -> Iterator[Event]:
    length, pid, worker = one.duration_ns, rank.pid, _worker(rank)
    put, taken = one.start_ns + length // 8, one.start_ns + length // 4
    args: Event = {"correlation_id": number}
    name = f"Dequeue@aclnn{one.operator.type if one.operator else ''}"
    yield _host_event(rank, "Enqueue", pid, put, put + length // 20, "enqueue", args)
    yield _flow("s", "enqueue_to_dequeue", number, pid, pid, put, "async_task_queue")
    yield _host_event(rank, name, worker, taken, taken + length // 10, "dequeue", args)
    yield _flow("f", "enqueue_to_dequeue", number, pid, worker, taken, "async_task_queue")


def _flow(phase: str, name: str, identity: int, pid: int, tid: int, at_ns: int, category: str) -> Event:
    event: Event = {"ph": phase, "bp": "e", "name": name, "id": identity, "pid": pid, "tid": tid}
    return {**event, "ts": microseconds(at_ns), "cat": category}


def _torch_flows(rank: Rank) -> Iterator[Event]:
    """Yield the flows from operators to the device's tasks; the id is the task's start in nanoseconds."""
    kernels = {one.launch.start_ns: one for one in rank.kernels}
    for one in host_operations(rank):
        if one.is_kernel_launch:
            start = kernels[one.launch_ns].start_ns
            yield _flow("s", "torch_to_npu", start, rank.pid, rank.pid, one.start_ns, "async_npu")
            yield _flow("f", "torch_to_npu", start, _pid(rank, _HARDWARE), COMPUTE_STREAM, start, "async_npu")


# --- MindSpore's own part


def _launch_name(one: Kernel) -> str:
    """Name of the framework's event that launched a kernel."""
    return f"Kernel::KernelLaunch::{one.operator.full_name}"


def _mindspore_host(output: Output) -> Iterator[Event]:
    rank = output.rank
    spans = [(_launch_name(one), one.launch.start_ns, one.launch.duration_ns) for one in rank.kernels]
    if output.is_scheduled:
        spans += [(f"ProfilerStep#{step.step}", step.start_ns, step.duration_ns) for step in rank.steps]
    for name, start_ns, duration_ns in spans:
        yield complete(name, 1, rank.pid, microseconds(start_ns), microseconds(duration_ns))
    yield from lane(1, "MindSpore", 1, rank.pid)


def _mindspore_flows(rank: Rank) -> Iterator[Event]:
    for one in rank.kernels:
        identity = microseconds(one.start_ns)
        ends = (("s", 1, rank.pid, one.launch.start_ns), ("f", _pid(rank, _HARDWARE), COMPUTE_STREAM, one.start_ns))
        for phase, pid, tid, at in ends:
            event: Event = {"name": "mindspore_to_npu", "bp": "e", "ph": phase, "ts": microseconds(at), "pid": pid}
            yield {**event, "tid": tid, "id": identity, "cat": "async_npu"}
