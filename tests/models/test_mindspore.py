"""MindSpore models under the gate."""

from __future__ import annotations

import pytest

import perfguard
from tests.installed import needs

needs("mindspore", "models")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.perfguard(
        backend="mindspore",
        window=perfguard.StepWindow(skip_first=3, warmup=1, active=5),
    ),
]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_lenet_train(perfguard, mindspore_mode, mode):
    from tests.models.mindspore_nets import lenet_step

    mindspore_mode(mode)
    perfguard(lenet_step())


def test_transformer_block_train(perfguard, mindspore_mode):
    from tests.models.mindspore_nets import transformer_step

    mindspore_mode("graph")
    perfguard(transformer_step())
