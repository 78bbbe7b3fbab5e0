"""Mutants: changes of one file each, kept as bytes, so that they stay the same when the code that found them does not."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).parent / "data" / "mutants.json.xz"

#: Files of one length are compared in pieces of so many bytes.
_PIECE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one file of a place: its bytes, its name, or that it is gone."""

    base: str
    #: The operator, and where it was applied.
    what: str
    path: str
    #: The beginning of the SHA-256 of its content as it was.
    digest: str
    #: Its new name; empty where it is gone, `path` where it stays.
    renamed: str
    #: What is cut and put, inside a gzip where it is one: offset, how many bytes, and the new ones (zlib, base64).
    patches: tuple[tuple[int, int, str], ...] = ()

    def apply(self, directory: Path) -> None:
        """Change the file. Raises `AssertionError` where it is not the one that the change was made of."""
        path = directory / self.path
        raw = content_of(path)
        assert _digest(raw) == self.digest, f"{self.path} of {self.base} is another file than it was: make mutants anew"
        path.unlink()
        if self.renamed:
            for offset, cut, put in reversed(self.patches):
                raw = raw[:offset] + zlib.decompress(base64.b64decode(put)) + raw[offset + cut :]
            (directory / self.renamed).write_bytes(gzip.compress(raw, 1, mtime=0) if path.suffix == ".gz" else raw)
            return
        folder = path.parent
        while folder != directory and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def content_of(path: Path) -> bytes:
    """Return what is in a file, out of its gzip."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def mutant_of(*, base: str, what: str, path: str, old: bytes, renamed: str, new: bytes) -> Mutant:
    """Return the change from `old` to `new`."""
    patches = tuple((at, cut, base64.b64encode(zlib.compress(put, 9)).decode()) for at, cut, put in _patches(old, new))
    return Mutant(base=base, what=what, path=path, digest=_digest(old), renamed=renamed, patches=patches)


def read_mutants() -> list[Mutant]:
    """Read what was kept."""
    if not FILE.exists():
        return []
    plain = json.loads(lzma.decompress(FILE.read_bytes()))
    return [Mutant(**{**one, "patches": tuple(tuple(patch) for patch in one["patches"])}) for one in plain]


def write_mutants(mutants: list[Mutant]) -> None:
    """Keep them."""
    FILE.write_bytes(lzma.compress(json.dumps([asdict(one) for one in mutants], indent=0).encode()))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _patches(old: bytes, new: bytes) -> Iterator[tuple[int, int, bytes]]:
    if len(old) != len(new):
        shorter = min(len(old), len(new))
        start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
        same = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
        yield start, len(old) - start - same, new[start : len(new) - same]
        return
    for at in range(0, len(old), _PIECE):
        if old[at : at + _PIECE] != new[at : at + _PIECE]:
            yield at, len(old[at : at + _PIECE]), new[at : at + _PIECE]
