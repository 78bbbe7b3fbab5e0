"""`perfguard check` on directories that were made to harm it: each ends in findings, in bounded time and memory.

Most are checked in this process, at a sixteenth of their size and of every limit; those that show by their size what a reader
costs are checked in a process of their own, which is stopped above so much memory and time.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import hostile
from perfguard.artifacts.readers import READERS, TRACE
from perfguard.testing import LAYOUTS, generate
from tests.cli import RECORDINGS, TORCH, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory of a child process is counted in KiB on Linux"),
]

#: What one directory may cost [KiB]; a right one costs about 95 000, the worst of these 210 000 (two cores).
MEMORY_KIB = 400_000
SECRET = "not-of-this-directory"

CASES: dict[str, tuple[Callable[[Path], None], str, str]] = {}
#: Cases that show by their size what they cost: checked in a process of their own.
LARGE = {
    "a trace of ten gigabytes of nothing",
    "a table with a hole",
    "a gzip of half a gigabyte of blanks",
    "a gzip of millions of empty events",
    "millions of empty events",
    "a column that computes gigabytes",
    "a database with ten gigabytes behind it",
}
Maker = Callable[[Path], None]


def case(code: str, words: str) -> Callable[[Maker], Maker]:
    """Register a directory: what writes it, the code `check` must find, and some of its words."""

    def register(make: Maker) -> Maker:
        CASES[make.__name__.replace("_", " ")] = (make, code, words)
        return make

    return register


def mindspore(place: Path) -> Path:
    """Copy a right recording of MindSpore and return its cycle."""
    shutil.copytree(RECORDINGS / "mindspore-graph" / "profiler", place, dirs_exist_ok=True)
    (cycle,) = place.glob("*_ascend_ms")
    return cycle


def database(place: Path) -> Path:
    """Write a right database export and return the database."""
    generate("pt-npu", seed=1, conditions={"text": False, "db": True}).write(place)
    return next(place.rglob("ascend_pytorch_profiler*.db"))


def trace(place: Path, raw: bytes | str, name: str = "host_1.1795261965060177130.pt.trace.json") -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_bytes(raw.encode() if isinstance(raw, str) else raw)


# -- what is no file -------------------------------------------------------------------------------------------------


@case("PASSED", "")
def links_that_lead_back(place: Path) -> None:
    cycle = mindspore(place)
    (cycle / "loop").symlink_to(cycle)
    (cycle / "FRAMEWORK" / "up").symlink_to("..")


@case("A109", "leads out of")
def a_link_that_leads_out(place: Path) -> None:
    table = mindspore(place) / "FRAMEWORK" / "cpu_op_type_info_0.csv"
    secret = place.parent / "secret"
    secret.write_text(f"{SECRET}\n")
    table.unlink()
    table.symlink_to(secret)


@case("S101", "not a regular file")
def pipes(place: Path) -> None:
    cycle = mindspore(place)
    for name in ("profiler_info_0.json", "ASCEND_PROFILER_OUTPUT/trace_view.json", "logs/profiler_9.log"):
        (cycle / name).unlink(missing_ok=True)
        os.mkfifo(cycle / name)


@case("A102", "")
def a_directory_where_a_file_should_be(place: Path) -> None:
    table = mindspore(place) / "FRAMEWORK" / "cpu_op_type_info_0.csv"
    table.unlink()
    table.mkdir()


# -- size ------------------------------------------------------------------------------------------------------------


@case("S101", "on the disk")
def a_trace_of_ten_gigabytes_of_nothing(place: Path) -> None:
    with (mindspore(place) / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").open("wb") as file:
        file.truncate(10 * 1024**3)


@case("S101", "on the disk")
def a_table_with_a_hole(place: Path) -> None:
    with (mindspore(place) / "FRAMEWORK" / "cpu_op_detail_info_0.csv").open("ab") as file:
        file.truncate(1900 * 1024**2)


@case("S101", "unpacks to more than")
def a_gzip_of_half_a_gigabyte_of_blanks(place: Path) -> None:
    trace(place, gzip.compress(b" " * 500 * 1024**2), "host_1.1795261965060177130.pt.trace.json.gz")


@case("S101", "")
def a_gzip_of_millions_of_empty_events(place: Path) -> None:
    packed = gzip.compress(b'{"schemaVersion":1,"traceEvents":[' + b"{}," * 20_000_000 + b"{}]}")
    trace(place, packed, "host_1.1795261965060177130.pt.trace.json.gz")


@case("S101", "")
def millions_of_empty_events(place: Path) -> None:
    trace(place, b'{"schemaVersion":1,"traceEvents":[' + b"{}," * 10_000_000 + b"{}]}")


@case("S101", "the row has more than")
def a_million_columns(place: Path) -> None:
    header = ",".join(f"c{number}" for number in range(10**6))
    (mindspore(place) / "FRAMEWORK" / "cpu_op_type_info_0.csv").write_text(header + "\n")


@case("S102", "")
def thousands_of_columns(place: Path) -> None:
    header = ",".join(f"c{number}" for number in range(15_000))
    cells = ",".join("1" * 15_000)
    (mindspore(place) / "FRAMEWORK" / "cpu_op_type_info_0.csv").write_text(f"{header}\n{cells}\n")


@case("S101", "different keys")
def an_event_with_a_hundred_thousand_keys(place: Path) -> None:
    trace(place, json.dumps({"traceEvents": [{f"key {number}": 1 for number in range(100_000)}]}))


@case("", "")
def arguments_with_a_key_of_their_own_each(place: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": at, "dur": 1, "args": {f"key {at}": 1}}
        for at in range(20_000)
    ]
    trace(place, json.dumps({"schemaVersion": 1, "traceEvents": events}))


@case("", "")
def ten_thousand_small_files(place: Path) -> None:
    cycle = mindspore(place)
    for folder in range(100):
        (cycle / "logs" / str(folder)).mkdir(parents=True)
        for number in range(100):
            (cycle / "logs" / str(folder) / f"{number}.txt").touch()


@case("A10", "")
def two_hundred_folders_in_each_other(place: Path) -> None:
    (place / "/".join(["d"] * 200)).mkdir(parents=True)


# -- JSON ------------------------------------------------------------------------------------------------------------


@case("S101", "")
def brackets_two_hundred_thousand_deep(place: Path) -> None:
    (mindspore(place) / "profiler_info_0.json").write_text("[" * 200_000 + "]" * 200_000)


@case("S101", "")
def brackets_in_an_event(place: Path) -> None:
    trace(place, '{"traceEvents":[{"ph":"X","args":' + "[" * 100_000 + "]" * 100_000 + "}]}")


@case("S101", "twice")
def a_key_that_is_there_twice(place: Path) -> None:
    (mindspore(place) / "profiler_info_0.json").write_text('{"profiler_parameters": {"a": 1, "a": 2}}')


@case("S101", "Number out of range")
def a_number_beyond_all_floats(place: Path) -> None:
    (mindspore(place) / "profiler_info_0.json").write_text('{"profiler_parameters": {"a": 1e999}}')


@case("S101", "half of a surrogate pair")
def half_a_surrogate_pair(place: Path) -> None:
    (mindspore(place) / "profiler_info_0.json").write_text('{"profiler_parameters": {"a": "\\ud800"}}')


# -- databases -------------------------------------------------------------------------------------------------------


@case("S101", "")
def a_database_with_rubbish_inside(place: Path) -> None:
    path = database(place)
    raw = bytearray(path.read_bytes())
    raw[5000:9000] = bytes(range(250)) * 16
    path.write_bytes(raw)


@case("S101", "cut off")
def half_a_database(place: Path) -> None:
    path = database(place)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 7])


@case("S101", "")
def text_called_a_database(place: Path) -> None:
    database(place).write_bytes(b"hello" * 1000)


@case("S101", "")
def a_database_with_ten_gigabytes_behind_it(place: Path) -> None:
    with database(place).open("ab") as file:
        file.truncate(10 * 1024**3)


def _run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


_ENDLESS = "with recursive r(x) as (select 1 union all select x + 1 from r) select x as id, x as value from r"


@case("PASSED", "")
def a_database_with_an_endless_view_and_a_trigger(place: Path) -> None:
    trigger = "create trigger t after insert on TASK begin delete from TASK; end"
    _run(database(place), f"create view endless as {_ENDLESS}", trigger)


@case("S10", "STRING_IDS")
def an_endless_view_for_a_table(place: Path) -> None:
    _run(database(place), "drop table STRING_IDS", f"create view STRING_IDS as {_ENDLESS}")


@case("S101", "")
def a_column_that_computes_gigabytes(place: Path) -> None:
    computed = "create table STRING_IDS(id integer, value text as (hex(zeroblob(400000000))))"
    _run(database(place), "drop table STRING_IDS", computed, "insert into STRING_IDS(id) values (1)")


# -- names -----------------------------------------------------------------------------------------------------------


@case("PASSED", "")
def names_that_are_no_text(place: Path) -> None:
    cycle = mindspore(place)
    (cycle / "evil\n\x1b[31mred\u202e").write_text("x")
    os.mkdir(os.fsencode(cycle) + b"/\xff\xfe")
    with open(os.fsencode(cycle) + b"/\xff\xfe/a", "w"):
        pass


@case("S103", r"evil\n\x1b[2J")
def a_trace_of_evil_name(place: Path) -> None:
    """The name is shown in the finding, and shown harmless."""
    shutil.copytree(TORCH / "profiler", place, dirs_exist_ok=True)
    (path,) = place.glob("*.json")
    document = json.loads(path.read_text())
    document["traceEvents"][5]["ts"] = "\x1b[31m soon"
    (place / "evil\n\x1b[2J.pt.trace.json").write_text(json.dumps(document))


@case("A", "")
def a_rank_beyond_all_integers(place: Path) -> None:
    table = mindspore(place) / "FRAMEWORK" / "cpu_op_type_info_0.csv"
    table.rename(table.with_name("cpu_op_type_info_99999999999999999999999.csv"))
    (place / "rank_99999999999999999999999").mkdir()


#: A process between: what a child used before it became another program counts as its own, and this one is large.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.call([sys.executable, "-m", "perfguard", "check", *sys.argv[1:]], stderr=subprocess.STDOUT)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def check(place: Path) -> tuple[int, str, int]:
    """Run `perfguard check` in a process of its own; returns exit code, all it printed, and its peak memory [KiB]."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, place.name],
        cwd=place.parent,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    text, _, last = done.stdout.decode("utf-8").rstrip("\n").rpartition("\n")
    code, peak_kib = last.split()
    return int(code), text, int(peak_kib)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.variants(1)
def test_a_hostile_directory_ends_in_findings(tmp_path, monkeypatch, name):
    make, code, words = CASES[name]
    place = tmp_path / "run"
    place.mkdir()
    make(place)
    if name in LARGE:
        status, text, peak_kib = check(place)
        assert peak_kib < MEMORY_KIB
    else:
        monkeypatch.chdir(tmp_path)
        done = run("check", place.name)
        status, text = done.exit_code, done.output
    assert status in (0, 3, 4), text
    assert "Traceback" not in text
    assert SECRET not in text
    assert not set(text) & {"\x1b", "\u202e", "\r"}
    assert code in text
    assert words in text


TEXTS = "it has more than 500000 different names, shapes and other texts"

#: Inputs of `benchmarks.hostile` by name: the part of their size that is enough, and some words of what is found.
EXHAUSTING: dict[str, tuple[float, int, str]] = {
    "column defaults of gigabytes": (1, 3, "its texts have more than the 50331648 characters"),
    "column defaults in few rows": (1, 3, "a row in it has more than 2097152 bytes"),
    "many columns with a default": (1, 3, "too much work"),
    "two million tasks": (1, 3, "its tables have more than the 6000000 cells"),
    "two million texts": (1, 0, "PASSED"),
    "a database text of 300 mb": (1, 3, "a row in it has more than 2097152 bytes"),
    "one key many times": (1, 3, "an object has the key 'a' twice"),
    "keys of which the last is repeated": (1, 3, "an object has the key 'z' twice"),
    "a json string of 100 mb": (1, 3, "$.config: 'xxx"),
    "a json list of 20 mb": (1, 3, "more than the 2097152 that are read"),
    "keys around the events": (1, 0, "PASSED"),
    "events within keys": (1, 0, "PASSED"),
    "json objects in an array": (1, 3, "more than the 4000000 that are read"),
    "a drawing that begins with blanks": (1, 3, "does not begin with a digraph"),
    "quotes of which none is closed": (1, 3, "part of it is missing"),
    "edges to nowhere": (1, 3, "no such node is drawn"),
    "a table of a million columns": (1, 3, "the row has more than"),
    "a whitespace table of a million columns": (1, 3, "1000000 columns"),
    "a whitespace line of 500 000 cells": (1, 3, "the row has 500000 cells"),
    "millions of blank lines in a csv": (1, 3, "the row has 0 cells"),
    "millions of blank lines in a columns table": (1, 3, "the line has 0 cells"),
    "millions of lines in a log": (1, 3, "more than the"),
    "a csv line of 55 mb": (1, 3, "the row has more than"),
    "csv rows of 2 mb": (1, 3, "its names and shapes have more than the 33554432 characters"),
    "a database of 10 000 tables": (1, 0, "PASSED"),
    "a database blob of 100 mb": (1, 3, "a row in it has more than 2097152 bytes"),
    "a database whose schema is no sql": (1, 3, "malformed database schema"),
    "a database of which a page is its own child": (1, 3, "SQLite finds it damaged"),
    "scalars for events": (1, 3, "an event is not an object: '1'"),
    "lists for events": (1, 3, "an event is not an object: '[]'"),
    "scalars among events": (1, 3, "an event is not an object: '1'"),
    "an argument of a million scalars": (1, 0, "PASSED"),
    "event names of 7 mb": (1, 3, "its names, shapes and other texts have more than"),
    "a gzip header of 12 mb": (1, 3, "it is not whole gzip"),
    "a million empty gzip members": (1, 0, "PASSED"),
    "a gzip of empty blocks": (1, 3, "it is not whole gzip"),
    "a csv cell of 100 mb": (1, 3, "the row has more than"),
    "a quoted csv cell of 100 mb": (1, 3, "no quotation mark ends the cell"),
    "one quote that is never closed in a small table": (1, 3, "no quotation mark ends the cell"),
    "quotes within cells": (1, 3, "the row has more than"),
    "call stacks in quotes": (0.3, 3, "44280 rows here, 18 cpu_op events in trace_view.json"),
    "a world of a billion ranks of which two are here": (1, 3, "and 999999898 more like it"),
    "a million records": (1, 3, "more than the 500000 records"),
    "a million values in one record": (1, 3, "more than 20000 different tags"),
    "a million values of one tag": (1, 3, "I114"),
    "a summary tag of 100 mb": (1, 3, "a text in it has 104857600 characters"),
    "a million process names": (1, 3, "it names more than 100000 processes"),
    "a million threads": (1, 3, "it has events of more than 100000 threads"),
    "thousand tags in thousand steps": (1, 3, "I115"),
    "a million processes": (1, 3, "it has events of more than 100000 threads"),
    "a million labels": (1, 3, "it names more than 100000 processes"),
    "a million names": (1, 3, TEXTS),
    "a million argument values": (1, 3, TEXTS),
    "a million threads in a trace view": (1, 3, "it has events of more than 100000 threads"),
    "a million processes in a trace view": (1, 3, "it has events of more than 100000 threads"),
    "a million process names in a trace view": (1, 3, "it names more than 100000 processes"),
    "a million labels in a trace view": (1, 3, "it names more than 100000 processes"),
    "a million names in a trace view": (1, 3, TEXTS),
    "a million argument values in a trace view": (1, 3, TEXTS),
    "a million counters": (1, 3, TEXTS),
    "a million odd counters": (1, 3, TEXTS),
    "a million text ids": (1, 3, TEXTS),
    "a hundred thousand steps": (1, 3, "C103"),
    "steps of which no two are alike": (1, 0, "ran different operators from the other steps"),
    "operators nested in each other": (1, 0, "PASSED"),
    "operators at one timestamp": (1, 0, "PASSED"),
    "blocks of one moment": (1, 3, "I107"),
    "executions of the host": (1, 3, "a line above has executions of it, too"),
    "steps of a thousand ranks": (1, 3, "the largest of its ranks is 1023 us"),
    "a million rows of output timeline data": (0.3, 3, "it begins at"),
    "a million rows of one allocator": (1, 0, "PASSED"),
    "two million rows of l2 cache": (1, 3, "I114"),
    "two million rows of memory record": (1, 3, "I107"),
    "two million rows of soc pmu": (1, 0, "PASSED"),
    "a million rows of kernel details": (0.7, 3, "I101"),
    "a million rows of npu module mem": (1, 3, "I106"),
    "a million rows of step trace time": (1, 3, "I108"),
    "a million rows of op statistic": (1, 3, "I105"),
    "a million rows of api statistic": (1, 3, "I114"),
    "batches of minddata": (1, 3, "I104"),
}

#: Layouts whose tables are those of ms-2.5+ and ms-2.5+cpu.
OF_OTHERS = {"mf-profile", "ms-dyn", "ranks"}

#: What may be there just as often as is allowed costs no more than what may not.
ALLOWED: dict[str, tuple[float, str]] = {
    "a million names": (0.49, "PASSED"),
    "a million argument values": (0.49, "PASSED"),
    "a million threads": (0.098, "PASSED"),
    "a million names in a trace view": (0.49, "no process_name names process 1"),
    "a million argument values in a trace view": (0.24, "no process_name names process 1"),
    "a million counters": (0.49, "no process_name names process 1"),
    "a million text ids": (0.49, "no process_name names process 1"),
}


#: Each way to grow: what grows with its square takes sixteen times as long of four times as much.
GROWING = {
    ("a million names", 0.49),
    ("a million argument values", 0.49),
    ("a million threads", 0.098),
    ("operators nested in each other", 1),
    ("steps of which no two are alike", 1),
    ("a million names in a trace view", 0.49),
    ("a million counters", 0.49),
    ("a million rows of output timeline data", 0.3),
    ("a million rows of one allocator", 1),
    ("two million rows of l2 cache", 1),
    ("a million rows of npu module mem", 1),
    ("a million rows of op statistic", 1),
    ("batches of minddata", 1),
    ("two million texts", 1),
}
INPUTS = [
    *((name, *expected) for name, expected in EXHAUSTING.items()),
    *((name, part, 0 if words == "PASSED" else 3, words) for name, (part, words) in ALLOWED.items()),
]


#: What is checked as large as it is: each way to grow, and of each reader what costs it most.
WHOLE = GROWING | {
    ("a csv line of 55 mb", 1),
    ("a database of 10 000 tables", 1),
    ("a database of which a page is its own child", 1),
    ("a gzip header of 12 mb", 1),
    ("a json list of 20 mb", 1),
    ("event names of 7 mb", 1),
    ("csv rows of 2 mb", 1),
    ("scalars for events", 1),
    ("two million rows of memory record", 1),
    ("a quoted csv cell of 100 mb", 1),
    ("a million rows of kernel details", 0.7),
    ("a million values of one tag", 1),
    ("a whitespace line of 500 000 cells", 1),
    ("keys of which the last is repeated", 1),
    ("many columns with a default", 1),
    ("millions of lines in a log", 1),
    ("quotes of which none is closed", 1),
    ("steps of a thousand ranks", 1),
    ("two million tasks", 1),
}
#: How much smaller all other inputs are, and with them every limit that they reach.
SMALLER = 16
LIMITS = (
    *("BLOCK_BYTES", "LONGEST_ROW", "MAX_CELLS", "MAX_COLUMNS", "MAX_INSTRUCTIONS", "MAX_JSON_BYTES", "MAX_LOG_BYTES"),
    *(
        "MAX_CHARACTERS",
        "MAX_EVENT_BYTES",
        "MAX_PROCESSES",
        "MAX_RECORDS",
        "MAX_RECORD_BYTES",
        "MAX_SEARCHED_BYTES",
        "MAX_TEXT",
        "MAX_TEXTS",
        "MAX_THREADS",
    ),
    *("MAX_HELD_BYTES", "MAX_LINE_BYTES", "MAX_VALUES"),
)
#: Twenty times the work for the same bytes: the ratio of its limits is what it tries.
ONLY_WHOLE = ("many columns with a default", 1)


@pytest.fixture
def smaller_limits(monkeypatch):
    """Divide every limit, in each module that has it."""
    for reader in ("chunks", "csv_stream", "database", "summary"):
        import_module(f"perfguard.artifacts.readers.{reader}")
    modules = [module for name, module in sys.modules.items() if name.startswith("perfguard.")]
    found = [(module, name) for module in modules for name in LIMITS if isinstance(vars(module).get(name), int)]
    assert {name for _, name in found} == set(LIMITS)
    for module, name in found:
        monkeypatch.setattr(module, name, vars(module)[name] // SMALLER)


def rows_of(inputs, seldom=lambda name, part: False):
    rows = [
        pytest.param(*one, id=f"{one[0]}-{one[1]}", marks=[pytest.mark.exhaustive] if seldom(*one[:2]) else [])
        for one in inputs
    ]
    return pytest.mark.parametrize(("name", "part", "status", "words"), rows)


def reaches_no_limit(name: str, part: float) -> bool:
    """Whether only its size is a trial: many rows of a table, or just as much as is allowed."""
    return " rows of " in name or part < 1


@rows_of([one for one in INPUTS if one[:2] != ONLY_WHOLE], seldom=reaches_no_limit)
@pytest.mark.variants(2)
def test_an_input_beyond_a_limit_ends_in_one_sentence(
    tmp_path, smaller_limits, must_not_hang, name, part, status, words
):
    hostile.CASES[name](tmp_path, part / SMALLER)
    done = run("check", tmp_path, "--jobs", "1")
    assert done.exit_code == status, done.output[-2000:]
    # The numbers in the sentence are smaller as well.
    assert re.search(re.sub(r"\b\d{4,}\b", r"\\d+", re.escape(words)), done.output), done.output[-2000:]


@pytest.mark.exhaustive
@rows_of([one for one in INPUTS if one[:2] in WHOLE])
def test_an_input_that_exhausts_ends_in_one_sentence(tmp_path, monkeypatch, name, part, status, words):
    """The process is stopped above 512 MB, and after so many CPU seconds."""
    # MindSpore, in a test before, makes children read summaries with a protobuf that takes three times as long.
    monkeypatch.delenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", raising=False)

    def cost_of(size: float) -> hostile.Cost:
        place = tmp_path / str(size)
        place.mkdir()
        hostile.CASES[name](place, size)
        return hostile.check(place, peak_kib=512 * 1024)

    cost = cost_of(part)
    assert cost.status == status, cost.text[-2000:]
    assert words in cost.text
    assert "Traceback" not in cost.text
    if (name, part) in GROWING:
        # Four times as much; sixteen times where each looks at all the others. No machine is that uneven.
        assert cost.cpu_s < 12 * cost_of(part / 4).cpu_s


#: Formats of which no reader can tell some damages from what is right: more of a log, a text in a drawing or in a line that
#: is only counted, blanks behind a document, zeros behind the last page of a database.
HARMLESS = {"log", "dot", "ir", "tracker-graph", "cpu-framework", "ragged", "columns", "trace", "json", "sqlite"}


@pytest.mark.parametrize("name", sorted(hostile.DAMAGED))
@pytest.mark.variants(1)
def test_a_damaged_file_of_every_format_is_bounded(tmp_path, monkeypatch, name):
    """As large as it is: the process is stopped above 512 MB, and after so many CPU seconds."""
    monkeypatch.delenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", raising=False)
    hostile.DAMAGED[name](tmp_path, 1)
    cost = hostile.check(tmp_path, peak_kib=512 * 1024)
    assert cost.status == 3 or (cost.status == 0 and name.partition(":")[0] in HARMLESS), cost.text[-2000:]
    assert "Traceback" not in cost.text


def test_every_reader_is_tried():
    assert hostile.FILES.keys() - {"trace", "csv", "csv-spaced"} == set(READERS) - {TRACE}


def test_what_is_tried_as_large_as_it_is_is_an_input():
    assert {(name, part) for name, part, *_ in INPUTS} >= WHOLE


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - OF_OTHERS))
def test_each_table_may_have_many_rows(tmp_path, layout):
    """A query that takes the square of its rows is stopped after so many CPU seconds."""
    right = Path(generate(layout, seed=1).write(tmp_path / "right"))
    tables = (path for path in right.rglob("*") if path.suffix in (".csv", ".txt"))
    for table in {re.sub(r"\d+", "", path.name): path for path in tables}.values():
        if table.read_text().count("\n") > 1:
            hostile.repeat(table, 150_000)
    cost = hostile.check(right, peak_kib=512 * 1024)
    assert cost.status in (0, 3), cost.text[-2000:]


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", ["pt-npu", "ms-2.5+"])
def test_each_table_of_a_database_may_have_many_rows(tmp_path, layout):
    """Every id is there many times: what joins two tables by it takes the square of the rows."""
    right = Path(generate(layout, seed=1, conditions={"text": False, "db": True}).write(tmp_path / "right"))
    for database in right.rglob("*.db"):
        hostile.repeat_in_database(database, 16_000)
    cost = hostile.check(right, peak_kib=512 * 1024)
    assert cost.status == 3, cost.text[-2000:]
    assert "I114" in cost.text


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a million values in one record", 1 / SMALLER),
        pytest.param("a million values of one tag", 1, marks=pytest.mark.exhaustive),
    ],
)
def test_values_of_a_summary_cost_as_little_memory_where_mindspore_chose_the_slow_protobuf(
    tmp_path, monkeypatch, name, part
):
    """MindSpore sets this variable when it is imported, and every process started from there has it."""
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    _, status, words = EXHAUSTING[name]
    hostile.CASES[name](tmp_path, part)
    cost = hostile.check(tmp_path, peak_kib=512 * 1024)
    assert cost.status == status, cost.text[-2000:]
    assert words in cost.text
