"""Per-cycle measurements: what measuring needs of one cycle, computed while its artifacts are in memory.

They can be pickled. Their size grows with the number of operators, steps and shapes, not with the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfguard.contract import Contract, Cycle, Requested
from perfguard.dialects.cycle import Executions, MemoryStep
from perfguard.dialects.spans import Spans
from perfguard.errors import UsageError, nearest
from perfguard.measure import graphs
from perfguard.measure.metrics import METRICS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CycleMeasurements:
    """The measurements of one cycle."""

    rank: int
    executions: Executions | None
    memory: tuple[MemoryStep, ...]
    spans: Spans | None
    requested: Requested
    #: (subject, value) by metric, of the metrics of single artifacts.
    values: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)


def measure_cycle(cycle: Cycle) -> CycleMeasurements:
    """Measure one cycle, by queries and functions. Raises `UsageError` for an unknown metric in a query."""
    if unknown := sorted(cycle.measured.keys() - METRICS.keys()):
        raise UsageError(f"A metrics.sql has the unknown metric {unknown[0]!r}; {nearest(unknown[0], METRICS)}")
    found = {name: tuple(values) for name, values in cycle.measured.items()}
    if any(slot in cycle.artifacts for slot in graphs.SLOTS):
        found |= {name: tuple(function(cycle)) for name, function in graphs.OF_CYCLE.items()}
    return CycleMeasurements(
        rank=cycle.rank,
        executions=cycle.executions,
        memory=cycle.memory,
        spans=cycle.spans,
        requested=cycle.requested,
        values=found,
    )


def stored_measurements(contract: Contract) -> list[CycleMeasurements]:
    """Return the measurements that were made of every cycle while the contract was read."""
    return [
        extract.measurements for extract in contract.extracts if isinstance(extract.measurements, CycleMeasurements)
    ]
