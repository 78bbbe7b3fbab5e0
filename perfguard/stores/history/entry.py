"""An entry: one run of a suite as a history stores it, with its facts and all its numbers."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from perfguard.errors import StoreError, UsageError
from perfguard.findings import Severity
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.tolerance import Rule, Tolerance
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import METRICS, Kind

#: Metrics whose unit was renamed. The unit is part of the key of a series, so the key keeps the old one.
FIRST_UNITS = {"step_cost": "units"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a run besides its numbers; None is unknown. Times have a time zone."""

    commit: str | None = None
    branch: str | None = None
    #: The release that this run measured.
    release: str | None = None
    committed_at: datetime | None = None
    finished_at: datetime | None = None
    ci_url: str | None = None

    def completed_by(self, given: RunFacts) -> RunFacts:
        """Return these facts, with the `given` ones where they are unknown; a `given` release overrides."""
        known = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return replace(given, **{**known, "release": given.release or self.release})


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a workload."""

    metric: str
    subject: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadEntry:
    """The result of one workload: `finding` is the worst one in words; `fingerprint` and `environment` are those of reports.

    Without a fingerprint, `fingerprint` holds the facts from its files. `tolerance` are the rules of the test's own marker.
    """

    workload: str
    outcome: str
    finding: str | None = None
    fingerprint: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    numbers: tuple[Number, ...] = ()

    @property
    def machine(self) -> str:
        """The machine, as text: times are comparable only on one machine. Empty if unknown."""
        return machine_of(self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run of a suite. `digest` is the SHA-256 of its report; `perfguard` is the version that wrote it.

    `added_at` is the time it was added to the history that was exported; None for a report.
    """

    digest: str
    perfguard: str
    facts: RunFacts
    workloads: tuple[WorkloadEntry, ...]
    added_at: datetime | None = None


def entry_of(verdicts: Iterable[Verdict], *, digest: str, perfguard: str, facts: RunFacts) -> Entry:
    """Return the entry of a report's verdicts. Raises `StoreError` for duplicates and for numbers that are not finite."""
    workloads = tuple(_workload(verdict) for verdict in verdicts)
    _refuse_twice(one.workload for one in workloads)
    return Entry(digest=digest, perfguard=perfguard, facts=facts, workloads=workloads)


def machine_of(environment: Mapping[str, Any] | None) -> str:
    """Return the machine as text, empty if unknown: times are comparable only on one machine."""
    if not environment:
        return ""
    return f"{environment['cpu_model']}, {environment['cpu_count']} cores, {environment['device_name']}"


def recorded_as(verdict: Verdict) -> dict[str, Any] | None:
    """Return how a verdict's numbers were recorded, as in `WorkloadEntry.fingerprint`; None if unknown."""
    known = verdict.fingerprint.as_dict() if verdict.fingerprint else dict(verdict.traits)
    known.pop("workload", None)
    return known or None


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, independent of key order and white space."""
    return sha256(canonical(document))


def sha256(text: str) -> str:
    """Return the SHA-256 of a text: its key, and its checksum."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(document: object) -> str:
    """Return a document as JSON text that is the same for the same content."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def is_timed(metric: str) -> bool:
    """Whether a metric's numbers depend on the machine; those of an unknown metric do."""
    return metric not in METRICS or METRICS[metric].kind is Kind.TIMED


def instant(text: str, *, where: str) -> datetime:
    """Read a time in ISO 8601; without a time zone it is UTC. Raises `UsageError`."""
    text = text.strip()
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{where} {text!r} is not a time; write it as 2026-11-21 or 2026-11-21T11:52:48+00:00."
        ) from error


def _workload(verdict: Verdict) -> WorkloadEntry:
    numbers = () if verdict.outcome is Outcome.INVALID else tuple(_numbers(verdict))
    _refuse_twice(f"{verdict.workload} {one.metric}[{one.subject}]" for one in numbers)
    reported = (f"{f.code.name} {f.message}" for f in verdict.findings if f.severity is not Severity.NOTE)
    return WorkloadEntry(
        workload=verdict.workload,
        outcome=verdict.outcome.value,
        finding=next(reported, None),
        fingerprint=recorded_as(verdict),
        environment=verdict.environment.as_dict() if verdict.environment else None,
        tolerance={rule.pattern: _plain(rule.tolerance) for rule in verdict.rules},
        numbers=numbers,
    )


def _numbers(verdict: Verdict) -> Iterator[Number]:
    for one in verdict.measurements:
        if not isinstance(one.value, (int, float)):
            continue  # a list of names or a census has no trend
        unit = METRICS[one.metric].unit if one.metric in METRICS else ""
        yield Number(metric=one.metric, subject=one.subject, unit=unit, value=_finite(one.value, verdict, one.label))
    if (step := step_time_of(verdict)) is not None:
        # As the report shows them, so that a reader recognises the run.
        for name, unit in (("step_ms", "ms"), ("step_change_percent", "%")):
            if (value := step.plain[name]) is not None:
                yield Number(metric=name, subject="", unit=unit, value=value)


def _finite(value: float, verdict: Verdict, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise StoreError(f"{name} of {verdict.workload} is not a finite number and cannot be stored; measure again.")
    return number


def _refuse_twice(names: Iterable[str]) -> None:
    counts = Counter(names)
    if (twice := next((name for name, count in counts.items() if count > 1), None)) is not None:
        raise StoreError(f"{twice} occurs twice, so neither can be used; write the report again.")


def _plain(tolerance: Tolerance | None) -> Any:
    """Return a tolerance as JSON: null switches it off, a missing `relative` is infinite."""
    if tolerance is None:
        return None
    relative = {} if tolerance.relative == math.inf else {"relative": tolerance.relative}
    warn = {} if tolerance.warn_relative is None else {"warn": tolerance.warn_relative}
    return {**relative, "absolute": tolerance.absolute, **warn}


def rules_of(plain: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Return the rules of `WorkloadEntry.tolerance`, without those for metrics that this version does not have."""
    known = {pattern: one for pattern, one in plain.items() if pattern.partition("[")[0] in METRICS}
    return tuple(Rule(pattern=pattern, tolerance=_tolerance(one)) for pattern, one in known.items())


def _tolerance(plain: Any) -> Tolerance | None:
    if plain is None:
        return None
    return Tolerance(
        relative=plain.get("relative", math.inf), absolute=plain["absolute"], warn_relative=plain.get("warn")
    )
