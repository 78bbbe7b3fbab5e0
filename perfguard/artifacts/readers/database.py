"""SQLite databases that the profilers export: read as what they store, never as what they could make SQLite do.

A database is a program as well: views, triggers, virtual tables, generated columns and CHECK constraints are code of
whoever wrote it. Only rows of real tables are read, only their stored columns, on a connection that may do nothing else.

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
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from perfguard.artifacts.readers import MAX_BYTES, Content, read_start
from perfguard.artifacts.table import Cells, Table, Unreadable

if TYPE_CHECKING:
    import polars as pl

#: How many cells of all tables are read: as texts they take 30 bytes each, and to join them takes half as much.
MAX_CELLS = 6_000_000
#: How many characters one text may have, and all of them: a column's default is in the file once, and in every row.
MAX_TEXT = 2 * 1024**2
MAX_TEXTS = 48 * 1024**2

#: SQLite's virtual machine may take this many instructions and this many more for every byte of the file: reading a row
#: takes a few a column, and a column has at least its byte in the row's header. A page that leads back to itself takes more.
MAX_INSTRUCTIONS = 5_000_000
MAX_INSTRUCTIONS_PER_BYTE = 30

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_INSTRUCTIONS_BETWEEN_LOOKS = 100_000
#: How many rows are fetched at a time, each of which may have a text of MAX_TEXT; and how many become texts together.
_FETCHED_ROWS = 32
_BLOCK_ROWS = 8_192
_BLOCK_CHARACTERS = 4 * 1024**2
#: Everything else is refused: no function is called, nothing is written, attached or loaded.
_ALLOWED_ACTIONS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA})
_ALLOWED_PRAGMAS = frozenset(
    {"trusted_schema", "ignore_check_constraints", "cell_size_check", "query_only", "quick_check", "table_xinfo"}
)
#: A stored column of `PRAGMA table_xinfo`; others are hidden columns of virtual tables, or computed.
_STORED = 0
_COMPUTED = (2, 3)


def read_database(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read the tables that the schema names (`properties`: table -> array of rows) and the database has.

    Every cell becomes raw JSON, a NULL becomes no cell; `document` is `{"tables": [all names]}`. Raises `Unreadable` for what
    is no database, is damaged, has changes in a `-wal` or `-journal` beside it, needs unreasonable work, or holds in one of
    these tables a BLOB or an infinite number, which JSON cannot say.
    """
    size = _checked_size(path)
    try:
        with contextlib.closing(_opened(path)) as database:
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
            # Checking a database computes such columns, and what they compute may be anything.
            for name in names:
                described = database.execute(f"PRAGMA table_xinfo({_quoted(name)})")
                if any(hidden in _COMPUTED for *_, hidden in described):
                    raise Unreadable("the table has computed columns, which no profiler writes", f" {name}")
            # 'ok' is the only row of a whole database.
            row = database.execute("PRAGMA quick_check(1)").fetchone()
            complaint = str(row[0]) if row else "quick_check returned no row"
            if complaint != "ok":
                raise Unreadable(f"SQLite finds it damaged: {complaint[:200]}")
            held = _Held()
            tables = {name: _table(database, name, held) for name in schema.get("properties", {}) if name in names}
    except sqlite3.DataError as error:
        raise Unreadable(f"a row in it has more than {MAX_TEXT} bytes") from error
    except sqlite3.Error as error:
        if str(error) == "interrupted":
            raise Unreadable(f"reading it takes SQLite more work than {size} bytes are worth") from error
        raise Unreadable(f"SQLite cannot read it: {error}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"a text in it is not UTF-8: {error.reason}") from error
    return Content(document={"tables": names}, tables=tables)


def _statement(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise Unreadable("the statement that made the table is no text", f" {name}")
    return text.lstrip()


def _checked_size(path: Path) -> int:
    """Return the size of what looks like a whole database; nothing is left to SQLite that can be seen before."""
    header = read_start(path, _HEADER_BYTES)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise Unreadable(f"it has {size} bytes, more than the {MAX_BYTES} that are read whole")
    if not size:
        raise Unreadable("it is empty")
    if not header.startswith(_MAGIC):
        raise Unreadable("it is not a SQLite database: its first bytes are others")
    if len(header) < _HEADER_BYTES:
        raise Unreadable("it is cut off inside its header")
    # SQLite itself takes a last page that is only half there.
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if page and size % page:
        raise Unreadable(f"it is cut off: {size} bytes are no whole number of pages of {page} bytes")
    for ending in ("-wal", "-journal"):
        beside = path.with_name(path.name + ending)
        # Opened as immutable, SQLite would leave out what was written there and not yet here.
        if beside.is_file() and beside.stat().st_size:
            raise Unreadable(f"{beside.name} is in the same folder: its writer has not finished")
    return size


def _opened(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    database = sqlite3.connect(uri, uri=True, isolation_level=None)
    for pragma in ("trusted_schema=OFF", "ignore_check_constraints=ON", "cell_size_check=ON", "query_only=ON"):
        database.execute(f"PRAGMA {pragma}")
    return database


class _Work:
    """Counts what SQLite does and stops it beyond a limit: a damaged file can lead it in circles."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def look(self) -> int:
        """Return 1 to interrupt."""
        self._left -= _INSTRUCTIONS_BETWEEN_LOOKS
        return int(self._left < 0)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    # `source` names the view or trigger that wants it.
    allowed = action in _ALLOWED_ACTIONS and source is None
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _ALLOWED_PRAGMAS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class _Held:
    """Counts what is held of a database; raises `Unreadable` where that is too much."""

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


def _table(database: sqlite3.Connection, name: str, held: _Held) -> Table:
    import polars as pl

    described = database.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
    columns = [column for _, column, _, _, _, _, hidden in described if hidden == _STORED]
    if not columns:
        raise Unreadable("the table has no stored column", f" {name}")
    query = f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(name)}"
    parts: list[list[pl.Series]] = [[pl.Series(column, [], dtype=pl.String)] for column in columns]
    first = 0
    for cells in _blocks(database.execute(query), name, held):
        for found, column, one in zip(parts, columns, cells, strict=True):
            found.append(_column(name, column, one, first))
        first += len(cells[0])
    # One column after the other, so that only one of them is there twice.
    frame = pl.DataFrame([pl.concat(parts.pop(0), rechunk=True) for _ in columns])
    return Table(frame=frame, cells=Cells.JSON, path=name)


def _blocks(rows: sqlite3.Cursor, table: str, held: _Held) -> Iterator[list[list[Any]]]:
    """Yield the columns of some thousand rows at a time, or of fewer where their texts are long."""
    block: list[list[Any]] = []
    characters = 0
    while fetched := rows.fetchmany(_FETCHED_ROWS):
        columns = [*zip(*fetched, strict=True)]
        texts = sum(
            len(cell) for cells in columns if str in map(type, cells) for cell in cells if isinstance(cell, str)
        )
        held.add(len(fetched) * len(columns), texts, table)
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
    """Turn what SQLite stored into JSON texts. A column's declared type binds nobody: every cell has its own."""
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
