"""Calls of a device's runtime in a torch trace: launches, copies and synchronisations, counted by step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from perfguard.artifacts.spool import Spool
from perfguard.dialects.folds import fold
from perfguard.dialects.folds.torch_words import category_of

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

#: Categories of the host's calls: cuda_runtime, cuda_driver, hip_runtime, privateuse1_runtime, ...
_RUNTIME = re.compile(r"_(runtime|driver)$")
#: What a call does, by its name in CUDA's runtime and driver API (13.0) and in HIP's (7.0).
KINDS = {
    "launches": re.compile(r"LaunchKernel|LaunchCooperativeKernel|ModuleLaunchKernel|GraphLaunch"),
    "copies": re.compile(r"Mem(cpy|set)"),
    "synchronisations": re.compile(r"Synchronize"),
}
_OTHER = -1


@fold(slots=("trace",), layouts=("pt-torch",))
class RuntimeCalls:
    """When the host launched work on a device, copied, and waited for it."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._calls = Spool({"start": "i8", "kind": "i1"})
        #: Whether the trace has any call of a runtime: without a device nothing is counted.
        self.is_traced = False

    def see(self, events: Events) -> None:
        """Put the calls of a chunk into the spool."""
        found = events.of("X")
        if not len(found):
            return
        categories = found.vocabulary.categories.items()
        runtime = [
            number
            for category, number in categories
            if isinstance(category, str) and _RUNTIME.search(category_of(category))
        ]
        of_runtime = np.flatnonzero(np.isin(found.categories, runtime))
        if of_runtime.size:
            self._add(found.vocabulary.names.of(found.names[of_runtime]), found.times("ts").ns[of_runtime])

    def _add(self, names: Sequence[Any], starts_ns: Any) -> None:
        self.is_traced = self.is_traced or bool(len(names))
        kinds = np.fromiter(map(_kind_of, names), np.int8, count=len(names))
        self._calls.add(start=starts_ns[kinds != _OTHER], kind=kinds[kinds != _OTHER])

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """It checks nothing."""
        yield from ()

    def by_step(self, edges_ns: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
        """Return how often each kind of call began in each step; without steps, in the window."""
        steps = max(1, len(edges_ns))
        counts = np.zeros((len(KINDS), steps), np.int64)
        starts, ends = (np.array([edge[side] for edge in edges_ns], np.int64) for side in (0, 1))
        for rows in self._calls.in_order():
            step = np.zeros(len(rows["start"]), np.int64)
            if edges_ns:
                step = np.searchsorted(starts, rows["start"], "right") - 1
                is_inside = (step >= 0) & (rows["start"] <= ends[np.maximum(step, 0)])
                step, rows = step[is_inside], {name: column[is_inside] for name, column in rows.items()}
            np.add.at(counts, (rows["kind"].astype(np.int64), step), 1)
        return {kind: counts[place].tolist() for place, kind in enumerate(KINDS)}


@cache
def _kind_of(name: Any) -> int:
    text = name if isinstance(name, str) else ""
    return next((place for place, pattern in enumerate(KINDS.values()) if pattern.search(text)), _OTHER)
