"""Rows of a query as people and programs read them."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal

import pytest

from perfguard.reports.rows import csv_lines, json_lines, table_text, unique

NASTY = ['"; drop table x', "a\x00b", "two\nlines", "\x1b[31mred", "ü,;"]


def test_a_table_has_numbers_on_the_right_and_null_is_a_dash():
    found = table_text([("name", "VARCHAR"), ("calls", "BIGINT")], [("aten::mm", 7), (None, None)])
    assert [line.rstrip() for line in found.splitlines()] == [
        "name        calls",
        "--------  -------",
        "aten::mm        7",
        "-               -",
    ]


def test_nothing_in_a_table_is_obeyed_by_a_terminal():
    found = table_text([(name, "VARCHAR") for name in NASTY], [NASTY])
    assert "\x1b" not in found
    assert "\x00" not in found
    assert len(found.splitlines()) == 3


def test_csv_gives_back_what_was_put_in():
    text = "".join(csv_lines([(name, "VARCHAR") for name in NASTY], [NASTY]))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [NASTY, NASTY]


def test_no_cell_of_csv_is_a_formula():
    cells = ["=1+1", "-1.5", -1.5, "@x", None]
    text = "".join(csv_lines([("=name", "ANY")] * 5, [cells]))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["'=name"] * 5, ["'=1+1", "-1.5", "-1.5", "'@x", ""]]


def test_json_gives_back_what_was_put_in():
    (found,) = json.loads("".join(json_lines([(name, "VARCHAR") for name in NASTY], [NASTY])))
    assert found == dict(zip(NASTY, NASTY, strict=True))


def test_json_of_no_rows_is_an_empty_list():
    assert json.loads("".join(json_lines([("a", "INTEGER")], []))) == []


@pytest.mark.parametrize(
    "value, in_json, in_csv",
    [
        (None, None, ""),
        (True, True, "true"),
        (2**100, 2**100, str(2**100)),
        (0.1, 0.1, "0.1"),
        (float("nan"), None, "nan"),
        (float("inf"), None, "inf"),
        (Decimal("2.50"), 2.5, "2.5"),
        (dt.date(2020, 1, 1), "2020-01-01", "2020-01-01"),
        (b"\xaa\x00", "aa00", "aa00"),
        ([1, None], [1, None], "[1, null]"),
        ({"a": [float("nan")]}, {"a": [None]}, '{"a": [null]}'),
    ],
)
def test_values(value, in_json, in_csv):
    (found,) = json.loads("".join(json_lines([("x", "ANY")], [(value,)])))
    assert found == {"x": in_json}
    rows = list(csv.reader(io.StringIO("".join(csv_lines([("x", "ANY"), ("y", "ANY")], [(value, 1)])))))
    assert rows[1] == [in_csv, "1"]


def test_columns_of_one_name_are_told_apart_and_case_does_so_by_itself():
    assert unique(["a", "A", "a", "a_2", "a"]) == ["a", "A", "a_2", "a_2_2", "a_3"]
