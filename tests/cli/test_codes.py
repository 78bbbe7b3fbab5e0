"""`perfguard codes`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfguard import findings
from perfguard.findings import OWN_FAMILY, Code, advice
from tests.cli import run


def listed(*names: str) -> list[str]:
    found = run("codes", *names)
    assert found.exit_code == 0
    return [line.split()[0] for line in found.stdout.splitlines() if not line.startswith(" ")]


def test_every_code_is_listed_with_headline_severity_cause_and_fix():
    lines = run("codes").stdout.splitlines()
    assert lines == [
        line
        for code in Code
        for line in (
            f"{code.name} {code.value}",
            f"     severity: {' or '.join(one.value for one in advice(code).severity)}",
            f"     cause: {advice(code).cause}",
            f"     fix:   {advice(code).fix}",
        )
    ]


@pytest.mark.parametrize("code", Code)
def test_every_code_has_advice_for_people(code):
    found = advice(code)
    assert found.cause.strip() == found.cause != ""
    assert found.fix.strip() == found.fix != ""
    assert not found.cause.endswith(".")


def test_there_is_advice_for_codes_only():
    assert findings._advice().keys() == {*Code.__members__, OWN_FAMILY}


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (("C101",), ["C101"]),
        (("c101",), ["C101"]),
        (("C101", "A101"), ["A101", "C101"]),
        (("C101", "C101"), ["C101"]),
        (("S",), ["S101", "S102", "S103"]),
        (("C11",), ["C110", "C111", "C112", "C113", "C114", "C115", "C116"]),
    ],
)
def test_codes_are_chosen_by_their_beginnings(names, codes):
    assert listed(*names) == codes


@pytest.mark.parametrize(
    ("name", "hint"), [("C999", "known are A101, "), ("QQ", "known are A101, "), ("C101X", "did you mean 'C101'?")]
)
def test_an_unknown_code_is_refused_with_the_nearest(name, hint):
    found = run("codes", name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"There is no finding code {name!r}; {hint}" in found.stderr


def test_the_grid_has_the_cells_and_reasons_of_its_page():
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "grid.md").read_text(encoding="utf-8")
    drawn = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| [")]
    rows = [[re.sub(r"\[(.*)\]\(.*\)", r"\1", name), *(one.strip("*") for one in cells)] for name, *cells in drawn]
    found = run("codes", "--grid")
    table, _, below = found.stdout.partition("\n\n")
    assert found.exit_code == 0
    assert [re.split(r" {2,}", line) for line in table.splitlines()[3:]] == rows
    reasons = [line for line in below.splitlines() if line.startswith("- ")]
    assert len(reasons) == page.count(": cannot hold; ") == sum(row.count("-") for row in rows)


def test_the_grid_takes_no_code():
    found = run("codes", "--grid", "C101")
    assert (found.exit_code, found.stdout) == (2, "")


def test_codes_of_the_projects_own_checks_come_last_with_their_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nchecks = ["own.sql"]\n')
    (tmp_path / "own.sql").write_text(
        "-- check: addmm_is_short\n-- code: U001\n-- needs: spans\n-- message: too long\nselect cycle from spans\n"
    )
    assert listed()[-1] == "U001"
    assert run("codes", "u001").stdout.splitlines()[0] == "U001 not met: addmm is short"
    assert run("codes", "U").stdout.splitlines()[-1] == "     check: own.sql:1"
