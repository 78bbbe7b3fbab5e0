"""Open tables: all cycles of recordings in the tables of one batch, for queries written by people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfguard.artifacts import table_definitions
from perfguard.artifacts.document_rows import table_meanings
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readable import Readable, make_readable
from perfguard.artifacts.readers import NO_DOCUMENT
from perfguard.artifacts.tables import LARGE_BYTES, Batch, batch
from perfguard.contract.inspection import Inspected, InspectionOptions, ReadCycle, Task, derive, read_cycle
from perfguard.contract.progress import Progress
from perfguard.contract.reduction import tasks_of
from perfguard.dialects.cycle import Artifact
from perfguard.dialects.memory import fill_levels
from perfguard.dialects.queries import (
    all_definitions,
    common_statements,
    common_tables,
    definitions,
    named_texts,
)
from perfguard.documents import schema
from perfguard.findings import is_invalid

if TYPE_CHECKING:
    from pathlib import Path

    from perfguard.artifacts.remote import RemoteTree
    from perfguard.recording import Recording

#: The artifacts whose content `derive` needs after their rows are in tables.
_NEEDED = ("trace", "trace_view", "kernel_details")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTables:
    """Tables to be queried, and whether they are complete."""

    tables: Readable
    #: The only file that a query can write.
    output: Path
    cycles: int
    is_whole: bool


@contextmanager
def open_tables(
    recordings: Sequence[tuple[str, Recording, RemoteTree | None]],
    *,
    limit_s: float,
    remedy: str,
    progress: Progress,
) -> Iterator[OpenTables]:
    """Read named recordings into tables that exist until the context ends; a query may take `limit_s` seconds."""
    surveyed = [(name, *tasks_of(recording, tree)) for name, recording, tree in recordings]
    tasks = [(name, task) for name, several, _ in surveyed for task in several]
    progress.begin(sum(task.size for _, task in tasks))
    ids = frozenset(task.found.layout.id for _, task in tasks)
    with batch(definitions(ids), named_texts(), size=LARGE_BYTES) as tables:
        seen = [(name, _read(task, number, tables, progress)) for number, (name, task) in enumerate(tasks)]
        read = [(name, one) for name, one in seen if isinstance(one, ReadCycle)]
        is_whole = not any(is_invalid(one.findings) for _, one in seen) and not any(
            is_invalid(findings) for *_, findings in surveyed
        )
        known = derive(tables, [one for _, one in read], [name for name, _ in read])
        fill_levels(tables, {number: one.cycle for number, one in known.items()})
        tables.keep_all()
        tables.hold(common_tables())
        make_readable(tables.cursor())
        connection, output = tables.to_be_read()
        found = Readable(connection, limit_s=limit_s, remedy=remedy)
        try:
            yield OpenTables(tables=found, output=output, cycles=len(read), is_whole=is_whole)
        finally:
            connection.close()


def _read(task: Task, number: int, tables: Batch, progress: Progress) -> ReadCycle | Inspected:
    with ExitStack() as stack:
        read = read_cycle(task, number, tables, InspectionOptions(), stack, progress.report)
    if isinstance(read, ReadCycle):
        kept = {slot: one if slot in _NEEDED else _emptied(one) for slot, one in read.cycle.artifacts.items()}
        read.cycle = replace(read.cycle, artifacts=kept, files=tuple(kept.values()))
    return read


def _emptied(artifact: Artifact) -> Artifact:
    """Return an artifact whose content is empty, as that of a thousand ranks fills the memory; tables keep their names."""
    content = artifact.content
    tables = {name: replace(table, frame=table.frame.clear()) for name, table in content.tables.items()}
    return replace(artifact, content=replace(content, table=None, document=NO_DOCUMENT, tables=tables))


def meanings() -> dict[str, str]:
    """Return a sentence about each table and view, by name; for views it is the comment above them."""
    slots = {slot.name: slot for layout in layouts() for slot in layout.slots if slot.schemas}
    of_files = {name: str(schema(slot.schemas[0])["title"]) for name, slot in slots.items()}
    of_parts = {
        f"{name}_{inner}": about
        for name, slot in slots.items()
        for version in slot.schemas
        for inner, about in table_meanings(version).items()
    }
    views = "\n".join(all_definitions().views.values())
    common = table_definitions.meanings(common_statements())
    return {**of_files, **of_parts, **table_definitions.meanings(), **table_definitions.meanings(views), **common}
