"""Many recordings inspected as one batch: what is asked of the tables is asked once for all of them, not once for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts.conditions import Expectation
from perfguard.contract import Contract
from perfguard.contract.inspection import Inspected, InspectionOptions, Task
from perfguard.contract.reduction import _Inspection, one_by_one
from perfguard.recording import Recording

#: How many are inspected at a time; one at a time costs three times as much.
TOGETHER = 24
OPTIONS = InspectionOptions(cycle=True)


def wanted(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return the values of a parameter in the tests that run with this fixture: what no test wants is not made."""
    assert request.fixturename is not None
    asking = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and request.fixturename in item.fixturenames
    ]
    found = [item.callspec.params[parameter] for item in asking if parameter in item.callspec.params]
    # Several tests may ask for the same value of a table.
    return list({id(one): one for one in found}.values())


def places(above: Path, count: int) -> list[Path]:
    """Make so many directories, each for one recording."""
    found = [above / str(number) for number in range(count)]
    for one in found:
        one.mkdir()
    return found


def inspect_together(recordings: Sequence[Recording], told: Sequence[Expectation] = ()) -> list[Contract]:
    """Return of each recording what `inspect` returns of it; `told` has what is expected of each, or nothing at all."""
    all_told = told or [Expectation()] * len(recordings)
    inspections = [_Inspection(one, expected, None) for one, expected in zip(recordings, all_told, strict=True)]
    found: list[Contract] = []
    for start in range(0, len(inspections), TOGETHER):
        part = inspections[start : start + TOGETHER]
        inspected = one_by_one([task for one in part for task in _tasks_of(one)], OPTIONS)
        found += [one.run(OPTIONS, lambda some, _, all_of=inspected: islice(all_of, len(some))) for one in part]
    return found


def _tasks_of(inspection: _Inspection) -> Sequence[Task]:
    tasks: list[Task] = []

    def noted(some: Sequence[Task], _: InspectionOptions) -> Iterator[Inspected]:
        tasks.extend(some)
        raise _Noted

    with suppress(_Noted):
        inspection.run(OPTIONS, noted)
    return tasks


class _Noted(Exception):
    """The tasks of a recording are known: nothing more is wanted of it yet."""
