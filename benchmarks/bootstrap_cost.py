"""What the bootstrap of `perfguard run` costs a training outside of its window, and an interpreter that imports no framework.

Run: python benchmarks/bootstrap_cost.py [REPEATS]. A step of a small MLP in torch, with and without, interleaved: the
medians of so many runs (7) of 2000 steps each, in microseconds, and their ratio; before a window (steps are timed and waited
for) and after it. Then the start of an interpreter in milliseconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perfguard.capture import script

STEPS = 2000
TRAINING = f"""
import statistics, time, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(32, 64), torch.arange(32) % 10
def step():
    optimizer.zero_grad()
    loss(net(x), y).backward()
    optimizer.step()
for _ in range(20):
    step()
took = []
for _ in range({STEPS}):
    began = time.perf_counter_ns()
    step()
    took.append(time.perf_counter_ns() - began)
print(statistics.median(took) / 1000)
"""


def environment(directory: Path, first: int | None) -> dict[str, str]:
    """Return an environment with the bootstrap and a window that begins after so many steps, or without a bootstrap."""
    if first is None:
        return dict(os.environ)
    window = {"skip_first": first, "timed": 0, "warmup": 0, "active": 1}
    plan = {
        "facts": str(directory),
        "profiler": str(directory / "profiler"),
        "ranked": False,
        "window": window,
        "limit": 100,
        "backends": ["torch"],
        "torch": {},
        "own_memory": False,
    }
    (directory / "plan").write_text(json.dumps(plan))
    injected = Path(script.__file__).parent / "injected"
    return {**os.environ, "PERFGUARD_PLAN": str(directory / "plan"), "PYTHONPATH": str(injected)}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    variants = {"without": None, "before a window": 10 * STEPS, "after a window": 5}
    steps_us: dict[str, list[float]] = {name: [] for name in variants}
    starts_ms: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(repeats):
            for name, first in variants.items():
                command = [sys.executable, "-c", TRAINING]
                where = environment(Path(directory), first)
                told = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
                steps_us[name].append(float(told.stdout))
            for name, first in (("without", None), ("with", 5)):
                where = environment(Path(directory), first)
                for _ in range(5):
                    began = time.perf_counter()
                    subprocess.run([sys.executable, "-c", "pass"], env=where, check=True)
                    starts_ms[name].append((time.perf_counter() - began) * 1000)
    base = statistics.median(steps_us["without"])
    for name, found in steps_us.items():
        median = statistics.median(found)
        print(f"step {name:16} {median:7.1f} us  ratio {median / base:.3f}  ({min(found):.1f} to {max(found):.1f})")
    for name, found in starts_ms.items():
        print(f"start {name:15} {statistics.median(found):7.1f} ms")


if __name__ == "__main__":
    main()
