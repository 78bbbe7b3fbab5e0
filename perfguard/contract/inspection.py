"""Inspect a cycle: read its artifacts, check them against schemas and invariants, keep an extract of it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfguard.artifacts.conditions import Expectation, known_conditions
from perfguard.artifacts.layout import FoundCycle
from perfguard.artifacts.readers import NO_DOCUMENT
from perfguard.artifacts.readers.second_process import GZIP_RATIO, second_process
from perfguard.artifacts.readers.trace import stream_trace
from perfguard.artifacts.table import NotKept, PassedTable
from perfguard.artifacts.tables import Batch, batch
from perfguard.artifacts.trace_rows import TraceRows
from perfguard.contract.checks import Check, broken_rules
from perfguard.contract.completeness import contradictions, explanation, layout_findings, relative, stated
from perfguard.contract.progress import Meter, Tell
from perfguard.contract.reading import read_artifacts
from perfguard.dialects.ascend.kernels import kernels_by_cycle
from perfguard.dialects.ascend.repeats import repeated_events, rows_alike
from perfguard.dialects.ascend.view import views_of
from perfguard.dialects.cycle import Artifact, Asked, Cycle
from perfguard.dialects.executions import executions_of
from perfguard.dialects.extract import Extract, extract_of
from perfguard.dialects.listed import listed_executions
from perfguard.dialects.memory import memory_of
from perfguard.dialects.metric_queries import measured
from perfguard.dialects.queries import DIALECTS, all_definitions, definitions, named_texts
from perfguard.dialects.shapes import shapes_of
from perfguard.dialects.work import work_of
from perfguard.findings import Code, Finding, Severity, is_invalid
from perfguard.recording import Recording

if TYPE_CHECKING:
    from perfguard.artifacts.remote import RemoteTree

_Read = TypeVar("_Read")

#: What no recording is at fault for: too many open files, no memory, no space.
_OF_THE_MACHINE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC))
#: The format of traces, which go by.
TRACE = "chrome-trace"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contract:
    """Everything the inspection of one recording found."""

    recording: Recording
    #: The cycles with their artifacts; empty where only extracts were kept (`reduce`).
    cycles: tuple[Cycle, ...]
    findings: tuple[Finding, ...]
    #: What is kept of every cycle in any case.
    extracts: tuple[Extract, ...] = ()
    #: What could not be known, in words; shown by `perfguard check --explain`.
    notes: tuple[str, ...] = field(default=())
    #: Names of the checks that were not made, because they join rows of a table that went by and was not held; see `notes`.
    not_made: tuple[str, ...] = ()
    #: Ids of the parent layouts recognised: directories that only say the rank of what is in them.
    parents: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing found makes the recording INVALID."""
        return not is_invalid(self.findings)

    @property
    def read(self) -> dict[str, int]:
        """How much was looked at: ranks, cycles, files read whole, and rows of their tables."""
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


#: What is taken of a cycle while its artifacts are there, given what was found wrong with it. Its value can be pickled.
Taking = Callable[[Cycle, Sequence[Finding]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of a cycle besides its findings and its extract."""

    #: The cycle itself with all its artifacts, which cannot be sent to another process.
    cycle: bool = False
    notes: bool = True
    taking: Taking | None = None
    #: Checks of the user's own.
    checks: tuple[Check, ...] = ()
    #: How many processes may work at one cycle; None: one, or two where there are as many CPUs to use.
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """One cycle to be inspected: all that has to be known for it, wherever that is done."""

    found: FoundCycle
    #: The recording without its steps.
    recording: Recording
    expected: Expectation
    #: The rank that names tell, before anything was read, and the number of the cycle among that rank's.
    rank: int
    index: int
    asked: Asked
    #: Folders that could not be looked into, relative and with a slash at the end: what lies in them is not missing.
    closed: tuple[str, ...] = ()
    #: How many bytes its files have.
    size: int = 0
    #: Where it lies, when that is no directory of this machine.
    tree: RemoteTree | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspected:
    """What became of a task."""

    extract: Extract
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    #: Names of the checks that were not made, because they need rows of a table that went by.
    not_made: tuple[str, ...] = ()
    cycle: Cycle | None = None


def inspect_cycles(tasks: Sequence[Task], wanted: Wanted, tell: Tell | None = None) -> list[Inspected]:
    """Read, check and reduce some cycles, which share the tables that are asked of all of them at once.

    Never raises for what their files hold; that they cannot be read at all is a finding.
    """
    # A user's check may name any table.
    needed = all_definitions() if wanted.checks else definitions(frozenset(task.found.layout.id for task in tasks))
    with ExitStack() as stack:
        tables = stack.enter_context(batch(needed, named_texts(), size=sum(map(_size_of, tasks))))
        read = [read_cycle(task, number, tables, wanted, stack, tell) for number, task in enumerate(tasks)]
        _ask(tables, [one for one in read if isinstance(one, ReadCycle)], wanted)
        tables.close()
        # Each is let go of once it is inspected.
        waiting = read[::-1]
        del read
        found = []
        while waiting:
            one = waiting.pop()
            found.append(_inspected(one, wanted) if isinstance(one, ReadCycle) else one)
        return found


def _size_of(task: Task) -> int:
    """Return about how many bytes its files have, unpacked."""
    is_packed = any(file.path.suffix == ".gz" for file in task.found.files)
    return task.size * (GZIP_RATIO if is_packed else 1)


def inspect_cycle(task: Task, wanted: Wanted, tell: Tell | None = None) -> Inspected:
    """Read, check and reduce one cycle, as `inspect_cycles` does."""
    return inspect_cycles([task], wanted, tell)[0]


@dataclass(slots=True, kw_only=True, eq=False)
class ReadCycle:
    """A cycle whose artifacts were read, and what is to be said of it so far; `number` is its own in the tables."""

    task: Task
    number: int
    cycle: Cycle
    findings: list[Finding]
    notes: list[str]
    #: Rows of the trace that may be there twice.
    alike: Any = None


def read_cycle(
    task: Task, number: int, tables: Batch, wanted: Wanted, stack: ExitStack, tell: Tell | None
) -> ReadCycle | Inspected:
    """Read the files of a cycle; their rows go into tables under a number. What is fetched for that is there until the stack
    ends."""
    if task.tree is not None:
        from perfguard.artifacts.remote import Unfetched

        try:
            found, here = stack.enter_context(task.tree.at_hand(task.found))
        except Unfetched as error:
            return unseen(task, f"it cannot be fetched: {error}")
        task = replace(task, found=found, recording=replace(task.recording, directory=here), tree=None)
    meter = Meter(tell)
    traces = (file.path for file in task.found.files if file.slot.format == TRACE)
    try:
        with second_process(traces, wanted.processes, (TraceRows.__module__,)) as second:
            stream = partial(stream_trace, second=second)
            read, broken = read_artifacts(task.found, task.recording.directory, stream, meter, tables, number)
        meter.end()
    except OSError as error:
        unread = _unreadable(task, error)
        # What was read of it before is nobody's.
        tables.without(number)
        return unread
    return _known(task, number, read, broken)


def _known(task: Task, number: int, read: Sequence[Artifact], broken: Sequence[Finding]) -> ReadCycle:
    """Return a cycle with what its files say of it, and with what is missing."""
    found, recording = task.found, task.recording
    artifacts = {artifact.slot.name: artifact for artifact in read}
    rank = rank_of(found, artifacts, recording)
    documents = _documents(artifacts)
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
        asked=task.asked,
        parents=found.parents,
    )
    return ReadCycle(task=task, number=number, cycle=cycle, findings=findings, notes=notes)


def _ask(tables: Batch, read: Sequence[ReadCycle], wanted: Wanted) -> None:
    """Ask the tables what the files of the cycles say, what breaks a rule, and what is measured."""
    by_number = derive(tables, read)
    cycles = {number: one.cycle for number, one in by_number.items()}
    for number, findings in broken_rules(tables, cycles).items():
        by_number[number].findings += findings
    for number, rows in rows_alike(tables, cycles).items():
        by_number[number].alike = rows
    for number, values in measured(tables, cycles).items() if wanted.cycle or wanted.taking else ():
        by_number[number].cycle = replace(cycles[number], measured=values)
    if wanted.checks:
        # They are loaded where there are any.
        from perfguard.contract.own_checks import broken_own_rules

        list_cycles(tables, read)
        tables.keep_all()
        every = {one.number: one for one in read}
        for number, finding in broken_own_rules(
            wanted.checks, tables, {number: one.cycle for number, one in every.items()}
        ):
            every[number].findings.append(finding)


def list_cycles(tables: Batch, read: Sequence[ReadCycle], recordings: Sequence[str] = ()) -> None:
    """Put the cycles themselves into their table; `recordings` names that of each, else it is called like its directory."""
    texts = {
        "recording": recordings or [one.task.recording.directory.name for one in read],
        "layout": [one.cycle.layout.id for one in read],
        "place": [relative(one.cycle.place, one.task.recording.directory) or one.cycle.place.name for one in read],
    }
    tables.put(
        "cycles",
        cycle=np.array([one.number for one in read], np.int64),
        rank=np.array([one.cycle.rank for one in read], np.int64),
        # Names that are no UTF-8 are texts as well.
        **{name: np.array([one.encode("utf-8", "backslashreplace").decode() for one in several], dtype=object)
           for name, several in texts.items()},
    )  # fmt: skip


def derive(tables: Batch, read: Sequence[ReadCycle]) -> dict[int, ReadCycle]:
    """Fill the tables that follow from others, and have the files of the cycles say what these hold; return those in tables."""
    by_number = {one.number: one for one in read if one.cycle.layout.id in DIALECTS}
    tables.hand_over()
    for number, work in work_of(tables, {number: one.cycle for number, one in by_number.items()}).items():
        _tell(by_number, DIALECTS[by_number[number].cycle.layout.id].slot, {number: work})
    if trace_views := [number for number, one in by_number.items() if "trace_view" in one.cycle.artifacts]:
        _tell(by_number, "trace_view", views_of(tables, trace_views))
    if kernels := {number: one.cycle for number, one in by_number.items() if "kernel_details" in one.cycle.artifacts}:
        _tell(by_number, "kernel_details", kernels_by_cycle(tables, kernels))
    for number, found in listed_executions(tables, {number: one.cycle for number, one in by_number.items()}).items():
        by_number[number].cycle = replace(by_number[number].cycle, executions=found)
    return by_number


def _tell(read: Mapping[int, ReadCycle], slot: str, works: Mapping[int, Any]) -> None:
    """Put what the rows of a file say into the cycles."""
    for number, work in works.items():
        cycle = read[number].cycle
        old = cycle.artifacts[slot]
        new = replace(old, content=replace(old.content, work=work))
        files = tuple(new if one is old else one for one in cycle.files)
        read[number].cycle = replace(cycle, artifacts={**cycle.artifacts, slot: new}, files=files)


def _unreadable(task: Task, error: OSError) -> Inspected:
    if error.errno in _OF_THE_MACHINE:
        raise error
    # A file that was there when its directory was listed, or a disk that does not give back what is on it.
    return unseen(task, f"it cannot be read: {_reason(error)}")


def _inspected(one: ReadCycle, wanted: Wanted) -> Inspected:
    # They know cycles, and are loaded when there is one.
    from perfguard.dialects.invariants import check_cycle

    task, found, recording = one.task, one.task.found, one.task.recording
    not_made: list[str] = []
    try:
        cycle = _with_executions(one.cycle, not_made)
        wrong = [*check_cycle(cycle, not_made)]
        wrong += repeated_events(cycle, one.alike) if one.alike is not None else ()
    except OSError as error:
        return _unreadable(task, error)
    findings = [*(replace(finding, rank=cycle.rank) for finding in one.findings), *wrong]
    # What may not be listed is not missing.
    findings = [one for one in findings if one.code is not Code.A104 or not one.place.startswith(task.closed)]
    taken = wanted.taking(cycle, findings) if wanted.taking is not None else None
    extract = extract_of(cycle, recording, taken, not_made)
    findings += _not_made(found, recording.directory, cycle.rank, cycle.artifacts, not_made)
    return Inspected(
        extract=extract,
        findings=tuple(findings),
        notes=tuple(one.notes) if wanted.notes else (),
        not_made=tuple(not_made),
        cycle=cycle if wanted.cycle else None,
    )


def _with_executions(cycle: Cycle, not_made: list[str]) -> Cycle:
    """Return a cycle with what ran in it; what could not be read because it needs rows that went by is put into `not_made`."""
    executions = _unless_passed(not_made, executions_of, cycle)
    if executions is None:
        return cycle
    shapes = _unless_passed(not_made, shapes_of, cycle, executions)
    memory = _unless_passed(not_made, memory_of, cycle, executions) or ()
    return replace(cycle, executions=executions, shapes=shapes, memory=memory)


def _unless_passed(not_made: list[str], read: Callable[..., _Read], *arguments: Any) -> _Read | None:
    """Return what a function reads, or None where it needs rows that went by; then its name is noted."""
    try:
        return read(*arguments)
    except NotKept:
        not_made.append(read.__name__)
        return None


def _not_made(
    found: FoundCycle, root: Path, rank: int, artifacts: Mapping[str, Artifact], not_made: Sequence[str]
) -> Iterator[Finding]:
    """Say what was not looked at, because it needs rows of a table that was too large to be kept."""
    tables = ((one, one.content.table) for one in artifacts.values())
    passed = [one for one, table in tables if isinstance(table, PassedTable) and not table.is_in_tables]
    named = f"{len(not_made)} checks need them: {', '.join(not_made)}" if not_made else ""
    files = ", ".join(one.path.name for one in passed)
    parts = [named, f"what {files} holds is in no measurement" if files else ""]
    if message := "; ".join(filter(None, parts)):
        place = relative(found.place, root) or found.place.name
        message = f"the rows of {files} were validated and not kept; {message}"
        yield Finding(code=Code.A112, severity=Severity.WARNING, place=place, rank=rank, message=message)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" ({Path(error.filename).name})" if error.filename else "")


def unseen(task: Task, message: str) -> Inspected:
    """Return what is to be said of a cycle that could not be looked at: it is a finding, and counts as a cycle."""
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
    """Return the rank: from the files' names, the trace itself, the directory above, the recording; else 0."""
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
