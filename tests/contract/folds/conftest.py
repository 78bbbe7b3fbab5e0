"""Fixtures of the tests of folds: traces that go by in small chunks, and spools that go to the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import Contract, inspect, spool
from perfguard.contract.readers import chunks, trace
from perfguard.measure import measure

Judge = Callable[[Path], Contract]


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Return a function that judges a directory whose traces are read whole."""

    def judge(place: Path) -> Contract:
        monkeypatch.setattr(trace, "STREAMED_FROM", 2**62)
        return inspect(replay(place))

    return judge


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Return a function that judges a directory whose traces go by, a few events at a time."""

    def judge(place: Path) -> Contract:
        monkeypatch.setattr(trace, "STREAMED_FROM", 0)
        monkeypatch.setattr(chunks, "CHUNK_BYTES", 4000)
        monkeypatch.setattr(spool, "ROWS_IN_MEMORY", 60)
        monkeypatch.setattr(spool, "EVERY", 8)
        return inspect(replay(place))

    return judge


def findings_of(contract: Contract) -> Counter[tuple[object, ...]]:
    """Return what is said of a directory, in no order."""
    return Counter(
        (f.code.name, f.place, f.message, f.severity.name, f.check, f.rank, f.more) for f in contract.findings
    )


def metrics_of(contract: Contract) -> dict[object, object]:
    """Return what is measured, floats to six digits behind the point."""
    return {
        (one.metric, one.subject): round(one.value, 6) if isinstance(one.value, float) else one.value
        for one in measure(contract)
    }


def streams(contract: Contract) -> list[str]:
    """Return the slots whose files went by."""
    return [file.slot.name for cycle in contract.cycles for file in cycle.files if file.content.folds]
