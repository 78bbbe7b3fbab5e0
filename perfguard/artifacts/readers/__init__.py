"""Readers: bytes -> columns. A reader turns one file of one format family into a `Content`, and checks nothing else.

Input: a path, and the artifact's schema (which names the columns of a trace event). Output: `Content`, its table in cell texts.
For a file that it cannot read, a reader raises `Unreadable` with the place; the contract makes it S101.
To add a format: write `read(path, schema) -> Content` in a module of its own and one line in `READERS`, or in another
distribution with an entry point in `perfguard.readers`.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from perfguard.artifacts.table import MAX_TEXT, Cells, Table, Unreadable
from perfguard.extensions import Registry
from perfguard.opening import NotRegular, Outside, open_regular

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.event_schema import EventSchema

#: Larger files are not read whole.
MAX_BYTES = 2 * 1024**3

#: The largest ratio of the size of a file, unpacked or not, to its size on the disk: gzip shrinks a trace 13 to 20 times, so
#: a much larger ratio is a decompression bomb or a sparse file.
MAX_RATIO = 200
#: The largest number of columns of a table, or of different keys of events of a trace; real ones have up to 1 056.
MAX_COLUMNS = 20_000
#: The largest number of cells of a table that are Python texts before they are columns.
MAX_CELLS = 4_000_000
#: The longest line of a text; the shapes of a fused operator with thousands of inputs take some hundred KiB.
MAX_LINE_BYTES = 14 * 1024**2
#: The largest size of the cells of a text table in memory.
MAX_HELD_BYTES = 96 * 1024**2
#: How many rows of a text table are Python texts at a time.
_BLOCK_ROWS = 16_384
#: How much of a text is read at a time.
BLOCK_BYTES = 1024**2
_SPARSE_FROM = 16 * 1024**2
#: A trace with more objects than the first has at least the second number of bytes for each.
_MANY_OBJECTS, _SHORTEST_EVENT = 10_000, 24

#: The format of files that are only listed, never opened: raw binary data.
OPAQUE = "opaque"
#: The format of traces ("Trace Event Format"), plain or gzip.
TRACE = "chrome-trace"

#: The `document` of a format without documents; JSON's null is a document.
NO_DOCUMENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a file: rows (`table`), a JSON document around or instead of them, or messages of a log."""

    table: Table | None = None
    document: Any = NO_DOCUMENT
    #: Tables by name, of a format that holds many (a database).
    tables: Mapping[str, Table] = field(default_factory=dict)
    #: Of a streamed trace: the JSON path of its events, and their number.
    events_path: str = "$"
    events: int = 0
    #: The same for two traces whose events have the same times.
    digest: bytes = b""
    #: The schema that decoded them; None for other files.
    event_schema: EventSchema | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """The rows. Raises `ValueError` if the format has none."""
        if self.table is None:
            raise ValueError("this artifact has no table")
        return self.table.frame


Reader = Callable[[Path, Mapping[str, Any]], Content]


def open_file(path: Path, *, buffering: int = -1, sparse: bool = False) -> BinaryIO:
    """Open a regular file; raises `Unreadable` for anything else, and unless `sparse` for a file that is mostly holes."""
    try:
        file = open_regular(path, buffering=buffering)
    except (NotRegular, Outside) as error:
        raise Unreadable(f"{error.strerror}") from error
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from error
    found = os.fstat(file.fileno())
    if not sparse and found.st_size > _SPARSE_FROM and found.st_blocks * 512 * MAX_RATIO < found.st_size:
        file.close()
        raise Unreadable(f"it is a sparse file: of {found.st_size} bytes, {found.st_blocks * 512} are on the disk")
    return file


def read_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file whole; raises `Unreadable` for anything else, and for a file that is too large or sparse."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise Unreadable(f"it has {size} bytes, more than the {limit} that are read whole")
        try:
            return file.read(limit)
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from error


def decode_text(raw: bytes) -> str:
    """Decode UTF-8; raises `Unreadable` with the line of the first broken byte."""
    return _decoded(raw, 0, 0)


def text_blocks(path: Path, *, most_bytes: int = MAX_BYTES) -> Iterator[str]:
    """Yield a text in blocks of whole lines, each with its line break.

    Raises `Unreadable` if the text is empty, not UTF-8 or too long, has a line that is too long, or if its last line has no
    line break: all writers of these formats end the last line. Without its end, the file was cut off, maybe in a number.
    """
    with open_file(path) as file:
        position, lines = 0, 0
        while block := file.read(BLOCK_BYTES):
            rest = b"" if block.endswith(b"\n") else file.readline(MAX_LINE_BYTES)
            block += rest
            is_whole = block.endswith(b"\n") or (block.endswith(b"\r") and len(rest) < MAX_LINE_BYTES)
            cut = len(block) if is_whole else block.rfind(b"\n") + 1
            if text := _decoded(block[:cut], position, lines):
                yield text
            position, lines = position + len(block), lines + block.count(b"\n")
            if not is_whole:
                is_long = len(rest) == MAX_LINE_BYTES
                wrong = f"the line has more than {MAX_LINE_BYTES} bytes" if is_long else _CUT_OFF
                raise Unreadable(wrong, f":{lines + 1}")
            if position > most_bytes:
                raise Unreadable(f"it has more than the {most_bytes} bytes that are read of a text")
        if not position:
            raise Unreadable("it is empty")


_CUT_OFF = "its last line is cut off: no line break at the end"


def _decoded(raw: bytes, position: int, lines: int) -> str:
    try:
        return raw.decode("utf-8" if position else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = lines + raw.count(b"\n", 0, error.start) + 1
        what = f"byte {position + error.start} (0x{raw[error.start]:02x}) is not UTF-8"
        raise Unreadable(what, f":{line}") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a table without their line breaks, each with its number.

    Raises `Unreadable` as `text_blocks` does, and for more cells, or more memory for them, than one table may have.
    """
    number = cells = held = 0
    for block in text_blocks(path):
        cells += sum(map(block.count, " \t,;\n"))
        if cells > MAX_CELLS:
            raise Unreadable(f"it has more than the {MAX_CELLS} cells that are read of a text")
        # One character beyond Latin-1 makes all characters of a text two or four bytes long.
        held += len(block) * (1 if block.isascii() else 4)
        if held > MAX_HELD_BYTES:
            raise Unreadable(f"its cells are more than {MAX_HELD_BYTES} bytes")
        for number, line in enumerate(block[:-1].split("\n"), start=number + 1):  # noqa: B020 - it goes on counting
            yield number, line.removesuffix("\r")


def refuse_repeated_names(header: Sequence[str], place: str) -> None:
    """Raise `Unreadable` if two columns have the same name."""
    if repeated := sorted(name for name, count in Counter(header).items() if count > 1):
        raise Unreadable(f"its header names {', '.join(map(repr, repeated))} more than once", place)


def text_table(rows: Iterable[tuple[int, Sequence[str]]], columns: Iterable[str]) -> Table:
    """Return rows of text cells as a table, each given with the number of its line; some thousand are Python texts at a time.

    Raises `Unreadable` for a cell that is too long.
    """
    import polars as pl

    schema = dict.fromkeys(columns, pl.String)
    frames, lines = [pl.DataFrame(schema=schema)], array("q")
    numbered = iter(rows)
    while block := list(islice(numbered, _BLOCK_ROWS)):
        frames.append(pl.DataFrame([row for _, row in block], schema=schema, orient="row"))
        lines.extend(line for line, _ in block)
    frame = pl.concat(frames, rechunk=True)
    refuse_long_cells(frame, lines)
    return Table(frame=frame, cells=Cells.TEXT, lines=lines)


def refuse_long_cells(frame: pl.DataFrame, lines: Sequence[int]) -> None:
    """Raise `Unreadable` if a cell of a table of texts is longer than a text in any table may be."""
    for column in frame:
        sizes = column.str.len_bytes()
        if (at := sizes.arg_max()) is not None and sizes[at] > MAX_TEXT:
            what = f"{column.name} has {sizes[at]} bytes, more than the {MAX_TEXT} that are read"
            raise Unreadable(what, f":{lines[at]}")


def refuse_short_events(objects: int, size: int) -> None:
    """Raise `Unreadable` if a text has more objects than events of a trace can be: empty objects need much memory."""
    if objects > _MANY_OBJECTS and size < _SHORTEST_EVENT * objects:
        raise Unreadable(f"it has {objects} objects in {size} bytes: no event of a trace is that short")


#: The readers of files that are read whole; CSV files are streamed, see `csv_stream`.
READERS: Registry[Reader] = Registry(
    "readers",
    {
        "whitespace": "perfguard.artifacts.readers.whitespace:read_whitespace",
        "gpu-op-timestamps": "perfguard.artifacts.readers.semicolon:read_gpu_timestamps",
        "gpu-activity-timestamps": "perfguard.artifacts.readers.semicolon:read_activity_timestamps",
        "gpu-step-points": "perfguard.artifacts.readers.semicolon:read_step_points",
        "cpu-op-timestamps": "perfguard.artifacts.readers.semicolon:read_timestamps",
        "cpu-framework": "perfguard.artifacts.readers.semicolon:read_framework",
        TRACE: "perfguard.artifacts.readers.trace:read_trace",
        "json": "perfguard.artifacts.readers.document:read_json",
        "log": "perfguard.artifacts.readers.document:read_log",
        "ragged": "perfguard.artifacts.readers.comma:read_ragged",
        "columns": "perfguard.artifacts.readers.whitespace:read_columns",
        "tfrecord": "perfguard.artifacts.readers.summary:read_records",
        "ir": "perfguard.artifacts.readers.graph:read_ir",
        "tracker-graph": "perfguard.artifacts.readers.tracker:read_tracker_graph",
        "dot": "perfguard.artifacts.readers.graph:read_dot",
        "snapshot": "perfguard.artifacts.readers.pickled:read_snapshot",
        "sqlite": "perfguard.artifacts.readers.database:read_database",
    },
)
