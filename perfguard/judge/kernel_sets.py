"""Sets of kernels: names of which a library chooses one at run time, so that any of them is the same kernel.

Autotuning (cuBLAS, cuDNN, Triton, MIOpen) may choose another kernel for the same product in the next process. A set gives what
it may choose one name; a kernel outside of all sets has its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from perfguard.errors import listed
from perfguard.measure import METRICS, Measurement
from perfguard.measure.measurement import ALL_RANKS, is_like, number, split_rank
from perfguard.screen import cut

#: Most names in a line, and the longest.
_NAMED = 3
_LONGEST = 80
#: Globs of names, by the name of their set.
KernelSets = Mapping[str, tuple[str, ...]]


def joined(measurements: Iterable[Measurement], sets: KernelSets) -> tuple[Measurement, ...]:
    """Return measurements in which the calls of the kernels of a set are one, rank by rank; without their times.

    A time has samples of the steps that launched the kernel, which for another kernel of the set are others.
    """
    measurements = tuple(measurements)
    if not sets:
        return measurements
    found: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        metric = METRICS.get(one.metric)
        rank, kernel = split_rank(one.subject)
        name = set_of(kernel, sets) if metric is not None and metric.subject == "kernel" else None
        if name is None:
            found[one.key] = one
        elif one.metric == "kernel_calls":
            own = replace(one, subject=rank + name)
            before = found.get(own.key)
            found[own.key] = own if before is None else replace(own, value=_calls(before) + _calls(own))
    return tuple(found.values())


def choices(current: Iterable[Measurement], reference: Iterable[Measurement], sets: KernelSets) -> str:
    """Return the kernels of a set that ran more or less often: `gemm: ampere_b 0 → 3, cutlass_a 3 → 0`; empty without any."""
    before, now = _calls_by_kernel(reference), _calls_by_kernel(current)
    changed: dict[str, list[str]] = {}
    for kernel in sorted(before.keys() | now.keys()):
        sides = before.get(kernel, 0), now.get(kernel, 0)
        if sides[0] != sides[1] and (name := set_of(kernel, sets)) is not None:
            changed.setdefault(name, []).append(f"{cut(kernel, _LONGEST)} {sides[0]:g} → {sides[1]:g}")
    return "; ".join(f"{name}: {listed(kernels, _NAMED)}" for name, kernels in changed.items())


def set_of(kernel: str, sets: KernelSets) -> str | None:
    """Return the first set that a kernel is in; one with the name of a set is in it, or two would have one name."""
    of = (name for name, globs in sets.items() if kernel == name or any(is_like(kernel, glob) for glob in globs))
    return next(of, None)


def _calls(one: Measurement) -> float:
    return number(one.value) or 0


def _calls_by_kernel(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return the calls of each kernel of the only rank, or of all together."""
    places = ((*split_rank(one.subject), one) for one in measurements if one.metric == "kernel_calls")
    return {kernel: _calls(one) for rank, kernel, one in places if rank in ("", ALL_RANKS)}


def learned(runs: Sequence[Iterable[Measurement]], sets: KernelSets) -> list[tuple[str, ...]]:
    """Return the sets that unchanged runs show beside those that there are.

    Its kernels run more or less often, and all of them together run as often in each. Pairs first, of kernels that are in no
    other pair; what is left is one set if its sum is the same. Of other differences nothing is learned: they are changes.
    """
    each = [_calls_by_kernel(run) for run in runs]
    calls = {
        kernel: [run.get(kernel, 0) for run in each] for run in each for kernel in run if set_of(kernel, sets) is None
    }
    unsteady = {kernel: counts for kernel, counts in calls.items() if len(set(counts)) > 1}
    pairs = [pair for pair in combinations(sorted(unsteady), 2) if _is_steady(*(unsteady[name] for name in pair))]
    often = Counter(name for pair in pairs for name in pair)
    found: list[tuple[str, ...]] = [pair for pair in pairs if all(often[name] == 1 for name in pair)]
    left = {name: counts for name, counts in unsteady.items() if not often[name]}
    if len(left) > 2 and _is_steady(*left.values()):
        found.append(tuple(sorted(left)))
    return found


def as_settings(sets: Iterable[Sequence[str]]) -> list[str]:
    """Return the keys of `[tool.perfguard.kernels]` that make these kernels sets."""
    named = (f"[{', '.join(json.dumps(one, ensure_ascii=False) for one in kernels)}]" for kernels in sets)
    return [f"chosen-{place} = {kernels}" for place, kernels in enumerate(named, 1)]


def _is_steady(*counts: Sequence[float]) -> bool:
    return len({sum(of_run) for of_run in zip(*counts, strict=True)}) == 1
