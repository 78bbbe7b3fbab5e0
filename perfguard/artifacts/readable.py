"""Readable tables: those of a batch with texts in place of their numbers, for queries that people write.

Each table and view has a view of its name in a schema that is looked through first: `spans.name` is a text there. What is
asked is one query that reads; the time it takes is bounded, and what it can be refused for is one sentence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perfguard.artifacts.database import MEMORY
from perfguard.errors import UsageError, nearest

if TYPE_CHECKING:
    import duckdb

_Found = TypeVar("_Found")

#: The schema of the readable views; the tables with numbers are in `main`.
_SCHEMA = "readable"
#: Columns that hold numbers of `words`, where they are integers; `_THREAD` holds one of `threads`.
WORDS = frozenset(
    (
        *("category", "core", "counter", "device", "id_text", "input_shapes", "input_types", "kind"),
        *("name", "odd_arguments", "phase", "shapes", "step_text", "text", "type"),
    )
)
_THREAD = "thread"
#: Tables that only name texts and threads by their numbers.
_NUMBERED = ("words", "threads")
_LISTED = "perfguard sql DIR --tables lists those there are"
#: Views that only fill tables.
_FILLING = "fill_"
#: Rows that are taken at once.
_ROWS = 2048


class QueryError(UsageError):
    """A query cannot be answered; `line` is the line in it, where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query returns: names and types of its columns, and its rows, each asked for when it is needed."""

    columns: tuple[tuple[str, str], ...]
    rows: Iterator[tuple[Any, ...]]


def make_readable(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the readable views that are not there yet."""
    connection.execute(
        f"create schema if not exists {_SCHEMA};"
        "create macro if not exists plain(wanted) as wanted ->> '$';"
        "create macro if not exists thread_named(wanted) as "
        "(select concat_ws('/', plain(process), plain(thread)) from threads where number = wanted)"
    )
    known = _columns(connection, _SCHEMA)
    for table, columns in _columns(connection, "main").items():
        if table not in _NUMBERED and table not in known and not table.startswith(_FILLING):
            shown = ", ".join(_shown(name, kind) for name, kind in columns)
            connection.execute(f"create view {_SCHEMA}.{table} as select {shown} from main.{table}")


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
    """The readable tables of a connection, and `limit_s`, the seconds that a query may take with the rows it returns."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, limit_s: float, remedy: str) -> None:
        self._connection = connection
        self._limit_s = limit_s
        self._left_s = limit_s
        #: What to do where that is not enough.
        self._remedy = remedy
        connection.execute(f"set search_path = '{_SCHEMA},main'")
        #: The columns of each table and view: names and types.
        self.tables = _columns(connection, _SCHEMA)

    def answer(self, query: str) -> Answer:
        """Run one query that reads. Raises `QueryError` where it cannot be answered, then or while its rows are taken."""
        self._left_s = self._limit_s
        self._refuse_what_does_not_read(query)
        found = self._bounded(lambda: self._connection.execute(query))
        columns = tuple((one[0], str(one[1])) for one in found.description or ())
        return Answer(columns, self._rows(found))

    def _rows(self, found: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
        while rows := self._bounded(lambda: found.fetchmany(_ROWS)):
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
        """Return how many rows a query returns."""
        # The query begins on the first line, so that lines are those of its own.
        ((count,),) = self.answer(f"select count(*) from ({query}\n)").rows
        return int(count)

    def counts(self) -> dict[str, int]:
        """Return how many rows each table and view has; all of them together may take as long as a query."""
        self._left_s = self._limit_s
        found = {}
        for name in self.tables:
            query = f"select count(*) from {name}"
            ((found[name],),) = self._bounded(lambda query=query: self._connection.execute(query).fetchall())  # type: ignore[misc]
        return found

    def columns(self, query: str) -> tuple[tuple[str, str], ...]:
        """Return the names and types of the columns of a query that reads, without running it."""
        self._refuse_what_does_not_read(query)
        return tuple((row[0], row[1]) for row in self.answer(f"describe ({query}\n)").rows)

    def to_parquet(self, query: str, place: str) -> None:
        """Write what a query returns to the one file that may be written."""
        self._refuse_what_does_not_read(query)
        statement = f"copy ({query}\n) to '{place}' (format parquet, use_tmp_file false)"
        self._left_s = self._limit_s
        self._bounded(lambda: self._connection.execute(statement))

    def _refuse_what_does_not_read(self, query: str) -> None:
        import duckdb

        found = self._bounded(lambda: self._connection.extract_statements(query))
        if len(found) != 1:
            raise QueryError(f"it is {len(found)} statements, and has to be one: select ...")
        if (kind := found[0].type) != duckdb.StatementType.SELECT:
            raise QueryError(f"only reads are answered (select ..., from ..., with ...), and this is {kind.name}")

    def _bounded(self, ask: Callable[[], _Found]) -> _Found:
        """Do something of the connection, as long as time is left."""
        if not self._left_s:
            raise self._too_long()
        begun = time.monotonic()
        timer = threading.Timer(self._left_s, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            with self._in_a_sentence():
                return ask()
        finally:
            timer.cancel()
            self._left_s = max(0.0, self._left_s - (time.monotonic() - begun))

    @contextmanager
    def _in_a_sentence(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.InterruptException:
            raise self._too_long() from None
        except (duckdb.OutOfMemoryException, MemoryError):
            raise QueryError(
                f"it needs more memory than {MEMORY} and what fits into the temporary folder; ask for fewer rows or columns"
            ) from None
        except duckdb.PermissionException as error:
            raise QueryError(f"it can read these tables, and nothing else: {_told(error)}", _line(error)) from None
        except duckdb.Error as error:
            if "attached in read-only mode" in str(error):
                raise QueryError("it writes (insert, update, delete), and a query only reads") from None
            raise QueryError(f"{_told(error)}{self._near(error)}", _line(error)) from None

    def _too_long(self) -> QueryError:
        return QueryError(f"it takes longer than {self._limit_s:g} s; {self._remedy}")

    def _near(self, error: Exception) -> str:
        """Say which tables there are, where a query names one that is not there and DuckDB knows none like it."""
        import duckdb

        if not isinstance(error, duckdb.CatalogException) or not str(error).startswith(
            "Catalog Error: Table with name"
        ):
            return ""
        name = str(error).removeprefix("Catalog Error: Table with name").split()[0]
        return f"; {nearest(name, self.tables, otherwise=_LISTED)}"


def _told(error: Exception) -> str:
    """Return what DuckDB says first, and the columns it names where one is not there."""
    first, _, more = str(error).partition("\n")
    hint = more.partition("\n")[0]
    return f"{first.rstrip('!.')}{f' ({hint})' if hint.startswith('Candidate bindings') else ''}"


def _line(error: Exception) -> int | None:
    _, is_there, text = str(error).partition("\nLINE ")
    number = text.partition(":")[0]
    return int(number) if is_there and number.isdigit() else None
