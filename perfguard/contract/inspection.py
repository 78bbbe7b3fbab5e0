"""Inspection: read the artifacts of a cycle, check them, and keep an extract."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.conditions import Expectation, known_conditions
from perfguard.artifacts.readers import NO_DOCUMENT
from perfguard.artifacts.survey import FoundCycle, FoundFile, size_of
from perfguard.artifacts.table import in_int64
from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, batch
from perfguard.contract.checks import Check, broken_rules
from perfguard.contract.completeness import contradictions, explanation, layout_findings, relative, stated
from perfguard.contract.progress import Meter, Report
from perfguard.contract.reading import read_artifacts
from perfguard.dialects.ascend.kernels import kernels_by_cycle
from perfguard.dialects.ascend.repeats import repeated_events, rows_alike
from perfguard.dialects.cycle import Artifact, Cycle, Requested
from perfguard.dialects.extract import Extract, extract_of
from perfguard.dialects.listed import listed_executions
from perfguard.dialects.memory import fill_levels, memory_of
from perfguard.dialects.metric_queries import measured
from perfguard.dialects.queries import DIALECTS, all_definitions, definitions, named_texts
from perfguard.dialects.spans import fastest_spans
from perfguard.dialects.work import work_of
from perfguard.findings import Code, Finding, is_invalid
from perfguard.recording import Recording

if TYPE_CHECKING:
    from perfguard.artifacts.remote import RemoteTree

#: Ranks whose fastest step is kept span by span: a job of 1024 ranks would fill the memory.
_RANKS_WITH_SPANS = 8
#: How much longer a trace is than in gzip, about.
_GZIP_RATIO = 8
#: Errors of the machine, not of a recording: too many open files, no memory, no space.
_OF_THE_MACHINE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contract:
    """The result of inspecting a recording."""

    recording: Recording
    #: The cycles with their artifacts; empty where only extracts were kept (`reduce`).
    cycles: tuple[Cycle, ...]
    findings: tuple[Finding, ...]
    #: The extract of every cycle.
    extracts: tuple[Extract, ...] = ()
    #: What could not be decided; shown by `perfguard check --explain`.
    notes: tuple[str, ...] = field(default=())
    #: Ids of the recognised parent layouts: directories that only give the rank of the cycles in them.
    parents: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether no finding makes the recording INVALID."""
        return not is_invalid(self.findings)

    @property
    def read(self) -> dict[str, int]:
        """How much was read: ranks, cycles, files and rows."""
        return {
            "ranks": len({extract.rank for extract in self.extracts}),
            "cycles": len(self.extracts),
            "files": sum(extract.files for extract in self.extracts),
            "rows": sum(extract.rows for extract in self.extracts),
        }

    @property
    def layouts(self) -> tuple[str, ...]:
        """Ids of the layouts recognised."""
        return tuple(sorted({extract.layout for extract in self.extracts} | set(self.parents)))


#: Measures a cycle while its artifacts are open, given its findings. The result can be pickled.
Measure = Callable[[Cycle, Sequence[Finding]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOptions:
    """What to return for a cycle besides its findings and its extract."""

    #: The cycle itself with all its artifacts; it cannot be sent to another process.
    cycle: bool = False
    notes: bool = True
    measure: Measure | None = None
    #: Users' checks.
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A cycle to be inspected, with everything that a worker needs for it."""

    found: FoundCycle
    #: The recording without its steps.
    recording: Recording
    expected: Expectation
    #: The rank from names, before a file is read, and the number of the cycle among those of the rank.
    rank: int
    index: int
    requested: Requested
    #: Folders that could not be listed, relative and with a slash at the end: files in them are not missing.
    closed: tuple[str, ...] = ()
    #: The size of its files in bytes.
    size: int = 0
    #: The remote file system of the cycle, if it is not local.
    tree: RemoteTree | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspected:
    """The result of a task."""

    extract: Extract
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    cycle: Cycle | None = None


def inspect_cycles(tasks: Sequence[Task], options: InspectionOptions, report: Report | None = None) -> list[Inspected]:
    """Read, check and reduce cycles; they share one set of tables, so that each query runs once for all of them.

    Never raises for the content of files; a file that cannot be read is a finding.
    """
    # A user's check may refer to any table.
    needed = all_definitions() if options.checks else definitions(frozenset(task.found.layout.id for task in tasks))
    with ExitStack() as stack:
        tables = stack.enter_context(batch(needed, named_texts(), size=sum(map(_size_of, tasks))))
        read = [read_cycle(task, number, tables, options, stack, report) for number, task in enumerate(tasks)]
        _run_queries(tables, [one for one in read if isinstance(one, ReadCycle)], options)
        tables.close()
        # Each cycle is released once it is inspected.
        waiting = read[::-1]
        del read
        found = []
        while waiting:
            one = waiting.pop()
            found.append(_inspected(one, options) if isinstance(one, ReadCycle) else one)
        return found


def _size_of(task: Task) -> int:
    """Return the approximate unpacked size of the files of a task, in bytes."""
    is_packed = any(file.path.suffix == ".gz" for file in task.found.files)
    return task.size * (_GZIP_RATIO if is_packed else 1)


@dataclass(slots=True, kw_only=True, eq=False)
class ReadCycle:
    """A cycle whose artifacts were read, with the findings so far; `number` identifies it in the tables."""

    task: Task
    number: int
    cycle: Cycle
    findings: list[Finding]
    notes: list[str]
    #: Rows of the trace that may be duplicates.
    alike: Any = None


def read_cycle(
    task: Task, number: int, tables: Batch, options: InspectionOptions, stack: ExitStack, report: Report | None
) -> ReadCycle | Inspected:
    """Read the files of a cycle into tables, under a number. Fetched files exist until the stack is closed."""
    if task.tree is not None:
        from perfguard.artifacts.remote import Unfetched

        try:
            found, here = stack.enter_context(task.tree.fetched(task.found))
        except Unfetched as error:
            return unreadable_cycle(task, f"it cannot be fetched: {error}")
        task = replace(task, found=found, recording=replace(task.recording, directory=here), tree=None)
    meter = Meter(report)
    try:
        with task.recording.confined():
            read, broken = read_artifacts(task.found, task.recording.directory, meter, tables, number)
        meter.end()
    except OSError as error:
        unread = _unreadable(task, error)
        # Rows of a cycle that cannot be inspected would be judged as complete.
        tables.without(number)
        return unread
    _list_files(tables, number, task.found.files, read)
    return _known(task, number, read, broken)


def _known(task: Task, number: int, read: Sequence[Artifact], broken: Sequence[Finding]) -> ReadCycle:
    """Return a cycle with its rank, its conditions, and the findings about missing files."""
    found, recording = task.found, task.recording
    artifacts = {artifact.slot.name: artifact for artifact in read}
    rank = rank_of(found, artifacts, recording)
    documents = _documents(artifacts)
    with recording.confined():
        conditions = known_conditions(found, documents, stated(recording, task.expected))
    notes = [*explanation(found, recording.directory, rank, conditions)]
    findings = [
        *contradictions(found, recording, documents, task.expected),
        *layout_findings(found, recording.directory, conditions, notes),
        *broken,
    ]
    cycle = Cycle(
        layout=found.layout,
        place=found.place,
        rank=rank,
        index=task.index,
        artifacts=artifacts,
        files=tuple(read),
        conditions={name: known.value for name, known in conditions.items()},
        requested=task.requested,
        parents=found.parents,
    )
    return ReadCycle(task=task, number=number, cycle=cycle, findings=findings, notes=notes)


def _run_queries(tables: Batch, read: Sequence[ReadCycle], options: InspectionOptions) -> None:
    """Run the queries on the tables: derived tables, checks, metrics and users' checks."""
    by_number = derive(tables, read)
    cycles = {number: one.cycle for number, one in by_number.items()}
    for number, findings in broken_rules(tables, cycles).items():
        by_number[number].findings += findings
    for number, rows in rows_alike(tables, cycles).items():
        by_number[number].alike = rows
    measures = options.cycle or options.measure is not None
    if measures or options.checks:
        fill_levels(tables, {number: one.cycle for number, one in by_number.items()})
    if measures:
        for number, cycle in _measured(tables, cycles).items():
            by_number[number].cycle = cycle
    if options.checks:
        from perfguard.contract.own_checks import broken_own_rules

        tables.keep_all()
        every = {one.number: one for one in read}
        own = broken_own_rules(options.checks, tables, {number: one.cycle for number, one in every.items()})
        for number, finding in own:
            every[number].findings.append(finding)


def _measured(tables: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Cycle]:
    """Return the cycles with what is measured of them."""
    ran = {number: one for number, one in cycles.items() if one.executions is not None}
    values = measured(tables, cycles)
    memory = memory_of(tables, ran)
    shown = [number for number, one in ran.items() if one.rank < _RANKS_WITH_SPANS]
    spans = fastest_spans(tables, shown)
    return {
        number: replace(one, measured=values.get(number, {}), memory=memory.get(number, ()), spans=spans.get(number))
        for number, one in cycles.items()
    }


def derive(tables: Batch, read: Sequence[ReadCycle], recordings: Sequence[str] = ()) -> dict[int, ReadCycle]:
    """Fill the derived tables, and attach what ran to the cycles; return those that have tables, by number.

    `recordings` names the recording of each cycle; the default is the name of its directory.
    """
    names = recordings or [one.task.recording.directory.name for one in read]
    _list_cycles(tables, names, {one.number: one.cycle for one in read}, [one.task.recording.directory for one in read])
    by_number = {one.number: one for one in read if one.cycle.layout.id in DIALECTS}
    tables.hand_over()
    cycles = {number: one.cycle for number, one in by_number.items()}
    devices = [number for number, one in cycles.items() if "kernel_details" in one.artifacts]
    executions = work_of(tables, cycles)
    executions |= {**kernels_by_cycle(tables, devices), **listed_executions(tables, cycles)}
    for number, found in executions.items():
        by_number[number].cycle = replace(cycles[number], executions=found)
        differ = bool(found.counts.odd_steps) and found.is_complete
        tables.add(
            "windows", number, steps=_integers([found.steps]), by_step=np.array([found.by_step]),
            steps_differ=np.array([differ]), is_timeline=np.array([found.is_timeline]), on_device=np.array([found.on_device]),
        )  # fmt: skip
    tables.hand_over()
    return by_number


def _unreadable(task: Task, error: OSError) -> Inspected:
    if error.errno in _OF_THE_MACHINE:
        raise error
    # The file was removed after its directory was listed, or the disk has an error.
    file = f" ({Path(error.filename).name})" if error.filename else ""
    return unreadable_cycle(task, f"it cannot be read: {error.strerror or error}{file}")


def _inspected(one: ReadCycle, options: InspectionOptions) -> Inspected:
    from perfguard.dialects.invariants import check_cycle

    task, recording = one.task, one.task.recording
    try:
        cycle = one.cycle
        with recording.confined():
            wrong = [*check_cycle(cycle)]
        wrong += repeated_events(cycle, one.alike) if one.alike is not None else ()
    except OSError as error:
        return _unreadable(task, error)
    findings = [*(replace(finding, rank=cycle.rank) for finding in one.findings), *wrong]
    # A file in a folder that cannot be listed is not missing.
    findings = [one for one in findings if one.code is not Code.A104 or not one.place.startswith(task.closed)]
    measurements = options.measure(cycle, findings) if options.measure is not None else None
    extract = extract_of(cycle, recording, measurements)
    return Inspected(
        extract=extract,
        findings=tuple(findings),
        notes=tuple(one.notes) if options.notes else (),
        cycle=cycle if options.cycle else None,
    )


def unreadable_cycle(task: Task, message: str) -> Inspected:
    """Return the result for a cycle that could not be inspected: a finding, and an extract that counts as a cycle."""
    found = task.found
    place = relative(found.place, task.recording.directory) or found.place.name
    extract = Extract(
        layout=found.layout.id,
        name=found.place.name,
        rank=task.rank,
        is_window=not found.layout.nests,
        rank_above=next((parent.rank for parent in found.parents if parent.rank is not None), None),
    )
    return Inspected(extract=extract, findings=(Finding(code=Code.A111, place=place, rank=task.rank, message=message),))


def _documents(artifacts: Mapping[str, Artifact]) -> dict[str, Any]:
    found = {slot: artifact.content.document for slot, artifact in artifacts.items()}
    return {slot: document for slot, document in found.items() if document is not NO_DOCUMENT}


def rank_of(found: FoundCycle, artifacts: Mapping[str, Artifact], recording: Recording) -> int:
    """Return the rank from file names, the trace, the directory above or the recording, in this order; else 0."""
    ranks = [file.rank for file in found.files if file.rank is not None]
    if ranks:
        return ranks[0]
    for artifact in artifacts.values():
        document = artifact.content.document
        distributed = document.get("distributedInfo") if isinstance(document, dict) else None
        if isinstance(distributed, dict) and isinstance(rank := distributed.get("rank"), int):
            return rank
    above = next((parent.rank for parent in found.parents if parent.rank is not None), None)
    return above if above is not None else recording.rank or 0


def _list_cycles(tables: Batch, recordings: Sequence[str], cycles: Mapping[int, Cycle], roots: Sequence[Path]) -> None:
    """Add cycles to their table, each with the name and the directory of its recording."""
    several = cycles.values()
    places = [relative(one.place, root) or one.place.name for one, root in zip(several, roots, strict=True)]
    tables.put(
        "cycles",
        cycle=_integers([*cycles]),
        recording=_texts(recordings),
        rank=_integers([one.rank for one in several]),
        layout=_texts([one.layout.id for one in several]),
        place=_texts(places),
        requested_steps=_integers([one.requested.active for one in several]),
        recorded_steps=_integers([len(one.requested.steps) or None for one in several]),
    )
    for number, cycle in cycles.items():
        numbers = cycle.requested.numbers
        tables.add("requested_numbers", number, name=_texts([*numbers]), number=_integers([*numbers.values()]))
        steps = cycle.requested.steps
        wall_ns = _integers([step.wall_ns for step in steps])
        tables.add("driven_steps", number, step=np.arange(len(steps)), wall_ns=wall_ns)


def _list_files(tables: Batch, number: int, files: Sequence[FoundFile], read: Sequence[Artifact]) -> None:
    """Add the files of a cycle to their table."""
    of_slot = Counter[str]()
    numbers = {}
    for one in read:
        numbers[one.path] = of_slot[one.slot.name]
        of_slot[one.slot.name] += 1
        if one.slot.format == "log":
            rows, lines = zip(*one.content.document, strict=True) if one.content.document else ((), ())
            file = np.full(len(rows), numbers[one.path])
            tables.add("log_lines", number, file=file, row=_integers(rows), line=np.array(lines, dtype=object))
    tables.add(
        "files",
        number,
        slot=_texts([one.slot.name for one in files]),
        file=_integers([numbers.get(one.path) for one in files]),
        name=_texts([one.path.name for one in files]),
        rank=_integers([one.rank for one in files]),
        bytes=_integers([size_of(one.path) for one in files]),
    )


def _texts(several: Sequence[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
    # A file name may be invalid UTF-8.
    return np.array([one.encode("utf-8", "backslashreplace").decode() for one in several], dtype=object)


def _integers(several: Sequence[int | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([NULL if one is None else in_int64(one) for one in several], np.int64)
