"""A training loop that waits for nobody, and goes on until a file named `enough` is there. argv: CONFIG."""

import sys
import time
from pathlib import Path

import torch

from perfguard.integrations.tools_profiler import tools_profiler

prof = tools_profiler(sys.argv[1])
prof.start()
end = time.monotonic() + 60
while not Path("enough").exists() and time.monotonic() < end:
    torch.mm(torch.ones(4, 4), torch.ones(4, 4))
    prof.step()
prof.stop()
print(" ".join(f"{one.directory.name}:{one.ending.value}" for one in prof.recordings))
