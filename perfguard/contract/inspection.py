"""Inspect a recording: find its cycles, read their artifacts, check them against schemas and invariants."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from perfguard.contract.conditions import (
    Expectation,
    Known,
    contradicted,
    evaluate,
    known_conditions,
    parts_of,
    undecided,
    worded,
)
from perfguard.contract.executions import Executions, executions_of
from perfguard.contract.layout import (
    MAX_FILES_OF_SLOT,
    FoundCycle,
    FoundFile,
    Layout,
    Parent,
    Slot,
    Survey,
    layouts,
    survey,
)
from perfguard.contract.readers import NO_DOCUMENT, OPAQUE, READERS, Content
from perfguard.contract.schema import (
    WORDED_ROWS,
    RowSchema,
    documents_in_cells,
    row_schema,
    unnamed_columns,
)
from perfguard.contract.table import Cells, Table, Unreadable
from perfguard.documents import schema
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import Ending, Recording, Step
from perfguard.window import Phase

_LONGEST_MESSAGE = 300
#: How many files without a slot a finding names.
_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file found in a slot, read."""

    slot: Slot
    path: Path
    content: Content
    #: The path as findings name it: relative to what is judged.
    place: str
    #: The schema it was checked with: of a slot with several versions, the one that fits; None where it has none.
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a cycle was asked to hold; None and empty where nobody knows (a foreign directory).

    Steps without `active` are those that were seen in a recording of a whole run.
    """

    active: int | None = None
    steps: tuple[Step, ...] = ()
    #: What else the caller says was set up: {"collect_freq": 10}.
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cycle:
    """What the profiler wrote for one rank and one schedule cycle. `index` counts the cycles of the rank."""

    layout: Layout
    place: Path
    rank: int
    index: int
    #: The artifact of every slot that could be read; of a slot with many files the last one, see `files`.
    artifacts: Mapping[str, Artifact]
    asked: Asked
    #: Every artifact, several of a slot whose path has a wildcard.
    files: tuple[Artifact, ...] = ()
    #: What is known to have been on or off, and what the steps, ranks and files were said to be.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    executions: Executions | None = None
    #: The directories above it whose names say a rank or a window, the nearest first.
    parents: tuple[Parent, ...] = ()

    def content(self, slot: str) -> Content | None:
        """Return what a slot holds, or None when it is missing or unreadable."""
        artifact = self.artifacts.get(slot)
        return artifact.content if artifact else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contract:
    """Everything the inspection of one recording found."""

    recording: Recording
    cycles: tuple[Cycle, ...]
    findings: tuple[Finding, ...]
    #: What could not be known, in words; shown by `perfguard check --explain`.
    notes: tuple[str, ...] = field(default=())
    #: Ids of the parent layouts recognised: directories that only say the rank of what is in them.
    parents: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing found makes the recording INVALID."""
        return not any(finding.invalidates for finding in self.findings)

    @property
    def read(self) -> dict[str, int]:
        """How much was looked at: ranks, cycles, files read whole, and rows of their tables."""
        files = [artifact for cycle in self.cycles for artifact in cycle.files]
        tables = [t for f in files for t in (f.content.table, *f.content.tables.values()) if t is not None]
        return {
            "ranks": len({cycle.rank for cycle in self.cycles}),
            "cycles": len(self.cycles),
            "files": len(files),
            "rows": sum(table.frame.height for table in tables),
        }

    @property
    def layouts(self) -> tuple[str, ...]:
        """Ids of the layouts recognised."""
        return tuple(sorted({cycle.layout.id for cycle in self.cycles} | set(self.parents)))


def inspect(recording: Recording, expected: Expectation | None = None, only: Layout | None = None) -> Contract:
    """Inspect a recording and everything its profiler wrote.

    `expected` is what the caller says was on and how many ranks there must be; with `only`, the directory is judged as
    that layout. Never raises for what the directory holds; `StoreError` only when perfguard's own schemas are missing.
    """
    from perfguard.contract.invariants import check_cycle, check_recording

    expected = expected or Expectation()
    found = survey(recording.profiler_directory, only)
    findings: list[Finding] = list(found.findings)
    notes: list[str] = []
    # Where it is known why nothing is here, that is told.
    is_told = recording.ending not in (None, Ending.COMPLETE)
    if not found.cycles and not is_told:
        known = f"{len(layouts())} known layouts, see: perfguard schema list"
        findings.append(
            Finding(
                code=Code.A101,
                place=str(recording.profiler_directory),
                message=f"nothing here looks like the output of a known profiler ({known}){_hint(recording)}",
            )
        )
    findings += _empty_parents(found, recording.directory)
    cycles = []
    count_by_rank: dict[int, int] = defaultdict(int)
    for one in found.cycles:
        read, broken = _read_artifacts(one, recording.directory)
        artifacts = {artifact.slot.name: artifact for artifact in read}
        rank = _rank_of(one, artifacts, recording)
        documents = _documents(artifacts)
        conditions = known_conditions(one, documents, _said(recording, expected))
        notes += _explanation(one, recording.directory, rank, conditions)
        layout_findings = [
            *_contradictions(one, recording, documents, expected),
            *_layout_findings(one, recording.directory, conditions, notes),
        ]
        findings += [dataclasses.replace(finding, rank=rank) for finding in (*layout_findings, *broken)]
        index = count_by_rank[rank]
        count_by_rank[rank] += not one.layout.nests
        cycle = Cycle(
            layout=one.layout,
            place=one.place,
            rank=rank,
            index=index,
            artifacts=artifacts,
            files=tuple(read),
            conditions={name: known.value for name, known in conditions.items()},
            asked=_asked(recording, rank, index, one, expected),
            parents=one.parents,
        )
        if (executions := executions_of(cycle)) is not None:
            cycle = dataclasses.replace(cycle, executions=executions)
        findings += check_cycle(cycle)
        cycles.append(cycle)
    findings += check_recording(recording, tuple(cycles))
    findings += _missing_ranks(cycles, expected)
    findings += _unmet_numbers(cycles, expected)
    # What may not be listed is not missing.
    closed = tuple(f"{finding.place}/" for finding in findings if finding.code is Code.A109)
    findings = [one for one in findings if one.code is not Code.A104 or not one.place.startswith(closed)]
    return Contract(
        recording=recording,
        cycles=tuple(cycles),
        findings=tuple(findings),
        notes=tuple(notes),
        parents=tuple(parent.layout.id for parent in found.parents),
    )


def _hint(recording: Recording) -> str:
    if re.match(r"(ASCEND_PROFILER_OUTPUT|FRAMEWORK|PROF_.*)$", recording.profiler_directory.name):
        return "; this is a part of a recording: name the directory above it"
    return ""


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


def _asked(recording: Recording, rank: int, index: int, found: FoundCycle, expected: Expectation) -> Asked:
    if recording.fingerprint is not None:
        # A recording of one rank need not say with each step which.
        of_rank = rank if recording.rank is None else None
        steps = recording.steps_of(Phase.ACTIVE, cycle=index, rank=of_rank)
        return Asked(active=recording.window.active if recording.window else None, steps=steps)
    named = next((parent.steps for parent in found.parents if parent.steps is not None), None)
    return Asked(active=expected.steps if expected.steps is not None else named, numbers=expected.numbers)


def _rank_of(found: FoundCycle, artifacts: Mapping[str, Artifact], recording: Recording) -> int:
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


def _empty_parents(found: Survey, root: Path) -> Iterator[Finding]:
    held = {parent.place for cycle in found.cycles for parent in cycle.parents}
    # A log/rank_0 has nothing to do with the profile/rank_0 beside it.
    beside = {place.parent for place in held}
    for parent in found.parents:
        if parent.place not in held and (parent.place.parent in beside or not held):
            yield Finding(
                code=Code.A101,
                place=_relative(parent.place, root),
                rank=parent.rank,
                message=f"its name says rank {parent.rank} ({parent.layout.id}), and no profiler output is in it",
            )


def _missing_ranks(cycles: list[Cycle], expected: Expectation) -> Iterator[Finding]:
    if expected.ranks is None:
        return
    there = {cycle.rank for cycle in cycles}
    # A node of a cluster holds its own ranks only: 8 to 15 are eight ranks too.
    first = min(there, default=0)
    is_node = first % expected.ranks == 0 and len(there) > 1 and max(there) < first + expected.ranks
    wanted = range(first, first + expected.ranks) if is_node else range(expected.ranks)
    missing = (rank for rank in wanted if rank not in there)
    for rank in islice(missing, WORDED_ROWS):
        message = f"ranks={expected.ranks} is expected, nothing of rank {rank} is here"
        yield Finding(code=Code.A107, message=message, place=f"rank {rank}", rank=rank)
    if (more := expected.ranks - sum(rank in wanted for rank in there) - WORDED_ROWS) > 0:
        yield Finding(code=Code.A107, message=f"and {more} more ranks", place="ranks", more=more)
    if extra := sorted(rank for rank in there if rank not in wanted):
        named = ", ".join(map(str, extra))
        message = f"ranks={expected.ranks} is expected, and there is output of rank {named} as well"
        yield Finding(code=Code.A106, message=message, place=f"rank {named}", rank=extra[0])


def _unmet_numbers(cycles: list[Cycle], expected: Expectation) -> Iterator[Finding]:
    """Say which numbers were expected of files that are not here: else they would pass without being looked at."""
    if expected.numbers and not any(cycle.layout.id == "summary" for cycle in cycles):
        said = ", ".join(f"{name}={number}" for name, number in expected.numbers.items())
        yield Finding(code=Code.A110, place="summary", message=f"{said} is expected, and no summary file is here")


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


def _read_artifacts(found: FoundCycle, root: Path) -> tuple[list[Artifact], list[Finding]]:
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
        artifact, broken = _read(file, place)
        findings += broken
        if artifact is not None:
            artifacts.append(artifact)
    return artifacts, findings


def _read(file: FoundFile, place: str) -> tuple[Artifact | None, list[Finding]]:
    """Read one file and check it with the version of its schema that fits, or with the nearest one."""
    best: tuple[tuple[int, int], list[Finding]] | None = None
    for version in file.slot.schemas or (None,):
        content, findings = _read_version(file, schema(version) if version else {}, place)
        if content is not None:
            # What breaks its schema is not joined with anything: columns may be missing, numbers may be none.
            short = list(_short_row_findings(content, place))
            return Artifact(slot=file.slot, path=file.path, content=content, place=place, schema=version), short
        misfit = (sum(finding.code is not Code.S103 for finding in findings), len(findings))
        if best is None or misfit < best[0]:
            best = (misfit, findings)
    assert best is not None
    return None, best[1]


def _short_row_findings(content: Content, place: str) -> Iterator[Finding]:
    for line, message in content.short_rows[:WORDED_ROWS]:
        message = f"{message}: it is left out; this version's own readers pad it"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=f"{place}:{line}", message=message)
    if (more := len(content.short_rows) - WORDED_ROWS) > 0:
        message = f"and {more} more rows like these"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=place, message=message, more=more)


def _read_version(file: FoundFile, rules: Mapping[str, Any], place: str) -> tuple[Content | None, list[Finding]]:
    """Return what a file holds, or None with the findings that say how it breaks this version of its schema."""
    try:
        content = READERS[file.slot.format](file.path, rules)
        findings = list(_content_findings(content, rules, place))
    except Unreadable as error:
        return None, [Finding(code=Code.S101, place=place + error.place, message=error.message)]
    except RecursionError:
        return None, [Finding(code=Code.S101, place=place, message="its JSON is nested too deeply to be read")]
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
    row: dict[str, Any] = dict(row_rules)
    if table.cells is Cells.TEXT:
        row["required"] = [name for name in row.get("required", ()) if name in table.frame.columns]
        row["additionalProperties"] = True
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


def _short(message: str) -> str:
    """Cut jsonschema's message where it carries a whole cell of a megabyte."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}… ({len(message)} characters)"


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
