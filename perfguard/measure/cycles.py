"""Per-cycle measurements: what measuring needs of one cycle, computed while its artifacts are in memory.

They can be pickled. Their size grows with the number of operators, steps and shapes, not with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfguard.contract import Contract, Cycle
from perfguard.dialects.cycle import MemoryStep
from perfguard.dialects.spans import Spans
from perfguard.errors import UsageError, nearest
from perfguard.measure import graphs
from perfguard.measure.metrics import METRICS, PARTS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CycleMeasurements:
    """The measurements of one cycle."""

    rank: int
    #: Whether it is known what ran.
    is_known: bool
    #: Whether its operators ran on a device: of a profiler that tells only these.
    on_device: bool
    #: The number of its steps; None if it is unknown.
    steps: int | None
    memory: tuple[MemoryStep, ...]
    spans: Spans | None
    #: (subject, value) by metric, as it was measured of this cycle.
    values: Mapping[str, Sequence[tuple[str, Any]]] = field(default_factory=dict)


def measure_cycle(cycle: Cycle) -> CycleMeasurements:
    """Measure one cycle, by queries and functions. Raises `UsageError` for an unknown metric in a query."""
    if unknown := sorted(cycle.measured.keys() - METRICS.keys() - PARTS):
        raise UsageError(f"A metrics.sql has the unknown metric {unknown[0]!r}; {nearest(unknown[0], METRICS)}")
    found = {name: tuple(values) for name, values in cycle.measured.items()}
    if any(slot in cycle.artifacts for slot in graphs.SLOTS):
        found |= {name: tuple(function(cycle)) for name, function in graphs.OF_CYCLE.items()}
    return CycleMeasurements(
        rank=cycle.rank,
        is_known=cycle.executions is not None,
        on_device=cycle.executions is not None and cycle.executions.on_device,
        steps=cycle.executions.steps if cycle.executions is not None else None,
        memory=cycle.memory,
        spans=cycle.spans,
        values=found,
    )


def measured_cycles(contract: Contract) -> list[CycleMeasurements]:
    """Return the measurements of every cycle, those that were made while the contract was read if it has no cycles."""
    return [measure_cycle(cycle) for cycle in contract.cycles] or [
        extract.measurements for extract in contract.extracts if isinstance(extract.measurements, CycleMeasurements)
    ]


def cycles_by_rank(cycles: Iterable[CycleMeasurements]) -> dict[int, list[CycleMeasurements]]:
    """Return the cycles of each rank, in their order; the ranks in the order of their first cycles."""
    found: dict[int, list[CycleMeasurements]] = {}
    for cycle in cycles:
        found.setdefault(cycle.rank, []).append(cycle)
    return found


def steps_of(cycles: Sequence[CycleMeasurements]) -> int | None:
    """Return the number of all steps of some cycles of which it is known what ran; None if one does not know it."""
    steps = [one.steps for one in cycles if one.is_known]
    known = [one for one in steps if one is not None]
    return sum(known) if len(known) == len(steps) else None
