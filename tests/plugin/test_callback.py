"""`perfguard.callback()` in a test: what it recorded of `Model.train` is judged when the test has ended."""

from __future__ import annotations

import pytest

pytest.importorskip("mindspore", reason="mindspore is not installed: pip install 'perfguard[models]'")
pytestmark = pytest.mark.slow

TEST = """
import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import perfguard as pg
import pytest
from mindspore import nn

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")

def batches():
    for _ in range(6):
        yield np.ones([2, 2], np.float32), np.ones([2], np.int32)

@pytest.mark.perfguard(backend="mindspore", timed_steps=1, window=pg.StepWindow(skip_first=2, warmup=1, active=2))
def test_training(perfguard):
    net = nn.Dense(2, 2)
    model = ms.Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True), nn.Momentum(net.trainable_params(), 1, 0.9))
    profiler = perfguard.callback(WINDOW)
    if TRAINS:
        model.train(1, ds.GeneratorDataset(batches, ["data", "label"]), callbacks=[profiler])
"""


def write(project, window: str = "start_step=3, stop_step=5", trains: bool = True) -> None:
    project.write("test_a.py", TEST.replace("WINDOW", window).replace("TRAINS", str(trains)))


def test_a_training_is_stored_and_judged_by_its_callback(project):
    write(project)
    assert project.run("--perfguard-update").counts == {"passed": 1}
    run = project.run("--perfguard", "--perfguard-report", "report.json")
    assert run.counts == {"passed": 1}, run.text
    (one,) = project.report()["workloads"]
    measured = {(m["metric"], m["subject"]): m["value"] for m in one["measurements"]}
    assert measured["steps", ""] == 3
    assert measured["operator_calls", "BiasAddGrad"] == 1
    write(project, "start_step=3, stop_step=4")
    other = project.run("--perfguard")
    assert other.counts == {"failed": 1}
    assert "B102" in other.text


@pytest.mark.parametrize(
    ("window", "trains", "message"),
    [
        ("", True, ""),
        ("start_step=5, stop_step=9", True, "C106"),
        ("start_step=5, stop_step=3", True, "start_step=5, stop_step=3 is not a window"),
        ("start_step=3, stop_step=5", False, "B105"),
    ],
)
def test_how_a_callback_ends(project, window, trains, message):
    write(project, window, trains)
    run = project.run("--perfguard-update")
    assert run.counts == ({"failed": 1} if message else {"passed": 1}), run.text
    assert message in run.text


def test_without_the_option_it_does_nothing(project):
    write(project)
    assert project.run().counts == {"passed": 1}
