"""An encoder for short sequences, and one step of its training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

HIDDEN = 64


class Encoder(nn.Module):
    """An embedding, one transformer layer, a classifier over the mean of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, HIDDEN, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(32, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the four classes."""
        return self.classify(self.layer(self.embed(tokens)).mean(dim=1))


def training_step() -> Callable[[], None]:
    """Return a function that trains for one step on fixed data."""
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tokens, labels = torch.randint(100, (8, 16)), torch.arange(8) % 4

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens), labels).backward()
        optimizer.step()

    return step
