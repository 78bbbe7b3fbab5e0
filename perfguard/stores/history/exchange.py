"""Export of a history as JSON (schema: `history`) or CSV, run by run; and import of the JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from perfguard.documents import checked, newest_format, parsed, sized_number
from perfguard.stores.history.entry import Entry, Number, RunFacts, WorkloadEntry, canonical, instant, is_timed
from perfguard.version import __version__

_REMEDY = "Write it again with: perfguard history export --format json FILE"
_COLUMNS = (
    *("run", "digest", "commit", "branch", "release", "at", "workload", "outcome"),
    *("metric", "subject", "value", "unit", "machine"),
)


def document_text(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the text of the document, one run per line; one run is in memory at a time."""
    newest = newest_format("history")
    yield f'{{\n"format": {newest},\n"perfguard": {canonical(__version__)},\n"runs": ['
    for number, entry in enumerate(entries):
        yield ("," if number else "") + "\n" + canonical(entry_document(entry))
    yield "\n]\n}\n"


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return one run as a plain document."""
    facts = entry.facts
    return {
        "digest": entry.digest,
        "perfguard": entry.perfguard,
        "commit": facts.commit,
        "branch": facts.branch,
        "release": facts.release,
        "committed_at": _iso(facts.committed_at),
        "finished_at": _iso(facts.finished_at),
        "added_at": _iso(entry.added_at),
        "ci_url": facts.ci_url,
        "workloads": [_workload_document(one) for one in entry.workloads],
    }


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Read the runs of an exported history. Raises `StoreError`, and `UsageError` for an invalid time."""
    document = parsed(path, remedy=_REMEDY, whole=sized_number)
    return tuple(entry_from(plain) for plain in checked(path, document, "history", remedy=_REMEDY)["runs"])


def entry_from(plain: dict[str, Any]) -> Entry:
    """Invert `entry_document`."""
    return Entry(
        digest=plain["digest"],
        perfguard=plain["perfguard"],
        added_at=time_of(plain, "added_at"),
        facts=RunFacts(
            commit=plain["commit"],
            branch=plain["branch"],
            release=plain["release"],
            committed_at=time_of(plain, "committed_at"),
            finished_at=time_of(plain, "finished_at"),
            ci_url=plain["ci_url"],
        ),
        workloads=tuple(_workload_from(one) for one in plain["workloads"]),
    )


def time_of(plain: dict[str, Any], name: str) -> datetime | None:
    """Return a time of a document, or None. Raises `UsageError` for an invalid time."""
    return None if plain.get(name) is None else instant(plain[name], where=name)


def csv_text(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield CSV (RFC 4180), one measurement per line, after a line of column names."""
    yield _csv_line(_COLUMNS)
    for number, entry in enumerate(entries, start=1):
        facts = entry.facts
        at = _iso(facts.committed_at or facts.finished_at or entry.added_at)
        of_run = (number, entry.digest, facts.commit, facts.branch, facts.release, at)
        for one in entry.workloads:
            for measured in one.numbers:
                machine = one.machine if is_timed(measured.metric) else ""
                value = repr(_short(measured.value))
                yield _csv_line(
                    (
                        *of_run,
                        one.workload,
                        one.outcome,
                        measured.metric,
                        measured.subject,
                        value,
                        measured.unit,
                        machine,
                    )
                )


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(["" if cell is None else _plain_text(str(cell)) for cell in cells])
    return line.getvalue()


def _plain_text(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _workload_document(one: WorkloadEntry) -> dict[str, Any]:
    measurements: dict[str, dict[str, Any]] = {}
    for number in one.numbers:
        of_metric = measurements.setdefault(number.metric, {"unit": number.unit, "values": {}})
        of_metric["values"][number.subject] = _short(number.value)
    return {
        "workload": one.workload,
        "outcome": one.outcome,
        "finding": one.finding,
        "fingerprint": one.fingerprint,
        "environment": one.environment,
        "tolerance": one.tolerance,
        "measurements": measurements,
    }


def _workload_from(plain: dict[str, Any]) -> WorkloadEntry:
    return WorkloadEntry(
        workload=plain["workload"],
        outcome=plain["outcome"],
        finding=plain["finding"],
        fingerprint=plain["fingerprint"],
        environment=plain["environment"],
        tolerance=plain["tolerance"],
        numbers=tuple(
            Number(metric=metric, subject=subject, unit=of_metric["unit"], value=float(value))
            for metric, of_metric in sorted(plain["measurements"].items())
            for subject, value in sorted(of_metric["values"].items())
        ),
    )


def _short(value: float) -> float | int:
    """Return an integer for a whole number, so that it is written without a decimal point."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
