"""trace_view.json of an Ascend device: events of the framework, of CANN and of the device, and the flows between them.

Formats: real output of torch_npu level 1 (msinsight test data), MindSpore 2.10 source
(mindspore/profiler/analysis/parser/timeline_event). CANN's part is the same; MindSpore prints durations as strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfguard.testing.ascend_operators import (
    COMPUTE_STREAM,
    FIRST_CONNECTION,
    NO_ID,
    Call,
    call_stack,
    calls,
    collective_name,
    kernel_name,
    torch_shapes,
    torch_types,
)
from perfguard.testing.ascend_steps import overlap
from perfguard.testing.formats import json_bytes, microseconds, us
from perfguard.testing.timelines import Event, complete, lane, metadata, scope_lane
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Kernel, Link, Rank, Truth

#: CANN's lanes: the number is part of the process id, and the place in the view.
_CANN, _HARDWARE, _FREQUENCY, _HCCL, _OVERLAP = 7, 13, 14, 15, 23

_LANES = {
    _CANN: ("CANN", "CPU"),
    _HARDWARE: ("Ascend Hardware", "NPU"),
    _FREQUENCY: ("AI Core Freq", "NPU"),
    _HCCL: ("HCCL", "NPU"),
    _OVERLAP: ("Overlap Analysis", "NPU"),
}


def torch_trace_view(truth: Truth, rank: Rank, *, shapes: bool, stack: bool, scheduled: bool) -> bytes:
    """Write torch_npu's trace_view.json of one rank and cycle: `ts` are strings, `dur` numbers."""
    trace = _Trace(truth=truth, rank=rank, strings=False)
    host = _TorchHost(truth=truth, rank=rank, shapes=shapes, stack=stack, scheduled=scheduled)
    return json_bytes([*host.events(), *trace.events(), *host.flows_to_device(trace)])


def mindspore_trace_view(truth: Truth, rank: Rank, *, scheduled: bool) -> bytes:
    """Write MindSpore's trace_view.json of one rank and cycle on an NPU: `ts` and `dur` are strings."""
    trace = _Trace(truth=truth, rank=rank, strings=True)
    runs = ((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels)
    names, scopes = scope_lane(runs, microseconds)
    host, flows = _mindspore_host(rank, scheduled=scheduled), _mindspore_flows(rank, trace)
    return json_bytes([*host, *trace.events(), *flows, *scopes, *names])


def cann_events(truth: Truth, rank: Rank) -> list[Event]:
    """Return CANN's part of a trace: calls, tasks, collective operations, overlap and the flows between them."""
    return list(_Trace(truth=truth, rank=rank, strings=False).events())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """CANN's part of the trace."""

    truth: Truth
    rank: Rank
    #: Whether the writer is MindSpore: durations are strings, and events have a category.
    strings: bool

    def pid(self, lane: int) -> int:
        return self.rank.pid * 1024 + lane * 32

    def events(self) -> Iterator[Event]:
        yield from self._names()
        at = self.rank.start_ns
        yield self._counter("AI Core Freq", self.pid(_FREQUENCY), at, MHz=1800)
        for call in calls(self.rank):
            yield self._call(call)
        for number, one in enumerate(self.rank.kernels, start=FIRST_CONNECTION):
            yield self._task(kernel_name(one), one, number)
        yield from self._collectives()
        yield from self._flows()
        for tid, (name, spans) in enumerate(overlap(self.rank).items()):
            for span in spans:
                yield self._complete(name, self.pid(_OVERLAP), tid, span.start_ns, span.duration_ns, None)

    def _names(self) -> Iterator[Event]:
        lanes = [number for number in _LANES if number != _HCCL or self.rank.collectives]
        threads = {
            _CANN: {self.rank.pid: f"Thread {self.rank.pid}"},
            _HARDWARE: {COMPUTE_STREAM: f"Stream {COMPUTE_STREAM}"},
            _HCCL: {0: "Group 0 Communication", 1: "Plane 0"},
            _OVERLAP: dict(enumerate(overlap(self.rank))),
        }
        for number in lanes:
            pid = self.pid(number)
            title, label = _LANES[number]
            yield self._meta("process_name", pid, 0, name=title)
            for tid, name in threads.get(number, {}).items():
                yield self._meta("thread_name", pid, tid, name=name)
                yield self._meta("thread_sort_index", pid, tid, sort_index=tid)
            yield self._meta("process_labels", pid, 0, labels=label)
            yield self._meta("process_sort_index", pid, 0, sort_index=number)

    def _meta(self, kind: str, pid: int, tid: int, /, **args: object) -> Event:
        if self.strings:
            return metadata(kind, pid, tid, **args)
        return {"name": kind, "pid": pid, "tid": tid, "args": args, "ph": "M"}

    def _counter(self, name: str, pid: int, at_ns: int, **args: object) -> Event:
        if self.strings:
            return {"name": name, "ph": "C", "ts": microseconds(at_ns), "pid": pid, "tid": 0, "args": args}
        return {"name": name, "ts": microseconds(at_ns), "pid": pid, "tid": 0, "args": args, "ph": "C"}

    def _complete(self, name: str, pid: int, tid: int, start_ns: int, dur_ns: int, args: Event | None) -> Event:
        ts = microseconds(start_ns)
        if self.strings:
            return complete(name, pid, tid, ts, microseconds(dur_ns), args)
        event: Event = {"name": name, "pid": pid, "tid": tid, "ts": ts, "dur": us(dur_ns)}
        return {**event, **({"args": args} if args else {}), "ph": "X"}

    def _call(self, call: Call) -> Event:
        layer = {"node": "Node", "acl": "AscendCL", "hccl": "HCCL"}[call.level]
        args: Event = {
            "Thread Id": self.rank.pid,
            "Mode": call.name,
            "level": call.level,
            "id": call.name,
            "item_id": "0",
            "connection_id": call.connection,
        }
        name = f"{layer}@{call.name}"
        return self._complete(name, self.pid(_CANN), self.rank.pid, call.start_ns, call.duration_ns, args)

    def _task(self, name: str, one: Kernel, connection: int) -> Event:
        core = "KERNEL_AICORE" if one.operator.is_cube else "KERNEL_AIVEC"
        args: Event = {
            "Model Id": NO_ID,
            "Task Type": core,
            "Physic Stream Id": COMPUTE_STREAM,
            "Task Id": one.task,
            "Batch Id": 0,
            "Subtask Id": NO_ID,
            "connection_id": connection,
        }
        if self.strings:
            args["mindspore_op"] = launch_name(one)
        return self._complete(name, self.pid(_HARDWARE), COMPUTE_STREAM, one.start_ns, one.duration_ns, args)

    def _collectives(self) -> Iterator[Event]:
        first = FIRST_CONNECTION + len(self.rank.kernels)
        for number, one in enumerate(self.rank.collectives, start=first):
            args: Event = {
                "connection_id": number,
                "model id": NO_ID,
                "data_type": "FP32",
                "alg_type": "MESH-RING",
                "count": one.elements,
            }
            name = collective_name(self.truth, one)
            yield self._complete(name, self.pid(_HCCL), 0, one.start_ns, one.duration_ns, args)
            at = one.start_ns
            for link in one.links:
                length = min(link.duration_ns, one.transit_ns // len(one.links))
                yield self._complete("Memcpy", self.pid(_HCCL), 1, at, length, _packet_args(link))
                at += length

    def _flows(self) -> Iterator[Event]:
        """Yield the flows from CANN's launches to the device's tasks."""
        ends = [(one.launch.start_ns, self.pid(_HARDWARE), COMPUTE_STREAM, one.start_ns) for one in self.rank.kernels]
        ends += [(one.launch_ns, self.pid(_HCCL), 0, one.start_ns) for one in self.rank.collectives]
        for number, (start, pid, tid, end) in enumerate(ends, start=FIRST_CONNECTION):
            name, identity = f"HostToDevice{number << 32}", str(number << 32)
            begin: Event = {"name": name, "ph": "s", "cat": "HostToDevice", "id": identity}
            yield {**begin, "pid": self.pid(_CANN), "tid": self.rank.pid, "ts": microseconds(start)}
            finish: Event = {"name": name, "ph": "f", "id": identity, "ts": microseconds(end)}
            yield {**finish, "cat": "HostToDevice", "pid": pid, "tid": tid, "bp": "e"}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _TorchHost:
    """torch_npu's own part: operators, the queue between the two launching threads, and steps."""

    truth: Truth
    rank: Rank
    shapes: bool
    stack: bool
    scheduled: bool

    @property
    def worker(self) -> int:
        """The thread that takes from the queue."""
        return self.rank.pid + 3198

    def events(self) -> Iterator[Event]:
        operations = host_operations(self.rank)
        for one in operations:
            yield self._operation(one)
        for number, one in enumerate((o for o in operations if o.is_kernel_launch), start=8226):
            yield from self._queue(number, one)
        if self.scheduled:
            for step in self.rank.steps:
                name = f"ProfilerStep#{step.number}"
                yield self._operation(HostOperation(name=name, step=0, start_ns=step.start_ns, end_ns=step.end_ns))
        pid = self.rank.pid
        yield metadata("process_name", pid, 0, name="Python")
        yield metadata("process_labels", pid, 0, labels="CPU")
        yield metadata("process_sort_index", pid, 0, sort_index=0)
        for tid in (pid, self.worker):
            yield metadata("thread_name", pid, tid, name=f"Thread {tid}")
            yield metadata("thread_sort_index", pid, tid, sort_index=tid)
        yield from self._gradient_flows(operations)
        if self.stack:
            first, last = self.rank.steps[0].start_ns - 250_000, self.rank.steps[-1].end_ns + 50_000
            args: Event = {"Python id": 0, "Python parent id": 0}
            yield self._complete("<string>(1): <module>", pid, first, last, "python_function", args)

    def _complete(self, name: str, tid: int, start_ns: int, end_ns: int, category: str, args: Event) -> Event:
        event: Event = {"ph": "X", "name": name, "pid": self.rank.pid, "tid": tid, "ts": microseconds(start_ns)}
        return {**event, "dur": us(end_ns - start_ns), "cat": category, "args": args}

    def _operation(self, one: HostOperation) -> Event:
        args: Event = {"Sequence number": -1 if one.sequence is None else one.sequence}
        args["Fwd thread id"] = 1 if one.is_backward else 0
        if self.shapes and one.operator is not None:
            args["Input Dims"] = torch_shapes(one)
            args["Input type"] = torch_types(one.operator)
        if self.stack and not one.is_backward:
            args["Call stack"] = call_stack(one)
        return self._complete(one.name, self.rank.pid, one.start_ns, one.end_ns, "cpu_op", args)

    def _queue(self, number: int, one: HostOperation) -> Iterator[Event]:
        length = one.end_ns - one.start_ns
        put, taken = one.start_ns + length // 8, one.start_ns + length // 4
        args: Event = {"correlation_id": number}
        name = f"Dequeue@aclnn{one.operator.type if one.operator else ''}"
        yield self._complete("Enqueue", self.rank.pid, put, put + length // 20, "enqueue", args)
        yield self._flow("s", "enqueue_to_dequeue", number, self.rank.pid, put, "async_task_queue")
        yield self._complete(name, self.worker, taken, taken + length // 10, "dequeue", args)
        yield self._flow("f", "enqueue_to_dequeue", number, self.worker, taken, "async_task_queue")

    def _flow(self, phase: str, name: str, identity: int, tid: int, at_ns: int, category: str) -> Event:
        event: Event = {"ph": phase, "bp": "e", "name": name, "id": identity, "pid": self.rank.pid, "tid": tid}
        return {**event, "ts": microseconds(at_ns), "cat": category}

    def _gradient_flows(self, operations: list[HostOperation]) -> Iterator[Event]:
        numbers: dict[int | None, int] = {}
        for one in operations:
            if one.has_flow:
                phase = "f" if one.is_backward else "s"
                number = numbers.setdefault(one.sequence, 1350 + len(numbers))
                yield self._flow(phase, "fwdbwd", number, self.rank.pid, one.start_ns, "fwdbwd")

    def flows_to_device(self, trace: _Trace) -> Iterator[Event]:
        """Yield the flows from operators to the device's tasks; the id is the task's start in nanoseconds."""
        kernels = {one.launch.start_ns: one for one in self.rank.kernels}
        for one in host_operations(self.rank):
            if not one.is_kernel_launch:
                continue
            kernel = kernels[one.launch_ns]
            identity = kernel.start_ns
            yield self._flow("s", "torch_to_npu", identity, self.rank.pid, one.start_ns, "async_npu")
            end = self._flow("f", "torch_to_npu", identity, COMPUTE_STREAM, kernel.start_ns, "async_npu")
            yield {**end, "pid": trace.pid(_HARDWARE)}


def launch_name(one: Kernel) -> str:
    """Name of the framework's event that launched a kernel, as MindSpore prints it."""
    return f"Kernel::KernelLaunch::{one.operator.full_name}"


def _mindspore_host(rank: Rank, *, scheduled: bool) -> Iterator[Event]:
    spans = [(launch_name(one), one.launch.start_ns, one.launch.duration_ns) for one in rank.kernels]
    if scheduled:
        spans += [(f"ProfilerStep#{step.number}", step.start_ns, step.duration_ns) for step in rank.steps]
    for name, start_ns, duration_ns in spans:
        yield complete(name, 1, rank.pid, microseconds(start_ns), microseconds(duration_ns))
    yield from lane(1, "MindSpore", 1, rank.pid)


def _mindspore_flows(rank: Rank, trace: _Trace) -> Iterator[Event]:
    for one in rank.kernels:
        identity = microseconds(one.start_ns)
        ends = (("s", 1, rank.pid, one.launch.start_ns), ("f", trace.pid(_HARDWARE), COMPUTE_STREAM, one.start_ns))
        for phase, pid, tid, at in ends:
            event: Event = {"name": "mindspore_to_npu", "bp": "e", "ph": phase, "ts": microseconds(at), "pid": pid}
            yield {**event, "tid": tid, "id": identity, "cat": "async_npu"}
