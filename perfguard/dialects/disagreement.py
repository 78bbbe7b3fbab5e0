"""A disagreement: rows of a table that break an invariant, worded one by one up to a limit and then counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.findings import Code, Finding, OwnCode, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact


def disagreeing_rows(
    artifact: Artifact,
    broken: pl.Series,
    code: Code,
    message: Callable[[dict[str, Any]], str],
    *,
    frame: pl.DataFrame | None = None,
    severity: Severity = Severity.ERROR,
) -> Iterator[Finding]:
    """Yield a finding for every row where `broken` is true (null counts as false), at the row's own place.

    `message` is called with the row of `frame` (default: the artifact's own cells) as a mapping.
    """
    table = artifact.content.table
    assert table is not None
    numbers = broken.fill_null(False).arg_true()
    values = table.frame if frame is None else frame
    places = ((f"{artifact.place}{table.place(row)}", row) for row in numbers.head(SHOWN_VIOLATIONS).to_list())
    yield from disagreements(
        code,
        ((place, message(values.row(row, named=True))) for place, row in places),
        count=len(numbers),
        place=artifact.place,
        severity=severity,
    )


def disagreements(
    code: Code | OwnCode,
    found: Iterable[tuple[str, str]],
    *,
    count: int | None = None,
    place: str = "",
    severity: Severity = Severity.ERROR,
) -> Iterator[Finding]:
    """Yield a finding for each (place, message), the first hundred one by one, the rest as a number."""
    total = 0
    for total, (where, message) in enumerate(found, start=1):
        if total > SHOWN_VIOLATIONS:
            break
        yield Finding(code=code, place=where, message=message, severity=severity)
    rest = (count if count is not None else total) - SHOWN_VIOLATIONS
    if rest > 0:
        more = f"and {rest} more like these" if count is not None else "and more like these"
        yield Finding(code=code, place=place, message=more, severity=severity, more=rest)
