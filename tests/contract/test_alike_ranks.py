"""Ranks of one recording are held against each other: who is missing, who recorded another window or ran something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.recording import read_recording, write_recording

ONE = Path(__file__).parents[1] / "data" / "recordings" / "torch-mlp"


def recorded(directory: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], ranks: int = 2) -> Path:
    """Make a recording of two ranks out of one, what rank 1 traced changed; `ranks` is how many were started."""
    one = read_recording(ONE)
    (trace,) = (ONE / "profiler").glob("*.json")
    document = json.loads(trace.read_text())
    for rank in (0, 1):
        place = directory / "profiler" / f"rank_{rank}"
        place.mkdir(parents=True)
        events = change(document["traceEvents"]) if rank else document["traceEvents"]
        # No rank has the times of another.
        moved = [{**e, "ts": e["ts"] + rank} if "ts" in e else e for e in events]
        told = {"backend": "gloo", "rank": rank, "world_size": ranks}
        (place / trace.name).write_text(json.dumps({**document, "traceEvents": moved, "distributedInfo": told}))
    assert one.fingerprint is not None
    steps = tuple(replace(step, rank=rank) for rank in (0, 1) for step in one.steps)
    fingerprint = replace(one.fingerprint, world_size=ranks)
    write_recording(replace(one, directory=directory, fingerprint=fingerprint, steps=steps, rank=None))
    return directory


def without_a_step(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = max((e for e in events if str(e.get("name")).startswith("ProfilerStep#")), key=lambda e: e["ts"])
    return [e for e in events if e.get("ts", 0) < last["ts"] and e.get("name") != last["name"]]


def with_another_operator(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**e, "name": "aten::sin"} if e.get("name") == "aten::relu" and e.get("cat") == "cpu_op" else e for e in events
    ]


@pytest.mark.parametrize(
    ("change", "ranks", "code", "severity", "message"),
    [
        (without_a_step, 2, "C114", "error", "rank 1 recorded 2 steps, but rank 0 recorded 3"),
        (with_another_operator, 2, "C114", "warning", "rank 1 ran aten::relu"),
        (list, 3, "A107", "error", "3 ranks were started, but rank 2 is missing"),
    ],
)
@pytest.mark.variants(1)
def test_a_rank_that_is_not_like_the_others_is_told(tmp_path, change, ranks, code, severity, message):
    found = inspect(read_recording(recorded(tmp_path, change, ranks))).findings
    told = [(f.code.name, f.severity.value) for f in found if f.message.startswith(message)]
    assert told == [(code, severity)], found


def test_ranks_that_are_alike_are_silent(tmp_path):
    assert inspect(read_recording(recorded(tmp_path, list))).findings == ()
