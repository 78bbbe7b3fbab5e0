"""Work: the share of changed operators in a step, which distinguishes added work from replaced work and from free views.

Shares of operator time are compared, not times, so the result is the same on any machine. Operators with unchanged calls are
the scale: their cost is assumed to be that in the baseline.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perfguard import thresholds
from perfguard.measure.measurement import ALL_RANKS, Measurement, split_rank

#: Metrics of operators, their calls and their shapes: their differences are weighed together.
CENSUS = frozenset({"operator_calls", "operator_set", "operator_shapes"})
#: Metrics that count operators: their calls, or for graphs that a compiler saved their nodes.
COUNTED = ("operator_calls", "graph_operators")
#: If the removed work is this many times the rest, there is no rest: shares of some tens of operators have six digits each.
_NOTHING_LEFT = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The operator time that was added and removed between the baseline's step and the current one, on one rank.

    `added` maps operators that are new or run more often to fractions of the current operator time, `removed` those that are
    gone or run less often to fractions of the baseline's.
    """

    added: Mapping[str, float]
    removed: Mapping[str, float]
    #: Share of the baseline's operator time in operators that are gone, and in those with another number of calls and only new
    #: shapes, such as one product split in three.
    gone_share: float
    recut_share: float
    #: Whether the fractions are of time; else they are of calls.
    is_timed: bool

    def growth(self, *, is_time_same: bool) -> float:
        """Return the growth of the operator time of a step as a fraction; 0 if new operators replace others.

        Shares give the cost of replaced operators up to `REPLACED_UNCERTAINTY` (of both sides if little is unchanged), and not
        at all if nothing is unchanged. The step's time gives it exactly: `is_time_same` means that it was judged as the same.
        """
        added, removed = _over_rest(self.added), _over_rest(self.removed)
        if removed > _NOTHING_LEFT or (is_time_same and max(removed, self.recut_share) > thresholds.OPERATOR_WEIGHT):
            return 0.0
        if self.is_timed and removed > 1 / thresholds.SCALE_SHARE - 1:
            added *= 1 - thresholds.REPLACED_UNCERTAINTY
        return max(0.0, (added - removed * (1 + thresholds.REPLACED_UNCERTAINTY)) / (1 + removed))

    @property
    def added_share(self) -> float:
        """Share of the current operator time in what is new or runs more often."""
        return math.fsum(self.added.values())

    @property
    def is_mostly_gone(self) -> bool:
        """Whether most of the baseline's operator time is gone, with almost no replacement."""
        return self.gone_share > thresholds.MOSTLY_GONE and self.added_share < thresholds.REPLACEMENT_SHARE

    @property
    def carriers(self) -> frozenset[str]:
        """The operators with the added work: the largest up to half of it, and all with at least `CARRIER_PART` of it.

        The others (views, metadata) cost almost nothing.
        """
        total = self.added_share
        found, covered = set(), 0.0
        for name, share in sorted(self.added.items(), key=lambda item: -item[1]):
            if covered < total / 2 or share >= thresholds.CARRIER_PART * total:
                found.add(name)
            covered += share
        return frozenset(found)


def _over_rest(shares: Mapping[str, float]) -> float:
    """Return shares of a whole as a multiple of the rest; infinite if the rest is only rounding."""
    share = math.fsum(shares.values())
    return share / (1 - share) if share < 1 - 1e-9 else math.inf


def work_of(current: Iterable[Measurement], reference: Iterable[Measurement]) -> dict[str, Work]:
    """Return the work of every rank by the prefix of its subjects: `rank1:`, or empty with a single rank.

    Numbers of all ranks together (`ranks:`) are ignored, because they have no shares. The input is `operator_share`, the first
    existing metric of `COUNTED`, and `operator_shapes`; if a side has no shares, calls replace them on both.
    """
    now, before = _by_rank(current), _by_rank(reference)
    return {rank: _between(before[rank], now[rank]) for rank in sorted(now.keys() & before.keys())}


@dataclass(slots=True)
class _Side:
    calls: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    #: The shapes of operators that have any.
    shapes: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def by_calls(self) -> _Side:
        """The same with shares of calls instead of time."""
        total = sum(self.calls.values()) or 1
        return _Side(
            calls=self.calls, shares={name: calls / total for name, calls in self.calls.items()}, shapes=self.shapes
        )


def _by_rank(measurements: Iterable[Measurement]) -> dict[str, _Side]:
    measurements = tuple(measurements)
    metrics = {one.metric for one in measurements}
    counted = next((name for name in COUNTED if name in metrics), None)
    ranks: dict[str, _Side] = defaultdict(_Side)
    for one in measurements:
        rank, operator = split_rank(one.subject)
        if rank == ALL_RANKS:
            continue
        if one.metric in (counted, "operator_share") and isinstance(one.value, (int, float)):
            values = ranks[rank].calls if one.metric == counted else ranks[rank].shares
            values[operator] = one.value
        elif one.metric == "operator_shapes" and isinstance(one.value, dict):
            ranks[rank].shapes[operator] = frozenset(one.value)
    return ranks


def _between(before: _Side, now: _Side) -> Work:
    is_timed = bool(before.shares and now.shares)
    if not is_timed:
        before, now = before.by_calls, now.by_calls
    # Operators with another number of calls and only new shapes.
    recut = [
        name
        for name in before.shapes.keys() & now.shapes.keys()
        if before.calls.get(name) != now.calls.get(name) and not before.shapes[name] & now.shapes[name]
    ]
    return Work(
        is_timed=is_timed,
        added=_more(now, before),
        removed=_more(before, now),
        gone_share=sum(before.shares.get(name, 0.0) for name in before.calls.keys() - now.calls.keys()),
        recut_share=sum(before.shares.get(name, 0.0) for name in recut),
    )


def _more(side: _Side, other: _Side) -> dict[str, float]:
    """Return the surplus of each operator over the other side, as a fraction of its own side's time."""
    return {
        name: side.shares.get(name, 0.0) * (1 - other.calls.get(name, 0) / calls)
        for name, calls in side.calls.items()
        if calls > other.calls.get(name, 0)
    }
