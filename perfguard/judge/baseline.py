"""Baselines: the stored measurements of one workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfguard.measure.measurement import Measurement
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment, Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFacts:
    """The origin of a baseline's numbers, which a verdict keeps."""

    commit: str | None = None
    reason: str | None = None
    environment: Environment | None = None
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Stored measurements, with the machine and settings that they were measured with, but without tolerances."""

    workload: str
    fingerprint: Fingerprint | None
    environment: Environment | None
    measurements: tuple[Measurement, ...]
    runs: int = 1
    commit: str | None = None
    reason: str | None = None
    #: The commit of the step's time, if a later refresh kept that time.
    time_commit: str | None = None
    #: Properties of a foreign directory, for comparisons; never stored.
    traits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> BaselineFacts:
        """The origin of the numbers."""
        return BaselineFacts(commit=self.commit, reason=self.reason, environment=self.environment, runs=self.runs)

    @property
    def commit_of_time(self) -> str | None:
        """The commit of the step's time."""
        return self.time_commit or self.commit

    def named(self, workload: str) -> Baseline:
        """Return the same measurements for a workload of another name."""
        fingerprint = replace(self.fingerprint, workload=workload) if self.fingerprint is not None else None
        return replace(self, workload=workload, fingerprint=fingerprint)

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as the store keeps it."""
        return {
            "workload": self.workload,
            "fingerprint": self.fingerprint.as_dict() if self.fingerprint else None,
            "environment": self.environment.as_dict() if self.environment else None,
            "runs": self.runs,
            # Only complete captures become baselines, so there is no other value.
            "capture": "VALID",
            "commit": self.commit,
            **({"time_commit": self.time_commit} if self.time_commit not in (None, self.commit) else {}),
            "reason": self.reason,
            "measurements": [_stored(m) for m in sorted(self.measurements, key=lambda m: m.key)],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Baseline:
        """Invert `as_dict`."""
        return cls(
            workload=plain["workload"],
            fingerprint=Fingerprint.from_dict(plain["fingerprint"]),
            environment=Environment.from_dict(plain["environment"]),
            measurements=tuple(Measurement.from_dict(m) for m in plain["measurements"]),
            runs=plain["runs"],
            commit=plain["commit"],
            time_commit=plain.get("time_commit"),
            reason=plain["reason"],
        )


def _stored(measurement: Measurement) -> dict[str, Any]:
    """Keep the samples of judged metrics and of runs only: those of operators would be most of the file, and of every diff."""
    metric = METRICS.get(measurement.metric)
    kept = metric is None or metric.gated or metric.by_run
    return (measurement if kept else replace(measurement, samples=())).as_dict()
