"""Tolerances: how much a metric may change, and which rule applies to a measurement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from perfguard.contract.checks import Check
from perfguard.errors import UsageError, nearest
from perfguard.findings import Finding, Ignored, Severity, worst_first
from perfguard.judge.kernel_sets import KernelSets
from perfguard.measure.measurement import Better, Kind, Metric, is_like, split_rank
from perfguard.measure.metrics import METRICS

#: Where codes to ignore were named.
IN_SETTINGS = "ignore in pyproject.toml"
OF_THE_TEST = "ignore of the test"

_PATTERN = re.compile(r"^(?P<metric>[a-z][a-z0-9_]*)(?:\[(?P<subject>.*)\])?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much a number may change: `relative` is a fraction of the reference, `absolute` is in the metric's unit.

    The larger of the two is the allowance; an infinite `relative` only warns. Beyond `warn_relative` a change within the
    allowance is a warning.
    """

    relative: float = 0.0
    absolute: float = 0.0
    warn_relative: float | None = None

    def allowance(self, reference: float) -> float:
        """Return the largest allowed difference from `reference`, in its unit."""
        if self.relative == math.inf:
            return math.inf
        return max(abs(reference) * self.relative, self.absolute)

    def is_worse(self, current: float, reference: float, better: Better) -> bool:
        """Whether `current` is beyond the allowance on the bad side."""
        return _on_bad_side(current - reference, self.allowance(reference), better)

    def is_warning(self, current: float, reference: float, better: Better) -> bool:
        """Whether `current` is beyond the warning limit on the bad side."""
        if self.warn_relative is None:
            return False
        return _on_bad_side(current - reference, max(abs(reference) * self.warn_relative, self.absolute), better)

    def is_better(self, current: float, reference: float, better: Better) -> bool:
        """Whether `current` is so much better that the reference is stale: swapped, the two would be worse."""
        if better is Better.EQUAL:
            return False
        if self.relative == math.inf:
            return self.is_warning(reference, current, better)
        return self.is_worse(reference, current, better)


def _on_bad_side(change: float, allowance: float, better: Better) -> bool:
    if better is Better.LOWER:
        return change > allowance
    if better is Better.HIGHER:
        return -change > allowance
    return abs(change) > allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A tolerance that the user set for `metric`, `metric[subject]` or `metric[glob*]`; None: the metric is only shown."""

    pattern: str
    tolerance: Tolerance | None

    def __post_init__(self) -> None:
        found = _PATTERN.match(self.pattern)
        if found is None:
            raise UsageError(
                f"{self.pattern!r} is not a metric. Write a name, or a name and an operator such as operator_time[MatMul*]."
            )
        if found["metric"] not in METRICS:
            hint = nearest(found["metric"], sorted(METRICS))
            raise UsageError(f"There is no metric {found['metric']!r} to set a tolerance for; {hint}")
        if self.tolerance is not None and found["metric"] in ("operator_set", "operator_shapes"):
            raise UsageError(
                f'{found["metric"]} is not a number, so it has no tolerance. Set it to "off" to show it only.'
            )

    def matches(self, metric: str, subject: str) -> bool:
        """Whether the rule applies to this measurement."""
        name, glob = self._parts
        if name != metric or glob is None:
            return name == metric
        # A rule for an operator applies to every rank.
        return is_like(subject, glob) or is_like(split_rank(subject)[1], glob)

    @property
    def _parts(self) -> tuple[str, str | None]:
        """The metric, and the subject or glob if there is one."""
        name, bracket, subject = self.pattern.partition("[")
        return name, subject.removesuffix("]") if bracket else None

    @property
    def precision(self) -> tuple[bool, bool, int]:
        """The sort key of rules: an exact subject before a glob, a longer glob before a shorter one, a metric alone last."""
        _, subject = self._parts
        return subject is not None, subject is not None and not set(subject) & set("*?"), len(subject or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The tolerance of each measurement. `marker` rules (of one test) override `settings` rules."""

    marker: tuple[Rule, ...] = ()
    settings: tuple[Rule, ...] = ()
    judge_time: bool = True
    #: Whether changes fail, as in a snapshot test.
    changed_fails: bool = False
    #: What the model is meant to run on: `host` or `device`; the marker's word overrides that of the settings.
    target: str = "host"
    marker_target: str | None = None
    #: Kernels of which any is the same, by a name of the user.
    kernels: KernelSets = field(default_factory=dict)
    #: The backend of the recording; some metrics are meaningless on some backends.
    backend: str = ""
    #: Codes, or beginnings of codes, that are not judged: their findings become notes. And where some of them were named, if
    #: not in the settings.
    ignore: tuple[str, ...] = ()
    ignored_by: Mapping[str, str] = field(default_factory=dict)
    #: The only codes, or beginnings of codes, that count; empty means all.
    select: tuple[str, ...] = ()
    #: The user's own checks.
    checks: tuple[Check, ...] = ()

    def rule(self, metric: str, subject: str) -> Rule | None:
        """Return the most precise rule of the marker, else of the settings, else None."""
        for rules in (self.marker, self.settings):
            matching = [rule for rule in rules if rule.matches(metric, subject)]
            if matching:
                return max(matching, key=lambda rule: rule.precision)
        return None

    def tolerance(self, metric: Metric, subject: str) -> Tolerance | None:
        """Return the tolerance of a measurement; None if it is only shown."""
        rule = self.rule(metric.name, subject)
        if rule is not None:
            return rule.tolerance
        if not metric.gated or self.backend in metric.shown_on:
            return None
        if metric.kind is Kind.TIMED and not self.judge_time:
            return None
        return default_tolerance(metric)

    def metric(self, name: str) -> Metric | None:
        """Return a metric with the good direction that it has for the target; None for an unknown one."""
        metric = METRICS.get(name)
        if metric is None or metric.for_device is None or (self.marker_target or self.target) != "device":
            return metric
        return replace(metric, better=metric.for_device)

    @property
    def judges_runs(self) -> bool:
        """Whether a metric of controlled processes can fail."""
        of_runs = (metric for metric in METRICS.values() if metric.by_run and metric.name != "step_ab")
        limits = [self.tolerance(metric, "") for metric in of_runs]
        return any(limit is not None and limit.relative < math.inf for limit in limits)

    def considered(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the selected findings, worst first, with the ignored ones as notes."""
        return worst_first(
            [self._considered(f) for f in findings if not self.select or f.code.name.startswith(self.select)]
        )

    def reconsidered(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return findings that another policy considered as if this one had: what only the other ignores counts again."""
        return self.considered(map(_judged, findings))

    def _considered(self, finding: Finding) -> Finding:
        name = finding.code.name
        if finding.severity is Severity.NOTE or not name.startswith(self.ignore):
            return finding
        by = next(self.ignored_by.get(code, IN_SETTINGS) for code in self.ignore if name.startswith(code))
        message = f"{finding.message}{_mark(finding)}"
        return replace(
            finding, severity=Severity.NOTE, message=message, ignored=Ignored(by=by, severity=finding.severity)
        )


def _judged(finding: Finding) -> Finding:
    """Return a finding as it was before a policy ignored it."""
    if finding.ignored is None:
        return finding
    message = finding.message.removesuffix(_mark(finding))
    return replace(finding, severity=finding.ignored.severity, message=message, ignored=None)


def _mark(finding: Finding) -> str:
    return f" (ignored: {finding.code.name})"


def default_tolerance(metric: Metric) -> Tolerance:
    """Return the tolerance in the description of a metric."""
    return Tolerance(relative=metric.relative, absolute=metric.absolute, warn_relative=metric.warn_relative)


def shown_tolerance(metric: Metric | None) -> Tolerance:
    """Return the tolerance for marking a number that is only shown: a metric that never fails is worse where it would warn."""
    if metric is None:
        return Tolerance()
    relative = metric.warn_relative or 0.0 if metric.relative == math.inf else metric.relative
    return Tolerance(relative=relative, absolute=metric.absolute)
