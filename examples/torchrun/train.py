"""Two ranks train one model with DistributedDataParallel; nothing here knows of perfguard."""

import torch
import torch.distributed as dist
from torch import nn

LAYERS = 2

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
hidden = [part for _ in range(LAYERS) for part in (nn.Linear(32, 32), nn.ReLU())]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*hidden, nn.Linear(32, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(8):
    inputs, labels = torch.randn(16, 32), torch.arange(16) % 10
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
