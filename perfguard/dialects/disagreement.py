"""A disagreement: rows of a table that break a rule, reported one by one up to a limit and then counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.findings import Code, Finding, OwnCode, Severity


def disagreements(
    code: Code | OwnCode,
    shown: Iterable[tuple[str, str]],
    count: int = 0,
    place: str = "",
    *,
    severity: Severity = Severity.ERROR,
    of_kind: str = "like these",
) -> Iterator[Finding]:
    """Yield a finding for each of the first violations (place, message), and one for the others of `count` together."""
    for where, message in shown:
        yield Finding(code=code, severity=severity, place=where, message=message)
    if (more := count - SHOWN_VIOLATIONS) > 0:
        yield Finding(code=code, severity=severity, place=place, message=f"and {more} more {of_kind}", more=more)
