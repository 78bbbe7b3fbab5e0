"""torch models under the gate."""

from __future__ import annotations

import pytest

import perfguard
from tests.installed import needs

needs("torch", "models")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.perfguard(
        backend="torch",
        window=perfguard.StepWindow(skip_first=3, warmup=1, active=5),
    ),
]


def test_mlp_train(perfguard):
    from tests.models.torch_nets import mlp_step

    perfguard(mlp_step())


def test_mlp_train_in_its_own_loop(perfguard):
    from tests.models.torch_nets import mlp_step

    step = mlp_step(layers=1)
    for _ in perfguard.steps(range(10_000)):
        step()


@pytest.mark.perfguard(window=perfguard.StepWindow(skip_first=3, warmup=1, active=3, repeat=2))
def test_transformer_train(perfguard):
    from tests.models.torch_nets import transformer_step

    perfguard(transformer_step())


def test_transformer_inference(perfguard):
    from tests.models.torch_nets import inference_step

    perfguard(inference_step())
