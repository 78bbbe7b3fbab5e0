"""A side's steps: they run when it is their turn, in either form, and what they cost is handed back."""

from __future__ import annotations

import pytest

from perfguard.capture.controlled import TurnsWindow
from perfguard.errors import CaptureError


class Target:
    device = "cpu"


class Backend:
    """A framework without a device."""

    def __init__(self, device: str = "cpu") -> None:
        self.synchronized = 0
        self.device = device

    def target(self):
        target = Target()
        target.device = self.device
        return target

    def synchronize(self) -> None:
        self.synchronized += 1


class Told:
    """Turns of so many steps each, and what was handed back."""

    def __init__(self, *turns: int) -> None:
        self.turns = [*turns, 0]
        self.clock = ""
        self.costs: list[list[int]] = []
        self.walls: list[list[int]] = []

    def ready(self, clock: str) -> None:
        self.clock = clock

    def wait(self) -> int:
        return self.turns.pop(0)

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        self.costs.append(costs_ns)
        self.walls.append(wall_ns)


def test_a_callable_settles_and_runs_as_often_as_its_turns_say():
    turns, ran = Told(1, 5), []
    TurnsWindow(Backend(), turns, settle=2).run(lambda: ran.append(sum(range(20_000))))
    assert [len(costs) for costs in turns.costs] == [len(walls) for walls in turns.walls] == [1, 5]
    assert 2 + 6 <= len(ran) <= 2 + 10 + 6
    assert all(cost > 0 for costs in turns.costs for cost in costs)
    assert turns.clock == "process"


def test_a_loop_needs_no_more_batches_than_settle_and_its_turns():
    turns, backend = Told(2, 1), Backend()
    seen = list(TurnsWindow(backend, turns, settle=2).iterate(iter(range(5))))
    assert seen == [0, 1, 2, 3, 4]
    # Before and after every step that is timed.
    assert backend.synchronized == 6


def test_a_loader_that_ends_too_early_says_how_many_it_gave():
    with pytest.raises(CaptureError, match="the loader ended after 3 timed steps; give it more batches"):
        list(TurnsWindow(Backend(), Told(2, 2), settle=1).iterate(iter(range(4))))


def test_where_a_device_works_the_clock_on_the_wall_counts():
    turns = Told(1)
    TurnsWindow(Backend("npu"), turns, settle=1).run(lambda: None)
    assert turns.clock == "wall"
