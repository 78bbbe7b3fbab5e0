"""Where a history lies: a SQLite file or a PostgreSQL database, opened, brought up to date, and its errors worded.

Writers come one after the other: `BEGIN IMMEDIATE` in a file, an advisory lock in PostgreSQL, and each waits for the others. A
file keeps a write-ahead log, so readers wait for nobody and a writer that is killed leaves what was there before; it is flushed
to the disk at every commit (`synchronous = FULL`): a run is added once in a while, and what was said to be added survives a
power cut.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, table, text
from sqlalchemy import column as named
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from perfguard.errors import DamagedError, StoreError, UsageError
from perfguard.stores.history.migrations import newer, upgrade
from perfguard.stores.history.place import NoHistoryError, file_of
from perfguard.stores.history.tables import REVISION, VERSION_TABLE, text_of

#: PostgreSQL's advisory lock of this database that every writer takes: "perfguar" as a number.
_WRITERS = int.from_bytes(b"perfguar", "big")
#: How long a server may take to answer at all.
_ANSWER_S = 10
#: Names of a URL's options that are nobody's business.
_SECRET = ("password", "passfile", "sslkey", "secret", "token")
_AGAIN = "then run the same command again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A place that is open; `shown` is how it may be printed."""

    engine: Engine
    shown: str
    wait_s: float

    @property
    def is_file(self) -> bool:
        """Whether it is a SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the history, whoever writes meanwhile."""
        with self._told(writing=False), self.engine.connect() as connection:
            options: dict[str, Any] = {} if self.is_file else {"isolation_level": "REPEATABLE READ"}
            connection.execution_options(**options)
            with connection.begin():
                try:
                    yield connection
                except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
                    # Disks lose bits without telling: SQLite gives back what there is, of whatever type.
                    what = f"a row is not as it was written ({type(error).__name__}: {error})"
                    raise damaged(self.shown, what) from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection alone among the writers; all that is done with it is kept, or nothing."""
        with self._told(writing=True), self.engine.connect() as connection:
            connection.execution_options(perfguard_writing=True)
            with connection.begin():
                if not self.is_file:
                    connection.execute(text(f"SET LOCAL lock_timeout = {max(1, int(1000 * self.wait_s))}"))
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITERS})"))
                yield connection

    def write_ahead(self) -> None:
        """Have a file keep a write-ahead log from now on."""
        if not self.is_file:
            return
        deadline = time.monotonic() + self.wait_s
        with self._told(writing=True), closing(self.engine.raw_connection()) as connection:
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                except sqlite3.OperationalError as error:
                    # Several processes that make a file at once: here SQLite does not wait by itself.
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)

    def compact(self) -> None:
        """Give back to the file system what deleted runs had. Raises `StoreError`."""
        if not self.is_file:
            return  # PostgreSQL's autovacuum does it
        with self._told(writing=False), closing(self.engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM")  # outside of a transaction, which SQLAlchemy would begin

    @contextmanager
    def _told(self, *, writing: bool) -> Iterator[None]:
        """Turn what the database says into a sentence."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            if self.is_file:
                raise _of_file(self.shown, error, wait_s=self.wait_s, writing=writing) from error
            raise _of_server(self, error, writing=writing) from error
        except UnicodeDecodeError as error:
            # sqlite3 words what SQLite says, and that is not always text.
            raise damaged(self.shown, f"what it says of itself is no text ({error.reason})") from error


def opened(place: str, *, root: Path, writing: bool, wait_s: float) -> Database:
    """Open a place and bring its tables up to date; only `writing` makes what is not there.

    Raises `UsageError` for a place that cannot be meant or is not there, `StoreError` for one that cannot be used.
    """
    url = _url(place, root=root)
    shown = str(url.database) if url.drivername == "sqlite" else _masked(url)
    if url.drivername == "sqlite":
        _check_file(Path(str(url.database)), writing=writing)
    database = Database(engine=_engine(url, writing=writing, wait_s=wait_s), shown=shown, wait_s=wait_s)
    with database.reading() as connection:
        revision = _revision(connection)
        is_foreign = revision is None and database.is_file and bool(inspect(connection).get_table_names())
    if is_foreign:
        raise StoreError(
            f"{shown} is a database of something else, and was left as it is. Name another file: --history FILE"
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
    return database


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
            raise UsageError("A history in memory is lost at once; name a file: --history FILE")
        return URL.create("sqlite", database=str(root / url.database))
    if kind not in ("postgresql", "postgres"):
        raise UsageError(_unknown_url(repr(kind)))
    return url.set(drivername="postgresql+psycopg")


def _unknown_url(what: str) -> str:
    return (
        f"--history takes a file, or a URL such as postgresql://user@host/database, and {what} is neither; "
        "name one of these, and a password in PGPASSWORD or ~/.pgpass."
    )


def _masked(url: URL) -> str:
    hidden = {key: "SECRET" for key in url.query if any(word in key.lower() for word in _SECRET)}
    return url.update_query_dict(hidden).set(drivername=url.drivername.partition("+")[0]).render_as_string()


def _check_file(path: Path, *, writing: bool) -> None:
    # `exists` of a name that no file system takes is False, or an OSError of its own.
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise StoreError(f"{path} is not a regular file, so it is no history. Name another one: --history FILE")
    elif not writing:
        raise NoHistoryError(str(path))
    elif not os.path.isdir(path.parent):
        raise StoreError(f"{path} cannot be made: {path.parent} is no directory. Name another file: --history FILE")


def _connected_or_immutable(path: Path, *, wait_s: float) -> sqlite3.Connection:
    """Connect to a file that is there; as to one that never changes only where its log cannot be made and nobody keeps one.

    It is decided for every connection, for others may have begun to write since the last one.
    """
    # Not mode=ro: SQLite falls back to that by itself, and one who only reads would leave an empty log behind.
    connection = _connected(path, "mode=rw", wait_s=wait_s)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        connection.close()
        if not _wants_a_log(error) or os.path.exists(f"{path}-wal"):
            raise
        return _connected(path, "mode=ro&immutable=1", wait_s=wait_s)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connected(path: Path, how: str, *, wait_s: float) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?{how}", uri=True, timeout=wait_s)


def _wants_a_log(error: sqlite3.OperationalError) -> bool:
    """Whether SQLite could not make its files beside a database (SQLITE_READONLY_DIRECTORY, SQLITE_CANTOPEN)."""
    return error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))


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
        raise UsageError(
            f"A history in PostgreSQL needs psycopg, and it cannot be imported ({error}). "
            "Run: pip install 'perfguard[postgres]'"
        ) from error


def _prepare_file(connection: sqlite3.Connection, record: object) -> None:
    # Without this the driver begins transactions by itself, too late and not before CREATE TABLE.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    # A reader that becomes a writer half-way could not wait for another one: it would fail at once.
    is_writing = connection.get_execution_options().get("perfguard_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    number: Any = named("version_num")
    found = connection.execute(select(number).select_from(table(VERSION_TABLE, number))).scalar()
    return None if found is None else text_of(found)


# -- what a database says ------------------------------------------------------------------------------------------------


def _of_file(shown: str, error: Exception, *, wait_s: float, writing: bool) -> StoreError:
    said = _said(error)
    kept = "Nothing of this was kept, and all that was there before is. " if writing else ""
    if "locked" in said or "busy" in said:
        return StoreError(
            f"{shown} has been locked by another process for {wait_s:g} seconds. {kept}Wait for it to end, {_AGAIN}"
        )
    if "full" in said or "I/O" in said:
        return StoreError(f"{shown} cannot be written: {said}. {kept}Free the disk, {_AGAIN}")
    if "not a database" in said or "malformed" in said or "corrupt" in said:
        return damaged(shown, said)
    if "no such table" in said or "no such column" in said:
        return DamagedError(
            f"{shown} lacks a part: {said}. Restore it from a copy, or rename it and add the reports again."
        )
    if "readonly" in said or "unable to open" in said:
        return StoreError(
            f"{shown} cannot be opened: {said}. {kept}Mend the permissions of it and its directory, {_AGAIN}"
        )
    return StoreError(f"{shown} cannot be used: {said}. {kept}Mend that, {_AGAIN}")


def _of_server(database: Database, error: Exception, *, writing: bool) -> StoreError:
    said = _without_secret(_said(error), database.engine.url)
    kept = "Nothing of this was kept, and all that was there before is. " if writing else ""
    if getattr(getattr(error, "orig", None), "sqlstate", None) == "55P03":  # lock_not_available
        return StoreError(
            f"{database.shown} has been locked by another writer for {database.wait_s:g} seconds. {kept}"
            f"Wait for it to end, {_AGAIN}"
        )
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        # Had it gone while it committed, nobody here could know whether it did.
        again = f" Mend that, {_AGAIN[:-1]}: nothing is added twice." if writing else f" Mend that, {_AGAIN}"
        return StoreError(f"{database.shown} went away: {said}. All that was there before is kept.{again}")
    return StoreError(f"{database.shown} cannot be used: {said}. {kept}Mend that, {_AGAIN}")


def damaged(shown: str, why: str) -> DamagedError:
    """Say of a place that something else was written there than this perfguard, or an older one, writes."""
    return DamagedError(
        f"{shown} is damaged, or no history: {why}. Restore it from a copy, or rename it and add the reports again."
    )


def _said(error: Exception) -> str:
    """Return the first line of what the driver said, without its final point."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


def _without_secret(said: str, url: URL) -> str:
    secrets = [str(url.password or "")] + [str(v) for k, v in url.query.items() if any(w in k.lower() for w in _SECRET)]
    for secret in secrets:
        said = said.replace(secret, "***") if secret else said
    return said
