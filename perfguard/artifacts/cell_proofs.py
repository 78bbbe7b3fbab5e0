"""Cell proofs: expressions that prove cells of a whole column valid, one for each JSON type.

A proof is true for a cell that certainly has the type and conforms to the keywords of that type. False means that jsonschema
must decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import NUMBER_TEXT, Cells

if TYPE_CHECKING:
    import polars as pl

    #: column, schema of its cells, kind of cells, all JSON types that the row schema names for the column -> valid cells.
    Proof = Callable[[pl.Series, Mapping[str, Any], Cells, frozenset[str] | None], pl.Series]

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
#: Keywords that proofs support; a schema with any other keyword is left to jsonschema.
PROVEN_KEYWORDS = frozenset({"type", "pattern", "minLength", *_BOUNDS})
#: Patterns with the same meaning in Rust's regex and Python's re (no classes such as \w, no look-around).
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
    """Return flags of the values within the bounds; False for a value that a float cannot distinguish from its bound."""
    import polars as pl

    mask = value.is_not_null()
    # Integers compare exactly; floats only below 2**53.
    whole = value.dtype == pl.Int64
    exact = (value.abs().cast(pl.Float64) < _EXACT_FLOAT) | whole
    for keyword, bound in ((k, schema[k]) for k in _BOUNDS if k in schema):
        if abs(bound) >= _EXACT_FLOAT and not (whole and isinstance(bound, int) and abs(bound) < 2**63):
            return _unproven(value)
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
            return _unproven(column)
        mask = mask & content.str.contains(schema["pattern"], strict=False)
    return mask


def _json_like(pattern: str) -> Proof:
    def check(column: pl.Series, schema: Mapping[str, Any], cells: Cells, types: frozenset[str] | None) -> pl.Series:
        return column.str.contains(pattern) if cells is Cells.JSON else _unproven(column)

    return check


def _unproven(column: pl.Series) -> pl.Series:
    return column.is_null() & column.is_not_null()


PROOFS: Mapping[str, Proof] = {
    "number": _numbers,
    "integer": _integers,
    "string": _strings,
    "object": _json_like(r"^\{"),
    "array": _json_like(r"^\["),
    "boolean": _json_like("^(true|false)"),
    "null": _json_like("^null"),
}
