"""Operators, for `perfguard ops`: calls, times and shapes; and censuses of a run or of final graphs, with differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from perfguard.contract import Contract
from perfguard.measure.cycles import CycleMeasurements, cycles_by_rank, measured_cycles, steps_of
from perfguard.measure.graphs import final_operators
from perfguard.measure.measurement import per_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of one rank over the whole window, or what one rank ran on its devices.

    `total_us` includes the operators inside it, `self_us` does not; `shapes` counts the calls by input shapes (empty if the
    profiler recorded none).
    """

    rank: int
    operator: str
    occurrences: int
    total_us: float
    self_us: float
    shapes: dict[str, int] = field(default_factory=dict)
    on_device: bool = False

    @property
    def average_us(self) -> float:
        """Average total time of one execution."""
        return round(self.total_us / self.occurrences, 3) if self.occurrences else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as `perfguard ops --json` prints it."""
        return {**asdict(self), "average_us": self.average_us}


def operators_of(contract: Contract) -> list[Operator]:
    """Return every operator, by rank and then by total time, the longest first."""
    found = []
    for rank, cycles in _known_by_rank(contract):
        totals, own = (_summed(cycles, name) for name in ("operator_total_ns", "operator_self_ns"))
        shapes: dict[str, Counter[str]] = {}
        for cycle in cycles:
            for operator, calls in cycle.values.get("operator_shapes", ()):
                shapes.setdefault(operator, Counter()).update(calls)
        ran = [
            Operator(
                rank=rank,
                operator=operator,
                occurrences=calls,
                total_us=round(totals[operator] / 1e3, 3),
                self_us=round(own[operator] / 1e3, 3),
                shapes=dict(sorted(shapes.get(operator, {}).items())),
                on_device=any(cycle.on_device for cycle in cycles),
            )
            for operator, calls in _summed(cycles, "operator_calls").items()
        ]
        lasts = _summed(cycles, "kernel_total_ns")
        for kernel, calls in _summed(cycles, "kernel_calls").items():
            us = round(lasts[kernel] / 1e3, 3)
            ran.append(Operator(rank=rank, operator=kernel, occurrences=calls, total_us=us, self_us=us, on_device=True))
        found += sorted(ran, key=lambda one: (-one.total_us, one.operator))
    return found


def _known_by_rank(contract: Contract) -> list[tuple[int, list[CycleMeasurements]]]:
    """Return the cycles of which it is known what ran, by rank."""
    return sorted(cycles_by_rank(cycle for cycle in measured_cycles(contract) if cycle.is_known).items())


def _summed(cycles: Sequence[CycleMeasurements], name: str) -> Counter[str]:
    found = Counter[str]()
    for cycle in cycles:
        found.update(dict(cycle.values.get(name, ())))
    return found


class Counted(Enum):
    """The kind of the numbers of a census."""

    #: Calls in the whole window, divided by its steps if they are known.
    RUN = "run"
    #: The same of what ran on devices beside the host.
    DEVICE = "device"
    #: Nodes of the final graphs.
    GRAPH = "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Operators of one rank. `steps` is None if the number of steps is unknown, and for graphs."""

    counted: Counted
    rank: int
    counts: dict[str, int]
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One operator in two censuses: `base` and `now` are per step if the steps of both are known, else of the window."""

    counted: Counted
    rank: int
    operator: str
    base: float
    now: float

    @property
    def difference(self) -> float:
        """The increase; negative for a decrease."""
        return round(self.now - self.base, 6)

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as `perfguard ops --against --json` prints it."""
        return {**asdict(self), "counted": self.counted.value, "difference": self.difference}


def censuses(contract: Contract) -> list[Census]:
    """Return the operators that ran and that were compiled, by rank, without what could not be read."""
    found = []
    for rank, cycles in _known_by_rank(contract):
        for counted, name in ((Counted.RUN, "operator_calls"), (Counted.DEVICE, "kernel_calls")):
            counts = dict(sorted(_summed(cycles, name).items()))
            if counts or counted is Counted.RUN:
                found.append(Census(counted=counted, rank=rank, counts=counts, steps=steps_of(cycles) or None))
    by_rank: dict[int, Counter[str]] = {}
    for cycle in contract.cycles:
        if operators := final_operators(cycle):
            by_rank.setdefault(cycle.rank, Counter()).update(operators)
    found += [
        Census(counted=Counted.GRAPH, rank=rank, counts=dict(sorted(counts.items())))
        for rank, counts in sorted(by_rank.items())
    ]
    return found


def differences(base: Iterable[Census], now: Iterable[Census]) -> list[Difference]:
    """Return every operator of the kinds that both sides have, equal ones included, by rank and name."""
    before, after = list(base), list(now)
    found: list[Difference] = []
    for counted in Counted:
        mine = {one.rank: one for one in after if one.counted is counted}
        theirs = {one.rank: one for one in before if one.counted is counted}
        if mine and theirs:
            for rank in sorted(mine.keys() | theirs.keys()):
                found += _of_rank(counted, rank, theirs.get(rank), mine.get(rank))
    return found


def _of_rank(counted: Counted, rank: int, base: Census | None, now: Census | None) -> Iterator[Difference]:
    steps = [one.steps for one in (base, now) if one is not None]
    is_by_step = None not in steps
    sides = [({}, 1) if one is None else (one.counts, (one.steps or 1) if is_by_step else 1) for one in (base, now)]
    (before, steps_before), (after, steps_now) = sides
    for operator in sorted(before.keys() | after.keys()):
        yield Difference(
            counted=counted,
            rank=rank,
            operator=operator,
            base=round(per_step(before.get(operator, 0), steps_before), 6),
            now=round(per_step(after.get(operator, 0), steps_now), 6),
        )
