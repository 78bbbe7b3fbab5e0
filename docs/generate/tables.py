"""The page of the tables, from the definitions that a database of perfguard has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from perfguard.artifacts.columns import KEYS, Shape, shapes_of
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readable import Readable, make_readable
from perfguard.artifacts.table_definitions import COLUMNS, TABLES, comments
from perfguard.artifacts.tables import batch
from perfguard.contract.open_tables import meanings
from perfguard.dialects.queries import (
    DIALECTS,
    all_definitions,
    common_statements,
    common_tables,
    folders,
    named_texts,
    sql,
)
from perfguard.reports.catalogue import slug
from perfguard.reports.prose import code, prose, sentence, table

_VIEW = re.compile(r"^create view (?:fill_)?(\w+) as\b", re.MULTILINE)
#: The meaning of a column in the comment of a table, up to the next one.
_COLUMN = re.compile(r"(?<!\w)`(\w+)`: (.*?)(?:[;.](?= `\w+`:)|\.?$|\.(?= ))")
#: Units by the ending of a column's name.
_UNITS = {
    "_ns": "ns",
    "_us": "us",
    "_bytes": "bytes",
    "_percent": "%",
    "_gb_per_s": "GB/s",
    "_mb_per_s": "MB/s",
    "_bytes_per_s": "bytes/s",
    "_per_s": "1/s",
    "_mflop": "MFLOP",
    "_gflop_per_s": "GFLOP/s",
    "_mhz": "MHz",
}
#: Tables that only hold the codes of texts and threads.
_CODES = ("words", "threads")


def page() -> str:
    """Return the page."""
    with batch(all_definitions(), named_texts()) as tables:
        connection = tables.cursor()
        make_readable(connection)
        found = Readable(connection, limit_s=60.0, remedy="").tables
    shapes = {shape.name: shape for name in _slots() for shape in shapes_of(name)}
    return "\n".join(
        [
            "# Tables\n",
            "perfguard reads the files of a recording into these tables. `perfguard sql DIR QUERY` and "
            "[checks of your own](findings.md#u001) query them; the dialect is DuckDB's. A table is filled if the recording "
            "has its files; `perfguard sql DIR --tables` lists those with rows. Times are whole nanoseconds (`_ns`), sizes "
            "are bytes (`_bytes`).\n",
            "## Columns of many tables\n",
            table(("column", "meaning"), ((code(name), sentence(about)) for name, about in COLUMNS.items())),
            "",
            "## Common tables\n",
            "They have the same columns and units whatever profiler wrote the recording; what one does not know is null. "
            "Times count from the zero of the recording.\n",
            *_tables({name: found[name] for name in common_tables()}, comments(common_statements())),
            "## Tables that readers fill\n",
            *_tables({name: found[name] for name in TABLES if name not in _CODES}, comments()),
            *(line for folder in folders() for line in _of_dialect(folder, found)),
            "\n## Tables of files\n",
            "A table for each file of a [layout](layouts.md), with typed columns: a row is a line of the file. All have the "
            f"columns {', '.join(map(code, KEYS))}.\n",
            *_of_files({name: shape for name, shape in shapes.items() if name in found}),
        ]
    )


def _slots() -> dict[str, None]:
    return dict.fromkeys(slot.name for layout in layouts() for slot in layout.slots if slot.schemas)


def _of_dialect(folder: str, found: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    text = sql(folder, "views")
    views = [name for name in dict.fromkeys(_VIEW.findall(text)) if name in found and name not in TABLES]
    if not views:
        return
    names = [layout for layout, dialect in DIALECTS.items() if folder in dialect.folders]
    links = ", ".join(f"[{one}](layouts.md#layout-{slug(one)})" for one in names)
    yield f"\n## Views of {code(folder)}\n"
    yield f"For {links or 'all layouts'}.\n"
    yield from _tables({name: found[name] for name in views}, comments(text))


def _tables(found: dict[str, list[tuple[str, str]]], about: dict[str, str]) -> Iterator[str]:
    for name, columns in found.items():
        yield f"(table-{slug(name)})=\n### {name}\n"
        if text := _COLUMN.sub("", about.get(name, "")).strip():
            yield f"{sentence(text)}\n"
        own = _meanings(about.get(name, ""))
        rows = ((code(one), kind.lower(), _unit(one), prose(own.get(one, ""))) for one, kind in columns)
        yield table(("column", "type", "unit", "meaning"), rows) + "\n"


def _of_files(shapes: dict[str, Shape]) -> Iterator[str]:
    about = meanings()
    for name, shape in shapes.items():
        yield f"(table-{slug(name)})=\n### {name}\n"
        links = ", ".join(f"[{one}](layouts.md#schema-{slug(one)})" for one in shape.versions)
        yield f"{sentence(about[name])} Schemas: {links}.\n" if name in about else f"Schemas: {links}.\n"
        yield table(("column", "type", "unit", "in the file"), _file_rows(shape)) + "\n"


def _file_rows(shape: Shape) -> Iterable[tuple[str, str, str, str]]:
    sources: dict[str, list[str]] = {}
    for version in shape.versions.values():
        for source in version:
            sources.setdefault(source.column, []).append(source.name)
    for column, kind in shape.kinds.items():
        if column not in KEYS:
            names = dict.fromkeys(name for name in sources[column] if name != column)
            yield code(column), kind, _unit(column), ", ".join(map(code, names))


def _meanings(comment: str) -> dict[str, str]:
    """Return the meanings of columns in the comment of a table: "`parent`: row of the enclosing span; ..."."""
    return {name: text.strip() for name, text in _COLUMN.findall(comment)}


def _unit(column: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if column.endswith(ending) or column == ending[1:]), "")
