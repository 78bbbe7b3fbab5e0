"""Per-cycle measurements: what measuring needs of one cycle, computed while its artifacts are in memory.

They can be pickled. Their size grows with the number of operators, steps and shapes, not with the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from perfguard.contract import Contract, Requested
from perfguard.dialects.cycle import MemoryStep
from perfguard.errors import UsageError, nearest
from perfguard.measure import graphs
from perfguard.measure.metrics import METRICS

if TYPE_CHECKING:
    from perfguard.contract import Cycle
    from perfguard.dialects.cycle import Executions


class CycleSummary(Protocol):
    """What a profile is made of; both a cycle and its measurements have it."""

    @property
    def rank(self) -> int:
        """The rank of the cycle."""

    @property
    def executions(self) -> Executions | None:
        """Executions, grouped."""

    @property
    def memory(self) -> tuple[MemoryStep, ...]:
        """Memory of each step and device."""

    @property
    def requested(self) -> Requested:
        """The requested window and options."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CycleMeasurements:
    """The measurements of one cycle."""

    rank: int
    executions: Executions | None
    memory: tuple[MemoryStep, ...]
    requested: Requested
    #: (subject, value) by metric, of the metrics of single artifacts.
    values: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)


def measure_cycle(cycle: Cycle) -> CycleMeasurements:
    """Measure one cycle."""
    return CycleMeasurements(
        rank=cycle.rank,
        executions=cycle.executions,
        memory=cycle.memory,
        requested=cycle.requested,
        values=_values(cycle),
    )


def _values(cycle: Cycle) -> dict[str, tuple[tuple[str, Any], ...]]:
    """Return (subject, value) by metric, from queries and functions."""
    if unknown := sorted(cycle.measured.keys() - METRICS.keys()):
        raise UsageError(f"A metrics.sql has the unknown metric {unknown[0]!r}; {nearest(unknown[0], METRICS)}")
    found = {name: tuple(values) for name, values in cycle.measured.items()}
    if any(slot in cycle.artifacts for slot in graphs.SLOTS):
        found |= {name: tuple(function(cycle)) for name, function in graphs.OF_CYCLE.items()}
    return found


def stored_measurements(contract: Contract) -> list[CycleMeasurements]:
    """Return the measurements that were made of every cycle while the contract was read."""
    return [
        extract.measurements for extract in contract.extracts if isinstance(extract.measurements, CycleMeasurements)
    ]


def cycle_summaries(contract: Contract) -> Sequence[CycleSummary]:
    """Return the cycles of a contract, or their stored measurements."""
    return contract.cycles or stored_measurements(contract)
