"""Which files Perfetto opens."""

from __future__ import annotations

import pytest

from perfguard.artifacts.timelines import timelines_in
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
