"""Trainings in torch as projects write them; which of them is said by the argument."""

import os
import sys

import torch
from torch import nn

torch.manual_seed(0)
net, loss = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), nn.CrossEntropyLoss()
inputs, labels = torch.randn(6, 8), torch.arange(6) % 2


def evaluate():
    net.eval()
    with torch.no_grad():
        # The loss itself stays in training, as it always does.
        loss(net(inputs), labels).item()
        torch.sin(inputs)
    net.train()


def train(optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss(net(inputs), labels).backward()
        optimizer.step()


def evaluated():
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    evaluate()
    for _ in range(6):
        train(optimizer, 1)
        evaluate()


def critic():
    """Three updates of a critic for one of a generator, in each of 6 steps."""
    generator, judge = nn.Linear(4, 8), nn.Linear(8, 1)
    slow, fast = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(6):
        for _ in range(3):
            fast.zero_grad()
            judge(generator(torch.randn(6, 4)).detach()).mean().backward()
            fast.step()
        slow.zero_grad()
        judge(generator(torch.randn(6, 4))).mean().backward()
        slow.step()


def closure():
    """The model is called inside of the update, after an evaluation: as Lightning does it."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    evaluate()

    def closed():
        optimizer.zero_grad()
        result = loss(net(inputs), labels)
        result.backward()
        return result

    for _ in range(6):
        optimizer.step(closed)
        evaluate()


def twice():
    """Two trainings, one after the other; the first optimizer is still there. Then nothing is left to run at its exit."""
    first = torch.optim.SGD(net.parameters(), lr=0.1)
    train(first, 3)
    train(torch.optim.SGD(net.parameters(), lr=0.1), 3)
    os._exit(0)


def forgotten():
    """Inference in training mode."""
    for _ in range(6):
        net(inputs)


def ranks():
    """Two ranks without a launcher, whose process groups are gone at their ends."""
    torch.multiprocessing.spawn(rank, args=(os.environ["STORE"],), nprocs=2)


def rank(number, store):
    group = torch.distributed
    group.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    train(torch.optim.SGD(net.parameters(), lr=0.1), 6)
    group.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
