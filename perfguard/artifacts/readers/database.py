"""SQLite databases that profilers export: only stored data is read, and no code in the database runs.

A database can contain code of its author: views, triggers, virtual tables, generated columns and CHECK constraints. Only the
stored columns of real tables are read, on a connection that may do nothing else.

Source: "SQLite File Format" and "Defense Against The Dark Arts" (sqlite.org); real `ascend_pytorch_profiler_<rank>.db` and
`analysis.db` of torch_npu level 1 (msinsight test data).
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from perfguard.artifacts.readers import MAX_BYTES, Content, open_file
from perfguard.artifacts.table import MAX_TEXT, Cells, Table, Unreadable
from perfguard.opening import is_open_twice

if TYPE_CHECKING:
    import polars as pl

#: The largest number of cells in all tables: as texts they take 30 bytes each, and joining them takes half as much.
MAX_CELLS = 6_000_000
#: The largest number of characters of all texts: a column's default is in the file once, but in every row.
MAX_TEXTS = 48 * 1024**2

#: The limit on instructions of SQLite's virtual machine: a number, and more for every byte of the file. Reading a row takes a
#: few for each column, which has at least one byte in the row's header. A page that refers to itself exceeds the limit.
MAX_INSTRUCTIONS = 5_000_000
MAX_INSTRUCTIONS_PER_BYTE = 30

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_INSTRUCTIONS_BETWEEN_LOOKS = 100_000
#: The number of rows that are fetched together, each with a text of up to MAX_TEXT; and the number converted together.
_FETCHED_ROWS = 32
_BLOCK_ROWS = 8_192
_BLOCK_CHARACTERS = 4 * 1024**2
#: All other actions are refused: no function is called, nothing is written, attached or loaded.
_ALLOWED_ACTIONS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA})
_ALLOWED_PRAGMAS = frozenset(
    {"trusted_schema", "ignore_check_constraints", "cell_size_check", "query_only", "quick_check", "table_xinfo"}
)
#: A stored column of `PRAGMA table_xinfo`; others are hidden columns of virtual tables, or computed.
_STORED = 0
_COMPUTED = (2, 3)


def read_database(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read the tables that the schema names (`properties`: table -> array of rows) and the database has.

    Every cell becomes raw JSON, and NULL becomes None; `document` is `{"tables": [all names]}`. Raises `Unreadable` for a file
    that is not a database, is damaged, has changes in a `-wal` or `-journal` file, or takes too much work; also if one of these
    tables has a BLOB or an infinite number, which JSON cannot represent.
    """
    with open_file(path, sparse=True) as file:
        size = _checked_size(path, file)
        return _read(path, file, size, schema)


def _read(path: Path, file: BinaryIO, size: int, schema: Mapping[str, Any]) -> Content:
    try:
        with contextlib.closing(_opened(path, file)) as database:
            work = _Work(MAX_INSTRUCTIONS + MAX_INSTRUCTIONS_PER_BYTE * size)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
            database.set_progress_handler(work.look, _INSTRUCTIONS_BETWEEN_LOOKS)
            database.set_authorizer(_authorize)
            names = [
                name
                for name, text in database.execute(
                    "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid"
                )
                if isinstance(name, str) and not _statement(name, text).upper().startswith("CREATE VIRTUAL")
            ]
            # Checking a database computes such columns, by any expression.
            for name in names:
                described = database.execute(f"PRAGMA table_xinfo({_quoted(name)})")
                if any(hidden in _COMPUTED for *_, hidden in described):
                    raise Unreadable("the table has computed columns, which no profiler writes", f" {name}")
            # For an intact database, 'ok' is the only row.
            row = database.execute("PRAGMA quick_check(1)").fetchone()
            complaint = str(row[0]) if row else "quick_check returned no row"
            if complaint != "ok":
                raise Unreadable(f"SQLite finds it damaged: {complaint[:200]}")
            usage = _Usage()
            tables = {name: _table(database, name, usage) for name in schema.get("properties", {}) if name in names}
    except sqlite3.DataError as error:
        raise Unreadable(f"a row in it has more than {MAX_TEXT} bytes") from error
    except sqlite3.Error as error:
        if str(error) == "interrupted":
            raise Unreadable(f"reading it takes SQLite too much work for a file of {size} bytes") from error
        raise Unreadable(f"SQLite cannot read it: {error}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"a text in it is not UTF-8: {error.reason}") from error
    return Content(document={"tables": names}, tables=tables)


def _statement(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise Unreadable("the SQL statement of the table is not text", f" {name}")
    return text.lstrip()


def _checked_size(path: Path, file: BinaryIO) -> int:
    """Return the size of a complete database. Raises `Unreadable` for errors that are visible without SQLite."""
    header = file.read(_HEADER_BYTES)
    size = os.fstat(file.fileno()).st_size
    if size > MAX_BYTES:
        raise Unreadable(f"it has {size} bytes, more than the {MAX_BYTES} that are read whole")
    if not size:
        raise Unreadable("it is empty")
    if not header.startswith(_MAGIC):
        raise Unreadable("it is not a SQLite database: it does not begin with 'SQLite format 3'")
    if len(header) < _HEADER_BYTES:
        raise Unreadable("it is cut off inside its header")
    # SQLite itself accepts an incomplete last page.
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if page and size % page:
        raise Unreadable(f"it is cut off: {size} bytes are not a multiple of the page size, {page} bytes")
    for ending in ("-wal", "-journal"):
        beside = path.with_name(path.name + ending)
        # SQLite ignores such a file, and the changes in it, for an immutable database.
        if beside.is_file() and beside.stat().st_size:
            raise Unreadable(f"{beside.name} is in the same folder: its writer has not finished")
    return size


def _opened(path: Path, file: BinaryIO) -> sqlite3.Connection:
    """Open a database that is open as `file`. Raises `Unreadable` if another file is at the path now."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    database = sqlite3.connect(uri, uri=True, isolation_level=None)
    # SQLite follows the path, and has read nothing yet.
    if not is_open_twice(file.fileno()):
        database.close()
        raise Unreadable("it was replaced while it was read")
    for pragma in ("trusted_schema=OFF", "ignore_check_constraints=ON", "cell_size_check=ON", "query_only=ON"):
        database.execute(f"PRAGMA {pragma}")
    return database


class _Work:
    """Counts the instructions of SQLite and interrupts it at a limit: a damaged file can cause an endless loop."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def look(self) -> int:
        """Return 1 to interrupt."""
        self._left -= _INSTRUCTIONS_BETWEEN_LOOKS
        return int(self._left < 0)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    # `source` names the view or trigger that causes it.
    allowed = action in _ALLOWED_ACTIONS and source is None
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _ALLOWED_PRAGMAS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class _Usage:
    """Counts the cells and characters in memory; raises `Unreadable` for too many."""

    def __init__(self) -> None:
        self._cells = self._characters = 0

    def add(self, cells: int, characters: int, table: str) -> None:
        """Count some more."""
        self._cells += cells
        self._characters += characters
        if self._cells > MAX_CELLS:
            raise Unreadable(f"its tables have more than the {MAX_CELLS} cells that are read", f" {table}")
        if self._characters > MAX_TEXTS:
            raise Unreadable(f"its texts have more than the {MAX_TEXTS} characters that are read", f" {table}")


def _table(database: sqlite3.Connection, name: str, usage: _Usage) -> Table:
    import polars as pl

    described = database.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
    columns = [column for _, column, _, _, _, _, hidden in described if hidden == _STORED]
    if not columns:
        raise Unreadable("the table has no stored column", f" {name}")
    query = f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(name)}"
    parts: list[list[pl.Series]] = [[pl.Series(column, [], dtype=pl.String)] for column in columns]
    first = 0
    for cells in _blocks(database.execute(query), name, usage):
        for found, column, one in zip(parts, columns, cells, strict=True):
            found.append(_column(name, column, one, first))
        first += len(cells[0])
    # One column after the other, so that only one of them is in memory twice.
    frame = pl.DataFrame([pl.concat(parts.pop(0), rechunk=True) for _ in columns])
    return Table(frame=frame, cells=Cells.JSON, path=name)


def _blocks(rows: sqlite3.Cursor, table: str, usage: _Usage) -> Iterator[list[list[Any]]]:
    """Yield the columns of some thousand rows at a time, or of fewer rows with long texts."""
    block: list[list[Any]] = []
    characters = 0
    while fetched := rows.fetchmany(_FETCHED_ROWS):
        columns = [*zip(*fetched, strict=True)]
        texts = sum(
            len(cell) for cells in columns if str in map(type, cells) for cell in cells if isinstance(cell, str)
        )
        usage.add(len(fetched) * len(columns), texts, table)
        characters += texts
        block = block or [[] for _ in columns]
        for cells, more in zip(block, columns, strict=True):
            cells += more
        if len(block[0]) >= _BLOCK_ROWS or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _column(table: str, name: str, cells: Sequence[Any], first: int) -> pl.Series:
    """Return stored cells as JSON texts. SQLite does not enforce the declared type of a column: every cell has its own type."""
    import polars as pl

    if {type(cell) for cell in cells} <= {int, type(None)}:
        return pl.Series(name, cells, dtype=pl.Int64).cast(pl.String)
    return pl.Series(name, list(_texts(table, name, cells, first)), dtype=pl.String)


def _texts(table: str, name: str, cells: Sequence[Any], first: int) -> Iterator[str | None]:
    import msgspec

    encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
    for row, cell in enumerate(cells, start=first):
        if isinstance(cell, bytes):
            raise Unreadable(f"{name} holds {len(cell)} bytes of binary data (a BLOB)", f" {table}[{row}]")
        if isinstance(cell, float) and not math.isfinite(cell):
            raise Unreadable(f"{name} is infinite", f" {table}[{row}]")
        yield None if cell is None else encode(cell).decode()
