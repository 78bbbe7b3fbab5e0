"""Sets of kernels: names of which a library chooses one at run time, so that any of them is the same kernel.

Autotuning (cuBLAS, cuDNN, Triton, MIOpen) may choose another kernel for the same product in the next process. A set gives what
it may choose one name; a kernel outside of all sets has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from perfguard.measure import METRICS, Measurement
from perfguard.measure.measurement import ALL_RANKS, number, split_rank

#: Globs of names, by the name of their set.
KernelSets = Mapping[str, tuple[str, ...]]


def joined(measurements: Iterable[Measurement], sets: KernelSets) -> tuple[Measurement, ...]:
    """Return measurements in which the numbers of the kernels of a set are one: their sum, rank by rank."""
    measurements = tuple(measurements)
    if not sets:
        return measurements
    patterns = {name: _pattern(globs) for name, globs in sets.items()}
    found: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        metric = METRICS.get(one.metric)
        if metric is not None and metric.subject == "kernel":
            rank, kernel = split_rank(one.subject)
            one = replace(
                one, subject=rank + next((name for name, own in patterns.items() if own.match(kernel)), kernel)
            )
        found[one.key] = _sum(found[one.key], one) if one.key in found else one
    return tuple(found.values())


def _pattern(globs: Iterable[str]) -> re.Pattern[str]:
    """Return what any of some globs matches, of `*` and `?`: brackets are part of the names of C++."""
    texts = (re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs)
    return re.compile(f"(?:{'|'.join(texts)})\\Z", re.DOTALL)


def _sum(one: Measurement, other: Measurement) -> Measurement:
    values = number(one.value) or 0, number(other.value) or 0
    both = len(one.samples) == len(other.samples)
    samples = tuple(sum(pair) for pair in zip(one.samples, other.samples, strict=True)) if both else ()
    return replace(one, value=min(samples) if samples else sum(values), samples=samples)


def learned(runs: Sequence[Iterable[Measurement]]) -> dict[str, tuple[str, ...]]:
    """Return the sets that unchanged runs show: kernels that run more or less often, while all of a set together run as often.

    Pairs first; what is left is one set if its sum is the same. Of other differences nothing is learned: they are changes.
    """
    calls: dict[str, list[float]] = {}
    for place, run in enumerate(runs):
        for one in run:
            rank, kernel = split_rank(one.subject)
            if one.metric == "kernel_calls" and rank in ("", ALL_RANKS):
                calls.setdefault(kernel, [0.0] * len(runs))[place] = number(one.value) or 0.0
    unsteady = {name: counts for name, counts in calls.items() if len(set(counts)) > 1}
    sets: list[tuple[str, ...]] = []
    for first, second in combinations(sorted(unsteady), 2):
        if {first, second} <= unsteady.keys() and _is_steady(unsteady[first], unsteady[second]):
            sets.append((first, second))
            del unsteady[first], unsteady[second]
    if len(unsteady) > 2 and _is_steady(*unsteady.values()):
        sets.append(tuple(sorted(unsteady)))
    return {f"chosen-{number}": names for number, names in enumerate(sets, 1)}


def _is_steady(*counts: Sequence[float]) -> bool:
    return len({sum(of_run) for of_run in zip(*counts, strict=True)}) == 1
