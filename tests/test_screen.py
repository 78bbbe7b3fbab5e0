"""Screens: which characters, colours and widths a stream has."""

from __future__ import annotations

import io
import json
import os
import pty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.screen import Screen, csv_cell, json_for, requested_colours, screen_of, width_of, written_in_ascii

COLOURED = Screen(colours=True)
ENCODINGS = ["utf-8", "ascii", "cp437", "cp1252", "latin-1", "cp932"]


@pytest.mark.parametrize(
    "encoding, text, shown",
    [
        ("utf-8", "1 → 2 … ±3 × −4", "1 → 2 … ±3 × −4"),
        ("ascii", "1 → 2 … ±3 × −4 ≤ 5", "1 -> 2 ... +-3 x -4 <= 5"),
        ("cp1252", "1 → 2 … ±3 × −4", "1 -> 2 … ±3 × -4"),
        ("cp437", "1 → 2 … ±3 × −4", "1 -> 2 ... ±3 x -4"),
        ("ascii", "é 中 🚀", "\\xe9 \\u4e2d \\U0001f680"),
        ("cp1252", "é 中 🚀", "é \\u4e2d \\U0001f680"),
        ("utf-8", "half a \udcff", "half a \\udcff"),
    ],
)
def test_what_an_encoding_lacks_is_written_in_ascii(encoding, text, shown):
    assert Screen(encoding=encoding).carried(text) == shown


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(ENCODINGS))
def test_what_is_carried_can_be_written_and_stays_as_it_is(text, encoding):
    screen = Screen(encoding=encoding)
    carried = screen.carried(text)
    carried.encode(encoding)
    assert screen.carried(carried) == carried


@pytest.mark.parametrize(
    "text, shown",
    [
        ("two\nlines", "two\nlines"),
        ("esc \x1b[31m c1 \x9b31m", r"esc \x1b[31m c1 \x9b31m"),
        ("bidi \u202e \u2066", r"bidi \u202e \u2066"),
        ("half \ud800", r"half \ud800"),
        ("other\rbreaks\u2028\x85\x0b", r"other\rbreaks\u2028\x85\x0b"),
        ("a\n  ::error::taken", "a\n  \\x3a:error::taken"),
        ("a ##[error]taken", r"a ##\x5berror]taken"),
        ("aten::add, at::native::add", "aten::add, at::native::add"),
    ],
)
def test_nothing_that_is_shown_is_obeyed(text, shown):
    assert Screen().carried(text) == shown


@pytest.mark.parametrize(
    "cell, written",
    [
        *[(text, text) for text in ("-1.5", "+2", "-1e-9", "-inf", "1", "", "aten::add", "a=b", "'=1", ".5")],
        *[(text, f"'{text}") for text in ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "=", "-1.5e", "+٣")],
    ],
)
def test_no_cell_is_a_formula_and_numbers_stay_numbers(cell, written):
    assert csv_cell(cell) == written


def test_json_on_a_terminal_is_the_same_document_without_what_a_terminal_obeys():
    value = {"name": "\x1b[31m \x9b31m \u202e \ud800 \U000e0001 é 中 🚀"}
    text = json.dumps(value, indent=2, ensure_ascii=False)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        shown = json_for(terminal, text)
    assert (json.loads(shown), shown.replace("\n", "").isprintable(), "é 中 🚀" in shown) == (value, True, True)
    assert json_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogatepass"), "\x9b") == "\x9b"


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@pytest.mark.exhaustive
def test_json_stays_the_same_document_in_every_encoding(value):
    for encoding in ("utf-8", "ascii", "cp437", "cp1252"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        text = json_for(stream, json.dumps(value, ensure_ascii=False))
        text.encode(encoding)
        assert json.loads(text) == value


@pytest.mark.parametrize("errors", ["strict", "surrogateescape", "backslashreplace"])
def test_a_stream_writes_in_ascii_for_as_long_as_it_is_asked_to(errors):
    bytes_ = io.BytesIO()
    stream = io.TextIOWrapper(bytes_, encoding="ascii", errors=errors)
    with written_in_ascii([stream]):
        stream.write("1 → 2 é")
        stream.flush()
    assert bytes_.getvalue() == b"1 -> 2 \\xe9"
    assert stream.errors == errors


@pytest.mark.parametrize("stream", [io.StringIO(), io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")])
def test_a_stream_that_is_told_otherwise_is_left_alone(stream):
    before = stream.errors
    with written_in_ascii([stream]):
        assert stream.errors == before


@pytest.mark.parametrize(
    "line, painted",
    [
        ("FAILED a.py::test_a", "\x1b[31;1mFAILED\x1b[0m a.py::test_a"),
        ("PASSED   a.py", "\x1b[32;1mPASSED\x1b[0m   a.py"),
        ("perfguard: INVALID: the base", "perfguard: \x1b[35;1mINVALID\x1b[0m: the base"),
        ("INCONCLUSIVE  a", "\x1b[33;1mINCONCLUSIVE\x1b[0m  a"),
        ("  R102 steps 3 → 4", "  \x1b[31mR102\x1b[0m steps 3 → 4"),
        ("a.py: R106 (warning) steps", "a.py: \x1b[33mR106 (warning)\x1b[0m steps"),
        ("  B103 (note) times are shown", "\x1b[2m  B103 (note) times are shown\x1b[0m"),
        ("  +180.0 us  MatMul", "  \x1b[31m+180.0 us\x1b[0m  MatMul"),
        ("  −180.0 us  MatMul", "  \x1b[32m−180.0 us\x1b[0m  MatMul"),
        ("  -180.0 us  MatMul", "  \x1b[32m-180.0 us\x1b[0m  MatMul"),
        ("    +0.0 us  residual", "    +0.0 us  residual"),
        (
            "9 compared: 3 worse, 0 new; 2 better",
            "9 compared: \x1b[31m3 worse\x1b[0m, 0 new; \x1b[32m2 better\x1b[0m",
        ),
        ("created: a.py", "\x1b[32mcreated\x1b[0m: a.py"),
        ("refused  a.py", "\x1b[31mrefused\x1b[0m  a.py"),
        ("FAILED  a: R101 x", "\x1b[31;1mFAILED\x1b[0m  a: \x1b[31mR101\x1b[0m x"),
        ("PASSEDLY done", "PASSEDLY done"),
        ("WORSE   step_cost  40", "\x1b[31mWORSE\x1b[0m   step_cost  40"),
        ("creeps  step_cost  40", "\x1b[33mcreeps\x1b[0m  step_cost  40"),
        ("  step_cost creeps since abc", "  step_cost \x1b[33mcreeps\x1b[0m since abc"),
        ("it was WORSE before", "it was WORSE before"),
        ("workload: FAILED_test", "workload: FAILED_test"),
        ("outcome    workload", "outcome    workload"),
    ],
)
def test_colours_are_few_and_of_what_a_line_begins_with(line, painted):
    assert COLOURED.painted(line) == painted
    assert Screen().painted(line) == line


@given(st.text(st.characters(exclude_characters="\x1b")))
def test_colours_change_no_character(text):
    plain = COLOURED.painted(text)
    for code in ("31;1", "32;1", "33;1", "35;1", "31", "32", "33", "2", "0"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert plain == text


@pytest.mark.parametrize(
    "environment, wanted",
    [
        ({}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, None),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, None),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_the_environment_says_whether_there_are_colours(environment, wanted):
    assert requested_colours(environment) is wanted


@pytest.mark.parametrize("columns, width", [("57", 57), ("", 80), ("0", 80), ("wide", 80), ("-5", 80)])
def test_a_terminal_without_a_size_has_eighty_columns(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        assert width_of(terminal) == width
    os.close(ours)


def test_a_log_is_as_wide_as_its_lines_and_without_colours(tmp_path):
    with open(tmp_path / "log", "w", encoding="cp1252") as log:
        assert screen_of(log) == Screen(encoding="cp1252")
    assert width_of(log) is None
