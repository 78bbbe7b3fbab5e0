"""Tables: rows of a batch of cycles, in an embedded DuckDB that is closed to everything outside, bounded, and spills to the disk.

What goes in are numpy columns of whole numbers, with numbers for texts (`Batch.words`): that is what DuckDB takes in quickest
(500 000 rows in 24 ms; as Python lists they take 1.7 s). `cycle` numbers the cycles of the batch, `row` leads back to the file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import duckdb

#: Stands for null in a column of whole numbers.
NULL = -(2**63)
#: What DuckDB may hold; beyond it writes to the disk. Measured: a trace of 1 GB peaks at 390 MB in all.
MEMORY = "160MB"
#: Rows of a table that wait until they are handed over together: to hand over costs a millisecond, however few they are.
_WAITING_ROWS = 64 * 1024
_FOLDER = "perfguard-tables-"
_BLOCK = "block_of_rows"

#: Every table that readers fill, by name: its columns and their types. `cycle` comes first in all of them.
TABLES: dict[str, dict[str, str]] = {
    # Texts that other tables name by their number: names, categories, arguments as JSON.
    "words": {"number": "integer", "text": "varchar"},
    # Process and thread as JSON.
    "threads": {"number": "integer", "process": "varchar", "thread": "varchar"},
    # What a trace says around its events, one row a trace.
    "traces": {
        "cycle": "integer",
        "base_ns": "bigint",
        "named_ns": "bigint",
        "profile_memory": "integer",
        "record_shapes": "integer",
    },
    # Events with a start and a duration (X).
    "spans": {
        "cycle": "integer",
        "row": "bigint",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "start_ns": "bigint",
        "duration_ns": "bigint",
        "event_index": "bigint",
        "external_id": "bigint",
        "input_shapes": "integer",
    },
    # Which span lies in which other of its thread, of those that are nested.
    "nesting": {
        "cycle": "integer",
        "row": "bigint",
        "parent": "bigint",
        # From its start until the parent ends, and by how much it ends later than that one.
        "left_ns": "bigint",
        "outlives_ns": "bigint",
    },
    # Events at one time (i).
    "instants": {
        "cycle": "integer",
        "row": "bigint",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        "event_index": "bigint",
        "bytes": "bigint",
        "total_bytes": "bigint",
        "reserved_bytes": "bigint",
        "device_type": "bigint",
        "device_number": "bigint",
        "address": "bigint",
        "input_shapes": "integer",
    },
    # Ends of arrows between spans (s, t, f).
    "flows": {
        "cycle": "integer",
        "row": "bigint",
        "is_start": "boolean",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        "id": "varchar",
    },
}

#: Texts that queries name: they have these numbers in `words`.
KNOWN = {
    text: number
    for number, text in enumerate(("cpu_op", "user_annotation", "kernel", "fwdbwd", "cpu_instant_event", "Trace", "[memory]"))
}


class Batch:
    """The tables of some cycles. Rows are added by column, and can be asked for once `hand_over` was called."""

    def __init__(self, views: str = "") -> None:
        self._views = views
        self._open: duckdb.DuckDBPyConnection | None = None
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        self._heights: dict[str, int] = {}
        self._words: dict[Any, int] = dict(KNOWN)
        self._threads: dict[Any, int] = {}
        self._told = {"words": 0, "threads": 0}
        #: The tables that have rows.
        self.filled: set[str] = set()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        # Connected when there is something to hold: most layouts have no tables yet.
        if self._open is None:
            self._open = _DATABASE.connection(self._views)
            self._open.execute("begin")
        return self._open

    def add(self, table: str, cycle: int, **columns: Any) -> None:
        """Add rows to a table; every column is there, an array each."""
        count = len(next(iter(columns.values())))
        if not count:
            return
        self._waiting.setdefault(table, []).append({"cycle": np.full(count, cycle, np.int32), **columns})
        self._heights[table] = self._heights.get(table, 0) + count
        if self._heights[table] >= _WAITING_ROWS:
            self._hand_over(table)

    def word(self, text: str) -> int:
        """Return the number of a text."""
        return self._words.setdefault(text, len(self._words))

    def thread(self, key: tuple[Any, Any]) -> int:
        """Return the number of a thread, named by process and thread as JSON."""
        return self._threads.setdefault(key, len(self._threads))

    def hand_over(self) -> None:
        """Hand over what waits; from here on all that was added can be asked for."""
        for table in list(self._waiting):
            self._hand_over(table)
        self._tell("words", [(text,) for text in self._new("words", self._words)], ("text",))
        self._tell("threads", list(self._new("threads", self._threads)), ("process", "thread"))

    def _new(self, table: str, known: Mapping[Any, int]) -> Sequence[Any]:
        return list(known)[self._told[table] :]

    def _tell(self, table: str, rows: Sequence[tuple[str, ...]], columns: tuple[str, ...]) -> None:
        if not rows:
            return
        first = self._told[table]
        block: dict[str, Any] = {"number": np.arange(first, first + len(rows), dtype=np.int32)}
        for place, name in enumerate(columns):
            block[name] = np.array([row[place] for row in rows], dtype=object)
        self._insert(table, block)
        self._told[table] += len(rows)

    def _hand_over(self, table: str) -> None:
        waiting, self._heights[table] = self._waiting.pop(table, []), 0
        if waiting:
            self._insert(table, {name: np.concatenate([one[name] for one in waiting]) for name in waiting[0]})

    def _insert(self, table: str, block: Mapping[str, Any]) -> None:
        told = {name: _masked(block[name]) for name in TABLES[table]}
        self._connection.register(_BLOCK, told)
        self._connection.execute(f"insert into {table} from {_BLOCK}")
        self._connection.unregister(_BLOCK)
        self.filled.add(table)

    def without(self, cycle: int) -> None:
        """Let go of the rows of a cycle."""
        self.hand_over()
        for table in self.filled - {"words", "threads"}:
            self.execute(f"delete from {table} where cycle = {cycle}")

    def close(self) -> None:
        """Empty the tables."""
        if self._open is not None:
            self._open.execute("commit")
            for name in sorted(self.filled):
                self._open.execute(f"truncate {name}")

    def columns(self, query: str) -> dict[str, Any]:
        """Run a query; return its columns as arrays. Nulls are masked."""
        return dict(self._connection.execute(query).fetchnumpy())

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Run a query; yield its rows by the names of their columns."""
        found = self._connection.execute(query)
        names = [one[0] for one in found.description or ()]
        for row in found.fetchall():
            yield dict(zip(names, row, strict=True))

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        return self._connection.execute(statement).fetchall()


def _masked(column: Any) -> Any:
    """Return a column with its nulls masked."""
    if column.dtype != np.int64 or not (is_null := column == NULL).any():
        return column
    return np.ma.masked_array(column, is_null)


class _Database(threading.local):
    """One connection a thread, with its tables made; a process that was forked makes its own."""

    def __init__(self) -> None:
        self._process = 0
        self._connection: duckdb.DuckDBPyConnection | None = None

    def connection(self, views: str) -> duckdb.DuckDBPyConnection:
        if self._connection is None or self._process != os.getpid():
            self._connection, self._process = self._connected(views), os.getpid()
        return self._connection

    def forget(self) -> None:
        self._connection = None

    def _connected(self, views: str) -> duckdb.DuckDBPyConnection:
        import duckdb

        folder = _own_folder()
        connection = duckdb.connect(
            str(folder / "tables.duckdb"),
            config={"temp_directory": str(folder / "spilled"), "memory_limit": MEMORY, "threads": "1"},
        )
        # Whoever closes it, closes it: also at the end of the process.
        weakref.finalize(self, _remove, connection, folder, os.getpid())
        for name, columns in TABLES.items():
            connection.execute(f"create table {name} ({', '.join(f'{one} {kind}' for one, kind in columns.items())})")
        connection.execute(views)
        for setting in (
            "python_enable_replacements = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"set {setting}")
        return connection


_DATABASE = _Database()


@contextmanager
def batch(views: str = "") -> Iterator[Batch]:
    """Give the tables of this thread for one batch of cycles; they are empty at its begin and at its end.

    `views` are statements that make views of the tables, when these are made.
    """
    found = Batch(views)
    try:
        yield found
        found.close()
    except BaseException:
        # Whatever state it is in: the next batch begins with a new one.
        _DATABASE.forget()
        raise


def _own_folder() -> Path:
    """Make a folder for this process alone; those of processes that were killed are removed."""
    above = Path(tempfile.gettempdir())
    for old in above.glob(f"{_FOLDER}*"):
        owner = old.name.removeprefix(_FOLDER).partition("-")[0]
        if owner.isdigit() and not _runs(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove(connection: duckdb.DuckDBPyConnection, folder: Path, process: int) -> None:
    if os.getpid() == process:
        connection.close()
        shutil.rmtree(folder, ignore_errors=True)
