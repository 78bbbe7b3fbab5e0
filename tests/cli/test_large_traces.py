"""Traces larger than what may be held: whatever is wrong with one, the memory stays bounded and the place is named."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.reading import scaling
from perfguard.cli.output import Exit

from .test_hostile import check

pytestmark = pytest.mark.slow

RECORDING = Path(__file__).parents[1] / "data/recordings/torch-mlp/profiler"
#: Read whole, the trace below takes ten times its size.
SIZE = 40 * 1000**2
#: More than for a small trace, for which the program and its libraries take 180 MiB, and more with many processors.
MORE_MIB = 100


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Return the name and the bytes of a large trace."""
    (source,) = RECORDING.glob("*.pt.trace.json")
    scaled = scaling.Trace(source.read_text(encoding="utf-8"))
    repetitions = scaled.repetitions_of(SIZE)
    path = tmp_path_factory.mktemp("large") / scaling.named_after_its_end(source.name, scaled, repetitions)
    scaled.write(path, repetitions=repetitions)
    return path.name, path.read_bytes()


@pytest.fixture(scope="module")
def peak_of_a_small_trace_kib() -> int:
    """Return the peak memory of a check of the recording as it is."""
    return check(RECORDING)[2]


def with_an_event_of(size: int, text: bytes) -> bytes:
    place = text.index(b'"args": {', len(text) // 2) + len(b'"args": {')
    return text[:place] + b'"Long": "' + b"x" * size + b'",' + text[place:]


@pytest.mark.parametrize(
    ("damage", "packed", "code", "says"),
    [
        pytest.param(lambda text: text, False, 0, "PASSED", id="nothing", marks=pytest.mark.exhaustive),
        pytest.param(
            lambda text: text[:23_456_789], False, Exit.INVALID, "in the middle of an event at byte 23456789",
            id="cut off",
        ),
        pytest.param(
            lambda text: text + text, False, Exit.INVALID, "a second document begins at byte",
            id="two documents", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: with_an_event_of(8_000_000, text), False, 0, "PASSED",
            id="an event of 8 MB", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: with_an_event_of(50_000_000, text), False, Exit.INVALID, "one of them is longer",
            id="an event of 50 MB", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: text.replace(b'"ph"', b'"pf"', 1), False, Exit.INVALID, "S103",
            id="an unknown key", marks=pytest.mark.exhaustive,
        ),
        pytest.param(lambda text: gzip.compress(text, 1), True, 0, "PASSED", id="gzip"),
        pytest.param(
            lambda text: b"".join(gzip.compress(text[at : at + 5_000_000], 1) for at in range(0, len(text), 5_000_000)),
            True, 0, "PASSED", id="gzip of many members", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: gzip.compress(text, 1)[:-8] + bytes(8), True, Exit.INVALID, "CRC check failed",
            id="gzip with a bad trailer", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: gzip.compress(text, 1)[:1_000_000], True, Exit.INVALID, "it is not whole gzip",
            id="gzip that is cut off", marks=pytest.mark.exhaustive,
        ),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_memory_is_bounded(
    tmp_path: Path,
    trace: tuple[str, bytes],
    peak_of_a_small_trace_kib: int,
    damage: Callable[[bytes], bytes],
    packed: bool,
    code: int,
    says: str,
) -> None:
    name, text = trace
    (tmp_path / (name + (".gz" if packed else ""))).write_bytes(damage(text))
    found, printed, peak_kib = check(tmp_path)
    assert says in printed
    assert found == code
    assert (peak_kib - peak_of_a_small_trace_kib) / 1024 < MORE_MIB
