"""Distribution: the cycles of a recording are inspected by the workers of an engine, small ones in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from perfguard.contract.inspection import Inspected, Task, Wanted, inspect_cycles, unseen
from perfguard.contract.progress import Progress
from perfguard.contract.reduction import batches, one_by_one
from perfguard.engines import Engine, engine_named

#: Of each worker's work so many parts are made, so that all of them end at about the same time.
_PARTS = 8


#: What inspecting takes, roughly, in CPU seconds: of a cycle however small it is, and of a byte. It decides nothing but
#: whether processes are started.
_CYCLE_S = 0.05
_BYTE_S = 1 / 40e6
#: A process is worth starting where it has so many seconds to do: it takes most of one to load what it needs.
_WORTH_S = 4.0


def inspect_batch(wanted: Wanted, tasks: Sequence[Task]) -> list[Inspected]:
    """Inspect some cycles; this runs in a worker."""
    return inspect_cycles(tasks, wanted)


def distributed(
    tasks: Sequence[Task], wanted: Wanted, *, engine: Engine, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Have cycles inspected by an engine, and yield what became of them in their order.

    A cycle whose worker died twice, the second time with nothing else running in it, is a finding.
    """

    from perfguard.engines.spread import spread

    def tell(batch: Sequence[Task]) -> None:
        if progress is not None:
            progress.tell(sum(task.size for task in batch))

    if progress is not None:
        progress.begin(sum(task.size for task in tasks))
    # The other CPUs have cycles of their own.
    work = partial(inspect_batch, replace(wanted, processes=1))
    yield from spread(work, batches(tasks, parts=engine.jobs * _PARTS), engine, lost=_lost, done=tell)


def beside_each_other(
    tasks: Sequence[Task], wanted: Wanted, *, jobs: int | None = None, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Have cycles inspected by processes of this machine, and in this one where they are not worth it.

    `jobs` is how many; without it as many as there are CPUs to use and work for. One cycle needs no process of its own.
    """
    wanted_jobs = min(jobs or worthwhile_jobs(tasks), len(tasks))
    if wanted_jobs <= 1:
        yield from one_by_one(tasks, replace(wanted, processes=jobs), progress)
        return
    engine = engine_named("local", wanted_jobs, None)
    yield from distributed(tasks, wanted, engine=engine, progress=progress)


def worthwhile_jobs(tasks: Sequence[Task]) -> int:
    """Return how many processes are worth starting for these cycles."""
    seconds = sum(_CYCLE_S + _BYTE_S * task.size for task in tasks)
    if len(tasks) < 2 or seconds < 2 * _WORTH_S:
        return 1
    # What starts processes is loaded where it is needed.
    from perfguard.engines.local import usable_cpus

    return min(usable_cpus(), int(seconds / _WORTH_S))


def _lost(task: Task) -> Inspected:
    return unseen(
        task,
        "the process that looked at it died twice, the second time with nothing else to do: it was killed, or there was not "
        "enough memory",
    )
