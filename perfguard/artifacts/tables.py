"""Tables: the rows of a batch of cycles.

Readers add numpy columns of numbers, with codes for texts (`Batch.word`). `cycle` numbers the cycles of the batch, `row` refers
to the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.database import MEMORY, WAITING_ROWS, Database, database, forget, is_ctrl_c
from perfguard.artifacts.table_definitions import Definitions
from perfguard.errors import UsageError

if TYPE_CHECKING:
    import duckdb

#: Below this size of the files, batches use the tables of their thread, one after the other, and queries that are prepared.
SMALL_BYTES = 32 * 1000**2
#: From this size of the files on, the tables are in a file themselves.
LARGE_BYTES = 400 * 1000**2
#: Up to this number of rows in all tables, the quick connection is used. Without the optimiser some joins take the square of
#: their rows: 16 000 rows of MindData take 24 s without it and 0.5 s with it.
_QUICK_ROWS = 8_000
#: The largest number of characters of different texts of one file: names, shapes.
MAX_CHARACTERS = 32 * 1024**2


class Batch:
    """The tables of some cycles. Rows are added by column, and are visible to queries after `hand_over`."""

    def __init__(self, definitions: Definitions, texts: Sequence[str], *, size: int = 0) -> None:
        self._definitions = definitions
        self._has_own = size >= SMALL_BYTES
        self._is_in_file = size >= LARGE_BYTES
        self._open: Database | None = None
        self._words: dict[str, int] = {text: number for number, text in enumerate(texts)}
        #: How long the texts are together.
        self.characters = sum(map(len, texts))
        self._threads: dict[Any, int] = {}
        self._inserted = {"words": 0, "threads": 0}
        self._rows = 0
        self._kept: set[str] = set()
        #: The tables that have rows.
        self.filled: set[str] = set()

    @property
    def _database(self) -> Database:
        # Connect late: a batch of text files needs no tables.
        if self._open is None:
            self._open = Database(MEMORY, in_file=self._is_in_file) if self._has_own else database()
            self._open.define(self._definitions)
        return self._open

    def add(self, table: str, cycle: int, **columns: Any) -> None:
        """Add rows of a cycle to a table, with an array for every other column."""
        count = len(next(iter(columns.values())))
        self.put(table, cycle=np.full(count, cycle, np.int64), **columns)

    def put(self, table: str, **columns: Any) -> None:
        """Add rows to a table, with an array for every column."""
        count = len(next(iter(columns.values())))
        if count:
            self._database.begin()
            self._database.waiting[table].add(columns, count)
            self.filled.add(table)
            self._rows += count

    def word(self, text: str) -> int:
        """Return the code of a text."""
        code = self._words.get(text)
        if code is None:
            code = self._words[text] = len(self._words)
            self.characters += len(text)
        return code

    def thread(self, key: tuple[str, str]) -> int:
        """Return the code of a thread, given by process and thread as JSON."""
        return self._threads.setdefault(key, len(self._threads))

    @property
    def texts(self) -> list[str]:
        """The texts, by their codes."""
        return list(self._words)

    def hand_over(self) -> None:
        """Insert all waiting rows, so that queries see them."""
        if not self.filled:
            return
        self._add_codes("words", self._words, lambda texts: {"text": texts})
        self._add_codes("threads", self._threads, _process_and_thread)
        self._database.hand_over()

    def _add_codes(self, table: str, codes: Mapping[Any, int], columns_of: Callable[[Any], dict[str, Any]]) -> None:
        # In blocks: a trace may have a million names.
        while keys := list(islice(codes, first := self._inserted[table], first + WAITING_ROWS)):
            self.put(table, number=np.arange(first, first + len(keys)), **columns_of(keys))
            self._inserted[table] += len(keys)

    def without(self, cycle: int, tables: Iterable[str] | None = None) -> None:
        """Delete the rows of a cycle, from the given tables or from all."""
        self.hand_over()
        for table in sorted(self.filled.intersection(self.filled if tables is None else tables) - {"words", "threads"}):
            self._database.quick.execute(f"delete from {table} where cycle = {cycle}")

    def without_file(self, table: str, cycle: int, file: int) -> None:
        """Delete the rows of one file of a cycle."""
        self.hand_over()
        if table in self.filled:
            self._database.quick.execute(f"delete from {table} where cycle = {cycle} and file = {file}")

    def close(self) -> None:
        """Empty the tables."""
        if self._open is not None and self._has_own:
            self._open.end()
        elif self._open is not None:
            self._open.empty(self.filled)
            if self._open.is_spent:
                forget()
        self._open = None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return another connection to the tables."""
        self.hand_over()
        return self._database.thorough.cursor()

    def to_be_read(self) -> tuple[duckdb.DuckDBPyConnection, Path]:
        """Reopen the tables in their file read-only; return the connection, and the only file that it may write."""
        self.hand_over()
        return self._database.to_be_read()

    def drop(self) -> None:
        """Discard the tables in whatever state they are."""
        if self._open is not None and self._has_own:
            self._open.end()
        self._open = None
        forget()

    def hold(self, views: Iterable[str]) -> None:
        """Put the rows of views into tables, once: a query of several would join all that they are made of at a time."""
        self.hand_over()
        for name in views:
            self._database.optimised(f"create table held_{name} as from {name}")
            self._database.optimised(f"create or replace view {name} as from held_{name}")

    def is_any(self, query: str) -> bool:
        """Whether a query returns any row."""
        # Count all rows: with `limit 1`, duckdb 2.0 never returns from some queries with a `with`.
        ((count,),) = self.execute(f"select count(*) from (\n{query}\n)")
        return bool(count)

    def fill(self, table: str, query: str) -> None:
        """Fill a table with the result of a query."""
        self.hand_over()
        ((count,),) = self._run(f"insert into {table} {query}").fetchall()
        if count:
            self.filled.add(table)

    def execute(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query; return its rows."""
        return self._run(query).fetchall()

    def columns(self, query: str) -> dict[str, Any]:
        """Run a query; return its columns as arrays. Nulls are masked."""
        return dict(self._run(query).fetchnumpy())

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Run a query; yield its rows by the names of their columns."""
        self.keep(_words_of(query))
        found = self._database.optimised(query)
        names = [one[0] for one in found.description or ()]
        for row in found.fetchall():
            yield dict(zip(names, row, strict=True))

    def keep_all(self) -> None:
        """Fill all derived tables."""
        self.keep(frozenset(self._definitions.kept))

    def keep(self, names: frozenset[str]) -> None:
        """Fill the derived tables among the given names, unless they are filled already."""
        for named in sorted(names & self._definitions.kept.keys()):
            for table in self._definitions.kept[named]:
                if table not in self._kept:
                    self._kept.add(table)
                    self.fill(table, f"from fill_{table}")

    def _run(self, query: str) -> duckdb.DuckDBPyConnection:
        self.keep(_words_of(query))
        if self._rows > _QUICK_ROWS:
            return self._database.optimised(query)
        return self._database.prepared(query)


@cache
def _words_of(query: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", query))


def _process_and_thread(keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return dict(zip(("process", "thread"), zip(*keys, strict=True), strict=True))


@contextmanager
def batch(definitions: Definitions | None = None, texts: Sequence[str] = (), *, size: int = 0) -> Iterator[Batch]:
    """Return the tables for one batch of cycles; they are empty at its beginning and at its end.

    Missing `definitions` are created; `texts` get the first codes of `words`. `size` is the size of the files in bytes: small
    batches share the tables of this thread, and those of large files are in a file that is removed at the end. Raises
    `KeyboardInterrupt` for Ctrl-C inside of DuckDB. After an error the next batch has a new database, but not after a
    `UsageError`, which leaves the tables as they should be.
    """
    found = Batch(definitions or Definitions(), texts, size=size)
    refused: UsageError | None = None
    try:
        try:
            yield found
        except UsageError as error:
            # What a user asked for is refused between two statements: the tables are as they should be.
            refused = error
        found.close()
    except BaseException as error:
        # The state of the tables is unknown: the next batch begins with new ones.
        found.drop()
        if is_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise
    if refused is not None:
        raise refused
