"""The same directory in one chunk and in many, with chunks so small that every cut is tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts import tables
from perfguard.artifacts.readers import chunks
from perfguard.capture.replay import replay
from perfguard.contract import Contract, inspect
from perfguard.findings import Finding
from perfguard.measure import measure
from tests.contract.together import inspect_together


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result for a directory: findings (`reported`: all of them, without order), measurements, and streamed slots."""

    findings: tuple[Finding, ...]
    reported: Counter[tuple[Any, ...]]
    measured: dict[tuple[str, str], tuple[Any, ...]]
    streamed: tuple[str, ...]

    @classmethod
    def of(cls, contract: Contract) -> Judged:
        """Measure an inspected directory, and keep its findings."""
        return cls(
            findings=contract.findings,
            reported=Counter(
                (f.code.name, f.place, f.message, f.severity.name, f.check, f.rank, f.more) for f in contract.findings
            ),
            measured={(one.metric, one.subject): (one.value, one.samples) for one in measure(contract)},
            streamed=tuple(
                file.slot.name for cycle in contract.cycles for file in cycle.files if file.content.event_schema
            ),
        )


def at_once(directory: Path) -> Judged:
    """Inspect as it is: a small trace is one chunk, and all of it stays in memory."""
    return Judged.of(inspect(replay(directory)))


@contextmanager
def in_chunks(*, chunk_bytes: int = 4000, in_a_file: bool = False) -> Iterator[None]:
    """Read every trace in such chunks, as if it had many rows; `in_a_file`: with tables as those of large traces."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
        patched.setattr(tables, "_QUICK_ROWS", 0)
        if in_a_file:
            for size in ("SMALL_BYTES", "LARGE_BYTES"):
                patched.setattr(tables, size, 0)
        yield


def streamed(directory: Path, **how: Any) -> Judged:
    """Inspect with every trace in chunks."""
    with in_chunks(**how):
        return Judged.of(inspect(replay(directory)))


def all_at_once(directories: Sequence[Path]) -> list[Judged]:
    """Inspect directories together, as they are."""
    return [Judged.of(one) for one in inspect_together([replay(one) for one in directories])]


def all_streamed(directories: Sequence[Path], **how: Any) -> list[Judged]:
    """Inspect directories together, with every trace in chunks."""
    with in_chunks(**how):
        return all_at_once(directories)


#: What is said of a directory in one chunk, and in many.
Pair = tuple[Judged, Judged]


def both_ways(directories: Sequence[Path], **how: Any) -> list[Pair]:
    """Return the pair of each directory."""
    return list(zip(all_at_once(directories), all_streamed(directories, **how), strict=True))


def the_same(directory: Path, *, digits: int | None = None, **how: Any) -> Judged:
    """Compare both ways, and return the result of the one in chunks."""
    return alike((at_once(directory), streamed(directory, **how)), digits=digits)


def alike(pair: Pair, *, digits: int | None = None) -> Judged:
    """Compare both, and return the one in chunks.

    `digits`: the decimals to compare of floats that are added up in another order; None: all.
    """
    one, other = pair
    assert other.reported == one.reported
    assert rounded(other.measured, digits) == rounded(one.measured, digits)
    return other


def rounded(values: Any, digits: int | None) -> Any:
    """Return values, however nested, with their floats rounded."""
    if isinstance(values, dict):
        return {key: rounded(value, digits) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(rounded(value, digits) for value in values)
    return round(values, digits) if isinstance(values, float) and digits is not None else values
