"""Reading: the files of a cycle as artifacts, each checked with the version of its schema that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.kernel_rows import KernelRows
from perfguard.artifacts.readers import OPAQUE, READERS, TRACE, Content, csv_stream
from perfguard.artifacts.readers.trace import stream_trace
from perfguard.artifacts.schema import SHOWN_VIOLATIONS, row_schema
from perfguard.artifacts.slot_rows import SlotRows, add_tables, rows_of
from perfguard.artifacts.survey import MAX_FILES_OF_SLOT, FoundCycle, FoundFile, size_of
from perfguard.artifacts.table import Cells, Table, Unreadable, empty_table
from perfguard.artifacts.trace_rows import TraceRows
from perfguard.contract.completeness import relative
from perfguard.contract.conformity import (
    content_findings,
    document_findings,
    header_findings,
    lost_from_header,
    rules_under,
    unknown_findings,
    violations,
)
from perfguard.contract.progress import Meter, Report
from perfguard.dialects.cycle import Artifact
from perfguard.dialects.queries import DIALECTS
from perfguard.documents import schema
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.event_schema import EventSchema
    from perfguard.artifacts.tables import Batch

#: Formats of one table without a document around it, but for CSV, whose header tells the version.
_TABLES = ("columns", "whitespace", "ragged")
#: A version of a schema, the content of a file that conforms to it, and the findings.
_Attempt = tuple[str | None, Content | None, list[Finding]]


def read_artifacts(
    found: FoundCycle, root: Path, meter: Meter, tables: Batch, number: int
) -> tuple[list[Artifact], list[Finding]]:
    """Read the files of a cycle; return the artifacts, and the findings about the other files.

    Rows that queries need go into `tables`, under the cycle's number.
    """
    artifacts: list[Artifact] = []
    findings: list[Finding] = []
    ranks = [file.rank for file in found.files if file.rank is not None]
    taken: dict[str, FoundFile] = {}
    count: Counter[str] = Counter()
    for file in found.files:
        place, name = relative(file.path, root), file.slot.name
        if message := _refusal(file, ranks, taken.get(name)):
            findings.append(Finding(code=Code.A105, place=place, message=message))
            continue
        taken[name] = file
        if file.slot.format == OPAQUE:
            continue
        count[name] += 1
        if count[name] > MAX_FILES_OF_SLOT:
            if count[name] == MAX_FILES_OF_SLOT + 1:
                message = f"more than {MAX_FILES_OF_SLOT} files like this: the rest was not read"
                findings.append(Finding(code=Code.A108, place=place, message=message))
            continue
        meter.begin(size_of(file.path))
        artifact, broken = _read(
            _File(
                found=file,
                layout=found.layout.id,
                place=place,
                report=meter.report,
                tables=tables,
                cycle=number,
                number=sum(one.slot is file.slot for one in artifacts),
            )
        )
        findings += broken
        if artifact is not None:
            artifacts.append(artifact)
    return artifacts, findings


def _refusal(file: FoundFile, ranks: Sequence[int], other: FoundFile | None) -> str:
    """Return why a file cannot be of the same cycle as the files before it, or an empty text."""
    if file.rank is not None and file.rank != ranks[0]:
        return f"it is of rank {file.rank}, the files beside it of rank {ranks[0]}: one cycle has one rank"
    if file.slot.is_single and other is not None:
        return f"a second file in the slot of {other.path.name}: one cycle has one rank"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file to read, and where its rows go: under the number of its cycle, and its own among those of its slot."""

    found: FoundFile
    layout: str
    place: str
    report: Report
    tables: Batch
    cycle: int
    number: int

    @property
    def is_spaced(self) -> bool:
        """Whether the cells of a CSV file may have blanks around them."""
        return csv_stream.FORMATS[self.found.slot.format]

    def unreadable(self, error: Unreadable) -> Finding:
        """Return the finding for an error of a reader."""
        return Finding(code=Code.S101, place=self.place + error.place, message=error.message)

    def short_rows(self, rows: Sequence[tuple[int, str]], count: int) -> Iterator[Finding]:
        """Yield findings about rows that were left out because cells are missing."""
        left_out = "it is left out; this version's own readers pad it"
        shown = ((f"{self.place}:{line}", f"{message}: {left_out}") for line, message in rows[:SHOWN_VIOLATIONS])
        return violations(shown, count, self.place, code=Code.S101, severity=Severity.WARNING)


def _read(file: _File) -> tuple[Artifact | None, list[Finding]]:
    """Read one file and check it with the version of its schema that fits, or with the nearest one."""
    slot = file.found.slot
    is_csv = slot.format in csv_stream.FORMATS
    best: tuple[tuple[int, int], list[Finding]] | None = None
    for version, content, findings in _table_attempts(file) if is_csv else _attempts(file):
        if content is not None:
            artifact = Artifact(slot=slot, path=file.found.path, content=content, place=file.place, schema=version)
            return artifact, findings
        errors = [one for one in findings if one.severity is not Severity.NOTE]
        worst = 0 if is_csv else sum(one.code is not Code.S103 for one in errors)
        if best is None or (worst, len(errors)) < best[0]:
            best = ((worst, len(errors)), findings)
    assert best is not None
    return None, best[1]


def _attempts(file: _File) -> Iterator[_Attempt]:
    for version, content, findings in _versions(file):
        if content is not None:
            if version is not None:
                # A file that violates its schema is not in any table: columns may be missing, or not be numbers.
                try:
                    add_tables(file.tables, file.cycle, file.number, file.found, version, content)
                except Unreadable as error:
                    yield version, None, [file.unreadable(error)]
                    return
            if content.table is not None and file.found.slot.format == TRACE:
                # Its rows are in the tables.
                path, height = content.table.path, content.table.height
                content = Content(document=content.document, events_path=path, events=height)
        yield version, content, findings


def _versions(file: _File) -> Iterator[_Attempt]:
    """Yield the versions of a file's schema, without a trace: one that fits first, then one that lacks names of the file.

    Not if another has the names, and the file breaks only what the one lacks: that would let a wrong value pass.
    """
    lacking: list[tuple[str | None, Content, list[Finding]]] = []
    broken: list[list[Finding]] = []
    for version in file.found.slot.schemas or (None,):
        content, findings = _read_version(file, version)
        if content is not None and findings:
            lacking.append((version, content, findings))
        else:
            if findings and all(one.code is Code.S103 for one in findings):
                broken.append(findings)
            yield version, content, findings
    for version, content, findings in sorted(lacking, key=lambda one: len(one[2])):
        unknown = _unknown_to(version, content, file)
        if not any(all(one.place.startswith(unknown) for one in several) for several in broken):
            yield version, content, findings


def _unknown_to(version: str | None, content: Content, file: _File) -> tuple[str, ...]:
    """Return how the places begin that a version does not know: all of a table, in a document those of its keys."""
    if file.found.slot.format in _TABLES:
        return (file.place,)
    if version is None or not isinstance(content.document, dict):
        return ()
    lacks = content.document.keys() - schema(version).get("properties", {}).keys()
    return tuple(f"{file.place} $.{key}" for key in lacks)


def _table_attempts(file: _File) -> Iterator[_Attempt]:
    """Stream a CSV file, once for each version of its schema that its header fits, or fits best."""
    try:
        header = csv_stream.read_header(file.found.path, is_spaced=file.is_spaced)
    except Unreadable as error:
        yield None, None, [file.unreadable(error)]
        return
    empty = empty_table(header, Cells.TEXT)
    headers = {
        version: list(header_findings(empty, row_schema(schema(version)), file.place)) if version else []
        for version in file.found.slot.schemas or (None,)
    }
    # A version that lacks columns of the file fits better than one whose columns the file lacks.
    unfit = {
        version: (sum(one.severity is not Severity.NOTE for one in broken), len(broken))
        for version, broken in headers.items()
    }
    least = min(unfit.values())
    for version, broken in headers.items():
        if unfit[version] > least:
            continue
        if version and lost_from_header(empty, row_schema(schema(version))):
            yield version, None, broken
            continue
        rows = rows_of(file.tables, file.cycle, file.number, file.found.slot.name, version)
        content, findings = _stream_table(file, schema(version) if version else {}, empty, broken, rows)
        if content is None:
            for one in rows:
                one.undo()
        yield version, content, findings


def _stream_table(
    file: _File,
    rules: Mapping[str, Any],
    empty: Table,
    broken: Sequence[Finding],
    rows: Sequence[SlotRows | KernelRows],
) -> tuple[Content | None, list[Finding]]:
    """Read the rows of a table into `rows`, the tables of the batch."""
    row = rules_under(row_schema(rules), empty.columns) if rules else {}

    def consume(block: csv_stream.Rows) -> None:
        for one in rows:
            one.consume(block)

    columns = [name for name in empty.columns if any(one.reads(name) for one in rows)]
    found = csv_stream.stream_csv(file.found.path, row, rules, columns, consume, is_spaced=file.is_spaced)
    errors, in_cells = (
        [(f"{file.place}:{line} {error.path}", error.message) for line, error in several]
        for several in (found.errors, found.documents)
    )
    findings = [*violations(errors, found.broken, file.place), *violations(in_cells)]
    if found.unreadable is not None:
        # The last finding: the others are about lines before it.
        return None, [*findings, file.unreadable(found.unreadable)]
    notes = [one for one in broken if one.severity is Severity.NOTE]
    if findings or len(notes) < len(broken):
        return None, [*broken, *findings]
    return Content(table=replace(empty, streamed=found.rows)), [*notes, *file.short_rows(found.short_rows, found.short)]


def _read_version(file: _File, version: str | None) -> tuple[Content | None, list[Finding]]:
    """Return the content of a file, or None with the findings about how it violates this version of its schema."""
    rules = schema(version) if version else {}
    slot, dialect = file.found.slot, DIALECTS.get(file.layout)
    if version and dialect is not None and slot.name == dialect.slot:
        rows = TraceRows(file.tables, file.cycle, dialect.kind)
        return _stream_trace(file, _event_schema(version, file.layout), rules, rows)
    try:
        content = READERS[slot.format](file.found.path, rules)
        findings = list(content_findings(content, rules, file.place))
    except Unreadable as error:
        return None, [file.unreadable(error)]
    except RecursionError:
        return None, [file.unreadable(Unreadable("its JSON is nested too deeply to be read"))]
    return (content if all(one.severity is Severity.NOTE for one in findings) else None), findings


@cache
def _event_schema(version: str, layout: str) -> EventSchema:
    """Compile a schema of traces and the columns of tables; once, however many ranks there are."""
    from perfguard.artifacts.readers.event_schema import compiled

    rules = schema(version)
    return compiled(row_schema(rules), rules, DIALECTS[layout].arguments)


def _stream_trace(
    file: _File, schema: EventSchema, rules: Mapping[str, Any], rows: TraceRows
) -> tuple[Content | None, list[Finding]]:
    """Read the events of a trace into `rows`, the tables of the batch."""
    found = stream_trace(file.found.path, schema, rows.consume, file.report)
    errors = [(f"{file.place} {found.path}[{error.row}] {error.path}", error.message) for error in found.errors]
    findings = [*violations(errors, found.broken, file.place)]
    unknown = {key: f"{file.place} {found.path}[{row}]" for key, row in found.unknown.items()}
    notes = [*unknown_findings("key", unknown, file.place)]
    content = None
    if found.unreadable is not None:
        findings.append(file.unreadable(found.unreadable))
    else:
        content = Content(
            document=found.document,
            events_path=found.path,
            events=found.rows,
            digest=found.digest,
            event_schema=schema,
        )
        findings += document_findings(content, rules, file.place)
    if any(one.severity is not Severity.NOTE for one in findings):
        rows.undo()
        return None, [*findings, *notes]
    rows.end(found.document, file.found.path.name)
    return content, [*findings, *notes]
