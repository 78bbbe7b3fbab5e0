"""Typed columns: the cells of files in the tables of a batch, converted by their schemas.

A slot has one table with the name of the slot; a database has one for each of its tables, `db_` before their names; a JSON
document has those that its schema marks (`perfguard.artifacts.document_rows`). All versions of the schema share it: a column
that a file lacks is null. Columns of a pattern with `x-rows` in the schema have a table of their own, `SLOT_NAME`: a row for
each cell, with the name of its column. By `type` and `x-unit` of the schema a column is:

* a time (ns, us, ms, s, 10ns): `bigint` nanoseconds, `<name>_ns`, exact to the digit of a nanosecond;
* a size (byte, KB, MB, GB): `bigint` bytes, `<name>_bytes`; a KB is 1024 bytes, unless `x-bytes` gives another size;
* another number: `double`, or `bigint` where only integers are allowed; its unit is in the name (`_percent`, `_gb_per_s`);
* all else: `varchar`, without quotation marks; objects and lists as JSON.

N/A, blanks and other texts in a column of numbers are null. The name is that of the file's column in lower case with
underscores, or `x-name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.document_rows import row_kinds
from perfguard.artifacts.layout import Slot, layouts
from perfguard.artifacts.schema import RowSchema, row_schema
from perfguard.artifacts.table import Cells, as_int64, nanoseconds, quantity, unquoted
from perfguard.documents import schema

if TYPE_CHECKING:
    import polars as pl

#: The first columns of every table: cycle, number of the file among those of its slot, line (or number) of the row.
KEYS = {"cycle": "integer", "file": "integer", "row": "bigint"}
#: The prefix of the tables of databases.
DATABASE = "db_"
#: The format of texts that may have several tables.
_SECTIONS = "whitespace"
#: Slots whose rows have tables of their own kind.
OWN = frozenset(("kernel_details",))
#: The format of databases, each with several tables.
_DATABASE = "sqlite"
#: Formats of documents, whose rows are objects in them.
DOCUMENTS = frozenset(("json", "ragged", "snapshot"))
_TIMES = {"ns": 0, "us": 3, "ms": 6, "s": 9, "10ns": 1}
_SIZES = {"byte": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_ENDINGS = {
    **dict.fromkeys(_TIMES, "_ns"),
    **dict.fromkeys(_SIZES, "_bytes"),
    "percent": "_percent",
    "GB/s": "_gb_per_s",
    "MB/s": "_mb_per_s",
    "byte/s": "_bytes_per_s",
    "1/s": "_per_s",
    "MFLOP": "_mflop",
    "GFLOP/s": "_gflop_per_s",
    "MHz": "_mhz",
}
_UNIT_IN_NAME = re.compile(r"\((?:[num]?s|%|[kKMG]?B(?:/s)?|[Bb]ytes?|MHz)\)|10\^[0-9]+|(?<=[a-z_])(?:_[num]s|Ns)$")
_NUMBERS = frozenset(("integer", "number"))
_WIDER = ("boolean", "bigint", "double", "varchar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A column of a file, in one version of its schema, and the column of the table that it becomes."""

    column: str
    name: str
    kind: str
    unit: str = ""
    #: The number of bytes in the unit of a size.
    unit_bytes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table for the rows of a slot, or for those of a part `inner` of it: of a database, of a document, some columns."""

    name: str
    slots: tuple[str, ...]
    inner: str = ""
    #: The columns by version of the schema.
    versions: Mapping[str, tuple[Source, ...]]
    #: The pattern of the columns whose cells are its rows; empty: its rows are those of the file.
    pattern: str = ""

    @property
    def kinds(self) -> dict[str, str]:
        """The columns with their types in DuckDB."""
        found: dict[str, str] = {}
        for source in (one for sources in self.versions.values() for one in sources):
            found[source.column] = max(found.get(source.column, source.kind), source.kind, key=_WIDER.index)
        return {**KEYS, **found}

    def typed(self, frame: pl.DataFrame, cells: Cells, version: str) -> dict[str, pl.Series]:
        """Return the rows of a file as columns, without the keys; one that the file lacks is null."""
        sources = {one.column: one for one in self.versions[version] if one.name in frame.columns}
        kinds = {name: kind for name, kind in self.kinds.items() if name not in KEYS}
        if cells is Cells.JSON:
            # All at once: an expression costs polars more than a few rows.
            frame = frame.with_columns(_text(one.name) for one in sources.values() if kinds[one.column] == "varchar")
        return {
            name: _converted(frame[sources[name].name], kind, sources[name])
            if name in sources
            else nothing(kind, frame.height)
            for name, kind in kinds.items()
        }


@cache
def slot_names() -> frozenset[str]:
    """Return the names of all slots."""
    return frozenset(slot.name for layout in layouts() for slot in layout.slots)


@cache
def slot_of_parts(table: str) -> str:
    """Return the slot whose documents or columns have rows in a table, or an empty text."""
    # By its name, so that only one schema is read.
    words = table.split("_")
    begins = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    slot = next((one for one in begins if one in slot_names()), "")
    return slot if any(shape.inner and shape.name == table for shape in shapes_of(slot)) else ""


@cache
def shapes_of(slot: str) -> tuple[Shape, ...]:
    """Return the tables for the rows of a slot, in all layouts; none if its format has no rows."""
    slots = [one for layout in layouts() for one in layout.slots]
    traces = {layout.tables.get("slot") for layout in layouts() if layout.tables}
    if slot in OWN or slot in traces:
        return ()
    own = [one for one in slots if one.name == slot]
    inner = dict.fromkeys(name for one in own for version in one.schemas for name in _parts(version, one.format))
    # Databases share their tables.
    is_database = any(one.format == _DATABASE for one in own)
    sharing = [one for one in slots if one.format == _DATABASE] if is_database else own
    return tuple(_shape(slot, name, sharing) for name in inner)


def _shape(slot: str, inner: str, slots: Iterable[Slot]) -> Shape:
    """Return the table for the rows of a part of files in some slots."""
    parts = {
        version: parts[inner]
        for one in slots
        for version in one.schemas
        if inner in (parts := _parts(version, one.format))
    }
    having = [one for one in slots if not parts.keys().isdisjoint(one.schemas)]
    name = f"{slot}_{inner}" if inner else slot
    return Shape(
        name=DATABASE + lowered(inner) if having[0].format == _DATABASE else name,
        slots=tuple(dict.fromkeys(one.name for one in having)),
        inner=inner,
        versions={version: _sources(row, schema(version)) for version, (row, _) in parts.items()},
        pattern=next(pattern for _, pattern in parts.values()),
    )


#: The names of the columns that have the name of a column and its cells.
COLUMN, CELL = "name", "value"


@cache
def _parts(version: str, file_format: str) -> Mapping[str, tuple[Mapping[str, Any], str]]:
    """Return the row schemas of files, by the part of the file whose rows they describe (empty: the whole file).

    With each, the pattern of the columns whose cells are the rows; empty: the rows are those of the file.
    """
    whole = schema(version)
    if file_format in DOCUMENTS:
        return {name: ({"properties": columns}, "") for name, columns in row_kinds(version).items()}
    if file_format == _DATABASE or (file_format == _SECTIONS and whole.get("type") == "object"):
        return {name: (part["items"], "") for name, part in whole["properties"].items()}
    if whole.get("type") != "array":
        return {}
    row = row_schema(whole)
    cells = {
        part["x-rows"]: ({"properties": {COLUMN: {"type": "string"}, CELL: part}}, pattern)
        for pattern, part in row.get("patternProperties", {}).items()
        if "x-rows" in part
    }
    return {"": (row, ""), **cells}


def _sources(row: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Source, ...]:
    """Return the columns that a row's schema, inside its document, names."""
    judge = RowSchema(row, root)
    return tuple(
        _source(name, part, judge.column_types(name) or frozenset())
        for name, part in row.get("properties", {}).items()
        # Some files end their lines with a comma.
        if name
    )


def _source(name: str, part: Mapping[str, Any], types: frozenset[str]) -> Source:
    unit = part.get("x-unit", "")
    # Some times are texts of numbers.
    unit = unit if types & _NUMBERS or (unit in _TIMES and "array" not in types) else ""
    plain, ending = lowered(_UNIT_IN_NAME.sub("", name)), _ENDINGS.get(unit, "")
    # MFLOPs(10^6) has its unit in the name.
    column = part.get("x-name", plain if plain.startswith(ending[1:6] or "-") else plain + ending)
    size = part.get("x-bytes", _SIZES.get(unit, 1))
    return Source(column=column, name=name, kind=_kind(unit, types), unit=unit, unit_bytes=size)


def _kind(unit: str, types: frozenset[str]) -> str:
    if unit in _TIMES or unit in _SIZES:
        return "bigint"
    if types and types <= {"boolean", "null"}:
        return "boolean"
    if not types & _NUMBERS or unit == "address" or (not unit and not types <= {*_NUMBERS, "null"}):
        return "varchar"
    return "double" if "number" in types or unit not in ("", "1") else "bigint"


def lowered(name: str) -> str:
    """Return a name in lower case with underscores: `globalTaskId` is `global_task_id`, `Op Name` is `op_name`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^0-9a-z]+", "_", apart.lower()).strip("_")


def nothing(kind: str, height: int) -> pl.Series:
    """Return a column of nulls."""
    import polars as pl

    types = {"bigint": pl.Int64, "double": pl.Float64, "boolean": pl.Boolean, "varchar": pl.String}
    return pl.Series([None], dtype=types[kind]).new_from_index(0, height)


def _converted(cells: pl.Series, kind: str, source: Source) -> pl.Series:
    """Convert the cells of a column to the type of the table; texts are without quotation marks already."""
    if kind == "varchar":
        return cells
    if kind == "boolean":
        return cells == "true"
    if source.unit in _TIMES:
        return nanoseconds(cells, _TIMES[source.unit])
    if kind == "double":
        return quantity(cells)
    if source.unit_bytes == 1:
        return as_int64(cells.str.strip_chars('"'))
    return (quantity(cells) * source.unit_bytes).round().cast(int, strict=False)


def _text(name: str) -> pl.Expr:
    """Return the expression that removes the quotation marks of JSON texts in a column."""
    import polars as pl

    return pl.when(pl.col(name).str.starts_with('"')).then(unquoted(name)).otherwise(pl.col(name)).alias(name)
