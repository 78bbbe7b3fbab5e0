"""The same directory read whole and streamed, with chunks and spools so small that every seam is met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import Contract, inspect, spool
from perfguard.contract.readers import chunks, trace
from perfguard.measure import measure

Found = tuple[list[tuple[Any, ...]], dict[tuple[str, str], Any]]


def found_in(contract: Contract) -> Found:
    """Return the findings, and (of what is whole) the measurements."""
    findings = sorted(
        (one.code.name, one.place, one.message, one.severity.name, one.check or "", one.rank)
        for one in contract.findings
    )
    measured = measure(contract) if contract.is_whole else ()
    return findings, {(one.metric, one.subject): (one.value, one.samples) for one in measured}


def whole(directory: Path) -> Found:
    """Inspect with every trace read whole."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trace, "STREAMED_FROM", 2**60)
        return found_in(inspect(replay(directory)))


def streamed(directory: Path, *, chunk_bytes: int = 4000, rows: int = 60) -> Found:
    """Inspect with every trace streamed; fails where none was."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trace, "STREAMED_FROM", 0)
        patched.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
        patched.setattr(spool, "ROWS_IN_MEMORY", rows)
        patched.setattr(spool, "EVERY", 8)
        return found_in(inspect(replay(directory)))
