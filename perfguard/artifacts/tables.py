"""Tables: rows of a batch of cycles, in an embedded DuckDB: closed to everything outside, bounded, spilling to the disk.

What goes in are numpy columns of numbers, with numbers for texts (`Batch.word`). `cycle` numbers the cycles of the batch,
`row` leads back to the file.

A process connects once, and empties its tables instead of making them anew. What is slow about small tables is to plan a query,
not to run it, and the optimiser of duckdb 2.0 plans a prepared query anew each time. So there are two connections to the same
tables, and the number of rows says which one is asked: `quick`, prepared and without optimiser, or `thorough`. For the same
reason rows go in through arrays that DuckDB was shown once: to show it others makes it forget what it has prepared.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

#: Stands for null in a column of whole numbers; in one of other numbers it is NaN.
NULL = -(2**63)
#: What DuckDB may hold; beyond that it writes to the disk.
MEMORY = "112MB"
#: The tables of files from this size on are in a file themselves.
LARGE_BYTES = 400 * 1000**2
#: Rows of a table that wait until they are handed over together.
_WAITING_ROWS = 32 * 1024
#: Up to so many rows of all tables the quick connection is asked.
_QUICK_ROWS = 50_000
#: What prepared queries may keep together, and what it counts as.
_PREPARED_BYTES = 32 * 1024**2
_OF_QUERIES = ("HASH_TABLE", "COLUMN_DATA")
#: Where more than this is left when a batch has ended, the next one begins with new tables.
_SPENT_BYTES = 72 * 1024**2
_FOLDER, _LOCK = "perfguard-tables-", "in-use"

_LASTING = {
    "cycle": "integer",
    "row": "bigint",
    "name": "integer",
    "category": "integer",
    "thread": "integer",
    "start_ns": "bigint",
    "duration_ns": "bigint",
}
#: What is known of a span of a torch trace wherever it is a row.
SPAN = {
    **_LASTING,
    "correlation": "bigint",
    "input_shapes": "integer",
    "input_types": "integer",
}

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
    "spans": {**SPAN, "event_index": "bigint", "external_id": "bigint"},
    # Spans that lie in each other on their thread, with what queries ask of them: to join 2.5 million spans with themselves
    # would take longer. How long each runs without those that lie in it, and which one it lies in.
    "nesting": {
        **SPAN,
        # The last step that had begun when it did.
        "last_step": "bigint",
        "self_ns": "bigint",
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
    # Events with a start and a duration (X) of a trace_view. `kind`: the argument that says what it is, as JSON; `of_graph`: it
    # tells of a graph, with the time at which that was loaded.
    "view_spans": {**_LASTING, "kind": "integer", "of_graph": "boolean"},
    # Events of all other kinds (counters, instants of a trace_view, ...), with a hash of their arguments. `odd_arguments`: what
    # a counter carries that is not numbers, as JSON.
    "others": {
        "cycle": "integer",
        "row": "bigint",
        "phase": "integer",
        "name": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        "arguments": "bigint",
        "odd_arguments": "integer",
    },
    # What metadata says of processes (JSON): their names (`is_name`), and their labels.
    "processes": {"cycle": "integer", "row": "bigint", "process": "varchar", "is_name": "boolean", "text": "integer"},
    # Ends of arrows between spans (s, t, f).
    "flows": {
        "cycle": "integer",
        "row": "bigint",
        "is_start": "boolean",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        # A whole number, or the number of a text, which is what JSON has.
        "id": "bigint",
        "id_text": "integer",
    },
    # Kernels on a device, one row of kernel_details each; `row` is its line. `step` is the number in `step_text`, which is null
    # where the file has no such column. `print`: a hash of all cells.
    "kernels": {
        "cycle": "integer",
        "row": "bigint",
        "device": "integer",
        "step": "bigint",
        "step_text": "integer",
        "name": "integer",
        "type": "integer",
        "core": "integer",
        "stream": "bigint",
        "task": "bigint",
        "shapes": "integer",
        "start_ns": "bigint",
        "duration_ns": "bigint",
        "wait_ns": "bigint",
        "print": "bigint",
    },
    # What the kernels of a type and a name are executions of.
    "kernel_operators": {"type": "integer", "name": "integer", "operator": "varchar", "is_collective": "boolean"},
    # How busy units of a device were during a kernel, by the name of the column. Where the file has them: the time of the unit,
    # and that of all units together.
    "kernel_counters": {
        "cycle": "integer",
        "row": "bigint",
        "counter": "integer",
        "value": "double",
        "part_us": "double",
        "whole_us": "double",
        "duration_ns": "bigint",
    },
    # The tables that the schema of a database names, whether it has them, and how many rows; `file` is what it is called.
    "database_tables": {
        "cycle": "integer",
        "file": "varchar",
        "name": "varchar",
        "is_there": "boolean",
        "rows": "bigint",
    },
    # The steps of a window, from 0, with the number that the profiler gave them and the thread that marks them.
    "steps": {
        "cycle": "integer",
        "step": "integer",
        "number": "bigint",
        "thread": "integer",
        "start_ns": "bigint",
        "end_ns": "bigint",
    },
    # What ran: operators of the host, and what they had a device do. Without a step it ran in none; what does not count was
    # launched before the first one.
    "executions": {
        "cycle": "integer",
        "row": "bigint",
        "name": "integer",
        "step": "integer",
        "start_ns": "bigint",
        "duration_ns": "bigint",
        "self_ns": "bigint",
        "counts": "boolean",
        "is_collective": "boolean",
        "input_shapes": "integer",
        "input_types": "integer",
    },
    # The cycles themselves, where people ask.
    "cycles": {
        "cycle": "integer",
        "recording": "varchar",
        "rank": "bigint",
        "layout": "varchar",
        "place": "varchar",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """What a batch needs: tables with their columns and types, and views. Each is made once for a process."""

    tables: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: TABLES)
    #: By a name, statements that make views and macros, in their order.
    views: Mapping[str, str] = field(default_factory=dict)
    #: By the name of a view or table, the tables that their views `fill_<name>` fill before a query names it, in order.
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Batch:
    """The tables of some cycles. Rows are added by column, and can be asked for once `hand_over` was called."""

    def __init__(self, definitions: Definitions, texts: Sequence[str], *, is_large: bool = False) -> None:
        self._definitions = definitions
        self._is_large = is_large
        self._open: _Database | None = None
        self._words: dict[str, int] = {text: number for number, text in enumerate(texts)}
        self._threads: dict[Any, int] = {}
        self._told = {"words": 0, "threads": 0}
        self._rows = 0
        self._kept: set[str] = set()
        #: The tables that have rows.
        self.filled: set[str] = set()

    @property
    def _database(self) -> _Database:
        # Connected when there is something to hold: most layouts have no tables yet.
        if self._open is None:
            self._open = _Database(is_large=True) if self._is_large else _database()
            self._open.define(self._definitions)
        return self._open

    def add(self, table: str, cycle: int, **columns: Any) -> None:
        """Add rows of a cycle to a table; every other column is there, an array each."""
        count = len(next(iter(columns.values())))
        self.put(table, cycle=np.full(count, cycle, np.int64), **columns)

    def put(self, table: str, **columns: Any) -> None:
        """Add rows to a table; every column is there, an array each."""
        count = len(next(iter(columns.values())))
        if count:
            self._database.begin()
            self._database.waiting[table].add(columns, count)
            self.filled.add(table)
            self._rows += count

    def word(self, text: str) -> int:
        """Return the number of a text."""
        return self._words.setdefault(text, len(self._words))

    def thread(self, key: tuple[str, str]) -> int:
        """Return the number of a thread, named by process and thread as JSON."""
        return self._threads.setdefault(key, len(self._threads))

    @property
    def texts(self) -> list[str]:
        """The texts of `words`, by their numbers."""
        return list(self._words)

    def hand_over(self) -> None:
        """Hand over what waits; from here on all that was added can be asked for."""
        if not self.filled:
            return
        self._tell("words", self._words, lambda texts: {"text": texts})
        self._tell("threads", self._threads, _process_and_thread)
        self._database.hand_over()

    def _tell(self, table: str, known: Mapping[Any, int], columns_of: Callable[[Any], dict[str, Any]]) -> None:
        # In blocks: a trace may have a million names.
        while keys := list(islice(known, self._told[table], self._told[table] + _WAITING_ROWS)):
            first = self._told[table]
            self.put(table, number=np.arange(first, first + len(keys)), **columns_of(keys))
            self._told[table] += len(keys)

    def without(self, cycle: int, tables: Iterable[str] | None = None) -> None:
        """Let go of the rows of a cycle, in some tables or in all."""
        self.hand_over()
        for table in sorted(self.filled.intersection(self.filled if tables is None else tables) - {"words", "threads"}):
            self._database.quick.execute(f"delete from {table} where cycle = {cycle}")

    def without_file(self, table: str, cycle: int, file: int) -> None:
        """Let go of the rows of one file of a cycle."""
        self.hand_over()
        if table in self.filled:
            self._database.quick.execute(f"delete from {table} where cycle = {cycle} and file = {file}")

    def close(self) -> None:
        """Empty the tables."""
        if self._open is not None and self._is_large:
            self._open.end()
        elif self._open is not None:
            self._open.empty(self.filled)
            if self._open.is_spent:
                _forget()
        self._open = None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return another connection to the tables."""
        self.hand_over()
        return self._database.thorough.cursor()

    def to_be_read(self) -> tuple[duckdb.DuckDBPyConnection, Path]:
        """Close tables that are in a file for good; return a connection that only reads them, and the one file it may write."""
        self.hand_over()
        return self._database.to_be_read()

    def drop(self) -> None:
        """Let go of the tables as they are."""
        if self._open is not None and self._is_large:
            self._open.end()
        self._open = None
        _forget()

    def is_any(self, query: str) -> bool:
        """Whether a query returns any row."""
        # Counted: duckdb 2.0 does not come back from some queries with a `with` once it needs no more rows of them.
        ((count,),) = self.execute(f"select count(*) from (\n{query}\n)")
        return bool(count)

    def fill(self, table: str, query: str) -> None:
        """Fill a table with what a query returns."""
        self.hand_over()
        ((count,),) = self._asked(f"insert into {table} {query}").fetchall()
        if count:
            self.filled.add(table)

    def execute(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query; return its rows."""
        return self._asked(query).fetchall()

    def columns(self, query: str) -> dict[str, Any]:
        """Run a query; return its columns as arrays. Nulls are masked."""
        return dict(self._asked(query).fetchnumpy())

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Run a query; yield its rows by the names of their columns."""
        self.keep(_words_of(query))
        database = self._database
        found = database.retried(lambda: _run(database.thorough, query))
        names = [one[0] for one in found.description or ()]
        for row in found.fetchall():
            yield dict(zip(names, row, strict=True))

    def keep_all(self) -> None:
        """Fill all tables that follow from others."""
        self.keep(frozenset(self._definitions.kept))

    def keep(self, names: frozenset[str]) -> None:
        """Fill those of some tables that follow from others, if that is still to be done."""
        for named in sorted(names & self._definitions.kept.keys()):
            for table in self._definitions.kept[named]:
                if table not in self._kept:
                    self._kept.add(table)
                    self.fill(table, f"from fill_{table}")

    def _asked(self, query: str) -> duckdb.DuckDBPyConnection:
        self.keep(_words_of(query))
        if self._rows > _QUICK_ROWS:
            return _run(self._database.thorough, query)
        return self._database.prepared(query)


@cache
def _words_of(query: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", query))


def _process_and_thread(keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"process": [process for process, _ in keys], "thread": [thread for _, thread in keys]}


def frame(batch: Batch, query: str) -> pl.DataFrame:
    """Run a query; return its rows. Integers are Int64, texts String."""
    import polars as pl

    return pl.DataFrame({name: _series(name, column) for name, column in batch.columns(query).items()})


def frames(batch: Batch, query: str, cycles: Iterable[int]) -> dict[int, pl.DataFrame]:
    """Run a query whose rows come by cycle, `cycle` first; return the rows of each of the cycles without it."""
    whole = frame(batch, query)
    numbers = np.array([*cycles], np.int64)
    firsts = np.searchsorted(whole["cycle"].to_numpy(), numbers, "left")
    ends = np.searchsorted(whole["cycle"].to_numpy(), numbers, "right")
    found = whole.drop("cycle")
    return {
        cycle: found.slice(first, end - first)
        for cycle, first, end in zip(numbers.tolist(), firsts.tolist(), ends.tolist(), strict=True)
    }


def _series(name: str, column: Any) -> pl.Series:
    import polars as pl

    if column.dtype == object:
        return pl.Series(name, column.tolist(), dtype=pl.String)
    kind = np.float64 if column.dtype.kind == "f" else np.int64
    values = pl.Series(name, np.ma.getdata(column).astype(kind))  # type: ignore[no-untyped-call]
    is_null = np.ma.getmaskarray(column)  # type: ignore[no-untyped-call]
    return values.set(pl.Series(is_null), None) if is_null.any() else values


def _run(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.DuckDBPyConnection:
    """Run a statement. Raises `OSError` where the memory or the disk of this machine are not enough."""
    with _in_a_sentence():
        return connection.execute(statement)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        what = (
            f"there is not enough memory for the tables of a trace ({MEMORY}, and what fits into the temporary folder)"
        )
        raise OSError(errno.ENOMEM, what) from error
    except duckdb.IOException as error:
        what = f"the tables of a trace cannot be written to the temporary folder ({_first_line(error)})"
        raise OSError(errno.ENOSPC, what) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class _Inlet:
    """Rows of one table that wait. DuckDB knows it by a name, and reads it as a stream of Arrow blocks when it inserts them."""

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
        """Add rows; they are read before the next ones are added where they are many."""
        self._blocks.append(columns)
        self._count += count
        if self._count >= _WAITING_ROWS:
            self.hand_over()

    def hand_over(self) -> None:
        if self._count:
            if not self._is_known:
                self._connection.register(f"waiting_{self._table}", self)
                self._connection.execute(
                    f"prepare insert_{self._table} as insert into {self._table} from waiting_{self._table}"
                )
                self._is_known = True
            _run(self._connection, f"execute insert_{self._table}")
            self.forget()

    def forget(self) -> None:
        self._blocks: list[Mapping[str, Any]] = []
        self._count = 0


@cache
def _schema(columns: tuple[tuple[str, str], ...]) -> pl.Schema:
    import polars as pl

    kinds = {"integer": pl.Int64, "bigint": pl.Int64, "double": pl.Float64, "boolean": pl.Boolean, "varchar": pl.String}
    return pl.Schema({name: kinds[kind] for name, kind in columns})


#: By the type of a column in DuckDB, its type in numpy; None: texts.
_NUMPY = {"integer": np.int64, "bigint": np.int64, "double": np.float64, "boolean": np.bool_, "varchar": None}


def _waiting(name: str, kind: str, parts: Sequence[Any]) -> pl.Series:
    """Return the parts of a column as one series, null where `NULL` or NaN stands for it."""
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


class _Database:
    """The tables of a thread, and its two connections to them."""

    def __init__(self, *, is_large: bool = False) -> None:
        import duckdb

        self.process = os.getpid()
        self.folder, lock = _own_folder()
        # Small tables never touch a disk: a full one is no reason not to judge. Tables in memory keep one bit for each value,
        # whatever else duckdb 2.0 spills, so those of a long trace do not fit.
        spilled = "" if self.folder is None else str(self.folder / "spilled")
        place = str(self.folder / "tables") if is_large and self.folder is not None else ":memory:"
        with _in_a_sentence():
            self.quick = duckdb.connect(
                place, config={"temp_directory": spilled, "memory_limit": MEMORY, "threads": "1"}
            )
        self.end = weakref.finalize(self, _remove, self.quick, self.folder, lock, self.process)
        self.thorough = self.quick.cursor()
        self.quick.execute("pragma disable_optimizer")
        self.waiting: dict[str, _Inlet] = {}
        self._views: set[str] = set()
        _lock(self.quick)
        self._prepared: dict[str, str] = {}
        self._has_begun = False

    def define(self, definitions: Definitions) -> None:
        """Make the tables and views that are not there yet. Raises `UsageError` for views that are none."""
        import duckdb

        for name, columns in definitions.tables.items():
            if name not in self.waiting:
                described = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
                self.quick.execute(f"create table {name} ({described})")
                self.waiting[name] = _Inlet(name, columns, self.quick)
        for name, statements in definitions.views.items():
            if statements not in self._views:
                try:
                    self.quick.execute(statements)
                except duckdb.Error as error:
                    said = " ".join(str(error).split())
                    raise UsageError(f"the views.sql of the dialect {name!r} cannot be used: {said}") from error
                self._views.add(statements)

    def to_be_read(self) -> tuple[duckdb.DuckDBPyConnection, Path]:
        import duckdb

        if self.folder is None:
            raise OSError(errno.ENOSPC, f"the temporary folder {tempfile.gettempdir()} cannot be written")
        self.thorough.close()
        self.quick.close()
        output = self.folder / "output"
        spilled = str(self.folder / "spilled")
        with _in_a_sentence():
            found = duckdb.connect(
                str(self.folder / "tables"),
                read_only=True,
                config={"temp_directory": spilled, "memory_limit": MEMORY, "threads": "1"},
            )
        found.execute("set allowed_paths = [$1]", [str(output)])
        _lock(found)
        return found, output

    def begin(self) -> None:
        """Begin to hand over: what comes before the next `hand_over` is one transaction."""
        if not self._has_begun:
            self.quick.execute("begin")
            self._has_begun = True

    def hand_over(self) -> None:
        self.begin()
        for one in self.waiting.values():
            one.hand_over()
        _run(self.quick, "commit")
        self._has_begun = False

    def prepared(self, query: str) -> duckdb.DuckDBPyConnection:
        """Run a query of the quick connection, prepared when it is first asked.

        A prepared query keeps the memory that it needed, so those that come when much is kept are planned each time.
        """
        if query not in self._prepared:
            self._prepared[query] = (
                f"query_{len(self._prepared)}" if self._used_bytes(*_OF_QUERIES) < _PREPARED_BYTES else ""
            )
            if self._prepared[query]:
                self.quick.execute(f"prepare {self._prepared[query]} as {query}")
        return self.retried(lambda: _run(self.quick, self._statement(query)))

    def _statement(self, query: str) -> str:
        name = self._prepared.get(query)
        return f"execute {name}" if name else query

    def retried(self, ask: Callable[[], duckdb.DuckDBPyConnection]) -> duckdb.DuckDBPyConnection:
        """Ask a query, and once more without what prepared ones keep, where there is not enough memory."""
        try:
            return ask()
        except OSError as error:
            if error.errno != errno.ENOMEM or not self._prepared:
                raise
        for name in filter(None, self._prepared.values()):
            self.quick.execute(f"deallocate {name}")
        self._prepared.clear()
        return ask()

    @property
    def is_spent(self) -> bool:
        """Whether what is left of the batches before takes much of the memory."""
        return self._used_bytes() > _SPENT_BYTES

    def _used_bytes(self, *tags: str) -> int:
        used = self.thorough.execute("select tag, memory_usage_bytes from duckdb_memory()").fetchall()
        return sum(size for tag, size in used if not tags or tag in tags)

    def empty(self, tables: Iterable[str]) -> None:
        self.begin()
        for name in sorted(tables):
            if name in self.waiting:
                self.waiting[name].forget()
            self.quick.execute(f"truncate {name}")
        self.hand_over()


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a database to everything outside of it, for good."""
    for setting in ("python_enable_replacements = false", "enable_external_access = false"):
        connection.execute(f"set {setting}")
    connection.execute("set lock_configuration = true")


_OWN = threading.local()


def _database() -> _Database:
    """Return the tables of this thread; a process that was forked makes its own."""
    found: _Database | None = getattr(_OWN, "database", None)
    if found is None or found.process != os.getpid():
        found = _OWN.database = _Database()
    return found


def _forget() -> None:
    if (found := getattr(_OWN, "database", None)) is not None:
        _OWN.database = None
        found.end()


@contextmanager
def batch(definitions: Definitions | None = None, texts: Sequence[str] = (), *, size: int = 0) -> Iterator[Batch]:
    """Give the tables of this thread for one batch of cycles; they are empty at its begin and at its end.

    `definitions` are made when they are not there yet; `texts` come first in `words`. `size` is that of the files in bytes: the
    tables of large ones are in a file that is removed at the end. Raises `KeyboardInterrupt` where Ctrl-C met DuckDB.
    """
    found = Batch(definitions or Definitions(), texts, is_large=size >= LARGE_BYTES)
    try:
        yield found
        found.close()
    except BaseException as error:
        # Whatever state they are in: the next batch begins with new ones.
        found.drop()
        if _is_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether an exception is what Ctrl-C becomes inside of duckdb 2.0: in a query, or while it reads rows that wait."""
    import duckdb

    text = str(error)
    return (isinstance(error, RuntimeError) and text == "Query interrupted") or (
        isinstance(error, duckdb.Error) and "failed: KeyboardInterrupt" in text
    )


def _own_folder() -> tuple[Path | None, int]:
    """Make a folder for what does not fit into the memory, and the lock that says that it is in use.

    Folders of processes that were killed are removed. None where there is no place for one.
    """
    import fcntl

    try:
        above = Path(tempfile.gettempdir())
        for old in above.glob(f"{_FOLDER}*"):
            _remove_if_left(old)
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        # What fits into the memory needs none, and most does.
        return None, -1
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _remove_if_left(folder: Path) -> None:
    # A lock ends with its process, also with one of another container that shares the folder.
    import fcntl

    with suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _remove(connection: duckdb.DuckDBPyConnection, folder: Path | None, lock: int, process: int) -> None:
    if os.getpid() == process:
        connection.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
