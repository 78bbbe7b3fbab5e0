"""Compare measurements with a baseline: every pair becomes a `Comparison`, and a finding where something is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.baseline import Baseline
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy, Tolerance
from perfguard.measure.measurement import Better, Kind, Measurement, Metric, Value, label
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment

#: Weights put what the whole workload lost before what its parts lost, and changed operators before other numbers of parts.
_WEIGHT_WHOLE = 10_000.0
_WEIGHT_OPERATORS = 1000.0
_WEIGHT_EXACT = 100.0
#: A part that is a million times worse still comes after the whole.
_LARGEST_RATIO_OF_A_PART = 99.0

#: Metrics of a whole workload: its steps, its time, its memory.
OF_THE_WHOLE = frozenset(
    {
        *("steps", "step_ab", "step_cost", "step_time", "step_cpu_time", "profiler_overhead"),
        *("run_wall_p90", "run_blocked_time"),
        *("peak_memory_bytes", "memory_allocations", "memory_allocated_bytes", "memory_growth_bytes"),
    }
)


class State(Enum):
    """What became of one measurement."""

    SAME = "same"
    WORSE = "worse"
    BETTER = "better"
    NEW = "new"
    GONE = "gone"
    NOT_COMPARABLE = "not-comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measurement against its reference. `judged` is False for what is only shown (ranked operators, other machine)."""

    metric: str
    subject: str
    state: State
    judged: bool
    reference: Value | None
    current: Value | None
    #: The farthest value that would not have failed; None where nothing fails by it, and where it is no number.
    allowed: float | None = None
    #: The samples of the reference, of metrics of the whole workload.
    reference_samples: tuple[float, ...] = ()
    finding: Finding | None = None

    @property
    def label(self) -> str:
        """How it is written: `operator_time[MatMul]`."""
        return label(self.metric, self.subject)


def compare(
    measurements: Iterable[Measurement], baseline: Baseline, *, environment: Environment | None, policy: Policy
) -> tuple[Comparison, ...]:
    """Compare every measurement of now with every one of the baseline.

    Timed metrics are not comparable on another machine, nor when `policy.judge_time` is False; exact ones always are.
    """
    current = {m.key: m for m in measurements}
    reference = {m.key: m for m in baseline.measurements}
    same_machine = (
        environment is None or baseline.environment is None or environment.machine == baseline.environment.machine
    )
    known_metrics = {metric for metric, _ in reference}
    found = []
    for key in sorted(current.keys() | reference.keys()):
        metric = METRICS.get(key[0])
        now, before = current.get(key), reference.get(key)
        if metric is None or (metric.kind is Kind.TIMED and not (same_machine and policy.judge_time)):
            found.append(_comparison(key, State.NOT_COMPARABLE, False, before, now))
            continue
        tolerance = policy.tolerance(metric, key[1])
        if now is None or before is None:
            # Where nobody ran controlled processes on one of the sides, that is no finding of a number.
            judged = tolerance is not None and not metric.by_run
            found.append(_one_sided(metric, key, before, now, judged, metric.name in known_metrics))
        elif isinstance(now.value, (int, float)) and isinstance(before.value, (int, float)):
            one = _numbers(metric, key, before, now, tolerance, current.get((FRESH_TIME, "")))
            found.append(replace(one, allowed=_limit(tolerance, before.value, metric)))
        else:
            found.append(_structures(metric, key, before, now, tolerance is not None))
    return tuple(_weighed(one, current, reference) for one in _without_repetition(found))


def _weighed(
    one: Comparison, current: Mapping[tuple[str, str], Measurement], reference: Mapping[tuple[str, str], Measurement]
) -> Comparison:
    """Put operators that take much of the time before those that take little: aten::addmm before its autograd wrapper."""
    if one.finding is None or not one.metric.startswith("operator_"):
        return one
    key = ("operator_share", one.subject)
    shares = [found.value for found in (current.get(key), reference.get(key)) if found is not None]
    share = max((value for value in shares if isinstance(value, (int, float))), default=0.0)
    return replace(one, finding=replace(one.finding, weight=one.finding.weight + _WEIGHT_EXACT * share))


def _comparison(
    key: tuple[str, str],
    state: State,
    judged: bool,
    before: Measurement | None,
    now: Measurement | None,
    finding: Finding | None = None,
) -> Comparison:
    return Comparison(
        metric=key[0],
        subject=key[1],
        state=state,
        judged=judged,
        reference=before.value if before else None,
        current=now.value if now else None,
        # Those of operators would be most of every report.
        reference_samples=before.samples if before and not key[0].startswith("operator_") else (),
        finding=finding if judged else None,
    )


def _one_sided(
    metric: Metric,
    key: tuple[str, str],
    before: Measurement | None,
    now: Measurement | None,
    judged: bool,
    metric_known: bool,
) -> Comparison:
    name = label(*key)
    if now is None:
        assert before is not None
        finding = Finding(
            code=Code.R103,
            place=name,
            message=f"{name} was {_with_unit(before.value, metric)}, and is not measured any more",
            weight=_weight_one_sided(metric),
        )
        return _comparison(key, State.GONE, judged, before, now, finding)
    finding = Finding(
        code=Code.R104,
        place=name,
        message=f"{name} is {_with_unit(now.value, metric)}, and the baseline has none",
        # A whole metric the baseline never had is news of perfguard, not of the model.
        severity=Severity.ERROR if metric_known else Severity.WARNING,
        weight=_weight_one_sided(metric),
    )
    return _comparison(key, State.NEW, judged, before, now, finding)


def _numbers(
    metric: Metric,
    key: tuple[str, str],
    before: Measurement,
    now: Measurement,
    tolerance: Tolerance | None,
    time: Measurement | None,
) -> Comparison:
    reference, current = before.value, now.value
    assert isinstance(reference, (int, float))
    assert isinstance(current, (int, float))
    judged = tolerance is not None
    limits = tolerance or _as_shown(metric)
    exact = limits.relative == 0 and limits.absolute == 0
    change = _change(reference, current, metric)
    ratio = _relative(reference, current)
    step = f"{label(*key)} {show(reference)} → {show(current)} {metric.unit}, {change}"
    if metric.name == "step_cost" and time is not None and isinstance(time.value, (int, float)):
        # A reader knows a step by its milliseconds; what is judged is the change of its cost.
        step = step_text(time.value, relative_change(reference, current))
    if limits.is_worse(current, reference, metric.better):
        if metric.by_run:
            return _slower_in_runs(metric, key, before, now, limits, judged, step)
        allowed = "exact: no change is allowed" if exact else f"allowed {_allowed(limits, reference, metric)}"
        finding = Finding(
            code=Code.R102 if exact else Code.R101,
            place=label(*key),
            message=f"{step} ({allowed})",
            weight=_weight(metric, ratio, exact=exact),
        )
        return _comparison(key, State.WORSE, judged, before, now, finding)
    if limits.is_warning(current, reference, metric.better):
        finding = Finding(
            code=Code.R105,
            place=label(*key),
            severity=Severity.WARNING,
            message=f"{step} ({_warned(limits, reference, metric)})",
            weight=_weight(metric, ratio, exact=False),
        )
        return _comparison(key, State.SAME, judged, before, now, finding)
    if limits.is_better(current, reference, metric.better):
        finding = Finding(
            code=Code.R106,
            place=label(*key),
            severity=Severity.WARNING,
            message=f"{step}: better than the baseline knows",
            weight=_weight(metric, ratio, exact=exact),
        )
        return _comparison(key, State.BETTER, judged, before, now, finding)
    return _comparison(key, State.SAME, judged, before, now)


def _limit(tolerance: Tolerance | None, reference: float, metric: Metric) -> float | None:
    """Return the farthest value that does not fail; None where none does."""
    if tolerance is None or tolerance.relative == math.inf:
        return None
    allowance = tolerance.allowance(reference)
    if not allowance:
        return reference
    return reference + (-allowance if metric.better is Better.HIGHER else allowance)


def _as_shown(metric: Metric) -> Tolerance:
    """Return what says of a number that is only shown whether it is worse: for one that never fails, where it would warn."""
    relative = metric.warn_relative or 0.0 if metric.relative == math.inf else metric.relative
    return Tolerance(relative=relative, absolute=metric.absolute)


def _slower_in_runs(
    metric: Metric,
    key: tuple[str, str],
    before: Measurement,
    now: Measurement,
    limits: Tolerance,
    judged: bool,
    step: str,
) -> Comparison:
    """Word a step that was slower in every process: an error where both sides had enough of them, else a warning."""
    assert isinstance(before.value, (int, float))
    assert isinstance(now.value, (int, float))
    stored, runs = max(1, len(before.samples)), max(1, len(now.samples))
    few = ""
    if stored < thresholds.BASELINE_RUNS:
        few = (
            f"; this only warns, as the baseline has {stored} of {thresholds.BASELINE_RUNS} runs: "
            f"perfguard baseline refresh --runs {thresholds.BASELINE_RUNS}"
        )
    elif runs < thresholds.FEWEST_RUNS:
        few = f"; this only warns, as {runs} of {thresholds.MOST_RUNS} runs left a time"
    finding = Finding(
        code=Code.R105 if few else Code.R101,
        place=label(*key),
        severity=Severity.WARNING if few else Severity.ERROR,
        message=f"{step} (allowed {_allowed(limits, before.value, metric)}), "
        f"slower in {'all of ' if runs > 1 else ''}{runs} fresh process{'es' if runs > 1 else ''}{few}",
        weight=_weight(metric, _relative(before.value, now.value), exact=False),
    )
    return _comparison(key, State.WORSE, judged, before, now, finding)


def _structures(
    metric: Metric, key: tuple[str, str], before: Measurement, now: Measurement, judged: bool
) -> Comparison:
    if now.value == before.value:
        return _comparison(key, State.SAME, judged, before, now)
    finding = Finding(
        code=Code.R102,
        place=label(*key),
        message=f"{label(*key)} changed: {differences(before.value, now.value)}",
        weight=_weight(metric, 0.0, exact=True),
    )
    return _comparison(key, State.WORSE, judged, before, now, finding)


def _weight(metric: Metric, ratio: float, *, exact: bool) -> float:
    """Return what orders a finding: `ratio` says by how much of its reference a number moved."""
    if metric.name in OF_THE_WHOLE:
        return _WEIGHT_WHOLE + ratio
    ratio = min(ratio, _LARGEST_RATIO_OF_A_PART)
    if metric.kind is Kind.EXACT and metric.name.startswith("operator_"):
        return ratio + (_WEIGHT_OPERATORS if metric.name == "operator_calls" else _WEIGHT_OPERATORS / 2)
    return ratio + (_WEIGHT_EXACT if exact else 0.0)


def weight_of_the_whole(ratio: float) -> float:
    """Return what orders a finding about the whole workload that moved by `ratio`."""
    return _WEIGHT_WHOLE + ratio


def _weight_one_sided(metric: Metric) -> float:
    """What vanished is a hundred per cent less."""
    return _WEIGHT_WHOLE + 1.0 if metric.name in OF_THE_WHOLE else _WEIGHT_OPERATORS


def differences(before: Value, now: Value) -> str:
    """Name what differs between two lists of names, or two censuses, at most four of it."""
    old = (
        before
        if isinstance(before, dict)
        else dict.fromkeys(before, 1)
        if isinstance(before, list)
        else {show(before): 1}
    )
    new = now if isinstance(now, dict) else dict.fromkeys(now, 1) if isinstance(now, list) else {show(now): 1}
    parts = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            if isinstance(now, list):
                parts.append(f"{'+' if name in new else '−'} {name}")
            else:
                parts.append(f"{name} {show(old.get(name, 0))} → {show(new.get(name, 0))}")
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return "; ".join(parts[:4]) + more


def _without_repetition(comparisons: list[Comparison]) -> list[Comparison]:
    """Say what happened to an operator once: a new or gone operator has new or gone shapes, and changes the set."""
    told = {c.subject for c in comparisons if c.metric == "operator_calls" and c.finding is not None}
    one_sided = {
        c.subject
        for c in comparisons
        if c.metric == "operator_calls" and c.state in (State.NEW, State.GONE) and c.finding
    }
    quiet = []
    for one in comparisons:
        if one.metric == "operator_shapes" and one.subject in one_sided and one.state in (State.NEW, State.GONE):
            one = _silenced(one)
        if one.metric == "operator_set" and isinstance(one.reference, list) and isinstance(one.current, list):
            prefix = one.subject.partition(":")[0] + ":" if one.subject.startswith("rank") else ""
            if {prefix + name for name in set(one.reference) ^ set(one.current)} <= told:
                one = _silenced(one)
        quiet.append(one)
    return quiet


def _silenced(one: Comparison) -> Comparison:
    return replace(one, finding=None)


def show(value: Value) -> str:
    """Write a value for people: whole numbers whole, others with one decimal (more when small)."""
    if isinstance(value, dict):
        return ", ".join(f"{name} x {show(count)}" for name, count in value.items())
    if isinstance(value, list):
        return f"{len(value)} names"
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _with_unit(value: Value, metric: Metric) -> str:
    return show(value) if isinstance(value, list) else f"{show(value)} {metric.unit}"


def _relative(reference: float, current: float) -> float:
    return abs(current - reference) / abs(reference) if reference else float(current != reference)


def _change(reference: float, current: float, metric: Metric) -> str:
    difference = current - reference
    if reference == 0:
        return f"{'+' if difference >= 0 else ''}{show(difference)}"
    percent = 100 * difference / abs(reference)
    if isinstance(reference, int) and isinstance(current, int) and abs(difference) < 100:
        return f"{difference:+d}"
    if abs(percent) < 0.05:
        # As a percentage it would be no change at all.
        return f"{'+' if difference >= 0 else ''}{show(difference)} {metric.unit}"
    return f"{percent:+.1f} %"


def _warned(limits: Tolerance, reference: float, metric: Metric) -> str:
    warned = f"warned beyond +{100 * (limits.warn_relative or 0):.1f} %"
    fails = "" if limits.relative == math.inf else f", fails beyond {_allowed(limits, reference, metric)}"
    return warned + fails


def _allowed(limits: Tolerance, reference: float, metric: Metric) -> str:
    sign = {Better.LOWER: "+", Better.HIGHER: "−", Better.EQUAL: "±"}[metric.better]
    if abs(reference) * limits.relative >= limits.absolute:
        return f"{sign}{100 * limits.relative:.1f} %"
    return f"{sign}{show(limits.absolute)} {metric.unit}"
