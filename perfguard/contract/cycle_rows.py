"""Rows of the tables `cycles`, `requested_numbers` and `files`, for queries about names, ranks and requested steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfguard.artifacts.survey import size_of
from perfguard.artifacts.table import in_int64
from perfguard.artifacts.table_definitions import NULL
from perfguard.contract.completeness import relative

if TYPE_CHECKING:
    from perfguard.artifacts.survey import FoundFile
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Artifact, Cycle


def list_cycles(tables: Batch, recordings: Sequence[str], cycles: Mapping[int, Cycle], roots: Sequence[Path]) -> None:
    """Add cycles to their table, each with the name and the directory of its recording."""
    several = cycles.values()
    places = [relative(one.place, root) or one.place.name for one, root in zip(several, roots, strict=True)]
    tables.put(
        "cycles",
        cycle=_whole([*cycles]),
        recording=_texts(recordings),
        rank=_whole([one.rank for one in several]),
        layout=_texts([one.layout.id for one in several]),
        place=_texts(places),
        requested_steps=_whole([one.requested.active for one in several]),
        recorded_steps=_whole([len(one.requested.steps) or None for one in several]),
    )
    for number, cycle in cycles.items():
        numbers = cycle.requested.numbers
        tables.add("requested_numbers", number, name=_texts([*numbers]), number=_whole([*numbers.values()]))


def list_files(tables: Batch, number: int, files: Sequence[FoundFile], read: Sequence[Artifact]) -> None:
    """Add the files of a cycle to their table."""
    of_slot = Counter[str]()
    numbers = {}
    for one in read:
        numbers[one.path] = of_slot[one.slot.name]
        of_slot[one.slot.name] += 1
    tables.add(
        "files",
        number,
        slot=_texts([one.slot.name for one in files]),
        file=_whole([numbers.get(one.path) for one in files]),
        name=_texts([one.path.name for one in files]),
        rank=_whole([one.rank for one in files]),
        bytes=_whole([size_of(one.path) for one in files]),
    )


def _texts(several: Sequence[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
    # A file name may be invalid UTF-8.
    return np.array([one.encode("utf-8", "backslashreplace").decode() for one in several], dtype=object)


def _whole(several: Sequence[int | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([NULL if one is None else in_int64(one) for one in several], np.int64)
