"""Ranks of a training: their number as a caller gives it, and what is expected of a directory of several."""

from __future__ import annotations

from collections.abc import Sequence

from perfguard.configuration import Section, violation
from perfguard.errors import UsageError
from perfguard.screen import shown

_WORLD_SIZE = {"type": "integer", "minimum": 1, "maximum": 10**9 - 1}


def require_world_size(world_size: int | None) -> None:
    """Raise `UsageError` for a number of ranks that is none; None is unknown."""
    if world_size is not None and (problem := violation(world_size, _WORLD_SIZE)):
        raise UsageError(f"world_size {problem}.")


def require_ranks(section: Section, key: str, ranks: Sequence[int], world_size: int | None) -> None:
    """Raise `UsageError` for a rank that a training of so many ranks does not have."""
    if world_size is not None and max(ranks) >= world_size:
        raise section.error(key, f"must be less than the number of ranks, {world_size}, got {shown(ranks)}")


def expected_ranks(ranks: tuple[int, ...] | None, world_size: int | None) -> list[str]:
    """Return the item `ranks=N` of an expectation, where the profiled ranks (None: all) are known and are 0 to N - 1."""
    profiled = tuple(range(world_size or 0)) if ranks is None else ranks
    return [f"ranks={len(profiled)}"] if profiled and profiled == tuple(range(len(profiled))) else []
