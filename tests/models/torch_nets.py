"""Training and inference steps in torch: an MLP and a small transformer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


def mlp_step(hidden: int = 64, layers: int = 2, batch: int = 32):
    """Return one training step of an MLP with `layers` hidden layers."""
    torch.manual_seed(0)
    sizes = [32] + [hidden] * layers
    parts = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(sizes[-1], 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs, labels = torch.randn(batch, 32), torch.arange(batch) % 10

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


class Transformer(nn.Module):
    """Embedding, two encoder layers, a classifier over the mean of the sequence."""

    def __init__(self, size: int = 32):
        super().__init__()
        self.embed = nn.Embedding(100, size)
        layer = nn.TransformerEncoderLayer(size, 4, 64, dropout=0.0, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.classify = nn.Linear(size, 4)

    def forward(self, tokens):
        return self.classify(self.encode(self.embed(tokens)).mean(dim=1))


def transformer_step(batch: int = 4, length: int = 8):
    """Return one training step of the transformer."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, labels = torch.randint(0, 100, (batch, length)), torch.arange(batch) % 4

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens), labels).backward()
        optimizer.step()

    return step


def inference_step(batch: int = 8, length: int = 16):
    """Return one inference step of the transformer."""
    torch.manual_seed(0)
    model = Transformer().eval()
    tokens = torch.randint(0, 100, (batch, length))

    def step():
        with torch.inference_mode():
            model(tokens)

    return step
