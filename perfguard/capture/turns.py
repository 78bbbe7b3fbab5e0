"""Turns: the steps of one side of an A/B comparison, run only while the other side rests."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from perfguard import thresholds
from perfguard.capture import Backend
from perfguard.capture.controlled import warmed
from perfguard.errors import CaptureError

Batch = TypeVar("Batch")

_END = object()


def process_switches(before: Mapping[str, str]) -> dict[str, str]:
    """Return the process-wide settings, which two sides in one process share; `before` is its first environment.

    These are changed environment variables, garbage collection, and global settings of the frameworks that are loaded.
    """
    changed = {name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)}
    found = {f"${name}": os.environ.get(name, "") for name in changed if not name.startswith(("PYTEST_", "PERFGUARD_"))}
    found["garbage collection"] = str(gc.isenabled())
    if (torch := sys.modules.get("torch")) is not None:
        found["torch float32 matmul precision"] = torch.get_float32_matmul_precision()
        found["torch deterministic algorithms"] = str(torch.are_deterministic_algorithms_enabled())
        found["torch default dtype"] = str(torch.get_default_dtype())
        found["torch.backends.cudnn.benchmark"] = str(torch.backends.cudnn.benchmark)
        found["torch.backends.cudnn.deterministic"] = str(torch.backends.cudnn.deterministic)
    if (mindspore := sys.modules.get("mindspore")) is not None:
        for name in ("mode", "device_target", "enable_graph_kernel", "deterministic"):
            found[f"mindspore {name}"] = str(mindspore.get_context(name))
    return found


class Turns(Protocol):
    """The schedule of one side."""

    def ready(self, clock: str) -> None:
        """Report that the settling steps have run, and the clock of the costs: `process` or `wall`."""

    def wait(self) -> int:
        """Wait for this side's turn; return the number of steps to run, 0 after the last turn."""

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Return the cost and the wall time of each step of the turn."""


class TurnsWindow:
    """Runs the steps of one workload in its turns."""

    def __init__(self, backend: Backend, turns: Turns, *, settle: int) -> None:
        self.backend = backend
        self.turns = turns
        self.settle = settle

    def run(self, step: Callable[[], object]) -> None:
        """Call a step. Its exceptions are raised here."""
        for _ in self._iterate(iter(int, 1), warm_up=thresholds.WARMUP_STEPS):
            step()

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch per step; fetching it is part of the step. Raises `CaptureError` if the loader ends too early."""
        # A loader as long as the test's own window has no batch to spare.
        yield from self._iterate(iter(batches), warm_up=0)

    def _iterate(self, source: Iterator[Batch], *, warm_up: int) -> Iterator[Batch]:
        yield from warmed(source, self.settle, most=warm_up)
        on_cpu = self.backend.target().device == "cpu"
        clock = time.process_time_ns if on_cpu else time.perf_counter_ns
        self.turns.ready("process" if on_cpu else "wall")
        ran = 0
        while steps := self.turns.wait():
            costs, walls = [], []
            for _ in range(steps):
                # Without this the work that a step left behind would be timed as part of the next one.
                self.backend.synchronize()
                began_wall, began = time.perf_counter_ns(), clock()
                batch = next(source, _END)
                if batch is _END:
                    raise CaptureError(f"the loader ended after {ran} timed steps; give it more batches.")
                yield batch  # type: ignore[misc]
                self.backend.synchronize()
                costs.append(max(0, clock() - began))
                walls.append(max(0, time.perf_counter_ns() - began_wall))
                ran += 1
            self.turns.done(costs, walls)
