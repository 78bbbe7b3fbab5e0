"""The database of a history: a SQLite file or a PostgreSQL database; opens and upgrades it, and converts its errors.

Writers take turns: `BEGIN IMMEDIATE` in a file, an advisory lock in PostgreSQL; each waits for the others. A file has a
write-ahead log, so that readers never wait, and a killed writer leaves the earlier content. It is flushed to the disk at every
commit (`synchronous = FULL`): runs are added rarely, and an added run survives a power cut.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Integer, create_engine, event, func, inspect, select, table, text
from sqlalchemy import column as named
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from perfguard.errors import DamagedError, StoreError, UsageError, missing_package
from perfguard.screen import printable
from perfguard.stores.history.migrations import newer, upgrade
from perfguard.stores.history.place import NoHistoryError, file_of
from perfguard.stores.history.tables import REVISION, RUNS, SERIES, VERSION_TABLE, WORKLOADS, AnyText, text_of

#: The advisory lock in PostgreSQL that every writer takes: "perfguar" as a number.
_WRITERS = int.from_bytes(b"perfguar", "big")
#: Longest wait for a server's answer, in seconds.
_ANSWER_S = 10
#: Parts of the names of a URL's secret options.
_SECRET = ("password", "passfile", "sslkey", "secret", "token")
#: The values of `sslmode` that never send plain text.
_ENCRYPTED = ("require", "verify-ca", "verify-full")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
#: What makes a table of SQLite a virtual one, or a column a generated one.
_COMPUTED = re.compile(r"^\s*create\s+virtual\b|\bas\s*\(", re.IGNORECASE)
#: The longest text of any row in a file, and of those that a query repeats for many others: of runs, tests and operators.
_LONGEST_TEXT = 1024**2
_LONGEST = ((RUNS, 4_096), (WORKLOADS, 4_096), (SERIES, 32_768))
_AGAIN = "then run the same command again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database; `shown` is its file or URL without secrets."""

    engine: Engine
    shown: str
    wait_s: float

    @property
    def is_file(self) -> bool:
        """Whether it is a SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that reads one state of the history, also while others write."""
        with self._converting_errors(writing=False), self.engine.connect() as connection:
            options: dict[str, Any] = {} if self.is_file else {"isolation_level": "REPEATABLE READ"}
            connection.execution_options(**options)
            with connection.begin():
                try:
                    yield connection
                except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
                    # SQLite has no checksums: a damaged file may hold values of any type.
                    what = f"a row is not as it was written ({type(error).__name__}: {error})"
                    raise _damaged(self.shown, what) from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a connection as the only writer, for one transaction."""
        with self._converting_errors(writing=True), self.engine.connect() as connection:
            connection.execution_options(perfguard_writing=True)
            with connection.begin():
                if not self.is_file:
                    connection.execute(text(f"SET LOCAL lock_timeout = {max(1, int(1000 * self.wait_s))}"))
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITERS})"))
                yield connection
                if long := _too_long(connection):
                    raise StoreError(f"{long}, and was not stored: nothing was changed. Give it a shorter name.")

    def write_ahead(self) -> None:
        """Switch a file to a write-ahead log."""
        if not self.is_file:
            return
        deadline = time.monotonic() + self.wait_s
        with self._converting_errors(writing=True), closing(self.engine.raw_connection()) as connection:
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                except sqlite3.OperationalError as error:
                    # If several processes create a file at once, SQLite does not wait by itself.
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)

    def compact(self) -> None:
        """Return the space of deleted runs to the file system. Raises `StoreError`."""
        if not self.is_file:
            return  # PostgreSQL's autovacuum does it
        with self._converting_errors(writing=False), closing(self.engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM")  # outside of a transaction, which SQLAlchemy would begin

    @contextmanager
    def _converting_errors(self, *, writing: bool) -> Iterator[None]:
        """Convert errors of the database to `StoreError`."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _converted(self, error, writing=writing) from error
        except UnicodeDecodeError as error:
            # From sqlite3: the schema in the file, which is part of SQLite's message, is not UTF-8.
            raise _damaged(self.shown, f"its schema is not text ({error.reason})") from error


def opened(place: str, *, root: Path, writing: bool, wait_s: float) -> Database:
    """Open a file or URL, and upgrade its tables; only `writing` creates missing ones.

    Raises `UsageError` for an invalid or missing place, `StoreError` for an unusable one.
    """
    url = _url(place, root=root)
    shown = str(url.database) if url.drivername == "sqlite" else _masked(url)
    if url.drivername == "sqlite":
        _check_file(Path(str(url.database)), writing=writing)
    database = Database(engine=_engine(url, writing=writing, wait_s=wait_s), shown=shown, wait_s=wait_s)
    with database.reading() as connection:
        if database.is_file:
            _refuse_computed(connection, shown)
        revision = _revision(connection)
        is_foreign = revision is None and database.is_file and bool(inspect(connection).get_table_names())
    if is_foreign:
        raise StoreError(
            f"{shown} is a database of another program, and was not changed. Name another file: --history FILE"
        )
    if revision is None and not writing:
        raise NoHistoryError(shown)
    if revision is not None and revision > REVISION:
        raise StoreError(newer(shown, revision))
    if writing:
        database.write_ahead()
    if revision != REVISION:
        with database.writing() as connection:
            upgrade(connection, place=shown)
    elif database.is_file:
        with database.reading() as connection:
            if long := _too_long(connection):
                raise _damaged(shown, long)
    return database


def _too_long(connection: Connection) -> str:
    """Return what is wrong if a text that queries repeat for many rows is too long; else an empty text."""
    for one, most in _LONGEST:
        for column in one.columns:
            if isinstance(column.type, AnyText):
                found = connection.execute(select(func.max(func.length(column), type_=Integer))).scalar()
                if found is not None and found > most:
                    return f"{one.name}.{column.name} has a text of {found} characters, more than {most}"
    return ""


def _refuse_computed(connection: Connection, shown: str) -> None:
    """Raise `StoreError` for a file whose rows are computed: a history has none, and a query of one may never end."""
    for kind, name, sql in connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master"):
        if kind in ("view", "trigger") or _COMPUTED.search(str(sql)):
            what = "a table" if kind == "table" else f"the {kind}"
            raise _damaged(shown, f"{what} {printable(str(name))} in it is computed, and a history stores all its rows")


def _url(place: str, *, root: Path) -> URL:
    if "://" not in place:
        return URL.create("sqlite", database=str(file_of(place, root=root)))
    try:
        url = make_url(place)
    except (ArgumentError, ValueError) as error:
        # The error quotes the URL, with its password.
        raise UsageError(_unknown_url("it")) from error
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database:
            raise UsageError("A history in memory is lost at once. Name a file: --history FILE")
        return URL.create("sqlite", database=str(root / url.database))
    if kind not in ("postgresql", "postgres"):
        raise UsageError(_unknown_url(repr(kind)))
    return _encrypted(url.set(drivername="postgresql+psycopg"))


def _encrypted(url: URL) -> URL:
    """Return the URL of a server with a connection that is encrypted, or stays on this machine.

    By itself libpq sends a password in plain text to a server that offers no encryption (libpq, "SSL Support", `prefer`).
    A mode in PGSSLMODE is the user's own choice. Raises `UsageError` for a URL that asks for less.
    """
    mode = url.query.get("sslmode")
    if _is_here(url) or mode in _ENCRYPTED or (mode is None and os.environ.get("PGSSLMODE")):
        return url
    if mode is not None:
        raise UsageError(
            f"{_masked(url)} allows an unencrypted connection to another machine (sslmode={mode}), which would show "
            "password and measurements to the network. Write sslmode=verify-full, or sslmode=require."
        )
    return url.update_query_dict({"sslmode": "require"})


def _is_here(url: URL) -> bool:
    """Whether a server is on this machine: a socket, or the loopback interface."""
    if "service" in url.query or os.environ.get("PGSERVICE"):
        return False  # a file elsewhere names the host
    named = [url.host or "", *(",".join(url.normalized_query.get(key, ())) for key in ("host", "hostaddr"))]
    if not any(named):
        named = [os.environ.get("PGHOST", ""), os.environ.get("PGHOSTADDR", "")]
    hosts = [host for host in ",".join(named).split(",") if host]
    return all(host.startswith(("/", "@")) or _LOOPBACK.fullmatch(host) for host in hosts)


def _unknown_url(what: str) -> str:
    return (
        f"--history must be a file, or a URL such as postgresql://user@host/database, but {what} is neither. "
        "Name one of these; a password belongs in PGPASSWORD or ~/.pgpass."
    )


def _masked(url: URL) -> str:
    hidden = dict.fromkeys(_secret_options(url), "SECRET")
    return url.update_query_dict(hidden).set(drivername=url.drivername.partition("+")[0]).render_as_string()


def _check_file(path: Path, *, writing: bool) -> None:
    # For a name that no file system accepts, `exists` returns False, or raises an OSError.
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise StoreError(f"{path} is not a regular file. Name another one: --history FILE")
    elif not writing:
        raise NoHistoryError(str(path))
    elif not os.path.isdir(path.parent):
        raise StoreError(
            f"{path} cannot be created: {path.parent} is not a directory. Name another file: --history FILE"
        )


def _connected_or_immutable(path: Path, *, wait_s: float) -> sqlite3.Connection:
    """Connect to an existing file; as immutable only if there is no log, and it cannot be created.

    This is decided for every connection, because others may write since the last one.
    """
    # Not mode=ro: SQLite falls back to that by itself, and a reader would leave an empty log.
    connection = _connected(path, "mode=rw", wait_s=wait_s)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        connection.close()
        # SQLITE_READONLY_DIRECTORY and the like: SQLite could not create its files next to the database.
        lacks_log = error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
        if not lacks_log or os.path.exists(f"{path}-wal"):
            raise
        return _connected(path, "mode=ro&immutable=1", wait_s=wait_s)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connected(path: Path, how: str, *, wait_s: float) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?{how}", uri=True, timeout=wait_s)


def _engine(url: URL, *, writing: bool, wait_s: float) -> Engine:
    if url.drivername == "sqlite":
        path = Path(str(url.database))
        how: dict[str, Any] = {"connect_args": {"timeout": wait_s}}
        if not writing:
            how = {"creator": lambda: _connected_or_immutable(path, wait_s=wait_s)}
        engine = create_engine(url, poolclass=NullPool, **how)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "begin", _begin)
        return engine
    try:
        return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": _ANSWER_S})
    except ImportError as error:
        raise missing_package("A history in PostgreSQL", "psycopg", "postgres", error) from error


def _prepare_file(connection: sqlite3.Connection, record: object) -> None:
    # Otherwise the driver begins transactions by itself, too late, and not before CREATE TABLE.
    connection.isolation_level = None
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    # The file may be a stranger's: its schema calls no function that could do harm.
    connection.execute("PRAGMA trusted_schema = OFF")


def _begin(connection: Connection) -> None:
    # A reader that becomes a writer within a transaction cannot wait for another writer.
    is_writing = connection.get_execution_options().get("perfguard_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    number: Any = named("version_num")
    found = connection.execute(select(number).select_from(table(VERSION_TABLE, number))).scalar()
    return None if found is None else text_of(found)


# -- errors ------------------------------------------------------------------------------------------------------------


def _converted(database: Database, error: Exception, *, writing: bool) -> StoreError:
    """Return the error of a database with the next step. A failed writer changes nothing."""
    shown, reason = database.shown, _first_line(error, database.engine.url)
    unchanged = "Nothing was changed. " if writing else ""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    is_locked = ("locked" in reason or "busy" in reason) if database.is_file else code == "55P03"  # lock_not_available
    if is_locked:
        return StoreError(
            f"{shown} has been locked by another process for {database.wait_s:g} seconds. {unchanged}"
            f"Wait for it to end, {_AGAIN}"
        )
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        # If it failed during a commit, the result is unknown.
        again = f"{_AGAIN[:-1]}: nothing is added twice." if writing else _AGAIN
        return StoreError(f"{shown} closed the connection: {reason}. Earlier runs are kept. Correct that, {again}")
    remedy = "Correct that"
    if database.is_file:
        if any(word in reason for word in ("not a database", "malformed", "corrupt", "too big")):
            return _damaged(shown, reason)
        if "no such table" in reason or "no such column" in reason:
            return _damaged(shown, f"a part is missing ({reason})")
        if "full" in reason or "I/O" in reason:
            remedy = "Free disk space"
        elif "readonly" in reason or "unable to open" in reason:
            remedy = "Correct the permissions of it and its directory"
    return StoreError(f"{shown} cannot be used: {reason}. {unchanged}{remedy}, {_AGAIN}")


def _damaged(shown: str, why: str) -> DamagedError:
    return DamagedError(
        f"{shown} is damaged, or not a history: {why}. Restore it from a copy, or rename it and add the reports again."
    )


def _first_line(error: Exception, url: URL) -> str:
    """Return the first line of the driver's message, without its final point and without secrets."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    text = lines[0].rstrip(".")
    for secret in [str(url.password or ""), *(str(url.query[key]) for key in _secret_options(url))]:
        text = text.replace(secret, "***") if secret else text
    return text


def _secret_options(url: URL) -> list[str]:
    return [key for key in url.query if any(word in key.lower() for word in _SECRET)]
