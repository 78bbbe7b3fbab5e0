"""A transformer encoder with attention written by hand."""

import math

import torch
from torch import nn

VOCABULARY, CLASSES = 256, 8
BATCH, TOKENS = 2, 128
LAYERS, WIDTH, HIDDEN, HEADS = 3, 64, 128, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", causal_mask())

    def forward(self, x):
        batch, tokens, _ = x.shape
        parts = self.project(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = attend(query, key, value, self.mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))


def causal_mask():
    return torch.ones(TOKENS, TOKENS).tril().log()


def attend(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores + mask, dim=-1)
    return weights @ value


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.before_attention, self.before_feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.dropout(self.feed(self.before_feed(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


def batch():
    return torch.arange(BATCH * TOKENS).view(BATCH, TOKENS) % VOCABULARY, torch.arange(BATCH) % CLASSES


def train_step():
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, labels = batch()

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()

    return step


def inference_step():
    torch.manual_seed(0)
    model = Encoder().eval()
    tokens, _ = batch()

    def step():
        with torch.no_grad():
            return model(tokens).softmax(dim=-1)

    return step
