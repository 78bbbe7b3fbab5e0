"""An open history: adds and deletes runs, and reads runs, series and entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from perfguard.errors import UsageError
from perfguard.judge.trend import Moment
from perfguard.stores.history.database import Database
from perfguard.stores.history.entry import (
    FIRST_UNITS,
    Entry,
    Number,
    RunFacts,
    WorkloadEntry,
    canonical,
    is_timed,
    machine_of,
    sha256,
)
from perfguard.stores.history.series import RecordedSeries, documents_of, parts, recorded_series
from perfguard.stores.history.tables import FACTS, MEASUREMENTS, OUTCOMES, RUNS, SERIES, WORKLOADS, text_of

#: Rows fetched at a time when all of them are read.
_FETCHED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stored run. `outcomes` counts its workloads by outcome."""

    number: int
    digest: str
    perfguard: str
    facts: RunFacts
    added_at: datetime
    outcomes: tuple[tuple[str, int], ...] = ()
    measurements: int = 0

    @property
    def at(self) -> datetime:
        """The time that orders runs: of the commit, else of the end of the run, else of adding it."""
        return self.facts.committed_at or self.facts.finished_at or self.added_at

    @property
    def moment(self) -> Moment:
        """The run as a trend shows it."""
        facts = self.facts
        return Moment(run=self.number, at=self.at, commit=facts.commit, branch=facts.branch, release=facts.release)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The result of adding: the number of the new or known `run`; `marked` is the release that a known run now has."""

    run: int
    is_new: bool
    marked: str | None = None


class History:
    """Runs in a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- in ------------------------------------------------------------------------------------------------------------

    def add(self, entry: Entry, *, given: RunFacts | None = None) -> Added:
        """Add an entry, completely or not at all; `given` are facts that complete its own. Raises `StoreError`.

        An entry that the history already has is not added again. Only its release is stored: the `given` one always, the
        entry's own if the run has none yet.
        """
        given = given or RunFacts()
        with self.database.writing() as connection:
            known = connection.execute(select(RUNS.c.id).where(RUNS.c.digest == entry.digest)).scalar()
            if known is not None:
                marked = _mark(connection, known, given.release, entry.facts.release)
                return Added(run=known, is_new=False, marked=marked)
            facts = asdict(entry.facts.completed_by(given))
            added_at = entry.added_at or datetime.now(UTC)
            run = {"digest": entry.digest, "perfguard": entry.perfguard, "added_at": added_at, **facts}
            number = _made(connection, RUNS, run)
            for workload in entry.workloads:
                _add_workload(connection, number, workload)
        return Added(run=number, is_new=True)

    def forget(self, runs: Iterable[int]) -> int:
        """Delete runs with their measurements, and series without measurements; return the number of deleted runs."""
        with self.database.writing() as connection:
            count = 0
            for some in parts(list(runs)):
                connection.execute(delete(MEASUREMENTS).where(MEASUREMENTS.c.run_id.in_(some)))
                connection.execute(delete(OUTCOMES).where(OUTCOMES.c.run_id.in_(some)))
                count += connection.execute(delete(RUNS).where(RUNS.c.id.in_(some))).rowcount
            _forget_unused(connection)
        return count

    # -- out -----------------------------------------------------------------------------------------------------------

    def runs(self, *, branch: str | None = None) -> tuple[Run, ...]:
        """Return the runs (of one branch) in the order of their commits, the newest last."""
        with self.database.reading() as connection:
            return _runs(connection, branch=branch)

    def workloads_of(self, run: int) -> tuple[WorkloadEntry, ...]:
        """Return the results of a run's workloads, sorted by name."""
        with self.database.reading() as connection:
            numbers = connection.execute(_NUMBERS.where(MEASUREMENTS.c.run_id == run)).all()
            return _workloads(connection, run, numbers, documents_of(connection))

    def series(
        self, *, workload: Callable[[str], bool], metric: Callable[[str, str], bool], runs: Sequence[Run]
    ) -> tuple[RecordedSeries, ...]:
        """Return the series of the selected workloads and metrics, over `runs` in their order."""
        with self.database.reading() as connection:
            return recorded_series(
                connection, workload=workload, metric=metric, moments={run.number: run.moment for run in runs}
            )

    def entries(self) -> Iterator[Entry]:
        """Yield every run with its measurements, in the order of adding; one is in memory at a time."""
        statement = (
            _NUMBERS.join(RUNS, RUNS.c.id == MEASUREMENTS.c.run_id)
            .order_by(MEASUREMENTS.c.run_id, MEASUREMENTS.c.series_id)
            .execution_options(yield_per=_FETCHED)
        )
        with self.database.reading() as connection:
            documents, runs = documents_of(connection), _runs(connection)
            with connection.execute(statement) as numbers:
                grouped = groupby(numbers, key=lambda row: row.run_id)
                following = next(grouped, None)
                for run in sorted(runs, key=lambda run: run.number):
                    mine: list[Any] = []
                    if following is not None and following[0] == run.number:
                        mine = list(following[1])
                        following = next(grouped, None)
                    yield Entry(
                        digest=run.digest,
                        perfguard=run.perfguard,
                        facts=run.facts,
                        workloads=_workloads(connection, run.number, mine, documents),
                        added_at=run.added_at,
                    )


def run_named(runs: Sequence[Run], name: str) -> Run:
    """Return the run with this number, release or beginning of a commit; of several runs the newest.

    Raises `UsageError` for no run, and for runs of several commits.
    """
    text = name.removeprefix("#")
    found = [run for run in runs if str(run.number) == text] or [run for run in runs if run.facts.release == name]
    if not found and len(name) >= 4:
        found = [run for run in runs if (run.facts.commit or "").startswith(name)]
        commits = {run.facts.commit for run in found}
        if len(commits) > 1:
            raise UsageError(f"{name!r} begins {len(commits)} commits; give more characters.")
    if not found:
        raise UsageError(
            f"There is no run {name!r}: give a number, a release or a commit. List them with: perfguard history show"
        )
    return found[-1]


# -- writing -----------------------------------------------------------------------------------------------------------


def _mark(connection: Connection, run: int, given: str | None, own: str | None) -> str | None:
    """Store the release of a run that the history already has; return it if it is new."""
    known = connection.execute(select(RUNS.c.release).where(RUNS.c.id == run)).scalar()
    release = given or known or own
    if release == known:
        return None
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(release=release))
    return release


def _add_workload(connection: Connection, run: int, entry: WorkloadEntry) -> None:
    workload = _id_of(connection, WORKLOADS, "name", entry.workload)
    fingerprint = _fact(connection, entry.fingerprint)
    row = {
        "run_id": run,
        "workload_id": workload,
        "outcome": entry.outcome,
        "finding": entry.finding,
        "measurements": len(entry.numbers),
        "fingerprint_id": fingerprint,
        "environment_id": _fact(connection, entry.environment),
        "tolerance_id": _fact(connection, entry.tolerance or None),
    }
    connection.execute(insert(OUTCOMES), [row])
    if not entry.numbers:
        return
    series = _series_of(connection, entry, workload, fingerprint)
    values = [
        {"series_id": number_id, "run_id": run, "value": one.value}
        for one, number_id in zip(entry.numbers, series, strict=True)
    ]
    connection.execute(insert(MEASUREMENTS), values)


def _series_of(connection: Connection, entry: WorkloadEntry, workload: int, fingerprint: int | None) -> list[int]:
    """Return the ids of the numbers' series; missing series are created."""
    rows = {}
    recorded = canonical(entry.fingerprint)
    for one in entry.numbers:
        machine = entry.machine if is_timed(one.metric) else ""
        unit = FIRST_UNITS.get(one.metric, one.unit)
        key = sha256(canonical([entry.workload, one.metric, one.subject, unit, recorded, machine]))
        rows[key] = {
            "key": key,
            "workload_id": workload,
            "metric": one.metric,
            "subject": one.subject,
            "unit": one.unit,
            "fingerprint_id": fingerprint,
            "machine": machine,
        }
    keys = select(SERIES.c.key, SERIES.c.id).where(SERIES.c.workload_id == workload)
    known = {row.key: row.id for row in connection.execute(keys)}
    if new := [row for key, row in rows.items() if key not in known]:
        connection.execute(insert(SERIES), new)
        known = {row.key: row.id for row in connection.execute(keys)}
    return [known[key] for key in rows]


def _fact(connection: Connection, plain: object) -> int | None:
    """Return the id of a document, which is stored once."""
    return None if plain is None else _id_of(connection, FACTS, "document", canonical(plain))


def _id_of(connection: Connection, table: Any, column: str, text: str) -> int:
    """Return the id of the row with this text, created if missing; there is one writer at a time."""
    key = sha256(text)
    found: int | None = connection.execute(select(table.c.id).where(table.c.key == key)).scalar()
    return found if found is not None else _made(connection, table, {"key": key, column: text})


def _made(connection: Connection, table: Any, values: dict[str, Any]) -> int:
    made = connection.execute(insert(table).values(**values)).inserted_primary_key
    assert made is not None
    return int(made[0])


def _forget_unused(connection: Connection) -> None:
    connection.execute(
        delete(SERIES).where(~select(MEASUREMENTS.c.run_id).where(MEASUREMENTS.c.series_id == SERIES.c.id).exists())
    )
    of_workload = select(OUTCOMES.c.run_id).where(OUTCOMES.c.workload_id == WORKLOADS.c.id)
    connection.execute(delete(WORKLOADS).where(~of_workload.exists()))
    used = [OUTCOMES.c.fingerprint_id, OUTCOMES.c.environment_id, OUTCOMES.c.tolerance_id, SERIES.c.fingerprint_id]
    unused: list[ColumnElement[bool]] = [~select(column).where(column == FACTS.c.id).exists() for column in used]
    connection.execute(delete(FACTS).where(*unused))


# -- reading -----------------------------------------------------------------------------------------------------------

_NUMBERS = select(
    *(MEASUREMENTS.c.run_id, MEASUREMENTS.c.value),
    *(SERIES.c.workload_id, SERIES.c.metric, SERIES.c.subject, SERIES.c.unit),
).join(SERIES, SERIES.c.id == MEASUREMENTS.c.series_id)


def _runs(connection: Connection, *, branch: str | None = None) -> tuple[Run, ...]:
    counts: dict[int, list[tuple[str, int]]] = {}
    numbers: dict[int, int] = {}
    counted = connection.execute(
        select(OUTCOMES.c.run_id, OUTCOMES.c.outcome, func.count(), func.sum(OUTCOMES.c.measurements))
        .group_by(OUTCOMES.c.run_id, OUTCOMES.c.outcome)
        .order_by(OUTCOMES.c.outcome)
    )
    for number, outcome, count, measurements in counted:
        counts.setdefault(number, []).append((outcome, count))
        numbers[number] = numbers.get(number, 0) + int(measurements)
    found = [
        # Checks the types: a file that lost bits may hold anything.
        msgspec.convert(
            {
                "number": row.id,
                "digest": row.digest,
                "perfguard": row.perfguard,
                "facts": row,
                "added_at": row.added_at,
                "outcomes": counts.get(row.id, ()),
                "measurements": numbers.get(row.id, 0),
            },
            Run,
            from_attributes=True,
        )
        for row in connection.execute(select(RUNS))
    ]
    return tuple(
        sorted((run for run in found if branch in (None, run.facts.branch)), key=lambda run: (run.at, run.number))
    )


def _workloads(
    connection: Connection, run: int, numbers: Iterable[Any], documents: dict[int, Any]
) -> tuple[WorkloadEntry, ...]:
    of_workload: dict[int, list[Number]] = {}
    for row in numbers:
        of_workload.setdefault(row.workload_id, []).append(msgspec.convert(row, Number, from_attributes=True))
    rows = connection.execute(
        select(OUTCOMES, WORKLOADS.c.name)
        .join(WORKLOADS, WORKLOADS.c.id == OUTCOMES.c.workload_id)
        .where(OUTCOMES.c.run_id == run)
    ).all()
    for row in rows:
        machine_of(documents.get(row.environment_id))  # raises for anything else than an environment
    found = [
        WorkloadEntry(
            workload=text_of(row.name),
            outcome=text_of(row.outcome),
            finding=row.finding,
            fingerprint=documents.get(row.fingerprint_id),
            environment=documents.get(row.environment_id),
            tolerance=documents.get(row.tolerance_id, {}),
            numbers=tuple(sorted(of_workload.get(row.workload_id, ()), key=lambda one: (one.metric, one.subject))),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda one: one.workload))
