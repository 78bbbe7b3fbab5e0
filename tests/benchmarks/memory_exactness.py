"""How exact memory is: the same LeNet step, in fresh processes, on one core and on all.

Run: python tests/benchmarks/memory_exactness.py [PROCESSES]. Prints, for each mode, how many profiled steps there were and how
many differ from the most common (rise, allocations, allocated bytes). PyNative is run once as it is, and once as perfguard
profiles it, with pynative_synchronize.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SESSIONS, STEPS = 4, 10


def measure(mode: str) -> None:
    """Print the memory of every profiled step of this process as JSON lines."""
    import mindspore

    from perfguard.capture.driver import Driver
    from perfguard.capture.mindspore_backend import MindSporeBackend
    from perfguard.contract import inspect
    from perfguard.measure.profile import profiles
    from perfguard.window import StepWindow
    from tests.models.mindspore_nets import lenet_step

    class Asynchronous(MindSporeBackend):
        def _set_synchronous(self, value: bool) -> None:
            """Leave PyNative as it is."""

    backend = Asynchronous() if mode == "pynative as it is" else MindSporeBackend()
    backend.prepare(1)
    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.GRAPH_MODE if mode == "graph" else mindspore.PYNATIVE_MODE)
    window = StepWindow(skip_first=3, warmup=1, active=STEPS)
    for _ in range(SESSIONS):
        with tempfile.TemporaryDirectory() as directory:
            driver = Driver(backend, workload=mode, directory=Path(directory), window=window, timed_steps=0)
            for step in profiles(inspect(driver.run(lenet_step())))[0].memory:
                print("STEP", json.dumps([step.rise_bytes, step.allocations, step.allocated_bytes]))


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for mode in ("graph", "pynative as it is", "pynative synchronised"):
        for cores in ({0}, set(range(os.cpu_count() or 1))):
            seen: Counter[str] = Counter()
            for _ in range(processes):
                child = subprocess.run(
                    [sys.executable, __file__, "--child", mode],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    capture_output=True,
                    text=True,
                    check=True,
                    preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores),
                )
                seen.update(line[5:] for line in child.stdout.splitlines() if line.startswith("STEP "))
            other = sum(seen.values()) - seen.most_common(1)[0][1]
            print(f"{mode:22} {len(cores)} cores: {sum(seen.values())} steps, {other} differ", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure(sys.argv[2])
    else:
        main()
