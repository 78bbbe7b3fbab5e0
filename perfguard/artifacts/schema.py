"""One JSON Schema (2020-12) for the rows of a table: compiled to column checks, worded by jsonschema.

What goes in: a `Table` and a row schema. What comes out: which rows break it, and for the first of them jsonschema's own
messages. Columns are checked with polars expressions where an expression can prove a cell valid; what it cannot prove
goes, once per distinct text, through `jsonschema` itself, so that the verdict is always jsonschema's. Applicators
(allOf, if/then, ...) become operations on row masks; keywords that do not split by column are asked of jsonschema row by
row. tests/artifacts/test_schema.py compares both on random schemas and rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.cell_proofs import PROOFS, PROVEN_KEYWORDS
from perfguard.artifacts.table import Cells, Table, cell_value, json_value
from perfguard.validator import Schema, Validator

if TYPE_CHECKING:
    import polars as pl

#: Keywords that say something about a schema but never refuse a value.
ANNOTATIONS = frozenset(
    {
        "$id", "$schema", "$comment", "$defs", "$anchor", "title", "description", "default", "examples", "deprecated",
        "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "then", "else",
    }
)  # fmt: skip

#: How many failing rows are worded one by one.
WORDED_ROWS = 100
#: Up to so many rows are validated one by one: polars takes as long to begin with their columns.
FEW_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """One thing wrong with one row: jsonschema's path and message."""

    row: int
    path: str
    message: str


class RowSchema:
    """A row schema inside its root document (which holds the `$defs`)."""

    def __init__(self, row_schema: Schema, root: Mapping[str, Any] | None = None) -> None:
        self.schema = row_schema
        own = row_schema if isinstance(row_schema, Mapping) else {}
        self.root: Mapping[str, Any] = own if root is None else root
        self._types_by_column: dict[str, frozenset[str] | None] = {}

    def validator(self, schema: Schema) -> Validator:
        """Return the validator of a part of the document; its references still resolve in the root."""
        return Validator(schema, self.root)

    # -- verdicts ------------------------------------------------------------------------------------------------

    def invalid_rows(self, table: Table) -> list[int]:
        """Return the numbers of the rows that break the schema, ascending."""
        if table.height <= FEW_ROWS:
            validator = self.validator(self.schema)
            return [row for row, one in enumerate(self._instances(table)) if not validator.is_valid(one)]
        mask = self._rows_valid(table.frame, self.schema, table.cells)
        found: list[int] = (~mask).arg_true().to_list()
        return found

    def errors(self, table: Table, rows: Iterable[int]) -> list[RowError]:
        """Word what is wrong with the given rows, in jsonschema's words."""
        validator = self.validator(self.schema)
        worded = []
        numbers = list(rows)
        chosen = Table(frame=table.frame[numbers], cells=table.cells)
        for row, instance in zip(numbers, self._instances(chosen), strict=True):
            found = sorted(validator.errors(instance), key=lambda e: (e.json_path, e.message))
            if not found:
                raise AssertionError(f"column checks refuse row {row}, jsonschema does not: {instance!r}")
            worded += [RowError(row=row, path=e.json_path, message=e.message) for e in found]
        return worded

    def _instances(self, table: Table) -> Iterator[dict[str, Any]]:
        """Yield the rows as the JSON objects that the schema describes."""
        columns = [(name, self.column_types(name)) for name in table.columns]
        for row in table.frame.iter_rows():
            yield {
                name: cell_value(text, table.cells, types)
                for (name, types), text in zip(columns, row, strict=True)
                if text is not None
            }

    # -- rows ----------------------------------------------------------------------------------------------------

    def _rows_valid(self, frame: pl.DataFrame, schema: Schema, cells: Cells) -> pl.Series:
        import polars as pl

        height = frame.height
        if isinstance(schema, bool):
            return pl.repeat(schema, height, dtype=pl.Boolean, eager=True)
        mask = pl.repeat(True, height, dtype=pl.Boolean, eager=True)
        for keyword, value in schema.items():
            if keyword in ANNOTATIONS or keyword.startswith("x-"):
                continue
            handler = _ROW_KEYWORDS.get(keyword)
            part = (
                handler(self, frame, schema, cells)
                if handler and not (keyword == "$ref" and self.resolve(value) is None)
                else self._rows_valid_slowly(frame, {keyword: value}, cells)
            )
            mask = mask & part
        return mask

    def _rows_valid_slowly(self, frame: pl.DataFrame, schema: Schema, cells: Cells) -> pl.Series:
        import polars as pl

        validator = self.validator(schema)
        table = Table(frame=frame, cells=cells)
        verdicts = [validator.is_valid(one) for one in self._instances(table)]
        return pl.Series(verdicts, dtype=pl.Boolean)

    def _type(self, frame: pl.DataFrame, schema: Mapping[str, Any], _: Cells) -> pl.Series:
        import polars as pl

        return pl.repeat("object" in as_set(schema["type"]), frame.height, dtype=pl.Boolean, eager=True)

    def _required(self, frame: pl.DataFrame, schema: Mapping[str, Any], _: Cells) -> pl.Series:
        return self._present(frame, schema["required"])

    def _present(self, frame: pl.DataFrame, names: Iterable[str]) -> pl.Series:
        import polars as pl

        mask = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        for name in names:
            if name not in frame.columns:
                return pl.repeat(False, frame.height, dtype=pl.Boolean, eager=True)
            mask = mask & frame[name].is_not_null()
        return mask

    def _properties(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        named = [(n, s) for n, s in schema["properties"].items() if n in frame.columns]
        return self._columns_valid(frame, named, cells)

    def _pattern_properties(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        named = [
            (name, part)
            for pattern, part in schema["patternProperties"].items()
            for name in frame.columns
            if re.search(pattern, name)
        ]
        return self._columns_valid(frame, named, cells)

    def _additional_properties(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        names = unnamed_columns(frame.columns, schema)
        return self._columns_valid(frame, [(n, schema["additionalProperties"]) for n in names], cells)

    def _all_of(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        import polars as pl

        mask = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        for part in schema["allOf"]:
            mask = mask & self._rows_valid(frame, part, cells)
        return mask

    def _any_of(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        return self._count_valid(frame, schema["anyOf"], cells) > 0

    def _one_of(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        return self._count_valid(frame, schema["oneOf"], cells) == 1

    def _count_valid(self, frame: pl.DataFrame, parts: Iterable[Schema], cells: Cells) -> pl.Series:
        import polars as pl

        count = pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
        for part in parts:
            count = count + self._rows_valid(frame, part, cells).cast(pl.Int64)
        return count

    def _not(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        return ~self._rows_valid(frame, schema["not"], cells)

    def _if(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        condition = self._rows_valid(frame, schema["if"], cells)
        mask = condition | True
        # Only the rows concerned are looked at: few events of a trace are of the kind a condition speaks of.
        for keyword, concerned in (("then", condition), ("else", ~condition)):
            rows = concerned.arg_true()
            if keyword in schema and len(rows):
                mask = mask.scatter(rows, self._rows_valid(frame[rows], schema[keyword], cells))
        return mask

    def _dependent_required(self, frame: pl.DataFrame, schema: Mapping[str, Any], _: Cells) -> pl.Series:
        import polars as pl

        mask = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        for name, needed in schema["dependentRequired"].items():
            if name in frame.columns:
                mask = mask & (frame[name].is_null() | self._present(frame, needed))
        return mask

    def _ref(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        target = self.resolve(schema["$ref"])
        assert target is not None
        return self._rows_valid(frame, target, cells)

    # -- cells ---------------------------------------------------------------------------------------------------

    def _columns_valid(self, frame: pl.DataFrame, named: Iterable[tuple[str, Schema]], cells: Cells) -> pl.Series:
        import polars as pl

        mask = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        for name, part in named:
            mask = mask & self._cells_valid(frame[name], part, cells)
        return mask

    def _cells_valid(self, column: pl.Series, schema: Schema, cells: Cells) -> pl.Series:
        if schema is True:
            return column.is_null() | True
        if schema is False:
            return column.is_null()
        if isinstance(schema, Mapping) and (target := self._only_reference(schema)) is not None:
            return self._cells_valid(column, target, cells)
        settled = column.is_null() | self._certainly_valid(column, schema, cells)
        open_texts = column.filter(~settled)
        if open_texts.is_empty():
            return settled
        if cells is Cells.JSON and isinstance(schema, Mapping) and "properties" in schema:
            return self._objects_valid(column, schema)
        types = self.column_types(column.name)
        validator = self.validator(schema)
        refused = [t for t in open_texts.unique().to_list() if not validator.is_valid(cell_value(t, cells, types))]
        return settled | ~column.is_in(refused) if refused else column.is_null() | True

    def _objects_valid(self, column: pl.Series, schema: Mapping[str, Any]) -> pl.Series:
        """Check a column of JSON objects as a table of its own, so that unique arguments stay cheap."""

        is_object = column.str.starts_with("{").fill_null(False)
        rows = is_object.arg_true()
        verdict = column.is_null() | True
        if len(rows):
            frame = object_columns(column.gather(rows).to_list())
            if frame is None:
                return column.is_null() | self._texts_valid(column, schema)
            verdict = verdict.scatter(rows, self._rows_valid(frame, schema, Cells.JSON))
        others = column.filter(~is_object & column.is_not_null()).unique().to_list()
        validator = self.validator(schema)
        refused = [text for text in others if not validator.is_valid(cell_value(text, Cells.JSON, None))]
        return verdict & ~column.is_in(refused).fill_null(False) if refused else verdict

    def _texts_valid(self, column: pl.Series, schema: Mapping[str, Any]) -> pl.Series:
        """Ask jsonschema of every distinct object: there are too many different keys for columns."""
        validator = self.validator(schema)
        texts = column.drop_nulls().unique().to_list()
        refused = [text for text in texts if not validator.is_valid(cell_value(text, Cells.JSON, None))]
        return ~column.is_in(refused).fill_null(False)

    def _certainly_valid(self, column: pl.Series, schema: Schema, cells: Cells) -> pl.Series:
        """Return which cells an expression proves valid; False only means that jsonschema has to say."""
        import polars as pl

        unsure = pl.repeat(False, len(column), dtype=pl.Boolean, eager=True)
        if not isinstance(schema, Mapping) or "type" not in schema:
            return unsure
        keywords = {k for k in schema if k not in ANNOTATIONS and not k.startswith("x-")}
        if not keywords <= PROVEN_KEYWORDS:
            return unsure
        types = self.column_types(column.name)
        proven = unsure
        for one in as_set(schema["type"]):
            check = PROOFS.get(one)
            if check is not None:
                proven = proven | check(column, schema, cells, types).fill_null(False)
        return proven

    # -- schemas -------------------------------------------------------------------------------------------------

    def resolve(self, reference: str) -> Schema | None:
        """Return the target of a local reference, or None for one that jsonschema has to follow."""
        if not reference.startswith("#/"):
            return None
        found: Any = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return None
            found = found[key]
        return found if isinstance(found, (Mapping, bool)) else None

    def _only_reference(self, schema: Mapping[str, Any]) -> Schema | None:
        if "$ref" in schema and all(k == "$ref" or k in ANNOTATIONS or k.startswith("x-") for k in schema):
            return self.resolve(schema["$ref"])
        return None

    def column_types(self, name: str) -> frozenset[str] | None:
        """Return the JSON types that any part of the row schema names for a column: one cell has one value."""
        if name not in self._types_by_column:
            parts = _schemas_of_column(self.schema, name, self.resolve)
            found = frozenset().union(*(self._types(part) or () for part in parts))
            self._types_by_column[name] = found or None
        return self._types_by_column[name]

    def _types(self, schema: Schema) -> frozenset[str] | None:
        """Collect the JSON types a schema speaks of, through references and applicators; None when it does not say."""
        if isinstance(schema, bool):
            return None
        found: set[str] = set(as_set(schema["type"])) if "type" in schema else set()
        parts: list[Schema] = [p for k in ("allOf", "anyOf", "oneOf") for p in schema.get(k, ())]
        parts += [schema[k] for k in ("if", "then", "else", "not") if k in schema]
        if "$ref" in schema and (target := self.resolve(schema["$ref"])) is not None:
            parts.append(target)
        for part in parts:
            found |= self._types(part) or set()
        for value in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]:
            found |= {"number"} if isinstance(value, (int, float)) and not isinstance(value, bool) else {"string"}
        return frozenset(found) or None


def documents_in_cells(table: Table, row: Mapping[str, Any]) -> Iterator[RowError]:
    """Check the JSON inside text cells, where the row schema says that a column holds some (`contentSchema`).

    Each distinct text is read and checked once; at most a hundred rows are worded.
    """
    worded = 0
    for name, part in row.get("properties", {}).items():
        if "contentSchema" not in part or name not in table.frame.columns:
            continue
        validator = Validator(part["contentSchema"])
        column = table.frame[name]
        for text in column.drop_nulls().unique(maintain_order=True).to_list():
            if not text and "null" in as_set(part.get("type", ())):
                continue
            try:
                errors = [error.message for error in validator.errors(json_value(text))]
            except (ValueError, RecursionError) as error:
                errors = [f"{text[:80]!r} is not JSON: {error}"]
            if errors:
                row_number = int((column == text).arg_true()[0])
                yield RowError(row=row_number, path=f"$.{name}", message=errors[0])
                worded += 1
                if worded == WORDED_ROWS:
                    return


def row_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a table's schema that speaks of one row: of an array, or of the `traceEvents` of an object."""
    items = schema["items"] if "items" in schema else schema["properties"]["traceEvents"]["items"]
    if "$ref" in items:
        items = schema["$defs"][items["$ref"].removeprefix("#/$defs/")]
    found: Mapping[str, Any] = items
    return found


def is_table(schema: Mapping[str, Any]) -> bool:
    """Whether a schema describes rows (a table or a trace), and not one document."""
    return schema.get("type") == "array" or "traceEvents" in schema.get("properties", {})


def unnamed_columns(columns: Iterable[str], schema: Mapping[str, Any]) -> list[str]:
    """Return the columns that neither `properties` nor `patternProperties` of a row schema name."""
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return [c for c in columns if c not in named and not any(re.search(p, c) for p in patterns)]


#: How many different keys objects may have to be laid out as columns: with N objects and N keys they fill N x N cells.
MAX_KEYS = 2_000


def object_columns(objects: list[str]) -> pl.DataFrame | None:
    """Turn JSON objects (as texts) into columns of raw JSON, null where an object lacks the key.

    Returns None where they have more than `MAX_KEYS` different keys.
    """
    import msgspec
    import polars as pl

    decoded = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode("[" + ",".join(objects) + "]")
    names: dict[str, None] = {}
    for one in decoded:
        names.update(dict.fromkeys(one))
        if len(names) > MAX_KEYS:
            return None
    columns = {
        name: pl.Series(name, [bytes(one[name]).decode() if name in one else None for one in decoded], dtype=pl.String)
        for name in names
    }
    if not columns:
        # A frame without columns has no height; the rows still have to be counted.
        return pl.DataFrame({"": pl.Series([None] * len(decoded), dtype=pl.String)})
    return pl.DataFrame(columns)


def as_set(types: str | list[str]) -> frozenset[str]:
    """Return the JSON types that `type` names, one or several."""
    return frozenset((types,) if isinstance(types, str) else types)


def _schemas_of_column(schema: Schema, name: str, resolve: Callable[[str], Schema | None]) -> Iterable[Schema]:
    """Yield every schema that speaks of one column, wherever an applicator has put it."""
    if isinstance(schema, bool):
        return
    if name in schema.get("properties", {}):
        yield schema["properties"][name]
    for pattern, part in schema.get("patternProperties", {}).items():
        if re.search(pattern, name):
            yield part
    if isinstance(schema.get("additionalProperties"), Mapping) and unnamed_columns([name], schema):
        yield schema["additionalProperties"]
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, ()):
            yield from _schemas_of_column(part, name, resolve)
    for key in ("if", "then", "else", "not"):
        if key in schema:
            yield from _schemas_of_column(schema[key], name, resolve)
    if "$ref" in schema and (target := resolve(schema["$ref"])) is not None:
        yield from _schemas_of_column(target, name, resolve)


_ROW_KEYWORDS: dict[str, Callable[[RowSchema, pl.DataFrame, Mapping[str, Any], Cells], pl.Series]] = {
    "type": RowSchema._type,
    "required": RowSchema._required,
    "properties": RowSchema._properties,
    "patternProperties": RowSchema._pattern_properties,
    "additionalProperties": RowSchema._additional_properties,
    "allOf": RowSchema._all_of,
    "anyOf": RowSchema._any_of,
    "oneOf": RowSchema._one_of,
    "not": RowSchema._not,
    "if": RowSchema._if,
    "dependentRequired": RowSchema._dependent_required,
    "$ref": RowSchema._ref,
}
