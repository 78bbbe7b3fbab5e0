"""Reading: the files of a cycle as artifacts, each checked with the version of its schema that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.kernel_rows import KernelRows
from perfguard.artifacts.layout import Layout
from perfguard.artifacts.readers import OPAQUE, READERS, TRACE, Content, csv_stream
from perfguard.artifacts.readers.trace import Streamed
from perfguard.artifacts.schema import SHOWN_VIOLATIONS, row_schema
from perfguard.artifacts.slot_rows import TableRows, add_tables, rows_of
from perfguard.artifacts.survey import MAX_FILES_OF_SLOT, FoundCycle, FoundFile, size_of
from perfguard.artifacts.table import Cells, Table, Unreadable
from perfguard.artifacts.trace_rows import TraceRows
from perfguard.contract.completeness import relative
from perfguard.contract.conformity import content_findings, document_findings, header_findings, rules_under, shortened
from perfguard.contract.progress import Meter
from perfguard.dialects.cycle import Artifact
from perfguard.dialects.queries import DIALECTS
from perfguard.documents import schema
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.event_schema import EventSchema
    from perfguard.artifacts.tables import Batch

#: Reads a trace (`stream_trace`), told how.
Stream = Callable[..., Streamed]


def read_artifacts(
    found: FoundCycle, root: Path, stream: Stream, meter: Meter, tables: Batch, number: int
) -> tuple[list[Artifact], list[Finding]]:
    """Read the files of a cycle; return the artifacts, and what is wrong with the others.

    Rows that queries are asked of go into `tables`, under the cycle's number.
    """
    artifacts: list[Artifact] = []
    findings: list[Finding] = []
    ranks = [file.rank for file in found.files if file.rank is not None]
    taken: dict[str, FoundFile] = {}
    count: Counter[str] = Counter()
    for file in found.files:
        place = relative(file.path, root)
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
                message = f"more than {MAX_FILES_OF_SLOT} files like this: the rest was not read"
                findings.append(Finding(code=Code.A108, place=place, message=message))
            continue
        meter.begin(size_of(file.path))
        to = _Target(tables=tables, cycle=number, file=sum(one.slot is file.slot for one in artifacts))
        artifact, broken = _read(file, found.layout, place, partial(stream, report=meter.report), to)
        findings += broken
        if artifact is not None:
            artifacts.append(artifact)
    return artifacts, findings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where the rows of a file go: the tables of the batch, the number of its cycle, and its own among those of its slot."""

    tables: Batch
    cycle: int
    file: int

    def rows_of(self, file: FoundFile, version: str | None) -> list[TableRows]:
        """Return what takes the rows of a CSV."""
        if file.slot.name == "kernel_details":
            return [KernelRows(self.tables, self.cycle)]
        return rows_of(self.tables, self.cycle, self.file, file.slot.name, version)


def _read(
    file: FoundFile, layout: Layout, place: str, stream: Stream, to: _Target
) -> tuple[Artifact | None, list[Finding]]:
    """Read one file and check it with the version of its schema that fits, or with the nearest one."""
    if file.slot.format == "csv":
        return _read_table(file, place, to)
    best: tuple[tuple[int, int], list[Finding]] | None = None
    for version in file.slot.schemas or (None,):
        content, findings = _read_version(file, layout, version, place, stream, to)
        if content is not None:
            # What breaks its schema is not joined with anything: columns may be missing, numbers may be none.
            short = list(_short_row_findings(content.short_rows, len(content.short_rows), place))
            if version is not None:
                add_tables(to.tables, to.cycle, to.file, file, version, content)
            if content.table is not None and file.slot.format == TRACE:
                # Its rows are in the tables.
                content = Content(
                    document=content.document, events_path=content.table.path, events=content.table.height
                )
            return Artifact(slot=file.slot, path=file.path, content=content, place=place, schema=version), short
        misfit = (sum(finding.code is not Code.S103 for finding in findings), len(findings))
        if best is None or misfit < best[0]:
            best = (misfit, findings)
    assert best is not None
    return None, best[1]


def _read_table(file: FoundFile, place: str, to: _Target) -> tuple[Artifact | None, list[Finding]]:
    """Let a table go by, once for each version of its schema that its header fits, or for those it fits best."""
    import polars as pl

    try:
        header = csv_stream.read_header(file.path)
    except Unreadable as error:
        return None, [Finding(code=Code.S101, place=place + error.place, message=error.message)]
    empty = Table(frame=pl.DataFrame(schema=dict.fromkeys(header, pl.String)), cells=Cells.TEXT)
    headers = {
        version: list(header_findings(empty, row_schema(schema(version)), place)) if version else []
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
            rows = to.rows_of(file, version)
            content, found = _passed(file, schema(version) if version else {}, empty, place, broken, rows)
            if content is not None:
                return Artifact(slot=file.slot, path=file.path, content=content, place=place, schema=version), found
            for one in rows:
                one.undo()
        if best is None or len(found) < len(best):
            best = found
    assert best is not None
    return None, best


def _passed(
    file: FoundFile,
    rules: Mapping[str, Any],
    empty: Table,
    place: str,
    broken: Sequence[Finding],
    rows: Sequence[TableRows],
) -> tuple[Content | None, list[Finding]]:
    """Read the rows of a table into `rows`, the tables of the batch."""
    row = rules_under(row_schema(rules), empty.columns) if rules else {}

    def consume(block: csv_stream.Rows) -> None:
        for one in rows:
            one.consume(block)

    wanted = [name for name in empty.columns if any(one.wants(name) for one in rows)]
    found = csv_stream.stream_csv(file.path, row, rules, wanted, consume)
    short = [*_short_row_findings(found.short_rows, found.short, place)]
    findings = [
        Finding(code=Code.S103, place=f"{place}:{line} {error.path}", message=shortened(error.message))
        for line, error in found.errors
    ]
    if (more := found.broken - SHOWN_VIOLATIONS) > 0:
        findings.append(Finding(code=Code.S103, place=place, message=f"and {more} more rows like these", more=more))
    findings += [
        Finding(code=Code.S103, place=f"{place}:{line} {error.path}", message=shortened(error.message))
        for line, error in found.documents
    ]
    if (error := found.unreadable) is not None:
        # Told last: what comes before it in the file is told as well.
        return None, [*findings, Finding(code=Code.S101, place=place + error.place, message=error.message)]
    if broken or findings:
        return None, [*broken, *findings]
    return Content(table=replace(empty, streamed=found.rows)), short


def _short_row_findings(rows: Sequence[tuple[int, str]], count: int, place: str) -> Iterator[Finding]:
    for line, message in rows[:SHOWN_VIOLATIONS]:
        message = f"{message}: it is left out; this version's own readers pad it"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=f"{place}:{line}", message=message)
    if (more := count - SHOWN_VIOLATIONS) > 0:
        message = f"and {more} more rows like these"
        yield Finding(code=Code.S101, severity=Severity.WARNING, place=place, message=message, more=more)


def _read_version(
    file: FoundFile, layout: Layout, version: str | None, place: str, stream: Stream, to: _Target
) -> tuple[Content | None, list[Finding]]:
    """Return what a file holds, or None with the findings that say how it breaks this version of its schema."""
    rules = schema(version) if version else {}
    dialect = DIALECTS.get(layout.id)
    if version and dialect is not None and file.slot.name == dialect.slot:
        rows = TraceRows(to.tables, to.cycle, dialect.kind)
        return _streamed(file, _event_schema(version, layout.id), rules, place, stream, rows)
    try:
        content = READERS[file.slot.format](file.path, rules)
        findings = list(content_findings(content, rules, place))
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
    found = stream(file.path, schema, rows.consume)
    findings = []
    for error in found.errors:
        where = f"{place} {found.path}[{error.row}] {error.path}"
        findings.append(Finding(code=Code.S103, place=where, message=shortened(error.message)))
    if (more := found.broken - SHOWN_VIOLATIONS) > 0:
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
    findings += document_findings(content, rules, place)
    if findings:
        rows.undo()
    else:
        rows.end(found.document, file.path.name)
    return (None if findings else content), findings
