"""A line that the grammar proves is a row of which neither the csv module nor jsonschema has anything to say."""

from __future__ import annotations

import csv
import json
import re

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.grammar import REGULAR_LINE, grammar_of, line_of
from perfguard.artifacts.schema import RowSchema, row_schema
from perfguard.artifacts.table import Cells, Table
from perfguard.documents import schema

CELLS = st.one_of(
    st.sampled_from(
        [
            "", "0", "-0", "1", "-1", "007", "1.0", "1.", ".5", "+1", "1e5", "1E-3", "inf", "nan", "NaN", " 1", "1 ", "1\t",
            "\t",
            "N/A", "n/a", "1_000", "4294967295", "4294967296", "4294967294", "9000000000000000", "9000000000000000.5",
            "8999999999999999.9999999999", "9223372036854775807", "9223372036854775808", "1736408883704643.212\t", "1.1",
            "0.99999999999999999999", "1.2", "1" * 23, "9" * 400, "0x5", "dynamic", "YES", "a", "a b", "é", "NPU:0", "(1, 2)",
            "true", "null", '"x"', '""', '"1"', '"a,b"', '"say ""x"""', '"', 'a"b', '"a"b', "١", "a\x00", "ab", "100", "99",
            "101",
        ]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text('01.-+eE ,"\t\ré/NAa', max_size=5),
)  # fmt: skip
BOUNDS = st.one_of(
    st.integers(-3, 12), st.sampled_from([0.5, 1.1, 99, 100, 2**32 - 1, 2**53, 9 * 10**15, 2**63 - 1, 10**25])
)
TYPES = st.sampled_from(["number", "integer", "string", "null", "boolean"])
PATTERNS = st.sampled_from(
    ["^N/A$", "^(YES|NO|N/A)$", "^a", r"^\d$", "^(a.b|1)$", "^NPU:-?[0-9]+$", r"^(\{([0-9]+-)*\})?$", "^$", "^(|a)$",
     "^[+-z]$", "^[0-9]+$"]
)  # fmt: skip
COLUMN = st.one_of(
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
            "minimum": BOUNDS,
            "maximum": BOUNDS,
            "exclusiveMinimum": BOUNDS,
            "minLength": st.integers(0, 2),
            "pattern": PATTERNS,
            "enum": st.lists(st.sampled_from(["N/A", "1", 1, 0, "", None, 1.5]), min_size=1, max_size=3),
            "const": st.sampled_from(["host", 3]),
            "description": st.just("x"),
            "contentSchema": st.just({}),
        },
    ),
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array"]),
        "properties": st.dictionaries(st.sampled_from(["a", "b"]), COLUMN, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), COLUMN, max_size=2),
        "additionalProperties": COLUMN,
        "minProperties": st.integers(0, 3),
    },
)
HEADER = ["a", "b"]


def refuse_wrong_proofs(rows: dict, lines: list[str], header: list[str]) -> int:
    """Compare the grammar with the csv module and with RowSchema on each line; return how many lines it proves."""
    compiled = RowSchema(rows, rows)
    grammar = grammar_of(header, compiled)
    found = pl.Series(lines, dtype=pl.String).str.contains(grammar.pattern).to_list()
    fits = pl.Series(lines, dtype=pl.String).str.contains(line_of(len(header))).to_list()
    for line, proven, fitting in zip(lines, found, fits, strict=True):
        if not fitting:
            assert not proven
            continue
        (cells,) = csv.reader([line], strict=True)
        assert len(cells) == len(header)
        assert pl.read_csv(f"{line}\n".encode(), has_header=False, infer_schema=False).fill_null("").row(0) == tuple(
            cells
        )
        if proven and not grammar.is_open:
            frame = pl.DataFrame([cells], schema=dict.fromkeys(header, pl.String), orient="row")
            left = [name for name in header if name not in grammar.open_columns]
            assert compiled.invalid_rows(Table(frame=frame.select(left), cells=Cells.TEXT)) == [], (line, rows)
    return sum(found)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
@example(rows={"properties": {"a": {"type": "integer", "maximum": 2**63 - 1}}}, cells=[("9" * 400, "")])
@example(rows={"properties": {"a": {"type": "number", "maximum": 1}}}, cells=[("0.99999999999999999999", "1")])
@example(rows={"properties": {"a": {"type": ["string", "null"]}}}, cells=[("", "x")])
def test_what_is_proven_is_valid(rows, cells):
    refuse_wrong_proofs(rows, [",".join(pair) for pair in cells], HEADER)


@settings(max_examples=100, deadline=None)
@given(line=st.text('a1 ,"\r\t\x00é', max_size=12))
def test_a_regular_line_is_split_by_polars_as_by_the_csv_module(line):
    if not line or pl.Series([line]).str.contains(REGULAR_LINE)[0] is False:
        return
    (cells,) = csv.reader([line], strict=True)
    (found,) = (
        pl.read_csv(f"{line}\nx\n".encode(), has_header=False, infer_schema=False, truncate_ragged_lines=True)
        .head(1)
        .rows()
    )
    assert [one or "" for one in found] == cells


TABLES = ("kernel_details.level1", "kernel_details.ms.level0", "operator_memory.pt", "memory_record.pt", "task_time",
          "operator_details.pt",           "framework_raw.2.3", "cluster_step_trace_time", "memory_block")  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.variants(2)
def test_what_is_proven_of_our_own_tables_is_valid(name, data):
    rules = json.loads(json.dumps(schema(f"artifacts/{name}")))
    rows = {**row_schema(rules), "additionalProperties": True, "required": []}
    header = [one for one in rows["properties"] if one]
    if rows.get("patternProperties"):
        header += ["aic_mac_ratio", "aiv_time(us)"]
    good = st.sampled_from(["1", "N/A", "a", "0.5", "", "YES", "NPU:0", "1736408883704643.212\t", "4294967295"])
    lines = data.draw(st.lists(st.tuples(*[st.one_of(good, CELLS)] * len(header)), min_size=1, max_size=4))
    refuse_wrong_proofs(rows, [",".join(cells) for cells in lines], header)


def test_real_lines_are_proven(corpus):
    path = corpus.parent / "msinsight/torch_npu-level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    header, *lines = path.read_text().splitlines()
    rows = {**row_schema(schema("artifacts/kernel_details.level1")), "required": []}
    assert refuse_wrong_proofs(rows, lines[::12], next(csv.reader([header]))) == len(lines[::12])
    assert not re.search(r"\(\?<|\(\?=", grammar_of(header.split(","), RowSchema(rows, rows)).pattern)
