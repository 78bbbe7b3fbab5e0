"""Runs that tests of the history start from: entries, series, and report files of what nobody had to measure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perfguard.judge.trend import Moment, Point, Series
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import METRICS, Measurement
from perfguard.reports import RunReport
from perfguard.reports.document import report_document
from perfguard.stores.history.entry import Entry, Number, RunFacts, WorkloadEntry
from tests.facts import FINGERPRINT, HERE, WORKLOAD

FIRST = datetime(2026, 10, 1, 12, tzinfo=UTC)


def commit(number: int) -> str:
    """Return what stands for a commit: forty hexadecimal digits."""
    return hashlib.sha1(str(number).encode()).hexdigest()


def facts(number: int, **changes: Any) -> RunFacts:
    """Return the facts of the run of one day."""
    known = {"commit": commit(number), "branch": "main", "committed_at": FIRST + timedelta(days=number)}
    return RunFacts(**{**known, **changes})


def entry(
    number: int,
    numbers: Mapping[str, float],
    *,
    workload: str = WORKLOAD,
    environment: Any = HERE,
    fingerprint: Any = FINGERPRINT,
    outcome: str = "PASSED",
    tolerance: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Entry:
    """Return one run of one workload; `numbers` are by label, such as `operator_time[MatMul]`."""
    recorded = fingerprint.as_dict()
    recorded.pop("workload")
    measured = WorkloadEntry(
        workload=workload,
        outcome=outcome,
        fingerprint=recorded,
        environment=environment.as_dict(),
        tolerance=tolerance or {},
        numbers=tuple(_number(label, value) for label, value in sorted(numbers.items())),
    )
    digest = hashlib.sha256(repr((number, numbers, workload, changes)).encode("utf-8", "surrogatepass")).hexdigest()
    return Entry(digest=digest, perfguard="0.1.0", facts=facts(number, **changes), workloads=(measured,))


def _number(label: str, value: float) -> Number:
    metric, _, subject = label.partition("[")
    unit = METRICS[metric].unit if metric in METRICS else ""
    return Number(metric=metric, subject=subject.removesuffix("]"), unit=unit, value=float(value))


def series(
    values: Iterable[float], *, metric: str = "step_cost", releases: Sequence[int] = (), **changes: Any
) -> Series:
    """Return a series, a run a day; those at `releases` are of a release."""
    points = tuple(
        Point(
            value=float(value),
            moment=Moment(
                run=number + 1,
                at=FIRST + timedelta(days=number),
                commit=commit(number),
                release=f"v{number}" if number in releases else None,
            ),
        )
        for number, value in enumerate(values)
    )
    unit = METRICS[metric].unit if metric in METRICS else ""
    start = {"workload": WORKLOAD, "metric": metric, "subject": "", "unit": unit, "machine": "m", "points": points}
    return Series(**{**start, **changes})


def report(path: Path, number: int, numbers: Mapping[str, Any], *, workload: str = WORKLOAD, **run: Any) -> Path:
    """Write the report file of a run of one workload."""
    measurements = tuple(
        Measurement(metric=one.partition("[")[0], subject=one.partition("[")[2].removesuffix("]"), value=value)
        for one, value in sorted(numbers.items())
    )
    verdict = Verdict(
        workload=workload,
        outcome=Outcome.PASSED,
        findings=(),
        measurements=measurements,
        fingerprint=FINGERPRINT,
        environment=HERE,
    )
    at = (FIRST + timedelta(days=number)).isoformat()
    known = {"commit": commit(number), "branch": "main", "committed_at": at, "finished_at": at, "ci_url": None}
    document = {**report_document(RunReport(verdicts=(verdict,))), "run": {**known, **run}}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
