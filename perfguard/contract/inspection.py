"""Inspect a cycle: read its artifacts, check them against schemas and invariants, keep an extract of it."""

from __future__ import annotations

import errno
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perfguard.artifacts.conditions import (
    Expectation,
    Known,
    contradicted,
    evaluate,
    known_conditions,
    parts_of,
    undecided,
    worded,
)
from perfguard.artifacts.layout import MAX_FILES_OF_SLOT, FoundCycle, FoundFile, Layout, Slot, size_of
from perfguard.artifacts.readers import NO_DOCUMENT, OPAQUE, READERS, Content, large_comma
from perfguard.artifacts.readers.second_process import GZIP_RATIO, second_process
from perfguard.artifacts.readers.trace import Streamed, stream_trace
from perfguard.artifacts.schema import (
    WORDED_ROWS,
    RowSchema,
    documents_in_cells,
    row_schema,
    unnamed_columns,
)
from perfguard.artifacts.table import Cells, NotKept, PassedTable, Table, Unreadable
from perfguard.artifacts.tables import Batch, batch
from perfguard.artifacts.trace_rows import TraceRows
from perfguard.contract.checks import broken_rules
from perfguard.contract.progress import Meter, Tell
from perfguard.dialects import folds_of_tables
from perfguard.dialects.ascend.listed import list_rows
from perfguard.dialects.ascend.repeats import repeated_events, rows_alike
from perfguard.dialects.ascend.view import views_of
from perfguard.dialects.cycle import Artifact, Asked, Cycle
from perfguard.dialects.executions import executions_of
from perfguard.dialects.extract import Extract, extract_of
from perfguard.dialects.folds_of_tables import JOINED, JOINED_UP_TO, KEPT_UP_TO, Kept
from perfguard.dialects.memory import memory_of
from perfguard.dialects.queries import DIALECTS, named_texts, views
from perfguard.dialects.shapes import shapes_of
from perfguard.dialects.torch.work import work_of
from perfguard.documents import schema
from perfguard.findings import Code, Finding, Severity, is_invalid
from perfguard.recording import Recording

if TYPE_CHECKING:
    from perfguard.artifacts.readers.event_schema import EventSchema
    from perfguard.artifacts.remote import RemoteTree

_Read = TypeVar("_Read")

_LONGEST_MESSAGE = 300
#: How many files without a slot a finding names.
_NAMED = 8
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


#: Reads a trace (`stream_trace`), told how.
Stream = Callable[..., Streamed]

#: What is taken of a cycle while its artifacts are there, given what was found wrong with it. Its value can be pickled.
Taking = Callable[[Cycle, Sequence[Finding]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of a cycle besides its findings and its extract."""

    #: The cycle itself with all its artifacts, which cannot be sent to another process.
    cycle: bool = False
    notes: bool = True
    taking: Taking | None = None
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
    with ExitStack() as stack:
        tables = stack.enter_context(batch(views(), named_texts(), size=sum(map(_size_of, tasks))))
        read = [_read_cycle(task, number, tables, wanted, stack, tell) for number, task in enumerate(tasks)]
        _ask(tables, [one for one in read if isinstance(one, _ReadCycle)])
        tables.close()
        # Each is let go of once it is inspected.
        waiting = read[::-1]
        del read
        found = []
        while waiting:
            one = waiting.pop()
            found.append(_inspected(one, wanted) if isinstance(one, _ReadCycle) else one)
        return found


def _size_of(task: Task) -> int:
    """Return about how many bytes its traces have."""
    return sum(
        size_of(file.path) * (GZIP_RATIO if file.path.suffix == ".gz" else 1)
        for file in task.found.files
        if file.slot.format == TRACE and task.tree is None
    )


def inspect_cycle(task: Task, wanted: Wanted, tell: Tell | None = None) -> Inspected:
    """Read, check and reduce one cycle, as `inspect_cycles` does."""
    return inspect_cycles([task], wanted, tell)[0]


@dataclass(slots=True, kw_only=True, eq=False)
class _ReadCycle:
    """A cycle whose artifacts were read, and what is to be said of it so far; `number` is its own in the tables."""

    task: Task
    number: int
    cycle: Cycle
    findings: list[Finding]
    notes: list[str]
    #: Names of the checks that were not made.
    not_made: list[str] = field(default_factory=list)
    #: Rows of the trace that may be there twice.
    alike: Any = None


def _read_cycle(
    task: Task, number: int, tables: Batch, wanted: Wanted, stack: ExitStack, tell: Tell | None
) -> _ReadCycle | Inspected:
    if task.tree is not None:
        from perfguard.artifacts.remote import Unfetched

        try:
            found, here = stack.enter_context(task.tree.at_hand(task.found))
        except Unfetched as error:
            return unseen(task, f"it cannot be fetched: {error}")
        task = replace(task, found=found, recording=replace(task.recording, directory=here), tree=None)
    meter = Meter(tell)
    dialect = DIALECTS.get(task.found.layout.id)
    rows = TraceRows(tables, number, dialect.kind) if dialect is not None else None
    traces = (file.path for file in task.found.files if file.slot.format == TRACE)
    try:
        with second_process(traces, wanted.processes, (TraceRows.__module__,)) as second:
            read, broken = _read_artifacts(
                task.found, task.recording.directory, partial(stream_trace, second=second), meter, rows
            )
        meter.end()
    except OSError as error:
        unread = _unreadable(task, error)
        # What was read of it before is nobody's.
        tables.without(number)
        return unread
    return _known(task, number, read, broken)


def _known(task: Task, number: int, read: Sequence[Artifact], broken: Sequence[Finding]) -> _ReadCycle:
    """Return a cycle with what its files say of it, and with what is missing."""
    found, recording = task.found, task.recording
    artifacts = {artifact.slot.name: artifact for artifact in read}
    rank = rank_of(found, artifacts, recording)
    documents = _documents(artifacts)
    conditions = known_conditions(found, documents, _said(recording, task.expected))
    notes = [*_explanation(found, recording.directory, rank, conditions)]
    findings = [
        *_contradictions(found, recording, documents, task.expected),
        *_layout_findings(found, recording.directory, conditions, notes),
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
    return _ReadCycle(task=task, number=number, cycle=cycle, findings=findings, notes=notes)


def _ask(tables: Batch, read: Sequence[_ReadCycle]) -> None:
    """Ask the tables what the traces of the cycles say, and what breaks a rule."""
    by_number = {one.number: one for one in read if _trace_of(one.cycle) is not None}
    if not by_number:
        return
    torch = {number: one for number, one in by_number.items() if DIALECTS[one.cycle.layout.id].kind is None}
    views = by_number.keys() - torch.keys()
    for number in views:
        by_number[number].not_made += list_rows(tables, number, by_number[number].cycle)
    tables.hand_over()
    asked = {number: (one.task.asked, one.cycle.artifacts["trace"].content.document) for number, one in torch.items()}
    works = {**(work_of(tables, asked) if asked else {}), **(views_of(tables, views) if views else {})}
    for number, work in works.items():
        by_number[number].cycle = _with_work(by_number[number].cycle, work)
    cycles = {number: one.cycle for number, one in by_number.items()}
    for number, findings in broken_rules(tables, cycles).items():
        by_number[number].findings += findings
    for number, rows in rows_alike(tables, cycles).items():
        by_number[number].alike = rows


def _trace_of(cycle: Cycle) -> Content | None:
    """Return the trace of a cycle whose events are in tables."""
    dialect = DIALECTS.get(cycle.layout.id)
    return cycle.content(dialect.slot) if dialect is not None else None


def _with_work(cycle: Cycle, work: Any) -> Cycle:
    slot = DIALECTS[cycle.layout.id].slot
    old = cycle.artifacts[slot]
    new = replace(old, content=replace(old.content, work=work))
    files = tuple(new if one is old else one for one in cycle.files)
    return replace(cycle, artifacts={**cycle.artifacts, slot: new}, files=files)


def _unreadable(task: Task, error: OSError) -> Inspected:
    if error.errno in _OF_THE_MACHINE:
        raise error
    # A file that was there when its directory was listed, or a disk that does not give back what is on it.
    return unseen(task, f"it cannot be read: {_reason(error)}")


def _inspected(one: _ReadCycle, wanted: Wanted) -> Inspected:
    # They know cycles, and are loaded when there is one.
    from perfguard.dialects.invariants import check_cycle, check_folds

    task, found, recording = one.task, one.task.found, one.task.recording
    not_made = one.not_made
    try:
        cycle = _with_executions(one.cycle, not_made)
        wrong = [*check_folds(cycle, not_made), *check_cycle(cycle, not_made)]
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
    passed = [one for one in artifacts.values() if isinstance(one.content.table, PassedTable)]
    named = f"{len(not_made)} checks need them: {', '.join(not_made)}" if not_made else ""
    unmeasured = ", ".join(one.path.name for one in passed if not one.content.folds)
    parts = [named, f"what {unmeasured} holds is in no measurement" if unmeasured else ""]
    if message := "; ".join(filter(None, parts)):
        files = ", ".join(one.path.name for one in passed)
        place = _relative(found.place, root) or found.place.name
        message = f"the rows of {files} were validated and not kept; {message}"
        yield Finding(code=Code.A112, severity=Severity.WARNING, place=place, rank=rank, message=message)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" ({Path(error.filename).name})" if error.filename else "")


def unseen(task: Task, message: str) -> Inspected:
    """Return what is to be said of a cycle that could not be looked at: it is a finding, and counts as a cycle."""
    found = task.found
    place = _relative(found.place, task.recording.directory) or found.place.name
    extract = Extract(
        layout=found.layout.id,
        name=found.place.name,
        rank=task.rank,
        is_window=not found.layout.nests,
        rank_above=next((parent.rank for parent in found.parents if parent.rank is not None), None),
    )
    return Inspected(extract=extract, findings=(Finding(code=Code.A111, place=place, rank=task.rank, message=message),))


def _said(recording: Recording, expected: Expectation) -> dict[str, dict[str, bool]]:
    """Return what the caller and the recording say was on."""
    said = {"you": dict(expected.conditions), "the recording": dict(recording.conditions)}
    if recording.fingerprint is not None:
        said["the recording"] |= {"distributed": recording.fingerprint.world_size > 1}
        if recording.fingerprint.mode in ("graph", "pynative"):
            said["the recording"] |= {"graph": recording.fingerprint.mode == "graph"}
    return said


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


def _explanation(found: FoundCycle, root: Path, rank: int, known: Mapping[str, Known]) -> Iterator[str]:
    place = _relative(found.place, root) or found.place.name
    yield f"{place}: layout {found.layout.id}, because {found.because}; rank {rank}"
    for parent in found.parents:
        yield f"{place}: in {_relative(parent.place, root)} ({parent.layout.id})"
    if known:
        said = ", ".join(
            f"{name} {'on' if one.value else 'off'} ({one.because})" for name, one in sorted(known.items())
        )
        yield f"{place}: {said}"


def _contradictions(
    found: FoundCycle, recording: Recording, documents: Mapping[str, Any], expected: Expectation
) -> Iterator[Finding]:
    if not expected.conditions:
        return
    told = known_conditions(found, documents, _said(recording, Expectation()))
    for word, known in contradicted(expected.conditions, told):
        state = "on" if known.value else "off"
        message = f"{word} is expected, and it was {state}: {known.because}"
        place = _relative(found.place, recording.directory) or found.place.name
        yield Finding(code=Code.A110, place=place, message=message)


def _layout_findings(found: FoundCycle, root: Path, known: Mapping[str, Known], notes: list[str]) -> Iterator[Finding]:
    filled = {file.slot.name for file in found.files}
    rank = next((str(file.rank) for file in found.files if file.rank is not None), "*")
    unknown: dict[str, list[str]] = defaultdict(list)
    for slot in found.layout.slots:
        path = slot.path.replace("{rank}", rank).replace("{_rank}", f"_{rank}")
        need = _need(slot, known)
        if need is None and slot.name not in filled:
            unknown[", ".join(undecided(slot.required, known))].append(path)
        elif need == "always" and slot.name not in filled:
            when = "" if slot.required == "always" else f" where {worded(slot.required)} ({_reasons(slot, known)})"
            yield Finding(
                code=Code[slot.missing],
                place=_relative(found.place / path, root),
                message=_absent(slot, f"layout {found.layout.id} requires it{when}"),
            )
        elif need == "never" and slot.name in filled:
            there = next(file for file in found.files if file.slot is slot)
            yield Finding(
                code=Code.A106,
                place=_relative(there.path, root),
                message=f"layout {found.layout.id} has it only where {worded(slot.required)} ({_reasons(slot, known)})",
            )
    for names, paths in unknown.items():
        notes.append(f"{found.place.name}: cannot tell whether {names} was on: not required: {', '.join(paths)}")
    if found.strangers:
        more = f" and {len(found.strangers) - _NAMED} more" if len(found.strangers) > _NAMED else ""
        yield Finding(
            code=Code.A103,
            severity=Severity.NOTE,
            place=_relative(found.place, root),
            message=f"layout {found.layout.id} has no slot for {', '.join(found.strangers[:_NAMED])}{more}",
        )


def _reasons(slot: Slot, known: Mapping[str, Known]) -> str:
    names = [name for name, _ in parts_of(slot.required) if name in known]
    return "; ".join(f"{name} {'on' if known[name].value else 'off'}: {known[name].because}" for name in names)


def _absent(slot: Slot, reason: str) -> str:
    if slot.missing == Code.C110.name:
        return f"it is not here: the profiler ended before it wrote it, or it was not copied along ({reason})"
    return reason


def _need(slot: Slot, known: Mapping[str, Known]) -> str | None:
    """Return whether a slot's file must be there: always, optional, never; None when nobody can tell."""
    if slot.required in ("always", "optional", "never"):
        return slot.required
    verdict = evaluate(slot.required, known)
    return None if verdict is None else "always" if verdict else slot.otherwise


def _read_artifacts(
    found: FoundCycle, root: Path, stream: Stream, meter: Meter, rows: TraceRows | None
) -> tuple[list[Artifact], list[Finding]]:
    artifacts: list[Artifact] = []
    findings: list[Finding] = []
    ranks = [file.rank for file in found.files if file.rank is not None]
    taken: dict[str, FoundFile] = {}
    count: Counter[str] = Counter()
    for file in found.files:
        place = _relative(file.path, root)
        if file.rank is not None and file.rank != ranks[0]:
            message = f"it is of rank {file.rank}, the files beside it of rank {ranks[0]}: one cycle has one rank"
            findings.append(Finding(code=Code.A105, place=place, message=message))
            continue
        if file.slot.is_single and file.slot.name in taken:
            other = taken[file.slot.name].path.name
            message = f"a second file in the slot of {other}: one cycle has one rank"
            findings.append(Finding(code=Code.A105, place=place, message=message))
            continue
        taken[file.slot.name] = file
        if file.slot.format == OPAQUE:
            continue
        count[file.slot.name] += 1
        if count[file.slot.name] > MAX_FILES_OF_SLOT:
            if count[file.slot.name] == MAX_FILES_OF_SLOT + 1:
                message = f"more than {MAX_FILES_OF_SLOT} files like this: the rest was not looked at"
                findings.append(Finding(code=Code.A108, place=place, message=message))
            continue
        meter.begin(size_of(file.path))
        artifact, broken = _read(file, found.layout, place, partial(stream, tell=meter.tell), rows)
        findings += broken
        if artifact is not None:
            artifacts.append(artifact)
    return artifacts, findings


def _read(
    file: FoundFile, layout: Layout, place: str, stream: Stream, rows: TraceRows | None
) -> tuple[Artifact | None, list[Finding]]:
    """Read one file and check it with the version of its schema that fits, or with the nearest one."""
    if file.slot.format == "csv" and large_comma.is_large(file.path):
        return _read_large_table(file, place)
    best: tuple[tuple[int, int], list[Finding]] | None = None
    for version in file.slot.schemas or (None,):
        content, findings = _read_version(file, layout, version, place, stream, rows)
        if content is not None:
            # What breaks its schema is not joined with anything: columns may be missing, numbers may be none.
            short = list(_short_row_findings(content.short_rows, len(content.short_rows), place))
            return Artifact(slot=file.slot, path=file.path, content=content, place=place, schema=version), short
        misfit = (sum(finding.code is not Code.S103 for finding in findings), len(findings))
        if best is None or misfit < best[0]:
            best = (misfit, findings)
    assert best is not None
    return None, best[1]


def _read_large_table(file: FoundFile, place: str) -> tuple[Artifact | None, list[Finding]]:
    """Let a large table go by, once for each version of its schema that its header fits, or for those it fits best."""
    import polars as pl

    try:
        header = large_comma.read_header(file.path)
    except Unreadable as error:
        return None, [Finding(code=Code.S101, place=place + error.place, message=error.message)]
    empty = Table(frame=pl.DataFrame(schema=dict.fromkeys(header, pl.String)), cells=Cells.TEXT)
    headers = {
        version: list(_header_findings(empty, row_schema(schema(version)), place)) if version else []
        for version in file.slot.schemas or (None,)
    }
    least = min(map(len, headers.values()))
    best: list[Finding] | None = None
    for version, broken in headers.items():
        if len(broken) > least:
            continue
        if any("is missing" in finding.message for finding in broken):
            found = broken
        else:
            content, found = _passed(file, schema(version) if version else {}, header, place, broken)
            if content is not None:
                return Artifact(slot=file.slot, path=file.path, content=content, place=place, schema=version), found
        if best is None or len(found) < len(best):
            best = found
    assert best is not None
    return None, best


def _passed(
    file: FoundFile, rules: Mapping[str, Any], header: Sequence[str], place: str, broken: Sequence[Finding]
) -> tuple[Content | None, list[Finding]]:
    """Let the rows of a large table go by; what its folds keep of them is its content, or all of it where that is little."""
    row = _row_rules(row_schema(rules), header) if rules else {}
    folds = {name: make() for name, make in folds_of_tables.folds_of(file.slot.name).items()}
    size, joined = file.path.stat().st_size, JOINED.get(file.slot.name)
    kept = Kept() if not folds and size <= KEPT_UP_TO else None
    part = Kept(joined) if folds and joined and size <= JOINED_UP_TO else None
    all_folds: list[folds_of_tables.Fold] = [*folds.values(), *(one for one in (kept, part) if one is not None)]
    wanted = [name for name in header if any(one.wants(name) for one in all_folds)]

    def see(rows: large_comma.Rows) -> None:
        for one in all_folds:
            one.see(rows)

    found = large_comma.stream_csv(file.path, row, rules, wanted, see)
    short = [*_short_row_findings(found.short_rows, found.short, place)]
    findings = [
        Finding(code=Code.S103, place=f"{place}:{line} {error.path}", message=_short(error.message))
        for line, error in found.errors
    ]
    if (more := found.broken - WORDED_ROWS) > 0:
        findings.append(Finding(code=Code.S103, place=place, message=f"and {more} more rows like these", more=more))
    findings += [
        Finding(code=Code.S103, place=f"{place}:{line} {error.path}", message=_short(error.message))
        for line, error in found.documents
    ]
    if (error := found.unreadable) is not None:
        # Told last: what comes before it in the file is told as well.
        return None, [*findings, Finding(code=Code.S101, place=place + error.place, message=error.message)]
    if broken or findings:
        return None, [*broken, *findings]
    table = (
        PassedTable(
            name=file.path.name,
            columns=tuple(header),
            height=found.rows,
            part=part.frame(tuple(header)) if part is not None else None,
            lines=part.lines if part is not None else None,
        )
        if kept is None
        else kept.table(tuple(header))
    )
    return Content(table=table, folds=folds), short


def _short_row_findings(rows: Sequence[tuple[int, str]], count: int, place: str) -> Iterator[Finding]:
    for line, message in rows[:WORDED_ROWS]:
        message = f"{message}: it is left out; this version's own readers pad it"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=f"{place}:{line}", message=message)
    if (more := count - WORDED_ROWS) > 0:
        message = f"and {more} more rows like these"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=place, message=message, more=more)


def _read_version(
    file: FoundFile, layout: Layout, version: str | None, place: str, stream: Stream, rows: TraceRows | None
) -> tuple[Content | None, list[Finding]]:
    """Return what a file holds, or None with the findings that say how it breaks this version of its schema."""
    rules = schema(version) if version else {}
    if version and rows is not None and file.slot.name == DIALECTS[layout.id].slot:
        return _streamed(file, _event_schema(version, layout.id), rules, place, stream, rows)
    try:
        content = READERS[file.slot.format](file.path, rules)
        findings = list(_content_findings(content, rules, place))
    except Unreadable as error:
        return None, [Finding(code=Code.S101, place=place + error.place, message=error.message)]
    except RecursionError:
        return None, [Finding(code=Code.S101, place=place, message="its JSON is nested too deeply to be read")]
    return (None if findings else content), findings


@cache
def _event_schema(version: str, layout: str) -> EventSchema:
    """Compile a schema of traces with what tables hold beside it; once, however many ranks there are."""
    from perfguard.artifacts.readers.event_schema import compiled

    rules = schema(version)
    return compiled(row_schema(rules), rules, DIALECTS[layout].wanted)


def _streamed(
    file: FoundFile, schema: EventSchema, rules: Mapping[str, Any], place: str, stream: Stream, rows: TraceRows
) -> tuple[Content | None, list[Finding]]:
    """Let a trace go by: its events go into the tables."""
    found = stream(file.path, schema, rows.see)
    findings = []
    for error in found.errors:
        where = f"{place} {found.path}[{error.row}] {error.path}"
        findings.append(Finding(code=Code.S103, place=where, message=_short(error.message)))
    if (more := found.broken - WORDED_ROWS) > 0:
        message = f"and {more} more rows like these"
        findings.append(Finding(code=Code.S103, place=place, message=message, more=more))
    if found.unreadable is not None:
        message = found.unreadable.message
        findings.append(Finding(code=Code.S101, place=place + found.unreadable.place, message=message))
        rows.undo()
        return None, findings
    content = Content(
        document=found.document,
        events_path=found.path,
        events=found.rows,
        digest=found.digest,
        event_schema=schema,
    )
    findings += _document_findings(content, rules, place)
    if findings:
        rows.undo()
    else:
        rows.end(found.document, file.path.name)
    return (None if findings else content), findings


def _content_findings(content: Content, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    if not rules:
        return
    yield from _document_findings(content, rules, place)
    if content.table is not None:
        row = row_schema(rules)
        broken_header = list(_header_findings(content.table, row, place))
        yield from broken_header
        if not any("is missing" in finding.message for finding in broken_header):
            yield from _row_findings(content.table, row, rules, place)
    for name in rules.get("required", ()) if content.tables else ():
        if name not in content.tables:
            yield Finding(code=Code.S102, place=place, message=f"table {name!r} is missing")
    for name, table in content.tables.items():
        row = row_schema(rules["properties"][name])
        lost = _lost_columns(table, row)
        for column in lost:
            yield Finding(code=Code.S102, place=f"{place} {name}", message=f"column {column!r} is missing")
        row = {**row, "required": [column for column in row.get("required", ()) if column not in lost]}
        yield from _header_findings(table, row, place)
        yield from _row_findings(table, row, rules, place)


def _document_findings(content: Content, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    from jsonschema import Draft202012Validator

    document = content.document
    if content.table is not None and content.table.cells is Cells.JSON:
        # The rows are checked as columns; here the document around them, or that there is none.
        document = {**document, "traceEvents": []} if content.table.path != "$" else []
    elif content.event_schema is not None:
        document = {**document, "traceEvents": []} if content.events_path != "$" else []
    if document is NO_DOCUMENT or content.tables:
        return
    errors = list(islice(Draft202012Validator(dict(rules)).iter_errors(document), WORDED_ROWS + 1))
    for error in sorted(errors[:WORDED_ROWS], key=lambda e: e.json_path):
        yield Finding(code=Code.S103, place=f"{place} {error.json_path}", message=_short(error.message))
    if len(errors) > WORDED_ROWS:
        yield Finding(code=Code.S103, place=place, message="and more like these")


def _lost_columns(table: Table, row: Mapping[str, Any]) -> list[str]:
    """Return the columns that a table of a database lacks: `required` ones, and `x-columns`, whose cells may be null.

    An entry `a|b` of `x-columns` is lost where neither column is there, and is named "a or b".
    """
    if table.cells is Cells.TEXT:
        return []
    there = set(table.frame.columns)
    needed = (*row.get("required", ()), *row.get("x-columns", ()))
    order = {name: position for position, name in enumerate(row["properties"])}
    lost = [names for names in (one.split("|") for one in needed) if there.isdisjoint(names)]
    return [" or ".join(names) for names in sorted(lost, key=lambda names: order.get(names[0], len(order)))]


def _header_findings(table: Table, row: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Say once, of the header, what would else be said of every row."""
    if table.cells is not Cells.TEXT:
        return
    columns = table.frame.columns
    for name in row.get("required", ()):
        if name not in columns:
            yield Finding(code=Code.S102, place=f"{place}:1", message=f"column {name!r} is missing")
    if row.get("additionalProperties") is False:
        unknown = unnamed_columns(columns, row)
        for name in unknown[:WORDED_ROWS]:
            message = f"column {_short(name)!r} is not in the schema"
            yield Finding(code=Code.S102, place=f"{place}:1", message=message)
        if len(unknown) > WORDED_ROWS:
            more = len(unknown) - WORDED_ROWS
            message = f"and {more} more columns that are not in the schema"
            yield Finding(code=Code.S102, place=f"{place}:1", message=message, more=more)
    if row.get("x-ordered"):
        expected = [name for name in row["properties"] if name in columns]
        present = [name for name in columns if name in row["properties"]]
        if expected != present:
            yield Finding(
                code=Code.S102,
                place=f"{place}:1",
                message=_short(f"columns are in the order {present}, not {expected}"),
            )


def _row_findings(
    table: Table, row_rules: Mapping[str, Any], rules: Mapping[str, Any], place: str
) -> Iterator[Finding]:
    row = dict(row_rules)
    if table.cells is Cells.TEXT:
        row = _row_rules(row_rules, table.frame.columns)
    compiled = RowSchema(row, rules)
    invalid = compiled.invalid_rows(table)
    for error in compiled.errors(table, invalid[:WORDED_ROWS]):
        where = f"{place}{table.place(error.row)} {error.path}"
        yield Finding(code=Code.S103, place=where, message=_short(error.message))
    if len(invalid) > WORDED_ROWS:
        more = len(invalid) - WORDED_ROWS
        yield Finding(code=Code.S103, place=place, message=f"and {more} more rows like these", more=more)
    for error in documents_in_cells(table, row):
        where = f"{place}{table.place(error.row)} {error.path}"
        yield Finding(code=Code.S103, place=where, message=_short(error.message))


def _row_rules(row: Mapping[str, Any], header: Sequence[str]) -> dict[str, Any]:
    """Return what is asked of the rows under a header, once the header itself has been asked the rest."""
    required = [name for name in row.get("required", ()) if name in header]
    return {**row, "required": required, "additionalProperties": True}


def _short(message: str) -> str:
    """Cut jsonschema's message where it carries a whole cell of a megabyte."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}… ({len(message)} characters)"


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
