"""`perfguard.callback()` in a test: what it recorded of `Model.train` is judged when the test has ended."""

from __future__ import annotations

import pytest

from tests.installed import needs

needs("mindspore", "models")
# Three runs of pytest, each of which trains with MindSpore.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

#: STOP is where the window of `test_other` ends.
TESTS = """
import os

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import perfguard as pg
import pytest
from mindspore import nn

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
pytestmark = pytest.mark.perfguard(
    backend="mindspore", timed_steps=1, window=pg.StepWindow(skip_first=2, warmup=1, active=2)
)

def batches():
    for _ in range(6):
        yield np.ones([2, 2], np.float32), np.ones([2], np.int32)

def train(callback):
    net = nn.Dense(2, 2)
    model = ms.Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True), nn.Momentum(net.trainable_params(), 1, 0.9))
    model.train(1, ds.GeneratorDataset(batches, ["data", "label"]), callbacks=[callback])

def test_training(perfguard):
    train(perfguard.callback(start_step=3, stop_step=5))

def test_other(perfguard):
    train(perfguard.callback(start_step=3, stop_step=int(os.environ.get("STOP", 5))))

def test_window_of_the_marker(perfguard):
    train(perfguard.callback())

def test_ends_too_early(perfguard):
    train(perfguard.callback(start_step=5, stop_step=9))

def test_no_window(perfguard):
    train(perfguard.callback(start_step=5, stop_step=3))

def test_never_trains(perfguard):
    perfguard.callback(start_step=3, stop_step=5)
"""


@pytest.fixture(scope="module")
def stored(module_project):
    project = module_project("callback")
    project.write("test_a.py", TESTS)
    return project, project.run("--perfguard-update")


def test_a_training_is_stored_and_judged_by_its_callback(stored):
    project, _ = stored
    run = project.run("--perfguard", "--perfguard-report", "report.json", "-k", "training or other", env={"STOP": "4"})
    assert run.counts == {"passed": 1, "failed": 1, "deselected": 4}, run.text
    assert project.findings() == {
        "test_a.py::test_training": ("PASSED", []),
        "test_a.py::test_other": ("INCONCLUSIVE", ["B102"]),
    }
    (measurements,) = [w["measurements"] for w in project.report()["workloads"] if w["outcome"] == "PASSED"]
    measured = {(m["metric"], m["subject"]): m["value"] for m in measurements}
    assert measured["steps", ""] == 3
    assert measured["operator_calls", "BiasAddGrad"] == 1


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("training", ""),
        ("window_of_the_marker", ""),
        ("ends_too_early", "C106"),
        ("no_window", "start_step=5, stop_step=3 is not a window"),
        ("never_trains", "B105"),
    ],
)
@pytest.mark.exhaustive
def test_how_a_callback_ends(stored, test, message):
    project, run = stored
    assert (f"test_a.py::test_{test}" in project.workloads) is (not message)
    assert (f"FAILED test_a.py::test_{test} - " in run.out) is bool(message)
    if message:
        assert message in run.line(f"FAILED test_a.py::test_{test} - ")


def test_without_the_option_it_does_nothing(stored):
    project, _ = stored
    assert project.run("-k", "training").counts == {"passed": 1, "deselected": 5}
