"""Databases: what is stored is read, nothing that is only computed; whatever else a file may be ends in `Unreadable`."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from perfguard.artifacts.readers import READERS, Content, database
from perfguard.artifacts.table import Cells, Unreadable
from perfguard.contract.conformity import content_findings
from perfguard.documents import schema
from perfguard.findings import Code

pytestmark = pytest.mark.usefixtures("must_not_hang")

ANY_ROW = {"type": "array", "items": {"type": "object", "properties": {}}}


def read(path: Path, *tables: str) -> Content:
    return READERS["sqlite"](path, {"type": "object", "properties": dict.fromkeys(tables, ANY_ROW)})


def values(content: Content, table: str) -> list[dict[str, object]]:
    rows = content.tables[table].frame.rows(named=True)
    return [{key: json.loads(cell) for key, cell in row.items() if cell is not None} for row in rows]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a database with the given statements."""

    def write(*statements: str, name: str = "some.db") -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as made:
            for statement in statements:
                made.execute(statement)
            made.commit()
        return path

    return write


def unreadable(path: Path, *tables: str) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        read(path, *tables)
    return caught.value


# -- what is read --------------------------------------------------------------------------------------------------------


def test_cells_are_json_and_null_is_no_cell(make):
    path = make(
        "CREATE TABLE T (a INTEGER, b TEXT, c NUMERIC)",
        "INSERT INTO T VALUES (9223372036854775807, 'say \"ä\"\n', 0.1), (NULL, '7', 3), (-1, '', 1e300)",
    )
    content = read(path, "T")
    assert content.tables["T"].cells is Cells.JSON
    assert values(content, "T") == [
        {"a": 2**63 - 1, "b": 'say "ä"\n', "c": 0.1},
        {"b": "7", "c": 3},
        {"a": -1, "b": "", "c": 1e300},
    ]


def test_a_row_is_named_by_its_table(make):
    content = read(make("CREATE TABLE TASK (a)", "INSERT INTO TASK VALUES (1)"), "TASK")
    assert content.tables["TASK"].place(7) == " TASK[7]"


def test_all_tables_are_named_and_only_those_of_the_schema_are_read(make):
    content = read(make("CREATE TABLE A (a)", "CREATE TABLE B (b)"), "B", "NOT_THERE")
    assert content.document == {"tables": ["A", "B"]}
    assert list(content.tables) == ["B"]


def test_an_empty_table_has_its_columns(make):
    frame = read(make("CREATE TABLE T (a INTEGER, b TEXT)"), "T").tables["T"].frame
    assert (frame.columns, frame.height) == (["a", "b"], 0)


@pytest.mark.parametrize("name", ["what?.db", "a#b.db", "100%25.db", "ä ö.db", "a'b\"c.db", "x&mode=rwc.db"])
def test_a_name_is_a_name_and_no_uri(make, name):
    path = make("CREATE TABLE T (a)", "INSERT INTO T VALUES (1)", name=name)
    assert values(read(path, "T"), "T") == [{"a": 1}]
    assert sorted(os.listdir(path.parent)) == [name]


def test_odd_names_of_columns_are_names(make):
    content = read(make('CREATE TABLE T ("a""b" INTEGER, "select" INTEGER)', "INSERT INTO T VALUES (1, 2)"), "T")
    assert values(content, "T") == [{'a"b': 1, "select": 2}]


# -- what is code is not run ---------------------------------------------------------------------------------------------


def test_views_and_virtual_tables_are_no_tables(make):
    path = make(
        "CREATE TABLE A (a)",
        "CREATE VIEW V AS SELECT randomblob(9) AS a FROM A",
        "CREATE VIRTUAL TABLE F USING fts5(x)",
    )
    content = read(path, "A", "V", "F")
    assert list(content.tables) == ["A"]
    assert "V" not in content.document["tables"]


def test_a_statement_that_is_a_blob_is_refused(make):
    path = make("CREATE TABLE T (a)", "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql = CAST(sql AS BLOB)")
    assert "the SQL statement of the table is not text" in str(unreadable(path, "T"))


def test_computed_columns_are_refused(make):
    path = make(
        "CREATE TABLE T (a INTEGER, b INTEGER GENERATED ALWAYS AS (a * 2) VIRTUAL, c INTEGER GENERATED ALWAYS AS (a) STORED)",
        "INSERT INTO T (a) VALUES (4)",
    )
    with pytest.raises(Unreadable, match="computed columns"):
        read(path, "T")


def test_constraints_and_triggers_are_not_run(make):
    path = make(
        "CREATE TABLE T (a INTEGER CHECK (a > abs(-1)))",
        "CREATE TABLE LOG (a)",
        "CREATE TRIGGER R AFTER INSERT ON T BEGIN INSERT INTO LOG VALUES (1); END",
        "PRAGMA ignore_check_constraints = ON",
        "INSERT INTO T VALUES (0)",
    )
    assert values(read(path, "T"), "T") == [{"a": 0}]


def test_a_table_whose_indexes_compute_is_read(make):
    path = make("CREATE TABLE T (a INTEGER)", "CREATE INDEX I ON T (a)", "INSERT INTO T VALUES (1)")
    assert values(read(path, "T"), "T") == [{"a": 1}]


# -- what is not read ----------------------------------------------------------------------------------------------------


def test_a_blob_is_named(make):
    error = unreadable(make("CREATE TABLE T (a)", "INSERT INTO T VALUES (1), (x'00ff')"), "T")
    assert (error.place, "BLOB" in error.message) == (" T[1]", True)


def test_infinity_is_named(make):
    error = unreadable(make("CREATE TABLE T (a)", "INSERT INTO T VALUES (9e999)"), "T")
    assert (error.place, error.message) == (" T[0]", "a is infinite")


def test_text_that_is_not_utf8(make):
    assert (
        "UTF-8" in unreadable(make("CREATE TABLE T (a)", "INSERT INTO T VALUES (CAST(x'ff41' AS TEXT))"), "T").message
    )


@pytest.mark.parametrize("raw", [b"", b"SQLite format 3", b"Step,Computing\n1,2\n", b"\0" * 4096])
def test_what_is_no_database(tmp_path, raw):
    path = tmp_path / "some.db"
    path.write_bytes(raw)
    assert unreadable(path).message


def test_a_database_that_was_cut_off(make):
    path = make("CREATE TABLE T (a TEXT)", *["INSERT INTO T VALUES (hex(randomblob(900)))"] * 40)
    whole = path.read_bytes()
    for size in (100, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert unreadable(path, "T").message


def test_a_page_that_leads_back_to_itself(make):
    path = make("CREATE TABLE T (a TEXT)", *["INSERT INTO T VALUES (hex(randomblob(900)))"] * 40)
    raw = bytearray(path.read_bytes())
    size = int.from_bytes(raw[16:18], "big")
    # An inner page of the table (0x05) keeps the number of its rightmost child in bytes 8 to 11.
    inner = next(number for number in range(1, len(raw) // size) if raw[number * size] == 5)
    raw[inner * size + 8 : inner * size + 12] = (inner + 1).to_bytes(4, "big")
    path.write_bytes(raw)
    assert "damaged" in unreadable(path, "T").message


def test_one_flipped_bit_in_a_page_header_is_found(make):
    path = make("CREATE TABLE T (a TEXT)", *["INSERT INTO T VALUES (hex(randomblob(900)))"] * 40)
    raw = bytearray(path.read_bytes())
    raw[4096] ^= 0x04
    path.write_bytes(raw)
    assert unreadable(path, "T").message


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_changes_that_lie_beside_it(make, ending):
    path = make("CREATE TABLE T (a)")
    beside = path.with_name(path.name + ending)
    beside.write_bytes(b"")
    assert read(path, "T").tables
    beside.write_bytes(b"something")
    assert beside.name in unreadable(path, "T").message


def test_nothing_is_written(make):
    path = make("PRAGMA journal_mode = WAL", "CREATE TABLE T (a)")
    before = {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}
    os.chmod(path.parent, 0o500)
    try:
        read(path, "T")
    finally:
        os.chmod(path.parent, 0o700)
    assert before == {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "some.db")
    assert unreadable(tmp_path / "some.db").message == "it is not a regular file"


def test_limits_of_cells_size_and_work(make, monkeypatch):
    path = make("CREATE TABLE T (a)", *["INSERT INTO T VALUES (1)"] * 20)
    monkeypatch.setattr(database, "MAX_CELLS", 19)
    assert unreadable(path, "T").message == "its tables have more than the 19 cells that are read"
    monkeypatch.setattr(database, "MAX_CELLS", 20)
    assert read(path, "T").tables["T"].frame.height == 20
    monkeypatch.setattr(database, "MAX_INSTRUCTIONS", 0)
    monkeypatch.setattr(database, "MAX_INSTRUCTIONS_PER_BYTE", 0)
    monkeypatch.setattr(database, "_INSTRUCTIONS_BETWEEN_LOOKS", 10)
    assert "too much work" in unreadable(path, "T").message
    monkeypatch.setattr(database, "MAX_BYTES", 10)
    assert "more than" in unreadable(path, "T").message


def test_one_text_is_not_longer_than_two_megabytes(make):
    path = make("CREATE TABLE T (a)", "INSERT INTO T VALUES (printf('%.*c', 3000000, 'x'))")
    assert unreadable(path, "T").message == "a row in it has more than 2097152 bytes"


def test_a_default_that_is_in_every_row_is_counted_in_every_row(make):
    """In the file it is there once: `ALTER TABLE` writes no row anew."""
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i FROM n"
    path = make("CREATE TABLE T (a)", f"INSERT INTO T {rows}", f"ALTER TABLE T ADD b TEXT DEFAULT '{'x' * 100_000}'")
    assert path.stat().st_size < 1_000_000
    assert unreadable(path, "T").message == "its texts have more than the 50331648 characters that are read"


def test_blocks_of_rows_are_one_table(make, monkeypatch):
    monkeypatch.setattr(database, "_FETCHED_ROWS", 2)
    monkeypatch.setattr(database, "_BLOCK_ROWS", 3)
    path = make(
        "CREATE TABLE T (a)", *[f"INSERT INTO T VALUES ({cell})" for cell in ("1", "2", "3", "4", "'5'", "x'00'")]
    )
    assert unreadable(path, "T").place == " T[5]"
    with closing(sqlite3.connect(path)) as made:
        made.execute("DELETE FROM T WHERE a = x'00'")
        made.commit()
    assert [row["a"] for row in values(read(path, "T"), "T")] == [1, 2, 3, 4, "5"]


def test_small_rows_stay_below_the_limit_of_work(make):
    """The rows that take the most work for their bytes: many, of one short column."""
    path = make(
        "CREATE TABLE T (a)",
        "INSERT INTO T WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) SELECT 1 FROM n",
    )
    assert read(path, "T").tables["T"].frame.height == 400_000


# -- against the schemas -------------------------------------------------------------------------------------------------


def findings(path: Path, name: str) -> list[tuple[Code, str, str]]:
    rules = schema(name)
    found = content_findings(READERS["sqlite"](path, rules), rules, path.name)
    return [(one.code, one.place, one.message) for one in found]


TASK = (
    "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, globalTaskId INTEGER, taskType INTEGER, "
    "streamId INTEGER, connectionId INTEGER, globalPid INTEGER, contextId INTEGER, taskId INTEGER, modelId INTEGER)"
)
STRINGS = "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT)"


def test_rows_are_checked_and_unknown_tables_are_none_of_our_business(make):
    path = make(STRINGS, TASK, "CREATE TABLE OVERLAP_ANALYSIS (x BLOB)", "INSERT INTO OVERLAP_ANALYSIS VALUES (x'00')")
    assert findings(path, "ascend_pytorch_profiler") == []
    with closing(sqlite3.connect(path)) as made, made:
        columns = "(startNs, endNs, deviceId, globalTaskId, taskType, streamId)"
        made.execute(
            f"INSERT INTO TASK {columns} VALUES (1, 2, 0, 0, 0, 0), (-1, 2, 0, 1, 0, 0), (1, 'x', 0, 2, NULL, 0)"
        )
    assert [(code, place.split("TASK")[1]) for code, place, _ in findings(path, "ascend_pytorch_profiler")] == [
        (Code.S103, "[1] $.startNs"),
        (Code.S103, "[2] $"),
        (Code.S103, "[2] $.endNs"),
    ]


def test_a_missing_table_is_named(make):
    assert findings(make(TASK), "ascend_pytorch_profiler") == [
        (Code.S102, "some.db", "table 'STRING_IDS' is missing"),
    ]


def test_a_missing_column_is_named(make):
    path = make("CREATE TABLE STRING_IDS (id INTEGER)", "INSERT INTO STRING_IDS VALUES (1)")
    ((code, place, message),) = findings(path, "ascend_pytorch_profiler")
    assert (code, place, message) == (Code.S102, "some.db STRING_IDS", "column 'value' is missing")


def test_a_column_whose_cells_may_be_null_must_be_there(make):
    tables = ("CREATE TABLE STRING_IDS (id INTEGER, value TEXT)", "CREATE TABLE META_DATA (name TEXT, value TEXT)")
    times = "CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER{})"
    row = "INSERT INTO SESSION_TIME_INFO (startTimeNs) VALUES (1)"
    assert findings(make(*tables, times.format(", endTimeNs INTEGER"), row), "ascend_pytorch_profiler") == []
    ((code, place, message),) = findings(make(*tables, times.format(""), name="other.db"), "ascend_pytorch_profiler")
    assert (code, place, message) == (Code.S102, "other.db SESSION_TIME_INFO", "column 'endTimeNs' is missing")


def test_a_column_that_versions_name_differently_must_be_there_once(make):
    columns = (
        "name, globalTaskId, taskType, opType, inputFormats, inputDataTypes, inputShapes, outputFormats, outputDataTypes, "
        "outputShapes"
    )
    strings = "CREATE TABLE STRING_IDS (id INTEGER, value TEXT)"
    for number, more in enumerate(("blockDim, mixBlockDim", "blockNum, mixBlockNum", "blockNum, mixBlockDim")):
        path = make(strings, f"CREATE TABLE COMPUTE_TASK_INFO ({columns}, {more})", name=f"{number}.db")
        assert findings(path, "ascend_pytorch_profiler") == []
        assert findings(path, "ascend_mindspore_profiler") == []
    path = make(strings, f"CREATE TABLE COMPUTE_TASK_INFO ({columns}, mixBlockNum)")
    assert findings(path, "ascend_pytorch_profiler") == [
        (Code.S102, "some.db COMPUTE_TASK_INFO", "column 'blockDim or blockNum' is missing")
    ]
