"""The same directory read whole and streamed, with chunks and spools so small that every seam is met."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import Contract, inspect, inspection, spool
from perfguard.contract.readers import chunks, partner
from perfguard.contract.readers.decoder import EventDecoder
from perfguard.contract.readers.partner import Partner
from perfguard.engines import local
from perfguard.findings import Finding
from perfguard.measure import measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of a directory: what was said (`told` is all of it, in no order), what was measured, which slots went by."""

    findings: tuple[Finding, ...]
    told: Counter[tuple[Any, ...]]
    measured: dict[tuple[str, str], tuple[Any, ...]]
    streamed: tuple[str, ...]

    @classmethod
    def of(cls, contract: Contract) -> Judged:
        """Measure what was inspected, and keep what was said of it."""
        return cls(
            findings=contract.findings,
            told=Counter(
                (f.code.name, f.place, f.message, f.severity.name, f.check, f.rank, f.more) for f in contract.findings
            ),
            measured={(one.metric, one.subject): (one.value, one.samples) for one in measure(contract)},
            streamed=tuple(file.slot.name for cycle in contract.cycles for file in cycle.files if file.content.folds),
        )


def whole(directory: Path) -> Judged:
    """Inspect with every trace read whole."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inspection, "folds_of", lambda slot, layout: {})
        return Judged.of(inspect(replay(directory)))


def streamed(directory: Path, *, chunk_bytes: int = 4000, rows: int = 60) -> Judged:
    """Inspect with every trace streamed in such chunks, and with so many rows of a spool in memory."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
        patched.setattr(spool, "ROWS_IN_MEMORY", rows)
        patched.setattr(spool, "EVERY", 8)
        return Judged.of(inspect(replay(directory)))


@contextmanager
def in_a_thread(decoder: EventDecoder) -> Iterator[Partner]:
    """Stand in for the other process: what it does is done by a thread of this one, which needs no time to start."""
    with partner.shared_memory() as memory:
        (jobs, told), (said, replies) = os.pipe(), os.pipe()
        with open(jobs, "rb") as source, open(told, "wb", buffering=0) as target:
            work = threading.Thread(
                target=partner.decode_for_another, args=(partner.mapped(memory), source, replies), daemon=True
            )
            work.start()
            found = Partner(decoder, partner.mapped(memory), target, said)
            found.wait()
            try:
                yield found
            finally:
                target.close()
                work.join()
        os.close(said)
        os.close(replies)


def beside(directory: Path, *, start: Callable[..., Any] = in_a_thread, **how: int) -> tuple[Judged, int]:
    """Inspect with every trace streamed, and every second chunk decoded elsewhere; tells how many of them were, too."""
    started: list[Partner] = []

    @contextmanager
    def noted(decoder: EventDecoder) -> Iterator[Partner]:
        with start(decoder) as found:
            started.append(found)
            yield found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partner, "WORTH_BYTES", 0)
        patched.setattr(partner, "partner", noted)
        patched.setattr(local, "usable_cpus", lambda: 2)
        found = streamed(directory, **how)
    return found, sum(one.decoded for one in started)


def the_same(directory: Path, *, digits: int | None = None, **how: int) -> Judged:
    """Hold both ways against each other and return what came of the streamed one.

    `digits`: so many behind the point must agree of floats that are added up in another order; None: all.
    """
    one, other = whole(directory), streamed(directory, **how)
    assert not one.streamed
    assert other.told == one.told
    assert rounded(other.measured, digits) == rounded(one.measured, digits)
    return other


def rounded(values: Any, digits: int | None) -> Any:
    """Return values, however nested, with their floats rounded."""
    if isinstance(values, dict):
        return {key: rounded(value, digits) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(rounded(value, digits) for value in values)
    return round(values, digits) if isinstance(values, float) and digits is not None else values
