"""Wording of disagreements: every row at its own place, the first hundred one by one, the rest as a number."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts.layout import Slot
from perfguard.artifacts.readers import Content
from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.artifacts.table import Cells, Table
from perfguard.dialects.cycle import Artifact
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.findings import Code, Severity


def an_artifact(count: int, *, cells: Cells = Cells.TEXT, lines: tuple[int, ...] | None = None) -> Artifact:
    frame = pl.DataFrame({"name": [f"op{row}" for row in range(count)]}, schema={"name": pl.String})
    table = Table(frame=frame, cells=cells, lines=lines, path="$.traceEvents")
    slot = Slot(name="x", path="x.csv", format="csv")
    return Artifact(slot=slot, path=Path("x.csv"), content=Content(table=table), place="dir/x.csv")


def worded(row: dict[str, object]) -> str:
    return f"{row['name']} disagrees"


@given(broken=st.lists(st.sampled_from([True, False, None]), max_size=3 * SHOWN_VIOLATIONS))
def test_every_broken_row_is_worded_or_counted(broken):
    artifact = an_artifact(len(broken))
    findings = list(disagreeing_rows(artifact, pl.Series(broken, dtype=pl.Boolean), Code.I104, worded))
    rows = [row for row, one in enumerate(broken) if one]
    assert [(f.place, f.message) for f in findings[:SHOWN_VIOLATIONS]] == [
        (f"dir/x.csv:{row + 2}", f"op{row} disagrees") for row in rows[:SHOWN_VIOLATIONS]
    ]
    assert [(f.place, f.message) for f in findings[SHOWN_VIOLATIONS:]] == (
        [("dir/x.csv", f"and {len(rows) - SHOWN_VIOLATIONS} more like these")] if len(rows) > SHOWN_VIOLATIONS else []
    )
    assert {(f.code, f.severity) for f in findings} <= {(Code.I104, Severity.ERROR)}


@pytest.mark.parametrize(
    ("artifact", "place"),
    [
        (an_artifact(3), "dir/x.csv:4"),
        (an_artifact(3, lines=(3, 5, 9)), "dir/x.csv:9"),
        (an_artifact(3, cells=Cells.JSON), "dir/x.csv $.traceEvents[2]"),
    ],
    ids=["rows below a header", "lines with a number of their own", "an array in JSON"],
)
def test_a_row_is_named_by_its_own_place(artifact, place):
    (found,) = disagreeing_rows(artifact, pl.Series([False, None, True]), Code.I105, worded)
    assert (found.place, found.message) == (place, "op2 disagrees")


def test_a_message_may_be_made_of_another_frame():
    frame = pl.DataFrame({"here": [1.5, 2.5], "there": [1, 2]})
    (found,) = disagreeing_rows(
        an_artifact(2),
        pl.Series([False, True]),
        Code.I104,
        lambda row: f"{row['here']} here, {row['there']} there",
        frame=frame,
        severity=Severity.WARNING,
    )
    assert (found.message, found.severity, found.place) == ("2.5 here, 2 there", Severity.WARNING, "dir/x.csv:3")


def test_only_the_rows_that_are_worded_are_looked_at():
    calls: list[object] = []

    def message(row: dict[str, object]) -> str:
        calls.append(row)
        return "m"

    list(disagreeing_rows(an_artifact(10_000), pl.Series([True] * 10_000), Code.I104, message))
    assert len(calls) <= SHOWN_VIOLATIONS + 1


@pytest.mark.parametrize(
    ("found", "count", "last"),
    [
        (0, None, None),
        (SHOWN_VIOLATIONS, None, None),
        (SHOWN_VIOLATIONS, SHOWN_VIOLATIONS, None),
        (SHOWN_VIOLATIONS + 1, None, "and more like these"),
        (SHOWN_VIOLATIONS + 7, SHOWN_VIOLATIONS + 7, "and 7 more like these"),
        (10**9, None, "and more like these"),
    ],
)
def test_more_than_a_hundred_are_counted_where_their_number_is_known(found, count, last):
    pairs = ((f"place {number}", f"message {number}") for number in range(found))
    findings = list(disagreements(Code.I110, pairs, count=count, place="file", severity=Severity.WARNING))
    assert len(findings) == min(found, SHOWN_VIOLATIONS) + (last is not None)
    assert [(f.place, f.message) for f in findings[:2]] == [
        (f"place {n}", f"message {n}") for n in range(min(2, found))
    ]
    if last is not None:
        assert (findings[-1].place, findings[-1].message) == ("file", last)
    assert {(f.code, f.severity) for f in findings} <= {(Code.I110, Severity.WARNING)}
