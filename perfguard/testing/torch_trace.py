"""The output of torch.profiler: one Chrome trace for each process and schedule cycle, as Kineto prints it.

Format read on real output of torch 2.13 on CPU.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from perfguard.testing.formats import microseconds
from perfguard.testing.truth import Collective, Execution, Operator, Rank, Truth, memory_totals, of_step

#: The clock of a trace begins some weeks before it.
_BASE_OFFSET_S = 4_397_610


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOperation:
    """One operation of the host's main thread; operations nest, never cross."""

    name: str
    step: int
    start_ns: int
    end_ns: int
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


def host_operations(rank: Rank) -> list[HostOperation]:
    """Return the operations of all steps in the order of their starts: the same ones in every step."""
    found: list[HostOperation] = []
    sequence = 20
    for step in rank.steps:
        runs = of_step(rank.executions, step.number)
        forward = [run for run in runs if run.operator.kind.backward]
        gradients = [run for run in runs if run.operator.subgraph == "Gradients"]
        # The last operation forward is the first backward.
        pairs = list(zip(reversed(forward), gradients, strict=False))
        numbers = {run.start_ns: sequence + i for i, run in enumerate(reversed([pair[0] for pair in pairs]))}
        sequence += len(pairs)
        forward_of = {gradient.start_ns: of for of, gradient in pairs}
        for run in runs:
            if (of := forward_of.get(run.start_ns)) is not None:
                found += _gradient(run, of.operator.kind.backward or "", numbers[of.start_ns])
            else:
                found += _plain(run, numbers.get(run.start_ns))
    return found


def _plain(run: Execution, sequence: int | None) -> Iterator[HostOperation]:
    yield HostOperation(
        name=run.operator.kind.torch,
        step=run.step,
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        launch_ns=run.start_ns,
        operator=run.operator,
        sequence=sequence,
        has_flow=sequence is not None,
        is_kernel_launch=True,
    )
    margin = run.duration_ns // 5
    yield HostOperation(
        name="aten::empty",
        step=run.step,
        start_ns=run.start_ns + margin,
        end_ns=run.end_ns - 2 * margin,
        operator=run.operator,
    )


def _gradient(run: Execution, backward: str, sequence: int) -> Iterator[HostOperation]:
    margin = run.duration_ns // 10
    names = (f"autograd::engine::evaluate_function: {backward}", backward, run.operator.kind.torch)
    for depth, name in enumerate(names):
        yield HostOperation(
            name=name,
            step=run.step,
            start_ns=run.start_ns + depth * margin,
            end_ns=run.end_ns - depth * margin,
            launch_ns=run.start_ns,
            operator=run.operator if depth else None,
            sequence=sequence if depth < 2 else None,
            is_backward=depth < 2,
            has_flow=depth == 1,
            is_kernel_launch=depth == 2,
        )


def file_name(truth: Truth, rank: Rank, *, compressed: bool) -> str:
    """Name of a trace as `tensorboard_trace_handler` gives it; the number is UNIX time in nanoseconds."""
    at = rank.end_ns + 7_654_321
    if compressed:
        return f"{truth.host}_{rank.pid}.{at}.pt.trace.json.gz"
    return f"rank{rank.number}.{at}.pt.trace.json"


def trace_file(truth: Truth, rank: Rank, *, memory: bool, shapes: bool, flops: bool, compressed: bool) -> bytes:
    """Write the trace of one rank and cycle."""
    text = _Trace(
        truth=truth,
        rank=rank,
        operations=_numbered(rank),
        memory=memory,
        shapes=shapes,
        flops=flops,
        compressed=compressed,
    ).text()
    if not compressed:
        return text.encode()
    packed = io.BytesIO()
    name = file_name(truth, rank, compressed=True).removesuffix(".gz")
    with gzip.GzipFile(name, "wb", fileobj=packed, mtime=rank.end_ns // 10**9) as file:
        file.write(text.encode())
    return packed.getvalue()


def _numbered(rank: Rank) -> list[HostOperation]:
    """Steps and operations in the order the profiler numbers them from 1: by their starts, the outer one first."""
    steps = [
        HostOperation(name=f"ProfilerStep#{one.number}", step=one.number, start_ns=one.start_ns, end_ns=one.end_ns)
        for one in rank.steps
    ]
    return sorted([*steps, *host_operations(rank)], key=lambda one: (one.start_ns, -one.end_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    truth: Truth
    rank: Rank
    operations: list[HostOperation]
    memory: bool
    shapes: bool
    flops: bool
    compressed: bool

    @property
    def base_ns(self) -> int:
        return (self.rank.start_ns // 10**9 - _BASE_OFFSET_S) * 10**9

    @property
    def _first_operation(self) -> int:
        """Number of the first operation: all events are numbered through, one of the other thread before them."""
        return 1 if self.rank.collectives else 0

    def ts(self, ns: int) -> str:
        return microseconds(ns - self.base_ns)

    def text(self) -> str:
        events = [*self._names(), *self._steps_and_operations()]
        if self.memory:
            events += self._memory(first_index=self._first_operation + len(self.operations))
        events += self._ends()
        name = "/tmp/tmpc8j8am2q.json"
        if not self.compressed:
            name = f"out/{file_name(self.truth, self.rank, compressed=False)}"
        return f'{self._head()}{",".join(events)}\n  ],"traceName": "{name}" }}'

    def _head(self) -> str:
        identity = f"{Random(f'trace {self.rank.start_ns} {self.rank.pid}').getrandbits(128):032X}"
        lines = [f'"trace_id": "{identity}"']
        if self.memory:
            lines.append('"profile_memory": 1')
        if self.shapes:
            lines.append('"record_shapes": 1')
        if self.truth.world > 1:
            ranks = list(range(self.truth.world))
            group = {
                "pg_name": "0",
                "pg_desc": "default_pg",
                "backend_config": "cpu:gloo,cuda:gloo",
                "pg_size": len(ranks),
                "ranks": ranks,
            }
            distributed = {
                "backend": "gloo",
                "rank": self.rank.number,
                "world_size": len(ranks),
                "pg_count": 1,
                "pg_config": [group],
            }
            lines.append(f'"distributedInfo": {json.dumps(distributed)}')
        if self.flops:
            lines.append('"with_flops": 1')
        lines.append(f'"host_name": "{self.truth.host}"')
        inside = ",\n".join(f"      {line}" for line in lines)
        return (
            ' {\n    "schemaVersion": 1,\n    "deviceProperties": [],\n    \n'
            f'{inside},\n    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": {self.base_ns},\n    "traceEvents": [\n    '
        )

    def _names(self) -> list[str]:
        pid = self.rank.pid
        threads = [(pid, f"thread {pid} (python3)")]
        if self.truth.world > 1:
            threads.append((pid + 7, f"thread {pid + 7} (pt_gloo_runloop)"))
        names: list[tuple[str, int | str, int, str]] = [
            ("process_name", pid, 0, '"name": "python3"'),
            ("process_labels", pid, 0, '"labels": "CPU"'),
            ("process_sort_index", pid, 0, f'"sort_index": {pid}'),
        ]
        for tid, name in threads:
            names += [
                ("thread_name", pid, tid, f'"name": "{name}"'),
                ("thread_sort_index", pid, tid, f'"sort_index": {tid}'),
            ]
        return [self._meta(name, owner, tid, args) for name, owner, tid, args in names]

    def _meta(self, name: str, pid: int | str, tid: int, args: str) -> str:
        return (
            f'\n  {{\n    "ph": "M",\n    "name": "{name}",\n    "ts": {self.ts(self.rank.start_ns)},\n'
            f'    "pid": {json.dumps(pid)},\n    "tid": {tid},\n    "args": {{\n      {args}\n    }}\n  }}'
        )

    def _steps_and_operations(self) -> Iterator[str]:
        ends = (one for one in self.operations if one.has_flow and one.is_backward)
        flows = {one.sequence: i for i, one in enumerate(ends, start=1)}
        if self.rank.collectives:
            yield from (self._collective(i, one) for i, one in enumerate(self.rank.collectives))
        for index, one in enumerate(self.operations, start=1):
            is_step = one.name.startswith("ProfilerStep#")
            args = [f'"External id": {index},"Record function id": 0']
            if one.sequence is not None:
                thread = 1 if one.is_backward else 0
                args = [f'"External id": {index},"Sequence number": {one.sequence}']
                args += [f'"Fwd thread id": {thread}', '"Record function id": 0']
            if self.shapes and one.operator is not None:
                args += _inputs(one.operator)
            args.append(f'"Ev Idx": {self._first_operation + index - 1}')
            category = "user_annotation" if is_step else "cpu_op"
            yield self._complete(category, one.name, self.rank.pid, one.start_ns, one.end_ns, ", ".join(args))
            if one.has_flow:
                yield self._flow(one, flows[one.sequence])

    def _collective(self, number: int, one: Collective) -> str:
        # Each thread of the profiler numbers in blocks of 512.
        block = (len(self.operations) // 512 + 1 + number) * 512
        args = f'"External id": {block + 1},"Record function id": 0'
        if self.shapes:
            args += (
                f', "Concrete Inputs": [""], "Input type": ["float"], "Input Strides": [[1]], '
                f'"Input Dims": [[{one.elements}]]'
            )
        # The first is numbered before everything else, the others after it.
        changes = sum(1 for _ in memory_totals(self.rank.allocations)) if self.memory else 0
        args += f', "Ev Idx": {number and self._first_operation + len(self.operations) + changes + number - 1}'
        return self._complete("user_annotation", "gloo:all_reduce", self.rank.pid + 7, one.start_ns, one.end_ns, args)

    def _complete(self, category: str, name: str, tid: int, start_ns: int, end_ns: int, args: str) -> str:
        return (
            f'\n  {{\n    "ph": "X",\n    "cat": "{category}",\n    "name": "{name}",\n    "pid": {self.rank.pid},\n'
            f'    "tid": {tid},\n    "ts": {self.ts(start_ns)},\n    "dur": {microseconds(end_ns - start_ns)}\n    ,\n'
            f'    "args": {{\n      {args}\n    }}\n  }}'
        )

    def _flow(self, one: HostOperation, identity: int) -> str:
        phase, end = ("f", ', "bp": "e"') if one.is_backward else ("s", "")
        return (
            f'\n  {{\n    "ph": "{phase}",\n    "id": {identity},\n    "pid": {self.rank.pid},\n'
            f'    "tid": {self.rank.pid},\n    "ts": {self.ts(one.start_ns)},\n    "cat": "fwdbwd",\n'
            f'    "name": "fwdbwd"\n    {end}\n  }}'
        )

    def _memory(self, *, first_index: int) -> Iterator[str]:
        addresses = {id(block): 94_441_609_786_304 + 65_536 * i for i, block in enumerate(self.rank.allocations)}
        before = 0
        for index, (at, block, total) in enumerate(memory_totals(self.rank.allocations), start=first_index):
            change, before = total - before, total
            yield (
                f'\n  {{\n    "ph": "i",\n    \n    "cat": "cpu_instant_event",\n    "s": "t",\n    "name": "[memory]",\n'
                f'    "pid": {self.rank.pid},\n    "tid": {self.rank.pid},\n    "ts": {self.ts(at)}\n    ,\n    "args": {{\n'
                f'      "Total Reserved": 0, "Total Allocated": {total}, "Bytes": {change}, "Device Id": -1, '
                f'"Device Type": 0, "Addr": {addresses[id(block)]}, "finished": false, "Ev Idx": {index}\n    }}\n  }}'
            )

    def _ends(self) -> Iterator[str]:
        start, end = self.rank.start_ns, self.rank.end_ns
        yield (
            '\n  {\n    "ph": "X",\n    "cat": "Trace",\n    "name": "PyTorch Profiler (0)",\n    "pid": "Spans",\n'
            f'    "tid": "PyTorch Profiler",\n    "ts": {self.ts(start)},\n    "dur": {microseconds(end - start)},\n'
            '    "args": {\n      "Op count": 0\n    }\n  }'
        )
        yield self._meta("process_sort_index", "Spans", 0, '"sort_index": 536870912')
        for name, pid, tid, at in (
            ("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start),
            ("Record Window End", "", "", end + 500_000),
        ):
            yield (
                f'\n  {{\n    "ph": "i",\n    \n    "s": "g",\n    "name": "{name}",\n    "pid": "{pid}",\n'
                f'    "tid": "{tid}",\n    "ts": {self.ts(at)}\n    \n  }}'
            )


def _inputs(operator: Operator) -> list[str]:
    shapes = [list(shape) for shape in operator.shapes]
    strides = []
    for shape in shapes:
        stride: list[int] = []
        width = 1
        for size in reversed(shape):
            stride.insert(0, width)
            width *= size
        strides.append(stride)
    concrete = ["" if shape else "0.10000000000000001" for shape in shapes]
    types = ["float" if shape else "Scalar" for shape in shapes]
    return [
        f'"Concrete Inputs": {json.dumps(concrete)}',
        f'"Input type": {json.dumps(types)}',
        f'"Input Strides": {json.dumps(strides)}',
        f'"Input Dims": {json.dumps(shapes)}',
    ]
