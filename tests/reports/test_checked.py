"""What `perfguard check` prints: one line of counts, findings under their files, the rest as numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Code, Finding, Severity, worst_first
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement, Operator
from perfguard.reports.terminal import SHOWN_PER_CODE, checked, grouped_lines, operator_rows
from perfguard.screen import printable


def finding(place: str = "", code: Code = Code.S103, **more: Any) -> Finding:
    return Finding(code=code, **{"message": "m", "place": place, **more})


def first_line(**facts: Any) -> str:
    return checked(Verdict(workload="w", outcome=Outcome.PASSED, findings=(), **facts), explain=False, metrics=False)[0]


@pytest.mark.parametrize(
    ("read", "layouts", "line"),
    [
        ({}, (), "PASSED w"),
        ({"ranks": 1, "cycles": 1, "files": 1, "rows": 1}, ("a",), "PASSED w (a: 1 rank, 1 cycle, 1 file, 1 row)"),
        (
            {"ranks": 2, "cycles": 4, "files": 9, "rows": 12},
            ("a", "b"),
            "PASSED w (a, b: 2 ranks, 4 cycles, 9 files, 12 rows)",
        ),
        ({"ranks": 1, "cycles": 1, "files": 0, "rows": 0}, ("a",), "PASSED w (a: 1 rank, 1 cycle, 0 files)"),
    ],
)
def test_the_first_line_counts_what_was_read(read, layouts, line):
    assert first_line(read=read, layouts=layouts) == line


def test_explanation_and_metrics_come_last_and_only_when_asked_for():
    verdict = Verdict(
        workload="w",
        outcome=Outcome.INVALID,
        findings=(finding("f"),),
        notes=("a note",),
        layouts=("a",),
        measurements=(Measurement(metric="steps", subject="", value=3),),
    )
    plain = checked(verdict, explain=False, metrics=False)
    explained = checked(verdict, explain=True, metrics=True)
    assert plain[1:] == ["  f", "    S103 a value breaks the schema: m"]
    assert explained[:3] == plain
    assert explained[3:5] == ["  layouts: a", "  a note"]
    assert "steps" in explained[5]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (finding("f.csv:7 $.x"), "S103 a value breaks the schema: line 7 $.x: m"),
        (finding("f.csv:7"), "S103 a value breaks the schema: line 7: m"),
        (finding("f.json $[3] $.dur"), "S103 a value breaks the schema: $[3] $.dur: m"),
        (finding("f.csv"), "S103 a value breaks the schema: m"),
        (finding("f.csv", severity=Severity.WARNING), "S103 (warning) a value breaks the schema: m"),
        (finding("f.csv", severity=Severity.NOTE), "S103 (note) a value breaks the schema: m"),
        (finding("f.csv", message="a\nb"), "S103 a value breaks the schema: a\\nb"),
    ],
)
def test_a_finding_lies_under_its_file(one, line):
    assert grouped_lines([one]) == [one.place.split(" ")[0].split(":")[0], f"  {line}"]


def test_the_headline_of_several_findings_of_a_file_stands_once():
    several = [
        finding("f.csv:2"),
        finding("f.csv:7 $.x", code=Code.I104),
        finding("f.csv:3", message="n"),
        finding("f.csv", message="and 4 more", more=4),
        finding("f.csv:4", severity=Severity.WARNING),
        finding("g.csv:2"),
    ]
    assert grouped_lines(several) == [
        "f.csv",
        "  S103 a value breaks the schema:",
        "    line 2: m",
        "    line 3: n",
        "    and 4 more like it",
        "  I104 a total is not the sum of its parts: line 7 $.x: m",
        "  S103 (warning) a value breaks the schema: line 4: m",
        "g.csv",
        "  S103 a value breaks the schema: line 2: m",
    ]


def test_what_is_about_no_file_is_about_the_recording():
    assert grouped_lines([finding()])[0] == "the recording"


def test_files_come_in_the_order_of_their_worst_finding():
    findings = worst_first(
        [finding("b", severity=Severity.WARNING), finding("a", severity=Severity.NOTE), finding("c"), finding("a:3")]
    )
    assert [line for line in grouped_lines(findings) if not line.startswith(" ")] == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("ranks", "heads"),
    [
        ([None, None], ["f"]),
        ([0, 0], ["f"]),
        ([3, None], ["f", "f"]),
        ([0, 3], ["rank 0: f", "rank 3: f"]),
        ([0, 3, None], ["rank 0: f", "rank 3: f", "f"]),
    ],
)
def test_ranks_are_named_where_there_are_several(ranks, heads):
    lines = grouped_lines([finding("f", rank=rank) for rank in ranks])
    assert [line for line in lines if not line.startswith(" ")] == heads


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([Code.S103, Code.I104])), max_size=60))
def test_every_finding_is_shown_or_counted_under_its_file(pairs):
    shown = dict.fromkeys(pairs, 0)
    file = code = ""
    for line in grouped_lines([finding(name, code) for name, code in pairs]):
        words = line.split()
        if not line.startswith(" "):
            file = line
        elif line.startswith("    "):
            shown[file, Code[code]] += int(words[1]) if words[0] == "and" else 1
        else:
            code = words[0]
            shown[file, Code[code]] += not line.endswith(":")
    assert shown == {pair: pairs.count(pair) for pair in pairs}


@pytest.mark.parametrize(
    ("count", "last"),
    [
        (SHOWN_PER_CODE, f"    line {SHOWN_PER_CODE}: m"),
        (SHOWN_PER_CODE + 1, "    and 1 more like it"),
        (5000, f"    and {5000 - SHOWN_PER_CODE} more like it"),
    ],
)
def test_ten_of_a_code_are_shown_in_a_file(count, last):
    lines = grouped_lines([finding(f"f:{number + 1}") for number in range(count)])
    assert len(lines) == 2 + min(count, SHOWN_PER_CODE) + (count > SHOWN_PER_CODE)
    assert lines[-1] == last


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_no_finding_can_write_a_line_of_its_own(place, message):
    lines = grouped_lines([finding(place, message=message)])
    assert len(lines) == 2
    assert all(line == printable(line) for line in lines)


def test_lines_of_a_file_are_in_their_order():
    findings = worst_first([finding(f"f.csv:{line}") for line in (10, 2, 100, 1)])
    assert [one.place for one in findings] == ["f.csv:1", "f.csv:2", "f.csv:10", "f.csv:100"]


# -- operators -------------------------------------------------------------------------------------------------------


def test_a_row_of_an_operator():
    one = Operator(rank=3, operator="Add", occurrences=4, total_us=10.5, self_us=10.0, shapes={"[2]": 3, "[4]": 1})
    *_, first, second = operator_rows([one]).splitlines()
    assert first.split() == ["3", "Add", "4", "10.500", "2.625", "10.000", "3", "x", "[2]"]
    assert second.split() == ["1", "x", "[4]"]


@pytest.mark.parametrize(("count", "lines"), [(0, 1), (1, 1), (3, 3), (4, 4), (1000, 4)])
def test_of_many_shapes_three_are_shown(count, lines):
    shapes = {f"[{number}]": number + 1 for number in range(count)}
    one = Operator(rank=0, operator="Add", occurrences=1, total_us=1.0, self_us=1.0, shapes=shapes)
    rows = operator_rows([one]).splitlines()[2:]
    assert len(rows) == lines
    if count > 3:
        assert rows[-1].strip() == f"and {count - 3} more"
        assert rows[0].endswith(f"{count} x [{count - 1}]")


def test_an_operator_of_numbers_only_is_a_name():
    one = Operator(rank=0, operator="1e5", occurrences=1, total_us=1.0, self_us=1.0)
    assert operator_rows([one]).splitlines()[2].split()[1] == "1e5"


def test_an_average_of_nothing_is_nothing():
    assert Operator(rank=0, operator="a", occurrences=0, total_us=0.0, self_us=0.0).average_us == 0.0
