"""The same directory in one chunk and in many, with chunks so small that every cut is tested."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts import tables
from perfguard.artifacts.readers import chunks, partner, second_process
from perfguard.artifacts.readers.decoder import EventDecoder
from perfguard.artifacts.readers.partner import Partner
from perfguard.capture.replay import replay
from perfguard.contract import Contract, inspect, inspection
from perfguard.dialects import executions
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
        patched.setattr(executions, "ROWS_AT_ONCE", 5)
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


class InAThread:
    """A replacement for the second process: a thread, which needs no time to start."""

    def __init__(self) -> None:
        self.started: list[Partner] = []
        self._stack = ExitStack()

    def __enter__(self) -> InAThread:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def beside(self, path: Path, decoder: EventDecoder) -> Partner:
        memory = self._stack.enter_context(second_process.shared_memory())
        (jobs, requests), (received, replies) = os.pipe(), os.pipe()
        source = self._stack.enter_context(os.fdopen(jobs, "rb"))
        given = (second_process.mapped(memory), source, replies)
        work = threading.Thread(target=partner.serve, args=given, daemon=True)
        for end in (received, replies):
            self._stack.callback(os.close, end)
        self._stack.callback(work.join)
        target = self._stack.enter_context(os.fdopen(requests, "wb", buffering=0))
        work.start()
        found = Partner(decoder, second_process.mapped(memory), target, received)
        found.wait()
        self.started.append(found)
        return found


class Waited(second_process.Second):
    """A second process that is waited for, so that it decodes chunks of a short trace, too."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        super().__init__(modules)
        self.started: list[Partner] = []

    def beside(self, path: Path, decoder: EventDecoder) -> Partner | None:
        found = super().beside(path, decoder)
        assert found is not None
        found.wait()
        self.started.append(found)
        return found


def beside(directory: Path, **how: Any) -> tuple[Judged, int]:
    """Inspect with every trace streamed, and some chunks decoded by a second process; also return the number of these."""
    (found,) = all_beside([directory], **how)
    return found


def all_beside(
    directories: Sequence[Path], *, second: Callable[[], InAThread | Waited] = InAThread, **how: Any
) -> list[tuple[Judged, int]]:
    """Do so with several directories, inspected together; each must have one cycle, where the numbers are wanted."""
    decoded: list[int] = []

    @contextmanager
    def noted(*_: object) -> Iterator[InAThread | Waited]:
        with second() as found:
            yield found
            decoded.append(sum(one.decoded for one in found.started))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(second_process, "WORTH_BYTES", 0)
        patched.setattr(inspection, "second_process", noted)
        found = all_streamed(directories, **how)
    numbers = decoded if len(decoded) == len(directories) else [sum(decoded)] * len(directories)
    return list(zip(found, numbers, strict=True))


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
