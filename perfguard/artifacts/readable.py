"""Readable tables: the tables of a batch with texts in place of codes, for users' queries.

Each table and view has a view of the same name in a schema that DuckDB searches first: `spans.name` is a text there. Users run
single queries that read, in a copy of this process that ends when a query takes too long; errors are one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perfguard.artifacts.database import MEMORY, run
from perfguard.errors import UsageError, nearest
from perfguard.fork import KilledError, forked, limit_time

if TYPE_CHECKING:
    import duckdb

_Found = TypeVar("_Found")

#: The schema of the readable views; the tables with numbers are in `main`.
_SCHEMA = "readable"
#: Columns that have codes of `words`, if they are integers; `_THREAD` has those of `threads`.
WORDS = frozenset({
    "block", "category", "collective", "core", "counter", "device", "dtype", "function", "grid", "id_text", "input_shapes",
    "input_types", "kernel", "kind", "label", "name", "odd_arguments", "odd_tensors", "operator", "phase", "shapes",
    "step_text", "text", "type", "wait",
})  # fmt: skip
_THREAD = "thread"
#: Tables that only map codes to texts and threads.
_NUMBERED = ("words", "threads")
_LISTED = "perfguard sql DIR --tables lists all tables"
#: Views that only fill tables, and tables that only hold the rows of views.
_INNER = ("fill_", "held_")
#: Rows that are fetched at once.
_ROWS = 2048


class QueryError(UsageError):
    """A query failed; `line` is the line in it, if known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query: names and types of its columns, and its rows, fetched lazily."""

    columns: tuple[tuple[str, str], ...]
    rows: Iterator[tuple[Any, ...]]


def make_readable(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the missing readable views."""
    # In one transaction: each view by itself would be written to the disk, where the tables are in a file.
    run(
        connection,
        f"begin; create schema if not exists {_SCHEMA};"
        "create macro if not exists plain(quoted) as quoted ->> '$';"
        "create macro if not exists thread_named(code) as "
        "(select concat_ws('/', plain(process), plain(thread)) from threads where number = code)",
    )
    known = _columns(connection, _SCHEMA)
    for table, columns in _columns(connection, "main").items():
        if table not in _NUMBERED and table not in known and not table.startswith(_INNER):
            shown = ", ".join(_shown(name, kind) for name, kind in columns)
            run(connection, f"create view {_SCHEMA}.{table} as select {shown} from main.{table}")
    run(connection, "commit")


def _shown(name: str, kind: str) -> str:
    quoted = f'"{name}"'
    if kind == "INTEGER" and name in WORDS:
        return f"word({quoted}) as {quoted}"
    return f"thread_named({quoted}) as {quoted}" if kind == "INTEGER" and name == _THREAD else quoted


def _columns(connection: duckdb.DuckDBPyConnection, schema: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    query = (
        "select table_name, column_name, data_type from duckdb_columns() "
        f"where schema_name = '{schema}' and not internal order by table_name, column_index"
    )
    for table, column, kind in connection.execute(query).fetchall():
        found.setdefault(table, []).append((column, kind))
    return found


class Readable:
    """The readable tables of a connection. Within `bounded` a query, with all that is done with its rows, may take `limit_s`
    seconds, and as much memory as a copy of this process may; `remedy` is the advice in the message if it takes longer.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, limit_s: float, remedy: str) -> None:
        self._connection = connection
        self._limit_s = limit_s
        self._remedy = remedy
        connection.execute(f"set search_path = '{_SCHEMA},main'")
        #: The columns of each table and view: names and types.
        self.tables = _columns(connection, _SCHEMA)

    def bounded(self, ask: Callable[[], Iterable[_Found]]) -> Iterator[_Found]:
        """Yield what a function yields that asks these tables, in a copy of this process.

        DuckDB looks only now and then whether it is interrupted, and its functions of texts know no limit of memory; the system
        ends a process at once. Raises `QueryError` then, and what the function raises.
        """
        try:
            yield from forked(ask)
        except KilledError as error:
            if error.is_late:
                raise QueryError(f"it takes longer than {self._limit_s:g} s; {self._remedy}") from None
            raise QueryError("it needs more memory than there is for it; select fewer rows or columns") from None
        except MemoryError:
            raise _too_large() from None
        except RecursionError:
            raise QueryError("a value is nested too deep to be shown; select its parts") from None

    def answer(self, query: str) -> Answer:
        """Run one query that reads. Raises `QueryError` if it fails, now or while its rows are fetched."""
        limit_time(self._limit_s)
        self._refuse_writes(query)
        found = self._asked(lambda: self._connection.execute(query))
        columns = tuple((one[0], str(one[1])) for one in found.description or ())
        return Answer(columns, self._rows(found))

    def _rows(self, found: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
        while rows := self._asked(lambda: found.fetchmany(_ROWS)):
            yield from rows

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Run a query; yield its rows by the names of their columns."""
        answer = self.answer(query)
        names = [name for name, _ in answer.columns]
        for row in answer.rows:
            yield dict(zip(names, row, strict=True))

    def is_any(self, query: str) -> bool:
        """Whether a query returns any row."""
        return self.count(query) > 0

    def count(self, query: str) -> int:
        """Return the number of rows of a query."""
        # The query begins on the first line, so that line numbers in errors are its own.
        ((count,),) = self.answer(f"select count(*) from ({query}\n)").rows
        return int(count)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table and view, all within the time limit of one query."""
        limit_time(self._limit_s)
        found = {}
        for name in self.tables:
            query = f"select count(*) from {name}"
            ((found[name],),) = self._asked(lambda query=query: self._connection.execute(query).fetchall())  # type: ignore[misc]
        return found

    def columns(self, query: str) -> tuple[tuple[str, str], ...]:
        """Return the names and types of the columns of a query that reads, without running it."""
        limit_time(self._limit_s)
        self._refuse_writes(query)
        return tuple((row[0], row[1]) for row in self.answer(f"describe ({query}\n)").rows)

    def to_parquet(self, query: str, place: str) -> None:
        """Write the result of a query to the only file that may be written."""
        limit_time(self._limit_s)
        self._refuse_writes(query)
        statement = f"copy ({query}\n) to '{place}' (format parquet, use_tmp_file false)"
        self._asked(lambda: self._connection.execute(statement))

    def _refuse_writes(self, query: str) -> None:
        import duckdb

        try:
            query.encode("utf-8")
        except UnicodeEncodeError as error:
            raise QueryError(f"it is not UTF-8: character {error.start + 1}") from None
        found = self._asked(lambda: self._connection.extract_statements(query))
        if len(found) != 1:
            raise QueryError(f"it has {len(found)} statements instead of one: select ...")
        if (kind := found[0].type) != duckdb.StatementType.SELECT:
            raise QueryError(f"only reads are answered (select ..., from ..., with ...), and this is {kind.name}")

    def _asked(self, action: Callable[[], _Found]) -> _Found:
        """Run an action on the connection. Raises `QueryError`."""
        import duckdb

        try:
            return action()
        except (duckdb.OutOfMemoryException, MemoryError):
            raise _too_large() from None
        except duckdb.PermissionException as error:
            raise QueryError(f"it can read these tables, and nothing else: {_message(error)}", _line(error)) from None
        except duckdb.Error as error:
            if "attached in read-only mode" in str(error):
                raise QueryError("it writes (insert, update, delete); a query may only read") from None
            raise QueryError(f"{_message(error)}{self._near(error)}", _line(error)) from None

    def _near(self, error: Exception) -> str:
        """Return the nearest tables for a query that names an unknown one."""
        _, is_unknown, name = str(error).partition("Catalog Error: Table with name ")
        return f"; {nearest(name.split()[0], self.tables, otherwise=_LISTED)}" if is_unknown else ""


def _too_large() -> QueryError:
    return QueryError(
        f"it needs more memory than {MEMORY} and the space in the temporary folder; select fewer rows or columns"
    )


def _message(error: Exception) -> str:
    """Return the first line of an error of DuckDB, with the columns that it suggests for an unknown one."""
    first, _, more = str(error).partition("\n")
    # What it would set, a query may not set.
    first = first.partition('. Use "SET ')[0]
    hint = more.partition("\n")[0]
    return f"{first.rstrip('!.')}{f' ({hint})' if hint.startswith('Candidate bindings') else ''}"


def _line(error: Exception) -> int | None:
    _, is_there, text = str(error).partition("\nLINE ")
    number = text.partition(":")[0]
    return int(number) if is_there and number.isdigit() else None
