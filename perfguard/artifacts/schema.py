"""Row schemas: one JSON Schema (2020-12) for the rows of a table, compiled to column checks; jsonschema writes the messages.

`RowSchema` takes a `Table` and returns the rows that violate the schema, and jsonschema's own messages for the first of them.
Polars expressions prove cells of a column valid. Each distinct text that they cannot prove is validated by `jsonschema`, so
the verdict is always jsonschema's. Applicators (allOf, if/then, ...) become operations on row masks; other keywords are
validated by jsonschema row by row. tests/artifacts/test_schema.py compares both ways on random schemas and rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.cell_proofs import PROOFS, PROVEN_KEYWORDS
from perfguard.artifacts.table import Cells, Table, cell_value, json_value
from perfguard.validator import Schema, Validator

if TYPE_CHECKING:
    import polars as pl

#: Keywords that never make a value invalid, or belong to others.
_ANNOTATIONS = frozenset(
    {
        "$id", "$schema", "$comment", "$defs", "$anchor", "title", "description", "default", "examples", "deprecated",
        "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "then", "else",
    }
)  # fmt: skip
#: The keywords for single columns.
_COLUMN_KEYWORDS = frozenset({"properties", "patternProperties", "additionalProperties"})

#: Number of invalid rows that are reported one by one; the others are counted.
SHOWN_VIOLATIONS = 100
#: Up to this number, rows are validated one by one: polars takes as long to start.
FEW_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """A violation in a row: jsonschema's path and message."""

    row: int
    path: str
    message: str


class RowSchema:
    """A row schema inside its root document (which contains the `$defs`)."""

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
        """Return the numbers of the rows that violate the schema, ascending."""
        if table.height <= FEW_ROWS:
            validator = self.validator(self.schema)
            return [row for row, one in enumerate(self._instances(table)) if not validator.is_valid(one)]
        mask = self._rows_valid(table.frame, self.schema, table.cells)
        found: list[int] = (~mask).arg_true().to_list()
        return found

    def errors(self, table: Table, rows: Iterable[int]) -> list[RowError]:
        """Return jsonschema's errors for the given invalid rows."""
        validator = self.validator(self.schema)
        violations = []
        numbers = list(rows)
        chosen = Table(frame=table.frame[numbers], cells=table.cells)
        for row, instance in zip(numbers, self._instances(chosen), strict=True):
            found = sorted(validator.errors(instance), key=lambda e: (e.json_path, e.message))
            if not found:
                raise AssertionError(f"column checks refuse row {row}, jsonschema does not: {instance!r}")
            violations += [RowError(row=row, path=e.json_path, message=e.message) for e in found]
        return violations

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
        height = frame.height
        if isinstance(schema, bool):
            return _flags(height, schema)
        masks = [
            self._cells_valid(frame[name], part, cells)
            for name in frame.columns
            for part in column_schemas(name, schema)
        ]
        for keyword, value in schema.items():
            if keyword in _COLUMN_KEYWORDS or is_annotation(keyword):
                continue
            handler = _ROW_KEYWORDS.get(keyword)
            if handler is None or (keyword == "$ref" and self.resolve(value) is None):
                masks.append(self._rows_valid_slowly(frame, {keyword: value}, cells))
            else:
                masks.append(handler(self, frame, schema, cells))
        return _all(masks, height)

    def _rows_valid_slowly(self, frame: pl.DataFrame, schema: Schema, cells: Cells) -> pl.Series:
        import polars as pl

        validator = self.validator(schema)
        verdicts = [validator.is_valid(one) for one in self._instances(Table(frame=frame, cells=cells))]
        return pl.Series(verdicts, dtype=pl.Boolean)

    def _count_valid(self, frame: pl.DataFrame, parts: Iterable[Schema], cells: Cells) -> pl.Series:
        count = _flags(frame.height, False).cast(int)
        for part in parts:
            count = count + self._rows_valid(frame, part, cells).cast(int)
        return count

    def _if(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        condition = self._rows_valid(frame, schema["if"], cells)
        mask = _flags(frame.height, True)
        # Check only the rows concerned: most conditions are about few events of a trace.
        for keyword, concerned in (("then", condition), ("else", ~condition)):
            rows = concerned.arg_true()
            if keyword in schema and len(rows):
                mask = mask.scatter(rows, self._rows_valid(frame[rows], schema[keyword], cells))
        return mask

    def _dependent_required(self, frame: pl.DataFrame, schema: Mapping[str, Any], _: Cells) -> pl.Series:
        rules = [(name, needed) for name, needed in schema["dependentRequired"].items() if name in frame.columns]
        return _all((frame[name].is_null() | _present(frame, needed) for name, needed in rules), frame.height)

    def _ref(self, frame: pl.DataFrame, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        target = self.resolve(schema["$ref"])
        assert target is not None
        return self._rows_valid(frame, target, cells)

    # -- cells ---------------------------------------------------------------------------------------------------

    def _cells_valid(self, column: pl.Series, schema: Schema, cells: Cells) -> pl.Series:
        if isinstance(schema, bool):
            return column.is_null() | schema
        if (target := self._only_reference(schema)) is not None:
            return self._cells_valid(column, target, cells)
        settled = column.is_null() | self._certainly_valid(column, schema, cells)
        if settled.all():
            return settled
        if cells is Cells.JSON and "properties" in schema:
            return self._objects_valid(column, schema)
        return self._texts_valid(column, column.filter(~settled), schema, cells)

    def _objects_valid(self, column: pl.Series, schema: Mapping[str, Any]) -> pl.Series:
        """Check a column of JSON objects as a separate table, so that unique arguments stay cheap."""
        is_object = column.str.starts_with("{").fill_null(False)
        rows = is_object.arg_true()
        frame = object_columns(column.gather(rows).to_list())
        if frame is None:
            # There are too many different keys for columns.
            return self._texts_valid(column, column, schema, Cells.JSON)
        verdict = self._texts_valid(column, column.filter(~is_object), schema, Cells.JSON)
        return verdict.scatter(rows, self._rows_valid(frame, schema, Cells.JSON)) if len(rows) else verdict

    def _texts_valid(self, column: pl.Series, texts: pl.Series, schema: Schema, cells: Cells) -> pl.Series:
        """Validate each distinct one of some `texts` of a column with jsonschema; all other cells are valid."""
        types, validator = self.column_types(column.name), self.validator(schema)
        different = texts.drop_nulls().unique().to_list()
        refused = [text for text in different if not validator.is_valid(cell_value(text, cells, types))]
        return ~column.is_in(refused).fill_null(False) if refused else _flags(len(column), True)

    def _certainly_valid(self, column: pl.Series, schema: Mapping[str, Any], cells: Cells) -> pl.Series:
        """Return flags of the cells that an expression proves valid; False means that jsonschema must decide."""
        proven = _flags(len(column), False)
        if all(keyword in PROVEN_KEYWORDS or is_annotation(keyword) for keyword in schema):
            types = self.column_types(column.name)
            for check in (PROOFS[one] for one in as_set(schema.get("type", ())) if one in PROOFS):
                proven = proven | check(column, schema, cells, types).fill_null(False)
        return proven

    # -- schemas -------------------------------------------------------------------------------------------------

    def resolve(self, reference: str) -> Schema | None:
        """Return the target of a local reference, or None for one that only jsonschema can resolve."""
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
        if "$ref" in schema and all(keyword == "$ref" or is_annotation(keyword) for keyword in schema):
            return self.resolve(schema["$ref"])
        return None

    def column_types(self, name: str) -> frozenset[str] | None:
        """Return the JSON types that the parts of the row schema name for a column."""
        if name not in self._types_by_column:
            found = frozenset().union(*map(self._types, self._schemas_of_column(self.schema, name)))
            self._types_by_column[name] = found or None
        return self._types_by_column[name]

    def _schemas_of_column(self, schema: Schema, name: str) -> Iterator[Schema]:
        """Yield every schema of one column, also those inside applicators."""
        if isinstance(schema, Mapping):
            yield from column_schemas(name, schema)
            for part in self._applied(schema):
                yield from self._schemas_of_column(part, name)

    def _types(self, schema: Schema) -> frozenset[str]:
        """Collect the JSON types that a schema names, through references and applicators."""
        if isinstance(schema, bool):
            return frozenset()
        values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        is_number = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
        named = as_set(schema.get("type", ())).union("number" if one else "string" for one in is_number)
        return named.union(*map(self._types, self._applied(schema)))

    def _applied(self, schema: Mapping[str, Any]) -> Iterator[Schema]:
        """Yield the schemas that apply to the same value: those of applicators, and the target of a reference."""
        for key in ("allOf", "anyOf", "oneOf"):
            yield from schema.get(key, ())
        yield from (schema[key] for key in ("if", "then", "else", "not") if key in schema)
        if "$ref" in schema and (target := self.resolve(schema["$ref"])) is not None:
            yield target


def _flags(height: int, value: bool) -> pl.Series:
    import polars as pl

    return pl.repeat(value, height, dtype=pl.Boolean, eager=True)


def _all(masks: Iterable[pl.Series], height: int) -> pl.Series:
    return reduce(and_, masks, _flags(height, True))


def _present(frame: pl.DataFrame, names: Iterable[str]) -> pl.Series:
    """Return which rows have cells in all columns of some names."""
    nothing = _flags(frame.height, False)
    return _all((frame[name].is_not_null() if name in frame.columns else nothing for name in names), frame.height)


def documents_in_cells(table: Table, row: Mapping[str, Any]) -> Iterator[RowError]:
    """Validate JSON documents in text cells, for columns with a `contentSchema`.

    Each distinct text is parsed and validated once; at most `SHOWN_VIOLATIONS` errors are returned.
    """
    shown = 0
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
                shown += 1
                if shown == SHOWN_VIOLATIONS:
                    return


def row_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of one row: of an array's item, or of an item of the `traceEvents` of an object."""
    items = schema["items"] if "items" in schema else schema["properties"]["traceEvents"]["items"]
    if "$ref" in items:
        items = schema["$defs"][items["$ref"].removeprefix("#/$defs/")]
    found: Mapping[str, Any] = items
    return found


def is_table(schema: Mapping[str, Any]) -> bool:
    """Whether a schema describes rows (a table or a trace) and not one document."""
    return schema.get("type") == "array" or "traceEvents" in schema.get("properties", {})


def unnamed_columns(columns: Iterable[str], schema: Mapping[str, Any]) -> list[str]:
    """Return the columns that `properties` and `patternProperties` of a row schema do not name."""
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return [c for c in columns if c not in named and not any(re.search(p, c) for p in patterns)]


#: Largest number of different keys of objects that become columns: N objects with N keys fill N x N cells.
MAX_KEYS = 2_000


def object_columns(objects: list[str]) -> pl.DataFrame | None:
    """Turn JSON objects (as texts) into columns of raw JSON; a cell is null if its object lacks the key.

    Returns None for more than `MAX_KEYS` different keys.
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
        # A frame without columns has no height, but the number of rows is needed.
        return pl.DataFrame({"": pl.Series([None] * len(decoded), dtype=pl.String)})
    return pl.DataFrame(columns)


def column_schemas(name: str, row: Mapping[str, Any]) -> Iterator[Schema]:
    """Yield the schemas that the keywords of a row schema for single columns have for a column."""
    if name in row.get("properties", {}):
        yield row["properties"][name]
    yield from (part for pattern, part in row.get("patternProperties", {}).items() if re.search(pattern, name))
    if "additionalProperties" in row and unnamed_columns([name], row):
        yield row["additionalProperties"]


def is_annotation(keyword: str) -> bool:
    """Whether a keyword never makes a value invalid."""
    return keyword in _ANNOTATIONS or keyword.startswith("x-")


def as_set(types: str | Iterable[str]) -> frozenset[str]:
    """Return the JSON types of the keyword `type`, which is one name or several."""
    return frozenset((types,) if isinstance(types, str) else types)


_ROW_KEYWORDS: dict[str, Callable[[RowSchema, pl.DataFrame, Mapping[str, Any], Cells], pl.Series]] = {
    "type": lambda rows, frame, schema, cells: _flags(frame.height, "object" in as_set(schema["type"])),
    "required": lambda rows, frame, schema, cells: _present(frame, schema["required"]),
    "allOf": lambda rows, frame, schema, cells: (
        rows._count_valid(frame, schema["allOf"], cells) == len(schema["allOf"])
    ),
    "anyOf": lambda rows, frame, schema, cells: rows._count_valid(frame, schema["anyOf"], cells) > 0,
    "oneOf": lambda rows, frame, schema, cells: rows._count_valid(frame, schema["oneOf"], cells) == 1,
    "not": lambda rows, frame, schema, cells: ~rows._rows_valid(frame, schema["not"], cells),
    "if": RowSchema._if,
    "dependentRequired": RowSchema._dependent_required,
    "$ref": RowSchema._ref,
}
