"""Tables on screens of any width: what is cut, what leaves, and when rows become blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Code, Finding
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement, Operator
from perfguard.reports import RunReport
from perfguard.reports.table import Column, Cut, cut, display_width, table
from perfguard.reports.terminal import measurement_rows, operator_rows, summary
from perfguard.screen import Screen, printable

COLUMNS = (
    Column(title="outcome"),
    Column(title="name", least=12),
    Column(title="ms", align="right", leaves=1),
    Column(title="profiled", leaves=2),
)
ROWS = [("PASSED", "tests/test_a.py::test_abc", "1.5", "2.00 x"), ("FAILED", "b", "10.25", "-")]


@pytest.mark.parametrize(
    "text, width, where, shown",
    [
        ("test_a.py::test_a", 17, Cut.FRONT, "test_a.py::test_a"),
        ("test_a.py::test_a", 10, Cut.FRONT, "…y::test_a"),
        ("operator_time[aten::mm]", 11, Cut.MIDDLE, "opera…::mm]"),
        ("a sentence", 6, Cut.END, "a sen…"),
        ("中文名字", 8, Cut.FRONT, "中文名字"),
        ("中文名字", 7, Cut.FRONT, "…文名字"),
        ("中文名字", 6, Cut.FRONT, "…名字"),
        ("中文名字", 6, Cut.END, "中文…"),
        ("ae\u0301e\u0301", 2, Cut.FRONT, "…e\u0301"),
        ("e\u0301e\u0301a", 2, Cut.END, "e\u0301…"),
        # A mark that combines with nothing is no beginning of its own.
        ("\u1a55abc", 2, Cut.FRONT, "…c"),
    ],
)
def test_a_text_is_cut_by_the_columns_it_takes(text, width, where, shown):
    assert cut(text, width, where) == shown


WORDS = st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from("中e\u0301🚀"), max_size=60)


@given(WORDS, st.integers(1, 80), st.sampled_from(Cut), st.sampled_from(["…", "..."]))
def test_what_is_cut_fits_and_no_more_is_cut_than_must_be(text, width, where, ellipsis):
    shown = cut(text, width, where, ellipsis)
    assert display_width(shown) <= max(width, len(ellipsis))
    if display_width(text) <= width:
        assert shown == text
    elif width > len(ellipsis) and where is Cut.FRONT:
        # Of a character of two columns one may be left over, and what combines goes with what it combines with.
        kept = shown.removeprefix(ellipsis)
        assert text.endswith(kept)


@pytest.mark.parametrize(
    "width, verbosity, lines",
    [
        (
            None,
            0,
            [
                "outcome    name                          ms  profiled",
                "---------  -------------------------  -----  ----------",
                "PASSED     tests/test_a.py::test_abc    1.5  2.00 x",
                "FAILED     b                          10.25  -",
            ],
        ),
        (
            40,
            0,
            [
                "outcome  name               ms  profiled",
                "-------  --------------  -----  --------",
                "PASSED   ….py::test_abc    1.5  2.00 x",
                "FAILED   b               10.25  -",
            ],
        ),
        (
            33,
            0,
            [
                "outcome  name                  ms",
                "-------  -----------------  -----",
                "PASSED   …t_a.py::test_abc    1.5",
                "FAILED   b                  10.25",
            ],
        ),
        (26, 0, ["outcome  name", "-------  -----------------", "PASSED   …t_a.py::test_abc", "FAILED   b"]),
        (20, 0, ["PASSED  …y::test_abc", "FAILED  b"]),
        (15, 0, ["PASSED", "  …py::test_abc", "FAILED  b"]),
        (
            33,
            1,
            [
                "PASSED  tests/test_a.py::test_abc",
                "  ms: 1.5",
                "  profiled: 2.00 x",
                "FAILED  b",
                "  ms: 10.25",
                "  profiled: -",
            ],
        ),
    ],
)
def test_names_are_cut_columns_leave_and_rows_become_blocks(width, verbosity, lines):
    assert table(COLUMNS, ROWS, Screen(width=width, verbosity=verbosity)).splitlines() == lines


def test_a_column_with_nothing_in_it_leaves_first():
    columns = (Column(title="name"), Column(title="empty", leaves=1), Column(title="least", leaves=2))
    text = table(columns, [("a", "-", "1"), ("b", "", "2")], Screen(width=12))
    assert text.splitlines() == ["name  least", "----  -----", "a     1", "b     2"]


def test_a_cell_of_several_lines_keeps_them():
    columns = (Column(title="name"), Column(title="shapes", least=6, cut=Cut.END))
    text = table(columns, [("a", "1 x [2, 2]\n2 x [4]")], Screen(width=14))
    assert text.splitlines() == ["name  shapes", "----  --------", "a     1 x [2,…", "      2 x [4]"]


def test_a_table_without_rows_is_its_titles():
    assert table(COLUMNS, []).splitlines()[0].split() == ["outcome", "name", "ms", "profiled"]


def test_columns_of_wide_characters_stand_below_each_other():
    lines = table(COLUMNS[:3], [("PASSED", "中文", "1"), ("PASSED", "ascii", "2")]).splitlines()
    assert [display_width(line) for line in lines[1:]] == [display_width(lines[1])] * 3


def test_the_ellipsis_is_one_the_screen_has_and_counts():
    lines = table(COLUMNS, ROWS, Screen(width=26, encoding="ascii")).splitlines()
    assert lines[2] == "PASSED   ...a.py::test_abc"
    assert max(map(len, lines)) == 26


# -- of what is reported -------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(exclude_categories=()), min_size=1, max_size=80)
OUTCOMES = st.sampled_from([Outcome.PASSED, Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE])
SCREENS = st.builds(
    Screen,
    width=st.integers(40, 220),
    verbosity=st.sampled_from([0, 1]),
    encoding=st.sampled_from(["utf-8", "ascii", "cp437", "cp1252"]),
)


def rows_of(text: str) -> list[str]:
    """Return the lines of the table a summary begins with."""
    return text.split("\n\n")[0].splitlines()


@given(st.lists(st.tuples(NAMES, OUTCOMES), min_size=1, max_size=5, unique_by=lambda pair: pair[0]), SCREENS)
def test_a_summary_fits_names_what_is_not_green_and_hides_nothing(workloads, screen):
    verdicts = tuple(
        Verdict(workload=name, outcome=outcome, findings=(Finding(code=Code.R102, message="m"),))
        for name, outcome in workloads
    )
    text = summary(RunReport(verdicts=verdicts), screen)
    rows = rows_of(text)
    assert max(map(display_width, rows)) <= screen.width
    assert all(c.isprintable() or c == "\n" for c in text)
    screen.shown(text).encode(screen.encoding)
    for verdict in verdicts:
        if verdict.passed:
            continue
        tail = cut(screen.carried(printable(verdict.workload)), 10, ellipsis="").split()[-1:]
        found = [row for row in rows if row.startswith(verdict.outcome.value)]
        assert any(not tail or row.split()[-1:] == tail or tail[0] in row for row in found)


@given(st.lists(NAMES, min_size=1, max_size=5), SCREENS)
def test_tables_of_operators_and_measurements_fit(names, screen):
    operators = [
        Operator(rank=0, operator=name, occurrences=4, total_us=10.5, self_us=10.0, shapes={name: 3}) for name in names
    ]
    measurements = [Measurement(metric="operator_time", subject=name, value=12.5) for name in names]
    for text in (operator_rows(operators, screen), measurement_rows(measurements, screen)):
        assert max(map(display_width, text.splitlines())) <= screen.width
        assert all(c.isprintable() or c == "\n" for c in text)
