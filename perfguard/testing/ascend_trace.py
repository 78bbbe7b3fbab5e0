"""trace_view.json of an Ascend device: what the framework and CANN did on the host, what the device did, and the flows.

Formats: real output of torch_npu level 1 (msinsight test data), MindSpore 2.10 source
(mindspore/profiler/analysis/parser/timeline_event). CANN's part is the same; MindSpore prints durations as strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfguard.testing.ascend_output import (
    Call,
    call_stack,
    calls,
    collective_name,
    kernel_name,
    overlap,
    torch_shapes,
)
from perfguard.testing.formats import json_bytes, microseconds, us
from perfguard.testing.mindspore_cpu import scope_layers
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Kernel, Link, Rank, Truth

#: CANN's lanes: the number is part of the process id and its place in the view.
_CANN, _HARDWARE, _FREQUENCY, _HCCL, _OVERLAP = 7, 13, 14, 15, 23

_LANES = {
    _CANN: ("CANN", "CPU"),
    _HARDWARE: ("Ascend Hardware", "NPU"),
    _FREQUENCY: ("AI Core Freq", "NPU"),
    _HCCL: ("HCCL", "NPU"),
    _OVERLAP: ("Overlap Analysis", "NPU"),
}

_COMPUTE_STREAM = 2

Event = dict[str, object]


def torch_trace_view(truth: Truth, rank: Rank, *, shapes: bool, stack: bool, scheduled: bool) -> bytes:
    """Write torch_npu's trace_view.json of one rank and cycle: `ts` are strings, `dur` numbers."""
    trace = _Trace(truth=truth, rank=rank, strings=False)
    host = _TorchHost(truth=truth, rank=rank, shapes=shapes, stack=stack, scheduled=scheduled)
    return json_bytes([*host.events(), *trace.events(), *host.flows_to_device(trace)])


def mindspore_trace_view(truth: Truth, rank: Rank, *, scheduled: bool) -> bytes:
    """Write MindSpore's trace_view.json of one rank and cycle on an NPU: `ts` and `dur` are strings."""
    trace = _Trace(truth=truth, rank=rank, strings=True)
    return json_bytes(
        [
            *_mindspore_host(rank, scheduled=scheduled),
            *trace.events(),
            *_mindspore_flows(rank, trace),
            *_mindspore_scopes(rank),
        ]
    )


def cann_events(truth: Truth, rank: Rank) -> list[Event]:
    """Return CANN's part of a trace: calls, tasks, collective operations, overlap and the flows between them."""
    return list(_Trace(truth=truth, rank=rank, strings=False).events())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """CANN's part of the trace."""

    truth: Truth
    rank: Rank
    #: Whether MindSpore wrote it: durations are strings, and events have a category.
    strings: bool

    def pid(self, lane: int) -> int:
        return self.rank.pid * 1024 + lane * 32

    def events(self) -> Iterator[Event]:
        yield from self._names()
        at = self.rank.start_ns
        yield self._counter("AI Core Freq", self.pid(_FREQUENCY), at, MHz=1800)
        for call in calls(self.rank):
            yield self._call(call)
        for number, one in enumerate(self.rank.kernels):
            yield self._task(kernel_name(one), one, 900 + number)
        yield from self._collectives()
        yield from self._flows()
        for tid, (name, spans) in enumerate(overlap(self.rank).lanes()):
            for span in spans:
                yield self._complete(name, self.pid(_OVERLAP), tid, span.start_ns, span.duration_ns, None)

    def _names(self) -> Iterator[Event]:
        lanes = [lane for lane in _LANES if lane != _HCCL or self.rank.collectives]
        threads = {
            _CANN: {self.rank.pid: f"Thread {self.rank.pid}"},
            _HARDWARE: {_COMPUTE_STREAM: f"Stream {_COMPUTE_STREAM}"},
            _HCCL: {0: "Group 0 Communication", 1: "Plane 0"},
            _OVERLAP: dict(enumerate(name for name, _ in overlap(self.rank).lanes())),
        }
        for lane in lanes:
            pid = self.pid(lane)
            title, label = _LANES[lane]
            yield self._meta("process_name", pid, 0, name=title)
            for tid, name in threads.get(lane, {}).items():
                yield self._meta("thread_name", pid, tid, name=name)
                yield self._meta("thread_sort_index", pid, tid, sort_index=tid)
            yield self._meta("process_labels", pid, 0, labels=label)
            yield self._meta("process_sort_index", pid, 0, sort_index=lane)

    def _meta(self, kind: str, pid: int, tid: int, /, **args: object) -> Event:
        if self.strings:
            return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
        return {"name": kind, "pid": pid, "tid": tid, "args": args, "ph": "M"}

    def _counter(self, name: str, pid: int, at_ns: int, **args: object) -> Event:
        if self.strings:
            return {"name": name, "ph": "C", "ts": microseconds(at_ns), "pid": pid, "tid": 0, "args": args}
        return {"name": name, "ts": microseconds(at_ns), "pid": pid, "tid": 0, "args": args, "ph": "C"}

    def _complete(self, name: str, pid: int, tid: int, start_ns: int, dur_ns: int, args: Event | None) -> Event:
        ts = microseconds(start_ns)
        if self.strings:
            dur = microseconds(dur_ns)
            return {
                "ph": "X",
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "cat": "",
                "args": args or {},
            }
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
        core = {"AI_CORE": "KERNEL_AICORE", "AI_VECTOR_CORE": "KERNEL_AIVEC"}[one.operator.kind.core]
        args: Event = {
            "Model Id": 4294967295,
            "Task Type": core,
            "Physic Stream Id": _COMPUTE_STREAM,
            "Task Id": one.task,
            "Batch Id": 0,
            "Subtask Id": 4294967295,
            "connection_id": connection,
        }
        if self.strings:
            args["mindspore_op"] = launch_name(one)
        return self._complete(name, self.pid(_HARDWARE), _COMPUTE_STREAM, one.start_ns, one.duration_ns, args)

    def _collectives(self) -> Iterator[Event]:
        first = 900 + len(self.rank.kernels)
        for number, one in enumerate(self.rank.collectives, start=first):
            args: Event = {
                "connection_id": number,
                "model id": 4294967295,
                "data_type": "FP32",
                "alg_type": "MESH-RING",
                "count": one.elements,
            }
            name = collective_name(self.truth, one)
            yield self._complete(name, self.pid(_HCCL), 0, one.start_ns, one.elapse_ns, args)
            at = one.start_ns
            for link in one.links:
                length = min(link.duration_ns, one.transit_ns // len(one.links))
                yield self._complete("Memcpy", self.pid(_HCCL), 1, at, length, _packet_args(link))
                at += length

    def _flows(self) -> Iterator[Event]:
        """Give the arrows from CANN's launches to the device's tasks."""
        ends = [(one.launch.start_ns, self.pid(_HARDWARE), _COMPUTE_STREAM, one.start_ns) for one in self.rank.kernels]
        ends += [(one.launch_ns, self.pid(_HCCL), 0, one.start_ns) for one in self.rank.collectives]
        for number, (start, pid, tid, end) in enumerate(ends, start=900):
            name, identity = f"HostToDevice{number << 32}", str(number << 32)
            begin: Event = {"name": name, "ph": "s", "cat": "HostToDevice", "id": identity}
            yield {**begin, "pid": self.pid(_CANN), "tid": self.rank.pid, "ts": microseconds(start)}
            finish: Event = {"name": name, "ph": "f", "id": identity, "ts": microseconds(end)}
            yield {**finish, "cat": "HostToDevice", "pid": pid, "tid": tid, "bp": "e"}


def _packet_args(link: Link) -> Event:
    size = link.packet_bytes * link.packets
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
        "size(Byte)": size,
        "data type": "FP32",
        "link type": {"LOCAL": "ON_CHIP", "RDMA": "ROCE"}.get(link.transport, link.transport),
        "bandwidth(GB/s)": size / link.duration_ns,
        "model id": 4294967295,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _TorchHost:
    """torch_npu's own part: operators, the queue between the two threads that launch, and steps."""

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
        names: list[tuple[str, int, Event]] = [
            ("process_name", 0, {"name": "Python"}),
            ("process_labels", 0, {"labels": "CPU"}),
            ("process_sort_index", 0, {"sort_index": 0}),
        ]
        for tid in (pid, self.worker):
            names += [("thread_name", tid, {"name": f"Thread {tid}"}), ("thread_sort_index", tid, {"sort_index": tid})]
        for kind, tid, args in names:
            yield {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
        yield from self._gradient_flows(operations)
        if self.stack:
            first, last = self.rank.steps[0].start_ns - 250_000, self.rank.steps[-1].end_ns + 50_000
            args = {"Python id": 0, "Python parent id": 0}
            yield self._complete("<string>(1): <module>", pid, first, last, "python_function", args)

    def _complete(self, name: str, tid: int, start_ns: int, end_ns: int, category: str, args: Event) -> Event:
        event: Event = {"ph": "X", "name": name, "pid": self.rank.pid, "tid": tid, "ts": microseconds(start_ns)}
        return {**event, "dur": us(end_ns - start_ns), "cat": category, "args": args}

    def _operation(self, one: HostOperation) -> Event:
        args: Event = {"Sequence number": -1 if one.sequence is None else one.sequence}
        args["Fwd thread id"] = 1 if one.is_backward else 0
        if self.shapes and one.operator is not None:
            args["Input Dims"] = torch_shapes(one)
            args["Input type"] = ";\r\n".join("float" if shape else "Scalar" for shape in one.operator.inputs)
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
        """Give the arrows from operators to the device's tasks; the id is the task's start in nanoseconds."""
        kernels = {one.launch.start_ns: one for one in self.rank.kernels}
        for one in host_operations(self.rank):
            if not one.is_kernel_launch:
                continue
            kernel = kernels[one.launch_ns]
            identity = kernel.start_ns
            yield self._flow("s", "torch_to_npu", identity, self.rank.pid, one.start_ns, "async_npu")
            end = self._flow("f", "torch_to_npu", identity, _COMPUTE_STREAM, kernel.start_ns, "async_npu")
            yield {**end, "pid": trace.pid(_HARDWARE)}


def launch_name(one: Kernel) -> str:
    """Name of the framework's event that launched a kernel, as MindSpore prints it."""
    return f"Kernel::KernelLaunch::{one.operator.full_name}"


def _mindspore_host(rank: Rank, *, scheduled: bool) -> Iterator[Event]:
    def event(name: str, start_ns: int, end_ns: int) -> Event:
        ts, dur = microseconds(start_ns), microseconds(end_ns - start_ns)
        return {"ph": "X", "name": name, "pid": 1, "tid": rank.pid, "ts": ts, "dur": dur, "cat": "", "args": {}}

    for one in rank.kernels:
        yield event(launch_name(one), one.launch.start_ns, one.launch.end_ns)
    if scheduled:
        for step in rank.steps:
            yield event(f"ProfilerStep#{step.number}", step.start_ns, step.end_ns)
    names: list[tuple[str, int, Event]] = [
        ("process_name", 0, {"name": "MindSpore"}),
        ("process_sort_index", 0, {"sort_index": 1}),
        ("process_labels", 0, {"labels": "CPU"}),
        ("thread_name", rank.pid, {"name": f"Thread {rank.pid}"}),
        ("thread_sort_index", rank.pid, {"sort_index": rank.pid}),
    ]
    for kind, tid, args in names:
        yield {"ph": "M", "name": kind, "pid": 1, "tid": tid, "args": args}


def _mindspore_flows(rank: Rank, trace: _Trace) -> Iterator[Event]:
    for one in rank.kernels:
        identity = microseconds(one.start_ns)
        ends = (("s", 1, rank.pid, one.launch.start_ns), ("f", trace.pid(_HARDWARE), _COMPUTE_STREAM, one.start_ns))
        for phase, pid, tid, at in ends:
            event: Event = {"name": "mindspore_to_npu", "bp": "e", "ph": phase, "ts": microseconds(at), "pid": pid}
            yield {**event, "tid": tid, "id": identity, "cat": "async_npu"}


def _mindspore_scopes(rank: Rank) -> Iterator[Event]:
    layers = scope_layers((one.operator.full_name, one.start_ns, one.end_ns) for one in rank.kernels)
    for layer in layers:
        ts, dur = microseconds(layer.start_ns), microseconds(layer.end_ns - layer.start_ns)
        event: Event = {"ph": "X", "name": layer.name, "pid": 3, "tid": layer.depth, "ts": ts, "dur": dur}
        yield {**event, "cat": "", "args": {}}
    names: list[tuple[str, int, Event]] = [
        ("process_name", 0, {"name": "Scope Layer"}),
        ("process_sort_index", 0, {"sort_index": 12}),
    ]
    for depth in sorted({layer.depth for layer in layers}):
        names.append(("thread_name", depth, {"name": f"Thread {depth}"}))
        names.append(("thread_sort_index", depth, {"sort_index": depth}))
    for kind, tid, args in names:
        yield {"ph": "M", "name": kind, "pid": 3, "tid": tid, "args": args}
