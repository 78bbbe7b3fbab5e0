"""Readable tables: what is a number in the tables of a batch is a text there, and a query only reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readable import _NUMBERED, WORDS, QueryError, Readable, make_readable
from perfguard.artifacts.table_definitions import TABLES, meanings
from perfguard.artifacts.tables import Batch, batch
from perfguard.dialects.queries import all_definitions, named_texts

#: Columns that are numbers by themselves.
NUMBERS = {
    "cycle",
    "file",
    "form",
    "off",
    "place",
    "version",
    "whole",
    "step",
    "number",
    "part",
    "profile_memory",
    "record_shapes",
}


@pytest.fixture
def tables() -> Iterator[Batch]:
    with batch(all_definitions(), named_texts()) as found:
        yield found


def readable(tables: Batch, limit_s: float = 60.0) -> Readable:
    connection = tables.cursor()
    make_readable(connection)
    return Readable(connection, limit_s=limit_s, remedy="ask for less")


def put_kernels(tables: Batch, *names: str) -> None:
    count = len(names)
    tables.put(
        "kernel_counters",
        cycle=np.zeros(count, np.int64),
        row=np.arange(count),
        counter=np.array([tables.word(name) for name in names], np.int64),
        **dict.fromkeys(("value", "part_us", "whole_us"), np.zeros(count)),
        duration_ns=np.zeros(count, np.int64),
    )


def test_every_whole_number_is_a_text_a_thread_or_a_number(tables):
    make_readable(connection := tables.cursor())
    query = (
        "select distinct column_name from duckdb_columns() "
        "where schema_name = 'main' and not internal and data_type = 'INTEGER'"
    )
    found = {name for (name,) in connection.execute(query).fetchall()}
    assert found == WORDS | NUMBERS | {"thread"}


def test_every_table_says_what_it_is():
    slots = {slot.name for layout in layouts() for slot in layout.slots}
    assert set(TABLES) - set(_NUMBERED) - slots <= {name for name, meaning in meanings().items() if meaning}
    assert set(meanings()) <= set(TABLES)


@pytest.mark.parametrize("name", ["aten::mm", 'a"; drop table spans; --', "with\x00nul", "two\nlines", "größer", ""])
@pytest.mark.variants(3)
def test_texts_are_texts(tables, name):
    put_kernels(tables, name)
    found = readable(tables)
    assert [row["counter"] for row in found.rows("select counter from kernel_counters")] == [name]
    assert found.count("from spans") == 0


def test_a_thread_is_its_process_and_itself(tables):
    key = tables.thread(('"python"', "7"))
    tables.put("steps", **{name: np.array([key], np.int64) for name in TABLES["steps"]})
    assert [row["thread"] for row in readable(tables).rows("from steps")] == ["python/7"]


def test_the_tables_with_numbers_are_in_another_schema(tables):
    put_kernels(tables, "aten::mm")
    (row,) = readable(tables).rows("select counter from main.kernel_counters")
    assert row["counter"] == tables.word("aten::mm")


@pytest.mark.parametrize(
    "query, sentence",
    [
        ("drop table main.spans", "this is DROP"),
        ("select 1; select 2", "it has 2 statements"),
        ("-- nothing", "it has 0 statements"),
        (
            "select coter from kernel_counters",
            'Referenced column "coter" not found in FROM clause (Candidate bindings: "counter"',
        ),
        ("from kernel_counter", "did you mean"),
        ("from nothing_like_it", "perfguard sql DIR --tables lists all tables"),
        ("select cast('x' as int)", "Conversion Error"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(tables, query, sentence):
    with pytest.raises(QueryError) as error:
        list(readable(tables).rows(query))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_line_is_that_of_the_query(tables):
    with pytest.raises(QueryError) as error:
        readable(tables).columns("select row,\n  coter\nfrom kernel_counters")
    assert error.value.line == 2


def test_an_endless_query_ends(tables, must_not_hang):
    endless = "with recursive t as (select 1 as x union all select x + 1 from t) select count(*) from t"
    found = readable(tables, limit_s=0.2)
    with pytest.raises(QueryError, match=r"longer than 0\.2 s; ask for less"):
        list(found.bounded(lambda: found.rows(endless)))
    # The next one has as long again.
    assert list(found.bounded(lambda: [found.count("from range(3)")])) == [3]


def test_rows_are_taken_as_they_are_asked_for(tables):
    answer = readable(tables).answer("from range(1_000_000_000_000)")
    assert [next(answer.rows) for _ in range(3)] == [(0,), (1,), (2,)]
