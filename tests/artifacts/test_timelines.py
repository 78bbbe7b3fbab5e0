"""Which files Perfetto opens, and their bytes."""

from __future__ import annotations

import gzip

import pytest

from perfguard.artifacts.timelines import timelines_in, trace_bytes
from perfguard.capture.replay import replay
from perfguard.testing import generate
from tests.facts import RECORDINGS


@pytest.mark.parametrize(
    "name, ending",
    [
        ("torch-mlp", ".pt.trace.json"),
        ("mindspore-graph", "trace_view.json"),
        ("mindspore-pynative", "trace_view.json"),
    ],
)
def test_the_timeline_of_a_recording_is_found(name, ending):
    (found,) = timelines_in(replay(RECORDINGS / name))
    assert found.name.endswith(ending)


@pytest.mark.parametrize(
    "layout", ["pt-torch", "pt-npu", "ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3", "ms-2.5+", "ms-2.5+cpu"]
)
def test_every_layout_with_a_timeline_has_one_a_rank(tmp_path, layout):
    generate(layout, seed=1, ranks=2, steps=2).write(tmp_path)
    found = timelines_in(replay(tmp_path))
    assert len(found) >= 2
    assert all(path.suffix == ".json" for path in found)


@pytest.mark.parametrize("most, is_given", [(1000, True), (500, True), (499, False), (0, False)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_given_unpacked_as_far_as_it_fits(tmp_path, most, is_given, packed):
    text = bytes(range(250)) * 2
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert trace_bytes(path, most_bytes=most) == (text if is_given else None)


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b"\0" * 50_000_000))
    assert trace_bytes(path, most_bytes=1_000_000) is None
