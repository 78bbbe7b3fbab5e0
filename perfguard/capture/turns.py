"""Turns: the steps of one side of a comparison, run when the other side rests, and only then."""

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
    """Return what was set for the whole process, so that two sides in one would share it; `before` is its first environment.

    Variables of the environment that were changed, garbage collection, and what the frameworks that are loaded keep.
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
    """Who says when this side runs."""

    def ready(self, clock: str) -> None:
        """Say that the steps that settle have run, and which clock costs are read from: `process` or `wall`."""

    def wait(self) -> int:
        """Wait for this side's turn; return how many steps it is to run, 0 when there are no more."""

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Hand back what each step of the turn cost, and how long it took by the clock."""


class TurnsWindow:
    """Runs the steps of one workload, of either form, as its turns come."""

    def __init__(self, backend: Backend, turns: Turns, *, settle: int) -> None:
        self.backend = backend
        self.turns = turns
        self.settle = settle

    def run(self, step: Callable[[], object]) -> None:
        """Run a callable step. What it raises comes through."""
        for _ in self._iterate(iter(int, 1), warm_up=thresholds.WARMUP_STEPS):
            step()

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch a step; asking for it belongs to the step. Raises `CaptureError` where the loader ends too early."""
        # A loader that is as long as the test's own window has none to spare.
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
                # Without this the work a step left behind would be timed as the next one's.
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
