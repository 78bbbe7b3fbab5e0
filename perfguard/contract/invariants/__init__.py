"""Invariants: what must hold across files and steps, one small function each.

What goes in: a `Cycle` whose artifacts have passed their schemas. What comes out: findings. To add one: a function with
`@invariant(layouts=..., needs=...)` in a module of this package, with its tolerance and source in the docstring; nothing
else has to be touched. A function runs only where all the slots it needs could be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from perfguard.findings import Finding

if TYPE_CHECKING:
    from perfguard.contract.inspection import Cycle
    from perfguard.recording import Recording

CycleCheck = Callable[["Cycle"], Iterator[Finding]]
RecordingCheck = Callable[["Recording", tuple["Cycle", ...]], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One check of a cycle, the layouts it is for, and the slots it needs."""

    name: str
    check: CycleCheck
    #: Ids of the layouts it holds for; empty means every layout that has the slots.
    layouts: tuple[str, ...]
    needs: tuple[str, ...]


INVARIANTS: dict[str, Invariant] = {}
RECORDING_INVARIANTS: dict[str, RecordingCheck] = {}


def invariant(*, layouts: tuple[str, ...] = (), needs: tuple[str, ...] = ()) -> Callable[[CycleCheck], CycleCheck]:
    """Register a check of one cycle: of every layout that has the slots it needs, or of `layouts` only."""

    def register(check: CycleCheck) -> CycleCheck:
        INVARIANTS[check.__name__] = Invariant(name=check.__name__, check=check, layouts=layouts, needs=needs)
        return check

    return register


def recording_invariant(check: RecordingCheck) -> RecordingCheck:
    """Register a check of a whole recording."""
    RECORDING_INVARIANTS[check.__name__] = check
    return check


def check_cycle(cycle: Cycle) -> Iterator[Finding]:
    """Run every invariant of the cycle's layout whose slots could be read."""
    _load()
    for one in INVARIANTS.values():
        if one.layouts and cycle.layout.id not in one.layouts:
            continue
        if all(slot in cycle.artifacts for slot in one.needs):
            for finding in one.check(cycle):
                yield replace(finding, check=one.name, rank=cycle.rank)


def check_recording(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """Run every invariant of a whole recording."""
    _load()
    for check in RECORDING_INVARIANTS.values():
        for finding in check(recording, cycles):
            yield replace(finding, check=check.__name__)


def _load() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
