"""The output of torch.profiler: one Chrome trace for each process and schedule cycle, as Kineto prints it.

Format read on real output of torch 2.13 on CPU.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from random import Random

from perfguard.testing.formats import Files, microseconds
from perfguard.testing.truth import (
    Collective,
    Execution,
    Operator,
    Output,
    Rank,
    Span,
    memory_totals,
    of_step,
    shape_text,
)

#: The clock of a trace begins some weeks before it.
_BASE_OFFSET_S = 4_397_610


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOperation(Span):
    """One operation of the host's main thread; operations nest, never cross."""

    name: str
    #: Start of the execution it is part of, which joins it with its kernel.
    launch_ns: int = 0
    #: The operator with its inputs; None where the profiler records none.
    operator: Operator | None = None
    #: Joins an operation of the forward pass with its gradient.
    sequence: int | None = None
    is_backward: bool = False
    #: Whether a flow begins (forward) or ends (backward) here.
    has_flow: bool = False
    is_kernel_launch: bool = False

    @property
    def input_shapes(self) -> str:
        """The shapes of the inputs as torch_npu prints them: `32,64;\\r\\n64;\\r\\n`."""
        return "" if self.operator is None else ";\r\n".join(shape_text(shape or ()) for shape in self.operator.inputs)

    @property
    def input_types(self) -> str:
        """The types of the inputs as torch_npu prints them: `float;\\r\\nScalar`."""
        inputs = self.operator.inputs if self.operator else ()
        return ";\r\n".join("float" if shape else "Scalar" for shape in inputs)

    @property
    def call_stack(self) -> str:
        """The call stack as torch_npu prints it, the innermost call first."""
        if self.is_backward:
            return ""
        inner = "/usr/lib/python3/torch/nn/modules/module.py(1527): _call_impl"
        return f"{inner};\r\n/home/user/train.py({100 + len(self.name)}): train;\r\n<string>(1): <module>"


def host_operations(rank: Rank) -> list[HostOperation]:
    """Return the operations of all steps in the order of their starts: the same ones in every step."""
    found: list[HostOperation] = []
    sequence = 20
    for step in rank.steps:
        runs = of_step(rank.executions, step.step)
        forward = [run for run in runs if run.operator.backward]
        gradients = [run for run in runs if run.operator.subgraph == "Gradients"]
        # The last operation forward is the first backward.
        pairs = list(zip(reversed(forward), gradients, strict=False))
        numbers = {run.start_ns: sequence + i for i, run in enumerate(reversed([pair[0] for pair in pairs]))}
        sequence += len(pairs)
        forward_of = {gradient.start_ns: of for of, gradient in pairs}
        for run in runs:
            if (of := forward_of.get(run.start_ns)) is not None:
                found += _gradient(run, of.operator.backward or "", numbers[of.start_ns])
            else:
                found += _plain(run, numbers.get(run.start_ns))
    return found


def _part(run: Execution, name: str, before_ns: int, after_ns: int, **more: object) -> HostOperation:
    """Return an operation that begins and ends so long after and before a run of an operator."""
    start, end = run.start_ns + before_ns, run.end_ns - after_ns
    return HostOperation(name=name, step=run.step, start_ns=start, end_ns=end, **more)  # type: ignore[arg-type]


def _plain(run: Execution, sequence: int | None) -> Iterator[HostOperation]:
    operator, start, margin = run.operator, run.start_ns, run.duration_ns // 5
    numbers = {"sequence": sequence, "has_flow": sequence is not None}
    yield _part(run, operator.torch, 0, 0, launch_ns=start, operator=operator, is_kernel_launch=True, **numbers)
    yield _part(run, "aten::empty", margin, 2 * margin, operator=operator)


def _gradient(run: Execution, backward: str, sequence: int) -> Iterator[HostOperation]:
    names = (f"autograd::engine::evaluate_function: {backward}", backward, run.operator.torch)
    for depth, name in enumerate(names):
        margin = depth * (run.duration_ns // 10)
        yield _part(
            run,
            name,
            margin,
            margin,
            launch_ns=run.start_ns,
            operator=run.operator if depth else None,
            sequence=sequence if depth < 2 else None,
            is_backward=depth < 2,
            has_flow=depth == 1,
            is_kernel_launch=depth == 2,
        )


def trace_file(output: Output) -> Files:
    """Write the trace of one rank and cycle.

    Its name is that of `tensorboard_trace_handler`; the number in it is UNIX time in nanoseconds.
    """
    rank = output.rank
    at = rank.end_ns + 7_654_321
    if not output.on["gzip"]:
        name = f"rank{rank.number}.{at}.pt.trace.json"
        return {name: _Trace(output=output, operations=_numbered(rank)).text(f"out/{name}").encode()}
    name = f"{output.truth.host}_{rank.pid}.{at}.pt.trace.json"
    text = _Trace(output=output, operations=_numbered(rank)).text("/tmp/tmpc8j8am2q.json")
    packed = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=packed, mtime=rank.end_ns // 10**9) as file:
        file.write(text.encode())
    return {f"{name}.gz": packed.getvalue()}


def _numbered(rank: Rank) -> list[HostOperation]:
    """Steps and operations in the order the profiler numbers them from 1: by their starts, the outer one first."""
    steps = [
        HostOperation(name=f"ProfilerStep#{one.step}", step=one.step, start_ns=one.start_ns, end_ns=one.end_ns)
        for one in rank.steps
    ]
    return sorted([*steps, *host_operations(rank)], key=lambda one: (one.start_ns, -one.end_ns))


def _event(*lines: str) -> str:
    """Return an event as Kineto prints it, with an indent of four blanks."""
    return "\n  {\n" + "\n".join(f"    {line}" for line in lines) + "\n  }"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    output: Output
    operations: list[HostOperation]

    @property
    def rank(self) -> Rank:
        return self.output.rank

    @property
    def base_ns(self) -> int:
        return (self.rank.start_ns // 10**9 - _BASE_OFFSET_S) * 10**9

    @property
    def _first_operation(self) -> int:
        """Number of the first operation: all events are numbered through, one of the other thread before them."""
        return 1 if self.rank.collectives else 0

    def ts(self, ns: int) -> str:
        return microseconds(ns - self.base_ns)

    def text(self, name: str) -> str:
        events = [*self._names(), *self._steps_and_operations()]
        if self.output.on["memory"]:
            events += self._memory(first_index=self._first_operation + len(self.operations))
        events += self._ends()
        return f'{self._head()}{",".join(events)}\n  ],"traceName": "{name}" }}'

    def _head(self) -> str:
        output, on = self.output, self.output.on
        identity = Random(f"trace {self.rank.start_ns} {self.rank.pid}").getrandbits(128)
        lines = [f'"trace_id": "{identity:032X}"']
        lines += [
            f'"{name}": 1' for key, name in (("memory", "profile_memory"), ("shapes", "record_shapes")) if on[key]
        ]
        if output.is_distributed:
            ranks = list(range(output.truth.world))
            group: dict[str, object] = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo,cuda:gloo"}
            group |= {"pg_size": len(ranks), "ranks": ranks}
            distributed = {"backend": "gloo", "rank": self.rank.number, "world_size": len(ranks), "pg_count": 1}
            lines.append(f'"distributedInfo": {json.dumps({**distributed, "pg_config": [group]})}')
        if on["flops"]:
            lines.append('"with_flops": 1')
        lines.append(f'"host_name": "{output.truth.host}"')
        inside = ",\n".join(f"      {line}" for line in lines)
        return (
            ' {\n    "schemaVersion": 1,\n    "deviceProperties": [],\n    \n'
            f'{inside},\n    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": {self.base_ns},\n    "traceEvents": [\n    '
        )

    def _names(self) -> Iterator[str]:
        pid = self.rank.pid
        yield self._meta("process_name", pid, 0, '"name": "python3"')
        yield self._meta("process_labels", pid, 0, '"labels": "CPU"')
        yield self._meta("process_sort_index", pid, 0, f'"sort_index": {pid}')
        threads = {pid: "python3", pid + 7: "pt_gloo_runloop"} if self.output.is_distributed else {pid: "python3"}
        for tid, name in threads.items():
            yield self._meta("thread_name", pid, tid, f'"name": "thread {tid} ({name})"')
            yield self._meta("thread_sort_index", pid, tid, f'"sort_index": {tid}')

    def _meta(self, name: str, pid: int | str, tid: int, args: str) -> str:
        ts = self.ts(self.rank.start_ns)
        head = ('"ph": "M",', f'"name": "{name}",', f'"ts": {ts},', f'"pid": {json.dumps(pid)},', f'"tid": {tid},')
        return _event(*head, '"args": {', f"  {args}", "}")

    def _steps_and_operations(self) -> Iterator[str]:
        ends = (one for one in self.operations if one.has_flow and one.is_backward)
        flows = {one.sequence: i for i, one in enumerate(ends, start=1)}
        yield from (self._collective(i, one) for i, one in enumerate(self.rank.collectives))
        for index, one in enumerate(self.operations, start=1):
            args = [f'"External id": {index},"Record function id": 0']
            if one.sequence is not None:
                args = [f'"External id": {index},"Sequence number": {one.sequence}']
                args += [f'"Fwd thread id": {int(one.is_backward)}', '"Record function id": 0']
            if self.output.on["shapes"] and one.operator is not None:
                args += _inputs(one.operator)
            args.append(f'"Ev Idx": {self._first_operation + index - 1}')
            category = "user_annotation" if one.name.startswith("ProfilerStep#") else "cpu_op"
            yield self._complete(category, one.name, self.rank.pid, one, ", ".join(args))
            if one.has_flow:
                yield self._flow(one, flows[one.sequence])

    def _collective(self, number: int, one: Collective) -> str:
        # Each thread of the profiler numbers in blocks of 512.
        block = (len(self.operations) // 512 + 1 + number) * 512
        args = f'"External id": {block + 1},"Record function id": 0'
        if self.output.on["shapes"]:
            args += ', "Concrete Inputs": [""], "Input type": ["float"], "Input Strides": [[1]]'
            args += f', "Input Dims": [[{one.elements}]]'
        # The first is numbered before everything else, the others after it.
        changes = sum(1 for _ in memory_totals(self.rank.allocations)) if self.output.on["memory"] else 0
        args += f', "Ev Idx": {number and self._first_operation + len(self.operations) + changes + number - 1}'
        return self._complete("user_annotation", "gloo:all_reduce", self.rank.pid + 7, one, args)

    def _complete(self, category: str, name: str, tid: int, span: Span, args: str) -> str:
        head = (
            '"ph": "X",',
            f'"cat": "{category}",',
            f'"name": "{name}",',
            f'"pid": {self.rank.pid},',
            f'"tid": {tid},',
        )
        times = (f'"ts": {self.ts(span.start_ns)},', f'"dur": {microseconds(span.duration_ns)}', ",")
        return _event(*head, *times, '"args": {', f"  {args}", "}")

    def _flow(self, one: HostOperation, identity: int) -> str:
        phase, end = ("f", ', "bp": "e"') if one.is_backward else ("s", "")
        head = (f'"ph": "{phase}",', f'"id": {identity},', f'"pid": {self.rank.pid},', f'"tid": {self.rank.pid},')
        return _event(*head, f'"ts": {self.ts(one.start_ns)},', '"cat": "fwdbwd",', '"name": "fwdbwd"', end)

    def _memory(self, *, first_index: int) -> Iterator[str]:
        addresses = {id(block): 94_441_609_786_304 + 65_536 * i for i, block in enumerate(self.rank.allocations)}
        pid, before = self.rank.pid, 0
        head = ('"ph": "i",', "", '"cat": "cpu_instant_event",', '"s": "t",', '"name": "[memory]",')
        for index, (at, block, total) in enumerate(memory_totals(self.rank.allocations), start=first_index):
            args = (
                f'  "Total Reserved": 0, "Total Allocated": {total}, "Bytes": {total - before}, "Device Id": -1, '
                f'"Device Type": 0, "Addr": {addresses[id(block)]}, "finished": false, "Ev Idx": {index}'
            )
            before = total
            where = (f'"pid": {pid},', f'"tid": {pid},', f'"ts": {self.ts(at)}', ",")
            yield _event(*head, *where, '"args": {', args, "}")

    def _ends(self) -> Iterator[str]:
        start, end = self.rank.start_ns, self.rank.end_ns
        head = ('"ph": "X",', '"cat": "Trace",', '"name": "PyTorch Profiler (0)",', '"pid": "Spans",')
        times = ('"tid": "PyTorch Profiler",', f'"ts": {self.ts(start)},', f'"dur": {microseconds(end - start)},')
        yield _event(*head, *times, '"args": {', '  "Op count": 0', "}")
        yield self._meta("process_sort_index", "Spans", 0, '"sort_index": 536870912')
        for name, pid, tid, at in (
            ("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start),
            ("Record Window End", "", "", end + 500_000),
        ):
            what = ('"ph": "i",', "", '"s": "g",', f'"name": "{name}",', f'"pid": "{pid}",', f'"tid": "{tid}",')
            yield _event(*what, f'"ts": {self.ts(at)}', "")


def _inputs(operator: Operator) -> list[str]:
    shapes = operator.shapes
    texts: dict[str, list[object]] = {
        "Concrete Inputs": ["" if shape else "0.10000000000000001" for shape in shapes],
        "Input type": ["float" if shape else "Scalar" for shape in shapes],
        "Input Strides": [[prod(shape[i + 1 :]) for i in range(len(shape))] for shape in shapes],
        "Input Dims": [*shapes],
    }
    return [f'"{name}": {json.dumps(values)}' for name, values in texts.items()]
