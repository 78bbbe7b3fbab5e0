"""Draw the synthetic run of a generated directory from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from perfguard.testing.truth import (
    KINDS,
    Allocation,
    Batch,
    Collective,
    Execution,
    Kernel,
    Link,
    Operator,
    Pipeline,
    Rank,
    Shape,
    Span,
    Stage,
    Truth,
    of_step,
)

#: The first moment a run can begin at: a day of January 2025.
_BASE_NS = 1_736_408_883_000_000_000
_DAY_NS = 86_400_000_000_000

#: The processes of the ranks never start at the same nanosecond.
_SKEW_NS = 40_000


def draw(*, seed: int, ranks: int, steps: int, operators: int, cycles: int = 1, first_step: int = 1) -> Truth:
    """Draw a run: `operators` operators, each once a step, on `ranks` ranks, for `steps` steps in each cycle.

    The steps are numbered from `first_step`; a later cycle goes on two steps after the one before it.
    """
    random = Random(f"run {seed}")
    model = _operators(random, operators)
    begin = _BASE_NS + random.randrange(600) * _DAY_NS + random.randrange(_DAY_NS)
    # An operator takes about the same time on every rank and in every step, as in a real model.
    typical = [_duration(random) for _ in model]
    pids = [random.randrange(1000, 40_000) + 7 * rank for rank in range(ranks)]
    drawn = []
    for cycle in range(cycles):
        first = first_step + cycle * (steps + 2)
        window = range(first, first + steps)
        drawn.append(
            tuple(
                _rank(Random(f"{seed} {cycle} {rank}"), rank, ranks, pids[rank], model, typical, begin, window)
                for rank in range(ranks)
            )
        )
        begin = max(rank.end_ns for rank in drawn[-1]) + 1_000_000_000
    return Truth(
        host=random.choice(("vm", "node-7", "localhost.localdomain")),
        group=str(random.randrange(10**18, 10**19)),
        graph=random.randrange(1, 2**32),
        operators=model,
        cycles=tuple(drawn),
        world=ranks,
    )


def over_network(truth: Truth) -> Truth:
    """Return the same run on devices of different machines: a network (RDMA) takes the place of HCCS."""

    def moved(one: Collective, rank: Rank) -> Collective:
        links = (replace(link, transport="RDMA" if link.transport == "HCCS" else link.transport) for link in one.links)
        return replace(one, links=tuple(links))

    return _with_collectives(truth, moved)


def in_stages(truth: Truth) -> Truth:
    """Return the same run as a pipeline: the first collective of each step is a send or receive between neighbours.

    Even ranks send, odd ones receive; the last of an odd number of ranks has no neighbour and keeps its collective.
    """

    def passed(one: Collective, rank: Rank) -> Collective:
        first = of_step(rank.collectives, one.step)[0]
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
    numbers: dict[str, int] = {}
    found = []
    for i in range(count):
        letters, kind, scope, torch, core, backward = KINDS[i % len(KINDS)]
        numbers[kind] = number = numbers.get(kind, -1) + 1
        rows, columns = random.choice((2, 16, 32)), random.choice((2, 10, 64, 128))
        shapes: dict[str, Shape | None] = {"m": (rows, columns), "v": (columns,), "s": (), "n": None}
        inputs = tuple(shapes[letter] for letter in letters)
        found.append(Operator(kind, scope, torch, core, backward, number, inputs, (rows, columns)))
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
    steps: list[Span] = []
    executions: list[Execution] = []
    kernels: list[Kernel] = []
    collectives: list[Collective] = []
    task = random.randrange(10, 10_000)
    for step in step_numbers:
        start = clock
        clock += random.randrange(20_000, 200_000)
        in_step: list[Kernel] = []
        for operator, usual in zip(model, typical, strict=True):
            end = clock + _six(usual * random.uniform(0.8, 1.3))
            launch = Execution(operator=operator, step=step, start_ns=clock, end_ns=end)
            executions.append(launch)
            begins = max(device, clock) + random.randrange(1_500, 30_000)
            # The device's clock ticks every 20 ns: every time it prints is a multiple.
            begins -= begins % 20
            device = begins + max(20, int(usual * random.uniform(0.5, 0.9)) // 20 * 20)
            in_step.append(
                Kernel(operator=operator, step=step, start_ns=begins, end_ns=device, task=task, launch=launch)
            )
            task += 1
            clock = end + random.randrange(2_000, 60_000)
        kernels += in_step
        if world > 1:
            collectives += _collectives(random, step, number, world, in_step, len(collectives))
        last = max([clock, device, *(one.end_ns for one in collectives[-2:])])
        clock = device = last + random.randrange(20_000, 90_000)
        steps.append(Span(step=step, start_ns=start, end_ns=clock))
        # In a trace that rounds to a quarter of a microsecond, one step must still end before the next begins.
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
    """Draw two all-reduces of one step: the first begins in the middle of it, the second after the first."""
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
                end_ns=at + elapse,
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


def _allocations(random: Random, executions: list[Execution], steps: list[Span]) -> tuple[Allocation, ...]:
    """Draw a block for every execution, released before its step ends; the last of the window stays allocated."""
    ends = {step.step: step.end_ns for step in steps}
    found = []
    for execution in executions:
        start = (execution.start_ns + execution.duration_ns // 2) // 10 * 10
        latest = ends[execution.step]
        end = random.randrange(start // 10 + 1, latest // 10) * 10 if latest - start > 40 else None
        if execution is executions[-1]:
            end = None
        size = 512 * random.randrange(1, 4_000)
        found.append(Allocation(operator=execution.operator, size=size, start_ns=start, end_ns=end))
    return tuple(found)


def _pipeline(random: Random, batches: int) -> Pipeline:
    samples = random.randrange(4, 14)
    length = 16

    def queue() -> tuple[int, ...]:
        return tuple(random.randrange(length + 1) for _ in range(samples))

    def percent() -> tuple[int, ...]:
        return tuple(random.randrange(40) for _ in range(samples))

    chain = [("BatchOp", 2, queue()), ("MapOp", 4, queue()), ("ShuffleOp", 1, None), ("GeneratorOp", 1, queue())]
    stages = tuple(Stage(kind, workers, sizes, percent(), percent()) for kind, workers, sizes in chain)
    at = random.randrange(10**6, 10**7)
    delivered = []
    for number in range(1, batches + 1):
        pull, push = random.randrange(1, 20), random.randrange(3)
        at += pull + push + random.randrange(4)
        queued = random.randrange(length + 1)
        delivered.append(Batch(number, pull, push, pull + push, queued, at))
    total = random.randrange(2**23, 2**25)
    resident = random.randrange(2**18, 2**20)
    sampled = delivered[0].at_ms
    device = []
    memory = []
    for _ in range(samples):
        system, user = random.randrange(50), random.randrange(50)
        device.append((random.randrange(60, 200), 100 - system - user, 0, random.randrange(1, 6), system, user))
        resident += random.randrange(64)
        memory.append((2 * resident, resident, resident - random.randrange(4096)))
    return Pipeline(
        interval_ms=10,
        processors=random.choice((2, 8, 96)),
        capacity=length,
        stages=stages,
        batches=tuple(delivered),
        sampled_at_ms=tuple(sampled + 25 * i for i in range(samples)),
        device=tuple(device),
        process=tuple((random.randrange(90), random.randrange(90)) for _ in range(samples - 1)),
        memory_kb=tuple(memory),
        total_kb=total,
    )
