"""Baselines: the stored measurements of one workload, and what must be equal for a comparison with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfguard.artifacts.layout import layout_named
from perfguard.contract import Contract, Extract
from perfguard.measure.measurement import Measurement
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment, Fingerprint

#: The metric with one sample a timed step.
_TIMED_STEPS = ("step_time", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFacts:
    """The origin of a baseline's numbers, which a verdict keeps."""

    commit: str | None = None
    reason: str | None = None
    environment: Environment | None = None
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(BaselineFacts):
    """Stored measurements, with the machine and settings that they were measured with, but without tolerances."""

    workload: str
    fingerprint: Fingerprint | None
    measurements: tuple[Measurement, ...]
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
        measurements = tuple(Measurement.from_dict(m) for m in plain["measurements"])
        timed = next((len(one.samples) for one in measurements if one.key == _TIMED_STEPS), 0)
        return cls(
            workload=plain["workload"],
            fingerprint=Fingerprint.from_document(plain["fingerprint"], timed_steps=timed),
            environment=Environment.from_dict(plain["environment"]),
            measurements=measurements,
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


# -- comparable recordings -------------------------------------------------------------------------------------------

# A foreign profiler directory has no fingerprint. Its traits (from layouts, conditions and ranks) prevent a comparison of an
# NPU of one framework with a CPU of another.


def traits_of(contract: Contract) -> dict[str, Any]:
    """Return backend, device, mode and number of ranks, as far as known."""
    extracts = contract.extracts
    known: dict[str, Any] = {}
    for name, find in (("backend", _backend), ("device", _device), ("mode", _mode)):
        # The value that all cycles with a value have in common.
        values = {value for extract in extracts if (value := find(extract)) is not None}
        known[name] = values.pop() if len(values) == 1 else None
    known["ranks"] = len({extract.rank for extract in extracts}) or None
    return {name: value for name, value in known.items() if value is not None}


def trait_differences(
    now: tuple[Fingerprint | None, Mapping[str, Any]], before: tuple[Fingerprint | None, Mapping[str, Any]]
) -> list[str]:
    """Return the differences as `key: before → now`, ignoring properties that one side does not know.

    Each side is a fingerprint or None, and its traits.
    """
    if now[0] is not None and before[0] is not None:
        return now[0].differences(before[0])
    mine, theirs = _known(*now), _known(*before)
    return [f"{key}: {theirs[key]} → {mine[key]}" for key in mine if key in theirs and mine[key] != theirs[key]]


def _known(fingerprint: Fingerprint | None, traits: Mapping[str, Any]) -> dict[str, Any]:
    recorded = fingerprint.as_dict() if fingerprint is not None else {}
    return {key: value for key, value in {**traits, **recorded}.items() if key != "workload"}


def _backend(extract: Extract) -> str | None:
    return layout_named(extract.layout).backend or None


def _device(extract: Extract) -> str | None:
    on = extract.conditions
    kind = "cpu" if on.get("cpu_device") else next((one for one in ("gpu", "npu") if on.get(one)), None)
    return layout_named(extract.layout).devices.get(kind, kind) if kind is not None else None


def _mode(extract: Extract) -> str | None:
    graph = extract.conditions.get("graph")
    return None if graph is None or _backend(extract) != "mindspore" else "graph" if graph else "pynative"
