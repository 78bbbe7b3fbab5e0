"""CSV streams: comma separated tables read in blocks of a few MB. Every row is validated, and no table is held as a whole.

A block ends at a line end and is split into lines. A line that matches the `grammar` of the schema is valid; `RowSchema`
validates the other lines. If a line is not a row (a line break inside quotation marks, a lone carriage return), or the table is
small, the csv module reads the block. So the verdict is that of a table read as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.grammar import REGULAR_LINE, Grammar, grammar_of, line_of
from perfguard.artifacts.readers import open_file, refuse_repeated_names
from perfguard.artifacts.readers.comma import header_of, rows_of, wrong_length
from perfguard.artifacts.schema import SHOWN_VIOLATIONS, RowError, RowSchema, documents_in_cells
from perfguard.artifacts.table import MAX_TEXT, Cells, Table, Unreadable, as_int64, nanoseconds, quantity

if TYPE_CHECKING:
    import polars as pl

#: By format of a CSV file: whether its cells, also of the header, may have blanks around them, which are taken off.
FORMATS = {"csv": False, "csv-spaced": True}
_BLANKS = " \t"
#: How much is read at a time. Larger blocks leave the processor's caches, smaller ones cost more calls.
BLOCK_BYTES = 4 * 1024**2
#: To make a grammar takes longer than to parse this much without one.
GRAMMAR_FROM = 1024**2
#: How long one row may be; the shapes of a fused operator with thousands of inputs take some hundred KiB.
LONGEST_ROW = MAX_TEXT

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
_NO_END = "unexpected end of data"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Some valid rows of a table that goes by: text cells of the columns that were asked for."""

    frame: pl.DataFrame
    #: How many rows came before, and the line each of these begins in.
    first: int
    lines: Sequence[int]
    #: A number for each of them that rows with the same cells have, and hardly any others.
    prints: Callable[[], pl.Series]
    _known: dict[tuple[str, str], pl.Series] = field(default_factory=dict)

    def nanoseconds(self, column: str) -> pl.Series:
        """Return a column of microseconds as exact nanoseconds, see `table.nanoseconds`."""
        return self._converted(column, nanoseconds)

    def whole_numbers(self, column: str) -> pl.Series:
        """Return a column as Int64, see `table.as_int64`."""
        return self._converted(column, as_int64)

    def quantity(self, column: str) -> pl.Series:
        """Return a column as Float64, null for what is no number (N/A, blank)."""
        return self._converted(column, quantity)

    def _converted(self, column: str, convert: Callable[[pl.Series], pl.Series]) -> pl.Series:
        # A column may be asked for more than once; it is converted once.
        key = (column, convert.__name__)
        if key not in self._known:
            self._known[key] = convert(self.frame[column])
        return self._known[key]


@dataclass(slots=True, kw_only=True)
class Streamed:
    """What was found in a table that went by."""

    header: tuple[str, ...] = ()
    #: How many rows there were, and how many of them break the schema.
    rows: int = 0
    broken: int = 0
    #: What is wrong with the first of them, and with the documents inside cells, each with the line of its row.
    errors: list[tuple[int, RowError]] = field(default_factory=list)
    documents: list[tuple[int, RowError]] = field(default_factory=list)
    #: The first rows that were left out because cells are missing (line, message), and how many there were.
    short_rows: list[tuple[int, str]] = field(default_factory=list)
    short: int = 0
    #: Where reading ended before the end, and why.
    unreadable: Unreadable | None = None


def read_header(path: Path, *, is_spaced: bool = False) -> tuple[str, ...]:
    """Return the names of the columns. Raises `Unreadable` for an empty or cut off file, and for what is no header."""
    source = _Source(path, is_spaced=is_spaced)
    try:
        return source.header()[0]
    finally:
        source.file.close()


def stream_csv(
    path: Path,
    schema: Mapping[str, Any],
    rules: Mapping[str, Any],
    columns: Sequence[str],
    consume: Callable[[Rows], None],
    *,
    is_spaced: bool = False,
) -> Streamed:
    """Validate every row of a table with the row schema `schema` of the document `rules`, and show them to `consume`.

    `consume` gets the cells of `columns` (of those that are there) a block at a time; no more from the first row on that breaks
    the schema. Never raises for what is in the file: the result says how far it could be read.
    """
    found = Streamed()
    try:
        source = _Source(path, is_spaced=is_spaced)
    except Unreadable as error:
        found.unreadable = error
        return found
    try:
        header, body, line = source.header()
        found.header = header
        _Pass(header=header, schema=schema, rules=rules, columns=columns, consume=consume, found=found).go(
            source, body, line
        )
    except Unreadable as error:
        found.unreadable = error
    finally:
        source.file.close()
    return found


class _Source:
    """The bytes of one file, as far as it reached when it was opened."""

    def __init__(self, path: Path, *, is_spaced: bool) -> None:
        self.file = open_file(path)
        self.is_spaced = is_spaced
        self._status = os.fstat(self.file.fileno())
        self._left = self._status.st_size

    def header(self) -> tuple[tuple[str, ...], bytes, int]:
        """Return the header, what of the first block lies behind it, and how many lines it takes."""
        block = self.take(0)
        if not block:
            raise Unreadable("it is empty")
        block = block.removeprefix(_BYTE_ORDER_MARK)
        try:
            header, lines = _header_of(block)
        except Unreadable:
            _refuse_cut(block, 0)
            raise
        ends = [match.end() for match in islice(_LINE_BREAK.finditer(block), lines)]
        if len(ends) < lines:
            _refuse_cut(block, 0)
        if self.is_spaced:
            header = [name.strip(_BLANKS) for name in header]
            refuse_repeated_names(header, ":1")
        return tuple(header), block[ends[-1] :], lines

    def take(self, line: int) -> bytes:
        """Return the next whole lines, behind the `line` lines before them; nothing at the end."""
        if not self._left:
            return b""
        data = self.file.read(min(BLOCK_BYTES, self._left))
        if data and not data.endswith(b"\n"):
            data += self.file.readline(min(LONGEST_ROW, self._left - len(data)))
        self._left -= len(data)
        if self._left and not data.endswith(b"\n"):
            self.refuse_change()
            begins = line + data.count(b"\n") + 1
            raise Unreadable(f"the row has more than {LONGEST_ROW} bytes", f":{begins}")
        return data

    def is_at_end(self) -> bool:
        return not self._left

    def refuse_change(self) -> None:
        """Raise `Unreadable` if the file has changed since it was opened."""
        now = os.fstat(self.file.fileno())
        before = self._status.st_size
        if now.st_size != before:
            raise Unreadable(
                f"it had {before} bytes when reading began, and has {now.st_size} now: it is still being written"
            )
        if now.st_mtime_ns != self._status.st_mtime_ns:
            raise Unreadable("it was written to while it was read")


class _Pass:
    """One pass over the blocks of a table."""

    def __init__(
        self,
        *,
        header: Sequence[str],
        schema: Mapping[str, Any],
        rules: Mapping[str, Any],
        columns: Sequence[str],
        consume: Callable[[Rows], None],
        found: Streamed,
    ) -> None:
        self._header = list(header)
        self._rules = RowSchema(schema, rules)
        # A text cell is never missing, so single columns can be asked of without the others.
        self._rules_of_cells = RowSchema({key: one for key, one in schema.items() if key != "required"}, rules)
        self._grammar: Grammar | None = None
        self._fitting = line_of(len(header))
        self._pads = "x-short-rows" in rules
        self._columns = [name for name in self._header if name in columns]
        self._consume = consume
        self._found = found
        named = schema.get("properties", {})
        self._documents = {"properties": {n: named[n] for n in header if "contentSchema" in named.get(n, {})}}
        self._reported: set[str] = set()

    def go(self, source: _Source, body: bytes, line: int) -> None:
        """Look at every block; raises `Unreadable` where it cannot go on."""
        block = body
        while True:
            if source.is_at_end() and block and not block.endswith((b"\n", b"\r")):
                cut = block.rfind(b"\n") + 1
                self._block(block[:cut], line, source)
                source.refuse_change()
                _refuse_cut(block, line)
            line, rest = self._block(block, line, source)
            if source.is_at_end():
                break
            block = rest + source.take(line + rest.count(b"\n"))
            # Twice as much each time, so that a long cell is not read over and over again.
            while len(block) < min(2 * len(rest), LONGEST_ROW) and not source.is_at_end():
                block += source.take(line + block.count(b"\n"))
        source.refuse_change()

    def _block(self, block: bytes, line: int, source: _Source) -> tuple[int, bytes]:
        """Look at a block that lies behind `line` lines; return how many lines were read, and what belongs to the next block.

        That is a row whose last cell goes on there: within quotation marks a line break ends no row.
        """
        if not block:
            return line, b""
        # The grammar is that of cells without blanks around them.
        if self._grammar is None and len(block) >= GRAMMAR_FROM and not source.is_spaced:
            self._grammar = grammar_of(self._header, self._rules)
        lines = self._lines(block, line, source) if self._grammar is not None and len(self._header) > 1 else None
        if lines is None or self._grammar is None or not self._regular_block(self._grammar, block, lines, line):
            return self._irregular_block(block, line, source)
        return line + len(lines), b""

    def _lines(self, block: bytes, line: int, source: _Source) -> pl.Series | None:
        """Split a block into lines, null for blank ones; None where that is not to be had."""
        import polars as pl

        if block.startswith(_BYTE_ORDER_MARK):
            # polars would leave it out.
            return None
        try:
            frame = pl.read_csv(block, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String})
        except pl.exceptions.PolarsError:
            self._refuse_bytes(block, line, source)
            return None
        lines = frame["line"]
        # Every byte is in a line or in a line break of one kind (counting the line breaks would cost ten times as much).
        breaks = len(block) - (lines.str.len_bytes().sum() or 0)
        return lines if breaks == len(lines) or (breaks == 2 * len(lines) and b"\r" in block) else None

    def _refuse_bytes(self, block: bytes, line: int, source: _Source) -> None:
        """Raise `Unreadable` where bytes are no UTF-8, once the lines before them have been looked at."""
        try:
            block.decode()
        except UnicodeDecodeError as error:
            self._block(block[: block.rfind(b"\n", 0, error.start) + 1], line, source)
            place = line + block.count(b"\n", 0, error.start) + 1
            raise Unreadable(f"byte 0x{block[error.start]:02x} is not UTF-8", f":{place}") from error

    # -- lines that each are a row -------------------------------------------------------------------------------

    def _regular_block(self, grammar: Grammar, block: bytes, lines: pl.Series, line: int) -> bool:
        """Look at a block whose lines stand alone; return False, and leave all as it was, where they do not."""
        import polars as pl

        proven = lines.str.contains(grammar.pattern).fill_null(False)
        if grammar.is_open:
            proven = pl.repeat(False, len(lines), dtype=pl.Boolean, eager=True)
        refused: set[int] = set()
        if not proven.all():
            odd = (~proven).arg_true()
            texts = lines.gather(odd)
            if not texts.str.contains(REGULAR_LINE).fill_null(False).all():
                return False
            fits = texts.str.contains(self._fitting)
            if not fits.all():
                return self._block_with_misfits(lines, odd.filter(~fits), line)
            rows = odd.to_list()
            refused = {rows[row] for row in self._rules.invalid_rows(self._table(texts))}
        if grammar.open_columns:
            cells = self._cells(block, grammar.open_columns)
            refused |= set(self._rules_of_cells.invalid_rows(Table(frame=cells, cells=Cells.TEXT)))
            self._look_into(cells, range(line + 1, line + 1 + len(lines)))
        self._report(
            sorted(refused), range(line + 1, line + 1 + len(lines)), lambda rows: self._table(lines.gather(list(rows)))
        )
        self._show(
            lambda: self._cells(block, self._columns),
            range(line + 1, line + 1 + len(lines)),
            lambda: _prints(lines),
        )
        return True

    def _block_with_misfits(self, lines: pl.Series, misfits: pl.Series, line: int) -> bool:
        """Look at lines of which some have not as many cells as the header: they are left out, or reading ends there."""
        import polars as pl

        for row in misfits:
            cells, _ = next(rows_of(lines[row]))
            if not self._pads or len(cells) > len(self._header):
                before = lines.head(row)
                self._rows(self._table(before).frame, range(line + 1, line + 1 + row))
                raise Unreadable(wrong_length(cells, self._header), f":{line + 1 + row}")
            self._leave_out(line + 1 + row, wrong_length(cells, self._header))
        kept = pl.Series(range(len(lines))).filter(~pl.Series(range(len(lines))).is_in(misfits.implode()))
        self._rows(self._table(lines.gather(kept)).frame, [line + 1 + row for row in kept])
        return True

    def _leave_out(self, line: int, message: str) -> None:
        self._found.short += 1
        if self._found.short <= SHOWN_VIOLATIONS:
            self._found.short_rows.append((line, message))

    def _table(self, lines: pl.Series) -> Table:
        """Return regular lines as a table of text cells."""
        text = "\n".join([*lines.to_list(), ""])
        return Table(frame=self._cells(text.encode(), self._header), cells=Cells.TEXT)

    def _cells(self, block: bytes, columns: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        if not block:
            return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
        places = [self._header.index(name) for name in columns]
        # The names are given as numbers: polars reads columns in the order of the file.
        schema = {str(place): pl.String for place in range(len(self._header))}
        frame = pl.read_csv(block, has_header=False, columns=places, schema=schema)
        frame = frame.rename({str(place): name for place, name in zip(places, columns, strict=True)})
        blank = [name for name in columns if frame[name].null_count()]
        return frame.with_columns(pl.col(blank).fill_null("")) if blank else frame

    # -- lines that may not --------------------------------------------------------------------------------------

    def _irregular_block(self, block: bytes, line: int, source: _Source) -> tuple[int, bytes]:
        """Look at a block as the csv module reads it; return what `_block` does."""
        import polars as pl

        kept, lines = [], []
        begins = line
        unreadable: Unreadable | None = None
        try:
            for row, end in rows_of(_decoded(block, line), line):
                if len(row) == len(self._header):
                    kept.append(row)
                    lines.append(begins + 1)
                elif self._pads and len(row) < len(self._header):
                    self._leave_out(begins + 1, wrong_length(row, self._header))
                else:
                    raise Unreadable(wrong_length(row, self._header), f":{begins + 1}")
                begins = end
        except Unreadable as error:
            unreadable = error
        frame = pl.DataFrame(kept, schema=dict.fromkeys(self._header, pl.String), orient="row")
        self._rows(frame.with_columns(pl.all().str.strip_chars(_BLANKS)) if source.is_spaced else frame, lines)
        if unreadable is None:
            return begins, b""
        if not unreadable.message.endswith(_NO_END) or source.is_at_end():
            raise unreadable
        rest = block[_end_of_line(block, begins - line) :]
        if len(rest) > LONGEST_ROW:
            message = f"the row has more than {LONGEST_ROW} bytes: no quotation mark ends the cell"
            raise Unreadable(message, f":{begins + 1}")
        return begins, rest

    def _rows(self, frame: pl.DataFrame, lines: Sequence[int]) -> None:
        """Look at rows whose cells are known."""
        table = Table(frame=frame, cells=Cells.TEXT)
        self._look_into(frame, lines)
        self._report(
            self._rules.invalid_rows(table), lines, lambda rows: Table(frame=frame[list(rows)], cells=Cells.TEXT)
        )
        self._show(lambda: frame.select(self._columns), lines, lambda: _prints_of(frame))

    # -- what comes of it ----------------------------------------------------------------------------------------

    def _report(self, refused: Sequence[int], lines: Sequence[int], table_of: Callable[[Sequence[int]], Table]) -> None:
        """Add the errors of the first rows that violate the schema, and count all."""
        left = max(SHOWN_VIOLATIONS - self._found.broken, 0)
        shown = refused[:left]
        self._found.broken += len(refused)
        if shown:
            for error in self._rules.errors(table_of(shown), range(len(shown))):
                self._found.errors.append((lines[shown[error.row]], error))

    def _look_into(self, cells: pl.DataFrame, lines: Sequence[int]) -> None:
        """Check the documents inside cells; each text is reported once."""
        if not self._documents["properties"] or len(self._found.documents) >= SHOWN_VIOLATIONS:
            return
        for error in documents_in_cells(Table(frame=cells, cells=Cells.TEXT), self._documents):
            text = f"{error.path} {cells[error.path.removeprefix('$.')][error.row]}"
            if text not in self._reported and len(self._found.documents) < SHOWN_VIOLATIONS:
                self._reported.add(text)
                self._found.documents.append((lines[error.row], error))

    def _show(
        self,
        cells: Callable[[], pl.DataFrame],
        lines: Sequence[int],
        prints: Callable[[], pl.Series],
    ) -> None:
        """Pass rows to `consume` as long as all are valid."""
        first = self._found.rows
        self._found.rows += len(lines)
        if self._columns and len(lines) and not self._found.broken and not self._found.documents:
            self._consume(Rows(frame=cells(), first=first, lines=lines, prints=prints))


def _prints(lines: pl.Series) -> pl.Series:
    # Quotation marks only say where a cell ends.
    return lines.str.replace_all('"', "", literal=True).hash().reinterpret(signed=True)


def _prints_of(frame: pl.DataFrame) -> pl.Series:
    import polars as pl

    return _prints(frame.select(pl.concat_str(pl.all(), separator=",")).to_series())


def _header_of(block: bytes) -> tuple[list[str], int]:
    """Return the header that a block begins with, and how many lines it takes; mostly the first line is all that is needed."""
    first = block[: block.find(b"\n") + 1]
    if first:
        try:
            return header_of(_decoded(first, 0))
        except Unreadable as error:
            if not error.message.endswith(_NO_END):
                raise
    return header_of(_decoded(block, 0))


def _end_of_line(block: bytes, lines: int) -> int:
    """Return where so many lines of a block of whole lines end."""
    if block.count(b"\r") == block.count(b"\r\n"):
        # Few are left.
        end = len(block)
        for _ in range(block.count(b"\n") - lines):
            end = block.rfind(b"\n", 0, end - 1) + 1
        return end
    ends = (match.end() for match in _LINE_BREAK.finditer(block))
    return next(islice(ends, lines - 1, None)) if lines else 0


def _decoded(block: bytes, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        place = line + block.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"byte 0x{block[error.start]:02x} is not UTF-8", f":{place}") from error


def _refuse_cut(block: bytes, line: int) -> None:
    if not block.endswith((b"\n", b"\r")):
        place = line + block.count(b"\n") + 1
        raise Unreadable("its last line is cut off: no line break at the end", f":{place}")
