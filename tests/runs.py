"""Directories with several ranks, of which not all are right."""

from __future__ import annotations

import shutil
from pathlib import Path

from perfguard.testing import generate


def several_runs(directory: Path, count: int) -> Path:
    """Write `count` runs (three at least) of two small ranks each: one rank is cut off, one is a copy of another."""
    for number in range(count):
        generate("pt-torch", seed=number, ranks=2, steps=1, operators=2).write(directory / f"run{number}")
    traces = sorted(directory.glob("*/*.json"))
    traces[1].write_bytes(traces[1].read_bytes()[:-300])
    shutil.copy(traces[0], traces[4])
    return directory
