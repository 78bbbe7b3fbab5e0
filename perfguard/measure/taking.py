"""Taking: what measuring needs of one cycle, taken while its artifacts are there.

It can be pickled, and its size depends on how many different operators, steps and shapes there are, not on how many rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from perfguard.contract import Asked, Contract
from perfguard.dialects.cycle import MemoryStep

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Executions


class Reduced(Protocol):
    """What a profile is made of: a cycle has it, and so has what was taken of one."""

    @property
    def rank(self) -> int:
        """The rank whose cycle it is."""

    @property
    def executions(self) -> Executions | None:
        """Executions, added up."""

    @property
    def shapes(self) -> pl.DataFrame | None:
        """With which inputs operators ran."""

    @property
    def memory(self) -> tuple[MemoryStep, ...]:
        """Memory of each step and device."""

    @property
    def asked(self) -> Asked:
        """What the cycle was asked to hold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taking:
    """One cycle, as far as it is measured."""

    rank: int
    executions: Executions | None
    shapes: pl.DataFrame | None
    memory: tuple[MemoryStep, ...]
    asked: Asked
    #: What metrics of single artifacts measured: (subject, value), by metric.
    values: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)


def kept(contract: Contract) -> list[Taking]:
    """Return what was taken of every cycle of a contract while it was read."""
    return [extract.taken for extract in contract.extracts if isinstance(extract.taken, Taking)]


def reduced(contract: Contract) -> Sequence[Reduced]:
    """Return the cycles of a contract, or what was taken of them."""
    return contract.cycles or kept(contract)
