"""Cell proofs: expressions that prove the cells of a whole column valid, one for each JSON type.

A proof is true where a cell certainly has the type and keeps the keywords of that type. False means only that jsonschema
has to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import NUMBER_TEXT, Cells

if TYPE_CHECKING:
    import polars as pl

    #: column, schema of its cells, kind of cells, all JSON types that the row schema names for the column -> which are valid.
    Proof = Callable[[pl.Series, Mapping[str, Any], Cells, frozenset[str] | None], pl.Series]

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
#: The keywords that proofs understand; a schema with any other keyword is left to jsonschema.
PROVEN_KEYWORDS = frozenset({"type", "pattern", "minLength", *_BOUNDS})
#: Patterns made of these only mean the same to Rust's regex and to Python's re (no classes like \w, no look-around).
_PORTABLE_PATTERN = re.compile(r"^(?:\\[.\[\]()/+*?-]|[^\\$.^]|\^(?!.)|(?<!.)\^|\$(?!.))*$")
_JSON_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_EXACT_FLOAT = float(2**53)


def _numbers(column: pl.Series, schema: Mapping[str, Any], cells: Cells, types: frozenset[str] | None) -> pl.Series:
    import polars as pl

    proven = column.str.contains(NUMBER_TEXT)
    value = column.str.strip_chars(" \t").cast(pl.Float64, strict=False)
    return proven & value.is_finite() & _within(value, schema)


def _integers(column: pl.Series, schema: Mapping[str, Any], cells: Cells, types: frozenset[str] | None) -> pl.Series:
    import polars as pl

    value = column.cast(pl.Int64, strict=False)
    return column.str.contains(_JSON_INTEGER) & value.is_not_null() & _within(value, schema)


def _within(value: pl.Series, schema: Mapping[str, Any]) -> pl.Series:
    """Return which values keep the bounds; one that a float cannot tell from its bound is left to jsonschema."""
    import polars as pl

    mask = value.is_not_null()
    # Whole numbers compare exactly; floats only where one float is one number.
    whole = value.dtype == pl.Int64
    exact = (value.abs().cast(pl.Float64) < _EXACT_FLOAT) | whole
    for keyword, bound in ((k, schema[k]) for k in _BOUNDS if k in schema):
        if abs(bound) >= _EXACT_FLOAT and not (whole and isinstance(bound, int) and abs(bound) < 2**63):
            return value.is_null() & value.is_not_null()
        at_bound = (value == bound) & exact & (not keyword.startswith("exclusive"))
        mask = mask & (((value > bound) if "inimum" in keyword else (value < bound)) | at_bound)
    return mask


def _strings(column: pl.Series, schema: Mapping[str, Any], cells: Cells, types: frozenset[str] | None) -> pl.Series:
    if cells is Cells.JSON:
        mask = column.str.starts_with('"') & ~column.str.contains("\\", literal=True)
        content = column.str.slice(1).str.head(-1)
    else:
        numeric = types is None or bool(types & {"integer", "number"})
        mask = ~column.str.contains(NUMBER_TEXT) if numeric else column.is_not_null()
        if types is not None and "null" in types:
            mask = mask & (column != "")
        content = column
    if "minLength" in schema:
        mask = mask & (content.str.len_chars() >= schema["minLength"])
    if "pattern" in schema:
        if not _PORTABLE_PATTERN.match(schema["pattern"]):
            return column.is_null() & column.is_not_null()
        mask = mask & content.str.contains(schema["pattern"], strict=False)
    return mask


def _starting_with(*beginnings: str) -> Proof:
    def check(column: pl.Series, schema: Mapping[str, Any], cells: Cells, types: frozenset[str] | None) -> pl.Series:
        if cells is not Cells.JSON:
            return column.is_null() & column.is_not_null()
        mask = column.str.starts_with(beginnings[0])
        for other in beginnings[1:]:
            mask = mask | column.str.starts_with(other)
        return mask

    return check


PROOFS: Mapping[str, Proof] = {
    "number": _numbers,
    "integer": _integers,
    "string": _strings,
    "object": _starting_with("{"),
    "array": _starting_with("["),
    "boolean": _starting_with("true", "false"),
    "null": _starting_with("null"),
}
