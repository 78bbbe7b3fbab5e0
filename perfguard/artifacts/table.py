"""A table: columns of cell texts as a reader found them, before validation."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

#: The largest number of characters of one text in a document or a database: a query keeps several copies of it in memory.
MAX_TEXT = 2 * 1024**2


class Unreadable(Exception):
    """A file cannot be read further than `place`; it becomes finding S101 and never reaches a user."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Cells(Enum):
    """How the text of a cell becomes a JSON value."""

    #: Unquoted text of a CSV-like file: a number if it reads as one and the schema has numbers there, else a string.
    TEXT = "text"
    #: Raw JSON, byte for byte as the file has it; a null cell is an absent key.
    JSON = "json"


#: A number in a text cell: JSON's grammar, with the blanks and the TAB that CANN appends.
NUMBER_TEXT = r"^[ ]*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t]*$"
_NUMBER = re.compile(NUMBER_TEXT)
_NUMERIC_TYPES = frozenset({"integer", "number"})
#: Python does not convert longer texts to integers (sys.int_info).
_MOST_DIGITS = 4300


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of an artifact: `frame` has String columns only; null means that the row has no such cell."""

    frame: pl.DataFrame
    cells: Cells
    #: Line number of every row in a line based file, or None if the rows follow the header one by one.
    lines: Sequence[int] | None = None
    #: JSON path of the array, for JSON cells.
    path: str = "$"
    #: The number of rows, if they are in the tables of the batch only: `frame` has the columns, but no rows.
    streamed: int | None = None

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.frame.height if self.streamed is None else self.streamed

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.frame.columns)

    def digest(self) -> bytes:
        """Return 32 bytes that are the same for equal tables in every process.

        They consist of a hash of the column names, the number of rows, and two sums of a 64-bit hash of each row and its place.
        """
        import polars as pl

        frame = self.frame
        rows = pl.DataFrame({"row": frame.hash_rows(seed=0), "place": pl.int_range(frame.height, eager=True)})
        sums = [int(rows.hash_rows(seed=seed).sum()) % 2**64 for seed in (1, 2)]
        names = hashlib.blake2b("\0".join(frame.columns).encode(), digest_size=8).digest()
        return names + b"".join(number.to_bytes(8, "big") for number in (frame.height, *sums))

    def place(self, row: int) -> str:
        """Return the place of a row (counted from 0): `:7` for line based files, ` $.traceEvents[7]` for JSON."""
        if self.cells is Cells.JSON:
            return f" {self.path}[{row}]"
        return f":{self.lines[row] if self.lines is not None else row + 2}"


def empty_table(columns: Iterable[str], cells: Cells, path: str = "$") -> Table:
    """Return a table of some columns without rows."""
    import polars as pl

    return Table(frame=pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), cells=cells, path=path)


def json_value(text: str) -> Any:
    """Return the value of a JSON text; an integer of more digits than Python converts is infinite."""
    return json.loads(text, parse_int=_whole_number)


def _whole_number(text: str) -> int | float:
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def cell_value(text: str, cells: Cells, types: frozenset[str] | None) -> Any:
    """Return the JSON value of a cell. `types` are the JSON types that its schema names (None: it names none)."""
    if cells is Cells.JSON:
        return json_value(text)
    if types is None or types & _NUMERIC_TYPES:
        number = number_of(text)
        if number is not None:
            return number
    if not text and types is not None and "null" in types:
        return None
    return text


def as_int64(column: pl.Series) -> pl.Series:
    """Turn the text cells of a column that has passed an integer schema into Int64; `3.0` and `1e3` are integers too."""
    import polars as pl

    found = column.str.strip_chars(" \t").cast(pl.Int64, strict=False)
    odd = found.is_null().arg_true()
    if len(odd):
        # No column type has more than 64 bits; null is correct, because schemas bound the columns that are added up.
        values = [number_of(text or "") for text in column.gather(odd).to_list()]
        found = found.scatter(odd, [None if v is None or abs(v) >= 2**63 else int(v) for v in values])
    return found


def in_int64(number: int) -> int:
    """Return the nearest number that a column can be compared with; a damaged steps.json may have any time."""
    return max(-(2**63), min(number, 2**63 - 1))


def number_of(text: str) -> int | float | None:
    """Return the number in a text cell, or None: `1e3`, `-2.5`, `17\\t`; not `007`, `inf`, `nan` or `1_000`."""
    if not _NUMBER.match(text):
        return None
    plain = text.strip(" \t")
    # int() keeps timestamps of 19 digits exact.
    return int(plain) if plain.lstrip("-").isdigit() and len(plain) < 400 else float(plain)


def quantity(column: pl.Series) -> pl.Series:
    """Turn text cells into Float64; other text than a number (blank, N/A) becomes null."""
    import polars as pl

    found = column.cast(pl.Float64, strict=False)
    if found.null_count():
        # Mostly repeated N/A and blanks.
        odd = column.filter(found.is_null()).unique()
        if odd.str.strip_chars(' \t"').cast(pl.Float64, strict=False).null_count() < len(odd):
            return column.str.strip_chars(' \t"').cast(pl.Float64, strict=False)
    return found


def nanoseconds(column: pl.Series, decimals: int = 3) -> pl.Series:
    """Turn times in text (a number in JSON or CSV, a string of one) into exact Int64 nanoseconds.

    A nanosecond is the decimal number `decimals` of the unit: 3 for us, 6 for ms. Digits beyond it are rounded half to
    even; a float64 would lose up to 250 ns of a UNIX time. Other texts (blank, N/A) become null.
    """
    around = '" \t'
    # Most numbers have the same blanks and quotes as the first.
    is_bare = bool(len(column)) and column[0] is not None and column[0] == column[0].strip(around)
    exact, is_plain = _moved_point(column if is_bare else column.str.strip_chars(around), decimals)
    if is_bare and not is_plain.all():
        exact, is_plain = _moved_point(column.str.strip_chars(around), decimals)
    odd = (~is_plain | exact.is_null()).fill_null(False).arg_true()
    if len(odd):
        # Each distinct text once: there may be many blanks and N/A.
        texts = column.gather(odd)
        values = {text: _nanoseconds_of(text, decimals) for text in texts.unique().to_list() if text is not None}
        exact = exact.scatter(odd, [values.get(text) for text in texts.to_list()])
    return exact


def _moved_point(column: pl.Series, decimals: int) -> tuple[pl.Series, pl.Series]:
    """Return decimals without their point, and of which texts they are the nanoseconds for certain."""
    import polars as pl

    # No digit follows the nanoseconds.
    fraction = rf"(\.[0-9]{{1,{decimals}}})?" if decimals else ""
    is_plain = column.str.contains(rf"^-?[0-9]{{1,16}}{fraction}$" if decimals else "^-?[0-9]{1,19}$")
    # They come as an Int128.
    return column.cast(pl.Decimal(38, decimals), strict=False).to_physical().cast(pl.Int64, strict=False), is_plain


def _nanoseconds_of(text: str, decimals: int) -> int | None:
    try:
        exact = Decimal(text.strip('" \t')).scaleb(decimals)
        if exact.is_finite() and exact.adjusted() >= 19:
            # As a whole number 1e99999999 would fill the memory.
            return None
        value = round(exact)
    except (ArithmeticError, ValueError):
        return None
    return value if abs(value) < 2**63 else None


def unquoted(column: str) -> pl.Expr:
    """Return the expression that turns a column of raw JSON strings into their texts."""
    import polars as pl

    # Raw JSON strings; the few with escapes are decoded properly, the rest only lose their quotes.
    return (
        pl.when(pl.col(column).str.contains("\\", literal=True))
        .then(pl.col(column).map_elements(json_value, return_dtype=pl.String))
        .otherwise(pl.col(column).str.slice(1).str.head(-1))
    )
