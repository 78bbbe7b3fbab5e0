"""Database: DuckDB closed to everything outside, with bounded memory, spilling to the disk.

A process connects once, and empties its tables instead of creating them anew. For small tables, planning a query takes longer
than running it, and the optimiser of duckdb 2.0 plans a prepared query each time. So there are two connections to the same
tables: `quick` (prepared, without optimiser) for few rows, and `thorough` for many. Rows are inserted through arrays that are
registered once: registering others makes DuckDB drop its prepared statements. Queries have no `asof join`: duckdb 2.0.1 fails
when a prepared one runs a second time without optimiser.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard import scratch
from perfguard.artifacts.table_definitions import NULL, Definitions, union
from perfguard.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

#: The memory limit of DuckDB; above it, DuckDB writes to the disk.
MEMORY = "112MB"
#: The limit for small batches, which need little. duckdb 2.0 counts freed memory that it has not given back: with 112 MB it
#: gave some back twice a batch, which took a fifth of the time.
MEMORY_OF_SMALL = "256MB"
#: The number of rows that are collected before they are inserted.
WAITING_ROWS = 32 * 1024
#: The largest size of their texts.
_WAITING_BYTES = 32 * 1024**2
#: The memory that prepared queries may keep, and the tags of DuckDB that count as theirs.
_PREPARED_BYTES = 32 * 1024**2
_OF_QUERIES = ("HASH_TABLE", "COLUMN_DATA")
#: If more than this is still in use after a batch, the next batch begins with a new database.
_SPENT_BYTES = 72 * 1024**2


def run(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.DuckDBPyConnection:
    """Run a statement. Raises `OSError` if memory or disk space runs out."""
    with _as_os_error():
        return connection.execute(statement)


@contextmanager
def _as_os_error() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        what = "there is not enough memory for the tables of a trace, nor space in the temporary folder"
        raise OSError(errno.ENOMEM, what) from error
    except (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException) as error:
        # A file that cannot be grown is either of them: when it is written, committed, or used after that.
        reason = str(error).partition("\n")[0]
        what = f"the tables of a trace cannot be written to the temporary folder ({reason})"
        raise OSError(errno.ENOSPC, what) from error


class _WaitingRows:
    """Rows of one table that wait to be inserted. DuckDB has it under a name, and reads it as a stream of Arrow blocks."""

    def __init__(self, table: str, columns: Mapping[str, str], connection: duckdb.DuckDBPyConnection) -> None:
        self._table = table
        self._kinds = columns
        self._connection = connection
        self._is_known = False
        self.forget()

    def __arrow_c_schema__(self) -> object:
        return _schema(tuple(self._kinds.items())).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import polars as pl

        columns = [_waiting(name, kind, [block[name] for block in self._blocks]) for name, kind in self._kinds.items()]
        return pl.DataFrame(columns).__arrow_c_stream__()

    def add(self, columns: Mapping[str, Any], count: int) -> None:
        """Add rows; many rows are inserted at once."""
        self._blocks.append(columns)
        self._count += count
        self._bytes += sum(column.estimated_size() for column in columns.values() if hasattr(column, "estimated_size"))
        if self._count >= WAITING_ROWS or self._bytes > _WAITING_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """Insert the waiting rows."""
        if self._count:
            self.prepare()
            run(self._connection, f"execute insert_{self._table}")
            self.forget()

    def prepare(self) -> None:
        """Prepare the insertion, unless it is."""
        if not self._is_known:
            self._connection.register(f"waiting_{self._table}", self)
            insert = f"insert into {self._table} from waiting_{self._table}"
            self._connection.execute(f"prepare insert_{self._table} as {insert}")
            self._is_known = True

    def forget(self) -> None:
        """Drop the waiting rows."""
        self._blocks: list[Mapping[str, Any]] = []
        self._count = self._bytes = 0


@cache
def _schema(columns: tuple[tuple[str, str], ...]) -> pl.Schema:
    import polars as pl

    kinds = {"integer": pl.Int64, "bigint": pl.Int64, "double": pl.Float64, "boolean": pl.Boolean, "varchar": pl.String}
    return pl.Schema({name: kinds[kind] for name, kind in columns})


#: By the type of a column in DuckDB, its type in numpy; None: texts.
_NUMPY = {"integer": np.int64, "bigint": np.int64, "double": np.float64, "boolean": np.bool_, "varchar": None}


def _waiting(name: str, kind: str, parts: Sequence[Any]) -> pl.Series:
    """Return the parts of a column as one series, with nulls for `NULL` and NaN."""
    import polars as pl

    if parts and isinstance(parts[0], pl.Series):
        whole: pl.Series = pl.concat(parts)
        return whole.alias(name)
    numbers = _NUMPY[kind]
    if numbers is None:
        return pl.Series(name, [text for part in parts for text in part], dtype=pl.String)
    values = np.concatenate(parts) if parts else np.empty(0, numbers)
    found = pl.Series(name, values)
    if kind == "boolean":
        return found
    is_null = np.isnan(values) if kind == "double" else values == NULL
    return found.set(pl.Series(is_null), None) if is_null.any() else found


class Database:
    """Tables, and two connections to them."""

    def __init__(self, memory: str, *, in_file: bool = False) -> None:
        self.process = os.getpid()
        own = _own_folder()
        self.folder = None if own is None else own.path
        # Small tables never touch the disk, so that a full disk does not stop the check. Large tables are in a file: duckdb 2.0
        # never spills the validity bits of tables in memory, one for each value.
        spilled = "" if self.folder is None else str(self.folder / "spilled")
        place = str(self.folder / "tables") if in_file and self.folder is not None else ":memory:"
        try:
            self.quick = _connected(place, spilled, memory=memory)
        except BaseException:
            if own is not None:
                own.remove()
            raise
        self.end = weakref.finalize(self, _remove, self.quick, own, self.process)
        self.thorough = self.quick.cursor()
        self.quick.execute("pragma disable_optimizer")
        self.waiting: dict[str, _WaitingRows] = {}
        self._views: set[str] = set()
        #: The views whose rows each of the views has that are put together.
        self._parts: dict[str, dict[str, None]] = {}
        _lock(self.quick)
        #: By query: the name under which it is prepared, empty if it never is; None after its first use.
        self._prepared: dict[str, str | None] = {}
        self._numbers = itertools.count()
        #: The queries of this batch, and of the one before.
        self._used: set[str] = set()
        self._used_before: set[str] = set()
        self._has_begun = False

    def define(self, definitions: Definitions) -> None:
        """Create the missing tables and views. Raises `UsageError` for views that DuckDB refuses."""
        import duckdb

        tables = {name: columns for name, columns in definitions.tables.items() if name not in self.waiting}
        views = {text: name for name, text in definitions.views.items() if text not in self._views}
        for name, (columns, parts) in definitions.unions.items():
            # What an earlier batch had stays: its tables are empty.
            known = self._parts.setdefault(name, {})
            if not known or not known.keys() >= set(parts):
                known.update(dict.fromkeys(parts))
                views[union(name, columns, known)] = name
        if not tables and not views:
            return
        # In one transaction: each statement by itself would be written to the disk, where the tables are in a file.
        self.hand_over()
        run(self.quick, "begin")
        for name, columns in tables.items():
            described = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            run(self.quick, f"create table {name} ({described})")
        for statements, name in views.items():
            try:
                run(self.quick, statements)
            except duckdb.Error as error:
                self.quick.execute("rollback")
                reason = " ".join(str(error).split())
                raise UsageError(f"the views.sql of the dialect {name!r} cannot be used: {reason}") from error
        run(self.quick, "commit")
        self.waiting |= {name: _WaitingRows(name, columns, self.quick) for name, columns in tables.items()}
        self._views.update(views)

    def to_be_read(self) -> tuple[duckdb.DuckDBPyConnection, Path]:
        """Reopen the tables in their file read-only; return the connection, and the only file that it may write."""
        if self.folder is None:
            raise OSError(errno.ENOSPC, f"the temporary folder {tempfile.gettempdir()} cannot be written")
        with _as_os_error():
            self.thorough.close()
            self.quick.close()
        output = self.folder / "output"
        spilled = str(self.folder / "spilled")
        found = _connected(str(self.folder / "tables"), spilled, memory=MEMORY, read_only=True)
        found.execute("set allowed_paths = [$1]", [str(output)])
        _lock(found)
        return found, output

    def begin(self) -> None:
        """Begin a transaction that ends with the next `hand_over`."""
        if not self._has_begun:
            self.quick.execute("begin")
            self._has_begun = True

    def hand_over(self) -> None:
        """Insert the waiting rows of all tables, and commit; do nothing if no transaction has begun."""
        if not self._has_begun:
            return
        for one in self.waiting.values():
            one.hand_over()
        run(self.quick, "commit")
        self._has_begun = False

    def prepared(self, query: str) -> duckdb.DuckDBPyConnection:
        """Run a query on the quick connection, and prepare it at its second use: most commands use a query once.

        A prepared query keeps the memory that it needed; once they keep too much, those that neither this batch nor the one
        before used are given up, and if that is not enough, further queries are planned each time.
        """
        self._used.add(query)
        if query not in self._prepared:
            self._prepared[query] = None
        elif self._prepared[query] is None:
            if is_full := self._used_bytes(*_OF_QUERIES) >= _PREPARED_BYTES:
                self._give_up({*self._prepared} - self._used - self._used_before)
                is_full = self._used_bytes(*_OF_QUERIES) >= _PREPARED_BYTES
            name = "" if is_full else f"query_{next(self._numbers)}"
            if name:
                self.quick.execute(f"prepare {name} as {query}")
            self._prepared[query] = name
        # A retry deallocates what is prepared, and plans the query.
        return self._retried(
            lambda: run(self.quick, f"execute {name}" if (name := self._prepared.get(query)) else query)
        )

    def optimised(self, query: str) -> duckdb.DuckDBPyConnection:
        """Run a query on the thorough connection."""
        return self._retried(lambda: run(self.thorough, query))

    def _retried(self, query: Callable[[], duckdb.DuckDBPyConnection]) -> duckdb.DuckDBPyConnection:
        """Run a query; if memory runs out, deallocate all prepared queries and run it once more."""
        try:
            return query()
        except OSError as error:
            if error.errno != errno.ENOMEM or not self._prepared:
                raise
        self._give_up({*self._prepared})
        return query()

    def _give_up(self, queries: Iterable[str]) -> None:
        """Deallocate prepared queries."""
        for query in queries:
            if name := self._prepared.pop(query):
                self.quick.execute(f"deallocate {name}")

    @property
    def is_spent(self) -> bool:
        """Whether earlier batches still use much memory."""
        return self._used_bytes() > _SPENT_BYTES

    def _used_bytes(self, *tags: str) -> int:
        used = self.thorough.execute("select tag, memory_usage_bytes from duckdb_memory()").fetchall()
        return sum(size for tag, size in used if not tags or tag in tags)

    def empty(self, tables: Iterable[str]) -> None:
        """Empty tables."""
        self._used_before, self._used = self._used, set()
        self.begin()
        for name in sorted(tables):
            if name in self.waiting:
                self.waiting[name].forget()
            self.quick.execute(f"truncate {name}")
        self.hand_over()


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Hold Ctrl-C back until the end, then let it through; only the main thread gets it."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _connected(place: str, spilled: str, *, memory: str, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    # Ctrl-C while duckdb 2.0.1 makes its enumerations, which takes Python code, ends the process with SIGABRT, or is forgotten.
    with _ctrl_c_waits():
        import duckdb

    # The file is read a few times only: compressing it takes longer than writing more bytes. duckdb 2.0 reads ahead, with eight
    # threads, in files that are never read here: Parquet and CSV.
    config: dict[str, Any] = {
        "temp_directory": spilled,
        "memory_limit": memory,
        "threads": "1",
        "force_compression": "uncompressed",
        "async_threads": "0",
    }
    with _as_os_error():
        return duckdb.connect(place, read_only=read_only, config=config)


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Forbid all access to anything outside of the database; this cannot be undone."""
    for setting in ("python_enable_replacements = false", "enable_external_access = false"):
        connection.execute(f"set {setting}")
    connection.execute("set lock_configuration = true")


_OWN = threading.local()


def database() -> Database:
    """Return the database of this thread; a forked process creates its own."""
    found: Database | None = getattr(_OWN, "database", None)
    if found is None or found.process != os.getpid():
        found = _OWN.database = Database(MEMORY_OF_SMALL)
    return found


def forget() -> None:
    """Close the database of this thread; the next batch creates a new one."""
    if (found := getattr(_OWN, "database", None)) is not None:
        _OWN.database = None
        found.end()


def is_ctrl_c(error: BaseException) -> bool:
    """Whether duckdb 2.0 raised an exception because of Ctrl-C, in a query or while it read waiting rows."""
    import duckdb

    text = str(error)
    return (isinstance(error, RuntimeError) and text == "Query interrupted") or (
        isinstance(error, duckdb.Error) and "failed: KeyboardInterrupt" in text
    )


def _own_folder() -> scratch.Folder | None:
    """Make a folder for spilled data; None if none can be made."""
    try:
        return scratch.own_folder()
    except OSError:
        # Most recordings fit into the memory and need no folder.
        return None


def _remove(connection: duckdb.DuckDBPyConnection, folder: scratch.Folder | None, process: int) -> None:
    if os.getpid() == process:
        connection.close()
        if folder is not None:
            folder.remove()
