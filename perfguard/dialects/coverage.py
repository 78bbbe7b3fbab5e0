"""Coverage: how much of each step its executions run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Of one step, in ns: in how much of it operators ran that are no collectives, collectives ran, any of the two ran."""

    operators_ns: int = 0
    collectives_ns: int = 0
    either_ns: int = 0


def covered_sums(batch: Batch, edges: Mapping[int, Sequence[Any]]) -> dict[int, tuple[Covered, ...]]:
    """Return what covers each step of the cycles in the tables, by their numbers; `edges` has an entry a step."""
    rows = batch.execute("from covered_sums") if any(edges.values()) else []
    covered_by = {(cycle, step, part): covered for cycle, step, part, covered in rows}
    return {
        cycle: tuple(
            Covered(
                operators_ns=(operators := covered_by.get((cycle, step, 0), 0)),
                collectives_ns=covered_by.get((cycle, step, 1), 0),
                either_ns=covered_by.get((cycle, step, 2), operators),
            )
            for step in range(len(steps))
        )
        for cycle, steps in edges.items()
    }
