"""Ledgers: the change of a step's time, as parts that add up to it, from the measurements of both sides.

The input is measurements only, so recordings, report files and stored baselines have the same ledger. All times are whole
nanoseconds, so the sum is exact.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from perfguard.dialects.collectives import COLLECTIVE
from perfguard.judge.quantities import differences
from perfguard.measure.measurement import ALL_RANKS, Measurement, rank_of

#: Times of a step without the profiler, in us: in controlled processes, else in the process that was profiled later.
UNPROFILED = ("run_wall_time", "run_cpu_time", "step_time")
PROFILED = "profiled_step_time"
OPERATORS = "operator_time"

CALLS, SHAPES, POSITIONS = "operator_calls", "operator_shapes", "operator_position"
#: Parts that perfguard computed from the profiled window, and those in the profiler's own files.
COMPUTED, REPORTED = "profiled_step_part", "step_part_time"
#: What ran on a device, and the parts of its time in the fastest profiled step, by device and part.
KERNELS, KERNEL_CALLS, DEVICE = "kernel_time", "kernel_calls", "device_time"
_WHOLES = (*UNPROFILED, PROFILED)
_TIMES = frozenset({*_WHOLES, OPERATORS, COMPUTED, REPORTED, KERNELS, DEVICE})

#: The measurements of one rank, by metric and then by subject; times are whole ns.
_Side = Mapping[str, Mapping[str, Any]]

#: Times beyond thirty years in us, and fewer calls than one in a million steps, come from a damaged report.
_LARGEST = 1e15
_FEWEST_CALLS = 1e-6


class Cause(Enum):
    """Why a part of the time changed."""

    NEW = "new-operator"
    VANISHED = "vanished-operator"
    RENAMED = "renamed-operator"
    CALLS = "calls"
    SHAPES = "shapes"
    PER_CALL = "per-call"
    COMMUNICATION = "communication-not-overlapped"
    IDLE = "idle"
    #: Concurrent operators: the sum of their times is more than the elapsed time. Its ns are negative.
    OVERLAP = "overlap"
    #: The time that the profiler adds to operators, but not to the unprofiled step. Its ns are negative.
    PROFILER = "profiler"
    #: The ledger's rank is the slowest now; another one was before.
    RANK = "slowest-rank"
    RESIDUAL = "residual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One part of a change, in ns a step. `subject` is the operator; empty for a part of the whole step."""

    cause: Cause
    subject: str = ""
    base_ns: int
    current_ns: int
    #: `int` keeps whole numbers whole when a report is read and written again.
    base_calls: float | int | None = None
    current_calls: float | int | None = None
    #: The operator's name in the base, if it was renamed.
    renamed_from: str = ""
    #: Evidence: the changed shapes, or the match of a renamed operator.
    note: str = ""

    @property
    def change_ns(self) -> int:
        """How much longer a step takes by this part."""
        return self.current_ns - self.base_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The change of a step's time and its parts, the largest first and the residual last.

    `metric` is that of the step's time; without a timed step it is operator_time, and the whole is the sum of the parts. With
    several ranks it is that of `rank`, the slowest one now, because the job waits for it.
    """

    metric: str
    base_ns: int
    current_ns: int
    entries: tuple[Entry, ...]
    rank: int | None = None

    @property
    def change_ns(self) -> int:
        """How much longer a step takes; the sum of the entries' changes."""
        return self.current_ns - self.base_ns


def ledger(base: Iterable[Measurement], current: Iterable[Measurement]) -> Ledger | None:
    """Return the ledger from `base` to `current`; None if one of them has no times of operators."""
    before, after = _by_rank(base), _by_rank(current)
    ranks = [rank for rank, side in after.items() if side[OPERATORS] and rank in before and before[rank][OPERATORS]]
    if not ranks:
        return None
    # Of equally slow ranks the first; the only rank has no number.
    rank = max(sorted(ranks, key=lambda rank: -1 if rank is None else rank), key=lambda rank: _length_ns(after[rank]))
    old, new = before[rank], after[rank]
    if (was := _on_device(old)) is not None and (now := _on_device(new)) is not None:
        old, new = was, now
    parts = [*_of_operators(old, new), *_of_the_step(old, new)]
    jobs = _of_the_job(before), _of_the_job(after)
    metric = next((name for name in _WHOLES if name in jobs[0] and name in jobs[1]), None)
    if metric is None:
        return _closed(OPERATORS, rank, _sums(parts), parts)
    whole = jobs[0][metric], jobs[1][metric]
    of_rank = old[metric].get("", whole[0]), new[metric].get("", whole[1])
    parts.append(Entry(cause=Cause.RANK, base_ns=whole[0] - of_rank[0], current_ns=whole[1] - of_rank[1]))
    if metric != PROFILED and "" in old[PROFILED] and "" in new[PROFILED]:
        added = old[PROFILED][""] - of_rank[0], new[PROFILED][""] - of_rank[1]
        parts.append(Entry(cause=Cause.PROFILER, base_ns=-added[0], current_ns=-added[1]))
    return _closed(metric, rank, whole, parts)


def _closed(metric: str, rank: int | None, whole: tuple[int, int], parts: Sequence[Entry]) -> Ledger:
    """Add the rest as the residual, and leave out unchanged parts."""
    sums = _sums(parts)
    residual = Entry(cause=Cause.RESIDUAL, base_ns=whole[0] - sums[0], current_ns=whole[1] - sums[1])
    changed = [entry for entry in parts if entry.change_ns or entry.cause in _SHOWN_UNCHANGED]
    changed.sort(key=lambda entry: (-abs(entry.change_ns), entry.cause.value, entry.subject))
    return Ledger(metric=metric, rank=rank, base_ns=whole[0], current_ns=whole[1], entries=(*changed, residual))


#: Other operators are reported even without a change of time.
_SHOWN_UNCHANGED = frozenset({Cause.NEW, Cause.VANISHED, Cause.RENAMED})


def _sums(parts: Sequence[Entry]) -> tuple[int, int]:
    """Return the sums of the parts on both sides."""
    # The calls of an operator lead to the entry of its single call: the time between them is on neither side.
    between = sum(entry.current_ns for entry in parts if entry.cause is Cause.CALLS)
    return sum(entry.base_ns for entry in parts) - between, sum(entry.current_ns for entry in parts) - between


# -- one side --------------------------------------------------------------------------------------------------------


def _by_rank(measurements: Iterable[Measurement]) -> dict[int | None, _Side]:
    """Return the measurements of each rank; the rank is None for the only one, and for numbers of the whole job."""
    sides: dict[int | None, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for one in measurements:
        rank, subject = _split(one)
        value: Any = one.value
        if one.metric == SHAPES:
            is_usable = isinstance(value, dict)
        else:
            is_usable = isinstance(value, (int, float)) and abs(value) < _LARGEST and not subject.startswith(ALL_RANKS)
        if is_usable:
            sides[rank][one.metric][subject] = round(value * 1000) if one.metric in _TIMES else value
    return dict(sides)


def _split(one: Measurement) -> tuple[int | None, str]:
    """Return rank and subject; the steps of a rank are `rank1`, its operators `rank1:MatMul`."""
    found = rank_of(one.subject)
    if found is None or (":" not in one.subject and one.metric not in UNPROFILED):
        return None, one.subject
    return found


def _on_device(side: _Side) -> _Side | None:
    """Return what the one device of a rank did in place of its host: kernels, and the parts of the step; None for other ranks.

    The host of a device asks and waits: its times say how long it did, not what the step is made of. Each kernel counts with
    its own fastest step, and some run beside each other: that is in the residual. The calls of one that runs in some steps only
    say nothing.
    """
    devices = {subject.rpartition(":")[0] for subject in side[DEVICE]}
    if len(devices) != 1:
        return None
    (device,) = devices
    parts = {subject.removeprefix(f"{device}:"): ns for subject, ns in side[DEVICE].items()}
    kernels = {name: ns for name, ns in side[KERNELS].items() if not COLLECTIVE.search(name)}
    if not {"exposed_communication", "idle"} <= parts.keys():
        return None
    computed = {"idle": parts["idle"], "communication": parts["exposed_communication"]}
    others = defaultdict(dict, {metric: values for metric, values in side.items() if metric in _WHOLES})
    calls = {name: count for name, count in side[KERNEL_CALLS].items() if float(count).is_integer()}
    return others | {OPERATORS: kernels, CALLS: calls, COMPUTED: computed}


def _length_ns(side: _Side) -> int:
    """Return the best available time of a step, which orders the ranks."""
    known = [side[name][""] for name in _WHOLES if "" in side[name]]
    return known[0] if known else sum(side[OPERATORS].values())


def _of_the_job(sides: Mapping[int | None, _Side]) -> dict[str, int]:
    """Return the step time of the whole job by metric: its own, else that of the slowest rank."""
    found = {}
    for name in _WHOLES:
        times = {rank: side[name][""] for rank, side in sides.items() if "" in side[name]}
        if times:
            found[name] = times.get(None, max(times.values()))
    return found


def _order(side: _Side) -> list[str]:
    """Return the operators in the order of their first call."""
    positions = side[POSITIONS]
    return sorted((name for name in side[OPERATORS] if name in positions), key=lambda name: positions[name])


def _signature(side: _Side, name: str) -> tuple[float, tuple[tuple[str, float], ...]] | None:
    """Return calls and shapes, which are the same under another name; None if its calls are unknown."""
    calls = side[CALLS].get(name)
    return None if calls is None else (calls, tuple(sorted(side[SHAPES].get(name, {}).items())))


# -- parts -----------------------------------------------------------------------------------------------------------


def _of_the_step(old: _Side, new: _Side) -> Iterator[Entry]:
    """Yield the parts of the step without an operator, if both sides have them."""
    for cause, times in (
        (Cause.COMMUNICATION, _communication(old, new)),
        (Cause.IDLE, _known(old, new, "idle", reported="free")),
        (Cause.OVERLAP, _known(old, new, "overlap")),
    ):
        if times is not None:
            sign = -1 if cause is Cause.OVERLAP else 1
            yield Entry(cause=cause, base_ns=sign * times[0], current_ns=sign * times[1])


def _known(old: _Side, new: _Side, computed: str, *, reported: str = "") -> tuple[int, int] | None:
    for before, after, name in ((old[COMPUTED], new[COMPUTED], computed), (old[REPORTED], new[REPORTED], reported)):
        if name in before and name in after:
            return before[name], after[name]
    return None


def _communication(old: _Side, new: _Side) -> tuple[int, int] | None:
    """Return the time in which only collectives ran: from the profiler's files, else as computed."""
    name = "communication_not_overlapped"
    if name in old[REPORTED] and name in new[REPORTED]:
        return old[REPORTED][name], new[REPORTED][name]
    # A window without collectives has idle time and no communication.
    if "idle" in old[COMPUTED] and "idle" in new[COMPUTED] and "communication" in {*old[COMPUTED], *new[COMPUTED]}:
        return old[COMPUTED].get("communication", 0), new[COMPUTED].get("communication", 0)
    return None


def _of_operators(old: _Side, new: _Side) -> Iterator[Entry]:
    """Yield the parts of the operators, without collectives if communication is a separate part."""
    apart = _communication(old, new) is not None
    base = [name for name in old[OPERATORS] if not (apart and COLLECTIVE.search(name))]
    current = [name for name in new[OPERATORS] if not (apart and COLLECTIVE.search(name))]
    renames = _renames(old, new, vanished=set(base) - set(current), appeared=set(current) - set(base))
    for name in current:
        if name in renames:
            before, note = renames[name]
            yield _entry(Cause.RENAMED, old, new, before=before, after=name, note=note)
        elif name in old[OPERATORS]:
            yield from _of_operator(name, old, new)
        else:
            yield _entry(Cause.NEW, old, new, after=name)
    gone = set(base) - set(current) - {before for before, _ in renames.values()}
    yield from (_entry(Cause.VANISHED, old, new, before=name) for name in sorted(gone))


def _entry(
    cause: Cause, old: _Side, new: _Side, *, before: str | None = None, after: str | None = None, note: str = ""
) -> Entry:
    """Return the entry of all the time of an operator."""
    return Entry(
        cause=cause,
        subject=after if after is not None else before or "",
        base_ns=old[OPERATORS][before] if before is not None else 0,
        current_ns=new[OPERATORS][after] if after is not None else 0,
        base_calls=old[CALLS].get(before) if before is not None else 0,
        current_calls=new[CALLS].get(after) if after is not None else 0,
        renamed_from=before or "" if cause is Cause.RENAMED else "",
        note=note,
    )


def _of_operator(name: str, old: _Side, new: _Side) -> Iterator[Entry]:
    """Yield the time of more or fewer calls of an operator at the base's time a call, then the change of the time a call."""
    before, after = old[CALLS].get(name), new[CALLS].get(name)
    reached = old[OPERATORS][name]
    if before is not None and after is not None and before != after and min(before, after) > _FEWEST_CALLS:
        start, reached = reached, round(reached * Fraction(after) / Fraction(before))
        yield Entry(
            cause=Cause.CALLS, subject=name, base_ns=start, current_ns=reached, base_calls=before, current_calls=after
        )
        before = after
    shapes = old[SHAPES].get(name), new[SHAPES].get(name)
    other = shapes[0] is not None and shapes[1] is not None and not _is_alike(shapes[0], shapes[1])
    yield Entry(
        cause=Cause.SHAPES if other else Cause.PER_CALL,
        subject=name,
        base_ns=reached,
        current_ns=new[OPERATORS][name],
        base_calls=before,
        current_calls=after,
        note=differences(shapes[0] or {}, shapes[1] or {}) if other else "",
    )


def _is_alike(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether the calls have the same shapes in the same proportions: more calls alone are not other shapes."""
    sums = sum(before.values()), sum(after.values())
    return before.keys() == after.keys() and all(
        math.isclose(before[shape] * sums[1], after[shape] * sums[0]) for shape in before
    )


# -- renamed operators -----------------------------------------------------------------------------------------------


def _renames(old: _Side, new: _Side, *, vanished: set[str], appeared: set[str]) -> dict[str, tuple[str, str]]:
    """Return new name → (old name, evidence): the same number of calls of the same shapes, in the same place.

    A place is between two operators of both sides, including renamed ones that were matched before. Several candidates in one
    place are matched in order, if both sides have the same number. Without positions, the match must be unique.
    """
    renames: dict[str, tuple[str, str]] = {}
    if not (old[POSITIONS] and new[POSITIONS]):
        left: dict[str, tuple[Any, ...]] = {
            name: (_signature(old, name),) for name in sorted(vanished) if old[SHAPES].get(name)
        }
        right: dict[str, tuple[Any, ...]] = {name: (_signature(new, name),) for name in sorted(appeared)}
        return {
            after: (before, "same calls and shapes as no other")
            for group in _alike(left, right)
            if len(group) == 1
            for before, after in group
        }
    found = True
    while found:
        found = False
        names = {name: name for name in new[OPERATORS] if name in old[OPERATORS]}
        names |= {after: before for after, (before, _) in renames.items()}
        base, current = _places(_order(old), {name: name for name in names.values()}), _places(_order(new), names)
        # First both neighbours must be equal, then only the one before or the one after.
        for neighbours in ((0, 1), (0,), (1,)):
            left = _keys(old, base, vanished - {*names.values()}, neighbours)
            right = _keys(new, current, appeared - names.keys(), neighbours)
            for before, after in (pair for group in _alike(left, right) for pair in group):
                # Equal calls alone are weak evidence: then both neighbours must be equal.
                if old[SHAPES].get(before) or (len(neighbours) == 2 and None not in base[before]):
                    renames[after] = before, _reason(old[SHAPES].get(before), base[before], neighbours)
                    found = True
            if found:
                break
    return renames


_Place = tuple[str | None, str | None]


def _keys(
    side: _Side, places: Mapping[str, _Place], candidates: Set[str], neighbours: Sequence[int]
) -> dict[str, tuple[Any, ...]]:
    names = [name for name in _order(side) if name in candidates]
    return {name: (_signature(side, name), *(places[name][which] for which in neighbours)) for name in names}


def _places(order: Sequence[str], anchors: Mapping[str, str]) -> dict[str, _Place]:
    """Return the nearest anchors before and after every operator, by their names in the base; None is an end of the step."""
    before, after = _nearest(order, anchors), _nearest(order[::-1], anchors)
    return {name: (before[name], after[name]) for name in order}


def _nearest(order: Sequence[str], anchors: Mapping[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    last = None
    for name in order:
        found[name] = last
        last = anchors.get(name, last)
    return found


def _alike(
    left: Mapping[str, tuple[Any, ...]], right: Mapping[str, tuple[Any, ...]]
) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs of names with equal keys, in order, if both sides have the same number of them."""
    groups: dict[tuple[Any, ...], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, keys in enumerate((left, right)):
        for name, key in keys.items():
            groups[key][side].append(name)
    for (signature, *_), (before, after) in groups.items():
        if signature is not None and len(before) == len(after):
            yield list(zip(before, after, strict=True))


def _reason(shapes: Mapping[str, float] | None, place: _Place, neighbours: Sequence[int]) -> str:
    before, after = place[0] or "the step's begin", place[1] or "the step's end"
    where = {(0, 1): f"between {before} and {after}", (0,): f"after {before}", (1,): f"before {after}"}
    return f"{'same calls and shapes' if shapes else 'same calls'}, {where[tuple(neighbours)]}"
