"""One controlled process whose steps wait, or keep memory, on purpose; and how often the rule of five of five is wrong.

`python -m benchmarks.stalls` and `python -m benchmarks.host_memory` start these processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.verdicts.workloads import BACKENDS, step_of
from perfguard import thresholds
from perfguard.capture.controlled import controlled_environment
from perfguard.judge.tolerance import default_tolerance
from perfguard.measure import METRICS, measure_runs
from perfguard.measure.runs import best_of_runs
from perfguard.timing import Timing

ROOT = Path(__file__).parents[1]
#: The MLP with torch's DataLoader and one worker, which shares the one CPU with the step.
LOADER = "loader"
ITEMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What is planted in the steps of a model; nothing by itself."""

    model: str
    #: The step sleeps so long, every so many steps.
    sleep_s: float = 0.0
    every: int = 1
    #: Every item of the loader sleeps so long, in the worker.
    item_sleep_s: float = 0.0
    #: The step keeps so many bytes for good: in one object, or in floats.
    kept_bytes: int = 0
    in_floats: bool = False

    def __str__(self) -> str:
        parts = [
            f"sleeps {1e3 * self.sleep_s:g} ms{'' if self.every == 1 else f' every {self.every} steps'}"
            if self.sleep_s
            else "",
            f"every item sleeps {1e3 * self.item_sleep_s:g} ms" if self.item_sleep_s else "",
            f"keeps {self.kept_bytes / 1024:g} KiB{' of floats' if self.in_floats else ''}" if self.kept_bytes else "",
        ]
        return f"{self.model}, {', '.join(filter(None, parts)) or 'unchanged'}"

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing is planted."""
        return self == Plant(model=self.model)


def timed(plant: Plant) -> Timing | None:
    """Time the steps in a fresh controlled process; None where it failed, which is printed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.planted", json.dumps(_plain(plant))],
        cwd=ROOT,
        env=controlled_environment({**os.environ, "PYTHONPATH": str(ROOT)}, threads=1),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        print(f"{plant} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return None
    return Timing.from_dict(json.loads(lines[-1]))


def samples(metric: str, timings: Iterable[Timing]) -> tuple[float, ...]:
    """Return the samples of one metric, one a process."""
    return next((one.samples for one in measure_runs(timings) if one.metric == metric), ())


def row(name: str, metric: str, base: Sequence[float], current: Sequence[float], unit: float) -> list[str]:
    """Return a line of the table: what the processes measured, and what the rule says of them.

    Alone: each process against each five of the baseline in a row. Five of five: each five in a row, as the gate judges;
    in brackets the groups that share no process.
    """
    size = thresholds.BASELINE_RUNS
    limits, better = default_tolerance(METRICS[metric]), METRICS[metric].better
    # Unchanged beside nothing is its own baseline: then a group is judged by groups that share no process with it.
    same = base is current
    bases = {first: best_of_runs(base[first : first + size]) for first in range(len(base) - size + 1)}

    def red(width: int) -> tuple[int, int]:
        found = [
            limits.is_worse(min(current[first : first + width]), reference, better)
            for first in range(len(current) - width + 1)
            for at, reference in bases.items()
            if not same or first >= at + size or at >= first + width
        ]
        return sum(found), len(found)

    cells = []
    for width in (1, thresholds.MOST_RUNS):
        count, decisions = red(width)
        groups = min(len(base) // size, len(current) // width) if not same else len(current) // (size + width)
        cells.append(f"{count} of {decisions} ({groups})" if decisions else "-")
    spread = f"{min(current) / unit:.3g} to {max(current) / unit:.3g}" if current else "-"
    return [name, str(len(current)), spread, *cells]


# -- inside the process ------------------------------------------------------------------------------------------------


def _plain(plant: Plant) -> dict[str, Any]:
    return {name: getattr(plant, name) for name in Plant.__slots__}


def _planted(plant: Plant) -> Callable[[], None]:
    """Return what runs after each step."""
    kept: list[object] = []
    count = 0

    def after() -> None:
        nonlocal count
        count += 1
        if plant.sleep_s and count % plant.every == 0:
            time.sleep(plant.sleep_s)
        if plant.kept_bytes:
            # A float takes 24 bytes, in a block of 32.
            size = plant.kept_bytes
            kept.append([float(number) for number in range(size // 32)] if plant.in_floats else bytes(size))

    return after


def _loader(item_sleep_s: float) -> Iterable[object]:
    import numpy as np
    import torch

    class Items(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> object:
            if item_sleep_s:
                time.sleep(item_sleep_s)
            return torch.from_numpy(np.tanh(np.random.default_rng(index).normal(size=(256, 8))).astype(np.float32))

    return torch.utils.data.DataLoader(Items(), batch_size=ITEMS, num_workers=1)


def main(plant: Plant) -> None:
    """Time one workload as perfguard does, and print the timing on the last line."""
    from perfguard.capture import backend
    from perfguard.capture.controlled import ControlledWindow, bind

    cpus = bind(1)
    model = "mlp" if plant.model == LOADER else plant.model
    used = backend(BACKENDS[model])
    used.prepare(1)
    step, after = step_of(model), _planted(plant)
    window = ControlledWindow(used, workload=plant.model, settle=3, least=30, cpus=cpus)

    def planted_step() -> None:
        step()
        after()

    if plant.model == LOADER:
        for _ in window.iterate(_loader(plant.item_sleep_s)):
            planted_step()
    else:
        window.run(planted_step)
    assert window.timing is not None
    print("\n" + json.dumps({**window.timing.as_dict(), "environment": None}))


if __name__ == "__main__":
    main(Plant(**json.loads(sys.argv[1])))
