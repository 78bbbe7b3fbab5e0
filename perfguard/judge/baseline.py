"""A baseline: the stored measurements of one workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfguard.measure.measurement import Measurement
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment, Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFacts:
    """Where the numbers that were compared with come from: what a verdict keeps of its baseline, beside the numbers."""

    commit: str | None = None
    reason: str | None = None
    environment: Environment | None = None
    runs: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as reports keep it."""
        return {
            "commit": self.commit,
            "reason": self.reason,
            "environment": self.environment.as_dict() if self.environment else None,
            "runs": self.runs,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BaselineFacts:
        """Invert `as_dict`."""
        environment = plain["environment"]
        return cls(**{**plain, "environment": Environment.from_dict(environment) if environment else None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Stored measurements with what they were measured on. Facts only: no tolerance lives here."""

    workload: str
    fingerprint: Fingerprint | None
    environment: Environment | None
    measurements: tuple[Measurement, ...]
    runs: int = 1
    commit: str | None = None
    reason: str | None = None
    #: The commit that the step's time was measured on, where a later refresh has left it as it was.
    time_commit: str | None = None
    #: What is known of a directory that nobody recorded; it is compared with, and never stored.
    traits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> BaselineFacts:
        """Where the numbers come from."""
        return BaselineFacts(commit=self.commit, reason=self.reason, environment=self.environment, runs=self.runs)

    @property
    def commit_of_time(self) -> str | None:
        """The commit that the step's time was measured on."""
        return self.time_commit or self.commit

    def named(self, workload: str) -> Baseline:
        """Return the same measurements as the baseline of a workload of another name."""
        fingerprint = replace(self.fingerprint, workload=workload) if self.fingerprint is not None else None
        return replace(self, workload=workload, fingerprint=fingerprint)

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as the store keeps it."""
        return {
            "workload": self.workload,
            "fingerprint": self.fingerprint.as_dict() if self.fingerprint else None,
            "environment": self.environment.as_dict() if self.environment else None,
            "runs": self.runs,
            # Only whole captures become baselines, so there is no other value.
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
    """Keep the samples of gated metrics and of runs only: those of ranked operators would be most of the file, and of every
    diff."""
    metric = METRICS.get(measurement.metric)
    kept = metric is None or metric.gated or metric.by_run
    return (measurement if kept else replace(measurement, samples=())).as_dict()
