"""Where a history lies, and what is said when it cannot be used: each once, in a sentence, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.judge.tolerance import Tolerance
from perfguard.judge.trend import trend
from perfguard.measure import METRICS
from perfguard.reports.trend import trend_text
from perfguard.stores.history import database, open_history
from perfguard.stores.history.archive import History
from perfguard.stores.history.exchange import csv_text, document_text
from perfguard.stores.history.migrations import upgrade
from perfguard.stores.history.place import NoHistoryError
from perfguard.stores.history.tables import METADATA, REVISION, RUNS, VERSION_TABLE
from perfguard.version import install_command, upgrade_command
from tests.facts import names_the_next_command, unwritable_directory
from tests.histories import entry
from tests.postgres import programs, running
from tests.programs import run_program

TOP = Path(__file__).resolve().parents[2]


def opened(place: object, *, writing: bool = True, wait_s: float = 30.0) -> History:
    return open_history(str(place), root=Path("/"), writing=writing, wait_s=wait_s)


@pytest.fixture
def file(tmp_path) -> Path:
    """A history with three runs."""
    history = opened(tmp_path / "history.db")
    for number in range(3):
        history.add(entry(number, {"steps": number}))
    return tmp_path / "history.db"


@contextmanager
def as_the_owner(place: Path) -> Iterator[None]:
    """Write where the tests may not, for a moment."""
    user, mode = os.geteuid(), place.stat().st_mode
    os.seteuid(os.getuid())
    place.chmod(0o755)
    yield
    place.chmod(mode)
    os.seteuid(user)


def _use(history: History) -> None:
    list(history.entries())
    history.add(entry(99, {"steps": 1}))


def refused(place: object, *words: str, writing: bool = True, kind: type = StoreError, wait_s: float = 30.0) -> str:
    """Open, read and write; return the one sentence that says why not."""
    with pytest.raises(kind) as raised:
        _use(opened(place, writing=writing, wait_s=wait_s))
    said = str(raised.value)
    assert [word for word in words if word not in said] == [], said
    assert "\n" not in said
    assert "sqlite3." not in said
    assert "sqlalche" not in said
    return said


# -- files ---------------------------------------------------------------------------------------------------------------


def test_reading_makes_no_file(tmp_path):
    said = refused(tmp_path / "none.db", "There is no history", "perfguard history add", writing=False, kind=UsageError)
    assert "--perfguard-report" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", [RUNS.name, VERSION_TABLE, "another"])
@pytest.mark.parametrize(
    "what",
    [
        "create view {table} as with recursive n(x) as (select 1 union all select x + 1 from n) select * from n",
        "create view {table} as select * from sqlite_master, sqlite_master, sqlite_master, sqlite_master",
        "create table {table}(a, b generated always as (hex(zeroblob(400000000))))",
        "create table {table}(a, b AS(zeroblob(400000000)) virtual)",
        "create virtual table {table} using fts5(a)",
        "create table {table}(a); create trigger t after insert on {table} begin delete from {table}; end",
    ],
)
def test_a_file_whose_rows_are_computed_is_refused_at_once(tmp_path, what, table):
    path = tmp_path / "history.db"
    opened(path).add(entry(1, {"steps": 5}))
    with closing(sqlite3.connect(path)) as connection:
        if table != "another":
            connection.execute(f"drop table {table}")
        connection.executescript(what.format(table=table))
    for writing in (False, True):
        assert "is computed" in refused(path, "is damaged, or not a history", writing=writing)


@pytest.mark.parametrize(
    ("table", "column", "length"),
    [
        ("perfguard_workloads", "name", 5_000),
        ("perfguard_workloads", "name", 3_000_000),
        ("perfguard_runs", "branch", 5_000),
        ("perfguard_series", "subject", 40_000),
        ("perfguard_facts", "document", 3_000_000),
    ],
)
def test_a_text_that_no_test_has_is_refused(tmp_path, table, column, length):
    path = tmp_path / "history.db"
    opened(path).add(entry(1, {"steps": 5}))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"update {table} set {column} = printf('%.*c', {length}, 'x')")
    said = refused(path, "is damaged, or not a history", writing=False)
    assert len(said) < 500


def test_a_name_that_would_not_be_read_is_not_stored(tmp_path):
    path = tmp_path / "history.db"
    opened(path).add(entry(1, {"steps": 5}))
    with pytest.raises(
        StoreError, match=r"has a text of 40000 characters.*nothing was changed. Give it a shorter name"
    ):
        opened(path).add(entry(2, {"x" * 40_000: 5}))
    assert len(opened(path, writing=False).runs()) == 1


def test_an_empty_file_is_a_history_that_nobody_wrote_to(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    refused(path, "There is no history", writing=False, kind=UsageError)
    opened(path).add(entry(1, {"steps": 5}))
    assert len(opened(path, writing=False).runs()) == 1


def test_a_closed_history_is_one_file(file):
    assert [path.name for path in file.parent.iterdir()] == ["history.db"]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize(
    "content",
    [b"this is a report, not a database" * 100, bytes(range(256)) * 64, b"SQLite format 3\x00" + b"\xff" * 5000],
    ids=["text", "bytes", "head"],
)
def test_what_is_no_database_is_left_as_it_is(tmp_path, content, writing):
    path = tmp_path / "history.db"
    path.write_bytes(content)
    said = refused(path, str(path), "damaged, or not a history", writing=writing)
    assert names_the_next_command(said)
    assert path.read_bytes() == content


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_truncated_file_is_damaged(file, part):
    path = file
    opened(path).add(entry(50, {f"operator_calls[{number}]": number for number in range(300)}))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert names_the_next_command(refused(path, "damaged"))


def trends(history: History) -> None:
    pytest.importorskip("ruptures", reason="ruptures is not installed")
    asked = {"workload": lambda name: bool(name), "metric": lambda metric, subject: bool(metric + subject)}
    found = [one.series for one in history.series(**asked, runs=history.runs())]
    trend_text([trend(one, metric=METRICS.get(one.metric), tolerance=Tolerance(relative=0.1)) for one in found])


#: What the commands do with a history.
USES = (
    lambda history: [history.workloads_of(run.number) for run in history.runs()],
    trends,
    lambda history: "".join(document_text(history.entries())) + "".join(csv_text(history.entries())),
    lambda history: history.add(entry(99, {"steps": 1})),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "history.db"
    history = opened(path)
    for number in range(12):
        history.add(entry(number, {"steps": 5, "step_cost": 10 + number / 7, "operator_calls[MatMul]": number}))
    return path.read_bytes()


@settings(max_examples=100)
@given(data=st.data())
@pytest.mark.exhaustive
def test_bits_that_a_disk_lost_are_a_sentence_or_a_number(whole, tmp_path_factory, data):
    """SQLite looks at no checksum: what comes back may be of any type, or text that is none."""
    spoilt = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        spoilt[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("spoilt") / "history.db"
    path.write_bytes(spoilt)
    for use in USES:
        with suppress(PerfguardError):
            use(opened(path, wait_s=0.1))


@pytest.mark.parametrize("value", ["NULL", "'text'", "x'ff00'", "7", "1e999"])
@pytest.mark.parametrize(
    "column",
    [
        "measurements.value", "outcomes.outcome", "runs.digest", "runs.perfguard", "runs.added_at_us", "runs.commit",
        "workloads.name", "series.unit", "series.metric", "series.machine", "facts.document", "history_version.version_num",
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_a_row_of_another_type_is_a_sentence_or_what_it_says(file, column, value):
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f'UPDATE OR IGNORE perfguard_{table} SET "{name}" = {value}')
        assert connection.total_changes > 0
    for use in USES:
        with suppress(PerfguardError):
            use(opened(file, wait_s=0.1))


def test_a_column_that_lost_its_declared_type_holds_numbers_still(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' DOUBLE', ' INT')")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE perfguard_measurements SET value = 7")
    for use in USES:
        use(opened(file))


def test_a_document_that_is_not_as_it_was_written_is_told(file):
    content = bytearray(file.read_bytes())
    at = content.index(b'{"cpu_count"')
    content[at + 1] = ord("x")
    file.write_bytes(content)
    assert names_the_next_command(refused(file, "damaged", "not as it was written"))


def test_a_database_of_something_else_is_not_taken(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE invoices (id INTEGER)")
    other.close()
    content = path.read_bytes()
    for writing in (True, False):
        assert names_the_next_command(refused(path, "of another program", writing=writing))
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["other.db"]


def test_a_directory_and_a_pipe_are_no_history(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        assert names_the_next_command(refused(place, "not a regular file"))
    refused(tmp_path / "no" / "such" / "history.db", "is not a directory", "Name another file")


def test_a_place_that_may_not_be_written():
    with unwritable_directory() as place:
        assert names_the_next_command(refused(place / "history.db", str(place)))
        assert list(place.iterdir()) == [place / "x.json"]


def test_a_history_that_may_not_be_written_is_read(file, tmp_path):
    content = file.read_bytes()
    with unwritable_directory() as place:
        with as_the_owner(place):
            (place / "history of #1.db").write_bytes(content)
        history = opened(place / "history of #1.db", writing=False)
        assert len(list(history.entries())) == 3
        assert names_the_next_command(refused(place / "history of #1.db", "cannot be"))
        assert len(list(history.entries())) == 3


@contextmanager
def only_readable(content: bytes) -> Iterator[Path]:
    """Give a history in a directory where this user may not write, and somebody else may."""
    with unwritable_directory() as place:
        with as_the_owner(place):
            (place / "history.db").write_bytes(content)
        yield place / "history.db"


def test_who_may_not_write_sees_what_others_add_meanwhile(file):
    with only_readable(file.read_bytes()) as path:
        history = opened(path, writing=False)
        assert len(history.runs()) == 3
        with as_the_owner(path.parent):
            writer = opened(path)
            writer.add(entry(50, {"steps": 1}))
        assert len(history.runs()) == 4
        with as_the_owner(path.parent):
            other = sqlite3.connect(path, isolation_level=None)  # as long as it is open, its run is in the log alone
            other.execute("DELETE FROM perfguard_runs WHERE id = 1")
        assert Path(f"{path}-wal").stat().st_size > 0
        assert len(history.runs()) == len(opened(path, writing=False).runs()) == 3
        with as_the_owner(path.parent):
            other.close()
        assert len(history.runs()) == 3


def test_a_log_that_cannot_be_read_is_not_passed_over(file):
    """A writer was killed: what it had committed is in the log, and its index is gone."""
    with only_readable(file.read_bytes()) as path:
        with as_the_owner(path.parent):
            writer = sqlite3.connect(path, isolation_level=None)
            writer.execute("DELETE FROM perfguard_runs WHERE id = 1")
            log = Path(f"{path}-wal").read_bytes()
            writer.close()
            path.write_bytes(file.read_bytes())
            Path(f"{path}-wal").write_bytes(log)
        with pytest.raises(StoreError, match="cannot be used") as raised:
            opened(path, writing=False)
        assert names_the_next_command(str(raised.value))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk that is not written")
def test_a_history_on_a_disk_that_is_not_written_is_read(file, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be made here: {made.stderr.decode().strip()}")
    try:
        shutil.copy(file, disk / "history.db")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert len(opened(disk / "history.db", writing=False).runs()) == 3
        refused(disk / "history.db", "cannot be")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_reading_leaves_no_log_behind(file):
    assert len(opened(file, writing=False).runs()) == 3
    assert [path.name for path in file.parent.iterdir()] == ["history.db"]


def test_nothing_there_is_an_error_of_its_own(tmp_path):
    (tmp_path / "empty.db").touch()
    for place in (tmp_path / "none.db", tmp_path / "empty.db", f"sqlite:///{tmp_path}/none.db"):
        refused(place, "There is no history", writing=False, kind=NoHistoryError)


def test_another_process_that_holds_the_file(file):
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    history = opened(file, wait_s=0.3)
    assert len(list(history.entries())) == 3  # readers wait for nobody
    said = refused(file, "has been locked by another process for 0.3 seconds", "Nothing was changed", wait_s=0.3)
    assert "run the same command again" in said
    other.execute("ROLLBACK")
    other.close()
    assert history.add(entry(99, {"steps": 1})).is_new


def test_another_process_that_holds_all_of_the_file(file):
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    for writing in (True, False):
        refused(file, "has been locked by another process", writing=writing, wait_s=0.3)
    other.close()
    assert len(list(opened(file).entries())) == 3


def test_a_writer_waits_for_another(file):
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    free = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    free.start()
    assert opened(file).add(entry(99, {"steps": 1})).is_new
    free.join()
    other.close()


# -- processes that end --------------------------------------------------------------------------------------------------

HEAD = """
import os, resource, signal, sys
from pathlib import Path
from perfguard.errors import StoreError
from perfguard.stores.history import open_history
from tests.histories import entry
history = open_history(sys.argv[1], root=Path("/"), writing=True)
many = {f"operator_time[{number}]": number for number in range(20_000)}
"""


def process(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_program(sys.executable, "-c", HEAD + textwrap.dedent(code), *arguments, cwd=TOP)


@pytest.mark.slow
@pytest.mark.variants(1)
def test_a_writer_that_is_killed_leaves_what_was_there(place):
    """It dies with all of a run written and nothing of it committed."""
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    killed = process(
        """
        from perfguard.stores.history import archive
        added = archive._add_workload
        def add_and_die(*arguments):
            added(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        archive._add_workload = add_and_die
        history.add(entry(2, many))
        """,
        place,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [one.digest for one in opened(place, writing=False).entries()] == [entry(1, {"steps": 5}).digest]
    assert opened(place).add(entry(2, {"steps": 5})).is_new


FULL = """
try:
    history.add(entry(2, many))
except StoreError as error:
    print(error)
print(len(history.runs()))
"""


def told_of_a_full_disk(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    said, runs = done.stdout.splitlines()
    assert "cannot be used" in said
    assert "Nothing was changed" in said
    assert names_the_next_command(said)
    assert runs == "3"


@pytest.mark.slow
def test_a_file_that_may_not_grow(file):
    """As on a full disk, but of the process alone."""
    limit = file.stat().st_size + 200_000
    told_of_a_full_disk(process(f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" + FULL, file))
    assert len(list(opened(file).entries())) == 3
    assert opened(file).add(entry(2, {"steps": 9})).is_new


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_a_disk_that_fills(file, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be made here: {made.stderr.decode().strip()}")
    try:
        shutil.copy(file, disk / "history.db")
        told_of_a_full_disk(process(FULL, disk / "history.db"))
        assert len(list(opened(disk / "history.db").entries())) == 3
    finally:
        subprocess.run(["umount", disk], check=True)


# -- versions ------------------------------------------------------------------------------------------------------------


def set_revision(history: History, revision: str) -> None:
    with history.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")


@pytest.mark.parametrize("revision", ["9999", "0000"])
@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.variants(3)
def test_a_history_of_a_newer_perfguard_is_left_as_it_is(place, revision, writing):
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    set_revision(history, revision)
    said = refused(place, f"was written by a newer perfguard (revision {revision}", upgrade_command(), writing=writing)
    assert "a-secret-of-the-tests" not in said
    set_revision(history, REVISION)
    assert len(opened(place).runs()) == 1


def test_the_migrations_leave_the_tables_that_the_code_uses(place):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with opened(place).database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == REVISION


def test_measurements_are_kept_by_their_key_alone(tmp_path):
    with opened(tmp_path / "history.db").database.reading() as connection:
        made = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE name = 'perfguard_measurements'"
        ).scalar()
    assert "WITHOUT ROWID" in made


#: What a next version may bring.
NEXT = """
from alembic import op
from sqlalchemy import Column, Text

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("perfguard_runs", Column("weather", Text))
    op.execute("UPDATE perfguard_runs SET weather = 'fine'")
    {then}
"""


def revisions(directory: Path, then: str) -> Path:
    """Return a directory with the revisions there are, and one more."""
    source = TOP / "perfguard" / "stores" / "history" / "migrations"
    copied = shutil.copytree(source, directory, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "versions" / "weather.py").write_text(NEXT.format(then=then), encoding="utf-8")
    return copied


def test_an_older_history_becomes_one_of_now_with_all_its_runs(place, tmp_path):
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    with history.database.writing() as connection:
        upgrade(connection, place="here", revisions=revisions(tmp_path / "next", "pass"))
    with history.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT weather FROM perfguard_runs").scalar() == "fine"
        assert connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar() == "0002"
    refused(place, "was written by a newer perfguard (revision 0002")


def test_an_upgrade_that_fails_changes_nothing(place, tmp_path):
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    broken = revisions(tmp_path / "next", "op.execute('SELECT nothing FROM nowhere')")
    with pytest.raises(StoreError), history.database.writing() as connection:
        upgrade(connection, place="here", revisions=broken)
    assert len(list(opened(place).entries())) == 1
    with history.database.reading() as connection:
        assert set(connection.execute(RUNS.select()).keys()) == {column.name for column in RUNS.c}


# -- servers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place, shown",
    [
        ("postgresql://me:hidden@127.0.0.1:1/db", "postgresql://me:***@127.0.0.1:1/db"),
        ("postgresql+psycopg://me:hidden@127.0.0.1:1/db", "postgresql://me:***@127.0.0.1:1/db"),
        (
            "postgresql://me@127.0.0.1:1/db?password=hidden&sslmode=require",
            "postgresql://me@127.0.0.1:1/db?password=SECRET&sslmode=require",
        ),
    ],
)
def test_a_password_is_never_shown(place, shown):
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    assert "hidden" not in refused(place, shown)


ELSEWHERE = "postgresql://me@db.example/runs"


@pytest.mark.parametrize(
    "place, environment, mode",
    [
        # By itself libpq would fall back to plain text.
        (ELSEWHERE, {}, "require"),
        (f"{ELSEWHERE}?sslmode=require", {}, "require"),
        (f"{ELSEWHERE}?sslmode=verify-full", {}, "verify-full"),
        *[(f"{ELSEWHERE}?sslmode={mode}", {}, None) for mode in ("disable", "allow", "prefer", "REQUIRE")],
        (f"{ELSEWHERE}?sslmode=disable&host=localhost", {}, None),
        ("postgresql://me@127.0.0.1/runs?sslmode=disable&hostaddr=192.0.2.1", {}, None),
        ("postgresql://me@/runs?sslmode=disable&host=localhost&host=db.example", {}, None),
        ("postgresql://me@/runs?sslmode=disable&host=localhost,db.example", {}, None),
        ("postgresql://me@/runs?sslmode=disable&service=elsewhere", {}, None),
        ("postgresql://me@/runs?sslmode=disable", {"PGHOST": "db.example"}, None),
        ("postgresql://me@/runs?sslmode=disable", {"PGSERVICE": "elsewhere"}, None),
        ("postgresql://me@127.0.0.1.evil.example/runs?sslmode=disable", {}, None),
        # The user's own choice, which no file of a stranger makes.
        (ELSEWHERE, {"PGSSLMODE": "disable"}, ""),
        (f"{ELSEWHERE}?sslmode=disable", {"PGSSLMODE": "disable"}, None),
        # On this machine nobody listens.
        *[(f"postgresql://me@{host}/runs", {}, "") for host in ("", "localhost", "127.0.0.1", "127.1.2.3", "[::1]")],
        ("postgresql://me@/runs?host=/run/postgresql", {"PGHOST": "db.example"}, ""),
        ("postgresql://me@127.0.0.1/runs?sslmode=disable", {}, "disable"),
    ],
)
def test_nothing_goes_over_the_network_in_plain_text(place, environment, mode, monkeypatch):
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if mode is None:
        with pytest.raises(UsageError, match=r"unencrypted connection to another machine .* Write sslmode=verify-full"):
            database._url(place, root=Path())
    else:
        assert database._url(place, root=Path()).query.get("sslmode", "") == mode


@pytest.mark.slow
def test_a_server_that_offers_no_encryption_gets_no_password(monkeypatch):
    """A real client, and a listener that answers as a server without TLS does; 0.0.0.0 is no loopback address."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    monkeypatch.setenv("PGPASSWORD", "hidden")
    received = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(4096):
                received.append(data)
                connection.sendall(b"N" if len(received) == 1 else b"R\0\0\0\x08\0\0\0\x03")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        said = refused(f"postgresql://me@0.0.0.0:{listener.getsockname()[1]}/db", "SSL")
        server.join(10)
    assert (b"hidden" in b"".join(received), len(received), "hidden" in said) == (False, 1, False)


@pytest.mark.parametrize(
    "place", ["mysql://me:hidden@host/db", "postgresql://me:hidden@host:port/db", "http://me:hidden@host", "://hidden"]
)
def test_another_kind_of_url_is_refused(place):
    with pytest.raises(UsageError, match=r"postgresql://user@host/database") as raised:
        opened(place)
    assert "hidden" not in str(raised.value)


def test_a_url_of_sqlite_is_a_file(tmp_path):
    opened(f"sqlite:///{tmp_path}/history.db").add(entry(1, {"steps": 5}))
    assert len(opened(tmp_path / "history.db").runs()) == 1
    with pytest.raises(UsageError, match="in memory is lost at once"):
        opened("sqlite://")


@pytest.mark.slow
def test_a_server_that_says_no(server):
    wrong = server.url().replace(server.secret, "guessed-by-somebody")
    said = refused(wrong, "password authentication failed")
    assert "guessed" not in said
    assert server.secret not in refused(server.url("nowhere"), '"nowhere" does not exist')


@pytest.mark.slow
def test_a_database_without_a_history_is_left_empty_by_a_reader(server):
    url = server.made("read_only")
    refused(url, "There is no history in postgresql://perfguard:***@", writing=False, kind=UsageError)


@pytest.mark.slow
def test_another_writer_that_holds_the_database(server):
    place = server.made("locked")
    first = opened(place)
    with first.database.writing():
        refused(place, "has been locked by another process for 0.3 seconds", "Nothing was changed", wait_s=0.3)
    assert first.add(entry(1, {"steps": 5})).is_new


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_server_that_stops_in_mid_write(monkeypatch):
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    if programs() is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    from perfguard.stores.history import archive

    with running() as server:
        history = opened(server.made("history"))
        history.add(entry(1, {"steps": 5}))
        added = archive._add_workload

        def add_and_stop(*arguments: object) -> None:
            server.stop()
            added(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(archive, "_add_workload", add_and_stop)
            with pytest.raises(StoreError) as raised:
                history.add(entry(2, {"steps": 6}))
        said = str(raised.value)
        assert " closed the connection: " in said
        assert "Earlier runs are kept" in said
        assert "nothing is added twice" in said
        assert names_the_next_command(said)
        assert server.secret not in said
        with pytest.raises(PerfguardError, match="refused"):
            history.runs()
        server.start()
        assert len(list(history.entries())) == 1
        assert history.add(entry(2, {"steps": 6})).is_new


def test_what_is_missing_is_said_with_the_command_that_brings_it(tmp_path):
    """In a Python that has neither: both are hidden from it."""
    code = """
import sys
sys.modules["sqlalchemy"] = None
from pathlib import Path
from perfguard.stores.history import open_history
try:
    open_history("history.db", root=Path(sys.argv[1]), writing=True)
except Exception as error:
    print(type(error).__name__, error)
"""
    done = run_program(sys.executable, "-c", code, tmp_path)
    assert done.stdout.startswith("UsageError perfguard history needs sqlalchemy and alembic"), done.stderr
    assert install_command("history") in done.stdout
