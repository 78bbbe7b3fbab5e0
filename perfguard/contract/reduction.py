"""Reduction: inspect a recording cycle by cycle, in this process or in others, and combine the results.

`inspect` keeps every cycle with its artifacts; `reduce` keeps an extract of each cycle, so that memory does not grow with the
number of ranks. Both return results in the order of the survey. `distributed` inspects cycles with the workers of an engine.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.artifacts.conditions import Expectation
from perfguard.artifacts.foreign import described
from perfguard.artifacts.layout import Layout, layouts
from perfguard.artifacts.readers import OPAQUE
from perfguard.artifacts.survey import FoundCycle, Survey, head, listed_in, size_of, survey
from perfguard.contract.inspection import (
    Contract,
    Inspected,
    InspectionOptions,
    Measure,
    Task,
    inspect_cycles,
    rank_of,
    unreadable_cycle,
)
from perfguard.contract.progress import Meter, Progress
from perfguard.dialects.cycle import Cycle, Requested
from perfguard.dialects.extract import Extract, Sharing
from perfguard.dialects.invariants.whole_recording import check_recording, missing_ranks
from perfguard.engines import Engine, engine_named
from perfguard.errors import listed
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import PROFILER_DIRECTORY, RECORDING_FILE, Ending, Recording
from perfguard.window import Phase

if TYPE_CHECKING:
    from perfguard.artifacts.remote import RemoteTree
    from perfguard.contract.checks import Check

#: Inspects tasks, and yields the results in their order.
Visit = Callable[[Sequence[Task], InspectionOptions], Iterator[Inspected]]


def inspect(recording: Recording, expected: Expectation | None = None, only: Layout | None = None) -> Contract:
    """Inspect a recording and everything its profiler wrote, in this process; every cycle keeps its artifacts.

    `expected` gives the conditions and the number of ranks that the caller expects; with `only`, the directory is inspected as
    that layout. Never raises for the content of the directory; raises `StoreError` if perfguard's own schemas are missing.
    """
    return _Inspection(recording, expected or Expectation(), only).run(InspectionOptions(cycle=True), one_by_one)


def reduce(
    recording: Recording,
    expected: Expectation | None = None,
    only: Layout | None = None,
    *,
    notes: bool = True,
    measure: Measure | None = None,
    checks: tuple[Check, ...] = (),
    visit: Visit | None = None,
    progress: Progress | None = None,
    tree: RemoteTree | None = None,
) -> Contract:
    """Inspect a recording as `inspect` does, but keep only the extract of each cycle, with the result of `measure`.

    `checks` are users' checks. `visit` inspects the cycles elsewhere; without it they are inspected here, and `progress` is
    called while files are read. Without `notes`, undecided requirements are not kept. `tree` is the remote file system of the
    recording's directory, if it has one.
    """
    options = InspectionOptions(notes=notes, measure=measure, checks=checks)
    here = partial(one_by_one, progress=progress)
    return _Inspection(recording, expected or Expectation(), only, tree).run(options, visit or here)


def tasks_of(recording: Recording, tree: RemoteTree | None = None) -> tuple[list[Task], tuple[Finding, ...]]:
    """Return a task for each cycle of a recording, and the findings about what could not be listed."""
    inspection = _Inspection(recording, Expectation(), None, tree)
    found = inspection.survey()
    return inspection.tasks(found.cycles), found.findings


#: The largest size of a batch in bytes and in cycles: small ranks share a batch, a large rank has its own.
_LARGEST_BATCH = 16 * 1024**2
_MOST_OF_A_BATCH = 64


def batches(tasks: Sequence[Task], *, parts: int = 1) -> Iterator[list[Task]]:
    """Split tasks into batches in their order, into at least `parts` if there are enough tasks."""
    most_bytes = min(_LARGEST_BATCH, sum(task.size for task in tasks) // parts)
    most = max(1, min(_MOST_OF_A_BATCH, len(tasks) // parts))
    batch: list[Task] = []
    held = 0
    for task in tasks:
        if batch and (len(batch) >= most or held + task.size > max(most_bytes, 1)):
            yield batch
            batch, held = [], 0
        batch.append(task)
        held += task.size
    if batch:
        yield batch


def one_by_one(
    tasks: Sequence[Task], options: InspectionOptions, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Inspect cycles in this process, one batch after the other."""
    if progress is not None:
        progress.begin(sum(task.size for task in tasks))
    for batch in batches(tasks):
        meter = Meter(progress.report if progress is not None else None)
        meter.begin(sum(task.size for task in batch))
        yield from inspect_cycles(batch, options, meter.report)
        meter.end()


#: The number of parts for each worker, so that all workers end at about the same time.
_PARTS = 8
#: Rough CPU seconds of an inspection: for each cycle, and for each byte. They decide only whether processes are started.
_CYCLE_S = 0.05
_BYTE_S = 1 / 40e6
#: The CPU seconds of work for which a process is worth starting: loading its modules takes most of one second.
_WORTH_S = 4.0


def _inspect_batch(options: InspectionOptions, tasks: Sequence[Task]) -> list[Inspected]:
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
    yield from spread(
        partial(_inspect_batch, options), batches(tasks, parts=engine.jobs * _PARTS), engine, lost=_lost, done=report
    )


def in_parallel(
    tasks: Sequence[Task], options: InspectionOptions, *, jobs: int | None = None, progress: Progress | None = None
) -> Iterator[Inspected]:
    """Inspect cycles in processes of this machine, or in this process if others are not worth starting.

    `jobs` is the number of processes; by default it follows from the usable CPUs and the amount of work.
    """
    processes = min(jobs or worthwhile_jobs(tasks), len(tasks))
    if processes <= 1:
        yield from one_by_one(tasks, options, progress)
        return
    engine = engine_named("local", processes, None)
    yield from distributed(tasks, options, engine=engine, progress=progress)


def worthwhile_jobs(tasks: Sequence[Task]) -> int:
    """Return the number of processes that are worth starting for these cycles."""
    seconds = sum(_CYCLE_S + _BYTE_S * task.size for task in tasks)
    if len(tasks) < 2 or seconds < 2 * _WORTH_S:
        return 1
    from perfguard.engines.local import usable_cpus

    return min(usable_cpus(), int(seconds / _WORTH_S))


def _profiler_not_linked(found: Survey, recording: Recording) -> Survey:
    """Return the survey of a recording, where a link in the place of the profiler's directory is an error, and no note."""
    if recording.fingerprint is None:
        return found
    findings = tuple(
        replace(one, severity=Severity.ERROR) if (one.code, one.place) == (Code.A109, PROFILER_DIRECTORY) else one
        for one in found.findings
    )
    return replace(found, findings=findings)


def _lost(task: Task) -> Inspected:
    return unreadable_cycle(
        task,
        "the process that inspected it died twice, the second time on this cycle alone: it was killed, or there was not "
        "enough memory",
    )


@dataclass(frozen=True, slots=True)
class _Inspection:
    recording: Recording
    expected: Expectation
    only: Layout | None
    tree: RemoteTree | None = None

    @property
    def directory(self) -> Path:
        """The directory of the profiler's output."""
        inside = self.recording.directory / PROFILER_DIRECTORY
        if self.tree is None or self.recording.fingerprint is None or not self.tree.is_folder(inside):
            return self.recording.profiler_directory
        return inside

    def survey(self) -> Survey:
        """Find the cycles."""
        if self.recording.leads_out:
            where = "that leads out of the directory" if self.tree is None else "of another file system"
            finding = Finding(code=Code.A109, message=f"it is a link {where}: it is not read")
            return Survey(cycles=(), parents=(), findings=(finding,))
        if self.tree is None:
            with self.recording.confined():
                found = survey(self.directory, self.only, without=self.recording.without)
                return _profiler_not_linked(found, self.recording)
        listing = self.tree.listing(self.directory)
        return survey(self.directory, self.only, listing=listing, read=self.tree.head, without=self.recording.without)

    def run(self, options: InspectionOptions, visit: Visit) -> Contract:
        """Survey, visit, reduce."""
        recording, expected = self.recording, self.expected
        directory = self.directory
        found = self.survey()
        findings: list[Finding] = list(found.findings)
        # A recording that did not complete has its own finding.
        is_explained = recording.ending not in (None, Ending.COMPLETE)
        if not found.cycles and not is_explained and not recording.leads_out:
            known = f"{len(layouts())} known layouts, see: perfguard schema list"
            otherwise = f"nothing here looks like the output of a known profiler ({known})"
            findings.append(
                Finding(
                    code=Code.A101,
                    place=str(directory) if self.tree is None else self.tree.shown,
                    message=_described(recording, directory, self.tree) or otherwise,
                )
            )
        findings += _empty_parents(found, recording.directory)
        closed = tuple(f"{finding.place}/" for finding in found.findings if finding.code is Code.A109)
        tasks = self.tasks(found.cycles, closed)
        parents = tuple(parent.layout.id for parent in found.parents)
        del found
        notes: list[str] = []
        cycles: list[Cycle] = []
        extracts: list[Extract] = []
        sharing = Sharing()
        for one in self._with_true_ranks(tasks, options, visit):
            findings += one.findings
            notes += one.notes
            extracts.append(sharing.shared(one.extract))
            if one.cycle is not None:
                cycles.append(one.cycle)
        findings += check_recording(recording, tuple(extracts))
        findings += _missing_ranks(extracts, expected)
        findings += _other_cycles(extracts, expected)
        findings += _unmet_numbers(extracts, expected)
        findings += _other_steps(recording, expected, notes)
        return Contract(
            recording=recording,
            cycles=tuple(cycles),
            extracts=tuple(extracts),
            findings=tuple(findings),
            notes=tuple(notes),
            parents=parents,
        )

    def tasks(self, found: Iterable[FoundCycle], closed: tuple[str, ...] = ()) -> list[Task]:
        """Return one task for each cycle, with the rank from names and the index of the cycle among those of its rank."""
        # Tasks are pickled: each carries its own steps only.
        plain = replace(self.recording, steps=())
        counts: dict[int, int] = defaultdict(int)
        size = size_of if self.tree is None else self.tree.size
        tasks = []
        for one in found:
            rank = rank_of(one, {}, self.recording)
            index = counts[rank]
            counts[rank] += not one.layout.nests
            tasks.append(
                Task(
                    found=one,
                    recording=plain,
                    expected=self.expected,
                    rank=rank,
                    index=index,
                    requested=self._requested(one, rank, index),
                    closed=closed,
                    tree=self.tree,
                    size=sum(size(file.path) for file in one.files if file.slot.format != OPAQUE),
                )
            )
        return tasks

    def _with_true_ranks(self, tasks: Sequence[Task], options: InspectionOptions, visit: Visit) -> Iterator[Inspected]:
        """Yield the results of the tasks; a cycle whose files give another rank than its name is inspected again.

        That is rare: only a recording made by perfguard has requested steps for each rank, and it names its ranks itself.
        """
        counts: dict[int, int] = defaultdict(int)
        for task, one in zip(tasks, visit(tasks, options), strict=True):
            rank = one.extract.rank
            index = counts[rank]
            counts[rank] += one.extract.is_window
            requested = self._requested(task.found, rank, index)
            if requested != task.requested:
                (one,) = inspect_cycles([replace(task, rank=rank, index=index, requested=requested)], options)
            elif one.cycle is not None and one.cycle.index != index:
                one = replace(one, cycle=replace(one.cycle, index=index))
            yield one

    def _requested(self, found: FoundCycle, rank: int, index: int) -> Requested:
        recording, expected = self.recording, self.expected
        if recording.fingerprint is not None:
            # In a recording of one rank, steps need no rank.
            of_rank = rank if recording.rank is None else None
            steps = recording.steps_of(Phase.ACTIVE, cycle=index, rank=of_rank)
            active = recording.window.active if recording.window else None
            return Requested(active=active, steps=steps, period=recording.period)
        named = next((parent.steps for parent in found.parents if parent.steps is not None), None)
        return Requested(active=expected.steps if expected.steps is not None else named, numbers=expected.numbers)


#: The number of files of an unknown directory that are looked at.
_LOOKED_AT = 1000


def _described(recording: Recording, directory: Path, tree: RemoteTree | None) -> str:
    """Return what a directory of no known layout holds, and what makes it readable; an empty text if that is not known."""
    if re.match(r"(ASCEND_PROFILER_OUTPUT|FRAMEWORK|PROF_.*)$", directory.name):
        return "this is a part of a recording: name the directory above it"
    if tree is not None:
        return ""
    with recording.confined():
        return described(listed_in(directory).files[:_LOOKED_AT], lambda path: head(directory / path))


def _empty_parents(found: Survey, root: Path) -> Iterator[Finding]:
    held = {parent.place for cycle in found.cycles for parent in cycle.parents}
    # log/rank_0 is unrelated to profile/rank_0.
    siblings = {place.parent for place in held}
    for parent in found.parents:
        if parent.place not in held and (parent.place.parent in siblings or not held):
            yield Finding(
                code=Code.A101,
                place=parent.place.relative_to(root).as_posix(),
                rank=parent.rank,
                message=f"its name says rank {parent.rank} ({parent.layout.id}), but it has no profiler output",
            )


def _missing_ranks(extracts: list[Extract], expected: Expectation) -> Iterator[Finding]:
    if expected.ranks is None:
        return
    there = {extract.rank for extract in extracts}
    # A node of a cluster has its own ranks only: 8 to 15 are eight ranks too.
    first = min(there, default=0)
    is_node = first % expected.ranks == 0 and len(there) > 1 and max(there) < first + expected.ranks
    required = range(first, first + expected.ranks) if is_node else range(expected.ranks)
    yield from missing_ranks(required, there, f"ranks={expected.ranks} is expected")
    if extra := sorted(rank for rank in there if rank not in required):
        named = listed(extra)
        message = f"ranks={expected.ranks} is expected, but there is output of rank {named} as well"
        yield Finding(code=Code.A106, message=message, place=f"rank {named}", rank=extra[0])


def _other_cycles(extracts: list[Extract], expected: Expectation) -> Iterator[Finding]:
    """Yield a finding for each rank that does not have the expected number of cycles."""
    if expected.cycles is None:
        return
    counts = Counter({extract.rank: 0 for extract in extracts})
    counts.update(extract.rank for extract in extracts if extract.is_window)
    for rank, count in sorted(counts.items()):
        if count != expected.cycles:
            message = f"cycles={expected.cycles} is expected, but rank {rank} has {count}"
            yield Finding(code=Code.A110, place=f"rank {rank}", rank=rank, message=message)


def _other_steps(recording: Recording, expected: Expectation, notes: list[str]) -> Iterator[Finding]:
    """Yield a finding if another number of steps is expected than the recording was made for.

    Its cycles are judged by the recording's own window, which knows more than a number.
    """
    if recording.fingerprint is None or expected.steps is None:
        return
    if recording.window is None:
        notes.append(f"cannot tell whether steps={expected.steps} were profiled: the window was the script's own")
    elif (active := recording.window.active) != expected.steps:
        message = f"steps={expected.steps} is expected, but the window of the recording has {active}"
        yield Finding(code=Code.A110, place=RECORDING_FILE, message=message)


def _unmet_numbers(extracts: list[Extract], expected: Expectation) -> Iterator[Finding]:
    """Yield a finding if numbers are expected but the file that has them is missing."""
    if expected.numbers and not any(extract.layout == "summary" for extract in extracts):
        numbers = ", ".join(f"{name}={number}" for name, number in expected.numbers.items())
        yield Finding(code=Code.A110, place="summary", message=f"{numbers} is expected, but there is no summary file")
