"""The synthetic run that all generated files are derived from.

A `Truth` is drawn once from a seed (`drawing`); the writers only print it, so two files that state the same fact agree
to the last digit of their formats. All times are integer nanoseconds, of UNIX time or of duration; all sizes are integer
bytes. Durations on the host have six significant digits, because MindSpore prints no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, NamedTuple, TypeVar

from perfguard.testing.formats import columns, stamp

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")

Shape = tuple[int, ...]


def shape_text(shape: Iterable[int]) -> str:
    """Print a shape as CANN does: `32,64`."""
    return ",".join(map(str, shape))


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Group items by a key, in the order in which the keys first occur."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def summed(pairs: Iterable[tuple[_Key, Sequence[float]]]) -> dict[_Key, list[float]]:
    """Add up the numbers of each key, place by place."""
    groups = grouped(pairs, lambda pair: pair[0])
    return {
        key: [sum(column) for column in zip(*(pair[1] for pair in same), strict=True)] for key, same in groups.items()
    }


_CELL = "network-WithLossCell"
_LOSS = "SoftmaxCrossEntropyWithLogits"
_DENSE, _RELU = f"Default/{_CELL}/_backbone-Net/fc-Dense", f"Default/{_CELL}/_backbone-Net/relu-ReLU"
_GRADIENTS = f"Gradients/{_DENSE}"
_CUBE, _VECTOR = "AI_CORE", "AI_VECTOR_CORE"

#: The operators of a small dense network: a letter per input (m is a matrix, v a vector, s a scalar, n has no shape),
#: then the first fields of `Operator`.
KINDS = (
    ("mmnn", "MatMul", _DENSE, "aten::addmm", _CUBE, "AddmmBackward0"),
    ("mvn", "BiasAdd", _DENSE, "aten::add", _VECTOR, "AddBackward0"),
    ("m", "ReLU", _RELU, "aten::relu", _VECTOR, "ReluBackward0"),
    ("mm", _LOSS, f"Default/{_CELL}/_loss_fn-{_LOSS}", "aten::_log_softmax", _VECTOR, "LogSoftmaxBackward0"),
    ("mn", "BiasAddGrad", f"{_GRADIENTS}/Grad_BiasAdd", "aten::sum", _VECTOR, ""),
    ("mmnn", "MatMul", f"{_GRADIENTS}/Grad_MatMul", "aten::mm", _CUBE, ""),
    ("vvn", "AssignAdd", "Default/optimizer-Momentum", "aten::add_", _VECTOR, ""),
    ("mmsmsn", "ApplyMomentum", "Default/optimizer-Momentum", "aten::mul_", _VECTOR, ""),
)


class Operator(NamedTuple):
    """One operator of the model; it runs once a step. `inputs` holds a shape per input, None where it has none."""

    #: The type and the scope, as MindSpore names them; the name in torch.
    type: str
    scope: str
    torch: str
    #: The device core that runs it.
    core: str
    #: The gradient in torch, of operators of the forward pass.
    backward: str
    number: int
    inputs: tuple[Shape | None, ...]
    output: Shape

    @property
    def name(self) -> str:
        """The short name, which operators of other scopes may share."""
        return f"{self.type}-op{self.number}"

    @property
    def full_name(self) -> str:
        """The name with its scope, unique in a graph."""
        return f"{self.scope}/{self.name}"

    @property
    def subgraph(self) -> str:
        """The outermost scope: `Default` or `Gradients`."""
        return self.scope.partition("/")[0]

    @property
    def is_cube(self) -> bool:
        """Whether the cube core runs it, not the vector core."""
        return self.core == _CUBE

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the inputs that have one; a scalar's is empty."""
        return [shape for shape in self.inputs if shape is not None]

    @property
    def input_shapes(self) -> str:
        """The shapes of the inputs as CANN prints them, without scalars: `32,64;64`."""
        return ";".join(shape_text(shape) for shape in self.inputs if shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of UNIX time, and the number of the step that it belongs to."""

    step: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


_Span = TypeVar("_Span", bound=Span)


def of_step(spans: Iterable[_Span], step: int | None) -> list[_Span]:
    """Return the spans of one step, or of all steps for None."""
    return [span for span in spans if step in (None, span.step)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Span):
    """One run of an operator on the host."""

    operator: Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Span):
    """One run of an operator's kernel on the device."""

    operator: Operator
    task: int
    launch: Execution

    @property
    def name(self) -> str:
        """The name that CANN writes."""
        return f"{self.operator.type}_{self.operator.number}"


_Run = TypeVar("_Run", Execution, Kernel)


class Runs(NamedTuple, Generic[_Run]):
    """All runs of the operators of one name, on the host or on the device."""

    name: str
    operator: Operator
    runs: list[_Run]

    @property
    def total_ns(self) -> int:
        """Their time together."""
        return sum(one.duration_ns for one in self.runs)

    @property
    def mean_ns(self) -> float:
        """Their mean time."""
        return self.total_ns / len(self.runs)


def runs_by_name(
    runs: Iterable[_Run], name: Callable[[Operator], str] = lambda operator: operator.full_name
) -> list[Runs[_Run]]:
    """Return the runs of each name, in the order of the model."""
    return [Runs(key, ones[0].operator, ones) for key, ones in grouped(runs, lambda one: name(one.operator)).items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The data that one collective moved from one rank to another: packets of one size. `LOCAL` stays on the device."""

    source: int
    target: int
    transport: str
    packet_bytes: int
    packets: int
    duration_ns: int

    @property
    def size(self) -> int:
        """All its packets together, in bytes."""
        return self.packet_bytes * self.packets


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Span):
    """One collective operation on the communication stream: duration = transit + wait + idle, sync is part of wait."""

    type: str
    index: int
    transit_ns: int
    wait_ns: int
    sync_ns: int
    elements: int
    links: tuple[Link, ...]
    launch_ns: int

    @property
    def is_point_to_point(self) -> bool:
        """Whether it moves data from one rank to one other."""
        return self.type in ("send", "receive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A block of device memory one operator allocated; `end_ns` is None if the window ended before its release."""

    operator: Operator
    size: int
    start_ns: int
    end_ns: int | None


def memory_totals(allocations: Iterable[Allocation]) -> Iterator[tuple[int, Allocation, int]]:
    """Yield every allocation and release in the order of time: its time, the block, the total allocated after it."""
    events = [(one.start_ns, i, one, one.size) for i, one in enumerate(allocations)]
    events += [(one.end_ns, i, one, -one.size) for _, i, one, _ in list(events) if one.end_ns is not None]
    total = 0
    for at, _, block, change in sorted(events, key=lambda event: event[:2]):
        total += change
        yield at, block, total


class Stage(NamedTuple):
    """One operator of the data pipeline, fed by the next one. `sizes` are those of its output queue, None without one."""

    type: str
    workers: int
    sizes: tuple[int, ...] | None
    system_percent: tuple[int, ...]
    user_percent: tuple[int, ...]


class Batch(NamedTuple):
    """One batch the data pipeline delivered; times in milliseconds, `at_ms` on the monotonic clock."""

    number: int
    pipeline_ms: int
    push_ms: int
    total_ms: int
    queued: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The data pipeline of one rank, sampled every `interval_ms`."""

    interval_ms: int
    processors: int
    capacity: int
    stages: tuple[Stage, ...]
    batches: tuple[Batch, ...]
    sampled_at_ms: tuple[int, ...]
    #: Per sample: context switches, idle, I/O, runnable processes, system, user.
    device: tuple[tuple[int, int, int, int, int, int], ...]
    process: tuple[tuple[int, int], ...]
    memory_kb: tuple[tuple[int, int, int], ...]
    total_kb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Everything one rank did in one schedule cycle."""

    number: int
    pid: int
    #: The steps of the window on the host's clock; the device has finished a step when it ends.
    steps: tuple[Span, ...]
    executions: tuple[Execution, ...]
    kernels: tuple[Kernel, ...]
    collectives: tuple[Collective, ...]
    allocations: tuple[Allocation, ...]
    pipeline: Pipeline

    def runs(self) -> list[Runs[Kernel]]:
        """Return the runs of each operator's kernel."""
        return runs_by_name(self.kernels)

    @property
    def start_ns(self) -> int:
        """UNIX time at which the profiler was started."""
        return self.steps[0].start_ns - 1_000_000

    @property
    def end_ns(self) -> int:
        """UNIX time at which the profiler was stopped."""
        return self.steps[-1].end_ns + 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A whole run: `cycles[c][r]` is what rank r did in schedule cycle c."""

    host: str
    group: str
    graph: int
    operators: tuple[Operator, ...]
    cycles: tuple[tuple[Rank, ...], ...]
    #: How many ranks the run has; `cycles` may hold fewer of them.
    world: int

    @property
    def ranks(self) -> list[Rank]:
        """Every rank of every cycle, cycle by cycle."""
        return [rank for cycle in self.cycles for rank in cycle]

    def name_of(self, one: Collective) -> str:
        """Return the name of a collective, with three digits of its group: `hcom_allReduce__586_0_1`."""
        return f"hcom_{one.type}__{self.group[-3:]}_{one.index}_1"

    @property
    def stages(self) -> int:
        """The number of pipeline stages of the model: 2 if ranks send to each other."""
        return 2 if any(one.is_point_to_point for rank in self.ranks for one in rank.collectives) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of one rank and cycle, which the writers print: the run, the options, and the form of the files."""

    truth: Truth
    rank: Rank
    #: The conditions: what is on and what is off.
    on: Mapping[str, bool]
    #: The variant of the layout, empty for none: columns of an older or newer version, other counters.
    variant: str = ""
    #: MindSpore's version where it changes files ("1.3" to "2.10"); empty for torch and torch_npu.
    version: str = ""

    @property
    def number(self) -> int:
        """The number of the rank."""
        return self.rank.number

    @property
    def level(self) -> int:
        """The profiler's level on an Ascend device: 0, 1 or 2."""
        return sum(self.on.get(name, False) for name in ("level1", "level2"))

    @property
    def is_scheduled(self) -> bool:
        """Whether the files are divided into steps."""
        return self.on.get("scheduled", True)

    @property
    def is_distributed(self) -> bool:
        """Whether the run has several ranks."""
        return self.truth.world > 1

    @property
    def since_2_1(self) -> bool:
        """Whether the flat files are made from msprof's op_summary: times in microseconds."""
        return self.version in ("2.1", "2.3")

    @property
    def before_2_0(self) -> bool:
        """Whether it is MindSpore 1.x."""
        return self.version.startswith("1.")

    def columns(self, table: str) -> str:
        """Return the header of a table in this variant, this version, or this major version."""
        return columns(table, self.variant, self.version, self.version.partition(".")[0])

    def random(self, purpose: str) -> Random:
        """Return a source of arbitrary content, the same for the same rank and cycle."""
        return Random(f"{purpose} {self.rank.start_ns} {self.number}")

    def raw_folder(self) -> tuple[str, Random]:
        """Return the name of CANN's own directory, and a source of what is in it: only its presence is checked."""
        random = self.random("raw")
        token = "".join(random.choice("ABCDEFGHIJKLMNOPQR") for _ in range(16))
        return f"PROF_000001_{stamp(self.rank.start_ns)}_{token}", random
