"""Worded lines: the first hundred lines of a table that break an invariant, and how many there are in all."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.dialects.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.large_comma import Rows
    from perfguard.dialects.cycle import Artifact


class WordedLines:
    """Collects (line, message); only the lines that come first in the table are kept."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[tuple[int, str]] = []

    def add_where(
        self, rows: Rows, broken: pl.Series, message: Callable[[dict[str, Any]], str], frame: pl.DataFrame
    ) -> None:
        """Add the rows where `broken` is true (null counts as false); `message` is called with the row of `frame`."""
        found = broken.fill_null(False).arg_true()
        self.count += len(found)
        worded = found.head(WORDED_ROWS - len(self._kept)).to_list()
        new = [(rows.lines[row], message(frame.row(row, named=True))) for row in worded]
        self._kept = heapq.nsmallest(WORDED_ROWS, [*self._kept, *new])

    def findings(
        self, code: Code, artifact: Artifact, *, check: str, severity: Severity = Severity.ERROR
    ) -> Iterator[Finding]:
        """Yield a finding for each line that was kept, and the number of the rest."""
        pairs = ((f"{artifact.place}:{line}", message) for line, message in self._kept)
        for finding in disagreements(code, pairs, count=self.count, place=artifact.place, severity=severity):
            yield replace(finding, check=check)
