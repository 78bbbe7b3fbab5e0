"""Distribution: inspect the cycles of a recording with the workers of an engine, small cycles in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from perfguard.contract.inspection import Inspected, InspectionOptions, Task, inspect_cycles, unreadable_cycle
from perfguard.contract.progress import Progress
from perfguard.contract.reduction import batches, one_by_one
from perfguard.engines import Engine, engine_named

#: The number of parts for each worker, so that all workers end at about the same time.
_PARTS = 8
#: Rough CPU seconds of an inspection: for each cycle, and for each byte. They decide only whether processes are started.
_CYCLE_S = 0.05
_BYTE_S = 1 / 40e6
#: The CPU seconds of work for which a process is worth starting: loading its modules takes most of one second.
_WORTH_S = 4.0


def inspect_batch(options: InspectionOptions, tasks: Sequence[Task]) -> list[Inspected]:
    """Inspect a batch of cycles in a worker."""
    return inspect_cycles(tasks, options)


def distributed(
    tasks: Sequence[Task], options: InspectionOptions, *, engine: Engine, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Inspect cycles with an engine, and yield the results in their order.

    A cycle whose worker died twice, the second time while it ran this cycle alone, becomes a finding.
    """
    from perfguard.engines.spread import spread

    def report(batch: Sequence[Task]) -> None:
        if progress is not None:
            progress.report(sum(task.size for task in batch))

    if progress is not None:
        progress.begin(sum(task.size for task in tasks))
    # The other CPUs work on other cycles.
    work = partial(inspect_batch, replace(options, processes=1))
    yield from spread(work, batches(tasks, parts=engine.jobs * _PARTS), engine, lost=_lost, done=report)


def in_parallel(
    tasks: Sequence[Task], options: InspectionOptions, *, jobs: int | None = None, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Inspect cycles in processes of this machine, or in this process if others are not worth starting.

    `jobs` is the number of processes; by default it follows from the usable CPUs and the amount of work.
    """
    wanted_jobs = min(jobs or worthwhile_jobs(tasks), len(tasks))
    if wanted_jobs <= 1:
        yield from one_by_one(tasks, replace(options, processes=jobs), progress)
        return
    engine = engine_named("local", wanted_jobs, None)
    yield from distributed(tasks, options, engine=engine, progress=progress)


def worthwhile_jobs(tasks: Sequence[Task]) -> int:
    """Return the number of processes that are worth starting for these cycles."""
    seconds = sum(_CYCLE_S + _BYTE_S * task.size for task in tasks)
    if len(tasks) < 2 or seconds < 2 * _WORTH_S:
        return 1
    from perfguard.engines.local import usable_cpus

    return min(usable_cpus(), int(seconds / _WORTH_S))


def _lost(task: Task) -> Inspected:
    return unreadable_cycle(
        task,
        "the process that inspected it died twice, the second time on this cycle alone: it was killed, or there was not "
        "enough memory",
    )
