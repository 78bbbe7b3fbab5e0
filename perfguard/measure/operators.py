"""Operators: calls, times and shapes of each operator, for `perfguard ops`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfguard.contract import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of one rank over the whole window.

    `total_us` includes the operators inside it, `self_us` does not; `shapes` counts the calls by input shapes (empty if the
    profiler recorded none).
    """

    rank: int
    operator: str
    occurrences: int
    total_us: float
    self_us: float
    shapes: dict[str, int] = field(default_factory=dict)

    @property
    def average_us(self) -> float:
        """Average total time of one execution."""
        return round(self.total_us / self.occurrences, 3) if self.occurrences else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as `perfguard ops --json` prints it."""
        return {**asdict(self), "average_us": self.average_us}


def operators_of(contract: Contract) -> list[Operator]:
    """Return every operator, by rank and then by total time, the longest first."""
    import polars as pl

    from perfguard.measure.profile import profiles

    found = []
    for profile in profiles(contract):
        shapes: dict[str, dict[str, int]] = {}
        for operator, text, calls in profile.shapes.sort("operator", "shapes").iter_rows():
            shapes.setdefault(operator, {})[text] = calls
        summed = profile.groups.group_by("operator").agg(pl.col("calls", "total_ns", "self_ns").sum())
        for operator, occurrences, total_ns, self_ns in summed.sort(
            "total_ns", "operator", descending=[True, False]
        ).iter_rows():
            found.append(
                Operator(
                    rank=profile.rank,
                    operator=operator,
                    occurrences=occurrences,
                    total_us=round(total_ns / 1e3, 3),
                    self_us=round(self_ns / 1e3, 3),
                    shapes=shapes.get(operator, {}),
                )
            )
    return found
