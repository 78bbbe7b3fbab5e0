"""A LightningModule, and a Trainer for it."""

from __future__ import annotations

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

LAYERS = 2


class Classifier(LightningModule):
    """Some dense layers."""

    def __init__(self) -> None:
        super().__init__()
        hidden = [part for _ in range(LAYERS) for part in (nn.Linear(32, 32), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(32, 10))

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        """Return the loss."""
        inputs, labels = batch
        return nn.functional.cross_entropy(self.layers(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def fit(callback: Callback) -> None:
    """Train on the CPU; the callback says when it is enough."""
    seed_everything(0)
    data = TensorDataset(torch.randn(2000, 32), torch.arange(2000) % 10)
    trainer = Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[callback])
    trainer.fit(Classifier(), DataLoader(data, batch_size=8))
