"""The gate: a step in both modes of MindSpore, and `Model.train` with a callback."""

import mindspore
import pytest
from model import data, trained_model, training_step

MODES = {"graph": mindspore.GRAPH_MODE, "pynative": mindspore.PYNATIVE_MODE}


@pytest.mark.parametrize("mode", MODES)
def test_step(perfguard, mode):
    mindspore.set_context(mode=MODES[mode])
    perfguard(training_step())


def test_model_train(perfguard):
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    callback = perfguard.callback(start_step=4, stop_step=8)
    trained_model().train(1, data(batches=10), callbacks=[callback], dataset_sink_mode=False)
