"""The training loop of MindSpeed-MM's README, unchanged but for the name of its profiler. argv: CONFIG STEPS [HOW]."""

import os
import sys

import torch

import perfguard.integrations.tools_profiler as perfguard_tools

config, steps, how = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "plain"
if how == "gloo":
    torch.distributed.init_process_group("gloo")


def train_one_step(step: int) -> None:
    if how == "raise" and step == 3:
        raise ValueError("loss is gone")
    if how == "exit" and step == 3:
        sys.exit(5)
    if how == "fork" and step == 0:
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        assert not os.path.exists("npu_profiling/recording.json")
    x = torch.mm(torch.ones(4, 4), torch.ones(4, 4))
    if how == "gloo":
        torch.distributed.all_reduce(x)


prof = perfguard_tools.tools_profiler(config)
prof.start()
for step in range(steps):
    train_one_step(step)
    prof.step()
prof.stop()
if how == "gloo":
    torch.distributed.destroy_process_group()
print(" ".join(f"{one.directory.name}:{one.ending.value}" for one in prof.recordings))
