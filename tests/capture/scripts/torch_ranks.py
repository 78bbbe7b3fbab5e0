"""Ranks over gloo: DistributedDataParallel; LOSE names a rank that dies, ODD one that runs something else."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs, labels = torch.ones(16, 8), torch.arange(16) % 4
for number in range(6):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(inputs), labels).backward()
    if os.environ.get("ODD") == str(rank):
        torch.sin(inputs)
    optimizer.step()
    if os.environ.get("LOSE") == str(rank) and number == 3:
        os._exit(9)
dist.barrier()
dist.destroy_process_group()
