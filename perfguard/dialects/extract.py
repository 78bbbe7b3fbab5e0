"""Extracts: what is kept of a cycle once its artifacts are let go, so that memory does not grow with the ranks.

What holds between cycles is judged from extracts alone. What a check needs to know of each cycle is a *fact*: a small value
that can be hashed and sent to another process. To add one, write a function from a cycle to its value with `@cycle_fact` in the
module of the check that asks for it. It runs where the cycle was read, while its artifacts are there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle
    from perfguard.recording import Recording

#: The value of a cycle; None where there is nothing to know.
FactFunction = Callable[["Cycle"], Hashable | None]
Fact = TypeVar("Fact", bound=FactFunction)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    function: FactFunction
    is_needed: Callable[[Recording], bool]


FACTS: dict[str, _Registered] = {}


def _always(recording: Recording) -> bool:
    return True


def cycle_fact(*, is_needed: Callable[[Recording], bool] = _always) -> Callable[[Fact], Fact]:
    """Register a fact of a cycle; kept for recordings where `is_needed` (which does not see their steps)."""

    def register(function: Fact) -> Fact:
        FACTS[function.__name__] = _Registered(function=function, is_needed=is_needed)
        return function

    return register


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extract:
    """One cycle without its artifacts. `layout` is the id; `name` the last part of its path."""

    layout: str
    name: str
    rank: int
    #: Whether it is one of the profiler's windows: graphs and summaries lie where they like, and are none.
    is_window: bool
    #: The rank in the name of a directory above, the nearest one that says any.
    rank_above: int | None = None
    #: What is known to have been on or off.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    #: How many files were read, and how many rows their tables have.
    files: int = 0
    rows: int = 0
    #: Values of the facts that are known of it, by name.
    facts: Mapping[str, Hashable] = field(default_factory=dict)
    #: The result of `reduce(measure=...)` for this cycle.
    measurements: Any = None

    def fact(self, function: FactFunction) -> Any:
        """Return the value of a fact, or None."""
        return self.facts.get(function.__name__)


def extract_of(cycle: Cycle, recording: Recording, measurements: Any = None) -> Extract:
    """Return the extract of a cycle."""
    tables = [t for f in cycle.files for t in (f.content.table, *f.content.tables.values()) if t is not None]
    facts: dict[str, Hashable | None] = {}
    for name, one in FACTS.items():
        if one.is_needed(recording):
            facts[name] = one.function(cycle)
    return Extract(
        layout=cycle.layout.id,
        name=cycle.place.name,
        rank=cycle.rank,
        is_window=not cycle.layout.nests,
        rank_above=next((parent.rank for parent in cycle.parents if parent.rank is not None), None),
        conditions=cycle.conditions,
        files=len(cycle.files),
        rows=sum(table.height for table in tables) + sum(file.content.events for file in cycle.files),
        facts={name: value for name, value in facts.items() if value is not None},
        measurements=measurements,
    )


class Sharing:
    """Keeps equal values once: a thousand ranks that ran the same cost as much as one."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def shared(self, extract: Extract) -> Extract:
        """Return an extract whose values are those of earlier extracts, where they are equal."""
        conditions = self._known.setdefault(("conditions", *sorted(extract.conditions.items())), extract.conditions)
        facts = {self._one(name): self._one(value) for name, value in extract.facts.items()}
        return replace(
            extract, layout=self._one(extract.layout), name=self._one(extract.name), conditions=conditions, facts=facts
        )

    def _one(self, value: Any) -> Any:
        # True is no 1: what is shared is of one type.
        return self._known.setdefault((type(value), value), value)
