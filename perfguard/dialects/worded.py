"""Worded rows: the first hundred that break an invariant, in the order of the file, and how many there are in all."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.dialects.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.large_comma import Rows
    from perfguard.dialects.cycle import Artifact


class WordedRows:
    """Collects (row, message) of events; only the rows that come first in the trace are kept."""

    def __init__(self) -> None:
        self.count = 0
        #: The rows that come first, with their messages.
        self.kept: list[tuple[int, str]] = []

    def add(self, found: Iterable[tuple[int, str]], *, count: int | None = None) -> None:
        """Add rows; `count` is how many they are where not all of them were worded."""
        words = list(found)
        self.count += len(words) if count is None else count
        self.kept = heapq.nsmallest(WORDED_ROWS, [*self.kept, *words])

    def findings(
        self, code: Code, artifact: Artifact, *, check: str, severity: Severity = Severity.ERROR
    ) -> Iterator[Finding]:
        """Yield a finding for each row that was kept, and the number of the rest."""
        pairs = ((self.place(artifact, row), message) for row, message in self.kept)
        for finding in disagreements(code, pairs, count=self.count, place=artifact.place, severity=severity):
            yield replace(finding, check=check)

    def place(self, artifact: Artifact, row: int) -> str:
        """Word where a row lies."""
        return f"{artifact.place} {artifact.content.events_path}[{row}]"


class WordedLines(WordedRows):
    """The same of lines of a table."""

    def add_where(
        self, rows: Rows, broken: pl.Series, message: Callable[[dict[str, Any]], str], frame: pl.DataFrame
    ) -> None:
        """Add the rows where `broken` is true (null counts as false); `message` is called with the row of `frame`."""
        found = broken.fill_null(False).arg_true()
        worded = found.head(WORDED_ROWS - len(self.kept)).to_list()
        self.add(((rows.lines[row], message(frame.row(row, named=True))) for row in worded), count=len(found))

    def place(self, artifact: Artifact, row: int) -> str:
        """Word where a line lies."""
        return f"{artifact.place}:{row}"
