"""Series read from a history: which numbers belong together, which rules apply to them, and which are outdated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Connection, Row, select

from perfguard import thresholds
from perfguard.inputs import json_of
from perfguard.judge.trend import Moment, Point, Series
from perfguard.judge.verdict import Verdict
from perfguard.measure import METRICS
from perfguard.stores.history.entry import FIRST_UNITS, canonical, machine_of, recorded_as, sha256
from perfguard.stores.history.tables import FACTS, MEASUREMENTS, OUTCOMES, SERIES, WORKLOADS, text_of

#: The number of ids in one statement; SQLite takes 32 766 (999 before 3.32).
_AT_ONCE = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSeries:
    """A series, with the tolerances of its test's own marker and the way it was recorded (None if unknown)."""

    series: Series
    tolerance: dict[str, Any]
    recorded: Mapping[str, Any] | None

    @property
    def backend(self) -> str:
        """The backend that recorded it; empty if unknown."""
        return str((self.recorded or {}).get("backend", ""))

    def is_of(self, verdict: Verdict) -> bool:
        """Whether a verdict's numbers belong to this series: recorded the same way, and times on the same machine."""
        environment = verdict.environment.as_dict() if verdict.environment else None
        if verdict.workload != self.series.workload or self.series.machine not in ("", machine_of(environment)):
            return False
        return canonical(recorded_as(verdict)) == canonical(self.recorded)


#: A row of the table of series, with its numbers and the positions of their runs, the newest last.
_Found = tuple[Row[Any], list[tuple[int, float]]]


def recorded_series(
    connection: Connection,
    *,
    workload: Callable[[str], bool],
    metric: Callable[[str, str], bool],
    moments: Mapping[int, Moment],
) -> tuple[RecordedSeries, ...]:
    """Return the series of the selected workloads and metrics, over the runs of `moments` in their order.

    If a workload was recorded differently from some run on (another window, another mode), only the new series is returned. If
    both continue in parallel, on a CPU and on an NPU for instance, both are returned, each with the way it was recorded.
    """
    order = {run: place for place, run in enumerate(moments)}
    statement = select(SERIES, WORKLOADS.c.name).join(WORKLOADS, WORKLOADS.c.id == SERIES.c.workload_id)
    rows = [row for row in connection.execute(statement) if workload(row.name) and metric(row.metric, row.subject)]
    values, outcomes = defaultdict(list), defaultdict(list)
    for place, row in _rows(connection, MEASUREMENTS.c.series_id, [row.id for row in rows], order):
        values[row.series_id].append((place, row.value))
    for place, row in _rows(connection, OUTCOMES.c.workload_id, sorted({row.workload_id for row in rows}), order):
        outcomes[row.workload_id].append((place, row))
    documents = documents_of(connection)
    alike: dict[tuple[str, str, str, str], list[_Found]] = {}
    for row in rows:
        if row.id in values:
            key = (row.name, row.metric, row.subject, row.machine)
            alike.setdefault(key, []).append((row, values[row.id]))
    found = []
    for _, group in sorted(alike.items()):
        newest_start = max(numbers[0][0] for _, numbers in group)
        going_on = [(row, numbers) for row, numbers in group if newest_start <= numbers[-1][0]]
        ways = _ways([documents.get(row.fingerprint_id) or {} for row, _ in going_on])
        for one, way in zip(going_on, ways, strict=True):
            found.append(_recorded(one, way, outcomes[one[0].workload_id], documents, list(moments.values())))
    return tuple(found)


def _is_past(places: Sequence[int], runs: int) -> bool:
    """Whether a workload that ran at these positions has stopped running, because its test was deleted or renamed.

    A workload that is not in every run, such as that of a nightly job, may be missing for twice its longest gap so far.
    """
    longest = max((after - before for before, after in pairwise(places)), default=0)
    return runs - 1 - places[-1] >= max(thresholds.TREND_STALE_RUNS, 2 * longest)


def documents_of(connection: Connection) -> dict[int, Any]:
    """Return the documents that many rows refer to, by id. Raises `ValueError` for a wrong checksum, and beyond bounds."""
    found = {}
    for row in connection.execute(select(FACTS.c.id, FACTS.c.key, FACTS.c.document)):
        if sha256(row.document) != row.key:
            raise ValueError(f"document {row.id} has another checksum")
        found[row.id] = json_of(row.document)
    return found


def parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield ids in parts small enough for one statement."""
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _rows(
    connection: Connection, column: Column[int], ids: list[int], order: dict[int, int]
) -> list[tuple[int, Row[Any]]]:
    """Return the rows with these ids in a column of its table, as (position of the run, row), the newest last."""
    found = [
        (order[row.run_id], row)
        for some in parts(ids)
        for row in connection.execute(select(column.table).where(column.in_(some)))
        if row.run_id in order
    ]
    return sorted(found, key=itemgetter(0))


def _ways(fingerprints: Sequence[dict[str, Any]]) -> list[str]:
    """Return how each was recorded, as far as they differ: `device npu`."""
    names = sorted({name for one in fingerprints for name in one})
    differing = [name for name in names if any(one.get(name) != fingerprints[0].get(name) for one in fingerprints)]
    return [", ".join(f"{name} {_plain(one.get(name))}" for name in differing) for one in fingerprints]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={part}" for name, part in value.items())
    return "unknown" if value is None else str(value)


def _recorded(
    found: _Found,
    way: str,
    outcomes: Sequence[tuple[int, Row[Any]]],
    documents: dict[int, Any],
    moments: Sequence[Moment],
) -> RecordedSeries:
    row, numbers = found
    metric = text_of(row.metric)
    measured = [(place, outcome) for place, outcome in outcomes if outcome.measurements]
    later = [outcome for place, outcome in measured if place > numbers[-1][0]]
    # A series is gone if a later run of the same kind lacks it; a kind that has not run for long is outdated.
    gone = any(
        outcome.fingerprint_id == row.fingerprint_id
        and row.machine in ("", machine_of(documents.get(outcome.environment_id)))
        for outcome in later
    )
    return RecordedSeries(
        series=Series(
            workload=row.name,
            metric=metric,
            subject=text_of(row.subject),
            unit=METRICS[metric].unit if metric in FIRST_UNITS else text_of(row.unit),
            machine=text_of(row.machine),
            points=tuple(Point(value=value, moment=moments[place]) for place, value in numbers),
            current=not gone
            and len(later) < thresholds.TREND_STALE_RUNS
            and not _is_past([place for place, _ in outcomes], len(moments)),
            way=way,
        ),
        tolerance=documents.get(measured[-1][1].tolerance_id, {}),
        recorded=documents.get(row.fingerprint_id),
    )
