"""Readers: bytes -> columns. A reader turns one file of one format family into a `Content`, and checks nothing else.

Input: a path, and the artifact's schema (which names the columns of a trace event). Output: `Content`, its table in cell texts.
For a file that it cannot read, a reader raises `Unreadable` with the place; the contract makes it S101.
To add a format: write `read(path, schema) -> Content` in a module of its own and one line in `READERS`, or in another
distribution with an entry point in `perfguard.readers`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from perfguard.artifacts.table import Cells, Table, Unreadable
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


def read_start(path: Path, limit: int) -> bytes:
    """Read the first `limit` bytes of a regular file; raises `Unreadable` for anything else."""
    with open_file(path, sparse=True) as file:
        return _read(file, limit)


def _read(file: BinaryIO, limit: int) -> bytes:
    try:
        return file.read(limit)
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from error


def read_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file whole; raises `Unreadable` for anything else, and for a file that is too large or sparse."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise Unreadable(f"it has {size} bytes, more than the {limit} that are read whole")
        return _read(file, limit)


def decode_text(raw: bytes) -> str:
    """Decode UTF-8; raises `Unreadable` with the line of the first broken byte."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8", f":{line}") from error


def read_text(path: Path) -> str:
    """Read a text whole, with its line breaks; raises `Unreadable` if it is empty or its last line has no line break.

    All writers of these formats end the last line: without its end, the file was cut off, maybe in the middle of a number.
    """
    text = decode_text(read_bytes(path))
    if not text:
        raise Unreadable("it is empty")
    if not text.endswith(("\n", "\r")):
        raise Unreadable("its last line is cut off: no line break at the end", f":{text.count(chr(10)) + 1}")
    return text


def read_cells(path: Path) -> str:
    """Read the text of a table, as `read_text` does; also raises `Unreadable` for too many cells."""
    text = read_text(path)
    cells = sum(map(text.count, " \t,;\n"))
    if cells > MAX_CELLS:
        raise Unreadable(f"it has about {cells} cells, more than the {MAX_CELLS} that are read whole")
    return text


def refuse_repeated_names(header: Sequence[str], place: str) -> None:
    """Raise `Unreadable` if two columns have the same name."""
    if repeated := sorted(name for name, count in Counter(header).items() if count > 1):
        raise Unreadable(f"its header names {', '.join(map(repr, repeated))} more than once", place)


def text_table(rows: Iterable[Sequence[str]], columns: Iterable[str], lines: Iterable[int]) -> Table:
    """Return rows of text cells as a table; `lines` are the numbers of their lines."""
    import polars as pl

    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(columns, pl.String), orient="row")
    return Table(frame=frame, cells=Cells.TEXT, lines=tuple(lines))


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
        "sqlite": "perfguard.artifacts.readers.database:read_database",
    },
)
