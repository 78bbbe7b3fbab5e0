"""How exact memory is: the same step in fresh processes, on one core, on all, and on all beside as many busy loops.

Run: python benchmarks/memory_exactness.py [PROCESSES [MODEL]]. Prints, for each model and mode, how many profiled steps
there were, how many differ from the most common (rise, allocations, allocated bytes), and how many recordings had another
`peak_memory_bytes`. PyNative is run once as it is, and once as perfguard profiles it, with pynative_synchronize.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SESSIONS, STEPS = 4, 10


CASES = (
    ("lenet", "graph"),
    ("transformer", "graph"),
    ("lenet", "pynative as it is"),
    ("lenet", "pynative synchronised"),
)
HOG = "while True: pass"


def measure(model: str, mode: str) -> None:
    """Print the memory of every profiled step of this process as JSON lines."""
    import mindspore

    from perfguard.capture.driver import Driver
    from perfguard.capture.mindspore_backend import MindSporeBackend
    from perfguard.contract import inspect
    from perfguard.measure import measure as measured
    from perfguard.window import StepWindow
    from tests.models.mindspore_nets import lenet_step, transformer_step

    class Asynchronous(MindSporeBackend):
        def _set_synchronous(self, value: bool) -> None:
            """Leave PyNative as it is."""

    backend = Asynchronous() if mode == "pynative as it is" else MindSporeBackend()
    backend.prepare(1)
    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.GRAPH_MODE if mode == "graph" else mindspore.PYNATIVE_MODE)
    window = StepWindow(skip_first=3, warmup=1, active=STEPS)
    make = {"lenet": lenet_step, "transformer": transformer_step}[model]
    for _ in range(SESSIONS):
        with tempfile.TemporaryDirectory() as directory:
            driver = Driver(backend, workload=mode, directory=Path(directory), window=window, timed_steps=0)
            contract = inspect(driver.run(make()))
            (cycle,) = contract.cycles
            names = ("memory_allocations", "memory_allocated_bytes")
            samples = (dict(cycle.measured[name])["cpu"] for name in names)
            for step, *counts in zip(cycle.memory, *samples, strict=True):
                print("STEP", json.dumps([step.rise_bytes, *counts]))
            for one in measured(contract):
                if one.metric == "peak_memory_bytes":
                    print("PEAK", one.value)


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    cases = [case for case in CASES if len(sys.argv) < 3 or case[0] == sys.argv[2]]
    every = set(range(os.cpu_count() or 1))
    for model, mode in cases:
        for cores, busy in (({0}, 0), (every, 0), (every, len(every))):
            steps, peaks = seen(model, mode, processes, cores, busy)
            where = f"{len(cores)} cores" + (f", {busy} busy loops" if busy else "")
            print(f"{model} {mode}, {where}: {differ(steps)} steps differ, {differ(peaks)} peaks", flush=True)


def differ(values: Counter[str]) -> str:
    """Say how many are not the most common one."""
    return f"{sum(values.values()) - values.most_common(1)[0][1]} of {sum(values.values())}"


def seen(model: str, mode: str, processes: int, cores: set[int], busy: int) -> tuple[Counter[str], Counter[str]]:
    """Count the steps and peaks of so many processes."""
    steps: Counter[str] = Counter()
    peaks: Counter[str] = Counter()
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(busy)]
    try:
        for _ in range(processes):
            child = subprocess.run(
                [sys.executable, __file__, "--child", model, mode],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
            lines = child.stdout.splitlines()
            steps.update(line[5:] for line in lines if line.startswith("STEP "))
            peaks.update(line[5:] for line in lines if line.startswith("PEAK "))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    return steps, peaks


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure(*sys.argv[2:])
    else:
        main()
