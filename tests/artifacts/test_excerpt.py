"""The line or the element that a finding is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfguard.artifacts.excerpt import with_excerpts
from perfguard.findings import Code, Finding


def quoted(directory: Path, *places: str, **more) -> list[str]:
    findings = [Finding(code=Code.S103, message="m", place=place, **more) for place in places]
    return [one.excerpt for one in with_excerpts(findings, directory)]


@pytest.fixture
def place(tmp_path) -> Path:
    inside = tmp_path / "recording"
    inside.mkdir()
    (inside / "a.csv").write_bytes(b"op,us\r\nMatMul,1\nCast,\xff\n" + b"x" * 5000 + b"\nlast")
    (inside / "t.json").write_text(json.dumps({"traceEvents": [{"ts": 1}, {"ts": "é", "args": [5, 6]}]}))
    (tmp_path / "secret.csv").write_text("a\nsecret\n")
    (inside / "way.csv").symlink_to(tmp_path / "secret.csv")
    return inside


@pytest.mark.parametrize(
    "where, text",
    [
        ("a.csv:1", "op,us"),
        ("a.csv:2 $.us", "MatMul,1"),
        ("a.csv:3", "Cast,\ufffd"),
        ("a.csv:4", "x" * 400 + "…"),
        ("a.csv:5", "last"),
        ("a.csv:6", ""),
        ("a.csv", ""),
        ("nowhere.csv:2", ""),
        ("t.json $.traceEvents[1].ts", '{"ts": "é", "args": [5, 6]}'),
        ("t.json $.traceEvents[1].args[0]", "5"),
        ("t.json $.traceEvents[7].ts", ""),
        ("t.json $.traceEvents", ""),
        ("a.csv $[0]", ""),
        ("../secret.csv:2", ""),
        ("way.csv:2", ""),
        ("rank 3", ""),
        ("", ""),
    ],
)
def test_what_stands_at_a_place_is_quoted(place, where, text):
    assert quoted(place, where) == [text]


def test_of_one_file_no_more_than_twenty_places_are_quoted(place):
    (place / "b.csv").write_text("\n".join(str(n) for n in range(1, 101)))
    found = quoted(place, *(f"b.csv:{n}" for n in range(1, 101)))
    assert found == [str(n) if n <= 20 else "" for n in range(1, 101)]


def test_a_finding_that_stands_for_others_quotes_nothing(place):
    assert quoted(place, "a.csv:1", more=3) == [""]


def test_of_many_files_those_of_the_worst_findings_are_quoted(place):
    for number in range(40):
        (place / f"f{number:02d}.csv").write_text(str(number))
    found = quoted(place, *(f"f{number:02d}.csv:1" for number in range(40)))
    assert found == [str(number) if number < 30 else "" for number in range(40)]
