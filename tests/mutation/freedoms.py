"""The freedoms of a writer: what a profiler may write or leave out, so that a mutant is as right as its origin.

That no other file repeats a value is no freedom: such mutants count as missed.
"""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """Globs of what a mutant did and to what, separated by `|`, and what the writer is free to do."""

    mutator: str
    layout: str = "*"
    slot: str = "*"
    column: str = "*"
    #: What the writer may do, as a sentence.
    freedom: str

    def covers(self, mutator: str, layout: str, slot: str, column: str) -> bool:
        """Whether a mutant is one that the writer may write."""
        pairs = ((mutator, self.mutator), (layout, self.layout), (slot, self.slot), (column, self.column))
        return all(_matches(text, globs) for text, globs in pairs)


def _matches(text: str, globs: str) -> bool:
    """Whether a text matches one of several globs; `[` and `]` mean themselves."""
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs.split("|"))


def read_freedoms(path: Path) -> tuple[Freedom, ...]:
    """Read a table of freedoms."""
    known = {field.name for field in fields(Freedom)}
    found = tomllib.loads(path.read_text())["freedom"]
    assert all(set(one) <= known for one in found)
    return tuple(Freedom(**one) for one in found)


FREEDOMS = read_freedoms(Path(__file__).with_name("freedoms.toml"))


def freedom_of(mutator: str, layout: str, slot: str, column: str) -> Freedom | None:
    """Return the first freedom that covers a mutant."""
    return next((one for one in FREEDOMS if one.covers(mutator, layout, slot, column)), None)
