"""The column checks must say what jsonschema says, on every row of every schema."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.artifacts import schema as schema_module
from perfguard.artifacts.schema import RowSchema
from perfguard.artifacts.table import Cells, Table, cell_value, number_of
from perfguard.validator import in_json


@pytest.fixture(autouse=True, params=["by columns", "one by one"])
def _way(request, monkeypatch):
    if request.param == "by columns":
        monkeypatch.setattr(schema_module, "FEW_ROWS", 0)


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 0, 1.0, -0.5, 1e5, 2.5e-05]),
    st.floats(allow_nan=False, allow_infinity=False),
)
BOUNDS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 2**53, 2**53 + 1, 2**60]))
TYPES = st.sampled_from(["number", "integer", "string", "object", "array", "boolean", "null"])
NAMES = st.sampled_from(["a", "b", "c", "aic_x"])
STRINGS = st.one_of(
    st.sampled_from(["", "a", "N/A", "ab", "12", "a.b", "1.0", "é", 'q"q', "\\", "a\n"]), st.text(max_size=4)
)
PATTERNS = st.sampled_from(["^a", "b$", "^[0-9]+$", r"\d", r"^\w*$", r"^a\.b$", "a|b", "^$", "."])


def cell_schemas() -> st.SearchStrategy[object]:
    simple = st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
            "minimum": BOUNDS,
            "maximum": BOUNDS,
            "exclusiveMinimum": BOUNDS,
            "exclusiveMaximum": BOUNDS,
            "minLength": st.integers(0, 2),
            "pattern": PATTERNS,
            "enum": st.lists(st.one_of(STRINGS, st.integers(-2, 2)), min_size=1, max_size=3),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "description": st.just("x"),
            "x-unit": st.just("us"),
        },
    )
    return st.one_of(
        st.booleans(),
        simple,
        st.fixed_dictionaries({"anyOf": st.lists(simple, min_size=1, max_size=2)}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(NAMES, simple, max_size=2)},
            optional={"required": st.lists(NAMES, max_size=2, unique=True)},
        ),
        st.just({"$ref": "#/$defs/part"}),
    )


def row_schemas() -> st.SearchStrategy[object]:
    flat = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", ["object", "null"], "array"]),
            "properties": st.dictionaries(NAMES, cell_schemas(), max_size=3),
            "patternProperties": st.dictionaries(
                st.sampled_from(["^a", "c", "^(aic|aiv)"]), cell_schemas(), max_size=2
            ),
            "additionalProperties": cell_schemas(),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "minProperties": st.integers(0, 2),
            "propertyNames": st.just({"pattern": "^[abc]"}),
        },
    )
    return st.recursive(
        st.one_of(st.booleans(), flat),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "oneOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
                "if": inner,
                "then": inner,
                "else": inner,
                "$ref": st.just("#/$defs/row"),
            },
        ),
        max_leaves=4,
    )


def with_definitions(schema: object, part: object, row: object) -> dict[str, object]:
    return {"allOf": [schema], "$defs": {"part": part, "row": row}}


JSON_VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=3,
)


@settings(max_examples=100, deadline=None)
@given(
    schema=row_schemas(),
    part=st.fixed_dictionaries({}, optional={"type": TYPES, "minimum": BOUNDS}),
    row=st.fixed_dictionaries({}, optional={"required": st.lists(NAMES, max_size=1)}),
    rows=st.lists(st.dictionaries(NAMES, JSON_VALUES, max_size=4), min_size=1, max_size=6),
)
@pytest.mark.variants(1)
def test_json_rows_are_judged_as_jsonschema_judges_them(schema, part, row, rows):
    root = with_definitions(schema, part, row)
    names = sorted({name for one in rows for name in one})
    frame = pl.DataFrame(
        {n: pl.Series([json.dumps(r[n]) if n in r else None for r in rows], dtype=pl.String) for n in names}
        if names
        else {"": pl.Series([None] * len(rows), dtype=pl.String)}
    )
    table = Table(frame=frame, cells=Cells.JSON)
    compiled = RowSchema(root)
    invalid = compiled.invalid_rows(table)
    oracle = Draft202012Validator(root)
    rows = [dict(sorted(one.items())) for one in rows]  # jsonschema words an object in its own order
    assert invalid == [i for i, one in enumerate(rows) if not oracle.is_valid(one)]
    for error in compiled.errors(table, invalid):
        assert (error.path, error.message) in {(e.json_path, in_json(e)) for e in oracle.iter_errors(rows[error.row])}


TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "1.0",
            "1e5",
            "2.5e-05",
            "007",
            "+1",
            " 3",
            "17\t",
            "inf",
            "nan",
            "N/A",
            "1_0",
            ".5",
            "a",
            str(2**63),
            str(2**53 + 1),
        ]
    ),
    NUMBERS.map(str),
    STRINGS,
)


@settings(max_examples=100, deadline=None)
@given(
    schema=row_schemas(),
    part=st.fixed_dictionaries({}, optional={"type": TYPES, "minimum": BOUNDS}),
    rows=st.integers(1, 6).flatmap(
        lambda n: st.dictionaries(NAMES, st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
)
@pytest.mark.variants(1)
def test_text_rows_are_judged_as_jsonschema_judges_their_values(schema, part, rows):
    root = with_definitions(schema, part, {})
    table = Table(frame=pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.String)), cells=Cells.TEXT)
    compiled = RowSchema(root)
    invalid = compiled.invalid_rows(table)
    oracle = Draft202012Validator(root)
    instances = [
        {name: cell_value(text, Cells.TEXT, compiled.column_types(name)) for name, text in row.items()}
        for row in table.frame.iter_rows(named=True)
    ]
    assert invalid == [i for i, one in enumerate(instances) if not oracle.is_valid(one)]
    assert {e.row for e in compiled.errors(table, invalid)} == set(invalid)


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("17", {"integer"}, 17),
        ("17", {"string"}, "17"),
        ("1795253818883399443", {"integer"}, 1795253818883399443),
        ("1736413971558972.912\t", {"number"}, 1736413971558972.912),
        ("2.5e-05", {"number"}, 2.5e-05),
        ("nan", {"number"}, "nan"),
        ("007", {"integer"}, "007"),
        ("", {"number", "null"}, None),
        ("", {"string"}, ""),
        ("N/A", {"number", "string"}, "N/A"),
    ],
)
def test_the_value_of_a_text_cell(text, types, value):
    found = cell_value(text, Cells.TEXT, frozenset(types))
    assert found == value
    assert type(found) is type(value)


def test_numbers_of_absurd_length_stay_numbers():
    assert number_of("9" * 5000) == float("inf")
