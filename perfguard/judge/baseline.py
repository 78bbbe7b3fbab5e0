"""A baseline: the stored measurements of one workload, and what a refresh does to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from perfguard.judge.tolerance import Policy, default_tolerance
from perfguard.measure.measurement import Kind, Measurement, label
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment, Fingerprint


class Refresh(Enum):
    """What a refresh did to one entry."""

    #: Not written yet: the test has to end well first.
    DUE = "due"
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"
    REFUSED = "refused"


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
    #: What is known of a directory that nobody recorded; it is compared with, and never stored.
    traits: Mapping[str, Any] = field(default_factory=dict)

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
            reason=plain["reason"],
        )


def _stored(measurement: Measurement) -> dict[str, Any]:
    """Keep the samples of gated metrics only: those of ranked operators would be most of the file, and of every diff."""
    metric = METRICS.get(measurement.metric)
    return (measurement if metric is None or metric.gated else replace(measurement, samples=())).as_dict()


def refreshed(old: Baseline | None, new: Baseline, *, policy: Policy) -> tuple[Baseline, Refresh, tuple[str, ...]]:
    """Return what to store, what was done, and every change as `label before → after`.

    Only what changed beyond noise is replaced: exact metrics at any difference; timed ones beyond their warning limit, or
    all of them when the machine is another. Operator times and shares, which are ranked and not gated, never cause a
    write of their own.
    """
    if old is None:
        return new, Refresh.CREATED, ()
    assert old.fingerprint is not None
    assert new.fingerprint is not None
    policy = replace(policy, backend=new.fingerprint.backend)
    if differing := new.fingerprint.differences(old.fingerprint):
        return new, Refresh.UPDATED, tuple(f"fingerprint {one}" for one in differing)
    assert old.environment is not None
    assert new.environment is not None
    other_machine = old.environment.machine != new.environment.machine
    before = {m.key: m for m in old.measurements}
    after = {m.key: m for m in new.measurements}
    # With time off there is nothing new to say about time: what is stored stays.
    timed_known = policy.judge_time and any(
        METRICS[name].kind is Kind.TIMED and METRICS[name].gated for name, _ in after if name in METRICS
    )
    kept: list[Measurement] = []
    changes: list[tuple[tuple[str, str], str]] = []
    causes = False
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        metric = METRICS.get(key[0])
        timed = metric is not None and metric.kind is Kind.TIMED
        if timed and not timed_known and was is not None:
            gone = metric is not None and not metric.gated and bool(key[1]) and ("operator_calls", key[1]) not in after
            kept += [] if gone else [was]
            continue
        if was is not None and now is not None and not _moved(was, now, policy, other_machine):
            kept.append(was)
            continue
        if now is not None:
            kept.append(now)
        changes.append((key, _change(key, was, now)))
        causes = causes or metric is None or policy.tolerance(metric, key[1]) is not None
    if not causes:
        return old, Refresh.KEPT, ()
    environment = new.environment
    if other_machine and not timed_known:
        # The times that stay were measured there, so that is the machine they are compared on.
        there = old.environment
        environment = replace(
            environment, cpu_model=there.cpu_model, cpu_count=there.cpu_count, device_name=there.device_name
        )
    stored = replace(new, measurements=tuple(kept), environment=environment)
    # What is only ranked is left out: a list of forty operator times hides the one call that matters.
    told = (
        change
        for key, change in changes
        if key[0] not in METRICS or policy.tolerance(METRICS[key[0]], key[1]) is not None
    )
    return stored, Refresh.UPDATED, tuple(told)


def _moved(was: Measurement, now: Measurement, policy: Policy, other_machine: bool) -> bool:
    metric = METRICS.get(now.metric)
    if metric is None or metric.kind is Kind.EXACT:
        return was.value != now.value
    if other_machine:
        return True
    limits = policy.tolerance(metric, now.subject) or default_tolerance(metric)
    noise = limits.warn_relative if limits.warn_relative is not None else limits.relative
    assert isinstance(was.value, (int, float))
    assert isinstance(now.value, (int, float))
    low, high = sorted((abs(was.value), abs(now.value)))
    return high - low > max(low * noise, limits.absolute)


def _change(key: tuple[str, str], was: Measurement | None, now: Measurement | None) -> str:
    from perfguard.judge.compare import show

    value = now.value if now else was.value if was else None
    unit = METRICS[key[0]].unit if key[0] in METRICS and not isinstance(value, list) else ""
    old = show(was.value) if was else "(none)"
    new = show(now.value) if now else "(gone)"
    return f"{label(*key)} {old} → {new} {unit}".rstrip()
