"""`perfguard sql`: questions to the tables, and nothing else."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import polars as pl
import pytest

from perfguard.testing import generate
from tests.cli import RECORDINGS, TORCH, run
from tests.hostile_queries import HOSTILE, LATE

NASTY = ['"; drop table spans; --', "with\x00nul", "two\nlines", "größer", "Name"]


def asked(*arguments: object) -> list[dict]:
    found = run("sql", *arguments, "--format", "json")
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


def trace(place: Path, *names: str) -> Path:
    """Write a real torch trace whose operators have these names in turn."""
    (source,) = (TORCH / "profiler").glob("*.json")
    document = json.loads(source.read_text(encoding="utf-8"))
    operators = [event for event in document["traceEvents"] if event.get("cat") == "cpu_op"]
    for event, name in zip(operators, cycle(names), strict=False):
        event["name"] = name
    place.mkdir()
    (place / source.name).write_text(json.dumps(document), encoding="utf-8")
    return place


# -- answers -------------------------------------------------------------------------------------------------------------


def test_names_are_names():
    found = asked(TORCH, "select name, count(*) as calls from spans group by 1 order by 2 desc, 1 limit 1")
    (path,) = (TORCH / "profiler").glob("*.json")
    names = [one["name"] for one in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if one["ph"] == "X"]
    most = max(sorted(set(names)), key=names.count)
    assert found == [{"name": most, "calls": names.count(most)}]


@pytest.mark.parametrize("layout", ["pt-torch", "pt-npu", "ms-2.5+"])
@pytest.mark.variants(1)
def test_all_ranks_are_asked_together(layout, tmp_path):
    generate(layout, ranks=2, steps=2).write(tmp_path)
    found = asked(
        tmp_path, "select rank, layout, count(*) as steps from steps join cycles using (cycle) group by all order by 1"
    )
    assert found == [{"rank": rank, "layout": layout, "steps": 2} for rank in range(2)]


@pytest.mark.parametrize("layout", ["ms-2.0", "ms-2.5+cpu"])
@pytest.mark.variants(1)
def test_executions_that_files_list_are_a_table(layout, tmp_path):
    generate(layout, seed=1, steps=3).write(tmp_path / "listed")
    found = asked(tmp_path / "listed", "select sum(calls) as calls, count(operator) > 0 as named from listed")
    sums = asked(tmp_path / "listed", "select sum(calls) as calls, true as named from listed_sums")
    assert found == sums
    assert int(found[0]["calls"]) > 0


def test_recordings_in_a_directory_are_told_apart(copy_recording, tmp_path):
    for name in ("torch-mlp", "torch-repeat2"):
        copy_recording(name)
    found = asked(tmp_path, "select recording, count(*) as cycles from cycles group by 1 order by 1")
    assert found == [{"recording": "torch-mlp", "cycles": 1}, {"recording": "torch-repeat2", "cycles": 2}]


def test_a_url_is_read_as_check_reads_it():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(TORCH / "profiler"), "/sql-recording/", recursive=True)
    assert asked("memory://sql-recording", "select count(*) as steps from steps") == [{"steps": 3}]


def test_the_tables_listed_are_those_with_rows():
    counts = {one["name"]: one["rows"] for one in asked(TORCH, "--tables")}
    assert counts["steps"] == 3
    assert "kernels" not in counts
    for name in ("spans", "memory_events", "executions"):
        assert asked(TORCH, f"select count(*) as rows from {name}") == [{"rows": counts[name]}]


def test_the_columns_listed_are_those_of_the_rows():
    columns = [one["column"] for one in asked(TORCH, "--columns", "spans")]
    assert columns == list(asked(TORCH, "from spans limit 1")[0])


def test_a_query_comes_from_standard_input():
    found = run("sql", TORCH, "-", "--format", "csv", answer="select 1 as one,\n2 as two")
    assert (found.exit_code, found.stdout) == (0, "one,two\n1,2\n")


def test_a_table_is_cut_where_it_is_too_long_for_people():
    found = run("sql", TORCH, "from range(1001)")
    assert len(found.stdout.splitlines()) == 1002
    assert found.stderr == "perfguard: these are the first 1000 rows; all of them: --format csv\n"
    assert run("sql", TORCH, "from range(1000)").stderr == ""


def test_what_cannot_be_read_is_said(copy_recording):
    place = copy_recording("torch-mlp")
    (path,) = (place / "profiler").glob("*.json")
    path.write_text(path.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    found = run("sql", place, "select count(*) from spans")
    assert found.exit_code == 0
    assert "rows may be missing; look at: perfguard check" in found.stderr


def test_names_of_files_that_are_no_utf_8_are_shown(tmp_path):
    source = trace(tmp_path / "source", "aten::mm")
    os.rename(source, os.fsencode(tmp_path) + b"/\xff")
    (found,) = asked(tmp_path, "select place from cycles")
    assert found["place"].startswith("\\udcff/")


# -- formats -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.variants(1)
def test_names_of_all_kinds_come_out_as_they_went_in(form, tmp_path):
    place, file = trace(tmp_path / "trace", *NASTY), tmp_path / "out" / f"rows.{form}"
    query = 'select name, name as "Name", row from operators order by row'
    assert run("sql", place, query, "--output", file).exit_code == 0
    if form == "csv":
        header, *rows = csv.reader(io.StringIO(file.read_text(encoding="utf-8"), newline=""))
    elif form == "json":
        found = json.loads(file.read_text(encoding="utf-8"))
        header, rows = list(found[0]), [list(one.values()) for one in found]
    else:
        frame = pl.read_parquet(file)
        header, rows = frame.columns, [list(row) for row in frame.iter_rows()]
    assert [one.lower().partition("_")[0] for one in header] == ["name", "name", "row"]
    assert len(set(header)) == 3
    assert {row[0] for row in rows} == {*NASTY}
    assert list(tmp_path.glob("out/.*")) == []


def test_parquet_to_standard_output_is_the_file(tmp_path):
    found = run("sql", TORCH, "from steps", "--format", "parquet")
    (tmp_path / "x.parquet").write_bytes(found.stdout_bytes)
    assert pl.read_parquet(tmp_path / "x.parquet").height == 3


# -- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query, sentence",
    [
        ("attach ':memory:' as other", "this is ATTACH"),
        ("copy spans to 'x.csv'", "this is COPY"),
        ("export database 'x'", "this is EXPORT"),
        ("install httpfs", "this is LOAD"),
        ("load httpfs", "this is LOAD"),
        ("pragma database_list", "this is PRAGMA"),
        ("set memory_limit = '100GB'", "this is SET"),
        ("create table x (y integer)", "this is CREATE"),
        ("insert into main.words values (1, 'a')", "this is INSERT"),
        ("delete from main.spans", "this is DELETE"),
        ("call enable_logging(storage = 'file', storage_config = {'path': 'x'})", "this is CALL"),
        ("from enable_logging(storage = 'file', storage_config = {'path': 'x'})", "configuration has been locked"),
        ("with x as (insert into main.words values (1, 'a') returning *) from x", "it writes"),
        ("select 1; drop table main.spans", "it has 2 statements"),
        ("", "it has 0 statements"),
        ("from read_csv('/etc/passwd')", "it can read these tables, and nothing else"),
        ("from '/etc/passwd'", "does not exist"),
        ("from 'x.parquet'", "it can read these tables, and nothing else"),
        ("from glob('/*')", "it can read these tables, and nothing else"),
        ("select name from spns", "did you mean 'spans'?"),
        ("selct 1", "syntax error"),
    ],
)
@pytest.mark.variants(1)
def test_a_query_reads_the_tables_and_nothing_else(query, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("sql", TORCH, query)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert sentence in found.stderr
    assert found.stderr.startswith("perfguard: The query cannot be answered: ")
    assert found.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((TORCH,), "Ask one thing"),
        ((TORCH, "select 1", "--tables"), "Ask one thing"),
        ((TORCH, "--columns", "spns"), "There is no table 'spns'; did you mean 'spans'?"),
        ((TORCH, "select 1", "--timeout", "0"), "0.0 is not in the range"),
        ((TORCH, "select 1", "--format", "xml"), "'xml' is not one of"),
        (("no/such/directory", "select 1"), "does not exist"),
        ((TORCH, "select 1", "--output", TORCH / "recording.json"), "would be overwritten"),
    ],
)
def test_a_call_that_is_wrong_is_refused(arguments, sentence):
    found = run("sql", *arguments)
    assert found.exit_code == 2
    assert sentence in found.stderr


def test_where_nothing_is_known_nothing_is_asked(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    found = run("sql", tmp_path, "select 1")
    assert found.exit_code == 4
    assert "nothing here is known profiler output" in found.stderr


# -- bounds --------------------------------------------------------------------------------------------------------------


#: Runs a command; says its status, CPU seconds and most memory (KiB) last.
_MEASURED = """
import os, resource, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.variants(1)
def test_time_and_memory_are_bounded(name, tmp_path):
    query, sentences = HOSTILE[name]
    asked = [sys.executable, "-m", "perfguard", "sql", str(TORCH), "-", "--timeout", "3", "--output", "x.json"]
    # What a process is started by counts as its own, and these tests may be large.
    command = [sys.executable, "-c", _MEASURED, *asked]
    (tmp_path / "query").write_text(query, encoding="utf-8")
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with (tmp_path / "query").open("rb") as given:
        done = subprocess.run(command, cwd=tmp_path, env=environ, stdin=given, capture_output=True, text=True)
    *lines, last = done.stderr.splitlines(keepends=True)
    told = "".join(lines)
    status, cpu_s, peak_kib = last.split()
    assert int(status) == 2
    assert any(sentence in told for sentence in (*sentences, LATE)), told
    assert told.startswith("perfguard: The query cannot be answered: ")
    assert told.count("\n") == 1
    assert float(cpu_s) < 10
    assert int(peak_kib) <= 512 * 1024
    # Neither half a file nor what was spilled is left.
    assert os.listdir(tmp_path) == ["query"]


def test_the_bound_of_the_memory_ends_with_the_query():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    run("sql", RECORDINGS / "torch-mlp", "select 1")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


_FULL = """
import resource, signal, sys
from perfguard.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.parametrize("form", ["csv", "parquet", "table"])
@pytest.mark.parametrize("kib", [0, 4, 16, 64, 128])
@pytest.mark.variants(1)
def test_a_full_temporary_folder_is_one_sentence(kib, form, tmp_path):
    (tmp_path / "temporary").mkdir()
    query = "select s.*, repeat('x', 3000) as more from spans s order by name, duration_ns"
    command = [sys.executable, "-c", _FULL, str(1024 * kib), "sql", str(TORCH), query, "--format", form, "-o", "rows"]
    environ = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("perfguard: ")
    assert done.stderr.count("\n") == 1
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert os.listdir(tmp_path) == ["temporary"]


def test_a_query_without_an_end_is_not_read():
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "perfguard", "sql", str(TORCH), "-"], stdin=endless, capture_output=True
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"perfguard: The query has more than 4000000 characters; write a shorter one.\n"
