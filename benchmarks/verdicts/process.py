"""One process of the experiment. Run by `python -m benchmarks.verdicts`; prints one JSON document on its last line."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.verdicts.workloads import BACKENDS, step_of
from perfguard import thresholds
from perfguard.capture import backend
from perfguard.capture.controlled import ControlledWindow, StepClock, bind

#: As pytest-benchmark's pedantic and the CI of MindSpeed-MM run: some steps to warm up, then these.
WARM_UP, STEPS = 5, 30


def controlled(
    model: str,
    products: int = 0,
    sleep_s: float = 0.0,
    numpy_products: int = 0,
    rest_s: float = thresholds.REST_S,
    warm_kernel: bool = False,
) -> dict[str, Any]:
    """Time one side as perfguard does: one CPU, one thread, a kernel between the steps."""
    thresholds.REST_S = rest_s
    if warm_kernel:
        begin = StepClock.begin

        def begin_warm(clock: StepClock) -> None:
            clock._kernel()
            begin(clock)

        StepClock.begin = begin_warm
    cpus = bind(1)
    used = backend(BACKENDS[model])
    used.prepare(1)
    window = ControlledWindow(used, workload=model, settle=3, least=30, cpus=cpus)
    timing = window.run(step_of(model, products=products, numpy_products=numpy_products, sleep_s=sleep_s))
    return {**timing.as_dict(), "environment": None}


def plain(model: str, products: int, sleep_s: float) -> dict[str, Any]:
    """Time one side as other tools do: the process as it comes, wall time."""
    used = backend(BACKENDS[model])
    step = step_of(model, products=products, sleep_s=sleep_s)
    for _ in range(WARM_UP):
        step()
    wall = []
    for _ in range(STEPS):
        used.synchronize()
        began = time.perf_counter_ns()
        step()
        used.synchronize()
        wall.append(time.perf_counter_ns() - began)
    return {"wall_ns": wall}


def paired(model: str, products: int, sleep_s: float) -> dict[str, Any]:
    """Time both sides step by step in random order."""
    bind(1)
    used = backend(BACKENDS[model])
    used.prepare(1)
    sides = [step_of(model), step_of(model, products=products, sleep_s=sleep_s)]
    for step in sides:
        for _ in range(thresholds.WARMUP_STEPS):
            step()
    order = random.Random()
    taken: list[list[int]] = [[], []]
    for _ in range(thresholds.PAIRS):
        for side in order.sample((0, 1), 2):
            used.synchronize()
            began = time.process_time_ns()
            sides[side]()
            used.synchronize()
            taken[side].append(time.process_time_ns() - began)
    return {"base_ns": taken[0], "current_ns": taken[1]}


def profiled(model: str, directory: str, **planted: Any) -> dict[str, Any]:
    """Record a profiled window into `directory`, for the exact metrics."""
    from perfguard.capture.driver import Driver
    from perfguard.window import StepWindow

    used = backend(BACKENDS[model])
    used.prepare(1)
    window = StepWindow(skip_first=3, warmup=1, active=5)
    driver = Driver(used, workload=model, directory=Path(directory), window=window, timed_steps=0)
    driver.run(step_of(model, **planted))
    return {"recording": directory}


if __name__ == "__main__":
    what, arguments = sys.argv[1], json.loads(sys.argv[2])
    print("\n" + json.dumps(globals()[what](**arguments)))
