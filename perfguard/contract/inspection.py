"""Inspect a recording: find its cycles, read their artifacts, check them against schemas and invariants."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.contract.executions import EXECUTIONS, Executions
from perfguard.contract.layout import FoundCycle, FoundFile, Layout, Slot, find_cycles, layouts
from perfguard.contract.readers import NO_DOCUMENT, READERS, Content
from perfguard.contract.schema import WORDED_ROWS, RowSchema, unnamed_columns
from perfguard.contract.table import Cells, Table, Unreadable
from perfguard.documents import schema
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import Recording, Step
from perfguard.window import Phase

_LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file found in a slot, read."""

    slot: Slot
    path: Path
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a cycle was asked to hold; None and empty where nobody knows (a foreign directory)."""

    active: int | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cycle:
    """What the profiler wrote for one rank and one schedule cycle. `index` counts the cycles of the rank."""

    layout: Layout
    place: Path
    rank: int
    index: int
    artifacts: Mapping[str, Artifact]
    asked: Asked
    executions: Executions | None = None

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

    @property
    def is_whole(self) -> bool:
        """Whether nothing found makes the recording INVALID."""
        return not any(finding.invalidates for finding in self.findings)

    @property
    def layouts(self) -> tuple[str, ...]:
        """Ids of the layouts recognised."""
        return tuple(sorted({cycle.layout.id for cycle in self.cycles}))


def inspect(recording: Recording) -> Contract:
    """Inspect a recording and everything its profiler wrote.

    Never raises for what the directory holds; `StoreError` only when perfguard's own schemas are missing.
    """
    from perfguard.contract.invariants import check_cycle, check_recording

    findings: list[Finding] = []
    notes: list[str] = []
    found = find_cycles(recording.profiler_directory)
    if not found:
        known = ", ".join(layout.id for layout in layouts())
        findings.append(
            Finding(
                code=Code.A101,
                place=str(recording.profiler_directory),
                message=f"nothing here looks like the output of a known profiler (known layouts: {known})",
            )
        )
    cycles = []
    count_by_rank: dict[int, int] = defaultdict(int)
    for one in found:
        artifacts, broken = _read_artifacts(one, recording.directory)
        findings += _layout_findings(one, recording, notes)
        findings += broken
        rank = _rank_of(one, artifacts, recording)
        index = count_by_rank[rank]
        count_by_rank[rank] += 1
        cycle = Cycle(
            layout=one.layout,
            place=one.place,
            rank=rank,
            index=index,
            artifacts=artifacts,
            asked=_asked(recording, index),
        )
        if (executions := EXECUTIONS[one.layout.id](cycle)) is not None:
            cycle = dataclasses.replace(cycle, executions=executions)
        findings += check_cycle(cycle)
        cycles.append(cycle)
    findings += check_recording(recording, tuple(cycles))
    return Contract(recording=recording, cycles=tuple(cycles), findings=tuple(findings), notes=tuple(notes))


def _asked(recording: Recording, index: int) -> Asked:
    if recording.window is None:
        return Asked()
    return Asked(active=recording.window.active, steps=recording.steps_of(Phase.ACTIVE, cycle=index))


def _rank_of(found: FoundCycle, artifacts: Mapping[str, Artifact], recording: Recording) -> int:
    """Return the rank: from the files' names, else from the trace itself, else the recording's, else 0."""
    ranks = [file.rank for file in found.files if file.rank is not None]
    if ranks:
        return ranks[0]
    for artifact in artifacts.values():
        document = artifact.content.document
        distributed = document.get("distributedInfo") if isinstance(document, dict) else None
        if isinstance(distributed, dict) and isinstance(rank := distributed.get("rank"), int):
            return rank
    return recording.rank or 0


def _layout_findings(found: FoundCycle, recording: Recording, notes: list[str]) -> Iterator[Finding]:
    filled = {file.slot.name for file in found.files}
    rank = next((str(file.rank) for file in found.files if file.rank is not None), "*")
    for slot in found.layout.slots:
        if slot.name in filled or slot.required == "optional":
            continue
        if slot.required != "always":
            asked = recording.conditions.get(slot.required)
            if asked is None:
                notes.append(
                    f"{found.place.name}: cannot tell whether {slot.required} was on: "
                    f"{slot.path.replace('{rank}', rank)} not required"
                )
            if not asked:
                continue
        yield Finding(
            code=Code[slot.missing],
            place=_relative(found.place / slot.path.replace("{rank}", rank), recording.directory),
            message=f"layout {found.layout.id} requires it",
        )
    for stranger in found.strangers:
        yield Finding(
            code=Code.A103,
            severity=Severity.NOTE,
            place=_relative(found.place / stranger, recording.directory),
            message=f"layout {found.layout.id} has no slot for it",
        )


def _read_artifacts(found: FoundCycle, root: Path) -> tuple[dict[str, Artifact], list[Finding]]:
    artifacts: dict[str, Artifact] = {}
    findings: list[Finding] = []
    ranks = [file.rank for file in found.files if file.rank is not None]
    for file in found.files:
        place = _relative(file.path, root)
        if file.rank is not None and file.rank != ranks[0]:
            message = f"it is of rank {file.rank}, the files beside it of rank {ranks[0]}: one cycle has one rank"
            findings.append(Finding(code=Code.S101, place=place, message=message))
            continue
        if file.slot.name in artifacts and "{rank}" in file.slot.path:
            findings.append(
                Finding(
                    code=Code.S101,
                    place=place,
                    message=f"a second file in the slot of {artifacts[file.slot.name].path.name}: one cycle has one rank",
                )
            )
            continue
        content, broken = _read(file, place)
        findings += broken
        if content is not None:
            artifacts[file.slot.name] = Artifact(slot=file.slot, path=file.path, content=content)
    return artifacts, findings


def _read(file: FoundFile, place: str) -> tuple[Content | None, list[Finding]]:
    rules = schema(file.slot.schema) if file.slot.schema else {}
    try:
        return _read_and_check(file, rules, place)
    except Unreadable as error:
        return None, [Finding(code=Code.S101, place=place + error.place, message=error.message)]
    except RecursionError:
        return None, [Finding(code=Code.S101, place=place, message="its JSON is nested too deeply to be read")]


def _read_and_check(file: FoundFile, rules: Mapping[str, Any], place: str) -> tuple[Content | None, list[Finding]]:
    content = READERS[file.slot.format](file.path, rules)
    findings = list(_document_findings(content, rules, place)) if rules else []
    if rules and content.table is not None:
        broken_header = list(_header_findings(content.table, _row_schema(rules), place))
        findings += broken_header + list(_row_findings(content.table, rules, place))
    # What breaks its schema is not joined with anything: columns may be missing, numbers may be none.
    return (None if findings else content), findings


def _document_findings(content: Content, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    from jsonschema import Draft202012Validator

    document = content.document
    if content.table is not None and content.table.cells is Cells.JSON:
        # The rows are checked as columns; here the document around them, or that there is none.
        document = {**document, "traceEvents": []} if content.table.path != "$" else []
    if document is NO_DOCUMENT:
        return
    for error in sorted(Draft202012Validator(dict(rules)).iter_errors(document), key=lambda e: e.json_path)[
        :WORDED_ROWS
    ]:
        yield Finding(code=Code.S103, place=f"{place} {error.json_path}", message=_short(error.message))


def _row_schema(rules: Mapping[str, Any]) -> Mapping[str, Any]:
    from perfguard.contract.readers.trace import event_schema

    return event_schema(rules)


def _header_findings(table: Table, row: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Say once, of the header, what would else be said of every row."""
    if table.cells is not Cells.TEXT:
        return
    columns = table.frame.columns
    for name in row.get("required", ()):
        if name not in columns:
            yield Finding(code=Code.S102, place=f"{place}:1", message=f"column {name!r} is missing")
    if row.get("additionalProperties") is False:
        for name in unnamed_columns(columns, row):
            yield Finding(code=Code.S102, place=f"{place}:1", message=f"column {name!r} is not in the schema")
    if row.get("x-ordered"):
        expected = [name for name in row["properties"] if name in columns]
        present = [name for name in columns if name in row["properties"]]
        if expected != present:
            yield Finding(
                code=Code.S102, place=f"{place}:1", message=f"columns are in the order {present}, not {expected}"
            )


def _row_findings(table: Table, rules: Mapping[str, Any], place: str) -> Iterator[Finding]:
    row: dict[str, Any] = dict(_row_schema(rules))
    if table.cells is Cells.TEXT:
        row["required"] = [name for name in row.get("required", ()) if name in table.frame.columns]
        row["additionalProperties"] = True
    compiled = RowSchema(row, rules)
    invalid = compiled.invalid_rows(table)
    for error in compiled.errors(table, invalid[:WORDED_ROWS]):
        where = f"{place}{table.place(error.row)} {error.path}"
        yield Finding(code=Code.S103, place=where, message=_short(error.message))
    if len(invalid) > WORDED_ROWS:
        yield Finding(code=Code.S103, place=place, message=f"and {len(invalid) - WORDED_ROWS} more rows like these")


def _short(message: str) -> str:
    """Cut jsonschema's message where it carries a whole cell of a megabyte."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}… ({len(message)} characters)"


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
