"""A torch trace that goes by in many chunks is judged and measured as one that is a single chunk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.testing import generate
from tests.conftest import RECORDINGS, recorded
from tests.contract.together import places
from tests.dialects.streaming import alike, both_ways, the_same

REAL = ("torch-mlp", "torch-repeat2")


@pytest.mark.parametrize("name", REAL)
@pytest.mark.variants(1)
def test_real_recordings_are_the_same_either_way(name):
    the_same(RECORDINGS / name, in_a_file=True)


@pytest.mark.exhaustive
def test_other_real_recordings_are_the_same_either_way():
    for directory in recorded("torch-*"):
        the_same(directory, chunk_bytes=20_000)


CONDITIONS = ({}, {"memory": True}, {"shapes": True}, {"memory": True, "shapes": True})


@pytest.mark.exhaustive
def test_generated_directories_are_the_same_either_way(tmp_path):
    several = [(seed, conditions) for seed in (1, 2) for conditions in CONDITIONS]
    directories = places(tmp_path, len(several))
    for (seed, conditions), directory in zip(several, directories, strict=True):
        generate("pt-torch", seed=seed, ranks=2, steps=3, conditions=conditions).write(directory)
    for pair in both_ways(directories):
        alike(pair)


#: What a value may be replaced by.
ODD: list[Any] = [None, True, "x", [1], {"a": 1}, 3, 2.5, -1, 0, 2**63, 2**70, 1e300, "12.5", ""]


def damage(data: st.DataObject, events: list[dict[str, Any]]) -> None:
    """Do to one event of a trace what a damaged file, another version or another tool may have done."""
    place = data.draw(st.integers(0, len(events) - 1))
    event = events[place]
    arguments = event.get("args")
    what = data.draw(
        st.sampled_from(["lose", "double", "move", "key", "value", "argument", "name", "category", "time", "kind"])
    )
    if what == "lose":
        del events[place]
    elif what == "double":
        events.insert(data.draw(st.integers(0, len(events))), json.loads(json.dumps(event)))
    elif what == "move":
        events.insert(data.draw(st.integers(0, len(events) - 1)), events.pop(place))
    elif what == "key":
        event.pop(data.draw(st.sampled_from(list(event))))
    elif what == "value":
        event[data.draw(st.sampled_from([key for key in event if key != "pid"]))] = data.draw(st.sampled_from(ODD))
    elif what == "argument" and isinstance(arguments, dict) and arguments:
        key = data.draw(st.sampled_from(list(arguments)))
        more = [arguments[key] + 1] if isinstance(arguments[key], int) else []
        arguments[key] = data.draw(st.sampled_from([*ODD, *more]))
    elif what == "name":
        event["name"] = data.draw(st.sampled_from(["[memory]", "aten::empty", "ProfilerStep#7", 'x"y', "é😀", ""]))
    elif what == "category":
        event["cat"] = data.draw(
            st.sampled_from(["cpu_op", "user_annotation", "Trace", "fwdbwd", "kernel", "cuda_runtime", "ac2g"])
        )
    elif what == "time" and isinstance(event.get("ts"), (int, float)):
        event["ts"] += data.draw(st.sampled_from([-1e4, 1e4, 1e7, 1e12, 0.5, -0.5, 3, -5e12]))
    elif what == "kind":
        event["ph"] = data.draw(st.sampled_from(["X", "M", "i", "s", "f", "C", "t", "b"]))


def damaged(data, name: str, place: Path) -> Path:
    """Return a copy of a recording of which up to three events are damaged."""
    directory = Path(shutil.copytree(RECORDINGS / name, place / name))
    path = data.draw(st.sampled_from(sorted(directory.rglob("*.pt.trace.json"))))
    document = json.loads(path.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        damage(data, document["traceEvents"])
    path.write_text(json.dumps(document, indent=data.draw(st.sampled_from([None, 1]))))
    return directory


@pytest.mark.parametrize("name", [REAL[0], pytest.param(REAL[1], marks=pytest.mark.exhaustive)])
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), chunk_bytes=st.integers(2000, 60_000))
@pytest.mark.exhaustive
def test_damage_is_told_in_the_same_words(tmp_path_factory, name, data, chunk_bytes):
    directories = [damaged(data, name, place) for place in places(tmp_path_factory.mktemp("damaged"), 4)]
    for pair in both_ways(directories, chunk_bytes=chunk_bytes):
        alike(pair)
