"""What happened in a run that never was: the model every file of a generated directory is projected from.

A `Truth` is drawn once, from a seed; the writers only print it. Whatever two files say about the same thing therefore
agrees, to the last digit their formats keep. All times are integer nanoseconds of UNIX time or of duration, all sizes
integer bytes. Durations on the host have six significant digits, which is what MindSpore prints of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

#: The first moment a run can begin at: a day of January 2025.
_BASE_NS = 1_736_408_883_000_000_000
_DAY_NS = 86_400_000_000_000

#: Rank processes never start at the same nanosecond.
_SKEW_NS = 40_000

_NETWORK = "network-WithLossCell/_backbone-Net"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of operator: what the frameworks call it, and where the device runs it."""

    type: str
    scope: str
    torch: str
    inputs: tuple[str, ...]
    core: str
    backward: str | None = None


#: Where the operators of a small dense network live. `inputs`: m is a matrix, v a vector, s a scalar, n has no shape.
KINDS = (
    Kind(
        type="MatMul",
        scope=f"Default/{_NETWORK}/fc-Dense",
        torch="aten::addmm",
        inputs=("m", "m", "n", "n"),
        core="AI_CORE",
        backward="AddmmBackward0",
    ),
    Kind(
        type="BiasAdd",
        scope=f"Default/{_NETWORK}/fc-Dense",
        torch="aten::add",
        inputs=("m", "v", "n"),
        core="AI_VECTOR_CORE",
        backward="AddBackward0",
    ),
    Kind(
        type="ReLU",
        scope=f"Default/{_NETWORK}/relu-ReLU",
        torch="aten::relu",
        inputs=("m",),
        core="AI_VECTOR_CORE",
        backward="ReluBackward0",
    ),
    Kind(
        type="SoftmaxCrossEntropyWithLogits",
        scope="Default/network-WithLossCell/_loss_fn-SoftmaxCrossEntropyWithLogits",
        torch="aten::_log_softmax",
        inputs=("m", "m"),
        core="AI_VECTOR_CORE",
        backward="LogSoftmaxBackward0",
    ),
    Kind(
        type="BiasAddGrad",
        scope=f"Gradients/Default/{_NETWORK}/fc-Dense/Grad_BiasAdd",
        torch="aten::sum",
        inputs=("m", "n"),
        core="AI_VECTOR_CORE",
    ),
    Kind(
        type="MatMul",
        scope=f"Gradients/Default/{_NETWORK}/fc-Dense/Grad_MatMul",
        torch="aten::mm",
        inputs=("m", "m", "n", "n"),
        core="AI_CORE",
    ),
    Kind(
        type="AssignAdd",
        scope="Default/optimizer-Momentum",
        torch="aten::add_",
        inputs=("v", "v", "n"),
        core="AI_VECTOR_CORE",
    ),
    Kind(
        type="ApplyMomentum",
        scope="Default/optimizer-Momentum",
        torch="aten::mul_",
        inputs=("m", "m", "s", "m", "s", "n"),
        core="AI_VECTOR_CORE",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of the model; it runs once a step. `inputs` holds a shape per input, None where it has none."""

    kind: Kind
    number: int
    inputs: tuple[tuple[int, ...] | None, ...]
    output: tuple[int, ...]

    @property
    def type(self) -> str:
        """The operator's type, as MindSpore names it."""
        return self.kind.type

    @property
    def name(self) -> str:
        """The short name, which other scopes may have as well."""
        return f"{self.type}-op{self.number}"

    @property
    def full_name(self) -> str:
        """The name with its scope, unique in a graph."""
        return f"{self.kind.scope}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the window on the host's clock; the device has finished it when it ends."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of an operator on the host."""

    operator: Operator
    step: int
    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """UNIX time at which it ended."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One run of an operator's kernel on the device."""

    operator: Operator
    step: int
    start_ns: int
    duration_ns: int
    task: int
    launch: Execution

    @property
    def end_ns(self) -> int:
        """UNIX time at which it ended."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one collective moved from one rank to another: packets of one size. `LOCAL` stays on the device."""

    source: int
    target: int
    transport: str
    packet_bytes: int
    packets: int
    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective operation on the communication stream: elapse = transit + wait + idle, sync is part of wait."""

    type: str
    index: int
    step: int
    start_ns: int
    elapse_ns: int
    transit_ns: int
    wait_ns: int
    sync_ns: int
    elements: int
    links: tuple[Link, ...]
    launch_ns: int

    @property
    def end_ns(self) -> int:
        """UNIX time at which it ended."""
        return self.start_ns + self.elapse_ns

    @property
    def is_point_to_point(self) -> bool:
        """Whether it moves data from one rank to one other."""
        return self.type in ("send", "receive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A block of device memory one operator took; `end_ns` is None when the window ended first."""

    operator: Operator
    size: int
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One operator of the data pipeline. `sizes` is None where it has no output queue."""

    number: int
    type: str
    workers: int
    parent: int | None
    children: tuple[int, ...]
    length: int
    sizes: tuple[int, ...] | None
    system_percent: tuple[int, ...]
    user_percent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch the data pipeline gave out; times in milliseconds, `at_ms` on the monotonic clock."""

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
    steps: tuple[Step, ...]
    executions: tuple[Execution, ...]
    kernels: tuple[Kernel, ...]
    collectives: tuple[Collective, ...]
    allocations: tuple[Allocation, ...]
    pipeline: Pipeline

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
    def stages(self) -> int:
        """How many stages the model is split into: 2 where ranks pass each other what they computed."""
        collectives = (one for cycle in self.cycles for rank in cycle for one in rank.collectives)
        return 2 if any(one.is_point_to_point for one in collectives) else 1


def draw(*, seed: int, ranks: int, steps: int, operators: int, cycles: int = 1, first_step: int = 1) -> Truth:
    """Draw a run: `operators` operators, each once a step, on `ranks` ranks, for `steps` steps in each cycle.

    The steps are numbered from `first_step`; a later cycle goes on two steps after the one before it.
    """
    random = Random(f"run {seed}")
    model = _operators(random, operators)
    begin = _BASE_NS + random.randrange(600) * _DAY_NS + random.randrange(_DAY_NS)
    # The operators take about the same time everywhere, as they do in a real model.
    typical = [_duration(random) for _ in model]
    pids = [random.randrange(1000, 40_000) + 7 * rank for rank in range(ranks)]
    drawn = []
    for cycle in range(cycles):
        first = first_step + cycle * (steps + 2)
        one = tuple(
            _rank(
                Random(f"{seed} {cycle} {rank}"),
                rank,
                ranks,
                pids[rank],
                model,
                typical,
                begin,
                range(first, first + steps),
            )
            for rank in range(ranks)
        )
        drawn.append(one)
        begin = max(rank.end_ns for rank in one) + 1_000_000_000
    return Truth(
        host=random.choice(("vm", "node-7", "localhost.localdomain")),
        group=str(random.randrange(10**18, 10**19)),
        graph=random.randrange(1, 2**32),
        operators=model,
        cycles=tuple(drawn),
        world=ranks,
    )


def of_rank(truth: Truth, number: int) -> Truth:
    """Return the part of a run that one rank wrote; it still knows of the others."""
    cycles = tuple(tuple(rank for rank in cycle if rank.number == number) for cycle in truth.cycles)
    return replace(truth, cycles=cycles)


def over_network(truth: Truth) -> Truth:
    """Return the same run on devices of different machines: between them is a network (RDMA) instead of HCCS."""

    def moved(one: Collective, rank: Rank) -> Collective:
        links = (replace(link, transport="RDMA" if link.transport == "HCCS" else link.transport) for link in one.links)
        return replace(one, links=tuple(links))

    return _with_collectives(truth, moved)


def in_stages(truth: Truth) -> Truth:
    """Return the same run with its ranks as neighbours in a pipeline: the first communication of a step is between two.

    Even ranks send, odd ones receive; the last of an odd number of ranks has no neighbour and keeps what it did.
    """

    def passed(one: Collective, rank: Rank) -> Collective:
        first = next(other for other in rank.collectives if other.step == one.step)
        neighbour = rank.number ^ 1
        if one is not first or neighbour >= truth.world:
            return one
        sends = rank.number < neighbour
        own = next(link for link in one.links if link.target == rank.number)
        wire = next(link for link in one.links if link.target == neighbour)
        if not sends:
            wire = replace(wire, source=neighbour, target=rank.number)
        return replace(one, type="send" if sends else "receive", links=(own, wire))

    return _with_collectives(truth, passed)


def _with_collectives(truth: Truth, change: Callable[[Collective, Rank], Collective]) -> Truth:
    def changed(rank: Rank) -> Rank:
        return replace(rank, collectives=tuple(change(one, rank) for one in rank.collectives))

    return replace(truth, cycles=tuple(tuple(changed(rank) for rank in cycle) for cycle in truth.cycles))


def _operators(random: Random, count: int) -> tuple[Operator, ...]:
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    numbers: dict[str, int] = {}
    found = []
    for kind in kinds:
        number = numbers.get(kind.type, 0)
        numbers[kind.type] = number + 1
        rows, columns = random.choice((2, 16, 32)), random.choice((2, 10, 64, 128))
        shapes: dict[str, tuple[int, ...] | None] = {"m": (rows, columns), "v": (columns,), "s": (), "n": None}
        found.append(
            Operator(
                kind=kind,
                number=number,
                inputs=tuple(shapes[letter] for letter in kind.inputs),
                output=(rows, columns),
            )
        )
    return tuple(found)


def _duration(random: Random) -> int:
    return int(10 ** random.uniform(3, 6.3))


def _six(ns: float) -> int:
    """Round to six significant digits."""
    return int(float(f"{ns:.6g}"))


def _rank(
    random: Random,
    number: int,
    world: int,
    pid: int,
    model: tuple[Operator, ...],
    typical: list[int],
    begin: int,
    step_numbers: range,
) -> Rank:
    clock = begin + random.randrange(_SKEW_NS)
    device = clock
    steps: list[Step] = []
    executions: list[Execution] = []
    kernels: list[Kernel] = []
    collectives: list[Collective] = []
    task = random.randrange(10, 10_000)
    for step in step_numbers:
        start = clock
        clock += random.randrange(20_000, 200_000)
        in_step: list[Kernel] = []
        for operator, usual in zip(model, typical, strict=True):
            execution = Execution(
                operator=operator, step=step, start_ns=clock, duration_ns=_six(usual * random.uniform(0.8, 1.3))
            )
            executions.append(execution)
            begins = max(device, execution.start_ns) + random.randrange(1_500, 30_000)
            # The device's clock ticks every 20 ns; all it prints are multiples.
            begins -= begins % 20
            kernel = Kernel(
                operator=operator,
                step=step,
                start_ns=begins,
                duration_ns=max(20, int(usual * random.uniform(0.5, 0.9)) // 20 * 20),
                task=task,
                launch=execution,
            )
            task += 1
            device = kernel.end_ns
            in_step.append(kernel)
            clock = execution.end_ns + random.randrange(2_000, 60_000)
        kernels += in_step
        if world > 1:
            collectives += _collectives(random, step, number, world, in_step, len(collectives))
        last = max([clock, device, *(one.end_ns for one in collectives[-2:])])
        clock = device = last + random.randrange(20_000, 90_000)
        steps.append(Step(number=step, start_ns=start, end_ns=clock))
        # A trace that rounds to a quarter of a microsecond must still see one step end before the next.
        clock += random.randrange(2_000, 20_000)
    return Rank(
        number=number,
        pid=pid,
        steps=tuple(steps),
        executions=tuple(executions),
        kernels=tuple(kernels),
        collectives=tuple(collectives),
        allocations=_allocations(random, executions, steps),
        pipeline=_pipeline(random, len(steps)),
    )


def _collectives(
    random: Random, step: int, rank: int, world: int, kernels: list[Kernel], before: int
) -> list[Collective]:
    """Draw two all-reduces of one step: they begin in the middle of it, the second when the first has ended."""
    found = []
    at = kernels[len(kernels) // 2].start_ns + random.randrange(100, 3_000)
    for one in range(2):
        transit = random.randrange(30_000, 900_000)
        wait = random.randrange(1_000, 400_000)
        sync = random.randrange(wait + 1)
        elapse = transit + wait + random.randrange(500, 80_000)
        elements = 256 * random.randrange(4, 4_000)
        piece = elements * 4 // world
        links = [
            Link(
                source=rank,
                target=other,
                transport="LOCAL" if other == rank else "HCCS",
                packet_bytes=piece,
                packets=1 if other == rank else 2,
                duration_ns=int(piece / random.uniform(8, 30)) + 500,
            )
            for other in range(world)
        ]
        found.append(
            Collective(
                type="allReduce",
                index=before + one,
                step=step,
                start_ns=at,
                elapse_ns=elapse,
                transit_ns=transit,
                wait_ns=wait,
                sync_ns=sync,
                elements=elements,
                links=tuple(links),
                launch_ns=at - random.randrange(5_000, 9_000),
            )
        )
        at += elapse + random.randrange(1_000, 20_000)
    return found


def _allocations(random: Random, executions: list[Execution], steps: list[Step]) -> tuple[Allocation, ...]:
    """Draw a block for every execution, freed before its step ends; the last of the window stays."""
    ends = {step.number: step.end_ns for step in steps}
    found = []
    for execution in executions:
        start = (execution.start_ns + execution.duration_ns // 2) // 10 * 10
        latest = ends[execution.step]
        end = random.randrange(start // 10 + 1, latest // 10) * 10 if latest - start > 40 else None
        if execution is executions[-1]:
            end = None
        found.append(
            Allocation(operator=execution.operator, size=512 * random.randrange(1, 4_000), start_ns=start, end_ns=end)
        )
    return tuple(found)


def _pipeline(random: Random, batches: int) -> Pipeline:
    samples = random.randrange(4, 14)
    interval = 10
    length = 16

    def queue() -> tuple[int, ...]:
        return tuple(random.randrange(length + 1) for _ in range(samples))

    def percent() -> tuple[int, ...]:
        return tuple(random.randrange(40) for _ in range(samples))

    chain = [("BatchOp", 2, queue()), ("MapOp", 4, queue()), ("ShuffleOp", 1, None), ("GeneratorOp", 1, queue())]
    stages = tuple(
        Stage(
            number=number,
            type=kind,
            workers=workers,
            parent=number - 1 if number else None,
            children=(number + 1,) if number + 1 < len(chain) else (),
            length=length,
            sizes=sizes,
            system_percent=percent(),
            user_percent=percent(),
        )
        for number, (kind, workers, sizes) in enumerate(chain)
    )
    at = random.randrange(10**6, 10**7)
    given = []
    for number in range(1, batches + 1):
        pipeline = random.randrange(1, 20)
        push = random.randrange(3)
        at += pipeline + push + random.randrange(4)
        given.append(
            Batch(
                number=number,
                pipeline_ms=pipeline,
                push_ms=push,
                total_ms=pipeline + push,
                queued=random.randrange(length + 1),
                at_ms=at,
            )
        )
    total = random.randrange(2**23, 2**25)
    resident = random.randrange(2**18, 2**20)
    sampled = given[0].at_ms if given else at
    device = []
    memory = []
    for _ in range(samples):
        system, user = random.randrange(50), random.randrange(50)
        device.append((random.randrange(60, 200), 100 - system - user, 0, random.randrange(1, 6), system, user))
        resident += random.randrange(64)
        memory.append((2 * resident, resident, resident - random.randrange(4096)))
    return Pipeline(
        interval_ms=interval,
        processors=random.choice((2, 8, 96)),
        capacity=length,
        stages=stages,
        batches=tuple(given),
        sampled_at_ms=tuple(sampled + 25 * i for i in range(samples)),
        device=tuple(device),
        process=tuple((random.randrange(90), random.randrange(90)) for _ in range(samples - 1)),
        memory_kb=tuple(memory),
        total_kb=total,
    )
