"""Many recordings inspected as one batch: what is asked of the tables is asked once for all of them, not once for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from perfguard.artifacts.conditions import Expectation
from perfguard.contract import Contract
from perfguard.contract.inspection import Inspected, InspectionOptions, Task
from perfguard.contract.reduction import _Inspection, one_by_one
from perfguard.recording import Recording

#: So many recordings of the tests have few rows: more would be asked as large traces are.
TOGETHER = 24
OPTIONS = InspectionOptions(cycle=True)


def places(above: Path, count: int) -> list[Path]:
    """Make so many directories, each for one recording."""
    found = [above / str(number) for number in range(count)]
    for one in found:
        one.mkdir()
    return found


def inspect_together(recordings: Sequence[Recording], told: Sequence[Expectation] = ()) -> list[Contract]:
    """Return of each recording what `inspect` returns of it; `told` has what is expected of each, or nothing at all.

    Only recordings of the same layouts share a batch: the checks of one layout are not those of another.
    """
    all_told = told or [Expectation()] * len(recordings)
    inspections = [_Inspection(one, expected, None) for one, expected in zip(recordings, all_told, strict=True)]
    alike: dict[frozenset[str], dict[int, Sequence[Task]]] = {}
    for number, one in enumerate(inspections):
        tasks = _tasks_of(one)
        alike.setdefault(frozenset(task.found.layout.id for task in tasks), {})[number] = tasks
    found: dict[int, Contract] = {}
    for several in alike.values():
        numbers = [*several]
        for start in range(0, len(numbers), TOGETHER):
            part = numbers[start : start + TOGETHER]
            inspected = one_by_one([task for number in part for task in several[number]], OPTIONS)
            for number in part:
                found[number] = inspections[number].run(
                    OPTIONS, lambda some, _, all_of=inspected: islice(all_of, len(some))
                )
    return [found[number] for number in range(len(inspections))]


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
