"""Trains under the profiler for three steps, as a user would: `python record.py DIRECTORY`."""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler


def record(directory: str) -> None:
    """Write a trace of three steps into a directory."""
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(16, 32), torch.arange(16) % 10
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(directory),
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    record(sys.argv[1])
