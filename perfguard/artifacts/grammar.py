"""Grammar: a regular expression for the lines of a CSV file that certainly are valid rows, compiled from the row schema.

A line that matches is valid: the csv module splits it into as many cells as the header has, and jsonschema accepts each.
`RowSchema` validates the other lines. So the expression may allow less than the schema does (no exponents, no numbers near
a bound), and leave out `open_columns`, which are validated separately. tests/artifacts/test_grammar.py compares both on
random schemas and cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.artifacts.schema import RowSchema, as_set, column_schemas, is_annotation
from perfguard.artifacts.table import Cells, Table

#: Any cell that the csv module and polars read alike: without quotation marks, or entirely inside them.
ANY_CELL = r'(?:[^,"\r\n\x00]*|"(?:[^"\r\n\x00]|"")*")'
_SOME_CELL = r'(?:[^,"\r\n\x00]+|"(?:[^"\r\n\x00]|"")+")'
#: A cell that is certainly not a number.
_WORD = r"[A-Za-z_][^,\"\r\n\x00]*"
_BLANKS = r"[ \t]*"
_FRACTION = r"(?:\.[0-9]+)?"
#: Row keywords for single cells, or for the header alone.
_BY_COLUMN = frozenset({"type", "properties", "patternProperties", "additionalProperties", "required"})
_OF_A_CELL = frozenset({"type", "pattern", "minLength", "minimum", "maximum", "enum", "const"})
#: `^(one|other)$` and `^one$`, of literal characters.
_WORDS_ONLY = re.compile(r"^\^(?:\(([\w /.:-]+(?:\|[\w /.:-]+)*)\)|([\w /:-]+))\$$", re.ASCII)
#: Patterns of characters and sets of characters without a separator, anchored at both ends.
_SET = r"\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|0-9|[A-Za-z0-9_+/:])+\]"
_PLAIN_PATTERN = re.compile(rf"^\^((?:{_SET}|[\w /:-]|\\[(){{}}\[\].]|[()*+?])+)\$$", re.ASCII)
#: Longer numbers are left out: up to this length a float64 represents one digit and zeros after it exactly.
_MOST_DIGITS = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The form of valid lines."""

    #: For one line without its line break, anchored at both ends.
    pattern: str
    #: Columns that a matching line does not prove valid.
    open_columns: tuple[str, ...]
    #: Whether the schema has rules about several cells of a row: then no line is proven valid.
    is_open: bool


#: A line that is a complete row, and that polars splits as the csv module does, with any cells.
REGULAR_LINE = f"^{ANY_CELL}(?:,{ANY_CELL})*$"


def line_of(cells: int) -> str:
    """Return the expression of regular lines with that many cells."""
    return f"^{','.join([ANY_CELL] * cells)}$"


def grammar_of(header: Sequence[str], rows: RowSchema) -> Grammar:
    """Compile a row schema to the grammar of lines under a header."""
    schema = rows.schema
    found = {name: _cell(name, rows) for name in header}
    known = isinstance(schema, Mapping) and all(key in _BY_COLUMN or is_annotation(key) for key in schema)
    is_open = not known or not isinstance(schema, Mapping) or "object" not in as_set(schema.get("type", "object"))
    return Grammar(
        pattern=f"^{','.join(found[name] or ANY_CELL for name in header)}$",
        open_columns=tuple(name for name in header if found[name] is None),
        is_open=is_open,
    )


def _cell(name: str, rows: RowSchema) -> str | None:
    """Return the expression of certainly valid cells of a column, or None if there is none."""
    if not isinstance(rows.schema, Mapping):
        return None
    parts = [part for part in column_schemas(name, rows.schema) if part is not True]
    if not parts:
        return ANY_CELL
    if not all(isinstance(part, Mapping) and _is_simple(part) for part in parts):
        return None
    merged = _merged([part for part in parts if isinstance(part, Mapping)])
    if merged is None:
        return None
    found = [*_alternatives(name, merged, rows)]
    return f"(?:{'|'.join(found)})" if found else None


def _is_simple(schema: Mapping[str, Any]) -> bool:
    return all(key in _OF_A_CELL or is_annotation(key) for key in schema)


def _merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return one schema whose values are valid in all of several, or None."""
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key not in _OF_A_CELL:
                continue
            if key == "type":
                types = as_set(value)
                if "number" in types:
                    types |= {"integer"}
                value = merged.get("type", types) & types
            elif key in merged and key in ("minimum", "minLength"):
                value = max(merged[key], value)
            elif key in merged and key == "maximum":
                value = min(merged[key], value)
            elif key in merged and merged[key] != value:
                return None
            merged[key] = value
    return merged if merged.get("type") or "enum" in merged or "const" in merged else None


def _alternatives(name: str, schema: Mapping[str, Any], rows: RowSchema) -> Iterator[str]:
    """Yield expressions, each of which only matches valid cells."""
    column = rows.column_types(name)
    types = schema.get("type", frozenset())
    is_numeric = column is None or bool(column & {"integer", "number"})
    words = list(_words(schema))
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    singles = [*([""] if "null" in types else []), *words, *map(str, listed)]
    yield from (re.escape(text) for text in singles if _is_plain(text) and _is_valid(name, text, rows))
    if "enum" in schema or "const" in schema:
        return
    if is_numeric and types & {"integer", "number"}:
        yield from _numbers(schema.get("minimum"), schema.get("maximum"), is_whole="number" not in types)
    if "string" in types and not words:
        yield from _texts(schema, is_numeric=is_numeric, is_nullable=column is not None and "null" in column)


def _words(schema: Mapping[str, Any]) -> list[str]:
    """Return the texts that a pattern lists; empty for other patterns."""
    named = _WORDS_ONLY.match(schema.get("pattern", ""))
    return (named[1] or named[2]).split("|") if named else []


def _is_plain(text: str) -> bool:
    return re.search(r"[,\"\r\n\x00]", text) is None


def _is_valid(name: str, text: str, rows: RowSchema) -> bool:
    import polars as pl

    assert isinstance(rows.schema, Mapping)
    about = {key: value for key, value in rows.schema.items() if key != "required"}
    table = Table(frame=pl.DataFrame({name: [text]}), cells=Cells.TEXT)
    return not RowSchema(about, rows.root).invalid_rows(table)


def _texts(schema: Mapping[str, Any], *, is_numeric: bool, is_nullable: bool) -> Iterator[str]:
    least = schema.get("minLength", 0)
    pattern = schema.get("pattern")
    if least > 1:
        return
    if pattern is not None:
        # A match may be blank, or a number; then it has another value.
        if not is_numeric and not is_nullable and least == 0 and (plain := _PLAIN_PATTERN.match(pattern)):
            yield f"(?:{plain[1]})"
        return
    if is_numeric:
        yield _WORD
    else:
        yield _SOME_CELL if least or is_nullable else ANY_CELL


def _numbers(least: float | None, most: float | None, *, is_whole: bool) -> Iterator[str]:
    """Yield expressions of numbers between two bounds; those near a bound are left out, except the bound itself."""
    if (least is not None and least > 1) or (most is not None and most < 1):
        return
    ending = _BLANKS if is_whole else _FRACTION + _BLANKS
    zero = ["0"] if least is None or least <= 0 else []
    any_number = f"[1-9][0-9]{{0,{_MOST_DIGITS - 1}}}"
    if least is None:
        yield f"-(?:0|{any_number}){ending}"
    elif least <= -1:
        yield f"-{-int(least)}{_BLANKS}"
    if most is None or most >= 10**_MOST_DIGITS:
        yield f"(?:{'|'.join([*zero, any_number])}){ending}"
        return
    digits = str(int(most))
    below = zero
    if len(digits) > 1:
        below.append(f"[1-9][0-9]{{0,{len(digits) - 2}}}")
    if digits[0] > "1":
        below.append(f"[1-{int(digits[0]) - 1}][0-9]{{{len(digits) - 1}}}")
    if below:
        yield f"(?:{'|'.join(below)}){ending}"
    yield f"{digits}{_BLANKS}"
