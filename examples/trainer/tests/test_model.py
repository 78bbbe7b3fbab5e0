"""The gate: the Trainer's own loop."""

from model import trainer


def test_train(perfguard, tmp_path):
    trainer(tmp_path, perfguard.trainer_callback()).train()
