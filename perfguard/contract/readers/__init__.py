"""Readers: bytes -> columns. A reader turns one file of one format family into a `Content`, and judges nothing else.

What goes in: a path, and the artifact's schema (which names the columns of a trace event). What comes out: `Content`, its
table in cell texts. What the file cannot be read as is raised as `Unreadable` with the place; the contract makes it S101.
To add a format: write `read(path, schema) -> Content` in a module of its own and one line in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard.contract.table import Table, Unreadable

if TYPE_CHECKING:
    import polars as pl

#: Files above this are not read whole; what would hold them is the streaming reader of a later version.
MAX_BYTES = 2 * 1024**3


#: What a format without a document has; JSON's null is a document.
NO_DOCUMENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds: rows (`table`), a JSON document around or instead of them, or only lines nobody parses."""

    table: Table | None = None
    document: Any = NO_DOCUMENT

    @property
    def frame(self) -> pl.DataFrame:
        """The rows; raises when the format has none."""
        if self.table is None:
            raise ValueError("this artifact has no table")
        return self.table.frame


Reader = Callable[[Path, Mapping[str, Any]], Content]


def read_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file whole; raises `Unreadable` for anything else."""
    if not path.is_file():
        raise Unreadable("it is not a regular file")
    size = path.stat().st_size
    if size > limit:
        raise Unreadable(f"it has {size} bytes, more than the {limit} that are read whole")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from error


def decode_text(raw: bytes) -> str:
    """Decode UTF-8; raises `Unreadable` with the line of the first broken byte."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8", f":{line}") from error


def _reader(module: str, function: str) -> Reader:
    # Looked up when used: `perfguard check` of a CSV need not load the trace reader.
    def read(path: Path, schema: Mapping[str, Any]) -> Content:
        from importlib import import_module

        found: Reader = getattr(import_module(f"perfguard.contract.readers.{module}"), function)
        return found(path, schema)

    return read


READERS: dict[str, Reader] = {
    "csv": _reader("comma", "read_csv"),
    "cpu-op-timestamps": _reader("semicolon", "read_timestamps"),
    "cpu-framework": _reader("semicolon", "read_framework"),
    "chrome-trace": _reader("trace", "read_trace"),
    "json": _reader("document", "read_json"),
    "log": _reader("document", "read_log"),
}
