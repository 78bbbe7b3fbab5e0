"""Coverage: how much of each step its executions run, computed while they pass by in the order of their starts.

What is kept is one number of each step for the time covered so far and one for how far it reaches, however many executions
there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import in_int64
from perfguard.dialects.collectives import COLLECTIVE

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Of one step, in ns: in how much of it operators ran that are no collectives, collectives ran, any of the two ran."""

    operators_ns: int = 0
    collectives_ns: int = 0
    either_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans:
    """Times in which something ran, one after the other: int64 arrays with a value a span."""

    step: Any
    start_ns: Any
    duration_ns: Any

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Spans:
        """Return the spans of rows; one without a step or a time covers nothing."""
        columns = ("step", "start_ns", "duration_ns")
        whole = rows.select(columns).drop_nulls()
        return cls(**{name: whole[name].to_numpy() for name in columns})

    def at(self, places: Any) -> Spans:
        """Return some of the spans."""
        return Spans(
            step=self.step[places], start_ns=self.start_ns[places], duration_ns=self.duration_ns[places]
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of every step spans cover. A step is from `edges_ns[i][0]` to `edges_ns[i][1]`, spans are cut at its edges."""

    edges_ns: tuple[tuple[int, int], ...]
    covered_ns: tuple[int, ...]
    #: To where the spans of each step reach, at least its start.
    reached_ns: tuple[int, ...]

    @classmethod
    def of(cls, edges_ns: Sequence[tuple[int, int]]) -> Coverage:
        """Return the coverage of steps in which nothing ran yet."""
        return cls(
            edges_ns=tuple(edges_ns), covered_ns=(0,) * len(edges_ns), reached_ns=tuple(start for start, _ in edges_ns)
        )

    def extended(self, spans: Spans) -> Coverage:
        """Return the coverage with more spans, which begin no earlier than the spans of the same step before them."""
        import numpy as np

        is_there = (spans.step >= 0) & (spans.step < len(self.edges_ns))
        if not is_there.any():
            return self
        spans = spans.at(np.flatnonzero(is_there)) if not is_there.all() else spans
        if (np.diff(spans.step) < 0).any():
            spans = spans.at(np.argsort(spans.step, kind="stable"))
        covered, reached = list(self.covered_ns), list(self.reached_ns)
        firsts = np.flatnonzero(np.diff(spans.step, prepend=-1))
        ends = np.append(firsts[1:], len(spans.step))
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
            step = int(spans.step[first])
            low, high = map(in_int64, self.edges_ns[step])
            begin = spans.start_ns[first:end]
            stop = np.clip(begin + spans.duration_ns[first:end], low, high)
            latest = np.maximum.accumulate(np.append(in_int64(reached[step]), stop))
            alone = stop - np.maximum(np.clip(begin, low, high), latest[:-1])
            covered[step] += int(alone[alone > 0].sum())
            reached[step] = int(latest[-1])
        return Coverage(edges_ns=self.edges_ns, covered_ns=tuple(covered), reached_ns=tuple(reached))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredSteps:
    """What covers the steps of a window, by what it is."""

    operators: Coverage
    collectives: Coverage
    either: Coverage

    @classmethod
    def of(cls, edges_ns: Sequence[tuple[int, int]]) -> CoveredSteps:
        """Return what covers steps in which nothing ran yet."""
        nothing = Coverage.of(edges_ns)
        return cls(operators=nothing, collectives=nothing, either=nothing)

    def extended(self, rows: pl.DataFrame) -> CoveredSteps:
        """Add executions (`operator`, `step`, `start_ns`, `duration_ns`) that begin no earlier than those before them.

        An execution without an operator counts for nothing.
        """
        named = rows.drop_nulls(("operator", "step", "start_ns", "duration_ns"))
        is_collective = named["operator"].str.contains(COLLECTIVE.pattern)
        return self.told_apart(Spans.of(named), is_collective.to_numpy())

    def told_apart(self, spans: Spans, is_collective: Any) -> CoveredSteps:
        """Add executions of which it is known already which are collectives (an array of bool)."""
        import numpy as np

        if not is_collective.any():
            operators = self.operators.extended(spans)
            # As long as there was no collective at all, both are the same.
            either = operators if self.either is self.operators else self.either.extended(spans)
            return CoveredSteps(operators=operators, collectives=self.collectives, either=either)
        return CoveredSteps(
            operators=self.operators.extended(spans.at(np.flatnonzero(~is_collective))),
            collectives=self.collectives.extended(spans.at(np.flatnonzero(is_collective))),
            either=self.either.extended(spans),
        )

    @property
    def by_step(self) -> tuple[Covered, ...]:
        """What covers each step, in the order of the edges."""
        return tuple(
            Covered(operators_ns=operators, collectives_ns=collectives, either_ns=either)
            for operators, collectives, either in zip(
                self.operators.covered_ns, self.collectives.covered_ns, self.either.covered_ns, strict=True
            )
        )


def covered_steps(rows: pl.DataFrame, edges_ns: Sequence[tuple[int, int]]) -> tuple[Covered, ...]:
    """Return what covers each step, from all executions of a window, in whatever order."""
    if not edges_ns:
        return ()
    found = rows.select("operator", "step", "start_ns", "duration_ns")
    return CoveredSteps.of(edges_ns).extended(found.sort("start_ns")).by_step
