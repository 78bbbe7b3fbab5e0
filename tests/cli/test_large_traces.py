"""Traces larger than what may be held: whatever is wrong with one, the memory stays bounded and the place is named."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfguard.cli.output import Exit
from tests.benchmarks.reading import scaling

from .test_hostile import check

pytestmark = pytest.mark.slow

RECORDING = Path(__file__).parents[1] / "data/recordings/torch-mlp/profiler"
#: Read whole, the trace below takes ten times its size; the program alone takes about 90 MB.
SIZE = 40 * 1000**2
PEAK_MIB = 240
#: The buffer holds the longest event, doubled as it grew.
PEAK_OF_A_LONG_EVENT_MIB = 330


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """Return the name and the bytes of a large trace."""
    (source,) = RECORDING.glob("*.pt.trace.json")
    scaled = scaling.Trace(source.read_text(encoding="utf-8"))
    repetitions = scaled.repetitions_of(SIZE)
    path = tmp_path_factory.mktemp("large") / scaling.named_after_its_end(source.name, scaled, repetitions)
    scaled.write(path, repetitions=repetitions)
    return path.name, path.read_bytes()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory is handed over with memfd_create (Linux)")
@pytest.mark.exhaustive
def test_a_second_process_does_its_share_and_changes_no_word(tmp_path: Path, trace: tuple[str, bytes]) -> None:
    name, text = trace
    # 40 MB in gzip are worth one; stored, so that nothing is packed here for long.
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text, 0))
    printed, helped = {}, {}
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "perfguard", "check", str(tmp_path), "--jobs", jobs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            helped[jobs] = False
            while process.poll() is None:
                helped[jobs] |= bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
                time.sleep(0.01)
            assert process.stdout is not None
            printed[jobs] = process.stdout.read()
        assert process.returncode == 0
    assert helped == {"1": False, "2": True}
    assert printed["1"] == printed["2"]


def with_an_event_of(size: int, text: bytes) -> bytes:
    place = text.index(b'"args": {', len(text) // 2) + len(b'"args": {')
    return text[:place] + b'"Long": "' + b"x" * size + b'",' + text[place:]


@pytest.mark.parametrize(
    ("damage", "packed", "code", "says", "peak_mib"),
    [
        pytest.param(lambda text: text, False, 0, "PASSED", PEAK_MIB, id="nothing", marks=pytest.mark.exhaustive),
        pytest.param(
            lambda text: text[:23_456_789], False, Exit.INVALID, "in the middle of an event at byte 23456789", PEAK_MIB,
            id="cut off",
        ),
        pytest.param(
            lambda text: text + text, False, Exit.INVALID, "a second document begins at byte", PEAK_MIB,
            id="two documents", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: with_an_event_of(50_000_000, text), False, 0, "PASSED", PEAK_OF_A_LONG_EVENT_MIB,
            id="an event of 50 MB", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: text.replace(b'"ph"', b'"pf"', 1), False, Exit.INVALID, "S103", PEAK_MIB,
            id="an unknown key", marks=pytest.mark.exhaustive,
        ),
        pytest.param(lambda text: gzip.compress(text, 1), True, 0, "PASSED", PEAK_MIB, id="gzip"),
        pytest.param(
            lambda text: b"".join(gzip.compress(text[at : at + 5_000_000], 1) for at in range(0, len(text), 5_000_000)),
            True, 0, "PASSED", PEAK_MIB, id="gzip of many members", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: gzip.compress(text, 1)[:-8] + bytes(8), True, Exit.INVALID, "CRC check failed", PEAK_MIB,
            id="gzip with a bad trailer", marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda text: gzip.compress(text, 1)[:1_000_000], True, Exit.INVALID, "it is not whole gzip", PEAK_MIB,
            id="gzip that is cut off", marks=pytest.mark.exhaustive,
        ),
    ],
)  # fmt: skip
@pytest.mark.variants(1)
def test_memory_is_bounded(
    tmp_path: Path,
    trace: tuple[str, bytes],
    damage: Callable[[bytes], bytes],
    packed: bool,
    code: int,
    says: str,
    peak_mib: int,
) -> None:
    name, text = trace
    (tmp_path / (name + (".gz" if packed else ""))).write_bytes(damage(text))
    found, printed, peak_kib = check(tmp_path)
    assert says in printed
    assert found == code
    assert peak_kib / 1024 < peak_mib
