"""Source: the bytes of a file from front to back, unpacked where it is in gzip."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from perfguard.artifacts.readers import MAX_RATIO, open_file
from perfguard.artifacts.table import Unreadable

_BLOCK_BYTES = 1024**2


def read_plain(path: Path, *, most_bytes: int) -> bytes | None:
    """Read a file whole, unpacked; None if it has more than so many bytes. Raises `Unreadable` as a `Source` does."""
    found, block = io.BytesIO(), memoryview(bytearray(_BLOCK_BYTES))
    with Source.open(path) as source:
        if source.size > most_bytes:
            return None
        while count := source.read_into(block):
            if source.position > most_bytes:
                return None
            found.write(block[:count])
    return found.getvalue()


@dataclass(slots=True, kw_only=True, eq=False)
class Source:
    """A file that is read once, from front to back: `size` is its length on the disk, `position` how much of it is unpacked."""

    path: Path
    file: IO[bytes]
    plain: IO[bytes]
    size: int
    #: Called with the bytes that were read on the disk since it was called last.
    report: Callable[[int], None] | None = None
    position: int = 0
    _reported: int = field(default=0)

    @classmethod
    def open(cls, path: Path, report: Callable[[int], None] | None = None) -> Source:
        """Open a plain file, or one in gzip; raises `Unreadable` for what is no regular file, or a hole."""
        file = open_file(path, buffering=0)
        plain: Any = file
        if path.suffix == ".gz":
            from isal import igzip

            plain = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
        return cls(path=path, file=file, plain=plain, size=os.fstat(file.fileno()).st_size, report=report)

    def read_into(self, view: memoryview) -> int:
        """Fill `view` as far as the file goes and return how many bytes that were; 0 at the end."""
        from isal import igzip_lib

        filled = 0
        try:
            while filled < len(view):
                count = self.plain.readinto(view[filled:])  # type: ignore[attr-defined]
                if not count:
                    break
                filled += count
        except (igzip_lib.IsalError, EOFError, zlib.error, OSError, OverflowError) as error:  # type: ignore[misc]
            # Of a damaged stream igzip raises an error of its own, and of a header beyond its buffer an `OverflowError`.
            raise Unreadable(
                f"it is not whole gzip: {error} (after {self.position + filled} bytes unpacked)"
            ) from error
        self.position += filled
        if self.position > max(self.size * MAX_RATIO, 1024**2) and self.plain is not self.file:
            raise Unreadable(f"it unpacks to more than {MAX_RATIO} times its size")
        if self.report is not None:
            at = self.file.tell()
            self.report(at - self._reported)
            self._reported = at
        return filled

    def refuse_growth(self) -> None:
        """Raise `Unreadable` where the file has another length now than when it was opened."""
        now = os.fstat(self.file.fileno()).st_size
        if now != self.size:
            how = "grew" if now > self.size else "shrank"
            raise Unreadable(f"it {how} from {self.size} to {now} bytes while it was read: it is still being written")

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.plain.close()
        self.file.close()
