"""Tables: what goes in comes out, they are empty for the next batch, and nothing outside can be reached."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from perfguard import scratch
from perfguard.artifacts import database, tables
from perfguard.artifacts.table_definitions import NULL, TABLES, Definitions
from perfguard.artifacts.tables import batch
from perfguard.errors import UsageError

STEPS = {"step": [0, 1], "number": [7, NULL], "thread": [3, 3], "start_ns": [-5, 2**62], "end_ns": [0, 2**62 + 1]}


def steps(count: int = 2) -> dict[str, np.ndarray]:
    return {name: np.resize(np.array(values, np.int64), count) for name, values in STEPS.items()}


def test_what_goes_in_comes_out_with_its_nulls():
    with batch() as found:
        found.add("steps", 4, **steps())
        found.hand_over()
        assert found.execute("select * from steps order by step") == [
            (4, 0, 7, 3, -5, 0),
            (4, 1, None, 3, 2**62, 2**62 + 1),
        ]


@pytest.mark.parametrize("rows", [1, 10, 40])
def test_more_rows_than_wait_at_once_all_arrive(rows, monkeypatch):
    monkeypatch.setattr(database, "WAITING_ROWS", 7)
    monkeypatch.setattr(database, "_OWN", database.threading.local())
    with batch() as found:
        found.add("steps", 0, **steps(rows))
        found.add("steps", 1, **steps(3))
        found.hand_over()
        assert found.execute("select cycle, count(*), sum(thread) from steps group by cycle order by cycle") == [
            (0, rows, 3 * rows), (1, 3, 9),
        ]  # fmt: skip


def test_ctrl_c_while_duckdb_is_loaded_waits_until_it_is():
    """Without, nanobind, which is in the middle of an enumeration, aborts or forgets the signal."""
    script = (
        "import signal, sys\n"
        "from perfguard.artifacts.database import database\n"
        "def watch(frame, event, argument):\n"
        "    name, caller = frame.f_code.co_filename, frame.f_back and frame.f_back.f_code.co_filename\n"
        "    if event == 'call' and 'duckdb' in sys.modules and name.endswith('enum.py') and 'importlib' in caller:\n"
        "        sys.setprofile(None)\n"
        "        print('sent', flush=True)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.setprofile(watch)\n"
        "database()\n"
        "print('forgotten')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "sent\n"), done.stderr


def test_ctrl_c_in_a_query_is_ctrl_c():
    """DuckDB makes a RuntimeError of it."""
    script = (
        "import os, signal, threading\n"
        "from perfguard.artifacts.tables import batch\n"
        "with batch() as found:\n"
        "    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()\n"
        "    found.execute('select sum(a.range * b.range) from range(1000000) as a, range(1000000) as b')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == -signal.SIGINT, done.stderr


def test_ctrl_c_while_duckdb_reads_rows_is_ctrl_c(monkeypatch):
    """It comes at any moment, so here at the one at which DuckDB asks Python for the columns."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "_waiting", stopped)
    with pytest.raises(KeyboardInterrupt):
        _hand_over_some()


def _hand_over_some() -> None:
    with batch() as found:
        found.add("steps", 0, **steps())
        found.hand_over()


@pytest.mark.parametrize("quick_rows", [0, 10**9])
def test_both_connections_say_the_same_and_a_batch_begins_empty(quick_rows, monkeypatch):
    monkeypatch.setattr(tables, "_QUICK_ROWS", quick_rows)
    for cycle in range(3):
        with batch() as found:
            found.add("steps", cycle, **steps())
            found.hand_over()
            assert found.execute("select distinct cycle from steps") == [(cycle,)]
            assert found.is_any("from steps where step = 1")
            assert not found.is_any("from steps where step = 2")
    with batch() as found:
        found.add("traces", 0, **{name: np.array([1]) for name in TABLES["traces"] if name != "cycle"})
        found.hand_over()
        assert found.execute("select count(*) from steps") == [(0,)]


@pytest.mark.parametrize(("error", "is_kept"), [(ZeroDivisionError, False), (UsageError, True)])
def test_a_batch_that_failed_leaves_nothing_to_the_next(error, is_kept):
    """A defect throws the database away; what a user is refused does not."""

    def failing() -> None:
        with batch() as found:
            found.add("steps", 0, **steps())
            raise error

    before = database.database()
    with pytest.raises(error):
        failing()
    assert (database.database() is before) is is_kept
    with batch() as found:
        found.add("steps", 1, **steps())
        found.hand_over()
        assert found.execute("select count(*), min(cycle) from steps") == [(2, 1)]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc (Linux)")
def test_a_database_starts_no_thread():
    code = "import duckdb, os; from perfguard.artifacts.database import database; before = len(os.listdir('/proc/self/task')); "
    code += "database().quick.execute('select 1'); print(len(os.listdir('/proc/self/task')) - before)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"


def test_the_rows_of_a_cycle_can_be_let_go_of():
    with batch() as found:
        for cycle in range(3):
            found.add("steps", cycle, **steps())
        found.without(1)
        assert found.execute("select distinct cycle from steps order by cycle") == [(0,), (2,)]


def test_words_and_threads_have_one_number_each():
    texts = ["cpu_op", "aten::mm", 'a"b', "", "é😀", "a\nb", "'; drop table words; --"]
    with batch(texts=("kernel", "cpu_op")) as found:
        numbers = [found.word(text) for text in (*texts, *texts)]
        assert numbers[: len(texts)] == numbers[len(texts) :]
        assert (found.word("kernel"), found.word("cpu_op")) == (0, 1)
        assert found.thread(("1", '"a"')) == found.thread(("1", '"a"')) != found.thread(("1", "2"))
        found.add("steps", 0, **steps())
        found.hand_over()
        known = dict(found.execute("select text, number from words"))
        assert [known[text] for text in texts] == numbers[: len(texts)]
        # What is new later is told later, once.
        later = found.word("later")
        found.hand_over()
        assert found.execute("select number, count(*) from words where text = 'later' group by all") == [(later, 1)]
        assert sorted(found.execute("select process, thread from threads")) == [("1", '"a"'), ("1", "2")]


def asked(query: str) -> None:
    with batch() as found:
        found.add("steps", 0, **steps())
        found.hand_over()
        found.execute(query)


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "from '/etc/passwd'",
        "copy spans to '/tmp/perfguard-outside.csv'",
        "attach '/tmp/perfguard-outside.db'",
        "install httpfs",
        "load httpfs",
        "from glob('/*')",
        "set enable_external_access = true",
        "set memory_limit = '10GB'",
        "pragma enable_optimizer",
    ],
)
def test_nothing_outside_can_be_reached(query):
    with pytest.raises(duckdb.Error):
        asked(query)
    assert not Path("/tmp/perfguard-outside.csv").exists()


def test_a_variable_of_python_is_no_table():
    secret = {"a": np.arange(3)}
    with pytest.raises(duckdb.CatalogException):
        asked("from secret")
    assert secret


KILLED = """
import os, signal, sys
import numpy as np
from perfguard.artifacts.tables import batch
with batch() as found:
    found.add("steps", 0, **{name: np.arange(9) for name in ("step", "number", "thread", "start_ns", "end_ns")})
    found.hand_over()
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_leaves_a_folder_that_the_next_one_removes(tmp_path):
    def run(how: str) -> list[str]:
        environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        subprocess.run([sys.executable, "-c", KILLED, how], env=environment, check=False, timeout=600)
        return [path.name for path in tmp_path.iterdir()]

    (left,) = run("killed")
    assert left.startswith("perfguard-scratch-")
    assert run("ends") == []


def test_too_little_memory_and_no_place_to_spill_is_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(database, "MEMORY", "12MB")
    monkeypatch.setattr(database, "_OWN", database.threading.local())
    found = database.database()
    # A file where the folder would be made: nothing can be spilled.
    assert found.folder is not None
    (found.folder / "spilled").write_text("")

    def large() -> None:
        with batch() as rows:
            for _ in range(40):
                rows.add("steps", 0, **steps(50_000))
            rows.hand_over()
            rows.columns(
                "select *, row_number() over (order by number, start_ns) as place from steps order by place desc"
            )

    with pytest.raises(OSError, match="tables") as said:
        large()
    assert said.value.errno in (errno.ENOMEM, errno.ENOSPC)


def test_what_prepared_queries_keep_is_given_back_to_a_query_of_many_rows(monkeypatch):
    monkeypatch.setattr(database, "_OWN", database.threading.local())
    monkeypatch.setattr(database, "MEMORY_OF_SMALL", database.MEMORY)
    lists = "select count(l) from (select i % 7 + {} as g, list(i) as l from range({}) as t(i) group by g)"
    with batch() as found:
        for number in range(4):
            found.execute(lists.format(number, 1_000_000))
        monkeypatch.setattr(tables, "_QUICK_ROWS", -1)
        assert found.execute(lists.format(0, 2_000_000)) == [(7,)]


@pytest.mark.parametrize("fails", [False, True])
def test_tables_of_large_files_are_in_a_file_that_is_removed(monkeypatch, tmp_path, fails):
    monkeypatch.setattr(database.tempfile, "tempdir", str(tmp_path))

    def inside() -> None:
        with batch(size=tables.LARGE_BYTES) as found:
            found.add("steps", 0, **steps())
            found.hand_over()
            assert found.execute("select count(*) from steps") == [(2,)]
            assert [path.name for path in tmp_path.glob("*/tables")] == ["tables"]
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            inside()
    else:
        inside()
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_tables_that_cannot_be_made_is_said_in_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "tables").mkdir()
    monkeypatch.setattr(database, "_own_folder", lambda: scratch.Folder(tmp_path))
    with (
        pytest.raises(OSError, match="cannot be written to the temporary folder"),
        batch(size=tables.LARGE_BYTES) as found,
    ):
        found.add("steps", 0, **steps())


def test_what_fits_into_the_memory_needs_no_place(monkeypatch, tmp_path):
    monkeypatch.setattr(database, "_OWN", database.threading.local())
    monkeypatch.setattr(database.tempfile, "tempdir", str(tmp_path / "nowhere"))
    with batch() as found:
        found.add("steps", 0, **steps())
        found.hand_over()
        assert found.execute("select count(*) from steps") == [(2,)]


#: A view that fills a table, one that names it, and one that names that.
KEPT = """
create view fill_sums as select cycle, sum(duration_ns)::bigint as total from spans group by cycle;
create table if not exists sums as from fill_sums limit 0;
create view large as select cycle from sums where total > 10;
create view many as select count(*) as times from large;
"""


@pytest.mark.parametrize(
    ("query", "rows"), [("select total from sums", [(40,)]), ("from large", [(3,)]), ("from many", [(1,)])]
)
def test_a_table_that_a_view_fills_is_filled_when_it_is_named_however(query, rows):
    kept = {"sums": ("sums",), "large": ("sums",), "many": ("sums",)}
    with batch(Definitions(views={"kept": KEPT}, kept=kept)) as found:
        zeros = {name: np.zeros(4, np.int64) for name in TABLES["spans"] if name != "cycle"}
        found.add("spans", 3, **{**zeros, "duration_ns": np.full(4, 10)})
        found.hand_over()
        assert found.execute(query) == rows
        assert found.execute(query) == rows
    with batch(Definitions(views={"kept": KEPT}, kept=kept)) as found:
        # What another batch had is gone.
        found.word("x")
        assert found.execute("select count(*) from sums") == [(0,)]
