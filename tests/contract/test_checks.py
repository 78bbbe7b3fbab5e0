"""Checks: files of queries with headers, and what becomes of the rows that a query returns."""

from __future__ import annotations

import pytest

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.tables import batch
from perfguard.capture.replay import replay
from perfguard.contract import checks, reduce
from perfguard.contract.checks import checks_of, parsed
from perfguard.dialects.cycle import Cycle, Requested
from perfguard.dialects.headers import is_of_a_slot
from perfguard.dialects.queries import COMMON, all_definitions, folders
from perfguard.errors import UsageError
from perfguard.findings import Code, Severity
from tests.cli import RECORDINGS

HEADER = {"check": "steps_are_whole", "code": "I113", "needs": "steps", "message": "step {step} has no end"}


def written(**header: str) -> str:
    return "\n".join(
        [*(f"-- {key}: {value}" for key, value in {**HEADER, **header}.items() if value), "select cycle, step"]
    )


def test_a_file_of_checks():
    text = f"""-- What is said before the first check is for people.
{written(severity="warning", needs="steps, spans | instants", at="$.a")}
from steps -- a comment
where end_ns is null;

-- check: another
-- code: I114
-- needs: steps
-- about: It goes on
--   in the next line.
-- message: {{step}} of {{number:,.1f}}
select 1
"""
    first, second = parsed(text, "perf/checks.sql")
    assert (first.name, first.code, first.severity, first.at) == ("steps_are_whole", Code.I113, Severity.WARNING, "$.a")
    assert first.needs == (frozenset({"steps"}), frozenset({"spans", "instants"}))
    assert first.query == "select cycle, step\nfrom steps -- a comment\nwhere end_ns is null"
    assert (second.about, second.severity, second.place) == (
        "It goes on in the next line.", Severity.ERROR, "perf/checks.sql:12",
    )  # fmt: skip
    assert second.message_of({"step": 1, "number": 2.25}) == "1 of 2.2"
    with batch() as tables:
        for filled, expected in (({"steps", "instants"}, True), ({"steps"}, False), ({"spans"}, False)):
            tables.filled = filled
            assert first.has_rows(tables) is expected
        tables.filled = set()
    assert parsed("select 1", "empty.sql") == ()


@pytest.mark.parametrize(
    ("header", "slots", "is_asked"),
    [
        ({}, {"trace_view"}, True),
        ({}, {"kernel_details"}, False),
        ({"in": "kernel_details"}, {"kernel_details"}, True),
        ({"in": "kernel_details"}, {"trace_view"}, False),
        ({"in": "kernel_details", "files": "trace_view, l2_cache"}, {"kernel_details", "trace_view"}, False),
        ({"in": "kernel_details", "files": "trace_view"}, {"kernel_details", "trace_view"}, True),
        ({"layouts": "ms-2.5+"}, {"trace_view"}, False),
        ({"where": "level1"}, {"trace_view"}, False),
        ({"where": "level2"}, {"trace_view"}, True),
        ({"when": "level2"}, {"trace_view"}, False),
        ({"when": "memory"}, {"trace_view"}, True),
        ({"when": "memory, level1"}, {"trace_view"}, False),
    ],
)
def test_a_check_is_asked_where_its_files_were_read(tmp_path, header, slots, is_asked):
    (check,) = parsed(written(**header), "a.sql")
    cycle = Cycle(
        layout=layout_named("pt-npu"), place=tmp_path, rank=0, index=0, artifacts=dict.fromkeys(slots), requested=Requested(),
        conditions={"level1": False, "memory": True},
    )  # fmt: skip
    assert check.is_for(cycle) is is_asked


def test_a_header_with_several_values_for_a_name_is_several_checks():
    text = written(
        each="table, when = db_task, a; db_hbm, b", needs="{table}", message="{step} {when}", **{"in": "{table}"}
    )
    checks = parsed(text.replace("select cycle, step", "from {table}"), "a.sql")
    assert [(one.needs, one.slot, one.message, one.query) for one in checks] == [
        ((frozenset({"db_task"}),), "db_task", "{step} a", "from db_task"),
        ((frozenset({"db_hbm"}),), "db_hbm", "{step} b", "from db_hbm"),
    ]


def test_alternatives_of_a_value_are_rows_of_their_own():
    checks = parsed(
        written(each="table, when = db_task | db_hbm, a | b; db_llc, c", message="{step} {table} {when}"), "a.sql"
    )
    rows = ["db_task a", "db_task b", "db_hbm a", "db_hbm b", "db_llc c"]
    assert [one.message for one in checks] == [f"{{step}} {row}" for row in rows]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (written(each="table"), "`each` is `name, name = value, value; value, value`: 'table'"),
        (written(each="table, when = a"), "`each` is"),
        (written(code="X1"), "code 'X1' or severity 'error' is unknown"),
        (written(severity="fatal"), "code 'I113' or severity 'fatal' is unknown"),
        (written(message=""), "has no message"),
        (written(needs=""), "has no needs"),
        (written(wanted="steps"), "each key once"),
        (written(message="{step.real}"), "'step.real' is none"),
        (written(message="{}"), "'' is none"),
        (written(message="{step!r:>{width}}"), "is none"),
        (written().replace("-- code", "-- code I113\n-- code"), "`-- key: value`"),
    ],
)
def test_a_header_that_is_none_is_one_sentence_with_its_line(text, said):
    with pytest.raises(UsageError, match=r"^perf/a\.sql:1: ") as found:
        parsed(text, "perf/a.sql")
    assert said in str(found.value)


@pytest.mark.parametrize("folder", folders())
def test_every_check_says_what_it_is_about(folder):
    checks = checks_of(folder)
    # What all dialects have in common has no checks yet.
    assert bool(checks) is (folder != COMMON)
    assert [one.place for one in checks if not one.about] == []


@pytest.mark.parametrize("folder", folders())
def test_every_check_needs_tables_that_can_have_rows(folder):
    """A view that fills no table has none: a check that needs it never runs."""
    tables, views = all_definitions().tables, " ".join(all_definitions().views.values())
    needed = {
        table for one in checks_of(folder) for tables_of in one.needs for table in tables_of if not is_of_a_slot(table)
    }
    assert [table for table in sorted(needed - tables.keys()) if f"create view fill_{table} as" not in views] == []


@pytest.mark.parametrize("cycle", ["null::integer", "-1", "99"])
def test_a_row_of_no_cycle_of_a_dialects_check_is_an_error_and_not_lost(cycle, monkeypatch):
    text = f"-- check: other\n-- code: I101\n-- needs: steps\n-- message: x\nselect {cycle} as cycle from steps"
    monkeypatch.setattr(checks, "checks_of", lambda folder: checks.parsed(text, "other/checks.sql"))
    with pytest.raises(UsageError, match=r"other/checks\.sql:1: other returned a row whose cycle is"):
        reduce(replay(RECORDINGS / "torch-mlp"))
