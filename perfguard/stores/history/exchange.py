"""Export of a history as JSON (schema: `history`) or CSV, run by run; and import of the JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from perfguard.documents import checked, newest_format, parsed
from perfguard.screen import csv_cell
from perfguard.stores.history.entry import Entry, Number, WorkloadEntry, canonical, instant, is_timed
from perfguard.version import __version__

_REMEDY = "Write it again with: perfguard history export --format json FILE"
#: The times of a run, in ISO 8601.
_TIMES = ("committed_at", "finished_at", "added_at")
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
    plain: dict[str, Any] = msgspec.to_builtins(entry, builtin_types=(datetime,))
    plain |= plain.pop("facts")
    for one in plain["workloads"]:
        # By metric, then by subject.
        by_metric: dict[str, dict[str, Any]] = {}
        for number in one.pop("numbers"):
            of_metric = by_metric.setdefault(number["metric"], {"unit": number["unit"], "values": {}})
            of_metric["values"][number["subject"]] = _short(number["value"])
        one["measurements"] = by_metric
    return plain | {name: _iso(plain[name]) for name in _TIMES}


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Read the runs of an exported history. Raises `StoreError`, and `UsageError` for an invalid time."""
    document = parsed(path, remedy=_REMEDY)
    return tuple(entry_from(plain) for plain in checked(path, document, "history", remedy=_REMEDY)["runs"])


def entry_from(plain: dict[str, Any]) -> Entry:
    """Invert `entry_document`. Raises `UsageError` for an invalid time."""
    times = {name: None if (at := plain.get(name)) is None else instant(at, where=name) for name in _TIMES}
    values = plain | times | {"workloads": tuple(map(_workload_from, plain["workloads"]))}
    return msgspec.convert({**values, "facts": values}, Entry)


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
                number_cells = (measured.metric, measured.subject, value, measured.unit, machine)
                yield _csv_line((*of_run, one.workload, one.outcome, *number_cells))


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    # UTF-8 cannot hold lone surrogates.
    return line.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def _workload_from(plain: dict[str, Any]) -> WorkloadEntry:
    numbers = tuple(
        Number(metric=metric, subject=subject, unit=of_metric["unit"], value=float(value))
        for metric, of_metric in sorted(plain["measurements"].items())
        for subject, value in sorted(of_metric["values"].items())
    )
    return WorkloadEntry(**{name: value for name, value in plain.items() if name != "measurements"}, numbers=numbers)


def _short(value: float) -> float | int:
    """Return an integer for a whole number, so that it is written without a decimal point."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
